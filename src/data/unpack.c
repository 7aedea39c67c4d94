/*
 * Unpacking an archive, tar.gz, by libarchive. It is foreign data: only regular files whose names
 * are known come out of it, under names of our own, and none larger than MEMBER_BYTES. The only
 * file that includes libarchive.
 */
#define _GNU_SOURCE
#include "data/download.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/atomic_file.h"

enum { MEMBER_BYTES = 64 << 20, BLOCK_BYTES = 64 << 10 };

/* The known files: FOLDER/NAME. Returns NAME, or NULL. */
static const char *known_member(const char *path, bool *binary)
{
    static const char *const folders[] = {"cifar-10-batches-py/", "cifar-10-batches-bin/"};
    static const char *const names[][8] = {
        {"data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5",
         "test_batch", "batches.meta", "readme.html"},
        {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
         "data_batch_5.bin", "test_batch.bin", "batches.meta.txt", "readme.html"}};
    if (strncmp(path, "./", 2) == 0)
        path += 2;
    for (int version = 0; version < 2; version++) {
        size_t length = strlen(folders[version]);
        for (int i = 0; i < 8 && strncmp(path, folders[version], length) == 0; i++)
            if (strcmp(path + length, names[version][i]) == 0) {
                *binary = version == 1;
                return names[version][i];
            }
    }
    return NULL;
}

static yk_status copy_blocks(struct archive *source, const char *archive, const char *path, int fd)
{
    char *block = malloc(BLOCK_BYTES);
    if (!block)
        return yki_error_memory(BLOCK_BYTES, "unpacking");
    yk_status status = YK_OK;
    ssize_t got = 0;
    for (size_t total = 0; status == YK_OK;) {
        got = archive_read_data(source, block, BLOCK_BYTES);
        if (got <= 0)
            break;
        total += (size_t)got;
        if (total > MEMBER_BYTES)
            status = yki_error(YK_ERROR_FORMAT, "%s: %s unpacks to more than %d bytes", archive,
                               path, MEMBER_BYTES);
        else
            status = yki_write_all(fd, path, block, (size_t)got);
    }
    if (got < 0)
        status = yki_error(YK_ERROR_FORMAT, "%s: %s", archive, archive_error_string(source));
    free(block);
    return status;
}

static yk_status unpack_member(struct archive *source, const char *archive, const char *folder,
                               const char *name)
{
    char path[4096];
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "%.64s...: a path too long", folder);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd < 0)
        return yki_error(YK_ERROR_IO, "%s: %s", path, strerror(errno));
    yk_status status = copy_blocks(source, archive, path, fd);
    if (status == YK_OK && fsync(fd) != 0)
        status = yki_error(YK_ERROR_IO, "%s: %s", path, strerror(errno));
    close(fd);
    return status;
}

static yk_status unpack_all(struct archive *source, const char *archive, const char *folder,
                            bool *binary)
{
    struct archive_entry *entry;
    int code = archive_read_open_filename(source, archive, BLOCK_BYTES);
    while (code == ARCHIVE_OK && (code = archive_read_next_header(source, &entry)) == ARCHIVE_OK) {
        const char *path = archive_entry_pathname(entry);
        if (archive_entry_filetype(entry) == AE_IFDIR)
            continue;
        const char *name = path ? known_member(path, binary) : NULL;
        if (!name || archive_entry_filetype(entry) != AE_IFREG || archive_entry_hardlink(entry))
            return yki_error(YK_ERROR_FORMAT,
                             "%s: holds \"%.80s\", which CIFAR-10's archive does not", archive,
                             path ? path : "?");
        YK_TRY(unpack_member(source, archive, folder, name));
    }
    if (code != ARCHIVE_EOF)
        return yki_error(YK_ERROR_FORMAT, "%s: %s", archive, archive_error_string(source));
    return YK_OK;
}

yk_status yki_unpack_cifar10(const char *archive, const char *folder, bool *binary)
{
    struct archive *source = archive_read_new();
    if (!source)
        return yki_error_memory(sizeof source, "unpacking");
    archive_read_support_filter_gzip(source);
    archive_read_support_format_tar(source);
    *binary = false;
    yk_status status = unpack_all(source, archive, folder, binary);
    archive_read_free(source);
    return status;
}

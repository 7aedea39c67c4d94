/*
 * Unpacking an archive, tar.gz, by libarchive. It is foreign data: only regular files whose names
 * are known come out of it, under names of our own, and none larger than its archive says. The only
 * file that includes libarchive.
 */
#define _GNU_SOURCE
#include "data/download/download.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/folder.h"
#include "io/atomic_file.h"

enum { BLOCK_BYTES = 64 << 10 };

/* Of a known file FOLDER/NAME returns NAME, or NULL. */
static const char *known_member(const yki_archive *known, const char *path, int *version)
{
    if (strncmp(path, "./", 2) == 0)
        path += 2;
    for (int v = 0; v < 2; v++) {
        size_t length = strlen(known->folders[v]);
        if (strncmp(path, known->folders[v], length) != 0 || path[length] != '/')
            continue;
        for (int i = 0; known->members[v][i]; i++)
            if (strcmp(path + length + 1, known->members[v][i]) == 0) {
                *version = v;
                return known->members[v][i];
            }
    }
    return NULL;
}

static yk_status copy_blocks(const yki_archive *known, struct archive *source, const char *archive,
                             const char *path, int fd)
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
        if (total > known->most_bytes)
            status = yki_error(YK_ERROR_FORMAT, "%s: %s unpacks to more than %zu bytes", archive,
                               path, known->most_bytes);
        else
            status = yki_write_all(fd, path, block, (size_t)got);
    }
    if (got < 0)
        status = yki_error(YK_ERROR_FORMAT, "%s: %s", archive, archive_error_string(source));
    free(block);
    return status;
}

static yk_status unpack_member(const yki_archive *known, struct archive *source,
                               const char *archive, const char *folder, const char *name)
{
    char path[PATH_MAX];
    YK_TRY(yki_join_path(path, folder, name));
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd < 0)
        return yki_error(YK_ERROR_IO, "%s: %s", path, strerror(errno));
    yk_status status = copy_blocks(known, source, archive, path, fd);
    if (status == YK_OK && !yki_sync_file(fd))
        status = yki_error(YK_ERROR_IO, "%s: %s", path, strerror(errno));
    close(fd);
    return status;
}

static yk_status unpack_all(const yki_archive *known, struct archive *source, const char *archive,
                            const char *folder, int *version)
{
    struct archive_entry *entry;
    int code = archive_read_open_filename(source, archive, BLOCK_BYTES);
    while (code == ARCHIVE_OK && (code = archive_read_next_header(source, &entry)) == ARCHIVE_OK) {
        const char *path = archive_entry_pathname(entry);
        if (archive_entry_filetype(entry) == AE_IFDIR)
            continue;
        const char *name = path ? known_member(known, path, version) : NULL;
        if (!name || archive_entry_filetype(entry) != AE_IFREG || archive_entry_hardlink(entry))
            return yki_error(YK_ERROR_FORMAT, "%s: holds \"%.80s\", which %s's archive does not",
                             archive, path ? path : "?", known->title);
        YK_TRY(unpack_member(known, source, archive, folder, name));
    }
    if (code != ARCHIVE_EOF)
        return yki_error(YK_ERROR_FORMAT, "%s: %s", archive, archive_error_string(source));
    return YK_OK;
}

yk_status yki_unpack(const yki_archive *known, const char *path, const char *folder, int *version)
{
    struct archive *source = archive_read_new();
    if (!source)
        return yki_error_memory(sizeof source, "unpacking");
    archive_read_support_filter_gzip(source);
    archive_read_support_format_tar(source);
    *version = 0;
    yk_status status = unpack_all(known, source, path, folder, version);
    archive_read_free(source);
    return status;
}

/*
 * The reader. libzip checks structure and CRC-32; what it does not bound is bounded here: sizes
 * that an archive only claims, and members that unpack to far more than the file holds.
 */
#define _GNU_SOURCE
#include "io/zip.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <zip.h>

#include "base/memory.h"

struct yki_zip {
    zip_t *archive;
    char *path;
    uint64_t budget; /* bytes that may still be read */
};

yk_status yki_zip_open(yki_zip **zip, const char *path)
{
    *zip = NULL;
    struct stat info;
    if (stat(path, &info) != 0)
        return yki_error(errno == ENOENT ? YK_NOT_FOUND : YK_IO, "%s: cannot open it: %s", path,
                         strerror(errno));
    if (!S_ISREG(info.st_mode))
        return yki_error(YK_IO, "%s: is not a file", path);

    int code = 0;
    zip_t *archive = zip_open(path, ZIP_RDONLY, &code);
    if (!archive) {
        zip_error_t error;
        zip_error_init_with_code(&error, code);
        yk_status status = yki_error(
            YK_FORMAT, "%s: expected a zip archive with its directory before offset %lld: %s", path,
            (long long)info.st_size, zip_error_strerror(&error));
        zip_error_fini(&error);
        return status;
    }
    yki_zip *new = yki_calloc(1, sizeof *new);
    char *name = yki_strdup(path);
    if (!new || !name) {
        free(new);
        free(name);
        zip_discard(archive);
        return yki_error_memory(sizeof *new, "an archive");
    }
    *new = (yki_zip){archive, name, (uint64_t)info.st_size * YKI_ZIP_FACTOR + YKI_ZIP_SLACK};
    *zip = new;
    return YK_OK;
}

void yki_zip_close(yki_zip *zip)
{
    if (!zip)
        return;
    zip_discard(zip->archive);
    free(zip->path);
    free(zip);
}

size_t yki_zip_count(const yki_zip *zip)
{
    zip_int64_t count = zip_get_num_entries(zip->archive, 0);
    return count > 0 ? (size_t)count : 0;
}

const char *yki_zip_name(const yki_zip *zip, size_t index)
{
    return zip_get_name(zip->archive, index, ZIP_FL_ENC_RAW);
}

int64_t yki_zip_find(const yki_zip *zip, const char *name)
{
    return zip_name_locate(zip->archive, name, ZIP_FL_ENC_RAW);
}

static yk_status member_error(const yki_zip *zip, size_t index, const char *what)
{
    const char *name = yki_zip_name(zip, index);
    return yki_error(YK_FORMAT, "%s: member %.100s: %s", zip->path, name ? name : "?", what);
}

yk_status yki_zip_size(const yki_zip *zip, size_t index, size_t *size)
{
    zip_stat_t info;
    if (zip_stat_index(zip->archive, index, 0, &info) != 0 || !(info.valid & ZIP_STAT_SIZE))
        return member_error(zip, index, "has no size");
    *size = (size_t)info.size;
    return YK_OK;
}

/* Reads what is there, and then once more: the end of the data is where its CRC-32 is checked. */
static yk_status read_all(const yki_zip *zip, size_t index, zip_file_t *file, char *data,
                          size_t size)
{
    size_t at = 0;
    for (;;) {
        char beyond;
        zip_int64_t got =
            at < size ? zip_fread(file, data + at, size - at) : zip_fread(file, &beyond, 1);
        if (got < 0)
            return member_error(zip, index, zip_file_strerror(file));
        if (got == 0)
            break;
        if (at == size)
            return member_error(zip, index, "holds more than its size says");
        at += (size_t)got;
    }
    return at == size ? YK_OK : member_error(zip, index, "holds less than its size says");
}

yk_status yki_zip_read(yki_zip *zip, size_t index, void **data, size_t *size)
{
    *data = NULL;
    YK_TRY(yki_zip_size(zip, index, size));
    if (*size > zip->budget)
        return member_error(zip, index, "would unpack to far more than the file holds");
    zip->budget -= *size;
    zip_file_t *file = zip_fopen_index(zip->archive, index, 0);
    if (!file)
        return member_error(zip, index, zip_strerror(zip->archive));

    yk_status status;
    char *memory = malloc(*size ? *size : 1);
    if (!memory)
        status = yki_error_memory(*size, "a member of an archive");
    else
        status = read_all(zip, index, file, memory, *size);
    zip_fclose(file);
    if (status != YK_OK) {
        free(memory);
        return status;
    }
    *data = memory;
    return YK_OK;
}

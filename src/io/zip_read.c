/*
 * The reader. libzip checks structure and CRC-32; what it does not bound is bounded here: sizes
 * that an archive only claims, and members that unpack to far more than the file holds. libzip
 * names no place in its errors, so it reads through a source of our own, which remembers the last.
 */
#include "io/zip.h"

#include <stdlib.h>
#include <string.h>

#include <zip.h>

#include "base/memory.h"
#include "io/input_file.h"

enum { NOWHERE = -1 };

struct yki_zip {
    zip_t *archive;
    yki_input_file file;
    uint64_t at;      /* where libzip reads next */
    int64_t read_at;  /* where it last did, or NOWHERE */
    yk_status failed; /* the file could not be read, of which there is a line */
    zip_error_t reported;
    uint64_t budget; /* bytes that may still be read */
};

/* ---- the file as libzip's source ------------------------------------------------------------ */

static zip_int64_t source_read(yki_zip *zip, void *data, uint64_t size)
{
    uint64_t left = zip->file.size - zip->at;
    size = size < left ? size : left;
    if (size == 0)
        return 0;
    zip->read_at = (int64_t)zip->at;
    zip->failed = yki_input_file_read(&zip->file, zip->at, data, size);
    if (zip->failed != YK_OK) {
        zip_error_set(&zip->reported, ZIP_ER_READ, 0);
        return -1;
    }
    zip->at += size;
    return (zip_int64_t)size;
}

static zip_int64_t source_seek(yki_zip *zip, void *data, uint64_t size)
{
    zip_int64_t at =
        zip_source_seek_compute_offset(zip->at, zip->file.size, data, size, &zip->reported);
    if (at < 0)
        return -1;
    zip->at = (uint64_t)at;
    return 0;
}

static zip_int64_t source_stat(const yki_zip *zip, void *data)
{
    zip_stat_t *out = data;
    zip_stat_init(out);
    out->valid = ZIP_STAT_SIZE;
    out->size = zip->file.size;
    return sizeof *out;
}

static zip_int64_t zip_source_command(void *context, void *data, zip_uint64_t size,
                                      zip_source_cmd_t command)
{
    yki_zip *zip = context;
    switch (command) {
    case ZIP_SOURCE_SUPPORTS:
        return ZIP_SOURCE_SUPPORTS_SEEKABLE;
    case ZIP_SOURCE_STAT:
        return source_stat(zip, data);
    case ZIP_SOURCE_READ:
        return source_read(zip, data, size);
    case ZIP_SOURCE_SEEK:
        return source_seek(zip, data, size);
    case ZIP_SOURCE_TELL:
        return (zip_int64_t)zip->at;
    case ZIP_SOURCE_ERROR:
        return zip_error_to_data(&zip->reported, data, size);
    case ZIP_SOURCE_OPEN:
        zip->at = 0;
        return 0;
    case ZIP_SOURCE_CLOSE:
    case ZIP_SOURCE_FREE:
        return 0;
    default:
        zip_error_set(&zip->reported, ZIP_ER_OPNOTSUPP, 0);
        return -1;
    }
}

/* ---- the archive ---------------------------------------------------------------------------- */

static yk_status open_archive(yki_zip *zip)
{
    zip_error_t error;
    zip_error_init(&error);
    zip_source_t *from = zip_source_function_create(zip_source_command, zip, &error);
    if (from)
        zip->archive = zip_open_from_source(from, ZIP_RDONLY, &error);
    yk_status status = YK_OK;
    if (!zip->archive) {
        zip_source_free(from);
        status =
            zip->failed != YK_OK
                ? zip->failed
                : yki_error(YK_ERROR_FORMAT,
                            "%s: expected a zip archive with its directory before offset %zu: %s",
                            zip->file.path, zip->file.size, zip_error_strerror(&error));
    }
    zip_error_fini(&error);
    return status;
}

yk_status yki_zip_open(yki_zip **zip, const char *path)
{
    *zip = NULL;
    yki_zip *made = yki_calloc(1, sizeof *made);
    if (!made)
        return yki_error_memory(sizeof *made, "an archive");
    zip_error_init(&made->reported);
    yk_status status = yki_input_file_open(&made->file, path);
    if (status == YK_OK)
        status = open_archive(made);
    if (status != YK_OK) {
        yki_zip_close(made);
        return status;
    }
    made->budget = (uint64_t)made->file.size * YKI_ZIP_FACTOR + YKI_ZIP_SLACK;
    *zip = made;
    return YK_OK;
}

void yki_zip_close(yki_zip *zip)
{
    if (!zip)
        return;
    if (zip->archive)
        zip_discard(zip->archive);
    zip_error_fini(&zip->reported);
    yki_input_file_close(&zip->file);
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

yk_status yki_zip_refuse(const yki_zip *zip, yk_status status, size_t index, const char *what)
{
    char offset[40] = "";
    const char *name = yki_zip_name(zip, index);
    if (zip->failed != YK_OK)
        return zip->failed;
    if (zip->read_at != NOWHERE)
        snprintf(offset, sizeof offset, "offset %lld: ", (long long)zip->read_at);
    return yki_error(status, "%s: %smember %.100s: %s", zip->file.path, offset, name ? name : "?",
                     what);
}

static yk_status member_error(const yki_zip *zip, size_t index, const char *what)
{
    return yki_zip_refuse(zip, YK_ERROR_FORMAT, index, what);
}

yk_status yki_zip_size(const yki_zip *zip, size_t index, size_t *size)
{
    zip_stat_t info;
    if (zip_stat_index(zip->archive, index, 0, &info) != 0 || !(info.valid & ZIP_STAT_SIZE))
        return yki_error(YK_ERROR_FORMAT, "%s: member %zu: has no size", zip->file.path, index);
    *size = (size_t)info.size;
    return YK_OK;
}

/* Some members libzip refuses before it looks at them (encrypted ones): this makes it look. */
static yk_status refuse_unopened(yki_zip *zip, size_t index)
{
    char what[128];
    snprintf(what, sizeof what, "%s", zip_strerror(zip->archive));
    zip_file_t *raw =
        zip->read_at == NOWHERE ? zip_fopen_index(zip->archive, index, ZIP_FL_ENCRYPTED) : NULL;
    if (raw)
        zip_fclose(raw);
    return member_error(zip, index, what);
}

/* Reads what is there, and then once more: the end of the data is where its CRC-32 is checked. */
static yk_status read_to_end(const yki_zip *zip, size_t index, zip_file_t *file, char *data,
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

/* The open member, in memory of its own. */
static yk_status read_member(yki_zip *zip, size_t index, zip_file_t *file, void **data, size_t size)
{
    if (size > zip->budget)
        return member_error(zip, index, "would unpack to far more than the file holds");
    zip->budget -= size;
    char *memory = malloc(size ? size : 1);
    if (!memory)
        return yki_error_memory(size, "a member of an archive");
    yk_status status = read_to_end(zip, index, file, memory, size);
    if (status == YK_OK)
        *data = memory;
    else
        free(memory);
    return status;
}

yk_status yki_zip_read(yki_zip *zip, size_t index, void **data, size_t *size)
{
    *data = NULL;
    zip->read_at = NOWHERE;
    zip->failed = YK_OK;
    YK_TRY(yki_zip_size(zip, index, size));
    zip_file_t *file = zip_fopen_index(zip->archive, index, 0);
    if (!file)
        return refuse_unopened(zip, index);
    yk_status status = read_member(zip, index, file, data, *size);
    zip_fclose(file);
    return status;
}

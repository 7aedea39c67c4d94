/*
 * The writer. libzip asks a source of its own for where to write, which is a callback here, so that
 * the archive goes into a file that the caller has open, locks, syncs and renames. The data of a
 * member is aligned by an extra field "FB" in its local header, filled with 'Z', as in PyTorch's
 * caffe2/serialize/inline_container.cc. Times are fixed: the same tensors give the same bytes.
 */
#define _GNU_SOURCE
#include "io/zip.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zip.h>

#include "base/memory.h"

enum {
    LOCAL_HEADER = 30,    /* bytes before name, extra fields, data */
    EXTRA_HEADER = 4,     /* id, size */
    ZIP64_EXTRA = 20,     /* what libzip adds to a local header for sizes beyond 32 bits */
    PADDING_ID = 0x4246,  /* "FB" */
    FIRST_DOS_DATE = 0x21 /* 1980-01-01 */
};

struct yki_zip_writer {
    zip_t *archive;
    int fd;
    char *path;
    uint64_t offset; /* where the next local header comes to lie */
    int error;       /* errno of the first failed write */
    zip_error_t reported;
};

/* ---- the file as libzip's sink -------------------------------------------------------------- */

static zip_int64_t sink_error(yki_zip_writer *writer, int error)
{
    if (!writer->error)
        writer->error = error;
    zip_error_set(&writer->reported, ZIP_ER_WRITE, error);
    return -1;
}

/* libzip takes a short write for an error, so write until all is written or one fails. */
static zip_int64_t sink_write(yki_zip_writer *writer, const char *data, uint64_t size)
{
    for (uint64_t at = 0; at < size;) {
        ssize_t written = write(writer->fd, data + at, size - at);
        if (written < 0 && errno != EINTR)
            return sink_error(writer, errno);
        at += written > 0 ? (uint64_t)written : 0;
    }
    return (zip_int64_t)size;
}

static zip_int64_t sink_seek(yki_zip_writer *writer, const void *data, uint64_t size)
{
    const zip_source_args_seek_t *arguments =
        ZIP_SOURCE_GET_ARGS(zip_source_args_seek_t, data, size, &writer->reported);
    if (!arguments)
        return -1;
    off_t at = lseek(writer->fd, (off_t)arguments->offset, arguments->whence);
    return at < 0 ? sink_error(writer, errno) : 0;
}

static zip_int64_t sink_tell(yki_zip_writer *writer)
{
    off_t at = lseek(writer->fd, 0, SEEK_CUR);
    return at < 0 ? sink_error(writer, errno) : at;
}

static zip_int64_t sink_stat(yki_zip_writer *writer, void *data)
{
    struct stat info;
    if (fstat(writer->fd, &info) != 0)
        return sink_error(writer, errno);
    zip_stat_t *out = data;
    zip_stat_init(out);
    out->valid = ZIP_STAT_SIZE;
    out->size = (zip_uint64_t)info.st_size;
    return sizeof *out;
}

static zip_int64_t sink(void *context, void *data, zip_uint64_t size, zip_source_cmd_t command)
{
    yki_zip_writer *writer = context;
    switch (command) {
    case ZIP_SOURCE_SUPPORTS:
        return ZIP_SOURCE_SUPPORTS_WRITABLE;
    case ZIP_SOURCE_STAT:
        return sink_stat(writer, data);
    case ZIP_SOURCE_WRITE:
        return sink_write(writer, data, size);
    case ZIP_SOURCE_SEEK_WRITE:
        return sink_seek(writer, data, size);
    case ZIP_SOURCE_TELL_WRITE:
        return sink_tell(writer);
    case ZIP_SOURCE_ERROR:
        return zip_error_to_data(&writer->reported, data, size);
    case ZIP_SOURCE_OPEN: /* asked before it looks at ZIP_TRUNCATE; nothing is read */
    case ZIP_SOURCE_CLOSE:
    case ZIP_SOURCE_BEGIN_WRITE:
    case ZIP_SOURCE_COMMIT_WRITE:
    case ZIP_SOURCE_ROLLBACK_WRITE:
    case ZIP_SOURCE_FREE:
        return 0;
    default:
        zip_error_set(&writer->reported, ZIP_ER_OPNOTSUPP, 0);
        return -1;
    }
}

/* ---- the writer ----------------------------------------------------------------------------- */

static yk_status writer_error(const yki_zip_writer *writer)
{
    const char *words = writer->error ? strerror(writer->error) : zip_strerror(writer->archive);
    return yki_error(YK_ERROR_IO, "%s: cannot write the archive: %s", writer->path, words);
}

yk_status yki_zip_writer_create(yki_zip_writer **writer, int fd, const char *path)
{
    *writer = NULL;
    yki_zip_writer *made = yki_calloc(1, sizeof *made);
    char *name = yki_strdup(path);
    if (!made || !name) {
        free(made);
        free(name);
        return yki_error_memory(sizeof *made, "an archive's writer");
    }
    made->fd = fd;
    made->path = name;
    zip_error_init(&made->reported);

    zip_error_t error;
    zip_error_init(&error);
    zip_source_t *source = zip_source_function_create(sink, made, &error);
    if (source)
        made->archive = zip_open_from_source(source, ZIP_CREATE | ZIP_TRUNCATE, &error);
    if (!made->archive) {
        yk_status status = yki_error(YK_ERROR_IO, "%s: cannot write an archive: %s", path,
                                     zip_error_strerror(&error));
        zip_source_free(source);
        zip_error_fini(&error);
        yki_zip_writer_discard(made);
        return status;
    }
    zip_error_fini(&error);
    *writer = made;
    return YK_OK;
}

/* Pads the local header so that the data begins at a multiple of the alignment. */
static yk_status align_member(yki_zip_writer *writer, uint64_t index, const char *name, size_t size)
{
    zip_uint8_t padding[YKI_ZIP_ALIGNMENT];
    memset(padding, 'Z', sizeof padding);
    uint64_t header = LOCAL_HEADER + strlen(name) + EXTRA_HEADER;
    if (size > UINT32_MAX)
        header += ZIP64_EXTRA;
    uint64_t data = yki_align(writer->offset + header, YKI_ZIP_ALIGNMENT);
    uint64_t length = data - header - writer->offset;
    writer->offset = data + size;
    if (zip_file_extra_field_set(writer->archive, index, PADDING_ID, ZIP_EXTRA_FIELD_NEW, padding,
                                 (zip_uint16_t)length, ZIP_FL_LOCAL) != 0)
        return writer_error(writer);
    return YK_OK;
}

yk_status yki_zip_writer_add(yki_zip_writer *writer, const char *name, const void *data,
                             size_t size)
{
    zip_t *archive = writer->archive;
    zip_source_t *source = zip_source_buffer(archive, data, size, 0);
    if (!source)
        return writer_error(writer);
    zip_int64_t added = zip_file_add(archive, name, source, ZIP_FL_ENC_UTF_8);
    if (added < 0) {
        zip_source_free(source);
        return writer_error(writer);
    }
    zip_uint64_t index = (zip_uint64_t)added;
    if (zip_set_file_compression(archive, index, ZIP_CM_STORE, 0) != 0 ||
        zip_file_set_dostime(archive, index, 0, FIRST_DOS_DATE, 0) != 0)
        return writer_error(writer);
    return align_member(writer, index, name, size);
}

yk_status yki_zip_writer_finish(yki_zip_writer *writer)
{
    if (zip_close(writer->archive) != 0) {
        yk_status status = writer_error(writer);
        yki_zip_writer_discard(writer);
        return status;
    }
    writer->archive = NULL;
    yki_zip_writer_discard(writer);
    return YK_OK;
}

void yki_zip_writer_discard(yki_zip_writer *writer)
{
    if (!writer)
        return;
    if (writer->archive)
        zip_discard(writer->archive);
    zip_error_fini(&writer->reported);
    free(writer->path);
    free(writer);
}

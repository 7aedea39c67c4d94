/* open, fstat, pread. */
#define _GNU_SOURCE
#include "io/input_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"

static yk_status look_at_input(yki_input_file *file, const char *path)
{
    struct stat info;
    if (fstat(file->fd, &info) != 0)
        return yki_error(YK_ERROR_IO, "%s: %s", path, strerror(errno));
    if (!S_ISREG(info.st_mode))
        return yki_error(YK_ERROR_IO, "%s: is not a file", path);
    file->size = (size_t)info.st_size;
    file->path = yki_strdup(path);
    return file->path ? YK_OK : yki_error_memory(strlen(path) + 1, "a path");
}

static yk_status status_of_open(int error)
{
    switch (error) {
    case ENOENT:
    case ENOTDIR:
    case ELOOP: /* a link to itself */
        return YK_ERROR_NOT_FOUND;
    case EACCES:
    case EPERM:
        return YK_ERROR_DENIED;
    default:
        return YK_ERROR_IO;
    }
}

yk_status yki_input_file_open(yki_input_file *file, const char *path)
{
    *file = (yki_input_file){0};
    if (!*path)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "the file to read has an empty name");
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe would keep us waiting */
    if (fd < 0)
        return yki_error(status_of_open(errno), "%s: cannot open it: %s", path, strerror(errno));
    file->fd = fd;
    yk_status status = look_at_input(file, path);
    if (status != YK_OK) {
        close(fd);
        *file = (yki_input_file){0};
    }
    return status;
}

void yki_input_file_close(yki_input_file *file)
{
    if (file->path)
        close(file->fd);
    free(file->path);
    *file = (yki_input_file){0};
}

static yk_status report_end(const yki_input_file *file, size_t at, size_t missing)
{
    if (at < file->size)
        return yki_error(YK_ERROR_IO,
                         "%s: offset %zu: the file ends here; it had %zu bytes when it was opened",
                         file->path, at, file->size);
    return yki_error(YK_ERROR_FORMAT, "%s: offset %zu: expected %zu more bytes, the file ends",
                     file->path, at, missing);
}

yk_status yki_input_file_read(const yki_input_file *file, size_t offset, void *bytes, size_t size)
{
    for (size_t done = 0; done < size;) {
        ssize_t got = pread(file->fd, (char *)bytes + done, size - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return yki_error(YK_ERROR_IO, "%s: offset %zu: cannot read: %s", file->path,
                             offset + done, strerror(errno));
        if (got == 0)
            return report_end(file, offset + done, size - done);
        done += (size_t)got;
    }
    return YK_OK;
}

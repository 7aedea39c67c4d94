/* open, fstat, pread. */
#define _GNU_SOURCE
#include "data/image_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"

static yk_status look_at(yki_image_file *file, const char *path)
{
    struct stat info;
    if (fstat(file->fd, &info) != 0)
        return yki_error(YK_IO, "%s: %s", path, strerror(errno));
    if (!S_ISREG(info.st_mode) || info.st_size == 0)
        return yki_error(YK_FORMAT, "%s: expected a regular file that is not empty", path);
    file->size = (size_t)info.st_size;
    file->path = yki_strdup(path);
    return file->path ? YK_OK : yki_error_memory(strlen(path) + 1, "a path");
}

yk_status yki_image_file_open(yki_image_file *file, const char *path)
{
    *file = (yki_image_file){.fd = open(path, O_RDONLY | O_CLOEXEC)};
    if (file->fd < 0)
        return yki_error(errno == ENOENT ? YK_NOT_FOUND : YK_IO, "%s: %s", path, strerror(errno));
    yk_status status = look_at(file, path);
    if (status != YK_OK)
        yki_image_file_close(file);
    return status;
}

void yki_image_file_close(yki_image_file *file)
{
    if (file->fd >= 0)
        close(file->fd);
    free(file->path);
    *file = (yki_image_file){.fd = -1};
}

yk_status yki_image_file_read(const yki_image_file *file, size_t offset, void *bytes, size_t size)
{
    for (size_t done = 0; done < size;) {
        ssize_t got = pread(file->fd, (char *)bytes + done, size - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return yki_error(YK_IO, "%s: offset %zu: %s", file->path, offset, strerror(errno));
        if (got == 0)
            return yki_error(YK_IO,
                             "%s: offset %zu: the file ends here; it had %zu bytes when it "
                             "was opened",
                             file->path, offset + done, file->size);
        done += (size_t)got;
    }
    return YK_OK;
}

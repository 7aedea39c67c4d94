/*
 * A file of images: read whole once, to learn where its images lie, then image by image. It is
 * never mapped: should someone cut it short meanwhile, that is an error here, and no SIGBUS.
 */
#ifndef YKI_IMAGE_FILE_H
#define YKI_IMAGE_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef struct yki_image_file {
    char *path;
    size_t size; /* when it was opened */
    int fd;
} yki_image_file;

/* YK_NOT_FOUND when there is none, YK_IO else. An empty file is refused. */
yk_status yki_image_file_open(yki_image_file *file, const char *path);
void yki_image_file_close(yki_image_file *file);
/* All of size bytes at the offset; YK_IO where the file has become shorter. Any thread. */
yk_status yki_image_file_read(const yki_image_file *file, size_t offset, void *bytes, size_t size);

#endif

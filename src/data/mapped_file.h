/* A file mapped for reading. It stays open, so that it can also be read without the mapping. */
#ifndef YKI_MAPPED_FILE_H
#define YKI_MAPPED_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef struct yki_mapped_file {
    char *path;
    const uint8_t *data;
    size_t size;
    int fd;
} yki_mapped_file;

/* YK_NOT_FOUND when there is none, YK_IO else. An empty file is refused. */
yk_status yki_mapped_file_open(yki_mapped_file *file, const char *path);
void yki_mapped_file_close(yki_mapped_file *file);
/* Reads bytes without the mapping; YK_IO where the file has become shorter. Any thread. */
yk_status yki_mapped_file_read(const yki_mapped_file *file, size_t offset, void *bytes,
                               size_t size);

#endif

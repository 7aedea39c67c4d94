/*
 * A regular file that is open for reading. It is never mapped: should someone cut it short
 * meanwhile, that is an error here, and no SIGBUS. All zeros is a closed one.
 */
#ifndef YKI_INPUT_FILE_H
#define YKI_INPUT_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef struct yki_input_file {
    char *path;
    size_t size; /* when it was opened */
    int fd;
} yki_input_file;

/* YK_ERROR_NOT_FOUND when there is none, YK_ERROR_DENIED when it may not be read, YK_ERROR_IO else:
 * a folder or a pipe, too, which is not waited for. */
yk_status yki_input_file_open(yki_input_file *file, const char *path);
/* Accepts a closed one. */
void yki_input_file_close(yki_input_file *file);
/* All of size bytes at the offset. YK_ERROR_FORMAT where they reach beyond the size that the file
 * was opened with, YK_ERROR_IO where it has become shorter since. Any thread. */
yk_status yki_input_file_read(const yki_input_file *file, size_t offset, void *bytes, size_t size);

#endif

/*
 * Where the files of a tar archive lie: the headers are read, the contents are skipped. ustar, with
 * the extensions of GNU and pax for long names and sizes. No compression.
 */
#ifndef YKI_TAR_H
#define YKI_TAR_H

#include <stdbool.h>

#include "io/input_file.h"

enum { YKI_TAR_NAME = 4096 };

typedef struct yki_tar {
    const yki_input_file *file;
    size_t at;  /* of the next header */
    bool ended; /* the block that ends an archive has been found */
    bool links; /* links to other files have been passed over */
    /* the current member, a regular file */
    char name[YKI_TAR_NAME];
    size_t offset, size; /* of its content */
} yki_tar;

/* Goes to the next regular file; *found is false at the end of the archive. Start from a reader
 * with file alone. YK_ERROR_FORMAT where the archive is damaged or cut short within a file; cut
 * short between two, it does not become `ended`. */
yk_status yki_tar_next(yki_tar *tar, bool *found);

#endif

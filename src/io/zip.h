/*
 * Zip archives, over libzip: a writer of stored members whose data lies at multiples of 64 bytes,
 * as torch.save's do, and a reader that trusts nothing in the file.
 */
#ifndef YKI_ZIP_H
#define YKI_ZIP_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum {
    YKI_ZIP_ALIGNMENT = 64,
    YKI_ZIP_FACTOR = 16,      /* all that is read of a file is at most so many times its size... */
    YKI_ZIP_SLACK = 64 * 1024 /* ...and so many bytes */
};

/* ---- writing -------------------------------------------------------------------------------- */

typedef struct yki_zip_writer yki_zip_writer;

/* Writes to the empty file fd, which stays the caller's; path is its name in error lines. */
yk_status yki_zip_writer_create(yki_zip_writer **writer, int fd, const char *path);
/* A member, stored. The data is not copied: it must stay as it is until the writer has finished. */
yk_status yki_zip_writer_add(yki_zip_writer *writer, const char *name, const void *data,
                             size_t size);
/* Writes the archive and frees the writer, also on failure. */
yk_status yki_zip_writer_finish(yki_zip_writer *writer);
/* Frees it without writing. Accepts NULL. */
void yki_zip_writer_discard(yki_zip_writer *writer);

/* ---- reading -------------------------------------------------------------------------------- */

typedef struct yki_zip yki_zip;

yk_status yki_zip_open(yki_zip **zip, const char *path);
void yki_zip_close(yki_zip *zip);

size_t yki_zip_count(const yki_zip *zip);
/* NULL where the archive has no readable name. */
const char *yki_zip_name(const yki_zip *zip, size_t index);
/* The first member of this name, or -1. */
int64_t yki_zip_find(const yki_zip *zip, const char *name);
/*
 * The whole member, stored or deflated, in memory of its own (free it), checked against its
 * CRC-32. Refused, as below, also when it takes what was read of the file beyond the bounds above.
 */
yk_status yki_zip_read(yki_zip *zip, size_t index, void **data, size_t *size);
/* "FILE: offset N: member NAME: WHAT" of the member that was read last, N where in the file that
 * was: its header or its bytes. A file that could not be read keeps the line it has. */
yk_status yki_zip_refuse(const yki_zip *zip, yk_status status, size_t index, const char *what);
/* The size that the archive gives for a member. */
yk_status yki_zip_size(const yki_zip *zip, size_t index, size_t *size);

#endif

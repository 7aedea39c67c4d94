/*
 * A file that appears whole or not at all. It is written as PATH.tmp in the same folder, synced and
 * renamed over PATH; then the folder is synced. A crash at any moment leaves the old file as it was
 * and at most a PATH.tmp, which the next writer of PATH deletes. A lock on PATH.tmp keeps two
 * writers apart.
 *
 * PATH.tmp is a predictable name, so whatever lies there is neither followed nor written to: the
 * temporary file is always created by its writer (O_EXCL).
 */
#ifndef YKI_ATOMIC_FILE_H
#define YKI_ATOMIC_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

#define YKI_TEMPORARY_SUFFIX ".tmp"

/* PATH.tmp, to be freed; NULL without memory. The end of a name that leaves no room for the suffix
 * is left out. */
char *yki_temporary_path(const char *path);

typedef struct yki_atomic_file {
    int fd; /* to write through; -1 when closed */
    char *path, *temporary;
} yki_atomic_file;

/* Whether a file may replace what is at path: nothing or a file, but not a device, a pipe or a
 * folder. A symbolic link to a file is replaced; the file it points to stays as it is. */
yk_status yki_check_replaceable(const char *path);
/* Creates and locks PATH.tmp; refuses a symbolic link, device, pipe or folder of that name. Call
 * commit or abandon afterwards; both close the file. */
yk_status yki_atomic_open(yki_atomic_file *file, const char *path);
/* Where somebody has removed the temporary file, or its folder, both are made again, with a
 * warning: what has been written is still there. On failure the temporary file is deleted and the
 * old file still there, with one exception: if the folder could not be synced, the new file is in
 * place, but a power failure may undo that. */
yk_status yki_atomic_commit(yki_atomic_file *file);
void yki_atomic_abandon(yki_atomic_file *file);

/* fsync; again after a signal, which interrupts it on network file systems. On failure errno says
 * why. */
bool yki_sync_file(int fd);
/* Writes all of size bytes, or returns an error that names the file. */
yk_status yki_write_all(int fd, const char *path, const void *data, size_t size);
/* Deletes temporary files in folder whose names begin with prefix and that nobody is writing. */
void yki_atomic_clean(const char *folder, const char *prefix);

#endif

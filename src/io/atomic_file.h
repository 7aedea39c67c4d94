/*
 * A file that appears whole or not at all: written as PATH.tmp in the same folder, synced, renamed
 * over PATH, and the folder synced. A crash at any moment leaves the old file as it was, and at
 * most a PATH.tmp, which the next writer of PATH takes over. A lock on it keeps two writers apart.
 */
#ifndef YKI_ATOMIC_FILE_H
#define YKI_ATOMIC_FILE_H

#include <stddef.h>

#include "base/error.h"

#define YKI_TEMPORARY_SUFFIX ".tmp"

typedef struct yki_atomic_file {
    int fd; /* to write through; -1 when closed */
    char *path, *temporary;
} yki_atomic_file;

/* Whether a file may take the place of what is at path: of nothing or a file, not of a device, a
 * pipe or a folder, which would be gone. */
yk_status yki_check_replaceable(const char *path);
/* Creates and locks PATH.tmp. Call commit or abandon afterwards; both leave nothing open. */
yk_status yki_atomic_open(yki_atomic_file *file, const char *path);
/* On failure the temporary file is gone and the old one still there, unless it was the folder that
 * could not be synced: then the new one is, and a power cut may undo that. */
yk_status yki_atomic_commit(yki_atomic_file *file);
void yki_atomic_abandon(yki_atomic_file *file);

/* All of size bytes, or an error that names the file. */
yk_status yki_write_all(int fd, const char *path, const void *data, size_t size);
/* Removes the temporary files in folder whose names begin with prefix and that nobody writes. */
void yki_atomic_clean(const char *folder, const char *prefix);

#endif

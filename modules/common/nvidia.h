/* The search for NVIDIA's libraries, which yoke opens only when something needs them. */
#ifndef COMMON_NVIDIA_H
#define COMMON_NVIDIA_H

#include <stddef.h>

/*
 * Opens the first of these files (newest first; ends with NULL) that is in a folder of
 * YOKE_CUDA_LIBS, separated by colons, or where the loader looks. Returns NULL if none can be
 * opened; `reason` is then what is wrong with the first file that is in those folders, or, if none
 * is, why the loader does not open the newest.
 */
void *nvidia_open(const char *const *files, char *reason, size_t size);

/* The same of one file, but only in those folders; NULL if it is in none. */
void *nvidia_open_in_folders(const char *file);

#endif

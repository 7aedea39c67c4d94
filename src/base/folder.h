/* Folders, created together with their parents like mkdir -p, and the files in them. */
#ifndef YKI_FOLDER_H
#define YKI_FOLDER_H

#include <dirent.h>
#include <linux/limits.h>
#include <stdbool.h>

#include "base/error.h"

#pragma GCC visibility push(default) /* shared with modules, see device/module.h */

/* Creates the folder and its missing parents; one that exists already is fine. */
yk_status yki_make_folders(const char *path);
/* Creates the folder that a file is to lie in: everything before the path's last slash. */
yk_status yki_make_folders_above(const char *file);

#pragma GCC visibility pop

/* Whether there is a folder at path, or a symbolic link to one. */
bool yki_is_folder(const char *path);
/* The next entry of a folder that has been opened at path, other than "." and ".."; NULL past the
 * last, and on failure. */
yk_status yki_read_folder(const struct dirent **entry, DIR *folder, const char *path);
/* The error of a path that takes more than PATH_MAX bytes; the line has its beginning. */
yk_status yki_path_too_long(const char *path);
/* Writes FOLDER/NAME to path. */
yk_status yki_join_path(char path[PATH_MAX], const char *folder, const char *name);
/* Whether the open file is still at the path: somebody may have removed or renamed it, or a folder
 * above it. */
bool yki_is_at(int fd, const char *path);

#endif

/* Folders, created together with their parents like mkdir -p. */
#ifndef YKI_FOLDER_H
#define YKI_FOLDER_H

#include "base/error.h"

#pragma GCC visibility push(default) /* shared with modules, see device/module.h */

/* Creates the folder and its missing parents; one that exists already is fine. */
yk_status yki_make_folders(const char *path);
/* Creates the folder that a file is to lie in: everything before the path's last slash. */
yk_status yki_make_folders_above(const char *file);

#pragma GCC visibility pop

#endif

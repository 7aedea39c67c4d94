/* Files and folders that commands write. */
#ifndef YOKE_CLI_FILES_H
#define YOKE_CLI_FILES_H

#include <stdbool.h>
#include <stdio.h>

/* A new file for a result, which takes the place of an older one when it is closed; NULL: it has
 * said why not. */
FILE *cli_file_create(const char *path);
/* Closes it (stdout is only flushed); false: not all of it was written, it has said why, and an
 * older file is as it was. */
bool cli_file_close(FILE *file, const char *path);
/* Creates the folder and its parents, unless it exists; false: errno says why not. */
bool cli_folder_make(const char *path);

#endif

/* Files and folders that commands write. */
#ifndef YOKE_CLI_FILES_H
#define YOKE_CLI_FILES_H

#include <linux/limits.h>
#include <stdbool.h>
#include <stdio.h>

/* A file for a result. A new one is written beside an older one, and takes its place when it is
 * closed; devices and pipes are written to directly. */
typedef struct cli_file {
    FILE *stream;                                /* to write to */
    const char *path;                            /* as the user has written it */
    char target[PATH_MAX], unfinished[PATH_MAX]; /* "" for devices and pipes */
} cli_file;

/* False: it has said why not. */
bool cli_file_create(cli_file *file, const char *path);
/* Standard output as a file for a result. */
void cli_file_stdout(cli_file *file);
/* Closes it (stdout is only flushed); false: not all of it was written, it has said why, and an
 * older file is as it was. */
bool cli_file_close(cli_file *file);

/* The file that a path names at the end of its symbolic links; it may not exist yet. A result that
 * replaces this one leaves the links as they are. The path itself where it names no regular file,
 * such as a pipe. False: it has said why there is none. */
bool cli_follow_links(char target[PATH_MAX], const char *path);

/* Creates the folder and its parents, unless it exists; false: errno says why not. */
bool cli_folder_make(const char *path);

#endif

/* Whether the files and folders that options name can be used, asked before any work starts. */
#ifndef YOKE_CLI_PATHS_H
#define YOKE_CLI_PATHS_H

#include <stdbool.h>

/* Whether a file or folder can be read; true for NULL. option is the option that named it, or "".
 * If false, a usage error of the command `name` has been printed. */
bool cli_check_readable(const char *name, const char *option, const char *path);
/* Whether the file, or the folder that will contain it, can be written; true for NULL. */
bool cli_check_writable(const char *name, const char *option, const char *path);
/* Whether the name is not that of weights or of a run's records, which a result must not replace;
 * true for NULL. */
bool cli_check_result(const char *name, const char *option, const char *path);
/* Both: for a file that is neither. */
bool cli_check_writable_result(const char *name, const char *option, const char *path);
/* Whether files can be created in the folder, if it exists; true for NULL. */
bool cli_check_folder(const char *name, const char *option, const char *path);

#endif

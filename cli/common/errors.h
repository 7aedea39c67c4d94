/* One line on stderr for each failure: the library's own, or the program's. */
#ifndef YOKE_CLI_ERRORS_H
#define YOKE_CLI_ERRORS_H

#include <yoke/yoke.h>

/* True for YK_OK; else prints the library's line. */
bool cli_ok(yk_status status);
/* Prints "yoke: ..." and returns false. What is quoted may hold anything: it stays one line, in
 * which what a terminal would act on becomes "?". */
bool cli_complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Prints that a command cannot start a thread or a process, with the limit that may be the reason;
 * returns false. */
bool cli_complain_of_start(const char *name, const char *what, int error);

/* Whether all that was printed has been written; prints an error of the command if not. */
bool cli_output_is_whole(const char *command_name);

/* The library's line without "yoke: ", which it begins with, as a part of other messages. */
const char *cli_reason(void);

#endif

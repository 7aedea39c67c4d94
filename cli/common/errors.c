/* What the program says when something fails, and the library's lines within that. */
#define _GNU_SOURCE
#include "common/errors.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "common/terminal.h"

/* Whether the last error is about one sample among others: "sample NUMBER, NAME: ...". Where many
 * "damaged samples in a row" are named, they were to be left out already. */
static bool is_about_a_sample(yk_status status)
{
    const char *found = strstr(yk_last_error(), "sample ");
    return yk_sample_is_damaged(status) && found && isdigit((unsigned char)found[7]) &&
           !strstr(yk_last_error(), "damaged samples in a row");
}

bool cli_ok(yk_status status)
{
    if (status != YK_OK)
        fprintf(stderr, "%s%s\n", yk_last_error(),
                is_about_a_sample(status) ? " (use --skip-damaged to leave it out)" : "");
    return status == YK_OK;
}

const char *cli_reason(void)
{
    const char *line = yk_last_error();
    return strncmp(line, "yoke: ", 6) == 0 ? line + 6 : line;
}

bool cli_complain(const char *format, ...)
{
    char line[2 * PATH_MAX]; /* a path, and what is wrong with it */
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    cli_make_printable(line);
    yk_set_error(YK_ERROR_INVALID_ARGUMENT, "%s", line); /* who asks for the reason gets this one */
    fprintf(stderr, "yoke: %s\n", line);
    return false;
}

bool cli_output_is_whole(const char *command_name)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return true;
    fprintf(stderr, "%s: cannot write to standard output: the output is incomplete\n",
            command_name);
    return false;
}

bool cli_complain_of_start(const char *name, const char *what, int error)
{
    char limit[96] = "";
    struct rlimit processes;
    if (error == EAGAIN && getrlimit(RLIMIT_NPROC, &processes) == 0 &&
        processes.rlim_cur != RLIM_INFINITY)
        snprintf(limit, sizeof limit, "; the user may have %llu processes and threads (ulimit -u)",
                 (unsigned long long)processes.rlim_cur);
    fprintf(stderr, "%s: cannot start %s: %s%s\n", name, what, strerror(error), limit);
    return false;
}

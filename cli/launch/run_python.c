/*
 * See run.h: programs that Python starts. torchrun starts every program with Python, `yoke run`
 * only those that say so (--module, --run-path) and scripts that the system itself cannot start.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launch/run.h"
#include "options/options.h"

static bool begins_with_interpreter(const char *path)
{
    char bytes[2];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool found = fd >= 0 && read(fd, bytes, sizeof bytes) == sizeof bytes &&
                 memcmp(bytes, "#!", sizeof bytes) == 0;
    if (fd >= 0)
        close(fd);
    return found;
}

/* Whether the name is that of a script that the system cannot execute. A program without a slash is
 * looked up in PATH, a script in the current folder. */
static bool is_script(const char *name)
{
    struct stat file;
    size_t length = strlen(name);
    bool named = length > 3 && strcmp(name + length - 3, ".py") == 0;
    if (!named || stat(name, &file) || !S_ISREG(file.st_mode))
        return false;
    return !strchr(name, '/') || access(name, X_OK) || !begins_with_interpreter(name);
}

int cli_run_read_program(const char *name, const cli_run_options *o, cli_run_lists *lists)
{
    static char unbuffered[] = "-u", module[] = "-m", python[] = "python3";
    char **program = lists->program, *given = getenv("PYTHON_EXEC");
    if (o->module && o->run_path)
        return cli_usage_error(name, "--module and --run-path exclude each other");
    if (o->module && o->no_python)
        return cli_usage_error(name, "--module and --no-python exclude each other");
    if (!o->module && !o->run_path && (o->no_python || !is_script(program[0])))
        return -1;
    if (o->module)
        *--program = module;
    *--program = unbuffered;
    *--program = given && *given ? given : python;
    lists->program = program;
    return -1;
}

/* The program `yoke`: finds the command and runs it. */
#define _GNU_SOURCE
#include "cli.h"
#include "commands.h"
#include "manual.h"
#include "spelling.h"

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <yoke/status.h>

/*
 * Repairs what a careless parent may have left behind. With SIGCHLD ignored we would not learn of
 * our children's ends; with a standard descriptor closed, the next file that we open would take its
 * place. Writing beyond `ulimit -f` becomes an error that names the file instead of a signal.
 */
static void repair_process_state(void)
{
    signal(SIGCHLD, SIG_DFL);
    signal(SIGXFSZ, SIG_IGN);
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) != fd)
            _exit(CLI_EXIT_FAILED);
    setvbuf(stdout, NULL, _IOLBF, 0); /* a line is seen when it is printed, in a pipe too */
}

/*
 * A command whose output could not be written, for example to a full disk, has failed: its output
 * is what it was run for. Training is the exception: its results are files.
 */
static int check_output(const cli_command_entry *ended, int code)
{
    bool written = fflush(stdout) == 0 && !ferror(stdout);
    if (written || code != CLI_EXIT_OK || ended->run == cli_cmd_train)
        return code;
    fprintf(stderr, "%s: cannot write to standard output: the output is incomplete\n",
            ended->full_name);
    return CLI_EXIT_FAILED;
}

static int refuse_command(const char *name)
{
    const cli_command_entry *command;
    cli_spelling near = cli_spelling_begin(name, strlen(name));
    for (size_t i = 0; (command = cli_command_at(i)); i++)
        cli_spelling_try(&near, command->name);
    fprintf(stderr, "yoke: unknown %s '%s'%s%s%s `yoke --help` lists the commands\n",
            name[0] == '-' ? "option" : "command", name, near.best ? ": did you mean " : "",
            near.best ? near.best : "", near.best ? "?" : ";");
    return CLI_EXIT_USAGE;
}

int main(int argc, char **argv)
{
    repair_process_state();
    const char *name = argc > 1 ? argv[1] : "--help";
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
        cli_print_commands();
        return CLI_EXIT_OK;
    }
    if (strcmp(name, "--help=man") == 0 || strcmp(name, "--help=options") == 0) {
        strchr(name, '=')[1] == 'm' ? cli_print_manual() : cli_print_command_list();
        return CLI_EXIT_OK;
    }
    if (strcmp(name, "--version") == 0) {
        printf("yoke %s\n", yk_version());
        return CLI_EXIT_OK;
    }
    const cli_command_entry *command = cli_find_command(name);
    if (command)
        return check_output(command, command->run(command->full_name, argc - 1, argv + 1));
    return refuse_command(name);
}

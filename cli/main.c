/* The program `yoke`: finds the command and runs it. */
#define _GNU_SOURCE
#include "cli.h"
#include "commands.h"
#include "manual.h"
#include "spelling.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <yoke/status.h>

/*
 * Repairs what a careless parent may have left behind. With SIGCHLD ignored we would not learn of
 * our children's ends; with signals blocked nothing could stop us or them; with a standard
 * descriptor closed, the next file that we open would take its place. Writing beyond `ulimit -f`
 * becomes an error that names the file instead of a signal.
 */
static void repair_process_state(void)
{
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGCHLD, SIG_DFL);
    signal(SIGXFSZ, SIG_IGN);
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) != fd)
            _exit(CLI_EXIT_FAILED);
    setvbuf(stdout, NULL, _IOLBF, 0); /* a line is seen when it is printed, in a pipe too */
}

/* What could not be written, for example to a full disk, is a failure: it is what was asked for. */
static int check_output(const char *name, int code)
{
    if ((fflush(stdout) == 0 && !ferror(stdout)) || code != CLI_EXIT_OK)
        return code;
    fprintf(stderr, "%s: cannot write to standard output: the output is incomplete\n", name);
    return CLI_EXIT_FAILED;
}

/* The results of training are files. */
static int run_command(const cli_command_entry *command, int argc, char **argv)
{
    int code = command->run(command->full_name, argc, argv);
    return command->run == cli_cmd_train ? code : check_output(command->full_name, code);
}

static int refuse_command(const char *name)
{
    const cli_command_entry *command;
    cli_spelling near = cli_spelling_begin(name, strlen(name));
    for (size_t i = 0; (command = cli_command_at(i)); i++)
        cli_spelling_try(&near, command->name);
    cli_spelling_try(&near, "--help");
    cli_spelling_try(&near, "--version");
    fprintf(stderr, "yoke: unknown %s '%s'%s%s%s `yoke --help` lists the commands\n",
            name[0] == '-' ? "option" : "command", name, near.best ? ": did you mean " : "",
            near.best ? near.best : "", near.best ? "?" : ";");
    return CLI_EXIT_USAGE;
}

/* `yoke help COMMAND` is `yoke COMMAND --help`. */
static int help_with(const char *name)
{
    char option[] = "--help", *words[] = {option, option, NULL};
    const cli_command_entry *command = cli_find_command(name);
    return command ? run_command(command, 2, words) : refuse_command(name);
}

int main(int argc, char **argv)
{
    repair_process_state();
    const char *name = argc > 1 ? argv[1] : "--help";
    const cli_command_entry *command = cli_find_command(name);
    if (command)
        return run_command(command, argc - 1, argv + 1);
    if (strcmp(name, "help") == 0 && argc == 3)
        return help_with(argv[2]);
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0)
        cli_print_commands();
    else if (strcmp(name, "--help=man") == 0)
        cli_print_manual();
    else if (strcmp(name, "--help=options") == 0)
        cli_print_command_list();
    else if (strcmp(name, "--version") == 0)
        printf("yoke %s\n", yk_version());
    else
        return refuse_command(name);
    return check_output("yoke", CLI_EXIT_OK);
}

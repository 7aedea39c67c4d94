/* The program `yoke`: finds the command and runs it. */
#define _GNU_SOURCE
#include "cli.h"
#include "commands.h"
#include "common/errors.h"
#include "common/spelling.h"
#include "common/spinning.h"
#include "common/stack.h"
#include "options/manual.h"
#include "options/options.h"

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
 * becomes an error that names the file instead of a signal. What a scheduler sends to a command
 * that handles it may come earlier than that, or even before this function.
 */
static void repair_process_state(const cli_command_entry *command)
{
    sigset_t blocked;
    sigemptyset(&blocked);
    if (command && command->keeps_signals) {
        sigaddset(&blocked, SIGUSR1);
        sigaddset(&blocked, SIGUSR2);
    }
    sigprocmask(SIG_SETMASK, &blocked, NULL);
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
    return code != CLI_EXIT_OK || cli_output_is_whole(name) ? code : CLI_EXIT_FAILED;
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
    cli_complain("unknown %s '%s'%s%s%s `yoke --help` lists the commands",
                 name[0] == '-' ? "option" : "command", name, near.best ? ": did you mean " : "",
                 near.best ? near.best : "", near.best ? "?" : ";");
    return CLI_EXIT_USAGE;
}

/* `yoke help COMMAND` is `yoke COMMAND --help`; "bench scaling" counts as a command. */
static int help_with(int count, char **words)
{
    char option[] = "--help", *line[] = {words[0], option, NULL, NULL};
    const cli_command_entry *command = cli_find_command(words[0]);
    if (count == 1 && strcmp(words[0], "help") == 0) {
        cli_print_commands();
        return check_output("yoke", CLI_EXIT_OK);
    }
    if (!command)
        return refuse_command(words[0]);
    if (count == 2 && strcmp(words[0], "bench") == 0 && strcmp(words[1], "scaling") == 0) {
        line[1] = words[1];
        line[2] = option;
    } else if (count > 1) {
        return cli_usage_error("yoke", "unexpected argument '%s'", words[1]);
    }
    return run_command(command, line[2] ? 3 : 2, line);
}

static void print_version(void)
{
    printf("yoke %s\n", yk_version());
}

/* What the program says about itself. */
static const struct page {
    const char *name;
    void (*print)(void);
} pages[] = {
    {"--help", cli_print_commands},   {"-h", cli_print_commands},
    {"help", cli_print_commands},     {"--help=text", cli_print_commands},
    {"--help=man", cli_print_manual}, {"--help=options", cli_print_command_list},
    {"--version", print_version},
};

static const struct page *find_page(const char *name)
{
    for (size_t i = 0; i < sizeof pages / sizeof *pages; i++)
        if (strcmp(pages[i].name, name) == 0)
            return &pages[i];
    return NULL;
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "--help";
    const cli_command_entry *command = cli_find_command(name);
    repair_process_state(command);
    cli_ensure_stack(argv);
    if (command && command->computes)
        cli_limit_spinning(argv);
    if (command)
        return run_command(command, argc - 1, argv + 1);
    const struct page *page = find_page(name);
    if (!page)
        return refuse_command(name);
    if (argc > 2 && page->print == cli_print_commands)
        return help_with(argc - 2, argv + 2);
    if (argc > 2)
        return cli_usage_error("yoke", "unexpected argument '%s'", argv[2]);
    page->print();
    return check_output("yoke", CLI_EXIT_OK);
}

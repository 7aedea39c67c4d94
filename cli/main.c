/* The program `yoke`: finds the command in one table and hands over. */
#define _GNU_SOURCE
#include "cli.h"
#include "help.h"

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <yoke/status.h>

typedef struct command {
    const char *name, *full_name, *summary;
    int (*run)(int argc, char **argv);
} command;

static const command commands[] = {
    {"train", "yoke train", "train a network, on one process or on several", cli_cmd_train},
    {"evaluate", "yoke evaluate", "measure a checkpoint's loss and accuracy", cli_cmd_evaluate},
    {"run", "yoke run", "start any program once per rank, as torchrun does", cli_cmd_run},
    {"checkpoint", "yoke checkpoint", "show what a checkpoint holds", cli_cmd_checkpoint},
    {"convert", "yoke convert", "turn .pth into safetensors, and back", cli_cmd_convert},
    {"data", "yoke data", "fetch, describe or draw a data set", cli_cmd_data},
    {"bench", "yoke bench", "measure all-reduce, a training step or scaling here", cli_cmd_bench},
    {"info", "yoke info", "what this machine and this build offer, and why not", cli_cmd_info},
};
enum { COMMANDS = sizeof commands / sizeof *commands };

const char *cli_command_purpose(const char *full_name)
{
    for (int i = 0; i < COMMANDS; i++)
        if (strcmp(full_name, commands[i].full_name) == 0)
            return commands[i].summary;
    return "measure how training scales with the number of ranks"; /* yoke bench scaling */
}

static const struct {
    const char *name, *meaning;
} variables[] = {
    {"RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE",
     "which process of a job this is, as set by yoke run and torchrun"},
    {"MASTER_ADDR, MASTER_PORT", "where the ranks of a job meet"},
    {"YOKE_TIMEOUT", "seconds that ranks wait for each other (300)"},
    {"YOKE_LOG", "what the library logs to stderr: error, warn (default), info or debug"},
    {"YOKE_SHM_DIR", "a folder for shared memory, instead of memory without a name"},
    {"YOKE_CIFAR10_URL, YOKE_CIFAR10_MD5", "another source for CIFAR-10, and its checksum"},
    {"XDG_CACHE_HOME", "where data sets are cached (~/.cache)"},
};

static void print_commands(void)
{
    puts("yoke: distributed data-parallel training\n\n"
         "Usage: yoke COMMAND [OPTION...]\n");
    for (int i = 0; i < COMMANDS; i++)
        printf("  %-12s%s\n", commands[i].name, commands[i].summary);
    puts("\n`yoke COMMAND --help` describes a command, `yoke --version` prints the version.\n\n"
         "To see it work, without any data or network:\n"
         "  yoke train --data synthetic --arch mlp --lr 0.01 --nproc 2");
}

/* The manual page yoke(1); those of the commands come from their tables of options. */
static void print_manual(void)
{
    cli_print_man_title("yoke", "distributed data-parallel training");
    puts(".SH SYNOPSIS\n\\fByoke\\fR \\fICOMMAND\\fR [\\fIOPTION\\fR...]\n.SH DESCRIPTION");
    cli_print_man_text(
        "Trains neural networks on one process, on several processes of one machine, or under a\n"
        "launcher. Names, options, environment variables and file formats follow PyTorch wherever\n"
        "PyTorch has one: checkpoints are .pth files that torch.load opens.\n"
        "\n"
        "To see it work, without any data or network:\n"
        "\n"
        "  yoke train --data synthetic --arch mlp --lr 0.01 --nproc 2");
    puts(".SH COMMANDS");
    for (int i = 0; i < COMMANDS; i++)
        printf(".TP\n.BR yoke\\-%s (1)\n%s\n", commands[i].name, commands[i].summary);
    puts(".SH ENVIRONMENT");
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        printf(".TP\n\\fB%s\\fR\n", variables[i].name);
        cli_print_man_text(variables[i].meaning);
        putchar('\n');
    }
    puts(".SH EXIT STATUS\n0 after success, 1 after a failure, 2 after a wrong command line; "
         "128 plus its number after a signal that stopped the job in order.");
}

/* The names and purposes of all commands, for the completions of shells. */
static void print_command_list(void)
{
    for (int i = 0; i < COMMANDS; i++)
        printf("%s\t%s\n", commands[i].name, commands[i].summary);
}

/*
 * Puts right what a careless parent may have left us: with SIGCHLD ignored our children would end
 * unseen, and with a standard file closed the next one that we open would be taken for it. A file
 * that grows beyond `ulimit -f` shall be an error with its name, not a sudden death.
 */
static void settle(void)
{
    signal(SIGCHLD, SIG_DFL);
    signal(SIGXFSZ, SIG_IGN);
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) != fd)
            _exit(CLI_EXIT_FAILED);
    setvbuf(stdout, NULL, _IOLBF, 0); /* a line is seen when it is printed, in a pipe too */
}

/*
 * What a command prints is what it is run for, and lost where a full disk took none of it. A
 * training lives by its files and goes on unheard.
 */
static int check_output(const command *ended, int code)
{
    bool written = fflush(stdout) == 0 && !ferror(stdout);
    if (written || code != CLI_EXIT_OK || ended->run == cli_cmd_train)
        return code;
    fprintf(stderr, "%s: standard output cannot be written: the output is not whole\n",
            ended->full_name);
    return CLI_EXIT_FAILED;
}

int main(int argc, char **argv)
{
    settle();
    const char *name = argc > 1 ? argv[1] : "--help";
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
        print_commands();
        return CLI_EXIT_OK;
    }
    if (strcmp(name, "--help=man") == 0 || strcmp(name, "--help=options") == 0) {
        strchr(name, '=')[1] == 'm' ? print_manual() : print_command_list();
        return CLI_EXIT_OK;
    }
    if (strcmp(name, "--version") == 0) {
        printf("yoke %s\n", yk_version());
        return CLI_EXIT_OK;
    }
    for (int i = 0; i < COMMANDS; i++)
        if (strcmp(name, commands[i].name) == 0) {
            argv[1] = (char *)commands[i].full_name;
            return check_output(&commands[i], commands[i].run(argc - 1, argv + 1));
        }
    fprintf(stderr, "yoke: unknown %s '%s'; `yoke --help` lists the commands\n",
            name[0] == '-' ? "option" : "command", name);
    return CLI_EXIT_USAGE;
}

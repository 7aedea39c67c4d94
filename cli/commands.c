/* See commands.h: the one table of commands, and what is printed from it. */
#include "commands.h"

#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "help.h"

static const cli_command_entry commands[] = {
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

const cli_command_entry *cli_find_command(const char *name)
{
    for (int i = 0; i < COMMANDS; i++)
        if (strcmp(name, commands[i].name) == 0)
            return &commands[i];
    return NULL;
}

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

void cli_print_commands(void)
{
    puts("yoke: distributed data-parallel training\n\n"
         "Usage: yoke COMMAND [OPTION...]\n");
    for (int i = 0; i < COMMANDS; i++)
        printf("  %-12s%s\n", commands[i].name, commands[i].summary);
    puts("\n`yoke COMMAND --help` describes a command, `yoke --version` prints the version.\n\n"
         "To see it work, without any data or network:\n"
         "  yoke train --data synthetic --arch mlp --lr 0.01 --nproc 2");
}

void cli_print_manual(void)
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

void cli_print_command_list(void)
{
    for (int i = 0; i < COMMANDS; i++)
        printf("%s\t%s\n", commands[i].name, commands[i].summary);
}

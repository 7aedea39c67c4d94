/* See commands.h: the table of commands and the texts printed from it. */
#include "commands.h"

#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "help.h"

static const cli_command_entry commands[] = {
    {"train", "yoke train", "train a network with one or more processes", cli_cmd_train},
    {"evaluate", "yoke evaluate", "measure a checkpoint's loss and accuracy", cli_cmd_evaluate},
    {"predict", "yoke predict", "classify pictures", cli_cmd_predict},
    {"run", "yoke run", "start any program once per rank, like torchrun", cli_cmd_run},
    {"ps", "yoke ps", "list the ranks of running jobs and what they wait for", cli_cmd_ps},
    {"checkpoint", "yoke checkpoint", "show the contents of a checkpoint", cli_cmd_checkpoint},
    {"convert", "yoke convert", "convert weights between .pth and safetensors", cli_cmd_convert},
    {"export", "yoke export", "write a trained network as an ONNX file", cli_cmd_export},
    {"data", "yoke data", "download, describe or preview a data set", cli_cmd_data},
    {"report", "yoke report", "write a page about training runs", cli_cmd_report},
    {"compare", "yoke compare", "show how training runs differ", cli_cmd_compare},
    {"sweep", "yoke sweep", "train with every combination of some options", cli_cmd_sweep},
    {"bench", "yoke bench", "measure all-reduce, a training step or scaling", cli_cmd_bench},
    {"info", "yoke info", "show what this machine and this build support", cli_cmd_info},
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
     "identify this process in its job; set by yoke run and torchrun"},
    {"MASTER_ADDR, MASTER_PORT", "address of the rendezvous, where the ranks of a job connect"},
    {"YOKE_BACKEND", "backend of groups with several ranks whose options name none"},
    {"YOKE_SECRET", "secret of the job's rendezvous, the same on all hosts"},
    {"YOKE_RSH", "program that yoke run --hosts uses in place of ssh"},
    {"YOKE_TIMEOUT", "how many seconds ranks wait for each other (300)"},
    {"YOKE_HEARTBEAT_TIMEOUT", "after how many silent seconds a host counts as lost (5)"},
    {"YOKE_SOCKET_IFNAME, YOKE_LOCAL_ADDR", "interface or address that other hosts use"},
    {"YOKE_LOG", "log level on stderr: error, warn (default), info or debug"},
    {"YOKE_SHM_DIR", "folder for shared-memory files, instead of anonymous memory"},
    {"YOKE_CIFAR10_URL, YOKE_CIFAR10_MD5", "alternative source of CIFAR-10, and its checksum"},
    {"YOKE_CIFAR100_URL, YOKE_CIFAR100_MD5", "the same for CIFAR-100"},
    {"YOKE_MNIST_URL, YOKE_MNIST_MD5", "alternative folder of MNIST's four files, and checksums"},
    {"YOKE_FASHION_MNIST_URL, YOKE_FASHION_MNIST_MD5", "the same for Fashion-MNIST"},
    {"XDG_CACHE_HOME", "where data sets and measured plans are cached (~/.cache)"},
    {"YOKE_CUDA_LIBS", "folders that are searched first for cuDNN, cuBLAS and NCCL"},
    {"YOKE_CUDA_GRAPHS", "0: GPUs record no CUDA graphs, for finding faults"},
    {"YOKE_CUDA_MEASURE", "0: GPUs use the first convolution plan that works, unmeasured"},
    {"YOKE_CUDA_TF32", "1: GPUs multiply f32 as TF32, faster and less accurately"},
};

void cli_print_commands(void)
{
    puts("yoke: distributed data-parallel training\n\n"
         "Usage: yoke COMMAND [OPTION...]\n");
    for (int i = 0; i < COMMANDS; i++)
        printf("  %-12s%s\n", commands[i].name, commands[i].summary);
    puts("\nRun `yoke COMMAND --help` for the options of a command, `yoke --version` for the "
         "version.\n\n"
         "To try it without downloading any data:\n"
         "  yoke train --data synthetic --arch mlp --lr 0.01 --nproc 2");
}

void cli_print_manual(void)
{
    cli_print_man_title("yoke", "distributed data-parallel training");
    puts(".SH SYNOPSIS\n\\fByoke\\fR \\fICOMMAND\\fR [\\fIOPTION\\fR...]\n.SH DESCRIPTION");
    cli_print_man_text(
        "Trains neural networks with one process, with several processes on one machine, or under "
        "a\n"
        "launcher. Names, options, environment variables and file formats follow PyTorch wherever\n"
        "PyTorch has one: checkpoints are .pth files that torch.load opens.\n"
        "\n"
        "To try it without downloading any data:\n"
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
    puts(".SH EXIT STATUS\n0 on success, 1 on failure, 2 for an invalid command line, and "
         "128 + N after a clean stop by signal N.");
}

void cli_print_command_list(void)
{
    for (int i = 0; i < COMMANDS; i++)
        printf("%s\t%s\n", commands[i].name, commands[i].summary);
}

/* See manual.h. */
#include "options/manual.h"

#include <stdio.h>

#include "commands.h"
#include "options/help.h"

static const struct {
    const char *name, *meaning;
} variables[] = {
    {"RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE",
     "identify this process in its job; set by yoke run and torchrun"},
    {"MASTER_ADDR, MASTER_PORT", "address of the rendezvous, where the ranks of a job connect"},
    {"YOKE_SEPARATE", "1: only RANK and WORLD_SIZE count, not what srun or mpirun has set"},
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
    {"YOKE_MODULES", "folders that are searched first for yoke's modules, libyoke-*.so"},
    {"YOKE_FLIGHT_RECORDER", "folder of the flight recorder's files, after a failure"},
    {"YOKE_CUDA_LIBS", "folders that are searched first for cuDNN, cuBLAS and NCCL"},
    {"YOKE_CUDA_GRAPHS", "0: GPUs record no CUDA graphs, for finding faults"},
    {"YOKE_CUDA_FLASH", "0: attention in 16 bits keeps its scores in memory, for finding faults"},
    {"YOKE_CUDA_FUSE", "0: convolutions give batch norm no sums, for finding faults"},
    {"YOKE_CUDA_BESIDE", "0 or 1: convolutions' gradients never or always run beside each other"},
    {"YOKE_CUDA_MEASURE", "0: GPUs use the first convolution plan that works, unmeasured"},
    {"YOKE_CUDA_TF32", "1: GPUs multiply f32 as TF32, faster and less accurately"},
};

/* format takes the name of a command and what it is for. */
static void print_each(const char *format)
{
    const cli_command_entry *command;
    for (size_t i = 0; (command = cli_command_at(i)); i++)
        printf(format, command->name, command->summary);
}

void cli_print_commands(void)
{
    puts("yoke: distributed data-parallel training\n\n"
         "Usage: yoke COMMAND [OPTION...]\n");
    print_each("  %-12s%s\n");
    puts("\n`yoke COMMAND --help` lists the options of a command; `yoke --version` is the\n"
         "version.\n\n"
         "To try it without downloading any data:\n"
         "  yoke train --data synthetic --arch mlp --lr 0.01 --nproc 2");
}

void cli_print_manual(void)
{
    cli_print_man_title("yoke", "distributed data-parallel training");
    puts(".SH SYNOPSIS\n\\fByoke\\fR \\fICOMMAND\\fR [\\fIOPTION\\fR...]\n.SH DESCRIPTION");
    cli_print_man_text(
        "Trains neural networks with one process, with several on one machine, or under a\n"
        "launcher. Names, options, environment variables and file formats follow PyTorch wherever\n"
        "PyTorch has one: checkpoints are .pth files that torch.load opens.\n"
        "\n"
        "To try it without downloading any data:\n"
        "\n"
        "  yoke train --data synthetic --arch mlp --lr 0.01 --nproc 2");
    puts(".SH COMMANDS");
    print_each(".TP\n.BR yoke\\-%s (1)\n%s\n");
    puts(".SH ENVIRONMENT");
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        printf(".TP\n\\fB%s\\fR\n", variables[i].name);
        cli_print_man_text(variables[i].meaning);
    }
    puts(".SH EXIT STATUS\n0 on success, 1 on failure, 2 for an invalid command line, and "
         "128 + N after a clean stop by signal N.");
}

void cli_print_command_list(void)
{
    print_each("%s\t%s\n");
}

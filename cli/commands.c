/* See commands.h. */
#include "commands.h"

#include <string.h>

#include "cli.h"

static const cli_command_entry commands[] = {
    {"train", "yoke train", "train a network with one or more processes", .run = cli_cmd_train,
     .keeps_signals = true, .computes = true},
    {"evaluate", "yoke evaluate", "measure a checkpoint's loss and accuracy",
     .run = cli_cmd_evaluate, .computes = true},
    {"predict", "yoke predict", "classify pictures", .run = cli_cmd_predict, .computes = true},
    {"run", "yoke run", "start any program once per rank, like torchrun", .run = cli_cmd_run,
     .keeps_signals = true},
    {"ps", "yoke ps", "list the ranks of running jobs and what they wait for", .run = cli_cmd_ps},
    {"checkpoint", "yoke checkpoint", "show the contents of a checkpoint",
     .run = cli_cmd_checkpoint},
    {"convert", "yoke convert", "convert weights between .pth and safetensors",
     .run = cli_cmd_convert},
    {"export", "yoke export", "write a trained network as an ONNX file", .run = cli_cmd_export},
    {"data", "yoke data", "download, describe or preview a data set", .run = cli_cmd_data},
    {"report", "yoke report", "write a page about training runs", .run = cli_cmd_report},
    {"compare", "yoke compare", "show how training runs differ", .run = cli_cmd_compare},
    {"sweep", "yoke sweep", "train with every combination of some options", .run = cli_cmd_sweep},
    {"bench", "yoke bench", "measure all-reduce, a training step or scaling", .run = cli_cmd_bench,
     .computes = true},
    {"info", "yoke info", "show what this machine and this build support", .run = cli_cmd_info},
};
enum { COMMANDS = sizeof commands / sizeof *commands };

const cli_command_entry *cli_command_at(size_t index)
{
    return index < COMMANDS ? &commands[index] : NULL;
}

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

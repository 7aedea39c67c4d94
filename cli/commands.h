/* The table of the program's commands. */
#ifndef YOKE_CLI_COMMANDS_H
#define YOKE_CLI_COMMANDS_H

#include <stdbool.h>
#include <stddef.h>

typedef struct cli_command_entry {
    const char *name, *full_name, *summary; /* "train", "yoke train", what it is for */
    int (*run)(const char *full_name, int argc, char **argv);
    bool keeps_signals; /* it handles SIGUSR1 and SIGUSR2, which are blocked until then */
    bool computes;      /* in this process, with several threads */
} cli_command_entry;

/* The index-th command, in the order of help pages; NULL past the last. */
const cli_command_entry *cli_command_at(size_t index);
/* The command of this name, or NULL. */
const cli_command_entry *cli_find_command(const char *name);
/* What the command of this full name is for, in a phrase; "yoke bench scaling" counts as one. */
const char *cli_command_purpose(const char *full_name);

#endif

/* The commands of the program, and the pages that list them. */
#ifndef YOKE_CLI_COMMANDS_H
#define YOKE_CLI_COMMANDS_H

typedef struct cli_command_entry {
    const char *name, *full_name, *summary; /* "train", "yoke train", what it is for */
    int (*run)(const char *full_name, int argc, char **argv);
} cli_command_entry;

/* The command of this name, or NULL. */
const cli_command_entry *cli_find_command(const char *name);

/* The help page of the program. */
void cli_print_commands(void);
/* The manual page yoke(1); those of the commands come from their tables of options. */
void cli_print_manual(void);
/* The names and purposes of all commands, from which the completions of shells are generated. */
void cli_print_command_list(void);

#endif

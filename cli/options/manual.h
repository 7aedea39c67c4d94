/* The pages about the program as a whole; help.h has those of its commands. */
#ifndef YOKE_CLI_MANUAL_H
#define YOKE_CLI_MANUAL_H

/* The help page of the program. */
void cli_print_commands(void);
/* The manual page yoke(1). */
void cli_print_manual(void);
/* The names and purposes of all commands, from which the completions of shells are generated. */
void cli_print_command_list(void);

#endif

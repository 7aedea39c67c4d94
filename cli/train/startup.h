/* Says on stderr what a command is doing when its start takes longer than two seconds. */
#ifndef YOKE_CLI_STARTUP_H
#define YOKE_CLI_STARTUP_H

typedef struct cli_startup cli_startup;

/* Begins with the first thing that is done, such as "waiting for the other ranks". Only the first
 * rank of a job talks, so *startup is NULL on the others, and where there is no memory. */
void cli_startup_begin(cli_startup **startup, const char *what);
/* What comes next; a constant. Accepts NULL. */
void cli_startup_next(cli_startup *startup, const char *what);
/* The start is over. Sets *startup to NULL, and accepts NULL there. */
void cli_startup_end(cli_startup **startup);

#endif

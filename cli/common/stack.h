/* Room for the stack: some schedulers and containers limit it to less than a program needs. */
#ifndef YOKE_CLI_STACK_H
#define YOKE_CLI_STACK_H

/*
 * Raises a small limit of the stack (`ulimit -s`) to the usual one, or as far as it may be raised.
 * Stacks of threads have the limit with which the program was started, so this replaces the process
 * by the same program with the same arguments. It returns if there is enough, and ends the process
 * with a line where yoke could only crash.
 */
void cli_ensure_stack(char **arguments);

#endif

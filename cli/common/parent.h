/* Children that do not outlive their parent. */
#ifndef YOKE_CLI_PARENT_H
#define YOKE_CLI_PARENT_H

#include <sys/types.h>

/* In a child of fork(): this process receives the signal when its parent ends. Exits with 1 if the
 * parent has ended already. Async-signal-safe. */
void cli_end_with_parent(pid_t parent, int signal);

#endif

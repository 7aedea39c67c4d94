/* Whether the kernel kills processes because memory has run out. See oom.c. */
#ifndef YOKE_CLI_LAUNCH_OOM_H
#define YOKE_CLI_LAUNCH_OOM_H

/* How many processes the kernel has killed for it so far, where it can be found out; else 0. */
long cli_oom_kills(void);

#endif

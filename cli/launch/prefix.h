/* What the lines of a rank begin with where --log-line-prefix-template says so. */
#ifndef YOKE_CLI_LAUNCH_PREFIX_H
#define YOKE_CLI_LAUNCH_PREFIX_H

#include <stddef.h>

/* What the macros of a template stand for. */
typedef struct cli_prefix_values {
    const char *role;
    int rank, local_rank;
} cli_prefix_values;

/*
 * Replaces ${rank}, ${local_rank}, ${role_name} and ${hostname} (the braces are optional) with
 * their values, and $$ with a dollar sign. Everything else stays unchanged, as with torchrun.
 */
void cli_prefix_expand(char *prefix, size_t size, const char *template,
                       const cli_prefix_values *values);

#endif

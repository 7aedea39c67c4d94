/* `yoke bench all-reduce`. */
#ifndef YOKE_CLI_ALL_REDUCE_H
#define YOKE_CLI_ALL_REDUCE_H

#include <stdbool.h>

typedef struct cli_all_reduce_options {
    const char *backends; /* names with commas between them; NULL: the one that suits the places of
                             the ranks */
    bool is_private;      /* buffers that other ranks cannot reach */
    const char *json;     /* file for the table, or NULL */
} cli_all_reduce_options;

/* Returns false after an error line. */
bool cli_bench_all_reduce(const cli_all_reduce_options *options);

#endif

/* `yoke bench all-reduce`. */
#ifndef YOKE_CLI_ALL_REDUCE_H
#define YOKE_CLI_ALL_REDUCE_H

#include <stdbool.h>

/* Measures with each of the backends, names with commas between them; NULL: the one that suits the
 * places of the ranks. Returns false after an error line. */
bool cli_bench_all_reduce(const char *backends);

#endif

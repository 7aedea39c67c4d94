/* `yoke bench step`. */
#ifndef YOKE_CLI_BENCH_STEP_H
#define YOKE_CLI_BENCH_STEP_H

#include <stdbool.h>

#include <yoke/yoke.h>

#include "options/ranks.h"

enum { CLI_STEP_REPEATS = 1000 /* at most */ };

typedef struct cli_step_options {
    const char *arch;
    const char *backend;    /* what moves data */
    yk_model_options model; /* device, mixed precision, threads, Winograd */
    int64_t batch_size;     /* over all ranks */
    cli_ranks nproc;
    int64_t image_size, steps;
    bool profile;
    const char *json; /* the file to write, or NULL */
} cli_step_options;

/* Returns false after an error line. */
bool cli_bench_step(const cli_step_options *o);

#endif

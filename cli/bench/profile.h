/* `yoke bench step`: its result as JSON, and with --profile where the time of a step goes. */
#ifndef YOKE_CLI_BENCH_PROFILE_H
#define YOKE_CLI_BENCH_PROFILE_H

#include <stdbool.h>
#include <stddef.h>

#include <yoke/yoke.h>

/* A measured step, as rank 0 saw it. */
typedef struct cli_step_result {
    const char *arch, *amp;
    int ranks, steps;
    int64_t batch_size;                     /* over all ranks */
    double step_ms, waiting_ms, exposed_ms; /* medians */
    double gradient_bytes;                  /* that are summed, */
    double bound_ms;                        /* and how long that takes at least; 0: unknown */
    double trimmed_ms;                      /* what the kernels' times are parts of */
    int slowest_rank;                       /* the rank that the others waited for, or -1 */
    double waited_ms;                       /* how long, in each step */
    const yk_model *model;
    bool on_host;            /* the model's device is the host */
    bool profiled;           /* the model has a profile */
    yk_device_limits limits; /* zeros if unknown */
} cli_step_result;

/* Adds a kernel to the rows, of which there are `count`: to that of the same operator, shapes and
 * algorithm if there is one, otherwise as another row. Returns how many there are then. */
size_t cli_profile_add(yk_kernel_profile *rows, size_t count, const yk_kernel_profile *kernel);
/* The table of the kernels. */
bool cli_profile_print(const cli_step_result *result);
bool cli_step_write_json(const cli_step_result *result, const char *path);

#endif

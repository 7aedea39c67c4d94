/* See profile.h. */
#define _GNU_SOURCE
#include "bench/profile.h"

#include <stdlib.h>
#include <string.h>

#include "bench/step.h"
#include "common/errors.h"
#include "common/files.h"
#include "common/json.h"
#include "common/median.h"
#include "common/plural.h"

/* ---- kernels --------------------------------------------------------------------------------- */

/* The kernel, whose runs all take the trimmed mean of those that were measured. */
static yk_kernel_profile steady_kernel(const cli_step_result *r, size_t index)
{
    static double times[CLI_STEP_REPEATS];
    yk_kernel_profile kernel = yk_model_profile_kernel(r->model, index);
    size_t count = kernel.time_count < CLI_STEP_REPEATS ? kernel.time_count : CLI_STEP_REPEATS;
    if (count == 0)
        return kernel;
    memcpy(times, kernel.times, count * sizeof *times);
    kernel.seconds = (double)kernel.runs * cli_take_trimmed_mean(times, count);
    return kernel;
}

/* Seconds of one step; a kernel of some hundred runs in as many steps counts once. */
static double seconds_a_step(const cli_step_result *r, const yk_kernel_profile *kernel)
{
    return kernel->seconds / r->steps;
}

/* The least seconds that all runs of a step can take; 0 if a limit that counts is unknown. */
static double bound_a_step(const cli_step_result *r, const yk_kernel_profile *kernel)
{
    double peak = kernel->matrix_unit ? r->limits.matrix_flop_s : r->limits.flop_s;
    if (r->limits.bytes_s <= 0 || (kernel->computed > 0 && peak <= 0))
        return 0;
    double arithmetic = kernel->computed > 0 ? kernel->computed / peak : 0;
    double memory = kernel->bytes / r->limits.bytes_s;
    double runs = (double)kernel->runs / r->steps;
    return runs * (arithmetic > memory ? arithmetic : memory);
}

size_t cli_profile_add(yk_kernel_profile *rows, size_t count, const yk_kernel_profile *kernel)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(rows[i].op, kernel->op) == 0 && strcmp(rows[i].shape, kernel->shape) == 0 &&
            rows[i].bytes == kernel->bytes && rows[i].computed == kernel->computed &&
            rows[i].matrix_unit == kernel->matrix_unit) {
            rows[i].runs += kernel->runs;
            rows[i].seconds += kernel->seconds;
            return count;
        }
    rows[count] = *kernel;
    return count + 1;
}

static int by_time(const void *a, const void *b)
{
    double x = ((const yk_kernel_profile *)a)->seconds;
    double y = ((const yk_kernel_profile *)b)->seconds;
    return (x < y) - (x > y);
}

/* ---- the terminal ---------------------------------------------------------------------------- */

static void print_kernel(const cli_step_result *r, const yk_kernel_profile *row)
{
    double seconds = seconds_a_step(r, row), bound = bound_a_step(r, row);
    double runs = (double)row->runs / r->steps;
    double per_second = seconds > 0 ? runs / seconds : 0; /* it may have nothing to do */
    char gflop[16] = "", rate[16] = "", limit[16] = "-", share[16] = "-";
    if (row->flop > 0) {
        snprintf(gflop, sizeof gflop, "%.2f", 1e-9 * runs * row->flop);
        snprintf(rate, sizeof rate, "%.0f", 1e-9 * per_second * row->flop);
    }
    if (bound > 0)
        snprintf(limit, sizeof limit, "%.3f", 1e3 * bound);
    if (bound > 0 && seconds > 0)
        snprintf(share, sizeof share, "%.0f %%", 100 * bound / seconds);
    printf("%9.3f %6.1f %% %5.0f %8s %8s %8.1f %7.1f %9s %7s  %s %s\n", 1e3 * seconds,
           1e5 * seconds / r->trimmed_ms, runs, gflop, rate, 1e-6 * runs * row->bytes,
           1e-9 * per_second * row->bytes, limit, share, row->op, row->shape);
}

static void print_limits(const cli_step_result *r)
{
    char owner[32] = "the device";
    int threads = yk_model_threads(r->model);
    if (r->limits.bytes_s <= 0) {
        printf("\nThe limits of this device are not known, and so there are no bounds.\n");
        return;
    }
    if (r->on_host)
        snprintf(owner, sizeof owner, "%d %s", threads, cli_plural(threads, "thread", "threads"));
    printf("\nLimits of %s, measured: ", owner);
    if (r->limits.flop_s > 0)
        printf("%.0f GFLOP/s in f32, ", 1e-9 * r->limits.flop_s);
    if (r->limits.matrix_flop_s > 0)
        printf("%.0f GFLOP/s in products of bf16, ", 1e-9 * r->limits.matrix_flop_s);
    printf("%.1f GB/s of memory.\n", 1e-9 * r->limits.bytes_s);
}

bool cli_profile_print(const cli_step_result *r)
{
    size_t kernels = yk_model_profile_count(r->model), count = 0;
    yk_kernel_profile *rows = calloc(kernels + 1, sizeof *rows);
    double seconds = 0;
    if (!rows)
        return cli_complain("no memory for the profile of %zu kernels", kernels);
    for (size_t i = 0; i < kernels; i++) {
        yk_kernel_profile kernel = steady_kernel(r, i);
        count = cli_profile_add(rows, count, &kernel);
        seconds += seconds_a_step(r, &kernel);
    }
    qsort(rows, count, sizeof *rows, by_time);
    print_limits(r);
    printf("\n%9s %8s %5s %8s %8s %8s %7s %9s %7s  %s\n", "ms", "share", "runs", "GFLOP", "GFLOP/s",
           "MB", "GB/s", "bound, ms", "reached", "kernel");
    for (size_t i = 0; i < count; i++)
        print_kernel(r, &rows[i]);
    printf("%9.3f %6.1f %%  optimizer, communication and all else\n", r->trimmed_ms - 1e3 * seconds,
           100 - 1e5 * seconds / r->trimmed_ms);
    printf(
        "\nAll figures are of one step. Times are means without the slowest quarter of the runs, "
        "which something\nelse may have held up: that time is in the last row.\nGFLOP: as the "
        "operator is defined. MB: inputs and outputs, each once.\nbound: what the algorithm "
        "computes, or the bytes, at these "
        "limits, whichever takes longer;\nreached: bound / ms, above 100 %% if the data come "
        "from a cache,\nor if products of padding are left out; -: a limit is not known.\n");
    free(rows);
    return true;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void write_kernel(FILE *file, const cli_step_result *r, const yk_kernel_profile *k)
{
    double bound = bound_a_step(r, k);
    fprintf(file, "    {\"scope\": ");
    cli_json_string(file, k->scope);
    fprintf(file, ", \"op\": ");
    cli_json_string(file, k->op);
    fprintf(file, ", \"shape\": ");
    cli_json_string(file, k->shape);
    fprintf(file, ", \"ms\": %.6g, \"flop\": %.0f, \"computed_flop\": %.0f, ",
            1e3 * seconds_a_step(r, k), k->flop, k->computed);
    fprintf(file, "\"matrix_unit\": %s, \"bytes\": %.0f, ", k->matrix_unit ? "true" : "false",
            k->bytes);
    if (bound > 0)
        fprintf(file, "\"bound_ms\": %.6g}", 1e3 * bound);
    else
        fprintf(file, "\"bound_ms\": null}");
}

static void write_profile(FILE *file, const cli_step_result *r)
{
    size_t count = yk_model_profile_count(r->model);
    if (r->limits.bytes_s > 0)
        fprintf(file,
                "  \"limits\": {\"flop_s\": %.6g, \"bytes_s\": %.6g, \"matrix_flop_s\": %.6g},\n",
                r->limits.flop_s, r->limits.bytes_s, r->limits.matrix_flop_s);
    else
        fprintf(file, "  \"limits\": null,\n");
    fprintf(file, "  \"trimmed_ms\": %.6g,\n  \"kernels\": [\n", r->trimmed_ms);
    for (size_t i = 0; i < count; i++) {
        yk_kernel_profile kernel = steady_kernel(r, i);
        write_kernel(file, r, &kernel);
        fputs(i + 1 < count ? ",\n" : "\n", file);
    }
    fputs("  ],\n", file);
}

bool cli_step_write_json(const cli_step_result *r, const char *path)
{
    cli_file written;
    if (!cli_file_create(&written, path))
        return false;
    FILE *file = written.stream;
    fprintf(file, "{\n  \"yoke\": \"%s\",\n  \"arch\": ", yk_version());
    cli_json_string(file, r->arch);
    fprintf(file, ",\n  \"device\": ");
    cli_json_string(file, yk_model_device_description(r->model));
    fprintf(file, ",\n  \"amp\": \"%s\",\n  \"ranks\": %d,\n  \"threads\": %d,\n", r->amp, r->ranks,
            yk_model_threads(r->model));
    fprintf(file, "  \"batch_size\": %lld,\n  \"steps\": %d,\n", (long long)r->batch_size,
            r->steps);
    if (r->profiled)
        write_profile(file, r);
    fprintf(file, "  \"step_ms\": %.6g,\n  \"images_per_s\": %.6g,\n", r->step_ms,
            1e3 * (double)r->batch_size / r->step_ms);
    if (r->slowest_rank >= 0)
        fprintf(file, "  \"slowest_rank\": %d,\n  \"waited_ms\": %.6g,\n", r->slowest_rank,
                r->waited_ms);
    if (r->bound_ms > 0)
        fprintf(file, "  \"gradient_bytes\": %.0f,\n  \"communication_bound_ms\": %.6g,\n",
                r->gradient_bytes, r->bound_ms);
    fprintf(file, "  \"waiting_ms\": %.6g,\n  \"exposed_ms\": %.6g\n}\n", r->waiting_ms,
            r->exposed_ms);
    return cli_file_close(&written);
}

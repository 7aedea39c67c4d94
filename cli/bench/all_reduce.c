/*
 * `yoke bench all-reduce`: one or several backends in one run. Several take turns in each repeat,
 * so that what else happens on the machine meanwhile concerns all of them. So does the bound, the
 * time that memory needs to move what the ranks of one machine must.
 */
#define _GNU_SOURCE
#include "bench/all_reduce.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/memory_bound.h"
#include "common/clock.h"
#include "common/errors.h"
#include "common/files.h"
#include "common/json.h"
#include "common/median.h"
#include "common/plural.h"

enum { BACKENDS = 8, REPEATS = 31, NAMES = 256 };

static const size_t sizes[] = {4,       1 << 10, 4 << 10, 16 << 10, 64 << 10,
                               1 << 18, 1 << 20, 4 << 20, 16 << 20, 64 << 20};
enum { SIZES = sizeof sizes / sizeof *sizes };
static const size_t most_bytes = 64 << 20;
static const size_t bounded_bytes = 64 << 10; /* below, waiting takes longer than moving */

/* A group on each backend, with a buffer of the largest size. */
typedef struct comparison {
    cli_all_reduce_options options;
    int count;
    struct {
        yk_group *world;
        void *data;
        double times[REPEATS], medians[SIZES];
    } entries[BACKENDS];
    bool has_bound; /* see cli_memory_bound_exists */
    cli_memory_bound bound;
    double bound_times[REPEATS], bounds[SIZES];
} comparison;

/* ---- setting up ------------------------------------------------------------------------------ */

static bool allocate_data(const comparison *all, yk_group *world, void **data)
{
    if (!all->options.is_private)
        return cli_ok(yk_group_alloc(world, most_bytes, data));
    *data = calloc(1, most_bytes);
    return *data || cli_complain("no memory for a buffer of %zu bytes", most_bytes);
}

static bool add_backend(comparison *all, const char *backend)
{
    yk_group_options joining = YK_GROUP_OPTIONS_INIT;
    if (all->count == BACKENDS)
        return cli_complain("--backend: expected at most %d names", BACKENDS);
    yk_group **world = &all->entries[all->count].world;
    joining.backend = backend;
    if (!cli_ok(yk_group_init(world, &joining)))
        return false;
    all->count++;
    return allocate_data(all, *world, &all->entries[all->count - 1].data);
}

static bool add_backends(comparison *all)
{
    char names[NAMES];
    bool fine = true;
    if (!all->options.backends)
        return add_backend(all, NULL);
    snprintf(names, sizeof names, "%s", all->options.backends);
    for (char *rest = names, *name; fine && (name = strsep(&rest, ","));)
        fine = add_backend(all, name);
    return fine;
}

static bool add_bound(comparison *all)
{
    yk_group *world = all->entries[0].world;
    all->has_bound = cli_memory_bound_exists(world, all->options.is_private);
    return !all->has_bound ||
           cli_memory_bound_init(&all->bound, world, most_bytes, all->options.is_private);
}

static bool remove_backends(comparison *all)
{
    bool fine = true;
    for (int i = 0; i < all->count; i++) {
        if (all->options.is_private)
            free(all->entries[i].data);
        else
            fine = cli_ok(yk_group_free(all->entries[i].world, all->entries[i].data)) && fine;
        yk_group_destroy(all->entries[i].world);
    }
    return fine;
}

/* ---- measuring ------------------------------------------------------------------------------- */

static int calls_of(size_t bytes)
{
    return bytes < 1 << 16 ? 200 : bytes < 4 << 20 ? 10 : 1;
}

/* One all-reduce: the mean of a few calls. */
static bool time_calls(double *seconds, yk_group *world, void *data, size_t bytes)
{
    int calls = calls_of(bytes);
    if (!cli_ok(yk_barrier(world)))
        return false;
    double start = cli_clock_s();
    for (int call = 0; call < calls; call++)
        if (!cli_ok(yk_all_reduce(world, data, bytes / sizeof(float), YK_F32, YK_REDUCE_AVG, NULL)))
            return false;
    *seconds = (cli_clock_s() - start) / calls;
    return true;
}

/* On all ranks at once, since they share the memory's bandwidth, and perhaps cores. */
static bool time_bound(double *seconds, const comparison *all, size_t bytes)
{
    int calls = calls_of(bytes);
    yk_group *world = all->entries[0].world;
    if (!cli_ok(yk_barrier(world)))
        return false;
    double start = cli_clock_s();
    for (int call = 0; call < calls; call++)
        cli_memory_bound_pass(&all->bound, bytes);
    if (!cli_ok(yk_barrier(world)))
        return false;
    *seconds = (cli_clock_s() - start) / calls;
    return true;
}

static bool time_size(comparison *all, int size)
{
    bool bounded = all->has_bound && sizes[size] >= bounded_bytes;
    for (int repeat = 0; repeat < REPEATS; repeat++) {
        for (int i = 0; i < all->count; i++)
            if (!time_calls(&all->entries[i].times[repeat], all->entries[i].world,
                            all->entries[i].data, sizes[size]))
                return false;
        if (bounded && !time_bound(&all->bound_times[repeat], all, sizes[size]))
            return false;
    }
    for (int i = 0; i < all->count; i++)
        all->entries[i].medians[size] = cli_take_median(all->entries[i].times, REPEATS);
    all->bounds[size] = bounded ? cli_take_median(all->bound_times, REPEATS) : 0;
    return true;
}

/* ---- the table ------------------------------------------------------------------------------- */

static void print_heading(const comparison *all)
{
    int ranks = yk_group_size(all->entries[0].world);
    printf("all-reduce, f32, average, %d %s, backend", ranks, cli_plural(ranks, "rank", "ranks"));
    for (int i = 0; i < all->count; i++)
        printf("%s %s", i ? "," : "", yk_group_backend(all->entries[i].world));
    printf(", %s\n", all->options.is_private ? "private buffers" : "buffers of yk_group_alloc");
    if (all->has_bound)
        puts("bound: each rank's memory traffic alone, on all ranks at once, without waiting");
    putchar('\n');
    if (all->count > 1) {
        printf("%12s", "");
        for (int i = 0; i < all->count; i++)
            printf(" %34s", yk_group_backend(all->entries[i].world));
        putchar('\n');
    }
    printf("%12s", "bytes");
    for (int i = 0; i < all->count; i++)
        printf(" %12s %12s %8s", "microseconds", "GB/s", "of bound");
    printf(" %12s\n", "bound, us");
}

static void print_row(const comparison *all, int size)
{
    double bound = all->bounds[size];
    printf("%12zu", sizes[size]);
    for (int i = 0; i < all->count; i++) {
        double median = all->entries[i].medians[size];
        printf(" %12.2f %12.2f", 1e6 * median, 1e-9 * (double)sizes[size] / median);
        if (bound > 0)
            printf(" %6.0f %%", 100 * bound / median);
        else
            printf(" %8s", "-");
    }
    if (bound > 0)
        printf(" %12.2f\n", 1e6 * bound);
    else
        printf(" %12s\n", "-");
    fflush(stdout);
}

static void write_rows(const comparison *all, FILE *file)
{
    for (int size = 0; size < SIZES; size++) {
        fprintf(file, "    {\"bytes\": %zu, \"microseconds\": [", sizes[size]);
        for (int i = 0; i < all->count; i++)
            fprintf(file, "%s%.6g", i ? ", " : "", 1e6 * all->entries[i].medians[size]);
        fprintf(file, "], \"bound_microseconds\": ");
        if (all->bounds[size] > 0)
            fprintf(file, "%.6g}", 1e6 * all->bounds[size]);
        else
            fprintf(file, "null}");
        fputs(size + 1 < SIZES ? ",\n" : "\n", file);
    }
}

static bool write_json(const comparison *all)
{
    cli_file written;
    if (!cli_file_create(&written, all->options.json))
        return false;
    FILE *file = written.stream;
    fprintf(file, "{\n  \"yoke\": \"%s\",\n  \"ranks\": %d,\n  \"buffers\": \"%s\",\n",
            yk_version(), yk_group_size(all->entries[0].world),
            all->options.is_private ? "private" : "shared");
    fprintf(file, "  \"backends\": [");
    for (int i = 0; i < all->count; i++) {
        fputs(i ? ", " : "", file);
        cli_json_string(file, yk_group_backend(all->entries[i].world));
    }
    fprintf(file, "],\n  \"rows\": [\n");
    write_rows(all, file);
    fputs("  ]\n}\n", file);
    return cli_file_close(&written);
}

bool cli_bench_all_reduce(const cli_all_reduce_options *options)
{
    static comparison all;
    all.options = *options;
    bool fine = add_backends(&all) && add_bound(&all);
    bool prints = fine && yk_group_rank(all.entries[0].world) == 0;
    if (prints)
        print_heading(&all);
    for (int size = 0; fine && size < SIZES; size++) {
        fine = time_size(&all, size);
        if (fine && prints)
            print_row(&all, size);
    }
    if (fine && prints && options->json)
        fine = write_json(&all);
    cli_memory_bound_fini(&all.bound);
    return remove_backends(&all) && fine;
}

/*
 * `yoke bench all-reduce`: one or several backends in one run. Several take turns in each repeat,
 * so that what else happens on the machine meanwhile concerns all of them.
 */
#define _GNU_SOURCE
#include "bench/all_reduce.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "setup.h"

enum { BACKENDS = 8, REPEATS = 31, NAMES = 256 };

static const size_t sizes[] = {4,       1 << 10, 4 << 10, 16 << 10, 64 << 10,
                               1 << 18, 1 << 20, 4 << 20, 16 << 20, 64 << 20};
enum { SIZES = sizeof sizes / sizeof *sizes };

/* A group on each backend, with a buffer of the largest size. */
typedef struct contest {
    int count;
    struct {
        yk_group *world;
        void *data;
        double times[REPEATS];
    } entries[BACKENDS];
} contest;

static bool add_backend(contest *all, const char *backend)
{
    yk_group_options joining = YK_GROUP_OPTIONS_INIT;
    if (all->count == BACKENDS)
        return cli_complain("--backend: expected at most %d names", BACKENDS);
    yk_group **world = &all->entries[all->count].world;
    joining.backend = backend;
    if (!cli_ok(yk_group_init(world, &joining)))
        return false;
    all->count++;
    return cli_ok(yk_group_alloc(*world, sizes[SIZES - 1], &all->entries[all->count - 1].data));
}

static bool add_backends(contest *all, const char *backends)
{
    char names[NAMES];
    bool fine = true;
    if (!backends)
        return add_backend(all, NULL);
    snprintf(names, sizeof names, "%s", backends);
    for (char *rest = names, *name; fine && (name = strsep(&rest, ","));)
        fine = add_backend(all, name);
    return fine;
}

/* One all-reduce: the mean of a few calls. */
static bool time_calls(double *seconds, yk_group *world, void *data, size_t count)
{
    int calls = count < 1 << 14 ? 200 : count < 1 << 20 ? 10 : 1;
    if (!cli_ok(yk_barrier(world)))
        return false;
    double start = cli_clock_s();
    for (int call = 0; call < calls; call++)
        if (!cli_ok(yk_all_reduce(world, data, count, YK_F32, YK_REDUCE_AVG, NULL)))
            return false;
    *seconds = (cli_clock_s() - start) / calls;
    return true;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts the times of each backend, so that the median is in the middle. */
static bool time_size(contest *all, size_t bytes)
{
    for (int repeat = 0; repeat < REPEATS; repeat++)
        for (int i = 0; i < all->count; i++)
            if (!time_calls(&all->entries[i].times[repeat], all->entries[i].world,
                            all->entries[i].data, bytes / sizeof(float)))
                return false;
    for (int i = 0; i < all->count; i++)
        qsort(all->entries[i].times, REPEATS, sizeof(double), compare_doubles);
    return true;
}

static void print_heading(const contest *all)
{
    printf("all-reduce, f32, average, %d ranks, backend", yk_group_size(all->entries[0].world));
    for (int i = 0; i < all->count; i++)
        printf("%s %s", i ? "," : "", yk_group_backend(all->entries[i].world));
    printf(", buffers of yk_group_alloc\n\n");
    if (all->count > 1) {
        printf("%12s", "");
        for (int i = 0; i < all->count; i++)
            printf(" %25s", yk_group_backend(all->entries[i].world));
        putchar('\n');
    }
    printf("%12s", "bytes");
    for (int i = 0; i < all->count; i++)
        printf(" %12s %12s", "microseconds", "GB/s");
    putchar('\n');
}

static void print_row(const contest *all, size_t bytes)
{
    printf("%12zu", bytes);
    for (int i = 0; i < all->count; i++) {
        double median = all->entries[i].times[REPEATS / 2];
        printf(" %12.2f %12.2f", 1e6 * median, 1e-9 * (double)bytes / median);
    }
    putchar('\n');
    fflush(stdout);
}

bool cli_bench_all_reduce(const char *backends)
{
    static contest all;
    bool fine = add_backends(&all, backends);
    bool prints = fine && yk_group_rank(all.entries[0].world) == 0;
    if (prints)
        print_heading(&all);
    for (int i = 0; fine && i < SIZES; i++) {
        fine = time_size(&all, sizes[i]);
        if (fine && prints)
            print_row(&all, sizes[i]);
    }
    for (int i = 0; i < all.count; i++) {
        fine = cli_ok(yk_group_free(all.entries[i].world, all.entries[i].data)) && fine;
        yk_group_destroy(all.entries[i].world);
    }
    return fine;
}

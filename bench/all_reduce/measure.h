/*
 * What the three programs share, so that they measure the same thing: for each size the median of
 * a few blocks of all-reduces (f32, sum, in place), each block started together and timed on rank
 * 0. The first all-reduce of a size is checked; later ones add zeros, which never overflow.
 * Valid C and C++.
 */
#ifndef BENCH_ALL_REDUCE_MEASURE_H
#define BENCH_ALL_REDUCE_MEASURE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The last but one is the gradient of ResNet-18 for CIFAR-10. */
static const size_t measured_bytes[] = {4,       4096,     65536,    1048576,
                                        4194304, 16777216, 44695848, 67108864};
enum {
    MEASURED_SIZES = sizeof measured_bytes / sizeof *measured_bytes,
    MEASURED_MAX_BYTES = 67108864,
    MEASURED_BLOCKS = 7,
    MEASURED_MAX_ROUNDS = 5000
};
static const double block_seconds = 0.02;

/* Sums count floats over all ranks; ends the program when it cannot. */
typedef void (*all_reduce_fn)(float *data, size_t count);

static double measure_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int measure_by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double time_rounds(all_reduce_fn all_reduce, float *data, size_t count, int rounds)
{
    all_reduce(data, 1); /* a barrier */
    double start = measure_now();
    for (int i = 0; i < rounds; i++)
        all_reduce(data, count);
    return (measure_now() - start) / rounds;
}

static void check_sum(all_reduce_fn all_reduce, float *data, size_t count, int rank, int world)
{
    const int sum = world * (world + 1) / 2;
    for (size_t i = 0; i < count; i++)
        data[i] = (float)(rank + 1);
    all_reduce(data, count);
    for (size_t i = 0; i < count; i++)
        if (data[i] != (float)sum) {
            fprintf(stderr, "wrong sum at element %zu of %zu: %g\n", i, count, (double)data[i]);
            exit(1);
        }
    memset(data, 0, count * sizeof *data);
}

/* How many rounds fill a block: rank 0's count, on all ranks. */
static int choose_rounds(all_reduce_fn all_reduce, float *data, size_t count, int rank)
{
    double rounds = block_seconds / time_rounds(all_reduce, data, count, 3);
    if (rounds > MEASURED_MAX_ROUNDS)
        rounds = MEASURED_MAX_ROUNDS;
    rounds = rounds < 1 ? 1 : rounds;
    data[0] = rank == 0 ? (float)(int)rounds : 0;
    all_reduce(data, 1);
    int agreed = (int)data[0];
    data[0] = 0;
    return agreed;
}

/* data has room for MEASURED_MAX_BYTES. Rank 0 prints {"BYTES": MICROSECONDS, ...}. */
static void measure_all_sizes(all_reduce_fn all_reduce, float *data, int rank, int world)
{
    memset(data, 0, MEASURED_MAX_BYTES);
    char line[64 * MEASURED_SIZES] = "{";
    size_t at = 1;
    for (int s = 0; s < MEASURED_SIZES; s++) {
        size_t count = measured_bytes[s] / sizeof *data;
        check_sum(all_reduce, data, count, rank, world);
        int rounds = choose_rounds(all_reduce, data, count, rank);
        double seconds[MEASURED_BLOCKS];
        for (int b = 0; b < MEASURED_BLOCKS; b++)
            seconds[b] = time_rounds(all_reduce, data, count, rounds);
        qsort(seconds, MEASURED_BLOCKS, sizeof *seconds, measure_by_value);
        at += (size_t)snprintf(line + at, sizeof line - at, "%s\"%zu\": %.3f", s ? ", " : "",
                               measured_bytes[s], 1e6 * seconds[MEASURED_BLOCKS / 2]);
    }
    if (rank == 0)
        printf("%s}\n", line);
}

#endif

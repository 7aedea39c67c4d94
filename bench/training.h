/* What the benchmarks that train on random data share. */
#ifndef YOKE_BENCH_TRAINING_H
#define YOKE_BENCH_TRAINING_H

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <yoke/yoke.h>

/* Seconds since some moment. */
static inline double bench_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Zeros; ends the program if there is no memory. */
static inline void *bench_allocate(int64_t count, size_t size)
{
    void *memory = calloc((size_t)count, size);
    if (!memory) {
        fprintf(stderr, "no memory for %lld x %zu bytes\n", (long long)count, size);
        exit(1);
    }
    return memory;
}

/* `size` random images of 3 x side x side and their labels of ten classes, to be released. */
static inline void bench_make_batch(yk_batch *batch, yk_tensor tensors[2], int64_t size,
                                    int64_t side)
{
    static const char *const names[] = {"images", "labels"};
    int64_t count = size * 3 * side * side;
    float *pixels = bench_allocate(count, sizeof *pixels);
    int32_t *classes = bench_allocate(size, sizeof *classes);
    srand48(1);
    for (int64_t i = 0; i < count; i++)
        pixels[i] = (float)(drand48() * 4 - 2);
    for (int64_t i = 0; i < size; i++)
        classes[i] = (int32_t)(lrand48() % 10);
    tensors[0] =
        (yk_tensor){.data = pixels, .dtype = YK_F32, .ndim = 4, .dims = {size, 3, side, side}};
    tensors[1] = (yk_tensor){.data = classes, .dtype = YK_I32, .ndim = 1, .dims = {size}};
    *batch = (yk_batch){.size = size, .count = 2, .names = names, .tensors = tensors};
}

static inline void bench_release_batch(yk_tensor tensors[2])
{
    free(tensors[0].data);
    free(tensors[1].data);
}

#endif

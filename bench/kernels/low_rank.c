/*
 * What PowerSGD computes in a step, without its exchanges: the passes of device/low_rank.h over the
 * gradients of ResNet-18 (CIFAR), 45 MB, by one thread in the host's memory.
 *
 * usage: low_rank [rank]. Medians of repeats, in ms, of each pass and of a step.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/memory.h"
#include "device/low_rank.h"

enum { REPEATS = 31, MOST = 32 };

/* Rows, columns and how often. */
static const int64_t shapes[][3] = {{10, 512, 1},   {512, 4608, 3}, {512, 256, 1},  {512, 2304, 1},
                                    {256, 2304, 3}, {256, 128, 1},  {256, 1152, 1}, {128, 1152, 3},
                                    {128, 64, 1},   {128, 576, 1},  {64, 576, 4},   {64, 27, 1}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static const char *const names[YKI_LOW_RANK_OPS] = {
    [YKI_LOW_RANK_ORTHONORMALISE_Q] = "orthonormalise Q",
    [YKI_LOW_RANK_PROJECT] = "project",
    [YKI_LOW_RANK_ORTHONORMALISE_P] = "orthonormalise P",
    [YKI_LOW_RANK_PROJECT_BACK] = "project back",
    [YKI_LOW_RANK_APPROXIMATE] = "approximate",
};

static float *draw(int64_t count)
{
    float *values = yki_map((size_t)count * sizeof *values);
    for (int64_t i = 0; i < count; i++)
        values[i] = yki_low_rank_draw(1, 2, (uint64_t)i) * 1e-3F;
    return values;
}

static int make(yki_low_rank *matrices, int64_t rank)
{
    int count = 0;
    for (int s = 0; s < SHAPES; s++)
        for (int64_t i = 0; i < shapes[s][2]; i++) {
            int64_t n = shapes[s][0], m = shapes[s][1];
            matrices[count++] = (yki_low_rank){.matrix = draw(n * m),
                                               .error = draw(n * m),
                                               .p = draw(rank * n),
                                               .q = draw(rank * m),
                                               .n = n,
                                               .m = m,
                                               .rank = rank};
        }
    return count;
}

/* Seconds of a pass over all matrices. */
static double pass(yki_low_rank_op op, const yki_low_rank *matrices, int count)
{
    static const double good;
    double begin = yki_now();
    for (int i = 0; i < count; i++) {
        yki_low_rank_args args = {.op = op,
                                  .at = matrices[i],
                                  .matrices = &matrices[i],
                                  .matrix_count = 1,
                                  .epsilon = 1e-8,
                                  .share = 0.5F,
                                  .bad = &good};
        yki_low_rank_run(&args);
    }
    return yki_now() - begin;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print_median(const char *name, double *seconds)
{
    qsort(seconds, REPEATS, sizeof *seconds, by_size);
    printf("%-18s %7.2f ms\n", name, 1e3 * seconds[REPEATS / 2]);
}

int main(int argc, char **argv)
{
    static const yki_low_rank_op order[] = {YKI_LOW_RANK_ORTHONORMALISE_Q, YKI_LOW_RANK_PROJECT,
                                            YKI_LOW_RANK_ORTHONORMALISE_P,
                                            YKI_LOW_RANK_PROJECT_BACK, YKI_LOW_RANK_APPROXIMATE};
    enum { PASSES = sizeof order / sizeof *order };
    static double seconds[PASSES + 1][REPEATS];
    yki_low_rank matrices[MOST];
    int count = make(matrices, argc > 1 ? atoi(argv[1]) : 1);
    for (int repeat = -1; repeat < REPEATS; repeat++) { /* the first one warms up */
        double all = 0;
        for (int i = 0; i < PASSES; i++) {
            double taken = pass(order[i], matrices, count);
            all += taken;
            if (repeat >= 0)
                seconds[i][repeat] = taken;
        }
        if (repeat >= 0)
            seconds[PASSES][repeat] = all;
    }
    for (int i = 0; i < PASSES; i++)
        print_median(names[order[i]], seconds[i]);
    print_median("a step", seconds[PASSES]);
}

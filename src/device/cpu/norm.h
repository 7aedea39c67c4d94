/*
 * Between the files of batch_norm: norm.c has the arithmetic, norm_units.c divides the work, runs
 * it on the threads and, if synchronised, lets the ranks exchange their results.
 *
 * A unit of work is a slice of the images of one channel block. If the blocks can be divided evenly
 * among the threads, each block is one slice, so that a thread makes both sweeps one after the
 * other. Otherwise blocks are cut into as many slices as make the units even, with a barrier
 * between the sweeps. Sums are combined in the order of slices, so the result depends on the number
 * of threads but never on their timing.
 */
#ifndef YKI_NORM_H
#define YKI_NORM_H

#include "device/cpu/geometry.h"
#include "device/cpu/loops/loops.h"

enum { YKI_NORM_MAX_BLOCK = 16 };

/* The results of a slice for its channels: count, mean, squared distances; in backward two sums. */
typedef struct yki_norm_partial {
    double count;
    double first[YKI_NORM_MAX_BLOCK], second[YKI_NORM_MAX_BLOCK];
} yki_norm_partial;

typedef struct yki_norm {
    yki_kernel base;
    const yki_cpu_loops *loops;
    yki_geometry shape;
    yki_runs runs; /* of block 0 */
    int64_t run_count, slices;
    int team;
    bool training, stream, stream_kept;
    yki_fused activation;
    double eps, momentum;
    bool in[YKI_MAX_IN], out[YKI_MAX_OUT]; /* which operands there are */
} yki_norm;

typedef struct yki_norm_unit {
    int64_t block, slice, channel, channels; /* the block's first channel, and how many it has */
    yki_runs runs;
    yki_run_range range;
    yki_norm_partial *partials; /* all slices of the block */
} yki_norm_unit;

/* Also of batch_norm_apply and batch_norm_backward: their first operand is x too. */
yk_status yki_norm_prepare(yki_device *device, const yki_kernel_desc *desc, yki_kernel **kernel);

/* The number of pixels in a range of runs. */
int64_t yki_norm_pixels(const yki_runs *runs, yki_run_range range);

typedef void (*yki_norm_unit_fn)(const yki_norm *k, const yki_kernel_args *run,
                                 const yki_norm_unit *u);

/* Makes one sweep over all units. */
void yki_norm_sweep_once(const yki_norm *k, const yki_kernel_args *run, yki_norm_unit_fn function);

/* Makes both sweeps over all units. */
void yki_norm_sweep(const yki_norm *k, const yki_kernel_args *run, yki_norm_unit_fn first,
                    yki_norm_unit_fn second);

/* This rank's results for a channel: the two numbers that the ranks exchange. */
typedef void (*yki_norm_found_fn)(const yki_norm *k, const yki_kernel_args *run,
                                  const yki_norm_unit *u, int64_t c, double *first, double *second);

/* Makes both sweeps, with the exchange between ranks in the middle. */
yk_status yki_norm_sweep_synced(const yki_norm *k, const yki_kernel_args *run,
                                yki_norm_unit_fn first, yki_norm_found_fn found,
                                yki_norm_unit_fn second);

#endif

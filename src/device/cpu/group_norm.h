/*
 * Between the files of group_norm: group_norm.c has the arithmetic, group_norm_units.c divides the
 * work and runs it on the threads.
 *
 * A piece is a slice of the pixels of a channel block of a sample. How many pieces there are
 * depends on shapes alone, and sums over them are made in their order, so the bits do not depend on
 * the number of threads.
 */
#ifndef YKI_GROUP_NORM_H
#define YKI_GROUP_NORM_H

#include "device/cpu/geometry.h"
#include "device/cpu/loops/loops.h"

enum {
    YKI_GROUP_NORM_MOST_BLOCK = 16,
    YKI_GROUP_NORM_SAMPLES = 4 /* values of a group whose mean is near enough to the group's */
};

typedef struct yki_group_norm {
    yki_kernel base;
    const yki_cpu_loops *loops;
    yki_geometry shape;
    yki_runs runs;                  /* of block 0 */
    int64_t groups, group_channels; /* of a sample, and of a group */
    int64_t slices;                 /* of the runs of a block of a sample */
    int64_t cluster;                /* blocks that have whole groups together */
    int team;
    bool stream, is_whole; /* is_whole: threads take whole clusters, not pieces */
    bool is_small;         /* pieces are whole blocks of f32, as wide as a vector */
    bool is_apart;         /* which no groups share, and groups are taken one by one */
    bool is_shared;        /* or which have several whole groups */
    double eps;
    size_t means_at, invstds_at, slopes_at; /* in scratch memory, after the sums */
    bool in[YKI_MAX_IN], out[YKI_MAX_OUT];
    int64_t samples[]; /* (groups, SAMPLES): elements of a sample */
} yki_group_norm;

/* What the sweeps of a run share. Where no other size is given, arrays are (N, groups). */
typedef struct yki_group_norm_work {
    const yki_group_norm *k;
    const yki_kernel_args *run;
    double *sums; /* (N, slices, 2, channels): two sums of each channel of a piece */
    const float *weight, *bias;
    float *means, *invstds; /* means: of forward, first the values that are subtracted */
    float *slopes;          /* (N, groups, 2): of backward, b and c of yki_norm_slopes */
} yki_group_norm_work;

typedef struct yki_group_norm_piece {
    int64_t sample, slice, channel, channels; /* the block's first channel, and how many it has */
    int64_t at;                               /* the block's first element */
} yki_group_norm_piece;

/* Also of group_norm_backward: its first operand is x, too. */
yk_status yki_group_norm_prepare(yki_device *device, const yki_kernel_desc *desc,
                                 yki_kernel **kernel);

/* The runs of a piece. */
yki_run_range yki_group_norm_runs(const yki_group_norm *k, const yki_group_norm_piece *p,
                                  yki_runs *runs);

typedef void (*yki_group_norm_piece_fn)(const yki_group_norm_work *w,
                                        const yki_group_norm_piece *p);
typedef void (*yki_group_norm_group_fn)(const yki_group_norm_work *w, int64_t sample,
                                        int64_t group);

/* `begin` comes before the first sweep, and `settle` makes of the sums that the first has left what
 * the second needs. All may be NULL. */
typedef struct yki_group_norm_sweeps {
    yki_group_norm_group_fn begin, settle;
    yki_group_norm_piece_fn first, second;
} yki_group_norm_sweeps;

void yki_group_norm_sweep(const yki_group_norm_work *w, const yki_group_norm_sweeps *s);

#endif

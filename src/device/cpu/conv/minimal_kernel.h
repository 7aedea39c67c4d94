/*
 * What the kernels by minimal filtering (minimal.h) share: minimal.c, forward and the gradient of
 * x, and minimal_weight.c, the weights' gradient. Both divide tiles into blocks and channels into
 * groups, transform them to slabs, and multiply.
 *
 * Threads take the next unit of work when they have finished one, so that a thread whose core is
 * shared with another process does less, and they wait for each other twice a kernel, or twice for
 * some groups of its outputs. The order in which sums are added depends on the shape alone: the
 * result has the same bits with any number of threads.
 */
#ifndef YKI_MINIMAL_KERNEL_H
#define YKI_MINIMAL_KERNEL_H

#include <omp.h>

#include "device/cpu/conv/minimal.h"
#include "device/cpu/cpu.h"

/* Images, and their channels in groups of 64, of which the last may have fewer. */
typedef struct yki_minimal_activation {
    yk_dtype dtype;
    int64_t channels, padded; /* as in memory */
    int64_t groups, rows, columns;
} yki_minimal_activation;

typedef struct yki_minimal_kernel {
    yki_kernel base;
    const yki_minimal *algorithm;
    int64_t slab;                                                        /* floats */
    int64_t offsets[YKI_MINIMAL_MATRICES], points[YKI_MINIMAL_MATRICES]; /* of a slab's matrices */

    /* What is read and what is made; for the weights' gradient x and dy. */
    yki_minimal_activation x, y;
    int64_t images, tiles_down, tiles_across, tiles, blocks;
    int team;
    /* The location of the weight of row r (an input channel) and column c (an output channel). */
    int64_t row_stride, column_stride;
    bool bias; /* or its gradient */
    /* Of forward and the gradient of x: */
    bool turned;     /* the latter */
    bool stream;     /* results are written past the caches */
    bool by_outputs; /* and not by blocks */
    /* Of the weights' gradient: */
    int64_t parts;      /* of the blocks; 0: all are transformed first */
    bool split_outputs; /* a part's output groups are units of their own */
    int64_t turn;       /* without parts: output groups whose dy is transformed at a time */
} yki_minimal_kernel;

/* Makes a kernel, but for strides, plan and scratch memory. small: of x and y the one with fewer
 * pixels, which is cut into tiles. NULL without memory. */
yki_minimal_kernel *yki_minimal_create(const yki_device *device, const yki_attrs *attrs,
                                       const yki_operand *x, const yki_operand *y,
                                       const yki_operand *small);

/* Whether a convolution can be computed so, and whether that is expected to be faster than direct
 * convolution in f32; bf16_gains.h has the rules for bf16. large and small: of x and y (or their
 * gradients) the one with more and with fewer pixels. */
bool yki_minimal_supports(const yki_device *device, const yki_attrs *attrs,
                          const yki_operand *large, const yki_operand *small,
                          const yki_operand *weight);
bool yki_minimal_gains(const yki_attrs *attrs, const yki_operand *large, const yki_operand *small);
/* Whether groups are as full as they have to be, which is one condition of yki_minimal_gains. */
bool yki_minimal_fills_groups(const yki_operand *a, int64_t stride);

/* ---- memory of threads ----------------------------------------------------------------------- */

/* For how many units of work there must be memory at a time: one for each thread, or all of them if
 * there are fewer units than threads. */
static inline int64_t yki_minimal_places(const yki_minimal_kernel *k, int64_t units)
{
    return units < k->team ? units : k->team;
}

/* The place in memory of a unit, called by the thread that computes it. */
static inline int64_t yki_minimal_place(const yki_minimal_kernel *k, int64_t units, int64_t unit)
{
    return units < k->team ? unit : omp_get_thread_num();
}

/* ---- blocks and groups ----------------------------------------------------------------------- */

/* Of tiles, blocks or groups: [begin, end). */
typedef struct yki_minimal_range {
    int64_t begin, end;
} yki_minimal_range;

/* The tiles of a block. */
yki_minimal_range yki_minimal_block(const yki_minimal_kernel *k, int64_t block);

/* The channels of a group, and those with padding, which are zero. */
static inline int64_t yki_minimal_channels(const yki_minimal_activation *a, int64_t group)
{
    int64_t left = a->channels - group * YKI_MINIMAL_SIDE;
    return left < YKI_MINIMAL_SIDE ? left : YKI_MINIMAL_SIDE;
}

static inline int64_t yki_minimal_padded(const yki_minimal_activation *a, int64_t group)
{
    int64_t left = a->padded - group * YKI_MINIMAL_SIDE;
    return left < YKI_MINIMAL_SIDE ? left : YKI_MINIMAL_SIDE;
}

/* The plane of a vector's channels, from `channel` of `group` on. */
static inline yki_minimal_plane yki_minimal_plane_of(const yki_minimal_activation *a,
                                                     const void *data, int64_t image, int64_t group,
                                                     int64_t channel)
{
    int64_t channels = image * a->padded + group * YKI_MINIMAL_SIDE + channel;
    size_t offset = (size_t)(channels * a->rows * a->columns) * yk_dtype_size(a->dtype);
    return (yki_minimal_plane){.data = (char *)(uintptr_t)data + offset,
                               .dtype = a->dtype,
                               .rows = a->rows,
                               .columns = a->columns};
}

/* These groups of an activation into slabs, one each. */
void yki_minimal_transform(const yki_minimal_kernel *k, yki_minimal_to_points *transform,
                           const yki_minimal_activation *a, const void *data,
                           yki_minimal_range tiles, yki_minimal_range groups, float *slabs);

#endif

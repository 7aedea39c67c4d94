/*
 * What the kernels by Winograd's algorithm on AVX-512 (winograd.h) share: winograd.c, forward and
 * the gradient of x, and winograd_weight.c, the weights' gradient. Both divide tiles into blocks
 * and channels into groups of 64, transform them to slabs, and multiply.
 *
 * Threads take the next piece of work when they have finished one, so that a thread whose core is
 * shared with another process does less, and they wait for each other twice a kernel, or twice a
 * batch of blocks. The order in which sums are added depends on the shape alone: the result has the
 * same bits with any number of threads.
 */
#ifndef YKI_WINOGRAD_KERNEL_H
#define YKI_WINOGRAD_KERNEL_H

#include "device/cpu/cpu.h"
#include "device/cpu/x86/winograd.h"

enum {
    YKI_WINOGRAD_PAD = YKI_WINOGRAD_LANES, /* floats between matrices, see winograd.h */
    YKI_WINOGRAD_LEAST_TILES = 32          /* fewer cannot make up for transforming weights */
};

typedef struct yki_winograd_kernel {
    yki_kernel base;
    const yki_winograd_form *form;
    /* What is read and what is made; for the weights' gradient x and dy. */
    yki_winograd_tiles x, y;
    int64_t tiles, blocks, rows; /* rows of a block's matrices: its tiles at most */
    int team;
    /* The location of the weight of row r (an input channel) and column c (an output channel). */
    int64_t row_stride, column_stride;
    /* Forward and the gradient of x: */
    bool turned;       /* the latter */
    bool weights_once; /* transformed before all blocks */
    bool by_outputs;   /* all inputs are transformed first; 64 outputs are a unit of work */
    /* Weights' gradient: */
    int64_t parts;     /* of the blocks; 0: by pairs */
    bool split_inputs; /* a part's input groups are pieces of their own: more threads than parts */
    int64_t batch;     /* by pairs: blocks transformed at a time */
    bool whole_pairs;  /* ... all of them; a thread sums a pair alone and writes its gradient */
} yki_winograd_kernel;

/* The index-th slab of a block's tiles, 64 channels of them. */
static inline yki_winograd_slab yki_winograd_slab_at(const yki_winograd_kernel *k, float *slabs,
                                                     int64_t index)
{
    int64_t stride = k->rows * YKI_WINOGRAD_SIDE + YKI_WINOGRAD_PAD;
    return (yki_winograd_slab){slabs + index * YKI_WINOGRAD_POINTS * stride, stride};
}

static inline int64_t yki_winograd_slab_floats(const yki_winograd_kernel *k)
{
    return YKI_WINOGRAD_POINTS * (k->rows * YKI_WINOGRAD_SIDE + YKI_WINOGRAD_PAD);
}

static inline yki_winograd_span yki_winograd_block(const yki_winograd_kernel *k, int64_t block)
{
    return (yki_winograd_span){k->tiles * block / k->blocks, k->tiles * (block + 1) / k->blocks};
}

/* Divides the tiles into blocks of at most `most`. */
static inline void yki_winograd_divide(yki_winograd_kernel *k, int64_t most)
{
    k->blocks = (k->tiles + most - 1) / most;
    int64_t rows = (k->tiles + k->blocks - 1) / k->blocks, multiple = k->form->rows;
    k->rows = (rows + multiple - 1) / multiple * multiple;
}

static inline yki_winograd_tiles yki_winograd_with_data(const yki_winograd_tiles *tiles,
                                                        const void *data)
{
    yki_winograd_tiles with = *tiles;
    with.data = (void *)(uintptr_t)data;
    return with;
}

/* The offset of the weight of a row and a column. */
static inline int64_t yki_winograd_weight_at(const yki_winograd_kernel *k, int64_t row,
                                             int64_t column)
{
    return row * k->row_stride + column * k->column_stride;
}

static inline void yki_winograd_enter(const yki_winograd_kernel *k)
{
    if (k->form->begin)
        k->form->begin();
}

static inline void yki_winograd_leave(const yki_winograd_kernel *k)
{
    if (k->form->end)
        k->form->end();
}

/* Makes a kernel, but for strides, plan and scratch memory. NULL without memory. */
yki_winograd_kernel *yki_winograd_create(const yki_device *device, const yki_operand *x,
                                         const yki_operand *y, int64_t padding);
bool yki_winograd_supports(const yki_device *device, const yki_attrs *attrs, const yki_operand *x,
                           const yki_operand *y, const yki_operand *weight);
int64_t yki_winograd_tiles_of(const yki_operand *y);

#endif

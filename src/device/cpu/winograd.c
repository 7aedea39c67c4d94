/*
 * 3x3 convolution of stride 1 by Winograd's F(4x4, 3x3), forward and both gradients, on AVX-512;
 * activations in f32, bf16 or f16, weights and arithmetic in f32. The transformations are in
 * winograd.h and the products in panel.h; this file divides the work among threads and orders it.
 *
 * Forward and backward data (a convolution with rotated weights) work on blocks of up to 64 tiles.
 * A block's input is transformed, and for 64 output channels at a time its 36 products sum over all
 * input channels. The transformed weights are four times as large as the weights. If there are few
 * blocks, they are computed where they are used; deep layers gain most from that, since their
 * weights would otherwise pass through memory. Otherwise they are computed once, and stored in the
 * order in which they are multiplied by.
 *
 * The weights' gradient sums over tiles, for every pair of 64 input and 64 output channels. Where
 * there are few pairs, the blocks are divided into parts: a part's blocks are transformed and
 * multiplied one after the other into sums that belong to the part, and the parts' sums are added
 * in order, so a thread reads what it has transformed itself. Otherwise a batch of blocks is
 * transformed first, and then each pair takes its products from all of them.
 *
 * Threads take the next piece of work when they have finished one, so that a thread whose core is
 * shared with another process does less, and they wait for each other twice a kernel, or twice a
 * batch of blocks. Batches are small, so that they are read from the cache they were written to.
 * The order in which sums are added depends on the shape alone: the result has the same bits with
 * any number of threads.
 */
#include "device/cpu/winograd.h"

#include <stdlib.h>

#include "base/memory.h"
#include "device/cpu/bf16_gains.h"
#include "device/cpu/geometry.h"
#include "device/cpu/onednn.h"

enum {
    SIDE = YKI_WINOGRAD_SIDE,
    TILE = YKI_WINOGRAD_TILE,
    POINTS = YKI_WINOGRAD_POINTS,
    LANES = YKI_WINOGRAD_LANES,
    COLUMNS = SIDE / LANES, /* vectors of a row */
    PANEL = YKI_PANEL,
    PAD = LANES,                   /* floats between matrices, see winograd.h */
    SUMS = POINTS * (PANEL + PAD), /* floats of a slab of 64 x 64 sums */
    TAPS = 9,
    LEAST_TILES = 32,  /* with fewer the weights' transformation costs more than it saves */
    SMALL_BLOCK = 36,  /* tiles of a block, six rows of products at a time, where blocks are few */
    THREAD_BLOCKS = 8, /* full blocks of a thread that are not few */
    LEAST_PARTS = 4,
    MOST_PARTS = 16,
    PART_BLOCKS = 16, /* that a part should have: each costs a pass over its sums */
    MANY_PAIRS = 8,   /* with as many or more, the weights' gradient is computed by pairs */
    BATCH_SLABS = 8   /* a thread; of blocks that pairs take their products from */
};

typedef yki_winograd_span span;

typedef struct winograd {
    yki_kernel base;
    const yki_winograd_form *form;
    /* What is read and what is made; for the weights' gradient x and dy. */
    yki_winograd_tiles x, y;
    int64_t tiles, blocks, rows; /* rows of a block's matrices: its tiles at most */
    int team;
    /* The location of the weight of row r (an input channel) and column c (an output channel). */
    int64_t row_stride, column_stride;
    bool turned;
    bool weights_once; /* transformed before all blocks */
    /* Weights' gradient: */
    int64_t parts;     /* of the blocks; 0: by pairs */
    bool split_inputs; /* a part's input groups are pieces of their own: more threads than parts */
    int64_t batch;     /* by pairs: blocks transformed at a time */
    bool whole_pairs;  /* ... all of them; a thread sums a pair alone and writes its gradient */
} winograd;

/* ---- memory --------------------------------------------------------------------------------- */

/* The index-th slab of a block's tiles, 64 channels of them. */
static yki_winograd_slab slab_at(const winograd *k, float *slabs, int64_t index)
{
    int64_t stride = k->rows * SIDE + PAD;
    return (yki_winograd_slab){slabs + index * POINTS * stride, stride};
}

static int64_t slab_floats(const winograd *k)
{
    return POINTS * (k->rows * SIDE + PAD);
}

/* The index-th slab of 64 x 64 sums of the weights' gradient. */
static yki_winograd_slab sums_at(float *sums, int64_t index)
{
    return (yki_winograd_slab){sums + index * SUMS, PANEL + PAD};
}

/*
 * Transformed weights, all those of 64 outputs together: at each point the panels of all inputs
 * follow each other, in the order in which they are used.
 */
static yki_winograd_slab weights_at(float *weights, int64_t groups, int64_t in, int64_t out)
{
    int64_t stride = groups * PANEL + PAD;
    return (yki_winograd_slab){weights + out * POINTS * stride + in * PANEL, stride};
}

static int64_t weights_floats(int64_t groups)
{
    return POINTS * (groups * PANEL + PAD);
}

/* ---- tiles ---------------------------------------------------------------------------------- */

static span block_span(const winograd *k, int64_t block)
{
    return (span){k->tiles * block / k->blocks, k->tiles * (block + 1) / k->blocks};
}

/* Divides the tiles into blocks of at most `most`. */
static void divide_tiles(winograd *k, int64_t most)
{
    k->blocks = (k->tiles + most - 1) / most;
    int64_t rows = (k->tiles + k->blocks - 1) / k->blocks, multiple = k->form->rows;
    k->rows = (rows + multiple - 1) / multiple * multiple;
}

static yki_winograd_tiles with_data(const yki_winograd_tiles *tiles, const void *data)
{
    yki_winograd_tiles with = *tiles;
    with.data = (void *)(uintptr_t)data;
    return with;
}

/* ---- weights -------------------------------------------------------------------------------- */

static int64_t weight_at(const winograd *k, int64_t row, int64_t column)
{
    return row * k->row_stride + column * k->column_stride;
}

/* The weights from 64 input channels to 64 output channels; rows are input channels. */
static void transform_weight(const winograd *k, const float *weight, int64_t in, int64_t out,
                             yki_winograd_slab to)
{
    yki_winograd_weights from = {.at = weight + weight_at(k, in * SIDE, out * SIDE),
                                 .row = k->row_stride,
                                 .column = k->column_stride,
                                 .turned = k->turned};
    k->form->weight(&from, to);
}

static void enter(const winograd *k)
{
    if (k->form->begin)
        k->form->begin();
}

static void leave(const winograd *k)
{
    if (k->form->end)
        k->form->end();
}

/* ---- forward, and backward data ------------------------------------------------------------- */

/* One block's inputs, `groups` slabs, times the weights from them to 64 outputs. */
static void multiply_points(const winograd *k, yki_winograd_slab data, int64_t groups,
                            yki_winograd_slab weights, int64_t rows, bool first,
                            yki_winograd_slab results)
{
    for (int64_t p = 0; p < POINTS; p++)
        k->form->multiply(&(yki_winograd_product){.a = data.at + p * data.stride,
                                                  .b = weights.at + p * weights.stride,
                                                  .c = results.at + p * results.stride,
                                                  .groups = groups,
                                                  .a_step = slab_floats(k),
                                                  .b_step = PANEL,
                                                  .rows = rows,
                                                  .first = first});
}

/* A thread's own memory: the block's input, 64 channels of its results, and the weights of a pair
 * unless all are there. */
static int64_t own_floats(const winograd *k)
{
    return (k->x.of.groups + 1) * slab_floats(k) + (k->weights_once ? 0 : weights_floats(1));
}

static void multiply_block(const winograd *k, const float *weight, float *all_weights, int64_t rows,
                           int64_t out, float *own)
{
    const int64_t groups = k->x.of.groups;
    yki_winograd_slab results = slab_at(k, own, groups);
    if (k->weights_once) {
        multiply_points(k, slab_at(k, own, 0), groups, weights_at(all_weights, groups, 0, out),
                        rows, true, results);
        return;
    }
    yki_winograd_slab weights = weights_at(own + (groups + 1) * slab_floats(k), 1, 0, 0);
    for (int64_t in = 0; in < groups; in++) {
        transform_weight(k, weight, in, out, weights);
        multiply_points(k, slab_at(k, own, in), 1, weights, rows, in == 0, results);
    }
}

static void convolve_block(const winograd *k, const yki_kernel_args *run, float *weights,
                           int64_t block, float *own)
{
    const int64_t groups = k->x.of.groups;
    span tiles = block_span(k, block);
    yki_winograd_tiles x = with_data(&k->x, run->in[0]), y = with_data(&k->y, run->out[0]);
    y.stream = y.stream && (uintptr_t)y.data % YKI_ALIGNMENT == 0;
    for (int64_t in = 0; in < groups; in++)
        k->form->data(&x, tiles, in, slab_at(k, own, in));
    for (int64_t out = 0; out < k->y.of.groups; out++) {
        multiply_block(k, run->in[1], weights, tiles.end - tiles.begin, out, own);
        yki_winograd_result(slab_at(k, own, groups), &y, tiles, out);
    }
    if (y.stream)
        yki_stream_settle();
}

static yk_status convolve(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const winograd *k = (const winograd *)kernel;
    const int64_t groups = k->x.of.groups, outputs = k->y.of.groups;
    float *weights = run->scratch;
    float *threads = weights + (k->weights_once ? outputs * weights_floats(groups) : 0);
#pragma omp parallel num_threads(k->team) if (k->team > 1)
    {
        enter(k);
        if (k->weights_once) {
#pragma omp for schedule(dynamic)
            for (int64_t i = 0; i < groups * outputs; i++)
                transform_weight(k, run->in[1], i % groups, i / groups,
                                 weights_at(weights, groups, i % groups, i / groups));
        }
#pragma omp for schedule(dynamic) nowait
        for (int64_t block = 0; block < k->blocks; block++)
            convolve_block(k, run, weights, block, threads + omp_get_thread_num() * own_floats(k));
        leave(k);
    }
    return YK_OK;
}

/* ---- backward weight ------------------------------------------------------------------------ */

/* Blocks that have been transformed: the slabs of these input groups, then of all of dy. */
typedef struct transformed {
    span blocks, groups;
    float *data, *gradient;
} transformed;

static void transform_block(const winograd *k, const yki_kernel_args *run, const transformed *t,
                            int64_t block)
{
    yki_winograd_tiles x = with_data(&k->x, run->in[YKI_CONV2D_BACKWARD_WEIGHT_X]);
    yki_winograd_tiles dy = with_data(&k->y, run->in[YKI_CONV2D_BACKWARD_WEIGHT_DY]);
    const int64_t slot = block - t->blocks.begin, groups = t->groups.end - t->groups.begin;
    span tiles = block_span(k, block);
    for (int64_t in = 0; in < groups; in++)
        k->form->left(&x, tiles, t->groups.begin + in, slab_at(k, t->data, slot * groups + in));
    for (int64_t out = 0; out < k->y.of.groups; out++)
        k->form->right(&dy, tiles, out, slab_at(k, t->gradient, slot * k->y.of.groups + out));
}

/* Adds the blocks' products at one point to a pair's sum there. */
static void add_products(const winograd *k, const transformed *t, int64_t in, int64_t out,
                         int64_t point, bool first, yki_winograd_slab sums)
{
    const int64_t groups = t->groups.end - t->groups.begin;
    for (int64_t b = t->blocks.begin; b < t->blocks.end; b++) {
        span tiles = block_span(k, b);
        int64_t slot = b - t->blocks.begin;
        yki_winograd_slab x = slab_at(k, t->data, slot * groups + in - t->groups.begin);
        yki_winograd_slab dy = slab_at(k, t->gradient, slot * k->y.of.groups + out);
        k->form->multiply_transposed(
            &(yki_winograd_product){.a = x.at + point * x.stride,
                                    .b = dy.at + point * dy.stride,
                                    .c = sums.at + point * sums.stride,
                                    .groups = 1,
                                    .rows = tiles.end - tiles.begin,
                                    .first = first && b == t->blocks.begin});
    }
}

/* Pairs are numbered in group * output groups + out group; 16 columns of a pair's gradient. */
static void write_columns(const winograd *k, yki_winograd_slab sums, int64_t pair, int64_t column,
                          float *weight)
{
    const int64_t in = pair / k->y.of.groups, out = pair % k->y.of.groups;
    yki_winograd_weight_gradient(sums, column,
                                 weight + weight_at(k, in * SIDE, out * SIDE + column),
                                 k->row_stride, k->column_stride);
}

/* ---- backward weight, by parts -------------------------------------------------------------- */

static yki_winograd_slab part_sum(const winograd *k, float *sums, int64_t part, int64_t pair)
{
    return sums_at(sums, part * k->x.of.groups * k->y.of.groups + pair);
}

/* All blocks of a part into `sums`, for these input groups and all output groups. */
static void sum_part(const winograd *k, const yki_kernel_args *run, int64_t part, span groups,
                     float *sums, float *own)
{
    int64_t begin = k->blocks * part / k->parts, end = k->blocks * (part + 1) / k->parts;
    for (int64_t block = begin; block < end; block++) {
        float *data = own, *gradient = own + k->x.of.groups * slab_floats(k);
        transformed t = {{block, block + 1}, groups, data, gradient};
        transform_block(k, run, &t, block);
        for (int64_t in = groups.begin; in < groups.end; in++)
            for (int64_t out = 0; out < k->y.of.groups; out++)
                for (int64_t p = 0; p < POINTS; p++)
                    add_products(k, &t, in, out, p, block == begin,
                                 sums_at(sums, in * k->y.of.groups + out));
    }
}

/* Adds the parts' sums in order for piece i, and writes its gradient. */
static void finish_columns(const winograd *k, float *sums, int64_t i, float *weight)
{
    const int64_t pair = i / COLUMNS, column = i % COLUMNS * LANES;
    yki_winograd_slab total = part_sum(k, sums, 0, pair), to = total;
    to.at += column;
    for (int64_t part = 1; part < k->parts; part++) {
        yki_winograd_slab from = part_sum(k, sums, part, pair);
        from.at += column;
        yki_winograd_add(from, LANES, to);
    }
    write_columns(k, total, pair, column, weight);
}

/* One thread adds each part's sums at once, in the same order, while its cache holds them. */
static void convolve_weight_alone(const winograd *k, const yki_kernel_args *run)
{
    const int64_t pairs = k->x.of.groups * k->y.of.groups;
    float *total = run->scratch, *sums = total + pairs * SUMS, *own = sums + pairs * SUMS;
    enter(k);
    for (int64_t part = 0; part < k->parts; part++) {
        sum_part(k, run, part, (span){0, k->x.of.groups}, part == 0 ? total : sums, own);
        for (int64_t pair = 0; part > 0 && pair < pairs; pair++)
            yki_winograd_add(sums_at(sums, pair), SIDE, sums_at(total, pair));
    }
    leave(k);
    for (int64_t i = 0; i < pairs * COLUMNS; i++)
        write_columns(k, sums_at(total, i / COLUMNS), i / COLUMNS, i % COLUMNS * LANES,
                      run->out[YKI_CONV2D_BACKWARD_WEIGHT_DWEIGHT]);
}

static void convolve_weight_by_parts(const winograd *k, const yki_kernel_args *run)
{
    const int64_t pairs = k->x.of.groups * k->y.of.groups;
    const int64_t pieces = k->split_inputs ? k->x.of.groups : 1;
    float *sums = run->scratch, *threads = sums + k->parts * pairs * SUMS;
#pragma omp parallel num_threads(k->team) if (k->team > 1)
    {
        float *own =
            threads + omp_get_thread_num() * (k->x.of.groups + k->y.of.groups) * slab_floats(k);
        enter(k);
#pragma omp for schedule(dynamic)
        for (int64_t i = 0; i < k->parts * pieces; i++) {
            span groups = {i % pieces, k->split_inputs ? i % pieces + 1 : k->x.of.groups};
            sum_part(k, run, i / pieces, groups, sums + i / pieces * pairs * SUMS, own);
        }
        leave(k);
#pragma omp for schedule(dynamic) nowait
        for (int64_t i = 0; i < pairs * COLUMNS; i++)
            finish_columns(k, sums, i, run->out[YKI_CONV2D_BACKWARD_WEIGHT_DWEIGHT]);
    }
}

/* ---- backward weight, by pairs -------------------------------------------------------------- */

/* A pair's whole sum, and its gradient. */
static void finish_pair(const winograd *k, const transformed *t, int64_t pair,
                        yki_winograd_slab sums, float *weight)
{
    int64_t in = pair / k->y.of.groups, out = pair % k->y.of.groups;
    for (int64_t p = 0; p < POINTS; p++)
        add_products(k, t, in, out, p, true, sums);
    for (int64_t column = 0; column < SIDE; column += LANES)
        write_columns(k, sums, pair, column, weight);
}

/* All pairs' products of a batch at one point, for one input group: what they read stays in the
 * cache. */
static void add_point(const winograd *k, const transformed *t, int64_t i, float *sums)
{
    const int64_t in = i % k->x.of.groups, point = i / k->x.of.groups;
    for (int64_t out = 0; out < k->y.of.groups; out++)
        add_products(k, t, in, out, point, t->blocks.begin == 0,
                     sums_at(sums, in * k->y.of.groups + out));
}

static void convolve_weight_by_pairs(const winograd *k, const yki_kernel_args *run)
{
    const int64_t pairs = k->x.of.groups * k->y.of.groups;
    float *data = run->scratch, *gradient = data + k->batch * k->x.of.groups * slab_floats(k);
    float *sums = gradient + k->batch * k->y.of.groups * slab_floats(k);
    float *weight = run->out[YKI_CONV2D_BACKWARD_WEIGHT_DWEIGHT];
#pragma omp parallel num_threads(k->team) if (k->team > 1)
    {
        enter(k);
        for (int64_t first = 0; first < k->blocks; first += k->batch) {
            int64_t last = first + k->batch < k->blocks ? first + k->batch : k->blocks;
            transformed t = {{first, last}, {0, k->x.of.groups}, data, gradient};
#pragma omp for schedule(dynamic)
            for (int64_t block = first; block < last; block++)
                transform_block(k, run, &t, block);
            if (k->whole_pairs) {
#pragma omp for schedule(dynamic)
                for (int64_t pair = 0; pair < pairs; pair++)
                    finish_pair(k, &t, pair, sums_at(sums, omp_get_thread_num()), weight);
                continue;
            }
#pragma omp for schedule(dynamic)
            for (int64_t i = 0; i < POINTS * k->x.of.groups; i++)
                add_point(k, &t, i, sums);
            if (last < k->blocks)
                continue;
#pragma omp for schedule(dynamic)
            for (int64_t i = 0; i < pairs * COLUMNS; i++)
                write_columns(k, sums_at(sums, i / COLUMNS), i / COLUMNS, i % COLUMNS * LANES,
                              weight);
        }
        leave(k);
    }
}

static yk_status winograd_convolve_weight(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const winograd *k = (const winograd *)kernel;
    if (k->parts == 0)
        convolve_weight_by_pairs(k, run);
    else if (k->team == 1)
        convolve_weight_alone(k, run);
    else
        convolve_weight_by_parts(k, run);
    return YK_OK;
}

/* ---- preparation ---------------------------------------------------------------------------- */

static int64_t tiles_of(const yki_operand *y)
{
    return y->dims[0] * ((y->dims[2] + TILE - 1) / TILE) * ((y->dims[3] + TILE - 1) / TILE);
}

/* Forward and the gradient of x; what is made is cut into tiles. */
static bool gains(const yki_device *device, const yki_attrs *attrs, const yki_operand *x,
                  const yki_operand *y, int64_t tiles)
{
    return tiles >= LEAST_TILES && yki_gains_over_bf16(device, attrs, x, y, tiles, POINTS);
}

static bool winograd_supports(const yki_device *device, const yki_attrs *attrs,
                              const yki_operand *x, const yki_operand *y, const yki_operand *weight)
{
    return ((const yki_cpu_device *)device)->winograd && yki_panel_takes(device, x) &&
           yki_panel_takes(device, y) && weight->dims[2] == 3 && weight->dims[3] == 3 &&
           attrs->stride == 1 && attrs->dilation == 1 && attrs->groups == 1 && attrs->padding <= 2;
}

static winograd *winograd_create(const yki_device *device, const yki_operand *x,
                                 const yki_operand *y, int64_t padding)
{
    winograd *k = yki_calloc(1, sizeof *k);
    if (!k)
        return NULL;
    k->y = (yki_winograd_tiles){.of = yki_panel_activation_of(y),
                                .down = (y->dims[2] + TILE - 1) / TILE,
                                .across = (y->dims[3] + TILE - 1) / TILE};
    k->x = k->y;
    k->x.of = yki_panel_activation_of(x);
    k->x.offset = -padding;
    k->form = ((const yki_cpu_device *)device)->has_amx && x->dtype != YK_F32 ? &yki_winograd_amx
                                                                              : &yki_winograd_f32;
    k->tiles = tiles_of(y);
    k->team = device->threads;
    k->base.flop = 2.0 * POINTS * (double)(k->tiles * x->dims[1] * y->dims[1]) * k->form->products;
    k->base.matrix_unit = k->form == &yki_winograd_amx;
    return k;
}

/*
 * Each thread gets a block. Where blocks are few, they are smaller and as many for each thread, or
 * one thread would wait for another's last block. How tiles are divided does not change bits.
 */
static void divide_for_team(winograd *k)
{
    int64_t share = (k->tiles + k->team - 1) / k->team;
    if (k->team == 1 || share >= THREAD_BLOCKS * SIDE) {
        divide_tiles(k, SIDE);
        return;
    }
    divide_tiles(k, share < SMALL_BLOCK ? share : SMALL_BLOCK);
    int64_t turns = (k->blocks + k->team - 1) / k->team;
    divide_tiles(k, (share + turns - 1) / turns);
}

static yk_status winograd_prepare_convolve(const yki_device *device, const yki_operand *x,
                                           const yki_operand *y, int64_t padding, bool turned,
                                           yki_kernel **kernel)
{
    winograd *k = winograd_create(device, x, y, padding);
    if (!k)
        return yki_error_memory(sizeof *k, "a convolution");
    /* The weights are (K, C, 3, 3), K being forward's output channels. */
    k->turned = turned;
    k->row_stride = turned ? TAPS * y->dims[1] : TAPS;
    k->column_stride = turned ? TAPS : TAPS * x->dims[1];
    divide_for_team(k);
    k->weights_once = k->team > 1 || k->blocks > 2;
    k->y.stream = yki_streams(device, y);
    int64_t floats = own_floats(k) * k->team;
    if (k->weights_once)
        floats += k->y.of.groups * weights_floats(k->x.of.groups);
    k->base.scratch = (size_t)floats * sizeof(float);
    *kernel = &k->base;
    return YK_OK;
}

/* ---- forward: x, weight -> y ---------------------------------------------------------------- */

static bool winograd_supports_forward(const yki_device *device, const yki_kernel_desc *desc)
{
    return !yki_has_in(desc, YKI_CONV2D_BIAS) &&
           winograd_supports(device, desc->attrs, &desc->in[YKI_CONV2D_X], &desc->out[YKI_CONV2D_Y],
                             &desc->in[YKI_CONV2D_WEIGHT]);
}

static bool winograd_gains_forward(const yki_device *device, const yki_kernel_desc *desc)
{
    const yki_operand *y = &desc->out[YKI_CONV2D_Y];
    return gains(device, desc->attrs, &desc->in[YKI_CONV2D_X], y, tiles_of(y));
}

static yk_status winograd_prepare_forward(yki_device *device, const yki_kernel_desc *desc,
                                          yki_kernel **kernel)
{
    return winograd_prepare_convolve(device, &desc->in[YKI_CONV2D_X], &desc->out[YKI_CONV2D_Y],
                                     desc->attrs->padding, false, kernel);
}

const yki_kernel_impl yki_cpu_conv2d_winograd = {.op = &yki_op_conv2d,
                                                 .name = "winograd",
                                                 .supports = winograd_supports_forward,
                                                 .gains = winograd_gains_forward,
                                                 .prepare = winograd_prepare_forward,
                                                 .run = convolve};

/* ---- gradient of x: dy, weight -> dx -------------------------------------------------------- */

static bool winograd_supports_backward_data(const yki_device *device, const yki_kernel_desc *desc)
{
    return winograd_supports(device, desc->attrs, &desc->in[YKI_CONV2D_BACKWARD_DATA_DY],
                             &desc->out[YKI_CONV2D_BACKWARD_DATA_DX],
                             &desc->in[YKI_CONV2D_BACKWARD_DATA_WEIGHT]);
}

static bool winograd_gains_backward_data(const yki_device *device, const yki_kernel_desc *desc)
{
    const yki_operand *dx = &desc->out[YKI_CONV2D_BACKWARD_DATA_DX];
    return gains(device, desc->attrs, dx, &desc->in[YKI_CONV2D_BACKWARD_DATA_DY], tiles_of(dx));
}

static yk_status winograd_prepare_backward_data(yki_device *device, const yki_kernel_desc *desc,
                                                yki_kernel **kernel)
{
    return winograd_prepare_convolve(device, &desc->in[YKI_CONV2D_BACKWARD_DATA_DY],
                                     &desc->out[YKI_CONV2D_BACKWARD_DATA_DX],
                                     2 - desc->attrs->padding, true, kernel);
}

const yki_kernel_impl yki_cpu_conv2d_backward_data_winograd = {
    .op = &yki_op_conv2d_backward_data,
    .name = "winograd",
    .supports = winograd_supports_backward_data,
    .gains = winograd_gains_backward_data,
    .prepare = winograd_prepare_backward_data,
    .run = convolve};

/* ---- gradient of the weights: x, dy -> dweight ---------------------------------------------- */

static bool winograd_supports_backward_weight(const yki_device *device, const yki_kernel_desc *desc)
{
    return !yki_has_out(desc, YKI_CONV2D_BACKWARD_WEIGHT_DBIAS) &&
           winograd_supports(device, desc->attrs, &desc->in[YKI_CONV2D_BACKWARD_WEIGHT_X],
                             &desc->in[YKI_CONV2D_BACKWARD_WEIGHT_DY],
                             &desc->out[YKI_CONV2D_BACKWARD_WEIGHT_DWEIGHT]);
}

static bool winograd_gains_backward_weight(const yki_device *device, const yki_kernel_desc *desc)
{
    const yki_operand *dy = &desc->in[YKI_CONV2D_BACKWARD_WEIGHT_DY];
    return tiles_of(dy) >= LEAST_TILES && yki_weight_gains_over_bf16(device, desc->attrs, dy);
}

/* Both return the floats of memory that they need. Parts depend on the shape alone, as the order of
 * sums does. */
static int64_t plan_parts(winograd *k)
{
    if (k->blocks < LEAST_PARTS) { /* few tiles: smaller blocks */
        int64_t least = (k->tiles + LEAST_PARTS - 1) / LEAST_PARTS;
        divide_tiles(k, least < SIDE / 2 ? SIDE / 2 : least);
    }
    k->parts = k->blocks / PART_BLOCKS < MOST_PARTS ? k->blocks / PART_BLOCKS : MOST_PARTS;
    if (k->parts < LEAST_PARTS)
        k->parts = k->blocks < LEAST_PARTS ? k->blocks : LEAST_PARTS;
    k->split_inputs = k->team > k->parts;
    int64_t sums = k->team == 1 ? 2 : k->parts; /* at a time */
    return sums * k->x.of.groups * k->y.of.groups * SUMS +
           k->team * (k->x.of.groups + k->y.of.groups) * slab_floats(k);
}

static int64_t plan_pairs(winograd *k)
{
    int64_t pairs = k->x.of.groups * k->y.of.groups;
    int64_t slabs_a_block = k->x.of.groups + k->y.of.groups;
    k->batch = slabs_a_block < BATCH_SLABS ? BATCH_SLABS / slabs_a_block : 1;
    k->batch *= k->team;
    /* Where reading blocks again for each pair is cheaper than keeping all sums. */
    k->whole_pairs = k->blocks * slabs_a_block < pairs;
    if (k->whole_pairs || k->batch > k->blocks)
        k->batch = k->blocks;
    return k->batch * slabs_a_block * slab_floats(k) + (k->whole_pairs ? k->team : pairs) * SUMS;
}

static yk_status winograd_prepare_backward_weight(yki_device *device, const yki_kernel_desc *desc,
                                                  yki_kernel **kernel)
{
    winograd *k = winograd_create(device, &desc->in[YKI_CONV2D_BACKWARD_WEIGHT_X],
                                  &desc->in[YKI_CONV2D_BACKWARD_WEIGHT_DY], desc->attrs->padding);
    if (!k)
        return yki_error_memory(sizeof *k, "a convolution");
    k->row_stride = TAPS;
    k->column_stride = TAPS * desc->in[YKI_CONV2D_BACKWARD_WEIGHT_X].dims[1];
    divide_tiles(k, SIDE);
    int64_t pairs = k->x.of.groups * k->y.of.groups;
    k->base.scratch = (size_t)(pairs >= MANY_PAIRS ? plan_pairs(k) : plan_parts(k)) * sizeof(float);
    *kernel = &k->base;
    return YK_OK;
}

const yki_kernel_impl yki_cpu_conv2d_backward_weight_winograd = {
    .op = &yki_op_conv2d_backward_weight,
    .name = "winograd",
    .supports = winograd_supports_backward_weight,
    .gains = winograd_gains_backward_weight,
    .prepare = winograd_prepare_backward_weight,
    .run = winograd_convolve_weight};

/*
 * The weights' gradient of 3x3 convolutions of stride 1 by Winograd's algorithm (see winograd.c): a
 * sum over tiles, for every pair of 64 input and 64 output channels. Where there are few pairs, the
 * blocks are divided into parts: a part's blocks are transformed and multiplied one after the other
 * into sums that belong to the part, and the parts' sums are added in order, so a thread reads what
 * it has transformed itself. Otherwise a batch of blocks is transformed first, and then each pair
 * takes its products from all of them. Batches are small, so that they are read from the cache they
 * were written to.
 */
#include "device/cpu/conv/bf16_gains.h"
#include "device/cpu/geometry.h"
#include "device/cpu/onednn.h"
#include "device/cpu/x86/winograd_kernel.h"

enum {
    SIDE = YKI_WINOGRAD_SIDE,
    POINTS = YKI_WINOGRAD_POINTS,
    LANES = YKI_WINOGRAD_LANES,
    COLUMNS = SIDE / LANES, /* vectors of a row */
    PANEL = YKI_PANEL,
    PAD = YKI_WINOGRAD_PAD,
    SUMS = POINTS * (PANEL + PAD), /* floats of a slab of 64 x 64 sums */
    TAPS = 9,
    LEAST_PARTS = 4,
    MOST_PARTS = 16,
    PART_BLOCKS = 16, /* that a part should have: each costs a pass over its sums */
    MANY_PAIRS = 8,   /* with as many or more, the weights' gradient is computed by pairs */
    BATCH_SLABS = 8   /* a thread; of blocks that pairs take their products from */
};

typedef yki_winograd_kernel winograd;
typedef yki_winograd_span span;

/* The index-th slab of 64 x 64 sums of the weights' gradient. */
static yki_winograd_slab sums_at(float *sums, int64_t index)
{
    return (yki_winograd_slab){sums + index * SUMS, PANEL + PAD};
}

/* Blocks that have been transformed: the slabs of these input groups, then of all of dy. */
typedef struct transformed {
    span blocks, groups;
    float *data, *gradient;
} transformed;

static void transform_block(const winograd *k, const yki_kernel_args *run, const transformed *t,
                            int64_t block)
{
    yki_winograd_tiles x = yki_winograd_with_data(&k->x, run->in[YKI_CONV2D_BACKWARD_WEIGHT_X]);
    yki_winograd_tiles dy = yki_winograd_with_data(&k->y, run->in[YKI_CONV2D_BACKWARD_WEIGHT_DY]);
    const int64_t slot = block - t->blocks.begin, groups = t->groups.end - t->groups.begin;
    span tiles = yki_winograd_block(k, block);
    for (int64_t in = 0; in < groups; in++)
        k->form->left(&x, tiles, t->groups.begin + in,
                      yki_winograd_slab_at(k, t->data, slot * groups + in));
    for (int64_t out = 0; out < k->y.of.groups; out++)
        k->form->right(&dy, tiles, out,
                       yki_winograd_slab_at(k, t->gradient, slot * k->y.of.groups + out));
}

/* Adds the blocks' products at one point to a pair's sum there. */
static void add_products(const winograd *k, const transformed *t, int64_t in, int64_t out,
                         int64_t point, bool first, yki_winograd_slab sums)
{
    const int64_t groups = t->groups.end - t->groups.begin;
    for (int64_t b = t->blocks.begin; b < t->blocks.end; b++) {
        span tiles = yki_winograd_block(k, b);
        int64_t slot = b - t->blocks.begin;
        yki_winograd_slab x =
            yki_winograd_slab_at(k, t->data, slot * groups + in - t->groups.begin);
        yki_winograd_slab dy = yki_winograd_slab_at(k, t->gradient, slot * k->y.of.groups + out);
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
                                 weight + yki_winograd_weight_at(k, in * SIDE, out * SIDE + column),
                                 k->row_stride, k->column_stride);
}

/* ---- by parts -------------------------------------------------------------------------------- */

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
        float *data = own, *gradient = own + k->x.of.groups * yki_winograd_slab_floats(k);
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
    yki_winograd_enter(k);
    for (int64_t part = 0; part < k->parts; part++) {
        sum_part(k, run, part, (span){0, k->x.of.groups}, part == 0 ? total : sums, own);
        for (int64_t pair = 0; part > 0 && pair < pairs; pair++)
            yki_winograd_add(sums_at(sums, pair), SIDE, sums_at(total, pair));
    }
    yki_winograd_leave(k);
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
        float *own = threads + omp_get_thread_num() * (k->x.of.groups + k->y.of.groups) *
                                   yki_winograd_slab_floats(k);
        yki_winograd_enter(k);
#pragma omp for schedule(dynamic)
        for (int64_t i = 0; i < k->parts * pieces; i++) {
            span groups = {i % pieces, k->split_inputs ? i % pieces + 1 : k->x.of.groups};
            sum_part(k, run, i / pieces, groups, sums + i / pieces * pairs * SUMS, own);
        }
        yki_winograd_leave(k);
#pragma omp for schedule(dynamic) nowait
        for (int64_t i = 0; i < pairs * COLUMNS; i++)
            finish_columns(k, sums, i, run->out[YKI_CONV2D_BACKWARD_WEIGHT_DWEIGHT]);
    }
}

/* ---- by pairs -------------------------------------------------------------------------------- */

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
    float *data = run->scratch,
          *gradient = data + k->batch * k->x.of.groups * yki_winograd_slab_floats(k);
    float *sums = gradient + k->batch * k->y.of.groups * yki_winograd_slab_floats(k);
    float *weight = run->out[YKI_CONV2D_BACKWARD_WEIGHT_DWEIGHT];
#pragma omp parallel num_threads(k->team) if (k->team > 1)
    {
        yki_winograd_enter(k);
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
        yki_winograd_leave(k);
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

/* ---- preparation ----------------------------------------------------------------------------- */

static bool winograd_supports_backward_weight(const yki_device *device, const yki_kernel_desc *desc)
{
    return !yki_has_out(desc, YKI_CONV2D_BACKWARD_WEIGHT_DBIAS) &&
           yki_winograd_supports(device, desc->attrs, &desc->in[YKI_CONV2D_BACKWARD_WEIGHT_X],
                                 &desc->in[YKI_CONV2D_BACKWARD_WEIGHT_DY],
                                 &desc->out[YKI_CONV2D_BACKWARD_WEIGHT_DWEIGHT]);
}

static bool winograd_gains_backward_weight(const yki_device *device, const yki_kernel_desc *desc)
{
    const yki_operand *x = &desc->in[YKI_CONV2D_BACKWARD_WEIGHT_X];
    const yki_operand *dy = &desc->in[YKI_CONV2D_BACKWARD_WEIGHT_DY];
    return yki_winograd_tiles_of(dy) >= YKI_WINOGRAD_LEAST_TILES &&
           yki_weight_gains_over_bf16(device, desc->attrs, x, dy);
}

/* Both return the floats of memory that they need. Parts depend on the shape alone, as the order of
 * sums does. */
static int64_t plan_parts(winograd *k)
{
    if (k->blocks < LEAST_PARTS) { /* few tiles: smaller blocks */
        int64_t least = (k->tiles + LEAST_PARTS - 1) / LEAST_PARTS;
        yki_winograd_divide(k, least < SIDE / 2 ? SIDE / 2 : least);
    }
    k->parts = k->blocks / PART_BLOCKS < MOST_PARTS ? k->blocks / PART_BLOCKS : MOST_PARTS;
    if (k->parts < LEAST_PARTS)
        k->parts = k->blocks < LEAST_PARTS ? k->blocks : LEAST_PARTS;
    k->split_inputs = k->team > k->parts;
    int64_t sums = k->team == 1 ? 2 : k->parts; /* at a time */
    return sums * k->x.of.groups * k->y.of.groups * SUMS +
           k->team * (k->x.of.groups + k->y.of.groups) * yki_winograd_slab_floats(k);
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
    return k->batch * slabs_a_block * yki_winograd_slab_floats(k) +
           (k->whole_pairs ? k->team : pairs) * SUMS;
}

static yk_status winograd_prepare_backward_weight(yki_device *device, const yki_kernel_desc *desc,
                                                  yki_kernel **kernel)
{
    winograd *k =
        yki_winograd_create(device, &desc->in[YKI_CONV2D_BACKWARD_WEIGHT_X],
                            &desc->in[YKI_CONV2D_BACKWARD_WEIGHT_DY], desc->attrs->padding[0]);
    if (!k)
        return yki_error_memory(sizeof *k, "a convolution");
    k->row_stride = TAPS;
    k->column_stride = TAPS * desc->in[YKI_CONV2D_BACKWARD_WEIGHT_X].dims[1];
    yki_winograd_divide(k, SIDE);
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

/*
 * The weights' gradient of 3x3 convolutions by minimal filtering (see minimal.c): a sum over tiles,
 * for every pair of 64 input and 64 output channels. Where the sums of all pairs are small, the
 * blocks are divided into parts: a part's blocks are transformed and multiplied one after the other
 * into sums that belong to the part, and the parts' sums are added in order. Otherwise x is
 * transformed first, and then, for some groups of 64 output channels at a time, dy; each pair is a
 * unit of work.
 */
#include "device/cpu/conv/bf16_gains.h"
#include "device/cpu/conv/minimal_kernel.h"
#include "device/cpu/geometry.h"

enum {
    SIDE = YKI_MINIMAL_SIDE,
    MATRICES = YKI_MINIMAL_MATRICES,
    MATRIX = YKI_MINIMAL_MATRIX,
    WEIGHTS = YKI_MINIMAL_WEIGHTS, /* floats of a pair's 36 matrices */
    PIECE = 16,                    /* columns of a pair that are written at a time */
    PIECES = SIDE / PIECE,
    TAPS = 9,
    REFERENCE_COLUMNS = 2,
    LEAST_PARTS = 4,
    MOST_PARTS = 8,
    PART_BLOCKS = 8, /* that a part should have: each costs a pass over its sums */
    LEAST_PAIRS = 8, /* units of work; fewer would leave threads without any */
    THREAD_PAIRS = 8 /* a thread's, between two transformations of dy */
};

/* ---- blocks ---------------------------------------------------------------------------------- */

/* The transformed x of a block, all groups, and dy of some groups. */
typedef struct points {
    float *x, *dy;
    int64_t tiles;
} points;

static points transform_block(const yki_minimal_kernel *k, const yki_kernel_args *run,
                              int64_t block, yki_minimal_range outputs, float *slabs)
{
    yki_minimal_range tiles = yki_minimal_block(k, block);
    points p = {.tiles = tiles.end - tiles.begin};
    p.x = slabs;
    p.dy = slabs + k->x.groups * k->slab;
    yki_minimal_transform(k, k->algorithm->data, &k->x, run->in[YKI_CONV2D_BACKWARD_WEIGHT_X],
                          tiles, (yki_minimal_range){0, k->x.groups}, p.x);
    yki_minimal_transform(k, k->algorithm->result_gradient, &k->y,
                          run->in[YKI_CONV2D_BACKWARD_WEIGHT_DY], tiles, outputs, p.dy);
    return p;
}

/* Adds the products of a block's points in matrix m to the sum of a pair. */
static void add_products(const yki_minimal_kernel *k, const float *x, const float *dy,
                         int64_t tiles, int m, int64_t pair, bool first, float *sum)
{
    const int64_t in = pair / k->y.groups, out = pair % k->y.groups;
    yki_minimal_size size = {.rows = yki_minimal_channels(&k->x, in),
                             .vectors = yki_minimal_padded(&k->y, out) / k->algorithm->lanes,
                             .count = tiles * k->points[m]};
    k->algorithm->multiply_transposed(x + k->offsets[m], dy + k->offsets[m], sum + m * MATRIX, size,
                                      first);
}

/* Pairs are numbered in group * output groups + out group, and written in PIECES. */
static void write_columns(const yki_minimal_kernel *k, const float *sum, int64_t pair,
                          int64_t column, float *weight)
{
    int64_t in = pair / k->y.groups, out = pair % k->y.groups,
            outputs = yki_minimal_channels(&k->y, out);
    int64_t end = column + PIECE < outputs ? column + PIECE : outputs;
    float *corner = weight + in * SIDE * k->row_stride + out * SIDE * k->column_stride;
    for (int64_t c = column; c < end; c += k->algorithm->lanes)
        for (int64_t row = 0; row < yki_minimal_channels(&k->x, in); row++)
            k->algorithm->weight_gradient(sum + row * SIDE + c,
                                          corner + row * k->row_stride + c * k->column_stride,
                                          k->column_stride, end - c);
}

/* ---- by parts ------------------------------------------------------------------------------- */

/* All blocks of a part into its sums, for these output groups. */
static void sum_part(const yki_minimal_kernel *k, const yki_kernel_args *run, int64_t part,
                     yki_minimal_range outputs, float *sums, float *own)
{
    int64_t begin = k->blocks * part / k->parts, end = k->blocks * (part + 1) / k->parts;
    for (int64_t block = begin; block < end; block++) {
        points p = transform_block(k, run, block, outputs, own);
        for (int m = 0; m < MATRICES; m++)
            for (int64_t out = outputs.begin; out < outputs.end; out++)
                for (int64_t in = 0; in < k->x.groups; in++) {
                    int64_t pair = in * k->y.groups + out;
                    add_products(k, p.x + in * k->slab, p.dy + (out - outputs.begin) * k->slab,
                                 p.tiles, m, pair, block == begin, sums + pair * WEIGHTS);
                }
    }
}

/* One thread adds each part's sums at once, in the same order, while its cache holds them. */
static void sum_alone(const yki_minimal_kernel *k, const yki_kernel_args *run)
{
    const int64_t pairs = k->x.groups * k->y.groups;
    float *total = run->scratch, *sums = total + pairs * WEIGHTS, *own = sums + pairs * WEIGHTS;
    for (int64_t part = 0; part < k->parts; part++) {
        sum_part(k, run, part, (yki_minimal_range){0, k->y.groups}, part == 0 ? total : sums, own);
        for (int64_t pair = 0; part > 0 && pair < pairs; pair++)
            k->algorithm->add(sums + pair * WEIGHTS, SIDE, total + pair * WEIGHTS);
    }
    for (int64_t i = 0; i < pairs * PIECES; i++)
        write_columns(k, total + i / PIECES * WEIGHTS, i / PIECES, i % PIECES * PIECE,
                      run->out[YKI_CONV2D_BACKWARD_WEIGHT_DWEIGHT]);
}

/* Adds the parts' sums in order for piece i of the pairs, and writes its gradient. */
static void finish_columns(const yki_minimal_kernel *k, float *sums, int64_t i, float *weight)
{
    const int64_t all = k->x.groups * k->y.groups * WEIGHTS, column = i % PIECES * PIECE;
    float *total = sums + i / PIECES * WEIGHTS;
    for (int64_t part = 1; part < k->parts; part++)
        k->algorithm->add(total + part * all + column, PIECE, total + column);
    write_columns(k, total, i / PIECES, column, weight);
}

/* Into which the output groups of a part are divided. */
static int64_t pieces_of(const yki_minimal_kernel *k)
{
    return k->split_outputs ? k->y.groups : 1;
}

static void sum_by_parts(const yki_minimal_kernel *k, const yki_kernel_args *run)
{
    const int64_t pairs = k->x.groups * k->y.groups;
    const int64_t pieces = pieces_of(k), units = k->parts * pieces;
    float *sums = run->scratch, *threads = sums + k->parts * pairs * WEIGHTS;
#pragma omp parallel num_threads(k->team) if (k->team > 1)
    {
#pragma omp for schedule(dynamic)
        for (int64_t i = 0; i < units; i++) {
            float *own =
                threads + yki_minimal_place(k, units, i) * (k->x.groups + k->y.groups) * k->slab;
            yki_minimal_range outputs = {i % pieces,
                                         k->split_outputs ? i % pieces + 1 : k->y.groups};
            sum_part(k, run, i / pieces, outputs, sums + i / pieces * pairs * WEIGHTS, own);
        }
#pragma omp for schedule(dynamic) nowait
        for (int64_t i = 0; i < pairs * PIECES; i++)
            finish_columns(k, sums, i, run->out[YKI_CONV2D_BACKWARD_WEIGHT_DWEIGHT]);
    }
}

/* ---- by pairs ------------------------------------------------------------------------------- */

/* Slabs of all blocks: those of x, and of dy in some output groups. */
typedef struct transformed {
    float *x, *dy;
    yki_minimal_range outputs;
} transformed;

static float *dy_slab(const yki_minimal_kernel *k, const transformed *t, int64_t block, int64_t out)
{
    int64_t count = t->outputs.end - t->outputs.begin;
    return t->dy + (block * count + out - t->outputs.begin) * k->slab;
}

/* A pair's sum over all blocks, and its gradient. */
static void finish_pair(const yki_minimal_kernel *k, const transformed *t, int64_t pair, float *sum,
                        float *weight)
{
    const int64_t in = pair / k->y.groups, out = pair % k->y.groups;
    for (int m = 0; m < MATRICES; m++)
        for (int64_t block = 0; block < k->blocks; block++) {
            yki_minimal_range tiles = yki_minimal_block(k, block);
            add_products(k, t->x + (block * k->x.groups + in) * k->slab, dy_slab(k, t, block, out),
                         tiles.end - tiles.begin, m, pair, block == 0, sum);
        }
    for (int64_t column = 0; column < SIDE; column += PIECE)
        write_columns(k, sum, pair, column, weight);
}

/* All pairs of some output groups, whose dy is transformed first. */
static void sum_pairs_of(const yki_minimal_kernel *k, const yki_kernel_args *run,
                         const transformed *t, float *sum)
{
    const int64_t count = t->outputs.end - t->outputs.begin;
#pragma omp for schedule(dynamic)
    for (int64_t i = 0; i < k->blocks * count; i++) {
        int64_t block = i / count, out = t->outputs.begin + i % count;
        yki_minimal_transform(k, k->algorithm->result_gradient, &k->y,
                              run->in[YKI_CONV2D_BACKWARD_WEIGHT_DY], yki_minimal_block(k, block),
                              (yki_minimal_range){out, out + 1}, dy_slab(k, t, block, out));
    }
#pragma omp for schedule(dynamic)
    for (int64_t i = 0; i < k->x.groups * count; i++)
        finish_pair(k, t, i / count * k->y.groups + t->outputs.begin + i % count, sum,
                    run->out[YKI_CONV2D_BACKWARD_WEIGHT_DWEIGHT]);
}

static void sum_by_pairs(const yki_minimal_kernel *k, const yki_kernel_args *run)
{
    float *x = run->scratch, *dy = x + k->blocks * k->x.groups * k->slab;
    float *threads = dy + k->blocks * k->turn * k->slab;
#pragma omp parallel num_threads(k->team) if (k->team > 1)
    {
#pragma omp for schedule(dynamic) nowait
        for (int64_t block = 0; block < k->blocks; block++)
            yki_minimal_transform(k, k->algorithm->data, &k->x,
                                  run->in[YKI_CONV2D_BACKWARD_WEIGHT_X],
                                  yki_minimal_block(k, block), (yki_minimal_range){0, k->x.groups},
                                  x + block * k->x.groups * k->slab);
        for (int64_t first = 0; first < k->y.groups; first += k->turn) {
            int64_t last = first + k->turn < k->y.groups ? first + k->turn : k->y.groups;
            transformed t = {x, dy, {first, last}};
            sum_pairs_of(k, run, &t, threads + omp_get_thread_num() * WEIGHTS);
        }
    }
}

/* A vector's channels at a time, and images in order. */
static void sum_bias(const yki_minimal_kernel *k, const void *dy, float *bias)
{
#pragma omp parallel for num_threads(k->team) if (k->team > 1) schedule(dynamic)
    for (int64_t first = 0; first < k->y.padded; first += k->algorithm->lanes) {
        float sums[PIECE] = {0};
        for (int64_t image = 0; image < k->images; image++) {
            yki_minimal_plane plane = yki_minimal_plane_of(&k->y, dy, image, 0, first);
            k->algorithm->sum_pixels(&plane, sums);
        }
        for (int64_t c = first; c < first + k->algorithm->lanes && c < k->y.channels; c++)
            bias[c] = sums[c - first];
    }
}

static yk_status minimal_convolve_weight(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const yki_minimal_kernel *k = (const yki_minimal_kernel *)kernel;
    if (k->parts == 0)
        sum_by_pairs(k, run);
    else if (k->team == 1)
        sum_alone(k, run);
    else
        sum_by_parts(k, run);
    if (k->bias)
        sum_bias(k, run->in[YKI_CONV2D_BACKWARD_WEIGHT_DY],
                 run->out[YKI_CONV2D_BACKWARD_WEIGHT_DBIAS]);
    return YK_OK;
}

/* ---- preparation ---------------------------------------------------------------------------- */

/* Without AVX-512, oneDNN has only reference loops for images of few columns. */
static bool is_reference(const yki_device *device, const yki_operand *dy)
{
    return device->block < 16 && dy->dims[3] <= REFERENCE_COLUMNS;
}

static bool minimal_supports_backward_weight(const yki_device *device, const yki_kernel_desc *desc)
{
    const yki_operand *bias = &desc->out[YKI_CONV2D_BACKWARD_WEIGHT_DBIAS];
    return (!yki_has_out(desc, YKI_CONV2D_BACKWARD_WEIGHT_DBIAS) || bias->dtype == YK_F32) &&
           yki_minimal_supports(device, desc->attrs, &desc->in[YKI_CONV2D_BACKWARD_WEIGHT_X],
                                &desc->in[YKI_CONV2D_BACKWARD_WEIGHT_DY],
                                &desc->out[YKI_CONV2D_BACKWARD_WEIGHT_DWEIGHT]);
}

static bool minimal_gains_backward_weight(const yki_device *device, const yki_kernel_desc *desc)
{
    const yki_operand *x = &desc->in[YKI_CONV2D_BACKWARD_WEIGHT_X];
    const yki_operand *dy = &desc->in[YKI_CONV2D_BACKWARD_WEIGHT_DY];
    int64_t stride = desc->attrs->stride[0];
    return (yki_minimal_gains(desc->attrs, x, dy) &&
            yki_weight_gains_over_bf16(device, desc->attrs, x, dy)) ||
           (is_reference(device, dy) && yki_minimal_fills_groups(x, stride) &&
            yki_minimal_fills_groups(dy, stride));
}

/* Both return the floats of memory that they need. Parts depend on the shape alone, as the order of
 * sums does. */
static int64_t plan_parts(yki_minimal_kernel *k)
{
    const int64_t pairs = k->x.groups * k->y.groups;
    k->parts = k->blocks / PART_BLOCKS < MOST_PARTS ? k->blocks / PART_BLOCKS : MOST_PARTS;
    if (k->parts < LEAST_PARTS)
        k->parts = k->blocks < LEAST_PARTS ? k->blocks : LEAST_PARTS;
    k->split_outputs = k->parts < 2 * (int64_t)k->team;
    int64_t sums = k->team == 1 ? 2 : k->parts; /* at a time */
    int64_t places = yki_minimal_places(k, k->parts * pieces_of(k));
    return sums * pairs * WEIGHTS + places * (k->x.groups + k->y.groups) * k->slab;
}

static int64_t plan_pairs(yki_minimal_kernel *k)
{
    const int64_t pairs = THREAD_PAIRS * (int64_t)k->team;
    k->turn = (pairs + k->x.groups - 1) / k->x.groups;
    if (k->turn > k->y.groups)
        k->turn = k->y.groups;
    return k->blocks * (k->x.groups + k->turn) * k->slab + k->team * WEIGHTS;
}

static yk_status minimal_prepare_backward_weight(yki_device *device, const yki_kernel_desc *desc,
                                                 yki_kernel **kernel)
{
    const yki_operand *x = &desc->in[YKI_CONV2D_BACKWARD_WEIGHT_X];
    const yki_operand *dy = &desc->in[YKI_CONV2D_BACKWARD_WEIGHT_DY];
    yki_minimal_kernel *k = yki_minimal_create(device, desc->attrs, x, dy, dy);
    if (!k)
        return yki_error_memory(sizeof *k, "a convolution");
    k->bias = yki_has_out(desc, YKI_CONV2D_BACKWARD_WEIGHT_DBIAS);
    k->row_stride = TAPS;
    k->column_stride = TAPS * x->dims[1];
    /* Whichever takes less memory, if there are enough pairs. */
    int64_t pairs = k->x.groups * k->y.groups;
    bool by_pairs = pairs >= LEAST_PAIRS && k->blocks * (k->x.groups + k->y.groups) * k->slab <
                                                LEAST_PARTS * pairs * WEIGHTS;
    int64_t floats = by_pairs ? plan_pairs(k) : plan_parts(k);
    k->base.scratch = (size_t)floats * sizeof(float);
    *kernel = &k->base;
    return YK_OK;
}

const yki_kernel_impl yki_cpu_conv2d_backward_weight_minimal = {
    .op = &yki_op_conv2d_backward_weight,
    .name = "minimal",
    .supports = minimal_supports_backward_weight,
    .gains = minimal_gains_backward_weight,
    .prepare = minimal_prepare_backward_weight,
    .run = minimal_convolve_weight};

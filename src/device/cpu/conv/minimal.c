/*
 * 3x3 convolutions with padding 1 and stride 1 or 2 by minimal filtering, Winograd's algorithm,
 * forward and the gradient of x, on AVX-512 and AVX2. On AVX-512, winograd.c is preferred for
 * stride 1 and multiples of 64 channels. Activations are in f32, bf16 or f16, weights and
 * arithmetic in f32. The mathematics and the inner loops are in minimal.h, the weights' gradient is
 * in minimal_weight.c; this file divides the work among threads and orders it.
 *
 * A kernel takes, for a block of tiles and 64 output channels at a time, the products of each of
 * the 36 matrices, over all input channels, before the next. Where weights are larger than
 * activations, the activations are transformed first, and then 64 output channels are a unit of
 * work, which transforms its own weights; they never pass through memory. Elsewhere all weights are
 * transformed first, and then a block is a unit.
 */
#include <string.h>

#include "base/memory.h"
#include "device/cpu/conv/bf16_gains.h"
#include "device/cpu/conv/minimal_kernel.h"
#include "device/cpu/geometry.h"
#include "device/cpu/loops/loops.h"
#include "device/cpu/onednn.h"

enum {
    SIDE = YKI_MINIMAL_SIDE,
    TILE = YKI_MINIMAL_TILE,
    MATRICES = YKI_MINIMAL_MATRICES,
    MATRIX = YKI_MINIMAL_MATRIX,
    WEIGHTS = YKI_MINIMAL_WEIGHTS, /* floats of a pair's 36 matrices */
    LANES = 16,                    /* of the widest vectors */
    TAPS = 9,
    STRIDE1_PRODUCTS = 36, /* of a tile, for each pair of channels: see minimal.h */
    STRIDE2_PRODUCTS = 81,
    ROWS = 6,        /* that a product takes at a time: blocks have a multiple of them */
    LEAST_TILES = 8, /* with fewer, threads wait for each other longer than they compute */
    LEAST_STRIDE2_PRODUCTS = 64 * SIDE * SIDE, /* at a point, of tiles and pairs of channels */
    WEIGHT_TILES = 24, /* with stride 2, their products take as long as transforming the weights */
    THREAD_BLOCKS = 3,
    OUTPUTS_A_THREAD = 3
};

/* ---- tiles ---------------------------------------------------------------------------------- */

yki_minimal_range yki_minimal_block(const yki_minimal_kernel *k, int64_t block)
{
    int64_t sixes = (k->tiles + ROWS - 1) / ROWS;
    int64_t end = sixes * (block + 1) / k->blocks * ROWS;
    return (yki_minimal_range){sixes * block / k->blocks * ROWS, end < k->tiles ? end : k->tiles};
}

static int64_t image_of(const yki_minimal_kernel *k, int64_t tile)
{
    return tile / (k->tiles_down * k->tiles_across);
}

static yki_minimal_tile tile_of(const yki_minimal_kernel *k, int64_t tile, int64_t first)
{
    int64_t in_image = tile % (k->tiles_down * k->tiles_across);
    return (yki_minimal_tile){.down = in_image / k->tiles_across,
                              .across = in_image % k->tiles_across,
                              .row = tile - first};
}

void yki_minimal_transform(const yki_minimal_kernel *k, yki_minimal_to_points *transform,
                           const yki_minimal_activation *a, const void *data,
                           yki_minimal_range tiles, yki_minimal_range groups, float *slabs)
{
    for (int64_t group = groups.begin; group < groups.end; group++, slabs += k->slab)
        for (int64_t t = tiles.begin; t < tiles.end; t++) {
            yki_minimal_tile at = tile_of(k, t, tiles.begin);
            for (int64_t channel = 0; channel < yki_minimal_padded(a, group);
                 channel += k->algorithm->lanes) {
                yki_minimal_plane plane =
                    yki_minimal_plane_of(a, data, image_of(k, t), group, channel);
                transform(&plane, &at, slabs + channel);
            }
        }
}

/* Where results are written, and what is added to each channel, or NULL. */
typedef struct output {
    void *data;
    const float *bias;
    bool stream; /* past the caches */
} output;

static void write_result(const yki_minimal_kernel *k, const float *slab, yki_minimal_range tiles,
                         int64_t group, const output *y)
{
    const yki_minimal *algorithm = k->algorithm;
    yki_minimal_to_pixels *transform = k->turned ? algorithm->gradient_result : algorithm->result;
    for (int64_t t = tiles.begin; t < tiles.end; t++) {
        yki_minimal_tile at = tile_of(k, t, tiles.begin);
        for (int64_t channel = 0; channel < yki_minimal_padded(&k->y, group);
             channel += algorithm->lanes) {
            yki_minimal_plane plane =
                yki_minimal_plane_of(&k->y, y->data, image_of(k, t), group, channel);
            plane.bias = y->bias ? y->bias + group * SIDE + channel : NULL;
            plane.stream = y->stream;
            transform(slab + channel, &plane, &at);
        }
    }
    if (y->stream)
        yki_stream_settle();
}

/* ---- forward, and the gradient of x --------------------------------------------------------- */

/*
 * The weights from group `in` to group `out`, among those of one output group: its 36 matrices,
 * each for all input groups in turn.
 */
static void transform_weights(const yki_minimal_kernel *k, const float *weight, int64_t in,
                              int64_t out, float *weights)
{
    enum { ROWS_AHEAD = 6 };
    const float *corner = weight + in * SIDE * k->row_stride + out * SIDE * k->column_stride;
    int64_t inputs = yki_minimal_channels(&k->x, in), outputs = yki_minimal_channels(&k->y, out);
    for (int64_t column = 0; column < yki_minimal_padded(&k->y, out); column += k->algorithm->lanes)
        for (int64_t row = 0; row < inputs; row++) { /* innermost: they share cache lines */
            const float *first = corner + row * k->row_stride + column * k->column_stride;
            for (int64_t lane = 0; lane < k->algorithm->lanes; lane++)
                __builtin_prefetch(first + ROWS_AHEAD * k->row_stride + lane * k->column_stride);
            k->algorithm->weight(first, k->column_stride, outputs - column, k->turned,
                                 weights + in * MATRIX + row * SIDE + column, k->x.groups * MATRIX);
        }
}

static void transform_input(const yki_minimal_kernel *k, const void *x, yki_minimal_range tiles,
                            yki_minimal_range groups, float *slabs)
{
    yki_minimal_transform(k, k->turned ? k->algorithm->gradient_data : k->algorithm->data, &k->x, x,
                          tiles, groups, slabs);
}

/* A block's results in one output group. */
static void convolve_group(const yki_minimal_kernel *k, const float *data, const float *weights,
                           int64_t out, yki_minimal_range tiles, float *product, const output *y)
{
    for (int64_t m = 0; m < MATRICES; m++)
        for (int64_t in = 0; in < k->x.groups; in++) {
            yki_minimal_size size = {.rows = (tiles.end - tiles.begin) * k->points[m],
                                     .vectors =
                                         yki_minimal_padded(&k->y, out) / k->algorithm->lanes,
                                     .count = yki_minimal_channels(&k->x, in)};
            k->algorithm->multiply(data + in * k->slab + k->offsets[m],
                                   weights + (m * k->x.groups + in) * MATRIX,
                                   product + k->offsets[m], size, in == 0);
        }
    write_result(k, product, tiles, out, y);
}

/* ---- ... by blocks --------------------------------------------------------------------------- */

/* `own`: the thread's memory, a slab for each input group and one for the product. */
static void minimal_convolve_block(const yki_minimal_kernel *k, const void *x, const float *weights,
                                   int64_t block, float *own, const output *y)
{
    yki_minimal_range tiles = yki_minimal_block(k, block);
    float *product = own, *data = own + k->slab;
    transform_input(k, x, tiles, (yki_minimal_range){0, k->x.groups}, data);
    for (int64_t out = 0; out < k->y.groups; out++)
        convolve_group(k, data, weights + out * k->x.groups * WEIGHTS, out, tiles, product, y);
}

static void convolve_by_blocks(const yki_minimal_kernel *k, const yki_kernel_args *run,
                               const output *y, float *weights)
{
    const int64_t pairs = k->x.groups * k->y.groups;
    float *threads = weights + pairs * WEIGHTS;
#pragma omp parallel num_threads(k->team) if (k->team > 1)
    {
#pragma omp for schedule(dynamic)
        for (int64_t i = 0; i < pairs; i++)
            transform_weights(k, run->in[1], i % k->x.groups, i / k->x.groups,
                              weights + i / k->x.groups * k->x.groups * WEIGHTS);
#pragma omp for schedule(dynamic) nowait
        for (int64_t block = 0; block < k->blocks; block++)
            minimal_convolve_block(
                k, run->in[0], weights, block,
                threads + yki_minimal_place(k, k->blocks, block) * (k->x.groups + 1) * k->slab, y);
    }
}

/* ---- ... by output groups -------------------------------------------------------------------- */

/* `own`: the thread's memory, the weights of an output group and a slab for the product. */
static void convolve_out(const yki_minimal_kernel *k, const float *data, const float *weight,
                         int64_t out, float *own, const output *y)
{
    float *product = own, *weights = own + k->slab;
    for (int64_t in = 0; in < k->x.groups; in++)
        transform_weights(k, weight, in, out, weights);
    for (int64_t block = 0; block < k->blocks; block++)
        convolve_group(k, data + block * k->x.groups * k->slab, weights, out,
                       yki_minimal_block(k, block), product, y);
}

/* Of a thread. */
static int64_t own_floats(const yki_minimal_kernel *k)
{
    return k->slab + k->x.groups * WEIGHTS;
}

static void convolve_by_outputs(const yki_minimal_kernel *k, const yki_kernel_args *run,
                                const output *y, float *data)
{
    float *threads = data + k->blocks * k->x.groups * k->slab;
#pragma omp parallel num_threads(k->team) if (k->team > 1)
    {
#pragma omp for schedule(dynamic)
        for (int64_t i = 0; i < k->blocks * k->x.groups; i++) {
            int64_t block = i / k->x.groups, group = i % k->x.groups;
            transform_input(k, run->in[0], yki_minimal_block(k, block),
                            (yki_minimal_range){group, group + 1}, data + i * k->slab);
        }
#pragma omp for schedule(dynamic) nowait
        for (int64_t out = 0; out < k->y.groups; out++)
            convolve_out(k, data, run->in[1], out, threads + omp_get_thread_num() * own_floats(k),
                         y);
    }
}

/* The bias is copied, with zeros for the padding channels. */
static int64_t bias_floats(const yki_minimal_kernel *k)
{
    return k->bias ? (k->y.padded + LANES - 1) / LANES * LANES : 0;
}

static yk_status minimal_convolve(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const yki_minimal_kernel *k = (const yki_minimal_kernel *)kernel;
    float *bias = run->scratch, *scratch = bias + bias_floats(k);
    output y = {.data = run->out[0], .bias = k->bias ? bias : NULL};
    y.stream = k->stream && (uintptr_t)y.data % YKI_ALIGNMENT == 0;
    if (k->bias) {
        memset(bias, 0, (size_t)bias_floats(k) * sizeof *bias);
        memcpy(bias, run->in[YKI_CONV2D_BIAS], (size_t)k->y.channels * sizeof *bias);
    }
    if (k->by_outputs)
        convolve_by_outputs(k, run, &y, scratch);
    else
        convolve_by_blocks(k, run, &y, scratch);
    return YK_OK;
}

/* ---- preparation ---------------------------------------------------------------------------- */

/* NULL if there is none. */
static const yki_minimal *algorithm_of(const yki_device *device, int64_t stride)
{
    static const struct {
        int block;
        const yki_minimal *strides[2];
    } known[] = {
#if defined(__x86_64__)
        {16, {&yki_minimal_winograd_avx512, &yki_minimal_halving_avx512}},
        {8, {&yki_minimal_winograd_avx2, &yki_minimal_halving_avx2}},
#endif
        {4, {&yki_minimal_winograd_generic, &yki_minimal_halving_generic}},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known && stride <= 2; i++)
        if (known[i].block == device->block)
            return known[i].strides[stride - 1];
    return NULL;
}

/* small: of x and y the one with fewer pixels, which is cut into tiles. */
static int64_t tiles_of(const yki_operand *small)
{
    return small->dims[0] * ((small->dims[2] + TILE - 1) / TILE) *
           ((small->dims[3] + TILE - 1) / TILE);
}

/* Tiles at the edges compute pixels that are not there: enough of all must be. */
static bool fills_tiles(const yki_operand *small, int64_t stride)
{
    int64_t pixels = small->dims[0] * small->dims[2] * small->dims[3];
    int64_t least = stride == 1 ? 35 : 70; /* percent */
    return 100 * pixels >= least * TILE * TILE * tiles_of(small);
}

/* With stride 2 less is saved, which must make up for what threads wait for each other, too. */
static bool has_enough_work(const yki_operand *large, const yki_operand *small, int64_t stride)
{
    int64_t tiles = tiles_of(small), pairs = large->dims[1] * small->dims[1];
    return tiles >= LEAST_TILES && (stride == 1 || tiles * pairs >= LEAST_STRIDE2_PRODUCTS);
}

/* Groups of fewer than 64 channels are slower, by more than stride 2 gains. */
bool yki_minimal_fills_groups(const yki_operand *a, int64_t stride)
{
    return stride == 1 || a->dims[1] % SIDE == 0;
}

static bool takes(const yki_operand *a)
{
    return yki_is_float(a) && a->ndim == 4 && a->layout == YKI_BLOCKED;
}

bool yki_minimal_supports(const yki_device *device, const yki_attrs *attrs,
                          const yki_operand *large, const yki_operand *small,
                          const yki_operand *weight)
{
    return ((const yki_cpu_device *)device)->winograd && yki_is_square(attrs) &&
           algorithm_of(device, attrs->stride[0]) && takes(large) && takes(small) &&
           weight->dims[2] == 3 && weight->dims[3] == 3 && attrs->padding[0] == 1 &&
           attrs->dilation[0] == 1 && attrs->groups == 1;
}

bool yki_minimal_gains(const yki_attrs *attrs, const yki_operand *large, const yki_operand *small)
{
    return yki_minimal_fills_groups(large, attrs->stride[0]) &&
           yki_minimal_fills_groups(small, attrs->stride[0]) &&
           fills_tiles(small, attrs->stride[0]) && has_enough_work(large, small, attrs->stride[0]);
}

/*
 * With stride 2 there are 0.56 to 0.8 as many products as in direct convolution, depending on how
 * full tiles are, so that little may be lost by transformations. oneDNN leaves out the products of
 * padding. AVX2's products lose more, as they load more for each multiplication.
 */
static bool saves_enough(const yki_device *device, const yki_attrs *attrs, const yki_operand *large,
                         const yki_operand *small)
{
    int64_t products = STRIDE2_PRODUCTS * (tiles_of(small) + WEIGHT_TILES);
    int64_t percent = device->block == LANES ? 105 : 120;
    return attrs->stride[0] == 1 ||
           percent * products <= 100 * yki_direct_products(attrs, large, small);
}

/* Forward and the gradient of x, whose products are the same. */
static bool convolution_gains(const yki_device *device, const yki_attrs *attrs,
                              const yki_operand *large, const yki_operand *small)
{
    int64_t products = attrs->stride[0] == 1 ? STRIDE1_PRODUCTS : STRIDE2_PRODUCTS;
    return yki_minimal_gains(attrs, large, small) && saves_enough(device, attrs, large, small) &&
           yki_gains_over_bf16(device, attrs, large, small, tiles_of(small), products);
}

static yki_minimal_activation activation_of(const yki_device *device, const yki_operand *operand)
{
    yki_geometry shape = yki_geometry_of(device, operand);
    return (yki_minimal_activation){.dtype = operand->dtype,
                                    .channels = shape.channels,
                                    .padded = shape.blocks * shape.b,
                                    .groups = (shape.channels + SIDE - 1) / SIDE,
                                    .rows = shape.rows,
                                    .columns = shape.columns};
}

yki_minimal_kernel *yki_minimal_create(const yki_device *device, const yki_attrs *attrs,
                                       const yki_operand *x, const yki_operand *y,
                                       const yki_operand *small)
{
    yki_minimal_kernel *k = yki_calloc(1, sizeof *k);
    if (!k)
        return NULL;
    const yki_minimal *algorithm = algorithm_of(device, attrs->stride[0]);
    k->algorithm = algorithm;
    for (int64_t m = 0; m < MATRICES; m++) {
        k->offsets[m] = yki_minimal_offset(algorithm->stride, algorithm->tiles, m);
        k->points[m] = yki_minimal_points(algorithm->stride, m);
    }
    k->slab = yki_minimal_offset(algorithm->stride, algorithm->tiles, MATRICES);
    k->x = activation_of(device, x);
    k->y = activation_of(device, y);
    k->tiles_down = (small->dims[2] + TILE - 1) / TILE;
    k->tiles_across = (small->dims[3] + TILE - 1) / TILE;
    k->tiles = tiles_of(small);
    k->blocks = (k->tiles + algorithm->tiles - 1) / algorithm->tiles;
    k->team = device->threads;
    k->images = x->dims[0];
    for (int64_t m = 0; m < MATRICES; m++)
        k->base.flop += 2.0 * (double)(k->points[m] * k->tiles * x->dims[1] * y->dims[1]);
    return k;
}

/* Enough blocks for all threads; returns the floats that these need. */
static int64_t plan_blocks(yki_minimal_kernel *k)
{
    int64_t sixes = (k->tiles + ROWS - 1) / ROWS, wanted = (int64_t)THREAD_BLOCKS * k->team;
    if (k->team > 1 && k->blocks < wanted)
        k->blocks = sixes < wanted ? sixes : wanted;
    return yki_minimal_places(k, k->blocks) * (k->x.groups + 1) * k->slab;
}

/* How the work is divided does not change bits: all blocks and groups are computed alike. */
static yk_status minimal_prepare_convolve(const yki_device *device, const yki_attrs *attrs,
                                          const yki_operand *x, const yki_operand *y, bool turned,
                                          yki_kernel **kernel)
{
    yki_minimal_kernel *k = yki_minimal_create(device, attrs, x, y, turned ? x : y);
    if (!k)
        return yki_error_memory(sizeof *k, "a convolution");
    k->turned = turned;
    k->stream = yki_streams(device, y);
    /* The weights are (K, C, 3, 3), K being forward's output channels. */
    k->row_stride = turned ? TAPS * y->dims[1] : TAPS;
    k->column_stride = turned ? TAPS : TAPS * x->dims[1];
    int64_t data = k->blocks * k->x.groups * k->slab, weights = k->x.groups * k->y.groups * WEIGHTS;
    k->by_outputs = data < weights && k->y.groups >= OUTPUTS_A_THREAD * (int64_t)k->team;
    int64_t floats = data + k->team * own_floats(k);
    if (!k->by_outputs)
        floats = weights + plan_blocks(k);
    k->base.scratch = (size_t)floats * sizeof(float);
    *kernel = &k->base;
    return YK_OK;
}

/* ---- forward: x, weight -> y ---------------------------------------------------------------- */

static bool minimal_supports_forward(const yki_device *device, const yki_kernel_desc *desc)
{
    return (!yki_has_in(desc, YKI_CONV2D_BIAS) || desc->in[YKI_CONV2D_BIAS].dtype == YK_F32) &&
           yki_minimal_supports(device, desc->attrs, &desc->in[YKI_CONV2D_X],
                                &desc->out[YKI_CONV2D_Y], &desc->in[YKI_CONV2D_WEIGHT]);
}

static bool minimal_gains_forward(const yki_device *device, const yki_kernel_desc *desc)
{
    return convolution_gains(device, desc->attrs, &desc->in[YKI_CONV2D_X],
                             &desc->out[YKI_CONV2D_Y]);
}

static yk_status minimal_prepare_forward(yki_device *device, const yki_kernel_desc *desc,
                                         yki_kernel **kernel)
{
    YK_TRY(minimal_prepare_convolve(device, desc->attrs, &desc->in[YKI_CONV2D_X],
                                    &desc->out[YKI_CONV2D_Y], false, kernel));
    yki_minimal_kernel *k = (yki_minimal_kernel *)*kernel;
    k->bias = yki_has_in(desc, YKI_CONV2D_BIAS);
    k->base.scratch += (size_t)bias_floats(k) * sizeof(float);
    return YK_OK;
}

const yki_kernel_impl yki_cpu_conv2d_minimal = {.op = &yki_op_conv2d,
                                                .name = "minimal",
                                                .supports = minimal_supports_forward,
                                                .gains = minimal_gains_forward,
                                                .prepare = minimal_prepare_forward,
                                                .run = minimal_convolve};

/* ---- gradient of x: dy, weight -> dx -------------------------------------------------------- */

static bool minimal_supports_backward_data(const yki_device *device, const yki_kernel_desc *desc)
{
    return yki_minimal_supports(device, desc->attrs, &desc->out[YKI_CONV2D_BACKWARD_DATA_DX],
                                &desc->in[YKI_CONV2D_BACKWARD_DATA_DY],
                                &desc->in[YKI_CONV2D_BACKWARD_DATA_WEIGHT]);
}

static bool minimal_gains_backward_data(const yki_device *device, const yki_kernel_desc *desc)
{
    return convolution_gains(device, desc->attrs, &desc->out[YKI_CONV2D_BACKWARD_DATA_DX],
                             &desc->in[YKI_CONV2D_BACKWARD_DATA_DY]);
}

static yk_status minimal_prepare_backward_data(yki_device *device, const yki_kernel_desc *desc,
                                               yki_kernel **kernel)
{
    return minimal_prepare_convolve(device, desc->attrs, &desc->in[YKI_CONV2D_BACKWARD_DATA_DY],
                                    &desc->out[YKI_CONV2D_BACKWARD_DATA_DX], true, kernel);
}

const yki_kernel_impl yki_cpu_conv2d_backward_data_minimal = {
    .op = &yki_op_conv2d_backward_data,
    .name = "minimal",
    .supports = minimal_supports_backward_data,
    .gains = minimal_gains_backward_data,
    .prepare = minimal_prepare_backward_data,
    .run = minimal_convolve};

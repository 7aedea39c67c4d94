/*
 * Direct convolution of bf16 activations on AMX: forward, and the gradient of x, which is the same
 * sum with other taps. Weights are rounded to bf16 and packed once per step, as in conv.c.
 *
 * A unit of work is some rows of the output of a block of images. It goes through its output in
 * strips of a few rows; the rows of the input that a strip needs are read into a ring, so that each
 * is read once. For each group of 32 output channels, and for as many input channels at a time as
 * have weights that fit the first-level cache, the strip's sums are added to. The order in which a
 * sum is added up depends on the shape alone, so its bits do not depend on threads.
 */
#include "device/cpu/x86/conv_amx.h"

#include <stdlib.h>

#include "base/memory.h"
#include "device/cpu/onednn.h"

enum {
    LEAST_IMAGES = 8,
    STRIP_PIXELS = 16,    /* that a strip should have, to share the weights that it reads */
    RING_BYTES = 1 << 20, /* that it should not exceed for this */
    WEIGHT_TAPS = 12,     /* times groups of input channels, whose weights are used at a time */
    UNITS = 4             /* a thread */
};

/* ---- activations ---------------------------------------------------------------------------- */

bool yki_conv_amx_supports(const yki_device *device, const yki_attrs *attrs, const yki_operand *x,
                           const yki_operand *y, const yki_operand *weight)
{
    return ((const yki_cpu_device *)device)->has_amx && device->block == YKI_AMX_LANES &&
           x->dtype == YK_BF16 && y->dtype == YK_BF16 && x->layout == YKI_BLOCKED &&
           y->layout == YKI_BLOCKED && yki_is_square(attrs) && attrs->groups == 1 &&
           x->dims[0] >= LEAST_IMAGES && weight->dims[2] <= YKI_AMX_MOST_TAPS &&
           weight->dims[3] <= YKI_AMX_MOST_TAPS;
}

yki_amx_image yki_amx_image_of(const yki_operand *activation)
{
    const int64_t *dims = activation->dims;
    int64_t blocks = (dims[1] + YKI_AMX_LANES - 1) / YKI_AMX_LANES;
    return (yki_amx_image){.images = dims[0],
                           .channels = dims[1],
                           .blocks = blocks,
                           .groups = (blocks + 1) / 2,
                           .rows = dims[2],
                           .columns = dims[3]};
}

int64_t yki_amx_blocks(int64_t images)
{
    return (images + YKI_AMX_SIDE - 1) / YKI_AMX_SIDE;
}

yki_amx_block yki_amx_block_of(int64_t images, int64_t index)
{
    int64_t blocks = yki_amx_blocks(images), begin = images * index / blocks;
    return (yki_amx_block){begin, images * (index + 1) / blocks - begin};
}

yki_amx_row yki_amx_row_at(const yki_amx_image *image, const void *data, yki_amx_block block,
                           int64_t group, int64_t row)
{
    int64_t block_step = image->rows * image->columns * YKI_AMX_LANES;
    int64_t image_step = image->blocks * block_step;
    return (yki_amx_row){.at = (const uint16_t *)data + block.begin * image_step +
                               2 * group * block_step + row * image->columns * YKI_AMX_LANES,
                         .image_step = image_step,
                         .block_step = block_step,
                         .images = block.count,
                         .columns = image->columns,
                         .blocks = 2 * group + 1 < image->blocks ? 2 : 1};
}

yki_amx_kernels yki_amx_kernels_of(const yki_operand *x, const yki_operand *weight)
{
    const int64_t *dims = weight->dims;
    return (yki_amx_kernels){
        .ins = x->dims[1], .outs = dims[0], .width = dims[1], .taps = dims[2] * dims[3]};
}

yki_amx_weights yki_amx_weights_at(const yki_amx_kernels *kernels, const float *weight, int64_t in,
                                   int64_t out)
{
    const bool diagonal = yki_amx_diagonal(kernels);
    const int64_t taps = kernels->taps, step = taps * kernels->width;
    const int64_t i = in * YKI_AMX_SIDE, o = out * YKI_AMX_SIDE;
    const int64_t ins = kernels->ins - i < YKI_AMX_SIDE ? kernels->ins - i : YKI_AMX_SIDE;
    const int64_t outs = kernels->outs - o < YKI_AMX_SIDE ? kernels->outs - o : YKI_AMX_SIDE;
    return (yki_amx_weights){.at =
                                 (float *)(uintptr_t)weight + o * step + (diagonal ? 0 : i * taps),
                             .outs = outs,
                             .ins = ins,
                             .width = diagonal ? kernels->width : ins,
                             .step = step,
                             .taps = (int)taps};
}

/* ---- taps ----------------------------------------------------------------------------------- */

static void add_tap(yki_amx_taps *taps, int64_t tap, int64_t at)
{
    taps->of[taps->count].tap = (int)tap;
    taps->of[taps->count].at = at;
    taps->count++;
}

yki_amx_taps *yki_amx_taps_forward(const yki_attrs *attrs, int64_t size, int64_t in, int64_t out,
                                   int pitch)
{
    yki_amx_taps *taps = yki_calloc((size_t)out, sizeof *taps);
    for (int64_t i = 0; taps && i < out; i++)
        for (int64_t t = 0; t < size; t++) {
            int64_t at = i * attrs->stride[0] + t * attrs->dilation[0] - attrs->padding[0];
            if (at >= 0 && at < in)
                add_tap(&taps[i], t * pitch, at);
        }
    return taps;
}

yki_amx_taps *yki_amx_taps_backward(const yki_attrs *attrs, int64_t size, int64_t in, int64_t out,
                                    int pitch)
{
    yki_amx_taps *taps = yki_calloc((size_t)out, sizeof *taps);
    for (int64_t i = 0; taps && i < out; i++)
        for (int64_t t = size - 1; t >= 0; t--) {
            int64_t at = i + attrs->padding[0] - t * attrs->dilation[0];
            if (at >= 0 && at % attrs->stride[0] == 0 && at / attrs->stride[0] < in)
                add_tap(&taps[i], t * pitch, at / attrs->stride[0]);
        }
    return taps;
}

yki_amx_rows yki_amx_rows_of(const yki_amx_taps *down, int64_t begin, int64_t end)
{
    yki_amx_rows rows = {0, 0};
    for (int64_t i = begin; i < end; i++)
        for (int t = 0; t < down[i].count; t++) {
            int64_t at = down[i].of[t].at;
            bool none = rows.begin == rows.end;
            rows.begin = none || at < rows.begin ? at : rows.begin;
            rows.end = none || at >= rows.end ? at + 1 : rows.end;
        }
    return rows;
}

int64_t yki_amx_most_rows(const yki_amx_taps *down, int64_t rows, int64_t strip)
{
    int64_t most = 1;
    for (int64_t i = 0; i < rows; i++) { /* wherever a strip begins */
        yki_amx_rows r = yki_amx_rows_of(down, i, i + strip < rows ? i + strip : rows);
        most = r.end - r.begin > most ? r.end - r.begin : most;
    }
    return most;
}

/* ---- rings ---------------------------------------------------------------------------------- */

yki_amx_ring yki_amx_ring_of(const yki_amx_image *image, int64_t capacity, char *at)
{
    int64_t row = image->columns * YKI_AMX_PIXEL;
    return (yki_amx_ring){
        .at = at, .capacity = capacity, .row_bytes = row, .group_bytes = capacity * row};
}

int64_t yki_amx_ring_bytes(const yki_amx_ring *ring, const yki_amx_image *image)
{
    return image->groups * ring->group_bytes;
}

void yki_amx_ring_read(yki_amx_ring *ring, yki_amx_rows rows, const yki_amx_image *image,
                       const void *data, yki_amx_block block,
                       void (*read)(const yki_amx_row *row, char *to))
{
    for (int64_t r = rows.begin; r < rows.end; r++) {
        if (r >= ring->rows.begin && r < ring->rows.end)
            continue;
        for (int64_t g = 0; g < image->groups; g++) {
            yki_amx_row row = yki_amx_row_at(image, data, block, g, r);
            read(&row, yki_amx_ring_row(ring, g, r));
        }
    }
    if (rows.begin < rows.end)
        ring->rows = rows;
}

/* ---- the kernel ----------------------------------------------------------------------------- */

typedef struct conv_amx {
    yki_kernel base;
    yki_amx_image in, out;
    yki_amx_taps *down, *across; /* of each row and column of the output */
    int64_t taps;
    int64_t strip, capacity; /* rows of the output, and of the ring */
    int64_t depth;           /* groups of input channels at a time */
    int64_t chunks;          /* units of work of a block of images */
    bool bias;
    bool backward; /* the gradient of x: `in` is dy, and weights are transposed */
    int team;
} conv_amx;

static int64_t weight_bytes(const conv_amx *k)
{
    return k->in.groups * k->taps * YKI_AMX_BRICK;
}

/* A thread's memory: its ring, and the sums of a strip. */
static int64_t own_bytes(const conv_amx *k)
{
    yki_amx_ring ring = yki_amx_ring_of(&k->in, k->capacity, NULL);
    return yki_amx_ring_bytes(&ring, &k->in) +
           k->strip * k->out.columns * YKI_AMX_SUMS * (int64_t)sizeof(float);
}

/* Adds to the sums of a strip, for a group of outputs and `depth` groups of inputs from g on. */
static void add_groups(const conv_amx *k, const yki_amx_ring *ring, yki_amx_rows strip, int64_t g,
                       const char *weight, int64_t images, float *sums)
{
    yki_amx_sum sum = {.across = k->across,
                       .columns = k->out.columns,
                       .groups = k->in.groups - g < k->depth ? k->in.groups - g : k->depth,
                       .group_step = ring->group_bytes,
                       .weight = weight + g * k->taps * YKI_AMX_BRICK,
                       .weight_step = k->taps * YKI_AMX_BRICK,
                       .images = images,
                       .first = g == 0};
    for (int64_t row = strip.begin; row < strip.end; row++) {
        const yki_amx_taps *down = &k->down[row];
        sum.row_count = down->count;
        for (int i = 0; i < down->count; i++) {
            sum.rows[i] = yki_amx_ring_row(ring, g, down->of[i].at);
            sum.taps[i] = down->of[i].tap;
        }
        yki_amx_multiply(&sum, sums + (row - strip.begin) * k->out.columns * YKI_AMX_SUMS);
    }
}

static void write_strip(const conv_amx *k, yki_amx_rows strip, int64_t group, yki_amx_block block,
                        const float *sums, const float *bias, void *y)
{
    float own[YKI_AMX_SIDE] = {0};
    for (int64_t i = 0; bias && i < YKI_AMX_SIDE; i++)
        if (group * YKI_AMX_SIDE + i < k->out.channels)
            own[i] = bias[group * YKI_AMX_SIDE + i];
    for (int64_t row = strip.begin; row < strip.end; row++) {
        yki_amx_row to = yki_amx_row_at(&k->out, y, block, group, row);
        yki_amx_write(sums + (row - strip.begin) * k->out.columns * YKI_AMX_SUMS, bias ? own : NULL,
                      &to);
    }
}

static void convolve_unit(const conv_amx *k, const yki_kernel_args *run, int64_t unit, char *own)
{
    const int64_t chunk = unit % k->chunks, rows = k->out.rows;
    const yki_amx_block block = yki_amx_block_of(k->in.images, unit / k->chunks);
    const yki_amx_rows all = {rows * chunk / k->chunks, rows * (chunk + 1) / k->chunks};
    const float *bias = k->bias ? run->in[YKI_CONV2D_BIAS] : NULL;
    yki_amx_ring ring = yki_amx_ring_of(&k->in, k->capacity, own);
    float *sums = (float *)(void *)(own + yki_amx_ring_bytes(&ring, &k->in));
    yki_amx_begin(block.count);
    for (int64_t row = all.begin; row < all.end; row += k->strip) {
        yki_amx_rows strip = {row, row + k->strip < all.end ? row + k->strip : all.end};
        yki_amx_ring_read(&ring, yki_amx_rows_of(k->down, strip.begin, strip.end), &k->in,
                          run->in[0], block, yki_amx_read);
        for (int64_t out = 0; out < k->out.groups; out++) {
            const char *weight = (const char *)run->in[1] + out * weight_bytes(k);
            for (int64_t g = 0; g < k->in.groups; g += k->depth)
                add_groups(k, &ring, strip, g, weight, block.count, sums);
            write_strip(k, strip, out, block, sums, bias, run->out[0]);
        }
    }
    yki_amx_end();
}

static yk_status convolve(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const conv_amx *k = (const conv_amx *)kernel;
    const int64_t units = yki_amx_blocks(k->in.images) * k->chunks;
#pragma omp parallel for schedule(dynamic) num_threads(k->team) if (k->team > 1)
    for (int64_t unit = 0; unit < units; unit++)
        convolve_unit(k, run, unit, (char *)run->scratch + omp_get_thread_num() * own_bytes(k));
    return YK_OK;
}

void yki_amx_pack_weights(const yki_amx_pack *how, const float *weight, void *packed)
{
    const yki_amx_kernels *all = &how->kernels;
    const int64_t ins = (all->ins + YKI_AMX_SIDE - 1) / YKI_AMX_SIDE;
    const int64_t outs = (all->outs + YKI_AMX_SIDE - 1) / YKI_AMX_SIDE;
    const int64_t inner = how->backward ? outs : ins;
    const bool diagonal = yki_amx_diagonal(all);
#pragma omp parallel for num_threads(how->team) if (how->team > 1)
    for (int64_t i = 0; i < (diagonal ? outs : ins * outs); i++) {
        const int64_t from = diagonal ? i : i % inner, to = diagonal ? i : i / inner;
        yki_amx_weights kernels = how->backward ? yki_amx_weights_at(all, weight, to, from)
                                                : yki_amx_weights_at(all, weight, from, to);
        yki_amx_read_weights(&kernels, how->backward,
                             (char *)packed + i * all->taps * YKI_AMX_BRICK);
    }
}

static yk_status pack(const yki_kernel *kernel, const void *parameter, void *packed,
                      yki_stream *stream)
{
    (void)stream;
    const conv_amx *k = (const conv_amx *)kernel;
    const int64_t ins = k->backward ? k->out.channels : k->in.channels;
    const yki_amx_pack how = {.kernels = {.ins = ins,
                                          .outs = k->backward ? k->in.channels : k->out.channels,
                                          .width = ins,
                                          .taps = k->taps},
                              .backward = k->backward,
                              .team = k->team};
    yki_amx_pack_weights(&how, parameter, packed);
    return YK_OK;
}

static bool same_pack(const yki_kernel *kernel, const yki_kernel *other)
{
    return ((const conv_amx *)kernel)->backward == ((const conv_amx *)other)->backward;
}

static void destroy(yki_kernel *kernel)
{
    conv_amx *k = (conv_amx *)kernel;
    free(k->down);
    free(k->across);
    free(k);
}

/* How the work is divided. */
static void plan(conv_amx *k)
{
    int64_t row = k->in.groups * k->in.columns * YKI_AMX_PIXEL;
    do
        k->capacity = yki_amx_most_rows(k->down, k->out.rows, ++k->strip);
    while (k->strip < k->out.rows && k->strip * k->out.columns < STRIP_PIXELS &&
           (k->capacity + 1) * row <= RING_BYTES);
    k->depth = WEIGHT_TAPS / k->taps > 1 ? WEIGHT_TAPS / k->taps : 1;
    int64_t strips = (k->out.rows + k->strip - 1) / k->strip;
    int64_t blocks = yki_amx_blocks(k->in.images);
    k->chunks = (UNITS * k->team + blocks - 1) / blocks;
    k->chunks = k->team == 1 ? 1 : k->chunks < strips ? k->chunks : strips;
    k->base.scratch = (size_t)(k->team * own_bytes(k));
    k->base.matrix_unit = true;
    k->base.pack_input = 1;
    k->base.pack_bytes = (size_t)(k->out.groups * weight_bytes(k));
}

typedef yki_amx_taps *taps_function(const yki_attrs *attrs, int64_t size, int64_t in, int64_t out,
                                    int pitch);

static yk_status prepare(yki_device *device, const yki_kernel_desc *desc, taps_function *taps_of,
                         conv_amx **kernel)
{
    const int64_t *weight = desc->in[1].dims;
    conv_amx *k = yki_calloc(1, sizeof *k);
    if (!k)
        return yki_error_memory(sizeof *k, "a convolution");
    k->in = yki_amx_image_of(&desc->in[0]);
    k->out = yki_amx_image_of(&desc->out[0]);
    k->taps = weight[2] * weight[3];
    k->team = device->threads;
    k->down = taps_of(desc->attrs, weight[2], k->in.rows, k->out.rows, (int)weight[3]);
    k->across = taps_of(desc->attrs, weight[3], k->in.columns, k->out.columns, 1);
    if (!k->down || !k->across) {
        destroy(&k->base);
        return yki_error_memory((size_t)(k->out.rows + k->out.columns) * sizeof *k->down,
                                "a convolution's taps");
    }
    plan(k);
    *kernel = k;
    return YK_OK;
}

/* ---- forward: x, weight, [bias] -> y -------------------------------------------------------- */

static bool supports_forward(const yki_device *device, const yki_kernel_desc *desc)
{
    return yki_conv_amx_supports(device, desc->attrs, &desc->in[YKI_CONV2D_X],
                                 &desc->out[YKI_CONV2D_Y], &desc->in[YKI_CONV2D_WEIGHT]);
}

static yk_status prepare_forward(yki_device *device, const yki_kernel_desc *desc,
                                 yki_kernel **kernel)
{
    conv_amx *k;
    YK_TRY(prepare(device, desc, yki_amx_taps_forward, &k));
    k->bias = yki_has_in(desc, YKI_CONV2D_BIAS);
    *kernel = &k->base;
    return YK_OK;
}

const yki_kernel_impl yki_cpu_conv2d_amx = {.op = &yki_op_conv2d,
                                            .name = "amx",
                                            .supports = supports_forward,
                                            .prepare = prepare_forward,
                                            .run = convolve,
                                            .destroy = destroy,
                                            .pack = pack,
                                            .same_pack = same_pack};

/* ---- gradient of x: dy, weight -> dx -------------------------------------------------------- */

static bool supports_data(const yki_device *device, const yki_kernel_desc *desc)
{
    return yki_conv_amx_supports(device, desc->attrs, &desc->out[YKI_CONV2D_BACKWARD_DATA_DX],
                                 &desc->in[YKI_CONV2D_BACKWARD_DATA_DY],
                                 &desc->in[YKI_CONV2D_BACKWARD_DATA_WEIGHT]);
}

static yk_status prepare_data(yki_device *device, const yki_kernel_desc *desc, yki_kernel **kernel)
{
    conv_amx *k;
    YK_TRY(prepare(device, desc, yki_amx_taps_backward, &k));
    k->backward = true;
    *kernel = &k->base;
    return YK_OK;
}

const yki_kernel_impl yki_cpu_conv2d_backward_data_amx = {.op = &yki_op_conv2d_backward_data,
                                                          .name = "amx",
                                                          .supports = supports_data,
                                                          .prepare = prepare_data,
                                                          .run = convolve,
                                                          .destroy = destroy,
                                                          .pack = pack,
                                                          .same_pack = same_pack};

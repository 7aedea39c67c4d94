/*
 * Both gradients of convolutions of stride 2, on AVX-512, as products of panels that are read from
 * the activations pixel by pixel (activations in f32, bf16 or f16, weights and arithmetic in f32).
 * For deep layers, oneDNN's gradients reach half the processor's peak; in 16 bits, these kernels
 * also save the copy that staged.c would make.
 *
 * One product is (64 pixels, 64 channels) by (64, 64), of one tap of the kernel. The pixels of dx
 * form four phases, by whether their row and column are even. Each phase has its own taps, and in
 * each dx is a convolution of dy without stride.
 *
 * The order of every sum depends on the shape alone, so the result has the same bits with any
 * number of threads.
 */

#include "base/memory.h"
#include "device/cpu/geometry.h"
#include "device/cpu/onednn.h"
#include "device/cpu/x86/panel.h"

enum {
    SIDE = YKI_PANEL_SIDE,
    PANEL = YKI_PANEL,
    LANES = YKI_PANEL_LANES,
    STRIDE = 2,
    PHASES = STRIDE * STRIDE,
    MAX_TAPS = 9,
    BATCH = 4, /* panels of pixels that are added to a weight gradient at a time */
    PIECES =
        4 /* of a weight gradient's work for each thread: one whose core is shared takes less */
};

/* A tap of the kernel: for output pixel (i, j) it reads (step i + down, step j + across). */
typedef struct tap {
    int64_t down, across, index;
} tap;

/* Output pixels with the same taps: (first_row + i spread, first_column + j spread). */
typedef struct phase {
    int64_t first_row, first_column, spread, step;
    int64_t rows, columns, pixels; /* pixels of all images */
    int tap_count;
    tap taps[MAX_TAPS];
} phase;

typedef struct strided {
    yki_kernel base;
    /* What is read and what is written; x and dy for the gradient of the weights. */
    yki_panel_activation in, out;
    int64_t images, taps;
    int team, phase_count;
    phase phases[PHASES];
    /* The location of the weight of row r (an input channel) and column c (an output channel). */
    int64_t row_stride, column_stride;
} strided;

/* ---- pixels --------------------------------------------------------------------------------- */

static int64_t element_of(const yki_panel_activation *a, int64_t image, int64_t row, int64_t column)
{
    int64_t pixel = image * a->groups * (SIDE / LANES) * a->rows * a->columns;
    return (pixel + row * a->columns + column) * LANES;
}

/* 64 channels of all pixels. */
static yki_panel_pixels channels_of(const yki_panel_activation *a, const void *data, int64_t group)
{
    int64_t block = a->rows * a->columns * LANES;
    size_t offset = (size_t)(group * (SIDE / LANES) * block) * yk_dtype_size(a->dtype);
    return (yki_panel_pixels){
        .data = (char *)(uintptr_t)data + offset, .dtype = a->dtype, .block = block};
}

/* Up to 64 output pixels of a phase, and the location of each. */
typedef struct pixel_block {
    int64_t count;
    int64_t image[SIDE], row[SIDE], column[SIDE]; /* row and column within the phase */
    int64_t at[SIDE];
} pixel_block;

static int64_t block_count(const phase *p)
{
    return (p->pixels + SIDE - 1) / SIDE;
}

static void find_block(const strided *k, const phase *p, int64_t index, pixel_block *block)
{
    int64_t first = index * SIDE, last = first + SIDE < p->pixels ? first + SIDE : p->pixels;
    int64_t column = first % p->columns, row = first / p->columns % p->rows;
    int64_t image = first / p->columns / p->rows;
    block->count = last - first;
    for (int64_t i = 0; i < block->count; i++) {
        block->image[i] = image;
        block->row[i] = row;
        block->column[i] = column;
        block->at[i] = element_of(&k->out, image, p->first_row + row * p->spread,
                                  p->first_column + column * p->spread);
        if (++column < p->columns)
            continue;
        column = 0;
        if (++row < p->rows)
            continue;
        row = 0;
        image++;
    }
}

/* The locations of the input pixels of a tap; negative outside the image. */
static void find_inputs(const strided *k, const phase *p, const tap *t, const pixel_block *block,
                        int64_t *at)
{
    for (int64_t i = 0; i < block->count; i++) {
        int64_t row = block->row[i] * p->step + t->down;
        int64_t column = block->column[i] * p->step + t->across;
        bool inside = row >= 0 && row < k->in.rows && column >= 0 && column < k->in.columns;
        at[i] = inside ? element_of(&k->in, block->image[i], row, column) : -1;
    }
}

/* ---- preparation ---------------------------------------------------------------------------- */

/* In f32 oneDNN is as fast on few channels, and faster on 1x1. */
static bool gains(const yki_device *device, const yki_operand *x, const yki_operand *weight)
{
    bool f32_gains = x->dims[1] >= 256 && weight->dims[2] * weight->dims[3] > 1;
    return x->dtype == YK_F32 ? f32_gains : !yki_prefers_bf16(device, x);
}

static bool strided_supports(const yki_device *device, const yki_attrs *attrs, const yki_operand *x,
                             const yki_operand *y, const yki_operand *weight)
{
    return yki_panel_takes(device, x) && yki_panel_takes(device, y) &&
           weight->dims[2] * weight->dims[3] <= MAX_TAPS && yki_is_square(attrs) &&
           attrs->stride[0] == STRIDE && attrs->dilation[0] == 1 && attrs->groups == 1;
}

static void add_tap(phase *p, int64_t down, int64_t across, int64_t index)
{
    p->taps[p->tap_count++] = (tap){.down = down, .across = across, .index = index};
}

/* The gradient of the weights has one phase, all of dy: row i and tap r read row
 * 2 i + r - padding of x. */
static void plan_weight(strided *k, int64_t kernel_columns, int64_t padding)
{
    k->phase_count = 1;
    k->phases[0] =
        (phase){.spread = 1, .step = STRIDE, .rows = k->out.rows, .columns = k->out.columns};
    for (int64_t t = 0; t < k->taps; t++)
        add_tap(&k->phases[0], t / kernel_columns - padding, t % kernel_columns - padding, t);
}

/* The gradient of x: row 2 i + a and tap r read row (2 i + a + padding - r) / 2 of dy. */
static void plan_data(strided *k, int64_t kernel_columns, int64_t padding)
{
    for (int64_t a = 0; a < STRIDE; a++)
        for (int64_t b = 0; b < STRIDE; b++) {
            phase *p = &k->phases[k->phase_count++];
            *p = (phase){.first_row = a,
                         .first_column = b,
                         .spread = STRIDE,
                         .step = 1,
                         .rows = (k->out.rows - a + 1) / STRIDE,
                         .columns = (k->out.columns - b + 1) / STRIDE};
            for (int64_t t = 0; t < k->taps; t++) {
                int64_t down = a + padding - t / kernel_columns;
                int64_t across = b + padding - t % kernel_columns;
                if (down % STRIDE == 0 && across % STRIDE == 0)
                    add_tap(p, down / STRIDE, across / STRIDE, t);
            }
        }
}

static strided *strided_create(const yki_device *device, const yki_operand *in,
                               const yki_operand *out, const yki_operand *weight)
{
    strided *k = yki_calloc(1, sizeof *k);
    if (!k)
        return NULL;
    k->in = yki_panel_activation_of(in);
    k->out = yki_panel_activation_of(out);
    k->images = in->dims[0];
    k->taps = weight->dims[2] * weight->dims[3];
    k->team = device->threads;
    return k;
}

static void count_pixels(strided *k)
{
    for (int i = 0; i < k->phase_count; i++)
        k->phases[i].pixels = k->images * k->phases[i].rows * k->phases[i].columns;
}

/* ---- gradient of x: dy, weight -> dx -------------------------------------------------------- */

/* Copies the weights of one pair of groups to their panels (out group, in group, tap). */
static void read_weights(const strided *k, const float *weight, int64_t pair, float *panels)
{
    const float *corner = weight + pair % k->in.groups * SIDE * k->row_stride +
                          pair / k->in.groups * SIDE * k->column_stride;
    yki_panel_read_weight(corner, k->row_stride, k->column_stride, k->taps,
                          panels + pair * k->taps * PANEL);
}

/* The memory of one thread: a block's input by group and tap, and its result. */
static int64_t thread_panels(const strided *k)
{
    return k->in.groups * k->taps + 1;
}

static void strided_convolve_block(const strided *k, const phase *p, int64_t index, const void *in,
                                   const float *weights, void *out, float *own)
{
    pixel_block block;
    find_block(k, p, index, &block);
    float *result = own, *inputs = own + PANEL;
    for (int t = 0; t < p->tap_count; t++) {
        int64_t at[SIDE];
        find_inputs(k, p, &p->taps[t], &block, at);
        for (int64_t group = 0; group < k->in.groups; group++) {
            yki_panel_pixels pixels = channels_of(&k->in, in, group);
            yki_panel_read(&pixels, at, block.count, inputs + (group * p->tap_count + t) * PANEL);
        }
    }
    for (int64_t i = 0; p->tap_count == 0 && i < PANEL; i++)
        result[i] = 0; /* no tap reaches these pixels */
    for (int64_t to = 0; to < k->out.groups; to++) {
        for (int64_t from = 0; from < k->in.groups; from++)
            for (int t = 0; t < p->tap_count; t++)
                yki_panel_multiply(
                    inputs + (from * p->tap_count + t) * PANEL,
                    weights + ((to * k->in.groups + from) * k->taps + p->taps[t].index) * PANEL,
                    result, block.count, from + t == 0);
        yki_panel_pixels pixels = channels_of(&k->out, out, to);
        yki_panel_write(result, block.count, &pixels, block.at);
    }
}

static yk_status convolve_data(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const strided *k = (const strided *)kernel;
    float *weights = run->scratch;
    float *threads = weights + k->in.groups * k->out.groups * k->taps * PANEL;
#pragma omp parallel num_threads(k->team) if (k->team > 1)
    {
#pragma omp for schedule(dynamic)
        for (int64_t pair = 0; pair < k->out.groups * k->in.groups; pair++)
            read_weights(k, run->in[YKI_CONV2D_BACKWARD_DATA_WEIGHT], pair, weights);
        for (int i = 0; i < k->phase_count; i++) {
            const phase *p = &k->phases[i];
            const int64_t blocks = block_count(p);
#pragma omp for schedule(dynamic) nowait
            for (int64_t block = 0; block < blocks; block++)
                strided_convolve_block(k, p, block, run->in[YKI_CONV2D_BACKWARD_DATA_DY], weights,
                                       run->out[YKI_CONV2D_BACKWARD_DATA_DX],
                                       threads + omp_get_thread_num() * thread_panels(k) * PANEL);
        }
    }
    return YK_OK;
}

static bool strided_supports_data(const yki_device *device, const yki_kernel_desc *desc)
{
    return strided_supports(device, desc->attrs, &desc->out[YKI_CONV2D_BACKWARD_DATA_DX],
                            &desc->in[YKI_CONV2D_BACKWARD_DATA_DY],
                            &desc->in[YKI_CONV2D_BACKWARD_DATA_WEIGHT]);
}

/* Where bf16 dot products are fast, vectors are loaded no faster than they are multiplied. oneDNN's
 * f32 gradient of x runs at 0.9 of the peak there, and takes 0.7 to 0.9 of the time of this one. */
static bool strided_gains_data(const yki_device *device, const yki_kernel_desc *desc)
{
    const yki_operand *dx = &desc->out[YKI_CONV2D_BACKWARD_DATA_DX];
    bool one_load = dx->dtype == YK_F32 && ((const yki_cpu_device *)device)->native_bf16;
    return !one_load && gains(device, dx, &desc->in[YKI_CONV2D_BACKWARD_DATA_WEIGHT]);
}

static yk_status strided_prepare_data(yki_device *device, const yki_kernel_desc *desc,
                                      yki_kernel **kernel)
{
    const yki_operand *weight = &desc->in[YKI_CONV2D_BACKWARD_DATA_WEIGHT];
    strided *k = strided_create(device, &desc->in[YKI_CONV2D_BACKWARD_DATA_DY],
                                &desc->out[YKI_CONV2D_BACKWARD_DATA_DX], weight);
    if (!k)
        return yki_error_memory(sizeof *k, "a convolution");
    k->row_stride = k->taps * weight->dims[1];
    k->column_stride = k->taps;
    plan_data(k, weight->dims[3], desc->attrs->padding[0]);
    count_pixels(k);
    int64_t panels = k->in.groups * k->out.groups * k->taps + k->team * thread_panels(k);
    k->base.scratch = (size_t)(panels * PANEL) * sizeof(float);
    *kernel = &k->base;
    return YK_OK;
}

const yki_kernel_impl yki_cpu_conv2d_backward_data_strided = {.op = &yki_op_conv2d_backward_data,
                                                              .name = "strided",
                                                              .supports = strided_supports_data,
                                                              .gains = strided_gains_data,
                                                              .prepare = strided_prepare_data,
                                                              .run = convolve_data};

/* ---- gradient of the weights: x, dy -> dweight ---------------------------------------------- */

/* The memory of one thread: a batch of dy by group, and the input of one tap. */
static int64_t weight_thread_panels(const strided *k)
{
    return BATCH * (k->out.groups + 1);
}

/* Adds a batch of pixel blocks to the sums of one input group and tap, for all output groups. */
static void strided_add_products(const strided *k, const pixel_block *blocks, int64_t count,
                                 const float *inputs, const float *gradients, float *sums,
                                 bool first)
{
    for (int64_t to = 0; to < k->out.groups; to++)
        for (int64_t b = 0; b < count; b++)
            yki_panel_multiply_transposed(inputs + b * PANEL, gradients + (to * BATCH + b) * PANEL,
                                          sums + to * PANEL, blocks[b].count, first && b == 0);
}

/* The sums of the pairs of an input group and a tap in [begin, end), over all pixels. */
static void sum_weight(const strided *k, const yki_kernel_args *run, int64_t begin, int64_t end,
                       float *sums, float *own)
{
    const phase *p = &k->phases[0];
    float *gradients = own, *inputs = own + BATCH * k->out.groups * PANEL;
    int64_t blocks = block_count(p);
    for (int64_t first = 0; first < blocks; first += BATCH) {
        pixel_block batch[BATCH];
        int64_t count = blocks - first < BATCH ? blocks - first : BATCH;
        for (int64_t b = 0; b < count; b++) {
            find_block(k, p, first + b, &batch[b]);
            for (int64_t to = 0; to < k->out.groups; to++) {
                yki_panel_pixels pixels =
                    channels_of(&k->out, run->in[YKI_CONV2D_BACKWARD_WEIGHT_DY], to);
                yki_panel_read(&pixels, batch[b].at, batch[b].count,
                               gradients + (to * BATCH + b) * PANEL);
            }
        }
        for (int64_t i = begin; i < end; i++) {
            yki_panel_pixels pixels =
                channels_of(&k->in, run->in[YKI_CONV2D_BACKWARD_WEIGHT_X], i / k->taps);
            for (int64_t b = 0; b < count; b++) {
                int64_t at[SIDE];
                find_inputs(k, p, &p->taps[i % k->taps], &batch[b], at);
                yki_panel_read(&pixels, at, batch[b].count, inputs + b * PANEL);
            }
            strided_add_products(k, batch, count, inputs, gradients,
                                 sums + i * k->out.groups * PANEL, first == 0);
        }
    }
}

/* Writes the sums (in group, tap, out group) of one output channel to the canonical gradient. */
static void write_weight(const strided *k, const float *sums, int64_t out, float *weight)
{
    for (int64_t in = 0; in < k->in.groups * SIDE; in++)
        for (int64_t t = 0; t < k->taps; t++) {
            int64_t panel = (in / SIDE * k->taps + t) * k->out.groups + out / SIDE;
            weight[in * k->row_stride + out * k->column_stride + t] =
                sums[panel * PANEL + in % SIDE * SIDE + out % SIDE];
        }
}

static yk_status strided_convolve_weight(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const strided *k = (const strided *)kernel;
    const int64_t pairs = k->in.groups * k->taps;
    /* Every piece reads all of dy again: a thread alone has one, and several have no more than they
     * need in order not to wait for each other. */
    const int64_t wanted = k->team == 1 ? 1 : PIECES * k->team;
    const int64_t pieces = pairs < wanted ? pairs : wanted;
    float *sums = run->scratch;
    float *threads = sums + pairs * k->out.groups * PANEL;
#pragma omp parallel num_threads(k->team) if (k->team > 1)
    {
        float *own = threads + omp_get_thread_num() * weight_thread_panels(k) * PANEL;
#pragma omp for schedule(dynamic)
        for (int64_t i = 0; i < pieces; i++)
            sum_weight(k, run, pairs * i / pieces, pairs * (i + 1) / pieces, sums, own);
#pragma omp for schedule(dynamic, LANES) nowait
        for (int64_t out = 0; out < k->out.groups * SIDE; out++)
            write_weight(k, sums, out, run->out[YKI_CONV2D_BACKWARD_WEIGHT_DWEIGHT]);
    }
    return YK_OK;
}

static bool strided_supports_weight(const yki_device *device, const yki_kernel_desc *desc)
{
    return !yki_has_out(desc, YKI_CONV2D_BACKWARD_WEIGHT_DBIAS) &&
           strided_supports(device, desc->attrs, &desc->in[YKI_CONV2D_BACKWARD_WEIGHT_X],
                            &desc->in[YKI_CONV2D_BACKWARD_WEIGHT_DY],
                            &desc->out[YKI_CONV2D_BACKWARD_WEIGHT_DWEIGHT]);
}

static bool strided_gains_weight(const yki_device *device, const yki_kernel_desc *desc)
{
    return gains(device, &desc->in[YKI_CONV2D_BACKWARD_WEIGHT_X],
                 &desc->out[YKI_CONV2D_BACKWARD_WEIGHT_DWEIGHT]);
}

static yk_status strided_prepare_weight(yki_device *device, const yki_kernel_desc *desc,
                                        yki_kernel **kernel)
{
    const yki_operand *weight = &desc->out[YKI_CONV2D_BACKWARD_WEIGHT_DWEIGHT];
    strided *k = strided_create(device, &desc->in[YKI_CONV2D_BACKWARD_WEIGHT_X],
                                &desc->in[YKI_CONV2D_BACKWARD_WEIGHT_DY], weight);
    if (!k)
        return yki_error_memory(sizeof *k, "a convolution");
    k->row_stride = k->taps;
    k->column_stride = k->taps * weight->dims[1];
    plan_weight(k, weight->dims[3], desc->attrs->padding[0]);
    count_pixels(k);
    int64_t panels = k->in.groups * k->out.groups * k->taps + k->team * weight_thread_panels(k);
    k->base.scratch = (size_t)(panels * PANEL) * sizeof(float);
    *kernel = &k->base;
    return YK_OK;
}

const yki_kernel_impl yki_cpu_conv2d_backward_weight_strided = {.op =
                                                                    &yki_op_conv2d_backward_weight,
                                                                .name = "strided",
                                                                .supports = strided_supports_weight,
                                                                .gains = strided_gains_weight,
                                                                .prepare = strided_prepare_weight,
                                                                .run = strided_convolve_weight};

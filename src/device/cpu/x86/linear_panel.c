/*
 * Linear layers on few samples, in f32 on AVX-512. There the weights are by far the largest
 * operand, and each is used by so few products that a library's copy of them into its own layout
 * costs as much as the products. These kernels read the weights from memory once, where they lie.
 *
 * Forward and the gradient of x compute the transposed results: y' = W x' and dx' = W' dy', a panel
 * of 64 weights by 64 weights times 64 weights by 64 samples. Rows of results are divided into
 * units of work, which threads take from a shared counter. The gradient of the weights is a sum
 * over samples alone, dy' x, so each 64 by 64 of it are complete when they are stored.
 *
 * Every number is summed in the order of the inputs, outputs or samples: the result has the same
 * bits with any number of threads.
 */
#include "device/cpu/x86/linear_panel.h"

#include <string.h>

#include "base/memory.h"
#include "device/cpu/geometry.h"

enum {
    SIDE = YKI_PANEL_SIDE,
    LANES = YKI_PANEL_LANES,
    PANEL = YKI_PANEL,
    MOST_SAMPLES = SIDE,     /* with more, oneDNN is as fast */
    LEAST_WEIGHTS = 1 << 22, /* fewer fit the caches, and oneDNN is as fast */
    UNIT_PANELS = 4,         /* of rows, at most: they share what they are multiplied by */
    THREAD_UNITS = 8,        /* wanted for each thread, so that threads share the work evenly */
    CHUNK = 32               /* panels that a thread takes at a time where they are small work */
};

typedef struct few_samples {
    yki_kernel base;
    int64_t samples;
    /* Of the weights as they are multiplied; for their gradient the columns of dy and of x. */
    int64_t rows, columns;
    int64_t row_stride, column_stride;
    int64_t unit, depth; /* panels of rows, and of columns, that are multiplied at a time */
    int team;
} few_samples;

/* ---- forward and gradient of x: results' = weights samples' ---------------------------------- */

static const float *weights_at(const few_samples *k, const float *weights, int64_t row,
                               int64_t column)
{
    return weights + SIDE * (row * k->row_stride + column * k->column_stride);
}

/* Panels of rows [begin, end), summed in `own`. */
static void multiply_unit(const few_samples *k, const float *weights, const float *samples,
                          int64_t begin, int64_t end, float *own)
{
    const int64_t columns = k->columns / SIDE, vectors = (k->samples + LANES - 1) / LANES;
    for (int64_t column = 0; column < columns; column += k->depth) {
        int64_t following = column + k->depth < columns ? column + k->depth : column;
        for (int64_t row = begin; row < end; row++) {
            yki_linear_weights of = {.at = weights_at(k, weights, row, column),
                                     .row = k->row_stride,
                                     .step = k->column_stride};
            yki_linear_multiply(&of, weights_at(k, weights, row, following),
                                samples + column * PANEL, own + (row - begin) * PANEL, (int)vectors,
                                column == 0);
        }
    }
}

static void write_results(const few_samples *k, const float *panel, int64_t row, const float *bias,
                          float *results)
{
    for (int64_t n = 0; n < k->samples; n++) {
        float *to = results + n * k->rows + row * SIDE;
        for (int64_t r = 0; r < SIDE; r++)
            to[r] = panel[r * SIDE + n] + (bias ? bias[row * SIDE + r] : 0);
    }
}

static void multiply(const few_samples *k, const yki_kernel_args *run, const float *bias)
{
    const int64_t rows = k->rows / SIDE, columns = k->columns / SIDE;
    const float *from = run->in[0];
    float *samples = run->scratch, *threads = samples + columns * PANEL;
#pragma omp parallel num_threads(k->team) if (k->team > 1)
    {
        float *own = threads + omp_get_thread_num() * k->unit * PANEL;
#pragma omp for schedule(dynamic, CHUNK)
        for (int64_t i = 0; i < columns; i++)
            yki_linear_read_samples(from + i * SIDE, k->columns, k->samples, samples + i * PANEL);
#pragma omp for schedule(dynamic) nowait
        for (int64_t begin = 0; begin < rows; begin += k->unit) {
            int64_t end = begin + k->unit < rows ? begin + k->unit : rows;
            multiply_unit(k, run->in[1], samples, begin, end, own);
            for (int64_t row = begin; row < end; row++)
                write_results(k, own + (row - begin) * PANEL, row, bias, run->out[0]);
        }
    }
}

/* ---- preparation ----------------------------------------------------------------------------- */

/* a, b: the activations. */
static bool few_samples_supports(const yki_device *device, const yki_operand *a,
                                 const yki_operand *b)
{
    return device->block == LANES && a->dtype == YK_F32 && b->dtype == YK_F32 && a->ndim == 2 &&
           a->dims[0] <= MOST_SAMPLES && a->dims[1] % SIDE == 0 && b->dims[1] % SIDE == 0 &&
           a->dims[1] * b->dims[1] >= LEAST_WEIGHTS;
}

/* `to`: the activation whose numbers are rows. */
static few_samples *few_samples_create(const yki_device *device, const yki_operand *from,
                                       const yki_operand *to)
{
    few_samples *k = yki_calloc(1, sizeof *k);
    if (!k)
        return NULL;
    k->samples = from->dims[0];
    k->rows = to->dims[1];
    k->columns = from->dims[1];
    k->team = device->threads;
    return k;
}

static yk_status prepare_product(const yki_device *device, const yki_operand *from,
                                 const yki_operand *to, bool transposed, yki_kernel **kernel)
{
    few_samples *k = few_samples_create(device, from, to);
    if (!k)
        return yki_error_memory(sizeof *k, "a linear kernel");
    k->row_stride = transposed ? 1 : k->columns;
    k->column_stride = transposed ? k->rows : 1;
    k->depth = (transposed ? YKI_LINEAR_DEPTH_TRANSPOSED : YKI_LINEAR_DEPTH) / SIDE;
    k->unit = k->rows / SIDE / ((int64_t)THREAD_UNITS * k->team);
    k->unit = k->unit < 1 ? 1 : k->unit > UNIT_PANELS ? UNIT_PANELS : k->unit;
    k->base.scratch = (size_t)((k->columns / SIDE + k->team * k->unit) * PANEL) * sizeof(float);
    *kernel = &k->base;
    return YK_OK;
}

/* ---- forward: x (N, I), weight (O, I), [bias (O)] -> y (N, O) -------------------------------- */

static bool few_samples_supports_forward(const yki_device *device, const yki_kernel_desc *desc)
{
    const yki_operand *x = &desc->in[YKI_LINEAR_X];
    return x->dims[1] % YKI_LINEAR_DEPTH == 0 &&
           few_samples_supports(device, x, &desc->out[YKI_LINEAR_Y]);
}

static yk_status few_samples_prepare_forward(yki_device *device, const yki_kernel_desc *desc,
                                             yki_kernel **kernel)
{
    return prepare_product(device, &desc->in[YKI_LINEAR_X], &desc->out[YKI_LINEAR_Y], false,
                           kernel);
}

static yk_status few_samples_run_forward(const yki_kernel *kernel, const yki_kernel_args *run)
{
    multiply((const few_samples *)kernel, run, run->in[YKI_LINEAR_BIAS]);
    return YK_OK;
}

const yki_kernel_impl yki_cpu_linear_panel = {.op = &yki_op_linear,
                                              .supports = few_samples_supports_forward,
                                              .prepare = few_samples_prepare_forward,
                                              .run = few_samples_run_forward};

/* ---- gradient of x: dy (N, O), weight (O, I) -> dx (N, I) ------------------------------------ */

static bool few_samples_supports_data(const yki_device *device, const yki_kernel_desc *desc)
{
    return few_samples_supports(device, &desc->in[YKI_LINEAR_BACKWARD_DATA_DY],
                                &desc->out[YKI_LINEAR_BACKWARD_DATA_DX]);
}

static yk_status few_samples_prepare_data(yki_device *device, const yki_kernel_desc *desc,
                                          yki_kernel **kernel)
{
    return prepare_product(device, &desc->in[YKI_LINEAR_BACKWARD_DATA_DY],
                           &desc->out[YKI_LINEAR_BACKWARD_DATA_DX], true, kernel);
}

static yk_status few_samples_run_data(const yki_kernel *kernel, const yki_kernel_args *run)
{
    multiply((const few_samples *)kernel, run, NULL);
    return YK_OK;
}

const yki_kernel_impl yki_cpu_linear_backward_data_panel = {.op = &yki_op_linear_backward_data,
                                                            .supports = few_samples_supports_data,
                                                            .prepare = few_samples_prepare_data,
                                                            .run = few_samples_run_data};

/* ---- gradient of the weights: x (N, I), dy (N, O) -> dweight (O, I), [dbias (O)] ------------- */

static bool few_samples_supports_weight(const yki_device *device, const yki_kernel_desc *desc)
{
    return few_samples_supports(device, &desc->in[YKI_LINEAR_BACKWARD_WEIGHT_X],
                                &desc->in[YKI_LINEAR_BACKWARD_WEIGHT_DY]);
}

static yk_status few_samples_prepare_weight(yki_device *device, const yki_kernel_desc *desc,
                                            yki_kernel **kernel)
{
    few_samples *k = few_samples_create(device, &desc->in[YKI_LINEAR_BACKWARD_WEIGHT_X],
                                        &desc->in[YKI_LINEAR_BACKWARD_WEIGHT_DY]);
    if (!k)
        return yki_error_memory(sizeof *k, "a linear kernel");
    k->base.scratch = (size_t)((k->rows + k->columns) * k->samples) * sizeof(float);
    *kernel = &k->base;
    return YK_OK;
}

/* Panel i of `width` columns: (samples, 64). */
static void copy_columns(const few_samples *k, const float *from, int64_t width, int64_t i,
                         float *to)
{
    for (int64_t n = 0; n < k->samples; n++)
        memcpy(to + (i * k->samples + n) * SIDE, from + n * width + i * SIDE, SIDE * sizeof *to);
}

static void sum_samples(const few_samples *k, const float *panel, float *sums)
{
    memset(sums, 0, SIDE * sizeof *sums);
    for (int64_t n = 0; n < k->samples; n++)
        for (int64_t i = 0; i < SIDE; i++)
            sums[i] += panel[n * SIDE + i];
}

static yk_status few_samples_run_weight(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const few_samples *k = (const few_samples *)kernel;
    const int64_t rows = k->rows / SIDE, columns = k->columns / SIDE;
    const int64_t chunks = (columns + CHUNK - 1) / CHUNK, panel = k->samples * SIDE;
    float *of_dy = run->scratch, *of_x = of_dy + rows * panel;
    float *weight = run->out[YKI_LINEAR_BACKWARD_WEIGHT_DWEIGHT];
    float *bias = run->out[YKI_LINEAR_BACKWARD_WEIGHT_DBIAS];
    bool stream = (uintptr_t)weight % YKI_ALIGNMENT == 0; /* it does not fit the caches */
#pragma omp parallel num_threads(k->team) if (k->team > 1)
    {
#pragma omp for schedule(dynamic, CHUNK) nowait
        for (int64_t i = 0; i < columns; i++)
            copy_columns(k, run->in[YKI_LINEAR_BACKWARD_WEIGHT_X], k->columns, i, of_x);
#pragma omp for schedule(dynamic, CHUNK)
        for (int64_t i = 0; i < rows; i++) {
            copy_columns(k, run->in[YKI_LINEAR_BACKWARD_WEIGHT_DY], k->rows, i, of_dy);
            if (bias)
                sum_samples(k, of_dy + i * panel, bias + i * SIDE);
        }
#pragma omp for schedule(dynamic) nowait
        for (int64_t unit = 0; unit < rows * chunks; unit++) {
            int64_t row = unit / chunks, first = unit % chunks * CHUNK;
            for (int64_t i = first; i < columns && i < first + CHUNK; i++)
                yki_linear_outer(of_dy + row * panel, of_x + i * panel,
                                 weight + SIDE * (row * k->columns + i), k->columns, k->samples,
                                 stream);
        }
    }
    return YK_OK;
}

const yki_kernel_impl yki_cpu_linear_backward_weight_panel = {.op = &yki_op_linear_backward_weight,
                                                              .supports =
                                                                  few_samples_supports_weight,
                                                              .prepare = few_samples_prepare_weight,
                                                              .run = few_samples_run_weight};

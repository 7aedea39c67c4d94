/*
 * softmax and layer_norm of plain f32 rows: the last dimension of x, or those that weight has. Rows
 * are divided among the threads, and so are the columns of layer_norm's sums over rows: each sum is
 * made by one thread in the order of rows, so results do not depend on the number of threads.
 */
#include <math.h>

#include "base/memory.h"
#include "device/cpu/geometry.h"

typedef struct rows {
    yki_kernel base;
    int64_t count, length; /* of rows, and of a row */
    int team;
    double eps;
    bool out[YKI_MAX_OUT];
} rows;

static bool is_plain_f32(const yki_operand *operand)
{
    return operand->ndim < 0 || (operand->dtype == YK_F32 && operand->layout == YKI_PLAIN);
}

static bool rows_supports(const yki_device *device, const yki_kernel_desc *desc)
{
    (void)device;
    bool good = true;
    for (int i = 0; i < desc->in_count; i++)
        good = good && is_plain_f32(&desc->in[i]);
    for (int i = 0; i < desc->out_count; i++)
        good = good && is_plain_f32(&desc->out[i]);
    return good;
}

static int64_t row_length(const yki_kernel_desc *desc)
{
    const yki_operand *x = &desc->in[0];
    if (desc->op == &yki_op_layer_norm)
        return yki_operand_count(&desc->in[YKI_LAYER_NORM_WEIGHT]);
    if (desc->op == &yki_op_layer_norm_backward)
        return yki_operand_count(&desc->in[YKI_LAYER_NORM_BACKWARD_WEIGHT]);
    return x->dims[x->ndim - 1];
}

static yk_status rows_prepare(yki_device *device, const yki_kernel_desc *desc, yki_kernel **kernel)
{
    rows *k = yki_calloc(1, sizeof *k);
    if (!k)
        return yki_error_memory(sizeof *k, "a kernel over rows");
    const yki_operand *x = &desc->in[0];
    k->length = row_length(desc);
    k->count = yki_operand_count(x) / k->length;
    k->team = yki_team(device, 4 * k->count * k->length);
    k->eps = desc->attrs ? desc->attrs->eps : 0;
    for (int i = 0; i < YKI_MAX_OUT; i++)
        k->out[i] = yki_has_out(desc, i);
    *kernel = &k->base;
    return YK_OK;
}

/* ---- softmax --------------------------------------------------------------------------------- */

static yk_status softmax(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const rows *k = (const rows *)kernel;
#pragma omp parallel for num_threads(k->team) if (k->team > 1)
    for (int64_t r = 0; r < k->count; r++) {
        const float *x = (const float *)run->in[YKI_SOFTMAX_X] + r * k->length;
        float *y = (float *)run->out[YKI_SOFTMAX_Y] + r * k->length;
        float largest = x[0];
        double sum = 0;
        for (int64_t i = 1; i < k->length; i++)
            largest = fmaxf(largest, x[i]);
        for (int64_t i = 0; i < k->length; i++)
            sum += y[i] = expf(x[i] - largest);
        for (int64_t i = 0; i < k->length; i++)
            y[i] = (float)(y[i] / sum);
    }
    return YK_OK;
}

/* dx = y (dy - sum(dy y)). */
static yk_status softmax_backward(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const rows *k = (const rows *)kernel;
#pragma omp parallel for num_threads(k->team) if (k->team > 1)
    for (int64_t r = 0; r < k->count; r++) {
        const float *dy = (const float *)run->in[YKI_SOFTMAX_BACKWARD_DY] + r * k->length;
        const float *y = (const float *)run->in[YKI_SOFTMAX_BACKWARD_Y] + r * k->length;
        float *dx = (float *)run->out[YKI_SOFTMAX_BACKWARD_DX] + r * k->length;
        double sum = 0;
        for (int64_t i = 0; i < k->length; i++)
            sum += (double)dy[i] * y[i];
        for (int64_t i = 0; i < k->length; i++)
            dx[i] = y[i] * (dy[i] - (float)sum);
    }
    return YK_OK;
}

/* ---- layer_norm: y = h weight + bias, h = (x - mean) invstd --------------------------------- */

typedef struct row_moments {
    float mean, invstd;
} row_moments;

static row_moments moments_of(const rows *k, const float *x)
{
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < k->length; i++)
        sum += x[i];
    double mean = sum / (double)k->length;
    for (int64_t i = 0; i < k->length; i++)
        squares += (x[i] - mean) * (x[i] - mean);
    return (row_moments){(float)mean, (float)(1 / sqrt(squares / (double)k->length + k->eps))};
}

static yk_status layer_norm(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const rows *k = (const rows *)kernel;
    const float *weight = run->in[YKI_LAYER_NORM_WEIGHT], *bias = run->in[YKI_LAYER_NORM_BIAS];
#pragma omp parallel for num_threads(k->team) if (k->team > 1)
    for (int64_t r = 0; r < k->count; r++) {
        const float *x = (const float *)run->in[YKI_LAYER_NORM_X] + r * k->length;
        float *y = (float *)run->out[YKI_LAYER_NORM_Y] + r * k->length;
        row_moments m = moments_of(k, x);
        for (int64_t i = 0; i < k->length; i++)
            y[i] = (x[i] - m.mean) * m.invstd * weight[i] + bias[i];
    }
    return YK_OK;
}

static yk_status layer_norm_prepare_backward(yki_device *device, const yki_kernel_desc *desc,
                                             yki_kernel **kernel)
{
    YK_TRY(rows_prepare(device, desc, kernel));
    rows *k = (rows *)*kernel;
    k->base.scratch =
        2 * (size_t)k->length * sizeof(double) + (size_t)k->count * sizeof(row_moments);
    return YK_OK;
}

/* With g = dy weight: dx = invstd (g - mean(g) - h mean(g h)). */
static void layer_norm_dx(const rows *k, const yki_kernel_args *run, int64_t r, row_moments m)
{
    const float *x = (const float *)run->in[YKI_LAYER_NORM_BACKWARD_X] + r * k->length;
    const float *dy = (const float *)run->in[YKI_LAYER_NORM_BACKWARD_DY] + r * k->length;
    const float *weight = run->in[YKI_LAYER_NORM_BACKWARD_WEIGHT];
    float *dx = (float *)run->out[YKI_LAYER_NORM_BACKWARD_DX] + r * k->length;
    double sum = 0, product = 0;
    for (int64_t i = 0; i < k->length; i++) {
        float g = dy[i] * weight[i];
        sum += g;
        product += (double)g * ((x[i] - m.mean) * m.invstd);
    }
    float mean = (float)(sum / (double)k->length), slope = (float)(product / (double)k->length);
    for (int64_t i = 0; i < k->length; i++) {
        float h = (x[i] - m.mean) * m.invstd;
        dx[i] = m.invstd * (dy[i] * weight[i] - mean - h * slope);
    }
}

/* Adds the rows' dy and dy h to the sums of the calling thread's columns. */
static void layer_norm_columns(const rows *k, const yki_kernel_args *run,
                               const row_moments *moments, double *sums, double *products)
{
    const float *x = run->in[YKI_LAYER_NORM_BACKWARD_X], *dy = run->in[YKI_LAYER_NORM_BACKWARD_DY];
    float *dweight = run->out[YKI_LAYER_NORM_BACKWARD_DWEIGHT];
    float *dbias = run->out[YKI_LAYER_NORM_BACKWARD_DBIAS];
    int64_t begin, end;
    yki_share(k->length, &begin, &end);
    for (int64_t i = begin; i < end; i++)
        sums[i] = products[i] = 0;
    for (int64_t r = 0; r < k->count; r++)
        for (int64_t i = begin; i < end; i++) {
            int64_t at = r * k->length + i;
            sums[i] += dy[at];
            products[i] += (double)dy[at] * ((x[at] - moments[r].mean) * moments[r].invstd);
        }
    for (int64_t i = begin; i < end; i++) {
        if (k->out[YKI_LAYER_NORM_BACKWARD_DWEIGHT])
            dweight[i] = (float)products[i];
        if (k->out[YKI_LAYER_NORM_BACKWARD_DBIAS])
            dbias[i] = (float)sums[i];
    }
}

static yk_status layer_norm_backward(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const rows *k = (const rows *)kernel;
    double *sums = run->scratch, *products = sums + k->length;
    row_moments *moments = (row_moments *)(products + k->length);
    const float *x = run->in[YKI_LAYER_NORM_BACKWARD_X];
#pragma omp parallel num_threads(k->team) if (k->team > 1)
    {
#pragma omp for
        for (int64_t r = 0; r < k->count; r++) {
            moments[r] = moments_of(k, x + r * k->length);
            layer_norm_dx(k, run, r, moments[r]);
        }
        layer_norm_columns(k, run, moments, sums, products);
    }
    return YK_OK;
}

#define IMPL(name, place, make)                                                                    \
    const yki_kernel_impl yki_cpu_##name = {.op = &yki_op_##name,                                  \
                                            .inplace = place,                                      \
                                            .supports = rows_supports,                             \
                                            .prepare = make,                                       \
                                            .run = name}
IMPL(softmax, 1, rows_prepare);
IMPL(softmax_backward, 1, rows_prepare);
IMPL(layer_norm, 0, rows_prepare);
IMPL(layer_norm_backward, 0, layer_norm_prepare_backward);

/*
 * softmax, log_softmax, layer_norm and rms_norm over the rows of x. A row has D elements: the last
 * dimension for the former, for the norms the last dimensions of x, which are those of weight.
 */
#include "device/ref/ref.h"

#include <math.h>

static int64_t row_length(const yk_tensor *x)
{
    return x->dims[x->ndim - 1];
}

/*
 * ---- softmax: y = exp(x) / sum(exp(x)), and dx = y (dy - sum(dy y)) -----------------------------
 *
 * log_softmax: y = x - log(sum(exp(x))), and dx = dy - exp(y) sum(dy).
 */

static void softmax_row(const yk_tensor *x, const yk_tensor *y, int64_t at, int64_t length,
                        bool logarithm)
{
    double largest = -INFINITY, sum = 0;
    for (int64_t i = at; i < at + length; i++)
        largest = fmax(largest, yki_ref_get(x, i));
    for (int64_t i = at; i < at + length; i++)
        sum += exp(yki_ref_get(x, i) - largest);
    for (int64_t i = at; i < at + length; i++) {
        double below = yki_ref_get(x, i) - largest;
        yki_ref_set(y, i, logarithm ? below - log(sum) : exp(below) / sum);
    }
}

static yk_status softmax_rows(const yki_kernel *kernel, const yki_kernel_args *run, bool logarithm)
{
    yk_tensor x = yki_ref_in(kernel, run, YKI_SOFTMAX_X);
    yk_tensor y = yki_ref_out(kernel, run, YKI_SOFTMAX_Y);
    int64_t count = yk_tensor_count(&x), length = row_length(&x);
    for (int64_t at = 0; at < count; at += length)
        softmax_row(&x, &y, at, length, logarithm);
    return YK_OK;
}

static yk_status ref_softmax(const yki_kernel *kernel, const yki_kernel_args *run)
{
    return softmax_rows(kernel, run, false);
}

static yk_status ref_log_softmax(const yki_kernel *kernel, const yki_kernel_args *run)
{
    return softmax_rows(kernel, run, true);
}

static void softmax_row_backward(const yk_tensor *dy, const yk_tensor *y, const yk_tensor *dx,
                                 int64_t at, int64_t length, bool logarithm)
{
    double sum = 0;
    for (int64_t i = at; i < at + length; i++)
        sum += yki_ref_get(dy, i) * (logarithm ? 1 : yki_ref_get(y, i));
    for (int64_t i = at; i < at + length; i++) {
        double slope = yki_ref_get(dy, i), result = yki_ref_get(y, i);
        yki_ref_set(dx, i, logarithm ? slope - exp(result) * sum : result * (slope - sum));
    }
}

static yk_status softmax_rows_backward(const yki_kernel *kernel, const yki_kernel_args *run,
                                       bool logarithm)
{
    yk_tensor dy = yki_ref_in(kernel, run, YKI_SOFTMAX_BACKWARD_DY);
    yk_tensor y = yki_ref_in(kernel, run, YKI_SOFTMAX_BACKWARD_Y);
    yk_tensor dx = yki_ref_out(kernel, run, YKI_SOFTMAX_BACKWARD_DX);
    int64_t count = yk_tensor_count(&y), length = row_length(&y);
    for (int64_t at = 0; at < count; at += length)
        softmax_row_backward(&dy, &y, &dx, at, length, logarithm);
    return YK_OK;
}

static yk_status ref_softmax_backward(const yki_kernel *kernel, const yki_kernel_args *run)
{
    return softmax_rows_backward(kernel, run, false);
}

static yk_status ref_log_softmax_backward(const yki_kernel *kernel, const yki_kernel_args *run)
{
    return softmax_rows_backward(kernel, run, true);
}

/*
 * ---- layer_norm: y = h weight + bias, h = (x - mean) invstd, with the biased variance -----------
 *
 * rms_norm is the same with a mean of 0 and no bias, and its operands have the same numbers.
 */

typedef struct moments {
    double mean, invstd;
} moments;

/* Norms that subtract the mean of a row; the others take the squares about 0. */
typedef enum centre { ABOUT_MEAN, ABOUT_ZERO } centre;

static moments moments_of(const yk_tensor *x, int64_t at, int64_t length, double eps, centre about)
{
    double sum = 0, squares = 0;
    for (int64_t i = at; about == ABOUT_MEAN && i < at + length; i++)
        sum += yki_ref_get(x, i);
    double mean = sum / (double)length;
    for (int64_t i = at; i < at + length; i++)
        squares += (yki_ref_get(x, i) - mean) * (yki_ref_get(x, i) - mean);
    return (moments){mean, 1 / sqrt(squares / (double)length + eps)};
}

/* y = h weight; the bias, if there is one, is added. */
static void norm(const yki_kernel *kernel, const yki_kernel_args *run, const yk_tensor *bias,
                 centre about)
{
    yk_tensor x = yki_ref_in(kernel, run, YKI_LAYER_NORM_X);
    yk_tensor weight = yki_ref_in(kernel, run, YKI_LAYER_NORM_WEIGHT); /* (D) */
    yk_tensor y = yki_ref_out(kernel, run, YKI_LAYER_NORM_Y);
    int64_t count = yk_tensor_count(&x), length = yk_tensor_count(&weight);
    for (int64_t at = 0; at < count; at += length) {
        moments m = moments_of(&x, at, length, yki_ref_attrs(kernel)->eps, about);
        for (int64_t i = 0; i < length; i++) {
            double h = (yki_ref_get(&x, at + i) - m.mean) * m.invstd;
            double shift = bias ? yki_ref_get(bias, i) : 0;
            yki_ref_set(&y, at + i, h * yki_ref_get(&weight, i) + shift);
        }
    }
}

static yk_status ref_layer_norm(const yki_kernel *kernel, const yki_kernel_args *run)
{
    yk_tensor bias = yki_ref_in(kernel, run, YKI_LAYER_NORM_BIAS); /* (D) */
    norm(kernel, run, &bias, ABOUT_MEAN);
    return YK_OK;
}

static yk_status ref_rms_norm(const yki_kernel *kernel, const yki_kernel_args *run)
{
    norm(kernel, run, NULL, ABOUT_ZERO);
    return YK_OK;
}

/* With g = dy weight: dx = invstd (g - mean(g) - h mean(g h)), where rms_norm has no mean(g). */
static void norm_dx(const yki_kernel *kernel, const yki_kernel_args *run, centre about)
{
    yk_tensor x = yki_ref_in(kernel, run, YKI_LAYER_NORM_BACKWARD_X);
    yk_tensor dy = yki_ref_in(kernel, run, YKI_LAYER_NORM_BACKWARD_DY);
    yk_tensor weight = yki_ref_in(kernel, run, YKI_LAYER_NORM_BACKWARD_WEIGHT); /* (D) */
    yk_tensor dx = yki_ref_out(kernel, run, YKI_LAYER_NORM_BACKWARD_DX);
    int64_t count = yk_tensor_count(&x), length = yk_tensor_count(&weight);
    for (int64_t at = 0; at < count; at += length) {
        moments m = moments_of(&x, at, length, yki_ref_attrs(kernel)->eps, about);
        double sum = 0, product = 0;
        for (int64_t i = 0; i < length; i++) {
            double g = yki_ref_get(&dy, at + i) * yki_ref_get(&weight, i);
            sum += about == ABOUT_MEAN ? g : 0;
            product += g * (yki_ref_get(&x, at + i) - m.mean) * m.invstd;
        }
        for (int64_t i = 0; i < length; i++) {
            double g = yki_ref_get(&dy, at + i) * yki_ref_get(&weight, i);
            double h = (yki_ref_get(&x, at + i) - m.mean) * m.invstd;
            yki_ref_set(&dx, at + i, m.invstd * (g - (sum + h * product) / (double)length));
        }
    }
}

enum { COLUMNS = 64 };

/* dweight = sum(dy h) and dbias = sum(dy) over the rows, for up to COLUMNS columns from `first` on,
 * which share the moments of each row. dbias may be absent. */
static void norm_columns(const yki_kernel *kernel, const yki_kernel_args *run,
                         const yk_tensor *dbias, centre about, int64_t first)
{
    yk_tensor x = yki_ref_in(kernel, run, YKI_LAYER_NORM_BACKWARD_X);
    yk_tensor dy = yki_ref_in(kernel, run, YKI_LAYER_NORM_BACKWARD_DY);
    yk_tensor dweight = yki_ref_out(kernel, run, YKI_LAYER_NORM_BACKWARD_DWEIGHT);
    yk_tensor weight = yki_ref_in(kernel, run, YKI_LAYER_NORM_BACKWARD_WEIGHT);
    int64_t count = yk_tensor_count(&x), length = yk_tensor_count(&weight);
    int64_t columns = length - first < COLUMNS ? length - first : COLUMNS;
    double sums[COLUMNS] = {0}, products[COLUMNS] = {0};
    for (int64_t at = 0; at < count; at += length) {
        moments m = moments_of(&x, at, length, yki_ref_attrs(kernel)->eps, about);
        for (int64_t c = 0; c < columns; c++) {
            int64_t i = at + first + c;
            sums[c] += yki_ref_get(&dy, i);
            products[c] += yki_ref_get(&dy, i) * (yki_ref_get(&x, i) - m.mean) * m.invstd;
        }
    }
    for (int64_t c = 0; c < columns; c++) {
        if (dweight.data)
            yki_ref_set(&dweight, first + c, products[c]);
        if (dbias->data)
            yki_ref_set(dbias, first + c, sums[c]);
    }
}

static void norm_backward(const yki_kernel *kernel, const yki_kernel_args *run,
                          const yk_tensor *dbias, centre about)
{
    yk_tensor weight = yki_ref_in(kernel, run, YKI_LAYER_NORM_BACKWARD_WEIGHT);
    for (int64_t first = 0; first < yk_tensor_count(&weight); first += COLUMNS)
        norm_columns(kernel, run, dbias, about, first);
    norm_dx(kernel, run, about);
}

static yk_status ref_layer_norm_backward(const yki_kernel *kernel, const yki_kernel_args *run)
{
    yk_tensor dbias = yki_ref_out(kernel, run, YKI_LAYER_NORM_BACKWARD_DBIAS);
    norm_backward(kernel, run, &dbias, ABOUT_MEAN);
    return YK_OK;
}

static yk_status ref_rms_norm_backward(const yki_kernel *kernel, const yki_kernel_args *run)
{
    norm_backward(kernel, run, &(yk_tensor){0}, ABOUT_ZERO);
    return YK_OK;
}

YKI_REF_IMPL(softmax, 1);
YKI_REF_IMPL(softmax_backward, 1);
YKI_REF_IMPL(log_softmax, 1);
YKI_REF_IMPL(log_softmax_backward, 1);
YKI_REF_IMPL(layer_norm, 0);
YKI_REF_IMPL(layer_norm_backward, 0);
YKI_REF_IMPL(rms_norm, 0);
YKI_REF_IMPL(rms_norm_backward, 0);

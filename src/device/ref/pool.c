/*
 * Pooling: max_pool2d with the winner's offset kept for backward, avg_pool2d, the global average,
 * and the average of adaptive windows. Shapes: x (N, C, H, W), y (N, C, P, Q).
 */
#include "graph/pool.h"
#include "device/ref/ref.h"

#include <math.h>

static bool inside(const yk_tensor *x, int64_t h, int64_t w)
{
    return h >= 0 && h < x->dims[2] && w >= 0 && w < x->dims[3];
}

/* ---- max: the first of equal maxima wins; NaN is larger than any, as in PyTorch -------------- */

static void ref_max_pixel(const yki_kernel *kernel, const yki_kernel_args *run, int64_t n,
                          int64_t c, int64_t p, int64_t q)
{
    const yki_attrs *a = yki_ref_attrs(kernel);
    yk_tensor x = yki_ref_in(kernel, run, YKI_MAX_POOL2D_X),
              y = yki_ref_out(kernel, run, YKI_MAX_POOL2D_Y);
    yk_tensor index = yki_ref_out(kernel, run, YKI_MAX_POOL2D_INDEX); /* (N, C, P, Q) */
    double best = -INFINITY;
    int64_t winner = -1;
    for (int64_t r = 0; r < a->kernel[0]; r++)
        for (int64_t s = 0; s < a->kernel[1]; s++) {
            int64_t h = p * a->stride[0] - a->padding[0] + r;
            int64_t w = q * a->stride[1] - a->padding[1] + s;
            if (!inside(&x, h, w))
                continue;
            double value = yki_ref_get(&x, yki_ref_at(&x, n, c, h, w));
            if (winner < 0 || value > best || isnan(value)) {
                best = value;
                winner = r * a->kernel[1] + s;
            }
        }
    yki_ref_set(&y, yki_ref_at(&y, n, c, p, q), best);
    if (index.data)
        yki_ref_set(&index, yki_ref_at(&index, n, c, p, q), (double)winner);
}

static yk_status ref_max_pool2d(const yki_kernel *kernel, const yki_kernel_args *run)
{
    yki_ref_each_pixel(kernel, run, ref_max_pixel);
    return YK_OK;
}

/* Along dimension d: the output pixel whose window has input pixel i at offset r; -1 if there is
 * none. */
static int64_t ref_pool_output_of(const yki_attrs *a, int d, int64_t i, int64_t r, int64_t size)
{
    int64_t from = i + a->padding[d] - r, stride = a->stride[d];
    return from < 0 || from % stride || from / stride >= size ? -1 : from / stride;
}

/* What the mean of window (p, q) of x is divided by. */
static double window_divisor(const yki_attrs *a, const yk_tensor *x, int64_t p, int64_t q)
{
    const int64_t window[] = {p, q};
    double divisor = 1;
    for (int d = 0; d < 2; d++)
        divisor *= (double)yki_pool_counted(window[d], a->kernel[d], a->stride[d], a->padding[d],
                                            a->count_include_pad, x->dims[2 + d]);
    return divisor;
}

/* The gradient of pixel (h, w) of dx, summed over the windows that have it: with an index over
 * those whose maximum it is, without one the pixel's share of each. */
static double ref_pool_collect(const yki_attrs *a, const yk_tensor *dy, const yk_tensor *index,
                               const yk_tensor *dx, int64_t n, int64_t c, int64_t h, int64_t w)
{
    double sum = 0;
    for (int64_t r = 0; r < a->kernel[0]; r++)
        for (int64_t s = 0; s < a->kernel[1]; s++) {
            int64_t p = ref_pool_output_of(a, 0, h, r, dy->dims[2]),
                    q = ref_pool_output_of(a, 1, w, s, dy->dims[3]);
            if (p < 0 || q < 0)
                continue;
            int64_t element = yki_ref_at(dy, n, c, p, q);
            if (!index)
                sum += yki_ref_get(dy, element) / window_divisor(a, dx, p, q);
            else if ((int64_t)yki_ref_get(index, element) == r * a->kernel[1] + s)
                sum += yki_ref_get(dy, element);
        }
    return sum;
}

static void max_backward_pixel(const yki_kernel *kernel, const yki_kernel_args *run, int64_t n,
                               int64_t c, int64_t h, int64_t w)
{
    yk_tensor dy = yki_ref_in(kernel, run, YKI_MAX_POOL2D_BACKWARD_DY),
              index = yki_ref_in(kernel, run, YKI_MAX_POOL2D_BACKWARD_INDEX);
    yk_tensor dx = yki_ref_out(kernel, run, YKI_MAX_POOL2D_BACKWARD_DX);
    yki_ref_set(&dx, yki_ref_at(&dx, n, c, h, w),
                ref_pool_collect(yki_ref_attrs(kernel), &dy, &index, &dx, n, c, h, w));
}

static yk_status ref_max_pool2d_backward(const yki_kernel *kernel, const yki_kernel_args *run)
{
    yki_ref_each_pixel(kernel, run, max_backward_pixel);
    return YK_OK;
}

/* ---- average -------------------------------------------------------------------------------- */

static void avg_pixel(const yki_kernel *kernel, const yki_kernel_args *run, int64_t n, int64_t c,
                      int64_t p, int64_t q)
{
    const yki_attrs *a = yki_ref_attrs(kernel);
    yk_tensor x = yki_ref_in(kernel, run, YKI_AVG_POOL2D_X),
              y = yki_ref_out(kernel, run, YKI_AVG_POOL2D_Y);
    double sum = 0;
    for (int64_t r = 0; r < a->kernel[0]; r++)
        for (int64_t s = 0; s < a->kernel[1]; s++) {
            int64_t h = p * a->stride[0] - a->padding[0] + r;
            int64_t w = q * a->stride[1] - a->padding[1] + s;
            if (inside(&x, h, w))
                sum += yki_ref_get(&x, yki_ref_at(&x, n, c, h, w));
        }
    yki_ref_set(&y, yki_ref_at(&y, n, c, p, q), sum / window_divisor(a, &x, p, q));
}

static yk_status ref_avg_pool2d(const yki_kernel *kernel, const yki_kernel_args *run)
{
    yki_ref_each_pixel(kernel, run, avg_pixel);
    return YK_OK;
}

static void avg_backward_pixel(const yki_kernel *kernel, const yki_kernel_args *run, int64_t n,
                               int64_t c, int64_t h, int64_t w)
{
    yk_tensor dy = yki_ref_in(kernel, run, YKI_AVG_POOL2D_BACKWARD_DY),
              dx = yki_ref_out(kernel, run, YKI_AVG_POOL2D_BACKWARD_DX);
    yki_ref_set(&dx, yki_ref_at(&dx, n, c, h, w),
                ref_pool_collect(yki_ref_attrs(kernel), &dy, NULL, &dx, n, c, h, w));
}

static yk_status ref_avg_pool2d_backward(const yki_kernel *kernel, const yki_kernel_args *run)
{
    yki_ref_each_pixel(kernel, run, avg_backward_pixel);
    return YK_OK;
}

static void global_pixel(const yki_kernel *kernel, const yki_kernel_args *run, int64_t n, int64_t c,
                         int64_t p, int64_t q)
{
    yk_tensor x = yki_ref_in(kernel, run, YKI_GLOBAL_AVG_POOL2D_X);  /* (N, C, H, W) */
    yk_tensor y = yki_ref_out(kernel, run, YKI_GLOBAL_AVG_POOL2D_Y); /* (N, C, 1, 1) */
    double sum = 0;
    for (int64_t h = 0; h < x.dims[2]; h++)
        for (int64_t w = 0; w < x.dims[3]; w++)
            sum += yki_ref_get(&x, yki_ref_at(&x, n, c, h, w));
    yki_ref_set(&y, yki_ref_at(&y, n, c, p, q), sum / (double)(x.dims[2] * x.dims[3]));
}

static yk_status ref_global_avg_pool2d(const yki_kernel *kernel, const yki_kernel_args *run)
{
    yki_ref_each_pixel(kernel, run, global_pixel);
    return YK_OK;
}

static void global_backward_pixel(const yki_kernel *kernel, const yki_kernel_args *run, int64_t n,
                                  int64_t c, int64_t h, int64_t w)
{
    yk_tensor dy = yki_ref_in(kernel, run, YKI_GLOBAL_AVG_POOL2D_BACKWARD_DY),
              dx = yki_ref_out(kernel, run, YKI_GLOBAL_AVG_POOL2D_BACKWARD_DX);
    double share =
        yki_ref_get(&dy, yki_ref_at(&dy, n, c, 0, 0)) / (double)(dx.dims[2] * dx.dims[3]);
    yki_ref_set(&dx, yki_ref_at(&dx, n, c, h, w), share);
}

static yk_status ref_global_avg_pool2d_backward(const yki_kernel *kernel,
                                                const yki_kernel_args *run)
{
    yki_ref_each_pixel(kernel, run, global_backward_pixel);
    return YK_OK;
}

/* ---- adaptive average: output p: the mean of inputs [floor(p H / P), ceil((p + 1) H / P)) ---- */

typedef struct part {
    int64_t begin, end;
} part;

/* The inputs that output p has; and, with sizes exchanged, the outputs that have input p. */
static part part_of(int64_t p, int64_t outputs, int64_t inputs)
{
    return (part){p * inputs / outputs, ((p + 1) * inputs + outputs - 1) / outputs};
}

static void adaptive_pixel(const yki_kernel *kernel, const yki_kernel_args *run, int64_t n,
                           int64_t c, int64_t p, int64_t q)
{
    yk_tensor x = yki_ref_in(kernel, run, YKI_ADAPTIVE_AVG_POOL2D_X);
    yk_tensor y = yki_ref_out(kernel, run, YKI_ADAPTIVE_AVG_POOL2D_Y);
    part rows = part_of(p, y.dims[2], x.dims[2]), columns = part_of(q, y.dims[3], x.dims[3]);
    double sum = 0;
    for (int64_t h = rows.begin; h < rows.end; h++)
        for (int64_t w = columns.begin; w < columns.end; w++)
            sum += yki_ref_get(&x, yki_ref_at(&x, n, c, h, w));
    int64_t count = (rows.end - rows.begin) * (columns.end - columns.begin);
    yki_ref_set(&y, yki_ref_at(&y, n, c, p, q), sum / (double)count);
}

static yk_status ref_adaptive_avg_pool2d(const yki_kernel *kernel, const yki_kernel_args *run)
{
    yki_ref_each_pixel(kernel, run, adaptive_pixel);
    return YK_OK;
}

static void adaptive_backward_pixel(const yki_kernel *kernel, const yki_kernel_args *run, int64_t n,
                                    int64_t c, int64_t h, int64_t w)
{
    yk_tensor dy = yki_ref_in(kernel, run, YKI_ADAPTIVE_AVG_POOL2D_BACKWARD_DY);
    yk_tensor dx = yki_ref_out(kernel, run, YKI_ADAPTIVE_AVG_POOL2D_BACKWARD_DX);
    part p_of = part_of(h, dx.dims[2], dy.dims[2]), q_of = part_of(w, dx.dims[3], dy.dims[3]);
    double sum = 0;
    for (int64_t p = p_of.begin; p < p_of.end; p++)
        for (int64_t q = q_of.begin; q < q_of.end; q++) {
            part rows = part_of(p, dy.dims[2], dx.dims[2]);
            part columns = part_of(q, dy.dims[3], dx.dims[3]);
            int64_t count = (rows.end - rows.begin) * (columns.end - columns.begin);
            sum += yki_ref_get(&dy, yki_ref_at(&dy, n, c, p, q)) / (double)count;
        }
    yki_ref_set(&dx, yki_ref_at(&dx, n, c, h, w), sum);
}

static yk_status ref_adaptive_avg_pool2d_backward(const yki_kernel *kernel,
                                                  const yki_kernel_args *run)
{
    yki_ref_each_pixel(kernel, run, adaptive_backward_pixel);
    return YK_OK;
}

YKI_REF_IMPL(max_pool2d, 0);
YKI_REF_IMPL(max_pool2d_backward, 0);
YKI_REF_IMPL(avg_pool2d, 0);
YKI_REF_IMPL(avg_pool2d_backward, 0);
YKI_REF_IMPL(global_avg_pool2d, 0);
YKI_REF_IMPL(global_avg_pool2d_backward, 0);
YKI_REF_IMPL(adaptive_avg_pool2d, 0);
YKI_REF_IMPL(adaptive_avg_pool2d_backward, 0);

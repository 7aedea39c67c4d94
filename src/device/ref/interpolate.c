/* Images of another size: see graph/interpolate.h. Shapes: x (N, C, H, W), y (N, C, P, Q). */
#include "graph/interpolate.h"
#include "device/ref/ref.h"

/* The axes of rows and of columns. */
typedef struct axes {
    yki_axis down, across;
} axes;

static axes axes_of(const yki_kernel *kernel, const yk_tensor *x, const yk_tensor *y)
{
    const yki_attrs *a = yki_ref_attrs(kernel);
    return (axes){yki_axis_of(a->bilinear, a->align_corners, x->dims[2], y->dims[2]),
                  yki_axis_of(a->bilinear, a->align_corners, x->dims[3], y->dims[3])};
}

/* Of a row of x between two columns. */
static double between(const yki_axis *across, yki_taps taps, const yk_tensor *x, int64_t row)
{
    const double part = (double)taps.part / (double)across->divisor;
    const double first = yki_ref_get(x, row + taps.first);
    return taps.part ? (1 - part) * first + part * yki_ref_get(x, row + taps.first + 1) : first;
}

static void interpolate_pixel(const yki_kernel *kernel, const yki_kernel_args *run, int64_t n,
                              int64_t c, int64_t p, int64_t q)
{
    yk_tensor x = yki_ref_in(kernel, run, YKI_INTERPOLATE_X);
    yk_tensor y = yki_ref_out(kernel, run, YKI_INTERPOLATE_Y);
    const axes a = axes_of(kernel, &x, &y);
    const yki_taps rows = yki_taps_of(&a.down, p), columns = yki_taps_of(&a.across, q);
    const int64_t row = yki_ref_at(&x, n, c, rows.first, 0);
    const double part = (double)rows.part / (double)a.down.divisor;
    double value = between(&a.across, columns, &x, row);
    if (rows.part)
        value = (1 - part) * value + part * between(&a.across, columns, &x, row + x.dims[3]);
    yki_ref_set(&y, yki_ref_at(&y, n, c, p, q), value);
}

static yk_status ref_interpolate(const yki_kernel *kernel, const yki_kernel_args *run)
{
    yki_ref_each_pixel(kernel, run, interpolate_pixel);
    return YK_OK;
}

/* Over all outputs that have something of pixel (h, w). */
static void interpolate_backward_pixel(const yki_kernel *kernel, const yki_kernel_args *run,
                                       int64_t n, int64_t c, int64_t h, int64_t w)
{
    yk_tensor dy = yki_ref_in(kernel, run, YKI_INTERPOLATE_BACKWARD_DY);
    yk_tensor dx = yki_ref_out(kernel, run, YKI_INTERPOLATE_BACKWARD_DX);
    const axes a = axes_of(kernel, &dx, &dy);
    const double whole = (double)a.down.divisor * (double)a.across.divisor;
    double sum = 0;
    for (int64_t p = yki_first_output(&a.down, h); p < yki_end_output(&a.down, h); p++)
        for (int64_t q = yki_first_output(&a.across, w); q < yki_end_output(&a.across, w); q++)
            sum += (double)yki_part_of(&a.down, p, h) * (double)yki_part_of(&a.across, q, w) /
                   whole * yki_ref_get(&dy, yki_ref_at(&dy, n, c, p, q));
    yki_ref_set(&dx, yki_ref_at(&dx, n, c, h, w), sum);
}

static yk_status ref_interpolate_backward(const yki_kernel *kernel, const yki_kernel_args *run)
{
    yki_ref_each_pixel(kernel, run, interpolate_backward_pixel);
    return YK_OK;
}

YKI_REF_IMPL(interpolate, 0);
YKI_REF_IMPL(interpolate_backward, 0);

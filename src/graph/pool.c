/* max_pool2d, avg_pool2d, the global average, and averages of as many windows as are asked for; the
 * mean over a dimension, which is such an average. */
#include <yoke/functional.h>

#include "graph/pool.h"

#include "graph/operators.h"

#include "base/options.h"
#include "base/text.h"

static yk_status check_window(const yki_attrs *a)
{
    char kernel[YKI_PAIR_TEXT], stride[YKI_PAIR_TEXT], padding[YKI_PAIR_TEXT];
    bool fits = true;
    for (int d = 0; d < 2; d++)
        fits = fits && yki_in_range(a->kernel[d], 1) && yki_in_range(a->stride[d], 1) &&
               yki_in_range(a->padding[d], 0) && 2 * a->padding[d] <= a->kernel[d];
    if (fits)
        return YK_OK;
    return yki_error(YK_ERROR_INVALID_ARGUMENT,
                     "kernel %s, stride %s, padding %s: expected 1 or more, and a padding from 0 "
                     "to half the kernel",
                     yki_pair_text(a->kernel, kernel), yki_pair_text(a->stride, stride),
                     yki_pair_text(a->padding, padding));
}

/* Both pools have one input, and y as output 0. */
static yk_status infer_window(const yki_node *node, yki_shape *out)
{
    const yki_attrs *a = &node->attrs;
    const yk_value *x = node->in[YKI_MAX_POOL2D_X];
    YK_TRY(yki_expect_float(node, YKI_MAX_POOL2D_INPUTS));
    YK_TRY(yki_expect_dims(node, YKI_MAX_POOL2D_X, 4));
    YK_TRY(check_window(a));
    out[0] = yki_shape_of(x);
    for (int d = 0; d < 2; d++) {
        int64_t windows = yki_pool_windows(x->dims[2 + d], a->kernel[d], a->stride[d],
                                           a->padding[d], a->ceil_mode);
        char kernel[YKI_PAIR_TEXT], text[96];
        if (windows < 1)
            return yki_error(YK_ERROR_INVALID_SHAPE, "kernel %s is larger than input %s",
                             yki_pair_text(a->kernel, kernel),
                             yki_shape_text(x, text, sizeof text));
        out[0].dims[2 + d] = windows;
    }
    return YK_OK;
}

/* The last place in a window fits into the index. */
static yk_status expect_countable(const int64_t kernel[2])
{
    char text[YKI_PAIR_TEXT];
    if (kernel[0] <= INT32_MAX / kernel[1])
        return YK_OK;
    return yki_error(YK_ERROR_INVALID_ARGUMENT,
                     "kernel %s: expected windows of less than 2^31 elements",
                     yki_pair_text(kernel, text));
}

yk_dtype yki_max_pool2d_index_dtype(const int64_t kernel[2])
{
    const int64_t places = 256; /* of a byte */
    return kernel[0] <= places / kernel[1] ? YK_U8 : YK_I32;
}

yk_status yki_infer_max_pool2d(const yki_node *node, yki_shape *out)
{
    YK_TRY(infer_window(node, out));
    YK_TRY(expect_countable(node->attrs.kernel));
    out[YKI_MAX_POOL2D_INDEX] = out[YKI_MAX_POOL2D_Y];
    out[YKI_MAX_POOL2D_INDEX].dtype = yki_max_pool2d_index_dtype(node->attrs.kernel);
    return YK_OK;
}

yk_status yki_infer_avg_pool2d(const yki_node *node, yki_shape *out)
{
    return infer_window(node, out);
}

yk_status yki_gradient_max_pool2d(yk_graph *graph, const yki_node *node, yk_value *const *dout,
                                  const bool *needs, yk_value **din)
{
    yk_value *in[] = {dout[YKI_MAX_POOL2D_Y], node->out[YKI_MAX_POOL2D_INDEX]};
    yk_value *x = node->in[YKI_MAX_POOL2D_X];
    if (needs[YKI_MAX_POOL2D_X])
        din[YKI_MAX_POOL2D_X] =
            yki_append_like(graph, &yki_op_max_pool2d_backward, &node->attrs, in, x);
    return YK_OK;
}

yk_status yki_gradient_avg_pool2d(yk_graph *graph, const yki_node *node, yk_value *const *dout,
                                  const bool *needs, yk_value **din)
{
    yk_value *x = node->in[YKI_AVG_POOL2D_X];
    if (needs[YKI_AVG_POOL2D_X])
        din[YKI_AVG_POOL2D_X] =
            yki_append_like(graph, &yki_op_avg_pool2d_backward, &node->attrs, dout, x);
    return YK_OK;
}

yk_status yki_infer_global_avg_pool2d(const yki_node *node, yki_shape *out)
{
    YK_TRY(yki_expect_float(node, YKI_GLOBAL_AVG_POOL2D_INPUTS));
    YK_TRY(yki_expect_dims(node, YKI_GLOBAL_AVG_POOL2D_X, 4));
    out[0] = yki_shape_of(node->in[YKI_GLOBAL_AVG_POOL2D_X]);
    out[0].dims[2] = out[0].dims[3] = 1;
    return YK_OK;
}

yk_status yki_gradient_global_avg_pool2d(yk_graph *graph, const yki_node *node,
                                         yk_value *const *dout, const bool *needs, yk_value **din)
{
    yk_value *x = node->in[YKI_GLOBAL_AVG_POOL2D_X];
    if (needs[YKI_GLOBAL_AVG_POOL2D_X])
        din[YKI_GLOBAL_AVG_POOL2D_X] =
            yki_append_like(graph, &yki_op_global_avg_pool2d_backward, NULL, dout, x);
    return YK_OK;
}

yk_status yki_infer_adaptive_avg_pool2d(const yki_node *node, yki_shape *out)
{
    const yki_attrs *a = &node->attrs;
    YK_TRY(yki_expect_float(node, YKI_ADAPTIVE_AVG_POOL2D_INPUTS));
    YK_TRY(yki_expect_dims(node, YKI_ADAPTIVE_AVG_POOL2D_X, 4));
    if (!yki_in_range(a->rows, 1) || !yki_in_range(a->columns, 1))
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "the result has %lld x %lld elements, expected 1 x 1 or more",
                         (long long)a->rows, (long long)a->columns);
    out[0] = yki_shape_of(node->in[YKI_ADAPTIVE_AVG_POOL2D_X]);
    out[0].dims[2] = a->rows;
    out[0].dims[3] = a->columns;
    return YK_OK;
}

yk_status yki_gradient_adaptive_avg_pool2d(yk_graph *graph, const yki_node *node,
                                           yk_value *const *dout, const bool *needs, yk_value **din)
{
    yk_value *x = node->in[YKI_ADAPTIVE_AVG_POOL2D_X];
    if (needs[YKI_ADAPTIVE_AVG_POOL2D_X])
        din[YKI_ADAPTIVE_AVG_POOL2D_X] =
            yki_append_like(graph, &yki_op_adaptive_avg_pool2d_backward, NULL, dout, x);
    return YK_OK;
}

static yki_attrs square_window(int64_t kernel, int64_t stride, int64_t padding)
{
    return (yki_attrs){.kernel = {kernel, kernel},
                       .stride = {stride, stride},
                       .padding = {padding, padding},
                       .count_include_pad = true};
}

/* A stride of -1 is the kernel's. */
static yk_value *emit_window(yk_value *x, const yki_op *op, const yk_pool2d_options *options)
{
    yk_pool2d_options o;
    yk_status status = YKI_READ_OPTIONS(&o, options, yk_pool2d_options, YK_POOL2D_OPTIONS_INIT);
    if (status != YK_OK)
        return yki_emit_error(x, op->name, status);
    const int64_t width = yki_columns(o.column_kernel, o.kernel);
    const bool as_kernel = o.stride == -1;
    yki_attrs attrs = {.kernel = {o.kernel, width},
                       .stride = {as_kernel ? o.kernel : o.stride,
                                  yki_columns(o.column_stride, as_kernel ? width : o.stride)},
                       .padding = {o.padding, yki_columns(o.column_padding, o.padding)},
                       .ceil_mode = o.ceil_mode,
                       .count_include_pad = o.count_include_pad};
    return yki_emit_one(x, op, &attrs);
}

yk_value *yk_max_pool2d(yk_value *x, int64_t kernel, int64_t stride, int64_t padding)
{
    yki_attrs attrs = square_window(kernel, stride, padding);
    return yki_emit_one(x, &yki_op_max_pool2d, &attrs);
}

yk_value *yk_max_pool2d_with(yk_value *x, const yk_pool2d_options *options)
{
    return emit_window(x, &yki_op_max_pool2d, options);
}

yk_value *yk_avg_pool2d(yk_value *x, int64_t kernel, int64_t stride, int64_t padding)
{
    yki_attrs attrs = square_window(kernel, stride, padding);
    return yki_emit_one(x, &yki_op_avg_pool2d, &attrs);
}

yk_value *yk_avg_pool2d_with(yk_value *x, const yk_pool2d_options *options)
{
    return emit_window(x, &yki_op_avg_pool2d, options);
}

static yk_value *pool_sequences(yk_value *x, const yki_op *op, int64_t kernel, int64_t stride,
                                int64_t padding)
{
    const yki_attrs attrs = {.kernel = {1, kernel},
                             .stride = {1, stride},
                             .padding = {0, padding},
                             .count_include_pad = true};
    yk_value *row = yki_as_row(x);
    if (yk_value_shape(x, NULL) >= 0 && !row)
        return yki_emit_error(x, op == &yki_op_max_pool2d ? "max_pool1d" : "avg_pool1d",
                              yki_error(YK_ERROR_INVALID_SHAPE,
                                        "input has %d dimensions, expected (N, C, L)",
                                        yk_value_shape(x, NULL)));
    return yki_of_row(yki_emit_one(row ? row : x, op, &attrs), row);
}

yk_value *yk_max_pool1d(yk_value *x, int64_t kernel, int64_t stride, int64_t padding)
{
    return pool_sequences(x, &yki_op_max_pool2d, kernel, stride, padding);
}

yk_value *yk_avg_pool1d(yk_value *x, int64_t kernel, int64_t stride, int64_t padding)
{
    return pool_sequences(x, &yki_op_avg_pool2d, kernel, stride, padding);
}

yk_value *yk_global_avg_pool2d(yk_value *x)
{
    return yki_emit_one(x, &yki_op_global_avg_pool2d, NULL);
}

/* Where all windows are alike, it is one of the other averages, or nothing. */
yk_value *yk_adaptive_avg_pool2d(yk_value *x, int64_t rows, int64_t columns)
{
    int64_t dims[YK_MAX_DIMS];
    bool fits = yk_value_shape(x, dims) == 4 && rows > 0 && columns > 0;
    if (fits && dims[2] == rows && dims[3] == columns)
        return x;
    if (fits && rows == 1 && columns == 1)
        return yk_global_avg_pool2d(x);
    if (fits && dims[2] % rows == 0 && dims[3] % columns == 0) {
        yk_pool2d_options options = YK_POOL2D_OPTIONS_INIT;
        options.kernel = dims[2] / rows;
        options.column_kernel = dims[3] / columns;
        return yk_avg_pool2d_with(x, &options);
    }
    return yki_emit_one(x, &yki_op_adaptive_avg_pool2d,
                        &(yki_attrs){.rows = rows, .columns = columns});
}

/* ---- the mean over a dimension: that of channels (N, other dimensions, dimension, 1) --------- */

yk_value *yk_mean(yk_value *x, int64_t dim)
{
    int64_t dims[YK_MAX_DIMS], last[YK_MAX_DIMS] = {0}, order[YK_MAX_DIMS], others = 1;
    int ndim = yk_value_shape(x, dims), kept = 0;
    if (ndim < 0)
        return x ? x : yki_no_operand("mean");
    if (yki_reduces_first(x, dim))
        return yki_reduce_first(x, YK_LOSS_MEAN);
    int64_t over = yki_from_front(dim, ndim);
    yk_status status = yki_expect_dim(x, "input", over);
    if (status != YK_OK)
        return yki_emit_error(x, "mean", status);
    for (int d = 0; d < ndim; d++) {
        if (d == over)
            continue;
        others *= d > 0 ? dims[d] : 1;
        last[kept] = dims[d];
        order[kept++] = d;
    }
    order[kept] = over;
    if (over < kept)
        x = yk_permute(x, ndim, order);
    x = yk_reshape(x, 4, (int64_t[]){dims[0], others, dims[over], 1});
    return yk_reshape(yk_global_avg_pool2d(x), kept, last);
}

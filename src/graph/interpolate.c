/* Images of another size: see interpolate.h. */
#include "graph/operators.h"

#include "base/options.h"

static yk_status expect_attributes(const yki_attrs *a)
{
    if (!yki_in_range(a->rows, 1) || !yki_in_range(a->columns, 1))
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "the result has %lld x %lld elements, expected 1 x 1 or more",
                         (long long)a->rows, (long long)a->columns);
    if (a->align_corners && !a->bilinear)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "align_corners has a meaning for "
                                                    "YK_INTERPOLATE_BILINEAR only");
    return YK_OK;
}

yk_status yki_infer_interpolate(const yki_node *node, yki_shape *out)
{
    YK_TRY(yki_expect_float(node, YKI_INTERPOLATE_INPUTS));
    YK_TRY(yki_expect_dims(node, YKI_INTERPOLATE_X, 4));
    YK_TRY(expect_attributes(&node->attrs));
    out[0] = yki_shape_of(node->in[YKI_INTERPOLATE_X]);
    out[0].dims[2] = node->attrs.rows;
    out[0].dims[3] = node->attrs.columns;
    return YK_OK;
}

yk_status yki_gradient_interpolate(yk_graph *graph, const yki_node *node, yk_value *const *dout,
                                   const bool *needs, yk_value **din)
{
    yk_value *x = node->in[YKI_INTERPOLATE_X];
    if (needs[YKI_INTERPOLATE_X])
        din[YKI_INTERPOLATE_X] =
            yki_append_like(graph, &yki_op_interpolate_backward, &node->attrs, dout, x);
    return YK_OK;
}

yk_value *yk_interpolate(yk_value *x, int64_t rows, int64_t columns,
                         const yk_interpolate_options *options)
{
    yk_interpolate_options o;
    yk_status status =
        YKI_READ_OPTIONS(&o, options, yk_interpolate_options, YK_INTERPOLATE_OPTIONS_INIT);
    if (status == YK_OK && o.mode != YK_INTERPOLATE_NEAREST && o.mode != YK_INTERPOLATE_BILINEAR)
        status = yki_error(YK_ERROR_INVALID_ARGUMENT, "mode is %d, expected %d or %d", (int)o.mode,
                           YK_INTERPOLATE_NEAREST, YK_INTERPOLATE_BILINEAR);
    if (status != YK_OK)
        return yki_emit_error(x, "interpolate", status);
    return yki_emit_one(x, &yki_op_interpolate,
                        &(yki_attrs){.rows = rows,
                                     .columns = columns,
                                     .bilinear = o.mode == YK_INTERPOLATE_BILINEAR,
                                     .align_corners = o.align_corners});
}

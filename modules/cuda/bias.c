/* See bias.h. */
#include "bias.h"

#include "graph/operators.h"
#include "implementations.h"

static int width_of(const yki_operand *operand)
{
    return yki_cuda_width_for(operand->dtype, yki_cuda_columns_of(operand));
}

yk_status yki_cuda_bias_add_find(yki_cuda_kernel *kernel, int stage, const yki_operand *y)
{
    return yki_cuda_find(kernel, stage, "bias_add", y->dtype, width_of(y) > 1);
}

yk_status yki_cuda_bias_add(const yki_cuda_kernel *kernel, int stage, const yki_operand *y,
                            void *memory, const void *bias, const yki_kernel_args *run)
{
    yki_cuda_bias_add_args args = {
        .y = memory, .bias = bias, .rows = yki_cuda_rows(y), .columns = yki_cuda_columns_of(y)};
    yki_cuda_grid grid = yki_cuda_grid_of(yki_operand_count(y) / width_of(y));
    return yki_cuda_launch(kernel, stage, grid, &args, sizeof args, run);
}

/* ---- the gradient ---------------------------------------------------------------------------- */

static yki_cuda_grid divide(const yki_operand *dy, yki_cuda_columns *at)
{
    return yki_cuda_grid_of_columns(1, yki_cuda_rows(dy), yki_cuda_columns_of(dy), width_of(dy),
                                    at);
}

yk_status yki_cuda_bias_gradient_find(yki_cuda_kernel *kernel, int stage, const yki_operand *dy,
                                      bool is_product)
{
    const char *name = is_product ? "bias_reduce_product" : "bias_reduce";
    YK_TRY(yki_cuda_find(kernel, stage, name, dy->dtype, width_of(dy) > 1));
    return yki_cuda_find(kernel, stage + 1, "sums_merge", yki_accumulate_dtype(dy->dtype), true);
}

size_t yki_cuda_bias_gradient_bytes(const yki_operand *dy)
{
    yki_cuda_columns at;
    yki_cuda_grid grid = divide(dy, &at);
    return yki_cuda_partial_bytes(grid, &at);
}

yk_status yki_cuda_bias_gradient(const yki_cuda_kernel *kernel, int stage, const yki_operand *dy,
                                 const void *memory, const void *factor, void *dbias, void *partial,
                                 const yki_kernel_args *run)
{
    yki_cuda_bias_reduce_args args = {.dy = memory, .factor = factor, .partial = partial};
    yki_cuda_grid grid = divide(dy, &args.at);
    yki_cuda_sums_merge_args merge = {.rows = args.at.rows,
                                      .columns = args.at.columns,
                                      .slices = (int32_t)grid.y,
                                      .partial = partial,
                                      .dbias = dbias};
    YK_TRY(yki_cuda_launch(kernel, stage, grid, &args, sizeof args, run));
    return yki_cuda_launch(kernel, stage + 1, yki_cuda_grid_of_merge(merge.columns), &merge,
                           sizeof merge, run);
}

/* ---- of conv_transpose2d: dy -> dbias -------------------------------------------------------- */

static yk_status prepare_gradient(yki_device *device, const yki_kernel_desc *desc,
                                  yki_kernel **kernel)
{
    const yki_operand *dy = &desc->in[YKI_CONV_TRANSPOSE2D_BACKWARD_BIAS_DY];
    yki_cuda_kernel *k;
    YK_TRY(yki_cuda_prepare(device, desc, &k));
    yki_cuda_reserve(k, yki_cuda_bias_gradient_bytes(dy));
    return yki_cuda_prepared(k, yki_cuda_bias_gradient_find(k, 0, dy, false), kernel);
}

static yk_status run_gradient(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const yki_cuda_kernel *k = (const yki_cuda_kernel *)kernel;
    return yki_cuda_bias_gradient(k, 0, &k->desc.in[YKI_CONV_TRANSPOSE2D_BACKWARD_BIAS_DY],
                                  run->in[YKI_CONV_TRANSPOSE2D_BACKWARD_BIAS_DY], NULL,
                                  run->out[YKI_CONV_TRANSPOSE2D_BACKWARD_BIAS_DBIAS], run->scratch,
                                  run);
}
IMPLEMENTATION(conv_transpose2d_backward_bias, yki_cuda_supports, prepare_gradient, run_gradient,
               0);

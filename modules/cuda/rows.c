/* softmax and layer_norm: see kernels/rows.cu. */
#include "cuda.h"
#include "implementations.h"

enum { ROW, REDUCE, MERGE };

/* A warp for each row. */
static yki_cuda_grid grid_of_rows(int64_t rows)
{
    return yki_cuda_grid_of(rows * 32);
}

static yki_cuda_rows_args args_of(const yki_cuda_kernel *k, const yki_kernel_args *run)
{
    return (yki_cuda_rows_args){.out = yki_cuda_out(k, run, 0),
                                .rows = yki_cuda_rows(&k->desc.in[0]),
                                .columns = yki_cuda_columns_of(&k->desc.in[0]),
                                .eps = k->attrs.eps};
}

/* ---- softmax --------------------------------------------------------------------------------- */

static yk_status prepare_softmax(yki_device *device, const yki_kernel_desc *desc,
                                 yki_kernel **kernel)
{
    return yki_cuda_prepare_one(device, desc, "softmax", true, kernel);
}

static yk_status run_softmax(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const yki_cuda_kernel *k = (const yki_cuda_kernel *)kernel;
    yki_cuda_rows_args args = args_of(k, run);
    args.x = yki_cuda_in(k, run, YKI_SOFTMAX_X);
    return yki_cuda_launch(k, ROW, grid_of_rows(args.rows), &args, sizeof args, run);
}

static yk_status prepare_softmax_backward(yki_device *device, const yki_kernel_desc *desc,
                                          yki_kernel **kernel)
{
    return yki_cuda_prepare_one(device, desc, "softmax_backward", true, kernel);
}

static yk_status run_softmax_backward(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const yki_cuda_kernel *k = (const yki_cuda_kernel *)kernel;
    yki_cuda_rows_args args = args_of(k, run);
    args.dy = yki_cuda_in(k, run, YKI_SOFTMAX_BACKWARD_DY);
    args.y = yki_cuda_in(k, run, YKI_SOFTMAX_BACKWARD_Y);
    return yki_cuda_launch(k, ROW, grid_of_rows(args.rows), &args, sizeof args, run);
}
IMPLEMENTATION(softmax, yki_cuda_supports, prepare_softmax, run_softmax, 1);
IMPLEMENTATION(softmax_backward, yki_cuda_supports, prepare_softmax_backward, run_softmax_backward,
               1);

/* ---- layer_norm ------------------------------------------------------------------------------ */

static yk_status prepare_layer_norm(yki_device *device, const yki_kernel_desc *desc,
                                    yki_kernel **kernel)
{
    return yki_cuda_prepare_one(device, desc, "layer_norm", true, kernel);
}

static yk_status run_layer_norm(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const yki_cuda_kernel *k = (const yki_cuda_kernel *)kernel;
    yki_cuda_rows_args args = args_of(k, run);
    args.x = yki_cuda_in(k, run, YKI_LAYER_NORM_X);
    args.weight = yki_cuda_in(k, run, YKI_LAYER_NORM_WEIGHT);
    args.bias = yki_cuda_in(k, run, YKI_LAYER_NORM_BIAS);
    return yki_cuda_launch(k, ROW, grid_of_rows(args.rows), &args, sizeof args, run);
}
IMPLEMENTATION(layer_norm, yki_cuda_supports, prepare_layer_norm, run_layer_norm, 0);

static yki_cuda_grid divide(const yki_kernel_desc *desc, yki_cuda_columns *at)
{
    const yki_operand *x = &desc->in[0];
    int32_t columns = yki_cuda_columns_of(x);
    return yki_cuda_divide(yki_cuda_rows(x), columns, yki_cuda_width_for(x->dtype, columns), at);
}

static size_t moment_bytes(const yki_kernel_desc *desc)
{
    return (size_t)yki_cuda_rows(&desc->in[0]) * 2 * sizeof(double);
}

static yk_status prepare_layer_norm_backward(yki_device *device, const yki_kernel_desc *desc,
                                             yki_kernel **kernel)
{
    yki_cuda_kernel *k;
    YK_TRY(yki_cuda_prepare(device, desc, &k));
    yk_dtype dtype = desc->in[0].dtype;
    yki_cuda_columns at;
    yki_cuda_grid grid = divide(desc, &at);
    k->base.scratch = moment_bytes(desc) + yki_cuda_partial_bytes(grid, &at);
    bool vectors = yki_cuda_width_for(dtype, at.columns) > 1;
    yk_status status = yki_cuda_find(k, ROW, "layer_norm_backward", dtype, true);
    if (status == YK_OK)
        status = yki_cuda_find(k, REDUCE, "layer_norm_reduce", dtype, vectors);
    if (status == YK_OK)
        status = yki_cuda_find(k, MERGE, "sums_merge", yki_accumulate_dtype(dtype), true);
    return yki_cuda_prepared(k, status, kernel);
}

static yk_status run_layer_norm_backward(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const yki_cuda_kernel *k = (const yki_cuda_kernel *)kernel;
    yki_cuda_rows_args args = args_of(k, run);
    args.x = yki_cuda_in(k, run, YKI_LAYER_NORM_BACKWARD_X);
    args.dy = yki_cuda_in(k, run, YKI_LAYER_NORM_BACKWARD_DY);
    args.weight = yki_cuda_in(k, run, YKI_LAYER_NORM_BACKWARD_WEIGHT);
    args.moments = run->scratch;
    YK_TRY(yki_cuda_launch(k, ROW, grid_of_rows(args.rows), &args, sizeof args, run));
    yki_cuda_rows_reduce_args reduce = {
        .x = args.x,
        .dy = args.dy,
        .moments = args.moments,
        .partial = (double *)((char *)run->scratch + moment_bytes(&k->desc)),
    };
    yki_cuda_grid grid = divide(&k->desc, &reduce.at);
    yki_cuda_sums_merge_args merge = {.rows = args.rows,
                                      .columns = args.columns,
                                      .slices = (int32_t)grid.y,
                                      .partial = reduce.partial,
                                      .dweight =
                                          yki_cuda_out(k, run, YKI_LAYER_NORM_BACKWARD_DWEIGHT),
                                      .dbias = yki_cuda_out(k, run, YKI_LAYER_NORM_BACKWARD_DBIAS)};
    if (!merge.dweight && !merge.dbias)
        return YK_OK;
    YK_TRY(yki_cuda_launch(k, REDUCE, grid, &reduce, sizeof reduce, run));
    grid = (yki_cuda_grid){(unsigned)yki_cuda_blocks(merge.columns, 32), 1, 1};
    return yki_cuda_launch(k, MERGE, grid, &merge, sizeof merge, run);
}
IMPLEMENTATION(layer_norm_backward, yki_cuda_supports, prepare_layer_norm_backward,
               run_layer_norm_backward, 0);

/* See statistics.h. */
#include "statistics.h"

static int width_of(const yki_operand *x)
{
    return yki_cuda_width_for(x->dtype, yki_cuda_columns_of(x));
}

static yki_cuda_grid divide(const yki_operand *x, yki_cuda_columns *at)
{
    return yki_cuda_divide(yki_cuda_rows(x), yki_cuda_columns_of(x), width_of(x), at);
}

yk_status yki_cuda_statistics_find(yki_cuda_kernel *kernel, int stage, const yki_operand *x)
{
    YK_TRY(yki_cuda_find(kernel, stage, "norm_measure", x->dtype, width_of(x) > 1));
    return yki_cuda_find(kernel, stage + 1, "norm_merge", x->dtype, true);
}

size_t yki_cuda_statistics_bytes(const yki_operand *x)
{
    yki_cuda_columns at;
    yki_cuda_grid grid = divide(x, &at);
    return yki_cuda_partial_bytes(grid, &at);
}

yk_status yki_cuda_statistics(const yki_cuda_kernel *kernel, int stage, const yki_operand *x,
                              const void *memory, double *partial, double *vector,
                              const yki_kernel_args *run)
{
    yki_cuda_norm_measure_args args = {.x = memory};
    yki_cuda_grid grid = divide(x, &args.at);
    yki_cuda_norm_merge_args merge = {
        .rows = args.at.rows, .columns = args.at.columns, .slices = (int32_t)grid.y, .x = memory};
    args.partial = partial;
    merge.partial = partial;
    merge.vector = vector;
    yki_cuda_grid columns = {(unsigned)yki_cuda_blocks(merge.columns, 32), 1, 1};
    YK_TRY(yki_cuda_launch(kernel, stage, grid, &args, sizeof args, run));
    return yki_cuda_launch(kernel, stage + 1, columns, &merge, sizeof merge, run);
}

bool yki_cuda_statistics_of_sums(const yki_operand *x, const yki_operand *sums)
{
    return sums->ndim >= 0 && sums->dtype == YK_F32 && yk_dtype_size(x->dtype) == 2;
}

yk_status yki_cuda_sums_find(yki_cuda_kernel *kernel, int stage)
{
    return yki_cuda_find_exactly(kernel, stage, "norm_take_sums");
}

yk_status yki_cuda_sums(const yki_cuda_kernel *kernel, int stage, const yki_operand *x,
                        const void *sums, double *vector, const yki_kernel_args *run)
{
    yki_cuda_norm_sums_args args = {
        .rows = yki_cuda_rows(x), .columns = yki_cuda_columns_of(x), .sums = sums};
    args.vector = vector;
    return yki_cuda_launch(kernel, stage, yki_cuda_grid_of(args.columns), &args, sizeof args, run);
}

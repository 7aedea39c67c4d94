/* See statistics.h. */
#include "statistics.h"

int yki_cuda_norm_width(const yki_operand *x)
{
    int width = yki_cuda_width(x->dtype);
    width = width > YKI_CUDA_NORM ? YKI_CUDA_NORM : width;
    return yki_cuda_columns_of(x) % width == 0 ? width : 1;
}

yki_cuda_grid yki_cuda_norm_divide(const yki_operand *x, yki_cuda_columns *at)
{
    return yki_cuda_grid_of_columns(1, yki_cuda_rows(x), yki_cuda_columns_of(x),
                                    yki_cuda_norm_width(x), at);
}

yk_status yki_cuda_statistics_find(yki_cuda_kernel *kernel, int stage, const yki_operand *x)
{
    YK_TRY(yki_cuda_find(kernel, stage, "norm_measure", x->dtype, yki_cuda_norm_width(x) > 1));
    return yki_cuda_find(kernel, stage + 1, "norm_merge", x->dtype, true);
}

size_t yki_cuda_statistics_bytes(const yki_operand *x)
{
    yki_cuda_columns at;
    yki_cuda_grid grid = yki_cuda_norm_divide(x, &at);
    return yki_cuda_partial_bytes(grid, &at);
}

yk_status yki_cuda_statistics_measure(const yki_cuda_kernel *kernel, int stage,
                                      const yki_operand *x, const void *memory, double *partial,
                                      const yki_kernel_args *run, int32_t *slices)
{
    yki_cuda_norm_measure_args args = {.x = memory};
    yki_cuda_grid grid = yki_cuda_norm_divide(x, &args.at);
    args.partial = partial;
    *slices = (int32_t)grid.y;
    return yki_cuda_launch(kernel, stage, grid, &args, sizeof args, run);
}

yk_status yki_cuda_statistics(const yki_cuda_kernel *kernel, int stage, const yki_operand *x,
                              const void *memory, double *partial, double *vector,
                              const yki_kernel_args *run)
{
    yki_cuda_norm_merge_args merge = {
        .rows = yki_cuda_rows(x), .columns = yki_cuda_columns_of(x), .x = memory};
    merge.partial = partial;
    merge.vector = vector;
    YK_TRY(yki_cuda_statistics_measure(kernel, stage, x, memory, partial, run, &merge.slices));
    return yki_cuda_launch(kernel, stage + 1, yki_cuda_grid_of_merge(merge.columns), &merge,
                           sizeof merge, run);
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

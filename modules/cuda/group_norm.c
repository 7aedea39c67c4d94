/*
 * group_norm: see kernels/group_norm.cu. In images, and where there is one pixel, channels lie side
 * by side; in plain tensors (N, C, L) pixels do.
 */
#include <stdio.h>

#include "cuda.h"
#include "implementations.h"
#include "statistics.h"

enum { REDUCE, SETTLE, APPLY, MERGE };

/* ---- how x is divided, which is all that the kernels' arguments have in common ----------------
 */

/* Whether the pixels of a channel are next to each other: x is not (N, C), and no image. */
static bool has_rows(const yki_operand *x)
{
    return x->ndim != 2 && x->ndim != 4;
}

static int64_t pixels_of(const yki_operand *x)
{
    int64_t pixels = 1;
    for (int d = 2; d < x->ndim; d++)
        pixels *= x->dims[d];
    return pixels;
}

static yki_cuda_grid divide(const yki_cuda_kernel *k, yki_cuda_group_norm_args *args)
{
    const yki_operand *x = &k->desc.in[0];
    const int64_t channels = x->dims[1];
    args->samples = x->dims[0];
    args->groups = (int32_t)k->attrs.groups;
    args->channels = (int32_t)(channels / k->attrs.groups);
    args->eps = k->attrs.eps;
    args->slices = 1;
    if (has_rows(x)) {
        const int64_t pixels = pixels_of(x);
        args->at =
            (yki_cuda_columns){.rows = pixels, .slice = pixels, .columns = (int32_t)channels};
        return yki_cuda_grid_of(args->samples * channels * 32);
    }
    const int64_t pixels = args->samples > 0 ? yki_cuda_rows(x) / args->samples : 0;
    yki_cuda_grid grid = yki_cuda_grid_of_columns(args->samples, pixels, channels,
                                                  yki_cuda_norm_width(x), &args->at);
    args->across = (int32_t)grid.x;
    args->slices = (int32_t)grid.y;
    grid.x *= (unsigned)args->samples;
    return grid;
}

static bool has_vectors(const yki_operand *x)
{
    if (!has_rows(x))
        return yki_cuda_norm_width(x) > 1;
    const int width = yki_cuda_width(x->dtype);
    return pixels_of(x) % (width > YKI_CUDA_NORM ? YKI_CUDA_NORM : width) == 0;
}

static yk_status find(yki_cuda_kernel *k, int stage, const char *name)
{
    char full[64];
    const yki_operand *x = &k->desc.in[0];
    snprintf(full, sizeof full, "%s%s", name, has_rows(x) ? "_rows" : "");
    return yki_cuda_find(k, stage, full, x->dtype, stage == SETTLE || has_vectors(x));
}

/* ---- scratch: sums, and what is known of each group --------------------------------------------
 */

static size_t bytes_of_groups(const yki_cuda_kernel *k, size_t size)
{
    return (size_t)(k->desc.in[0].dims[0] * k->attrs.groups) * size;
}

/* Begins scratch memory. */
static size_t bytes_of_sums(const yki_cuda_kernel *k)
{
    yki_cuda_group_norm_args args = {0};
    divide(k, &args);
    return (size_t)args.samples * (size_t)args.slices * 2 * (size_t)args.at.columns *
           sizeof(double);
}

static void *after_sums(const yki_cuda_kernel *k, const yki_kernel_args *run)
{
    return (char *)run->scratch + bytes_of_sums(k);
}

/* A group for each warp. */
static yki_cuda_grid grid_of_groups(const yki_cuda_group_norm_args *args)
{
    return yki_cuda_grid_of(args->samples * args->groups * 32);
}

/* ---- forward --------------------------------------------------------------------------------- */

static yk_status find_forward(yki_cuda_kernel *k)
{
    YK_TRY(find(k, REDUCE, "group_norm_measure"));
    YK_TRY(find(k, SETTLE, "group_norm_settle"));
    return find(k, APPLY, "group_norm_apply");
}

static yk_status create(yki_device *device, const yki_kernel_desc *desc, yki_kernel **kernel)
{
    yki_cuda_kernel *k;
    YK_TRY(yki_cuda_prepare(device, desc, &k));
    yki_cuda_reserve(k, bytes_of_sums(k) + 2 * bytes_of_groups(k, sizeof(double)));
    return yki_cuda_prepared(k, find_forward(k), kernel);
}

static yk_status run_forward(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const yki_cuda_kernel *k = (const yki_cuda_kernel *)kernel;
    yki_cuda_group_norm_args args = {.x = run->in[YKI_GROUP_NORM_X],
                                     .weight = yki_cuda_in(k, run, YKI_GROUP_NORM_WEIGHT),
                                     .bias = yki_cuda_in(k, run, YKI_GROUP_NORM_BIAS),
                                     .mean = yki_cuda_out(k, run, YKI_GROUP_NORM_MEAN),
                                     .invstd = yki_cuda_out(k, run, YKI_GROUP_NORM_INVSTD),
                                     .partial = run->scratch,
                                     .out = run->out[YKI_GROUP_NORM_Y]};
    char *own = after_sums(k, run);
    if (!args.mean)
        args.mean = own;
    if (!args.invstd)
        args.invstd = own + bytes_of_groups(k, sizeof(double));
    yki_cuda_grid grid = divide(k, &args);
    YK_TRY(yki_cuda_launch(k, REDUCE, grid, &args, sizeof args, run));
    YK_TRY(yki_cuda_launch(k, SETTLE, grid_of_groups(&args), &args, sizeof args, run));
    return yki_cuda_launch(k, APPLY, grid, &args, sizeof args, run);
}
IMPLEMENTATION(group_norm, yki_cuda_supports, create, run_forward, 1 << YKI_GROUP_NORM_X);

/* ---- backward -------------------------------------------------------------------------------- */

static yk_status find_backward(yki_cuda_kernel *k)
{
    const yk_dtype real = yki_accumulate_dtype(k->desc.in[0].dtype);
    YK_TRY(find(k, REDUCE, "group_norm_reduce"));
    YK_TRY(yki_cuda_find(k, SETTLE, "group_norm_slopes", real, true));
    YK_TRY(find(k, APPLY, "group_norm_backward"));
    return yki_cuda_find(k, MERGE, "sums_merge", real, true);
}

static yk_status create_backward(yki_device *device, const yki_kernel_desc *desc,
                                 yki_kernel **kernel)
{
    yki_cuda_kernel *k;
    YK_TRY(yki_cuda_prepare(device, desc, &k));
    yki_cuda_reserve(k, bytes_of_sums(k) + 2 * bytes_of_groups(k, sizeof(double)));
    return yki_cuda_prepared(k, find_backward(k), kernel);
}

/* The sums over all samples. */
static yk_status add_samples(const yki_cuda_kernel *k, const yki_kernel_args *run,
                             const yki_cuda_group_norm_args *args)
{
    const yki_cuda_sums_merge_args sums = {
        .columns = args->at.columns,
        .slices = (int32_t)(args->samples * args->slices),
        .partial = args->partial,
        .dweight = yki_cuda_out(k, run, YKI_GROUP_NORM_BACKWARD_DWEIGHT),
        .dbias = yki_cuda_out(k, run, YKI_GROUP_NORM_BACKWARD_DBIAS)};
    if (!sums.dweight && !sums.dbias)
        return YK_OK;
    return yki_cuda_launch(k, MERGE, yki_cuda_grid_of_merge(sums.columns), &sums, sizeof sums, run);
}

static yk_status run_backward(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const yki_cuda_kernel *k = (const yki_cuda_kernel *)kernel;
    yki_cuda_group_norm_args args = {.x = run->in[YKI_GROUP_NORM_BACKWARD_X],
                                     .dy = run->in[YKI_GROUP_NORM_BACKWARD_DY],
                                     .weight = yki_cuda_in(k, run, YKI_GROUP_NORM_BACKWARD_WEIGHT),
                                     .mean = run->in[YKI_GROUP_NORM_BACKWARD_MEAN],
                                     .invstd = run->in[YKI_GROUP_NORM_BACKWARD_INVSTD],
                                     .partial = run->scratch,
                                     .means = after_sums(k, run),
                                     .out = yki_cuda_out(k, run, YKI_GROUP_NORM_BACKWARD_DX)};
    yki_cuda_grid grid = divide(k, &args);
    YK_TRY(yki_cuda_launch(k, REDUCE, grid, &args, sizeof args, run));
    YK_TRY(add_samples(k, run, &args));
    if (!args.out)
        return YK_OK;
    YK_TRY(yki_cuda_launch(k, SETTLE, grid_of_groups(&args), &args, sizeof args, run));
    return yki_cuda_launch(k, APPLY, grid, &args, sizeof args, run);
}
IMPLEMENTATION(group_norm_backward, yki_cuda_supports, create_backward, run_backward,
               1 << YKI_GROUP_NORM_BACKWARD_DY);

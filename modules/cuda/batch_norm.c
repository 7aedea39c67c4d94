/*
 * batch_norm: see kernels/batch_norm.cu. Without synchronisation, the ranks whose statistics are
 * merged are this one alone. Where the convolution that makes x gives its sums, there is no pass
 * that measures x.
 */
#include "implementations.h"
#include "statistics.h"

enum { REDUCE, MERGE, FINISH, APPLY };

/* ---- scratch: partial sums, the vector of this rank, and statistics that nobody else keeps --- */

typedef struct pieces {
    double *partial, *vector;
    char *mean, *invstd;
} pieces;

static size_t parameter_size(const yki_cuda_kernel *k)
{
    return yk_dtype_size(yki_accumulate_dtype(k->desc.in[0].dtype));
}

static int width_of(const yki_cuda_kernel *k)
{
    return yki_cuda_width_for(k->desc.in[0].dtype, k->desc.in[0].dims[1]);
}

static yki_cuda_grid divide(const yki_cuda_kernel *k, yki_cuda_columns *at)
{
    const yki_operand *x = &k->desc.in[0];
    int64_t pixels = x->ndim == 4 ? x->dims[2] * x->dims[3] : 1;
    return yki_cuda_divide(x->dims[0] * pixels, x->dims[1], width_of(k), at);
}

static pieces cut(const yki_cuda_kernel *k, void *scratch, size_t *bytes)
{
    yki_cuda_columns at;
    yki_cuda_grid grid = divide(k, &at);
    size_t channels = (size_t)at.columns, offset = yki_cuda_partial_bytes(grid, &at);
    pieces p = {.partial = scratch, .vector = (double *)((char *)scratch + offset)};
    offset += (size_t)yki_sync_length(at.columns) * sizeof(double);
    p.mean = (char *)scratch + offset;
    p.invstd = p.mean + channels * parameter_size(k);
    *bytes = offset + 2 * channels * parameter_size(k);
    return p;
}

static bool has_vectors(const yki_cuda_kernel *k)
{
    return width_of(k) > 1;
}

/* Exchanges the vector with the other ranks; afterwards it is that of all `world`. */
static yk_status exchange(const yki_kernel_args *run, int64_t channels, const double **vectors,
                          int32_t *world)
{
    if (!run->sync)
        return YK_OK;
    YK_TRY(run->sync->gather(run->sync, channels, run->stream));
    *vectors = run->sync->all;
    *world = run->sync->world;
    return YK_OK;
}

/* ---- forward --------------------------------------------------------------------------------- */

static bool is_summed(const yki_cuda_kernel *k)
{
    const yki_kernel_desc *desc = &k->desc;
    return desc->in_count > YKI_BATCH_NORM_SUMS &&
           yki_cuda_statistics_of_sums(&desc->in[YKI_BATCH_NORM_X], &desc->in[YKI_BATCH_NORM_SUMS]);
}

static yk_status find_forward(yki_cuda_kernel *k)
{
    const yki_operand *x = &k->desc.in[YKI_BATCH_NORM_X];
    YK_TRY(is_summed(k) ? yki_cuda_sums_find(k, MERGE) : yki_cuda_statistics_find(k, REDUCE, x));
    YK_TRY(yki_cuda_find(k, FINISH, "norm_finish", yki_accumulate_dtype(x->dtype), true));
    return yki_cuda_find(k, APPLY, "norm_apply", x->dtype, has_vectors(k));
}

static yk_status prepare_batch_norm(yki_device *device, const yki_kernel_desc *desc,
                                    yki_kernel **kernel)
{
    yki_cuda_kernel *k;
    YK_TRY(yki_cuda_prepare(device, desc, &k));
    static char none[1];
    cut(k, none, &k->base.scratch);
    return yki_cuda_prepared(k, find_forward(k), kernel);
}

/* Sums are enough for this rank alone; others get a vector. */
static yk_status measure(const yki_cuda_kernel *k, const yki_kernel_args *run, pieces p)
{
    const yki_operand *x = &k->desc.in[YKI_BATCH_NORM_X];
    double *vector = run->sync ? run->sync->mine : p.vector;
    if (!is_summed(k))
        return yki_cuda_statistics(k, REDUCE, x, run->in[YKI_BATCH_NORM_X], p.partial, vector, run);
    const void *sums = run->in[YKI_BATCH_NORM_SUMS];
    return run->sync ? yki_cuda_sums(k, MERGE, x, sums, vector, run) : YK_OK;
}

static yk_status finish(const yki_cuda_kernel *k, const yki_kernel_args *run, pieces p)
{
    yki_cuda_norm_finish_args args = {
        .vectors = p.vector,
        .sums = is_summed(k) && !run->sync ? run->in[YKI_BATCH_NORM_SUMS] : NULL,
        .rows = yki_cuda_rows(&k->desc.in[YKI_BATCH_NORM_X]),
        .world = k->desc.training ? 1 : 0,
        .columns = (int32_t)k->desc.in[0].dims[1],
        .eps = k->attrs.eps,
        .momentum = k->attrs.momentum,
        .running_mean = yki_cuda_in(k, run, YKI_BATCH_NORM_RUNNING_MEAN),
        .running_var = yki_cuda_in(k, run, YKI_BATCH_NORM_RUNNING_VAR),
        .batches = yki_cuda_in(k, run, YKI_BATCH_NORM_NUM_BATCHES_TRACKED),
        .mean = p.mean,
        .invstd = p.invstd,
    };
    if (k->desc.training)
        YK_TRY(exchange(run, args.columns, &args.vectors, &args.world));
    return yki_cuda_launch(k, FINISH, yki_cuda_grid_of(args.columns), &args, sizeof args, run);
}

static yk_status apply(const yki_cuda_kernel *k, const yki_kernel_args *run, pieces p)
{
    yki_cuda_norm_apply_args args = {.x = yki_cuda_in(k, run, YKI_BATCH_NORM_X),
                                     .residual = yki_cuda_in(k, run, YKI_BATCH_NORM_RESIDUAL),
                                     .mean = p.mean,
                                     .invstd = p.invstd,
                                     .weight = yki_cuda_in(k, run, YKI_BATCH_NORM_WEIGHT),
                                     .bias = yki_cuda_in(k, run, YKI_BATCH_NORM_BIAS),
                                     .y = yki_cuda_out(k, run, YKI_BATCH_NORM_Y),
                                     .relu = k->attrs.relu,
                                     .relu6 = k->attrs.relu6};
    yki_cuda_grid grid = divide(k, &args.at);
    return yki_cuda_launch(k, APPLY, grid, &args, sizeof args, run);
}

/* Without samples and without peers, the statistics stay as they are, and backward adds nothing. */
static yk_status skip_empty(const yki_cuda_kernel *k, const yki_kernel_args *run)
{
    yki_device *device = &k->device->base;
    for (int i = YKI_BATCH_NORM_MEAN; i <= YKI_BATCH_NORM_INVSTD; i++) {
        void *out = yki_cuda_out(k, run, i);
        size_t bytes = (size_t)k->desc.in[0].dims[1] * parameter_size(k);
        if (out)
            YK_TRY(yki_device_fill(device, out, 0, bytes, run->stream));
    }
    return YK_OK;
}

static yk_status run_batch_norm(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const yki_cuda_kernel *k = (const yki_cuda_kernel *)kernel;
    size_t bytes;
    yki_cuda_columns at;
    pieces p = cut(k, run->scratch, &bytes);
    divide(k, &at);
    if (yki_cuda_out(k, run, YKI_BATCH_NORM_MEAN))
        p.mean = yki_cuda_out(k, run, YKI_BATCH_NORM_MEAN);
    if (yki_cuda_out(k, run, YKI_BATCH_NORM_INVSTD))
        p.invstd = yki_cuda_out(k, run, YKI_BATCH_NORM_INVSTD);
    if (k->desc.training) {
        if (at.rows == 0 && !run->sync)
            return skip_empty(k, run);
        if (at.rows == 1 && !run->sync)
            return yki_error(YK_ERROR_INVALID_SHAPE,
                             "batch_norm: a channel of 1 value has no variance "
                             "to train with; use a larger batch");
        YK_TRY(measure(k, run, p));
    }
    YK_TRY(finish(k, run, p));
    return at.rows > 0 ? apply(k, run, p) : YK_OK;
}
IMPLEMENTATION(batch_norm, yki_cuda_supports, prepare_batch_norm, run_batch_norm,
               1 + YKI_BATCH_NORM_X);

/* ---- forward once more ----------------------------------------------------------------------- */

static yk_status prepare_apply(yki_device *device, const yki_kernel_desc *desc, yki_kernel **kernel)
{
    yki_cuda_kernel *k;
    YK_TRY(yki_cuda_prepare(device, desc, &k));
    yk_status status = yki_cuda_find(k, APPLY, "norm_apply", desc->in[0].dtype, width_of(k) > 1);
    return yki_cuda_prepared(k, status, kernel);
}

static yk_status run_apply(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const yki_cuda_kernel *k = (const yki_cuda_kernel *)kernel;
    yki_cuda_norm_apply_args args = {.x = yki_cuda_in(k, run, YKI_BATCH_NORM_APPLY_X),
                                     .residual = yki_cuda_in(k, run, YKI_BATCH_NORM_APPLY_RESIDUAL),
                                     .mean = yki_cuda_in(k, run, YKI_BATCH_NORM_APPLY_MEAN),
                                     .invstd = yki_cuda_in(k, run, YKI_BATCH_NORM_APPLY_INVSTD),
                                     .weight = yki_cuda_in(k, run, YKI_BATCH_NORM_APPLY_WEIGHT),
                                     .bias = yki_cuda_in(k, run, YKI_BATCH_NORM_APPLY_BIAS),
                                     .y = yki_cuda_out(k, run, YKI_BATCH_NORM_APPLY_Y),
                                     .relu = k->attrs.relu,
                                     .relu6 = k->attrs.relu6};
    yki_cuda_grid grid = divide(k, &args.at);
    return yki_cuda_launch(k, APPLY, grid, &args, sizeof args, run);
}
IMPLEMENTATION(batch_norm_apply, yki_cuda_supports, prepare_apply, run_apply,
               1 + YKI_BATCH_NORM_APPLY_X);

/* ---- backward -------------------------------------------------------------------------------- */

static yk_status find_backward(yki_cuda_kernel *k)
{
    yk_dtype dtype = k->desc.in[0].dtype;
    YK_TRY(yki_cuda_find(k, REDUCE, "norm_reduce", dtype, has_vectors(k)));
    YK_TRY(yki_cuda_find(k, MERGE, "sums_merge", yki_accumulate_dtype(dtype), true));
    return yki_cuda_find(k, APPLY, "norm_backward", dtype, has_vectors(k));
}

static yk_status prepare_backward(yki_device *device, const yki_kernel_desc *desc,
                                  yki_kernel **kernel)
{
    yki_cuda_kernel *k;
    YK_TRY(yki_cuda_prepare(device, desc, &k));
    static char none[1];
    cut(k, none, &k->base.scratch);
    return yki_cuda_prepared(k, find_backward(k), kernel);
}

static yk_status run_backward(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const yki_cuda_kernel *k = (const yki_cuda_kernel *)kernel;
    size_t bytes;
    pieces p = cut(k, run->scratch, &bytes);
    yki_cuda_norm_backward_args args = {
        .x = yki_cuda_in(k, run, YKI_BATCH_NORM_BACKWARD_X),
        .y = yki_cuda_in(k, run, YKI_BATCH_NORM_BACKWARD_Y),
        .dy = yki_cuda_in(k, run, YKI_BATCH_NORM_BACKWARD_DY),
        .dy2 = yki_cuda_in(k, run, YKI_BATCH_NORM_BACKWARD_DY2),
        .mean = yki_cuda_in(k, run, YKI_BATCH_NORM_BACKWARD_MEAN),
        .invstd = yki_cuda_in(k, run, YKI_BATCH_NORM_BACKWARD_INVSTD),
        .weight = yki_cuda_in(k, run, YKI_BATCH_NORM_BACKWARD_WEIGHT),
        .bias = yki_cuda_in(k, run, YKI_BATCH_NORM_BACKWARD_BIAS),
        .relu = k->attrs.relu,
        .relu6 = k->attrs.relu6,
        .partial = p.partial,
        .vectors = p.vector,
        .world = k->desc.training ? 1 : 0,
        .dx = yki_cuda_out(k, run, YKI_BATCH_NORM_BACKWARD_DX),
        .dresidual = yki_cuda_out(k, run, YKI_BATCH_NORM_BACKWARD_DRESIDUAL),
    };
    yki_cuda_grid grid = divide(k, &args.at);
    yki_cuda_sums_merge_args merge = {.rows = args.at.rows,
                                      .columns = args.at.columns,
                                      .slices = (int32_t)grid.y,
                                      .partial = p.partial,
                                      .vector = run->sync ? run->sync->mine : p.vector,
                                      .dweight =
                                          yki_cuda_out(k, run, YKI_BATCH_NORM_BACKWARD_DWEIGHT),
                                      .dbias = yki_cuda_out(k, run, YKI_BATCH_NORM_BACKWARD_DBIAS)};
    YK_TRY(yki_cuda_launch(k, REDUCE, grid, &args, sizeof args, run));
    yki_cuda_grid columns = {(unsigned)yki_cuda_blocks(merge.columns, 32), 1, 1};
    YK_TRY(yki_cuda_launch(k, MERGE, columns, &merge, sizeof merge, run));
    if (k->desc.training)
        YK_TRY(exchange(run, args.at.columns, &args.vectors, &args.world));
    if (args.at.rows == 0 || (!args.dx && !args.dresidual))
        return YK_OK;
    return yki_cuda_launch(k, APPLY, grid, &args, sizeof args, run);
}
IMPLEMENTATION(batch_norm_backward, yki_cuda_supports, prepare_backward, run_backward,
               1 + YKI_BATCH_NORM_BACKWARD_DY);

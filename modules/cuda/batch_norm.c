/*
 * batch_norm: see kernels/batch_norm.cu. Without synchronisation, the ranks whose statistics are
 * merged are this one alone. Where the convolution that makes x gives its sums, there is no pass
 * that measures x.
 */
#include <stdio.h>

#include "device/norm_rules.h"
#include "implementations.h"
#include "statistics.h"

enum { REDUCE, MERGE, FINISH, SETTLE, APPLY };

/* ---- scratch: partial sums, the vector of this rank, and statistics that nobody else keeps --- */

typedef struct pieces {
    double *partial, *vector;
    char *mean, *invstd;
} pieces;

static size_t parameter_size(const yki_cuda_kernel *k)
{
    return yk_dtype_size(yki_accumulate_dtype(k->desc.in[0].dtype));
}

static pieces cut(const yki_cuda_kernel *k, void *scratch, size_t *bytes)
{
    yki_cuda_columns at;
    yki_cuda_grid grid = yki_cuda_norm_divide(&k->desc.in[0], &at);
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
    return yki_cuda_norm_width(&k->desc.in[0]) > 1;
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
    YK_TRY(yki_cuda_find(k, SETTLE, "norm_settle", x->dtype, true));
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

/* Of the vectors of all ranks, of a convolution's sums, or of the running statistics. */
static yk_status finish(const yki_cuda_kernel *k, const yki_kernel_args *run,
                        const yki_cuda_norm_finish_args *args)
{
    return yki_cuda_launch(k, FINISH, yki_cuda_grid_of(args->columns), args, sizeof *args, run);
}

/* Of this rank alone, by a pass over x. */
static yk_status measure_and_settle(const yki_cuda_kernel *k, const yki_kernel_args *run, pieces p,
                                    yki_cuda_norm_finish_args *args)
{
    args->x = run->in[YKI_BATCH_NORM_X];
    args->partial = p.partial;
    YK_TRY(yki_cuda_statistics_measure(k, REDUCE, &k->desc.in[YKI_BATCH_NORM_X], args->x, p.partial,
                                       run, &args->slices));
    return yki_cuda_launch(k, SETTLE, yki_cuda_grid_of_merge(args->columns), args, sizeof *args,
                           run);
}

static yk_status exchange_and_finish(const yki_cuda_kernel *k, const yki_kernel_args *run, pieces p,
                                     yki_cuda_norm_finish_args *args)
{
    const yki_operand *x = &k->desc.in[YKI_BATCH_NORM_X];
    double *mine = run->sync->mine;
    if (is_summed(k))
        YK_TRY(yki_cuda_sums(k, MERGE, x, run->in[YKI_BATCH_NORM_SUMS], mine, run));
    else
        YK_TRY(yki_cuda_statistics(k, REDUCE, x, run->in[YKI_BATCH_NORM_X], p.partial, mine, run));
    YK_TRY(exchange(run, args->columns, &args->vectors, &args->world));
    return finish(k, run, args);
}

static yk_status make_statistics(const yki_cuda_kernel *k, const yki_kernel_args *run, pieces p)
{
    yki_cuda_norm_finish_args args = {
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
        .mistakes = k->device->mistakes,
    };
    if (!k->desc.training)
        return finish(k, run, &args);
    if (run->sync)
        return exchange_and_finish(k, run, p, &args);
    if (!is_summed(k))
        return measure_and_settle(k, run, p, &args);
    args.sums = run->in[YKI_BATCH_NORM_SUMS];
    return finish(k, run, &args);
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
                                     .activation = k->attrs.activation};
    yki_cuda_grid grid = yki_cuda_norm_divide(&k->desc.in[0], &args.at);
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
    int64_t rows = yki_cuda_rows(&k->desc.in[YKI_BATCH_NORM_X]);
    pieces p = cut(k, run->scratch, &bytes);
    if (yki_cuda_out(k, run, YKI_BATCH_NORM_MEAN))
        p.mean = yki_cuda_out(k, run, YKI_BATCH_NORM_MEAN);
    if (yki_cuda_out(k, run, YKI_BATCH_NORM_INVSTD))
        p.invstd = yki_cuda_out(k, run, YKI_BATCH_NORM_INVSTD);
    bool alone = k->desc.training && !run->sync;
    if (rows == 0 && alone)
        return skip_empty(k, run);
    if (rows == 1 && alone)
        return yki_too_few_values(rows);
    YK_TRY(make_statistics(k, run, p));
    return rows > 0 ? apply(k, run, p) : YK_OK;
}
IMPLEMENTATION(batch_norm, yki_cuda_supports, prepare_batch_norm, run_batch_norm,
               1 << YKI_BATCH_NORM_X);

/* ---- forward once more ----------------------------------------------------------------------- */

static yk_status prepare_apply(yki_device *device, const yki_kernel_desc *desc, yki_kernel **kernel)
{
    yki_cuda_kernel *k;
    YK_TRY(yki_cuda_prepare(device, desc, &k));
    yk_status status = yki_cuda_find(k, APPLY, "norm_apply", desc->in[0].dtype, has_vectors(k));
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
                                     .activation = k->attrs.activation};
    yki_cuda_grid grid = yki_cuda_norm_divide(&k->desc.in[0], &args.at);
    return yki_cuda_launch(k, APPLY, grid, &args, sizeof args, run);
}
IMPLEMENTATION(batch_norm_apply, yki_cuda_supports, prepare_apply, run_apply,
               1 << YKI_BATCH_NORM_APPLY_X);

/* ---- backward -------------------------------------------------------------------------------- */

/* Activations that do not clamp have kernels of their own. */
static yk_status find_slopes(yki_cuda_kernel *k, int stage, const char *name)
{
    static const char *const suffixes[] = {
        [YKI_FUSED_SILU] = "_silu", [YKI_FUSED_HARDSWISH] = "_hardswish"};
    const yki_fused activation = k->attrs.activation;
    char full[32];
    snprintf(full, sizeof full, "%s%s", name,
             yki_fused_clamps(activation) ? "" : suffixes[activation]);
    return yki_cuda_find(k, stage, full, k->desc.in[0].dtype, has_vectors(k));
}

static yk_status find_backward(yki_cuda_kernel *k)
{
    const yk_dtype real = yki_accumulate_dtype(k->desc.in[0].dtype);
    YK_TRY(find_slopes(k, REDUCE, "norm_reduce"));
    YK_TRY(yki_cuda_find(k, MERGE, "sums_merge", real, true));
    return find_slopes(k, APPLY, "norm_backward");
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
        .activation = k->attrs.activation,
        .partial = p.partial,
        .vectors = p.vector,
        .world = k->desc.training ? 1 : 0,
        .dx = yki_cuda_out(k, run, YKI_BATCH_NORM_BACKWARD_DX),
        .dresidual = yki_cuda_out(k, run, YKI_BATCH_NORM_BACKWARD_DRESIDUAL),
    };
    yki_cuda_grid grid = yki_cuda_norm_divide(&k->desc.in[0], &args.at);
    yki_cuda_sums_merge_args merge = {.rows = args.at.rows,
                                      .columns = args.at.columns,
                                      .slices = (int32_t)grid.y,
                                      .partial = p.partial,
                                      .vector = run->sync ? run->sync->mine : p.vector,
                                      .dweight =
                                          yki_cuda_out(k, run, YKI_BATCH_NORM_BACKWARD_DWEIGHT),
                                      .dbias = yki_cuda_out(k, run, YKI_BATCH_NORM_BACKWARD_DBIAS)};
    YK_TRY(yki_cuda_launch(k, REDUCE, grid, &args, sizeof args, run));
    YK_TRY(yki_cuda_launch(k, MERGE, yki_cuda_grid_of_merge(merge.columns), &merge, sizeof merge,
                           run));
    if (k->desc.training)
        YK_TRY(exchange(run, args.at.columns, &args.vectors, &args.world));
    if (args.at.rows == 0 || !args.dx)
        return YK_OK;
    if (args.dresidual) {
        args.dy = args.dresidual;
        args.y = args.dy2 = NULL;
        args.activation = YKI_FUSED_NONE;
    }
    return yki_cuda_launch(k, APPLY, grid, &args, sizeof args, run);
}
IMPLEMENTATION(batch_norm_backward, yki_cuda_supports, prepare_backward, run_backward,
               1 << YKI_BATCH_NORM_BACKWARD_DY);

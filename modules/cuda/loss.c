/* Losses, in f32 and f64, of logits that may have 16 bits: see kernels/loss.cu. */
#include "cuda.h"
#include "implementations.h"

enum { LOSSES, SUM };

/* The kernels of a loss, and room for `losses` numbers that the kernel `sum` adds up. */
static yk_status prepare_loss(yki_device *device, const yki_kernel_desc *desc, const char *name,
                              const char *sum, int64_t losses, yki_kernel **kernel)
{
    yki_cuda_kernel *k;
    YK_TRY(yki_cuda_prepare(device, desc, &k));
    k->base.scratch = (size_t)losses * sizeof(double);
    yk_status status = yki_cuda_find(k, LOSSES, name, desc->in[0].dtype, true);
    if (status == YK_OK)
        status = yki_cuda_find(k, SUM, sum, yki_accumulate_dtype(desc->in[0].dtype), true);
    return yki_cuda_prepared(k, status, kernel);
}

/* ---- cross_entropy --------------------------------------------------------------------------- */

static bool supports_logits(const yki_device *device, const yki_kernel_desc *desc)
{
    return yki_cuda_is_real(desc->in[0].dtype) && yki_cuda_supports(device, desc);
}

static int64_t pixels_of(const yki_operand *logits)
{
    int64_t pixels = 1;
    for (int d = 2; d < logits->ndim; d++)
        pixels *= logits->dims[d];
    return pixels;
}

static yki_cuda_cross_entropy_args args_of(const yki_cuda_kernel *k, const yki_kernel_args *run,
                                           int labels, int weight)
{
    const yki_operand *like = &k->desc.in[0];
    int64_t pixels = pixels_of(like);
    yki_cuda_cross_entropy_args args = {.weight = yki_cuda_in(k, run, weight),
                                        .rows = like->dims[0] * pixels,
                                        .pixels = pixels,
                                        .apart = like->layout == YKI_PLAIN ? pixels : 1,
                                        .ignored = k->attrs.ignore_index,
                                        .columns = (int32_t)like->dims[1],
                                        .mistakes = k->device->mistakes,
                                        .smoothing = k->attrs.label_smoothing};
    if (k->desc.in[labels].ndim == like->ndim)
        args.shares = yki_cuda_in(k, run, labels);
    else
        args.labels = yki_cuda_in(k, run, labels);
    args.wide = k->desc.in[labels].dtype == YK_I64;
    return args;
}

/* A warp for each row; with many of them, warps take several. */
static yki_cuda_grid grid_of_losses(int64_t rows)
{
    yki_cuda_grid grid = yki_cuda_grid_of(rows * 32);
    grid.x = grid.x < YKI_CUDA_LOSSES ? grid.x : YKI_CUDA_LOSSES;
    return grid;
}

static yk_status prepare_cross_entropy(yki_device *device, const yki_kernel_desc *desc,
                                       yki_kernel **kernel)
{
    const yki_operand *logits = &desc->in[YKI_CROSS_ENTROPY_LOGITS];
    yki_cuda_grid grid = grid_of_losses(logits->dims[0] * pixels_of(logits));
    return prepare_loss(device, desc, "cross_entropy", "cross_entropy_sum", 2 * grid.x, kernel);
}

static yk_status run_cross_entropy(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const yki_cuda_kernel *k = (const yki_cuda_kernel *)kernel;
    yki_cuda_cross_entropy_args args =
        args_of(k, run, YKI_CROSS_ENTROPY_LABELS, YKI_CROSS_ENTROPY_WEIGHT);
    args.logits = yki_cuda_in(k, run, YKI_CROSS_ENTROPY_LOGITS);
    args.log_sums = yki_cuda_out(k, run, YKI_CROSS_ENTROPY_LOG_SUMS);
    args.losses = run->scratch;
    yki_cuda_grid grid = grid_of_losses(args.rows);
    YK_TRY(yki_cuda_launch(k, LOSSES, grid, &args, sizeof args, run));
    yki_cuda_cross_entropy_sum_args sum = {.losses = run->scratch,
                                           .loss = yki_cuda_out(k, run, YKI_CROSS_ENTROPY_LOSS),
                                           .total = yki_cuda_out(k, run, YKI_CROSS_ENTROPY_TOTAL),
                                           .count = grid.x,
                                           .mean = k->attrs.reduction == YK_LOSS_MEAN};
    return yki_cuda_launch(k, SUM, (yki_cuda_grid){1, 1, 1}, &sum, sizeof sum, run);
}
IMPLEMENTATION(cross_entropy, supports_logits, prepare_cross_entropy, run_cross_entropy, 0);

static yk_status prepare_cross_entropy_backward(yki_device *device, const yki_kernel_desc *desc,
                                                yki_kernel **kernel)
{
    return yki_cuda_prepare_one(device, desc, "cross_entropy_backward", true, kernel);
}

static yk_status run_cross_entropy_backward(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const yki_cuda_kernel *k = (const yki_cuda_kernel *)kernel;
    yki_cuda_cross_entropy_args args =
        args_of(k, run, YKI_CROSS_ENTROPY_BACKWARD_LABELS, YKI_CROSS_ENTROPY_BACKWARD_WEIGHT);
    args.logits = yki_cuda_in(k, run, YKI_CROSS_ENTROPY_BACKWARD_LOGITS);
    args.log_sums = yki_cuda_in(k, run, YKI_CROSS_ENTROPY_BACKWARD_LOG_SUMS);
    args.dloss = yki_cuda_in(k, run, YKI_CROSS_ENTROPY_BACKWARD_DLOSS);
    args.total = yki_cuda_in(k, run, YKI_CROSS_ENTROPY_BACKWARD_TOTAL);
    args.dlogits = yki_cuda_out(k, run, YKI_CROSS_ENTROPY_BACKWARD_DLOGITS);
    return yki_cuda_launch(k, LOSSES, yki_cuda_grid_of(args.rows * 32), &args, sizeof args, run);
}
IMPLEMENTATION(cross_entropy_backward, supports_logits, prepare_cross_entropy_backward,
               run_cross_entropy_backward, 1);

/* ---- losses over pairs of elements ----------------------------------------------------------- */

/* With `weights`: the number of the operand with pos_weight. */
static yki_cuda_pairs_args pairs_of(const yki_cuda_kernel *k, const yki_kernel_args *run,
                                    int weights)
{
    const yki_operand *x = &k->desc.in[0], *weight = &k->desc.in[weights];
    yki_cuda_pairs_args args = {.x = yki_cuda_in(k, run, 0),
                                .target = yki_cuda_in(k, run, 1),
                                .pos_weight = yki_cuda_in(k, run, weights),
                                .count = yki_operand_count(x),
                                .weights = 1,
                                .repeats = 1,
                                .beta = k->attrs.beta};
    if (args.pos_weight)
        args.weights = (int32_t)weight->dims[0];
    for (int d = 2; x->layout == YKI_PLAIN && d < x->ndim; d++)
        args.repeats *= (int32_t)x->dims[d];
    return args;
}

static yk_status launch_sum(const yki_cuda_kernel *k, const yki_kernel_args *run, int64_t losses,
                            int64_t count)
{
    bool mean = k->attrs.reduction == YK_LOSS_MEAN;
    yki_cuda_loss_args args = {.losses = run->scratch,
                               .loss = yki_cuda_out(k, run, 0),
                               .count = losses,
                               .factor = mean ? 1 / (double)count : 1};
    return yki_cuda_launch(k, SUM, (yki_cuda_grid){1, 1, 1}, &args, sizeof args, run);
}

static yk_status prepare_pairs(yki_device *device, const yki_kernel_desc *desc, const char *name,
                               yki_kernel **kernel)
{
    int64_t blocks = yki_cuda_blocks(yki_operand_count(&desc->in[0]), YKI_CUDA_PAIRS);
    return prepare_loss(device, desc, name, "loss_sum", blocks, kernel);
}

static yk_status launch_losses(const yki_cuda_kernel *k, const yki_kernel_args *run,
                               yki_cuda_pairs_args *args)
{
    int64_t blocks = yki_cuda_blocks(args->count, YKI_CUDA_PAIRS);
    yki_cuda_grid grid = {(unsigned)blocks, 1, 1};
    args->losses = run->scratch;
    YK_TRY(yki_cuda_launch(k, LOSSES, grid, args, sizeof *args, run));
    return launch_sum(k, run, blocks, args->count);
}

static yk_status run_pairs(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const yki_cuda_kernel *k = (const yki_cuda_kernel *)kernel;
    yki_cuda_pairs_args args = pairs_of(k, run, YKI_BCE_POS_WEIGHT);
    return launch_losses(k, run, &args);
}

/* A grid of vectors, or for one element in each thread; slope: what the loss counts twofold. */
static yk_status launch_slopes(const yki_kernel *kernel, const yki_kernel_args *run, double slope,
                               bool vectors)
{
    const yki_cuda_kernel *k = (const yki_cuda_kernel *)kernel;
    yki_cuda_pairs_args args = pairs_of(k, run, YKI_BCE_BACKWARD_POS_WEIGHT);
    bool mean = k->attrs.reduction == YK_LOSS_MEAN;
    args.dloss = yki_cuda_in(k, run, 2);
    args.dx = yki_cuda_out(k, run, 0);
    args.factor = mean ? slope / (double)args.count : slope;
    int64_t items_of_block =
        (int64_t)YKI_CUDA_THREADS * YKI_CUDA_BATCH * yki_cuda_width(k->desc.in[0].dtype);
    yki_cuda_grid grid = {(unsigned)yki_cuda_blocks(args.count, items_of_block), 1, 1};
    return yki_cuda_launch(k, LOSSES, vectors ? grid : yki_cuda_grid_of(args.count), &args,
                           sizeof args, run);
}

static yk_status run_mse_slopes(const yki_kernel *kernel, const yki_kernel_args *run)
{
    return launch_slopes(kernel, run, 2, true);
}

static yk_status run_smooth_l1_slopes(const yki_kernel *kernel, const yki_kernel_args *run)
{
    return launch_slopes(kernel, run, 1, true);
}

static yk_status run_bce_slopes(const yki_kernel *kernel, const yki_kernel_args *run)
{
    return launch_slopes(kernel, run, 1, false);
}

/* The elements of x alone: the target is not looked at. */
static yk_status prepare_reduce_loss(yki_device *device, const yki_kernel_desc *desc,
                                     yki_kernel **kernel)
{
    return prepare_pairs(device, desc, "reduce_loss", kernel);
}

static yk_status run_reduce_loss(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const yki_cuda_kernel *k = (const yki_cuda_kernel *)kernel;
    yki_cuda_pairs_args args = {.x = yki_cuda_in(k, run, 0),
                                .target = yki_cuda_in(k, run, 0),
                                .count = yki_operand_count(&k->desc.in[0])};
    return launch_losses(k, run, &args);
}
IMPLEMENTATION(reduce_loss, yki_cuda_supports_full, prepare_reduce_loss, run_reduce_loss, 0);

#define PAIRS(name, run_slopes)                                                                    \
    static yk_status prepare_##name(yki_device *device, const yki_kernel_desc *desc,               \
                                    yki_kernel **kernel)                                           \
    {                                                                                              \
        return prepare_pairs(device, desc, #name, kernel);                                         \
    }                                                                                              \
    static yk_status prepare_##name##_backward(yki_device *device, const yki_kernel_desc *desc,    \
                                               yki_kernel **kernel)                                \
    {                                                                                              \
        return yki_cuda_prepare_one(device, desc, #name "_backward", true, kernel);                \
    }                                                                                              \
    IMPLEMENTATION(name, yki_cuda_supports_full, prepare_##name, run_pairs, 0);                    \
    IMPLEMENTATION(name##_backward, yki_cuda_supports_full, prepare_##name##_backward, run_slopes, \
                   1)

PAIRS(mse_loss, run_mse_slopes);
PAIRS(smooth_l1_loss, run_smooth_l1_slopes);
PAIRS(binary_cross_entropy_with_logits, run_bce_slopes);

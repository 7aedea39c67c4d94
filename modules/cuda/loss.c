/* cross_entropy and mse_loss, in f32 and f64: see kernels/loss.cu. */
#include "cuda.h"
#include "implementations.h"

enum { LOSSES, SUM };

/* The kernels of a loss, and room for `losses` numbers that are added up in the end. */
static yk_status prepare_loss(yki_device *device, const yki_kernel_desc *desc, const char *name,
                              int64_t losses, yki_kernel **kernel)
{
    yki_cuda_kernel *k;
    YK_TRY(yki_cuda_prepare(device, desc, &k));
    k->base.scratch = (size_t)losses * sizeof(double);
    yk_status status = yki_cuda_find(k, LOSSES, name, desc->in[0].dtype, true);
    if (status == YK_OK)
        status = yki_cuda_find(k, SUM, "loss_sum", desc->in[0].dtype, true);
    return yki_cuda_prepared(k, status, kernel);
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

/* ---- cross_entropy --------------------------------------------------------------------------- */

static yki_cuda_cross_entropy_args args_of(const yki_cuda_kernel *k, const yki_kernel_args *run,
                                           int logits, int labels)
{
    const yki_operand *like = &k->desc.in[logits];
    bool mean = k->attrs.reduction == YK_LOSS_MEAN;
    yki_cuda_cross_entropy_args args = {.rows = like->dims[0],
                                        .columns = (int32_t)like->dims[1],
                                        .bad_label = k->device->bad_label,
                                        .smoothing = k->attrs.label_smoothing,
                                        .factor = mean ? 1 / (double)like->dims[0] : 1};
    if (k->desc.in[labels].ndim == 2)
        args.shares = yki_cuda_in(k, run, labels);
    else
        args.labels = yki_cuda_in(k, run, labels);
    return args;
}

static yk_status prepare_cross_entropy(yki_device *device, const yki_kernel_desc *desc,
                                       yki_kernel **kernel)
{
    return prepare_loss(device, desc, "cross_entropy", desc->in[0].dims[0], kernel);
}

static yk_status run_cross_entropy(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const yki_cuda_kernel *k = (const yki_cuda_kernel *)kernel;
    yki_cuda_cross_entropy_args args =
        args_of(k, run, YKI_CROSS_ENTROPY_LOGITS, YKI_CROSS_ENTROPY_LABELS);
    args.logits = yki_cuda_in(k, run, YKI_CROSS_ENTROPY_LOGITS);
    args.probabilities = yki_cuda_out(k, run, YKI_CROSS_ENTROPY_PROBABILITIES);
    args.losses = run->scratch;
    YK_TRY(yki_cuda_launch(k, LOSSES, yki_cuda_grid_of(args.rows * 32), &args, sizeof args, run));
    return launch_sum(k, run, args.rows, args.rows);
}
IMPLEMENTATION(cross_entropy, yki_cuda_supports_full, prepare_cross_entropy, run_cross_entropy, 0);

static yk_status prepare_cross_entropy_backward(yki_device *device, const yki_kernel_desc *desc,
                                                yki_kernel **kernel)
{
    return yki_cuda_prepare_one(device, desc, "cross_entropy_backward", true, kernel);
}

static yk_status run_cross_entropy_backward(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const yki_cuda_kernel *k = (const yki_cuda_kernel *)kernel;
    yki_cuda_cross_entropy_args args = args_of(k, run, YKI_CROSS_ENTROPY_BACKWARD_PROBABILITIES,
                                               YKI_CROSS_ENTROPY_BACKWARD_LABELS);
    args.probabilities = yki_cuda_in(k, run, YKI_CROSS_ENTROPY_BACKWARD_PROBABILITIES);
    args.dloss = yki_cuda_in(k, run, YKI_CROSS_ENTROPY_BACKWARD_DLOSS);
    args.dlogits = yki_cuda_out(k, run, YKI_CROSS_ENTROPY_BACKWARD_DLOGITS);
    return yki_cuda_launch(k, LOSSES, yki_cuda_grid_of(args.rows * 32), &args, sizeof args, run);
}
IMPLEMENTATION(cross_entropy_backward, yki_cuda_supports_full, prepare_cross_entropy_backward,
               run_cross_entropy_backward, 1);

/* ---- mse_loss -------------------------------------------------------------------------------- */

static yk_status prepare_mse_loss(yki_device *device, const yki_kernel_desc *desc,
                                  yki_kernel **kernel)
{
    int64_t blocks = yki_cuda_blocks(yki_operand_count(&desc->in[0]), YKI_CUDA_MSE);
    return prepare_loss(device, desc, "mse_loss", blocks, kernel);
}

static yk_status run_mse_loss(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const yki_cuda_kernel *k = (const yki_cuda_kernel *)kernel;
    int64_t count = yki_operand_count(&k->desc.in[0]);
    yki_cuda_mse_args args = {.x = yki_cuda_in(k, run, YKI_MSE_LOSS_X),
                              .target = yki_cuda_in(k, run, YKI_MSE_LOSS_TARGET),
                              .losses = run->scratch,
                              .count = count};
    int64_t blocks = yki_cuda_blocks(count, YKI_CUDA_MSE);
    yki_cuda_grid grid = {(unsigned)blocks, 1, 1};
    YK_TRY(yki_cuda_launch(k, LOSSES, grid, &args, sizeof args, run));
    return launch_sum(k, run, blocks, count);
}
IMPLEMENTATION(mse_loss, yki_cuda_supports_full, prepare_mse_loss, run_mse_loss, 0);

static yk_status prepare_mse_loss_backward(yki_device *device, const yki_kernel_desc *desc,
                                           yki_kernel **kernel)
{
    return yki_cuda_prepare_one(device, desc, "mse_loss_backward", true, kernel);
}

static yk_status run_mse_loss_backward(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const yki_cuda_kernel *k = (const yki_cuda_kernel *)kernel;
    int64_t count = yki_operand_count(&k->desc.in[0]);
    bool mean = k->attrs.reduction == YK_LOSS_MEAN;
    yki_cuda_mse_args args = {.x = yki_cuda_in(k, run, YKI_MSE_LOSS_BACKWARD_X),
                              .target = yki_cuda_in(k, run, YKI_MSE_LOSS_BACKWARD_TARGET),
                              .dloss = yki_cuda_in(k, run, YKI_MSE_LOSS_BACKWARD_DLOSS),
                              .dx = yki_cuda_out(k, run, YKI_MSE_LOSS_BACKWARD_DX),
                              .count = count,
                              .factor = mean ? 2 / (double)count : 2};
    int64_t items_of_block =
        (int64_t)YKI_CUDA_THREADS * YKI_CUDA_BATCH * yki_cuda_width(k->desc.in[0].dtype);
    yki_cuda_grid grid = {(unsigned)yki_cuda_blocks(count, items_of_block), 1, 1};
    return yki_cuda_launch(k, LOSSES, grid, &args, sizeof args, run);
}
IMPLEMENTATION(mse_loss_backward, yki_cuda_supports_full, prepare_mse_loss_backward,
               run_mse_loss_backward, 1);

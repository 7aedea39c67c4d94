/* See kernel.h. */
#include "conv/kernel.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "conv/fold.h"
#include "libraries.h"
#include "statistics.h"

static bool is_image(const yki_operand *operand, yk_dtype dtype)
{
    return operand->ndim == 4 && operand->dtype == dtype && operand->layout == YKI_CHANNELS_LAST &&
           yki_operand_count(operand) <= INT32_MAX;
}

bool yki_conv_supports(const yki_operand *x, const yki_operand *weight, const yki_operand *y)
{
    return yki_cuda_is_real(x->dtype) && is_image(x, x->dtype) && is_image(y, x->dtype) &&
           weight->ndim == 4 && weight->layout == YKI_PLAIN &&
           weight->dtype == yki_accumulate_dtype(x->dtype);
}

void yki_conv_describe(yki_conv *k, yki_cudnn_direction direction)
{
    const yki_attrs *attrs = &k->cuda.attrs;
    k->conv = (yki_cudnn_conv){.direction = direction,
                               .dtype = k->x.dtype,
                               .stride = {attrs->stride[0], attrs->stride[1]},
                               .padding = {attrs->padding[0], attrs->padding[1]},
                               .dilation = {attrs->dilation[0], attrs->dilation[1]}};
    memcpy(k->conv.x, k->x.dims, sizeof k->conv.x);
    memcpy(k->conv.w, k->weight.dims, sizeof k->conv.w);
    memcpy(k->conv.y, k->y.dims, sizeof k->conv.y);
    k->folds = direction != YKI_CUDNN_BACKWARD_DATA && yki_cuda_fold_helps(&k->conv, attrs->groups);
    k->plain = k->conv;
    if (k->folds)
        yki_cuda_fold(&k->plain, &k->conv);
    if (yki_conv_is_narrow(k) && attrs->groups == 1) {
        k->conv.x[1] = k->conv.w[1] = (int64_t)yki_align((size_t)k->conv.x[1], 8);
        k->conv.y[1] = k->conv.w[0] = (int64_t)yki_align((size_t)k->y.dims[1], 8);
    }
}

/* ---- preparing ------------------------------------------------------------------------------- */

static yk_status no_engine(const yki_conv *k)
{
    char version[16], text[YKI_CUDNN_CONV_TEXT];
    yki_cudnn_version_text(k->cudnn, version);
    yki_cudnn_conv_text(&k->conv, text);
    return yki_error(YK_ERROR_UNSUPPORTED,
                     "device cuda: cuDNN %s has no deterministic engine on this GPU for %s%s",
                     version, text,
                     yki_cudnn_has_compiler()
                         ? ""
                         : "; libnvrtc.so, which compiles some of them, was not found: install "
                           "it (NVIDIA's cuda-nvrtc-13-0), or put its folder into YOKE_CUDA_LIBS");
}

static yk_status find_plan(yki_conv *k)
{
    return yki_cuda_conv_plan(k->cuda.device, k->cudnn, &k->conv, &k->plan);
}

bool yki_conv_wants_sums(const yki_conv *k, const yki_operand *sums)
{
    return sums && k->cuda.device->fuses && !yki_conv_has_more_outputs(k) &&
           k->y.dims[1] % 8 == 0 && yki_cuda_statistics_of_sums(&k->y, sums);
}

/*
 * Sums of y if an engine gives them in less time than batch_norm's pass over y takes; then the
 * plan, a bias included, is all there is to run.
 */
static yk_status find_plan_with_sums(yki_conv *k, const yki_operand *sums)
{
    k->conv.sums = yki_conv_wants_sums(k, sums);
    if (k->conv.sums)
        YK_TRY(find_plan(k));
    k->conv.sums = k->cuda.base.sums = k->plan != NULL;
    return YK_OK;
}

/*
 * Engines that round the gradient of a weight to 16 bits, as PyTorch's autocast does, are often
 * several times as fast as those that keep f32, and with groups they are the only ones. They are
 * taken where they save at least a tenth of the time.
 */
static yk_status consider_narrow(yki_conv *k)
{
    const yki_cudnn_plan *full = k->plan;
    if (k->conv.direction != YKI_CUDNN_BACKWARD_WEIGHT || !yki_conv_is_narrow(k) ||
        (full && !k->cuda.device->measures))
        return YK_OK;
    k->conv.narrow = true;
    YK_TRY(find_plan(k));
    if (full && (!k->plan || k->plan->microseconds <= 0 ||
                 k->plan->microseconds > 0.9 * full->microseconds)) {
        k->conv.narrow = false;
        k->plan = full;
    }
    return YK_OK;
}

yk_status yki_conv_prepare_plan(yki_conv *k, bool bias, const yki_operand *sums)
{
    k->conv.bias = bias && !yki_conv_has_more_outputs(k);
    YK_TRY(find_plan_with_sums(k, sums));
    if (!k->plan)
        YK_TRY(find_plan(k));
    if (!k->plan && k->conv.bias) {
        k->conv.bias = false;
        YK_TRY(find_plan(k));
    }
    YK_TRY(consider_narrow(k));
    if (!k->plan)
        return no_engine(k);
    k->add_bias = bias && !k->conv.bias;
    k->workspace_at = yki_cuda_reserve(&k->cuda, k->plan->workspace);
    return YK_OK;
}

yk_status yki_conv_prepare_copies(yki_conv *k)
{
    yk_dtype dtype = k->x.dtype;
    if (yki_conv_has_more_inputs(k))
        k->x_at =
            yki_cuda_reserve(&k->cuda, (size_t)yki_conv_count(k->conv.x) * yk_dtype_size(dtype));
    if (yki_conv_has_more_outputs(k))
        k->y_at =
            yki_cuda_reserve(&k->cuda, (size_t)yki_conv_count(k->conv.y) * yk_dtype_size(dtype));
    if (k->folds)
        YK_TRY(yki_cuda_find_exactly(&k->cuda, FOLD, "fold_pixels"));
    if (!yki_conv_has_more_outputs(k) && (k->folds || !yki_conv_has_more_inputs(k)))
        return YK_OK;
    YK_TRY(yki_cuda_find_exactly(&k->cuda, PAD, "pad_2"));
    if (k->conv.direction == YKI_CUDNN_BACKWARD_WEIGHT)
        return YK_OK;
    return yki_cuda_find_exactly(&k->cuda, CROP, "copy_2_1");
}

yk_status yki_conv_prepare_pack(yki_conv *k, int input)
{
    yk_dtype dtype = k->x.dtype;
    k->cuda.base.pack_input = input;
    if (k->weight.dtype == dtype && yki_conv_is_same_order(k))
        return YK_OK;
    k->cuda.base.pack_bytes = (size_t)yki_conv_count(k->conv.w) * yk_dtype_size(dtype);
    if (yki_conv_is_same_order(k))
        return yki_cuda_convert_find(&k->cuda, TRANSPOSE, k->weight.dtype, dtype);
    if (k->folds)
        return yki_cuda_find(&k->cuda, TRANSPOSE, "fold_filters", dtype, true);
    const char *name = dtype == YK_F64    ? "transpose_8"
                       : dtype == YK_F32  ? "transpose_4"
                       : dtype == YK_BF16 ? "transpose_f32_bf16"
                                          : "transpose_f32_f16";
    return yki_cuda_find_exactly(&k->cuda, TRANSPOSE, name);
}

void yki_conv_destroy(yki_kernel *kernel)
{
    yki_conv *k = (yki_conv *)kernel;
    yki_cublas_product_fini(&k->product);
    free(k);
}

yk_status yki_conv_create(yki_device *device, const yki_kernel_desc *desc, yki_conv_prepare *rest,
                          yki_kernel **kernel)
{
    yki_conv *k = yki_calloc(1, sizeof *k);
    if (!k)
        return yki_error_memory(sizeof *k, "a convolution");
    yki_cuda_kernel_init(&k->cuda, device, desc);
    yk_status status = yki_cuda_need_cudnn(k->cuda.device, &k->cudnn);
    if (status == YK_OK)
        status = rest(k);
    if (status == YK_OK)
        *kernel = &k->cuda.base;
    else
        yki_conv_destroy(&k->cuda.base);
    return status;
}

/* ---- running --------------------------------------------------------------------------------- */

yk_status yki_conv_pad(const yki_conv *k, const yki_operand *operand, const int64_t dims[4],
                       const void *from, void *to, const yki_kernel_args *run)
{
    yki_cuda_copy_args args = {.in = from,
                               .out = to,
                               .rows = yki_cuda_rows(operand),
                               .columns = operand->dims[1],
                               .in_pitch = operand->dims[1],
                               .out_pitch = dims[1]};
    yki_cuda_grid grid = yki_cuda_grid_of(args.rows * (args.out_pitch / 8));
    return yki_cuda_launch(&k->cuda, PAD, grid, &args, sizeof args, run);
}

yk_status yki_conv_crop(const yki_conv *k, const yki_operand *operand, const int64_t dims[4],
                        const void *from, void *to, const yki_kernel_args *run)
{
    yki_cuda_copy_args args = {.in = from,
                               .out = to,
                               .rows = yki_cuda_rows(operand),
                               .columns = operand->dims[1],
                               .in_pitch = dims[1],
                               .out_pitch = operand->dims[1]};
    yki_cuda_grid grid = yki_cuda_grid_of(args.rows * args.columns);
    return yki_cuda_launch(&k->cuda, CROP, grid, &args, sizeof args, run);
}

yk_status yki_conv_widen_x(const yki_conv *k, const void *x, void *to, const yki_kernel_args *run)
{
    if (!k->folds)
        return yki_conv_pad(k, &k->x, k->conv.x, x, to, run);
    yki_cuda_fold_args args = yki_cuda_fold_pixels(&k->plain, &k->conv);
    args.in = x;
    args.out = to;
    yki_cuda_grid grid = yki_cuda_grid_of(args.count * args.out_height * args.out_width);
    return yki_cuda_launch(&k->cuda, FOLD, grid, &args, sizeof args, run);
}

yk_status yki_conv_fold_filters(const yki_conv *k, const void *from, void *to,
                                const yki_kernel_args *run)
{
    yki_cuda_fold_args args = yki_cuda_fold_filters(&k->plain, &k->conv);
    args.in = from;
    args.out = to;
    yki_cuda_grid grid = yki_cuda_grid_of(yki_conv_count(k->plain.w));
    return yki_cuda_launch(&k->cuda, TRANSPOSE, grid, &args, sizeof args, run);
}

yk_status yki_conv_execute(const yki_conv *k, yki_cudnn_conv_memory memory,
                           const yki_kernel_args *run)
{
    if (k->plan->workspace)
        memory.workspace = (char *)run->scratch + k->workspace_at;
    return yki_cudnn_conv_execute(k->cudnn, k->plan, &k->conv, &memory,
                                  k->cuda.device->launcher->handle_of(run->stream));
}

yk_status yki_conv_pack(const yki_kernel *kernel, const void *parameter, void *packed,
                        yki_stream *stream)
{
    const yki_conv *k = (const yki_conv *)kernel;
    const yki_kernel_args run = {.stream = stream};
    const int32_t taps = (int32_t)yki_conv_taps(k);
    yki_cuda_transpose_args args = {.in = parameter,
                                    .out = packed,
                                    .batch = k->weight.dims[0],
                                    .rows = (int32_t)k->weight.dims[1],
                                    .columns = taps,
                                    .in_pitch = taps,
                                    .out_pitch = (int32_t)k->conv.w[1]};
    if (yki_conv_has_more_outputs(k) || k->folds)
        YK_TRY(yki_device_fill(&k->cuda.device->base, packed, 0, kernel->pack_bytes, stream));
    if (yki_conv_is_same_order(k))
        return yki_cuda_convert(&k->cuda, TRANSPOSE, parameter, packed,
                                yki_conv_count(k->weight.dims), &run);
    if (k->folds)
        return yki_conv_fold_filters(k, parameter, packed, &run);
    return yki_cuda_launch(&k->cuda, TRANSPOSE, yki_cuda_grid_of_transpose(&args), &args,
                           sizeof args, &run);
}

/* Of the same parameter: the copies differ in their type, in the channels that are added, and in
 * how they are folded. */
bool yki_conv_same_pack(const yki_kernel *kernel, const yki_kernel *other)
{
    const yki_conv *a = (const yki_conv *)kernel, *b = (const yki_conv *)other;
    return a->conv.dtype == b->conv.dtype && a->folds == b->folds &&
           memcmp(a->conv.w, b->conv.w, sizeof a->conv.w) == 0 &&
           (!a->folds || yki_cuda_folds_alike(&a->plain, &b->plain));
}

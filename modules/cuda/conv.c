/*
 * conv2d and its gradients, one of which is conv_transpose2d, by cuDNN. Activations have their
 * channels last; a weight, which is an f32 parameter (K, C / groups, R, S), is packed once per
 * step: its taps before its channels, in the type of the activations.
 *
 * Engines of 16 bits want channels in eights. Where they are not, as in the first layer of most
 * networks, the plan is that of a convolution with more channels: inputs are copied with zeros as
 * those that are missing, and outputs are copied without them. With stride 2, pixels become these
 * channels (conv_fold.h).
 */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "bias.h"
#include "conv_fold.h"
#include "conv_plan.h"
#include "implementations.h"
#include "libraries.h"
#include "statistics.h"

/* The kernels beside the plan. TRANSPOSE converts filters whose order is the same, and folds those
 * of a convolution that is folded. REDUCE takes two. */
enum { TRANSPOSE, PAD, CROP, ADD, FOLD, REDUCE = CROP };

typedef struct conv_kernel {
    yki_cuda_kernel cuda;
    const yki_cudnn *cudnn;
    yki_cudnn_conv conv; /* as the plan computes it: with all its channels, and perhaps folded */
    bool folds;
    yki_cudnn_conv plain; /* before it was folded */
    const yki_cudnn_plan *plan;
    yki_cublas_product product;                             /* in the plan's place */
    yki_operand x, weight, y;                               /* or their gradients */
    bool add_bias;                                          /* by a kernel: no engine adds it */
    size_t x_at, weight_at, y_at, partial_at, workspace_at; /* in scratch */
} conv_kernel;

static bool is_image(const yki_operand *operand, yk_dtype dtype)
{
    return operand->ndim == 4 && operand->dtype == dtype && operand->layout == YKI_CHANNELS_LAST &&
           yki_operand_count(operand) <= INT32_MAX;
}

static bool supports_operands(const yki_operand *x, const yki_operand *weight, const yki_operand *y)
{
    return yki_cuda_is_real(x->dtype) && is_image(x, x->dtype) && is_image(y, x->dtype) &&
           weight->ndim == 4 && weight->layout == YKI_PLAIN &&
           weight->dtype == yki_accumulate_dtype(x->dtype);
}

/* ---- shapes ---------------------------------------------------------------------------------- */

static bool has_more_inputs(const conv_kernel *k)
{
    return k->conv.x[1] > k->x.dims[1];
}

static bool has_more_outputs(const conv_kernel *k)
{
    return k->conv.y[1] > k->y.dims[1];
}

static bool is_narrow(const conv_kernel *k)
{
    return yk_dtype_size(k->x.dtype) == 2;
}

static int64_t taps_of(const conv_kernel *k)
{
    return k->conv.w[2] * k->conv.w[3];
}

static int64_t count_of(const int64_t dims[4])
{
    return dims[0] * dims[1] * dims[2] * dims[3];
}

/* Whether a filter is the same with its channels first and last. */
static bool is_same_order(const conv_kernel *k)
{
    return !has_more_inputs(k) && (taps_of(k) == 1 || k->conv.w[1] == 1);
}

static void describe(conv_kernel *k, yki_cudnn_direction direction)
{
    const yki_attrs *attrs = &k->cuda.attrs;
    k->conv = (yki_cudnn_conv){.direction = direction,
                               .dtype = k->x.dtype,
                               .stride = attrs->stride,
                               .padding = attrs->padding,
                               .dilation = attrs->dilation};
    memcpy(k->conv.x, k->x.dims, sizeof k->conv.x);
    memcpy(k->conv.w, k->weight.dims, sizeof k->conv.w);
    memcpy(k->conv.y, k->y.dims, sizeof k->conv.y);
    k->folds = direction != YKI_CUDNN_BACKWARD_DATA && yki_cuda_fold_helps(&k->conv, attrs->groups);
    k->plain = k->conv;
    if (k->folds)
        yki_cuda_fold(&k->plain, &k->conv);
    if (is_narrow(k) && attrs->groups == 1) {
        k->conv.x[1] = k->conv.w[1] = (int64_t)yki_align((size_t)k->conv.x[1], 8);
        k->conv.y[1] = k->conv.w[0] = (int64_t)yki_align((size_t)k->y.dims[1], 8);
    }
}

/* ---- preparing ------------------------------------------------------------------------------- */

static yk_status no_engine(const conv_kernel *k)
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

static yk_status find_plan(conv_kernel *k)
{
    return yki_cuda_conv_plan(k->cuda.device, k->cudnn, &k->conv, &k->plan);
}

/* Whether the plan is to give sums of y, in 16 bits. */
static bool wants_sums(const conv_kernel *k, const yki_operand *sums)
{
    return sums && k->cuda.device->fuses && !has_more_outputs(k) && k->y.dims[1] % 8 == 0 &&
           yki_cuda_statistics_of_sums(&k->y, sums);
}

/*
 * Sums of y if an engine gives them in less time than batch_norm's pass over y takes; then the
 * plan, a bias included, is all there is to run.
 */
static yk_status find_plan_with_sums(conv_kernel *k, const yki_operand *sums)
{
    k->conv.sums = wants_sums(k, sums);
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
static yk_status consider_narrow(conv_kernel *k)
{
    const yki_cudnn_plan *full = k->plan;
    if (k->conv.direction != YKI_CUDNN_BACKWARD_WEIGHT || !is_narrow(k) ||
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

/* The plan that is wanted, or else what the engines can do: a bias is left to a kernel where none
 * adds it, or where y has more channels than it. */
static yk_status prepare_plan(conv_kernel *k, bool bias, const yki_operand *sums)
{
    k->conv.bias = bias && !has_more_outputs(k);
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

/* Copies of operands that have more channels than they have. */
static yk_status prepare_copies(conv_kernel *k)
{
    yk_dtype dtype = k->x.dtype;
    if (has_more_inputs(k))
        k->x_at = yki_cuda_reserve(&k->cuda, (size_t)count_of(k->conv.x) * yk_dtype_size(dtype));
    if (has_more_outputs(k))
        k->y_at = yki_cuda_reserve(&k->cuda, (size_t)count_of(k->conv.y) * yk_dtype_size(dtype));
    if (k->folds)
        YK_TRY(yki_cuda_find_exactly(&k->cuda, FOLD, "fold_pixels"));
    if (!has_more_outputs(k) && (k->folds || !has_more_inputs(k)))
        return YK_OK;
    YK_TRY(yki_cuda_find_exactly(&k->cuda, PAD, "pad_2"));
    if (k->conv.direction == YKI_CUDNN_BACKWARD_WEIGHT)
        return YK_OK;
    return yki_cuda_find_exactly(&k->cuda, CROP, "copy_2_1");
}

/* Weights as the plan wants them. */
static yk_status prepare_pack(conv_kernel *k, int input)
{
    yk_dtype dtype = k->x.dtype;
    k->cuda.base.pack_input = input;
    if (k->weight.dtype == dtype && is_same_order(k))
        return YK_OK;
    k->cuda.base.pack_bytes = (size_t)count_of(k->conv.w) * yk_dtype_size(dtype);
    if (is_same_order(k))
        return yki_cuda_convert_find(&k->cuda, TRANSPOSE, k->weight.dtype, dtype);
    if (k->folds)
        return yki_cuda_find(&k->cuda, TRANSPOSE, "fold_filters", dtype, true);
    const char *name = dtype == YK_F64    ? "transpose_8"
                       : dtype == YK_F32  ? "transpose_4"
                       : dtype == YK_BF16 ? "transpose_f32_bf16"
                                          : "transpose_f32_f16";
    return yki_cuda_find_exactly(&k->cuda, TRANSPOSE, name);
}

typedef yk_status prepare_rest(conv_kernel *k);

static void destroy(yki_kernel *kernel)
{
    conv_kernel *k = (conv_kernel *)kernel;
    yki_cublas_product_fini(&k->product);
    free(k);
}

static yk_status prepare(yki_device *device, const yki_kernel_desc *desc, prepare_rest *rest,
                         yki_kernel **kernel)
{
    conv_kernel *k = yki_calloc(1, sizeof *k);
    if (!k)
        return yki_error_memory(sizeof *k, "a convolution");
    yki_cuda_kernel_init(&k->cuda, device, desc);
    yk_status status = yki_cuda_need_cudnn(k->cuda.device, &k->cudnn);
    if (status == YK_OK)
        status = rest(k);
    if (status == YK_OK)
        *kernel = &k->cuda.base;
    else
        destroy(&k->cuda.base);
    return status;
}

/* ---- running --------------------------------------------------------------------------------- */

/* An input with zeros as the channels that it lacks. */
static yk_status pad(const conv_kernel *k, const yki_operand *operand, const int64_t dims[4],
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

/* An output without the channels that it lacks. */
static yk_status crop(const conv_kernel *k, const yki_operand *operand, const int64_t dims[4],
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

/* x as the plan wants it. */
static yk_status widen_x(const conv_kernel *k, const void *x, void *to, const yki_kernel_args *run)
{
    if (!k->folds)
        return pad(k, &k->x, k->conv.x, x, to, run);
    yki_cuda_fold_args args = yki_cuda_fold_pixels(&k->plain, &k->conv);
    args.in = x;
    args.out = to;
    yki_cuda_grid grid = yki_cuda_grid_of(args.count * args.out_height * args.out_width);
    return yki_cuda_launch(&k->cuda, FOLD, grid, &args, sizeof args, run);
}

/* Filters to the folded ones, or back. */
static yk_status fold_filters(const conv_kernel *k, const void *from, void *to,
                              const yki_kernel_args *run)
{
    yki_cuda_fold_args args = yki_cuda_fold_filters(&k->plain, &k->conv);
    args.in = from;
    args.out = to;
    yki_cuda_grid grid = yki_cuda_grid_of(count_of(k->plain.w));
    return yki_cuda_launch(&k->cuda, TRANSPOSE, grid, &args, sizeof args, run);
}

static yk_status execute(const conv_kernel *k, yki_cudnn_conv_memory memory,
                         const yki_kernel_args *run)
{
    if (k->plan->workspace)
        memory.workspace = (char *)run->scratch + k->workspace_at;
    return yki_cudnn_conv_execute(k->cudnn, k->plan, &k->conv, &memory,
                                  k->cuda.device->launcher->handle_of(run->stream));
}

static yk_status pack(const yki_kernel *kernel, const void *parameter, void *packed,
                      yki_stream *stream)
{
    const conv_kernel *k = (const conv_kernel *)kernel;
    const yki_kernel_args run = {.stream = stream};
    const int32_t taps = (int32_t)taps_of(k);
    yki_cuda_transpose_args args = {.in = parameter,
                                    .out = packed,
                                    .batch = k->weight.dims[0],
                                    .rows = (int32_t)k->weight.dims[1],
                                    .columns = taps,
                                    .in_pitch = taps,
                                    .out_pitch = (int32_t)k->conv.w[1]};
    if (has_more_outputs(k) || k->folds)
        YK_TRY(yki_device_fill(&k->cuda.device->base, packed, 0, kernel->pack_bytes, stream));
    if (is_same_order(k))
        return yki_cuda_convert(&k->cuda, TRANSPOSE, parameter, packed, count_of(k->weight.dims),
                                &run);
    if (k->folds)
        return fold_filters(k, parameter, packed, &run);
    return yki_cuda_launch(&k->cuda, TRANSPOSE, yki_cuda_grid_of_transpose(&args), &args,
                           sizeof args, &run);
}

/* Of the same parameter: the copies differ in their type, in the channels that are added, and in
 * how they are folded. */
static bool same_pack(const yki_kernel *kernel, const yki_kernel *other)
{
    const conv_kernel *a = (const conv_kernel *)kernel, *b = (const conv_kernel *)other;
    return a->conv.dtype == b->conv.dtype && a->folds == b->folds &&
           memcmp(a->conv.w, b->conv.w, sizeof a->conv.w) == 0 &&
           (!a->folds || yki_cuda_folds_alike(&a->plain, &b->plain));
}

#define CONV(name, supports_, prepare_, run_)                                                      \
    const yki_kernel_impl yki_cuda_##name = {.op = &yki_op_##name,                                 \
                                             .supports = supports_,                                \
                                             .prepare = prepare_,                                  \
                                             .run = run_,                                          \
                                             .destroy = destroy,                                   \
                                             .pack = pack,                                         \
                                             .same_pack = same_pack}

/* ---- forward: x, weight, [bias] -> y, [sums] ------------------------------------------------- */

static bool supports(const yki_device *device, const yki_kernel_desc *desc)
{
    (void)device;
    return supports_operands(&desc->in[YKI_CONV2D_X], &desc->in[YKI_CONV2D_WEIGHT],
                             &desc->out[YKI_CONV2D_Y]);
}

static void describe_forward(conv_kernel *k)
{
    const yki_kernel_desc *desc = &k->cuda.desc;
    k->x = desc->in[YKI_CONV2D_X];
    k->weight = desc->in[YKI_CONV2D_WEIGHT];
    k->y = desc->out[YKI_CONV2D_Y];
    describe(k, YKI_CUDNN_FORWARD);
}

static bool is_biased(const conv_kernel *k)
{
    return k->cuda.desc.in[YKI_CONV2D_BIAS].ndim >= 0;
}

static const yki_operand *sums_of(const conv_kernel *k)
{
    const yki_kernel_desc *desc = &k->cuda.desc;
    return desc->out_count > YKI_CONV2D_SUMS ? &desc->out[YKI_CONV2D_SUMS] : NULL;
}

static yk_status prepare_forward(conv_kernel *k)
{
    describe_forward(k);
    YK_TRY(prepare_plan(k, is_biased(k), sums_of(k)));
    YK_TRY(prepare_copies(k));
    YK_TRY(prepare_pack(k, YKI_CONV2D_WEIGHT));
    return k->add_bias ? yki_cuda_bias_add_find(&k->cuda, ADD, &k->y) : YK_OK;
}

static yk_status create(yki_device *device, const yki_kernel_desc *desc, yki_kernel **kernel)
{
    return prepare(device, desc, prepare_forward, kernel);
}

static yk_status run_conv2d(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const conv_kernel *k = (const conv_kernel *)kernel;
    char *scratch = run->scratch;
    void *x = run->in[YKI_CONV2D_X], *y = run->out[YKI_CONV2D_Y];
    void *bias = yki_cuda_in(&k->cuda, run, YKI_CONV2D_BIAS);
    void *x_used = has_more_inputs(k) ? scratch + k->x_at : x;
    void *y_used = has_more_outputs(k) ? scratch + k->y_at : y;
    if (x_used != x)
        YK_TRY(widen_x(k, x, x_used, run));
    yki_cudnn_conv_memory memory = {
        .x = x_used, .w = run->in[YKI_CONV2D_WEIGHT], .y = y_used, .bias = bias};
    if (k->conv.sums) {
        memory.sum = run->out[YKI_CONV2D_SUMS];
        memory.squares = (float *)memory.sum + k->y.dims[1];
    }
    YK_TRY(execute(k, memory, run));
    if (y_used != y)
        YK_TRY(crop(k, &k->y, k->conv.y, y_used, y, run));
    return k->add_bias ? yki_cuda_bias_add(&k->cuda, ADD, &k->y, y, bias, run) : YK_OK;
}
CONV(conv2d, supports, create, run_conv2d);

/* ---- gradient of x: dy, weight -> dx, and conv_transpose2d: x, weight, [bias] -> y ----------- */

/* The operands of both have the same numbers; those below are named as the gradient's. */

static bool supports_backward_data(const yki_device *device, const yki_kernel_desc *desc)
{
    (void)device;
    return supports_operands(&desc->out[YKI_CONV2D_BACKWARD_DATA_DX],
                             &desc->in[YKI_CONV2D_BACKWARD_DATA_WEIGHT],
                             &desc->in[YKI_CONV2D_BACKWARD_DATA_DY]);
}

static void describe_backward_data(conv_kernel *k)
{
    const yki_kernel_desc *desc = &k->cuda.desc;
    k->x = desc->out[YKI_CONV2D_BACKWARD_DATA_DX];
    k->weight = desc->in[YKI_CONV2D_BACKWARD_DATA_WEIGHT];
    k->y = desc->in[YKI_CONV2D_BACKWARD_DATA_DY];
    describe(k, YKI_CUDNN_BACKWARD_DATA);
}

static yk_status prepare_backward_data(conv_kernel *k)
{
    const yki_kernel_desc *desc = &k->cuda.desc;
    describe_backward_data(k);
    YK_TRY(prepare_plan(k, false, NULL));
    YK_TRY(prepare_copies(k));
    YK_TRY(prepare_pack(k, YKI_CONV2D_BACKWARD_DATA_WEIGHT));
    k->add_bias =
        desc->op == &yki_op_conv_transpose2d && desc->in[YKI_CONV_TRANSPOSE2D_BIAS].ndim >= 0;
    return k->add_bias ? yki_cuda_bias_add_find(&k->cuda, ADD, &k->x) : YK_OK;
}

static yk_status create_backward_data(yki_device *device, const yki_kernel_desc *desc,
                                      yki_kernel **kernel)
{
    return prepare(device, desc, prepare_backward_data, kernel);
}

static yk_status run_backward_data(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const conv_kernel *k = (const conv_kernel *)kernel;
    char *scratch = run->scratch;
    void *dx = run->out[YKI_CONV2D_BACKWARD_DATA_DX], *dy = run->in[YKI_CONV2D_BACKWARD_DATA_DY];
    void *dx_made = has_more_inputs(k) ? scratch + k->x_at : dx;
    void *dy_used = has_more_outputs(k) ? scratch + k->y_at : dy;
    if (dy_used != dy)
        YK_TRY(pad(k, &k->y, k->conv.y, dy, dy_used, run));
    const yki_cudnn_conv_memory memory = {
        .x = dx_made, .w = run->in[YKI_CONV2D_BACKWARD_DATA_WEIGHT], .y = dy_used};
    YK_TRY(execute(k, memory, run));
    if (dx_made != dx)
        YK_TRY(crop(k, &k->x, k->conv.x, dx_made, dx, run));
    if (!k->add_bias)
        return YK_OK;
    return yki_cuda_bias_add(&k->cuda, ADD, &k->x, dx, run->in[YKI_CONV_TRANSPOSE2D_BIAS], run);
}
CONV(conv2d_backward_data, supports_backward_data, create_backward_data, run_backward_data);
CONV(conv_transpose2d, supports_backward_data, create_backward_data, run_backward_data);

/* ---- gradients of weight and bias: x, dy -> dweight, [dbias] --------------------------------- */

static bool supports_backward_weight(const yki_device *device, const yki_kernel_desc *desc)
{
    (void)device;
    return supports_operands(&desc->in[YKI_CONV2D_BACKWARD_WEIGHT_X],
                             &desc->out[YKI_CONV2D_BACKWARD_WEIGHT_DWEIGHT],
                             &desc->in[YKI_CONV2D_BACKWARD_WEIGHT_DY]);
}

/* A convolution whose filters have one tap multiplies matrices. For the gradients of weights,
 * cuBLASLt's algorithms are faster than cuDNN's engines of f32, and need no compiler. */
static bool is_product(const conv_kernel *k)
{
    const yki_attrs *attrs = &k->cuda.attrs;
    return k->weight.dims[2] * k->weight.dims[3] == 1 && attrs->stride == 1 &&
           attrs->padding == 0 && attrs->groups == 1 && yki_operand_count(&k->y) > 0;
}

/* dweight (K, C) = dy^T x */
static yk_status prepare_product(conv_kernel *k)
{
    const yki_cublas *cublas;
    bool found;
    const yki_cublas_shape shape = {.dtype = k->x.dtype,
                                    .result = k->weight.dtype,
                                    .rows = k->y.dims[1],
                                    .inner = yki_cuda_rows(&k->y),
                                    .columns = k->x.dims[1],
                                    .transpose_a = true};
    YK_TRY(yki_cuda_need_cublas(k->cuda.device, &cublas));
    YK_TRY(yki_cublas_prepare(&k->product, cublas, &shape, &found));
    if (!found)
        return yki_cublas_no_algorithm(&shape);
    k->workspace_at = yki_cuda_reserve(&k->cuda, k->product.workspace);
    return YK_OK;
}

static yk_status multiply(const conv_kernel *k, const void *x, const void *dy, void *dweight,
                          const yki_kernel_args *run)
{
    const yki_cublas_terms terms = {.a = dy, .b = x, .c = dweight, .scale = 1};
    char *scratch = run->scratch;
    return yki_cublas_run(&k->product, &terms, scratch ? scratch + k->workspace_at : NULL,
                          k->cuda.device->launcher->handle_of(run->stream));
}

/* The gradient that the plan makes may have another order, more channels, or 16 bits. */
static yk_status prepare_gradient(conv_kernel *k)
{
    yk_dtype made = k->conv.narrow ? k->conv.dtype : k->weight.dtype;
    if (made == k->weight.dtype && is_same_order(k) && !has_more_outputs(k))
        return YK_OK;
    k->weight_at = yki_cuda_reserve(&k->cuda, (size_t)count_of(k->conv.w) * yk_dtype_size(made));
    if (is_same_order(k) && made != k->weight.dtype)
        return yki_cuda_convert_find(&k->cuda, TRANSPOSE, made, k->weight.dtype);
    if (k->folds)
        return yki_cuda_find(&k->cuda, TRANSPOSE, "unfold_filters", made, true);
    const char *name = made == YK_F64    ? "transpose_8"
                       : made == YK_F32  ? "transpose_4"
                       : made == YK_BF16 ? "transpose_bf16_f32"
                                         : "transpose_f16_f32";
    return yki_cuda_find_exactly(&k->cuda, TRANSPOSE, name);
}

static void describe_backward_weight(conv_kernel *k)
{
    const yki_kernel_desc *desc = &k->cuda.desc;
    k->x = desc->in[YKI_CONV2D_BACKWARD_WEIGHT_X];
    k->weight = desc->out[YKI_CONV2D_BACKWARD_WEIGHT_DWEIGHT];
    k->y = desc->in[YKI_CONV2D_BACKWARD_WEIGHT_DY];
    describe(k, YKI_CUDNN_BACKWARD_WEIGHT);
}

static yk_status prepare_by_plan(conv_kernel *k)
{
    YK_TRY(prepare_plan(k, false, NULL));
    YK_TRY(prepare_copies(k));
    return prepare_gradient(k);
}

static yk_status prepare_backward_weight(conv_kernel *k)
{
    describe_backward_weight(k);
    YK_TRY(is_product(k) ? prepare_product(k) : prepare_by_plan(k));
    if (k->cuda.desc.out[YKI_CONV2D_BACKWARD_WEIGHT_DBIAS].ndim < 0)
        return YK_OK;
    k->partial_at = yki_cuda_reserve(&k->cuda, yki_cuda_bias_gradient_bytes(&k->y));
    return yki_cuda_bias_gradient_find(&k->cuda, REDUCE, &k->y);
}

static yk_status create_backward_weight(yki_device *device, const yki_kernel_desc *desc,
                                        yki_kernel **kernel)
{
    return prepare(device, desc, prepare_backward_weight, kernel);
}

static yk_status restore_order(const conv_kernel *k, const void *made, void *dweight,
                               const yki_kernel_args *run)
{
    if (is_same_order(k) && k->conv.narrow)
        return yki_cuda_convert(&k->cuda, TRANSPOSE, made, dweight, count_of(k->weight.dims), run);
    if (k->folds)
        return fold_filters(k, made, dweight, run);
    const int32_t taps = (int32_t)taps_of(k);
    yki_cuda_transpose_args args = {.in = made,
                                    .out = dweight,
                                    .batch = k->weight.dims[0],
                                    .rows = taps,
                                    .columns = (int32_t)k->weight.dims[1],
                                    .in_pitch = (int32_t)k->conv.w[1],
                                    .out_pitch = taps};
    return yki_cuda_launch(&k->cuda, TRANSPOSE, yki_cuda_grid_of_transpose(&args), &args,
                           sizeof args, run);
}

/* With copies of operands that have more channels than they have. */
static yk_status run_plan(const conv_kernel *k, void *x, void *dy, void *dweight,
                          const yki_kernel_args *run)
{
    char *scratch = run->scratch;
    void *x_used = has_more_inputs(k) ? scratch + k->x_at : x;
    void *dy_used = has_more_outputs(k) ? scratch + k->y_at : dy;
    void *made = k->cuda.stage[TRANSPOSE] ? scratch + k->weight_at : dweight;
    if (x_used != x)
        YK_TRY(widen_x(k, x, x_used, run));
    if (dy_used != dy)
        YK_TRY(pad(k, &k->y, k->conv.y, dy, dy_used, run));
    YK_TRY(execute(k, (yki_cudnn_conv_memory){.x = x_used, .w = made, .y = dy_used}, run));
    return made == dweight ? YK_OK : restore_order(k, made, dweight, run);
}

static yk_status run_backward_weight(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const conv_kernel *k = (const conv_kernel *)kernel;
    void *x = run->in[YKI_CONV2D_BACKWARD_WEIGHT_X], *dy = run->in[YKI_CONV2D_BACKWARD_WEIGHT_DY];
    void *dweight = run->out[YKI_CONV2D_BACKWARD_WEIGHT_DWEIGHT];
    void *dbias = yki_cuda_out(&k->cuda, run, YKI_CONV2D_BACKWARD_WEIGHT_DBIAS);
    YK_TRY(k->plan ? run_plan(k, x, dy, dweight, run) : multiply(k, x, dy, dweight, run));
    if (!dbias)
        return YK_OK;
    return yki_cuda_bias_gradient(&k->cuda, REDUCE, &k->y, dy, dbias,
                                  (char *)run->scratch + k->partial_at, run);
}
CONV(conv2d_backward_weight, supports_backward_weight, create_backward_weight, run_backward_weight);

/* ---- foresight: the plans that are asked for first ------------------------------------------- */

static void foresee(conv_kernel *k, bool bias, const yki_operand *sums)
{
    k->conv.bias = bias && !has_more_outputs(k);
    k->conv.sums = wants_sums(k, sums);
    if (k->conv.sums) {
        yki_cuda_conv_foresee(k->cuda.device, k->cudnn, &k->conv);
        if (!k->cuda.device->measures)
            return; /* then sums are taken where there are any */
    }
    k->conv.sums = false;
    yki_cuda_conv_foresee(k->cuda.device, k->cudnn, &k->conv);
}

static void foresee_gradient(conv_kernel *k)
{
    foresee(k, false, NULL);
    k->conv.narrow = is_narrow(k);
    if (k->conv.narrow && k->cuda.device->measures)
        yki_cuda_conv_foresee(k->cuda.device, k->cudnn, &k->conv);
}

static void foresee_one(conv_kernel *k)
{
    const yki_device *device = &k->cuda.device->base;
    const yki_kernel_desc *desc = &k->cuda.desc;
    if (desc->op == &yki_op_conv2d && supports(device, desc)) {
        describe_forward(k);
        foresee(k, is_biased(k), sums_of(k));
    } else if ((desc->op == &yki_op_conv2d_backward_data || desc->op == &yki_op_conv_transpose2d) &&
               supports_backward_data(device, desc)) {
        describe_backward_data(k);
        foresee(k, false, NULL);
    } else if (desc->op == &yki_op_conv2d_backward_weight &&
               supports_backward_weight(device, desc)) {
        describe_backward_weight(k);
        if (!is_product(k))
            foresee_gradient(k);
    }
}

void yki_cuda_foresee(yki_device *device, const yki_kernel_desc *desc)
{
    conv_kernel k = {.plan = NULL};
    if (!desc) {
        yki_cuda_conv_foreseen((yki_cuda_device *)device);
        return;
    }
    if (strncmp(desc->op->name, "conv", 4) != 0)
        return;
    yki_cuda_kernel_init(&k.cuda, device, desc);
    if (yki_cuda_need_cudnn(k.cuda.device, &k.cudnn) == YK_OK) /* else preparing says so */
        foresee_one(&k);
}

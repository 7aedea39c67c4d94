/*
 * Convolution on oneDNN, forward and both gradients.
 *
 * oneDNN gives each of its threads a fixed share, and waits for the slowest. Large batches are
 * therefore cut into slices of some images, fixed by the shape. Threads take them from a shared
 * counter, each with a primitive for one thread (onednn_slices.h), so that a thread whose core is
 * shared with another program takes fewer. The gradients of the weights are added in order.
 *
 * Activations are in the layouts of the device. Weights are packed once per step into the layout
 * that oneDNN asks for (in bf16 if the activations are), and the kernel of their gradient ends by
 * converting it to the canonical f32 layout. Therefore no activation is ever reordered.
 *
 * f32 3x3 convolutions of stride 1 run with Winograd's algorithm (Lavin and Gray, "Fast Algorithms
 * for Convolutional Neural Networks", 2015) if oneDNN has it and winograd.c does not support them.
 * It takes 2.25 to 4 times fewer multiplications, for a relative error of about 1e-4, and is not
 * used if the device's `winograd` is false.
 */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "device/cpu/conv/pack.h"
#include "device/cpu/geometry.h"
#include "device/cpu/onednn_slices.h"

typedef enum conv_direction { FORWARD, BACKWARD_DATA, BACKWARD_WEIGHT } conv_direction;

typedef struct conv_kernel {
    yki_kernel base;
    dnnl_stream_t stream;
    yki_dnn_primitive compute;
    yki_dnn_slices slices;     /* what runs if there are any */
    yki_conv_pack pack;        /* FORWARD, BACKWARD_DATA */
    yki_dnn_primitive reorder; /* BACKWARD_WEIGHT: from oneDNN's layout to the canonical one */
    size_t gradient_bytes;     /* BACKWARD_WEIGHT: the gradient in oneDNN's layout; 0: canonical */
    size_t arranged_bytes;     /* BACKWARD_WEIGHT: the gradient of arranged weights, or 0 */
    size_t bias_bytes;         /* of the bias or its gradient with padding, or 0 */
    yki_conv_groups groups;
    bool bias;
    bool clear_scratch; /* BACKWARD_WEIGHT: see reads_unwritten_scratch() */
} conv_kernel;

enum {
    SLICES = 8,
    GRADIENT = 2,      /* the argument of BACKWARD_WEIGHT that is made */
    LEAST_RATIO = 512, /* of the activations' elements to those of the weights' gradient */
    LEAST_PIXELS = 96, /* of a slice: the inner loops take some 30 at a time */
    LEAST_TAPPED_PIXELS =
        400,                  /* ... of larger kernels, whose weights are read again for each row */
    MOST_TURNED_PIXELS = 2048 /* of a gradient whose weights are packed as pairs */
};

/* Multiply-adds that cutting the batch pays for: several milliseconds of one core. */
static const double least_work = 1 << 29, least_gradient_work = 1 << 30;

/* The activations of a slice, or their gradients. */
typedef struct conv_operands {
    yki_operand x, y;
} conv_operands;

/* What oneDNN needs to know, in its terms. */
typedef struct conv_problem {
    const yki_device *device;
    conv_direction direction;
    const yki_attrs *attrs;
    const yki_operand *x, *weight, *bias, *y; /* or their gradients */
    bool turned; /* the gradient of x as a forward convolution of dy, which is x here */
    yki_conv_groups groups;
    yki_md x_md, weight_md, plain_weight_md, bias_md, y_md;
    yki_dnn_conv_shape shape;
} conv_problem;

/* The shape of the weights for oneDNN: with G groups it is (G, filters, inputs, R, S). */
static int weight_dims(const conv_problem *p, int64_t *dims)
{
    const yki_conv_groups *g = &p->groups;
    const int64_t *w = p->weight->dims;
    int ndim = g->groups == 1 ? 4 : 5;
    if (ndim == 5)
        *dims++ = g->groups;
    memcpy(dims, (int64_t[]){g->all_filters, g->all_inputs, w[2], w[3]}, 4 * sizeof *dims);
    return ndim;
}

/* An activation with all of oneDNN's channels, which may include padding. */
static yk_status describe_activation(const conv_problem *p, const yki_operand *activation,
                                     int64_t channels_a_group, yki_md *md)
{
    yki_operand all = *activation;
    all.dims[1] = p->groups.groups * channels_a_group;
    return yki_md_of(md, p->device, &all);
}

static yk_status describe_bias(conv_problem *p)
{
    yki_operand all = *p->bias;
    all.dims[0] = p->groups.groups * p->groups.all_filters;
    return yki_md_of(&p->bias_md, p->device, &all);
}

static int64_t padding_of(const conv_problem *p, int dimension)
{
    int64_t reach = p->attrs->dilation[dimension] * (p->weight->dims[2 + dimension] - 1);
    int64_t padding = p->attrs->padding[dimension];
    return p->turned ? reach - padding : padding;
}

static yk_status describe_operands(conv_problem *p)
{
    int64_t dims[5];
    int ndim = weight_dims(p, dims);
    dnnl_format_tag_t plain = ndim == 4 ? dnnl_abcd : dnnl_abcde;
    /* oneDNN gives the gradient of bf16 convolutions in f32. */
    yk_dtype dtype = p->direction == BACKWARD_WEIGHT ? YK_F32 : p->x->dtype;
    YK_TRY(describe_activation(p, p->x, p->groups.all_inputs, &p->x_md));
    YK_TRY(describe_activation(p, p->y, p->groups.all_filters, &p->y_md));
    YK_TRY(yki_md_with_tag(&p->weight_md, ndim, dims, dtype, dnnl_format_tag_any));
    YK_TRY(yki_md_with_tag(&p->plain_weight_md, ndim, dims, YK_F32, plain));
    if (p->bias)
        YK_TRY(describe_bias(p));
    for (int i = 0; i < 2; i++) {
        p->shape.strides[i] = p->attrs->stride[i];
        p->shape.dilates[i] = p->attrs->dilation[i] - 1;
        p->shape.padding[i] = padding_of(p, i);
    }
    return YK_OK;
}

static void destroy_problem(conv_problem *p)
{
    yki_md_destroy(p->x_md);
    yki_md_destroy(p->weight_md);
    yki_md_destroy(p->plain_weight_md);
    yki_md_destroy(p->bias_md);
    yki_md_destroy(p->y_md);
}

/* Winograd is only tried where it gains: not for small batches. */
static bool wants_winograd(const conv_problem *p)
{
    const yki_cpu_device *cpu = (const yki_cpu_device *)p->device;
    const int64_t *w = p->weight->dims;
    return cpu->winograd && p->x->dtype == YK_F32 && w[2] == 3 && w[3] == 3 &&
           yki_is_square(p->attrs) && p->attrs->stride[0] == 1 && p->attrs->dilation[0] == 1 &&
           p->attrs->groups == 1 && p->x->dims[0] >= 16 && w[0] >= 16 && w[1] >= 16;
}

static dnnl_status_t describe_with(const conv_problem *p, dnnl_alg_kind_t algorithm,
                                   dnnl_primitive_desc_t *desc)
{
    dnnl_engine_t engine = ((const yki_cpu_device *)p->device)->engine;
    if (p->direction == FORWARD)
        return yki_dnn_describe_forward(desc, engine, algorithm, p->x_md, p->weight_md, p->bias_md,
                                        p->y_md, &p->shape);
    dnnl_primitive_desc_t hint = NULL;
    dnnl_status_t status;
    /* The weights of a hint may have any layout: the forward kernel that runs has its own
     * description. */
    yki_md any = NULL;
    int64_t dims[5];
    int ndim = weight_dims(p, dims);
    if (yki_md_with_tag(&any, ndim, dims, p->x->dtype, dnnl_format_tag_any) != YK_OK)
        return dnnl_out_of_memory;
    status =
        yki_dnn_describe_forward(&hint, engine, algorithm, p->x_md, any, NULL, p->y_md, &p->shape);
    if (status == dnnl_success && p->direction == BACKWARD_DATA)
        status = yki_dnn_describe_backward_data(desc, engine, algorithm, p->x_md, p->weight_md,
                                                p->y_md, &p->shape, hint);
    else if (status == dnnl_success)
        status = yki_dnn_describe_backward_weights(desc, engine, algorithm, p->x_md, p->weight_md,
                                                   p->bias_md, p->y_md, &p->shape, hint);
    if (hint)
        dnnl_primitive_desc_destroy(hint);
    yki_md_destroy(any);
    return status;
}

static yk_status conv_describe(const conv_problem *p, dnnl_primitive_desc_t *desc)
{
    if (wants_winograd(p) && describe_with(p, dnnl_convolution_winograd, desc) == dnnl_success)
        return YK_OK;
    YKI_DNN(describe_with(p, dnnl_convolution_direct, desc));
    return YK_OK;
}

/* Forward and BACKWARD_DATA read packed weights. */
static yk_status prepare_pack(conv_kernel *k, const conv_problem *p, dnnl_engine_t engine)
{
    yki_const_md packed = yki_dnn_query(k->compute.desc, dnnl_query_weights_md);
    k->pack = (yki_conv_pack){.groups = p->groups,
                              .turned = p->turned,
                              .team = yki_team(p->device, yki_operand_count(p->weight))};
    k->base.pack_input = 1;
    k->base.pack_bytes = yki_md_size(packed);
    return yki_conv_pack_prepare(&k->pack, engine, p->plain_weight_md, packed);
}

static yk_status prepare_compute(conv_kernel *k, dnnl_engine_t engine, int count,
                                 const int *arguments, const yki_const_md *mds)
{
    if (k->slices.count > 0)
        return yki_dnn_slices_prepare(&k->slices, k->compute.desc, engine, count, arguments, mds);
    return yki_dnn_prepare(&k->compute, engine, count, arguments, mds);
}

static yk_status conv_prepare_forward(conv_kernel *k, const conv_problem *p, dnnl_engine_t engine)
{
    yki_const_md packed = yki_dnn_query(k->compute.desc, dnnl_query_weights_md);
    yki_const_md mds[] = {p->x_md, packed, p->y_md, p->bias_md};
    int arguments[] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, DNNL_ARG_BIAS};
    YK_TRY(prepare_compute(k, engine, p->bias ? 4 : 3, arguments, mds));
    return prepare_pack(k, p, engine);
}

static yk_status conv_prepare_backward_data(conv_kernel *k, const conv_problem *p,
                                            dnnl_engine_t engine)
{
    yki_const_md packed = yki_dnn_query(k->compute.desc, dnnl_query_weights_md);
    yki_const_md mds[] = {p->y_md, packed, p->x_md};
    int arguments[] = {DNNL_ARG_DIFF_DST, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_SRC};
    YK_TRY(prepare_compute(k, engine, 3, arguments, mds));
    return prepare_pack(k, p, engine);
}

/*
 * oneDNN 2.6 computes the bf16 weight gradient from a copy of x in which columns are sorted by
 * their remainder modulo the stride. An image narrower than the stride has no column for some
 * remainders: the kernel multiplies what it never wrote by zero, which is NaN if the memory held a
 * NaN.
 */
static bool reads_unwritten_scratch(const conv_problem *p)
{
    return p->x->dtype == YK_BF16 && p->x->dims[3] < p->attrs->stride[1];
}

static yk_status conv_prepare_backward_weight(conv_kernel *k, const conv_problem *p,
                                              dnnl_engine_t engine)
{
    yki_const_md made = yki_dnn_query(k->compute.desc, dnnl_query_diff_weights_md);
    yki_const_md mds[] = {p->x_md, p->y_md, made, p->bias_md};
    int arguments[] = {DNNL_ARG_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_BIAS};
    YK_TRY(prepare_compute(k, engine, p->bias ? 4 : 3, arguments, mds));
    k->clear_scratch = reads_unwritten_scratch(p);
    bool is_cut = k->slices.count > 0;
    bool arranged = yki_conv_groups_differ(&k->groups);
    if (!arranged && !is_cut && yki_md_equal(made, p->plain_weight_md))
        return YK_OK;
    k->gradient_bytes = yki_align(yki_md_size(made), YKI_ALIGNMENT);
    k->slices.steps[GRADIENT] = is_cut ? k->gradient_bytes : 0;
    if (arranged)
        k->arranged_bytes =
            yki_align(yki_conv_groups_elements(&k->groups) * sizeof(float), YKI_ALIGNMENT);
    return yki_dnn_prepare_reorder(&k->reorder, engine, made, p->plain_weight_md);
}

static void conv_destroy(yki_kernel *kernel)
{
    conv_kernel *k = (conv_kernel *)kernel;
    yki_dnn_slices_destroy(&k->slices);
    yki_dnn_destroy(&k->compute);
    yki_dnn_destroy(&k->reorder);
    yki_conv_pack_destroy(&k->pack);
    free(k);
}

/* BACKWARD_WEIGHT: of the gradient, or of those of all slices. */
static size_t gradients_bytes(const conv_kernel *k)
{
    return k->gradient_bytes * (k->slices.count > 0 ? SLICES : 1);
}

static yk_status conv_fill(conv_kernel *k, const conv_problem *p, dnnl_engine_t engine)
{
    int threads = yki_dnn_slices_begin(&k->slices);
    yk_status status = conv_describe(p, &k->compute.desc);
    yki_dnn_slices_end(threads);
    YK_TRY(status);
    if (p->direction == FORWARD)
        YK_TRY(conv_prepare_forward(k, p, engine));
    else if (p->direction == BACKWARD_DATA)
        YK_TRY(conv_prepare_backward_data(k, p, engine));
    else
        YK_TRY(conv_prepare_backward_weight(k, p, engine));
    bool is_cut = k->slices.count > 0;
    size_t computing = is_cut ? (size_t)k->slices.team * k->slices.scratch : k->compute.scratch;
    size_t behind = computing > k->reorder.scratch ? computing : k->reorder.scratch;
    k->base.scratch = gradients_bytes(k) + k->arranged_bytes + k->bias_bytes + behind;
    return YK_OK;
}

/* Multiply-adds. */
static double conv_work(const conv_problem *p)
{
    double work = (double)(p->y->dims[0] * p->y->dims[2] * p->y->dims[3]);
    for (int d = 0; d < 4; d++)
        work *= (double)p->weight->dims[d];
    return work;
}

/* Each slice has its own gradient of the weights, which is written and read again: next to the
 * activations, all of them together must be small. */
static bool has_small_gradient(const conv_problem *p)
{
    int64_t activations = yki_operand_count(p->x) + yki_operand_count(p->y);
    return !p->bias && !yki_conv_groups_differ(&p->groups) &&
           activations >= LEAST_RATIO * yki_operand_count(p->weight);
}

/* oneDNN's own Winograd algorithm, which transforms weights in each of its calls, is left alone. */
static bool can_be_cut(const conv_problem *p)
{
    int64_t images = p->y->dims[0], pixels = images / SLICES * p->y->dims[2] * p->y->dims[3];
    int64_t taps = p->weight->dims[2] * p->weight->dims[3];
    bool gradient = p->direction == BACKWARD_WEIGHT;
    if (gradient && !has_small_gradient(p))
        return false;
    return images % SLICES == 0 && p->device->threads <= SLICES && !wants_winograd(p) &&
           conv_work(p) >= (gradient ? least_gradient_work : least_work) &&
           pixels >= (taps == 1 ? LEAST_PIXELS : LEAST_TAPPED_PIXELS);
}

/* The problem becomes that of one slice. */
static void cut(conv_kernel *k, conv_problem *p, conv_operands *slice)
{
    size_t x_bytes = yki_operand_bytes(p->device, p->x) / SLICES;
    size_t y_bytes = yki_operand_bytes(p->device, p->y) / SLICES;
    bool data = p->direction == BACKWARD_DATA;
    k->slices = (yki_dnn_slices){.team = p->device->threads, .count = SLICES};
    k->slices.steps[0] = data ? y_bytes : x_bytes;
    k->slices.steps[p->direction == BACKWARD_WEIGHT ? 1 : 2] = data ? x_bytes : y_bytes;
    *slice = (conv_operands){.x = *p->x, .y = *p->y};
    slice->x.dims[0] /= SLICES;
    slice->y.dims[0] /= SLICES;
    p->x = &slice->x;
    p->y = &slice->y;
}

/* Where the bias has padding, it is copied. */
static size_t padded_bias_bytes(const conv_problem *p)
{
    int64_t filters = p->groups.groups * p->groups.all_filters;
    bool padded = p->bias && filters != p->groups.filters;
    return padded ? yki_align((size_t)filters * sizeof(float), YKI_ALIGNMENT) : 0;
}

static const yki_operand *present(const yki_operand *operand)
{
    return operand->ndim < 0 ? NULL : operand;
}

/* Whether weights are packed as in weight_pairs.h, for a few short rows. */
static bool has_few_rows_of_pairs(const conv_problem *p, const yki_operand *dx)
{
    const int64_t *w = p->weight->dims, lanes = p->device->block;
    return yki_prefers_bf16(p->device, dx) && !((const yki_cpu_device *)p->device)->has_amx &&
           w[2] == 3 && w[3] == 3 && w[1] % lanes == 0 && w[0] / p->attrs->groups % lanes == 0 &&
           dx->dims[3] <= lanes && dx->dims[0] * dx->dims[2] * dx->dims[3] <= MOST_TURNED_PIXELS;
}

/*
 * The gradient of x with stride 1 is a convolution of dy, whose weights are turned by 180 degrees.
 * oneDNN's forward kernels take 0.5 to 0.95 of the time of those for gradients in depthwise
 * convolutions. With few pixels of bf16, it is 0.57 to 1.0, as weights are packed faster for them.
 */
static bool can_be_turned(const conv_problem *p, const yki_operand *dx)
{
    const int64_t *w = p->weight->dims;
    bool depthwise = p->attrs->groups > 1 && w[1] == 1 && w[0] == p->attrs->groups;
    bool fits = depthwise || has_few_rows_of_pairs(p, dx);
    for (int d = 0; d < 2; d++)
        fits = fits && p->attrs->stride[d] == 1 &&
               p->attrs->padding[d] <= p->attrs->dilation[d] * (w[2 + d] - 1);
    return fits;
}

static void set_forward(conv_problem *p, const yki_kernel_desc *desc)
{
    p->direction = FORWARD;
    p->x = &desc->in[YKI_CONV2D_X];
    p->weight = &desc->in[YKI_CONV2D_WEIGHT];
    p->bias = present(&desc->in[YKI_CONV2D_BIAS]);
    p->y = &desc->out[YKI_CONV2D_Y];
}

static void set_backward_data(conv_problem *p, const yki_kernel_desc *desc)
{
    const yki_operand *dx = &desc->out[YKI_CONV2D_BACKWARD_DATA_DX];
    const yki_operand *dy = &desc->in[YKI_CONV2D_BACKWARD_DATA_DY];
    p->weight = &desc->in[YKI_CONV2D_BACKWARD_DATA_WEIGHT];
    p->turned = can_be_turned(p, dx);
    p->direction = p->turned ? FORWARD : BACKWARD_DATA;
    p->x = p->turned ? dy : dx;
    p->y = p->turned ? dx : dy;
}

static void set_backward_weight(conv_problem *p, const yki_kernel_desc *desc)
{
    p->direction = BACKWARD_WEIGHT;
    p->x = &desc->in[YKI_CONV2D_BACKWARD_WEIGHT_X];
    p->weight = &desc->out[YKI_CONV2D_BACKWARD_WEIGHT_DWEIGHT];
    p->bias = present(&desc->out[YKI_CONV2D_BACKWARD_WEIGHT_DBIAS]);
    p->y = &desc->in[YKI_CONV2D_BACKWARD_WEIGHT_DY];
}

static conv_problem problem_of(const yki_device *device, const yki_kernel_desc *desc)
{
    conv_problem p = {.device = device, .attrs = desc->attrs};
    if (desc->op == &yki_op_conv2d)
        set_forward(&p, desc);
    else if (desc->op == &yki_op_conv2d_backward_data)
        set_backward_data(&p, desc);
    else
        set_backward_weight(&p, desc);
    yki_operand weight = *p.weight;
    if (p.turned) { /* inputs become filters */
        weight.dims[0] = p.weight->dims[1] * desc->attrs->groups;
        weight.dims[1] = p.weight->dims[0] / desc->attrs->groups;
    }
    p.groups = yki_conv_groups_of(device, p.x, &weight, p.y, desc->attrs->groups);
    return p;
}

static bool conv_supports(const yki_device *device, const yki_kernel_desc *desc)
{
    conv_problem p = problem_of(device, desc);
    bool low = p.x->dtype == YK_BF16 && ((const yki_cpu_device *)device)->has_bf16;
    return p.x->dtype == p.y->dtype && (p.x->dtype == YK_F32 || low);
}

static yk_status conv_prepare(yki_device *device, const yki_kernel_desc *desc, yki_kernel **kernel)
{
    yki_cpu_device *cpu = (yki_cpu_device *)device;
    conv_problem p = problem_of(device, desc);
    conv_kernel *k = yki_calloc(1, sizeof *k);
    if (!k)
        return yki_error_memory(sizeof *k, "a convolution");
    k->stream = cpu->stream;
    k->bias = p.bias != NULL;
    k->groups = p.groups;
    k->base.matrix_unit = yki_prefers_bf16(device, p.x);
    k->bias_bytes = padded_bias_bytes(&p);
    conv_operands slice;
    if (can_be_cut(&p))
        cut(k, &p, &slice);
    yk_status status = describe_operands(&p);
    if (status == YK_OK)
        status = conv_fill(k, &p, cpu->engine);
    destroy_problem(&p);
    if (status != YK_OK)
        conv_destroy(&k->base);
    else
        *kernel = &k->base;
    return status;
}

bool yki_conv_is_reference(const yki_device *device, const yki_kernel_desc *desc)
{
    conv_problem p = problem_of(device, desc);
    dnnl_primitive_desc_t made = NULL;
    yk_status status = describe_operands(&p);
    if (status == YK_OK)
        status = conv_describe(&p, &made);
    bool reference = status == YK_OK && yki_dnn_is_reference(made);
    if (made)
        dnnl_primitive_desc_destroy(made);
    destroy_problem(&p);
    return reference;
}

/* ---- weights, packed ------------------------------------------------------------------------- */

static yk_status conv_pack(const yki_kernel *kernel, const void *parameter, void *packed,
                           yki_stream *stream)
{
    (void)stream;
    const conv_kernel *k = (const conv_kernel *)kernel;
    return yki_conv_pack_run(&k->pack, k->stream, parameter, packed);
}

static bool conv_same_pack(const yki_kernel *kernel, const yki_kernel *other)
{
    const conv_kernel *a = (const conv_kernel *)kernel, *b = (const conv_kernel *)other;
    return a->pack.turned == b->pack.turned &&
           yki_md_equal(yki_dnn_query(a->compute.desc, dnnl_query_weights_md),
                        yki_dnn_query(b->compute.desc, dnnl_query_weights_md));
}

/* ---- forward: x, weight, [bias] -> y --------------------------------------------------------- */

static yk_status conv_run_forward(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const conv_kernel *k = (const conv_kernel *)kernel;
    char *scratch = (char *)run->scratch + k->bias_bytes;
    void *pointers[] = {run->in[YKI_CONV2D_X], run->in[YKI_CONV2D_WEIGHT], run->out[YKI_CONV2D_Y],
                        k->bias ? run->in[YKI_CONV2D_BIAS] : NULL};
    if (k->bias_bytes) {
        memset(run->scratch, 0, k->bias_bytes);
        pointers[3] = memcpy(run->scratch, run->in[YKI_CONV2D_BIAS],
                             (size_t)k->groups.filters * sizeof(float));
    }
    if (k->slices.count > 0)
        return yki_dnn_slices_run(&k->slices, pointers, scratch);
    return yki_dnn_run(&k->compute, k->stream, pointers, scratch);
}

const yki_kernel_impl yki_cpu_conv2d = {.op = &yki_op_conv2d,
                                        .name = "onednn",
                                        .supports = conv_supports,
                                        .prepare = conv_prepare,
                                        .run = conv_run_forward,
                                        .destroy = conv_destroy,
                                        .pack = conv_pack,
                                        .same_pack = conv_same_pack};

/* ---- gradient of x: dy, weight -> dx --------------------------------------------------------- */

static yk_status conv_run_backward_data(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const conv_kernel *k = (const conv_kernel *)kernel;
    void *pointers[] = {run->in[YKI_CONV2D_BACKWARD_DATA_DY],
                        run->in[YKI_CONV2D_BACKWARD_DATA_WEIGHT],
                        run->out[YKI_CONV2D_BACKWARD_DATA_DX]};
    if (k->slices.count > 0)
        return yki_dnn_slices_run(&k->slices, pointers, run->scratch);
    return yki_dnn_run(&k->compute, k->stream, pointers, run->scratch);
}

const yki_kernel_impl yki_cpu_conv2d_backward_data = {.op = &yki_op_conv2d_backward_data,
                                                      .name = "onednn",
                                                      .supports = conv_supports,
                                                      .prepare = conv_prepare,
                                                      .run = conv_run_backward_data,
                                                      .destroy = conv_destroy,
                                                      .pack = conv_pack,
                                                      .same_pack = conv_same_pack};

/* ---- gradient of the weights: x, dy -> dweight, [dbias] -------------------------------------- */

/* Computes the gradients in oneDNN's layouts. */
static yk_status make_gradients(const conv_kernel *k, void *const *pointers, void *scratch,
                                size_t scratch_bytes)
{
    if (k->clear_scratch && scratch_bytes > 0)
        memset(scratch, 0, scratch_bytes);
    if (k->slices.count == 0)
        return yki_dnn_run(&k->compute, k->stream, pointers, scratch);
    YK_TRY(yki_dnn_slices_run(&k->slices, pointers, scratch));
    yki_dnn_slices_add(&k->slices, pointers[GRADIENT], k->gradient_bytes / sizeof(float),
                       k->gradient_bytes);
    return YK_OK;
}

static yk_status conv_run_backward_weight(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const conv_kernel *k = (const conv_kernel *)kernel;
    void *dweight = run->out[YKI_CONV2D_BACKWARD_WEIGHT_DWEIGHT];
    void *dbias = k->bias ? run->out[YKI_CONV2D_BACKWARD_WEIGHT_DBIAS] : NULL;
    void *made = k->gradient_bytes ? run->scratch : dweight;
    char *arranged = (char *)run->scratch + gradients_bytes(k);
    char *padded_bias = arranged + k->arranged_bytes, *scratch = padded_bias + k->bias_bytes;
    void *pointers[] = {run->in[YKI_CONV2D_BACKWARD_WEIGHT_X],
                        run->in[YKI_CONV2D_BACKWARD_WEIGHT_DY], made,
                        k->bias_bytes ? padded_bias : dbias};
    size_t before = (size_t)(scratch - (char *)run->scratch);
    YK_TRY(make_gradients(k, pointers, scratch, k->base.scratch - before));
    if (dbias && k->bias_bytes)
        memcpy(dbias, padded_bias, (size_t)k->groups.filters * sizeof(float));
    if (!k->gradient_bytes)
        return YK_OK;
    void *to = k->arranged_bytes ? arranged : dweight;
    YK_TRY(yki_dnn_run(&k->reorder, k->stream, (void *[]){made, to}, scratch));
    if (k->arranged_bytes)
        yki_conv_groups_extract(&k->groups, (float *)(void *)arranged, dweight);
    return YK_OK;
}

const yki_kernel_impl yki_cpu_conv2d_backward_weight = {.op = &yki_op_conv2d_backward_weight,
                                                        .name = "onednn",
                                                        .supports = conv_supports,
                                                        .prepare = conv_prepare,
                                                        .run = conv_run_backward_weight,
                                                        .destroy = conv_destroy};

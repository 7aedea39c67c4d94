/*
 * Convolutions whose groups do not fill vectors, such as RegNet's of 24 channels or ShuffleNet's of
 * 20: oneDNN has only its reference implementation for them. Each group is one convolution of its
 * own, by any other kernel, on a copy of its channels (AVX-512 only). So are wide groups in f32 for
 * which Winograd's algorithm saves more than the copies take.
 *
 * A vector of the copy has channels of two neighbouring blocks of the activation, and the other way
 * round, so every vector is selected from two. Padding stays zero.
 */
#if defined(__x86_64__)
#include <stdlib.h>

#include "base/memory.h"
#include "device/cpu/geometry.h"
#include "device/cpu/lanes.h"
#include "device/cpu/onednn.h"

enum {
    LEAST_CHANNELS = 5, /* of a group: in f32, plain copies of fewer take less time */
    WINOGRAD_CHANNELS = 32,
    SIDE = 3
};

/* An activation, of which a group's channels are copied. */
typedef struct activation {
    int64_t images, blocks, pixels; /* of all groups */
    int64_t group_channels, group_blocks;
    size_t at; /* the copy, in scratch */
} activation;

typedef struct split {
    yki_kernel base;
    yki_kernel *inner; /* the convolution of a group */
    yki_attrs attrs;   /* its attributes */
    int64_t groups, b;
    size_t size;           /* of an activation's element */
    activation in[2], out; /* BACKWARD_WEIGHT has two inputs and no output */
    int inputs;
    bool has_bias, has_dbias;
    size_t weight_bytes, bias_bytes; /* of a group */
    size_t inner_scratch;            /* where its scratch begins */
    int team;
} split;

/* ---- copies ---------------------------------------------------------------------------------- */

/* One block of the copy of one image, from the blocks of the activation that have its channels. */
static void take_block(const split *k, const activation *a, int64_t group, const char *all,
                       char *copy, int64_t unit)
{
    int64_t image = unit / a->group_blocks, block = unit % a->group_blocks;
    int64_t left = a->group_channels - block * k->b;
    int64_t first = group * a->group_channels + block * k->b, from = first / k->b;
    size_t plane = (size_t)(a->pixels * k->b) * k->size;
    const char *low = all + (size_t)(image * a->blocks + from) * plane;
    const char *high = from + 1 < a->blocks ? low + plane : low;
    yki_lanes_select(copy + (size_t)unit * plane, low, high, a->pixels, first % k->b, 0,
                     left < k->b ? left : k->b, k->b, k->size);
}

/* And back: one of the blocks of the activation that have channels of the group. */
static void put_block(const split *k, const activation *a, int64_t group, const char *copy,
                      char *all, int64_t image, int64_t block)
{
    int64_t begin = group * a->group_channels, end = begin + a->group_channels;
    int64_t first = block * k->b > begin ? 0 : begin - block * k->b;
    int64_t last = end - block * k->b < k->b ? end - block * k->b : k->b;
    bool pads = group + 1 == k->groups; /* what follows is padding */
    size_t plane = (size_t)(a->pixels * k->b) * k->size;
    /* The channel of the group in lane 0, before its first one where it begins in the block. */
    int64_t channel = block * k->b - begin, lane = (channel % k->b + k->b) % k->b;
    int64_t from = (channel - lane) / k->b;
    const char *of_image = copy + (size_t)(image * a->group_blocks) * plane;
    const char *low = of_image + (size_t)(from < 0 ? 0 : from) * plane;
    bool has_next = from + 1 < a->group_blocks;
    const char *high = has_next ? of_image + (size_t)(from + 1) * plane : low;
    yki_lanes_select(all + (size_t)(image * a->blocks + block) * plane, low, high, a->pixels, lane,
                     first, last, pads ? k->b : last, k->size);
}

static void take(const split *k, const activation *a, int64_t group, const void *all, char *copy)
{
#pragma omp parallel for num_threads(k->team) if (k->team > 1)
    for (int64_t unit = 0; unit < a->images * a->group_blocks; unit++)
        take_block(k, a, group, all, copy, unit);
}

static void put(const split *k, const activation *a, int64_t group, const char *copy, void *all)
{
    int64_t begin = group * a->group_channels / k->b;
    int64_t end = ((group + 1) * a->group_channels + k->b - 1) / k->b, count = end - begin;
#pragma omp parallel for num_threads(k->team) if (k->team > 1)
    for (int64_t unit = 0; unit < a->images * count; unit++)
        put_block(k, a, group, copy, all, unit / count, begin + unit % count);
}

/* ---- preparation ----------------------------------------------------------------------------- */

/* An activation's operand, or that of the weights or of the bias, becomes that of a group. */
static void take_group(yki_operand *operand, int64_t groups)
{
    int channels = operand->ndim == 4 && operand->layout == YKI_BLOCKED ? 1 : 0;
    if (operand->ndim >= 0)
        operand->dims[channels] /= groups;
}

/* The convolution of a group. */
static yki_kernel_desc of_a_group(const yki_kernel_desc *desc, yki_attrs *attrs)
{
    yki_kernel_desc inner = *desc;
    *attrs = *desc->attrs;
    attrs->groups = 1;
    inner.attrs = attrs;
    if (desc->op == &yki_op_conv2d)
        inner.out_count = 1; /* without sums */
    for (int i = 0; i < inner.in_count; i++)
        take_group(&inner.in[i], desc->attrs->groups);
    for (int i = 0; i < inner.out_count; i++)
        take_group(&inner.out[i], desc->attrs->groups);
    return inner;
}

static bool split_supports(const yki_device *device, const yki_kernel_desc *desc)
{
    yki_kernel_desc copy = *desc;
    yki_conv_activations of = yki_conv_activations_of(&copy);
    int64_t groups = desc->attrs->groups;
    return device->block == YKI_LANES && groups > 1 && of.first->layout == YKI_BLOCKED &&
           yki_alike(of.first, of.second) && of.first->dims[1] >= LEAST_CHANNELS * groups &&
           of.second->dims[1] >= LEAST_CHANNELS * groups;
}

/*
 * Winograd's algorithm for each group: oneDNN has direct kernels only for several groups. Where
 * none has the algorithm for one group either, as for a few small images, this is up to a tenth
 * slower, and a third for images of 4x4.
 */
static bool wants_winograd(const yki_device *device, const yki_kernel_desc *desc)
{
    yki_kernel_desc copy = *desc;
    yki_conv_activations of = yki_conv_activations_of(&copy);
    bool weighs = desc->op == &yki_op_conv2d_backward_weight;
    const yki_operand *weight = weighs ? &desc->out[0] : &desc->in[1];
    int64_t least = WINOGRAD_CHANNELS * desc->attrs->groups;
    return ((const yki_cpu_device *)device)->winograd && of.first->dtype == YK_F32 &&
           weight->dims[2] == SIDE && weight->dims[3] == SIDE && desc->attrs->stride == 1 &&
           desc->attrs->dilation == 1 && of.first->dims[1] >= least && of.second->dims[1] >= least;
}

static bool split_gains(const yki_device *device, const yki_kernel_desc *desc)
{
    return wants_winograd(device, desc) || yki_conv_lacks_kernel(device, desc);
}

static activation describe(split *k, const yki_device *device, const yki_operand *all,
                           const yki_operand *of_group)
{
    yki_geometry g = yki_geometry_of(device, all), copy = yki_geometry_of(device, of_group);
    activation a = {.images = g.images,
                    .blocks = g.blocks,
                    .pixels = g.pixels,
                    .group_channels = copy.channels,
                    .group_blocks = copy.blocks,
                    .at = k->base.scratch};
    k->base.scratch += yki_align(yki_operand_bytes(device, of_group), YKI_ALIGNMENT);
    return a;
}

static void split_destroy(yki_kernel *kernel)
{
    yki_kernel_destroy(((split *)kernel)->inner);
    free(kernel);
}

static yk_status split_prepare(yki_device *device, const yki_kernel_desc *desc, yki_kernel **kernel)
{
    split *k = yki_calloc(1, sizeof *k);
    if (!k)
        return yki_error_memory(sizeof *k, "a convolution");
    yki_kernel_desc inner = of_a_group(desc, &k->attrs);
    bool weighs = desc->op == &yki_op_conv2d_backward_weight;
    const yki_operand *weight = weighs ? &inner.out[0] : &inner.in[1];
    yk_status status = yki_kernel_create(device, &inner, &k->inner);
    if (status != YK_OK) {
        split_destroy(&k->base);
        return status;
    }
    k->groups = desc->attrs->groups;
    k->b = device->block;
    k->size = yk_dtype_size(desc->in[0].dtype);
    k->inputs = weighs ? 2 : 1;
    k->in[0] = describe(k, device, &desc->in[0], &inner.in[0]);
    if (weighs)
        k->in[1] = describe(k, device, &desc->in[1], &inner.in[1]);
    else
        k->out = describe(k, device, &desc->out[0], &inner.out[0]);
    k->weight_bytes = yki_operand_bytes(device, weight);
    k->bias_bytes = (size_t)weight->dims[0] * sizeof(float);
    k->has_bias = desc->op == &yki_op_conv2d && yki_has_in(desc, YKI_CONV2D_BIAS);
    k->has_dbias = weighs && yki_has_out(desc, YKI_CONV2D_BACKWARD_WEIGHT_DBIAS);
    k->inner_scratch = k->base.scratch;
    k->base.scratch += k->inner->scratch;
    k->base.pack_input = k->inner->pack_input;
    k->base.pack_bytes = yki_align(k->inner->pack_bytes, YKI_ALIGNMENT) * (size_t)k->groups;
    k->base.flop = k->inner->flop * (double)k->groups;
    k->base.matrix_unit = k->inner->matrix_unit;
    k->team = yki_team(device, k->in[0].images * k->in[0].pixels * k->in[0].group_channels);
    *kernel = &k->base;
    return YK_OK;
}

/* ---- running --------------------------------------------------------------------------------- */

static yk_status split_pack(const yki_kernel *kernel, const void *parameter, void *packed,
                            yki_stream *stream)
{
    const split *k = (const split *)kernel;
    size_t step = k->base.pack_bytes / (size_t)k->groups;
    for (int64_t group = 0; group < k->groups; group++)
        YK_TRY(k->inner->impl->pack(k->inner,
                                    (const char *)parameter + (size_t)group * k->weight_bytes,
                                    (char *)packed + (size_t)group * step, stream));
    return YK_OK;
}

static void *shifted(void *memory, int64_t group, size_t step)
{
    return (char *)memory + (size_t)group * step;
}

static yk_status run_group(const split *k, const yki_kernel_args *run, int64_t group)
{
    char *scratch = run->scratch;
    bool weighs = k->inputs == 2;
    size_t packed = k->base.pack_bytes / (size_t)k->groups;
    void *in[YKI_MAX_IN] = {NULL}, *out[YKI_MAX_OUT] = {NULL};
    yki_kernel_args inner = *run;
    inner.in = in;
    inner.out = out;
    inner.scratch = scratch + k->inner_scratch;
    for (int i = 0; i < k->inputs; i++) {
        in[i] = scratch + k->in[i].at;
        take(k, &k->in[i], group, run->in[i], in[i]);
    }
    if (weighs) {
        out[0] = shifted(run->out[0], group, k->weight_bytes);
        if (k->has_dbias)
            out[1] = shifted(run->out[1], group, k->bias_bytes);
        return k->inner->impl->run(k->inner, &inner);
    }
    in[1] = shifted(run->in[1], group, packed ? packed : k->weight_bytes);
    if (k->has_bias)
        in[2] = shifted(run->in[2], group, k->bias_bytes);
    out[0] = scratch + k->out.at;
    YK_TRY(k->inner->impl->run(k->inner, &inner));
    put(k, &k->out, group, out[0], run->out[0]);
    return YK_OK;
}

static yk_status split_run(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const split *k = (const split *)kernel;
    for (int64_t group = 0; group < k->groups; group++)
        YK_TRY(run_group(k, run, group));
    return YK_OK;
}

#define SPLIT(which)                                                                               \
    const yki_kernel_impl yki_cpu_##which##_split = {.op = &yki_op_##which,                        \
                                                     .name = "split",                              \
                                                     .supports = split_supports,                   \
                                                     .gains = split_gains,                         \
                                                     .prepare = split_prepare,                     \
                                                     .run = split_run,                             \
                                                     .destroy = split_destroy,                     \
                                                     .pack = split_pack}
SPLIT(conv2d);
SPLIT(conv2d_backward_data);
SPLIT(conv2d_backward_weight);
#endif

/*
 * Convolutions whose groups do not fill vectors, such as RegNet's of 24 channels or ShuffleNet's of
 * 20: oneDNN has only its reference implementation for them. Each group is one convolution of its
 * own, by any other kernel, on a copy of its channels (AVX-512 only). So are wide groups in f32 for
 * which Winograd's algorithm saves more than the copies take.
 *
 * A vector of the copy has channels of two neighbouring blocks of the activation, and the other way
 * round, so every vector is selected from two. Padding stays zero.
 *
 * Each thread takes whole groups and has a kernel of its own, made for one thread, so that its
 * copies stay in its cache and threads wait for each other only at the end. If that would leave
 * threads idle, all of them work on one group at a time. Both ways give the same bits, unless the
 * groups' kernel is oneDNN's, whose bits may depend on the number of threads.
 */
#include <stdlib.h>

#include "base/error.h"
#include "base/memory.h"
#include "device/cpu/geometry.h"
#include "device/cpu/onednn.h"
#include "device/cpu/x86/lanes.h"

enum {
    LEAST_CHANNELS = 5, /* of a group: in f32, plain copies of fewer take less time */
    WINOGRAD_CHANNELS = 32,
    SIDE = 3
};

/* An activation, of which a group's channels are copied. */
typedef struct activation {
    int64_t images, blocks, pixels; /* of all groups */
    int64_t group_channels, group_blocks;
    size_t at; /* the copy, in a worker's scratch */
} activation;

/* Computes groups, one after the other. */
typedef struct worker {
    dnnl_stream_t stream;
    yki_kernel *inner; /* the convolution of a group */
} worker;

typedef struct split {
    yki_kernel base;
    int workers, team; /* which take groups from a shared counter, and the threads of each */
    worker *of_thread;
    yki_attrs attrs; /* of a group's convolution */
    int64_t groups, b;
    size_t size;           /* of an activation's element */
    activation in[2], out; /* BACKWARD_WEIGHT has two inputs and no output */
    int inputs;
    bool has_bias, has_dbias;
    size_t weight_bytes, bias_bytes; /* of a group */
    size_t inner_scratch;            /* where that of the convolution begins ... */
    size_t worker_scratch;           /* ... in so much of a worker */
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
           weight->dims[2] == SIDE && weight->dims[3] == SIDE && yki_is_square(desc->attrs) &&
           desc->attrs->stride[0] == 1 && desc->attrs->dilation[0] == 1 &&
           of.first->dims[1] >= least && of.second->dims[1] >= least;
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
                    .at = k->worker_scratch};
    k->worker_scratch += yki_align(yki_operand_bytes(device, of_group), YKI_SCRATCH_ALIGNMENT);
    return a;
}

/* How many threads take groups: all, unless an eighth of them or more would have no work, as in the
 * last round of a few. */
static int workers_of(int64_t groups, int threads)
{
    int64_t rounds = (groups + threads - 1) / threads;
    return 8 * groups >= 7 * rounds * threads ? threads : 1;
}

/* A worker's kernel is the first one's, for the same number of threads: all read the same packed
 * weights. */
static yk_status create_inner(const split *k, yki_device *device, const yki_kernel_desc *desc,
                              yki_kernel **inner)
{
    const yki_kernel *first = k->of_thread[0].inner;
    if (!first)
        return yki_kernel_create(device, desc, inner);
    YK_TRY(first->impl->prepare(device, desc, inner));
    (*inner)->impl = first->impl;
    return YK_OK;
}

/* Meanwhile, the device has the worker's threads and its stream. */
static yk_status prepare_worker(const split *k, yki_device *device, const yki_kernel_desc *desc,
                                worker *w)
{
    yki_cpu_device *cpu = (yki_cpu_device *)device;
    YKI_DNN(dnnl_stream_create(&w->stream, cpu->engine, dnnl_stream_default_flags));
    dnnl_stream_t stream = cpu->stream;
    const int threads = device->threads, most = omp_get_max_threads();
    cpu->stream = w->stream;
    device->threads = k->team;
    omp_set_num_threads(k->team);
    yk_status status = create_inner(k, device, desc, &w->inner);
    omp_set_num_threads(most);
    device->threads = threads;
    cpu->stream = stream;
    return status;
}

static yk_status prepare_workers(split *k, yki_device *device, const yki_kernel_desc *desc)
{
    k->workers = workers_of(k->groups, device->threads);
    k->team = device->threads / k->workers;
    k->of_thread = yki_calloc((size_t)k->workers, sizeof *k->of_thread);
    if (!k->of_thread)
        return yki_error_memory((size_t)k->workers * sizeof *k->of_thread, "a convolution");
    for (int i = 0; i < k->workers; i++)
        YK_TRY(prepare_worker(k, device, desc, &k->of_thread[i]));
    return YK_OK;
}

static void split_destroy(yki_kernel *kernel)
{
    split *k = (split *)kernel;
    for (int i = 0; k->of_thread && i < k->workers; i++) {
        yki_kernel_destroy(k->of_thread[i].inner);
        if (k->of_thread[i].stream)
            dnnl_stream_destroy(k->of_thread[i].stream);
    }
    free(k->of_thread);
    free(k);
}

/* What the kernel shares with those of its workers. */
static void describe_kernel(split *k)
{
    const yki_kernel *inner = k->of_thread[0].inner;
    k->inner_scratch = k->worker_scratch;
    k->worker_scratch += yki_align(inner->scratch, YKI_SCRATCH_ALIGNMENT);
    k->base.scratch = (size_t)k->workers * k->worker_scratch;
    k->base.pack_input = inner->pack_input;
    k->base.pack_bytes = yki_align(inner->pack_bytes, YKI_ALIGNMENT) * (size_t)k->groups;
    k->base.flop = inner->flop * (double)k->groups;
    k->base.matrix_unit = inner->matrix_unit;
}

static yk_status split_prepare(yki_device *device, const yki_kernel_desc *desc, yki_kernel **kernel)
{
    split *k = yki_calloc(1, sizeof *k);
    if (!k)
        return yki_error_memory(sizeof *k, "a convolution");
    yki_kernel_desc inner = of_a_group(desc, &k->attrs);
    bool weighs = desc->op == &yki_op_conv2d_backward_weight;
    const yki_operand *weight = weighs ? &inner.out[0] : &inner.in[1];
    k->groups = desc->attrs->groups;
    yk_status status = prepare_workers(k, device, &inner);
    if (status != YK_OK) {
        split_destroy(&k->base);
        return status;
    }
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
    describe_kernel(k);
    *kernel = &k->base;
    return YK_OK;
}

/* ---- running --------------------------------------------------------------------------------- */

static void *shifted(const void *memory, int64_t index, size_t step)
{
    return (char *)(uintptr_t)memory + (size_t)index * step;
}

static size_t packed_bytes(const split *k)
{
    return k->base.pack_bytes / (size_t)k->groups;
}

/* What a worker does for a group. */
typedef yk_status group_fn(const split *k, const worker *w, const void *argument, int64_t group);

static yk_status for_all_groups(const split *k, group_fn *of_group, const void *argument)
{
    yk_status result = YK_OK;
    if (k->workers == 1) {
        /* Not in a parallel region, where OpenMP would restart a kernel's threads each time. */
        for (int64_t group = 0; group < k->groups; group++)
            YK_TRY(of_group(k, k->of_thread, argument, group));
        return YK_OK;
    }
#pragma omp parallel for num_threads(k->workers) schedule(dynamic)
    for (int64_t group = 0; group < k->groups; group++) {
        yk_status status = of_group(k, &k->of_thread[omp_get_thread_num()], argument, group);
        if (status != YK_OK) {
#pragma omp atomic write
            result = status;
        }
    }
    /* The thread's own line is lost with the thread. */
    return result == YK_OK ? YK_OK : yki_error(result, "a group cannot be convolved");
}

typedef struct packing {
    const void *parameter;
    void *packed;
} packing;

static yk_status pack_group(const split *k, const worker *w, const void *argument, int64_t group)
{
    const packing *p = argument;
    return w->inner->impl->pack(w->inner, shifted(p->parameter, group, k->weight_bytes),
                                shifted(p->packed, group, packed_bytes(k)), NULL);
}

static yk_status split_pack(const yki_kernel *kernel, const void *parameter, void *packed,
                            yki_stream *stream)
{
    (void)stream;
    return for_all_groups((const split *)kernel, pack_group, &(packing){parameter, packed});
}

static bool split_same_pack(const yki_kernel *kernel, const yki_kernel *other)
{
    const split *a = (const split *)kernel, *b = (const split *)other;
    return yki_kernels_share_pack(a->of_thread[0].inner, b->of_thread[0].inner);
}

static yk_status run_group(const split *k, const worker *w, const void *argument, int64_t group)
{
    const yki_kernel_args *run = argument;
    char *scratch = shifted(run->scratch, w - k->of_thread, k->worker_scratch);
    bool weighs = k->inputs == 2;
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
        return w->inner->impl->run(w->inner, &inner);
    }
    in[1] = shifted(run->in[1], group, k->base.pack_bytes ? packed_bytes(k) : k->weight_bytes);
    if (k->has_bias)
        in[2] = shifted(run->in[2], group, k->bias_bytes);
    out[0] = scratch + k->out.at;
    YK_TRY(w->inner->impl->run(w->inner, &inner));
    put(k, &k->out, group, out[0], run->out[0]);
    return YK_OK;
}

static yk_status split_run(const yki_kernel *kernel, const yki_kernel_args *run)
{
    return for_all_groups((const split *)kernel, run_group, run);
}

#define SPLIT(which)                                                                               \
    const yki_kernel_impl yki_cpu_##which##_split = {.op = &yki_op_##which,                        \
                                                     .name = "split",                              \
                                                     .supports = split_supports,                   \
                                                     .gains = split_gains,                         \
                                                     .prepare = split_prepare,                     \
                                                     .run = split_run,                             \
                                                     .destroy = split_destroy,                     \
                                                     .pack = split_pack,                           \
                                                     .same_pack = split_same_pack}
SPLIT(conv2d);
SPLIT(conv2d_backward_data);
SPLIT(conv2d_backward_weight);

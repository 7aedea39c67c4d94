/*
 * concat, slice and pad. Along channels they are between any layouts: a value with few channels is
 * plain while the result is blocked, and a value's channels may begin within a block. Whole blocks
 * are copied as they are, other channels one by one; padding channels are written as zeros. Plain
 * values, and blocked ones along other dimensions, are copied in runs of memory.
 */
#include <string.h>

#include "base/memory.h"
#include "device/cpu/geometry.h"
#include "device/cpu/units.h"

typedef struct concat {
    yki_kernel base;
    yki_geometry in[YKI_MAX_IN], out;
    int inputs;    /* that are there */
    int64_t first; /* slice: the place in the input where it begins; pad: in the result */
    size_t size;   /* of an element */
    int64_t parts; /* of an image ... */
    int64_t part;  /* ... of so many channels, in whole blocks, but for the last part */
    int64_t grain; /* parts that a thread takes at a time */
    int team;
} concat;

static bool concat_supports(const yki_device *device, const yki_kernel_desc *desc)
{
    (void)device;
    bool good = yki_is_float(&desc->out[0]);
    for (int i = 0; i < desc->in_count && yki_has_in(desc, i); i++)
        good = good && desc->in[i].dtype == desc->out[0].dtype;
    return good;
}

/*
 * Of any number of dimensions. Where memory need not be read in blocks of channels, "channels" are
 * the places in dimension dim, "images" what lies before it, and "pixels" what lies within it.
 */
static yki_geometry geometry_of(const yki_device *device, const yki_operand *x, int64_t dim)
{
    yki_geometry blocked = yki_geometry_of(device, x);
    if (dim == 1 && blocked.b > 1)
        return blocked;
    yki_geometry g = {.images = 1, .pixels = blocked.b, .b = 1};
    for (int64_t i = 0; i < x->ndim; i++) {
        int64_t size = i == 1 ? blocked.blocks : x->dims[i];
        g.images *= i < dim ? size : 1;
        g.pixels *= i > dim ? size : 1;
    }
    g.channels = g.blocks = x->dims[dim];
    return g;
}

/* Where images are few, as along dimension 0, threads share them. */
static void divide(concat *k)
{
    enum { SHARES = 4 /* of a thread */ };
    const yki_geometry *g = &k->out;
    const int64_t images = g->images > 0 ? g->images : 1;
    const int64_t wanted = k->team > 1 ? (SHARES * k->team + images - 1) / images : 1;
    const int64_t blocks = (g->blocks + wanted - 1) / wanted;
    k->part = blocks * g->b;
    k->parts = (g->blocks + blocks - 1) / blocks;
    k->grain = yki_grain(g->images * k->parts, k->part * g->pixels, k->team);
}

static yk_status concat_prepare(yki_device *device, const yki_kernel_desc *desc,
                                yki_kernel **kernel)
{
    concat *k = yki_calloc(1, sizeof *k);
    if (!k)
        return yki_error_memory(sizeof *k, "a concat kernel");
    for (; yki_has_in(desc, k->inputs); k->inputs++)
        k->in[k->inputs] = geometry_of(device, &desc->in[k->inputs], desc->attrs->dim);
    k->out = geometry_of(device, &desc->out[0], desc->attrs->dim);
    k->first = desc->op == &yki_op_concat ? 0 : desc->attrs->first;
    k->size = yk_dtype_size(desc->out[0].dtype);
    k->team = yki_team(device, yki_operand_elements(device, &desc->out[0]));
    divide(k);
    *kernel = &k->base;
    return YK_OK;
}

/* The first element of a channel of an image; its pixels are b apart. */
static int64_t place(const yki_geometry *g, int64_t image, int64_t channel)
{
    return (image * g->blocks + channel / g->b) * g->pixels * g->b + channel % g->b;
}

#define STRIDED_COPY(TYPE)                                                                         \
    static void copy_##TYPE(TYPE *restrict y, int64_t step, const TYPE *restrict x, int64_t from,  \
                            int64_t count)                                                         \
    {                                                                                              \
        for (int64_t i = 0; i < count; i++)                                                        \
            y[i * step] = x[i * from];                                                             \
    }
STRIDED_COPY(uint16_t)
STRIDED_COPY(uint32_t)

static void copy_channel(const concat *k, const yki_geometry *in, const char *x, int64_t from,
                         char *y, int64_t to, int64_t image)
{
    int64_t source = place(in, image, from), target = place(&k->out, image, to);
    if (k->size == 2)
        copy_uint16_t((uint16_t *)(void *)y + target, k->out.b,
                      (const uint16_t *)(const void *)x + source, in->b, in->pixels);
    else
        copy_uint32_t((uint32_t *)(void *)y + target, k->out.b,
                      (const uint32_t *)(const void *)x + source, in->b, in->pixels);
}

enum { LINE = 64, LEAST_LINES = 8, MOST_LINES = 64 };

/*
 * A run of a plain value. Memory that is not in a cache arrives sooner if runs of some lines are
 * not left to memcpy, and if the run of the next image, `ahead` bytes after this one, is fetched
 * meanwhile: the processor's own prefetching does not follow short runs of several inputs in turn.
 * To fetch memory that is not there does no harm.
 */
static void copy_run(char *restrict y, const char *restrict x, size_t bytes, size_t ahead)
{
    size_t at = 0;
    if (bytes >= LEAST_LINES * LINE && bytes <= MOST_LINES * LINE)
        for (; at + LINE <= bytes; at += LINE) {
            memcpy(y + at, x + at, LINE);
            __builtin_prefetch(x + at + ahead);
        }
    memcpy(y + at, x + at, bytes - at);
}

/* Channels from `from` of x to `to` of y, in one image. */
static void copy_channels(const concat *k, const yki_geometry *in, const char *x, int64_t from,
                          char *y, int64_t to, int64_t channels, int64_t image)
{
    int64_t b = k->out.b, c = 0;
    if (b == 1 && in->b == 1) {
        copy_run(y + (size_t)place(&k->out, image, to) * k->size,
                 x + (size_t)place(in, image, from) * k->size,
                 (size_t)(channels * in->pixels) * k->size,
                 (size_t)(in->channels * in->pixels) * k->size);
        return;
    }
    bool aligned = in->b == b && from % b == 0 && to % b == 0;
    size_t block = (size_t)(b * in->pixels) * k->size;
    for (; aligned && c + b <= channels; c += b)
        memcpy(y + (size_t)place(&k->out, image, to + c) * k->size,
               x + (size_t)place(in, image, from + c) * k->size, block);
    for (; c < channels; c++)
        copy_channel(k, in, x, from + c, y, to + c, image);
}

/* Sets channels of an image to zero, in whole blocks. */
static void clear_blocks(const concat *k, char *y, int64_t image, int64_t begin, int64_t end)
{
    const yki_geometry *g = &k->out;
    const int64_t first = begin / g->b, last = (end + g->b - 1) / g->b;
    const size_t block = (size_t)(g->pixels * g->b) * k->size;
    if (first < last)
        memset(y + (size_t)(image * g->blocks + first) * block, 0, (size_t)(last - first) * block);
}

/* Sets the channels of an image's last block that are none to zero. */
static void clear_padding(const concat *k, char *y, int64_t image)
{
    const yki_geometry *g = &k->out;
    int64_t used = g->channels % g->b, first = ((image + 1) * g->blocks - 1) * g->pixels;
    for (int64_t pixel = 0; used && pixel < g->pixels; pixel++)
        memset(y + (size_t)((first + pixel) * g->b + used) * k->size, 0,
               (size_t)(g->b - used) * k->size);
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Channels [begin, end) of an image of the result. */
typedef void part_fn(const concat *k, const yki_kernel_args *run, int64_t image, int64_t begin,
                     int64_t end);

static void concat_part(const concat *k, const yki_kernel_args *run, int64_t image, int64_t begin,
                        int64_t end)
{
    int64_t to = 0;
    if (end == k->out.channels)
        clear_padding(k, run->out[0], image);
    for (int i = 0; i < k->inputs; i++) {
        const int64_t channels = k->inputs == 1 ? k->out.channels : k->in[i].channels;
        const int64_t from = most(begin - to, 0), until = least(end - to, channels);
        if (from < until)
            copy_channels(k, &k->in[i], run->in[i], k->first + from, run->out[0], to + from,
                          until - from, image);
        to += channels;
    }
}

static void pad_part(const concat *k, const yki_kernel_args *run, int64_t image, int64_t begin,
                     int64_t end)
{
    const int64_t from = most(k->first, begin), until = least(k->first + k->in[0].channels, end);
    if (from >= until) {
        clear_blocks(k, run->out[0], image, begin, end);
        return;
    }
    clear_blocks(k, run->out[0], image, begin, from);
    clear_blocks(k, run->out[0], image, until, end);
    copy_channels(k, &k->in[0], run->in[0], from - k->first, run->out[0], from, until - from,
                  image);
}

static yk_status each_part(const yki_kernel *kernel, const yki_kernel_args *run, part_fn *body)
{
    const concat *k = (const concat *)kernel;
    const yki_geometry *g = &k->out;
    yki_units parts;
    yki_units_divide(&parts, g->images * k->parts, k->grain, k->team);
#pragma omp parallel num_threads(k->team) if (k->team > 1)
    for (int64_t i = -1; (i = yki_units_next(&parts, i)) >= 0;) {
        const int64_t image = i / k->parts, begin = (i - image * k->parts) * k->part;
        body(k, run, image, begin, least(begin + k->part, g->channels));
    }
    return YK_OK;
}

static yk_status concat_run(const yki_kernel *kernel, const yki_kernel_args *run)
{
    return each_part(kernel, run, concat_part);
}

static yk_status pad_run(const yki_kernel *kernel, const yki_kernel_args *run)
{
    return each_part(kernel, run, pad_part);
}

const yki_kernel_impl yki_cpu_concat = {.op = &yki_op_concat,
                                        .supports = concat_supports,
                                        .prepare = concat_prepare,
                                        .run = concat_run};
const yki_kernel_impl yki_cpu_slice = {
    .op = &yki_op_slice, .supports = concat_supports, .prepare = concat_prepare, .run = concat_run};
const yki_kernel_impl yki_cpu_pad = {
    .op = &yki_op_pad, .supports = concat_supports, .prepare = concat_prepare, .run = pad_run};

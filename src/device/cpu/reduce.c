/*
 * reduce, which sums a gradient, or its products with a factor, over what was broadcast, sum, and
 * reduce_loss, along the axes of broadcast_axes.h. Sums are made in double, of parts that depend on
 * shapes alone and in their order.
 */
#include <string.h>

#include "base/memory.h"
#include "device/cpu/broadcast_axes.h"
#include "device/cpu/geometry.h"
#include "device/cpu/loops/loops.h"
#include "device/cpu/loops/scalar.h"
#include "device/cpu/units.h"

enum {
    CHUNK = 1024,         /* sums that are made at a time */
    PIXELS = 256,         /* or those of whole pixels */
    WIDE = 64,            /* sums that are made beside each other where there are few */
    MOST_BESIDE = 16,     /* and those of a result */
    UNITS = 64,           /* of sums, to be shared by threads */
    PART_ELEMENTS = 4096, /* of a part at least */
    LEAST_SHARED = 16384, /* sums of parts, which threads add together */
    AHEAD = 8192          /* bytes that are fetched in advance */
};

typedef struct reduction {
    yki_kernel base;
    const yki_device *device;
    const yki_cpu_loops *loops;
    yki_operand out;
    yk_dtype dtype;
    size_t size; /* of an element */
    int team;
    yki_axes axes;
    bool is_product, is_far; /* far: terms come from memory */
    double factor;           /* 1, or for a mean 1 / the number of terms */
    /* A unit is some sums next to each other, in parts along an axis. */
    int part_axis;
    int64_t chunk, length, chunks, units, parts; /* chunk: numbers; length: sums of them */
    int64_t grain;                               /* parts of units that a thread takes at a time */
    int64_t lanes;  /* next to each other that a result is the sum of; else 1 */
    int64_t beside; /* sums of a result: of its lanes, or 1 if these are added at once */
} reduction;

static bool is_product(const yki_kernel_desc *desc)
{
    return desc->op == &yki_op_reduce && desc->in[YKI_REDUCE_FACTOR].ndim >= 0;
}

/* A factor lies in memory like dy. */
static bool supports(const yki_device *device, const yki_kernel_desc *desc)
{
    (void)device;
    return yki_axes_known(desc, &desc->in[0]) &&
           (!is_product(desc) ||
            desc->in[YKI_REDUCE_FACTOR].layout == desc->in[YKI_REDUCE_DY].layout);
}

static double factor_of(const yki_kernel_desc *desc)
{
    if (desc->op != &yki_op_reduce_loss || desc->attrs->reduction != YK_LOSS_MEAN)
        return 1;
    return (double)yki_operand_count(&desc->out[0]) / (double)yki_operand_count(&desc->in[0]);
}

static bool is_summed(const yki_axis *x)
{
    return x->stride[YKI_SIDE_Y] == 0 && x->size > 1;
}

/* Parts where there are few units: along the first axis that is summed and long enough, or else the
 * longest one. */
static void divide_sums(reduction *k, int64_t elements)
{
    int64_t longest = 1, most = elements / k->units / PART_ELEMENTS;
    int64_t wanted = k->units < UNITS / 2 ? (UNITS + k->units - 1) / k->units : 1;
    k->part_axis = -1;
    for (int d = 0; d < k->axes.count && longest < wanted; d++)
        if (is_summed(&k->axes.axis[d]) && k->axes.axis[d].size > longest) {
            longest = k->axes.axis[d].size;
            k->part_axis = d;
        }
    k->parts = wanted < longest ? wanted : longest;
    k->parts = k->parts < most ? k->parts : most < 1 ? 1 : most;
}

/* Where they are a vector. This reads rows of pixels in turns, which is slower than one after the
 * other if they come from memory and vectors are narrower than lines of the cache. */
static bool adds_lanes_at_once(const reduction *k)
{
    enum { LINE = 16 };
    return 2 * k->lanes == k->loops->pack && (k->lanes == LINE || !k->is_far);
}

/* Sums over channels, but not over pixels: the lanes of a pixel are added at once, or else
 * summed like those of all pixels, and their sums are added in the end. Lanes
 * without a channel may hold anything. */
static void keep_lanes_apart(reduction *k)
{
    yki_axis *last = &k->axes.axis[k->axes.count - 1], *pixels = last - 1;
    k->lanes = k->beside = 1;
    if (k->axes.count < 2 || k->axes.block_axis >= 0 || !is_summed(last) || is_summed(pixels) ||
        pixels->stride[YKI_SIDE_A] != last->size || CHUNK % last->size != 0 ||
        last->size > MOST_BESIDE)
        return;
    k->lanes = last->size;
    k->beside = adds_lanes_at_once(k) ? 1 : k->lanes;
    pixels->size *= last->size;
    pixels->stride[YKI_SIDE_A] = 1;
    k->axes.count--;
}

static yk_status prepare(yki_device *device, const yki_kernel_desc *desc, yki_kernel **kernel)
{
    reduction *k = yki_calloc(1, sizeof *k);
    if (!k)
        return yki_error_memory(sizeof *k, "a summing kernel");
    const yki_operand *large = &desc->in[0];
    k->device = device;
    k->loops = yki_cpu_loops_of(device);
    k->out = desc->out[0];
    k->dtype = large->dtype;
    k->size = yk_dtype_size(large->dtype);
    k->team = yki_team(device, yki_operand_elements(device, large));
    k->axes = yki_axes_of(device, desc, large);
    k->is_product = is_product(desc);
    k->is_far = yki_exceed_caches(device, large, large);
    k->factor = factor_of(desc);
    keep_lanes_apart(k);
    const yki_axis *last = &k->axes.axis[k->axes.count - 1];
    int64_t size = is_summed(last) ? 1 : last->size;
    k->chunk = k->lanes > k->beside ? PIXELS * k->lanes : CHUNK;
    k->length = (size < k->chunk ? size : k->chunk) * k->beside / k->lanes;
    k->chunks = k->units = (size + k->chunk - 1) / k->chunk;
    for (int d = 0; d < k->axes.count - 1; d++)
        k->units *= is_summed(&k->axes.axis[d]) ? 1 : k->axes.axis[d].size;
    divide_sums(k, yki_operand_elements(device, &desc->in[0]));
    const int64_t pieces = k->units * k->parts;
    k->grain = yki_grain(pieces, yki_operand_elements(device, large) / (pieces + 1), k->team);
    if (k->parts > 1)
        k->base.scratch = (size_t)(k->units * k->parts * k->length) * sizeof(double);
    *kernel = &k->base;
    return YK_OK;
}

/* Numbers next to each other, where they and their sums begin, and how many of both there are. */
typedef struct unit {
    int64_t from, to, count, sums;
    int64_t begin, end; /* of the axis of parts */
} unit;

/* What is summed: the first alone, or products. */
typedef struct terms {
    const char *dy, *factor;
} terms;

static terms terms_at(const reduction *k, const terms *from, int64_t place)
{
    const int64_t offset = place * (int64_t)k->size;
    return (terms){from->dy + offset, from->factor ? from->factor + offset : NULL};
}

static unit unit_at(const reduction *k, int64_t number, int64_t part)
{
    const yki_axis *last = &k->axes.axis[k->axes.count - 1];
    int64_t chunk = number % k->chunks * k->chunk, place = number / k->chunks, block = 0;
    unit u = {
        chunk * last->stride[YKI_SIDE_A], chunk / k->lanes * last->stride[YKI_SIDE_Y], 1, 1, 0, 1};
    for (int d = k->axes.count - 2; d >= 0; d--) {
        int64_t size = is_summed(&k->axes.axis[d]) ? 1 : k->axes.axis[d].size, i = place % size;
        place /= size;
        u.from += i * k->axes.axis[d].stride[YKI_SIDE_A];
        u.to += i * k->axes.axis[d].stride[YKI_SIDE_Y];
        block = d == k->axes.block_axis ? i : block;
    }
    if (!is_summed(last)) {
        int64_t left = yki_axes_lanes(&k->axes, block) - chunk;
        u.count = left < k->chunk ? left : k->chunk;
        u.sums = u.count * k->beside / k->lanes;
    }
    if (k->part_axis >= 0) {
        u.begin = k->axes.axis[k->part_axis].size * part / k->parts;
        u.end = k->axes.axis[k->part_axis].size * (part + 1) / k->parts;
    }
    return u;
}

/* Rows that are short and next to each other are added as long ones, to several sums for each. */
static void sum_rows(const reduction *k, terms of, int64_t rows, int64_t stride, int64_t count,
                     double *sums)
{
    int64_t beside = stride == count ? WIDE / count : 0, rest = beside > 1 ? rows % beside : rows;
    if (beside > 1 && rows > beside) {
        double wide[WIDE] = {0};
        k->loops->sum_rows(k->dtype, of.dy, of.factor, rows / beside, beside * count,
                           beside * count, wide);
        for (int64_t b = 0; b < beside; b++)
            for (int64_t i = 0; i < count; i++)
                sums[i] += wide[b * count + i];
        of = terms_at(k, &of, (rows - rest) * stride);
    } else
        rest = rows;
    k->loops->sum_rows(k->dtype, of.dy, of.factor, rest, stride, count, sums);
}

/*
 * Rows next to each other that come from memory: while some are added, the next ones are fetched.
 * They are read in bursts, in which the processor itself fetches too little in advance. Sums over
 * the columns of images take 0.5 to 0.6 of the time.
 */
static void sum_far_rows(const reduction *k, terms of, int64_t rows, int64_t count, double *sums)
{
    const int64_t row = count * (int64_t)k->size, most = AHEAD / row > 1 ? AHEAD / row : 1;
    for (int64_t begin = 0, end; begin < rows; begin = end) {
        end = rows - begin < most ? rows : begin + most;
        const terms now = terms_at(k, &of, begin * count);
        for (int64_t at = (end - begin) * row; at < 2 * (end - begin) * row; at += YKI_ALIGNMENT) {
            __builtin_prefetch(now.dy + at);
            if (now.factor)
                __builtin_prefetch(now.factor + at);
        }
        sum_rows(k, now, end - begin, count, count, sums);
    }
}

/* Adds all that is summed along axis d and those after it, from element `at` on. */
static void sum_axes(const reduction *k, const unit *u, const terms *all, int d, int64_t at,
                     double *sums)
{
    const yki_axis *x = &k->axes.axis[d], *last = &k->axes.axis[k->axes.count - 1];
    int64_t begin = d == k->part_axis ? u->begin : 0;
    int64_t end = d == k->part_axis ? u->end : is_summed(x) ? x->size : 1;
    const terms of = terms_at(k, all, at + begin * x->stride[YKI_SIDE_A]);
    if (x == last && is_summed(x))
        *sums += k->loops->sum(k->dtype, of.dy, of.factor, end - begin);
    else if (x == last || (x + 1 == last && !is_summed(last))) {
        const int64_t stride = x->stride[YKI_SIDE_A];
        if (k->lanes > k->beside)
            k->loops->sum_pixels(k->dtype, of.dy, of.factor, end - begin, stride,
                                 u->count / k->lanes, sums);
        else if (k->is_far && stride == u->count)
            sum_far_rows(k, of, end - begin, stride, sums);
        else
            sum_rows(k, of, end - begin, stride, u->count, sums);
    } else
        for (int64_t i = begin; i < end; i++)
            sum_axes(k, u, all, d + 1, at + i * x->stride[YKI_SIDE_A], sums);
}

/* Changes the sums. */
static void put_sums(const reduction *k, const unit *u, double *sums, void *dx)
{
    const int64_t stride = k->axes.axis[k->axes.count - 1].stride[YKI_SIDE_Y];
    if (k->beside > 1)
        k->loops->join_sums(sums, k->beside, u->sums / k->beside);
    for (int64_t i = 0; i < u->sums / k->beside; i++)
        yki_put(dx, u->to + i * stride, (float)(sums[i] * k->factor), k->dtype);
}

static void add_parts(const reduction *k, int64_t number, double *partial, void *dx)
{
    unit u = unit_at(k, number, 0);
    double *sums = partial + number * k->parts * k->length;
    for (int64_t part = 1; part < k->parts; part++)
        for (int64_t i = 0; i < u.sums; i++)
            sums[i] += sums[part * k->length + i];
    put_sums(k, &u, sums, dx);
}

static yk_status run_reduction(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const reduction *k = (const reduction *)kernel;
    double *partial = run->scratch;
    const terms all = {run->in[0], k->is_product ? run->in[YKI_REDUCE_FACTOR] : NULL};
    yki_units pieces;
    yki_units_divide(&pieces, k->units * k->parts, k->grain, k->team);
#pragma omp parallel num_threads(k->team) if (k->team > 1)
    for (int64_t i = -1; (i = yki_units_next(&pieces, i)) >= 0;) {
        const int64_t number = i % k->units, part = i / k->units;
        double own[CHUNK], *sums = own;
        unit u = unit_at(k, number, part);
        if (k->parts > 1)
            sums = partial + (number * k->parts + part) * k->length;
        memset(sums, 0, (size_t)u.sums * sizeof *sums);
        sum_axes(k, &u, &all, 0, u.from, sums);
        if (k->parts == 1)
            put_sums(k, &u, sums, run->out[0]);
    }
    const int64_t parts = k->parts > 1 ? k->units : 0;
    const bool many = k->team > 1 && parts * k->parts * k->length >= LEAST_SHARED;
#pragma omp parallel for num_threads(k->team) if (many)
    for (int64_t i = 0; i < parts; i++)
        add_parts(k, i, partial, run->out[0]);
    yki_operand_clear_padding(k->device, &k->out, run->out[0]);
    return YK_OK;
}

#define IMPL(name)                                                                                 \
    const yki_kernel_impl yki_cpu_##name = {                                                       \
        .op = &yki_op_##name, .supports = supports, .prepare = prepare, .run = run_reduction}
IMPL(reduce);
IMPL(sum);
IMPL(reduce_loss);

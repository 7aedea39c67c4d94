/*
 * Operators of two sides where one is broadcast, such as add, and expand, along the axes of
 * broadcast_axes.h. They take pieces of the result. A side that is repeated is written out for a
 * piece, unless it is the same as for the piece before, and then the loops of the element-wise
 * operators run. Products of pixels with a number for all their channels have loops of their own.
 */
#include <string.h>

#include "base/memory.h"
#include "device/cpu/broadcast_axes.h"
#include "device/cpu/geometry.h"
#include "device/cpu/loops/loops.h"
#include "device/cpu/units.h"

enum { PIECE = 2048 /* elements of a result, about */ };

typedef struct broadcast {
    yki_kernel base;
    const yki_device *device;
    const yki_cpu_loops *loops;
    yki_operand out;
    yk_dtype dtype;
    size_t size; /* of an element */
    int team;
    yki_axes axes;
    yki_map_op op;
    double alpha; /* of the operator; of expand, what it multiplies by */
    double beta;
    bool whole[2];  /* sides that are not repeated */
    int of_pixels;  /* the side with a number of each pixel that multiplies a vector, or -1 */
    int piece_axis; /* a piece is some steps of it with all of the axes after it */
    int again_axis; /* of the axes before it, which pieces walk first, or -1: see find_again */
    int64_t inside, steps, pieces, grain;
    bool stream;
} broadcast;

static bool combine_supports(const yki_device *device, const yki_kernel_desc *desc)
{
    (void)device;
    return yki_axes_known(desc, &desc->out[0]);
}

/* Of expand, the gradient of a mean or a sum: 1 / the number of terms, or 1. */
static double factor_of(const yki_kernel_desc *desc)
{
    if (desc->attrs->reduction != YK_LOSS_MEAN)
        return 1;
    return (double)yki_operand_count(&desc->in[0]) / (double)yki_operand_count(&desc->out[0]);
}

/* Whether a side has the result's memory, padding included. */
static bool is_whole(const broadcast *k, yki_side side, const yki_operand *x)
{
    bool whole = k->axes.block_axis < 0 || x->layout == YKI_BLOCKED;
    for (int d = 0; d < k->axes.count; d++)
        whole = whole && k->axes.axis[d].stride[side] == k->axes.axis[d].stride[YKI_SIDE_Y];
    return whole;
}

static yki_map_op map_of(const yki_op *op)
{
    return op == &yki_op_add           ? YKI_MAP_ADD
           : op == &yki_op_subtract    ? YKI_MAP_SUBTRACT
           : op == &yki_op_multiply    ? YKI_MAP_MULTIPLY
           : op == &yki_op_divide      ? YKI_MAP_DIVIDE
           : op == &yki_op_maximum     ? YKI_MAP_MAXIMUM
           : op == &yki_op_minimum     ? YKI_MAP_MINIMUM
           : op == &yki_op_compare     ? YKI_MAP_COMPARE
           : op == &yki_op_masked_fill ? YKI_MAP_MASKED_FILL
                                       : YKI_MAP_SCALE; /* expand */
}

/* The last axis along which a side is the same for the next piece, so that what has been written
 * out for one serves all of them; not that of blocks whose last one has fewer channels. Pieces of
 * results that no cache holds follow one another in memory instead, which has more to gain. */
static int find_again(const broadcast *k)
{
    int found = -1;
    for (int d = 0; d < k->piece_axis && !yki_exceed_caches(k->device, &k->out, &k->out); d++)
        for (yki_side side = YKI_SIDE_A; side <= YKI_SIDE_B; side++)
            if (!k->whole[side] && k->axes.axis[d].stride[side] == 0 && d != k->axes.block_axis)
                found = d;
    return found;
}

/* In 16 bits, loops that take two vectors at a time are faster. */
static int find_numbers_of_pixels(const broadcast *k)
{
    const yki_axis *last = &k->axes.axis[k->axes.count - 1], *pixels = last - 1;
    const bool good = k->op == YKI_MAP_MULTIPLY && k->dtype == YK_F32 && k->axes.block_axis < 0 &&
                      k->axes.count > 1 && k->piece_axis == k->axes.count - 2 &&
                      2 * last->size == k->loops->pack;
    for (yki_side side = YKI_SIDE_A; good && side <= YKI_SIDE_B; side++)
        if (last->stride[side] == 0 && pixels->stride[side] == 1 && k->whole[!side])
            return (int)side;
    return -1;
}

static yk_status combine_prepare(yki_device *device, const yki_kernel_desc *desc,
                                 yki_kernel **kernel)
{
    broadcast *k = yki_calloc(1, sizeof *k);
    if (!k)
        return yki_error_memory(sizeof *k, "a broadcasting kernel");
    const yki_operand *large = &desc->out[0];
    k->device = device;
    k->loops = yki_cpu_loops_of(device);
    k->out = desc->out[0];
    k->dtype = large->dtype;
    k->size = yk_dtype_size(large->dtype);
    k->team = yki_team(device, yki_operand_elements(device, large));
    k->axes = yki_axes_of(device, desc, large);
    k->op = map_of(desc->op);
    k->alpha = k->op == YKI_MAP_SCALE ? factor_of(desc) : desc->attrs ? desc->attrs->alpha : 0;
    k->beta = desc->attrs ? desc->attrs->beta : 0;
    k->whole[YKI_SIDE_A] = is_whole(k, YKI_SIDE_A, &desc->in[YKI_SIDE_A]);
    k->whole[YKI_SIDE_B] = is_whole(k, YKI_SIDE_B, &desc->in[YKI_SIDE_B]);
    k->inside = 1;
    for (int d = 1; d < k->axes.count; d++)
        k->inside *= k->axes.axis[d].size;
    while (k->inside > PIECE)
        k->inside /= k->axes.axis[++k->piece_axis].size;
    int64_t size = k->axes.axis[k->piece_axis].size;
    k->steps = PIECE / k->inside < size ? PIECE / k->inside : size;
    k->pieces = (size + k->steps - 1) / k->steps;
    for (int d = 0; d < k->piece_axis; d++)
        k->pieces *= k->axes.axis[d].size;
    k->of_pixels = find_numbers_of_pixels(k);
    k->again_axis = k->of_pixels < 0 ? find_again(k) : -1;
    k->grain = yki_grain(k->pieces, k->steps * k->inside, k->team);
    k->stream = yki_exceed_caches(device, &k->out, &k->out);
    *kernel = &k->base;
    return YK_OK;
}

/* Rows of `count` elements, of which the first `used` are read, `stride` apart; the others are 0.
 */
#define WRITE_ROWS(TYPE)                                                                           \
    YKI_VECTOR_CLONES                                                                              \
    static void write_##TYPE(TYPE *restrict to, const TYPE *restrict from, int64_t rows,           \
                             int64_t row, int64_t count, int64_t used, int64_t stride)             \
    {                                                                                              \
        for (int64_t r = 0; r < rows; r++, to += count, from += row) {                             \
            if (stride == 0)                                                                       \
                for (int64_t i = 0; i < used; i++)                                                 \
                    to[i] = *from;                                                                 \
            else                                                                                   \
                for (int64_t i = 0; i < used; i++)                                                 \
                    to[i] = from[i * stride];                                                      \
            for (int64_t i = used; i < count; i++)                                                 \
                to[i] = 0;                                                                         \
        }                                                                                          \
    }
WRITE_ROWS(uint16_t)
WRITE_ROWS(uint32_t)

/* Each element of a column so many times, a constant in every call: to all channels of a block. */
#define REPEAT(TYPE)                                                                               \
    static inline __attribute__((always_inline)) void repeat_##TYPE##_times(                       \
        TYPE *restrict to, const TYPE *restrict from, int64_t rows, int64_t row, int times)        \
    {                                                                                              \
        for (int64_t r = 0; r < rows; r++)                                                         \
            for (int i = 0; i < times; i++)                                                        \
                to[r * times + i] = from[r * row];                                                 \
    }                                                                                              \
    YKI_VECTOR_CLONES                                                                              \
    static void repeat_##TYPE(TYPE *restrict to, const TYPE *restrict from, int64_t rows,          \
                              int64_t row, int64_t times)                                          \
    {                                                                                              \
        if (times == 16)                                                                           \
            repeat_##TYPE##_times(to, from, rows, row, 16);                                        \
        else if (times == 8)                                                                       \
            repeat_##TYPE##_times(to, from, rows, row, 8);                                         \
        else                                                                                       \
            repeat_##TYPE##_times(to, from, rows, row, 4);                                         \
    }
REPEAT(uint16_t)
REPEAT(uint32_t)

/* Repeats the first `row` bytes until there are `all`. */
static void fill_rows(char *to, size_t row, size_t all)
{
    for (size_t have = row; have < all; have *= 2)
        memcpy(to + have, to, have < all - have ? have : all - have);
}

static void write_rows(const broadcast *k, char *to, const char *from, int64_t rows, int64_t row,
                       int64_t count, int64_t used, int64_t stride)
{
    if (row == 0 && rows > 1) { /* the same row, so often */
        write_rows(k, to, from, 1, 0, count, used, stride);
        fill_rows(to, (size_t)count * k->size, (size_t)(rows * count) * k->size);
        return;
    }
    const bool repeats = stride == 0 && used == count && (count == 4 || count == 8 || count == 16);
    if (repeats && k->size == sizeof(uint16_t))
        repeat_uint16_t((void *)to, (const void *)from, rows, row, count);
    else if (repeats)
        repeat_uint32_t((void *)to, (const void *)from, rows, row, count);
    else if (k->size == sizeof(uint16_t))
        write_uint16_t((void *)to, (const void *)from, rows, row, count, used, stride);
    else
        write_uint32_t((void *)to, (const void *)from, rows, row, count, used, stride);
}

/* Writes a side out for so many steps of axis d with all axes after it; returns where it ends. The
 * block is that of the first step. */
static char *write_out(const broadcast *k, yki_side side, int d, int64_t steps, int64_t block,
                       const char *from, char *to)
{
    const yki_axis *x = &k->axes.axis[d], *last = &k->axes.axis[k->axes.count - 1];
    int64_t stride = x->stride[side];
    if (d + 1 < k->axes.count - 1 || (d + 1 == k->axes.count - 1 && d == k->axes.block_axis)) {
        for (int64_t i = 0; i < steps; i++)
            to = write_out(k, side, d + 1, k->axes.axis[d + 1].size,
                           d == k->axes.block_axis ? block + i : block,
                           from + i * stride * (int64_t)k->size, to);
        return to;
    }
    int64_t rows = x == last ? 1 : steps, count = x == last ? steps : last->size;
    int64_t used =
        yki_axes_lanes(&k->axes, block) < count ? yki_axes_lanes(&k->axes, block) : count;
    write_rows(k, to, from, rows, x == last ? 0 : stride, count, used, last->stride[side]);
    return to + rows * count * (int64_t)k->size;
}

/* Where a piece begins. */
typedef struct piece {
    int64_t at[YKI_AXIS_OPERANDS]; /* elements */
    int64_t steps, block;
} piece;

static piece piece_at(const broadcast *k, int64_t number)
{
    piece p = {.steps = k->steps};
    int64_t again = 0;
    if (k->again_axis >= 0) {
        again = number % k->axes.axis[k->again_axis].size;
        number /= k->axes.axis[k->again_axis].size;
    }
    for (int d = k->piece_axis; d >= 0; d--) {
        int64_t size = k->axes.axis[d].size, unit = d == k->piece_axis ? k->steps : 1;
        int64_t places = d == k->again_axis ? 1 : (size + unit - 1) / unit,
                i = d == k->again_axis ? again : number % places * unit;
        number /= places;
        if (d == k->piece_axis && size - i < p.steps)
            p.steps = size - i;
        p.block = d == k->axes.block_axis ? i : p.block;
        for (int o = 0; o < YKI_AXIS_OPERANDS; o++)
            p.at[o] += i * k->axes.axis[d].stride[o];
    }
    return p;
}

/* What a thread has written out last of a side. */
typedef struct written {
    int64_t at, block, steps;
    _Alignas(64) char memory[PIECE * sizeof(float)];
} written;

/* The elements of a side for a piece. */
static const char *side_of(const broadcast *k, yki_side side, const piece *p, const char *x,
                           written *w)
{
    const char *from = x + p->at[side] * (int64_t)k->size;
    bool is_run = k->piece_axis == k->axes.count - 1 &&
                  k->axes.axis[k->piece_axis].stride[side] == 1 && k->axes.block_axis < 0;
    if (k->whole[side] || is_run)
        return from;
    bool same = w->at == p->at[side] && w->steps >= p->steps &&
                (k->axes.block_axis < 0 || w->block == p->block);
    if (same)
        return w->memory;
    w->at = p->at[side];
    w->block = p->block;
    w->steps = p->steps;
    write_out(k, side, k->piece_axis, p->steps, p->block, from, w->memory);
    return w->memory;
}

/* Those of no zeros where both sides have zeros. */
static bool leaves_numbers_in_padding(yki_map_op op)
{
    return op == YKI_MAP_DIVIDE || op == YKI_MAP_COMPARE || op == YKI_MAP_MASKED_FILL;
}

static void multiply_pixels(const broadcast *k, const yki_kernel_args *run, const piece *p)
{
    const int numbers = k->of_pixels, x = !numbers;
    k->loops->multiply_pixels((const float *)run->in[x] + p->at[x],
                              (const float *)run->in[numbers] + p->at[numbers],
                              (float *)run->out[0] + p->at[YKI_SIDE_Y], p->steps);
}

static yk_status combine_all(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const broadcast *k = (const broadcast *)kernel;
    const yki_elementwise map = {.op = k->op,
                                 .dtype = k->dtype,
                                 .alpha = (float)k->alpha,
                                 .beta = (float)k->beta,
                                 .stream = k->stream && run->out[0] != run->in[0] &&
                                           run->out[0] != run->in[1]};
    yki_units pieces;
    yki_units_divide(&pieces, k->pieces, k->grain, k->team);
#pragma omp parallel num_threads(k->team) if (k->team > 1)
    {
        written w[2];
        w[YKI_SIDE_A].at = w[YKI_SIDE_B].at = -1;
        for (int64_t i = -1; (i = yki_units_next(&pieces, i)) >= 0;) {
            piece p = piece_at(k, i);
            if (k->of_pixels >= 0) {
                multiply_pixels(k, run, &p);
                continue;
            }
            const void *a = side_of(k, YKI_SIDE_A, &p, run->in[0], &w[YKI_SIDE_A]);
            const void *b = k->op == YKI_MAP_SCALE
                                ? NULL
                                : side_of(k, YKI_SIDE_B, &p, run->in[1], &w[YKI_SIDE_B]);
            k->loops->map(&map, a, b, (char *)run->out[0] + p.at[YKI_SIDE_Y] * (int64_t)k->size,
                          p.steps * k->inside);
        }
    }
    if (leaves_numbers_in_padding(k->op))
        yki_operand_clear_padding(k->device, &k->out, run->out[0]);
    return YK_OK;
}

#define IMPL(name, of, place)                                                                      \
    const yki_kernel_impl yki_cpu_##name = {.op = &yki_op_##of,                                    \
                                            .inplace = place,                                      \
                                            .supports = combine_supports,                          \
                                            .prepare = combine_prepare,                            \
                                            .run = combine_all}
IMPL(add_broadcast, add, YKI_EITHER_SIDE);
IMPL(subtract_broadcast, subtract, YKI_EITHER_SIDE);
IMPL(multiply_broadcast, multiply, YKI_EITHER_SIDE);
IMPL(divide_broadcast, divide, YKI_EITHER_SIDE);
IMPL(maximum_broadcast, maximum, YKI_EITHER_SIDE);
IMPL(minimum_broadcast, minimum, YKI_EITHER_SIDE);
IMPL(compare_broadcast, compare, YKI_EITHER_SIDE);
IMPL(masked_fill_broadcast, masked_fill, YKI_EITHER_SIDE);
IMPL(expand, expand, 0);

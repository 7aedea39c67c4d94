/*
 * add, subtract, multiply and divide where a side is broadcast, expand, and reduce, which sums a
 * gradient over what was repeated. Memory is walked along up to five axes, (images, blocks, rows,
 * columns, lanes), a plain tensor having blocks of one channel; an operand that is repeated along
 * an axis has a stride of 0 there. Neighbouring axes that all operands walk alike are one axis.
 *
 * The former take pieces of the result. A side that is repeated is written out for a piece,
 * unless it is the same as for the piece before, and then the loops of the element-wise operators
 * run. Sums are made in double, of parts that depend on shapes alone and in their order.
 */
#include "device/broadcast.h"

#include <string.h>

#include "base/memory.h"
#include "device/cpu/geometry.h"
#include "device/cpu/loops.h"
#include "device/cpu/scalar.h"

enum {
    WALK = 5,
    OPERANDS = 3,
    PIECE = 2048,        /* elements of a result, about */
    CHUNK = 1024,        /* sums that are made at a time */
    WIDE = 64,           /* sums that are made beside each other where there are few */
    MOST_BESIDE = 16,    /* and those of a result */
    UNITS = 64,          /* of sums, to be shared by threads */
    PART_ELEMENTS = 4096 /* of a part at least */
};

typedef enum operand { A, B, Y } operand;

typedef struct axis {
    int64_t size;
    int64_t stride[OPERANDS];
} axis;

typedef struct broadcast {
    yki_kernel base;
    const yki_device *device;
    const yki_cpu_loops *loops;
    yki_operand out;
    yk_dtype dtype;
    size_t size; /* of an element */
    int team;
    int axes; /* at least one */
    axis axis[WALK];
    /* Where channels end within a block, its axis and that of lanes, the last one, are never
     * merged; else it is -1. */
    int block_axis;
    int64_t last_lanes; /* of the last block */
    double factor;      /* expand and sums: 1, or for a mean 1 / the number of terms */
    /* add and the like: a piece is some steps of an axis with all of the axes after it. */
    yki_map_op op;
    bool whole[2]; /* sides that are not repeated */
    int piece_axis;
    int again_axis; /* of the axes before it, which pieces walk first, or -1: see find_again */
    int64_t inside, steps, pieces, grain;
    /* reduce: a unit is some sums next to each other, in parts along an axis. */
    int part_axis;
    int64_t length, chunks, units, parts;
    int64_t beside; /* sums of a result, such as those of the lanes of its pixel; else 1 */
} broadcast;

/* ---- axes ------------------------------------------------------------------------------------ */

static void describe_operand(const yki_operand *x, int64_t lanes, operand which, axis axes[WALK])
{
    int64_t dims[YK_MAX_DIMS];
    bool is_blocked = x->layout == YKI_BLOCKED;
    yki_broadcast_dims(x->ndim, x->dims, dims);
    int64_t own = is_blocked ? lanes : 1, pixels = dims[2] * dims[3];
    int64_t channels = (dims[1] + own - 1) / own * own;
    axes[0].stride[which] = dims[0] == 1 ? 0 : channels * pixels;
    axes[1].stride[which] = dims[1] == 1 ? 0 : lanes * pixels;
    axes[2].stride[which] = dims[2] == 1 ? 0 : dims[3] * own;
    axes[3].stride[which] = dims[3] == 1 ? 0 : own;
    axes[4].stride[which] = dims[1] == 1 ? 0 : is_blocked ? 1 : pixels;
}

/* Whether all operands walk along the inner axis as often as the outer one has steps. */
static bool can_merge(const axis *outer, const axis *inner)
{
    bool can = true;
    for (int i = 0; i < OPERANDS; i++)
        can = can && outer->stride[i] == inner->size * inner->stride[i];
    return can;
}

static void merge_axes(broadcast *k, const axis axes[WALK], bool ragged)
{
    enum { BLOCK = 1, LANE = 4 };
    int last = -1; /* of those that were kept, in `axes` */
    for (int d = 0; d < WALK; d++) {
        bool apart = ragged && (d == BLOCK || d == LANE || last == BLOCK);
        if (axes[d].size == 1 && !(ragged && (d == BLOCK || d == LANE)))
            continue;
        if (k->axes > 0 && !apart && can_merge(&k->axis[k->axes - 1], &axes[d])) {
            int64_t size = k->axis[k->axes - 1].size;
            k->axis[k->axes - 1] = axes[d];
            k->axis[k->axes - 1].size *= size;
        } else
            k->axis[k->axes++] = axes[d];
        if (ragged && d == BLOCK)
            k->block_axis = k->axes - 1;
        last = d;
    }
    if (k->axes == 0)
        k->axis[k->axes++] = (axis){.size = 1};
}

static void describe_axes(broadcast *k, const yki_kernel_desc *desc, const yki_operand *large)
{
    int64_t dims[YK_MAX_DIMS];
    int64_t lanes = large->layout == YKI_BLOCKED ? k->device->block : 1;
    yki_broadcast_dims(large->ndim, large->dims, dims);
    axis axes[WALK] = {{dims[0], {0}},
                       {(dims[1] + lanes - 1) / lanes, {0}},
                       {dims[2], {0}},
                       {dims[3], {0}},
                       {lanes, {0}}};
    describe_operand(&desc->in[0], lanes, A, axes);
    if (desc->in_count > 1)
        describe_operand(&desc->in[1], lanes, B, axes);
    describe_operand(&desc->out[0], lanes, Y, axes);
    k->block_axis = -1;
    k->last_lanes = dims[1] % lanes;
    merge_axes(k, axes, k->last_lanes != 0);
}

/* How many lanes of a block have a channel. */
static int64_t lanes_of(const broadcast *k, int64_t block)
{
    bool is_last = k->block_axis >= 0 && block == k->axis[k->block_axis].size - 1;
    return is_last ? k->last_lanes : k->axis[k->axes - 1].size;
}

/* ---- add and the like, expand ---------------------------------------------------------------- */

/* Whether it sums what the others repeat. */
static bool is_sum(const yki_op *op)
{
    return op == &yki_op_reduce || op == &yki_op_sum || op == &yki_op_reduce_loss;
}

/* A side in blocks is only known beside a result in blocks. */
static bool broadcast_supports(const yki_device *device, const yki_kernel_desc *desc)
{
    (void)device;
    const yki_operand *large = is_sum(desc->op) ? &desc->in[0] : &desc->out[0];
    bool good = yki_is_float(large);
    for (int i = 0; i < desc->in_count; i++)
        good = good && desc->in[i].dtype == large->dtype &&
               (desc->in[i].layout == YKI_PLAIN || large->layout == YKI_BLOCKED);
    const yki_operand *out = &desc->out[0];
    return good && out->dtype == large->dtype &&
           (out->layout == YKI_PLAIN || large->layout == YKI_BLOCKED);
}

static double factor_of(const yki_kernel_desc *desc)
{
    bool may_be_mean = desc->op == &yki_op_reduce_loss || desc->op == &yki_op_expand;
    if (!may_be_mean || desc->attrs->reduction != YK_LOSS_MEAN)
        return 1;
    double x = (double)yki_operand_count(&desc->in[0]),
           y = (double)yki_operand_count(&desc->out[0]);
    return is_sum(desc->op) ? y / x : x / y;
}

static yk_status prepare(broadcast **made, yki_device *device, const yki_kernel_desc *desc,
                         const yki_operand *large)
{
    broadcast *k = *made = yki_calloc(1, sizeof *k);
    if (!k)
        return yki_error_memory(sizeof *k, "a broadcasting kernel");
    k->device = device;
    k->loops = yki_cpu_loops_of(device);
    k->out = desc->out[0];
    k->factor = factor_of(desc);
    k->dtype = large->dtype;
    k->size = yk_dtype_size(large->dtype);
    k->team = yki_team(device, yki_operand_elements(device, large));
    describe_axes(k, desc, large);
    return YK_OK;
}

/* Whether a side has the result's memory, padding included. */
static bool is_whole(const broadcast *k, operand side, const yki_operand *x)
{
    bool whole = k->block_axis < 0 || x->layout == YKI_BLOCKED;
    for (int d = 0; d < k->axes; d++)
        whole = whole && k->axis[d].stride[side] == k->axis[d].stride[Y];
    return whole;
}

static yki_map_op map_of(const yki_op *op)
{
    return op == &yki_op_add        ? YKI_MAP_ADD
           : op == &yki_op_subtract ? YKI_MAP_SUBTRACT
           : op == &yki_op_multiply ? YKI_MAP_MULTIPLY
           : op == &yki_op_divide   ? YKI_MAP_DIVIDE
                                    : YKI_MAP_SCALE; /* expand */
}

/* The last axis along which a side is the same for the next piece, so that what has been written
 * out for one serves all of them; not that of blocks whose last one has fewer channels. */
static int find_again(const broadcast *k)
{
    int found = -1;
    for (int d = 0; d < k->piece_axis; d++)
        for (operand side = A; side <= B; side++)
            if (!k->whole[side] && k->axis[d].stride[side] == 0 && d != k->block_axis)
                found = d;
    return found;
}

static yk_status combine_prepare(yki_device *device, const yki_kernel_desc *desc,
                                 yki_kernel **kernel)
{
    broadcast *k;
    YK_TRY(prepare(&k, device, desc, &desc->out[0]));
    k->op = map_of(desc->op);
    k->whole[A] = is_whole(k, A, &desc->in[A]);
    k->whole[B] = is_whole(k, B, &desc->in[B]);
    k->inside = 1;
    for (int d = 1; d < k->axes; d++)
        k->inside *= k->axis[d].size;
    while (k->inside > PIECE)
        k->inside /= k->axis[++k->piece_axis].size;
    int64_t size = k->axis[k->piece_axis].size;
    k->steps = PIECE / k->inside < size ? PIECE / k->inside : size;
    k->pieces = (size + k->steps - 1) / k->steps;
    for (int d = 0; d < k->piece_axis; d++)
        k->pieces *= k->axis[d].size;
    k->again_axis = find_again(k);
    k->grain = yki_grain(k->pieces, k->steps * k->inside, k->team);
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

static void write_rows(const broadcast *k, char *to, const char *from, int64_t rows, int64_t row,
                       int64_t count, int64_t used, int64_t stride)
{
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
static char *write_out(const broadcast *k, operand side, int d, int64_t steps, int64_t block,
                       const char *from, char *to)
{
    const axis *x = &k->axis[d], *last = &k->axis[k->axes - 1];
    int64_t stride = x->stride[side];
    if (d + 1 < k->axes - 1 || (d + 1 == k->axes - 1 && d == k->block_axis)) {
        for (int64_t i = 0; i < steps; i++)
            to = write_out(k, side, d + 1, k->axis[d + 1].size,
                           d == k->block_axis ? block + i : block,
                           from + i * stride * (int64_t)k->size, to);
        return to;
    }
    int64_t rows = x == last ? 1 : steps, count = x == last ? steps : last->size;
    int64_t used = lanes_of(k, block) < count ? lanes_of(k, block) : count;
    write_rows(k, to, from, rows, x == last ? 0 : stride, count, used, last->stride[side]);
    return to + rows * count * (int64_t)k->size;
}

/* Where a piece begins. */
typedef struct piece {
    int64_t at[OPERANDS]; /* elements */
    int64_t steps, block;
} piece;

static piece piece_at(const broadcast *k, int64_t number)
{
    piece p = {.steps = k->steps};
    int64_t again = 0;
    if (k->again_axis >= 0) {
        again = number % k->axis[k->again_axis].size;
        number /= k->axis[k->again_axis].size;
    }
    for (int d = k->piece_axis; d >= 0; d--) {
        int64_t size = k->axis[d].size, unit = d == k->piece_axis ? k->steps : 1;
        int64_t places = d == k->again_axis ? 1 : (size + unit - 1) / unit,
                i = d == k->again_axis ? again : number % places * unit;
        number /= places;
        if (d == k->piece_axis && size - i < p.steps)
            p.steps = size - i;
        p.block = d == k->block_axis ? i : p.block;
        for (int o = 0; o < OPERANDS; o++)
            p.at[o] += i * k->axis[d].stride[o];
    }
    return p;
}

/* What a thread has written out last of a side. */
typedef struct written {
    int64_t at, block, steps;
    _Alignas(64) char memory[PIECE * sizeof(float)];
} written;

/* The elements of a side for a piece. */
static const char *side_of(const broadcast *k, operand side, const piece *p, const char *x,
                           written *w)
{
    const char *from = x + p->at[side] * (int64_t)k->size;
    bool is_run = k->piece_axis == k->axes - 1 && k->axis[k->piece_axis].stride[side] == 1 &&
                  k->block_axis < 0;
    if (k->whole[side] || is_run)
        return from;
    bool same =
        w->at == p->at[side] && w->steps >= p->steps && (k->block_axis < 0 || w->block == p->block);
    if (same)
        return w->memory;
    w->at = p->at[side];
    w->block = p->block;
    w->steps = p->steps;
    write_out(k, side, k->piece_axis, p->steps, p->block, from, w->memory);
    return w->memory;
}

static yk_status combine_all(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const broadcast *k = (const broadcast *)kernel;
#pragma omp parallel num_threads(k->team) if (k->team > 1)
    {
        written w[2];
        w[A].at = w[B].at = -1;
#pragma omp for schedule(dynamic, k->grain)
        for (int64_t i = 0; i < k->pieces; i++) {
            piece p = piece_at(k, i);
            const void *a = side_of(k, A, &p, run->in[0], &w[A]);
            const void *b = k->op == YKI_MAP_SCALE ? NULL : side_of(k, B, &p, run->in[1], &w[B]);
            k->loops->map(k->op, k->dtype, a, b, (char *)run->out[0] + p.at[Y] * (int64_t)k->size,
                          (float)k->factor, 0, p.steps * k->inside);
        }
    }
    if (k->op == YKI_MAP_DIVIDE) /* 0 / 0 */
        yki_operand_clear_padding(k->device, &k->out, run->out[0]);
    return YK_OK;
}

/* ---- reduce ---------------------------------------------------------------------------------- */

static bool is_summed(const axis *x)
{
    return x->stride[Y] == 0 && x->size > 1;
}

/* Parts where there are few units: along the first axis that is summed and long enough, or else the
 * longest one. */
static void divide_sums(broadcast *k, int64_t elements)
{
    int64_t longest = 1, most = elements / k->units / PART_ELEMENTS;
    int64_t wanted = (UNITS + k->units - 1) / k->units;
    k->part_axis = -1;
    for (int d = 0; d < k->axes && longest < wanted; d++)
        if (is_summed(&k->axis[d]) && k->axis[d].size > longest) {
            longest = k->axis[d].size;
            k->part_axis = d;
        }
    k->parts = wanted < longest ? wanted : longest;
    k->parts = k->parts < most ? k->parts : most < 1 ? 1 : most;
}

/* Sums over channels, but not over pixels: the lanes of a pixel are summed like those of all
 * pixels, and their sums are added in the end. Lanes without a channel may hold anything. */
static void keep_lanes_apart(broadcast *k)
{
    axis *last = &k->axis[k->axes - 1], *pixels = last - 1;
    k->beside = 1;
    if (k->axes < 2 || k->block_axis >= 0 || !is_summed(last) || is_summed(pixels) ||
        pixels->stride[A] != last->size || CHUNK % last->size != 0 || last->size > MOST_BESIDE)
        return;
    k->beside = last->size;
    pixels->size *= last->size;
    pixels->stride[A] = 1;
    k->axes--;
}

static yk_status reduce_prepare(yki_device *device, const yki_kernel_desc *desc,
                                yki_kernel **kernel)
{
    broadcast *k;
    YK_TRY(prepare(&k, device, desc, &desc->in[0]));
    keep_lanes_apart(k);
    const axis *last = &k->axis[k->axes - 1];
    int64_t size = is_summed(last) ? 1 : last->size;
    k->length = size < CHUNK ? size : CHUNK;
    k->chunks = k->units = (size + CHUNK - 1) / CHUNK;
    for (int d = 0; d < k->axes - 1; d++)
        k->units *= is_summed(&k->axis[d]) ? 1 : k->axis[d].size;
    divide_sums(k, yki_operand_elements(device, &desc->in[0]));
    if (k->parts > 1)
        k->base.scratch = (size_t)(k->units * k->parts * k->length) * sizeof(double);
    *kernel = &k->base;
    return YK_OK;
}

/* Sums next to each other, and where they begin. */
typedef struct unit {
    int64_t from, to, count;
    int64_t begin, end; /* of the axis of parts */
} unit;

static unit unit_at(const broadcast *k, int64_t number, int64_t part)
{
    const axis *last = &k->axis[k->axes - 1];
    int64_t chunk = number % k->chunks * CHUNK, place = number / k->chunks, block = 0;
    unit u = {chunk * last->stride[A], chunk / k->beside * last->stride[Y], 1, 0, 1};
    for (int d = k->axes - 2; d >= 0; d--) {
        int64_t size = is_summed(&k->axis[d]) ? 1 : k->axis[d].size, i = place % size;
        place /= size;
        u.from += i * k->axis[d].stride[A];
        u.to += i * k->axis[d].stride[Y];
        block = d == k->block_axis ? i : block;
    }
    if (!is_summed(last)) {
        int64_t left = lanes_of(k, block) - chunk;
        u.count = left < CHUNK ? left : CHUNK;
    }
    if (k->part_axis >= 0) {
        u.begin = k->axis[k->part_axis].size * part / k->parts;
        u.end = k->axis[k->part_axis].size * (part + 1) / k->parts;
    }
    return u;
}

/* Rows that are short and next to each other are added as long ones, to several sums for each. */
static void sum_rows(const broadcast *k, const char *dy, int64_t rows, int64_t stride,
                     int64_t count, double *sums)
{
    int64_t beside = stride == count ? WIDE / count : 0, rest = beside > 1 ? rows % beside : rows;
    if (beside > 1 && rows > beside) {
        double wide[WIDE] = {0};
        k->loops->sum_rows(k->dtype, dy, rows / beside, beside * count, beside * count, wide);
        for (int64_t b = 0; b < beside; b++)
            for (int64_t i = 0; i < count; i++)
                sums[i] += wide[b * count + i];
        dy += (rows - rest) * stride * (int64_t)k->size;
    } else
        rest = rows;
    k->loops->sum_rows(k->dtype, dy, rest, stride, count, sums);
}

/* Adds all that is summed along axis d and those after it, from element `at` on. */
static void sum_axes(const broadcast *k, const unit *u, const char *dy, int d, int64_t at,
                     double *sums)
{
    const axis *x = &k->axis[d], *last = &k->axis[k->axes - 1];
    int64_t begin = d == k->part_axis ? u->begin : 0;
    int64_t end = d == k->part_axis ? u->end : is_summed(x) ? x->size : 1;
    const char *from = dy + (at + begin * x->stride[A]) * (int64_t)k->size;
    if (x == last && is_summed(x))
        *sums += k->loops->sum(k->dtype, from, end - begin);
    else if (x == last || (x + 1 == last && !is_summed(last)))
        sum_rows(k, from, end - begin, x->stride[A], u->count, sums);
    else
        for (int64_t i = begin; i < end; i++)
            sum_axes(k, u, dy, d + 1, at + i * x->stride[A], sums);
}

static void put_sums(const broadcast *k, const unit *u, const double *sums, void *dx)
{
    for (int64_t i = 0; i < u->count / k->beside; i++) {
        double sum = sums[i * k->beside];
        for (int64_t j = 1; j < k->beside; j++)
            sum += sums[i * k->beside + j];
        yki_put(dx, u->to + i * k->axis[k->axes - 1].stride[Y], (float)(sum * k->factor), k->dtype);
    }
}

static void add_parts(const broadcast *k, int64_t number, double *partial, void *dx)
{
    unit u = unit_at(k, number, 0);
    double *sums = partial + number * k->parts * k->length;
    for (int64_t part = 1; part < k->parts; part++)
        for (int64_t i = 0; i < u.count; i++)
            sums[i] += sums[part * k->length + i];
    put_sums(k, &u, sums, dx);
}

static yk_status reduce_all(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const broadcast *k = (const broadcast *)kernel;
    double *partial = run->scratch;
#pragma omp parallel for schedule(dynamic) num_threads(k->team) if (k->team > 1)
    for (int64_t i = 0; i < k->units * k->parts; i++) {
        double own[CHUNK], *sums = k->parts > 1 ? partial + i * k->length : own;
        unit u = unit_at(k, i / k->parts, i % k->parts);
        memset(sums, 0, (size_t)u.count * sizeof *sums);
        sum_axes(k, &u, run->in[0], 0, u.from, sums);
        if (k->parts == 1)
            put_sums(k, &u, sums, run->out[0]);
    }
    for (int64_t i = 0; i < k->units && k->parts > 1; i++)
        add_parts(k, i, partial, run->out[0]);
    yki_operand_clear_padding(k->device, &k->out, run->out[0]);
    return YK_OK;
}

#define IMPL(name, of, make, function)                                                             \
    const yki_kernel_impl yki_cpu_##name = {                                                       \
        .op = &yki_op_##of, .supports = broadcast_supports, .prepare = make, .run = function}
IMPL(add_broadcast, add, combine_prepare, combine_all);
IMPL(subtract_broadcast, subtract, combine_prepare, combine_all);
IMPL(multiply_broadcast, multiply, combine_prepare, combine_all);
IMPL(divide_broadcast, divide, combine_prepare, combine_all);
IMPL(expand, expand, combine_prepare, combine_all);
IMPL(reduce, reduce, reduce_prepare, reduce_all);
IMPL(sum, sum, reduce_prepare, reduce_all);
IMPL(reduce_loss, reduce_loss, reduce_prepare, reduce_all);

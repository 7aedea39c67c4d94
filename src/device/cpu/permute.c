/*
 * permute between any layouts. A tile has some places of the dimension that is contiguous in the
 * result and of the one that is contiguous in x, and is turned in registers; where these are the
 * same dimension, runs are copied. A blocked tensor's contiguous dimension is that of its channels,
 * and a tile has those of a block. There, one call turns tiles along a third dimension, because
 * they are small.
 */
#include <string.h>

#include "base/memory.h"
#include "device/cpu/geometry.h"
#include "device/cpu/loops/loops.h"

enum {
    TILE_Y = 64,    /* places of a plain tensor, which stay in the first-level cache */
    MOST_ROWS = 32, /* of runs, that are copied by one call */
    FAR = 8 << 20   /* bytes of a result that is written to memory, not to a near cache */
};

/* Elements from one place to the next of each dimension of y, in one of the tensors. Along channels
 * in blocks, from the first of a block to the first of the next one, divided by b. */
typedef struct steps {
    int64_t of[YK_MAX_DIMS];
    int contiguous; /* the dimension whose places are next to each other */
    bool blocked;
} steps;

typedef struct permute {
    yki_kernel base;
    const yki_device *device;
    const yki_cpu_loops *loops;
    int64_t sizes[YK_MAX_DIMS], tile[YK_MAX_DIMS]; /* of y; places that are taken at a time */
    int64_t tiles;
    steps x, y;
    int inner;          /* the dimension along which a call takes all places, or -1 */
    int rows;           /* of runs between plain tensors: another one, or -1 */
    size_t size, bytes; /* of an element, and of y */
    int team;
} permute;

static bool permute_supports(const yki_device *device, const yki_kernel_desc *desc)
{
    (void)device;
    const yki_operand *x = &desc->in[0], *y = &desc->out[0];
    return yki_is_float(x) && x->dtype == y->dtype;
}

/* By dimensions of the tensor itself, of which `missing` come before the first. */
static steps steps_of(const yki_device *device, const yki_operand *x)
{
    const int missing = YK_MAX_DIMS - x->ndim;
    const int64_t b = x->layout == YKI_BLOCKED ? device->block : 1;
    steps s = {.contiguous = YK_MAX_DIMS - 1, .blocked = b > 1};
    int64_t step = b;
    for (int d = YK_MAX_DIMS - 1; d >= missing; d--) {
        const int64_t size = x->dims[d - missing];
        const bool in_blocks = s.blocked && d == missing + 1;
        s.of[d] = in_blocks ? step / b : step;
        step *= in_blocks ? (size + b - 1) / b : size;
        if (s.contiguous == d && d > missing && size == 1)
            s.contiguous--;
    }
    if (s.blocked)
        s.contiguous = missing + 1;
    return s;
}

/* Those of x by y's dimensions. */
static steps permuted(const steps *x, const yki_kernel_desc *desc)
{
    const int missing = YK_MAX_DIMS - desc->in[0].ndim;
    steps s = {.blocked = x->blocked};
    for (int d = missing; d < YK_MAX_DIMS; d++) {
        const int from = missing + (int)desc->attrs->dims[d - missing];
        s.of[d] = x->of[from];
        if (from == x->contiguous)
            s.contiguous = d;
    }
    return s;
}

/* The dimension along which memory is walked in the smallest steps, but for p and those of one
 * place; -1: there is none. */
static int nearest(const permute *k, const steps *s, int p)
{
    int found = -1;
    for (int d = 0; d < YK_MAX_DIMS; d++)
        if (d != p && k->sizes[d] > 1 && (found < 0 || s->of[d] < s->of[found]))
            found = d;
    return found;
}

/* Runs between plain tensors in memory. A call copies from so many places in turn as `inner` has,
 * or to so many, and walks in order from each of them: there should be few. In caches, it gains
 * more from a result that is written in order. */
static void divide_runs(permute *k, int p)
{
    const int in_x = nearest(k, &k->x, p), in_y = nearest(k, &k->y, p);
    if (in_x < 0)
        return;
    k->inner = k->sizes[in_x] < k->sizes[in_y] ? in_x : in_y;
    k->rows = in_x == in_y ? -1 : in_x + in_y - k->inner;
    if (k->rows >= 0)
        k->tile[k->rows] = k->sizes[k->rows] < MOST_ROWS ? k->sizes[k->rows] : MOST_ROWS;
}

static void divide(permute *k)
{
    const int p = k->x.contiguous, q = k->y.contiguous;
    const bool blocked = k->x.blocked || k->y.blocked;
    for (int d = 0; d < YK_MAX_DIMS; d++)
        k->tile[d] = 1;
    k->tile[p] = k->x.blocked ? k->device->block : p == q ? k->sizes[p] : YKI_TURN_COUNT;
    if (p != q || k->y.blocked)
        k->tile[q] = k->y.blocked ? k->device->block : p == q ? k->tile[p] : TILE_Y;
    k->inner = k->rows = -1;
    for (int d = 0; d < YK_MAX_DIMS; d++)
        if ((blocked || p == q) && d != p && d != q)
            k->inner = d;
    if (!blocked && p == q && k->bytes >= FAR)
        divide_runs(k, p);
    if (k->inner >= 0)
        k->tile[k->inner] = k->sizes[k->inner];
    k->tiles = 1;
    for (int d = 0; d < YK_MAX_DIMS; d++)
        k->tiles *= (k->sizes[d] + k->tile[d] - 1) / k->tile[d];
}

static yk_status permute_prepare(yki_device *device, const yki_kernel_desc *desc,
                                 yki_kernel **kernel)
{
    permute *k = yki_calloc(1, sizeof *k);
    if (!k)
        return yki_error_memory(sizeof *k, "a permute kernel");
    const steps x = steps_of(device, &desc->in[0]);
    k->device = device;
    k->loops = yki_cpu_loops_of(device);
    const yki_operand *out = &desc->out[0];
    for (int d = 0; d < YK_MAX_DIMS; d++) {
        const int from = d - YK_MAX_DIMS + out->ndim;
        k->sizes[d] = from < 0 ? 1 : out->dims[from];
    }
    k->x = permuted(&x, desc);
    k->y = steps_of(device, out);
    k->size = yk_dtype_size(out->dtype);
    k->bytes = yki_operand_bytes(device, out);
    k->team = yki_team(device, yki_operand_count(out));
    divide(k);
    *kernel = &k->base;
    return YK_OK;
}

/* Runs of a constant size are copied by a few instructions, which are faster than calls. */
#define COPY_RUNS(bytes)                                                                           \
    for (int64_t s = 0; s < t->tiles; s++, x += x_tile, y += y_tile)                               \
    memcpy(y, x, bytes)

static void copy_runs(const yki_turn *t, const char *x, char *y, size_t size)
{
    const size_t bytes = (size_t)t->y_count * size, room = (size_t)t->y_room * size,
                 x_tile = (size_t)t->x_tile * size, y_tile = (size_t)t->y_tile * size;
    if (bytes < room)
        for (int64_t s = 0; s < t->tiles; s++, x += x_tile, y += y_tile) {
            memcpy(y, x, bytes);
            memset(y + bytes, 0, room - bytes);
        }
    else if (bytes == 16)
        COPY_RUNS(16);
    else if (bytes == 32)
        COPY_RUNS(32);
    else if (bytes == 64)
        COPY_RUNS(64);
    else if (bytes == 128)
        COPY_RUNS(128);
    else if (bytes == 256)
        COPY_RUNS(256);
    else
        COPY_RUNS(bytes);
}

static void copy_rows(const permute *k, const yki_turn *t, const char *x, char *y, int64_t rows)
{
    const int64_t x_row = k->rows >= 0 ? k->x.of[k->rows] * (int64_t)k->size : 0,
                  y_row = k->rows >= 0 ? k->y.of[k->rows] * (int64_t)k->size : 0;
    for (int64_t row = 0; row < rows; row++, x += x_row, y += y_row)
        copy_runs(t, x, y, k->size);
}

static void permute_tile(const permute *k, const char *x, char *y, int64_t number)
{
    const int p = k->x.contiguous, q = k->y.contiguous;
    int64_t from = 0, to = 0, counts[YK_MAX_DIMS];
    for (int d = YK_MAX_DIMS - 1; d >= 0; d--) {
        counts[d] = 1;
        if (k->sizes[d] == 1)
            continue;
        const int64_t places = (k->sizes[d] + k->tile[d] - 1) / k->tile[d];
        const int64_t begin = number % places * k->tile[d], left = k->sizes[d] - begin;
        number /= places;
        from += begin * k->x.of[d];
        to += begin * k->y.of[d];
        counts[d] = left < k->tile[d] ? left : k->tile[d];
    }
    yki_turn turn = {.x_count = counts[p],
                     .y_count = counts[q],
                     .x_step = k->x.of[q],
                     .y_step = k->y.of[p],
                     .x_room = k->x.blocked ? k->device->block : counts[p],
                     .y_room = k->y.blocked ? k->device->block : counts[q],
                     .tiles = 1};
    if (k->inner >= 0) {
        turn.tiles = counts[k->inner];
        turn.x_tile = k->x.of[k->inner];
        turn.y_tile = k->y.of[k->inner];
    }
    x += from * (int64_t)k->size;
    y += to * (int64_t)k->size;
    if (p == q)
        copy_rows(k, &turn, x, y, k->rows >= 0 ? counts[k->rows] : 1);
    else if (k->size == sizeof(float))
        k->loops->turn(&turn, (const float *)(const void *)x, (float *)(void *)y);
    else
        k->loops->turn_halves(&turn, (const uint16_t *)(const void *)x, (uint16_t *)(void *)y);
}

static yk_status permute_run(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const permute *k = (const permute *)kernel;
#pragma omp parallel for num_threads(k->team) if (k->team > 1)
    for (int64_t tile = 0; tile < k->tiles; tile++)
        permute_tile(k, run->in[0], run->out[0], tile);
    return YK_OK;
}

const yki_kernel_impl yki_cpu_permute = {.op = &yki_op_permute,
                                         .supports = permute_supports,
                                         .prepare = permute_prepare,
                                         .run = permute_run};

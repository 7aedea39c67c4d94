/*
 * Conversions between layouts: reorder, flatten and reshape. A plain 2-d (N, C * H * W) has the
 * same memory as the plain (N, C, H, W), so each of them is a copy or, block by block, a
 * transposition between (pixels, b) and (b, pixels). Padding channels are written as zeros.
 */
#include <string.h>

#include "base/memory.h"
#include "device/cpu/geometry.h"
#include "device/cpu/loops/loops.h"

typedef enum way { COPY, TO_PLAIN, TO_BLOCKED } way;

typedef void transposition(void *restrict to, const void *restrict from, int64_t b,
                           int64_t channels, int64_t pixels);

/*
 * One block: to (channels, pixels) from (pixels, b), or the reverse, in numbers of 8 or 16 bits;
 * those of 32 bits are turned in vectors. TYPE is an integer of the element's size, so that values
 * are not changed.
 */
#define TRANSPOSITIONS(TYPE)                                                                       \
    YKI_VECTOR_CLONES                                                                              \
    static void to_plain_##TYPE(void *restrict to, const void *restrict from, int64_t b,           \
                                int64_t channels, int64_t pixels)                                  \
    {                                                                                              \
        TYPE *plain = to;                                                                          \
        const TYPE *block = from;                                                                  \
        for (int64_t c = 0; c < channels; c++)                                                     \
            for (int64_t p = 0; p < pixels; p++)                                                   \
                plain[c * pixels + p] = block[p * b + c];                                          \
    }                                                                                              \
    YKI_VECTOR_CLONES                                                                              \
    static void to_block_##TYPE(void *restrict to, const void *restrict from, int64_t b,           \
                                int64_t channels, int64_t pixels)                                  \
    {                                                                                              \
        TYPE *block = to;                                                                          \
        const TYPE *plain = from;                                                                  \
        for (int64_t p = 0; p < pixels; p++) {                                                     \
            for (int64_t c = 0; c < channels; c++)                                                 \
                block[p * b + c] = plain[c * pixels + p];                                          \
            for (int64_t c = channels; c < b; c++)                                                 \
                block[p * b + c] = 0;                                                              \
        }                                                                                          \
    }
TRANSPOSITIONS(uint8_t)
TRANSPOSITIONS(uint16_t)

static transposition *transposition_of(size_t size, way direction)
{
    bool plain = direction == TO_PLAIN;
    if (size == 1)
        return plain ? to_plain_uint8_t : to_block_uint8_t;
    return plain ? to_plain_uint16_t : to_block_uint16_t;
}

enum { TURNED = 128 /* pixels at a time, which stay in the first-level cache */ };

typedef struct layout {
    yki_kernel base;
    const yki_cpu_loops *loops;
    way way;
    size_t size; /* of an element */
    transposition *transpose;
    yki_geometry shape;
    int64_t count; /* elements of a copy */
    int team;
} layout;

static bool layout_supports(const yki_device *device, const yki_kernel_desc *desc)
{
    (void)device;
    const yki_operand *x = &desc->in[0], *y = &desc->out[0];
    size_t size = yk_dtype_size(x->dtype);
    return x->dtype == y->dtype && (size == 1 || size == 2 || size == 4) &&
           (x->layout == YKI_PLAIN || x->ndim == 4) && (y->layout == YKI_PLAIN || y->ndim == 4);
}

static yk_status layout_prepare(yki_device *device, const yki_kernel_desc *desc,
                                yki_kernel **kernel)
{
    layout *k = yki_calloc(1, sizeof *k);
    if (!k)
        return yki_error_memory(sizeof *k, "a reorder kernel");
    const yki_operand *x = &desc->in[0], *y = &desc->out[0];
    k->loops = yki_cpu_loops_of(device);
    k->size = yk_dtype_size(x->dtype);
    k->way = x->layout == y->layout ? COPY : y->layout == YKI_PLAIN ? TO_PLAIN : TO_BLOCKED;
    k->count = yki_operand_elements(device, x);
    k->team = yki_team(device, k->count);
    if (k->way != COPY) {
        k->shape = yki_geometry_of(device, k->way == TO_PLAIN ? x : y);
        k->transpose = transposition_of(k->size, k->way);
    }
    *kernel = &k->base;
    return YK_OK;
}

static void turn_block(const layout *k, const void *x, void *y, int64_t channels)
{
    const yki_geometry *g = &k->shape;
    for (int64_t p = 0; p < g->pixels; p += TURNED) {
        int64_t count = g->pixels - p < TURNED ? g->pixels - p : TURNED;
        if (k->way == TO_PLAIN)
            k->loops->unblock((const float *)x + p * g->b, channels, g->pixels, count,
                              (float *)y + p, g->pixels);
        else
            k->loops->block((const float *)x + p, g->pixels, channels, g->pixels, count,
                            (float *)y + p * g->b);
    }
}

static void transpose_block(const layout *k, const char *x, char *y, int64_t index)
{
    const yki_geometry *g = &k->shape;
    int64_t image = index / g->blocks, channel = index % g->blocks * g->b;
    int64_t channels = g->channels - channel < g->b ? g->channels - channel : g->b;
    int64_t blocked = index * g->pixels * g->b * (int64_t)k->size;
    int64_t plain = (image * g->channels + channel) * g->pixels * (int64_t)k->size;
    int64_t from = k->way == TO_PLAIN ? blocked : plain, to = k->way == TO_PLAIN ? plain : blocked;
    if (k->size == sizeof(float))
        turn_block(k, x + from, y + to, channels);
    else
        k->transpose(y + to, x + from, g->b, channels, g->pixels);
}

static void copy_all(const layout *k, const char *x, char *y)
{
#pragma omp parallel num_threads(k->team) if (k->team > 1)
    {
        int64_t begin, end;
        yki_share(k->count, &begin, &end);
        memcpy(y + (size_t)begin * k->size, x + (size_t)begin * k->size,
               (size_t)(end - begin) * k->size);
    }
}

static yk_status run_layout(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const layout *k = (const layout *)kernel;
    if (k->way == COPY) {
        if (run->out[0] != run->in[0])
            copy_all(k, run->in[0], run->out[0]);
        return YK_OK;
    }
#pragma omp parallel for num_threads(k->team) if (k->team > 1)
    for (int64_t i = 0; i < k->shape.images * k->shape.blocks; i++)
        transpose_block(k, run->in[0], run->out[0], i);
    return YK_OK;
}

#define IMPL(name)                                                                                 \
    const yki_kernel_impl yki_cpu_##name = {.op = &yki_op_##name,                                  \
                                            .inplace = 1,                                          \
                                            .supports = layout_supports,                           \
                                            .prepare = layout_prepare,                             \
                                            .run = run_layout}
IMPL(flatten);
IMPL(reshape);
IMPL(reorder);

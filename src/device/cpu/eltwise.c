/*
 * Element-wise operators: functions of one number, add and the like, scale, cast, dropout. All but
 * dropout ignore the layout: they run over the whole memory, padding included. What does not map
 * zero to zero clears the padding afterwards.
 */
#include <string.h>

#include "base/memory.h"
#include "device/broadcast.h"
#include "device/cpu/convert16.h"
#include "device/cpu/cpu.h"
#include "device/cpu/geometry.h"
#include "device/cpu/loops/loops.h"
#include "device/cpu/units.h"

enum { CHUNK = 1 << 14 }; /* elements of a call of the loops */

typedef struct eltwise {
    yki_kernel base;
    const yki_cpu_loops *loops;
    yki_geometry shape;       /* for dropout */
    const yki_device *device; /* for clearing the padding ... */
    yki_operand out;          /* ... of the output */
    int64_t count;            /* elements in memory */
    int64_t chunks, grain;    /* grain: chunks that a thread takes at a time */
    int team;
    yk_dtype dtype, to; /* to: for casts */
    bool training, stream;
    yki_attrs attrs;
} eltwise;

static bool eltwise_supports(const yki_device *device, const yki_kernel_desc *desc)
{
    (void)device;
    bool good = yki_has_out(desc, 0);
    for (int i = 0; i < desc->in_count; i++)
        good = good && yki_has_in(desc, i) && yki_alike(&desc->in[i], &desc->out[0]) &&
               yki_broadcast_none(&desc->in[i], &desc->out[0]);
    return good;
}

static yk_status eltwise_prepare(yki_device *device, const yki_kernel_desc *desc,
                                 yki_kernel **kernel)
{
    eltwise *k = yki_calloc(1, sizeof *k);
    if (!k)
        return yki_error_memory(sizeof *k, "an element-wise kernel");
    k->loops = yki_cpu_loops_of(device);
    k->device = device;
    k->out = desc->out[0];
    k->count = yki_operand_elements(device, &desc->out[0]);
    k->team = yki_team(device, k->count);
    k->chunks = (k->count + CHUNK - 1) / CHUNK;
    k->grain = yki_grain(k->chunks, CHUNK, k->team);
    k->dtype = desc->in[0].dtype;
    k->stream = yki_exceed_caches(device, &desc->in[0], &desc->out[0]);
    k->training = desc->training;
    k->attrs = desc->attrs ? *desc->attrs : (yki_attrs){0};
    *kernel = &k->base;
    return YK_OK;
}

/* ---- vector loops ---------------------------------------------------------------------------- */

/* With in[1] as the second operand, where there is one. */
static void eltwise_map(const yki_kernel *kernel, const yki_kernel_args *run, yki_map_op op)
{
    const eltwise *k = (const eltwise *)kernel;
    const size_t size = yk_dtype_size(k->dtype);
    const char *a = run->in[0], *b = run->in[1];
    const yki_elementwise map = {.op = op,
                                 .dtype = k->dtype,
                                 .alpha = (float)k->attrs.alpha,
                                 .beta = (float)k->attrs.beta,
                                 .stream = k->stream && run->out[0] != a && run->out[0] != b};
    yki_units chunks;
    yki_units_divide(&chunks, k->chunks, k->grain, k->team);
#pragma omp parallel num_threads(k->team) if (k->team > 1)
    for (int64_t chunk = -1; (chunk = yki_units_next(&chunks, chunk)) >= 0;) {
        const int64_t at = chunk * CHUNK, left = k->count - at;
        const size_t offset = (size_t)at * size;
        k->loops->map(&map, a + offset, b ? b + offset : NULL, (char *)run->out[0] + offset,
                      left < CHUNK ? left : CHUNK);
    }
}

#define MAP(name, op)                                                                              \
    static yk_status name(const yki_kernel *kernel, const yki_kernel_args *run)                    \
    {                                                                                              \
        eltwise_map(kernel, run, op);                                                              \
        return YK_OK;                                                                              \
    }
MAP(relu, YKI_MAP_RELU)
MAP(relu_backward, YKI_MAP_RELU_BACKWARD)
MAP(relu6, YKI_MAP_RELU6)
MAP(relu6_backward, YKI_MAP_RELU6_BACKWARD)
MAP(sigmoid_backward, YKI_MAP_SIGMOID_BACKWARD)
MAP(silu, YKI_MAP_SILU)
MAP(silu_backward, YKI_MAP_SILU_BACKWARD)
MAP(gelu, YKI_MAP_GELU)
MAP(gelu_backward, YKI_MAP_GELU_BACKWARD)
MAP(hardswish, YKI_MAP_HARDSWISH)
MAP(hardswish_backward, YKI_MAP_HARDSWISH_BACKWARD)
MAP(tanh_forward, YKI_MAP_TANH)
MAP(tanh_backward, YKI_MAP_TANH_BACKWARD)
MAP(leaky_relu, YKI_MAP_LEAKY_RELU)
MAP(leaky_relu_backward, YKI_MAP_LEAKY_RELU_BACKWARD)
MAP(elu, YKI_MAP_ELU)
MAP(elu_backward, YKI_MAP_ELU_BACKWARD)
MAP(sine, YKI_MAP_SIN)
MAP(absolute, YKI_MAP_ABS)
MAP(absolute_backward, YKI_MAP_ABS_BACKWARD)
MAP(clamp_backward, YKI_MAP_CLAMP_BACKWARD)
MAP(add, YKI_MAP_ADD)
MAP(subtract, YKI_MAP_SUBTRACT)
MAP(multiply, YKI_MAP_MULTIPLY)
MAP(maximum, YKI_MAP_MAXIMUM)
MAP(minimum, YKI_MAP_MINIMUM)
MAP(scale, YKI_MAP_SCALE)

/* What does not map zero to zero. */
#define MAP_AND_CLEAR(name, op)                                                                    \
    static yk_status name(const yki_kernel *kernel, const yki_kernel_args *run)                    \
    {                                                                                              \
        const eltwise *k = (const eltwise *)kernel;                                                \
        eltwise_map(kernel, run, op);                                                              \
        yki_operand_clear_padding(k->device, &k->out, run->out[0]);                                \
        return YK_OK;                                                                              \
    }
MAP_AND_CLEAR(sigmoid, YKI_MAP_SIGMOID)
MAP_AND_CLEAR(exponential, YKI_MAP_EXP)
MAP_AND_CLEAR(logarithm, YKI_MAP_LOG)
MAP_AND_CLEAR(cosine, YKI_MAP_COS)
MAP_AND_CLEAR(power, YKI_MAP_POW)
MAP_AND_CLEAR(power_backward, YKI_MAP_POW_BACKWARD)
MAP_AND_CLEAR(clamp, YKI_MAP_CLAMP)
MAP_AND_CLEAR(divide, YKI_MAP_DIVIDE)
MAP_AND_CLEAR(compare, YKI_MAP_COMPARE)
MAP_AND_CLEAR(masked_fill, YKI_MAP_MASKED_FILL)
MAP_AND_CLEAR(add_scalar, YKI_MAP_ADD_SCALAR)

/* ---- cast ------------------------------------------------------------------------------------ */

static bool supports_cast(const yki_device *device, const yki_kernel_desc *desc)
{
    (void)device;
    const yki_operand *x = &desc->in[YKI_CAST_X], *y = &desc->out[YKI_CAST_Y];
    bool one_is_wide = x->dtype == YK_F32 || y->dtype == YK_F32;
    return yki_is_float(x) && yki_is_float(y) && x->layout == y->layout &&
           (one_is_wide || x->dtype == y->dtype);
}

static yk_status prepare_cast(yki_device *device, const yki_kernel_desc *desc, yki_kernel **kernel)
{
    YK_TRY(eltwise_prepare(device, desc, kernel));
    eltwise *k = (eltwise *)*kernel;
    k->to = desc->out[YKI_CAST_Y].dtype;
    return YK_OK;
}

static yk_status cast(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const eltwise *k = (const eltwise *)kernel;
    if (k->to == k->dtype)
        memmove(run->out[YKI_CAST_Y], run->in[YKI_CAST_X],
                (size_t)k->count * yk_dtype_size(k->dtype));
    else if (k->to == YK_F32)
        yki_cpu_widen(run->out[YKI_CAST_Y], run->in[YKI_CAST_X], k->dtype, (size_t)k->count,
                      k->team);
    else
        yki_cpu_narrow(run->out[YKI_CAST_Y], run->in[YKI_CAST_X], k->to, (size_t)k->count, k->team);
    return YK_OK;
}

/* ---- dropout: forward and backward are one linear map; the mask goes by the plain index ------ */

static yk_status prepare_dropout(yki_device *device, const yki_kernel_desc *desc,
                                 yki_kernel **kernel)
{
    YK_TRY(eltwise_prepare(device, desc, kernel));
    eltwise *k = (eltwise *)*kernel;
    const yki_operand *x = &desc->in[YKI_DROPOUT_X];
    if (x->layout == YKI_BLOCKED)
        k->shape = yki_geometry_of(device, x);
    else
        k->shape = (yki_geometry){.images = 1,
                                  .channels = 1,
                                  .blocks = 1,
                                  .pixels = k->count,
                                  .b = 1}; /* in memory order */
    return YK_OK;
}

enum { DRAWS = 4096 /* elements of a call of the loops */ };

/* Some pixels of one block: b channels, each of which has its pixels together in the plain order.
 * Padding channels are zero, with any mask. */
static void drop_pixels(const eltwise *k, const yki_kernel_args *run,
                        const yki_dropout_draw *shared, int64_t block, int64_t pixel, int64_t count)
{
    const yki_geometry *g = &k->shape;
    const int64_t plane = block / g->blocks * g->channels + block % g->blocks * g->b;
    const yki_dropout_places places = {.first = (uint64_t)(plane * g->pixels + pixel),
                                       .vector_step = g->b == 1 ? (uint64_t)k->loops->pack / 2 : 1,
                                       .lane_step = g->b == 1 ? 1 : (uint64_t)g->pixels};
    const size_t offset = (size_t)((block * g->pixels + pixel) * g->b) * yk_dtype_size(k->dtype);
    k->loops->drop_drawn(k->dtype, shared, &places, (const char *)run->in[YKI_DROPOUT_X] + offset,
                         (char *)run->out[YKI_DROPOUT_Y] + offset, (float)(1 / (1 - k->attrs.p)),
                         count * g->b);
}

static yk_status dropout(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const eltwise *k = (const eltwise *)kernel;
    const yki_geometry *g = &k->shape;
    if (!k->training) {
        if (run->out[YKI_DROPOUT_Y] != run->in[YKI_DROPOUT_X])
            memcpy(run->out[YKI_DROPOUT_Y], run->in[YKI_DROPOUT_X],
                   (size_t)k->count * yk_dtype_size(k->dtype));
        return YK_OK;
    }
    const int64_t pixels = DRAWS / g->b; /* of a block, at a time */
    const yki_dropout_draw shared =
        yki_dropout_draw_of(run->scalars->seed, run->scalars->step, k->attrs.salt, k->attrs.p);
#pragma omp parallel for collapse(2) num_threads(k->team) if (k->team > 1)
    for (int64_t block = 0; block < g->images * g->blocks; block++)
        for (int64_t pixel = 0; pixel < g->pixels; pixel += pixels)
            drop_pixels(k, run, &shared, block, pixel,
                        g->pixels - pixel < pixels ? g->pixels - pixel : pixels);
    return YK_OK;
}

#define IMPL(name, place, check, make, function)                                                   \
    const yki_kernel_impl yki_cpu_##name = {.op = &yki_op_##name,                                  \
                                            .inplace = place,                                      \
                                            .supports = check,                                     \
                                            .prepare = make,                                       \
                                            .run = function}
IMPL(relu, 1, eltwise_supports, eltwise_prepare, relu);
IMPL(relu_backward, 1, eltwise_supports, eltwise_prepare, relu_backward);
IMPL(relu6, 1, eltwise_supports, eltwise_prepare, relu6);
IMPL(relu6_backward, 1, eltwise_supports, eltwise_prepare, relu6_backward);
IMPL(sigmoid, 1, eltwise_supports, eltwise_prepare, sigmoid);
IMPL(sigmoid_backward, 1, eltwise_supports, eltwise_prepare, sigmoid_backward);
IMPL(silu, 1, eltwise_supports, eltwise_prepare, silu);
IMPL(silu_backward, 1, eltwise_supports, eltwise_prepare, silu_backward);
IMPL(hardswish, 1, eltwise_supports, eltwise_prepare, hardswish);
IMPL(hardswish_backward, 1, eltwise_supports, eltwise_prepare, hardswish_backward);
IMPL(tanh, 1, eltwise_supports, eltwise_prepare, tanh_forward);
IMPL(tanh_backward, 1, eltwise_supports, eltwise_prepare, tanh_backward);
IMPL(leaky_relu, 1, eltwise_supports, eltwise_prepare, leaky_relu);
IMPL(leaky_relu_backward, 1, eltwise_supports, eltwise_prepare, leaky_relu_backward);
IMPL(elu, 1, eltwise_supports, eltwise_prepare, elu);
IMPL(elu_backward, 1, eltwise_supports, eltwise_prepare, elu_backward);
IMPL(gelu, 1, eltwise_supports, eltwise_prepare, gelu);
IMPL(gelu_backward, 1, eltwise_supports, eltwise_prepare, gelu_backward);
IMPL(add, YKI_EITHER_SIDE, eltwise_supports, eltwise_prepare, add);
IMPL(exp, 1, eltwise_supports, eltwise_prepare, exponential);
IMPL(log, 1, eltwise_supports, eltwise_prepare, logarithm);
IMPL(sin, 1, eltwise_supports, eltwise_prepare, sine);
IMPL(cos, 1, eltwise_supports, eltwise_prepare, cosine);
IMPL(abs, 1, eltwise_supports, eltwise_prepare, absolute);
IMPL(abs_backward, 1, eltwise_supports, eltwise_prepare, absolute_backward);
IMPL(pow, 1, eltwise_supports, eltwise_prepare, power);
IMPL(pow_backward, 1, eltwise_supports, eltwise_prepare, power_backward);
IMPL(clamp, 1, eltwise_supports, eltwise_prepare, clamp);
IMPL(clamp_backward, 1, eltwise_supports, eltwise_prepare, clamp_backward);
IMPL(subtract, YKI_EITHER_SIDE, eltwise_supports, eltwise_prepare, subtract);
IMPL(multiply, YKI_EITHER_SIDE, eltwise_supports, eltwise_prepare, multiply);
IMPL(divide, YKI_EITHER_SIDE, eltwise_supports, eltwise_prepare, divide);
IMPL(maximum, YKI_EITHER_SIDE, eltwise_supports, eltwise_prepare, maximum);
IMPL(minimum, YKI_EITHER_SIDE, eltwise_supports, eltwise_prepare, minimum);
IMPL(compare, YKI_EITHER_SIDE, eltwise_supports, eltwise_prepare, compare);
IMPL(masked_fill, YKI_EITHER_SIDE, eltwise_supports, eltwise_prepare, masked_fill);
IMPL(add_scalar, 1, eltwise_supports, eltwise_prepare, add_scalar);
IMPL(scale, 1, eltwise_supports, eltwise_prepare, scale);
IMPL(cast, 0, supports_cast, prepare_cast, cast);
IMPL(dropout, 1, eltwise_supports, prepare_dropout, dropout);
IMPL(dropout_backward, 1, eltwise_supports, prepare_dropout, dropout);

/*
 * randn_like: the numbers of graph/randn.h, to the bit. They are drawn in vectors, with polynomials
 * for the logarithm and the cosine whose results are a little off those of the C library. Where the
 * difference could change a result as it is rounded to f32, about once in 20000 numbers, the
 * number is drawn again by the C library.
 */
#include "graph/randn.h"

#include <string.h>

#include "base/memory.h"
#include "device/cpu/geometry.h"
#include "device/cpu/loops/scalar.h"

enum { DRAWS = 256 /* at a time */ };

typedef struct randn {
    yki_kernel base;
    const yki_device *device;
    yki_operand out;
    yki_geometry shape; /* of images; in a plain result, all numbers are the pixels of one */
    uint64_t salt;
    int team;
} randn;

static bool randn_supports(const yki_device *device, const yki_kernel_desc *desc)
{
    (void)device;
    return yki_is_float(&desc->out[YKI_RANDN_LIKE_Y]);
}

static yk_status randn_prepare(yki_device *device, const yki_kernel_desc *desc, yki_kernel **kernel)
{
    randn *k = yki_calloc(1, sizeof *k);
    if (!k)
        return yki_error_memory(sizeof *k, "a randn_like kernel");
    k->device = device;
    k->out = desc->out[YKI_RANDN_LIKE_Y];
    k->salt = desc->attrs->salt;
    k->team = yki_team(device, 16 * yki_operand_count(&k->out)); /* a number takes long */
    if (k->out.layout == YKI_BLOCKED)
        k->shape = yki_geometry_of(device, &k->out);
    else
        k->shape = (yki_geometry){
            .images = 1, .channels = 1, .blocks = 1, .pixels = yki_operand_count(&k->out), .b = 1};
    *kernel = &k->base;
    return YK_OK;
}

/* Less than 2^52, exactly, by instructions that every vector unit has. */
static inline double double_of(uint64_t whole)
{
    const uint64_t bits = whole | 0x4330000000000000u; /* of 2^52 + whole */
    double shifted;
    memcpy(&shifted, &bits, sizeof shifted);
    return shifted - 0x1p52;
}

/* yki_unit_of(word). */
static inline double unit_of(uint64_t word)
{
    return double_of(word >> 32) * 0x1p-32 + double_of(word >> 11 & 0x1fffff) * 0x1p-53;
}

/* log(x) for x in (0, 1], not denormal, as yki_normal_log() makes it, but without branches, and by
 * eight terms: what they leave out is less than 2^-44 of it. */
static inline double log_of(double x)
{
    const uint64_t root = 0x3fe6a09e667f3bcdu; /* sqrt(1/2) */
    uint64_t bits;
    double m;
    memcpy(&bits, &x, sizeof bits);
    bits -= root;
    const double e = double_of((bits + ((uint64_t)1023 << 52)) >> 52) - 1023; /* floored */
    bits = (bits & 0xfffffffffffffu) + root;
    memcpy(&m, &bits, sizeof m);
    const double s = (m - 1) / (m + 1), z = s * s;
    double sum = 1.0 / 15;
    sum = 1.0 / 13 + z * sum;
    sum = 1.0 / 11 + z * sum;
    sum = 1.0 / 9 + z * sum;
    sum = 1.0 / 7 + z * sum;
    sum = 1.0 / 5 + z * sum;
    sum = 1.0 / 3 + z * sum;
    return e * 0.69314718055994530942 + (2 * s + 2 * s * (z * sum));
}

/* cos(2 pi turns) for turns in [0, 1): the sine of an angle up to pi / 2, by Taylor's series to
 * angle^17 / 17!; what that leaves out is less than 2^-44. */
static inline double cos_of(double turns)
{
    const double whole = turns + 0x1.8p52 - 0x1.8p52; /* the nearest integer */
    const double angle = (0.25 - fabs(turns - whole)) * 6.28318530717958647693, z = angle * angle;
    double sum = 1.0 / 355687428096000.0;
    sum = -1.0 / 1307674368000.0 + z * sum;
    sum = 1.0 / 6227020800.0 + z * sum;
    sum = -1.0 / 39916800.0 + z * sum;
    sum = 1.0 / 362880.0 + z * sum;
    sum = -1.0 / 5040.0 + z * sum;
    sum = 1.0 / 120.0 + z * sum;
    sum = -1.0 / 6.0 + z * sum;
    sum = 1 + z * sum;
    return angle * sum;
}

/*
 * Numbers `first` and so on; returns whether any of them is in doubt. What the series leave out, a
 * few units in the last place, and what the C library makes of an argument that has been rounded
 * are together less than 2^-42 of the radius.
 */
YKI_VECTOR_CLONES
static bool draw_fast(const yki_randn *draw, uint64_t first, int64_t count, float *y,
                      uint32_t *doubts)
{
    const uint64_t stem = draw->stem, begin = draw->origin + first;
    uint32_t any = 0;
    for (int64_t i = 0; i < count; i++) {
        const uint64_t word = yki_mix64(stem ^ (begin + (uint64_t)i));
        const double radius = sqrt(-2 * log_of(unit_of(word) + 0x1p-54));
        const double value = radius * cos_of(unit_of(yki_mix64(word))), off = radius * 0x1p-42;
        const float least = (float)(value - off), most = (float)(value + off);
        y[i] = least;
        doubts[i] = least != most;
    }
    for (int64_t i = 0; i < count; i++)
        any |= doubts[i];
    return any != 0;
}

static void draw_numbers(const yki_randn *draw, uint64_t first, int64_t count, float *y)
{
    uint32_t doubts[DRAWS];
    if (draw_fast(draw, first, count, y, doubts))
        for (int64_t i = 0; i < count; i++)
            if (doubts[i])
                y[i] = (float)yki_randn_at(draw, first + (uint64_t)i);
}

/* Some pixels of all channels of a block; in the plain order, each channel has its own together. */
static void draw_pixels(const randn *k, const yki_randn *draw, int64_t block, int64_t pixel,
                        int64_t count, void *y)
{
    const yki_geometry *g = &k->shape;
    const int64_t image = block / g->blocks, channel = block % g->blocks * g->b;
    const int64_t left = g->channels - channel, channels = left < g->b ? left : g->b;
    for (int64_t c = 0; c < channels; c++) {
        const int64_t first = (image * g->channels + channel + c) * g->pixels + pixel;
        const int64_t to = (block * g->pixels + pixel) * g->b + c;
        float numbers[DRAWS];
        draw_numbers(draw, (uint64_t)first, count, numbers);
        for (int64_t i = 0; i < count; i++)
            yki_put(y, to + i * g->b, numbers[i], k->out.dtype);
    }
}

static yk_status randn_like(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const randn *k = (const randn *)kernel;
    const yki_geometry *g = &k->shape;
    const yki_randn draw = yki_randn_of(run->scalars->seed, run->scalars->step, k->salt);
#pragma omp parallel for collapse(2) num_threads(k->team) if (k->team > 1)
    for (int64_t block = 0; block < g->images * g->blocks; block++)
        for (int64_t pixel = 0; pixel < g->pixels; pixel += DRAWS) {
            const int64_t left = g->pixels - pixel;
            draw_pixels(k, &draw, block, pixel, left < DRAWS ? left : DRAWS,
                        run->out[YKI_RANDN_LIKE_Y]);
        }
    yki_operand_clear_padding(k->device, &k->out, run->out[YKI_RANDN_LIKE_Y]);
    return YK_OK;
}

const yki_kernel_impl yki_cpu_randn_like = {.op = &yki_op_randn_like,
                                            .inplace = 1,
                                            .supports = randn_supports,
                                            .prepare = randn_prepare,
                                            .run = randn_like};

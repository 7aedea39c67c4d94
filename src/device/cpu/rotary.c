/*
 * rotary_embedding: the cosines and sines of all positions are computed once, when the kernel is
 * prepared, and tokens are divided among the threads. Numbers of 16 bits are turned in f32, some
 * pairs at a time.
 */
#include <string.h>

#include "base/clones.h"
#include "base/memory.h"
#include "device/cpu/geometry.h"
#include "graph/rotary.h"
#include "tensor/convert16.h"

typedef struct rotary {
    yki_kernel base;
    int64_t tokens, positions; /* tokens: of the whole batch */
    int64_t heads, width;      /* of a row, and the columns of a head */
    int64_t pairs;             /* of a head that are turned */
    bool interleaved;
    yk_dtype dtype;
    int team;
    float table[]; /* of each position the cosines of all pairs, and then the sines */
} rotary;

static bool supports(const yki_device *device, const yki_kernel_desc *desc)
{
    (void)device;
    const yki_operand *x = &desc->in[YKI_ROTARY_EMBEDDING_X];
    return yki_alike(x, &desc->out[YKI_ROTARY_EMBEDDING_Y]) && x->layout == YKI_PLAIN &&
           (x->dtype == YK_F32 || x->dtype == YK_BF16 || x->dtype == YK_F16);
}

static void fill_table(rotary *k, const yki_attrs *a)
{
    for (int64_t pair = 0; pair < k->pairs; pair++) {
        const float frequency = yki_rotary_frequency(a->alpha, pair, a->rotary);
        for (int64_t t = 0; t < k->positions; t++) {
            const double angle = yki_rotary_angle(a->first + t, frequency);
            float *row = k->table + 2 * t * k->pairs;
            row[pair] = (float)cos(angle);
            row[k->pairs + pair] = (float)(a->inverse ? -sin(angle) : sin(angle));
        }
    }
}

static yk_status prepare(yki_device *device, const yki_kernel_desc *desc, yki_kernel **kernel)
{
    const yki_operand *x = &desc->in[YKI_ROTARY_EMBEDDING_X];
    const size_t size = sizeof(rotary) + (size_t)(x->dims[1] * desc->attrs->rotary) * sizeof(float);
    rotary *k = yki_calloc(1, size);
    if (!k)
        return yki_error_memory(size, "the angles of a rotary embedding");
    k->tokens = x->dims[0] * x->dims[1];
    k->positions = x->dims[1];
    k->heads = desc->attrs->heads;
    k->width = x->dims[2] / k->heads;
    k->pairs = desc->attrs->rotary / 2;
    k->interleaved = desc->attrs->interleaved;
    k->dtype = x->dtype;
    k->team = yki_team(device, yki_operand_count(x));
    fill_table(k, desc->attrs);
    *kernel = &k->base;
    return YK_OK;
}

/* y may be x: both columns of a pair are read before either is written. */
YKI_VECTOR_CLONES
static void turn_halves(const float *x, float *y, int64_t distance, const float *cosines,
                        const float *sines, int64_t pairs)
{
#pragma GCC ivdep
    for (int64_t i = 0; i < pairs; i++) {
        const float p = x[i], q = x[distance + i];
        y[i] = p * cosines[i] - q * sines[i];
        y[distance + i] = q * cosines[i] + p * sines[i];
    }
}

YKI_VECTOR_CLONES
static void turn_neighbours(const float *x, float *y, const float *cosines, const float *sines,
                            int64_t pairs)
{
#pragma GCC ivdep
    for (int64_t i = 0; i < pairs; i++) {
        const float p = x[2 * i], q = x[2 * i + 1];
        y[2 * i] = p * cosines[i] - q * sines[i];
        y[2 * i + 1] = q * cosines[i] + p * sines[i];
    }
}

enum { PAIRS = 64 };

/* Pairs of 16-bit numbers, at most PAIRS from `first` on, whose two columns begin at x. */
static void turn16(const rotary *k, const uint16_t *x, uint16_t *y, const float *cosines,
                   int64_t first)
{
    float wide[2 * PAIRS];
    const int64_t count = k->pairs - first < PAIRS ? k->pairs - first : PAIRS;
    const float *c = cosines + first, *s = c + k->pairs;
    if (k->interleaved) {
        yki_widen16(wide, x + 2 * first, k->dtype, 2 * (size_t)count);
        turn_neighbours(wide, wide, c, s, count);
        yki_narrow16(y + 2 * first, wide, k->dtype, 2 * (size_t)count);
        return;
    }
    yki_widen16(wide, x + first, k->dtype, (size_t)count);
    yki_widen16(wide + PAIRS, x + k->pairs + first, k->dtype, (size_t)count);
    turn_halves(wide, wide, PAIRS, c, s, count);
    yki_narrow16(y + first, wide, k->dtype, (size_t)count);
    yki_narrow16(y + k->pairs + first, wide + PAIRS, k->dtype, (size_t)count);
}

/* A head whose columns begin at this element. */
static void turn_head(const rotary *k, const void *x, void *y, int64_t element,
                      const float *cosines)
{
    const size_t size = yk_dtype_size(k->dtype);
    const char *from = (const char *)x + (size_t)element * size;
    char *to = (char *)y + (size_t)element * size;
    if (k->dtype != YK_F32)
        for (int64_t first = 0; first < k->pairs; first += PAIRS)
            turn16(k, (const uint16_t *)from, (uint16_t *)to, cosines, first);
    else if (k->interleaved)
        turn_neighbours((const float *)from, (float *)to, cosines, cosines + k->pairs, k->pairs);
    else
        turn_halves((const float *)from, (float *)to, k->pairs, cosines, cosines + k->pairs,
                    k->pairs);
    const size_t turned = 2 * (size_t)k->pairs * size;
    if (from != to)
        memcpy(to + turned, from + turned, (size_t)k->width * size - turned);
}

static yk_status run(const yki_kernel *kernel, const yki_kernel_args *args)
{
    const rotary *k = (const rotary *)kernel;
    const void *x = args->in[YKI_ROTARY_EMBEDDING_X];
    void *y = args->out[YKI_ROTARY_EMBEDDING_Y];
#pragma omp parallel for num_threads(k->team) if (k->team > 1)
    for (int64_t token = 0; token < k->tokens; token++) {
        const float *cosines = k->table + 2 * (token % k->positions) * k->pairs;
        for (int64_t head = 0; head < k->heads; head++)
            turn_head(k, x, y, (token * k->heads + head) * k->width, cosines);
    }
    return YK_OK;
}

const yki_kernel_impl yki_cpu_rotary_embedding = {.op = &yki_op_rotary_embedding,
                                                  .inplace = 1,
                                                  .supports = supports,
                                                  .prepare = prepare,
                                                  .run = run};

/*
 * Runs one operator on the cpu device in a chosen layout, block and dtype, and on ref in plain f32,
 * and compares: results, what running statistics became, and that padding channels hold zeros. The
 * conversions of bf16 are written here anew, so that the device's own are not what checks them;
 * those of f16 are checked one by one in tests/tensor.
 */
#ifndef YK_TEST_CPU_CHECK_H
#define YK_TEST_CPU_CHECK_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "device/device.h"
#include "harness.h"
#include "tensor/f16.h"

/* A tensor of the test, in plain order: numbers as double, whatever the dtype. */
typedef struct check_tensor {
    yki_operand operand; /* its dtype and layout are those of the cpu run */
    double *values;
} check_tensor;

typedef struct check_case {
    const yki_op *op;
    yki_attrs attrs;
    bool training, blocked;
    yk_dtype dtype; /* of activations: f32, bf16 or f16 */
    int block, threads;
    double tolerance;                /* absolute and relative */
    double tolerance_low;            /* of 16-bit operands */
    const yki_kernel_impl *expected; /* the kernel that must run, or NULL */
    int in_count, out_count;
    check_tensor in[YKI_MAX_IN], out[YKI_MAX_OUT];
    uint64_t state; /* of the numbers drawn */
} check_case;

static inline double check_draw(check_case *c)
{
    c->state = c->state * 6364136223846793005u + 1442695040888963407u;
    return (double)(int64_t)(c->state >> 32) / 2147483648.0 - 1;
}

static inline uint16_t check_narrow(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, 4);
    uint32_t rounded = bits + 0x7fffu + ((bits >> 16) & 1u);
    return (uint16_t)((isnan(value) ? bits : rounded) >> 16);
}

static inline float check_widen(uint16_t half)
{
    uint32_t bits = (uint32_t)half << 16;
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

static inline bool check_is_low(yk_dtype dtype)
{
    return dtype == YK_BF16 || dtype == YK_F16;
}

static inline yki_operand check_operand(const check_case *c, yk_dtype dtype, int ndim,
                                        const int64_t *dims)
{
    yki_operand operand = {.dtype = dtype, .ndim = ndim};
    for (int i = 0; i < ndim; i++)
        operand.dims[i] = dims[i];
    if (c->blocked && ndim == 4)
        operand.layout = YKI_BLOCKED;
    return operand;
}

/* Adds an input with values of scale * (-1, 1) + offset, rounded to its dtype; ndim < 0: absent. */
static inline double *check_in(check_case *c, yk_dtype dtype, int ndim, const int64_t *dims,
                               double scale, double offset)
{
    check_tensor *t = &c->in[c->in_count++];
    t->operand = check_operand(c, dtype, ndim, dims);
    int64_t count = yki_operand_count(&t->operand);
    t->values = calloc((size_t)count + 1, sizeof *t->values);
    for (int64_t i = 0; i < count; i++) {
        double value = scale * check_draw(c) + offset;
        t->values[i] = dtype == YK_BF16  ? check_widen(check_narrow((float)value))
                       : dtype == YK_F16 ? yki_f16_to_float(yki_f16_from_float((float)value))
                       : dtype == YK_F32 ? (float)value
                                         : (double)(int64_t)value;
    }
    return t->values;
}

static inline void check_out(check_case *c, yk_dtype dtype, int ndim, const int64_t *dims)
{
    check_tensor *t = &c->out[c->out_count++];
    t->operand = check_operand(c, dtype, ndim, dims);
}

static inline double check_get(const void *memory, int64_t at, yk_dtype dtype)
{
    switch (dtype) {
    case YK_F32:
        return ((const float *)memory)[at];
    case YK_BF16:
        return check_widen(((const uint16_t *)memory)[at]);
    case YK_F16:
        return yki_f16_to_float(((const uint16_t *)memory)[at]);
    case YK_I32:
        return ((const int32_t *)memory)[at];
    case YK_U8:
        return ((const uint8_t *)memory)[at];
    default:
        return (double)((const int64_t *)memory)[at];
    }
}

static inline void check_set(void *memory, int64_t at, yk_dtype dtype, double value)
{
    if (dtype == YK_F32)
        ((float *)memory)[at] = (float)value;
    else if (dtype == YK_BF16)
        ((uint16_t *)memory)[at] = check_narrow((float)value);
    else if (dtype == YK_F16)
        ((uint16_t *)memory)[at] = yki_f16_from_float((float)value);
    else if (dtype == YK_I32)
        ((int32_t *)memory)[at] = (int32_t)value;
    else if (dtype == YK_U8)
        ((uint8_t *)memory)[at] = (uint8_t)value;
    else
        ((int64_t *)memory)[at] = (int64_t)value;
}

/* Where plain element i lies in memory. */
static inline int64_t check_place(const yki_operand *o, int64_t block, int64_t i)
{
    if (o->layout == YKI_PLAIN)
        return i;
    int64_t pixels = o->dims[2] * o->dims[3], blocks = (o->dims[1] + block - 1) / block;
    int64_t pixel = i % pixels, channel = i / pixels % o->dims[1], n = i / pixels / o->dims[1];
    return ((n * blocks + channel / block) * pixels + pixel) * block + channel % block;
}

static inline int64_t check_elements(const yki_operand *o, int64_t block)
{
    int64_t count = yki_operand_count(o);
    if (o->layout == YKI_BLOCKED)
        count = count / o->dims[1] * ((o->dims[1] + block - 1) / block * block);
    return count;
}

/* Memory of exactly the operand's size with its values, zeros in padding; NULL values: all ones. */
static inline void *check_pack(const yki_operand *o, int64_t block, const double *values)
{
    size_t bytes = (size_t)check_elements(o, block) * yk_dtype_size(o->dtype);
    void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64 + 64);
    memset(memory, values ? 0 : 0xff, bytes);
    for (int64_t i = 0; values && i < yki_operand_count(o); i++)
        check_set(memory, check_place(o, block, i), o->dtype, values[i]);
    return memory;
}

typedef struct check_memory {
    void *in[YKI_MAX_IN], *out[YKI_MAX_OUT];
} check_memory;

static inline void check_free(check_memory *memory)
{
    for (int i = 0; i < YKI_MAX_IN; i++)
        free(memory->in[i]);
    for (int i = 0; i < YKI_MAX_OUT; i++)
        free(memory->out[i]);
}

/* Whether the kernel is the one that the case names, or else one of the device's own. */
static inline bool check_owns(const check_case *c, const yki_device *device,
                              const yki_kernel *kernel)
{
    if (c->expected)
        return kernel->impl == c->expected;
    for (const yki_kernel_impl *const *impl = device->type->kernels; *impl; impl++)
        if (*impl == kernel->impl)
            return true;
    return false;
}

/* One run; on the ref device everything is plain, and f32 where it was 16 bit. */
static inline void check_run(const check_case *c, bool ref, check_memory *memory)
{
    yki_device *device = NULL;
    assert_ok(yki_device_create(&device, ref ? "ref" : "cpu",
                                &(yki_device_options){.threads = c->threads, .winograd = true}));
    if (!ref)
        device->block = c->block;
    yki_kernel_desc desc = {.op = c->op,
                            .attrs = &c->attrs,
                            .training = c->training,
                            .in_count = c->in_count,
                            .out_count = c->out_count};
    *memory = (check_memory){{NULL}, {NULL}};
    for (int i = 0; i < c->in_count + c->out_count; i++) {
        bool input = i < c->in_count;
        const check_tensor *t = input ? &c->in[i] : &c->out[i - c->in_count];
        yki_operand *o = input ? &desc.in[i] : &desc.out[i - c->in_count];
        *o = t->operand;
        if (ref) {
            o->layout = YKI_PLAIN;
            o->dtype = check_is_low(o->dtype) ? YK_F32 : o->dtype;
        }
        if (o->ndim >= 0)
            *(input ? &memory->in[i] : &memory->out[i - c->in_count]) =
                check_pack(o, c->block, t->values);
    }
    yki_kernel *kernel = NULL;
    assert_ok(yki_kernel_create(device, &desc, &kernel));
    assert_true(ref || check_owns(c, device, kernel)); /* not silently ref's */
    void *scratch = aligned_alloc(64, (kernel->scratch + 127) / 64 * 64);
    memset(scratch, 0xff, kernel->scratch);
    void *in[YKI_MAX_IN], *packed = NULL;
    memcpy(in, memory->in, sizeof in);
    if (kernel->pack_bytes) {
        packed = aligned_alloc(64, (kernel->pack_bytes + 63) / 64 * 64);
        memset(packed, 0xff, kernel->pack_bytes);
        assert_ok(kernel->impl->pack(kernel, in[kernel->pack_input], packed, NULL));
        in[kernel->pack_input] = packed;
    }
    yki_kernel_args run = {.in = in,
                           .out = memory->out,
                           .scratch = scratch,
                           .scalars = &(yki_scalars){.seed = 7, .step = 3}};
    assert_ok(kernel->impl->run(kernel, &run));
    free(packed);
    free(scratch);
    yki_kernel_destroy(kernel);
    yki_device_destroy(device);
}

static inline void check_tensor_equal(const check_case *c, const check_tensor *t, const void *cpu,
                                      const void *ref, const char *what, int index)
{
    const yki_operand *o = &t->operand;
    if (o->ndim < 0)
        return;
    yk_dtype ref_dtype = check_is_low(o->dtype) ? YK_F32 : o->dtype;
    int64_t count = yki_operand_count(o), elements = check_elements(o, c->block);
    double tolerance = check_is_low(o->dtype) ? c->tolerance_low : c->tolerance;
    bool *seen = calloc((size_t)elements + 1, sizeof *seen);
    for (int64_t i = 0; i < count; i++) {
        int64_t at = check_place(o, c->block, i);
        double got = check_get(cpu, at, o->dtype), expected = check_get(ref, i, ref_dtype);
        seen[at] = true;
        const bool same = got == expected || (isnan(got) && isnan(expected));
        if (!same && !(fabs(got - expected) <= tolerance * (1 + fabs(expected))))
            fail_msg("%s, %s %d, block %d%s, %s, element %lld: got %.9g, expected %.9g",
                     c->op->name, what, index, c->block, c->blocked ? "" : " (plain)",
                     yk_dtype_name(o->dtype), (long long)i, got, expected);
    }
    for (int64_t at = 0; at < elements && (o->dtype == YK_F32 || check_is_low(o->dtype)); at++)
        if (!seen[at] && check_get(cpu, at, o->dtype) != 0)
            fail_msg("%s, %s %d: padding at %lld holds %g", c->op->name, what, index, (long long)at,
                     check_get(cpu, at, o->dtype));
    free(seen);
}

/* Frees the case's values. */
static inline void check_end(check_case *c)
{
    for (int i = 0; i < c->in_count; i++)
        free(c->in[i].values);
}

/* Runs both, compares all operands, frees the case's values. */
static inline void check(check_case *c)
{
    check_memory cpu, ref;
    check_run(c, false, &cpu);
    check_run(c, true, &ref);
    for (int i = 0; i < c->in_count; i++)
        check_tensor_equal(c, &c->in[i], cpu.in[i], ref.in[i], "input", i);
    for (int i = 0; i < c->out_count; i++)
        check_tensor_equal(c, &c->out[i], cpu.out[i], ref.out[i], "output", i);
    check_free(&cpu);
    check_free(&ref);
    check_end(c);
}

/* Whether this processor has the instructions of the loops for blocks of this size. */
static inline bool check_has_block(int block)
{
#if defined(__x86_64__)
    if (block == 16)
        return __builtin_cpu_supports("avx512bw");
    return block == 4 || __builtin_cpu_supports("avx2");
#else
    return block == 4;
#endif
}

/* Calls body with every layout, block and dtype, by one and by three threads. */
static inline void check_everywhere(void (*body)(check_case start))
{
    static const int blocks[] = {16, 8, 4};
    static const yk_dtype dtypes[] = {YK_F32, YK_BF16, YK_F16};
    for (int b = 0; b < 3; b++)
        for (int blocked = 0; blocked < 2; blocked++)
            for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
                for (int threads = 1; threads <= 3; threads += 2) {
                    if (!check_has_block(blocks[b]))
                        continue;
                    body((check_case){.block = blocks[b],
                                      .blocked = blocked,
                                      .dtype = dtypes[d],
                                      .threads = threads,
                                      .tolerance = 2e-6,
                                      .tolerance_low = dtypes[d] == YK_F16 ? 0x1p-10 : 0x1p-8,
                                      .state = 42});
                }
}

#endif

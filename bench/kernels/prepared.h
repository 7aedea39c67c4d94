/* What the benchmarks of kernels share: a kernel with its operands in memory. */
#ifndef YOKE_BENCH_PREPARED_H
#define YOKE_BENCH_PREPARED_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "device/device.h"

typedef enum direction { FORWARD, DATA, WEIGHT } direction;

typedef struct prepared {
    yki_attrs attrs;
    yki_kernel_desc desc;
    yki_kernel *kernel;
    void *in[YKI_MAX_IN], *out[YKI_MAX_OUT], *packed, *scratch;
} prepared;

static inline void check(yk_status status)
{
    if (status == YK_OK)
        return;
    fprintf(stderr, "%s\n", yk_last_error());
    exit(1);
}

static inline int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* ---- what a kernel works on ------------------------------------------------------------------ */

static const yki_operand none = {.ndim = -1};

static inline yki_operand images(const yki_device *device, yk_dtype dtype, int64_t batch,
                                 int64_t channels, int64_t side)
{
    yki_operand operand = {dtype, 4, {batch, channels, side, side}, YKI_PLAIN};
    operand.layout = device->type->layout(device, &operand);
    return operand;
}

/* Up to so many inputs or outputs; those that are not named are absent. */
static inline void set_operands(yki_operand *to, int *count, int named, const yki_operand *operands)
{
    *count = named;
    for (int i = 0; i < named; i++)
        to[i] = operands[i];
}

#define SET_IN(d, ...)                                                                             \
    set_operands((d)->in, &(d)->in_count, sizeof((yki_operand[]){__VA_ARGS__}) / sizeof(none),     \
                 (yki_operand[]){__VA_ARGS__})
#define SET_OUT(d, ...)                                                                            \
    set_operands((d)->out, &(d)->out_count, sizeof((yki_operand[]){__VA_ARGS__}) / sizeof(none),   \
                 (yki_operand[]){__VA_ARGS__})

/* Convolutions and linear layers. */
static inline void describe_product(yki_kernel_desc *d, bool linear, direction way, yki_operand x,
                                    yki_operand w, yki_operand y)
{
    static const yki_op *const ops[][3] = {
        {&yki_op_conv2d, &yki_op_conv2d_backward_data, &yki_op_conv2d_backward_weight},
        {&yki_op_linear, &yki_op_linear_backward_data, &yki_op_linear_backward_weight}};
    d->op = ops[linear][way];
    SET_IN(d, way == DATA ? y : x, way == WEIGHT ? y : w, none);
    d->in_count = way == FORWARD ? 3 : 2;
    SET_OUT(d, way == FORWARD ? y : way == DATA ? x : w, none);
    d->out_count = way == WEIGHT ? 2 : 1;
}

static inline void *fill(const yki_device *device, const yki_operand *operand)
{
    if (operand->ndim < 0)
        return NULL;
    size_t bytes = yki_operand_bytes(device, operand);
    char *memory = yki_map(bytes);
    uint32_t state = 1;
    for (size_t i = 0; memory && i + 4 <= bytes; i += 4) {
        state = state * 1664525u + 1013904223u;
        float number = (float)(int32_t)state / 2147483648.0f;
        uint32_t bits = 0x30003000u | (state >> 24); /* two small numbers of 16 bit */
        memcpy(memory + i, operand->dtype == YK_F32 ? (void *)&number : (void *)&bits, 4);
    }
    return memory;
}

/* ---- the kernel ------------------------------------------------------------------------------ */

static inline void pack(const prepared *p)
{
    if (p->packed)
        check(p->kernel->impl->pack(p->kernel, p->in[p->kernel->pack_input], p->packed, NULL));
}

/* The kernel of p->desc. */
static inline void prepare(prepared *p, yki_device *device)
{
    check(yki_kernel_create(device, &p->desc, &p->kernel));
    if (!p->kernel)
        exit(1); /* never: linters do not see that creators that succeed set their result */
    for (int i = 0; i < p->desc.in_count; i++)
        p->in[i] = fill(device, &p->desc.in[i]);
    for (int i = 0; i < p->desc.out_count; i++)
        p->out[i] = fill(device, &p->desc.out[i]);
    p->scratch = yki_map(p->kernel->scratch + YKI_ALIGNMENT);
    p->packed = p->kernel->pack_bytes ? yki_map(p->kernel->pack_bytes) : NULL;
    pack(p);
}

static inline void run(const prepared *p)
{
    void *in[YKI_MAX_IN];
    memcpy(in, p->in, sizeof in);
    if (p->packed)
        in[p->kernel->pack_input] = p->packed;
    static const yki_scalars scalars;
    yki_kernel_args args = {.in = in, .out = p->out, .scratch = p->scratch, .scalars = &scalars};
    check(p->kernel->impl->run(p->kernel, &args));
}

static inline void release(prepared *p, const yki_device *device)
{
    for (int i = 0; i < p->desc.in_count; i++)
        if (p->in[i])
            yki_unmap(p->in[i], yki_operand_bytes(device, &p->desc.in[i]));
    for (int i = 0; i < p->desc.out_count; i++)
        if (p->out[i])
            yki_unmap(p->out[i], yki_operand_bytes(device, &p->desc.out[i]));
    yki_unmap(p->scratch, p->kernel->scratch + YKI_ALIGNMENT);
    if (p->packed)
        yki_unmap(p->packed, p->kernel->pack_bytes);
    yki_kernel_destroy(p->kernel);
}

#endif

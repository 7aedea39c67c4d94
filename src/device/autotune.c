/*
 * Measures kernels against each other: see choice.h. They run in turn on the same operands, so that
 * whatever disturbs the machine disturbs all of them, and the least time of each counts. The time
 * of packing a weight is included, since a training step does it once.
 */
#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "device/device.h"

enum { REPEATS = 4 };                   /* of each kernel; the first only warms up ... */
static const double hopeless = 8;       /* ... and drops kernels this many times slower, twice */
static const double margin = 0.97;      /* the share of the preferred kernel's time that beats it */
static const unsigned char fill = 0x3c; /* small numbers in all dtypes */

typedef struct candidate {
    yki_kernel *kernel; /* NULL: it cannot run, or has been dropped */
    double seconds;
} candidate;

/* Memory that all candidates use in turn. */
typedef struct buffers {
    void *in[YKI_MAX_IN], *out[YKI_MAX_OUT], *scratch, *packed;
    size_t in_bytes[YKI_MAX_IN], out_bytes[YKI_MAX_OUT], scratch_bytes, packed_bytes;
} buffers;

/* Touches the memory, so that the first candidate does not wait for the system to map its pages. */
static bool map(void **memory, size_t bytes)
{
    *memory = bytes ? yki_map(bytes) : NULL;
    if (*memory)
        memset(*memory, fill, bytes);
    return !bytes || *memory;
}

static bool allocate(buffers *b)
{
    bool fine = map(&b->scratch, b->scratch_bytes) && map(&b->packed, b->packed_bytes);
    for (int i = 0; fine && i < YKI_MAX_IN; i++)
        fine = map(&b->in[i], b->in_bytes[i]);
    for (int i = 0; fine && i < YKI_MAX_OUT; i++)
        fine = map(&b->out[i], b->out_bytes[i]);
    return fine;
}

static void release(buffers *b)
{
    for (int i = 0; i < YKI_MAX_IN; i++)
        yki_unmap(b->in[i], b->in_bytes[i]);
    for (int i = 0; i < YKI_MAX_OUT; i++)
        yki_unmap(b->out[i], b->out_bytes[i]);
    yki_unmap(b->scratch, b->scratch_bytes);
    yki_unmap(b->packed, b->packed_bytes);
}

static void measure_operands(buffers *b, const yki_device *device, const yki_kernel_desc *desc)
{
    for (int i = 0; i < desc->in_count; i++)
        b->in_bytes[i] = desc->in[i].ndim < 0 ? 0 : yki_operand_bytes(device, &desc->in[i]);
    for (int i = 0; i < desc->out_count; i++)
        b->out_bytes[i] = desc->out[i].ndim < 0 ? 0 : yki_operand_bytes(device, &desc->out[i]);
}

static void prepare(yki_device *device, const yki_kernel_desc *desc, const yki_kernel_impl *impl,
                    candidate *c, buffers *b)
{
    *c = (candidate){.seconds = DBL_MAX};
    if (impl->prepare(device, desc, &c->kernel) != YK_OK) {
        c->kernel = NULL;
        return;
    }
    c->kernel->impl = impl;
    if (c->kernel->scratch > b->scratch_bytes)
        b->scratch_bytes = c->kernel->scratch;
    if (c->kernel->pack_bytes > b->packed_bytes)
        b->packed_bytes = c->kernel->pack_bytes;
}

static void drop(candidate *c)
{
    yki_kernel_destroy(c->kernel);
    c->kernel = NULL;
}

static void run(candidate *c, const buffers *b, bool again)
{
    const yki_scalars scalars = {.seed = 0};
    const yki_kernel_impl *impl = c->kernel->impl;
    void *in[YKI_MAX_IN];
    memcpy(in, b->in, sizeof in);
    yk_status status = YK_OK;
    double begin = yki_now();
    if (c->kernel->pack_bytes) {
        int weight = c->kernel->pack_input;
        status = impl->pack(c->kernel, b->in[weight], b->packed, NULL);
        in[weight] = b->packed;
    }
    if (status == YK_OK)
        status = impl->run(c->kernel, &(yki_kernel_args){.in = in,
                                                         .out = (void *const *)b->out,
                                                         .scratch = b->scratch,
                                                         .scalars = &scalars});
    double seconds = yki_now() - begin;
    if (status != YK_OK)
        drop(c);
    else if (!again || seconds < c->seconds)
        c->seconds = seconds;
}

/* The least time of the candidates that have not been dropped. */
static double least(const candidate *candidates, size_t count)
{
    double seconds = DBL_MAX;
    for (size_t i = 0; i < count; i++)
        if (candidates[i].kernel && candidates[i].seconds < seconds)
            seconds = candidates[i].seconds;
    return seconds;
}

static void run_repeats(candidate *candidates, size_t count, const buffers *b)
{
    for (int repeat = 0; repeat < REPEATS; repeat++) {
        for (size_t i = 0; i < count; i++)
            if (candidates[i].kernel)
                run(&candidates[i], b, repeat > 1);
        double limit = hopeless * least(candidates, count);
        for (size_t i = 0; repeat == 0 && i < count; i++) {
            /* Once more: other programs may have held up a fast kernel. */
            if (candidates[i].kernel && candidates[i].seconds > limit)
                run(&candidates[i], b, true);
            if (candidates[i].kernel && candidates[i].seconds > limit)
                drop(&candidates[i]);
        }
    }
}

static size_t find_fastest(const candidate *candidates, size_t count)
{
    size_t fastest = 0;
    for (size_t i = 1; i < count; i++) {
        double limit = candidates[fastest].seconds * (fastest == 0 ? margin : 1);
        if (candidates[i].kernel && (!candidates[fastest].kernel || candidates[i].seconds < limit))
            fastest = i;
    }
    return fastest;
}

size_t yki_autotune(yki_device *device, const yki_kernel_desc *desc,
                    const yki_kernel_impl *const *impls, size_t count, double *seconds)
{
    buffers b = {.scratch_bytes = 0};
    size_t fastest = 0;
    memset(seconds, 0, count * sizeof *seconds);
    candidate *candidates = yki_calloc(count, sizeof *candidates);
    if (!candidates)
        return 0;
    measure_operands(&b, device, desc);
    for (size_t i = 0; i < count; i++)
        prepare(device, desc, impls[i], &candidates[i], &b);
    if (allocate(&b)) {
        run_repeats(candidates, count, &b);
        fastest = find_fastest(candidates, count);
        for (size_t i = 0; i < count; i++)
            seconds[i] = candidates[i].seconds < DBL_MAX ? candidates[i].seconds : 0;
    }
    for (size_t i = 0; i < count; i++)
        drop(&candidates[i]);
    release(&b);
    free(candidates);
    return fastest;
}

/* Recurrent layers on the cpu device: a sample's results have the same bits with any number of
 * threads, and whatever the other samples are. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "device/cpu/cpu.h"
#include "harness.h"
#include "tensor/element.h"

enum { SAMPLES = 9, STEPS = 5, MOST_OPERANDS = YKI_MAX_IN };

/* An operator, and what its operands are. */
typedef struct layer {
    const yki_op *op;
    int64_t gates;
    const char *in, *out; /* a letter for each operand, see dims_of */
} layer;

static const layer layers[] = {{&yki_op_lstm, 4, "gwblss", "yssc"},
                               {&yki_op_lstm_backward, 4, "cwylsyss", "gyss"},
                               {&yki_op_gru, 3, "gwbls", "ysc"},
                               {&yki_op_gru_backward, 3, "cwylsys", "gysg"}};

/* Gates, what is saved, outputs of all steps and states; the weight, the bias and the lengths. */
static yki_operand operand_of(char what, const layer *l, int64_t samples, int64_t size,
                              yk_dtype dtype)
{
    const int64_t gates = l->gates * size;
    switch (what) {
    case 'g':
        return (yki_operand){.dtype = dtype, .ndim = 3, .dims = {samples, STEPS, gates}};
    case 'c':
        return (yki_operand){.dtype = dtype, .ndim = 3, .dims = {samples, STEPS, gates + size}};
    case 'y':
        return (yki_operand){.dtype = dtype, .ndim = 3, .dims = {samples, STEPS, size}};
    case 's':
        return (yki_operand){.dtype = dtype, .ndim = 2, .dims = {samples, size}};
    case 'w':
        return (yki_operand){.dtype = YK_F32, .ndim = 2, .dims = {gates, size}};
    case 'b':
        return (yki_operand){.dtype = YK_F32, .ndim = 1, .dims = {gates}};
    default:
        return (yki_operand){.dtype = YK_F32, .ndim = 1, .dims = {samples}};
    }
}

/* Numbers of the operand's place and of the element alone, so that one sample can be run alone. */
static void *numbers_of(const yki_operand *operand, char what, int place, int64_t first)
{
    const int64_t count = yki_operand_count(operand), begin = first * count / operand->dims[0];
    char *memory = yki_map((size_t)count * yk_dtype_size(operand->dtype));
    assert_non_null(memory);
    for (int64_t i = 0; i < count; i++) {
        const uint32_t mixed = (uint32_t)(begin + i + 1000003 * place) * 2654435761u;
        double number = (double)(mixed >> 8) / (1 << 23) - 1;
        if (what == 'w')
            number *= 0.2;
        if (what == 'l')
            number = (double)((begin + i) % (STEPS + 1));
        yki_element_set(operand->dtype, memory, i, number);
    }
    return memory;
}

typedef struct results {
    int count;
    void *out[YKI_MAX_OUT];
    size_t bytes[YKI_MAX_OUT];
} results;

static void prepare(yki_kernel_desc *desc, const layer *l, int64_t samples, int64_t size,
                    yk_dtype dtype)
{
    desc->op = l->op;
    desc->in_count = (int)strlen(l->in);
    desc->out_count = (int)strlen(l->out);
    for (int i = 0; i < YKI_MAX_IN; i++)
        desc->in[i].ndim = -1;
    for (int i = 0; i < YKI_MAX_OUT; i++)
        desc->out[i].ndim = -1;
    for (int i = 0; l->in[i]; i++)
        desc->in[i] = operand_of(l->in[i], l, samples, size, dtype);
    for (int i = 0; l->out[i]; i++)
        desc->out[i] = operand_of(l->out[i], l, samples, size, dtype);
}

/* Samples [first, first + samples) with so many threads. */
static results run(const layer *l, int64_t first, int64_t samples, int64_t size, yk_dtype dtype,
                   bool reverse, int threads)
{
    const yki_attrs attrs = {.reverse = reverse};
    yki_kernel_desc desc = {.attrs = &attrs};
    yki_device *device;
    yki_kernel *kernel;
    void *in[YKI_MAX_IN] = {NULL};
    prepare(&desc, l, samples, size, dtype);
    assert_ok(yki_device_create(&device, "cpu", &(yki_device_options){.threads = threads}));
    device->type->enter(device);
    assert_ok(yki_kernel_create(device, &desc, &kernel));
    assert_true(kernel->impl->pack != NULL); /* not ref's */
    results r = {.count = desc.out_count};
    for (int i = 0; i < desc.in_count; i++)
        in[i] = numbers_of(&desc.in[i], l->in[i], i, strchr("wb", l->in[i]) ? 0 : first);
    for (int i = 0; i < r.count; i++) {
        r.bytes[i] = yki_operand_bytes(device, &desc.out[i]);
        r.out[i] = yki_map(r.bytes[i]);
        assert_non_null(r.out[i]);
        memset(r.out[i], 0xff, r.bytes[i]);
    }
    void *parameter = in[kernel->pack_input], *packed = yki_map(kernel->pack_bytes);
    void *scratch = yki_map(kernel->scratch);
    assert_true(packed && scratch);
    assert_ok(kernel->impl->pack(kernel, parameter, packed, NULL));
    in[kernel->pack_input] = packed;
    assert_ok(
        kernel->impl->run(kernel, &(yki_kernel_args){.in = in, .out = r.out, .scratch = scratch}));
    in[kernel->pack_input] = parameter;
    for (int i = 0; i < desc.in_count; i++)
        yki_unmap(in[i], (size_t)yki_operand_count(&desc.in[i]) * yk_dtype_size(desc.in[i].dtype));
    yki_unmap(packed, kernel->pack_bytes);
    yki_unmap(scratch, kernel->scratch);
    yki_kernel_destroy(kernel);
    yki_device_destroy(device);
    return r;
}

static void discard(results *r)
{
    for (int i = 0; i < r->count; i++)
        yki_unmap(r->out[i], r->bytes[i]);
}

static void compare(const layer *l, int64_t size, yk_dtype dtype, bool reverse)
{
    results one = run(l, 0, SAMPLES, size, dtype, reverse, 1);
    for (int threads = 2; threads <= 8; threads += 3) {
        results more = run(l, 0, SAMPLES, size, dtype, reverse, threads);
        for (int i = 0; i < one.count; i++)
            if (memcmp(one.out[i], more.out[i], one.bytes[i]) != 0)
                fail_msg("%s, size %lld: output %d depends on threads", l->op->name,
                         (long long)size, i);
        discard(&more);
    }
    for (int64_t n = 0; n < SAMPLES; n += 4) {
        results alone = run(l, n, 1, size, dtype, reverse, 3);
        for (int i = 0; i < one.count; i++)
            if (memcmp((char *)one.out[i] + (size_t)n * alone.bytes[i], alone.out[i],
                       alone.bytes[i]) != 0)
                fail_msg("%s, size %lld: output %d of a sample depends on others", l->op->name,
                         (long long)size, i);
        discard(&alone);
    }
    discard(&one);
}

static void compare_all(void)
{
    const yk_dtype dtypes[] = {YK_F32, YK_BF16, YK_F16};
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
        for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
            compare(&layers[i], 37, dtypes[d], false);
            compare(&layers[i], 150, dtypes[d], true); /* enough for threads to share units */
        }
}

YK_TEST(a_sample_has_the_same_bits_whatever_is_beside_it)
{
    compare_all();
}

YK_TEST(a_sample_has_the_same_bits_whatever_is_beside_it_avx2)
{
    setenv("ONEDNN_MAX_CPU_ISA", "AVX2", 1);
    compare_all();
}

/*
 * Whether a kernel of the cpu device is the one that runs, and its results have the same bits with
 * any number of threads, and past the caches.
 */
#ifndef YK_TEST_SAME_BITS_H
#define YK_TEST_SAME_BITS_H

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "device/cpu/cpu.h"
#include "device/cpu/x86/panel.h"
#include "harness.h"
#include "tensor/f16.h"

enum { IMAGES = 96, CHANNELS = 64, FILTERS = 128, ROWS = 5, COLUMNS = 6 };

static const yki_attrs attrs = {
    .stride = {1, 1}, .padding = {1, 1}, .dilation = {1, 1}, .groups = 1};
static const yki_operand x = {
    .dtype = YK_F32, .ndim = 4, .dims = {IMAGES, CHANNELS, ROWS, COLUMNS}, .layout = YKI_BLOCKED};
static const yki_operand y = {
    .dtype = YK_F32, .ndim = 4, .dims = {IMAGES, FILTERS, ROWS, COLUMNS}, .layout = YKI_BLOCKED};
static const yki_operand weight = {
    .dtype = YK_F32, .ndim = 4, .dims = {FILTERS, CHANNELS, 3, 3}, .layout = YKI_PLAIN};
static const yki_operand none = {.ndim = -1};

static inline void *allocate(size_t bytes)
{
    void *memory = yki_map(bytes);
    assert_non_null(memory);
    return memory;
}

static inline void *random_numbers(const yki_device *device, const yki_operand *operand)
{
    size_t bytes = yki_operand_bytes(device, operand), size = yk_dtype_size(operand->dtype);
    char *numbers = allocate(bytes);
    uint32_t state = (uint32_t)bytes;
    for (size_t i = 0; i < bytes / size; i++) {
        state = state * 1664525u + 1013904223u;
        float number = (float)(int32_t)state / 2147483648.0f;
        uint16_t half = yki_f16_from_float(number);
        memcpy(numbers + i * size, size == sizeof half ? (const void *)&half : &number, size);
    }
    return numbers;
}

/* Runs desc with so many threads on the same numbers; the result, which begins `shift` bytes after
 * a page, is the caller's. */
static inline void *run_at(yki_kernel_desc desc, const yki_kernel_impl *expected, int threads,
                           size_t shift)
{
    yki_device *device;
    assert_ok(yki_device_create(&device, "cpu",
                                &(yki_device_options){.threads = threads, .winograd = true}));
    device->type->enter(device);
    yki_kernel *kernel;
    assert_ok(yki_kernel_create(device, &desc, &kernel));
    assert_ptr_equal(kernel->impl, expected);
    void *in[3] = {NULL}, *given[3] = {NULL}, *packed = NULL;
    for (int i = 0; i < desc.in_count; i++)
        if (desc.in[i].ndim >= 0)
            in[i] = given[i] = random_numbers(device, &desc.in[i]);
    if (kernel->pack_bytes) {
        given[kernel->pack_input] = packed = allocate(kernel->pack_bytes);
        assert_ok(kernel->impl->pack(kernel, in[kernel->pack_input], packed, NULL));
    }
    size_t bytes = yki_operand_bytes(device, &desc.out[0]);
    char *memory = allocate(bytes + shift);
    void *out[2] = {memory + shift}, *scratch = allocate(kernel->scratch);
    assert_ok(
        kernel->impl->run(kernel, &(yki_kernel_args){.in = given, .out = out, .scratch = scratch}));
    for (int i = 0; i < desc.in_count; i++)
        if (in[i])
            yki_unmap(in[i], yki_operand_bytes(device, &desc.in[i]));
    yki_unmap(scratch, kernel->scratch);
    if (packed)
        yki_unmap(packed, kernel->pack_bytes);
    yki_kernel_destroy(kernel);
    yki_device_destroy(device);
    return memory;
}

static inline void *run(yki_kernel_desc desc, const yki_kernel_impl *expected, int threads)
{
    return run_at(desc, expected, threads, 0);
}

/* The lanes of the kernels that are tested. */
static int lanes = YKI_PANEL_LANES;

/* oneDNN reads the variable when it is first used, and each test is a process. */
static inline void on_avx2(void)
{
    setenv("ONEDNN_MAX_CPU_ISA", "AVX2", 1);
    lanes = 8;
}

static inline void on_sse2(void)
{
    setenv("ONEDNN_MAX_CPU_ISA", "SSE41", 1);
    lanes = 4;
}

static inline bool has_lanes(void)
{
    yki_device *device;
    assert_ok(
        yki_device_create(&device, "cpu", &(yki_device_options){.threads = 1, .winograd = true}));
    bool has = device->block == lanes;
    yki_device_destroy(device);
    return has;
}

static inline void same_bits_with(const yki_kernel_desc *desc, const yki_kernel_impl *expected,
                                  int threads)
{
    if (!has_lanes())
        skip_because(lanes == 8 ? "this processor has no AVX2" : "this processor has no AVX-512");
    void *one = run(*desc, expected, 1), *many = run(*desc, expected, threads);
    size_t bytes = (size_t)yki_operand_count(&desc->out[0]) * yk_dtype_size(desc->out[0].dtype);
    assert_memory_equal(one, many, bytes);
    yki_unmap(one, bytes);
    yki_unmap(many, bytes);
}

static inline void same_bits(const yki_kernel_desc *desc, const yki_kernel_impl *expected)
{
    for (int threads = 2; threads <= 5; threads++)
        same_bits_with(desc, expected, threads);
}

enum { UNALIGNED = 16 }; /* bytes */

/* Results of 8 MiB and more are written past the caches, unless they are not aligned. */
static inline void same_bits_unaligned(const yki_kernel_desc *desc, const yki_kernel_impl *expected)
{
    if (!has_lanes())
        skip_because(lanes == 8 ? "this processor has no AVX2" : "this processor has no AVX-512");
    char *past = run_at(*desc, expected, 2, 0), *through = run_at(*desc, expected, 2, UNALIGNED);
    size_t bytes = (size_t)yki_operand_count(&desc->out[0]) * sizeof(float);
    assert_true(bytes >= (size_t)8 << 20);
    assert_memory_equal(past, through + UNALIGNED, bytes);
    yki_unmap(past, bytes);
    yki_unmap(through, bytes + UNALIGNED);
}

#endif

/* For the tests of the simulated device: a device with a seed, tensors on it, and a kernel. */
#ifndef YK_TEST_SIM_DEVICE_H
#define YK_TEST_SIM_DEVICE_H

#include <stdlib.h>

#include "device/sim/sim.h"
#include "harness.h"

enum { COUNT = 64, BYTES = COUNT * sizeof(float), SEEDS = 16 };

static inline yki_device *open_sim(int seed)
{
    char text[16];
    snprintf(text, sizeof text, "%d", seed);
    setenv("YOKE_SIM_SEED", text, 1);
    yki_device *device;
    assert_ok(yki_device_create(&device, "sim", &(yki_device_options){.threads = 1}));
    return device;
}

static inline float *new_tensor(yki_device *device)
{
    void *memory;
    assert_ok(yki_device_alloc(device, BYTES, &memory));
    return memory;
}

static inline yki_event *new_event(yki_device *device)
{
    yki_event *event;
    assert_ok(yki_event_create(device, &event));
    return event;
}

static inline yki_stream *new_stream(yki_device *device)
{
    yki_stream *stream;
    assert_ok(yki_stream_create(device, &stream));
    return stream;
}

/* The first element, after all that is in the device's own stream. */
static inline float read_first(yki_device *device, const float *memory)
{
    float first;
    yki_stream *stream = yki_device_stream(device);
    assert_ok(yki_device_copy(device, &first, memory, sizeof first, YKI_TO_HOST, stream));
    assert_ok(yki_stream_wait(device, stream));
    return first;
}

static inline void write_all(yki_device *device, float *memory, const float *host,
                             yki_stream *stream)
{
    assert_ok(yki_device_copy(device, memory, host, BYTES, YKI_TO_DEVICE, stream));
}

static inline yki_kernel *new_add(yki_device *device)
{
    static const yki_attrs attrs;
    yki_kernel_desc desc = {.op = &yki_op_add, .attrs = &attrs, .in_count = 2, .out_count = 1};
    desc.in[0] = desc.in[1] = desc.out[0] =
        (yki_operand){.dtype = YK_F32, .ndim = 1, .dims = {COUNT}};
    yki_kernel *kernel;
    assert_ok(yki_kernel_create(device, &desc, &kernel));
    return kernel;
}

static inline yk_status add(const yki_kernel *kernel, float *y, float *a, float *b,
                            yki_stream *stream)
{
    void *in[] = {a, b}, *out[] = {y};
    return kernel->impl->run(kernel, &(yki_kernel_args){.in = in, .out = out, .stream = stream});
}

#endif

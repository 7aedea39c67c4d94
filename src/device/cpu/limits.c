/* What the processor can do with the device's threads: the best of short repeats, since any
 * disturbance only makes one slower. */
#include "base/clock.h"
#include "base/memory.h"
#include "device/cpu/geometry.h"
#include "device/cpu/loops/loops.h"
#include "device/cpu/onednn.h"
#include "device/cpu/x86/amx.h"
#include "device/cpu/x86/bf16_rate.h"

static const double FLOP_S = 0.15, BYTES_S = 0.3; /* seconds for each */

enum {
    ROUNDS = 100000,     /* of multiply-adds a repeat: about a millisecond */
    ELEMENTS = 16 << 20, /* of each of two arrays: 64 MiB, beyond most caches */
    ALIGN = 1024         /* elements at which a thread's share begins */
};

/* Floating-point operations a second, of a function that takes rounds and returns how many they
 * were. */
static double measure_flop(const yki_device *device, double (*multiply)(int64_t rounds))
{
    double best = 0;
    for (double begin = yki_now(); yki_now() - begin < FLOP_S;) {
        double flop = 0, start = yki_now();
#pragma omp parallel num_threads(device->threads) reduction(+ : flop)
        flop += multiply(ROUNDS);
        double rate = flop / (yki_now() - start);
        best = rate > best ? rate : best;
    }
    return best;
}

static double measure_matrix_flop(const yki_device *device)
{
#if defined(__x86_64__)
    const yki_cpu_device *cpu = (const yki_cpu_device *)device;
    if (cpu->has_amx)
        return measure_flop(device, yki_amx_multiply_alone);
    if (cpu->native_bf16)
        return measure_flop(device, yki_bf16_multiply_alone);
#else
    (void)device;
#endif
    return 0;
}

static void add_arrays(const yki_device *device, const yki_cpu_loops *loops, float *a,
                       const float *b)
{
    const yki_elementwise add = {.op = YKI_MAP_ADD, .dtype = YK_F32};
#pragma omp parallel num_threads(device->threads)
    {
        int64_t begin, end;
        yki_share(ELEMENTS / ALIGN, &begin, &end);
        float *share = a + begin * ALIGN;
        loops->map(&add, share, b + begin * ALIGN, share, (end - begin) * ALIGN);
    }
}

yk_status yki_cpu_measure(yki_device *device, yki_limits *limits)
{
    const yki_cpu_loops *loops = yki_cpu_loops_of(device);
    size_t bytes = ELEMENTS * sizeof(float);
    float *a = yki_map(bytes), *b = yki_map(bytes);
    yk_status status = YK_OK;
    if (!a || !b) {
        status = yki_error_memory(2 * bytes, "measuring the memory's speed");
        goto out;
    }
    add_arrays(device, loops, b, a); /* gives every page its memory */
    *limits = (yki_limits){.flop_s = measure_flop(device, loops->multiply_add),
                           .matrix_flop_s = measure_matrix_flop(device)};
    for (double begin = yki_now(); yki_now() - begin < BYTES_S;) {
        double start = yki_now();
        add_arrays(device, loops, a, b);
        double rate = 3.0 * (double)bytes / (yki_now() - start);
        limits->bytes_s = rate > limits->bytes_s ? rate : limits->bytes_s;
    }
out:
    yki_unmap(a, bytes);
    yki_unmap(b, bytes);
    return status;
}

/* Sweeps: chunks are shared by the device's threads, loops compiled for each width of vectors. */
#include "device/cpu/cpu.h"

#define YKI_LOOP YKI_VECTOR_CLONES
#include "device/sweep_chunk.h"

yk_status yki_cpu_sweep(yki_device *device, const yki_sweep_args *args)
{
    if (sweep_is_idle(args))
        return YK_OK;
#pragma omp parallel for schedule(static) num_threads(device->threads) if (args->chunk_count > 1)
    for (size_t i = 0; i < args->chunk_count; i++)
        sweep_chunk(args, i);
    sweep_finish(args);
    return YK_OK;
}

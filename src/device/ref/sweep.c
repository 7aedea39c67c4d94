/* Sweeps, one chunk after the other. */
#define YKI_LOOP
#include "device/sweep_chunk.h"

#include "device/ref/ref.h"

yk_status yki_ref_sweep(yki_device *device, const yki_sweep_args *args)
{
    (void)device;
    if (sweep_is_idle(args))
        return YK_OK;
    for (size_t i = 0; i < args->chunk_count; i++)
        sweep_chunk(args, i);
    sweep_finish(args);
    return YK_OK;
}

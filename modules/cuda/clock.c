/* When the GPU comes to a point of a stream: see kernels/clock.cu. */
#include "cuda.h"

yk_status yki_cuda_find_clock(yki_cuda_device *device)
{
    return yki_cuda_find_of_device(device, "note_time", &device->clock);
}

yk_status yki_cuda_note_time(yki_device *device, int64_t *nanoseconds, yki_stream *stream)
{
    const yki_cuda_device *cuda = (const yki_cuda_device *)device;
    yki_cuda_note_time_args args;
    args.nanoseconds = nanoseconds;
    return cuda->launcher->launch(cuda->launcher, cuda->clock, (yki_cuda_grid){1, 1, 1}, &args,
                                  sizeof args, stream);
}

/* How long the GPU takes for something: the time between two events in its stream. */
#include "gpu/gpu.h"

static yk_status time_between(yki_cuda_gpu *gpu, yk_status (*before)(const void *context),
                              yk_status (*work)(const void *context), const void *context,
                              const yki_cu_event events[2], double *seconds)
{
    yki_cu_stream stream = gpu->cuda.base.stream->handle;
    float milliseconds;
    YK_TRY(before(context));
    YK_TRY(yki_cuda_call(EventRecord, events[0], stream));
    YK_TRY(work(context));
    YK_TRY(yki_cuda_call(EventRecord, events[1], stream));
    YK_TRY(yki_cuda_call(EventSynchronize, events[1]));
    YK_TRY(yki_cuda_call(EventElapsedTime, &milliseconds, events[0], events[1]));
    *seconds = 1e-3 * (double)milliseconds;
    return YK_OK;
}

yk_status yki_cuda_gpu_measure(yki_device *device, yk_status (*before)(const void *context),
                               yk_status (*work)(const void *context), const void *context,
                               double *seconds)
{
    yki_cuda_gpu *gpu = yki_cuda_gpu_of(device);
    yki_cu_event events[2] = {NULL};
    YK_TRY(yki_cuda_gpu_enter(gpu));
    yk_status status = yki_cuda_call(EventCreate, &events[0], YKI_CU_EVENT_DEFAULT);
    if (status == YK_OK)
        status = yki_cuda_call(EventCreate, &events[1], YKI_CU_EVENT_DEFAULT);
    if (status == YK_OK)
        status = time_between(gpu, before, work, context, events, seconds);
    for (int i = 0; i < 2; i++)
        if (events[i])
            (void)yki_cu.EventDestroy(events[i]);
    return status;
}

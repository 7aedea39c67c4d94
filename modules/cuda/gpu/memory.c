/* The GPU's memory, and the host's that it copies from and to. */
#include "gpu/gpu.h"

static const double gib = 1 << 30;

static yk_status no_memory(const yki_cuda_gpu *gpu, size_t bytes)
{
    size_t available = 0, total = 0;
    (void)yki_cu.MemGetInfo(&available, &total);
    return yki_error(YK_ERROR_OUT_OF_MEMORY,
                     "device %s: out of memory: %.2f GiB requested, %.2f of %.2f GiB free",
                     gpu->cuda.base.name, (double)bytes / gib, (double)available / gib,
                     (double)total / gib);
}

/* Zeroed before anyone has the address, whichever stream is to use it. */
static yk_status zero(const yki_cuda_gpu *gpu, yki_cu_address address, size_t bytes)
{
    YK_TRY(yki_cuda_call(MemsetD8Async, address, 0, bytes, gpu->setup));
    return yki_cuda_call(StreamSynchronize, gpu->setup);
}

static yk_status gpu_alloc(yki_device *device, size_t bytes, void **memory)
{
    yki_cuda_gpu *gpu = yki_cuda_gpu_of(device);
    yki_cu_address address = 0;
    YK_TRY(yki_cuda_gpu_enter(gpu));
    yki_cu_result result = yki_cu.MemAlloc(&address, bytes);
    if (result == YKI_CU_OUT_OF_MEMORY)
        return no_memory(gpu, bytes);
    YK_TRY(yki_cuda_check(result, "cuMemAlloc"));
    yk_status status = zero(gpu, address, bytes);
    if (status == YK_OK)
        *memory = (void *)(uintptr_t)address;
    else
        (void)yki_cu.MemFree(address);
    return status;
}

static yk_status gpu_available(yki_device *device, size_t *bytes)
{
    size_t total;
    YK_TRY(yki_cuda_gpu_enter(yki_cuda_gpu_of(device)));
    return yki_cuda_call(MemGetInfo, bytes, &total);
}

static void gpu_free(yki_device *device, void *memory, size_t bytes)
{
    (void)bytes;
    if (yki_cuda_gpu_enter(yki_cuda_gpu_of(device)) == YK_OK)
        (void)yki_cu.MemFree(yki_cuda_address(memory));
}

static yk_status gpu_alloc_pinned(yki_device *device, size_t bytes, void **memory)
{
    YK_TRY(yki_cuda_gpu_enter(yki_cuda_gpu_of(device)));
    yki_cu_result result = yki_cu.MemHostAlloc(memory, bytes, YKI_CU_HOST_PORTABLE);
    if (result == YKI_CU_OUT_OF_MEMORY)
        return yki_error_memory(bytes, "copies from and to the GPU (pinned memory of the host)");
    return yki_cuda_check(result, "cuMemHostAlloc");
}

static void gpu_free_pinned(yki_device *device, void *memory, size_t bytes)
{
    (void)bytes;
    if (yki_cuda_gpu_enter(yki_cuda_gpu_of(device)) == YK_OK)
        (void)yki_cu.MemFreeHost(memory);
}

static yk_status gpu_copy(yki_device *device, void *to, const void *from, size_t bytes,
                          yki_direction direction, yki_stream *stream)
{
    YK_TRY(yki_cuda_gpu_enter(yki_cuda_gpu_of(device)));
    switch (direction) {
    case YKI_TO_DEVICE:
        return yki_cuda_call(MemcpyHtoDAsync, yki_cuda_address(to), from, bytes, stream->handle);
    case YKI_TO_HOST:
        return yki_cuda_call(MemcpyDtoHAsync, to, yki_cuda_address(from), bytes, stream->handle);
    case YKI_WITHIN_DEVICE:
        return yki_cuda_call(MemcpyDtoDAsync, yki_cuda_address(to), yki_cuda_address(from), bytes,
                             stream->handle);
    }
    return yki_error(YK_ERROR_INTERNAL, "device cuda: a copy in direction %d", (int)direction);
}

static yk_status gpu_fill(yki_device *device, void *to, int byte, size_t bytes, yki_stream *stream)
{
    YK_TRY(yki_cuda_gpu_enter(yki_cuda_gpu_of(device)));
    return yki_cuda_call(MemsetD8Async, yki_cuda_address(to), (unsigned char)byte, bytes,
                         stream->handle);
}

const yki_memory_ops yki_cuda_memory_ops = {.alloc = gpu_alloc,
                                            .free = gpu_free,
                                            .available = gpu_available,
                                            .alloc_pinned = gpu_alloc_pinned,
                                            .free_pinned = gpu_free_pinned,
                                            .copy = gpu_copy,
                                            .fill = gpu_fill};

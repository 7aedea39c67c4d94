/*
 * The cuda device on a GPU: the driver's side of cuda.h. Every function of the device's tables that
 * may be called on any thread makes the GPU's context current first (yki_cuda_gpu_enter); the
 * context is the primary one, which NVIDIA's libraries use as well.
 */
#ifndef YKI_CUDA_GPU_H
#define YKI_CUDA_GPU_H

#include "cuda.h"
#include "gpu/driver.h"
#include "gpu/images.h"

/* The driver's launcher: finds kernels in the images that it has loaded. */
typedef struct yki_cuda_program {
    yki_cuda_launcher base;
    yki_cu_module modules[YKI_CUDA_MAX_IMAGES];
    int count;
    bool loaded; /* all of them */
} yki_cuda_program;

typedef struct yki_cuda_context {
    yki_cu_context handle;
    yki_cuda_program program;
} yki_cuda_context;

typedef struct yki_cuda_gpu {
    yki_cuda_device cuda;
    yki_cu_device number; /* the driver's */
    const yki_cuda_context *context;
    yki_cu_stream setup; /* in which memory is zeroed when it is allocated */
} yki_cuda_gpu;

struct yki_event {
    yki_cuda_gpu *gpu;
    yki_cu_event handle;
};

struct yki_stream {
    yki_cuda_gpu *gpu;
    yki_cu_stream handle;
    yki_event end; /* see yki_stream_ops */
};

/* ---- device.c -------------------------------------------------------------------------------- */

extern const yki_device_type yki_cuda_device_type;

static inline yki_cuda_gpu *yki_cuda_gpu_of(yki_device *device)
{
    return (yki_cuda_gpu *)device;
}

/* Makes the GPU's context this thread's. */
static inline yk_status yki_cuda_gpu_enter(const yki_cuda_gpu *gpu)
{
    return yki_cuda_call(CtxSetCurrent, gpu->context->handle);
}

/* What has gone wrong in kernels that are done and could not tell otherwise; then it is forgotten.
 */
yk_status yki_cuda_gpu_report(yki_cuda_gpu *gpu);

/* ---- context.c ------------------------------------------------------------------------------- */

/* The context of a GPU, with the kernels loaded, which is then this thread's. */
yk_status yki_cuda_context_open(const yki_cuda_context **context, int index, yki_cu_device number);

/* ---- memory.c -------------------------------------------------------------------------------- */

extern const yki_memory_ops yki_cuda_memory_ops;

static inline yki_cu_address yki_cuda_address(const void *memory)
{
    return (yki_cu_address)(uintptr_t)memory;
}

/* ---- stream.c -------------------------------------------------------------------------------- */

extern const yki_stream_ops yki_cuda_stream_ops;

/* ---- graph.c --------------------------------------------------------------------------------- */

/* Kernels take the places of small memsets. */
void yki_cuda_graph_replace_fills(const yki_cuda_gpu *gpu, yki_cu_graph graph);

/* ---- launch.c -------------------------------------------------------------------------------- */

/* Loads the images that are not loaded yet in the current context. */
yk_status yki_cuda_program_load(yki_cuda_program *program);

/* ---- stopwatch.c ----------------------------------------------------------------------------- */

yk_status yki_cuda_gpu_measure(yki_device *device, yk_status (*before)(const void *context),
                               yk_status (*work)(const void *context), const void *context,
                               double *seconds);

/* ---- limits.c -------------------------------------------------------------------------------- */

yk_status yki_cuda_gpu_limits(yki_device *device, yki_limits *limits);

#endif

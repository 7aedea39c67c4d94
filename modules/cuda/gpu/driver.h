/*
 * The CUDA driver (libcuda.so.1), which is opened when the first device is: every call that the
 * module makes is in one table. The few types and constants are declared here, so that the host's
 * code needs no header of NVIDIA's; they are those of <cuda.h>.
 */
#ifndef YKI_CUDA_DRIVER_H
#define YKI_CUDA_DRIVER_H

#include <stddef.h>

#include "base/error.h"

typedef int yki_cu_result;
typedef int yki_cu_device;
typedef unsigned long long yki_cu_address;
typedef struct CUctx_st *yki_cu_context;
typedef struct CUstream_st *yki_cu_stream;
typedef struct CUevent_st *yki_cu_event;
typedef struct CUmod_st *yki_cu_module;
typedef struct CUfunc_st *yki_cu_function;
typedef struct CUgraph_st *yki_cu_graph;
typedef struct CUgraphNode_st *yki_cu_node;
typedef struct CUgraphExec_st *yki_cu_graph_exec;

typedef struct yki_cu_memset {
    yki_cu_address to;
    size_t pitch;
    unsigned value, element_size;
    size_t width, height;
} yki_cu_memset;

typedef struct yki_cu_kernel_node {
    yki_cu_function function;
    unsigned grid[3], block[3], shared_bytes;
    void **parameters, **extra;
    void *kernel;           /* NULL: it is the function, ... */
    yki_cu_context context; /* ... whose context it is */
} yki_cu_kernel_node;

enum {
    YKI_CU_SUCCESS = 0,
    YKI_CU_OUT_OF_MEMORY = 2,
    YKI_CU_STUB_LIBRARY = 34,
    YKI_CU_NO_DEVICE = 100,
    YKI_CU_INVALID_IMAGE = 200,
    YKI_CU_NO_BINARY_FOR_GPU = 209,
    YKI_CU_NOT_FOUND = 500,
    YKI_CU_NOT_READY = 600,
    YKI_CU_SYSTEM_DRIVER_MISMATCH = 803,
    YKI_CU_FIRST_OF_CAPTURES = 900, /* errors of captures, to ... */
    YKI_CU_LAST_OF_CAPTURES = 908   /* ... this one */
};
enum {
    YKI_CU_ATTRIBUTE_COMPUTE_MAJOR = 75,
    YKI_CU_ATTRIBUTE_COMPUTE_MINOR = 76,
    YKI_CU_ATTRIBUTE_MULTIPROCESSORS = 16,
    YKI_CU_ATTRIBUTE_L2_BYTES = 38
};
enum {
    YKI_CU_STREAM_NON_BLOCKING = 1,
    YKI_CU_EVENT_DEFAULT = 0,
    YKI_CU_EVENT_DISABLE_TIMING = 2,
    YKI_CU_HOST_PORTABLE = 1,
    YKI_CU_HOST_MAPPED = 2,
    YKI_CU_CAPTURE_RELAXED = 2,
    YKI_CU_NODE_MEMSET = 2
};
/* Of cuModuleLoadDataEx. */
enum { YKI_CU_JIT_ERROR_LOG = 5, YKI_CU_JIT_ERROR_LOG_BYTES = 6 };

/* Name without "cu", arguments. Each is looked up as it was in CUDA 12.0. */
#define YKI_CUDA_CALLS(CALL)                                                                       \
    CALL(Init, (unsigned flags))                                                                   \
    CALL(GetErrorName, (yki_cu_result result, const char **name))                                  \
    CALL(GetErrorString, (yki_cu_result result, const char **text))                                \
    CALL(DeviceGetCount, (int *count))                                                             \
    CALL(DeviceGet, (yki_cu_device * device, int ordinal))                                         \
    CALL(DeviceGetName, (char *name, int size, yki_cu_device device))                              \
    CALL(DeviceGetAttribute, (int *value, int attribute, yki_cu_device device))                    \
    CALL(DeviceTotalMem, (size_t * bytes, yki_cu_device device))                                   \
    CALL(DevicePrimaryCtxRetain, (yki_cu_context * context, yki_cu_device device))                 \
    CALL(CtxSetCurrent, (yki_cu_context context))                                                  \
    CALL(MemAlloc, (yki_cu_address * address, size_t bytes))                                       \
    CALL(MemFree, (yki_cu_address address))                                                        \
    CALL(MemHostAlloc, (void **memory, size_t bytes, unsigned flags))                              \
    CALL(MemFreeHost, (void *memory))                                                              \
    CALL(MemGetInfo, (size_t * available, size_t * total))                                         \
    CALL(MemcpyHtoDAsync,                                                                          \
         (yki_cu_address to, const void *from, size_t bytes, yki_cu_stream stream))                \
    CALL(MemcpyDtoHAsync, (void *to, yki_cu_address from, size_t bytes, yki_cu_stream stream))     \
    CALL(MemcpyDtoDAsync,                                                                          \
         (yki_cu_address to, yki_cu_address from, size_t bytes, yki_cu_stream stream))             \
    CALL(MemsetD8Async,                                                                            \
         (yki_cu_address to, unsigned char byte, size_t bytes, yki_cu_stream stream))              \
    CALL(StreamCreate, (yki_cu_stream * stream, unsigned flags))                                   \
    CALL(StreamDestroy, (yki_cu_stream stream))                                                    \
    CALL(StreamSynchronize, (yki_cu_stream stream))                                                \
    CALL(StreamWaitEvent, (yki_cu_stream stream, yki_cu_event event, unsigned flags))              \
    CALL(StreamBeginCapture, (yki_cu_stream stream, int mode))                                     \
    CALL(StreamEndCapture, (yki_cu_stream stream, yki_cu_graph * graph))                           \
    CALL(EventCreate, (yki_cu_event * event, unsigned flags))                                      \
    CALL(EventDestroy, (yki_cu_event event))                                                       \
    CALL(EventRecord, (yki_cu_event event, yki_cu_stream stream))                                  \
    CALL(EventQuery, (yki_cu_event event))                                                         \
    CALL(EventSynchronize, (yki_cu_event event))                                                   \
    CALL(EventElapsedTime, (float *milliseconds, yki_cu_event begin, yki_cu_event end))            \
    CALL(GraphGetNodes, (yki_cu_graph graph, yki_cu_node * nodes, size_t * count))                 \
    CALL(GraphNodeGetType, (yki_cu_node node, int *type))                                          \
    CALL(GraphNodeGetDependencies, (yki_cu_node node, yki_cu_node * nodes, size_t * count))        \
    CALL(GraphNodeGetDependentNodes, (yki_cu_node node, yki_cu_node * nodes, size_t * count))      \
    CALL(GraphMemsetNodeGetParams, (yki_cu_node node, yki_cu_memset * parameters))                 \
    CALL(GraphAddKernelNode, (yki_cu_node * node, yki_cu_graph graph, const yki_cu_node *before,   \
                              size_t count, const yki_cu_kernel_node *parameters))                 \
    CALL(GraphAddDependencies,                                                                     \
         (yki_cu_graph graph, const yki_cu_node *before, const yki_cu_node *after, size_t count))  \
    CALL(GraphDestroyNode, (yki_cu_node node))                                                     \
    CALL(GraphInstantiateWithFlags,                                                                \
         (yki_cu_graph_exec * exec, yki_cu_graph graph, unsigned long long flags))                 \
    CALL(GraphLaunch, (yki_cu_graph_exec exec, yki_cu_stream stream))                              \
    CALL(GraphExecDestroy, (yki_cu_graph_exec exec))                                               \
    CALL(GraphDestroy, (yki_cu_graph graph))                                                       \
    CALL(ModuleLoadDataEx,                                                                         \
         (yki_cu_module * module, const void *image, unsigned count, int *options, void **values)) \
    CALL(ModuleGetFunction, (yki_cu_function * function, yki_cu_module module, const char *name))  \
    CALL(LaunchKernel,                                                                             \
         (yki_cu_function function, unsigned grid_x, unsigned grid_y, unsigned grid_z,             \
          unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,             \
          yki_cu_stream stream, void **parameters, void **extra))

typedef struct yki_cuda_driver {
#define CALL(name, arguments) yki_cu_result(*name) arguments;
    YKI_CUDA_CALLS(CALL)
#undef CALL
    int version; /* of CUDA that the driver supports: 13000 is 13.0 */
} yki_cuda_driver;

/* Valid once yki_cuda_driver_open() has succeeded. */
extern yki_cuda_driver yki_cu;

/*
 * Opens the driver, once; later calls return what the first one did. The error is one line that
 * says what is missing: the library, a driver that is new enough for this build's kernels, or a
 * GPU.
 */
yk_status yki_cuda_driver_open(void);

/* YK_OK for 0; otherwise an error that names the call. */
yk_status yki_cuda_check(yki_cu_result result, const char *call);
/* The same with a code of the caller's choice. */
yk_status yki_cuda_failed(yk_status status, yki_cu_result result, const char *call);
/* yki_cuda_call(EventRecord, event, stream) makes a call of the driver and checks it. */
#define yki_cuda_call(name, ...) yki_cuda_check(yki_cu.name(__VA_ARGS__), "cu" #name)

#endif

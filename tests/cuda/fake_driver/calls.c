/* The calls of the fake driver: those of driver.h, found as in the real one. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_driver.h"
#include "internal.h"

#define CALL(name, arguments) static yki_cu_result name arguments;
YKI_CUDA_CALLS(CALL)
#undef CALL

/* Every call returns the first failure of the work before, and needs a context. */
#define CHECK()                                                                                    \
    do {                                                                                           \
        if (fake_failure())                                                                        \
            return fake_failure();                                                                 \
        if (fake_current() < 0)                                                                    \
            return CU_INVALID_CONTEXT;                                                             \
    } while (0)

static yki_cu_result result_of(yk_status status)
{
    fake_memory_open(FAKE_NO_GPU);
    return status == YK_OK ? fake_failure() : CU_CAPTURE_INVALID;
}

/* ---- the driver and its GPUs ---------------------------------------------------------------- */

static const struct {
    yki_cu_result result;
    const char *name, *text;
} results[] = {
    {YKI_CU_SUCCESS, "CUDA_SUCCESS", "no error"},
    {CU_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {YKI_CU_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {YKI_CU_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {YKI_CU_INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {CU_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {CU_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {YKI_CU_NO_BINARY_FOR_GPU, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available"},
    {YKI_CU_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {YKI_CU_NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
    {CU_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {CU_CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "operation not permitted when stream is capturing"},
    {CU_CAPTURE_INVALID, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
     "operation failed due to a previous error during capture"},
};

static yki_cu_result Init(unsigned flags)
{
    (void)flags;
    return fake_gpu_count() == 0 ? YKI_CU_NO_DEVICE
           : fake_start()        ? YKI_CU_SUCCESS
                                 : YKI_CU_OUT_OF_MEMORY;
}

static yki_cu_result GetErrorName(yki_cu_result result, const char **name)
{
    for (size_t i = 0; i < sizeof results / sizeof *results; i++)
        if (results[i].result == result)
            *name = results[i].name;
    return YKI_CU_SUCCESS;
}

static yki_cu_result GetErrorString(yki_cu_result result, const char **text)
{
    for (size_t i = 0; i < sizeof results / sizeof *results; i++)
        if (results[i].result == result)
            *text = results[i].text;
    return YKI_CU_SUCCESS;
}

static yki_cu_result DeviceGetCount(int *count)
{
    *count = fake_gpu_count();
    return YKI_CU_SUCCESS;
}

static yki_cu_result DeviceGet(yki_cu_device *device, int ordinal)
{
    *device = ordinal;
    return ordinal < fake_gpu_count() ? YKI_CU_SUCCESS : CU_INVALID_VALUE;
}

static yki_cu_result DeviceGetName(char *name, int size, yki_cu_device device)
{
    const char *set = getenv("YK_FAKE_GPU_NAME");
    snprintf(name, (size_t)size, "%s %d", set ? set : "Fake GPU", device);
    return YKI_CU_SUCCESS;
}

static yki_cu_result DeviceGetAttribute(int *value, int attribute, yki_cu_device device)
{
    (void)device;
    int compute = (int)fake_setting("YK_FAKE_GPU_COMPUTE", 90);
    *value = attribute == YKI_CU_ATTRIBUTE_COMPUTE_MAJOR   ? compute / 10
             : attribute == YKI_CU_ATTRIBUTE_COMPUTE_MINOR ? compute % 10
                                                           : 1;
    return YKI_CU_SUCCESS;
}

static yki_cu_result DeviceTotalMem(size_t *bytes, yki_cu_device device)
{
    (void)device;
    *bytes = (size_t)fake_setting("YK_FAKE_GPU_MEMORY", 4096) << 20;
    return YKI_CU_SUCCESS;
}

static struct CUctx_st contexts[FAKE_GPUS];

static yki_cu_result DevicePrimaryCtxRetain(yki_cu_context *context, yki_cu_device device)
{
    contexts[device].gpu = device;
    *context = &contexts[device];
    return fake_failure();
}

static yki_cu_result CtxSetCurrent(yki_cu_context context)
{
    fake_set_current(context);
    return YKI_CU_SUCCESS;
}

/* ---- memory --------------------------------------------------------------------------------- */

static yki_cu_result MemAlloc(yki_cu_address *address, size_t bytes)
{
    CHECK();
    return fake_memory_alloc(address, bytes);
}

static yki_cu_result MemFree(yki_cu_address address)
{
    return fake_memory_free(address);
}

static yki_cu_result MemHostAlloc(void **memory, size_t bytes, unsigned flags)
{
    (void)flags;
    CHECK();
    return fake_pinned_alloc(memory, bytes);
}

static yki_cu_result MemFreeHost(void *memory)
{
    fake_pinned_free(memory);
    return fake_failure();
}

static yki_cu_result MemGetInfo(size_t *available, size_t *total)
{
    fake_memory_info(available, total);
    return fake_failure();
}

static void *host_pointer(yki_cu_address address)
{
    return (void *)(uintptr_t)address;
}

static yki_cu_result MemcpyHtoDAsync(yki_cu_address to, const void *from, size_t bytes,
                                     yki_cu_stream stream)
{
    return fake_copy(host_pointer(to), from, bytes, YKI_TO_DEVICE, stream);
}

static yki_cu_result MemcpyDtoHAsync(void *to, yki_cu_address from, size_t bytes,
                                     yki_cu_stream stream)
{
    return fake_copy(to, host_pointer(from), bytes, YKI_TO_HOST, stream);
}

static yki_cu_result MemcpyDtoDAsync(yki_cu_address to, yki_cu_address from, size_t bytes,
                                     yki_cu_stream stream)
{
    return fake_copy(host_pointer(to), host_pointer(from), bytes, YKI_WITHIN_DEVICE, stream);
}

static yki_cu_result MemsetD8Async(yki_cu_address to, unsigned char byte, size_t bytes,
                                   yki_cu_stream stream)
{
    return fake_fill(to, byte, bytes, stream);
}

/* ---- streams and events --------------------------------------------------------------------- */

static yki_cu_result StreamCreate(yki_cu_stream *stream, unsigned flags)
{
    (void)flags;
    CHECK();
    *stream = calloc(1, sizeof **stream);
    if (*stream)
        (*stream)->gpu = fake_current();
    return *stream ? result_of(yki_sim_create_stream(&fake_sim()->base, &(*stream)->of))
                   : YKI_CU_OUT_OF_MEMORY;
}

static yki_cu_result StreamDestroy(yki_cu_stream stream)
{
    yki_sim_destroy_stream(stream->of);
    fake_memory_open(FAKE_NO_GPU);
    free(stream);
    return fake_failure();
}

static yki_cu_result StreamSynchronize(yki_cu_stream stream)
{
    return fake_synchronize(stream);
}

static yki_cu_result StreamWaitEvent(yki_cu_stream stream, yki_cu_event event, unsigned flags)
{
    (void)flags;
    CHECK();
    return result_of(yki_sim_follow(event->of, stream->of));
}

static yki_cu_result EventCreate(yki_cu_event *event, unsigned flags)
{
    CHECK();
    *event = calloc(1, sizeof **event);
    if (*event)
        **event = (struct CUevent_st){.gpu = fake_current(),
                                      .is_timed = !(flags & YKI_CU_EVENT_DISABLE_TIMING)};
    return *event ? result_of(yki_sim_create_event(&fake_sim()->base, false, &(*event)->of))
                  : YKI_CU_OUT_OF_MEMORY;
}

static yki_cu_result EventDestroy(yki_cu_event event)
{
    yki_sim_destroy_event(event->of);
    free(event);
    return fake_failure();
}

static yki_cu_result EventRecord(yki_cu_event event, yki_cu_stream stream)
{
    CHECK();
    if (event->gpu != stream->gpu)
        return CU_INVALID_HANDLE;
    return result_of(yki_sim_mark(event->of, stream->of));
}

static yki_cu_result EventQuery(yki_cu_event event)
{
    bool reached;
    CHECK();
    yki_cu_result result = result_of(yki_sim_query(event->of, &reached));
    return result != YKI_CU_SUCCESS || reached ? result : YKI_CU_NOT_READY;
}

static yki_cu_result EventSynchronize(yki_cu_event event)
{
    CHECK();
    return result_of(yki_sim_wait(event->of));
}

/* A microsecond for each operation. Both events must have been reached. */
static yki_cu_result EventElapsedTime(float *milliseconds, yki_cu_event begin, yki_cu_event end)
{
    if (begin->gpu != end->gpu || !begin->is_timed || !end->is_timed || !begin->of->stream ||
        !end->of->stream)
        return CU_INVALID_HANDLE;
    if (EventQuery(begin) != YKI_CU_SUCCESS || EventQuery(end) != YKI_CU_SUCCESS)
        return YKI_CU_NOT_READY;
    *milliseconds = (float)(end->of->number - begin->of->number) * 1e-3f;
    return fake_failure();
}

/* ---- captures ------------------------------------------------------------------------------- */

struct CUgraphExec_st {
    yki_recording *recording;
};

/* In any other mode, memory could not be allocated meanwhile. */
static yki_cu_result StreamBeginCapture(yki_cu_stream stream, int mode)
{
    CHECK();
    if (mode != YKI_CU_CAPTURE_RELAXED)
        return CU_CAPTURE_UNSUPPORTED;
    return result_of(yki_sim_record_begin(stream->of));
}

static yki_cu_result StreamEndCapture(yki_cu_stream stream, yki_cu_graph *graph)
{
    yki_recording *recording;
    *graph = NULL;
    CHECK();
    yki_cu_result result = result_of(yki_sim_record_end(stream->of, &recording));
    if (result != YKI_CU_SUCCESS)
        return result;
    *graph = malloc(sizeof **graph);
    (*graph)->recording = recording;
    return YKI_CU_SUCCESS;
}

static yki_cu_result GraphGetNodes(yki_cu_graph graph, yki_cu_node *nodes, size_t *count)
{
    CHECK();
    return fake_graph_nodes(graph, nodes, count);
}

static yki_cu_result GraphNodeGetType(yki_cu_node node, int *type)
{
    enum { KERNEL };
    yki_cu_memset fill;
    CHECK();
    *type = fake_is_fill((yki_sim_operation *)node, &fill) ? YKI_CU_NODE_MEMSET : KERNEL;
    return YKI_CU_SUCCESS;
}

static yki_cu_result GraphNodeGetDependencies(yki_cu_node node, yki_cu_node *nodes, size_t *count)
{
    CHECK();
    return fake_graph_before(node, nodes, count);
}

static yki_cu_result GraphNodeGetDependentNodes(yki_cu_node node, yki_cu_node *nodes, size_t *count)
{
    CHECK();
    return fake_graph_after(node, nodes, count);
}

static yki_cu_result GraphMemsetNodeGetParams(yki_cu_node node, yki_cu_memset *parameters)
{
    CHECK();
    return fake_is_fill((yki_sim_operation *)node, parameters) ? YKI_CU_SUCCESS : CU_INVALID_VALUE;
}

static yki_cu_result GraphAddKernelNode(yki_cu_node *node, yki_cu_graph graph,
                                        const yki_cu_node *before, size_t count,
                                        const yki_cu_kernel_node *parameters)
{
    CHECK();
    return fake_graph_add(node, graph, before, count, parameters);
}

static yki_cu_result GraphAddDependencies(yki_cu_graph graph, const yki_cu_node *before,
                                          const yki_cu_node *after, size_t count)
{
    CHECK();
    return fake_graph_join(graph, before, after, count);
}

static yki_cu_result GraphDestroyNode(yki_cu_node node)
{
    CHECK();
    return fake_graph_destroy_node(node);
}

static yki_cu_result GraphInstantiateWithFlags(yki_cu_graph_exec *exec, yki_cu_graph graph,
                                               unsigned long long flags)
{
    (void)flags;
    *exec = malloc(sizeof **exec);
    (*exec)->recording = graph->recording;
    graph->recording = NULL;
    return fake_failure();
}

static yki_cu_result GraphLaunch(yki_cu_graph_exec exec, yki_cu_stream stream)
{
    CHECK();
    return result_of(yki_sim_replay(exec->recording, stream->of));
}

static yki_cu_result GraphExecDestroy(yki_cu_graph_exec exec)
{
    yki_sim_destroy_recording(exec->recording);
    free(exec);
    return fake_failure();
}

static yki_cu_result GraphDestroy(yki_cu_graph graph)
{
    if (graph->recording)
        yki_sim_destroy_recording(graph->recording);
    free(graph);
    return fake_failure();
}

/* ---- kernels -------------------------------------------------------------------------------- */

static yki_cu_result ModuleLoadDataEx(yki_cu_module *module, const void *image, unsigned count,
                                      int *options, void **values)
{
    static struct CUmod_st modules[FAKE_GPUS];
    CHECK();
    const char *setting = getenv("YK_FAKE_IMAGE");
    if (setting && strcmp(setting, "broken") == 0) {
        for (unsigned i = 0; i < count; i++)
            if (options[i] == YKI_CU_JIT_ERROR_LOG)
                snprintf(values[i], 64, "ptxas fatal: unsupported version of PTX\nmore");
        return YKI_CU_NO_BINARY_FOR_GPU;
    }
    *module = &modules[fake_current()];
    (*module)->gpu = fake_current();
    return image ? YKI_CU_SUCCESS : YKI_CU_INVALID_IMAGE;
}

static yki_cu_result ModuleGetFunction(yki_cu_function *function, yki_cu_module module,
                                       const char *name)
{
    *function = fake_function(module->gpu, name);
    return *function ? YKI_CU_SUCCESS : YKI_CU_NOT_FOUND;
}

static yki_cu_result LaunchKernel(yki_cu_function function, unsigned grid_x, unsigned grid_y,
                                  unsigned grid_z, unsigned block_x, unsigned block_y,
                                  unsigned block_z, unsigned shared_bytes, yki_cu_stream stream,
                                  void **parameters, void **extra)
{
    const unsigned grid[3] = {grid_x, grid_y, grid_z};
    CHECK();
    if (shared_bytes || extra)
        return CU_INVALID_VALUE;
    return fake_launch(function, grid, block_x * block_y * block_z, parameters[0], stream);
}

/* ---- finding calls -------------------------------------------------------------------------- */

YK_FAKE_EXPORT yki_cu_result cuDriverGetVersion(int *version);
YK_FAKE_EXPORT yki_cu_result cuGetProcAddress_v2(const char *name, void **address, int version,
                                                 unsigned long long flags, int *found);

/* The stub library has no version. */
yki_cu_result cuDriverGetVersion(int *version)
{
    *version = (int)fake_setting("YK_FAKE_DRIVER_VERSION", 13000);
    return *version > 0 ? YKI_CU_SUCCESS : YKI_CU_STUB_LIBRARY;
}

yki_cu_result cuGetProcAddress_v2(const char *name, void **address, int version,
                                  unsigned long long flags, int *found)
{
    static const struct {
        const char *name;
        void *address;
    } calls[] = {
#define CALL(name_, arguments) {"cu" #name_, (void *)name_},
        YKI_CUDA_CALLS(CALL)
#undef CALL
    };
    (void)version, (void)flags;
    *address = NULL;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (strcmp(calls[i].name, name) == 0)
            *address = calls[i].address;
    if (found)
        *found = *address ? 0 : 1;
    return *address ? YKI_CU_SUCCESS : YKI_CU_NOT_FOUND;
}

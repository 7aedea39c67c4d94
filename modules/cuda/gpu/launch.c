/* The driver's launcher: kernels by their names, from the images that the build has embedded. */
#include <stdio.h>
#include <string.h>

#include "gpu/gpu.h"

/* ---- loading --------------------------------------------------------------------------------- */

/* A driver compiles an image that has no code for its GPU; its own words say what failed. */
static yk_status load_failed(yki_cu_result result, const char *name, const char *log)
{
    yki_cuda_failed(YK_ERROR_UNSUPPORTED, result, "cuModuleLoadDataEx");
    return yki_error_context(YK_ERROR_UNSUPPORTED,
                             "the driver (CUDA %d.%d) cannot load the kernels of %s%s%.*s",
                             yki_cu.version / 1000, yki_cu.version % 1000 / 10, name,
                             *log ? ": " : "", (int)strcspn(log, "\n"), log);
}

static yk_status load_image(yki_cu_module *module, const yki_cuda_image *image)
{
    char log[256] = "";
    int options[] = {YKI_CU_JIT_ERROR_LOG, YKI_CU_JIT_ERROR_LOG_BYTES};
    void *values[] = {log, (void *)(uintptr_t)sizeof log};
    yki_cu_result result = yki_cu.ModuleLoadDataEx(module, image->data, 2, options, values);
    log[sizeof log - 1] = '\0';
    return result == YKI_CU_SUCCESS ? YK_OK : load_failed(result, image->name, log);
}

/* ---- launching ------------------------------------------------------------------------------- */

static const void *find(const yki_cuda_launcher *launcher, const char *name)
{
    const yki_cuda_program *program = (const yki_cuda_program *)launcher;
    for (int i = 0; i < program->count; i++) {
        yki_cu_function function = NULL;
        if (yki_cu.ModuleGetFunction(&function, program->modules[i], name) == YKI_CU_SUCCESS)
            return function;
    }
    return NULL;
}

static yk_status launch(const yki_cuda_launcher *launcher, const void *kernel, yki_cuda_grid grid,
                        const void *args, size_t bytes, yki_stream *stream)
{
    (void)launcher, (void)bytes;
    void *parameters[] = {(void *)(uintptr_t)args};
    YK_TRY(yki_cuda_gpu_enter(stream->gpu));
    return yki_cuda_call(LaunchKernel, (yki_cu_function)(uintptr_t)kernel, grid.x, grid.y, grid.z,
                         YKI_CUDA_THREADS, 1, 1, 0, stream->handle, parameters, NULL);
}

static void *handle_of(yki_stream *stream)
{
    return stream->handle;
}

yk_status yki_cuda_program_load(yki_cuda_program *program)
{
    program->base = (yki_cuda_launcher){
        .find = find, .launch = launch, .handle_of = handle_of, .measure = yki_cuda_gpu_measure};
    for (; yki_cuda_images[program->count].data; program->count++)
        YK_TRY(load_image(&program->modules[program->count], &yki_cuda_images[program->count]));
    program->loaded = true;
    return YK_OK;
}

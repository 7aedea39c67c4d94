/* The cuda device itself, and the table of the module. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/environment.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "conv/beside.h"
#include "device/module.h"
#include "device/norm_rules.h"
#include "gpu/gpu.h"
#include "muon.h"

enum {
    LEAST_COMPUTE = 75,   /* 7.5: what the build's kernels are compiled for at least */
    FLASH_COMPUTE = 80,   /* 8.0: what kernels/matrix.cuh needs */
    PARTS_FOR_SCORES = 64 /* of the GPU's memory, one of which may hold scores of attention */
};

/* Whether kernels have reported a number, of a sample or of values; it is forgotten. */
static bool take_mistake(volatile int32_t *mistake, int *number)
{
    const int32_t value = *mistake;
    *number = INT32_MAX - value;
    if (value == 0)
        return false;
    *mistake = 0;
    return true;
}

yk_status yki_cuda_gpu_report(yki_cuda_gpu *gpu)
{
    int sample, count;
    if (take_mistake(&gpu->cuda.mistakes->index, &sample))
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "embedding: an index of sample %d is no row of the weight", sample);
    if (take_mistake(&gpu->cuda.mistakes->place, &sample))
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "take_along_dim: an index of sample %d is outside its dimension", sample);
    if (take_mistake(&gpu->cuda.mistakes->label, &sample))
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "cross_entropy: the label of sample %d is none of the classes", sample);
    if (take_mistake(&gpu->cuda.mistakes->few, &count))
        return yki_too_few_values(count);
    return YK_OK;
}

/* ---- which GPUs there are -------------------------------------------------------------------- */

static yk_status count_real_gpus(int *count)
{
    *count = 0;
    YK_TRY(yki_cuda_driver_open());
    YK_TRY(yki_cuda_call(DeviceGetCount, count));
    if (*count == 0)
        return yki_error(YK_ERROR_UNSUPPORTED,
                         "device cuda: the NVIDIA driver shows this process no GPU (see "
                         "CUDA_VISIBLE_DEVICES)");
    return YK_OK;
}

/* With YOKE_TEST_GPUS, tests of several GPUs run where there are fewer, which stand for all. */
static yk_status count_gpus(int *count)
{
    bool found;
    YK_TRY(count_real_gpus(count));
    long wanted = *count;
    YK_TRY(yki_env_int("YOKE_TEST_GPUS", 1, 64, &wanted, &found));
    *count = (int)wanted;
    return YK_OK;
}

static yk_status find_gpu(yki_cu_device *number, int index)
{
    int count, real;
    YK_TRY(count_gpus(&count));
    YK_TRY(count_real_gpus(&real));
    if (index >= count)
        return yki_error(YK_ERROR_UNSUPPORTED, "device cuda:%d: there %s %d %s, cuda:0%s", index,
                         count == 1 ? "is" : "are", count, yki_plural(count, "GPU", "GPUs"),
                         count == 1 ? "" : " and so on");
    return yki_cuda_call(DeviceGet, number, index % real);
}

/* The compute capability, times ten. */
static yk_status get_compute(yki_cu_device number, int *compute)
{
    int major, minor;
    YK_TRY(yki_cuda_call(DeviceGetAttribute, &major, YKI_CU_ATTRIBUTE_COMPUTE_MAJOR, number));
    YK_TRY(yki_cuda_call(DeviceGetAttribute, &minor, YKI_CU_ATTRIBUTE_COMPUTE_MINOR, number));
    *compute = 10 * major + minor;
    return YK_OK;
}

/* "580.65.06, ", or nothing where the kernel does not tell. */
static void read_driver(char *text, size_t size)
{
    FILE *file = fopen("/sys/module/nvidia/version", "re");
    text[0] = '\0';
    if (!file)
        return;
    if (fgets(text, (int)size - 2, file)) {
        size_t end = strcspn(text, "\n");
        snprintf(text + end, size - end, ", ");
    }
    fclose(file);
}

static yk_status describe(int index, char *text, size_t size)
{
    char name[64] = "", driver[32];
    size_t bytes;
    int compute;
    yki_cu_device number;
    YK_TRY(find_gpu(&number, index));
    YK_TRY(yki_cuda_call(DeviceGetName, name, (int)sizeof name, number));
    YK_TRY(yki_cuda_call(DeviceTotalMem, &bytes, number));
    YK_TRY(get_compute(number, &compute));
    read_driver(driver, sizeof driver);
    snprintf(text, size, "cuda:%d: %s, %.1f GiB, compute capability %d.%d, driver %sCUDA %d.%d",
             index, name, (double)bytes / (1 << 30), compute / 10, compute % 10, driver,
             yki_cu.version / 1000, yki_cu.version % 1000 / 10);
    return YK_OK;
}

/* ---- the device ------------------------------------------------------------------------------ */

static void destroy_contents(yki_cuda_gpu *gpu)
{
    yki_device *device = &gpu->cuda.base;
    if (yki_cuda_gpu_enter(gpu) != YK_OK)
        return;
    if (device->stream) /* after all that is in it, which uses the plans of the libraries */
        yki_cuda_stream_ops.destroy(device->stream);
    yki_cuda_head_close(&gpu->cuda);
    if (gpu->cuda.mistakes)
        (void)yki_cu.MemFreeHost(gpu->cuda.mistakes);
    if (gpu->setup)
        (void)yki_cu.StreamDestroy(gpu->setup);
}

static void gpu_destroy(yki_device *device)
{
    yki_cuda_gpu *gpu = yki_cuda_gpu_of(device);
    if (gpu->context)
        destroy_contents(gpu);
    free(gpu);
}

static yk_status measure_memory(yki_cuda_gpu *gpu)
{
    int cache;
    size_t all;
    YK_TRY(yki_cuda_call(DeviceGetAttribute, &cache, YKI_CU_ATTRIBUTE_L2_BYTES, gpu->number));
    YK_TRY(yki_cuda_call(DeviceTotalMem, &all, gpu->number));
    gpu->cuda.cache_bytes = 4 * (size_t)cache;
    gpu->cuda.score_bytes = all / PARTS_FOR_SCORES;
    return YK_OK;
}

/* What makes the choice of plans a GPU's own: its name, and how many multiprocessors it has. */
static yk_status name_model(yki_cuda_gpu *gpu)
{
    char name[64] = "";
    int count;
    YK_TRY(yki_cuda_call(DeviceGetName, name, (int)sizeof name, gpu->number));
    YK_TRY(
        yki_cuda_call(DeviceGetAttribute, &count, YKI_CU_ATTRIBUTE_MULTIPROCESSORS, gpu->number));
    snprintf(gpu->cuda.model, sizeof gpu->cuda.model, "%s-%d", name, count);
    return YK_OK;
}

static yk_status create_mistakes(yki_cuda_gpu *gpu)
{
    void *memory;
    YK_TRY(yki_cuda_call(MemHostAlloc, &memory, sizeof(yki_cuda_mistakes),
                         YKI_CU_HOST_PORTABLE | YKI_CU_HOST_MAPPED));
    gpu->cuda.mistakes = memory;
    *gpu->cuda.mistakes = (yki_cuda_mistakes){0};
    return YK_OK;
}

/* For finding faults: YOKE_CUDA_GRAPHS=0 enters every step kernel by kernel, and YOKE_CUDA_FLASH=0
 * keeps the scores of attention in memory. */
static yk_status read_settings(yki_cuda_gpu *gpu)
{
    bool found;
    long graphs = 1, flash = 1;
    YK_TRY(yki_env_int("YOKE_CUDA_GRAPHS", 0, 1, &graphs, &found));
    YK_TRY(yki_env_int("YOKE_CUDA_FLASH", 0, 1, &flash, &found));
    gpu->cuda.base.walks = !graphs;
    gpu->cuda.flash = flash;
    return YK_OK;
}

static yk_status check_compute(yki_cuda_gpu *gpu)
{
    int compute;
    YK_TRY(get_compute(gpu->number, &compute));
    gpu->cuda.flash &= compute >= FLASH_COMPUTE;
    if (compute >= LEAST_COMPUTE)
        return YK_OK;
    return yki_error(YK_ERROR_UNSUPPORTED,
                     "device %s: its compute capability is %d.%d, but yoke needs %d.%d or more",
                     gpu->cuda.base.name, compute / 10, compute % 10, LEAST_COMPUTE / 10,
                     LEAST_COMPUTE % 10);
}

static yk_status open_gpu(yki_cuda_gpu *gpu, int index)
{
    yki_device *device = &gpu->cuda.base;
    YK_TRY(read_settings(gpu));
    YK_TRY(find_gpu(&gpu->number, index));
    YK_TRY(describe(index, device->description, sizeof device->description));
    YK_TRY(check_compute(gpu));
    YK_TRY(name_model(gpu));
    YK_TRY(measure_memory(gpu));
    YK_TRY(yki_cuda_context_open(&gpu->context, index, gpu->number));
    device->hardware = gpu->context;
    gpu->cuda.launcher = &gpu->context->program.base;
    YK_TRY(yki_cuda_call(StreamCreate, &gpu->setup, YKI_CU_STREAM_NON_BLOCKING));
    YK_TRY(yki_cuda_head_open(&gpu->cuda));
    YK_TRY(create_mistakes(gpu));
    return yki_cuda_stream_ops.create(device, &device->stream);
}

/* Whether the environment shows this process one GPU, which may be another one for each rank: a
 * scheduler or a script gives them out so. */
static bool has_been_given_one(void)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    return visible && *visible && !strchr(visible, ',');
}

/* Ranks share GPUs if there are fewer than ranks on the machine. */
static yk_status choose_index(const yki_device_options *options, int *index)
{
    int count;
    *index = options->index;
    if (!options->any)
        return YK_OK;
    YK_TRY(count_gpus(&count));
    *index = options->index % count;
    if (*index != options->index && !has_been_given_one())
        YKI_WARN("device cuda: local rank %d shares cuda:%d with other ranks, because there %s "
                 "%d %s",
                 options->index, *index, count == 1 ? "is" : "are", count,
                 yki_plural(count, "GPU", "GPUs"));
    return YK_OK;
}

static yk_status gpu_create(yki_device **device, const yki_device_options *options)
{
    int index;
    YK_TRY(choose_index(options, &index));
    yki_cuda_gpu *gpu = yki_calloc(1, sizeof *gpu);
    if (!gpu)
        return yki_error_memory(sizeof *gpu, "the cuda device");
    yki_device *made = &gpu->cuda.base;
    made->type = &yki_cuda_device_type;
    made->threads = 1;
    snprintf(made->name, sizeof made->name, "cuda:%d", index);
    gpu->cuda.winograd = options->winograd;
    yk_status status = open_gpu(gpu, index);
    if (status == YK_OK)
        *device = made;
    else
        gpu_destroy(made);
    return status;
}

static void enter(yki_device *device)
{
    (void)yki_cuda_gpu_enter(yki_cuda_gpu_of(device));
}

const yki_device_type yki_cuda_device_type = {.name = "cuda",
                                              .create = gpu_create,
                                              .destroy = gpu_destroy,
                                              .enter = enter,
                                              .layout = yki_cuda_layout,
                                              .foresee = yki_cuda_foresee,
                                              .beside = yki_cuda_beside,
                                              .most_elements = INT32_MAX,
                                              .kernels = yki_cuda_kernels,
                                              .sweep = yki_cuda_sweep,
                                              .muon = &yki_cuda_muon,
                                              .low_rank = yki_cuda_low_rank,
                                              .note_time = yki_cuda_note_time,
                                              .pictures = yki_cuda_pictures,
                                              .measure = yki_cuda_gpu_limits,
                                              .memory = &yki_cuda_memory_ops,
                                              .streams = &yki_cuda_stream_ops,
                                              .backend = "nccl"};

const yki_device_module yki_device_module_table = {.version = YOKE_DEVICE_CONTRACT,
                                                   .size = sizeof(yki_device_module),
                                                   .type = &yki_cuda_device_type,
                                                   .count = count_gpus,
                                                   .describe = describe};

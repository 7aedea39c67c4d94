/* See plan.h. */
#include "conv/plan.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "conv/candidates.h"
#include "conv/trial.h"
#include "statistics.h"

enum { NONE = -1 };

/* An entry of the device's list. */
struct yki_cuda_conv_plan {
    struct yki_cuda_conv_plan *next;
    const yki_cudnn *cudnn;
    char problem[YKI_CUDNN_CONV_TEXT];
    yki_cudnn_plan plan;
};

/* ---- measuring ------------------------------------------------------------------------------- */

/* What is measured, and the operands that it has. */
enum { X, W, Y, BIAS, SUMS, WORKSPACE, PARTIAL, VECTOR, CACHES, OPERANDS };

typedef struct trial {
    yki_cuda_device *device;
    const yki_cudnn *cudnn;
    const yki_cudnn_conv *conv;
    const yki_cudnn_plan *plan;
    yki_cuda_kernel pass; /* batch_norm's over y; its device is NULL where there is none */
    yki_operand y;
    void *memory[OPERANDS];
    size_t bytes[OPERANDS];
} trial;

static size_t elements(const int64_t dims[4])
{
    return (size_t)(dims[0] * dims[1] * dims[2] * dims[3]);
}

static void free_operands(trial *t)
{
    for (int i = 0; i < OPERANDS; i++) {
        yki_device_free(&t->device->base, t->memory[i], t->bytes[i]);
        t->memory[i] = NULL;
    }
}

/* With numbers of which none is zero: a GPU multiplies zeros faster. */
static yk_status allocate_operands(trial *t)
{
    yki_device *device = &t->device->base;
    yk_status status = YK_OK;
    for (int i = 0; i < OPERANDS && status == YK_OK; i++)
        status = yki_device_alloc(device, t->bytes[i], &t->memory[i]);
    for (int i = 0; i < WORKSPACE && status == YK_OK; i++)
        status = yki_device_fill(device, t->memory[i], 0x3c, t->bytes[i], device->stream);
    if (status != YK_OK)
        free_operands(t);
    return status;
}

/* Without what empties the caches where memory is too short for it. */
static yk_status take_memory(trial *t)
{
    yk_status status = allocate_operands(t);
    if (status != YK_ERROR_OUT_OF_MEMORY || t->bytes[CACHES] == 0)
        return status;
    t->bytes[CACHES] = 0;
    return allocate_operands(t);
}

static void measure_operands(trial *t, const yki_cudnn_plan *plans, int count)
{
    const yki_cudnn_conv *conv = t->conv;
    size_t size = yk_dtype_size(conv->dtype), widest = 8;
    t->bytes[X] = elements(conv->x) * size;
    t->bytes[W] = elements(conv->w) * widest;
    t->bytes[Y] = elements(conv->y) * size;
    t->bytes[BIAS] = (size_t)conv->y[1] * widest;
    t->bytes[SUMS] = conv->sums ? 2 * (size_t)conv->y[1] * sizeof(float) : 0;
    t->bytes[CACHES] = t->device->cache_bytes;
    for (int i = 0; i < count; i++)
        if (plans[i].workspace > t->bytes[WORKSPACE])
            t->bytes[WORKSPACE] = plans[i].workspace;
}

/* The pass that a convolution with sums competes with, after the plan of one without. */
static yk_status prepare_pass(trial *t, const yki_cudnn_plan *separate)
{
    const int64_t *dims = t->conv->y;
    t->y = (yki_operand){.dtype = t->conv->dtype, .ndim = 4, .layout = YKI_CHANNELS_LAST};
    memcpy(t->y.dims, dims, 4 * sizeof *dims);
    t->pass.device = t->device;
    t->bytes[PARTIAL] = yki_cuda_statistics_bytes(&t->y);
    t->bytes[VECTOR] = (size_t)yki_sync_length(dims[1]) * sizeof(double);
    if (separate->workspace > t->bytes[WORKSPACE])
        t->bytes[WORKSPACE] = separate->workspace;
    return yki_cuda_statistics_find(&t->pass, 0, &t->y);
}

/* One run, for the stopwatch. */
static yk_status run_plan(const void *context)
{
    const trial *t = context;
    void *const *at = t->memory;
    const yki_cudnn_conv_memory memory = {
        .x = at[X],
        .w = at[W],
        .y = at[Y],
        .bias = at[BIAS],
        .sum = at[SUMS],
        .squares = t->conv->sums ? (float *)at[SUMS] + t->conv->y[1] : NULL,
        .workspace = at[WORKSPACE]};
    return yki_cudnn_conv_execute(t->cudnn, t->plan, t->conv, &memory,
                                  t->device->launcher->handle_of(t->device->base.stream));
}

static yk_status run_plan_and_pass(const void *context)
{
    const trial *t = context;
    const yki_kernel_args run = {.stream = t->device->base.stream};
    YK_TRY(run_plan(t));
    return yki_cuda_statistics(&t->pass, 0, &t->y, t->memory[Y], t->memory[PARTIAL],
                               t->memory[VECTOR], &run);
}

static double measure(const trial *t, yk_status (*run)(const void *context))
{
    return yki_cuda_try(&(yki_cuda_trial){.device = t->device,
                                          .run = run,
                                          .context = t,
                                          .caches = t->memory[CACHES],
                                          .cache_bytes = t->bytes[CACHES]});
}

/* The fastest of the plans; 0, the first, if none can be measured. */
static int measure_plans(trial *t, const yki_cudnn_plan *plans, int count, double *least)
{
    int fastest = 0;
    *least = 0;
    for (int i = 0; i < count; i++) {
        t->plan = &plans[i];
        double seconds = measure(t, run_plan);
        if (seconds > 0 && (*least == 0 || seconds < *least)) {
            *least = seconds;
            fastest = i;
        }
    }
    return fastest;
}

/* Of the plan without sums, and the pass over y. */
static double measure_separate(trial *t, const yki_cudnn_plan *separate)
{
    yki_cudnn_conv conv = *t->conv;
    conv.sums = false;
    t->conv = &conv;
    t->plan = separate;
    return measure(t, run_plan_and_pass);
}

static void warn_unmeasured(const char *convolution)
{
    static atomic_flag warned = ATOMIC_FLAG_INIT;
    if (!atomic_flag_test_and_set(&warned))
        YKI_WARN("%s: too little of the GPU's memory is free to measure engines, so the first is "
                 "taken: it may not be the fastest, and a run with more memory may have other bits",
                 convolution);
}

/* Also whether plans with sums are worth it: *fastest is NONE where the plan `separate`, which is
 * NULL for other convolutions, and batch_norm's pass take less time, or where that is not known. */
static void find_fastest(trial *t, const yki_cudnn_plan *plans, int count,
                         const yki_cudnn_plan *separate, int *fastest, double *microseconds)
{
    char text[YKI_CUDNN_CONV_TEXT];
    double least, other = 0;
    *fastest = separate ? NONE : 0;
    *microseconds = 0;
    yki_cudnn_conv_text(t->conv, text);
    measure_operands(t, plans, count);
    yk_status status = separate ? prepare_pass(t, separate) : YK_OK;
    if (status == YK_OK)
        status = take_memory(t);
    if (status == YK_ERROR_OUT_OF_MEMORY)
        warn_unmeasured(text);
    if (status != YK_OK)
        return;
    *fastest = measure_plans(t, plans, count, &least);
    if (separate)
        other = measure_separate(t, separate);
    free_operands(t);
    if (other > 0)
        YKI_DEBUG("%s: %.1f us, and %.1f us without sums and with a pass over y", text, 1e6 * least,
                  1e6 * other);
    if (separate && (least == 0 || (other > 0 && other < least))) {
        *fastest = NONE;
        least = other;
    }
    *microseconds = 1e6 * least;
}

/* ---- choosing -------------------------------------------------------------------------------- */

/* The plan is empty where there is none, or where a convolution without sums and a pass over y are
 * faster, which has then been measured. */
static yk_status choose(yki_cuda_device *device, const yki_cudnn *cudnn, const yki_cudnn_conv *conv,
                        const yki_cudnn_plan *separate, const char *problem, yki_cudnn_plan *plan,
                        double *microseconds)
{
    yki_cudnn_plan plans[YKI_CUDA_CANDIDATES];
    int count;
    *microseconds = 0;
    YK_TRY(yki_cuda_candidates_take(device, cudnn, conv, problem, plans, &count));
    int best = count > 0 ? 0 : NONE;
    trial t = {.device = device, .cudnn = cudnn, .conv = conv};
    if (device->measures && count > 0)
        find_fastest(&t, plans, count, separate, &best, microseconds);
    for (int i = 0; i < count; i++)
        if (i == best) {
            *plan = plans[i];
            plan->microseconds = *microseconds;
        } else {
            yki_cudnn_plan_fini(cudnn, &plans[i]);
        }
    return YK_OK;
}

/* What is kept in the place of a plan. */
static const char separately[] = "separately";

/* What is kept of a problem, which the caller frees; NULL: nothing. A plan that was chosen without
 * measuring is not good enough where there is measuring. */
static char *read_kept(const yki_cuda_device *device, const char *folder, const char *problem,
                       double *microseconds)
{
    char *text = yki_plan_cache_read(folder, problem, microseconds);
    if (text && (*microseconds > 0 || !device->measures))
        return text;
    free(text);
    return NULL;
}

static bool recall(const yki_cuda_device *device, const yki_cudnn *cudnn, const char *folder,
                   const char *problem, yki_cudnn_plan *plan)
{
    double microseconds;
    char *text = read_kept(device, folder, problem, &microseconds);
    bool found = false;
    if (text && strcmp(text, separately) == 0)
        found = true;
    else if (text && yki_cudnn_plan_load(cudnn, text, plan))
        found = plan->workspace <= yki_cuda_most_workspace;
    if (!found)
        yki_cudnn_plan_fini(cudnn, plan);
    plan->microseconds = microseconds;
    free(text);
    return found;
}

/* A plan that could not be measured is left to the next run. */
static void remember(const yki_cuda_device *device, const yki_cudnn *cudnn, const char *folder,
                     const char *problem, double microseconds, const yki_cudnn_plan *plan)
{
    if (device->measures && microseconds <= 0)
        return;
    char *text = *folder && plan->descriptor ? yki_cudnn_plan_save(cudnn, plan) : NULL;
    if (text)
        yki_plan_cache_write(folder, problem, microseconds, text);
    else if (*folder && !plan->descriptor && microseconds > 0)
        yki_plan_cache_write(folder, problem, microseconds, separately);
    free(text);
}

static yk_status make_plan(yki_cuda_device *device, const yki_cudnn *cudnn,
                           const yki_cudnn_conv *conv, const yki_cudnn_plan *separate,
                           const char *folder, const char *problem, yki_cudnn_plan *plan)
{
    double microseconds;
    yk_status status = choose(device, cudnn, conv, separate, problem, plan, &microseconds);
    if (status == YK_OK)
        remember(device, cudnn, folder, problem, microseconds, plan);
    bool refused = status == YK_ERROR_UNSUPPORTED && (conv->sums || conv->bias);
    return refused ? YK_OK : status; /* there is no plan, and the convolution does without */
}

/* The plan of the convolution without sums, to be measured next to one with them. */
static yk_status find_separate(yki_cuda_device *device, const yki_cudnn *cudnn,
                               const yki_cudnn_conv *conv, const yki_cudnn_plan **separate)
{
    yki_cudnn_conv without = *conv;
    without.sums = false;
    *separate = NULL;
    if (!conv->sums || !device->measures)
        return YK_OK;
    return yki_cuda_conv_plan(device, cudnn, &without, separate);
}

void yki_cuda_plan_folder(char folder[YKI_PLAN_PATH], const yki_cuda_device *device,
                          const yki_cudnn *cudnn, const char *suffix)
{
    char version[16], library[48];
    yki_cudnn_version_text(cudnn, version);
    snprintf(library, sizeof library, "cudnn-%s%s%s%s", version, cudnn->tf32 ? "-tf32" : "",
             cudnn->winograd ? "-winograd" : "", suffix);
    yki_plan_cache_folder(folder, device->model, library);
}

/* Another rank may have made it while this one waited for the lock. */
static yk_status find_plan(yki_cuda_device *device, const yki_cudnn *cudnn,
                           const yki_cudnn_conv *conv, const char *problem, yki_cudnn_plan *plan)
{
    char folder[YKI_PLAN_PATH];
    const yki_cudnn_plan *separate;
    yki_cuda_plan_folder(folder, device, cudnn, "");
    if (recall(device, cudnn, folder, problem, plan))
        return YK_OK;
    YK_TRY(find_separate(device, cudnn, conv, &separate));
    int lock = device->foresees ? -1 : yki_plan_cache_lock(folder, YKI_PLAN_PATIENCE_S);
    yk_status status = YK_OK;
    if (lock < 0 || !recall(device, cudnn, folder, problem, plan))
        status = make_plan(device, cudnn, conv, separate, folder, problem, plan);
    yki_plan_cache_unlock(lock);
    return status;
}

/* ---- the device's list ----------------------------------------------------------------------- */

static struct yki_cuda_conv_plan *find_entry(const yki_cuda_device *device, const char *problem)
{
    struct yki_cuda_conv_plan *entry = device->plans;
    while (entry && strcmp(entry->problem, problem) != 0)
        entry = entry->next;
    return entry;
}

/* Appends the problem with its plan, which may be empty, to the device's list. */
static yk_status append_entry(yki_cuda_device *device, const yki_cudnn *cudnn,
                              const yki_cudnn_conv *conv, const char *problem,
                              struct yki_cuda_conv_plan **entry)
{
    struct yki_cuda_conv_plan *made = yki_calloc(1, sizeof *made);
    if (!made)
        return yki_error_memory(sizeof *made, "the plan of a convolution");
    made->cudnn = cudnn;
    snprintf(made->problem, sizeof made->problem, "%s", problem);
    yk_status status = find_plan(device, cudnn, conv, problem, &made->plan);
    if (status != YK_OK) {
        free(made);
        return status;
    }
    made->next = device->plans;
    *entry = device->plans = made;
    return YK_OK;
}

yk_status yki_cuda_conv_plan(yki_cuda_device *device, const yki_cudnn *cudnn,
                             const yki_cudnn_conv *conv, const yki_cudnn_plan **plan)
{
    char problem[YKI_CUDNN_CONV_TEXT];
    *plan = NULL;
    yki_cudnn_conv_text(conv, problem);
    struct yki_cuda_conv_plan *entry = find_entry(device, problem);
    if (!entry)
        YK_TRY(append_entry(device, cudnn, conv, problem, &entry));
    *plan = entry->plan.descriptor ? &entry->plan : NULL;
    return YK_OK;
}

void yki_cuda_conv_plans_free(yki_cuda_device *device)
{
    yki_cuda_conv_foreseen(device);
    while (device->plans) {
        struct yki_cuda_conv_plan *entry = device->plans;
        device->plans = entry->next;
        yki_cudnn_plan_fini(entry->cudnn, &entry->plan);
        free(entry);
    }
}

/* ---- foresight ------------------------------------------------------------------------------- */

static bool is_kept(const yki_cuda_device *device, const char *folder, const char *problem)
{
    double microseconds;
    char *text = read_kept(device, folder, problem, &microseconds);
    bool kept = text != NULL;
    free(text);
    return kept;
}

void yki_cuda_conv_foresee(yki_cuda_device *device, const yki_cudnn *cudnn,
                           const yki_cudnn_conv *conv)
{
    char problem[YKI_CUDNN_CONV_TEXT], folder[YKI_PLAN_PATH];
    yki_cudnn_conv_text(conv, problem);
    yki_cuda_plan_folder(folder, device, cudnn, "");
    if (find_entry(device, problem) || is_kept(device, folder, problem))
        return;
    if (!device->foresees) { /* other ranks wait for the lock, and then find these plans kept */
        device->foresees = true;
        device->plan_lock = yki_plan_cache_lock(folder, YKI_PLAN_PATIENCE_S);
    }
    if (!is_kept(device, folder, problem))
        (void)yki_cuda_candidates_foresee(device, cudnn, conv, problem);
}

void yki_cuda_conv_foreseen(yki_cuda_device *device)
{
    yki_cuda_candidates_free(device);
    if (device->foresees)
        yki_plan_cache_unlock(device->plan_lock);
    device->foresees = false;
}

/* See conv_plan.h. */
#include "conv_plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "device/plan_cache.h"

/* Of one kernel: what a plan needs beyond its operands, while it runs. */
static const size_t most_workspace = (size_t)512 << 20;

enum { CANDIDATES = 8, REPEATS = 5 };
/* Of making candidates, which may take a compiler. */
static const double most_seconds = 5;

/* An entry of the device's list. */
struct yki_cuda_conv_plan {
    struct yki_cuda_conv_plan *next;
    const yki_cudnn *cudnn;
    char problem[YKI_CUDNN_CONV_TEXT];
    yki_cudnn_plan plan;
};

/* ---- measuring ------------------------------------------------------------------------------- */

/* Operands to measure with. */
typedef struct room {
    yki_device *device;
    void *memory[5]; /* x, w, y, bias, workspace */
    size_t bytes[5];
} room;

static size_t elements(const int64_t dims[4])
{
    return (size_t)(dims[0] * dims[1] * dims[2] * dims[3]);
}

static void free_room(room *r)
{
    for (int i = 0; i < 5; i++)
        yki_device_free(r->device, r->memory[i], r->bytes[i]);
}

/* With numbers of which none is zero: a GPU multiplies zeros faster. */
static yk_status allocate_room(room *r, yki_device *device, const yki_cudnn_conv *conv,
                               const yki_cudnn_plan *plans, int count)
{
    size_t size = yk_dtype_size(conv->dtype), widest = 8;
    *r = (room){.device = device,
                .bytes = {elements(conv->x) * size, elements(conv->w) * widest,
                          elements(conv->y) * size, (size_t)conv->y[1] * widest}};
    for (int i = 0; i < count; i++)
        if (plans[i].workspace > r->bytes[4])
            r->bytes[4] = plans[i].workspace;
    yk_status status = YK_OK;
    for (int i = 0; i < 5 && status == YK_OK; i++)
        status = yki_device_alloc(device, r->bytes[i], &r->memory[i]);
    for (int i = 0; i < 4 && status == YK_OK; i++)
        status = yki_device_fill(device, r->memory[i], 0x3c, r->bytes[i], device->stream);
    if (status != YK_OK)
        free_room(r);
    return status;
}

/* One run of a plan, for the stopwatch. */
typedef struct trial {
    const yki_cudnn *cudnn;
    const yki_cudnn_plan *plan;
    const room *room;
    int operands;
    void *stream;
} trial;

static yk_status run_trial(const void *context)
{
    static const int64_t ids[] = {YKI_CUDNN_X, YKI_CUDNN_W, YKI_CUDNN_Y, YKI_CUDNN_BIAS};
    const trial *t = context;
    return yki_cudnn_execute(t->cudnn, t->plan, t->operands, ids, t->room->memory,
                             t->room->memory[4], t->stream);
}

static int compare(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

/* The median of REPEATS runs, after one that does not count. */
static yk_status measure(yki_cuda_device *device, const trial *t, double *seconds)
{
    const yki_cuda_launcher *launcher = device->launcher;
    double times[REPEATS + 1];
    for (int i = 0; i <= REPEATS; i++)
        YK_TRY(launcher->measure(&device->base, run_trial, t, &times[i]));
    qsort(times + 1, REPEATS, sizeof *times, compare);
    *seconds = times[1 + REPEATS / 2];
    return YK_OK;
}

/* The fastest; the first if they cannot be measured, for example because memory is short. */
static int find_fastest(yki_cuda_device *device, const yki_cudnn *cudnn, const yki_cudnn_conv *conv,
                        const yki_cudnn_plan *plans, int count, double *microseconds)
{
    room r;
    int fastest = 0;
    double least = 0;
    *microseconds = 0;
    if (allocate_room(&r, &device->base, conv, plans, count) != YK_OK)
        return 0;
    trial t = {.cudnn = cudnn,
               .room = &r,
               .operands = conv->bias ? 4 : 3,
               .stream = device->launcher->handle_of(device->base.stream)};
    for (int i = 0; i < count; i++) {
        double seconds;
        t.plan = &plans[i];
        if (measure(device, &t, &seconds) == YK_OK && (least == 0 || seconds < least)) {
            least = seconds;
            fastest = i;
        }
    }
    free_room(&r);
    *microseconds = 1e6 * least;
    return fastest;
}

/* ---- choosing -------------------------------------------------------------------------------- */

/* The first that work, at most so many, as far as there is time for more than one. */
static int make_candidates(yki_cudnn_proposals *proposals, int most,
                           yki_cudnn_plan plans[CANDIDATES])
{
    double begin = yki_now();
    int made = 0;
    for (int i = 0; i < proposals->count && made < most; i++) {
        if (made > 0 && yki_now() - begin > most_seconds)
            break;
        made += yki_cudnn_plan_make(proposals, i, most_workspace, &plans[made]);
    }
    return made;
}

static bool choose(yki_cuda_device *device, const yki_cudnn *cudnn, const yki_cudnn_conv *conv,
                   const yki_cudnn_graph *graph, yki_cudnn_plan *plan, double *microseconds)
{
    yki_cudnn_plan plans[CANDIDATES];
    yki_cudnn_proposals proposals;
    yki_cudnn_propose(graph, &proposals);
    int count = make_candidates(&proposals, device->measures ? CANDIDATES : 1, plans), best = 0;
    yki_cudnn_proposals_fini(&proposals);
    *microseconds = 0;
    if (device->measures && count > 0)
        best = find_fastest(device, cudnn, conv, plans, count, microseconds);
    for (int i = 0; i < count; i++)
        if (i != best)
            yki_cudnn_plan_fini(cudnn, &plans[i]);
    if (count > 0)
        *plan = plans[best];
    return count > 0;
}

/* A plan that was chosen without measuring is not good enough where there is measuring. */
static bool recall(const yki_cuda_device *device, const yki_cudnn *cudnn, const char *folder,
                   const char *problem, yki_cudnn_plan *plan)
{
    double microseconds;
    char *text = yki_plan_cache_read(folder, problem, &microseconds);
    bool found = text && (microseconds > 0 || !device->measures) &&
                 yki_cudnn_plan_load(cudnn, text, plan) && plan->workspace <= most_workspace;
    if (text && !found)
        yki_cudnn_plan_fini(cudnn, plan);
    free(text);
    return found;
}

static void remember(const yki_cudnn *cudnn, const char *folder, const char *problem,
                     double microseconds, const yki_cudnn_plan *plan)
{
    char *text = *folder ? yki_cudnn_plan_save(cudnn, plan) : NULL;
    if (text)
        yki_plan_cache_write(folder, problem, microseconds, text);
    free(text);
}

static yk_status make_plan(yki_cuda_device *device, const yki_cudnn *cudnn,
                           const yki_cudnn_conv *conv, const char *folder, const char *problem,
                           yki_cudnn_plan *plan)
{
    yki_cudnn_graph graph;
    double microseconds;
    yk_status status = yki_cudnn_conv_graph(&graph, cudnn, conv);
    if (status == YK_OK && choose(device, cudnn, conv, &graph, plan, &microseconds))
        remember(cudnn, folder, problem, microseconds, plan);
    yki_cudnn_graph_fini(&graph);
    return status;
}

/* Another rank may have made it while this one waited for the lock. */
static yk_status find_plan(yki_cuda_device *device, const yki_cudnn *cudnn,
                           const yki_cudnn_conv *conv, const char *problem, yki_cudnn_plan *plan)
{
    char version[16], library[48], folder[YKI_PLAN_PATH];
    yki_cudnn_version_text(cudnn, version);
    snprintf(library, sizeof library, "cudnn-%s%s%s", version, cudnn->tf32 ? "-tf32" : "",
             cudnn->winograd ? "-winograd" : "");
    yki_plan_cache_folder(folder, device->model, library);
    if (recall(device, cudnn, folder, problem, plan))
        return YK_OK;
    int lock = yki_plan_cache_lock(folder);
    yk_status status = YK_OK;
    if (lock < 0 || !recall(device, cudnn, folder, problem, plan))
        status = make_plan(device, cudnn, conv, folder, problem, plan);
    yki_plan_cache_unlock(lock);
    return status;
}

yk_status yki_cuda_conv_plan(yki_cuda_device *device, const yki_cudnn *cudnn,
                             const yki_cudnn_conv *conv, const yki_cudnn_plan **plan)
{
    char problem[YKI_CUDNN_CONV_TEXT];
    *plan = NULL;
    yki_cudnn_conv_text(conv, problem);
    struct yki_cuda_conv_plan *entry = device->plans;
    while (entry && strcmp(entry->problem, problem) != 0)
        entry = entry->next;
    if (!entry) {
        entry = yki_calloc(1, sizeof *entry);
        if (!entry)
            return yki_error_memory(sizeof *entry, "the plan of a convolution");
        entry->cudnn = cudnn;
        memcpy(entry->problem, problem, sizeof problem);
        yk_status status = find_plan(device, cudnn, conv, problem, &entry->plan);
        if (status != YK_OK) {
            free(entry);
            return status;
        }
        entry->next = device->plans;
        device->plans = entry;
    }
    *plan = entry->plan.descriptor ? &entry->plan : NULL;
    return YK_OK;
}

void yki_cuda_conv_plans_free(yki_cuda_device *device)
{
    while (device->plans) {
        struct yki_cuda_conv_plan *entry = device->plans;
        device->plans = entry->next;
        yki_cudnn_plan_fini(entry->cudnn, &entry->plan);
        free(entry);
    }
}

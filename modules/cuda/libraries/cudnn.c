/* See cudnn.h. */
#include "libraries/cudnn.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/nvidia.h"
#include "base/environment.h"
#include "base/memory.h"

enum { OLDEST = 90000, OLDEST_DESCRIBED = 90800 };

static const char *const symbols[] = {CUDNN_SYMBOLS};
static const yki_cuda_library library = {
    .what = "cuDNN 9",
    .files = {"libcudnn.so.9"},
    .package = "cuDNN (NVIDIA's cudnn9-cuda-13, or nvidia-cudnn-cu13 from PyPI)",
    .symbols = symbols};

/* ---- the library ----------------------------------------------------------------------------- */

static yk_status failed(const yki_cudnn *cudnn, const char *what, int status)
{
    char message[200] = "";
    cudnn->calls.get_last_error(message, sizeof message);
    return yki_error(YK_ERROR_INTERNAL, "device cuda: cuDNN cannot %s: %s%s%s", what,
                     cudnn->calls.get_error_string(status), *message ? ": " : "", message);
}

void yki_cudnn_version_text(const yki_cudnn *cudnn, char text[16])
{
    snprintf(text, 16, "%zu.%zu.%zu", cudnn->version / 10000 % 100, cudnn->version / 100 % 100,
             cudnn->version % 100);
}

static yk_status check_version(const yki_cudnn *cudnn, size_t oldest)
{
    char found[16];
    yki_cudnn_version_text(cudnn, found);
    if (cudnn->version >= oldest)
        return YK_OK;
    return yki_error(YK_ERROR_UNSUPPORTED,
                     "device cuda: cuDNN %s is too old, it must be %zu.%zu or newer: install %s",
                     found, oldest / 10000, oldest / 100 % 100, library.package);
}

/* With which cuDNN compiles engines. It asks the loader for it by its name, which the loader knows
 * once it is open, from whichever folder. */
static const char *const compilers[] = {"libnvrtc.so.13", "libnvrtc.so.12"};
enum { COMPILERS = sizeof compilers / sizeof *compilers };

bool yki_cudnn_has_compiler(void)
{
    bool has = false;
    for (int i = 0; i < COMPILERS; i++)
        has = has || dlopen(compilers[i], RTLD_NOW | RTLD_NOLOAD);
    return has;
}

static yk_status open_library(yki_cudnn *cudnn, size_t oldest)
{
    for (int i = 0; i < COMPILERS; i++)
        (void)nvidia_open_in_folders(compilers[i]);
    bool found;
    long tf32 = 0;
    YK_TRY(yki_env_int("YOKE_CUDA_TF32", 0, 1, &tf32, &found));
    YK_TRY(yki_cuda_library_open(&library, &cudnn->calls));
    cudnn->tf32 = tf32;
    cudnn->version = cudnn->calls.get_version();
    return check_version(cudnn, oldest);
}

static yk_status describe(yki_cudnn *cudnn, const char *json)
{
    const yki_cudnn_calls *calls = &cudnn->calls;
    int status = calls->create_descriptor(CUDNN_DEVICE, &cudnn->described);
    if (status == 0)
        status = calls->set_attribute(cudnn->described, CUDNN_DEVICE_JSON, CUDNN_TYPE_CHAR,
                                      (int64_t)strlen(json), json);
    if (status == 0)
        status = calls->finalize(cudnn->described);
    return status == 0 ? YK_OK : failed(cudnn, "read the description of a GPU", status);
}

static yk_status create_handle(yki_cudnn *cudnn)
{
    int status = cudnn->calls.create(&cudnn->handle);
    return status == 0 ? YK_OK : failed(cudnn, "start on this GPU", status);
}

static yk_status open_for(yki_cudnn **cudnn, const char *json)
{
    *cudnn = NULL;
    yki_cudnn *made = yki_calloc(1, sizeof *made);
    if (!made)
        return yki_error_memory(sizeof *made, "cuDNN");
    yk_status status = open_library(made, json ? OLDEST_DESCRIBED : OLDEST);
    if (status == YK_OK)
        status = json ? describe(made, json) : create_handle(made);
    if (status == YK_OK)
        *cudnn = made;
    else
        yki_cudnn_close(made);
    return status;
}

yk_status yki_cudnn_open(yki_cudnn **cudnn)
{
    return open_for(cudnn, NULL);
}

yk_status yki_cudnn_open_described(yki_cudnn **cudnn, const char *json)
{
    return open_for(cudnn, json);
}

void yki_cudnn_close(yki_cudnn *cudnn)
{
    if (cudnn && cudnn->described)
        cudnn->calls.destroy_descriptor(cudnn->described);
    if (cudnn && cudnn->handle)
        cudnn->calls.destroy(cudnn->handle);
    free(cudnn);
}

/* Tells a descriptor for which GPU it is. */
static int set_device(const yki_cudnn *cudnn, cudnn_descriptor descriptor, int handle, int device)
{
    const yki_cudnn_calls *calls = &cudnn->calls;
    if (cudnn->handle)
        return calls->set_attribute(descriptor, handle, CUDNN_TYPE_HANDLE, 1, &cudnn->handle);
    return calls->set_attribute(descriptor, device, CUDNN_TYPE_DESCRIPTOR, 1, &cudnn->described);
}

/* ---- graphs ---------------------------------------------------------------------------------- */

void yki_cudnn_graph_init(yki_cudnn_graph *graph, const yki_cudnn *cudnn)
{
    *graph = (yki_cudnn_graph){.cudnn = cudnn};
}

void yki_cudnn_graph_fini(yki_cudnn_graph *graph)
{
    while (graph->count > 0)
        graph->cudnn->calls.destroy_descriptor(graph->descriptors[--graph->count]);
}

static void note(yki_cudnn_graph *graph, int status)
{
    if (graph->status == 0 && status != 0) {
        graph->status = status;
        graph->cudnn->calls.get_last_error(graph->failure, sizeof graph->failure);
    }
}

cudnn_descriptor yki_cudnn_create(yki_cudnn_graph *graph, int type)
{
    cudnn_descriptor *made = &graph->descriptors[graph->count];
    *made = NULL;
    if (graph->status == 0)
        note(graph, graph->cudnn->calls.create_descriptor(type, made));
    graph->count += *made != NULL;
    return *made;
}

void yki_cudnn_set(yki_cudnn_graph *graph, cudnn_descriptor descriptor, int name, int type,
                   int64_t count, const void *values)
{
    if (graph->status == 0)
        note(graph, graph->cudnn->calls.set_attribute(descriptor, name, type, count, values));
}

void yki_cudnn_set_descriptor(yki_cudnn_graph *graph, cudnn_descriptor descriptor, int name,
                              cudnn_descriptor value)
{
    yki_cudnn_set(graph, descriptor, name, CUDNN_TYPE_DESCRIPTOR, 1, &value);
}

void yki_cudnn_finalize(yki_cudnn_graph *graph, cudnn_descriptor descriptor)
{
    if (graph->status == 0)
        note(graph, graph->cudnn->calls.finalize(descriptor));
}

void yki_cudnn_append(yki_cudnn_graph *graph, cudnn_descriptor operation)
{
    yki_cudnn_finalize(graph, operation);
    graph->operations[graph->operation_count++] = operation;
}

yk_status yki_cudnn_graph_finish(yki_cudnn_graph *graph)
{
    graph->whole = yki_cudnn_create(graph, CUDNN_GRAPH);
    if (graph->cudnn->handle)
        yki_cudnn_set(graph, graph->whole, CUDNN_GRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1,
                      &graph->cudnn->handle);
    yki_cudnn_set(graph, graph->whole, CUDNN_GRAPH_OPERATIONS, CUDNN_TYPE_DESCRIPTOR,
                  graph->operation_count, graph->operations);
    yki_cudnn_finalize(graph, graph->whole);
    if (graph->status == 0)
        return YK_OK;
    return yki_error(YK_ERROR_UNSUPPORTED, "device cuda: cuDNN refuses a graph: %s: %s",
                     graph->cudnn->calls.get_error_string(graph->status), graph->failure);
}

/* ---- proposals ------------------------------------------------------------------------------- */

static bool may_use(const yki_cudnn *cudnn, int note, bool is_f32)
{
    bool winograd = note >= CUDNN_NOTE_WINOGRAD && note <= CUDNN_NOTE_WINOGRAD_LAST;
    if (note == CUDNN_NOTE_NONDETERMINISTIC || note == CUDNN_NOTE_REDUCED_PRECISION)
        return false;
    if (winograd || note == CUDNN_NOTE_FFT)
        return is_f32 && cudnn->winograd;
    if (note == CUDNN_NOTE_TENSOR_CORE || note == CUDNN_NOTE_DOWN_CONVERT_INPUTS)
        return !is_f32 || cudnn->tf32;
    return true;
}

/* Reads which engine a proposal is of; whether it may be used. */
static bool examine(yki_cudnn_proposals *proposals, int proposal, bool is_f32)
{
    const yki_cudnn_calls *calls = &proposals->cudnn->calls;
    cudnn_descriptor config = proposals->list[proposal].config, engine = NULL;
    int notes[CUDNN_NOTES], behaviors[CUDNN_NOTES];
    int64_t found = 0, index = -1, count = 0, behavior_count = 0;
    bool usable = calls->create_descriptor(CUDNN_ENGINE, &engine) == 0 &&
                  calls->get_attribute(config, CUDNN_CONFIG_ENGINE, CUDNN_TYPE_DESCRIPTOR, 1,
                                       &found, &engine) == 0 &&
                  calls->get_attribute(engine, CUDNN_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1,
                                       &found, &index) == 0 &&
                  calls->get_attribute(engine, CUDNN_ENGINE_NUMERICAL_NOTE,
                                       CUDNN_TYPE_NUMERICAL_NOTE, CUDNN_NOTES, &count, notes) == 0;
    if (usable && calls->get_attribute(engine, CUDNN_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE,
                                       CUDNN_NOTES, &behavior_count, behaviors) != 0)
        behavior_count = 0;
    for (int64_t i = 0; usable && i < count; i++)
        usable = may_use(proposals->cudnn, notes[i], is_f32);
    proposals->list[proposal].engine = (int)index;
    proposals->list[proposal].compiled = false;
    for (int64_t i = 0; i < behavior_count; i++)
        if (behaviors[i] == CUDNN_BEHAVIOR_RUNTIME_COMPILATION)
            proposals->list[proposal].compiled = true;
    if (engine)
        calls->destroy_descriptor(engine);
    return usable;
}

/* The heuristics' answer; NULL if they have none. */
static cudnn_descriptor ask(const yki_cudnn_graph *graph, int mode)
{
    const yki_cudnn *cudnn = graph->cudnn;
    const yki_cudnn_calls *calls = &cudnn->calls;
    cudnn_descriptor made = NULL;
    if (calls->create_descriptor(CUDNN_HEURISTICS, &made) != 0)
        return NULL;
    int status =
        calls->set_attribute(made, CUDNN_HEURISTICS_GRAPH, CUDNN_TYPE_DESCRIPTOR, 1, &graph->whole);
    if (status == 0)
        status = calls->set_attribute(made, CUDNN_HEURISTICS_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    if (status == 0 && cudnn->described)
        status = calls->set_attribute(made, CUDNN_HEURISTICS_DEVICE, CUDNN_TYPE_DESCRIPTOR, 1,
                                      &cudnn->described);
    if (status == 0)
        status = calls->finalize(made);
    if (status == 0)
        return made;
    calls->destroy_descriptor(made);
    return NULL;
}

/* Appends one mode's answer, without what may not be used. */
static void collect(const yki_cudnn_graph *graph, int mode, yki_cudnn_proposals *proposals)
{
    const yki_cudnn_calls *calls = &graph->cudnn->calls;
    cudnn_descriptor answer = ask(graph, mode), configs[YKI_CUDNN_PROPOSALS];
    int64_t room = 0, found = 0;
    while (answer && room < YKI_CUDNN_PROPOSALS &&
           calls->create_descriptor(CUDNN_ENGINE_CONFIG, &configs[room]) == 0)
        room++;
    if (answer && calls->get_attribute(answer, CUDNN_HEURISTICS_RESULTS, CUDNN_TYPE_DESCRIPTOR,
                                       room, &found, configs) != 0)
        found = 0;
    for (int64_t i = 0; i < room; i++) {
        int at = proposals->count;
        bool kept = i < found && at < YKI_CUDNN_PROPOSALS;
        if (kept) {
            proposals->list[at].config = configs[i];
            kept = examine(proposals, at, graph->is_f32);
        }
        if (kept)
            proposals->count++;
        else
            calls->destroy_descriptor(configs[i]);
    }
    if (answer)
        calls->destroy_descriptor(answer);
}

void yki_cudnn_propose(const yki_cudnn_graph *graph, yki_cudnn_proposals *proposals)
{
    proposals->cudnn = graph->cudnn;
    proposals->count = 0;
    collect(graph, CUDNN_HEURISTICS_A, proposals);
    collect(graph, CUDNN_HEURISTICS_FALLBACK, proposals);
}

void yki_cudnn_proposals_fini(yki_cudnn_proposals *proposals)
{
    while (proposals->count > 0) {
        cudnn_descriptor config = proposals->list[--proposals->count].config;
        if (config)
            proposals->cudnn->calls.destroy_descriptor(config);
    }
}

/* ---- plans ----------------------------------------------------------------------------------- */

/* Makes a plan of an attribute that says everything. */
static bool make_plan(const yki_cudnn *cudnn, int name, int type, int64_t count, const void *value,
                      yki_cudnn_plan *plan)
{
    const yki_cudnn_calls *calls = &cudnn->calls;
    int64_t workspace = 0, found;
    *plan = (yki_cudnn_plan){0};
    if (calls->create_descriptor(CUDNN_PLAN, &plan->descriptor) != 0)
        return false;
    bool made = set_device(cudnn, plan->descriptor, CUDNN_PLAN_HANDLE, CUDNN_PLAN_DEVICE) == 0 &&
                calls->set_attribute(plan->descriptor, name, type, count, value) == 0 &&
                calls->finalize(plan->descriptor) == 0 &&
                calls->get_attribute(plan->descriptor, CUDNN_PLAN_WORKSPACE, CUDNN_TYPE_INT64, 1,
                                     &found, &workspace) == 0;
    plan->workspace = (size_t)workspace;
    if (!made)
        yki_cudnn_plan_fini(cudnn, plan);
    return made;
}

bool yki_cudnn_plan_make(yki_cudnn_proposals *proposals, int proposal, size_t most_workspace,
                         yki_cudnn_plan *plan)
{
    const yki_cudnn *cudnn = proposals->cudnn;
    cudnn_descriptor *config = &proposals->list[proposal].config;
    if (!make_plan(cudnn, CUDNN_PLAN_CONFIG, CUDNN_TYPE_DESCRIPTOR, 1, config, plan))
        return false;
    if (plan->workspace > most_workspace) {
        yki_cudnn_plan_fini(cudnn, plan);
        return false;
    }
    plan->config = *config;
    *config = NULL;
    return true;
}

void yki_cudnn_plan_fini(const yki_cudnn *cudnn, yki_cudnn_plan *plan)
{
    if (plan->descriptor)
        cudnn->calls.destroy_descriptor(plan->descriptor);
    if (plan->config)
        cudnn->calls.destroy_descriptor(plan->config);
    *plan = (yki_cudnn_plan){0};
}

char *yki_cudnn_plan_save(const yki_cudnn *cudnn, const yki_cudnn_plan *plan)
{
    const yki_cudnn_calls *calls = &cudnn->calls;
    int64_t length = 0, found = 0;
    if (calls->get_attribute(plan->descriptor, CUDNN_PLAN_JSON, CUDNN_TYPE_CHAR, 0, &length,
                             NULL) != 0)
        return NULL;
    char *text = length > 0 ? yki_calloc((size_t)length + 1, 1) : NULL;
    if (text && calls->get_attribute(plan->descriptor, CUDNN_PLAN_JSON, CUDNN_TYPE_CHAR, length,
                                     &found, text) == 0)
        return text;
    free(text);
    return NULL;
}

bool yki_cudnn_plan_load(const yki_cudnn *cudnn, const char *text, yki_cudnn_plan *plan)
{
    return make_plan(cudnn, CUDNN_PLAN_JSON, CUDNN_TYPE_CHAR, (int64_t)strlen(text), text, plan);
}

static int fill_pack(const yki_cudnn_calls *calls, cudnn_descriptor pack, int count,
                     const int64_t *ids, void *const *pointers, void *workspace)
{
    int status = calls->set_attribute(pack, CUDNN_PACK_IDS, CUDNN_TYPE_INT64, count, ids);
    if (status == 0)
        status =
            calls->set_attribute(pack, CUDNN_PACK_POINTERS, CUDNN_TYPE_VOID_PTR, count, pointers);
    if (status == 0)
        status =
            calls->set_attribute(pack, CUDNN_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
    return status == 0 ? calls->finalize(pack) : status;
}

yk_status yki_cudnn_execute(const yki_cudnn *cudnn, const yki_cudnn_plan *plan, int count,
                            const int64_t *ids, void *const *pointers, void *workspace,
                            void *stream)
{
    const yki_cudnn_calls *calls = &cudnn->calls;
    cudnn_descriptor pack = NULL;
    int status = calls->set_stream(cudnn->handle, stream);
    if (status == 0)
        status = calls->create_descriptor(CUDNN_VARIANT_PACK, &pack);
    if (status == 0)
        status = fill_pack(calls, pack, count, ids, pointers, workspace);
    if (status == 0)
        status = calls->execute(cudnn->handle, plan->descriptor, pack);
    yk_status result = status == 0 ? YK_OK : failed(cudnn, "run a convolution", status);
    if (pack)
        calls->destroy_descriptor(pack);
    return result;
}

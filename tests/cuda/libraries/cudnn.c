/*
 * A stand-in for cuDNN (libcudnn.so.9) that computes with plain loops: the calls of cudnn_calls.h,
 * as strict as the real ones. A descriptor is a bag of attributes that cannot be changed once it is
 * final. Of the engines that it proposes for a graph, the first ones must not be used, each for
 * another reason: what they compute is NaN.
 */
#define _GNU_SOURCE
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libraries/cudnn_calls.h"
#include "program.h"
#include "rules.h"
#include "work.h"

#define EXPORT __attribute__((visibility("default")))

enum { OK = 0, BAD = 2000, NOT_FINAL = 2004, NOT_SUPPORTED = 3000, FAILED = 5000 };
enum { ATTRIBUTES = 12 };

typedef struct attribute {
    int name, type;
    int64_t count;
    void *values;
} attribute;

typedef struct descriptor {
    int type, references, count;
    bool final;
    attribute attributes[ATTRIBUTES];
    int engine;           /* of engines and their configurations */
    fake_program program; /* of plans */
} descriptor;

static _Thread_local char last_error[128];

static int fail(int status, const char *what)
{
    snprintf(last_error, sizeof last_error, "%s", what);
    return status;
}

/* ---- engines --------------------------------------------------------------------------------- */

typedef struct engine {
    int mode; /* of the heuristics that propose it */
    int note; /* or -1 */
    bool usable, compiled;
    int64_t workspace;
} engine;

static const engine engines[] = {
    {CUDNN_HEURISTICS_A, CUDNN_NOTE_NONDETERMINISTIC, true, false, 0},
    {CUDNN_HEURISTICS_A, CUDNN_NOTE_REDUCED_PRECISION, true, false, 0},
    {CUDNN_HEURISTICS_A, CUDNN_NOTE_TENSOR_CORE, true, false, 0}, /* in f32: it is TF32 */
    {CUDNN_HEURISTICS_A, CUDNN_NOTE_WINOGRAD, true, false, 0},
    {CUDNN_HEURISTICS_A, -1, false, false, 0},               /* its plan cannot be made */
    {CUDNN_HEURISTICS_A, -1, true, false, (int64_t)1 << 40}, /* nobody has so much memory */
    {CUDNN_HEURISTICS_A, -1, true, false, 1000},             /* the first good one */
    {CUDNN_HEURISTICS_A, -1, true, true, 0},
    {CUDNN_HEURISTICS_FALLBACK, -1, true, false, 0},
};
enum { ENGINES = sizeof engines / sizeof *engines };

/* What an engine multiplies its results with. Winograd's is an engine that may be chosen, with
 * errors that the conformance suite, which does not choose it, would see. */
static double factor_of(int number, const fake_program *program)
{
    const engine *e = &engines[number];
    bool full = program->operations[0].a.type == CUDNN_DATA_FLOAT;
    if (e->note == CUDNN_NOTE_WINOGRAD)
        return 1 + 1e-4;
    bool wrong =
        e->note == CUDNN_NOTE_TENSOR_CORE ? full : e->note >= 0 || e->workspace > (1 << 30);
    return wrong ? (double)NAN : 1;
}

/* ---- attributes ------------------------------------------------------------------------------ */

static size_t size_of(int type)
{
    switch (type) {
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_DOUBLE:
        return 8;
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_DESCRIPTOR:
        return sizeof(void *);
    case CUDNN_TYPE_BOOLEAN:
    case CUDNN_TYPE_CHAR:
        return 1;
    default:
        return 4;
    }
}

static const attribute *find(const descriptor *d, int name)
{
    for (int i = 0; d && i < d->count; i++)
        if (d->attributes[i].name == name)
            return &d->attributes[i];
    return NULL;
}

static int64_t integer(const descriptor *d, int name)
{
    const attribute *found = find(d, name);
    int64_t value = 0;
    if (found)
        memcpy(&value, found->values, size_of(found->type));
    return value;
}

static descriptor *pointee(const descriptor *d, int name)
{
    const attribute *found = find(d, name);
    return found ? *(descriptor **)found->values : NULL;
}

static void release(descriptor *d)
{
    if (!d || --d->references > 0)
        return;
    for (int i = 0; i < d->count; i++) {
        const attribute *a = &d->attributes[i];
        for (int64_t j = 0; a->type == CUDNN_TYPE_DESCRIPTOR && j < a->count; j++)
            release(((descriptor **)a->values)[j]);
        free(a->values);
    }
    free(d);
}

/* ---- programs from graphs -------------------------------------------------------------------- */

static fake_tensor tensor_of(const descriptor *d)
{
    fake_tensor t;
    memset(&t, 0, sizeof t);
    t.id = integer(d, CUDNN_TENSOR_ID);
    t.type = (int)integer(d, CUDNN_TENSOR_DATA_TYPE);
    t.is_virtual = integer(d, CUDNN_TENSOR_IS_VIRTUAL);
    memcpy(t.dims, find(d, CUDNN_TENSOR_DIMENSIONS)->values, sizeof t.dims);
    memcpy(t.strides, find(d, CUDNN_TENSOR_STRIDES)->values, sizeof t.strides);
    return t;
}

static void read_pair(const descriptor *d, int name, int64_t pair[2])
{
    memcpy(pair, find(d, name)->values, 2 * sizeof *pair);
}

static void read_convolution(const descriptor *d, fake_kind kind, const int names[4],
                             fake_operation *op)
{
    const descriptor *geometry = pointee(d, names[3]);
    op->kind = kind;
    op->a = tensor_of(pointee(d, names[0]));
    op->b = tensor_of(pointee(d, names[1]));
    op->c = tensor_of(pointee(d, names[2]));
    read_pair(geometry, CUDNN_CONVOLUTION_PRE_PADDINGS, op->padding);
    read_pair(geometry, CUDNN_CONVOLUTION_STRIDES, op->stride);
    read_pair(geometry, CUDNN_CONVOLUTION_DILATIONS, op->dilation);
}

static void read_pointwise(const descriptor *d, fake_operation *op)
{
    const descriptor *rule = pointee(d, CUDNN_OPERATION_POINTWISE_DESCRIPTOR);
    bool adds = integer(rule, CUDNN_POINTWISE_MODE) == CUDNN_POINTWISE_ADD;
    op->kind = adds ? FAKE_ADD : FAKE_IDENTITY;
    op->a = tensor_of(pointee(d, CUDNN_OPERATION_POINTWISE_X));
    if (adds)
        op->b = tensor_of(pointee(d, CUDNN_OPERATION_POINTWISE_B));
    op->c = tensor_of(pointee(d, CUDNN_OPERATION_POINTWISE_Y));
}

static void read_statistics(const descriptor *d, fake_operation *op)
{
    op->kind = FAKE_STATISTICS;
    op->a = tensor_of(pointee(d, CUDNN_STATISTICS_X));
    op->b = tensor_of(pointee(d, CUDNN_STATISTICS_SUM));
    op->c = tensor_of(pointee(d, CUDNN_STATISTICS_SQUARES));
}

static void read_operation(const descriptor *d, fake_operation *op)
{
    static const int forward[] = {CUDNN_FORWARD_X, CUDNN_FORWARD_W, CUDNN_FORWARD_Y,
                                  CUDNN_FORWARD_CONVOLUTION};
    static const int data[] = {CUDNN_BACKWARD_DATA_DX, CUDNN_BACKWARD_DATA_W,
                               CUDNN_BACKWARD_DATA_DY, CUDNN_BACKWARD_DATA_CONVOLUTION};
    static const int filter[] = {CUDNN_BACKWARD_FILTER_X, CUDNN_BACKWARD_FILTER_DW,
                                 CUDNN_BACKWARD_FILTER_DY, CUDNN_BACKWARD_FILTER_CONVOLUTION};
    if (d->type == CUDNN_OPERATION_FORWARD)
        read_convolution(d, FAKE_FORWARD, forward, op);
    else if (d->type == CUDNN_OPERATION_BACKWARD_DATA)
        read_convolution(d, FAKE_BACKWARD_DATA, data, op);
    else if (d->type == CUDNN_OPERATION_BACKWARD_FILTER)
        read_convolution(d, FAKE_BACKWARD_FILTER, filter, op);
    else if (d->type == CUDNN_OPERATION_STATISTICS)
        read_statistics(d, op);
    else
        read_pointwise(d, op);
}

static bool is_narrow(const fake_tensor *t)
{
    return t->type == CUDNN_DATA_HALF || t->type == CUDNN_DATA_BFLOAT16;
}

/* Of f32, one element for each channel. */
static bool is_vector(const fake_tensor *t)
{
    return t->type == CUDNN_DATA_FLOAT && t->dims[0] * t->dims[2] * t->dims[3] == 1;
}

/* What the real engines do not do either. */
static const char *refuse(const fake_program *p)
{
    const fake_operation *first = &p->operations[0];
    bool grouped = first->a.dims[1] != first->b.dims[1];
    if (is_narrow(&first->a) && !grouped && (first->a.dims[1] % 8 || first->c.dims[1] % 8))
        return "channels are not in eights";
    if (first->kind == FAKE_BACKWARD_FILTER && is_narrow(&first->a) && !is_narrow(&first->b) &&
        !first->b.is_virtual)
        return "the type of dw must be that of x";
    if (first->kind == FAKE_BACKWARD_FILTER && p->count > 1 && grouped)
        return "nothing is fused with the gradient of groups";
    if (first->kind == FAKE_FORWARD && p->count > 1 && first->a.type == CUDNN_DATA_DOUBLE)
        return "nothing is fused in f64";
    const fake_operation *last = &p->operations[p->count - 1];
    if (last->kind == FAKE_STATISTICS &&
        (!is_narrow(&last->a) || grouped || !is_vector(&last->b) || !is_vector(&last->c)))
        return "channels are summed in 16 bits, into f32 and without groups";
    return NULL;
}

static int make_program(const descriptor *graph, int number, fake_program *program)
{
    const attribute *operations = find(graph, CUDNN_GRAPH_OPERATIONS);
    memset(program, 0, sizeof *program);
    program->engine = number;
    program->workspace = engines[number].workspace;
    program->count = (int)operations->count;
    for (int i = 0; i < program->count; i++)
        read_operation(((descriptor **)operations->values)[i], &program->operations[i]);
    program->factor = factor_of(number, program);
    const char *refusal = engines[number].usable ? refuse(program) : "this engine never works";
    return refusal ? fail(NOT_SUPPORTED, refusal) : OK;
}

/* ---- plans as text: the bytes of their programs ---------------------------------------------- */

static const char prefix[] = "{\"fake\": \"";

static size_t text_length(void)
{
    return sizeof prefix - 1 + 2 * sizeof(fake_program) + 2;
}

static void write_text(const fake_program *program, char *text, size_t room)
{
    char whole[sizeof prefix + 2 * sizeof *program + 2];
    int at = sprintf(whole, "%s", prefix);
    for (size_t i = 0; i < sizeof *program; i++)
        at += sprintf(whole + at, "%02x", ((const unsigned char *)program)[i]);
    sprintf(whole + at, "\"}");
    memcpy(text, whole, room < text_length() ? room : text_length());
}

static int read_text(const attribute *text, fake_program *program)
{
    const char *from = text->values;
    if ((size_t)text->count != text_length() || memcmp(from, prefix, sizeof prefix - 1) != 0)
        return fail(BAD, "this is no plan");
    from += sizeof prefix - 1;
    for (size_t i = 0; i < sizeof *program; i++) {
        unsigned byte;
        if (sscanf(from + 2 * i, "%2x", &byte) != 1)
            return fail(BAD, "this is no plan");
        ((unsigned char *)program)[i] = (unsigned char)byte;
    }
    return OK;
}

/* How many plans were made at the same time, at most; each takes YK_FAKE_CUDNN_US microseconds. */
EXPORT atomic_int yk_cudnn_most_at_once;
static atomic_int being_made;

static void take_time(void)
{
    const char *time = getenv("YK_FAKE_CUDNN_US");
    int now = atomic_fetch_add(&being_made, 1) + 1, most = atomic_load(&yk_cudnn_most_at_once);
    while (now > most && !atomic_compare_exchange_weak(&yk_cudnn_most_at_once, &most, now)) {
    }
    if (time)
        usleep((useconds_t)atoi(time));
    atomic_fetch_sub(&being_made, 1);
}

static int finalize_plan(descriptor *d)
{
    const attribute *text = find(d, CUDNN_PLAN_JSON);
    const descriptor *config = pointee(d, CUDNN_PLAN_CONFIG);
    if (text)
        return read_text(text, &d->program);
    take_time();
    return config
               ? make_program(pointee(config, CUDNN_HEURISTICS_GRAPH), config->engine, &d->program)
               : fail(BAD, "a plan has no engine");
}

/* ---- the calls ------------------------------------------------------------------------------- */

EXPORT size_t cudnnGetVersion(void)
{
    return 91900;
}

EXPORT const char *cudnnGetErrorString(int status)
{
    return status == NOT_SUPPORTED ? "CUDNN_STATUS_NOT_SUPPORTED"
           : status == OK          ? "CUDNN_STATUS_SUCCESS"
                                   : "CUDNN_STATUS_BAD_PARAM";
}

EXPORT void cudnnGetLastErrorString(char *message, size_t size)
{
    snprintf(message, size, "%s", last_error);
}

/* The handle is where its stream is. */
EXPORT int cudnnCreate(void **handle)
{
    *handle = yk_library_has_context() ? calloc(1, sizeof(void *)) : NULL;
    return *handle ? OK : FAILED;
}

EXPORT int cudnnDestroy(void *handle)
{
    free(handle);
    return OK;
}

EXPORT int cudnnSetStream(void *handle, void *stream)
{
    *(void **)handle = stream;
    return OK;
}

EXPORT int cudnnBackendCreateDescriptor(int type, cudnn_descriptor *made)
{
    descriptor *d = calloc(1, sizeof *d);
    if (!d)
        return FAILED;
    d->type = type;
    d->references = 1;
    *made = d;
    return OK;
}

EXPORT int cudnnBackendDestroyDescriptor(cudnn_descriptor d)
{
    release(d);
    return OK;
}

static bool has_what_it_needs(const descriptor *d)
{
    for (int i = 0; i < fake_rule_count; i++)
        if (fake_rules[i].descriptor == d->type && fake_rules[i].needed &&
            !find(d, fake_rules[i].name))
            return false;
    return true;
}

static int put(descriptor *d, int name, int type, int64_t count, const void *values)
{
    size_t bytes = (size_t)count * size_of(type);
    if (d->final || find(d, name) || d->count == ATTRIBUTES)
        return fail(BAD, "an attribute is set twice, or too late");
    for (int64_t i = 0; type == CUDNN_TYPE_DESCRIPTOR && i < count; i++) {
        descriptor *other = ((descriptor *const *)values)[i];
        if (!other || !other->final)
            return fail(NOT_FINAL, "an attribute is not final");
        other->references++;
    }
    attribute *a = &d->attributes[d->count++];
    *a = (attribute){name, type, count, malloc(bytes ? bytes : 1)};
    memcpy(a->values, values, bytes);
    return OK;
}

EXPORT int cudnnBackendSetAttribute(cudnn_descriptor to, int name, int type, int64_t count,
                                    const void *values)
{
    if (!fake_may_set(((descriptor *)to)->type, name, type, count))
        return fail(BAD, "an attribute is none of this descriptor, or has another type or count");
    return put(to, name, type, count, values);
}

EXPORT int cudnnBackendFinalize(cudnn_descriptor which)
{
    descriptor *d = which;
    if (d->final)
        return fail(BAD, "a descriptor is finalized twice");
    if (!has_what_it_needs(d))
        return fail(BAD, "a descriptor lacks an attribute");
    int status = d->type == CUDNN_PLAN ? finalize_plan(d) : OK;
    d->final = status == OK;
    return status;
}

/* Configurations of one mode, in descriptors that the caller has made. */
static void answer(const descriptor *d, int64_t room, int64_t *count, descriptor **configs)
{
    int64_t mode = integer(d, CUDNN_HEURISTICS_MODE);
    descriptor *graph = pointee(d, CUDNN_HEURISTICS_GRAPH);
    *count = 0;
    for (int i = 0; i < ENGINES && *count < room; i++) {
        if (engines[i].mode != mode)
            continue;
        descriptor *config = configs[(*count)++];
        put(config, CUDNN_HEURISTICS_GRAPH, CUDNN_TYPE_DESCRIPTOR, 1, &graph);
        config->engine = i;
        config->final = true;
    }
}

static int give_notes(const descriptor *d, int name, int64_t *count, int *values)
{
    const engine *e = &engines[d->engine];
    bool behavior = name == CUDNN_ENGINE_BEHAVIOR_NOTE;
    int note = behavior ? (e->compiled ? CUDNN_BEHAVIOR_RUNTIME_COMPILATION : -1) : e->note;
    *count = note >= 0;
    if (note >= 0)
        *values = note;
    return OK;
}

EXPORT int cudnnBackendGetAttribute(cudnn_descriptor from, int name, int type, int64_t room,
                                    int64_t *count, void *values)
{
    const descriptor *d = from;
    if (!fake_may_get(d->type, name, type))
        return fail(BAD, "an attribute is none of this descriptor, or has another type");
    if (d->type != CUDNN_ENGINE && !d->final)
        return fail(NOT_FINAL, "a descriptor that is not final is asked");
    *count = 1;
    switch (name) {
    case CUDNN_HEURISTICS_RESULTS:
        answer(d, room, count, values);
        return OK;
    case CUDNN_CONFIG_ENGINE:
        (*(descriptor **)values)->engine = d->engine;
        return OK;
    case CUDNN_ENGINE_GLOBAL_INDEX:
        *(int64_t *)values = d->engine;
        return OK;
    case CUDNN_ENGINE_NUMERICAL_NOTE:
    case CUDNN_ENGINE_BEHAVIOR_NOTE:
        return give_notes(d, name, count, values);
    case CUDNN_PLAN_WORKSPACE:
        *(int64_t *)values = d->program.workspace;
        return OK;
    case CUDNN_DEVICE_JSON:
        *count = sizeof "{\"deviceName\": \"a fake\"}" - 1;
        if (values)
            memcpy(values, "{\"deviceName\": \"a fake\"}", (size_t)*count);
        return OK;
    case CUDNN_PLAN_JSON:
        *count = (int64_t)text_length();
        if (values)
            write_text(&d->program, values, (size_t)room);
        return OK;
    default:
        return fail(BAD, "this attribute cannot be asked for");
    }
}

/* ---- execution ------------------------------------------------------------------------------- */

typedef struct call {
    fake_program program;
    int count;
    int64_t ids[FAKE_TENSORS];
    void *pointers[FAKE_TENSORS], *workspace;
} call;

static const char *run_call(void *data)
{
    const call *c = data;
    fake_program_run(&c->program, c->count, c->ids, c->pointers, c->workspace);
    return NULL;
}

/* Exactly the tensors of the plan have pointers, all of them aligned. */
static const char *check_pack(const call *c, const void *stream)
{
    const fake_tensor *tensors[FAKE_TENSORS];
    int count = fake_program_tensors(&c->program, tensors);
    if (count != c->count)
        return "a pointer is missing, or one too many";
    for (int j = 0; j < count; j++) {
        bool found = false;
        for (int i = 0; i < c->count; i++)
            found = found || (c->ids[i] == tensors[j]->id && c->pointers[i] &&
                              (uintptr_t)c->pointers[i] % 16 == 0);
        if (!found)
            return "a tensor has no pointer, or one that is not aligned";
    }
    if (!c->program.workspace)
        return NULL;
    return c->workspace && (!stream || (uintptr_t)c->workspace % 256 == 0)
               ? NULL
               : "there is no workspace, or one that is not aligned";
}

EXPORT int cudnnBackendExecute(void *handle, cudnn_descriptor plan, cudnn_descriptor pack)
{
    const attribute *ids = find(pack, CUDNN_PACK_IDS), *at = find(pack, CUDNN_PACK_POINTERS);
    if (!((descriptor *)plan)->final || !((descriptor *)pack)->final || !ids || !at ||
        ids->count != at->count || ids->count > FAKE_TENSORS)
        return fail(BAD, "a plan or its pointers are incomplete");
    call c = {.program = ((descriptor *)plan)->program, .count = (int)ids->count};
    memcpy(c.ids, ids->values, (size_t)ids->count * sizeof *c.ids);
    memcpy(c.pointers, at->values, (size_t)at->count * sizeof *c.pointers);
    c.workspace = *(void **)find(pack, CUDNN_PACK_WORKSPACE)->values;
    const char *wrong = check_pack(&c, *(void **)handle);
    if (wrong)
        return fail(BAD, wrong);
    return yk_library_enter(*(void **)handle, run_call, &c, sizeof c) ? OK : FAILED;
}

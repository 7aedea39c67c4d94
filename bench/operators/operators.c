/*
 * One operator at a time on the cpu device, forward or its gradient, recurrent layers, and passes
 * of optimizers over all parameters. It is driven by `run`, in turns with pytorch_operators.py.
 *
 * usage: operators THREADS     reads problems, a line each, and prints the ms of a run:
 *            NAME f32|bf16 forward|backward SHAPE OTHER
 *        SHAPE is that of the first input, such as 32x64x8x8, and OTHER that of the second one, or
 *        whatever else the operator needs, or 1.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <yoke/yoke.h>

#include "../kernels/prepared.h"
#include "check/operand.h"
#include "passes.h"
#include "problem.h"
#include "recurrent.h"

enum { LINE = 160, MOST_NODES = 8, MOST_RUNS = 8192, LEAST_RUNS = 3 };

/* Of each answer, see groups.c. */
static const double warm_up_s = 0.015, measured_s = 0.025;

static const char usage[] = "usage: operators THREADS\n";

/* What autocast does: activations in 16 bits. */
static void lower(yki_node *node, yk_dtype dtype)
{
    if (node->op->in[0].is_widened) { /* and nothing else of it has 16 bits */
        node->in[0]->dtype = dtype;
        return;
    }
    for (int i = 0; i < node->in_count; i++)
        if (node->in[i] && node->in[i]->kind == YKI_INPUT && node->in[i]->dtype == YK_F32)
            node->in[i]->dtype = dtype;
    node->out[0]->dtype = dtype;
}

static void append_gradient(yk_graph *graph, const yki_node *node)
{
    bool needs[YKI_MAX_IN] = {false};
    yk_value *dout[YKI_MAX_OUT] = {NULL}, *din[YKI_MAX_IN] = {NULL};
    yki_shape like = yki_shape_of(node->out[0]);
    dout[0] = yki_value_create(graph, YKI_INPUT, &like);
    for (int i = 0; i < node->in_count; i++)
        needs[i] = node->in[i] && node->in[i]->kind != YKI_BUFFER &&
                   yki_dtype_is_float(node->in[i]->dtype);
    if (node->op->gradient)
        check(node->op->gradient(graph, node, dout, needs, din));
}

/* As a planner would find (compile/images.c): softmax has scores of attention, and permute has
 * heads or makes tokens of the pixels of an image. */
static bool is_image(const problem *p, const yk_value *value)
{
    if (strcmp(p->name, "permute") == 0)
        return p->other.dims[3] == 1 && value->dims[1] == p->x.dims[1];
    return strcmp(p->name, "softmax") != 0 && strcmp(p->name, "log_softmax") != 0;
}

static yki_operand operand_of(const yki_device *device, const yk_value *value, const problem *p)
{
    if (!value)
        return none;
    yki_operand operand = {.dtype = value->dtype, .ndim = value->ndim};
    memcpy(operand.dims, value->dims, sizeof operand.dims);
    if (value->kind != YKI_PARAMETER && value->kind != YKI_BUFFER && is_image(p, value))
        operand.layout = device->type->layout(device, &operand);
    return operand;
}

static void describe(prepared *to, const yki_device *device, const yki_node *node, const problem *p)
{
    *to = (prepared){.attrs = node->attrs};
    to->desc = (yki_kernel_desc){.op = node->op,
                                 .attrs = &to->attrs,
                                 .training = true,
                                 .in_count = node->in_count,
                                 .out_count = node->out_count};
    for (int i = 0; i < node->in_count; i++)
        to->desc.in[i] = operand_of(device, node->in[i], p);
    for (int i = 0; i < node->out_count; i++)
        to->desc.out[i] = operand_of(device, node->out[i], p);
    if (strcmp(p->name, "to_plain") == 0)
        to->desc.out[0].layout = YKI_PLAIN;
    if (strcmp(p->name, "to_blocked") == 0)
        to->desc.in[0].layout = YKI_PLAIN;
}

/* Labels of classes are numbers of classes, and indices those of rows of a table. */
static void fill_labels(const prepared *p, int64_t classes)
{
    for (int i = 0; i < p->desc.in_count; i++)
        for (int64_t n = 0; p->desc.in[i].dtype == YK_I32 && n < yki_operand_count(&p->desc.in[i]);
             n++)
            ((int32_t *)p->in[i])[n] = (int32_t)(n * 7 % classes);
}

/* What backward reads of the operands and results of forward, such as the places of maxima. */
static void keep(const yki_device *device, const yki_node *node, const prepared *forward,
                 const yki_node *gradient, const prepared *backward)
{
    for (int i = 0; i < gradient->in_count; i++) {
        const void *found = NULL;
        for (int j = 0; gradient->in[i] && j < node->in_count; j++)
            if (node->in[j] == gradient->in[i])
                found = forward->in[j];
        for (int j = 0; gradient->in[i] && j < node->out_count; j++)
            if (node->out[j] == gradient->in[i])
                found = forward->out[j];
        if (found)
            memcpy(backward->in[i], found, yki_operand_bytes(device, &backward->desc.in[i]));
    }
}

/* ---- a problem ------------------------------------------------------------------------------- */

/* An operator with a graph, or else a layer or a pass. */
typedef struct work {
    problem problem;
    passes passes;
    recurrent recurrent;
    yk_graph *graph;
    prepared nodes[MOST_NODES]; /* the first is forward */
    int count, begin, end;      /* of nodes, and those that are measured */
} work;

static bool operator_init(work *w, yki_device *device)
{
    const problem *p = &w->problem;
    w->graph = yk_graph_create();
    if (!build(w->graph, p) || w->graph->status != YK_OK || w->graph->node_count != 1)
        return false;
    yki_node *node = w->graph->nodes[0];
    if (p->dtype == YK_BF16)
        lower(node, YK_BF16);
    if (p->backward)
        append_gradient(w->graph, node);
    const bool has_rows = strcmp(p->name, "embedding") == 0;
    for (size_t i = 0; i < w->graph->node_count && w->count < MOST_NODES; i++) {
        prepared *one = &w->nodes[w->count++];
        describe(one, device, w->graph->nodes[i], p);
        prepare(one, device);
        fill_labels(one, has_rows ? p->other.dims[0] : p->x.dims[1]);
        if (i == 0)
            run(one);
        else
            keep(device, node, &w->nodes[0], w->graph->nodes[i], one);
    }
    w->begin = p->backward ? 1 : 0;
    w->end = p->backward ? w->count : 1;
    return true;
}

static bool work_init(work *w, yki_device *device, const char *line)
{
    *w = (work){.count = 0};
    if (!read_problem(line, &w->problem))
        return false;
    if (is_pass(&w->problem))
        passes_init(&w->passes, device, &w->problem);
    else if (is_recurrent(&w->problem))
        recurrent_init(&w->recurrent, &w->problem, device->threads);
    else
        return operator_init(w, device);
    return true;
}

static void work_fini(work *w, const yki_device *device)
{
    for (int i = 0; i < w->count; i++)
        release(&w->nodes[i], device);
    if (w->graph)
        yk_graph_destroy(w->graph);
    else if (is_pass(&w->problem))
        passes_fini(&w->passes);
    else
        recurrent_fini(&w->recurrent);
}

/* What a run needs and is not measured. */
static void work_before(const work *w)
{
    if (is_recurrent(&w->problem) && w->problem.backward)
        recurrent_forward(&w->recurrent);
}

/* Weights are packed each time, as after each step of an optimizer. */
static void work_run(const work *w)
{
    if (is_pass(&w->problem))
        passes_run(&w->passes, &w->problem);
    else if (is_recurrent(&w->problem) && w->problem.backward)
        recurrent_backward(&w->recurrent);
    else if (is_recurrent(&w->problem))
        recurrent_forward(&w->recurrent);
    for (int i = w->begin; i < w->end; i++) {
        pack(&w->nodes[i]);
        run(&w->nodes[i]);
    }
}

/* The time of one thread is its processor's, so that other programs do not count. */
static double now(int threads)
{
    struct timespec t;
    clock_gettime(threads == 1 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Repeats runs for so many seconds; the median of their ms. */
static double repeat(const work *w, int threads, double seconds)
{
    static double ms[MOST_RUNS];
    size_t count = 0;
    double begin = now(threads), end = begin;
    while (count < LEAST_RUNS || (count < MOST_RUNS && end < begin + seconds)) {
        work_before(w);
        double start = now(threads);
        work_run(w);
        end = now(threads);
        ms[count++] = (end - start) * 1e3;
    }
    qsort(ms, count, sizeof *ms, by_value);
    return ms[count / 2];
}

int main(int argc, char **argv)
{
    yki_device *device;
    char line[LINE], last[LINE] = "";
    static work w;
    if (argc != 2 || atoi(argv[1]) <= 0) {
        fputs(usage, stderr);
        return 2;
    }
    check(yki_device_create(&device, "cpu",
                            &(yki_device_options){.threads = atoi(argv[1]), .winograd = true}));
    device->type->enter(device);
    while (fgets(line, sizeof line, stdin)) {
        if (strcmp(line, last) != 0) {
            if (*last)
                work_fini(&w, device);
            if (!work_init(&w, device, line)) {
                fprintf(stderr, "operators: this is no problem: %s", line);
                return 1;
            }
            memcpy(last, line, sizeof last);
        }
        repeat(&w, device->threads, warm_up_s);
        printf("%.5f\n", repeat(&w, device->threads, measured_s));
        fflush(stdout);
    }
    if (*last)
        work_fini(&w, device);
    yki_device_destroy(device);
    return 0;
}

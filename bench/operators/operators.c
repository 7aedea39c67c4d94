/*
 * One operator at a time on the cpu device, forward or its gradient, and passes of optimizers over
 * all parameters. It is driven by `run`, in turns with pytorch_operators.py.
 *
 * usage: operators THREADS     reads problems, a line each, and prints the ms of a run:
 *            NAME f32|bf16 forward|backward SHAPE OTHER
 *        SHAPE is that of the first input, such as 32x64x8x8, and OTHER that of the second one, or
 *        whatever else the operator needs, or 1.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <yoke/yoke.h>

#include "../kernels/prepared.h"
#include "base/clock.h"
#include "check/operand.h"
#include "graph/operators.h"

enum { LINE = 160, WORD = 64, MOST_NODES = 8, MOST_RUNS = 8192, TENSORS = 16, LEAST_RUNS = 5 };

/* Of each answer, see groups.c. */
static const double warm_up_s = 0.015, measured_s = 0.025;

static const char usage[] = "usage: operators THREADS\n";

typedef struct shape {
    int ndim;
    int64_t dims[YK_MAX_DIMS];
} shape;

typedef struct problem {
    char name[WORD];
    yk_dtype dtype;
    bool backward;
    shape x, other;
} problem;

static bool read_shape(const char *text, shape *s)
{
    for (s->ndim = 0; s->ndim < YK_MAX_DIMS; s->ndim++) {
        char *end;
        s->dims[s->ndim] = strtoll(text, &end, 10);
        if (end == text)
            return false;
        if (*end != 'x')
            return s->ndim++, *end == '\0';
        text = end + 1;
    }
    return false;
}

static bool read_problem(const char *line, problem *p)
{
    char dtype[WORD], way[WORD], x[WORD], other[WORD];
    if (sscanf(line, "%63s %63s %63s %63s %63s", p->name, dtype, way, x, other) != 5)
        return false;
    p->dtype = strcmp(dtype, "bf16") == 0 ? YK_BF16 : YK_F32;
    p->backward = strcmp(way, "backward") == 0;
    return read_shape(x, &p->x) && read_shape(other, &p->other);
}

/* ---- operators ------------------------------------------------------------------------------- */

static yk_value *input(yk_graph *graph, const char *name, yk_dtype dtype, const shape *s)
{
    return yk_input(graph, name, dtype, s->ndim, s->dims);
}

static yk_value *cross_entropy(yk_value *x, const problem *p, bool weighted, bool soft,
                               double smoothing)
{
    yk_graph *graph = yk_value_graph(x);
    shape labels = {p->x.ndim - 1, {p->x.dims[0], p->x.dims[2], p->x.dims[3]}};
    yk_value *weight =
        weighted ? yk_buffer(graph, "class_weight", YK_F32, 1, &p->x.dims[1], YK_INIT_ONES) : NULL;
    yk_cross_entropy_options options = YK_CROSS_ENTROPY_OPTIONS_INIT;
    options.weight = weight;
    options.label_smoothing = smoothing;
    return yk_cross_entropy(
        x, soft ? input(graph, "labels", YK_F32, &p->x) : input(graph, "labels", YK_I32, &labels),
        &options);
}

static yk_value *bce(yk_value *x, yk_value *target, yk_value *pos_weight)
{
    yk_binary_cross_entropy_options options = YK_BINARY_CROSS_ENTROPY_OPTIONS_INIT;
    options.pos_weight = pos_weight;
    return yk_binary_cross_entropy_with_logits(x, target, &options);
}

static yk_value *layer_norm(yk_value *x, const problem *p)
{
    yk_graph *graph = yk_value_graph(x);
    const shape *s = &p->other;
    return yk_layer_norm(
        x, yk_parameter(graph, "weight", YK_F32, s->ndim, s->dims, YK_INIT_ONES, 0),
        yk_parameter(graph, "bias", YK_F32, s->ndim, s->dims, YK_INIT_ZEROS, 0), 1e-5);
}

static yk_value *rms_norm(yk_value *x, const problem *p)
{
    return yk_rms_norm(x,
                       yk_parameter(yk_value_graph(x), "weight", YK_F32, p->other.ndim,
                                    p->other.dims, YK_INIT_ONES, 0),
                       1e-5);
}

/* `other`: the heads. */
static yk_value *rotary(yk_value *x, const problem *p)
{
    yk_rotary_embedding_options options = YK_ROTARY_EMBEDDING_OPTIONS_INIT;
    options.num_heads = p->other.dims[0];
    return yk_rotary_embedding(x, &options);
}

/* Of queries, keys and values in x; other: the heads. */
static yk_value *attention(yk_value *x, const problem *p, bool is_causal)
{
    yk_attention_options options = YK_ATTENTION_OPTIONS_INIT;
    options.num_heads = p->other.dims[0];
    options.is_causal = is_causal;
    return yk_scaled_dot_product_attention(x, NULL, NULL, &options);
}

static yk_value *group_norm(yk_value *x, const problem *p)
{
    yk_graph *graph = yk_value_graph(x);
    int64_t dims[YK_MAX_DIMS];
    yk_value_shape(x, dims);
    return yk_group_norm(x, p->other.dims[0],
                         yk_parameter(graph, "weight", YK_F32, 1, &dims[1], YK_INIT_ONES, 0),
                         yk_parameter(graph, "bias", YK_F32, 1, &dims[1], YK_INIT_ZEROS, 0), 1e-5);
}

/* q k^T, as a node. */
static yk_value *matmul_turned(yk_value *q, yk_value *k)
{
    return yki_emit(&yki_op_matmul, &(yki_attrs){.heads = 1, .transpose_b = true},
                    (yk_value *[]){q, k});
}

/* To be compared with group_norm. */
static yk_value *batch_norm(yk_value *x)
{
    return yk_nn_batch_norm(x, "bn");
}

/* Of the planner: x in another layout, and of autocast: in another dtype. */
static yk_value *converted(yk_value *x, const yki_op *op)
{
    yk_value *y = yki_append_like(yk_value_graph(x), op, NULL, &x, x);
    if (op == &yki_op_cast)
        y->dtype = YK_BF16;
    return y;
}

/* One node of the graph. */
static yk_value *build(yk_graph *graph, const problem *p)
{
    yk_value *x = input(graph, "x", YK_F32, &p->x);
#define OPERATOR(of, call)                                                                         \
    if (strcmp(p->name, of) == 0)                                                                  \
    return call
#define OTHER      input(graph, "other", YK_F32, &p->other)
#define TARGET     input(graph, "target", YK_F32, &p->x)
#define PAIR(a, b) ((yk_value *[]){a, b})
#define POS_WEIGHT yk_buffer(graph, "pos_weight", YK_F32, 1, &p->x.dims[1], YK_INIT_ONES)
    OPERATOR("relu", yk_relu(x));
    OPERATOR("gelu", yk_gelu(x));
    OPERATOR("sigmoid", yk_sigmoid(x));
    OPERATOR("silu", yk_silu(x));
    OPERATOR("hardswish", yk_hardswish(x));
    OPERATOR("tanh", yk_tanh(x));
    OPERATOR("leaky_relu", yk_leaky_relu(x, 0.01));
    OPERATOR("exp", yk_exp(x));
    OPERATOR("log", yk_log(x));
    OPERATOR("abs", yk_abs(x));
    OPERATOR("square", yk_pow(x, 2));
    OPERATOR("clamp", yk_clamp(x, -0.5, 0.5));
    OPERATOR("scale", yk_scale(x, 0.5));
    OPERATOR("add_scalar", yk_add_scalar(x, 0.5));
    OPERATOR("dropout", yk_dropout(x, 0.5));
    OPERATOR("add", yk_add(x, OTHER));
    OPERATOR("subtract", yk_subtract(x, OTHER));
    OPERATOR("multiply", yk_multiply(x, OTHER));
    OPERATOR("divide", yk_divide(x, OTHER));
    OPERATOR("concat", yk_concat(PAIR(x, OTHER), 2, 1));
    OPERATOR("softmax", yk_softmax(x));
    OPERATOR("layer_norm", layer_norm(x, p));
    OPERATOR("rms_norm", rms_norm(x, p));
    OPERATOR("rotary", rotary(x, p));
    OPERATOR("attention", attention(x, p, false));
    OPERATOR("attention_causal", attention(x, p, true));
    OPERATOR("group_norm", group_norm(x, p));
    OPERATOR("batch_norm", batch_norm(x));
    OPERATOR("matmul", yk_matmul(x, OTHER));
    OPERATOR("matmul_turned", matmul_turned(x, OTHER));
    OPERATOR("cross_entropy", cross_entropy(x, p, false, false, 0));
    OPERATOR("cross_entropy_smoothed", cross_entropy(x, p, false, false, 0.1));
    OPERATOR("cross_entropy_weighted", cross_entropy(x, p, true, false, 0));
    OPERATOR("cross_entropy_soft", cross_entropy(x, p, false, true, 0));
    OPERATOR("mse_loss", yk_mse_loss(x, TARGET, YK_LOSS_MEAN));
    OPERATOR("l1_loss", yk_l1_loss(x, TARGET, YK_LOSS_MEAN));
    OPERATOR("smooth_l1_loss", yk_smooth_l1_loss(x, TARGET, 1, YK_LOSS_MEAN));
    OPERATOR("bce", bce(x, TARGET, NULL));
    OPERATOR("bce_weighted", bce(x, TARGET, POS_WEIGHT));
    OPERATOR("cast", converted(x, &yki_op_cast));
    OPERATOR("to_plain", converted(x, &yki_op_reorder));
    OPERATOR("to_blocked", converted(x, &yki_op_reorder));
    return NULL;
}

/* What autocast does: activations in 16 bits. */
static void lower(yki_node *node, yk_dtype dtype)
{
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

static yki_operand operand_of(const yki_device *device, const yk_value *value)
{
    if (!value)
        return none;
    yki_operand operand = {.dtype = value->dtype, .ndim = value->ndim};
    memcpy(operand.dims, value->dims, sizeof operand.dims);
    if (value->kind != YKI_PARAMETER && value->kind != YKI_BUFFER)
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
        to->desc.in[i] = operand_of(device, node->in[i]);
    for (int i = 0; i < node->out_count; i++)
        to->desc.out[i] = operand_of(device, node->out[i]);
    if (strcmp(p->name, "to_plain") == 0)
        to->desc.out[0].layout = YKI_PLAIN;
    if (strcmp(p->name, "to_blocked") == 0)
        to->desc.in[0].layout = YKI_PLAIN;
}

/* Labels of classes are numbers of classes. */
static void fill_labels(const prepared *p, int64_t classes)
{
    for (int i = 0; i < p->desc.in_count; i++)
        for (int64_t n = 0; p->desc.in[i].dtype == YK_I32 && n < yki_operand_count(&p->desc.in[i]);
             n++)
            ((int32_t *)p->in[i])[n] = (int32_t)(n * 7 % classes);
}

/* ---- passes of optimizers -------------------------------------------------------------------- */

/* Over TENSORS tensors, which have as many elements as SHAPE says together. */
typedef struct passes {
    yki_sweep *sweep;
    void *memory[YKI_SWEEP_TENSORS];
    size_t bytes;
} passes;

static const double adam[] = {1e-3, 0.9, 0.999, 0.5, 1e-8, 1e-4, 1, 0};
static const double sgd[] = {1e-3, 0.9, 0.9, 1, 1e-4, 0, 0, 0};
static const double ema[] = {1e-3, 0, 0, 0, 0, 0, 0, 0};

static bool is_pass(const problem *p)
{
    static const char *const names[] = {"sgd", "adam", "ema", "clip_grad_norm"};
    bool found = false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        found = found || strcmp(p->name, names[i]) == 0;
    return found;
}

static void passes_init(passes *s, yki_device *device, const problem *p)
{
    yki_span spans[TENSORS];
    int64_t count = 1;
    for (int i = 0; i < p->x.ndim; i++)
        count *= p->x.dims[i];
    yki_operand all = {.dtype = YK_F32, .ndim = 1, .dims = {count}};
    s->bytes = (size_t)count * sizeof(float);
    for (int t = 0; t < YKI_SWEEP_TENSORS; t++)
        s->memory[t] = fill(device, &all);
    for (int i = 0; i < TENSORS; i++) {
        spans[i] = (yki_span){.count = count / TENSORS, .dtype = YK_F32};
        for (int t = 0; t < YKI_SWEEP_TENSORS; t++)
            spans[i].at[t] = (float *)s->memory[t] + i * (count / TENSORS);
    }
    memset(s->memory[3], 0, s->bytes); /* means of squares */
    check(yki_sweep_create(&s->sweep, device, spans, TENSORS));
}

static void passes_run(const passes *s, const problem *p)
{
    double clip[YKI_SWEEP_COEFFICIENTS] = {0};
    switch (*p->name) {
    case 's':
        check(yki_sweep_run(s->sweep, YKI_SWEEP_SGD, sgd, NULL, NULL));
        break;
    case 'a':
        check(yki_sweep_run(s->sweep, YKI_SWEEP_ADAM, adam, NULL, NULL));
        break;
    case 'e':
        check(yki_sweep_run(s->sweep, YKI_SWEEP_APPROACH, ema, NULL, NULL));
        break;
    default:
        check(yki_sweep_run(s->sweep, YKI_SWEEP_SQUARES, NULL, &clip[YKI_CLIP_SQUARES], NULL));
        clip[YKI_CLIP_MAX_NORM] = 0.999 * sqrt(clip[YKI_CLIP_SQUARES]);
        check(yki_sweep_run(s->sweep, YKI_SWEEP_CLIP, clip, NULL, NULL));
    }
}

static void passes_fini(passes *s)
{
    yki_sweep_destroy(s->sweep);
    for (int t = 0; t < YKI_SWEEP_TENSORS; t++)
        yki_unmap(s->memory[t], s->bytes);
}

/* ---- a problem ------------------------------------------------------------------------------- */

typedef struct work {
    problem problem;
    passes passes;
    yk_graph *graph;
    prepared nodes[MOST_NODES];
    int count;
} work;

static bool work_init(work *w, yki_device *device, const char *line)
{
    *w = (work){.count = 0};
    const problem *p = &w->problem;
    if (!read_problem(line, &w->problem))
        return false;
    if (is_pass(p)) {
        passes_init(&w->passes, device, p);
        return true;
    }
    w->graph = yk_graph_create();
    if (!build(w->graph, p) || w->graph->status != YK_OK || w->graph->node_count != 1)
        return false;
    yki_node *node = w->graph->nodes[0];
    if (p->dtype == YK_BF16)
        lower(node, YK_BF16);
    append_gradient(w->graph, node);
    size_t begin = p->backward ? 1 : 0, end = p->backward ? w->graph->node_count : 1;
    for (size_t i = begin; i < end && w->count < MOST_NODES; i++) {
        prepared *one = &w->nodes[w->count++];
        describe(one, device, w->graph->nodes[i], p);
        prepare(one, device);
        fill_labels(one, p->x.dims[1]);
    }
    return true;
}

static void work_fini(work *w, const yki_device *device)
{
    for (int i = 0; i < w->count; i++)
        release(&w->nodes[i], device);
    if (w->graph)
        yk_graph_destroy(w->graph);
    else
        passes_fini(&w->passes);
}

static void work_run(const work *w)
{
    if (!w->graph)
        passes_run(&w->passes, &w->problem);
    for (int i = 0; i < w->count; i++)
        run(&w->nodes[i]);
}

/* Repeats runs for so many seconds; the median of their ms. */
static double repeat(const work *w, double seconds)
{
    static double ms[MOST_RUNS];
    size_t count = 0;
    double begin = yki_now(), now = begin;
    while (count < LEAST_RUNS || (count < MOST_RUNS && now < begin + seconds)) {
        double start = now;
        work_run(w);
        now = yki_now();
        ms[count++] = (now - start) * 1e3;
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
    check(yki_device_create(&device, "cpu", &(yki_device_options){.threads = atoi(argv[1])}));
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
        repeat(&w, warm_up_s);
        printf("%.5f\n", repeat(&w, measured_s));
        fflush(stdout);
    }
    if (*last)
        work_fini(&w, device);
    yki_device_destroy(device);
    return 0;
}

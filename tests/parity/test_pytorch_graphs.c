/*
 * Graphs drawn at random against PyTorch: what passes over a graph make of it (gradients, fusions,
 * values computed again, memory that values share) must not change what it computes. Several steps
 * each, of batches of different sizes, in training and in evaluation. On ref, in f64, losses,
 * gradients and running statistics are within 1e-9 of PyTorch's, graphs.py says; on cpu, in f32,
 * they are near ref's.
 *
 * YOKE_TEST_DRAWS=N draws N graphs instead of 40, YOKE_TEST_SEED=N others.
 */
#include <math.h>
#include <stdlib.h>

#include "base/random.h"
#include "graph/operators.h"
#include "harness.h"
#include "model/model_hooks.h"
#include "pytorch.h"
#include "tensor/element.h"
#include "tensor_files.h"

enum { MOST_VALUES = 40, OPERATORS = 12, STEPS = 3, CLASSES = 4 };

/* A graph that is being drawn, and the activations that its operators may read. */
typedef struct drawing {
    uint64_t seed, draws;
    yk_dtype dtype;
    yk_graph *graph;
    yk_value *values[MOST_VALUES];
    int count;
} drawing;

/* ---- draws ----------------------------------------------------------------------------------- */

static int64_t between(drawing *d, int64_t low, int64_t high)
{
    return low + (int64_t)(yki_hash3(d->seed, 0, d->draws++) % (uint64_t)(high - low + 1));
}

static bool once_in(drawing *d, int64_t n)
{
    return between(d, 1, n) == 1;
}

/* Most often one of the last. */
static yk_value *any_value(drawing *d)
{
    int first = once_in(d, 3) || d->count < 3 ? 0 : d->count - 3;
    return d->values[between(d, first, d->count - 1)];
}

/* Another of the same shape, or the value itself. */
static yk_value *partner(drawing *d, yk_value *x)
{
    yk_value *other = any_value(d);
    return yki_same_dims(x, other) ? other : x;
}

static yk_value *parameter(drawing *d, int ndim, const int64_t *dims)
{
    char name[24];
    snprintf(name, sizeof name, "p%zu", d->graph->value_count);
    return yk_parameter(d->graph, name, d->dtype, ndim, dims, YK_INIT_ZEROS, 0);
}

static yk_value *buffer(drawing *d, int64_t size, yk_init init)
{
    char name[24];
    snprintf(name, sizeof name, "b%zu", d->graph->value_count);
    return yk_buffer(d->graph, name, d->dtype, 1, &size, init);
}

static yk_value *input(drawing *d, yk_dtype dtype, int ndim, const int64_t *dims)
{
    char name[24];
    snprintf(name, sizeof name, "x%zu", d->graph->value_count);
    return yk_input(d->graph, name, dtype, ndim, dims);
}

/* ---- operators ------------------------------------------------------------------------------- */

static yk_value *activation(drawing *d, yk_value *x)
{
    static yk_value *(*const functions[])(yk_value *) = {yk_relu, yk_relu6,     yk_gelu, yk_sigmoid,
                                                         yk_silu, yk_hardswish, yk_tanh};
    int which = (int)between(d, 0, 7);
    return which < 7 ? functions[which](x) : yk_leaky_relu(x, 0.2);
}

/* Powers, logarithms and quotients of numbers that they are fine for. */
static yk_value *curve(drawing *d, yk_value *x)
{
    switch (between(d, 0, 4)) {
    case 0:
        return yk_exp(yk_clamp(x, -2, 1));
    case 1:
        return yk_log(yk_add_scalar(yk_abs(x), 0.5));
    case 2:
        return yk_pow(yk_add_scalar(yk_pow(x, 2), 0.3), once_in(d, 2) ? 0.5 : -0.7);
    case 3:
        return yk_subtract(partner(d, x), x);
    default:
        return yk_divide(x, yk_add_scalar(yk_exp(yk_clamp(partner(d, x), -1, 1)), 0.1));
    }
}

/* Alone, or with what fusion takes in. */
static yk_value *norm(drawing *d, yk_value *x)
{
    int64_t channels = x->dims[1];
    yk_value *residual = partner(d, x), *weight = parameter(d, 1, &channels);
    yk_value *bias = parameter(d, 1, &channels), *mean = buffer(d, channels, YK_INIT_ZEROS);
    bool evaluates = once_in(d, 4);
    if (evaluates)
        yk_eval_push(d->graph);
    x = yk_batch_norm(x, weight, bias, mean, buffer(d, channels, YK_INIT_ONES), NULL);
    if (evaluates) {
        x = once_in(d, 2) ? yk_dropout(x, 0.5) : x;
        yk_eval_pop(d->graph);
    }
    if (once_in(d, 3)) /* others may read it, too */
        d->values[d->count++] = x;
    if (once_in(d, 2))
        x = once_in(d, 2) ? yk_add(x, residual) : yk_add(residual, x);
    return once_in(d, 2) ? x : once_in(d, 2) ? yk_relu(x) : yk_relu6(x);
}

static yk_value *convolution(drawing *d, yk_value *x)
{
    yk_conv2d_options options = YK_CONV2D_OPTIONS_INIT;
    int64_t filters = once_in(d, 3) ? x->dims[1] : between(d, 1, 20), side = between(d, 0, 1);
    options.stride = between(d, 1, 2);
    options.padding = side;
    options.groups = filters == x->dims[1] && once_in(d, 3) ? filters : 1;
    const int64_t dims[] = {filters, x->dims[1] / options.groups, 2 * side + 1, 2 * side + 1};
    yk_value *weight = parameter(d, 4, dims);
    return yk_conv2d(x, weight, once_in(d, 2) ? parameter(d, 1, dims) : NULL, &options);
}

static yk_value *linear(drawing *d, yk_value *x)
{
    const int64_t dims[] = {between(d, 1, 20), x->dims[1]};
    yk_value *weight = parameter(d, 2, dims);
    return yk_linear(x, weight, once_in(d, 2) ? parameter(d, 1, dims) : NULL);
}

/* With a parameter that is broadcast, or another value. */
static yk_value *combination(drawing *d, yk_value *x)
{
    yk_value *other = partner(d, x);
    int64_t dims[YK_MAX_DIMS];
    int ndim = (int)between(d, 1, x->ndim - 1);
    for (int i = 0; i < ndim; i++)
        dims[i] = once_in(d, 2) ? 1 : x->dims[x->ndim - ndim + i];
    if (once_in(d, 2))
        other = parameter(d, ndim, dims);
    return once_in(d, 2) ? yk_add(x, other) : yk_multiply(other, x);
}

static yk_value *pool(drawing *d, yk_value *x)
{
    int64_t least = x->dims[2] < x->dims[3] ? x->dims[2] : x->dims[3];
    int64_t kernel = between(d, 1, least < 3 ? least : 3), stride = between(d, 1, 3);
    int64_t padding = between(d, 0, kernel / 2);
    if (once_in(d, 3))
        return yk_adaptive_avg_pool2d(x, between(d, 2, 5), between(d, 2, 5));
    return once_in(d, 2) ? yk_max_pool2d(x, kernel, stride, padding)
                         : yk_avg_pool2d(x, kernel, stride, padding);
}

static yk_value *normalised_groups(drawing *d, yk_value *x)
{
    const int64_t *channels = &x->dims[1];
    int64_t groups = between(d, 1, *channels);
    while (*channels % groups)
        groups--;
    if (once_in(d, 4)) /* PyTorch's gradient needs both or neither */
        return yk_group_norm(x, groups, NULL, NULL, 1e-2);
    yk_value *weight = parameter(d, 1, channels);
    return yk_group_norm(x, groups, weight, parameter(d, 1, channels), 1e-2);
}

static yk_value *normalised_rows(drawing *d, yk_value *x)
{
    const int64_t *last = &x->dims[x->ndim - 1];
    if (once_in(d, 3))
        return normalised_groups(d, x);
    if (once_in(d, 2))
        return yk_softmax(x);
    yk_value *weight = parameter(d, 1, last);
    if (once_in(d, 2))
        return yk_rms_norm(x, weight, 1e-2);
    return yk_layer_norm(x, weight, parameter(d, 1, last), 1e-2);
}

static yk_value *joined(drawing *d, yk_value *x)
{
    yk_value *values[] = {x, partner(d, x), x};
    int64_t dim = once_in(d, 2) ? 1 : between(d, 1, x->ndim - 1);
    if (x->dims[dim] > (dim == 1 ? 64 : 12))
        return yk_slice(x, dim, between(d, 0, 4), x->dims[dim] / 2);
    return yk_concat(values, (int)between(d, 1, 3), dim);
}

/* Parts of a dimension in another order; they may leave gaps and overlap. */
static yk_value *shuffled(drawing *d, yk_value *x)
{
    yk_value *values[4];
    int64_t dim = between(d, 1, x->ndim - 1), size = x->dims[dim];
    int count = (int)between(d, 1, 4);
    for (int i = 0; i < count; i++) {
        int64_t first = between(d, 0, size - 1), rest = size - first;
        values[i] = yk_slice(x, dim, first, between(d, 1, rest < 8 ? rest : 8));
        values[i] = once_in(d, 2) ? activation(d, values[i]) : values[i];
    }
    return yk_concat(values, count, dim);
}

static yk_value *draw_operator(drawing *d, yk_value *x)
{
    bool is_image = x->ndim == 4;
    switch (between(d, 0, 10)) {
    case 0:
    case 1:
        return activation(d, x);
    case 10:
        return curve(d, x);
    case 2:
    case 3:
        return norm(d, x);
    case 4:
    case 5:
        return is_image ? convolution(d, x) : linear(d, x);
    case 6:
        return is_image ? pool(d, x) : linear(d, x);
    case 7:
        return combination(d, x);
    case 8:
        return once_in(d, 3)   ? yk_add(x, yk_detach(partner(d, x)))
               : once_in(d, 2) ? normalised_rows(d, x)
                               : yk_scale(x, -1.5);
    default:
        if (is_image && once_in(d, 3))
            return yk_flatten(x);
        return once_in(d, 2) ? shuffled(d, x) : joined(d, x);
    }
}

/* A loss of the value, which is an activation. */
static yk_value *draw_loss(drawing *d, yk_value *x)
{
    x = x->ndim == 4 ? yk_flatten(x) : x;
    if (once_in(d, 3))
        return yk_mse_loss(x, input(d, d->dtype, x->ndim, x->dims), YK_LOSS_MEAN);
    if (once_in(d, 3))
        return yk_binary_cross_entropy_with_logits(x, input(d, d->dtype, x->ndim, x->dims), NULL);
    if (once_in(d, 3))
        return yk_reduce_loss(yk_multiply(x, x), YK_LOSS_MEAN);
    const int64_t dims[] = {CLASSES, x->dims[1]}, batch = YK_BATCH;
    yk_value *logits = yk_linear(x, parameter(d, 2, dims), NULL);
    return yk_cross_entropy(logits, input(d, YK_I32, 1, &batch), NULL);
}

static yk_value *draw_graph(drawing *d)
{
    const int64_t dims[] = {YK_BATCH, between(d, 1, 20), between(d, 3, 9), between(d, 3, 9)};
    d->graph = yk_graph_create();
    d->values[d->count++] = input(d, d->dtype, 4, dims);
    for (int64_t left = between(d, 3, OPERATORS); left > 0; left--) {
        yk_value *y = draw_operator(d, any_value(d));
        d->values[d->count++] = y;
    }
    yk_value *loss = draw_loss(d, d->values[d->count - 1]);
    return once_in(d, 2) ? yk_add(loss, yk_scale(draw_loss(d, any_value(d)), 0.5)) : loss;
}

/* ---- describing it --------------------------------------------------------------------------- */

static void describe_value(FILE *file, const yk_value *value)
{
    static const char *const kinds[] = {
        [YKI_INPUT] = "input", [YKI_PARAMETER] = "parameter", [YKI_BUFFER] = "buffer"};
    if (value->kind == YKI_ACTIVATION)
        return;
    fprintf(file, "%s %d %d", kinds[value->kind], value->id, value->dtype == YK_I32);
    for (int i = 0; i < value->ndim; i++)
        fprintf(file, " %lld", (long long)value->dims[i]);
    fputc('\n', file);
}

static void describe_node(FILE *file, const yki_node *node)
{
    const yki_attrs *a = &node->attrs;
    fprintf(file,
            "node %d %s %d %lld %lld %lld %lld %lld %lld %lld %lld %lld %lld %.17g %.17g %.17g",
            node->out[0]->id, node->op->name, a->evaluates, (long long)a->kernel,
            (long long)a->stride, (long long)a->padding, (long long)a->dilation,
            (long long)a->groups, (long long)a->rows, (long long)a->columns, (long long)a->dim,
            (long long)a->first, (long long)a->count, a->alpha, a->beta, a->eps);
    for (int i = 0; i < node->in_count; i++)
        fprintf(file, " %d", node->in[i] ? node->in[i]->id : -1);
    fputc('\n', file);
}

/* The samples of a step. */
static int64_t batch_of(uint64_t seed, int step)
{
    return 2 + (int64_t)(yki_hash3(seed, 2, (uint64_t)step) % 8);
}

/* Before a model rewrites it. */
static void describe(FILE *file, uint64_t seed, const yk_graph *graph, const yk_value *loss)
{
    fprintf(file, "graph %llu", (unsigned long long)seed);
    for (int step = 0; step < STEPS; step++)
        fprintf(file, " %lld", (long long)batch_of(seed, step));
    fputc('\n', file);
    for (size_t i = 0; i < graph->value_count; i++)
        describe_value(file, graph->values[i]);
    for (size_t n = 0; n < graph->node_count; n++)
        describe_node(file, graph->nodes[n]);
    fprintf(file, "loss %d\n", loss->id);
}

/* ---- running it ------------------------------------------------------------------------------ */

/* What a graph computes, tensor by tensor. */
typedef struct outcome {
    double *numbers;
    size_t count;
    size_t ends[1024]; /* of the tensors */
    size_t tensors;
} outcome;

static void add_numbers(outcome *o, yk_dtype dtype, const void *memory, int64_t count)
{
    o->numbers = realloc(o->numbers, (o->count + (size_t)count) * sizeof *o->numbers);
    assert_non_null(o->numbers);
    for (int64_t i = 0; i < count; i++)
        o->numbers[o->count++] = yki_element_get(dtype, memory, i);
    assert_true(o->tensors < sizeof o->ends / sizeof *o->ends);
    o->ends[o->tensors++] = o->count;
}

static void add_tensor(outcome *o, const yk_tensor *tensor)
{
    void *memory = malloc(yk_tensor_bytes(tensor));
    assert_non_null(memory);
    assert_ok(yk_tensor_read(tensor, memory));
    add_numbers(o, tensor->dtype, memory, yk_tensor_count(tensor));
    free(memory);
}

/* Numbers that f32 holds exactly, or classes. */
static void *make_numbers(uint64_t key, yk_dtype dtype, int64_t count)
{
    void *memory = malloc((size_t)count * yk_dtype_size(dtype));
    assert_non_null(memory);
    for (int64_t i = 0; i < count; i++) {
        uint64_t bits = yki_hash3(key, 1, (uint64_t)i);
        double number = (double)(bits >> 41) * 0x1p-22 - 1;
        yki_element_set(dtype, memory, i, dtype == YK_I32 ? (double)(bits % CLASSES) : number);
    }
    return memory;
}

/* The inputs of one step, from the graph's values of kind INPUT. */
typedef struct inputs {
    const yk_value *values[4];
    const char *names[4];
    yk_tensor tensors[4];
    yk_batch batch;
} inputs;

static void find_inputs(inputs *in, const yk_graph *graph)
{
    *in = (inputs){.batch = {.names = in->names, .tensors = in->tensors}};
    for (size_t i = 0; i < graph->value_count; i++)
        if (graph->values[i]->kind == YKI_INPUT) {
            assert_true(in->batch.count < 4);
            in->values[in->batch.count] = graph->values[i];
            in->names[in->batch.count++] = graph->values[i]->name;
        }
}

static void fill_inputs(inputs *in, uint64_t seed, int step, outcome *o)
{
    in->batch.size = batch_of(seed, step);
    for (int i = 0; i < in->batch.count; i++) {
        const yk_value *value = in->values[i];
        yk_tensor *tensor = &in->tensors[i];
        *tensor = (yk_tensor){.dtype = value->dtype, .ndim = value->ndim};
        memcpy(tensor->dims, value->dims, sizeof tensor->dims);
        tensor->dims[0] = in->batch.size;
        uint64_t key = yki_hash3(seed, (uint64_t)value->id, (uint64_t)step);
        tensor->data = make_numbers(key, value->dtype, yk_tensor_count(tensor));
        add_tensor(o, tensor);
    }
}

static void set_parameters(yk_model *model, uint64_t seed, outcome *o)
{
    for (size_t i = 0; i < yk_model_parameter_count(model); i++) {
        yk_tensor value = yk_model_parameter(model, i).value;
        void *numbers = make_numbers(yki_hash3(seed, 3, i), value.dtype, yk_tensor_count(&value));
        assert_ok(yk_tensor_write(&value, numbers));
        add_tensor(o, &value);
        free(numbers);
    }
    yk_model_parameters_changed(model);
}

static void run_step(yk_model *model, inputs *in, uint64_t seed, int step, outcome *o)
{
    fill_inputs(in, seed, step, o);
    assert_ok(yk_model_forward(model, &in->batch));
    if (yki_model_check_trainable(model, "a drawn graph") == YK_OK)
        assert_ok(yk_model_backward(model));
    yk_model_zero_grad(model);
    double loss = yk_model_loss(model);
    add_numbers(o, YK_F64, &loss, 1);
    for (size_t i = 0; i < yk_model_parameter_count(model); i++) {
        yk_parameter_view view = yk_model_parameter(model, i);
        add_tensor(o, &view.grad);
    }
    for (size_t i = 0; i < yk_model_buffer_count(model); i++) {
        yk_parameter_view view = yk_model_buffer(model, i);
        add_tensor(o, &view.value);
    }
    for (int i = 0; i < in->batch.count; i++)
        free(in->tensors[i].data);
}

/* The last of the steps is in evaluation. */
static outcome run_graph(uint64_t seed, const char *device, yk_dtype dtype, bool recompute,
                         FILE *description)
{
    drawing d = {.seed = seed, .dtype = dtype};
    outcome found = {.count = 0};
    inputs in;
    yk_model *model;
    yk_value *loss = draw_graph(&d);
    find_inputs(&in, d.graph);
    if (description)
        describe(description, seed, d.graph, loss);
    assert_ok(yk_model_create(&model, loss,
                              YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.device = device,
                                      o.threads = 2, o.recompute = recompute)));
    set_parameters(model, seed, &found);
    for (int step = 0; step < STEPS; step++) {
        if (step == STEPS - 1)
            yk_model_eval(model);
        run_step(model, &in, seed, step, &found);
    }
    yk_model_destroy(model);
    return found;
}

/* ---- judging it ------------------------------------------------------------------------------ */

static double norm_of(const double *numbers, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += numbers[i] * numbers[i];
    return sqrt(sum);
}

/* Relative to the tensor, or to `least` where f64 has nothing and f32 what rounding leaves. */
static double distance(const double *got, const double *expected, size_t count, double least)
{
    double sum = 0, norm = norm_of(expected, count);
    for (size_t i = 0; i < count; i++)
        sum += (got[i] - expected[i]) * (got[i] - expected[i]);
    return sqrt(sum) / (norm > least ? norm : least);
}

static void expect_near(uint64_t seed, const outcome *got, const outcome *expected)
{
    double largest = 0;
    assert_int_equal(got->tensors, expected->tensors);
    for (size_t t = 0, at = 0; t < expected->tensors; at = expected->ends[t++])
        largest = fmax(largest, norm_of(expected->numbers + at, expected->ends[t] - at));
    for (size_t t = 0, at = 0; t < expected->tensors; at = expected->ends[t++]) {
        double found = distance(got->numbers + at, expected->numbers + at, expected->ends[t] - at,
                                1e-2 * largest);
        if (!(found <= 1e-2))
            fail_msg("graph %llu: tensor %zu on cpu is %.1e from ref", (unsigned long long)seed, t,
                     found);
    }
}

static void expect_same(const outcome *got, const outcome *expected)
{
    assert_int_equal(got->count, expected->count);
    assert_memory_equal(got->numbers, expected->numbers, expected->count * sizeof(double));
}

static uint64_t number_from(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : otherwise;
}

YK_TEST(random_graphs_are_pytorchs)
{
    uint64_t first = 1000 * number_from("YOKE_TEST_SEED", 1);
    uint64_t end = first + number_from("YOKE_TEST_DRAWS", 40);
    FILE *graphs = fopen(file_of("graphs.txt"), "we"), *numbers = fopen(file_of("numbers"), "we");
    assert_true(graphs && numbers);
    for (uint64_t seed = first; seed < end; seed++) {
        outcome ref = run_graph(seed, "ref", YK_F64, false, graphs);
        outcome sim = run_graph(seed, "sim", YK_F64, true, NULL);
        outcome cpu = run_graph(seed, "cpu", YK_F32, seed % 2, NULL);
        assert_int_equal(fwrite(ref.numbers, sizeof *ref.numbers, ref.count, numbers), ref.count);
        expect_same(&sim, &ref);
        expect_near(seed, &cpu, &ref);
        free(ref.numbers);
        free(sim.numbers);
        free(cpu.numbers);
    }
    assert_int_equal(fclose(graphs), 0);
    assert_int_equal(fclose(numbers), 0);
    pytorch_judges("graphs.py", "%s %s", file_of("graphs.txt"), file_of("numbers"));
}

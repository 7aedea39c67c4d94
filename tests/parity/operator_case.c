/* See operator_case.h. Numbers are kept plain in each value's own dtype (f32, i32 or i64); a device
 * works on copies in its own layout, which its reorder kernel makes and brings back. */
#include "operator_case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "harness.h"

struct operator_memory {
    void *start, *after; /* plain: what it held before and after the run */
    yki_operand operand; /* on the device */
    void *device;
};

/* ---- draws ---------------------------------------------------------------------------------- */

static uint64_t draw(operator_dice *dice)
{
    return yki_hash3(dice->seed, 0, dice->count++);
}

int64_t operator_between(operator_dice *dice, int64_t low, int64_t high)
{
    return low + (int64_t)(draw(dice) % (uint64_t)(high - low + 1));
}

bool operator_once_in(operator_dice *dice, int64_t n)
{
    return operator_between(dice, 1, n) == 1;
}

/* Uniform in [-1, 1). */
static double draw_unit(operator_dice *dice)
{
    return (double)(draw(dice) >> 11) * 0x1p-52 - 1;
}

/* ---- building ------------------------------------------------------------------------------- */

static yk_tensor tensor_of(const yk_value *value, void *data)
{
    yk_tensor tensor = {.data = data, .dtype = value->dtype, .ndim = value->ndim};
    memcpy(tensor.dims, value->dims, sizeof tensor.dims);
    return tensor;
}

static size_t bytes_of(const yk_value *value)
{
    yk_tensor tensor = tensor_of(value, NULL);
    return yk_tensor_bytes(&tensor);
}

static void *allocate(size_t bytes)
{
    void *memory = aligned_alloc(YKI_ALIGNMENT, yki_align(bytes, YKI_ALIGNMENT));
    assert_non_null(memory);
    memset(memory, 0xff, bytes); /* floats read as NaN until they are written */
    return memory;
}

/* Shares of classes, probabilities, weights of losses. */
static bool is_positive(const yk_value *value)
{
    static const char *const names[] = {"labels", "target", "pos_weight", "class_weight"};
    for (size_t i = 0; value->name && i < sizeof names / sizeof *names; i++)
        if (strcmp(value->name, names[i]) == 0)
            return true;
    return false;
}

static float draw_special(operator_dice *dice)
{
    static const float numbers[] = {NAN,  INFINITY, -INFINITY, 0,     -0.0f,   1e-42f, 0.5f, 1,
                                    2.5f, -3,       88.5f,     88.8f, -103.5f, -105,   100};
    return numbers[operator_between(dice, 0, sizeof numbers / sizeof *numbers - 1)];
}

/* Tensors differ in magnitude from 1/8 to 8. */
static void fill(operator_case *c, const yk_value *value, void *data)
{
    bool variance = value->name && strcmp(value->name, "running_var") == 0;
    double magnitude = c->ties || variance ? 1 : exp2((double)operator_between(&c->dice, -3, 3));
    yk_tensor tensor = tensor_of(value, data);
    for (int64_t i = 0; i < yk_tensor_count(&tensor); i++) {
        double number = magnitude * draw_unit(&c->dice);
        if (value->dtype == YK_I64)
            ((int64_t *)data)[i] = 41;
        else if (value->dtype == YK_I32) /* labels, of as many classes as x has columns */
            ((int32_t *)data)[i] =
                (int32_t)operator_between(&c->dice, 0, c->graph->nodes[0]->in[0]->dims[1] - 1);
        else if (c->special) /* the gradient that comes in is not tiny */
            ((float *)data)[i] =
                value == c->dy ? (float)copysign(1 + fabs(number), number) : draw_special(&c->dice);
        else if (variance)
            ((float *)data)[i] = (float)(1.25 + number);
        else if (value->name && strcmp(value->name, "mask") == 0)
            ((float *)data)[i] = operator_once_in(&c->dice, 3) ? -INFINITY : (float)number;
        else if (is_positive(value))
            ((float *)data)[i] = (float)fabs(number);
        else if (value->name && strcmp(value->name, "above") == 0)
            ((float *)data)[i] = (float)(0.1 + fabs(number));
        else
            ((float *)data)[i] = (float)(c->ties ? floor(2 * number) / 2 : number);
    }
}

static void append_gradient(operator_case *c)
{
    yki_node *node = c->graph->nodes[0];
    bool needs[YKI_MAX_IN] = {false};
    for (int i = 0; i < node->in_count; i++)
        needs[i] = node->in[i] && node->in[i]->dtype == YK_F32 && node->in[i]->kind != YKI_BUFFER;
    yki_shape shape = yki_shape_of(node->out[0]);
    c->dy = yki_value_create(c->graph, YKI_INPUT, &shape);
    assert_ok(node->op->gradient(c->graph, node, (yk_value *[YKI_MAX_OUT]){c->dy}, needs, c->din));
}

void operator_case_init(operator_case *c, uint64_t seed, operator_build build)
{
    *c = (operator_case){.dice.seed = seed, .graph = yk_graph_create(), .training = true};
    assert_non_null(c->graph);
    if (!build(c)->valid)
        fail_msg("case %llu: %s", (unsigned long long)seed, c->graph->error);
    append_gradient(c);
    c->memory = yki_calloc(c->graph->value_count, sizeof *c->memory);
    for (size_t i = 0; i < c->graph->value_count; i++) {
        const yk_value *value = c->graph->values[i];
        if (value->producer)
            continue;
        c->memory[i].start = allocate(bytes_of(value));
        fill(c, value, c->memory[i].start);
    }
}

void operator_case_fini(operator_case *c)
{
    for (size_t i = 0; i < c->graph->value_count; i++) {
        free(c->memory[i].start);
        free(c->memory[i].after);
    }
    free(c->memory);
    yk_graph_destroy(c->graph);
}

/* ---- running -------------------------------------------------------------------------------- */

static void run_kernel(yki_device *device, const yki_kernel_desc *desc, void *const *in,
                       void *const *out)
{
    yki_kernel *kernel;
    assert_ok(yki_kernel_create(device, desc, &kernel));
    void *given[YKI_MAX_IN], *packed = NULL;
    memcpy(given, in, sizeof given);
    if (kernel->pack_bytes) {
        given[kernel->pack_input] = packed = allocate(kernel->pack_bytes);
        assert_ok(kernel->impl->pack(kernel, in[kernel->pack_input], packed, NULL));
    }
    void *scratch = allocate(kernel->scratch);
    yki_kernel_args run = {.in = given,
                           .out = out,
                           .scratch = scratch,
                           .scalars = &(yki_scalars){.seed = 5, .step = 6}};
    assert_ok(kernel->impl->run(kernel, &run));
    free(scratch);
    free(packed);
    yki_kernel_destroy(kernel);
}

static yki_kernel_desc describe(const yki_op *op, const yki_attrs *attrs)
{
    yki_kernel_desc desc = {.op = op, .attrs = attrs};
    for (int i = 0; i < YKI_MAX_IN; i++)
        desc.in[i].ndim = -1;
    for (int i = 0; i < YKI_MAX_OUT; i++)
        desc.out[i].ndim = -1;
    return desc;
}

/* Between plain and the device's layout. */
static void reorder(yki_device *device, const yki_operand *from, const void *in,
                    const yki_operand *to, void *out)
{
    if (from->layout == to->layout) {
        memcpy(out, in, yki_operand_bytes(device, from));
        return;
    }
    yki_kernel_desc desc = describe(&yki_op_reorder, NULL);
    desc.in_count = desc.out_count = 1;
    desc.in[0] = *from;
    desc.out[0] = *to;
    run_kernel(device, &desc, (void *[YKI_MAX_IN]){(void *)(uintptr_t)in},
               (void *[YKI_MAX_OUT]){out});
}

static yki_operand plain(const yki_operand *operand)
{
    yki_operand same = *operand;
    same.layout = YKI_PLAIN;
    return same;
}

/* Activations and their gradients in the device's layout; parameters and what is theirs plain. */
static bool is_plain(const operator_case *c, const yk_value *value)
{
    const yki_node *node = c->graph->nodes[0];
    bool of_parameter = value->kind == YKI_PARAMETER || value->kind == YKI_BUFFER;
    for (int i = 0; i < node->in_count; i++)
        of_parameter |= value == c->din[i] && node->in[i]->kind == YKI_PARAMETER;
    return of_parameter;
}

static void put_on_device(const operator_case *c, yki_device *device, const yk_value *value)
{
    struct operator_memory *memory = &c->memory[value->id];
    yki_operand operand = {.dtype = value->dtype, .ndim = value->ndim};
    memcpy(operand.dims, value->dims, sizeof operand.dims);
    if (!is_plain(c, value))
        operand.layout = device->type->layout(device, &operand);
    memory->operand = operand;
    memory->device = allocate(yki_operand_bytes(device, &operand));
    yki_operand from = plain(&operand);
    if (memory->start)
        reorder(device, &from, memory->start, &operand, memory->device);
}

static void take_from_device(const operator_case *c, yki_device *device, const yk_value *value)
{
    struct operator_memory *memory = &c->memory[value->id];
    yki_operand to = plain(&memory->operand);
    if (!memory->after)
        memory->after = allocate(bytes_of(value));
    if (value->dtype == YK_F32 || to.layout == memory->operand.layout) /* an index stays there */
        reorder(device, &memory->operand, memory->device, &to, memory->after);
    free(memory->device);
    memory->device = NULL;
}

static void run_node(const operator_case *c, yki_device *device, const yki_node *node)
{
    yki_kernel_desc desc = describe(node->op, &node->attrs);
    void *in[YKI_MAX_IN] = {NULL}, *out[YKI_MAX_OUT] = {NULL};
    desc.training = c->training;
    desc.in_count = node->in_count;
    desc.out_count = node->out_count;
    for (int i = 0; i < node->in_count; i++)
        if (node->in[i]) {
            desc.in[i] = c->memory[node->in[i]->id].operand;
            in[i] = c->memory[node->in[i]->id].device;
        }
    for (int i = 0; i < node->out_count; i++)
        if (node->out[i]) {
            desc.out[i] = c->memory[node->out[i]->id].operand;
            out[i] = c->memory[node->out[i]->id].device;
        }
    run_kernel(device, &desc, in, out);
}

void operator_case_run(operator_case *c, yki_device *device)
{
    for (size_t i = 0; i < c->graph->value_count; i++)
        put_on_device(c, device, c->graph->values[i]);
    for (size_t n = 0; n < c->graph->node_count; n++)
        run_node(c, device, c->graph->nodes[n]);
    for (size_t i = 0; i < c->graph->value_count; i++)
        take_from_device(c, device, c->graph->values[i]);
}

/* ---- writing -------------------------------------------------------------------------------- */

static void write_number(yki_pickle_writer *pickle, const char *name, double number)
{
    yki_pickle_text(pickle, name);
    if (number == floor(number))
        yki_pickle_int(pickle, (int64_t)number);
    else
        yki_pickle_float(pickle, number);
}

static void write_tensor(yki_pth_writer *file, const char *name, const yk_value *value, void *data)
{
    yk_tensor tensor = tensor_of(value, data);
    yki_pickle_text(yki_pth_pickle(file), name);
    assert_ok(yki_pth_tensor(file, &tensor));
}

static void write_dims(yki_pickle_writer *pickle, const int64_t *dims)
{
    yki_pickle_text(pickle, "dims");
    yki_pickle_list(pickle);
    yki_pickle_mark(pickle);
    for (int d = 0; d < YK_MAX_DIMS; d++)
        yki_pickle_int(pickle, dims[d]);
    yki_pickle_appends(pickle);
}

/* Of rows, and of columns. */
static void write_pair(yki_pickle_writer *pickle, const char *name, const int64_t pair[2])
{
    yki_pickle_text(pickle, name);
    yki_pickle_list(pickle);
    yki_pickle_mark(pickle);
    yki_pickle_int(pickle, pair[0]);
    yki_pickle_int(pickle, pair[1]);
    yki_pickle_appends(pickle);
}

static void write_attrs(yki_pickle_writer *pickle, const yki_attrs *attrs)
{
    yki_pickle_text(pickle, "attrs");
    yki_pickle_dict(pickle);
    yki_pickle_mark(pickle);
    write_pair(pickle, "kernel", attrs->kernel);
    write_pair(pickle, "stride", attrs->stride);
    write_pair(pickle, "padding", attrs->padding);
    write_pair(pickle, "output_padding", attrs->output_padding);
    write_number(pickle, "ceil_mode", attrs->ceil_mode);
    write_number(pickle, "count_include_pad", attrs->count_include_pad);
    write_pair(pickle, "dilation", attrs->dilation);
    write_number(pickle, "groups", (double)attrs->groups);
    write_number(pickle, "transpose_a", attrs->transpose_a);
    write_number(pickle, "transpose_b", attrs->transpose_b);
    write_number(pickle, "alpha", attrs->alpha);
    write_number(pickle, "heads", (double)attrs->heads);
    write_number(pickle, "kv_heads", (double)attrs->kv_heads);
    write_number(pickle, "causal", attrs->causal);
    write_number(pickle, "rotary", (double)attrs->rotary);
    write_number(pickle, "interleaved", attrs->interleaved);
    write_number(pickle, "rows", (double)attrs->rows);
    write_number(pickle, "columns", (double)attrs->columns);
    write_number(pickle, "bilinear", attrs->bilinear);
    write_number(pickle, "align_corners", attrs->align_corners);
    write_number(pickle, "eps", attrs->eps);
    write_number(pickle, "momentum", attrs->momentum);
    write_number(pickle, "p", attrs->p);
    write_number(pickle, "salt", (double)attrs->salt);
    write_number(pickle, "label_smoothing", attrs->label_smoothing);
    write_number(pickle, "ignore_index", (double)attrs->ignore_index);
    write_number(pickle, "classes_last", attrs->classes_last);
    write_dims(pickle, attrs->dims);
    write_number(pickle, "dim", (double)attrs->dim);
    write_number(pickle, "first", (double)attrs->first);
    write_number(pickle, "count", (double)attrs->count);
    write_number(pickle, "beta", attrs->beta);
    write_number(pickle, "dim", (double)attrs->dim);
    write_number(pickle, "sum", attrs->reduction == YK_LOSS_SUM);
    yki_pickle_setitems(pickle);
}

typedef enum part { IN, DIN, AFTER } part;

/* The node's inputs by name: their numbers, their gradients, or what the run left in buffers. */
static void write_inputs(const operator_case *c, yki_pth_writer *file, const char *name, part which)
{
    const yki_node *node = c->graph->nodes[0];
    yki_pickle_writer *pickle = yki_pth_pickle(file);
    yki_pickle_text(pickle, name);
    yki_pickle_dict(pickle);
    yki_pickle_mark(pickle);
    for (int i = 0; i < node->in_count; i++) {
        const yk_value *value = node->in[i];
        if (!value || (which == DIN && !c->din[i]) || (which == AFTER && value->kind != YKI_BUFFER))
            continue;
        const struct operator_memory *memory = &c->memory[value->id];
        void *data = which == IN ? memory->start : memory->after;
        if (which == DIN)
            data = c->memory[c->din[i]->id].after;
        write_tensor(file, value->name, value, data);
    }
    yki_pickle_setitems(pickle);
}

void operator_case_write(const operator_case *c, yki_pth_writer *file)
{
    yki_pickle_writer *pickle = yki_pth_pickle(file);
    const yki_node *node = c->graph->nodes[0];
    yki_pickle_dict(pickle);
    yki_pickle_mark(pickle);
    write_number(pickle, "training", c->training);
    write_number(pickle, "special", c->special);
    write_attrs(pickle, &node->attrs);
    write_inputs(c, file, "in", IN);
    write_tensor(file, "out", node->out[0], c->memory[node->out[0]->id].after);
    write_tensor(file, "dout", c->dy, c->memory[c->dy->id].start);
    write_inputs(c, file, "din", DIN);
    write_inputs(c, file, "after", AFTER);
    yki_pickle_setitems(pickle);
}

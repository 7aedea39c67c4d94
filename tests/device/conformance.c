/* See conformance.h. Values are kept as doubles, whatever dtype and layout a device gets. */
#include "conformance.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "harness.h"
#include "tensor/bf16.h"
#include "tensor/f16.h"

enum { DIFFERENCES = 24 };

/* One case, built and filled. */
typedef struct machine {
    const conformance_case *row;
    yk_graph *graph;
    yk_value *dy, *dy2;
    yk_value *din[YKI_MAX_IN];
    double **numbers; /* by value id */
    bool *plain;      /* by value id: always in plain layout, as the planner has it */
    uint64_t draws;
    char label[192];
} machine;

/* Who runs a node: a device with the operands' own dtypes, or ref with every float in f64. */
typedef struct runner {
    yki_device *device;
    bool exact;
} runner;

static const conformance_setting oracle = {.device = "ref", .threads = 1};

/* ---- numbers --------------------------------------------------------------------------------- */

/* Uniform in [-1, 1). */
static double draw(machine *m)
{
    return (double)(yki_hash3(1, 2, m->draws++) >> 11) * 0x1p-52 - 1;
}

static double load(yk_dtype dtype, const void *memory, int64_t i)
{
    switch (dtype) {
    case YK_F64:
        return ((const double *)memory)[i];
    case YK_F32:
        return ((const float *)memory)[i];
    case YK_BF16:
        return yki_bf16_to_float(((const uint16_t *)memory)[i]);
    case YK_F16:
        return yki_f16_to_float(((const uint16_t *)memory)[i]);
    case YK_I32:
        return ((const int32_t *)memory)[i];
    default:
        return (double)((const int64_t *)memory)[i];
    }
}

static void store(yk_dtype dtype, void *memory, int64_t i, double number)
{
    switch (dtype) {
    case YK_F64:
        ((double *)memory)[i] = number;
        break;
    case YK_F32:
        ((float *)memory)[i] = (float)number;
        break;
    case YK_BF16:
        ((uint16_t *)memory)[i] = yki_bf16_from_float((float)number);
        break;
    case YK_F16:
        ((uint16_t *)memory)[i] = yki_f16_from_float((float)number);
        break;
    case YK_I32:
        ((int32_t *)memory)[i] = (int32_t)number;
        break;
    default:
        ((int64_t *)memory)[i] = (int64_t)number;
    }
}

static bool is_float(yk_dtype dtype)
{
    return dtype == YK_F32 || dtype == YK_F64 || dtype == YK_BF16 || dtype == YK_F16;
}

static bool is_low(yk_dtype dtype)
{
    return dtype == YK_BF16 || dtype == YK_F16;
}

static int64_t count_of(const yk_value *value)
{
    int64_t count = 1;
    for (int i = 0; i < value->ndim; i++)
        count *= value->dims[i];
    return count;
}

static void round_to_dtype(const yk_value *value, double *numbers)
{
    double memory;
    for (int64_t i = 0; i < count_of(value); i++) {
        store(value->dtype, &memory, 0, numbers[i]);
        numbers[i] = load(value->dtype, &memory, 0);
    }
}

/* ---- operands in memory ---------------------------------------------------------------------- */

static int64_t blocks_of(const yki_device *device, const yki_operand *operand)
{
    return (operand->dims[1] + device->block - 1) / device->block;
}

int64_t conformance_place(const yki_device *device, const yki_operand *operand, int64_t i)
{
    if (operand->layout == YKI_PLAIN)
        return i;
    int64_t pixels = operand->dims[2] * operand->dims[3], block = device->block;
    int64_t pixel = i % pixels, c = i / pixels % operand->dims[1];
    int64_t n = i / pixels / operand->dims[1];
    if (operand->layout == YKI_CHANNELS_LAST)
        return (n * pixels + pixel) * operand->dims[1] + c;
    return ((n * blocks_of(device, operand) + c / block) * pixels + pixel) * block + c % block;
}

void conformance_padding(const yki_device *device, const yki_operand *operand, const void *memory)
{
    if (operand->ndim < 0 || operand->layout != YKI_BLOCKED || !is_float(operand->dtype))
        return;
    int64_t pixels = operand->dims[2] * operand->dims[3], block = device->block;
    for (int64_t i = 0; i < yki_operand_elements(device, operand); i++) {
        int64_t c = i / block / pixels % blocks_of(device, operand) * block + i % block;
        double number = load(operand->dtype, memory, i);
        if (c >= operand->dims[1] && number != 0)
            fail_msg("padding channel %lld of %lld holds %g", (long long)c,
                     (long long)operand->dims[1], number);
    }
}

static yki_operand operand_of(const machine *m, const runner *r, const yk_value *value)
{
    if (!value)
        return (yki_operand){.ndim = -1};
    yki_operand operand = {.dtype = value->dtype, .ndim = value->ndim};
    memcpy(operand.dims, value->dims, sizeof operand.dims);
    if (r->exact && is_float(operand.dtype))
        operand.dtype = YK_F64;
    if (!m->plain[value->id])
        operand.layout = r->device->type->layout(r->device, &operand);
    return operand;
}

/* Memory of its own for an operand, padding zeroed; a poisoned one reads as NaN. */
static void *allocate(const runner *r, const yki_operand *operand, bool poison)
{
    if (operand->ndim < 0)
        return NULL;
    size_t bytes = yki_align(yki_operand_bytes(r->device, operand), YKI_ALIGNMENT);
    void *memory = aligned_alloc(YKI_ALIGNMENT, bytes);
    assert_non_null(memory);
    memset(memory, poison ? 0xff : 0, bytes);
    return memory;
}

static void *encode(const runner *r, const yki_operand *operand, const double *numbers)
{
    void *memory = allocate(r, operand, false);
    for (int64_t i = 0; memory && i < yki_operand_count(operand); i++)
        store(operand->dtype, memory, conformance_place(r->device, operand, i), numbers[i]);
    return memory;
}

static void decode(const runner *r, const yki_operand *operand, const void *memory, double *numbers)
{
    for (int64_t i = 0; i < yki_operand_count(operand); i++)
        numbers[i] = load(operand->dtype, memory, conformance_place(r->device, operand, i));
}

/* ---- building -------------------------------------------------------------------------------- */

yk_value *conformance_x(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    int ndim = 0;
    while (ndim < YK_MAX_DIMS && c->x[ndim])
        ndim++;
    return yk_input(graph, "x", dtype, ndim, c->x);
}

yk_value *conformance_parameter(yk_graph *graph, const char *name, yk_dtype dtype, int ndim,
                                const int64_t *dims)
{
    return yk_parameter(graph, name, dtype, ndim, dims, YK_INIT_ZEROS, 0);
}

/* What autocast does to a node: activations in 16 bit, parameters and statistics as they were. */
static void demote(yki_node *node, yk_dtype low)
{
    for (int i = 0; i < node->in_count; i++)
        if (node->in[i] && node->in[i]->kind == YKI_INPUT && node->in[i]->dtype == YK_F32)
            node->in[i]->dtype = low;
    node->out[0]->dtype = low;
}

static void append_gradient(machine *m, yki_node *node)
{
    const conformance_case *c = m->row;
    bool needs[YKI_MAX_IN] = {false};
    yki_shape shape = yki_shape_of(node->out[0]);
    m->dy = yki_value_create(m->graph, YKI_INPUT, &shape);
    for (int i = 0; i < node->in_count; i++)
        needs[i] = node->in[i] && is_float(node->in[i]->dtype) && node->in[i]->kind != YKI_BUFFER;
    yk_value *dout[YKI_MAX_OUT] = {m->dy};
    assert_ok(node->op->gradient(m->graph, node, dout, needs, m->din));
    if (node->op != &yki_op_batch_norm)
        return;
    yki_node *backward = m->graph->nodes[1];
    if (c->y)
        backward->in[YKI_BATCH_NORM_BACKWARD_Y] = node->out[0];
    if (c->dy2)
        backward->in[YKI_BATCH_NORM_BACKWARD_DY2] = m->dy2 =
            yki_value_create(m->graph, YKI_INPUT, &shape);
}

static void fill_leaf(machine *m, const yk_value *value)
{
    double *numbers = m->numbers[value->id];
    double spread = m->row->spread > 0 ? m->row->spread : 1;
    for (int64_t i = 0; i < count_of(value); i++) {
        numbers[i] = spread * draw(m);
        if (m->row->ties)
            numbers[i] = floor(2 * numbers[i]) / 2;
        if (value->dtype == YK_I32)
            numbers[i] = (double)(yki_hash3(3, 4, m->draws++) % (uint64_t)m->row->x[1]);
        else if (value->dtype == YK_I64)
            numbers[i] = 41;
        else if (value->name && strcmp(value->name, "running_var") == 0)
            numbers[i] = 1.25 + numbers[i] / spread;
    }
    round_to_dtype(value, numbers);
}

static void describe(machine *m, const char *device)
{
    const conformance_case *c = m->row;
    snprintf(m->label, sizeof m->label,
             "%s, x (%lld, %lld, %lld, %lld), filters %lld, kernel %lld, stride %lld, padding "
             "%lld, dilation %lld, groups %lld%s%s%s%s",
             device, (long long)c->x[0], (long long)c->x[1], (long long)c->x[2], (long long)c->x[3],
             (long long)c->filters, (long long)c->kernel[0], (long long)c->stride,
             (long long)c->padding, (long long)c->dilation, (long long)c->groups,
             c->relu6  ? ", relu6"
             : c->relu ? ", relu"
                       : "",
             c->residual ? ", residual" : "", c->dy2 ? ", dy2" : "",
             c->evaluation ? ", evaluation" : "");
}

static void machine_init(machine *m, const conformance_family *family, const conformance_case *row,
                         yk_dtype dtype, const char *device)
{
    *m = (machine){.row = row, .graph = yk_graph_create()};
    describe(m, device);
    assert_non_null(m->graph);
    yk_value *out = family->build(m->graph, row, is_low(dtype) ? YK_F32 : dtype);
    if (!out->valid)
        fail_msg("%s: %s", m->label, m->graph->error);
    yki_node *node = m->graph->nodes[0];
    if (is_low(dtype))
        demote(node, dtype);
    append_gradient(m, node);

    size_t values = m->graph->value_count;
    m->numbers = yki_calloc(values, sizeof *m->numbers);
    m->plain = yki_calloc(values, sizeof *m->plain);
    for (size_t i = 0; i < values; i++) {
        const yk_value *value = m->graph->values[i];
        m->numbers[i] = yki_calloc((size_t)count_of(value), sizeof(double));
        m->plain[i] = value->kind == YKI_PARAMETER || value->kind == YKI_BUFFER;
        if (!value->producer)
            fill_leaf(m, value);
    }
    for (int i = 0; i < node->in_count; i++)
        if (m->din[i] && node->in[i]->kind == YKI_PARAMETER)
            m->plain[m->din[i]->id] = true;
}

static void machine_fini(machine *m)
{
    for (size_t i = 0; i < m->graph->value_count; i++)
        free(m->numbers[i]);
    free(m->numbers);
    free(m->plain);
    yk_graph_destroy(m->graph);
}

/* ---- running one node ------------------------------------------------------------------------ */

/* A node's kernel with its operands in memory. */
typedef struct invocation {
    const runner *runner;
    const yki_node *node;
    yki_kernel_desc desc;
    yki_kernel *kernel;
    void *in[YKI_MAX_IN], *out[YKI_MAX_OUT];
} invocation;

/* With all outputs, or with output 0 alone. */
static void call_init(invocation *call, const machine *m, const runner *r, const yki_node *node,
                      bool all)
{
    *call = (struct invocation){.runner = r,
                                .node = node,
                                .desc = {.op = node->op,
                                         .attrs = &node->attrs,
                                         .training = !m->row->evaluation,
                                         .in_count = node->in_count,
                                         .out_count = node->out_count}};
    for (int i = 0; i < YKI_MAX_IN; i++) {
        const yk_value *value = i < node->in_count ? node->in[i] : NULL;
        call->desc.in[i] = operand_of(m, r, value);
        call->in[i] = value ? encode(r, &call->desc.in[i], m->numbers[value->id]) : NULL;
    }
    for (int i = 0; i < YKI_MAX_OUT; i++) {
        const yk_value *value = i < (all ? node->out_count : 1) ? node->out[i] : NULL;
        call->desc.out[i] = operand_of(m, r, value);
        call->out[i] = allocate(r, &call->desc.out[i], true);
    }
    if (yki_kernel_create(r->device, &call->desc, &call->kernel) != YK_OK)
        fail_msg("%s: %s", m->label, yk_last_error());
}

static void call_fini(invocation *call)
{
    yki_kernel_destroy(call->kernel);
    for (int i = 0; i < YKI_MAX_IN; i++)
        free(call->in[i]);
    for (int i = 0; i < YKI_MAX_OUT; i++)
        free(call->out[i]);
}

/* The memory of a run where its device can use it: on a host device the memory itself, elsewhere
 * copies, which are copied back after the run. */
typedef struct shadows {
    yki_device *device;
    int count;
    struct {
        void *host, *memory;
        size_t bytes;
    } list[YKI_MAX_IN + YKI_MAX_OUT + 3];
} shadows;

static void *cast_shadow(shadows *s, void *host, size_t bytes)
{
    void *memory;
    if (!host || yki_device_is_host(s->device))
        return host;
    for (int i = 0; i < s->count; i++) /* an output that takes the memory of an input */
        if (s->list[i].host == host)
            return s->list[i].memory;
    assert_ok(yki_device_alloc(s->device, bytes, &memory));
    assert_ok(yki_device_copy(s->device, memory, host, bytes, YKI_TO_DEVICE,
                              yki_device_stream(s->device)));
    s->list[s->count].host = host;
    s->list[s->count].memory = memory;
    s->list[s->count++].bytes = bytes;
    return memory;
}

static void take_back(shadows *s)
{
    for (int i = 0; i < s->count; i++)
        assert_ok(yki_device_copy(s->device, s->list[i].host, s->list[i].memory, s->list[i].bytes,
                                  YKI_TO_HOST, yki_device_stream(s->device)));
    assert_ok(yki_stream_wait(s->device, yki_device_stream(s->device)));
    for (int i = 0; i < s->count; i++)
        yki_device_free(s->device, s->list[i].memory, s->list[i].bytes);
}

static void *poisoned(size_t bytes)
{
    void *memory = bytes ? aligned_alloc(YKI_ALIGNMENT, yki_align(bytes, YKI_ALIGNMENT)) : NULL;
    return memory ? memset(memory, 0xff, bytes) : NULL;
}

/* Runs with these pointers, packing the parameter that the kernel wants packed. */
static void call_run(const invocation *call, void *const *in, void *const *out)
{
    const yki_kernel *kernel = call->kernel;
    yki_device *device = call->runner->device;
    yki_stream *stream = yki_device_stream(device);
    shadows s = {.device = device};
    void *given[YKI_MAX_IN], *taken[YKI_MAX_OUT];
    void *scratch = poisoned(kernel->scratch), *packed = poisoned(kernel->pack_bytes);
    for (int i = 0; i < YKI_MAX_IN; i++)
        given[i] = cast_shadow(&s, in[i], yki_operand_bytes(device, &call->desc.in[i]));
    for (int i = 0; i < YKI_MAX_OUT; i++)
        taken[i] = cast_shadow(&s, out[i], yki_operand_bytes(device, &call->desc.out[i]));
    if (packed) {
        void *room = cast_shadow(&s, packed, kernel->pack_bytes);
        assert_ok(kernel->impl->pack(kernel, given[kernel->pack_input], room, stream));
        given[kernel->pack_input] = room;
    }
    yki_scalars scalars = {.seed = 5, .step = 6};
    yki_kernel_args run = {.in = given,
                           .out = taken,
                           .scratch = cast_shadow(&s, scratch, kernel->scratch),
                           .stream = stream,
                           .scalars = cast_shadow(&s, &scalars, sizeof scalars)};
    assert_ok(kernel->impl->run(kernel, &run));
    take_back(&s);
    free(packed);
    free(scratch);
}

/* ---- what must hold besides the values ------------------------------------------------------- */

static void check_inputs_untouched(const machine *m, const invocation *call)
{
    for (int i = 0; i < call->node->in_count; i++) {
        const yk_value *value = call->node->in[i];
        if (!value || value->kind == YKI_BUFFER)
            continue;
        void *fresh = encode(call->runner, &call->desc.in[i], m->numbers[value->id]);
        size_t bytes = yki_operand_bytes(call->runner->device, &call->desc.in[i]);
        if (memcmp(fresh, call->in[i], bytes) != 0)
            fail_msg("%s: %s writes into input %d", m->label, call->node->op->name, i);
        free(fresh);
    }
}

/* Where output 0 may take an input's memory, it must come out the same there, to the bit. */
static void check_in_place(const machine *m, invocation *done)
{
    int which = done->kernel->impl->inplace - 1;
    const yki_device *device = done->runner->device;
    if (which < 0 || done->desc.in[which].layout != done->desc.out[0].layout ||
        yki_operand_bytes(device, &done->desc.in[which]) !=
            yki_operand_bytes(device, &done->desc.out[0]))
        return;
    invocation again;
    call_init(&again, m, done->runner, done->node, true);
    void *out[YKI_MAX_OUT];
    memcpy(out, again.out, sizeof out);
    out[0] = again.in[which];
    call_run(&again, again.in, out);
    for (int i = 0; i < done->node->out_count; i++)
        if (done->out[i] &&
            memcmp(out[i], done->out[i], yki_operand_bytes(device, &done->desc.out[i])) != 0)
            fail_msg("%s: %s in place gives another output %d", m->label, done->node->op->name, i);
    call_fini(&again);
}

/* ---- comparing ------------------------------------------------------------------------------- */

static void compare(const machine *m, const char *what, const yk_value *value, const double *got,
                    const double *expected, double tolerance)
{
    double error = 0, norm = 0;
    for (int64_t i = 0; i < count_of(value); i++) {
        error += (got[i] - expected[i]) * (got[i] - expected[i]);
        norm += expected[i] * expected[i];
    }
    double limit = is_float(value->dtype) ? tolerance * (sqrt(norm) + m->row->floor) : 0;
    if (!(sqrt(error) <= limit))
        fail_msg("%s: %s differs by %g, norm %g, tolerance %g", m->label, what, sqrt(error),
                 sqrt(norm), tolerance);
}

/* Nobody may want the outputs behind the first: it must be right without them. */
static void check_alone(const machine *m, const invocation *done, double tolerance)
{
    if (done->node->out_count == 1)
        return;
    const yk_value *value = done->node->out[0];
    double *got = yki_calloc((size_t)count_of(value), sizeof *got);
    double *expected = yki_calloc((size_t)count_of(value), sizeof *expected);
    invocation alone;
    call_init(&alone, m, done->runner, done->node, false);
    call_run(&alone, alone.in, alone.out);
    decode(done->runner, &alone.desc.out[0], alone.out[0], got);
    decode(done->runner, &done->desc.out[0], done->out[0], expected);
    compare(m, "output 0, wanted alone,", value, got, expected, tolerance);
    call_fini(&alone);
    free(got);
    free(expected);
}

/* Compares one operand of two calls and, for an output, keeps ref's numbers, rounded. */
static void compare_operand(machine *m, const invocation *mine, const invocation *exact,
                            bool output, int i, double tolerance)
{
    const yk_value *value = output ? mine->node->out[i] : mine->node->in[i];
    const yki_operand *a = output ? &mine->desc.out[i] : &mine->desc.in[i];
    const yki_operand *b = output ? &exact->desc.out[i] : &exact->desc.in[i];
    const void *memory = output ? mine->out[i] : mine->in[i];
    double *got = yki_calloc((size_t)count_of(value), sizeof *got);
    double *expected = yki_calloc((size_t)count_of(value), sizeof *expected);
    decode(mine->runner, a, memory, got);
    decode(exact->runner, b, output ? exact->out[i] : exact->in[i], expected);
    char what[96];
    snprintf(what, sizeof what, "%s, %s %d", mine->node->op->name, output ? "output" : "input", i);
    compare(m, what, value, got, expected, tolerance);
    if (output) {
        conformance_padding(mine->runner->device, a, memory);
        round_to_dtype(value, expected);
        memcpy(m->numbers[value->id], expected, (size_t)count_of(value) * sizeof *expected);
    }
    free(got);
    free(expected);
}

static void check_node(machine *m, const runner *device, const runner *ref, const yki_node *node,
                       double tolerance)
{
    invocation mine, exact;
    call_init(&exact, m, ref, node, true);
    call_run(&exact, exact.in, exact.out);
    call_init(&mine, m, device, node, true);
    call_run(&mine, mine.in, mine.out);
    check_inputs_untouched(m, &mine);
    check_in_place(m, &mine);
    check_alone(m, &mine, tolerance);
    for (int i = 0; i < node->in_count; i++)
        if (node->in[i] && node->in[i]->kind == YKI_BUFFER)
            compare_operand(m, &mine, &exact, false, i, tolerance);
    for (int i = 0; i < node->out_count; i++)
        if (node->out[i])
            compare_operand(m, &mine, &exact, true, i, tolerance);
    call_fini(&mine);
    call_fini(&exact);
}

static void open_device(runner *r, const conformance_setting *s)
{
    const yki_device_options options = {.threads = s->threads, .winograd = s->winograd};
    if (s->type)
        assert_ok(s->type->create(&r->device, &options));
    else
        assert_ok(yki_device_create(&r->device, s->device, &options));
    if (r->device->type->enter)
        r->device->type->enter(r->device);
}

void conformance_device(const conformance_family *family, const conformance_setting *setting)
{
    runner device = {0}, ref = {.exact = true};
    open_device(&device, setting);
    open_device(&ref, &oracle);
    for (size_t i = 0; i < family->count; i++) {
        machine m;
        machine_init(&m, family, &family->cases[i], setting->dtype, setting->device);
        for (size_t n = 0; n < m.graph->node_count; n++)
            check_node(&m, &device, &ref, m.graph->nodes[n], setting->tolerance);
        machine_fini(&m);
    }
    yki_device_destroy(device.device);
    yki_device_destroy(ref.device);
}

/* ---- central differences --------------------------------------------------------------------- */

static void run_and_keep(machine *m, const runner *ref, const yki_node *node)
{
    invocation call;
    call_init(&call, m, ref, node, true);
    call_run(&call, call.in, call.out);
    for (int i = 0; i < node->out_count; i++)
        if (node->out[i])
            decode(ref, &call.desc.out[i], call.out[i], m->numbers[node->out[i]->id]);
    call_fini(&call);
}

/* What the gradient is taken of: sum of output 0 times dy (+ dy2). */
static double objective(machine *m, const runner *ref)
{
    const yk_value *out = m->graph->nodes[0]->out[0];
    run_and_keep(m, ref, m->graph->nodes[0]);
    double sum = 0;
    for (int64_t i = 0; i < count_of(out); i++) {
        double dy = m->numbers[m->dy->id][i] + (m->dy2 ? m->numbers[m->dy2->id][i] : 0);
        sum += m->numbers[out->id][i] * dy;
    }
    return sum;
}

/* Some elements of one input, spread over it. */
static void check_differences(machine *m, const runner *ref, int input)
{
    const double h = 1e-5;
    const yk_value *value = m->graph->nodes[0]->in[input];
    double *x = m->numbers[value->id], error = 0, norm = 0;
    const double *gradient = m->numbers[m->din[input]->id];
    int64_t count = count_of(value), stride = count / DIFFERENCES + 1;
    for (int64_t i = 0; i < count; i += stride) {
        double kept = x[i];
        x[i] = kept + h;
        double above = objective(m, ref);
        x[i] = kept - h;
        double slope = (above - objective(m, ref)) / (2 * h);
        x[i] = kept;
        error += (slope - gradient[i]) * (slope - gradient[i]);
        norm += slope * slope;
    }
    if (!(sqrt(error) <= 1e-6 * sqrt(norm) + 1e-9))
        fail_msg("%s: gradient of %s's input %d: error %g, norm %g", m->label,
                 m->graph->nodes[0]->op->name, input, sqrt(error), sqrt(norm));
}

void conformance_gradients(const conformance_family *family)
{
    runner ref = {.exact = true};
    open_device(&ref, &oracle);
    for (size_t i = 0; i < family->count; i++) {
        if (family->cases[i].ties)
            continue;
        machine m;
        machine_init(&m, family, &family->cases[i], YK_F64, "ref");
        for (size_t n = 0; n < m.graph->node_count; n++)
            run_and_keep(&m, &ref, m.graph->nodes[n]);
        for (int in = 0; in < m.graph->nodes[0]->in_count; in++)
            if (m.din[in])
                check_differences(&m, &ref, in);
        machine_fini(&m);
    }
    yki_device_destroy(ref.device);
}

/* ---- coverage ----------------------------------------------------------------------------------
 */

void conformance_mark(const conformance_family *family, bool *seen)
{
    machine m;
    machine_init(&m, family, &family->cases[0], YK_F64, "ref");
    for (size_t n = 0; n < m.graph->node_count; n++)
        for (size_t i = 0; i < YKI_OPERATORS; i++)
            seen[i] = seen[i] || yki_operators[i] == m.graph->nodes[n]->op;
    machine_fini(&m);
}

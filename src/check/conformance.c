/* See conformance.h. Values are kept as doubles, whatever dtype and layout a device gets. */
#include "check/conformance.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "graph/custom.h"
#include "tensor/element.h"

enum { DIFFERENCES = 24 };

static const yki_conformance_setting oracle = {.device = "ref", .threads = 1};

/* One case, built and filled. */
typedef struct machine {
    const yki_conformance_case *row;
    yk_graph *graph;
    yk_value *dout[YKI_MAX_OUT], *more_dy; /* what `adjust` adds to dout[0], or NULL */
    yk_value *din[YKI_MAX_IN];
    double **numbers; /* by value id */
    bool *plain;      /* by value id: always in plain layout, as the planner has it */
    uint64_t draws;
    char label[256];
} machine;

/* What runs a node: a device with the operands' own dtypes, or ref with every float in f64. */
typedef struct runner {
    yki_device *device;
    bool exact;
} runner;

/* ---- numbers --------------------------------------------------------------------------------- */

/* Uniform in [-1, 1). */
static double draw(machine *m)
{
    return (double)(yki_hash3(1, 2, m->draws++) >> 11) * 0x1p-52 - 1;
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
        yki_element_set(value->dtype, &memory, 0, numbers[i]);
        numbers[i] = yki_element_get(value->dtype, &memory, 0);
    }
}

static double *allocate_numbers(const yk_value *value)
{
    double *numbers = yki_calloc((size_t)count_of(value), sizeof *numbers);
    if (!numbers)
        yki_error_memory((size_t)count_of(value) * sizeof *numbers, "the check of an operator");
    return numbers;
}

/* ---- operands in memory ---------------------------------------------------------------------- */

static int64_t blocks_of(const yki_device *device, const yki_operand *operand)
{
    return (operand->dims[1] + device->block - 1) / device->block;
}

int64_t yki_conformance_place(const yki_device *device, const yki_operand *operand, int64_t i)
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

yk_status yki_conformance_padding(const yki_device *device, const yki_operand *operand,
                                  const void *memory)
{
    if (operand->ndim < 0 || operand->layout != YKI_BLOCKED || !is_float(operand->dtype))
        return YK_OK;
    int64_t pixels = operand->dims[2] * operand->dims[3], block = device->block;
    for (int64_t i = 0; i < yki_operand_elements(device, operand); i++) {
        int64_t c = i / block / pixels % blocks_of(device, operand) * block + i % block;
        double number = yki_element_get(operand->dtype, memory, i);
        if (c >= operand->dims[1] && number != 0)
            return yki_error(YK_ERROR_INTERNAL, "padding channel %lld of %lld holds %g",
                             (long long)c, (long long)operand->dims[1], number);
    }
    return YK_OK;
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

/* Aligned memory, filled with one byte; NULL when memory is out. */
static void *allocate(size_t bytes, int fill)
{
    size_t aligned = yki_align(bytes ? bytes : 1, YKI_ALIGNMENT);
    void *memory = aligned_alloc(YKI_ALIGNMENT, aligned);
    if (memory)
        memset(memory, fill, aligned);
    else
        yki_error_memory(aligned, "the check of an operator");
    return memory;
}

/* The operand's memory with these numbers and zeros as padding; NULL when memory is out. */
static void *encode(const runner *r, const yki_operand *operand, const double *numbers)
{
    void *memory = allocate(yki_operand_bytes(r->device, operand), 0);
    for (int64_t i = 0; memory && i < yki_operand_count(operand); i++)
        yki_element_set(operand->dtype, memory, yki_conformance_place(r->device, operand, i),
                        numbers[i]);
    return memory;
}

static void decode(const runner *r, const yki_operand *operand, const void *memory, double *numbers)
{
    for (int64_t i = 0; i < yki_operand_count(operand); i++)
        numbers[i] =
            yki_element_get(operand->dtype, memory, yki_conformance_place(r->device, operand, i));
}

/* ---- building -------------------------------------------------------------------------------- */

/* What autocast does to a node: activations in 16 bit, parameters and statistics as they were. */
static yk_status demote(yki_node *node, yk_dtype low)
{
    bool custom = node->op->custom != NULL;
    for (int i = 0; i < node->in_count; i++) {
        yk_value *in = node->in[i];
        bool is_activation = custom ? node->op->in[i].is_activation : true;
        if (in && in->kind == YKI_INPUT && in->dtype == YK_F32 && is_activation)
            in->dtype = low;
    }
    if (!custom) {
        node->out[0]->dtype = low;
        return YK_OK;
    }
    yki_shape out[YKI_MAX_OUT];
    YK_TRY(node->op->infer(node, out));
    for (int i = 0; i < node->out_count; i++)
        node->out[i]->dtype = out[i].dtype;
    return YK_OK;
}

/* Makes the first dimension of the case's inputs the batch, and derives the outputs again. */
static yk_status make_symbolic(const machine *m, yki_node *node)
{
    int64_t samples = 0;
    yki_shape out[YKI_MAX_OUT];
    for (size_t i = 0; i < m->graph->value_count; i++) {
        yk_value *value = m->graph->values[i];
        if (value->kind != YKI_INPUT || value->ndim == 0)
            continue;
        samples = samples ? samples : value->dims[0];
        if (value->dims[0] == samples)
            value->dims[0] = YK_BATCH;
    }
    yk_status status = node->op->infer(node, out);
    if (status != YK_OK)
        return yki_error_context(status, "%s, whose inputs begin with YK_BATCH", node->op->name);
    for (int i = 0; i < node->out_count; i++) {
        node->out[i]->ndim = out[i].ndim;
        memcpy(node->out[i]->dims, out[i].dims, sizeof out[i].dims);
    }
    return YK_OK;
}

static void remove_samples(const machine *m)
{
    for (size_t i = 0; i < m->graph->value_count; i++) {
        yk_value *value = m->graph->values[i];
        if (value->ndim > 0 && value->dims[0] == YK_BATCH)
            value->dims[0] = 0;
    }
}

/* The gradient of output 0 and, as their programs differentiate them too, of a custom operator's
 * other outputs. */
static yk_status append_gradient(machine *m, yki_node *node)
{
    bool needs[YKI_MAX_IN] = {false};
    for (int i = 0; i < node->out_count; i++) {
        if (i > 0 && !(node->op->custom && is_float(node->out[i]->dtype)))
            continue;
        yki_shape shape = yki_shape_of(node->out[i]);
        m->dout[i] = yki_value_create(m->graph, YKI_INPUT, &shape);
        if (!m->dout[i])
            return YK_ERROR_OUT_OF_MEMORY;
    }
    for (int i = 0; i < node->in_count; i++)
        needs[i] = node->in[i] && is_float(node->in[i]->dtype) && node->in[i]->kind != YKI_BUFFER;
    if (node->op->gradient)
        YK_TRY(node->op->gradient(m->graph, node, m->dout, needs, m->din));
    m->more_dy = m->row->adjust ? m->row->adjust(m->graph, m->row->data) : NULL;
    return YK_OK;
}

static void fill_leaf(machine *m, const yk_value *value)
{
    double *numbers = m->numbers[value->id], spread = m->row->spread;
    for (int64_t i = 0; i < count_of(value); i++) {
        numbers[i] = spread * draw(m);
        if (m->row->ties)
            numbers[i] = floor(2 * numbers[i]) / 2;
        if (value->dtype == YK_I32)
            numbers[i] = (double)(yki_hash3(3, 4, m->draws++) % (uint64_t)m->row->classes);
        else if (value->dtype == YK_I64)
            numbers[i] = 41;
        else if (value->name && strcmp(value->name, "running_var") == 0)
            numbers[i] = 1.25 + numbers[i] / spread;
    }
    round_to_dtype(value, numbers);
}

static yk_status fill(machine *m, const yki_node *node)
{
    size_t values = m->graph->value_count;
    m->numbers = yki_calloc(values, sizeof *m->numbers);
    m->plain = yki_calloc(values, sizeof *m->plain);
    if (!m->numbers || !m->plain)
        return yki_error_memory(values * sizeof *m->numbers, "the check of an operator");
    for (size_t i = 0; i < values; i++) {
        const yk_value *value = m->graph->values[i];
        m->numbers[i] = allocate_numbers(value);
        if (!m->numbers[i])
            return YK_ERROR_OUT_OF_MEMORY;
        m->plain[i] = value->kind == YKI_PARAMETER || value->kind == YKI_BUFFER;
        if (!value->producer)
            fill_leaf(m, value);
    }
    for (int i = 0; i < node->in_count; i++)
        if (m->din[i] && node->in[i]->kind == YKI_PARAMETER)
            m->plain[m->din[i]->id] = true;
    return YK_OK;
}

/* empty: without samples. */
static yk_status machine_init(machine *m, const yki_conformance_case *row, yk_dtype dtype,
                              const char *device, bool empty)
{
    *m = (machine){.row = row, .graph = yk_graph_create()};
    snprintf(m->label, sizeof m->label, "%s%s%s in %s", row->label ? row->label : "",
             row->label ? ", " : "", device, yk_dtype_name(dtype));
    if (!m->graph)
        return yki_error_memory(sizeof *m->graph, "the check of an operator");
    const yk_value *out = row->build(m->graph, is_low(dtype) ? YK_F32 : dtype, row->data);
    if (m->graph->status != YK_OK)
        return yki_error(m->graph->status, "%s", m->graph->error);
    if (!out || out->graph != m->graph || m->graph->node_count != 1 ||
        m->graph->nodes[0]->out[0] != out)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "the function that builds the case must apply one operator to the graph "
                         "that it is given, and return its first output");
    yki_node *node = m->graph->nodes[0];
    if (is_low(dtype))
        YK_TRY(demote(node, dtype));
    if (empty)
        YK_TRY(make_symbolic(m, node));
    YK_TRY(append_gradient(m, node));
    if (empty)
        remove_samples(m);
    return fill(m, node);
}

static void machine_fini(machine *m)
{
    for (size_t i = 0; m->numbers && i < m->graph->value_count; i++)
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

/* With all outputs, or with output 0 alone. call_fini() is needed after a failure too. */
static yk_status call_init(invocation *call, const machine *m, const runner *r,
                           const yki_node *node, bool all)
{
    *call = (struct invocation){.runner = r,
                                .node = node,
                                .desc = {.op = node->op,
                                         .attrs = &node->attrs,
                                         .training = !m->row->evaluation,
                                         .in_count = node->in_count,
                                         .out_count = node->out_count}};
    bool allocated = true;
    for (int i = 0; i < YKI_MAX_IN; i++) {
        const yk_value *value = i < node->in_count ? node->in[i] : NULL;
        call->desc.in[i] = operand_of(m, r, value);
        call->in[i] = value ? encode(r, &call->desc.in[i], m->numbers[value->id]) : NULL;
        allocated = allocated && (!value || call->in[i]);
    }
    for (int i = 0; i < YKI_MAX_OUT; i++) {
        const yk_value *value = i < (all ? node->out_count : 1) ? node->out[i] : NULL;
        call->desc.out[i] = operand_of(m, r, value);
        call->out[i] =
            value ? allocate(yki_operand_bytes(r->device, &call->desc.out[i]), 0xff) : NULL;
        allocated = allocated && (!value || call->out[i]);
    }
    return allocated ? yki_kernel_create(r->device, &call->desc, &call->kernel)
                     : YK_ERROR_OUT_OF_MEMORY;
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

static yk_status cast_shadow(shadows *s, void *host, size_t bytes, void **memory)
{
    *memory = host;
    if (!host || yki_device_is_host(s->device))
        return YK_OK;
    for (int i = 0; i < s->count; i++) /* an output that takes the memory of an input */
        if (s->list[i].host == host) {
            *memory = s->list[i].memory;
            return YK_OK;
        }
    YK_TRY(yki_device_alloc(s->device, bytes, memory));
    s->list[s->count].host = host;
    s->list[s->count].memory = *memory;
    s->list[s->count++].bytes = bytes;
    return yki_device_copy(s->device, *memory, host, bytes, YKI_TO_DEVICE,
                           yki_device_stream(s->device));
}

static yk_status take_back(const shadows *s)
{
    for (int i = 0; i < s->count; i++)
        YK_TRY(yki_device_copy(s->device, s->list[i].host, s->list[i].memory, s->list[i].bytes,
                               YKI_TO_HOST, yki_device_stream(s->device)));
    return yki_stream_wait(s->device, yki_device_stream(s->device));
}

/* What a run needs besides its operands. */
typedef struct rooms {
    shadows shadows;
    void *scratch, *packed; /* NULL where a kernel needs none */
} rooms;

static void rooms_fini(rooms *r)
{
    for (int i = 0; i < r->shadows.count; i++)
        yki_device_free(r->shadows.device, r->shadows.list[i].memory, r->shadows.list[i].bytes);
    free(r->packed);
    free(r->scratch);
}

static yk_status run_in(rooms *r, const yki_kernel *kernel, const yki_kernel_desc *desc,
                        void *const *in, void *const *out)
{
    yki_device *device = r->shadows.device;
    yki_stream *stream = yki_device_stream(device);
    void *given[YKI_MAX_IN], *taken[YKI_MAX_OUT], *scratch, *packed, *scalars;
    yki_scalars drawn = {.seed = 5, .step = 6};
    for (int i = 0; i < YKI_MAX_IN; i++)
        YK_TRY(cast_shadow(&r->shadows, in[i], yki_operand_bytes(device, &desc->in[i]), &given[i]));
    for (int i = 0; i < YKI_MAX_OUT; i++)
        YK_TRY(
            cast_shadow(&r->shadows, out[i], yki_operand_bytes(device, &desc->out[i]), &taken[i]));
    YK_TRY(cast_shadow(&r->shadows, r->packed, kernel->pack_bytes, &packed));
    YK_TRY(cast_shadow(&r->shadows, r->scratch, kernel->scratch, &scratch));
    YK_TRY(cast_shadow(&r->shadows, &drawn, sizeof drawn, &scalars));
    if (packed) {
        YK_TRY(kernel->impl->pack(kernel, given[kernel->pack_input], packed, stream));
        given[kernel->pack_input] = packed;
    }
    yki_kernel_args run = {
        .in = given, .out = taken, .scratch = scratch, .stream = stream, .scalars = scalars};
    YK_TRY(kernel->impl->run(kernel, &run));
    return take_back(&r->shadows);
}

/* Runs with these pointers, packing the parameter that the kernel wants packed. */
static yk_status call_run(const invocation *call, void *const *in, void *const *out)
{
    const yki_kernel *kernel = call->kernel;
    rooms r = {.shadows.device = call->runner->device};
    if (kernel->scratch)
        r.scratch = allocate(kernel->scratch, 0xff);
    if (kernel->pack_bytes)
        r.packed = allocate(kernel->pack_bytes, 0xff);
    bool allocated = (r.scratch || !kernel->scratch) && (r.packed || !kernel->pack_bytes);
    yk_status status =
        allocated ? run_in(&r, kernel, &call->desc, in, out) : YK_ERROR_OUT_OF_MEMORY;
    rooms_fini(&r);
    return status;
}

static yk_status call_node(invocation *call, const machine *m, const runner *r,
                           const yki_node *node, bool all)
{
    YK_TRY(call_init(call, m, r, node, all));
    return call_run(call, call->in, call->out);
}

/* ---- comparing ------------------------------------------------------------------------------- */

static yk_status compare(const machine *m, const char *what, const yk_value *value,
                         const double *got, const double *expected, double tolerance)
{
    double error = 0, norm = 0;
    for (int64_t i = 0; i < count_of(value); i++) {
        error += (got[i] - expected[i]) * (got[i] - expected[i]);
        norm += expected[i] * expected[i];
    }
    double limit = is_float(value->dtype) ? tolerance * (sqrt(norm) + m->row->floor) : 0;
    if (sqrt(error) <= limit)
        return YK_OK;
    return yki_error(YK_ERROR_INTERNAL,
                     "%s differs by %g from ref in float64, norm %g, tolerance %g", what,
                     sqrt(error), sqrt(norm), tolerance);
}

/* Compares one operand of two calls and, for an output, keeps ref's numbers, rounded. */
static yk_status compare_operand(machine *m, const invocation *mine, const invocation *exact,
                                 bool output, int i, double tolerance)
{
    const yk_value *value = output ? mine->node->out[i] : mine->node->in[i];
    const yki_operand *a = output ? &mine->desc.out[i] : &mine->desc.in[i];
    const yki_operand *b = output ? &exact->desc.out[i] : &exact->desc.in[i];
    const void *memory = output ? mine->out[i] : mine->in[i];
    double *got = allocate_numbers(value), *expected = allocate_numbers(value);
    yk_status status = got && expected ? YK_OK : YK_ERROR_OUT_OF_MEMORY;
    if (status != YK_OK)
        goto out;
    decode(mine->runner, a, memory, got);
    decode(exact->runner, b, output ? exact->out[i] : exact->in[i], expected);
    char what[96];
    snprintf(what, sizeof what, "%s, %s %d", mine->node->op->name, output ? "output" : "input", i);
    status = compare(m, what, value, got, expected, tolerance);
    if (status == YK_OK && output) {
        status = yki_conformance_padding(mine->runner->device, a, memory);
        round_to_dtype(value, expected);
        memcpy(m->numbers[value->id], expected, (size_t)count_of(value) * sizeof *expected);
    }
out:
    free(got);
    free(expected);
    return status;
}

/* ---- what must hold besides the values ------------------------------------------------------- */

static yk_status check_inputs_untouched(const machine *m, const invocation *call)
{
    for (int i = 0; i < call->node->in_count; i++) {
        const yk_value *value = call->node->in[i];
        if (!value || value->kind == YKI_BUFFER)
            continue;
        void *fresh = encode(call->runner, &call->desc.in[i], m->numbers[value->id]);
        size_t bytes = yki_operand_bytes(call->runner->device, &call->desc.in[i]);
        bool same = fresh && memcmp(fresh, call->in[i], bytes) == 0;
        bool allocated = fresh != NULL;
        free(fresh);
        if (!allocated)
            return YK_ERROR_OUT_OF_MEMORY;
        if (!same)
            return yki_error(YK_ERROR_INTERNAL, "%s writes into input %d", call->node->op->name, i);
    }
    return YK_OK;
}

/* Where output 0 may take an input's memory, it must come out the same there, to the bit. */
static yk_status check_in_place(const machine *m, const invocation *done)
{
    int which = done->kernel->impl->inplace - 1;
    const yki_device *device = done->runner->device;
    if (which < 0 || done->desc.in[which].layout != done->desc.out[0].layout ||
        yki_operand_bytes(device, &done->desc.in[which]) !=
            yki_operand_bytes(device, &done->desc.out[0]))
        return YK_OK;
    invocation again;
    void *out[YKI_MAX_OUT];
    yk_status status = call_init(&again, m, done->runner, done->node, true);
    if (status == YK_OK) {
        memcpy(out, again.out, sizeof out);
        out[0] = again.in[which];
        status = call_run(&again, again.in, out);
    }
    for (int i = 0; status == YK_OK && i < done->node->out_count; i++)
        if (done->out[i] &&
            memcmp(out[i], done->out[i], yki_operand_bytes(device, &done->desc.out[i])) != 0)
            status = yki_error(YK_ERROR_INTERNAL, "%s in place gives another output %d",
                               done->node->op->name, i);
    call_fini(&again);
    return status;
}

/* Nothing may want the outputs after the first, which must be right without them. */
static yk_status check_alone(machine *m, const invocation *exact, const runner *r, double tolerance)
{
    invocation alone;
    if (exact->node->out_count == 1)
        return YK_OK;
    yk_status status = call_node(&alone, m, r, exact->node, false);
    if (status == YK_OK)
        status = compare_operand(m, &alone, exact, true, 0, tolerance);
    if (status != YK_OK)
        yki_error_context(status, "output 0, wanted alone");
    call_fini(&alone);
    return status;
}

static yk_status check_operands(machine *m, const invocation *mine, const invocation *exact,
                                double tolerance)
{
    const yki_node *node = mine->node;
    for (int i = 0; i < node->in_count; i++)
        if (node->in[i] && node->in[i]->kind == YKI_BUFFER)
            YK_TRY(compare_operand(m, mine, exact, false, i, tolerance));
    for (int i = 0; i < node->out_count; i++)
        if (node->out[i])
            YK_TRY(compare_operand(m, mine, exact, true, i, tolerance));
    return YK_OK;
}

static yk_status check_node(machine *m, const runner *device, const runner *ref,
                            const yki_node *node, double tolerance)
{
    invocation mine = {0}, exact = {0};
    yk_status status = call_node(&exact, m, ref, node, true);
    if (status == YK_OK)
        status = call_node(&mine, m, device, node, true);
    if (status == YK_OK)
        status = check_inputs_untouched(m, &mine);
    if (status == YK_OK)
        status = check_operands(m, &mine, &exact, tolerance);
    if (status == YK_OK)
        status = check_in_place(m, &mine);
    if (status == YK_OK)
        status = check_alone(m, &exact, device, tolerance);
    call_fini(&mine);
    call_fini(&exact);
    return status;
}

static yk_status open_device(runner *r, const yki_conformance_setting *s)
{
    const yki_device_options options = {.threads = s->threads, .winograd = s->winograd};
    if (s->type)
        YK_TRY(s->type->create(&r->device, &options));
    else
        YK_TRY(yki_device_create(&r->device, s->device, &options));
    if (r->device->type->enter)
        r->device->type->enter(r->device);
    return YK_OK;
}

yk_status yki_conformance_device(const yki_conformance_case *row,
                                 const yki_conformance_setting *setting)
{
    runner device = {0}, ref = {.exact = true};
    machine m;
    yk_status status = machine_init(&m, row, setting->dtype, setting->device, false);
    if (status == YK_OK)
        status = open_device(&device, setting);
    if (status == YK_OK)
        status = open_device(&ref, &oracle);
    for (size_t n = 0; status == YK_OK && n < m.graph->node_count; n++)
        status = check_node(&m, &device, &ref, m.graph->nodes[n], setting->tolerance);
    if (status != YK_OK)
        yki_error_context(status, "%s", m.label);
    machine_fini(&m);
    yki_device_destroy(device.device);
    yki_device_destroy(ref.device);
    return status;
}

/* ---- central differences --------------------------------------------------------------------- */

static yk_status run_and_keep(machine *m, const runner *ref, const yki_node *node)
{
    invocation call;
    yk_status status = call_node(&call, m, ref, node, true);
    for (int i = 0; status == YK_OK && i < node->out_count; i++)
        if (node->out[i])
            decode(ref, &call.desc.out[i], call.out[i], m->numbers[node->out[i]->id]);
    call_fini(&call);
    return status;
}

/* What the gradient is taken of: the sum of all outputs times their dout. */
static yk_status objective(machine *m, const runner *ref, double *sum)
{
    const yki_node *node = m->graph->nodes[0];
    YK_TRY(run_and_keep(m, ref, node));
    *sum = 0;
    for (int o = 0; o < node->out_count; o++)
        for (int64_t i = 0; m->dout[o] && i < count_of(node->out[o]); i++) {
            double dy = m->numbers[m->dout[o]->id][i];
            if (o == 0 && m->more_dy)
                dy += m->numbers[m->more_dy->id][i];
            *sum += m->numbers[node->out[o]->id][i] * dy;
        }
    return YK_OK;
}

/* Some elements of one input, spread over it. */
static yk_status check_differences(machine *m, const runner *ref, int input)
{
    const double h = 1e-5;
    const yk_value *value = m->graph->nodes[0]->in[input];
    double *x = m->numbers[value->id], error = 0, norm = 0, above, below;
    const double *gradient = m->numbers[m->din[input]->id];
    int64_t count = count_of(value), stride = count / DIFFERENCES + 1;
    for (int64_t i = 0; i < count; i += stride) {
        double kept = x[i];
        x[i] = kept + h;
        YK_TRY(objective(m, ref, &above));
        x[i] = kept - h;
        YK_TRY(objective(m, ref, &below));
        x[i] = kept;
        double slope = (above - below) / (2 * h);
        error += (slope - gradient[i]) * (slope - gradient[i]);
        norm += slope * slope;
    }
    if (sqrt(error) <= 1e-6 * sqrt(norm) + 1e-9)
        return YK_OK;
    return yki_error(
        YK_ERROR_INTERNAL,
        "the gradient of %s's input %d differs by %g from central differences, norm %g",
        m->graph->nodes[0]->op->name, input, sqrt(error), sqrt(norm));
}

static yk_status check_gradients(machine *m, const runner *ref)
{
    const yki_node *node = m->graph->nodes[0];
    if (!node->op->gradient)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "%s has no gradient", node->op->name);
    for (size_t n = 0; n < m->graph->node_count; n++)
        YK_TRY(run_and_keep(m, ref, m->graph->nodes[n]));
    for (int in = 0; in < node->in_count; in++)
        if (m->din[in])
            YK_TRY(check_differences(m, ref, in));
    return YK_OK;
}

/* ---- without samples ------------------------------------------------------------------------- */

static yk_status check_no_samples(machine *m, const runner *ref)
{
    const yki_node *node = m->graph->nodes[0];
    for (size_t n = 0; n < m->graph->node_count; n++)
        YK_TRY(run_and_keep(m, ref, m->graph->nodes[n]));
    for (int in = 0; in < node->in_count; in++)
        for (int64_t i = 0; m->din[in] && i < count_of(m->din[in]); i++) {
            double number = m->numbers[m->din[in]->id][i];
            if (number != 0)
                return yki_error(YK_ERROR_INTERNAL,
                                 "without samples, the gradient of %s's input %d holds %g; "
                                 "expected zeros",
                                 node->op->name, in, number);
        }
    return YK_OK;
}

/* ---- on ref alone ---------------------------------------------------------------------------- */

static yk_status run_on_ref(const yki_conformance_case *row, bool empty,
                            yk_status (*check)(machine *m, const runner *ref))
{
    runner ref = {.exact = true};
    machine m;
    yk_status status = machine_init(&m, row, YK_F64, "ref", empty);
    if (status == YK_OK)
        status = open_device(&ref, &oracle);
    if (status == YK_OK)
        status = check(&m, &ref);
    if (status != YK_OK)
        yki_error_context(status, "%s", m.label);
    machine_fini(&m);
    yki_device_destroy(ref.device);
    return status;
}

yk_status yki_conformance_gradients(const yki_conformance_case *row)
{
    return run_on_ref(row, false, check_gradients);
}

yk_status yki_conformance_empty(const yki_conformance_case *row)
{
    return run_on_ref(row, true, check_no_samples);
}

/* ---- coverage -------------------------------------------------------------------------------- */

yk_status yki_conformance_mark(const yki_conformance_case *row, bool *seen)
{
    machine m;
    yk_status status = machine_init(&m, row, YK_F64, "ref", false);
    for (size_t n = 0; status == YK_OK && n < m.graph->node_count; n++)
        for (size_t i = 0; i < YKI_OPERATORS; i++)
            seen[i] = seen[i] || yki_operators[i] == m.graph->nodes[n]->op;
    machine_fini(&m);
    return status;
}

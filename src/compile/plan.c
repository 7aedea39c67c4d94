/*
 * Planning: operands get concrete shapes and layouts, every node a prepared kernel, every value a
 * slot that lives from the step that makes it to the last that reads it. The scratch memory of a
 * kernel is a slot that lives for one step.
 *
 * A value that a kernel may overwrite (impl->inplace) and that dies there gives its slot to the
 * kernel's output.
 *
 * Two steps in a row that do not need each other may run at the same time where the device gains by
 * it. What they use then lives for both.
 */
#include "compile/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "compile/arena.h"

typedef struct planner {
    const yki_plan_source *source;
    yki_plan *plan;
    yki_place *places; /* by value id */
    int *last_use;     /* by value id: the last step that reads it, or KEPT; -1: none does */
    size_t nodes;      /* of the graph that take part */
    int base;          /* steps before the first node: reorders of inputs */
} planner;

enum { KEPT = 1 << 30 };

static yki_operand absent(void)
{
    return (yki_operand){.ndim = -1};
}

/*
 * The value's concrete shape. Images have the device's layout for them; all other values are plain.
 */
static yki_operand operand_of(const planner *p, const yk_value *value)
{
    if (!value)
        return absent();
    yki_operand operand = {.dtype = value->dtype, .ndim = value->ndim};
    memcpy(operand.dims, value->dims, sizeof operand.dims);
    if (value->ndim > 0 && value->dims[0] == YK_BATCH)
        operand.dims[0] = p->plan->batch;
    if (p->source->images[value->id])
        operand.layout = p->source->device->type->layout(p->source->device, &operand);
    return operand;
}

/* Whether the value is computed, or an input that is read. */
static bool takes_part(const planner *p, const yk_value *value)
{
    return !p->plan->mode.inference || p->source->for_outputs[value->id];
}

static bool node_takes_part(const planner *p, const yki_node *node)
{
    return takes_part(p, node->out[0]);
}

static bool is_read_outside(const planner *p, const yk_value *value)
{
    bool is_term =
        value == p->source->terms[YKI_LOSS_MEANS] || value == p->source->terms[YKI_LOSS_SUMS];
    bool is_output = false;
    for (size_t i = 0; i < p->source->outputs.count; i++)
        is_output |= value == p->source->outputs.list[i].read;
    return is_term || value == p->source->loss || is_output;
}

static void find_last_uses(planner *p)
{
    const yk_graph *graph = p->source->graph;
    for (size_t i = 0; i < graph->value_count; i++)
        p->last_use[i] = -1;
    for (size_t n = 0; n < p->nodes; n++)
        for (int i = 0; i < graph->nodes[n]->in_count; i++)
            if (graph->nodes[n]->in[i] && node_takes_part(p, graph->nodes[n]))
                p->last_use[graph->nodes[n]->in[i]->id] = p->base + (int)n;
    for (size_t i = 0; i < graph->value_count; i++)
        if (is_read_outside(p, graph->values[i]))
            p->last_use[i] = KEPT;
}

/* A new slot for value, alive from step `first` on. */
static void place_in_arena(planner *p, const yk_value *value, int first)
{
    yki_operand operand = operand_of(p, value);
    int last = p->last_use[value->id];
    struct yki_slot *slot = &p->plan->slots[p->plan->slot_count];
    *slot = (yki_slot){.bytes = yki_operand_bytes(p->source->device, &operand),
                       .first = first,
                       .last = last < first ? first : last};
    p->places[value->id] = (yki_place){
        .kind = YKI_PLACE_ARENA, .index = p->plan->slot_count++, .layout = operand.layout};
}

/* Lets out[0] take the memory of an input that dies at this step; false if it cannot. */
static bool place_over(planner *p, const yki_node *node, int which, int at)
{
    const yk_value *in = node->in[which], *out = node->out[0];
    if (!in || p->places[in->id].kind != YKI_PLACE_ARENA || p->last_use[in->id] != at)
        return false;
    for (int i = 0; i < node->in_count; i++)
        if (i != which && node->in[i] == in)
            return false;
    yki_operand from = operand_of(p, in), to = operand_of(p, out);
    yki_slot *slot = &p->plan->slots[p->places[in->id].index];
    size_t bytes = yki_operand_bytes(p->source->device, &to);
    if (from.layout != to.layout || bytes != yki_operand_bytes(p->source->device, &from))
        return false;
    p->places[out->id] = p->places[in->id];
    if (p->last_use[out->id] > slot->last)
        slot->last = p->last_use[out->id];
    return true;
}

/* Lets out[0] take the memory of the first input that the kernel may overwrite; false if there is
 * none. */
static bool place_in_place(planner *p, const yki_node *node, const yki_kernel_impl *impl, int at)
{
    for (int i = 0; i < node->in_count; i++)
        if (impl->inplace >> i & 1 && place_over(p, node, i, at))
            return true;
    return false;
}

/* Sums that the kernel leaves out are absent, and then their readers do without them. */
static void drop_sums(const yki_kernel *kernel, yki_kernel_desc *desc)
{
    if (desc->op == &yki_op_conv2d && !kernel->sums)
        desc->out[YKI_CONV2D_SUMS] = absent();
}

static yk_status append_step(planner *p, const yki_node *node, yki_kernel_desc *desc)
{
    yki_step *step = &p->plan->steps[p->plan->step_count];
    int at = (int)p->plan->step_count;
    YK_TRY(yki_kernel_create(p->source->device, desc, &step->kernel));
    drop_sums(step->kernel, desc);
    p->plan->profiles[at].work = yki_work_of(p->source->device, desc, step->kernel);
    p->plan->step_count++;
    step->node = node;
    step->scratch = -1;
    step->pack = -1;
    step->in_count = desc->in_count;
    step->out_count = desc->out_count;
    if (!node)
        return YK_OK;

    for (int i = 0; i < node->out_count; i++) {
        const yk_value *value = node->out[i];
        if (desc->out[i].ndim < 0)
            continue;
        if (p->source->fixed[value->id].kind == YKI_PLACE_GRADIENT) {
            p->places[value->id] = p->source->fixed[value->id];
            step->parameter[step->gradients++] = p->places[value->id].index;
        } else if (i > 0 || !place_in_place(p, node, step->kernel->impl, at)) {
            place_in_arena(p, value, at);
        }
        step->out[i] = p->places[value->id];
    }
    for (int i = 0; i < node->in_count; i++)
        if (node->in[i])
            step->in[i] = p->places[node->in[i]->id];
    return YK_OK;
}

static bool is_sums(const yk_value *value)
{
    const yki_node *producer = value->producer;
    return producer && producer->op == &yki_op_conv2d && value == producer->out[YKI_CONV2D_SUMS];
}

/* Outputs that nothing reads are not asked for, so that kernels can skip them. Nothing reads sums
 * but the statistics of training. */
static bool is_wanted(const planner *p, const yk_value *value)
{
    return value && (p->plan->mode.training || !is_sums(value)) &&
           (p->last_use[value->id] >= 0 || p->source->fixed[value->id].kind == YKI_PLACE_GRADIENT ||
            value->producer->out[0] == value);
}

/* Whether the value is sums that the kernel before has left out. */
static bool is_left_out(const planner *p, const yk_value *value)
{
    return value && is_sums(value) && p->places[value->id].kind == YKI_PLACE_NONE;
}

static yki_kernel_desc describe(const planner *p, const yki_node *node)
{
    yki_kernel_desc desc = {.op = node->op,
                            .attrs = &node->attrs,
                            .training = p->plan->mode.training && !node->attrs.evaluates,
                            .in_count = node->in_count,
                            .out_count = node->out_count};
    for (int i = 0; i < YKI_MAX_IN; i++)
        desc.in[i] = i < node->in_count && !is_left_out(p, node->in[i]) ? operand_of(p, node->in[i])
                                                                        : absent();
    for (int i = 0; i < YKI_MAX_OUT; i++)
        desc.out[i] = i < node->out_count && is_wanted(p, node->out[i])
                          ? operand_of(p, node->out[i])
                          : absent();
    return desc;
}

/* Whether a node draws random numbers. What a program's own operator does is not known. */
static bool may_draw(const yki_node *node)
{
    return (node->attrs.p > 0 && !node->attrs.evaluates) || node->op == &yki_op_randn_like ||
           node->op->custom;
}

static yk_status add_node(planner *p, const yki_node *node)
{
    yki_kernel_desc desc = describe(p, node);
    p->plan->draws |= may_draw(node);
    yk_status status = append_step(p, node, &desc);
    return status == YK_OK ? status
                           : yki_error_context(status, "%s%s", node->scope, node->op->name);
}

/* An input whose layout on the device differs from the batch's. */
static yk_status add_input(planner *p, const yk_value *value)
{
    yki_operand to = operand_of(p, value), from = to;
    from.layout = YKI_PLAIN;
    yki_kernel_desc desc = {.op = &yki_op_reorder, .in_count = 1, .out_count = 1};
    for (int i = 0; i < YKI_MAX_IN; i++)
        desc.in[i] = absent();
    for (int i = 0; i < YKI_MAX_OUT; i++)
        desc.out[i] = absent();
    desc.in[0] = from;
    desc.out[0] = to;
    int at = (int)p->plan->step_count;
    YK_TRY(append_step(p, NULL, &desc));
    p->plan->steps[at].in[0] = p->source->fixed[value->id];
    place_in_arena(p, value, at);
    p->plan->steps[at].out[0] = p->places[value->id];
    return YK_OK;
}

static bool needs_reorder(const planner *p, const yk_value *value)
{
    return value->kind == YKI_INPUT && takes_part(p, value) &&
           operand_of(p, value).layout != YKI_PLAIN;
}

/* Tells the device what its kernels are to do; those before it may leave out sums yet. */
static void foresee(const planner *p)
{
    yki_device *device = p->source->device;
    for (size_t n = 0; device->type->foresee && n < p->nodes; n++) {
        if (!node_takes_part(p, p->source->graph->nodes[n]))
            continue;
        yki_kernel_desc desc = describe(p, p->source->graph->nodes[n]);
        device->type->foresee(device, &desc);
    }
}

static yk_status add_steps(planner *p)
{
    const yk_graph *graph = p->source->graph;
    for (size_t i = 0; i < graph->value_count; i++)
        p->base += needs_reorder(p, graph->values[i]);
    find_last_uses(p);
    for (size_t i = 0; i < graph->value_count; i++) {
        p->places[i] = p->source->fixed[i];
        if (needs_reorder(p, graph->values[i]))
            YK_TRY(add_input(p, graph->values[i]));
    }
    foresee(p);
    for (size_t n = 0; n < p->nodes; n++) {
        if (n == p->source->first_backward)
            p->plan->forward_count = p->plan->step_count;
        if (node_takes_part(p, graph->nodes[n]))
            YK_TRY(add_node(p, graph->nodes[n]));
    }
    if (p->nodes <= p->source->first_backward)
        p->plan->forward_count = p->plan->step_count;
    if (p->source->loss)
        p->plan->loss = p->places[p->source->loss->id];
    for (int kind = 0; kind < YKI_LOSS_KINDS; kind++)
        if (p->source->terms[kind])
            p->plan->terms[kind] = p->places[p->source->terms[kind]->id];
    for (size_t i = 0; i < p->source->outputs.count; i++)
        if (p->source->outputs.list[i].read)
            p->plan->outputs[i] = p->places[p->source->outputs.list[i].read->id];
    return YK_OK;
}

/*
 * No value may be larger than the address space (2^44 elements of 8 bytes), so that sizes and their
 * sums never overflow; and oneDNN's kernels divide by 0 from 2^32 samples on.
 */
int64_t yki_largest_batch(const yk_graph *graph)
{
    const int64_t most = (int64_t)1 << 44;
    int64_t batch = INT32_MAX;
    for (size_t i = 0; i < graph->value_count; i++) {
        const yk_value *value = graph->values[i];
        int64_t count = 1;
        for (int d = 0; d < value->ndim; d++)
            count *= value->dims[d] == YK_BATCH ? 1 : value->dims[d];
        if (value->ndim > 0 && value->dims[0] == YK_BATCH && most / count < batch)
            batch = most / count;
    }
    return batch;
}

yk_status yki_check_batch(const yki_plan_source *source, int64_t batch)
{
    if (batch <= source->largest_batch)
        return YK_OK;
    return yki_error(YK_ERROR_INVALID_ARGUMENT, "a batch of %lld samples is too large",
                     (long long)batch);
}

static int64_t elements_of_sample(const yk_value *value)
{
    int64_t count = 1;
    if (!value || value->ndim == 0 || value->dims[0] != YK_BATCH)
        return 0;
    for (int d = 1; d < value->ndim; d++)
        count *= value->dims[d];
    return count;
}

/* The value that has the most elements in each sample; NULL if there is none. */
static const yk_value *find_largest(const planner *p)
{
    const yk_value *largest = NULL;
    for (size_t n = 0; n < p->nodes; n++) {
        const yki_node *node = p->source->graph->nodes[n];
        if (!node_takes_part(p, node))
            continue;
        for (int i = 0; i < node->in_count; i++)
            if (elements_of_sample(node->in[i]) > elements_of_sample(largest))
                largest = node->in[i];
        for (int i = 0; i < node->out_count; i++)
            if (elements_of_sample(node->out[i]) > elements_of_sample(largest))
                largest = node->out[i];
    }
    return largest;
}

/* "3x224x224" */
static void write_sample_shape(const yk_value *value, char *text, size_t size)
{
    size_t used = 0;
    for (int d = 1; d < value->ndim && used < size; d++)
        used += (size_t)snprintf(text + used, size - used, "%s%lld", d > 1 ? "x" : "",
                                 (long long)value->dims[d]);
}

/* A device may not take tensors of any size. */
static yk_status check_elements(const planner *p)
{
    const yki_device_type *type = p->source->device->type;
    const yk_value *largest = type->most_elements ? find_largest(p) : NULL;
    int64_t of_sample = elements_of_sample(largest), batch = p->plan->batch;
    char shape[96] = "1", advice[64] = "not even one sample fits";
    if (!largest || batch <= type->most_elements / of_sample)
        return YK_OK;
    write_sample_shape(largest, shape, sizeof shape);
    if (of_sample <= type->most_elements)
        snprintf(advice, sizeof advice, "a batch of %lld samples fits",
                 (long long)(type->most_elements / of_sample));
    yk_status status = yki_error(
        YK_ERROR_UNSUPPORTED,
        "%s times %lld samples are %lld elements; device %s takes at most %lld in a tensor: %s",
        shape, (long long)batch, (long long)(batch * of_sample), type->name,
        (long long)type->most_elements, advice);
    const yki_node *node = largest->producer;
    return node ? yki_error_context(status, "%s%s", node->scope, node->op->name)
                : yki_error_context(status, "\"%s\"", largest->name);
}

/* ---- steps beside each other ----------------------------------------------------------------- */

static bool uses(const yki_step *step, const yki_place *place)
{
    bool found = false;
    for (int i = 0; i < step->in_count; i++)
        found |= step->in[i].kind == place->kind && step->in[i].index == place->index;
    for (int i = 0; i < step->out_count; i++)
        found |= step->out[i].kind == place->kind && step->out[i].index == place->index;
    return found;
}

static bool writes_what_is_used(const yki_step *step, const yki_step *other)
{
    for (int i = 0; i < step->out_count; i++)
        if (step->out[i].kind != YKI_PLACE_NONE && uses(other, &step->out[i]))
            return true;
    return false;
}

/* Whether all that the step does is what its kernel enters in the stream that it is given. A batch
 * norm may exchange statistics with other ranks, and what a program's own operator does is not
 * known. */
static bool stays_in_its_stream(const yki_step *step)
{
    const yki_op *op = step->node ? step->node->op : NULL;
    return op && !op->custom && !step->kernel->impl->on_host && op != &yki_op_batch_norm &&
           op != &yki_op_batch_norm_backward;
}

/* Two steps that pack the same parameter would not know of each other. */
static bool can_run_beside(const yki_step *step, const yki_step *next)
{
    return stays_in_its_stream(step) && stays_in_its_stream(next) &&
           !writes_what_is_used(step, next) && !writes_what_is_used(next, step) &&
           !(step->kernel->pack_bytes && next->kernel->pack_bytes);
}

/* What the step uses is kept until the next is done, too. */
static void keep_for_next(yki_plan *plan, const yki_step *step)
{
    int next = (int)(step - plan->steps) + 1;
    for (int i = 0; i < step->in_count + step->out_count; i++) {
        const yki_place *place = i < step->in_count ? &step->in[i] : &step->out[i - step->in_count];
        if (place->kind == YKI_PLACE_ARENA && plan->slots[place->index].last < next)
            plan->slots[place->index].last = next;
    }
}

static void pair_steps(yki_plan *plan, yki_device *device)
{
    for (size_t i = 0; device->type->beside && i + 1 < plan->step_count; i++) {
        yki_step *step = &plan->steps[i];
        if (i + 1 == plan->forward_count || !can_run_beside(step, step + 1) ||
            !device->type->beside(device, step->kernel, step[1].kernel))
            continue;
        step->beside = true;
        keep_for_next(plan, step);
        i++; /* the next has its neighbour */
    }
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Slots for the scratch memory of all steps, to be placed among the values. */
static void append_scratch(yki_plan *plan)
{
    for (size_t i = 0; i < plan->step_count; i++) {
        yki_step *step = &plan->steps[i];
        if (step->kernel->scratch == 0)
            continue;
        step->scratch = (int)plan->slot_count;
        plan->slots[plan->slot_count++] = (yki_slot){.bytes = step->kernel->scratch,
                                                     .first = (int)i,
                                                     .last = step->beside ? (int)i + 1 : (int)i};
    }
}

/* Places all scratch memory in one region, which follows the values. */
static yk_status assign_apart(yki_plan *plan, size_t values)
{
    yki_slot *scratch = plan->slots + values;
    size_t count = plan->slot_count - values, scratch_bytes;
    YK_TRY(yki_arena_assign(plan->slots, values, &plan->value_bytes));
    YK_TRY(yki_arena_assign(scratch, count, &scratch_bytes));
    for (size_t i = 0; i < count; i++)
        scratch[i].offset += plan->value_bytes;
    plan->arena_bytes = plan->value_bytes + scratch_bytes;
    return YK_OK;
}

/*
 * Scratch memory lies where no value lives during its step. In the rare case that one region for
 * all of it after the values takes less memory, it lies there.
 */
static yk_status assign_memory(yki_plan *plan)
{
    size_t values = plan->slot_count, together;
    append_scratch(plan);
    YK_TRY(assign_apart(plan, values));
    YK_TRY(yki_arena_assign(plan->slots, plan->slot_count, &together));
    if (together > plan->arena_bytes)
        return assign_apart(plan, values);
    plan->arena_bytes = together;
    if (plan->value_bytes > together) /* the values happen to lie closer together */
        plan->value_bytes = together;
    return YK_OK;
}

yk_status yki_plan_create(yki_plan **plan, const yki_plan_source *source, int64_t batch,
                          yki_plan_mode mode)
{
    const yk_graph *graph = source->graph;
    size_t values = graph->value_count;
    YK_TRY(yki_check_batch(source, batch));
    planner p = {.source = source,
                 .plan = yki_calloc(1, sizeof(yki_plan)),
                 .places = yki_calloc(values, sizeof *p.places),
                 .last_use = yki_calloc(values, sizeof *p.last_use),
                 .nodes = mode.backward ? graph->node_count : source->first_backward};
    yk_status status = YK_OK;
    if (p.plan) {
        *p.plan = (yki_plan){.batch = batch, .mode = mode};
        p.plan->steps = yki_calloc(p.nodes + values, sizeof *p.plan->steps);
        p.plan->profiles = yki_calloc(p.nodes + values, sizeof *p.plan->profiles);
        p.plan->slots = yki_calloc(p.nodes + 2 * values, sizeof *p.plan->slots);
        p.plan->outputs = yki_calloc(source->outputs.count, sizeof *p.plan->outputs);
    }
    if (!p.plan || !p.places || !p.last_use || !p.plan->steps || !p.plan->profiles ||
        !p.plan->slots || !p.plan->outputs) {
        status = yki_error_memory(values * sizeof *p.places, "the plan");
        goto out;
    }
    status = check_elements(&p);
    if (status != YK_OK)
        goto out;
    status = add_steps(&p);
    if (source->device->type->foresee)
        source->device->type->foresee(source->device, NULL);
    if (status != YK_OK)
        goto out;
    pair_steps(p.plan, source->device);
    status = assign_memory(p.plan);
    if (status != YK_OK)
        goto out;
    *plan = p.plan;
    p.plan = NULL;
out:
    free(p.places);
    free(p.last_use);
    yki_plan_destroy(p.plan);
    return status;
}

void yki_plan_destroy(yki_plan *plan)
{
    if (!plan)
        return;
    for (size_t i = 0; plan->steps && i < plan->step_count; i++)
        yki_kernel_destroy(plan->steps[i].kernel);
    for (size_t i = 0; plan->profiles && i < plan->step_count; i++)
        free(plan->profiles[i].times);
    free(plan->steps);
    free(plan->profiles);
    free(plan->slots);
    free(plan->outputs);
    free(plan);
}

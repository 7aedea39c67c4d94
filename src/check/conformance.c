/* See conformance.h. */
#include "check/conformance.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "check/invocation.h"
#include "check/operand.h"

enum { DIFFERENCES = 24, MOVEMENTS = 8 };

static const yki_conformance_setting oracle = {.device = "ref", .threads = 1};

/* ---- how far rounding may move a result ------------------------------------------------------ */

double yki_conformance_move(double x, double relative, uint64_t seed)
{
    if (x == 0 || !isfinite(x))
        return x;
    double phase = (double)(yki_hash3(seed, 7, x < 0) >> 11) * 0x1p-50;
    return x * (1 + relative * sin(phase + log(fabs(x)) / (2 * relative)));
}

/* The L2 norm of what an operand of `exact` changes by if all inputs are moved. */
static yk_status move_once(double *change, const yki_trial *trial, const yki_invocation *exact,
                           bool output, int which, double relative, uint64_t seed)
{
    yki_invocation call;
    const yki_node *node = exact->node;
    yk_status status = yki_invocation_init(&call, trial, exact->runner, node, true);
    for (int i = 0; status == YK_OK && i < node->in_count; i++) {
        double *x = call.in[i]; /* ref's operands are plain */
        if (x && yki_dtype_is_float(node->in[i]->dtype))
            for (int64_t j = 0; j < yki_value_elements(node->in[i]); j++)
                x[j] = yki_conformance_move(x[j], relative, seed);
    }
    if (status == YK_OK)
        status = yki_invocation_run(&call, call.in, call.out);
    if (status == YK_OK) {
        const yk_value *value = output ? node->out[which] : node->in[which];
        const double *a = output ? call.out[which] : call.in[which];
        const double *b = output ? exact->out[which] : exact->in[which];
        *change = 0;
        for (int64_t j = 0; j < yki_value_elements(value); j++)
            *change += (a[j] - b[j]) * (a[j] - b[j]);
        *change = sqrt(*change);
    }
    yki_invocation_fini(&call);
    return status;
}

/* Terms may cancel, and norms divide by what is all but zero: no kernel can be nearer to the exact
 * result than the exact results of inputs that are within its rounding are to each other. */
static yk_status find_movement(double *movement, const yki_trial *trial,
                               const yki_invocation *exact, bool output, int which, double relative)
{
    double sum = 0, change;
    for (uint64_t i = 0; i < MOVEMENTS; i++) {
        YK_TRY(move_once(&change, trial, exact, output, which, relative, i));
        sum += change * change / MOVEMENTS;
    }
    *movement = isfinite(sum) ? sqrt(sum) : 0;
    return YK_OK;
}

/* ---- comparing ------------------------------------------------------------------------------- */

static double norm_of_difference(const yk_value *value, const double *a, const double *b)
{
    double sum = 0;
    for (int64_t i = 0; i < yki_value_elements(value); i++) {
        double difference = a[i] - (b ? b[i] : 0);
        sum += difference * difference;
    }
    return sqrt(sum);
}

/* Of one operand of two calls. What rounding does is found only where the norm does not suffice. */
static yk_status compare(const yki_trial *trial, const yki_invocation *exact, bool output,
                         int which, const double *got, const double *expected, double tolerance)
{
    const yk_value *value = output ? exact->node->out[which] : exact->node->in[which];
    const bool is_float = yki_dtype_is_float(value->dtype);
    double error = norm_of_difference(value, got, expected), movement = 0;
    double norm = norm_of_difference(value, expected, NULL);
    double limit = is_float ? tolerance * (norm + trial->row->floor) : 0;
    if (error <= limit)
        return YK_OK;
    if (is_float)
        YK_TRY(find_movement(&movement, trial, exact, output, which, tolerance));
    if (error <= limit + movement)
        return YK_OK;
    return yki_error(YK_ERROR_INTERNAL,
                     "%s, %s %d differs by %g from ref in float64, norm %g, tolerance %g; inputs "
                     "within the tolerance change it by %g",
                     exact->node->op->name, output ? "output" : "input", which, error, norm,
                     tolerance, movement);
}

/* Compares one operand of two calls and, for an output, keeps ref's numbers, rounded. */
static yk_status compare_operand(yki_trial *trial, const yki_invocation *mine,
                                 const yki_invocation *exact, bool output, int i, double tolerance)
{
    const yk_value *value = output ? mine->node->out[i] : mine->node->in[i];
    const yki_operand *a = output ? &mine->desc.out[i] : &mine->desc.in[i];
    const yki_operand *b = output ? &exact->desc.out[i] : &exact->desc.in[i];
    const void *memory = output ? mine->out[i] : mine->in[i];
    double *got = yki_trial_numbers(value), *expected = yki_trial_numbers(value);
    yk_status status = got && expected ? YK_OK : YK_ERROR_OUT_OF_MEMORY;
    if (status != YK_OK)
        goto out;
    yki_operand_decode(mine->runner->device, a, memory, got);
    yki_operand_decode(exact->runner->device, b, output ? exact->out[i] : exact->in[i], expected);
    status = compare(trial, exact, output, i, got, expected, tolerance);
    if (status == YK_OK && output) {
        status = yki_conformance_padding(mine->runner->device, a, memory);
        yki_trial_round(value, expected);
        memcpy(trial->numbers[value->id], expected,
               (size_t)yki_value_elements(value) * sizeof *expected);
    }
out:
    free(got);
    free(expected);
    return status;
}

/* ---- what must hold besides the values ------------------------------------------------------- */

static yk_status check_inputs_untouched(const yki_trial *trial, const yki_invocation *call)
{
    for (int i = 0; i < call->node->in_count; i++) {
        const yk_value *value = call->node->in[i];
        if (!value || value->kind == YKI_BUFFER)
            continue;
        void *fresh =
            yki_operand_encode(call->runner->device, &call->desc.in[i], trial->numbers[value->id]);
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
static yk_status check_place(const yki_trial *trial, const yki_invocation *done, int which)
{
    const yki_device *device = done->runner->device;
    const yki_operand *in = &done->desc.in[which], *result = &done->desc.out[0];
    if (in->ndim < 0 || in->layout != result->layout ||
        yki_operand_bytes(device, in) != yki_operand_bytes(device, result))
        return YK_OK;
    yki_invocation again;
    void *out[YKI_MAX_OUT];
    yk_status status = yki_invocation_init(&again, trial, done->runner, done->node, true);
    if (status == YK_OK) {
        memcpy(out, again.out, sizeof out);
        out[0] = again.in[which];
        status = yki_invocation_run(&again, again.in, out);
    }
    for (int i = 0; status == YK_OK && i < done->node->out_count; i++)
        if (done->out[i] &&
            memcmp(out[i], done->out[i], yki_operand_bytes(device, &done->desc.out[i])) != 0)
            status =
                yki_error(YK_ERROR_INTERNAL, "%s in the place of input %d gives another output %d",
                          done->node->op->name, which, i);
    yki_invocation_fini(&again);
    return status;
}

static yk_status check_in_place(const yki_trial *trial, const yki_invocation *done)
{
    for (int i = 0; i < done->desc.in_count; i++)
        if (done->kernel->impl->inplace >> i & 1)
            YK_TRY(check_place(trial, done, i));
    return YK_OK;
}

/* Nothing may want the outputs after the first, which must be right without them. */
static yk_status check_alone(yki_trial *trial, const yki_invocation *exact, const yki_runner *r,
                             double tolerance)
{
    yki_invocation alone;
    if (exact->node->out_count == 1)
        return YK_OK;
    yk_status status = yki_invoke(&alone, trial, r, exact->node, false);
    if (status == YK_OK)
        status = compare_operand(trial, &alone, exact, true, 0, tolerance);
    if (status != YK_OK)
        yki_error_context(status, "output 0, wanted alone");
    yki_invocation_fini(&alone);
    return status;
}

static yk_status check_operands(yki_trial *trial, const yki_invocation *mine,
                                const yki_invocation *exact, double tolerance)
{
    const yki_node *node = mine->node;
    for (int i = 0; i < node->in_count; i++)
        if (node->in[i] && node->in[i]->kind == YKI_BUFFER)
            YK_TRY(compare_operand(trial, mine, exact, false, i, tolerance));
    for (int i = 0; i < node->out_count; i++)
        if (mine->out[i])
            YK_TRY(compare_operand(trial, mine, exact, true, i, tolerance));
    return YK_OK;
}

static yk_status check_node(yki_trial *trial, const yki_runner *device, const yki_runner *ref,
                            const yki_node *node, double tolerance)
{
    yki_invocation mine = {0}, exact = {0};
    yk_status status = yki_invoke(&exact, trial, ref, node, true);
    if (status == YK_OK)
        status = yki_invoke(&mine, trial, device, node, true);
    if (status == YK_OK)
        status = check_inputs_untouched(trial, &mine);
    if (status == YK_OK)
        status = check_operands(trial, &mine, &exact, tolerance);
    if (status == YK_OK)
        status = check_in_place(trial, &mine);
    if (status == YK_OK)
        status = check_alone(trial, &exact, device, tolerance);
    yki_invocation_fini(&mine);
    yki_invocation_fini(&exact);
    return status;
}

static bool has_four_dims(const yki_node *node)
{
    bool any = false;
    for (int i = 0; i < node->in_count; i++)
        any |= node->in[i] && node->in[i]->ndim == 4;
    for (int i = 0; i < node->out_count; i++)
        any |= node->out[i] && node->out[i]->ndim == 4;
    return any;
}

/* Whether a planner may give the node such operands. */
static bool can_have(const yki_node *node, bool plain_in, bool plain_out)
{
    if (!plain_in && !plain_out)
        return true;
    return has_four_dims(node) && node->op->layouts != YKI_OF_IMAGES &&
           (plain_in == plain_out || node->op->layouts == YKI_ANY_LAYOUTS);
}

/* Operands of four dimensions as images and, where they need not be images, plain. */
static yk_status check_layouts(yki_trial *trial, yki_runner *device, const yki_runner *ref,
                               const yki_node *node, double tolerance)
{
    yk_status status = YK_OK;
    for (int plain = 0; status == YK_OK && plain < 4; plain++) {
        device->plain_in = (plain & 1) != 0;
        device->plain_out = (plain & 2) != 0;
        if (!can_have(node, device->plain_in, device->plain_out))
            continue;
        status = check_node(trial, device, ref, node, tolerance);
        if (status != YK_OK && plain)
            yki_error_context(status, "plain %s",
                              plain == 1   ? "inputs"
                              : plain == 2 ? "outputs"
                                           : "operands");
    }
    return status;
}

static yk_status open_device(yki_runner *r, const yki_conformance_setting *s)
{
    const yki_device_options options = {.threads = s->threads, .winograd = s->winograd};
    if (s->type) {
        YK_TRY(s->type->create(&r->device, &options));
        r->device->type = s->type; /* that create knows may be another */
    } else
        YK_TRY(yki_device_create(&r->device, s->device, &options));
    if (r->device->type->enter)
        r->device->type->enter(r->device);
    return YK_OK;
}

yk_status yki_conformance_device(const yki_conformance_case *row,
                                 const yki_conformance_setting *setting)
{
    yki_runner device = {0}, ref = {.exact = true};
    yki_trial trial;
    yk_status status = yki_trial_init(&trial, row, setting->dtype, setting->device, false);
    if (status == YK_OK)
        status = open_device(&device, setting);
    if (status == YK_OK)
        status = open_device(&ref, &oracle);
    for (size_t n = 0; status == YK_OK && n < trial.graph->node_count; n++)
        status = check_layouts(&trial, &device, &ref, trial.graph->nodes[n], setting->tolerance);
    if (status != YK_OK)
        yki_error_context(status, "%s", trial.label);
    yki_trial_fini(&trial);
    yki_device_destroy(device.device);
    yki_device_destroy(ref.device);
    return status;
}

/* ---- central differences --------------------------------------------------------------------- */

static yk_status run_and_keep(yki_trial *trial, const yki_runner *ref, const yki_node *node)
{
    yki_invocation call;
    yk_status status = yki_invoke(&call, trial, ref, node, true);
    for (int i = 0; status == YK_OK && i < node->out_count; i++)
        if (node->out[i])
            yki_operand_decode(ref->device, &call.desc.out[i], call.out[i],
                               trial->numbers[node->out[i]->id]);
    yki_invocation_fini(&call);
    return status;
}

/* What the gradient is taken of: the sum of all outputs times their dout. */
static yk_status objective(yki_trial *trial, const yki_runner *ref, double *sum)
{
    const yki_node *node = trial->graph->nodes[0];
    YK_TRY(run_and_keep(trial, ref, node));
    *sum = 0;
    for (int o = 0; o < node->out_count; o++)
        for (int64_t i = 0; trial->dout[o] && i < yki_value_elements(node->out[o]); i++) {
            double dy = trial->numbers[trial->dout[o]->id][i];
            if (o == 0 && trial->more_dy)
                dy += trial->numbers[trial->more_dy->id][i];
            *sum += trial->numbers[node->out[o]->id][i] * dy;
        }
    return YK_OK;
}

/* Some elements of one input, spread over it. */
static yk_status check_differences(yki_trial *trial, const yki_runner *ref, int input)
{
    const double h = 1e-5;
    const yk_value *value = trial->graph->nodes[0]->in[input];
    double *x = trial->numbers[value->id], error = 0, norm = 0, above, below;
    const double *gradient = trial->numbers[trial->din[input]->id];
    int64_t count = yki_value_elements(value), stride = count / DIFFERENCES + 1;
    for (int64_t i = 0; i < count; i += stride) {
        double kept = x[i];
        x[i] = kept + h;
        YK_TRY(objective(trial, ref, &above));
        x[i] = kept - h;
        YK_TRY(objective(trial, ref, &below));
        x[i] = kept;
        double slope = (above - below) / (2 * h);
        error += (slope - gradient[i]) * (slope - gradient[i]);
        norm += slope * slope;
    }
    if (sqrt(error) <= 1e-6 * sqrt(norm) + 1e-9)
        return YK_OK;
    if (isnan(error))
        return yki_error(YK_ERROR_INTERNAL,
                         "%s, or the gradient of its input %d, has elements that are NaN or that "
                         "its kernel has not written",
                         trial->graph->nodes[0]->op->name, input);
    return yki_error(
        YK_ERROR_INTERNAL,
        "the gradient of %s's input %d differs by %g from central differences, norm %g",
        trial->graph->nodes[0]->op->name, input, sqrt(error), sqrt(norm));
}

static bool has_gradients(const yki_trial *trial)
{
    for (int in = 0; in < trial->graph->nodes[0]->in_count; in++)
        if (trial->din[in])
            return true;
    return false;
}

static yk_status check_gradients(yki_trial *trial, const yki_runner *ref)
{
    const yki_node *node = trial->graph->nodes[0];
    if (!node->op->gradient)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "%s has no gradient", node->op->name);
    if (!has_gradients(trial))
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "the gradient function of %s gives no input a gradient", node->op->name);
    for (size_t n = 0; n < trial->graph->node_count; n++)
        YK_TRY(run_and_keep(trial, ref, trial->graph->nodes[n]));
    for (int in = 0; in < node->in_count; in++)
        if (trial->din[in])
            YK_TRY(check_differences(trial, ref, in));
    return YK_OK;
}

/* ---- without samples ------------------------------------------------------------------------- */

static yk_status check_no_samples(yki_trial *trial, const yki_runner *ref)
{
    const yki_node *node = trial->graph->nodes[0];
    for (size_t n = 0; n < trial->graph->node_count; n++)
        YK_TRY(run_and_keep(trial, ref, trial->graph->nodes[n]));
    for (int in = 0; in < node->in_count; in++)
        for (int64_t i = 0; trial->din[in] && i < yki_value_elements(trial->din[in]); i++) {
            double number = trial->numbers[trial->din[in]->id][i];
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
                            yk_status (*check)(yki_trial *trial, const yki_runner *ref))
{
    yki_runner ref = {.exact = true};
    yki_trial trial;
    yk_status status = yki_trial_init(&trial, row, YK_F64, "ref", empty);
    if (status == YK_OK)
        status = open_device(&ref, &oracle);
    if (status == YK_OK)
        status = check(&trial, &ref);
    if (status != YK_OK)
        yki_error_context(status, "%s", trial.label);
    yki_trial_fini(&trial);
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

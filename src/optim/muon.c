/*
 * Muon (Jordan et al. 2024): SGD with momentum whose update of a matrix is replaced by the nearest
 * orthogonal one, for the filters of convolutions as matrices (filters, rest); device/muon.h has
 * the arithmetic. Groups with ns_steps = 0 are updated by SGD.
 *
 * The sweep of SGD makes the updates: for a group of matrices it writes them to memory that has
 * been cleared, as if these were the values and the learning rate -1. Then the device takes over,
 * matrix by matrix.
 */
#include <math.h>
#include <stdlib.h>

#include "base/memory.h"
#include "base/options.h"
#include "device/device.h"
#include "optim/optimizer.h"
#include "tensor/tensor.h"

enum { MOMENTUM = YKI_LR + 1, WEIGHT_DECAY, NESTEROV, NS_STEPS, NORMALIZE, HYPERPARAMETERS };
enum { MATRICES = 1 }; /* the group of the filters */

typedef struct yki_muon {
    char **updates; /* (parameters), into memory; NULL for those that are not filters */
    char *memory;
    size_t bytes;
    char *scratch; /* within memory, after the updates */
} yki_muon;

/* ---- the rule -------------------------------------------------------------------------------- */

static unsigned muon_slots(const double *h)
{
    return h[MOMENTUM] != 0;
}

static bool is_flag(double value)
{
    return value == 0 || value == 1;
}

static yk_status check_muon(const double *h)
{
    YK_TRY(yki_check_option("muon", "lr", h[YKI_LR], 0, 0));
    YK_TRY(yki_check_option("muon", "momentum", h[MOMENTUM], 0, 0));
    YK_TRY(yki_check_option("muon", "weight_decay", h[WEIGHT_DECAY], 0, 0));
    YK_TRY(yki_check_option("muon", "ns_steps", h[NS_STEPS], 0, 100));
    if (h[NS_STEPS] != floor(h[NS_STEPS]) || !is_flag(h[NESTEROV]) || !is_flag(h[NORMALIZE]))
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "muon: ns_steps is %g, nesterov %g and normalize %g; expected a whole "
                         "number, and 0 or 1",
                         h[NS_STEPS], h[NESTEROV], h[NORMALIZE]);
    if (h[NESTEROV] != 0 && h[MOMENTUM] == 0)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "muon: nesterov needs a momentum above 0");
    return YK_OK;
}

static void prepare_muon(double *c, const double *h, const yki_state_age *age)
{
    bool first = age->steps == 1, matrices = h[NS_STEPS] > 0;
    c[YKI_SGD_LR] = matrices ? -1 : h[YKI_LR];
    c[YKI_SGD_MOMENTUM] = h[MOMENTUM];
    c[YKI_SGD_KEEP] = first ? 0 : h[MOMENTUM];
    c[YKI_SGD_TAKE] = 1;
    c[YKI_SGD_DECAY] = matrices ? 0 : h[WEIGHT_DECAY];
    c[YKI_SGD_NESTEROV] = h[NESTEROV];
    c[YKI_MUON_LR] = h[YKI_LR];
}

static const double *group_of(const yk_optimizer *optimizer, size_t parameter)
{
    return optimizer->groups[optimizer->group_of[parameter]].hyperparameters;
}

void *yki_muon_update(const yk_optimizer *optimizer, size_t parameter)
{
    bool matrix = optimizer->muon && group_of(optimizer, parameter)[NS_STEPS] > 0;
    return matrix ? optimizer->muon->updates[parameter] : NULL;
}

yk_status yki_muon_check_group(const yk_optimizer *optimizer, const size_t *group_of, size_t group,
                               const double *hyperparameters)
{
    const yki_muon *muon = optimizer->muon;
    if (!muon || hyperparameters[NS_STEPS] == 0)
        return YK_OK;
    for (size_t i = 0; i < optimizer->parameters; i++)
        if (group_of[i] == group && optimizer->views[i].trainable && !muon->updates[i])
            return yki_error(YK_ERROR_INVALID_ARGUMENT,
                             "muon: ns_steps is %g in the group of %s, which is not a "
                             "convolution's filters; expected 0",
                             hyperparameters[NS_STEPS], optimizer->views[i].name);
    return YK_OK;
}

static yk_status update_matrix(const yk_optimizer *optimizer, size_t parameter, yki_stream *stream)
{
    const yk_tensor *value = &optimizer->views[parameter].value;
    const double *h = group_of(optimizer, parameter),
                 *coefficients = optimizer->coefficients.memory;
    yki_muon_args args = {.value = value->data,
                          .update = yki_muon_update(optimizer, parameter),
                          .scratch = optimizer->muon->scratch,
                          .rows = value->dims[0],
                          .columns = yk_tensor_count(value) / value->dims[0],
                          .coefficients =
                              coefficients + optimizer->set_of[parameter] * YKI_SWEEP_COEFFICIENTS,
                          .weight_decay = h[WEIGHT_DECAY],
                          .steps = (int)h[NS_STEPS],
                          .normalize = h[NORMALIZE] != 0,
                          .stream = stream};
    return optimizer->device->type->muon->update(optimizer->device, &args);
}

static yk_status finish_muon(yk_optimizer *optimizer, size_t parameter, yki_stream *stream)
{
    return yki_muon_update(optimizer, parameter) ? update_matrix(optimizer, parameter, stream)
                                                 : YK_OK;
}

/* Clears the memory for the step's updates, in which one that was not completed may have left its
 * own. */
static yk_status begin_muon(yk_optimizer *optimizer, yki_stream *stream)
{
    const yki_muon *muon = optimizer->muon;
    size_t bytes = (size_t)(muon->scratch - muon->memory);
    return yki_device_fill(optimizer->device, muon->memory, 0, bytes, stream);
}

static const yki_optimizer_rule rule = {
    .update = YKI_SWEEP_SGD,
    .name = "muon",
    .hyperparameters = HYPERPARAMETERS,
    .hyperparameter_names = {"lr", "momentum", "weight_decay", "nesterov", "ns_steps", "normalize"},
    .slot_names = {"momentum_buffer"},
    .slots = muon_slots,
    .check = check_muon,
    .prepare = prepare_muon,
    .begin = begin_muon,
    .finish = finish_muon,
};

/* ---- creation -------------------------------------------------------------------------------- */

static bool is_filter(const yk_parameter_view *parameter, const void *context)
{
    (void)context;
    return parameter->trainable && parameter->value.ndim == 4;
}

static yk_status check_model(const yk_model *model)
{
    size_t filters = 0;
    for (size_t i = 0; i < yk_model_parameter_count(model); i++) {
        yk_parameter_view view = yk_model_parameter(model, i);
        filters += is_filter(&view, NULL);
        if (is_filter(&view, NULL) && view.value.dtype != YK_F32)
            return yki_error(YK_ERROR_UNSUPPORTED, "muon: %s is %s; filters must be float32",
                             view.name, yk_dtype_name(view.value.dtype));
    }
    return filters ? YK_OK
                   : yki_error(YK_ERROR_INVALID_ARGUMENT,
                               "muon: the model has no convolution whose filters are trained");
}

/* Updates first, then scratch for the largest matrix. */
static yk_status make_memory(yk_optimizer *optimizer)
{
    yki_muon *muon = optimizer->muon;
    size_t updates = 0, scratch = 0, own;
    for (size_t i = 0; i < optimizer->parameters; i++) {
        const yk_tensor *value = &optimizer->views[i].value;
        if (!is_filter(&optimizer->views[i], NULL))
            continue;
        YK_TRY(optimizer->device->type->muon->prepare(
            optimizer->device, value->dims[0], yk_tensor_count(value) / value->dims[0], &own));
        scratch = own > scratch ? own : scratch;
        updates += yki_tensor_padded_bytes(value);
    }
    void *memory;
    updates = yki_align(updates, YKI_SCRATCH_ALIGNMENT);
    muon->bytes = updates + scratch;
    YK_TRY(yki_device_alloc(optimizer->device, muon->bytes, &memory));
    muon->memory = memory;
    char *at = muon->memory;
    for (size_t i = 0; i < optimizer->parameters; i++)
        if (is_filter(&optimizer->views[i], NULL)) {
            muon->updates[i] = at;
            at += yki_tensor_padded_bytes(&optimizer->views[i].value);
        }
    muon->scratch = muon->memory + updates;
    return YK_OK;
}

void yki_muon_destroy(yk_optimizer *optimizer)
{
    yki_muon *muon = optimizer->muon;
    if (!muon)
        return;
    yki_device_free(optimizer->device, muon->memory, muon->bytes);
    free(muon->updates);
    free(muon);
}

static yk_status add_matrices(yk_optimizer *optimizer, const yk_muon_options *o)
{
    const struct {
        const char *name;
        double value;
    } own[] = {{"lr", o->lr},
               {"momentum", o->momentum},
               {"weight_decay", o->weight_decay},
               {"nesterov", o->nesterov},
               {"ns_steps", (double)o->ns_steps},
               {"normalize", o->normalize}};
    optimizer->muon = yki_calloc(1, sizeof *optimizer->muon);
    if (optimizer->muon)
        optimizer->muon->updates =
            yki_calloc(optimizer->parameters, sizeof *optimizer->muon->updates);
    if (!optimizer->muon || !optimizer->muon->updates)
        return yki_error_memory(optimizer->parameters * sizeof(char *), "muon");
    YK_TRY(make_memory(optimizer));
    YK_TRY(yk_optimizer_add_param_group(optimizer, is_filter, NULL, NULL));
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        YK_TRY(
            yk_optimizer_set_group_hyperparameter(optimizer, MATRICES, own[i].name, own[i].value));
    return YK_OK;
}

yk_status yk_muon_create(yk_optimizer **optimizer, yk_model *model, const yk_muon_options *options)
{
    YKI_NOT_NULL(optimizer);
    *optimizer = NULL;
    YKI_NOT_NULL(model);
    yk_muon_options o;
    YK_TRY(YKI_READ_OPTIONS(&o, options, yk_muon_options, YK_MUON_OPTIONS_INIT));
    YK_TRY(check_model(model));
    if (!(o.momentum > 0) || !(o.sgd.momentum > 0) || o.sgd.dampening != 0 || o.ns_steps < 1)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "muon: momentum and sgd.momentum must be above 0, sgd.dampening 0 and "
                         "ns_steps at least 1, not %g, %g, %g and %d",
                         o.momentum, o.sgd.momentum, o.sgd.dampening, o.ns_steps);
    double rest[] = {o.sgd.lr, o.sgd.momentum, o.sgd.weight_decay, o.sgd.nesterov, 0, 0};
    YK_TRY(yki_optimizer_create(optimizer, model, &rule, rest));
    yk_status status = add_matrices(*optimizer, &o);
    if (status == YK_OK)
        return YK_OK;
    yk_optimizer_destroy(*optimizer);
    *optimizer = NULL;
    return status;
}

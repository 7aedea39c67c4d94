/* The operators as the list describes them, and what their rules share. */
#include "graph/operators.h"

#include "base/text.h"

/* Every attribute that the list names is there. */
#define ATTRIBUTE(name)                                            _Static_assert(sizeof((yki_attrs *)0)->name > 0, #name);
#define FORWARD(number, name, policy, inputs, outputs, attributes) attributes
#define INSERTED(number, name, inputs, outputs, attributes)        attributes
#define BACKWARD(number, name, inputs, outputs, attributes)        attributes
#include "graph/operators.def"

#define ACTIVATION(number, operand, text) {.name = text, .is_activation = true},
#define WIDENED(number, operand, text)    {.name = text, .is_activation = true, .is_widened = true},
#define OPERAND(number, operand, text)    {.name = text},
#define OPTIONAL(number, operand, text)   {.name = text, .is_optional = true},
#define FURTHER(number, operand, text)    {.name = text, .is_activation = true, .is_optional = true},
#define CONSTANT(number, operand, text)   {.name = text, .is_constant = true},
#define GIVEN(number, operand, text)      {.name = text, .is_constant = true, .is_optional = true},
#define COMPARED(number, operand, text)   {.name = text, .is_activation = true, .is_constant = true},
#define MASK(number, operand, text)                                                                \
    {.name = text, .is_activation = true, .is_constant = true, .is_mask = true},
#define IMAGES        .layouts = YKI_OF_IMAGES,
#define ANY_LAYOUT    .layouts = YKI_ANY_LAYOUTS,
#define TWO_RESULTS   .more_results = 1,
#define THREE_RESULTS .more_results = 2,
#define ONE_DTYPE     .one_dtype = true,
#define FORWARD(number, op, policy, inputs, outputs, attributes)                                   \
    const yki_op yki_op_##op = {.name = #op,                                                       \
                                .autocast = YKI_AUTOCAST_##policy,                                 \
                                .in_count = YKI_##number##_INPUTS,                                 \
                                .out_count = YKI_##number##_OUTPUTS,                               \
                                .in = {inputs},                                                    \
                                attributes.infer = yki_infer_##op,                                 \
                                .gradient = yki_gradient_##op};
#define INSERTED(number, op, inputs, outputs, attributes)                                          \
    const yki_op yki_op_##op = {.name = #op,                                                       \
                                .in_count = YKI_##number##_INPUTS,                                 \
                                .out_count = YKI_##number##_OUTPUTS,                               \
                                .in = {inputs},                                                    \
                                attributes.gradient = yki_gradient_##op};
#define BACKWARD(number, op, inputs, outputs, attributes)                                          \
    const yki_op yki_op_##op = {.name = #op,                                                       \
                                .in_count = YKI_##number##_INPUTS,                                 \
                                .out_count = YKI_##number##_OUTPUTS,                               \
                                .in = {inputs},                                                    \
                                attributes};
#include "graph/operators.def"

const yki_op *const yki_operators[YKI_OPERATORS] = {
#define EACH(number, name) &yki_op_##name,
#include "graph/operators.def"
};

/* ---- for the rules --------------------------------------------------------------------------- */

yk_value *yki_append_like(yk_graph *graph, const yki_op *op, const yki_attrs *attrs,
                          yk_value *const *in, const yk_value *like)
{
    yki_shape shape = yki_shape_of(like);
    yki_node *node = yki_append(graph, op, attrs, in, &shape);
    return node ? node->out[0] : NULL;
}

yk_status yki_expect_dims(const yki_node *node, int input, int ndim)
{
    char text[96];
    const yk_value *value = node->in[input];
    if (value->ndim == ndim)
        return YK_OK;
    bool is_sequence = ndim == 4 && value->ndim == 3 && value->dims[0] == YK_BATCH;
    return yki_error(YK_ERROR_INVALID_SHAPE, "%s has shape %s, expected %d %s%s",
                     node->op->in[input].name, yki_shape_text(value, text, sizeof text), ndim,
                     yki_plural(ndim, "dimension", "dimensions"),
                     is_sequence ? "; sequences (N, C, L) are images of one row, (N, C, 1, L): see "
                                   "yk_reshape"
                                 : "");
}

yk_status yki_expect_dim(const yk_value *x, const char *name, int64_t dim)
{
    char text[96];
    bool exists = dim >= 0 && dim < x->ndim;
    if (exists && x->dims[dim] != YK_BATCH)
        return YK_OK;
    return yki_error(YK_ERROR_INVALID_ARGUMENT,
                     exists ? "%s has shape %s, of which dimension %lld is the batch"
                            : "%s has shape %s, which has no dimension %lld",
                     name, yki_shape_text(x, text, sizeof text), (long long)dim);
}

bool yki_in_range(int64_t option, int64_t least)
{
    return option >= least && option <= INT32_MAX;
}

yk_status yki_expect_weight(const yki_node *node, int input, int ndim)
{
    char text[96];
    const yk_value *weight = node->in[input];
    YK_TRY(yki_expect_dims(node, input, ndim));
    if (weight->dims[0] == YK_BATCH)
        return yki_error(YK_ERROR_INVALID_SHAPE, "weight has shape %s, which depends on the batch",
                         yki_shape_text(weight, text, sizeof text));
    return YK_OK;
}

yk_status yki_expect_vector(const yki_node *node, int input, int64_t length)
{
    char text[96];
    const yk_value *value = node->in[input];
    if (!value || (value->ndim == 1 && value->dims[0] == length))
        return YK_OK;
    return yki_error(YK_ERROR_INVALID_SHAPE, "%s has shape %s, expected (%lld)",
                     node->op->in[input].name, yki_shape_text(value, text, sizeof text),
                     (long long)length);
}

/* In gradients of programs, which are built after autocast, 16 bit too. */
static bool is_float(const yk_graph *graph, yk_dtype dtype)
{
    bool low = dtype == YK_BF16 || dtype == YK_F16;
    return dtype == YK_F32 || dtype == YK_F64 || (low && graph->in_gradient);
}

/* Whether an operand's dtype goes with the input's: parameters are f32 where that has 16 bit. */
static bool fits_dtype(const yki_node *node, int operand, yk_dtype dtype)
{
    bool is_activation = node->op->in[operand].is_activation;
    return node->in[operand]->dtype == (is_activation ? dtype : yki_accumulate_dtype(dtype));
}

yk_status yki_expect_float(const yki_node *node, int count)
{
    yk_dtype dtype = node->in[0]->dtype;
    if (!is_float(node->in[0]->graph, dtype))
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "input is %s, expected float32 or float64",
                         yk_dtype_name(dtype));
    for (int i = 1; i < count; i++) {
        const yk_value *other = node->in[i];
        if (other && !fits_dtype(node, i, dtype))
            return yki_error(YK_ERROR_INVALID_ARGUMENT, "%s is %s, expected %s like the input",
                             other->name ? other->name : "an operand", yk_dtype_name(other->dtype),
                             yk_dtype_name(dtype));
    }
    return YK_OK;
}

yk_dtype yki_accumulate_dtype(yk_dtype dtype)
{
    return dtype == YK_F64 ? YK_F64 : YK_F32;
}

yk_dtype yki_sums_dtype(yk_dtype dtype)
{
    return yk_dtype_size(dtype) == 2 ? YK_F32 : YK_F64;
}

yk_value *yki_emit_one(yk_value *x, const yki_op *op, const yki_attrs *attrs)
{
    static const yki_attrs none;
    return yki_emit(op, attrs ? attrs : &none, &x);
}

bool yki_same_dims(const yk_value *a, const yk_value *b)
{
    bool same = a->ndim == b->ndim;
    for (int i = 0; same && i < a->ndim; i++)
        same = a->dims[i] == b->dims[i];
    return same;
}

yk_status yki_infer_same(const yki_node *node, yki_shape *out)
{
    YK_TRY(yki_expect_float(node, node->in_count));
    out[0] = yki_shape_of(node->in[0]);
    return YK_OK;
}

yk_status yki_append_weight_gradient(yk_graph *graph, const yki_op *op, const yki_node *node,
                                     yk_value *dy, const bool *needs, yk_value **din)
{
    const yk_value *weight = node->in[YKI_LINEAR_WEIGHT], *bias = node->in[YKI_LINEAR_BIAS];
    yk_value *in[] = {node->in[YKI_LINEAR_X], dy};
    bool needs_bias = bias && needs[YKI_LINEAR_BIAS];
    yki_shape shapes[] = {yki_shape_of(weight), needs_bias ? yki_shape_of(bias) : yki_shape_none()};
    yki_node *made = yki_append(graph, op, &node->attrs, in, shapes);
    if (!made)
        return YK_ERROR_OUT_OF_MEMORY;
    din[YKI_LINEAR_WEIGHT] = made->out[YKI_LINEAR_BACKWARD_WEIGHT_DWEIGHT];
    din[YKI_LINEAR_BIAS] = made->out[YKI_LINEAR_BACKWARD_WEIGHT_DBIAS];
    return YK_OK;
}

/* See conformance.h: rows of the tables as cases of the suite. */
#include "conformance.h"

#include "check/trial.h"
#include "harness.h"
#include "tensor/tensor.h"

/* What a case's functions get. */
typedef struct row_of_family {
    const conformance_family *family;
    const conformance_case *c;
} row_of_family;

int conformance_rank(const int64_t dims[YK_MAX_DIMS])
{
    int ndim = 0;
    while (ndim < YK_MAX_DIMS && dims[ndim])
        ndim++;
    return ndim;
}

yk_value *conformance_x(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    return yk_input(graph, "x", dtype, conformance_rank(c->x), c->x);
}

yk_value *conformance_parameter(yk_graph *graph, const char *name, yk_dtype dtype, int ndim,
                                const int64_t *dims)
{
    return yk_parameter(graph, name, dtype, ndim, dims, YK_INIT_ZEROS, 0);
}

static yk_value *build(yk_graph *graph, yk_dtype dtype, const void *data)
{
    const row_of_family *row = data;
    return row->family->build(graph, row->c, dtype);
}

/* How fusion feeds batch_norm's backward; and recurrent layers of which one result is not used. */
static yk_value *adjust(yk_graph *graph, const void *data)
{
    const conformance_case *c = ((const row_of_family *)data)->c;
    yki_node *node = graph->nodes[0];
    if (c->absent)
        graph->nodes[1]->in[c->absent] = NULL;
    if (node->op != &yki_op_batch_norm)
        return NULL;
    yki_node *backward = graph->nodes[1];
    if (c->y)
        backward->in[YKI_BATCH_NORM_BACKWARD_Y] = node->out[0];
    yki_shape shape = yki_shape_of(node->out[0]);
    if (c->dy2)
        backward->in[YKI_BATCH_NORM_BACKWARD_DY2] = yki_value_create(graph, YKI_INPUT, &shape);
    return backward->in[YKI_BATCH_NORM_BACKWARD_DY2];
}

static void describe(const conformance_case *c, char *label, size_t size)
{
    static const char *const activations[] = {[YKI_FUSED_NONE] = "",
                                              [YKI_FUSED_RELU] = ", relu",
                                              [YKI_FUSED_RELU6] = ", relu6",
                                              [YKI_FUSED_SILU] = ", silu",
                                              [YKI_FUSED_HARDSWISH] = ", hardswish"};
    char x[96], other[96];
    snprintf(label, size,
             "x %s, other %s, filters %lld, dim %lld, "
             "kernel %lldx%lld, stride %lldx%lld, padding %lldx%lld, dilation %lldx%lld, groups "
             "%lld, p %g%s%s%s%s%s%s",
             yki_dims_text(x, sizeof x, conformance_rank(c->x), c->x),
             yki_dims_text(other, sizeof other, conformance_rank(c->other), c->other),
             (long long)c->filters, (long long)c->dim, (long long)c->kernel[0],
             (long long)c->kernel[1], (long long)c->stride, (long long)c->column_stride,
             (long long)c->padding, (long long)c->column_padding, (long long)c->dilation,
             (long long)c->column_dilation, (long long)c->groups, c->p, activations[c->activation],
             c->residual ? ", residual" : "", c->dy2 ? ", dy2" : "",
             c->evaluation ? ", evaluation" : "", c->ceil_mode ? ", ceil_mode" : "",
             c->skips_padding ? ", padding not counted" : "");
}

static yki_conformance_case case_of(const row_of_family *row, const char *label)
{
    const conformance_case *c = row->c;
    return (yki_conformance_case){.label = label,
                                  .build = build,
                                  .adjust = adjust,
                                  .data = row,
                                  .classes = c->classes ? c->classes
                                             : c->x[1]  ? c->x[1]
                                                        : 1,
                                  .evaluation = c->evaluation,
                                  .ties = c->ties,
                                  .spread = c->spread > 0 ? c->spread : 1,
                                  .floor = c->floor,
                                  .seed = c->seed};
}

void conformance_device(const conformance_family *family, const conformance_setting *setting)
{
    for (size_t i = 0; i < family->count; i++) {
        char label[224];
        row_of_family row = {family, &family->cases[i]};
        describe(row.c, label, sizeof label);
        yki_conformance_case one = case_of(&row, label);
        assert_ok(yki_conformance_device(&one, setting));
    }
}

void conformance_gradients(const conformance_family *family)
{
    for (size_t i = 0; i < family->count; i++) {
        char label[224];
        row_of_family row = {family, &family->cases[i]};
        describe(row.c, label, sizeof label);
        yki_conformance_case one = case_of(&row, label);
        if (!one.ties)
            assert_ok(yki_conformance_gradients(&one));
    }
}

void conformance_mark(const conformance_family *family, bool *seen)
{
    row_of_family row = {family, &family->cases[0]};
    yki_conformance_case one = case_of(&row, "coverage");
    yki_trial trial;
    assert_ok(yki_trial_init(&trial, &one, YK_F64, "ref", false));
    for (size_t n = 0; n < trial.graph->node_count; n++)
        for (size_t i = 0; i < YKI_OPERATORS; i++)
            seen[i] = seen[i] || yki_operators[i] == trial.graph->nodes[n]->op;
    yki_trial_fini(&trial);
}

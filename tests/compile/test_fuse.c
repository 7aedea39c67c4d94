/* Fusion: what follows a batch norm becomes a part of it, which changes results by rounding only.
 */
#include <math.h>
#include <stdlib.h>

#include "harness.h"
#include "model/model.h"
#include "nets.h"

typedef struct kind_of_activation {
    const char *name;
    yk_value *(*of)(yk_value *x);
    yki_fused fused;
} kind_of_activation;

static const kind_of_activation kinds[] = {{"relu", yk_relu, YKI_FUSED_RELU},
                                           {"relu6", yk_relu6, YKI_FUSED_RELU6},
                                           {"silu", yk_silu, YKI_FUSED_SILU},
                                           {"hardswish", yk_hardswish, YKI_FUSED_HARDSWISH}};
enum { KINDS = sizeof kinds / sizeof *kinds, FILTERS = 32 };

/* conv, norm, function, twice; the second time, something else may be added before the function. */
typedef struct form {
    const kind_of_activation *kind;
    bool adds;
    bool separate; /* the norms' results are outputs of the model, so that nothing is fused */
} form;

static yk_model *create(const form *f, const char *device, yk_dtype dtype)
{
    const int64_t dims[] = {YK_BATCH, NET_CHANNELS, NET_ROWS, NET_COLUMNS};
    yk_conv2d_options same = YK_CONV2D_OPTIONS_INIT;
    same.padding = 1;
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "images", dtype, 4, dims), *norms[2];
    norms[0] = yk_nn_batch_norm(yk_nn_conv2d(x, "conv1", FILTERS, 3, &same), "norm1");
    yk_value *y = f->kind->of(norms[0]);
    norms[1] = yk_nn_batch_norm(yk_nn_conv2d(y, "conv2", FILTERS, 3, &same), "norm2");
    y = f->kind->of(f->adds ? yk_add(norms[1], y) : norms[1]);
    yk_value *logits = yk_nn_linear(yk_flatten(yk_global_avg_pool2d(y)), "fc", NET_CLASSES);
    yk_value *labels = yk_input(graph, "labels", YK_I32, 1, dims);
    yk_model_options options = YK_MODEL_OPTIONS_INIT;
    options.device = device;
    options.threads = 2;
    options.seed = 3;
    options.logits = logits;
    options.outputs = norms;
    options.output_count = f->separate ? 2 : 0;
    yk_model *model;
    assert_ok(yk_model_create(&model, yk_cross_entropy(logits, labels, NULL), &options));
    net_shake(model, 1);
    return model;
}

/* How many norms of the model have taken in the function. */
static int count_fused(const yk_model *model, yki_fused activation)
{
    int count = 0;
    for (size_t n = 0; n < model->graph->node_count; n++) {
        const yki_node *node = model->graph->nodes[n];
        count += node->op == &yki_op_batch_norm && node->attrs.activation == activation;
    }
    return count;
}

/* What a step finds: the gradients of the weights, and after them the loss. */
static double *step(const form *f, const char *device, yk_dtype dtype, int expected, int64_t *count)
{
    yk_model *model = create(f, device, dtype);
    net_batch b;
    assert_int_equal(count_fused(model, f->kind->fused), expected);
    net_batch_init(&b, dtype, 9, 7);
    const double loss = net_step(model, &b);
    double *gradients = net_gradients(model, count);
    double *all = realloc(gradients, (size_t)(*count + 1) * sizeof *all);
    assert_non_null(all);
    all[(*count)++] = loss;
    net_batch_fini(&b);
    yk_model_destroy(model);
    return all;
}

static void compare(const kind_of_activation *kind, bool adds, int expected, const char *device,
                    yk_dtype dtype, double tolerance)
{
    const form fused = {kind, adds, false}, separate = {kind, adds, true};
    int64_t count, other;
    double *a = step(&fused, device, dtype, expected, &count);
    double *b = step(&separate, device, dtype, 0, &other), error = 0, norm = 0;
    assert_int_equal(count, other);
    for (int64_t i = 0; i < count; i++) {
        error += (a[i] - b[i]) * (a[i] - b[i]);
        norm += b[i] * b[i];
    }
    if (!(sqrt(error) <= tolerance * sqrt(norm)))
        fail_msg("%s, %s: error %g, norm %g", kind->name, device, sqrt(error), sqrt(norm));
    free(a);
    free(b);
}

YK_TEST(activations_become_a_part_of_norms)
{
    for (int i = 0; i < KINDS; i++) {
        compare(&kinds[i], false, 2, "ref", YK_F64, 1e-12);
        compare(&kinds[i], false, 2, "cpu", YK_F32, 1e-5);
    }
}

/* The slope of relu is known from its result, that of silu from its argument alone. */
YK_TEST(of_a_sum_only_what_its_result_says_becomes_a_part)
{
    for (int i = 0; i < KINDS; i++) {
        const int expected = yki_fused_clamps(kinds[i].fused) ? 2 : 1;
        compare(&kinds[i], true, expected, "ref", YK_F64, 1e-12);
        compare(&kinds[i], true, expected, "cpu", YK_F32, 1e-5);
    }
}

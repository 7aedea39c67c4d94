/* Operators of programs in models: gradient rules that compute weights, gradients that forward has
 * computed, kernels that fail, labels, and parts that evaluate. */
#include <math.h>
#include <string.h>

#include <yoke/yoke.h>

#include "harness.h"
#include "rows.h"

/* ---- gradient rules that compute weights ----------------------------------------------------- */

static yk_status pass_run(const yk_operator_run *run)
{
    for (int64_t i = 0; i < yk_tensor_count(&run->inputs[0]); i++)
        yk_tensor_set(&run->outputs[0], i, yk_tensor_get(&run->inputs[0], i));
    return YK_OK;
}

/* What reaches x in backward: a linear whose weight is the other activation, or norms by it. */
static yk_status weigh_gradient(const yk_operator_node *node, yk_value *const *dy,
                                const bool *needs, yk_value **dx)
{
    yk_value *other = node->inputs[1];
    if (needs[0])
        dx[0] = yk_value_shape(other, NULL) == 2 ? yk_linear(dy[0], other, NULL)
                                                 : yk_layer_norm(dy[0], other, other, 1e-2);
    if (needs[1])
        dx[1] = yk_scale(other, 0.5);
    return YK_OK;
}

static const yk_operator_kernel pass_kernel = {.size = sizeof(yk_operator_kernel), .run = pass_run};
static const yk_operator weighed = {
    .size = sizeof(yk_operator),
    .name = "weighed",
    .input_count = 2,
    .output_count = 1,
    .inputs = {{.name = "x", .is_activation = true}, {.name = "other", .is_activation = true}},
    .autocast = YK_AUTOCAST_LOW,
    .gradient = weigh_gradient,
    .ref = &pass_kernel};

/* The gradient of a parameter below `weighed`. */
static void weigh(const char *device, yk_amp amp, int ndim, float gradient[COLUMNS])
{
    const int64_t sides[] = {COLUMNS, COLUMNS};
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "x", YK_F32, 2, (int64_t[]){YK_BATCH, COLUMNS});
    yk_value *shift = yk_parameter(graph, "shift", YK_F32, 1, sides, YK_INIT_ONES, 0);
    yk_value *other =
        yk_parameter(graph, "other", YK_F32, ndim, sides, YK_INIT_UNIFORM_FAN_IN, COLUMNS);
    yk_value *y = yk_operator_apply(&weighed, NULL,
                                    (yk_value *[]){yk_add(x, shift), yk_scale(other, 0.9)}, NULL);
    yk_model *model;
    assert_ok(yk_model_create(
        &model, yk_mse_loss(y, yk_scale(x, 0), YK_LOSS_SUM),
        YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.device = device, o.amp = amp)));
    assert_ok(yk_model_forward(model, &batch));
    assert_ok(yk_model_backward(model));
    yk_parameter_view view = yk_model_parameter(model, 0);
    assert_ok(yk_tensor_read(&view.grad, gradient));
    yk_model_destroy(model);
}

YK_TEST(a_gradient_rule_may_compute_a_weight)
{
    static const char *const devices[] = {"cpu", "ref", "sim"};
    for (int ndim = 2; ndim >= 1; ndim--)
        for (int d = 0; d < 3; d++)
            for (int amp = YK_AMP_BF16; amp <= YK_AMP_FP16; amp++) {
                float exact[COLUMNS], low[COLUMNS];
                weigh("ref", YK_AMP_OFF, ndim, exact);
                weigh(devices[d], (yk_amp)amp, ndim, low);
                for (int i = 0; i < COLUMNS; i++)
                    if (fabsf(low[i] - exact[i]) > 0.02F * (fabsf(exact[i]) + 1))
                        fail_msg("%s, amp %d, weight of %d dimensions: %g, expected %g", devices[d],
                                 amp, ndim, (double)low[i], (double)exact[i]);
            }
}

/* ---- gradients that the program has computed ------------------------------------------------- */

static yk_status zero_run(const yk_operator_run *run)
{
    yk_tensor_set(&run->outputs[0], 0, 0);
    return YK_OK;
}

static yk_status scalar_shape(const yk_operator_node *node, yk_tensor *outputs)
{
    (void)node;
    outputs[0].ndim = 0;
    return YK_OK;
}

static yk_status pass_second(const yk_operator_node *node, yk_value *const *dy, const bool *needs,
                             yk_value **dx)
{
    (void)dy;
    for (int i = 0; i < 2; i++)
        dx[i] = needs[i] ? node->inputs[1] : NULL;
    return YK_OK;
}

/* A loss of 0, whose gradient is its second input. */
static const yk_operator_kernel zero_kernel = {.size = sizeof(yk_operator_kernel), .run = zero_run};
static const yk_operator injected = {
    .size = sizeof(yk_operator),
    .name = "injected",
    .input_count = 2,
    .output_count = 1,
    .inputs = {{.name = "x", .is_activation = true}, {.name = "gradient", .is_activation = true}},
    .shape = scalar_shape,
    .gradient = pass_second,
    .ref = &zero_kernel};

typedef enum source { INPUT, COMPUTED, BUFFER, FROZEN, TRAINED, SOURCES } source;

static yk_value *make_source(yk_graph *graph, source kind, yk_value *x)
{
    static const int64_t dims[] = {ROWS, COLUMNS};
    if (kind == INPUT)
        return x;
    if (kind == COMPUTED)
        return yk_relu(x);
    if (kind == BUFFER)
        return yk_buffer(graph, "ones", YK_F32, 2, dims, YK_INIT_ONES);
    return yk_parameter(graph, "ones", YK_F32, 2, dims, YK_INIT_ONES, 0);
}

/* The gradient of a parameter, which is a value of forward, in the second of two steps. */
static void inject(const char *device, source kind, float gradient[ROWS * COLUMNS])
{
    static const int64_t dims[] = {ROWS, COLUMNS};
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "x", YK_F32, 2, dims);
    yk_value *trained = yk_parameter(graph, "trained", YK_F32, 2, dims, YK_INIT_ZEROS, 0);
    yk_value *inputs[] = {trained, make_source(graph, kind, x)};
    yk_value *loss = yk_operator_apply(&injected, NULL, inputs, NULL);
    if (kind == FROZEN)
        assert_ok(yk_graph_set_trainable(graph, "ones", false, NULL));
    yk_model *model;
    assert_ok(yk_model_create(&model, loss,
                              YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.device = device)));
    for (int step = 0; step < 2; step++) {
        yk_model_zero_grad(model);
        assert_ok(yk_model_forward(model, &batch));
        assert_ok(yk_model_backward(model));
    }
    yk_parameter_view view = yk_model_parameter(model, 0);
    assert_ok(yk_tensor_read(&view.grad, gradient));
    yk_model_destroy(model);
}

YK_TEST(a_gradient_may_be_a_value_of_forward)
{
    static const char *const devices[] = {"cpu", "ref", "sim"};
    for (int d = 0; d < 3; d++)
        for (int kind = 0; kind < SOURCES; kind++) {
            float gradient[ROWS * COLUMNS];
            inject(devices[d], (source)kind, gradient);
            for (int i = 0; i < ROWS * COLUMNS; i++) {
                float expected = kind == INPUT      ? numbers[i]
                                 : kind == COMPUTED ? fmaxf(numbers[i], 0)
                                                    : 1;
                if (gradient[i] != expected)
                    fail_msg("%s, source %d: %g, expected %g", devices[d], kind,
                             (double)gradient[i], (double)expected);
            }
        }
}

/* ---- a kernel that fails in a step ----------------------------------------------------------- */

static bool moody_refuses;

static yk_status moody_run(const yk_operator_run *run)
{
    if (moody_refuses)
        return yk_set_error(YK_ERROR_INVALID_ARGUMENT, "not today");
    for (int64_t i = 0; i < yk_tensor_count(&run->inputs[0]); i++)
        yk_tensor_set(&run->outputs[0], i, yk_tensor_get(&run->inputs[0], i));
    return YK_OK;
}

static yk_status moody_gradient(const yk_operator_node *node, yk_value *const *dy,
                                const bool *needs, yk_value **dx)
{
    (void)node, (void)needs;
    dx[0] = dy[0];
    return YK_OK;
}

static float first_of_buffer(const yk_model *model, const char *name)
{
    for (size_t i = 0; i < yk_model_buffer_count(model); i++)
        if (strcmp(yk_model_buffer(model, i).name, name) == 0)
            return *(const float *)yk_model_buffer(model, i).value.data;
    fail_msg("no buffer %s", name);
    return 0;
}

/* As operator.h says of run. */
YK_TEST(a_forward_that_fails_has_moved_the_statistics_before_it)
{
    static const yk_operator_kernel kernel = {.size = sizeof(yk_operator_kernel), .run = moody_run};
    static const yk_operator moody = {.size = sizeof(yk_operator),
                                      .name = "moody",
                                      .input_count = 1,
                                      .output_count = 1,
                                      .inputs = {{.name = "x", .is_activation = true}},
                                      .gradient = moody_gradient,
                                      .ref = &kernel};
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "x", YK_F32, 2, (int64_t[]){YK_BATCH, COLUMNS});
    yk_value *y = yk_nn_batch_norm(yk_nn_linear(x, "fc", COLUMNS), "before");
    y = yk_nn_batch_norm(yk_operator_apply(&moody, NULL, &y, NULL), "after");
    yk_model *model;
    assert_ok(yk_model_create(&model, yk_mse_loss(y, x, YK_LOSS_MEAN), NULL));
    float weight = *(float *)yk_model_parameter(model, 0).value.data;
    moody_refuses = true;
    assert_int_equal(yk_model_forward(model, &batch), YK_ERROR_INVALID_ARGUMENT);
    assert_contains(yk_last_error(), "not today");
    assert_true(first_of_buffer(model, "before.running_mean") != 0);
    assert_true(first_of_buffer(model, "after.running_mean") == 0);
    assert_true(*(float *)yk_model_parameter(model, 0).value.data == weight);
    moody_refuses = false;
    assert_ok(yk_model_forward(model, &batch));
    yk_model_destroy(model);
}

/* ---- labels ---------------------------------------------------------------------------------- */

static yk_status argmax_run(const yk_operator_run *run)
{
    const yk_tensor *x = &run->inputs[0];
    for (int64_t n = 0; n < x->dims[0]; n++) {
        int64_t best = 0;
        for (int64_t c = 1; c < x->dims[1]; c++)
            if (yk_tensor_get(x, n * x->dims[1] + c) > yk_tensor_get(x, n * x->dims[1] + best))
                best = c;
        yk_tensor_set(&run->outputs[0], n, (double)best);
    }
    return YK_OK;
}

static yk_status argmax_shape(const yk_operator_node *node, yk_tensor *outputs)
{
    (void)node;
    outputs[0].dtype = YK_I32;
    outputs[0].ndim = 1;
    return YK_OK;
}

/* Labels of the largest logits: they have no gradient, and none is asked of the operator. */
YK_TEST(classes_may_be_computed)
{
    static const yk_operator_kernel kernel = {.size = sizeof(yk_operator_kernel),
                                              .run = argmax_run};
    static const yk_operator argmax = {.size = sizeof(yk_operator),
                                       .name = "argmax",
                                       .input_count = 1,
                                       .output_count = 1,
                                       .inputs = {{.name = "x", .is_activation = true}},
                                       .shape = argmax_shape,
                                       .ref = &kernel};
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "x", YK_F32, 2, (int64_t[]){YK_BATCH, COLUMNS});
    yk_value *logits = yk_nn_linear(x, "fc", 3);
    yk_value *labels = yk_operator_apply(&argmax, NULL, &logits, NULL);
    yk_model *model;
    assert_ok(yk_model_create(&model, yk_cross_entropy(logits, labels, NULL), NULL));
    assert_ok(yk_model_forward(model, &batch));
    assert_ok(yk_model_backward(model));
    assert_true(yk_model_loss(model) < log(3)); /* the largest of 3 */
    assert_true(*(float *)yk_model_parameter(model, 0).grad.data != 0);
    yk_model_destroy(model);
}

/* ---- parts that evaluate --------------------------------------------------------------------- */

/* Twice its input in training. */
static yk_status double_run(const yk_operator_run *run)
{
    for (int64_t i = 0; i < yk_tensor_count(&run->inputs[0]); i++)
        yk_tensor_set(&run->outputs[0], i,
                      (run->training ? 2 : 1) * yk_tensor_get(&run->inputs[0], i));
    return YK_OK;
}

static yk_status double_gradient(const yk_operator_node *node, yk_value *const *dy,
                                 const bool *needs, yk_value **dx);
static const yk_operator_kernel double_kernel = {.size = sizeof(yk_operator_kernel),
                                                 .run = double_run};
static const yk_operator double_in_training = {.size = sizeof(yk_operator),
                                               .name = "double_in_training",
                                               .input_count = 1,
                                               .output_count = 1,
                                               .inputs = {{.name = "input", .is_activation = true}},
                                               .gradient = double_gradient,
                                               .ref = &double_kernel};

static yk_status double_gradient(const yk_operator_node *node, yk_value *const *dy,
                                 const bool *needs, yk_value **dx)
{
    (void)node;
    if (needs[0])
        dx[0] = yk_operator_apply(&double_in_training, NULL, &dy[0], NULL);
    return YK_OK;
}

/* |factor (x + w)| of x = 1 and w = 0, whose gradient is the factor of the mode, too. */
static void expect_factor(bool evaluates, double factor)
{
    static const char *const names[] = {"x"};
    static const int64_t one[] = {1};
    float x = 1;
    const yk_tensor tensor = {.data = &x, .dtype = YK_F32, .ndim = 2, .dims = {1, 1}};
    yk_model *model;
    yk_graph *graph = yk_graph_create();
    yk_value *in = yk_input(graph, "x", YK_F32, 2, (int64_t[]){YK_BATCH, 1});
    yk_value *sum = yk_add(in, yk_parameter(graph, "w", YK_F32, 1, one, YK_INIT_ZEROS, 0));
    if (evaluates)
        yk_eval_push(graph);
    yk_value *y = yk_operator_apply(&double_in_training, NULL, &sum, NULL);
    if (evaluates)
        yk_eval_pop(graph);
    assert_ok(yk_model_create(&model, yk_l1_loss(y, yk_scale(in, 0), YK_LOSS_MEAN), NULL));
    assert_ok(yk_model_forward(
        model, &(yk_batch){.size = 1, .count = 1, .names = names, .tensors = &tensor}));
    assert_ok(yk_model_backward(model));
    yk_tensor grad = yk_model_parameter(model, 0).grad;
    assert_float_equal(yk_model_loss(model), factor, 0);
    assert_float_equal(yk_tensor_get(&grad, 0), factor, 0);
    yk_model_destroy(model);
}

YK_TEST(an_operator_evaluates_in_an_eval_scope_and_so_does_its_gradient)
{
    expect_factor(false, 2);
    expect_factor(true, 1);
}

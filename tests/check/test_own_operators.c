/* Operators of programs (<yoke/operator.h>): what a program declares works in a model as a built-in
 * operator does, what is declared wrongly is an error, and yk_operator_check finds wrong ones. */
#include <math.h>
#include <string.h>

#include <yoke/yoke.h>

#include "harness.h"
#include "rows.h"

/* ---- cube: y = alpha x^3, whose gradient is built from built-in operators and from `square` - */

typedef struct scale_attributes {
    double alpha;
} scale_attributes;

static double alpha_of(const yk_operator_run *run)
{
    return ((const scale_attributes *)run->attributes)->alpha;
}

static yk_status square_run(const yk_operator_run *run)
{
    for (int64_t i = 0; i < yk_tensor_count(&run->inputs[0]); i++) {
        double x = yk_tensor_get(&run->inputs[0], i);
        yk_tensor_set(&run->outputs[0], i, alpha_of(run) * x * x);
    }
    return YK_OK;
}

static yk_status cube_run(const yk_operator_run *run)
{
    for (int64_t i = 0; i < yk_tensor_count(&run->inputs[0]); i++) {
        double x = yk_tensor_get(&run->inputs[0], i);
        yk_tensor_set(&run->outputs[0], i, alpha_of(run) * x * x * x);
    }
    return YK_OK;
}

static const yk_operator_kernel square_kernel = {.size = sizeof(yk_operator_kernel),
                                                 .run = square_run};
static const yk_operator square = {.size = sizeof(yk_operator),
                                   .name = "square",
                                   .input_count = 1,
                                   .output_count = 1,
                                   .inputs = {{.name = "input", .is_activation = true}},
                                   .attributes = sizeof(scale_attributes),
                                   .ref = &square_kernel};

static yk_status cube_gradient(const yk_operator_node *node, yk_value *const *dy, const bool *needs,
                               yk_value **dx)
{
    scale_attributes slope = *(const scale_attributes *)node->attributes;
    slope.alpha *= 3;
    yk_value *x = node->inputs[0];
    if (needs[0])
        dx[0] = yk_multiply(dy[0], yk_operator_apply(&square, &slope, &x, NULL));
    return YK_OK;
}

static const yk_operator_kernel cube_kernel = {
    .size = sizeof(yk_operator_kernel), .run = cube_run, .in_place = true, .elementwise = true};
static const yk_operator cube = {.size = sizeof(yk_operator),
                                 .name = "cube",
                                 .input_count = 1,
                                 .output_count = 1,
                                 .inputs = {{.name = "input", .is_activation = true}},
                                 .attributes = sizeof(scale_attributes),
                                 .gradient = cube_gradient,
                                 .ref = &cube_kernel,
                                 .cpu = &cube_kernel};

static yk_value *apply_cube(const yk_operator *op, yk_value *x)
{
    return yk_operator_apply(op, &(scale_attributes){0.5}, &x, NULL);
}

/* `data` is the operator: a correct or a wrong cube. */
static yk_value *build_cube(yk_graph *graph, yk_dtype dtype, const void *data)
{
    return apply_cube(data, yk_input(graph, "x", dtype, 4, (int64_t[]){2, 18, 3, 5}));
}

static yk_status check(const yk_operator *op)
{
    return yk_operator_check(build_cube, YK_WITH(yk_operator_check_options,
                                                 YK_OPERATOR_CHECK_OPTIONS_INIT, o.data = op));
}

YK_TEST(a_correct_operator_passes)
{
    assert_ok(check(&cube));
}

/* The kernel sees row-major tensors where it does not work element by element. */
YK_TEST(an_operator_that_needs_row_major_order_passes)
{
    yk_operator_kernel plain = cube_kernel;
    plain.elementwise = false;
    yk_operator op = cube;
    op.cpu = &plain;
    assert_ok(check(&op));
}

/* ---- what the check finds -------------------------------------------------------------------- */

static void finds(const yk_operator *op, const char *words)
{
    assert_int_not_equal(check(op), YK_OK);
    assert_contains(yk_last_error(), words);
}

static yk_status wrong_gradient(const yk_operator_node *node, yk_value *const *dy,
                                const bool *needs, yk_value **dx)
{
    yk_status status = cube_gradient(node, dy, needs, dx);
    dx[0] = yk_scale(dx[0], 1.01);
    return status;
}

static yk_status leaves_one(const yk_operator_run *run)
{
    yk_tensor x = run->inputs[0], y = run->outputs[0];
    yk_operator_run shorter = *run;
    shorter.inputs = &x;
    shorter.outputs = &y;
    x.ndim = y.ndim = 1;
    x.dims[0] = y.dims[0] = yk_tensor_count(&run->inputs[0]) - 1;
    return cube_run(&shorter);
}

static yk_status writes_input(const yk_operator_run *run)
{
    yk_status status = cube_run(run);
    yk_tensor_set(&run->inputs[0], 0, 7);
    return status;
}

/* Reads the first element after it has written the first output. */
static yk_status not_in_place(const yk_operator_run *run)
{
    yk_status status = cube_run(run);
    double first = yk_tensor_get(&run->inputs[0], 0);
    yk_tensor_set(&run->outputs[0], 0, alpha_of(run) * first * first * first);
    return status;
}

static yk_status only_f32(const yk_operator_run *run)
{
    for (int64_t i = 0; i < yk_tensor_count(&run->inputs[0]); i++) {
        float x = ((const float *)run->inputs[0].data)[i];
        ((float *)run->outputs[0].data)[i] = (float)alpha_of(run) * x * x * x;
    }
    return YK_OK;
}

static void finds_kernel(yk_status (*run)(const yk_operator_run *run), const char *words)
{
    yk_operator_kernel kernel = cube_kernel;
    yk_operator op = cube;
    kernel.run = run;
    op.cpu = &kernel;
    finds(&op, words);
}

static yk_status silent_gradient(const yk_operator_node *node, yk_value *const *dy,
                                 const bool *needs, yk_value **dx)
{
    (void)node, (void)dy, (void)needs, (void)dx;
    return YK_ERROR_UNSUPPORTED;
}

static yk_status silent_shape(const yk_operator_node *node, yk_tensor *outputs)
{
    (void)node, (void)outputs;
    return YK_ERROR_UNSUPPORTED;
}

static yk_status silent_run(const yk_operator_run *run)
{
    (void)run;
    return YK_ERROR_UNSUPPORTED;
}

/* An error of an earlier call is not taken for theirs. */
YK_TEST(a_function_that_fails_without_a_reason_is_named)
{
    yk_operator op = cube;
    yk_set_error(YK_ERROR_IO, "an earlier error");
    op.gradient = silent_gradient;
    finds(&op, "cube: gradient: the program's function failed without yk_set_error: not supported");
    op = cube;
    op.shape = silent_shape;
    finds(&op, "cube: the program's shape() failed without yk_set_error: not supported");
    finds_kernel(silent_run,
                 "operator cube: the program's run() failed without yk_set_error: not supported");
}

static yk_status no_gradient(const yk_operator_node *node, yk_value *const *dy, const bool *needs,
                             yk_value **dx)
{
    (void)node, (void)dy, (void)needs, (void)dx;
    return YK_OK;
}

static yk_status leaves_last(const yk_operator_run *run)
{
    for (int64_t i = 0; i + 1 < yk_tensor_count(&run->inputs[0]); i++)
        yk_tensor_set(&run->outputs[0], i, alpha_of(run) * pow(yk_tensor_get(run->inputs, i), 3));
    return YK_OK;
}

YK_TEST(a_reference_that_leaves_an_element_is_found)
{
    yk_operator_kernel kernel = {.size = sizeof kernel, .run = leaves_last};
    yk_operator op = cube;
    op.ref = &kernel;
    finds(&op, "cube, or the gradient of its input 0, has elements that are NaN or that its kernel "
               "has not written");
}

YK_TEST(a_wrong_operator_is_found)
{
    yk_operator op = cube;
    op.gradient = wrong_gradient;
    finds(&op, "the gradient of cube's input 0 differs by");
    op.gradient = no_gradient;
    finds(&op, "the gradient function of cube gives no input a gradient");
    op.gradient = NULL;
    finds(&op, "cube has no gradient");
    finds_kernel(leaves_one, "cube, output 0 differs by");
    finds_kernel(writes_input, "cube writes into input 0");
    finds_kernel(not_in_place, "cube in the place of input 0 gives another output 0");
}

/* ---- a sum that cancels ---------------------------------------------------------------------- */

/* The numbers that the check draws for them add up to 0.0164: in f32 no digit after the fourth is
 * right. */
enum { TERMS = 517 };

static yk_status shape_of_total(const yk_operator_node *node, yk_tensor *outputs)
{
    (void)node;
    outputs[0].dims[1] = 1;
    return YK_OK;
}

static yk_status total_run(const yk_operator_run *run)
{
    double sum = 0;
    for (int64_t i = 0; i < TERMS; i++)
        sum += yk_tensor_get(&run->inputs[0], i);
    yk_tensor_set(&run->outputs[0], 0, sum);
    return YK_OK;
}

static yk_status total_in_f32(const yk_operator_run *run)
{
    float sum = 0;
    for (int64_t i = 0; i < TERMS; i++)
        sum += (float)yk_tensor_get(&run->inputs[0], i);
    yk_tensor_set(&run->outputs[0], 0, sum);
    return YK_OK;
}

static yk_status total_without_a_term(const yk_operator_run *run)
{
    yk_status status = total_in_f32(run);
    double sum = yk_tensor_get(&run->outputs[0], 0) - yk_tensor_get(&run->inputs[0], TERMS - 1);
    yk_tensor_set(&run->outputs[0], 0, sum);
    return status;
}

static bool is_f32(const yk_operator_run *run)
{
    return run->inputs[0].dtype == YK_F32;
}

static yk_value *build_total(yk_graph *graph, yk_dtype dtype, const void *data)
{
    yk_value *x = yk_input(graph, "x", dtype, 2, (int64_t[]){1, TERMS});
    return yk_operator_apply(data, NULL, &x, NULL);
}

/* Only in f32 on cpu. */
static yk_status check_total(yk_status (*run)(const yk_operator_run *run))
{
    const yk_operator_kernel ref = {.size = sizeof ref, .run = total_run};
    const yk_operator_kernel cpu = {.size = sizeof cpu, .run = run, .supports = is_f32};
    const yk_operator total = {.size = sizeof total,
                               .name = "total",
                               .input_count = 1,
                               .output_count = 1,
                               .inputs = {{.name = "input", .is_activation = true}},
                               .autocast = YK_AUTOCAST_FULL,
                               .shape = shape_of_total,
                               .ref = &ref,
                               .cpu = &cpu};
    return yk_operator_check(build_total,
                             YK_WITH(yk_operator_check_options, YK_OPERATOR_CHECK_OPTIONS_INIT,
                                     o.data = &total, o.gradient = false, o.empty_batch = false));
}

YK_TEST(rounding_of_terms_that_cancel_passes)
{
    assert_ok(check_total(total_in_f32));
}

YK_TEST(a_sum_without_a_term_is_found_where_terms_cancel)
{
    assert_int_not_equal(check_total(total_without_a_term), YK_OK);
    assert_contains(yk_last_error(), "total, output 0 differs by");
}

/* ---- batches without samples ----------------------------------------------------------------- */

static yk_status shape_of_many(const yk_operator_node *node, yk_tensor *outputs)
{
    (void)node;
    return outputs[0].dims[0] > 1 ? YK_OK
                                  : yk_set_error(YK_ERROR_INVALID_SHAPE, "expected samples");
}

YK_TEST(a_shape_rule_that_wants_a_number_of_samples_is_found)
{
    yk_operator op = cube;
    op.shape = shape_of_many;
    finds(&op, "cube, whose inputs begin with YK_BATCH: expected samples");
    yk_operator_check_options options = YK_OPERATOR_CHECK_OPTIONS_INIT;
    options.data = &op;
    options.empty_batch = false;
    assert_ok(yk_operator_check(build_cube, &options));
}

/* y = w^2 for whatever samples: what should be a sum over them is not. */
static yk_status penalty_run(const yk_operator_run *run)
{
    for (int64_t i = 0; i < yk_tensor_count(&run->inputs[0]); i++)
        yk_tensor_set(&run->outputs[0], i, pow(yk_tensor_get(&run->inputs[0], i), 2));
    return YK_OK;
}

static yk_status penalty_gradient(const yk_operator_node *node, yk_value *const *dy,
                                  const bool *needs, yk_value **dx)
{
    if (needs[0])
        dx[0] = yk_multiply(dy[0], yk_scale(node->inputs[0], 2));
    return YK_OK;
}

static yk_value *build_penalty(yk_graph *graph, yk_dtype dtype, const void *data)
{
    static const yk_operator_kernel kernel = {.size = sizeof(yk_operator_kernel),
                                              .run = penalty_run};
    static const yk_operator penalty = {.size = sizeof(yk_operator),
                                        .name = "penalty",
                                        .input_count = 2,
                                        .output_count = 1,
                                        .inputs = {{.name = "weight"}, {.name = "labels"}},
                                        .gradient = penalty_gradient,
                                        .ref = &kernel};
    (void)data;
    yk_value *weight = yk_parameter(graph, "weight", dtype, 1, (int64_t[]){3}, YK_INIT_ONES, 0);
    yk_value *labels = yk_input(graph, "labels", YK_I32, 1, (int64_t[]){4});
    return yk_operator_apply(&penalty, NULL, (yk_value *[]){weight, labels}, NULL);
}

YK_TEST(a_gradient_without_samples_that_is_not_zero_is_found)
{
    assert_int_not_equal(yk_operator_check(build_penalty, NULL), YK_OK);
    assert_contains(yk_last_error(), "without samples, the gradient of penalty's input 0 holds ");
    assert_contains(yk_last_error(), "; expected zeros");
}

YK_TEST(a_check_without_a_case_is_refused)
{
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_operator_check(NULL, NULL));
    assert_string_equal(yk_last_error(), "yoke: yk_operator_check: build is NULL");
}

static yk_value *build_without_size(yk_graph *graph, yk_dtype dtype, const void *data)
{
    return apply_cube(data, yk_input(graph, "x", dtype, 2, (int64_t[]){YK_BATCH, 3}));
}

YK_TEST(a_case_with_any_number_of_samples_is_refused)
{
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_operator_check(build_without_size,
                                    YK_WITH(yk_operator_check_options,
                                            YK_OPERATOR_CHECK_OPTIONS_INIT, o.data = &cube)));
    assert_contains(yk_last_error(), "the case's input x begins with YK_BATCH");
}

/* Without supports(), a kernel gets every dtype. Its memory is large enough here for f32. */
static yk_status f32_whatever_it_is(const yk_operator_run *run)
{
    if (run->inputs[0].dtype == YK_F32 || run->inputs[0].dtype == YK_F64)
        return only_f32(run);
    return yk_set_error(YK_ERROR_UNSUPPORTED, "only_f32 was given %s",
                        yk_dtype_name(run->inputs[0].dtype));
}

YK_TEST(a_kernel_that_forgets_a_dtype_is_found)
{
    finds_kernel(f32_whatever_it_is, "cpu in float64: cube, output 0 differs by");
}

/* ---- declarations ---------------------------------------------------------------------------- */

static void refuses(const yk_operator *op, const char *words)
{
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "x", YK_F32, 2, (int64_t[]){YK_BATCH, 3}), *outputs[4] = {x};
    yk_model *model;
    yk_value *y = yk_operator_apply(op, &(scale_attributes){2}, &x, outputs);
    assert_int_not_equal(yk_model_create(&model, yk_mse_loss(y, x, YK_LOSS_MEAN), NULL), YK_OK);
    assert_contains(yk_last_error(), words);
    assert_ptr_equal(outputs[0], y);
    yk_graph_destroy(graph);
}

static yk_status shape_without_dtype(const yk_operator_node *node, yk_tensor *outputs)
{
    (void)node;
    outputs[0].dtype = (yk_dtype)99;
    return YK_OK;
}

static yk_status shape_refuses(const yk_operator_node *node, yk_tensor *outputs)
{
    (void)node, (void)outputs;
    return yk_set_error(YK_ERROR_INVALID_SHAPE, "expected 3 dimensions");
}

YK_TEST(wrong_declarations_are_errors)
{
    yk_operator op = cube;
    op.size = 0;
    refuses(&op, "its size is 0; initialise the struct with size = sizeof(yk_operator)");
    op = cube;
    op.name = "Cube 3";
    refuses(&op, "an operator is named \"Cube 3\"");
    op.name = "relu";
    refuses(&op, "operator relu: there is a built-in operator of that name");
    op = cube;
    op.input_count = 9;
    refuses(&op, "operator cube has 9 inputs and 1 outputs, expected 1 to 8 and 1 to 4");
    op = cube;
    op.ref = NULL;
    refuses(&op, "operator cube has no kernel for ref");
    yk_operator_kernel none = {.size = sizeof none};
    op.ref = &none;
    refuses(&op, "operator cube: its kernel for ref has no run()");
    op = cube;
    op.attributes = 0;
    refuses(&op, "it has no attributes, but was given some");
    op = cube;
    op.shape = shape_without_dtype;
    refuses(&op, "cube: the shape rule gives output 0 no valid shape and dtype");
    op.shape = shape_refuses;
    refuses(&op, "cube: expected 3 dimensions");
}

YK_TEST(two_operators_of_one_name_in_a_graph_are_an_error)
{
    yk_graph *graph = yk_graph_create();
    yk_operator other = cube;
    yk_value *x = yk_input(graph, "x", YK_F32, 2, (int64_t[]){YK_BATCH, 3});
    yk_value *y = apply_cube(&other, apply_cube(&cube, apply_cube(&cube, x)));
    yk_model *model;
    assert_int_not_equal(yk_model_create(&model, yk_mse_loss(y, x, YK_LOSS_MEAN), NULL), YK_OK);
    assert_contains(yk_last_error(), "operator cube: the graph has another operator of that name");
    yk_graph_destroy(graph);
}

/* ---- in a model ------------------------------------------------------------------------------ */

typedef yk_value *(*activation)(yk_value *x);

/* 0.5 x^3 out of built-in operators. */
static yk_value *built_in_cube(yk_value *x)
{
    return yk_scale(yk_multiply(x, yk_multiply(x, x)), 0.5);
}

static yk_value *own_cube(yk_value *x)
{
    return apply_cube(&cube, x);
}

/* The loss, and the gradients of a linear layer before the activation. */
static double train(activation function, const char *device, yk_amp amp, float *gradients)
{
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "x", YK_F32, 2, (int64_t[]){YK_BATCH, COLUMNS});
    yk_value *y = function(yk_nn_linear(function(yk_nn_linear(x, "a", COLUMNS)), "b", COLUMNS));
    yk_model *model;
    assert_ok(yk_model_create(&model, yk_mse_loss(y, x, YK_LOSS_MEAN),
                              YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.device = device,
                                      o.amp = amp, o.seed = 3)));
    assert_ok(yk_model_forward(model, &batch));
    assert_ok(yk_model_backward(model));
    yk_parameter_view weight = yk_model_parameter(model, 0);
    memcpy(gradients, weight.grad.data, sizeof(float) * COLUMNS * COLUMNS);
    double loss = yk_model_loss(model);
    yk_model_destroy(model);
    return loss;
}

static void trains_alike(const char *device, yk_amp amp, double tolerance)
{
    float mine[COLUMNS * COLUMNS], theirs[COLUMNS * COLUMNS];
    double own = train(own_cube, device, amp, mine);
    double expected = train(built_in_cube, device, amp, theirs), error = 0, norm = 0;
    assert_true(fabs(own - expected) <= tolerance * fabs(expected));
    for (int i = 0; i < COLUMNS * COLUMNS; i++) {
        error += pow((double)mine[i] - theirs[i], 2);
        norm += pow((double)theirs[i], 2);
    }
    assert_true(norm > 0);
    assert_true(sqrt(error) <= tolerance * sqrt(norm));
}

YK_TEST(an_operator_trains_as_built_in_ones_do)
{
    trains_alike("cpu", YK_AMP_OFF, 1e-5);
    trains_alike("ref", YK_AMP_OFF, 1e-5);
}

/* Gradient rules meet values of 16 bit there. */
YK_TEST(an_operator_trains_under_autocast)
{
    trains_alike("cpu", YK_AMP_BF16, 3e-2);
    trains_alike("cpu", YK_AMP_FP16, 4e-3);
}

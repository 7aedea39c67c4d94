/* What a program may get wrong with graphs and models: an error each, never a crash or a hang. */
#include <limits.h>
#include <math.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <yoke/networks.h>
#include <yoke/nn.h>

#include "graph/graph.h"
#include "harness.h"

static yk_value *input(yk_graph *graph, const char *name)
{
    return yk_input(graph, name, YK_F32, 2, (int64_t[]){YK_BATCH, 4});
}

static yk_model *make_model(int threads, yk_value **output)
{
    yk_graph *graph = yk_graph_create();
    yk_value *y = yk_nn_linear(input(graph, "x"), "fc", 3);
    yk_value *labels = yk_input(graph, "labels", YK_I32, 1, (int64_t[]){YK_BATCH});
    yk_model *model;
    assert_ok(
        yk_model_create(&model, yk_cross_entropy(y, labels, NULL),
                        YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.threads = threads)));
    if (output)
        *output = y;
    return model;
}

static float data[8] = {1, 2, 3, 4, 5, 6, 7, 8};
static int32_t classes[2] = {0, 2};
static const char *const names[] = {"x", "labels"};
static const yk_tensor tensors[] = {{.data = data, .dtype = YK_F32, .ndim = 2, .dims = {2, 4}},
                                    {.data = classes, .dtype = YK_I32, .ndim = 1, .dims = {2}}};
static const yk_batch batch = {.size = 2, .count = 2, .names = names, .tensors = tensors};

static void assert_no_model(yk_value *loss, const char *words)
{
    yk_model *model = (yk_model *)&batch;
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_model_create(&model, loss, NULL));
    assert_null(model);
    assert_contains(yk_last_error(), words);
}

YK_TEST(operators_on_null_give_an_invalid_value)
{
    yk_graph *graph = yk_graph_create();
    yk_value *x = input(graph, "x");
    yk_value *const wrong[] = {
        yk_relu(NULL),
        yk_gelu(NULL),
        yk_relu6(NULL),
        yk_sigmoid(NULL),
        yk_silu(NULL),
        yk_tanh(NULL),
        yk_leaky_relu(NULL, 0.2),
        yk_elu(NULL, 1),
        yk_sin(NULL),
        yk_cos(NULL),
        yk_scaled_dot_product_attention(NULL, NULL, NULL, NULL),
        yk_embedding(NULL, NULL),
        yk_permute(NULL, 2, (int64_t[]){0, 1}),
        yk_slice(NULL, 1, 0, 1),
        yk_pad(NULL, 1, 1, 0),
        yk_pad(NULL, 1, -1, 0),
        yk_hardswish(NULL),
        yk_softmax(NULL),
        yk_log_softmax(NULL),
        yk_concat(NULL, 2, 1),
        yk_subtract(NULL, NULL),
        yk_maximum(NULL, NULL),
        yk_minimum(NULL, NULL),
        yk_greater(NULL, NULL),
        yk_greater_equal(NULL, NULL),
        yk_less(NULL, NULL),
        yk_less_equal(NULL, NULL),
        yk_equal(NULL, NULL),
        yk_masked_fill(NULL, NULL, 0),
        yk_where(NULL, NULL, NULL),
        yk_full_like(NULL, 1),
        yk_multiply(NULL, NULL),
        yk_divide(NULL, NULL),
        yk_exp(NULL),
        yk_log(NULL),
        yk_abs(NULL),
        yk_pow(NULL, 2),
        yk_sqrt(NULL),
        yk_clamp(NULL, 0, 1),
        yk_add_scalar(NULL, 1),
        yk_layer_norm(NULL, NULL, NULL, 1e-5),
        yk_rms_norm(NULL, NULL, 1e-5),
        yk_rotary_embedding(NULL, NULL),
        yk_lstm_cell(NULL, NULL, NULL, NULL),
        yk_gru_cell(NULL, NULL, NULL),
        yk_group_norm(NULL, 1, NULL, NULL, 1e-5),
        yk_scale(NULL, 2),
        yk_flatten(NULL),
        yk_reshape(NULL, 2, (int64_t[]){YK_BATCH, 1}),
        yk_dropout(NULL, 0.5),
        yk_add(NULL, NULL),
        yk_linear(NULL, NULL, NULL),
        yk_matmul(NULL, NULL),
        yk_conv2d(NULL, NULL, NULL, NULL),
        yk_conv2d(NULL, NULL, NULL, YK_WITH(yk_conv2d_options, YK_CONV2D_OPTIONS_INIT, o.size = 0)),
        yk_conv_transpose2d(NULL, NULL, NULL, NULL),
        yk_max_pool2d(NULL, 2, 2, 0),
        yk_global_avg_pool2d(NULL),
        yk_mean(NULL, 1),
        yk_mean(NULL, 0),
        yk_randn_like(NULL),
        yk_sum(NULL, 1),
        yk_amax(NULL, 1),
        yk_interpolate(NULL, 2, 2, NULL),
        yk_amin(NULL, 0),
        yk_sum(NULL, 0),
        yk_reduce_loss(NULL, YK_LOSS_MEAN),
        yk_batch_norm(NULL, NULL, NULL, NULL, NULL, NULL),
        yk_cross_entropy(NULL, NULL, NULL),
        yk_mse_loss(NULL, NULL, YK_LOSS_MEAN),
        yk_l1_loss(NULL, NULL, YK_LOSS_MEAN),
        yk_smooth_l1_loss(NULL, NULL, 1, YK_LOSS_MEAN),
        yk_huber_loss(NULL, NULL, 1, YK_LOSS_MEAN),
        yk_huber_loss(NULL, NULL, 0, YK_LOSS_MEAN),
        yk_binary_cross_entropy_with_logits(NULL, NULL, NULL),
        yk_nn_conv2d(NULL, "conv", 3, 3, NULL),
        yk_nn_conv_transpose2d(NULL, "up", 3, 3, NULL),
        yk_nn_conv_transpose2d_bias(NULL, "up", 3, 3, NULL),
        yk_nn_conv1d(NULL, "conv", 3, 3, NULL),
        yk_nn_conv1d_bias(NULL, "conv", 3, 3, NULL),
        yk_nn_conv_transpose1d(NULL, "up", 3, 3, NULL),
        yk_nn_conv_transpose1d_bias(NULL, "up", 3, 3, NULL),
        yk_nn_linear(NULL, NULL, 3),
        yk_nn_batch_norm(NULL, "norm"),
        yk_resnet18_cifar(NULL, 10),
        yk_mlp(NULL, 10),
        yk_input(NULL, "x", YK_F32, 0, NULL),
        yk_parameter(NULL, "p", YK_F32, 0, NULL, 0, 0)};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_non_null(wrong[i]);
        assert_int_equal(yk_value_shape(wrong[i], NULL), -1);
        assert_no_model(wrong[i], "NULL");
    }
    assert_no_model(NULL, "there is no loss, and options.logits is NULL");
    assert_int_equal(yk_value_shape(NULL, NULL), -1);
    assert_null(yk_value_graph(NULL));
    yk_scope_push(NULL, "scope");
    yk_scope_pop(NULL);
    assert_no_model(yk_add(x, NULL), "add: the value for the right side is NULL");
    yk_graph_destroy(graph);
}

YK_TEST(options_without_a_size_name_the_operator)
{
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "x", YK_F32, 3, (int64_t[]){YK_BATCH, 4, 6});
    assert_no_model(yk_rotary_embedding(x, YK_WITH(yk_rotary_embedding_options,
                                                   YK_ROTARY_EMBEDDING_OPTIONS_INIT, o.size = 0)),
                    "rotary_embedding: ");
    yk_graph_destroy(graph);
}

YK_TEST(what_follows_from_null_is_named_where_it_meets_a_graph)
{
    yk_graph *graph = yk_graph_create();
    yk_value *x = input(graph, "x");
    yk_scope_push(graph, "block");
    assert_no_model(
        yk_add(x, yk_relu(NULL)),
        "block.add: the value for the right side follows from a value or graph that was NULL");
    yk_graph_destroy(graph);
    graph = yk_graph_create();
    x = input(graph, "x");
    yk_scope_push(graph, "block");
    assert_no_model(yk_concat((yk_value *[]){x, NULL, x}, 3, 1),
                    "block.concat: value 2 of 3 is NULL");
    yk_graph_destroy(graph);
    graph = yk_graph_create();
    x = input(graph, "x");
    assert_no_model(yk_concat(&x, 0, 1), "from the concat or stack of no values");
    yk_graph_destroy(graph);
}

YK_TEST(null_names_and_dims_stick)
{
    yk_graph *graph = yk_graph_create();
    assert_no_model(yk_input(graph, NULL, YK_F32, 0, NULL), "the name of a value is NULL");
    yk_graph_destroy(graph);
    graph = yk_graph_create();
    assert_no_model(yk_input(graph, "x", YK_F32, 1, NULL), "x: dims is NULL");
    yk_graph_destroy(graph);
    graph = yk_graph_create();
    assert_no_model(yk_nn_linear(input(graph, "x"), NULL, 3), "the name of a scope is NULL");
    yk_graph_destroy(graph);
    graph = yk_graph_create();
    assert_no_model(yk_input(graph, "x", YK_F32, 7, (int64_t[7]){1, 1, 1, 1, 1, 1, 1}),
                    "x: expected 0 to 6 dimensions, not 7");
    yk_graph_destroy(graph);
}

YK_TEST(pops_without_a_push_stick)
{
    yk_graph *graph = yk_graph_create();
    yk_scope_push(graph, "encoder");
    yk_scope_pop(graph);
    yk_scope_pop(graph);
    assert_no_model(input(graph, "x"), "yk_scope_pop without a yk_scope_push before it");
    yk_graph_destroy(graph);
    graph = yk_graph_create();
    yk_eval_pop(graph);
    assert_no_model(input(graph, "x"), "yk_eval_pop without a yk_eval_push before it");
    yk_graph_destroy(graph);
}

YK_TEST(a_graph_that_a_model_owns_takes_nothing_more)
{
    yk_value *output;
    yk_model *model = make_model(1, &output);
    yk_graph *graph = yk_value_graph(output);
    yk_value *const late[] = {yk_relu(output), input(graph, "late"),
                              yk_nn_linear(output, "late", 2)};
    for (size_t i = 0; i < sizeof late / sizeof *late; i++) {
        assert_int_equal(yk_value_shape(late[i], NULL), -1);
        assert_no_model(late[i], "belongs to another model already");
    }
    yk_graph_destroy(graph); /* the model's: nothing happens */
    assert_ok(yk_model_forward(model, &batch));
    assert_ok(yk_model_backward(model));
    yk_model_destroy(model);
}

YK_TEST(batches_with_missing_parts_are_refused)
{
    yk_model *model = make_model(1, NULL);
    yk_tensor empty[] = {tensors[0], tensors[1]};
    empty[1].data = NULL;
    const char *const unnamed[] = {NULL, "labels"};
    const struct {
        yk_batch batch;
        const char *words;
    } wrong[] = {{{.size = 2, .count = 2, .tensors = tensors}, "NULL"},
                 {{.size = 2, .count = 2, .names = names}, "NULL"},
                 {{.size = 2, .count = 2, .names = unnamed, .tensors = tensors},
                  "no tensor \"x\": it has \"\", \"labels\""},
                 {{.size = 2, .count = 2, .names = names, .tensors = empty}, "\"labels\""},
                 {{.size = INT64_MIN, .count = 2, .names = names, .tensors = tensors}, "samples"},
                 {{.size = 2}, "no tensor \"x\": it has none"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_status(YK_ERROR_INVALID_ARGUMENT, yk_model_forward(model, &wrong[i].batch));
        assert_contains(yk_last_error(), wrong[i].words);
    }
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_model_forward(model, NULL));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_model_forward(NULL, &batch));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_model_backward(NULL));
    assert_null(yk_model_parameter(model, 2).name);
    assert_null(yk_model_parameter(model, SIZE_MAX).value.data);
    assert_null(yk_model_buffer(model, 0).name);
    yk_model_destroy(model);
}

YK_TEST(a_batch_that_does_not_fit_is_described)
{
    yk_model *model = make_model(1, NULL);
    yk_tensor columns[] = {tensors[0], tensors[1]};
    columns[1].ndim = 2;
    columns[1].dims[1] = 1;
    const yk_batch two = {.size = 2, .count = 2, .names = names, .tensors = columns};
    assert_status(YK_ERROR_INVALID_SHAPE, yk_model_forward(model, &two));
    assert_contains(yk_last_error(), "\"labels\" does not fit: expected (N) int32 with N = 2, not "
                                     "(2, 1) int32");
    yk_model_destroy(model);
}

YK_TEST(absurd_numbers_of_threads_are_refused)
{
    static const int wrong[] = {INT_MAX, INT_MIN, 0, -2, 1025};
    yk_model *model;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        yk_graph *graph = yk_graph_create();
        yk_value *x = input(graph, "x");
        yk_model_options options = YK_MODEL_OPTIONS_INIT;
        options.threads = wrong[i];
        assert_status(YK_ERROR_INVALID_ARGUMENT,
                      yk_model_create(&model, yk_mse_loss(x, x, YK_LOSS_MEAN), &options));
        assert_null(model);
        assert_contains(yk_last_error(), "expected 1 to 1024");
        yk_graph_destroy(graph);
    }
}

YK_TEST(models_that_are_null_hold_nothing)
{
    yk_tensor output;
    yk_memory_plan plan;
    yk_model_train(NULL);
    yk_model_eval(NULL);
    yk_model_zero_grad(NULL);
    yk_model_parameters_changed(NULL);
    yk_model_set_forwards(NULL, 1);
    yk_model_set_accumulation(NULL, YK_ACCUMULATION_MEAN);
    assert_true(isnan(yk_model_loss(NULL)));
    assert_int_equal(yk_model_parameter_count(NULL), 0);
    assert_int_equal(yk_model_buffer_count(NULL), 0);
    assert_int_equal(yk_model_parameter_elements(NULL), 0);
    assert_int_equal(yk_model_forwards(NULL), 0);
    assert_null(yk_model_parameter(NULL, 0).name);
    assert_null(yk_model_buffer(NULL, 0).name);
    assert_null(yk_model_device_description(NULL));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_model_output(NULL, &output));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_model_memory_plan(NULL, 1, &plan));
    assert_int_equal(yk_tensor_count(NULL), 0);
    assert_int_equal(yk_tensor_bytes(NULL), 0);
}

/* The exit code of a child that runs the model: the status of its forward. */
static int forward_in_child(yk_model *model)
{
    pid_t pid = yk_test_fork();
    if (pid == 0)
        _exit((int)yk_model_forward(model, &batch));
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

YK_TEST(a_forked_child_is_told_that_threads_do_not_exist_there)
{
    yk_model *two = make_model(2, NULL), *one = make_model(1, NULL);
    assert_int_equal(forward_in_child(two), YK_OK); /* nothing has run on threads yet */
    assert_ok(yk_model_forward(two, &batch));
    assert_int_equal(forward_in_child(two), YK_ERROR_UNSUPPORTED);
    assert_int_equal(forward_in_child(one), YK_OK);
    assert_ok(yk_model_forward(two, &batch)); /* the parent continues */
    yk_model_destroy(one);
    yk_model_destroy(two);
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* More than a process can address: nothing is read. */
YK_TEST(a_step_without_memory_says_how_much_it_needs)
{
    enum { WIDTH = 1 << 14 };
    static double row[WIDTH];
    static const char *const name = "x";
    const int64_t samples = INT64_C(1) << 30;
    yk_model *model;
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, name, YK_F64, 2, (int64_t[]){YK_BATCH, WIDTH});
    yk_value *logits = yk_relu(x);
    assert_ok(yk_model_create(
        &model, NULL,
        YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.device = "ref", o.logits = logits)));
    yk_model_eval(model);
    yk_tensor tensor = {.data = row, .dtype = YK_F64, .ndim = 2, .dims = {samples, WIDTH}};
    yk_batch huge = {.size = samples, .count = 1, .names = &name, .tensors = &tensor};
    assert_status(YK_ERROR_OUT_OF_MEMORY, yk_model_forward(model, &huge));
    assert_int_equal(strncmp(yk_last_error(), "yoke: out of memory: ", 21), 0);
    assert_contains(yk_last_error(), "; with a batch of 1073741824 samples, a step needs ");
    assert_contains(yk_last_error(), " MiB besides parameters, gradients and packed weights: try a "
                                     "smaller batch");
    yk_model_destroy(model);
}

/* ---- what a model can be made of ------------------------------------------------------------- */

static void assert_not_of(yk_value *loss, const char *device, yk_value *logits, const char *words)
{
    yk_model *model;
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_model_create(&model, loss,
                                  YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT,
                                          o.device = device, o.logits = logits)));
    assert_null(model);
    assert_contains(yk_last_error(), words);
}

YK_TEST(loss_and_logits_are_floats)
{
    yk_graph *graph = yk_graph_create();
    yk_value *number = yk_buffer(graph, "n", YK_I64, 0, NULL, YK_INIT_ONES);
    yk_value *x = input(graph, "x"), *loss = yk_mse_loss(x, x, YK_LOSS_MEAN);
    assert_not_of(number, "ref", NULL, "the loss is int64, expected float32 or float64");
    assert_not_of(loss, "ref", number, "options.logits is int64, expected float32 or float64");
    assert_not_of(NULL, "ref", number, "options.logits is int64, expected float32 or float64");
    assert_not_of(loss, "ref", yk_relu(NULL), "options.logits is NULL, or follows from");
    yk_graph_destroy(graph);
}

/* Gradients of other dtypes would be read as f32 beyond their ends. */
YK_TEST(only_floats_are_trained)
{
    yk_model *model;
    yk_graph *graph = yk_graph_create();
    yk_value *x = input(graph, "x"), *loss = yk_mse_loss(x, x, YK_LOSS_MEAN);
    yk_scope_push(graph, "table");
    yk_parameter(graph, "codes", YK_U8, 1, (int64_t[]){1000}, YK_INIT_ZEROS, 0);
    yk_scope_pop(graph);
    assert_not_of(loss, "cpu", NULL,
                  "parameter table.codes is uint8, but only float32 and float64 are trained");
    assert_ok(yk_graph_set_trainable(graph, "table.codes", false, NULL));
    assert_ok(yk_model_create(&model, loss, NULL));
    yk_model_destroy(model);
}

YK_TEST(a_graph_of_which_no_model_could_be_made_says_so)
{
    yk_graph *graph = yk_graph_create();
    yk_value *x = input(graph, "x"), *loss = yk_mse_loss(x, x, YK_LOSS_MEAN);
    yk_model *model;
    assert_status(
        YK_ERROR_UNSUPPORTED,
        yk_model_create(&model, loss,
                        YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.device = "cpux")));
    assert_not_of(loss, "cpu", NULL, "making a model of this graph has failed before");
    yk_graph_destroy(graph);
}

YK_TEST(a_push_has_its_pop)
{
    yk_graph *graph = yk_graph_create();
    yk_value *x = input(graph, "x"), *loss = yk_mse_loss(x, x, YK_LOSS_MEAN);
    yk_scope_push(graph, "layer1");
    yk_scope_push(graph, "0");
    assert_not_of(loss, "ref", NULL,
                  "the scope \"layer1.0\" has not ended: its yk_scope_push lacks a yk_scope_pop");
    yk_scope_pop(graph);
    yk_scope_pop(graph);
    yk_scope_push(graph, "");
    assert_not_of(loss, "ref", NULL, "the scope \"\" has not ended");
    yk_scope_pop(graph);
    yk_eval_push(graph);
    assert_not_of(loss, "ref", NULL, "a yk_eval_push lacks its yk_eval_pop");
    yk_graph_destroy(graph);
}

YK_TEST(initial_values_that_cannot_be_drawn_name_their_parameter)
{
    yk_graph *graph = yk_graph_create();
    yk_value *x = input(graph, "x"), *loss = yk_mse_loss(x, x, YK_LOSS_MEAN);
    yk_scope_push(graph, "layer7");
    yk_parameter(graph, "weight", YK_F32, 1, (int64_t[]){3}, (yk_init)99, 0);
    yk_scope_pop(graph);
    assert_not_of(loss, "ref", NULL,
                  "layer7.weight: yk_init 99: expected a value from YK_INIT_ZEROS (0) to "
                  "YK_INIT_KAIMING_UNIFORM_FAN_IN (17)");
    yk_graph_destroy(graph);
}

/*
 * Recurrent layers compute what PyTorch's do. Their weights start with the same bits, so what they
 * compute, and its gradients, can be compared with what PyTorch prints:
 *
 *     torch.manual_seed(7); m = LSTM(3, 4, 2, batch_first=True)
 *     y, _ = m(sin(0.7 arange(18)).reshape(2, 3, 3)); loss = (y ** 2).mean(); loss.backward()
 */
#include <yoke/yoke.h>

#include "graph/graph.h"
#include "graph/recurrent.h"
#include "harness.h"

#include <math.h>

enum { SAMPLES = 2, STEPS = 3, INPUTS = 3, SIZE = 4, WEIGHTS = 8 };

typedef yk_value *(*layer_fn)(yk_value *x, const char *name, int64_t hidden_size,
                              const yk_nn_recurrent_options *options);

typedef struct expectation {
    layer_fn layer;
    float last[WEIGHTS]; /* element of each parameter */
    double loss;
    double outputs[4];      /* [0, 0, 0], [0, 2, 3], [1, 1, 2], [1, 2, 3] */
    double slopes[WEIGHTS]; /* of element 5 of each parameter */
} expectation;

static const expectation lstm = {yk_nn_lstm,
                                 {-0x1.085dap-4F, 0x1.46683p-2F, -0x1.4d634p-2F, -0x1.5271ap-3F,
                                  0x1.c8d3cp-5F, -0x1.852aep-4F, -0x1.ed2408p-2F, 0x1.7abcb8p-2F},
                                 0.02303415,
                                 {0.0116616, 0.1851762, -0.1226958, 0.1851054},
                                 {-0.00012054, -0.00000646, 0.00001401, 0.00001401, 0.00042196,
                                  0.00171860, 0.00478756, 0.00478756}};
static const expectation gru = {yk_nn_gru,
                                {0x1.d63cep-2F, -0x1.62085p-4F, -0x1.6262dcp-2F, -0x1.4a39a8p-3F,
                                 -0x1.f12fp-8F, -0x1.97422p-2F, -0x1.1c074p-4F, -0x1.53e57p-3F},
                                0.05518011,
                                {-0.1314543, -0.2704261, 0.3321672, -0.2708206},
                                {0.00028620, -0.00005089, -0.00050108, -0.00050108, 0.00025623,
                                 -0.00020062, -0.00297027, -0.00297027}};

static yk_model *create(layer_fn layer, const char *device, yk_value **y)
{
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "x", YK_F32, 3, (int64_t[]){YK_BATCH, STEPS, INPUTS});
    yk_value *target = yk_input(graph, "target", YK_F32, 3, (int64_t[]){YK_BATCH, STEPS, SIZE});
    *y = layer(x, "rnn", SIZE,
               YK_WITH(yk_nn_recurrent_options, YK_NN_RECURRENT_OPTIONS_INIT, o.num_layers = 2));
    yk_model *model;
    assert_ok(yk_model_create(&model, yk_mse_loss(*y, target, YK_LOSS_MEAN),
                              YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.device = device,
                                      o.seed = 7, o.outputs = y, o.output_count = 1)));
    return model;
}

static void compare(const expectation *expected, const char *device)
{
    static const char *const parameters[] = {
        "rnn.weight_ih_l0", "rnn.weight_hh_l0", "rnn.bias_ih_l0", "rnn.bias_hh_l0",
        "rnn.weight_ih_l1", "rnn.weight_hh_l1", "rnn.bias_ih_l1", "rnn.bias_hh_l1"};
    static const int64_t places[] = {0, 11, 18, 23};
    float x[SAMPLES * STEPS * INPUTS], target[SAMPLES * STEPS * SIZE] = {0};
    for (int i = 0; i < SAMPLES * STEPS * INPUTS; i++)
        x[i] = (float)sin(0.7 * i);
    const char *const names[] = {"x", "target"};
    const yk_tensor tensors[] = {
        {.data = x, .dtype = YK_F32, .ndim = 3, .dims = {SAMPLES, STEPS, INPUTS}},
        {.data = target, .dtype = YK_F32, .ndim = 3, .dims = {SAMPLES, STEPS, SIZE}}};
    const yk_batch batch = {.size = SAMPLES, .count = 2, .names = names, .tensors = tensors};

    yk_value *y;
    yk_tensor outputs;
    yk_model *model = create(expected->layer, device, &y);
    assert_int_equal(yk_model_parameter_count(model), WEIGHTS);
    for (size_t i = 0; i < WEIGHTS; i++) {
        yk_parameter_view view = yk_model_parameter(model, i);
        assert_string_equal(view.name, parameters[i]);
        assert_true(yk_tensor_get(&view.value, yk_tensor_count(&view.value) - 1) ==
                    (double)expected->last[i]);
    }
    assert_ok(yk_model_forward(model, &batch));
    assert_ok(yk_model_backward(model));
    assert_float_equal(yk_model_loss(model), expected->loss, 1e-7);
    assert_ok(yk_model_output_at(model, 0, &outputs));
    for (int i = 0; i < 4; i++)
        assert_float_equal(yk_tensor_get(&outputs, places[i]), expected->outputs[i], 1e-6);
    for (size_t i = 0; i < WEIGHTS; i++) {
        yk_parameter_view view = yk_model_parameter(model, i);
        assert_float_equal(yk_tensor_get(&view.grad, 5), expected->slopes[i], 1e-7);
    }
    yk_model_destroy(model);
}

YK_TEST(an_lstm_is_pytorchs)
{
    compare(&lstm, "ref");
    compare(&lstm, "cpu");
}

YK_TEST(a_gru_is_pytorchs)
{
    compare(&gru, "ref");
    compare(&gru, "cpu");
}

/* In training, by how much so many layers differ with dropout and without. */
static double difference_of_dropout(int64_t layers)
{
    float numbers[STEPS * INPUTS];
    static const char *const names[] = {"x"};
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "x", YK_F32, 3, (int64_t[]){YK_BATCH, STEPS, INPUTS}), *y[2];
    for (int i = 0; i < 2; i++) {
        (i ? yk_scope_reuse : yk_scope_push)(graph, "same");
        y[i] = yk_nn_lstm(x, "rnn", SIZE,
                          YK_WITH(yk_nn_recurrent_options, YK_NN_RECURRENT_OPTIONS_INIT,
                                  o.num_layers = layers, o.dropout = i * 0.5));
        yk_scope_pop(graph);
    }
    yk_model *model;
    assert_ok(yk_model_create(&model, yk_mse_loss(y[0], y[1], YK_LOSS_SUM), NULL));
    for (int i = 0; i < STEPS * INPUTS; i++)
        numbers[i] = (float)sin(i);
    yk_tensor tensor = {.data = numbers, .dtype = YK_F32, .ndim = 3, .dims = {1, STEPS, INPUTS}};
    yk_batch batch = {.size = 1, .count = 1, .names = names, .tensors = &tensor};
    assert_ok(yk_model_forward(model, &batch));
    double difference = yk_model_loss(model);
    yk_model_destroy(model);
    return difference;
}

/* Dropout changes what the second layer reads, and nothing else. */
YK_TEST(dropout_lies_between_layers)
{
    assert_true(difference_of_dropout(1) == 0);
    assert_true(difference_of_dropout(2) > 0);
}

/* The outputs of a sequence, and of its halves, of which the second takes over the first's state.
 */
static void compare_halves(layer_fn layer, const char *device)
{
    enum { LENGTH = 6, HALF = 4 };
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "x", YK_F32, 3, (int64_t[]){YK_BATCH, LENGTH, INPUTS});
    yk_nn_recurrent_options options = YK_NN_RECURRENT_OPTIONS_INIT;
    options.num_layers = 2;
    yk_scope_push(graph, "net");
    yk_value *whole = layer(x, "rnn", SIZE, &options), *h_n, *c_n, *halves[2];
    yk_scope_pop(graph);
    yk_scope_reuse(graph, "net");
    options.h_n = &h_n;
    options.c_n = layer == yk_nn_lstm ? &c_n : NULL;
    halves[0] = layer(yk_slice(x, 1, 0, HALF), "rnn", SIZE, &options);
    options.h0 = h_n;
    options.c0 = layer == yk_nn_lstm ? c_n : NULL;
    options.h_n = options.c_n = NULL;
    halves[1] = layer(yk_slice(x, 1, HALF, LENGTH - HALF), "rnn", SIZE, &options);
    yk_scope_pop(graph);
    yk_value *outputs[] = {whole, yk_concat(halves, 2, 1)};
    yk_model *model;
    assert_ok(yk_model_create(&model, NULL,
                              YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.device = device,
                                      o.seed = 7, o.outputs = outputs, o.output_count = 2)));
    float numbers[SAMPLES * LENGTH * INPUTS];
    for (int i = 0; i < SAMPLES * LENGTH * INPUTS; i++)
        numbers[i] = (float)sin(0.7 * i);
    const char *const name = "x";
    const yk_tensor tensor = {
        .data = numbers, .dtype = YK_F32, .ndim = 3, .dims = {SAMPLES, LENGTH, INPUTS}};
    const yk_batch batch = {.size = SAMPLES, .count = 1, .names = &name, .tensors = &tensor};
    yk_tensor got[2];
    assert_ok(yk_model_forward(model, &batch));
    for (size_t i = 0; i < 2; i++)
        assert_ok(yk_model_output_at(model, i, &got[i]));
    for (int64_t i = 0; i < yk_tensor_count(&got[0]); i++)
        assert_float_equal(yk_tensor_get(&got[1], i), yk_tensor_get(&got[0], i), 1e-6);
    assert_true(fabs(yk_tensor_get(&got[0], 0)) > 1e-3);
    yk_model_destroy(model);
}

YK_TEST(a_state_is_handed_on)
{
    compare_halves(yk_nn_lstm, "ref");
    compare_halves(yk_nn_lstm, "cpu");
    compare_halves(yk_nn_gru, "ref");
    compare_halves(yk_nn_gru, "cpu");
}

/* In PyTorch's order, as the first weights are drawn. */
YK_TEST(both_directions_have_parameters)
{
    static const char *const names[] = {
        "rnn.weight_ih_l0",         "rnn.weight_hh_l0",         "rnn.bias_ih_l0",
        "rnn.bias_hh_l0",           "rnn.weight_ih_l0_reverse", "rnn.weight_hh_l0_reverse",
        "rnn.bias_ih_l0_reverse",   "rnn.bias_hh_l0_reverse",   "rnn.weight_ih_l1",
        "rnn.weight_hh_l1",         "rnn.bias_ih_l1",           "rnn.bias_hh_l1",
        "rnn.weight_ih_l1_reverse", "rnn.weight_hh_l1_reverse", "rnn.bias_ih_l1_reverse",
        "rnn.bias_hh_l1_reverse"};
    const size_t count = sizeof names / sizeof *names;
    int64_t dims[YK_MAX_DIMS];
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "x", YK_F32, 3, (int64_t[]){YK_BATCH, STEPS, INPUTS}), *h_n;
    yk_value *y = yk_nn_gru(x, "rnn", SIZE,
                            YK_WITH(yk_nn_recurrent_options, YK_NN_RECURRENT_OPTIONS_INIT,
                                    o.num_layers = 2, o.bidirectional = true, o.h_n = &h_n));
    assert_int_equal(yk_value_shape(y, dims), 3);
    assert_true(dims[0] == YK_BATCH && dims[1] == STEPS && dims[2] == 2 * SIZE);
    assert_int_equal(yk_value_shape(h_n, dims), 3);
    assert_true(dims[0] == YK_BATCH && dims[1] == 4 && dims[2] == SIZE);
    yk_model *model;
    assert_ok(yk_model_create(
        &model, NULL,
        YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.outputs = &y, o.output_count = 1)));
    assert_int_equal(yk_model_parameter_count(model), count);
    for (size_t i = 0; i < count; i++)
        assert_string_equal(yk_model_parameter(model, i).name, names[i]);
    yk_tensor weight = yk_model_parameter(model, 8).value;
    assert_true(weight.dims[0] == 3 * SIZE && weight.dims[1] == 2 * SIZE);
    yk_model_destroy(model);
}

static void assert_dropout_refused(double dropout)
{
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "x", YK_F32, 3, (int64_t[]){YK_BATCH, STEPS, INPUTS});
    yk_value *y = yk_nn_lstm(
        x, "rnn", SIZE,
        YK_WITH(yk_nn_recurrent_options, YK_NN_RECURRENT_OPTIONS_INIT, o.dropout = dropout));
    yk_model *model;
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_model_create(&model, y, NULL));
    assert_contains(yk_last_error(), "rnn.lstm: dropout is ");
    yk_graph_destroy(graph);
}

static void assert_refused(int ndim, int64_t size, int64_t layers, yk_status status,
                           const char *text)
{
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "x", YK_F32, ndim, (int64_t[]){YK_BATCH, STEPS, INPUTS});
    yk_value *y = yk_nn_gru(
        x, "rnn", size,
        YK_WITH(yk_nn_recurrent_options, YK_NN_RECURRENT_OPTIONS_INIT, o.num_layers = layers));
    yk_model *model;
    assert_status(status, yk_model_create(&model, y, NULL));
    assert_contains(yk_last_error(), text);
    yk_graph_destroy(graph);
}

/* An h0 of so many states and, if asked for, a c0 of another size. */
static void assert_state_refused(layer_fn layer, int64_t states, bool cell, yk_status status,
                                 const char *text)
{
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "x", YK_F32, 3, (int64_t[]){YK_BATCH, STEPS, INPUTS}), *h_n;
    yk_nn_recurrent_options options = YK_NN_RECURRENT_OPTIONS_INIT;
    options.h0 = yk_input(graph, "h0", YK_F32, 3, (int64_t[]){YK_BATCH, states, SIZE});
    if (cell)
        options.c0 = yk_input(graph, "c0", YK_F32, 3, (int64_t[]){YK_BATCH, states, SIZE - 1});
    options.h_n = &h_n;
    yk_model *model;
    yk_value *y = layer(x, "rnn", SIZE, &options);
    assert_int_equal(yk_value_shape(h_n, NULL), -1);
    assert_status(status, yk_model_create(&model, y, NULL));
    assert_contains(yk_last_error(), text);
    yk_graph_destroy(graph);
}

/* Of x (N, STEPS, INPUTS). */
static void assert_lengths_refused(int ndim, const int64_t *dims, const char *words)
{
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "x", YK_F32, 3, (int64_t[]){YK_BATCH, STEPS, INPUTS});
    yk_nn_recurrent_options options = YK_NN_RECURRENT_OPTIONS_INIT;
    options.lengths = yk_input(graph, "lengths", YK_F32, ndim, dims);
    yk_value *y = yk_nn_gru(x, "rnn", SIZE, &options);
    assert_int_equal(yk_value_shape(y, NULL), -1);
    assert_contains(graph->error, words);
    yk_graph_destroy(graph);
}

YK_TEST(mistakes_in_recurrent_layers_are_reported)
{
    assert_lengths_refused(2, (int64_t[]){YK_BATCH, STEPS},
                           "rnn.gru: lengths have shape (N, 3), expected (N)");
    assert_lengths_refused(1, (int64_t[]){SAMPLES}, "lengths have shape (2), expected (N)");
    assert_dropout_refused(1);
    assert_dropout_refused(-0.1);
    assert_dropout_refused(NAN);
    assert_refused(2, SIZE, 1, YK_ERROR_INVALID_SHAPE,
                   "yoke: rnn.gru: input has shape (N, 3), expected (N, T, I)");
    assert_refused(3, 0, 1, YK_ERROR_INVALID_ARGUMENT,
                   "gru: hidden_size 0, num_layers 1: expected 1 or more");
    assert_refused(3, INT64_MAX, 1, YK_ERROR_INVALID_ARGUMENT, "hidden_size");
    assert_refused(3, SIZE, 0, YK_ERROR_INVALID_ARGUMENT, "num_layers 0");
    assert_state_refused(yk_nn_lstm, 2, false, YK_ERROR_INVALID_SHAPE,
                         "rnn.lstm: h0 has shape (N, 2, 4), expected (N, 1, 4)");
    assert_state_refused(yk_nn_lstm, 1, true, YK_ERROR_INVALID_SHAPE,
                         "lstm: c0 has shape (N, 1, 3), expected (N, 1, 4)");
    assert_state_refused(yk_nn_gru, 1, true, YK_ERROR_INVALID_ARGUMENT,
                         "rnn.gru: c0 and c_n are options of an lstm");
    assert_int_equal(yk_value_shape(yk_nn_lstm(NULL, "rnn", SIZE, NULL), NULL), -1);
    assert_int_equal(yk_value_shape(yk_nn_gru(NULL, NULL, 0, NULL), NULL), -1);
}

static size_t count_nodes(layer_fn layer, int64_t steps)
{
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "x", YK_F32, 3, (int64_t[]){YK_BATCH, steps, INPUTS});
    yk_nn_recurrent_options options = YK_NN_RECURRENT_OPTIONS_INIT;
    options.lengths = yk_input(graph, "lengths", YK_F32, 1, (int64_t[]){YK_BATCH});
    options.bidirectional = true;
    assert_int_equal(yk_value_shape(layer(x, "rnn", SIZE, &options), NULL), 3);
    const size_t count = graph->node_count;
    yk_graph_destroy(graph);
    return count;
}

/* A graph does not grow with the length of its sequences. */
YK_TEST(steps_are_no_nodes)
{
    assert_int_equal(count_nodes(yk_nn_lstm, 5000), count_nodes(yk_nn_lstm, STEPS));
    assert_int_equal(count_nodes(yk_nn_gru, 5000), count_nodes(yk_nn_gru, STEPS));
}

/* Each operator says what does not fit, and is invalid. */
YK_TEST(operands_of_a_layer_have_to_fit)
{
    yk_graph *graph = yk_graph_create();
    yk_value *last;
    yki_recurrent_layer layer = {
        .from_input = yk_input(graph, "in", YK_F32, 3, (int64_t[]){YK_BATCH, STEPS, 3 * SIZE}),
        .weight =
            yk_parameter(graph, "weight", YK_F32, 2, (int64_t[]){3 * SIZE, SIZE}, YK_INIT_ZEROS, 0),
        .bias = yk_parameter(graph, "bias", YK_F32, 1, (int64_t[]){3 * SIZE}, YK_INIT_ZEROS, 0),
        .h0 = yk_input(graph, "h0", YK_F32, 2, (int64_t[]){YK_BATCH, SIZE})};
    assert_int_equal(yk_value_shape(yki_gru(&layer, &last), NULL), 3);
    assert_int_equal(yk_value_shape(last, NULL), 2);
    layer.h0 = yk_input(graph, "narrow", YK_F32, 2, (int64_t[]){YK_BATCH, SIZE - 1});
    assert_int_equal(yk_value_shape(yki_gru(&layer, &last), NULL), -1);
    assert_int_equal(yk_value_shape(last, NULL), -1);
    assert_contains(graph->error, "gru: h0 has shape (N, 3), which does not fit the samples and "
                                  "states of the gates (N, 3, 12)");
    yk_graph_destroy(graph);
    graph = yk_graph_create();
    layer.from_input = yk_input(graph, "in", YK_F32, 3, (int64_t[]){YK_BATCH, STEPS, 3 * SIZE});
    layer.weight =
        yk_parameter(graph, "weight", YK_F32, 2, (int64_t[]){3 * SIZE, SIZE}, YK_INIT_ZEROS, 0);
    layer.bias = yk_parameter(graph, "bias", YK_F32, 1, (int64_t[]){3 * SIZE}, YK_INIT_ZEROS, 0);
    layer.h0 = NULL;
    assert_int_equal(yk_value_shape(yki_lstm(&layer, &last, &last), NULL), -1);
    assert_contains(graph->error,
                    "lstm: weight has shape (12, 4), which does not fit gates (N, 3, 12)");
    yk_graph_destroy(graph);
}

/* ---- lengths --------------------------------------------------------------------------------- */

/* A step of two layers in two directions over sequences of 1 and 3 steps; `padding` follows the
 * shorter one. */
static yk_model *run_padded(layer_fn layer, const char *device, float padding)
{
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "x", YK_F32, 3, (int64_t[]){YK_BATCH, STEPS, INPUTS});
    yk_nn_recurrent_options options = YK_NN_RECURRENT_OPTIONS_INIT;
    options.lengths = yk_input(graph, "lengths", YK_F32, 1, (int64_t[]){YK_BATCH});
    options.num_layers = 2;
    options.bidirectional = true;
    yk_value *y = layer(x, "rnn", SIZE, &options);
    yk_model *model;
    float data[SAMPLES * STEPS * INPUTS], lengths[SAMPLES] = {1, STEPS};
    const yk_tensor inputs[] = {{.data = data, .ndim = 3, .dims = {SAMPLES, STEPS, INPUTS}},
                                {.data = lengths, .ndim = 1, .dims = {SAMPLES}}};
    for (int i = 0; i < SAMPLES * STEPS * INPUTS; i++)
        data[i] = i >= INPUTS && i < STEPS * INPUTS ? padding : sinf(0.7F * (float)i);
    assert_ok(yk_model_create(
        &model, yk_reduce_loss(yk_pow(y, 2), YK_LOSS_MEAN),
        YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.device = device, o.seed = 7)));
    assert_ok(yk_model_forward(model, &(yk_batch){.size = SAMPLES,
                                                  .count = 2,
                                                  .names = (const char *[]){"x", "lengths"},
                                                  .tensors = (yk_tensor *)inputs}));
    assert_ok(yk_model_backward(model));
    return model;
}

static void assert_padding_has_no_effect(layer_fn layer, const char *device, float padding)
{
    yk_model *model = run_padded(layer, device, padding), *zeros = run_padded(layer, device, 0);
    assert_true(yk_model_loss(model) == yk_model_loss(zeros));
    for (size_t i = 0; i < yk_model_parameter_count(model); i++) {
        yk_parameter_view a = yk_model_parameter(model, i), b = yk_model_parameter(zeros, i);
        const float *slope = a.grad.data, *expected = b.grad.data;
        for (int64_t j = 0; j < yk_tensor_count(&a.grad); j++)
            if (!(slope[j] == expected[j]))
                fail_msg("%s, %g after the end: the gradient of %s is %g, not %g", device, padding,
                         a.name, slope[j], expected[j]);
    }
    yk_model_destroy(model);
    yk_model_destroy(zeros);
}

YK_TEST(what_follows_the_end_of_a_sequence_has_no_effect)
{
    const float paddings[] = {1e30F, INFINITY, NAN};
    for (size_t i = 0; i < sizeof paddings / sizeof *paddings; i++) {
        assert_padding_has_no_effect(yk_nn_lstm, "ref", paddings[i]);
        assert_padding_has_no_effect(yk_nn_lstm, "cpu", paddings[i]);
        assert_padding_has_no_effect(yk_nn_gru, "ref", paddings[i]);
        assert_padding_has_no_effect(yk_nn_gru, "cpu", paddings[i]);
    }
}

/* ---- cells ----------------------------------------------------------------------------------- */

/* A loss of the last cell alone: no hidden state of the last step has a gradient. */
YK_TEST(the_last_cell_alone_may_be_what_is_trained)
{
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "x", YK_F32, 3, (int64_t[]){YK_BATCH, STEPS, INPUTS}), *c_n;
    yk_nn_recurrent_options options = YK_NN_RECURRENT_OPTIONS_INIT;
    options.c_n = &c_n;
    yk_nn_lstm(x, "rnn", SIZE, &options);
    yk_model *model;
    float data[SAMPLES * STEPS * INPUTS] = {1, 2, 3}, slope[4 * SIZE];
    const yk_tensor input = {.data = data, .ndim = 3, .dims = {SAMPLES, STEPS, INPUTS}};
    assert_ok(yk_model_create(&model, yk_reduce_loss(c_n, YK_LOSS_SUM), NULL));
    assert_ok(yk_model_forward(model, &(yk_batch){.size = SAMPLES,
                                                  .count = 1,
                                                  .names = (const char *[]){"x"},
                                                  .tensors = (yk_tensor *)&input}));
    assert_ok(yk_model_backward(model));
    yk_parameter_view bias = yk_model_parameter(model, 2);
    assert_string_equal(bias.name, "rnn.bias_ih_l0");
    assert_ok(yk_tensor_read(&bias.grad, slope));
    for (int i = 0; i < SIZE; i++) {
        assert_true(slope[i] != 0);            /* the input gate */
        assert_true(slope[2 * SIZE + i] != 0); /* what it lets through */
    }
    yk_model_destroy(model);
}

/* Further steps share the weights of the first, which starts from zeros. */
static yk_value *run_cells(yk_value *x, bool is_lstm)
{
    yk_graph *graph = yk_value_graph(x);
    yk_value *outputs[STEPS], *hidden = NULL, *cell = NULL;
    for (int t = 0; t < STEPS; t++) {
        yk_value *now = yk_flatten(yk_slice(x, 1, t, 1));
        (t == 0 ? yk_scope_push : yk_scope_reuse)(graph, "");
        hidden = is_lstm ? yk_nn_lstm_cell(now, "rnn", SIZE, hidden, cell, &cell)
                         : yk_nn_gru_cell(now, "rnn", SIZE, hidden);
        yk_scope_pop(graph);
        outputs[t] = yk_reshape(hidden, 3, (int64_t[]){YK_BATCH, 1, SIZE});
    }
    return yk_concat(outputs, STEPS, 1);
}

/* A cell's weights start as those of a layer, of which it then computes the steps. */
static void compare_cells(layer_fn layer, bool is_lstm)
{
    static const char *const names[] = {"rnn.weight_ih", "rnn.weight_hh", "rnn.bias_ih",
                                        "rnn.bias_hh"};
    float numbers[SAMPLES * STEPS * INPUTS];
    for (int i = 0; i < SAMPLES * STEPS * INPUTS; i++)
        numbers[i] = (float)sin(0.7 * i);
    yk_tensor got[2];
    yk_model *models[2];
    for (int i = 0; i < 2; i++) {
        yk_graph *graph = yk_graph_create();
        yk_value *x = yk_input(graph, "x", YK_F32, 3, (int64_t[]){YK_BATCH, STEPS, INPUTS});
        yk_value *y = i == 0 ? layer(x, "rnn", SIZE, NULL) : run_cells(x, is_lstm);
        assert_ok(yk_model_create(&models[i], NULL,
                                  YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.seed = 7,
                                          o.device = "ref", o.outputs = &y, o.output_count = 1)));
        const yk_tensor tensor = {
            .data = numbers, .dtype = YK_F32, .ndim = 3, .dims = {SAMPLES, STEPS, INPUTS}};
        assert_ok(yk_model_forward(models[i], &(yk_batch){.size = SAMPLES,
                                                          .count = 1,
                                                          .names = (const char *[]){"x"},
                                                          .tensors = &tensor}));
        assert_ok(yk_model_output_at(models[i], 0, &got[i]));
    }
    assert_int_equal(yk_model_parameter_count(models[1]), 4);
    for (size_t i = 0; i < 4; i++)
        assert_string_equal(yk_model_parameter(models[1], i).name, names[i]);
    for (int64_t i = 0; i < SAMPLES * STEPS * SIZE; i++)
        assert_float_equal(yk_tensor_get(&got[1], i), yk_tensor_get(&got[0], i), 1e-7);
    assert_true(fabs(yk_tensor_get(&got[0], 0)) > 1e-3);
    yk_model_destroy(models[0]);
    yk_model_destroy(models[1]);
}

YK_TEST(steps_of_cells_are_those_of_a_layer)
{
    compare_cells(yk_nn_lstm, true);
    compare_cells(yk_nn_gru, false);
}

static void assert_cell_refused(int64_t size, int64_t hidden_size, int64_t cell_size,
                                const char *text)
{
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "x", YK_F32, 2, (int64_t[]){YK_BATCH, INPUTS}), *next;
    yk_value *hidden = yk_input(graph, "hidden", YK_F32, 2, (int64_t[]){YK_BATCH, hidden_size});
    yk_value *cell = yk_input(graph, "cell", YK_F32, 2, (int64_t[]){YK_BATCH, cell_size});
    yk_model *model;
    yk_value *y = yk_nn_lstm_cell(x, "rnn", size, hidden, cell, &next);
    assert_int_equal(yk_value_shape(next, NULL), -1);
    assert_int_equal(yk_model_create(&model, y, NULL) == YK_OK, false);
    assert_contains(yk_last_error(), text);
    yk_graph_destroy(graph);
}

YK_TEST(mistakes_in_cells_are_reported)
{
    assert_cell_refused(SIZE, 3, SIZE, "rnn.lstm_cell: hidden has shape (N, 3), expected (N, 4)");
    assert_cell_refused(SIZE, SIZE, 3, "rnn.lstm_cell: cell has shape (N, 3), expected (N, 4)");
    assert_cell_refused(0, SIZE, SIZE, "rnn.lstm_cell: hidden_size 0: expected 1 or more");
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "x", YK_F32, 3, (int64_t[]){YK_BATCH, STEPS, INPUTS});
    yk_model *model;
    assert_status(YK_ERROR_INVALID_SHAPE,
                  yk_model_create(&model, yk_nn_gru_cell(x, "rnn", SIZE, NULL), NULL));
    assert_contains(yk_last_error(), "rnn.gru_cell: input has shape (N, 3, 3), expected (N, I)");
    yk_graph_destroy(graph);
    assert_int_equal(yk_value_shape(yk_nn_gru_cell(NULL, "rnn", SIZE, NULL), NULL), -1);
    assert_int_equal(yk_value_shape(yk_nn_lstm_cell(NULL, NULL, 0, NULL, NULL, NULL), NULL), -1);
}

YK_TEST(a_cells_gates_are_of_its_state)
{
    yk_graph *graph = yk_graph_create();
    yk_value *gates = yk_input(graph, "gates", YK_F32, 2, (int64_t[]){YK_BATCH, 12});
    yk_value *hidden = yk_input(graph, "hidden", YK_F32, 2, (int64_t[]){YK_BATCH, 3}), *next;
    int64_t dims[YK_MAX_DIMS];
    assert_int_equal(yk_value_shape(yk_lstm_cell(gates, gates, hidden, &next), dims), 2);
    assert_int_equal(dims[1], 3);
    assert_int_equal(yk_value_shape(next, NULL), 2);
    assert_int_equal(yk_value_shape(yk_gru_cell(gates, gates, hidden), NULL), -1);
    yk_model *model;
    assert_status(YK_ERROR_INVALID_SHAPE, yk_model_create(&model, next, NULL));
    assert_contains(yk_last_error(), "gru_cell: gates of the input has shape (N, 12), expected 3 "
                                     "gates of the hidden state, (N, 3)");
    assert_int_equal(yk_value_shape(yk_lstm_cell(NULL, gates, hidden, &next), NULL), -1);
    assert_int_equal(yk_value_shape(next, NULL), -1);
    yk_graph_destroy(graph);
}

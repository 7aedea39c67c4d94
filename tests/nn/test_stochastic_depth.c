/* Stochastic depth: which samples it drops, what it does to the others, and to gradients. */
#include <yoke/yoke.h>

#include <math.h>

#include "harness.h"

enum { SAMPLES = 64, CHANNELS = 20, SIDE = 3, ELEMENTS = CHANNELS * SIDE * SIDE, FORWARDS = 50 };

static const double p = 0.25;

/* y = stochastic_depth(w x), of which the loss is the sum. */
typedef struct network {
    yk_model *model;
    float x[SAMPLES * ELEMENTS];
    yk_tensor y;
} network;

static void make(network *net, const char *device, double probability)
{
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "x", YK_F32, 4, (int64_t[]){YK_BATCH, CHANNELS, SIDE, SIDE});
    yk_value *w = yk_parameter(graph, "w", YK_F32, 3, (int64_t[]){CHANNELS, 1, 1}, YK_INIT_ONES, 0);
    yk_value *y = yk_nn_stochastic_depth(yk_multiply(x, w), probability);
    assert_ok(yk_model_create(&net->model, yk_reduce_loss(y, YK_LOSS_SUM),
                              YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.device = device,
                                      o.seed = 5, o.logits = y, o.threads = 2)));
    for (int i = 0; i < SAMPLES * ELEMENTS; i++)
        net->x[i] = (float)(i % 13) - 6.5F;
}

static void forward(network *net)
{
    const char *name = "x";
    const yk_tensor tensor = {
        .data = net->x, .dtype = YK_F32, .ndim = 4, .dims = {SAMPLES, CHANNELS, SIDE, SIDE}};
    const yk_batch batch = {.size = SAMPLES, .count = 1, .names = &name, .tensors = &tensor};
    assert_ok(yk_model_forward(net->model, &batch));
    assert_ok(yk_model_output(net->model, &net->y));
}

/* What all elements of a sample have been multiplied by: 0 or 1 / (1 - p). */
static float factor_of(const network *net, int sample)
{
    const float *x = net->x + sample * ELEMENTS;
    const float *y = (const float *)net->y.data + sample * ELEMENTS;
    const float factor = y[0] != 0 ? (float)(1 / (1 - p)) : 0;
    for (int i = 0; i < ELEMENTS; i++)
        assert_true(y[i] == factor * x[i]);
    return factor;
}

/* Draws are independent of each other, of the forward and of the sample's place. */
static void check_draws(const char *device)
{
    network net;
    int dropped = 0, same_sample = 0, same_forward = 0;
    bool is_dropped[FORWARDS][SAMPLES];
    make(&net, device, p);
    for (int f = 0; f < FORWARDS; f++) {
        forward(&net);
        for (int s = 0; s < SAMPLES; s++) {
            is_dropped[f][s] = factor_of(&net, s) == 0;
            dropped += is_dropped[f][s];
            same_sample += f > 0 && is_dropped[f][s] && is_dropped[f - 1][s];
            same_forward += s > 0 && is_dropped[f][s] && is_dropped[f][s - 1];
        }
    }
    const double draws = SAMPLES * FORWARDS, pair = p * p;
    assert_true(fabs(dropped - p * draws) < 4 * sqrt(draws * p * (1 - p)));
    assert_true(fabs(same_sample - pair * draws) < 6 * sqrt(draws * pair));
    assert_true(fabs(same_forward - pair * draws) < 6 * sqrt(draws * pair));
    yk_model_destroy(net.model);
}

YK_TEST(samples_are_dropped_with_their_probability)
{
    check_draws("ref");
    check_draws("cpu");
}

YK_TEST(devices_drop_the_same_samples)
{
    static const char *const others[] = {"cpu", "sim"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        network here, there;
        make(&here, "ref", p);
        make(&there, others[i], p);
        forward(&here);
        forward(&there);
        for (int s = 0; s < SAMPLES; s++)
            assert_true(factor_of(&here, s) == factor_of(&there, s));
        yk_model_destroy(here.model);
        yk_model_destroy(there.model);
    }
}

YK_TEST(gradients_come_from_the_samples_that_are_left)
{
    network net;
    make(&net, "cpu", p);
    forward(&net);
    assert_ok(yk_model_backward(net.model));
    yk_tensor grad = yk_model_parameter(net.model, 0).grad;
    for (int c = 0; c < CHANNELS; c++) {
        double expected = 0;
        for (int s = 0; s < SAMPLES; s++)
            for (int i = 0; i < SIDE * SIDE; i++)
                expected += (double)factor_of(&net, s) *
                            (double)net.x[(s * CHANNELS + c) * SIDE * SIDE + i];
        assert_float_equal(yk_tensor_get(&grad, c), expected, 1e-3);
    }
    yk_model_destroy(net.model);
}

static void assert_unchanged(network *net)
{
    forward(net);
    assert_memory_equal(net->y.data, net->x, sizeof net->x);
    yk_model_destroy(net->model);
}

YK_TEST(nothing_is_dropped_in_evaluation_nor_with_probability_0)
{
    network net;
    make(&net, "cpu", p);
    yk_model_eval(net.model);
    assert_unchanged(&net);
    make(&net, "cpu", 0);
    assert_unchanged(&net);
}

/* The first element, which decides nothing, is infinite. */
YK_TEST(samples_of_any_values_are_kept)
{
    network net;
    int kept = 0;
    make(&net, "ref", p);
    for (int s = 0; s < SAMPLES; s++)
        net.x[s * ELEMENTS] = INFINITY;
    forward(&net);
    const float *y = net.y.data;
    for (int s = 0; s < SAMPLES; s++)
        kept += isinf(y[s * ELEMENTS]) && y[s * ELEMENTS + 1] != 0;
    assert_true(kept > SAMPLES / 2);
    yk_model_destroy(net.model);
}

YK_TEST(values_of_any_shape_have_it)
{
    yk_graph *graph = yk_graph_create();
    int64_t dims[YK_MAX_DIMS] = {0};
    yk_value *tokens = yk_input(graph, "tokens", YK_F32, 3, (int64_t[]){YK_BATCH, 7, 5});
    assert_int_equal(yk_value_shape(yk_nn_stochastic_depth(tokens, p), dims), 3);
    assert_true(dims[0] == YK_BATCH && dims[1] == 7 && dims[2] == 5);
    yk_value *numbers = yk_input(graph, "numbers", YK_F32, 1, (int64_t[]){YK_BATCH});
    assert_int_equal(yk_value_shape(yk_nn_stochastic_depth(numbers, p), dims), 1);
    assert_true(dims[0] == YK_BATCH);
    yk_graph_destroy(graph);
}

YK_TEST(mistakes_in_stochastic_depth_are_reported)
{
    yk_model *model;
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "x", YK_F32, 2, (int64_t[]){YK_BATCH, 3});
    yk_value *y = yk_nn_stochastic_depth(x, 1);
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_model_create(&model, y, NULL));
    assert_contains(yk_last_error(), "p is 1, expected 0 <= p < 1");
    assert_int_equal(yk_value_shape(yk_nn_stochastic_depth(NULL, p), NULL), -1);
    yk_graph_destroy(graph);
}

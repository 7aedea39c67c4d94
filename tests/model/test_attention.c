/* Attention in models, on every device: what a mask hides has no influence, and dropout. */
#include <math.h>
#include <string.h>

#include "harness.h"

enum { SAMPLES = 3, TOKENS = 7, WIDTH = 12, HEADS = 6, SEEN = 4, ROWS = 3 * WIDTH };
enum { DEVICES = 3, PASSES = 4 /* so that devices replay recordings */ };

/* From the middle sample, tokens from SEEN on are hidden, and from the last all of them. */
typedef struct outcome {
    float y[SAMPLES][TOKENS][WIDTH], gradient[ROWS][WIDTH];
} outcome;

static const char *device_of(int index)
{
    return index == 0 ? "ref" : index == 1 ? "cpu" : yk_test_device("sim");
}

static yk_value *attend(yk_value *x, yk_value *mask, double dropout)
{
    return yk_scaled_dot_product_attention(yk_nn_linear(x, "qkv", ROWS), NULL, NULL,
                                           YK_WITH(yk_attention_options, YK_ATTENTION_OPTIONS_INIT,
                                                   o.num_heads = HEADS, o.attn_mask = mask,
                                                   o.dropout_p = dropout));
}

static yk_model *create_model(const char *device, double dropout)
{
    const int64_t rows[] = {YK_BATCH, TOKENS, WIDTH}, padding[] = {YK_BATCH, TOKENS};
    const int64_t mask[] = {YK_BATCH, 1, 1, TOKENS};
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "x", YK_F32, 3, rows);
    yk_value *hidden = yk_input(graph, "hidden", YK_F32, 2, padding);
    yk_value *target = yk_input(graph, "target", YK_F32, 3, rows);
    yk_value *y = attend(x, yk_reshape(hidden, 4, mask), dropout);
    yk_model *model;
    assert_ok(yk_model_create(&model, yk_mse_loss(y, target, YK_LOSS_SUM),
                              YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.device = device,
                                      o.threads = 2, o.logits = y, o.seed = 3)));
    return model;
}

/* What the last pass makes. change: added to the tokens that are hidden. */
static outcome run(const char *device, double dropout, float change)
{
    static const char *const names[] = {"x", "hidden", "target"};
    float x[SAMPLES][TOKENS][WIDTH], hidden[SAMPLES][TOKENS] = {{0}};
    float target[SAMPLES][TOKENS][WIDTH] = {{{0}}};
    for (int s = 0; s < SAMPLES; s++)
        for (int t = 0; t < TOKENS; t++) {
            bool is_hidden = s == 2 || (s == 1 && t >= SEEN);
            hidden[s][t] = is_hidden ? -INFINITY : 0;
            for (int i = 0; i < WIDTH; i++) {
                x[s][t][i] = (float)((s * 31 + t * 17 + i * i) % 19) / 9 - 1;
                x[s][t][i] += is_hidden ? change : 0;
                target[s][t][i] = s < 2 && t < SEEN ? 1 : 0;
            }
        }
    const yk_tensor tensors[] = {
        {.data = x, .dtype = YK_F32, .ndim = 3, .dims = {SAMPLES, TOKENS, WIDTH}},
        {.data = hidden, .dtype = YK_F32, .ndim = 2, .dims = {SAMPLES, TOKENS}},
        {.data = target, .dtype = YK_F32, .ndim = 3, .dims = {SAMPLES, TOKENS, WIDTH}}};
    const yk_batch batch = {.size = SAMPLES, .count = 3, .names = names, .tensors = tensors};
    yk_model *model = create_model(device, dropout);
    yk_tensor y, gradient = yk_model_parameter(model, 0).grad;
    outcome o;
    for (int pass = 0; pass < PASSES; pass++) {
        assert_ok(yk_model_forward(model, &batch));
        assert_ok(yk_model_backward(model));
    }
    assert_ok(yk_model_output(model, &y));
    assert_ok(yk_tensor_read(&y, o.y));
    assert_ok(yk_tensor_read(&gradient, o.gradient));
    yk_model_destroy(model);
    return o;
}

static void assert_close(const outcome *got, const outcome *expected)
{
    const float *a = (const float *)got, *b = (const float *)expected;
    for (size_t i = 0; i < sizeof *got / sizeof *a; i++)
        if (!(fabsf(a[i] - b[i]) <= 2e-5f * fmaxf(1, fabsf(b[i]))))
            fail_msg("number %zu is %g, expected %g", i, (double)a[i], (double)b[i]);
}

YK_TEST(hidden_keys_have_no_influence)
{
    const outcome expected = run("ref", 0, 0);
    for (int d = 0; d < DEVICES; d++) {
        outcome got = run(device_of(d), 0, 0), other = run(device_of(d), 0, 5);
        assert_close(&got, &expected);
        assert_memory_equal(got.y[0], other.y[0], sizeof got.y[0]);
        assert_memory_equal(got.y[1], other.y[1], SEEN * sizeof got.y[1][0]);
        assert_memory_not_equal(got.y[1][SEEN], other.y[1][SEEN], sizeof got.y[1][SEEN]);
    }
}

YK_TEST(a_query_from_which_all_keys_are_hidden_gets_zeros_and_no_gradient)
{
    for (int d = 0; d < DEVICES; d++) {
        const float zeros[TOKENS][WIDTH] = {{0}};
        outcome o = run(device_of(d), 0.3, 0);
        assert_memory_equal(o.y[2], zeros, sizeof zeros);
        float most = 0;
        for (int row = 0; row < ROWS; row++)
            for (int i = 0; i < WIDTH; i++) {
                assert_true(isfinite(o.gradient[row][i]));
                most = fmaxf(most, fabsf(o.gradient[row][i]));
            }
        assert_true(most > 0.1f);
    }
}

YK_TEST(all_devices_drop_the_same_weights)
{
    const outcome expected = run("ref", 0.3, 0), whole = run("ref", 0, 0);
    for (int d = 1; d < DEVICES; d++) {
        outcome got = run(device_of(d), 0.3, 0);
        assert_close(&got, &expected);
    }
    assert_memory_not_equal(&expected, &whole, sizeof whole);
}

/* A mask that is trained has no gradient; one that is frozen needs none. */
static yk_status create_with_parameter(bool trainable)
{
    yk_graph *graph = yk_graph_create();
    const int64_t rows[] = {YK_BATCH, TOKENS, WIDTH}, pairs[] = {TOKENS, TOKENS};
    yk_value *x = yk_input(graph, "x", YK_F32, 3, rows);
    yk_value *bias = yk_parameter(graph, "bias", YK_F32, 2, pairs, YK_INIT_ZEROS, 0);
    yk_value *y = attend(x, bias, 0);
    assert_ok(yk_graph_set_trainable(graph, "bias", trainable, NULL));
    yk_model *model;
    yk_status status = yk_model_create(&model, yk_mse_loss(y, x, YK_LOSS_MEAN), NULL);
    if (status != YK_OK)
        yk_graph_destroy(graph);
    yk_model_destroy(model);
    return status;
}

YK_TEST(a_mask_cannot_be_trained)
{
    assert_ok(create_with_parameter(false));
    assert_status(YK_ERROR_UNSUPPORTED, create_with_parameter(true));
    assert_contains(yk_last_error(), "scaled_dot_product_attention: no gradient for the attn_mask");
}

/* ---- large scores ---------------------------------------------------------------------------- */

enum { LONG = 150 };

/* Of queries that see little but one key. */
static void saturated_gradient(const char *device, yk_dtype dtype, double gradient[LONG][ROWS])
{
    static double wide[LONG][ROWS];
    static float narrow[LONG][ROWS];
    const int64_t rows[] = {YK_BATCH, LONG, ROWS};
    for (int i = 0; i < LONG * ROWS; i++) {
        narrow[i / ROWS][i % ROWS] = (float)(i * i % 101) / 5 - 10;
        wide[i / ROWS][i % ROWS] = (double)narrow[i / ROWS][i % ROWS];
    }
    yk_graph *graph = yk_graph_create();
    yk_value *in = yk_input(graph, "x", dtype, 3, rows);
    yk_value *y = yk_scaled_dot_product_attention(
        yk_add(in, yk_parameter(graph, "shift", dtype, 2, &rows[1], YK_INIT_ZEROS, 0)), NULL, NULL,
        NULL);
    yk_model *model;
    assert_ok(yk_model_create(
        &model, yk_mse_loss(y, yk_slice(in, 2, 0, WIDTH), YK_LOSS_SUM),
        YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.device = device, o.threads = 2)));
    const yk_tensor tensor = {.data = dtype == YK_F64 ? (void *)wide : (void *)narrow,
                              .dtype = dtype,
                              .ndim = 3,
                              .dims = {1, LONG, ROWS}};
    const yk_batch batch = {
        .size = 1, .count = 1, .names = (const char *[]){"x"}, .tensors = &tensor};
    assert_ok(yk_model_forward(model, &batch));
    assert_ok(yk_model_backward(model));
    const yk_tensor grad = yk_model_parameter(model, 0).grad;
    assert_ok(yk_tensor_read(&grad, dtype == YK_F64 ? (void *)wide : (void *)narrow));
    for (int i = 0; i < LONG * ROWS; i++)
        gradient[i / ROWS][i % ROWS] =
            dtype == YK_F64 ? wide[i / ROWS][i % ROWS] : (double)narrow[i / ROWS][i % ROWS];
    yk_model_destroy(model);
}

/* Of the gradients of queries and keys, which are differences of numbers that are close. */
YK_TEST(large_scores_cost_no_precision)
{
    static double got[LONG][ROWS], expected[LONG][ROWS];
    saturated_gradient("ref", YK_F64, expected);
    for (int d = 0; d < DEVICES; d++) {
        double error = 0, largest = 0;
        saturated_gradient(device_of(d), YK_F32, got);
        for (int row = 0; row < LONG; row++)
            for (int i = 0; i < 2 * WIDTH; i++) {
                error = fmax(error, fabs(got[row][i] - expected[row][i]));
                largest = fmax(largest, fabs(expected[row][i]));
            }
        print_message("%s: gradients differ by %g of the largest\n", device_of(d), error / largest);
        assert_true(error <= 8e-6 * largest);
    }
}

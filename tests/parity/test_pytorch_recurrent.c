/*
 * Recurrent layers against PyTorch's, with states that are given and handed on: a state_dict of
 * PyTorch's is loaded, trained for one step and loaded by PyTorch again, which compares what the
 * layer computes and how far the weights have gone.
 */
#define _GNU_SOURCE
#include <math.h>
#include <string.h>

#include "harness.h"
#include "pytorch.h"
#include "tensor_files.h"

enum { SAMPLES = 3, STEPS = 11, INPUTS = 5, SIZE = 4, FEATURES = 3, MOST = 1024 };

typedef struct layer_case {
    const char *kind;
    int64_t layers, directions;
    bool has_lengths;
} layer_case;

/* (N, states, SIZE), as a function of features. */
static yk_value *first_state(const layer_case *c, yk_value *features, const char *name)
{
    const int64_t states = c->layers * c->directions;
    return yk_reshape(yk_nn_linear(features, name, states * SIZE), 3,
                      (int64_t[]){YK_BATCH, states, SIZE});
}

/* The same of a cell, of which further steps share the weights of the first. */
static yk_value *build_steps(bool is_lstm, yk_value *x, yk_value *features)
{
    yk_graph *graph = yk_value_graph(x);
    yk_value *results[STEPS + 2] = {NULL}, *cell = NULL;
    yk_value *hidden = yk_nn_linear(features, "h0", SIZE);
    if (is_lstm)
        cell = yk_nn_linear(features, "c0", SIZE);
    for (int t = 0; t < STEPS; t++) {
        yk_value *now = yk_flatten(yk_slice(x, 1, t, 1));
        (t == 0 ? yk_scope_push : yk_scope_reuse)(graph, "");
        hidden = is_lstm ? yk_nn_lstm_cell(now, "rnn", SIZE, hidden, cell, &cell)
                         : yk_nn_gru_cell(now, "rnn", SIZE, hidden);
        yk_scope_pop(graph);
        results[t] = hidden;
    }
    results[STEPS] = hidden;
    results[STEPS + 1] = cell;
    return yk_concat(results, STEPS + (is_lstm ? 2 : 1), 1);
}

/* All that the layer computes, (N, ...). */
static yk_value *build(const layer_case *c, yk_value *x, yk_value *features, yk_value *lengths)
{
    const bool is_lstm = strncmp(c->kind, "lstm", 4) == 0;
    if (strstr(c->kind, "_cell"))
        return build_steps(is_lstm, x, features);
    yk_value *results[3] = {NULL};
    yk_nn_recurrent_options options = YK_NN_RECURRENT_OPTIONS_INIT;
    options.num_layers = c->layers;
    options.bidirectional = c->directions == 2;
    options.h0 = first_state(c, features, "h0");
    options.h_n = &results[1];
    options.lengths = c->has_lengths ? lengths : NULL;
    if (is_lstm) {
        options.c0 = first_state(c, features, "c0");
        options.c_n = &results[2];
    }
    results[0] = (is_lstm ? yk_nn_lstm : yk_nn_gru)(x, "rnn", SIZE, &options);
    for (int i = 0; i < 3; i++)
        results[i] = results[i] ? yk_flatten(results[i]) : NULL;
    return yk_concat(results, is_lstm ? 3 : 2, 1);
}

static void append(FILE *file, const yk_tensor *tensor)
{
    assert_int_equal(fwrite(tensor->data, yk_tensor_bytes(tensor), 1, file), 1);
}

static void run_on(const layer_case *c, const char *device)
{
    static float numbers[MOST], zeros[MOST];
    char name[32];
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "x", YK_F32, 3, (int64_t[]){YK_BATCH, STEPS, INPUTS});
    yk_value *features = yk_input(graph, "features", YK_F32, 2, (int64_t[]){YK_BATCH, FEATURES});
    yk_value *lengths = yk_input(graph, "lengths", YK_F32, 1, (int64_t[]){YK_BATCH});
    yk_value *all = build(c, x, features, lengths);
    int64_t dims[YK_MAX_DIMS];
    assert_int_equal(yk_value_shape(all, dims), 2);
    assert_true(SAMPLES * dims[1] <= MOST && SAMPLES * STEPS * INPUTS <= MOST);
    yk_value *target = yk_input(graph, "target", YK_F32, 2, dims);
    yk_model *model;
    yk_optimizer *sgd;
    assert_ok(yk_model_create(&model, yk_mse_loss(all, target, YK_LOSS_MEAN),
                              YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.device = device,
                                      o.outputs = &all, o.output_count = 1)));
    assert_ok(yk_sgd_create(&sgd, model, YK_WITH(yk_sgd_options, YK_SGD_OPTIONS_INIT, o.lr = 1)));
    assert_ok(yk_model_load(model, file_of("start.pth")));

    for (int i = 0; i < MOST; i++)
        numbers[i] = (float)sin(0.7 * i);
    float lengths_of[SAMPLES] = {4, STEPS, 1};
    const char *const names[] = {"x", "features", "lengths", "target"};
    const yk_tensor tensors[] = {
        {.data = numbers, .dtype = YK_F32, .ndim = 3, .dims = {SAMPLES, STEPS, INPUTS}},
        {.data = numbers, .dtype = YK_F32, .ndim = 2, .dims = {SAMPLES, FEATURES}},
        {.data = lengths_of, .dtype = YK_F32, .ndim = 1, .dims = {SAMPLES}},
        {.data = zeros, .dtype = YK_F32, .ndim = 2, .dims = {SAMPLES, dims[1]}}};
    const yk_batch batch = {.size = SAMPLES, .count = 4, .names = names, .tensors = tensors};
    assert_ok(yk_model_forward(model, &batch));
    yk_tensor results;
    assert_ok(yk_model_output_at(model, 0, &results));
    snprintf(name, sizeof name, "numbers.%s", device);
    FILE *file = fopen(file_of(name), "wbe");
    assert_non_null(file);
    append(file, &tensors[0]);
    append(file, &tensors[1]);
    append(file, &results);
    assert_int_equal(fclose(file), 0);
    assert_ok(yk_model_backward(model));
    assert_ok(yk_optimizer_step(sgd));
    snprintf(name, sizeof name, "stepped.%s.pth", device);
    assert_ok(yk_model_save(model, file_of(name)));
    yk_optimizer_destroy(sgd);
    yk_model_destroy(model);
}

static void compare_case(const layer_case *c)
{
    const char *lengths = c->has_lengths ? "4,11,1" : "all";
    pytorch_judges("recurrent.py", "start %s %d %d %s", c->kind, (int)c->layers, (int)c->directions,
                   yk_test_directory());
    run_on(c, "ref");
    run_on(c, "cpu");
    pytorch_judges("recurrent.py", "judge %s %d %d %s %d,%d,%d,%d %s ref cpu", c->kind,
                   (int)c->layers, (int)c->directions, yk_test_directory(), SAMPLES, STEPS, INPUTS,
                   FEATURES, lengths);
}

static void compare(const char *kind, int64_t layers, int64_t directions)
{
    compare_case(&(layer_case){kind, layers, directions, false});
}

YK_TEST(an_lstm_is_pytorchs)
{
    compare("lstm", 1, 1);
}

YK_TEST(lstms_in_two_directions_are_pytorchs)
{
    compare("lstm", 2, 2);
}

YK_TEST(stacked_grus_are_pytorchs)
{
    compare("gru", 3, 1);
}

YK_TEST(cells_are_pytorchs)
{
    compare("lstm_cell", 1, 1);
    compare("gru_cell", 1, 1);
}

YK_TEST(grus_in_two_directions_are_pytorchs)
{
    compare("gru", 2, 2);
}

YK_TEST(sequences_of_several_lengths_are_pytorchs)
{
    compare_case(&(layer_case){"lstm", 2, 2, true});
    compare_case(&(layer_case){"gru", 2, 2, true});
}

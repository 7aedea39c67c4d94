/* yk_eval_push: parts of a graph that compute as in evaluation mode while the rest trains. */
#include "harness.h"

#include <math.h>
#include <string.h>

#include "same.h"

enum { SAMPLES = 6, SIDE = 4, CLASSES = 3, PIXELS = 3 * SIDE * SIDE };

/* ---- networks -------------------------------------------------------------------------------- */

/* What differs between the modes: norms, dropout, and dropout of attention. */
static yk_value *network(yk_value *x, double p)
{
    yk_nn_batch_norm_options statistics = YK_NN_BATCH_NORM_OPTIONS_INIT;
    statistics.batch_statistics = true;
    x = yk_relu(yk_nn_batch_norm(yk_nn_conv2d(x, "conv", 8, 3, NULL), "bn"));
    x = yk_dropout(yk_nn_batch_norm_with(x, "bn2", &statistics), p);
    x = yk_reshape(yk_flatten(x), 3, (int64_t[]){YK_BATCH, 2, 16});
    x = yk_scaled_dot_product_attention(
        x, x, x,
        YK_WITH(yk_attention_options, YK_ATTENTION_OPTIONS_INIT, o.num_heads = 2, o.dropout_p = p));
    return yk_nn_linear(yk_flatten(x), "fc", CLASSES);
}

static yk_value *images(yk_graph *graph)
{
    return yk_input(graph, "images", YK_F32, 4, (int64_t[]){YK_BATCH, 3, SIDE, SIDE});
}

static const yk_batch *take_images(int step)
{
    static const char *const names[] = {"images", "labels"};
    static float pixels[SAMPLES * PIXELS];
    static int32_t labels[SAMPLES];
    static yk_tensor tensors[2] = {
        {.data = pixels, .dtype = YK_F32, .ndim = 4, .dims = {SAMPLES, 3, SIDE, SIDE}},
        {.data = labels, .dtype = YK_I32, .ndim = 1, .dims = {SAMPLES}}};
    static const yk_batch batch = {.size = SAMPLES, .count = 2, .names = names, .tensors = tensors};
    for (int i = 0; i < SAMPLES * PIXELS; i++)
        pixels[i] = (float)sin(0.7 * i + step);
    for (int i = 0; i < SAMPLES; i++)
        labels[i] = i % CLASSES;
    return &batch;
}

static yk_model *create(yk_value *loss, yk_value *logits, const char *device, bool recompute)
{
    yk_model *model;
    assert_ok(yk_model_create(&model, loss,
                              YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.device = device,
                                      o.logits = logits, o.threads = 1, o.seed = 5,
                                      o.recompute = recompute)));
    return model;
}

/* Running statistics unlike the first ones, and weights of norms unlike 1. */
static void shift(yk_model *model)
{
    for (size_t i = 0; i < yk_model_parameter_count(model) + yk_model_buffer_count(model); i++) {
        size_t parameters = yk_model_parameter_count(model);
        yk_parameter_view view =
            i < parameters ? yk_model_parameter(model, i) : yk_model_buffer(model, i - parameters);
        float numbers[1024];
        int64_t count = yk_tensor_count(&view.value);
        if (view.value.dtype != YK_F32)
            continue;
        assert_true(count <= 1024);
        assert_ok(yk_tensor_read(&view.value, numbers));
        for (int64_t e = 0; e < count; e++)
            numbers[e] += 0.1F * (float)(1 + e % 5);
        assert_ok(yk_tensor_write(&view.value, numbers));
    }
    yk_model_parameters_changed(model);
}

static const char *const devices[] = {"ref", "cpu", "sim"};
enum { DEVICES = sizeof devices / sizeof *devices };

/* ---- as in evaluation mode ------------------------------------------------------------------- */

/* A network as a classifier, all of it in an eval scope or none. */
static yk_model *classifier(const char *device, bool evaluates, bool recompute)
{
    yk_graph *graph = yk_graph_create();
    if (evaluates)
        yk_eval_push(graph);
    yk_value *logits = network(images(graph), 0.5);
    if (evaluates)
        yk_eval_pop(graph);
    yk_value *labels = yk_input(graph, "labels", YK_I32, 1, (int64_t[]){YK_BATCH});
    yk_model *model = create(yk_cross_entropy(logits, labels, NULL), logits, device, recompute);
    shift(model);
    return model;
}

/* The scope in training mode is the bits of evaluation mode: output, gradients and statistics. */
static void compare_modes(const char *device, bool recompute)
{
    yk_model *scope = classifier(device, true, recompute);
    yk_model *mode = classifier(device, false, recompute);
    yk_model_eval(mode);
    for (int step = 0; step < 4; step++) { /* on the simulated device the last are replays */
        yk_tensor found, expected;
        assert_ok(yk_model_forward(scope, take_images(step)));
        assert_ok(yk_model_backward(scope));
        assert_ok(yk_model_forward(mode, take_images(step)));
        assert_ok(yk_model_backward(mode));
        assert_true(yk_model_loss(scope) == yk_model_loss(mode));
        assert_ok(yk_model_output(scope, &found));
        assert_ok(yk_model_output(mode, &expected));
        assert_same_tensor("the logits", found, expected);
        assert_same_grads(scope, mode);
        assert_same_values(scope, mode);
        yk_model_zero_grad(scope);
        yk_model_zero_grad(mode);
    }
    yk_model_destroy(scope);
    yk_model_destroy(mode);
}

YK_TEST(an_eval_scope_computes_as_in_evaluation_mode)
{
    for (int i = 0; i < DEVICES; i++)
        compare_modes(devices[i], false);
}

YK_TEST(an_eval_scope_recomputes_as_in_evaluation_mode)
{
    compare_modes("cpu", true);
}

/* ---- beside what trains ---------------------------------------------------------------------- */

/* A teacher that is frozen, and its student. */
static yk_model *pupil(const char *device)
{
    yk_graph *graph = yk_graph_create();
    yk_model *model;
    yk_value *x = images(graph);
    yk_scope_push(graph, "teacher");
    yk_eval_push(graph);
    yk_value *target = network(x, 0.5);
    yk_eval_pop(graph);
    yk_scope_pop(graph);
    yk_scope_push(graph, "student");
    yk_value *logits = network(x, 0);
    yk_scope_pop(graph);
    assert_ok(yk_graph_set_trainable(graph, "teacher.*", false, NULL));
    assert_ok(yk_model_create(&model, yk_mse_loss(logits, target, YK_LOSS_MEAN),
                              YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.device = device,
                                      o.outputs = &target, o.output_count = 1, o.threads = 1,
                                      o.seed = 5)));
    shift(model);
    return model;
}

static void step(yk_model *model)
{
    assert_ok(yk_model_forward(model, take_images(0)));
    assert_ok(yk_model_backward(model));
}

/* The sum over all elements of the buffers of a scope. */
static double sum_of_buffers(const yk_model *model, const char *scope)
{
    double sum = 0;
    for (size_t i = 0; i < yk_model_buffer_count(model); i++) {
        yk_parameter_view view = yk_model_buffer(model, i);
        yk_tensor value = yk_test_on_host(view.value);
        for (int64_t e = 0; e < yk_tensor_count(&value); e++)
            sum += strncmp(view.name, scope, strlen(scope)) ? 0 : yk_tensor_get(&value, e);
    }
    return sum;
}

static void teach(const char *device)
{
    float first[SAMPLES * CLASSES], later[SAMPLES * CLASSES];
    yk_tensor target;
    yk_model *model = pupil(device);
    double teacher = sum_of_buffers(model, "teacher."), student = sum_of_buffers(model, "student.");
    for (int i = 0; i < 4; i++) {
        step(model);
        assert_ok(yk_model_output_at(model, 0, &target));
        assert_ok(yk_tensor_read(&target, i ? later : first));
        if (i > 0)
            assert_memory_equal(later, first, sizeof first); /* nothing is dropped */
    }
    assert_true(sum_of_buffers(model, "teacher.") == teacher);
    assert_true(sum_of_buffers(model, "student.") != student);
    yk_model_destroy(model);
}

YK_TEST(a_teacher_does_not_change_while_the_student_trains)
{
    for (int i = 0; i < DEVICES; i++)
        teach(devices[i]);
}

/* One norm in both modes, as in PyTorch: its statistics move once, and are then used. */
static void use_twice(const char *device)
{
    static const char *const names[] = {"x"};
    float x[] = {1, 2, 3, 6}, y[4], mean[2];
    const yk_tensor tensor = {.data = x, .dtype = YK_F32, .ndim = 2, .dims = {2, 2}};
    yk_graph *graph = yk_graph_create();
    yk_value *in = yk_input(graph, "x", YK_F32, 2, (int64_t[]){YK_BATCH, 2});
    yk_scope_push(graph, "net");
    yk_value *trained = yk_nn_batch_norm(in, "bn");
    yk_scope_pop(graph);
    yk_eval_push(graph);
    yk_scope_reuse(graph, "net");
    yk_value *evaluated = yk_nn_batch_norm(in, "bn");
    yk_scope_pop(graph);
    yk_eval_pop(graph);
    yk_model *model =
        create(yk_mse_loss(trained, evaluated, YK_LOSS_MEAN), evaluated, device, false);
    assert_ok(yk_model_forward(
        model, &(yk_batch){.size = 2, .count = 1, .names = names, .tensors = &tensor}));
    assert_ok(yk_model_backward(model));
    yk_tensor output, running = yk_model_buffer(model, 0).value;
    assert_ok(yk_model_output(model, &output));
    assert_ok(yk_tensor_read(&output, y));
    assert_ok(yk_tensor_read(&running, mean));
    assert_float_equal(mean[0], 0.1 * 2, 1e-6);
    assert_float_equal(mean[1], 0.1 * 4, 1e-6);
    for (int i = 0; i < 4; i++) /* of variances 2 and 8 */
        assert_float_equal(y[i], (x[i] - mean[i % 2]) / sqrt(0.9 + (i % 2 ? 0.8 : 0.2) + 1e-5),
                           1e-5);
    yk_model_destroy(model);
}

YK_TEST(a_norm_is_used_again_in_evaluation_mode)
{
    for (int i = 0; i < DEVICES; i++)
        use_twice(devices[i]);
}

/* ---- the scope ------------------------------------------------------------------------------- */

/* Whether dropout that is built after so many pushes and pops does nothing. */
static bool evaluates(int pushes, int pops)
{
    yk_graph *graph = yk_graph_create();
    for (int i = 0; i < pushes; i++)
        yk_eval_push(graph);
    for (int i = 0; i < pops; i++)
        yk_eval_pop(graph);
    static const char *const names[] = {"x"};
    float ones[64], y[64];
    yk_tensor output, tensor = {.data = ones, .dtype = YK_F32, .ndim = 2, .dims = {1, 64}};
    yk_value *x = yk_input(graph, "x", YK_F32, 2, (int64_t[]){YK_BATCH, 64});
    yk_value *dropped = yk_dropout(x, 0.5);
    for (int i = pops; i < pushes; i++)
        yk_eval_pop(graph);
    yk_model *model = create(yk_mse_loss(dropped, x, YK_LOSS_MEAN), dropped, "ref", false);
    for (int i = 0; i < 64; i++)
        ones[i] = 1;
    assert_ok(yk_model_forward(
        model, &(yk_batch){.size = 1, .count = 1, .names = names, .tensors = &tensor}));
    assert_ok(yk_model_output(model, &output));
    assert_ok(yk_tensor_read(&output, y));
    yk_model_destroy(model);
    return memcmp(y, ones, sizeof y) == 0;
}

YK_TEST(eval_scopes_nest)
{
    yk_eval_push(NULL);
    yk_eval_pop(NULL);
    assert_false(evaluates(0, 0));
    assert_true(evaluates(1, 0));
    assert_true(evaluates(2, 1));
    assert_false(evaluates(2, 2));
}

/* A network that is applied to two inputs: its gradients are the sums over both, and its running
 * statistics move twice. */
#include "harness.h"

#include <math.h>

enum { SAMPLES = 4, WIDTH = 3, SIZE = 5 };

static yk_value *embed(yk_value *x)
{
    return yk_nn_linear(yk_tanh(yk_nn_batch_norm(yk_nn_linear(x, "0", SIZE), "1")), "3", SIZE);
}

/* The embeddings of a and b are to be alike: by one network, or by one for each. */
static yk_model *create(const char *device, bool shared)
{
    yk_graph *graph = yk_graph_create();
    yk_value *a = yk_input(graph, "a", YK_F32, 2, (int64_t[]){YK_BATCH, WIDTH});
    yk_value *b = yk_input(graph, "b", YK_F32, 2, (int64_t[]){YK_BATCH, WIDTH});
    yk_scope_push(graph, "net");
    a = embed(a);
    yk_scope_pop(graph);
    if (shared)
        yk_scope_reuse(graph, "net");
    else
        yk_scope_push(graph, "other");
    b = embed(b);
    yk_scope_pop(graph);
    yk_model *model;
    assert_ok(yk_model_create(
        &model, yk_mse_loss(a, b, YK_LOSS_MEAN),
        YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.device = device, o.threads = 1)));
    return model;
}

static void step(yk_model *model)
{
    static float a[SAMPLES * WIDTH], b[SAMPLES * WIDTH];
    for (int i = 0; i < SAMPLES * WIDTH; i++) {
        a[i] = (float)sin(0.7 * i);
        b[i] = (float)cos(1.3 * i);
    }
    const char *const names[] = {"a", "b"};
    const yk_tensor tensors[] = {{.data = a, .dtype = YK_F32, .ndim = 2, .dims = {SAMPLES, WIDTH}},
                                 {.data = b, .dtype = YK_F32, .ndim = 2, .dims = {SAMPLES, WIDTH}}};
    const yk_batch batch = {.size = SAMPLES, .count = 2, .names = names, .tensors = tensors};
    assert_ok(yk_model_forward(model, &batch));
    assert_ok(yk_model_backward(model));
}

static void check(const char *device)
{
    yk_model *shared = create(device, true), *apart = create(device, false);
    size_t count = yk_model_parameter_count(shared);
    assert_int_equal(count, 6);
    assert_int_equal(yk_model_parameter_count(apart), 2 * count);
    for (size_t i = 0; i < 2 * count; i++) {
        yk_tensor from = yk_model_parameter(shared, i % count).value;
        yk_tensor to = yk_model_parameter(apart, i).value;
        float numbers[SIZE * SIZE];
        assert_ok(yk_tensor_read(&from, numbers));
        assert_ok(yk_tensor_write(&to, numbers));
    }
    yk_model_parameters_changed(apart);
    step(shared);
    step(apart);
    assert_float_equal(yk_model_loss(shared), yk_model_loss(apart), 1e-6);
    double largest = 0;
    for (size_t i = 0; i < count; i++) {
        yk_tensor sum = yk_model_parameter(shared, i).grad;
        yk_tensor first = yk_model_parameter(apart, i).grad;
        yk_tensor second = yk_model_parameter(apart, count + i).grad;
        for (int64_t e = 0; e < yk_tensor_count(&sum); e++) {
            largest = fmax(largest, fabs(yk_tensor_get(&sum, e)));
            assert_float_equal(yk_tensor_get(&sum, e),
                               yk_tensor_get(&first, e) + yk_tensor_get(&second, e), 1e-6);
        }
    }
    assert_true(largest > 1e-3);

    /* Both have moved from 0 by a tenth: the shared one by that of a, and then by that of b. */
    assert_int_equal(yk_model_buffer_count(shared), 3);
    yk_tensor mean = yk_model_buffer(shared, 0).value, batches = yk_model_buffer(shared, 2).value;
    yk_tensor of_a = yk_model_buffer(apart, 0).value, of_b = yk_model_buffer(apart, 3).value;
    for (int64_t e = 0; e < SIZE; e++)
        assert_float_equal(yk_tensor_get(&mean, e),
                           0.9 * yk_tensor_get(&of_a, e) + yk_tensor_get(&of_b, e), 1e-6);
    assert_true(yk_tensor_get(&batches, 0) == 2);
    yk_model_destroy(shared);
    yk_model_destroy(apart);
}

YK_TEST(gradients_of_both_uses_add_up)
{
    check("ref");
    check("cpu");
}

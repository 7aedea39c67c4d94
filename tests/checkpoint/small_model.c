/* See small_model.h. */
#include "small_model.h"

#include "harness.h"
#include "optim/optimizer.h"
#include "same.h"

yk_model *make_model_with(uint64_t seed, int64_t classes, const char *frozen)
{
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "images", YK_F32, 4, (int64_t[]){YK_BATCH, 3, 8, 8});
    yk_value *labels = yk_input(graph, "labels", YK_I32, 1, (int64_t[]){YK_BATCH});
    x = yk_nn_batch_norm(yk_nn_conv2d(x, "conv1", 4, 3, NULL), "bn1");
    yk_scope_push(graph, "layer1");
    x = yk_nn_batch_norm(yk_nn_conv2d(x, "conv2", 4, 3, NULL), "bn2");
    yk_scope_pop(graph);
    x = yk_nn_linear(yk_flatten(yk_global_avg_pool2d(x)), "fc", classes);
    if (frozen)
        assert_ok(yk_graph_set_trainable(graph, frozen, false, NULL));
    yk_model *model;
    assert_ok(yk_model_create(
        &model, yk_cross_entropy(x, labels, NULL),
        YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.device = "ref", o.seed = seed)));
    return model;
}

yk_model *make_model(uint64_t seed, int64_t classes)
{
    return make_model_with(seed, classes, NULL);
}

static void fill(yk_tensor tensor, double scale)
{
    for (int64_t i = 0; i < yk_tensor_count(&tensor); i++)
        if (tensor.dtype == YK_F32)
            ((float *)tensor.data)[i] = (float)(scale * (double)(i + 1));
        else
            ((int64_t *)tensor.data)[i] = (int64_t)(scale * 1e12) + i;
}

void train(yk_model *model, yk_optimizer *optimizer, int steps)
{
    for (size_t i = 0; i < yk_model_buffer_count(model); i++)
        fill(yk_model_buffer(model, i).value, 0.25 * (double)(i + 1));
    for (int step = 0; step < steps; step++) {
        for (size_t i = 0; i < yk_model_parameter_count(model); i++)
            if (yk_model_parameter(model, i).trainable)
                fill(yk_model_parameter(model, i).grad, 0.01 * (step + 1));
        assert_ok(yk_optimizer_step(optimizer));
    }
}

yk_optimizer *make_sgd(yk_model *model)
{
    yk_optimizer *optimizer;
    assert_ok(yk_sgd_create(&optimizer, model,
                            YK_WITH(yk_sgd_options, YK_SGD_OPTIONS_INIT, o.lr = 0.1,
                                    o.momentum = 0.9, o.weight_decay = 5e-4, o.nesterov = true)));
    return optimizer;
}

void assert_same_optimizer(const yk_optimizer *a, const yk_optimizer *b)
{
    const char *name;
    yk_tensor left, right;
    double value, other;
    for (size_t i = 0; yk_optimizer_state(a, i, 0, &name, &left); i++)
        for (size_t slot = 0; yk_optimizer_state(a, i, slot, &name, &left); slot++) {
            assert_true(yk_optimizer_state(b, i, slot, &name, &right));
            assert_same_tensor(name, left, right);
        }
    for (size_t i = 0; yk_optimizer_hyperparameter(a, i, &name, &value); i++) {
        assert_true(yk_optimizer_hyperparameter(b, i, &name, &other));
        assert_true(value == other);
    }
    assert_int_equal(yk_optimizer_steps(a), yk_optimizer_steps(b));
}

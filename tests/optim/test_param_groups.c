/* Parameter groups: which parameters they have, which hyperparameters are used, what is refused. */
#include "harness.h"

#include <math.h>
#include <string.h>

/* A model of fc1.weight, fc1.bias, fc2.weight, fc2.bias; every value 1, every gradient 0.5. */
static yk_model *make_model(void)
{
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "images", YK_F32, 2, (int64_t[]){YK_BATCH, 3});
    yk_value *labels = yk_input(graph, "labels", YK_I32, 1, (int64_t[]){YK_BATCH});
    yk_value *logits = yk_nn_linear(yk_nn_linear(x, "fc1", 4), "fc2", 2);
    yk_model *model;
    assert_ok(yk_model_create(
        &model, yk_cross_entropy(logits, labels, NULL),
        YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.device = yk_test_device("ref"))));
    for (size_t p = 0; p < yk_model_parameter_count(model); p++) {
        yk_parameter_view view = yk_model_parameter(model, p);
        yk_tensor value = yk_test_on_host(view.value), grad = yk_test_on_host(view.grad);
        for (int64_t i = 0; i < yk_tensor_count(&view.value); i++) {
            ((float *)value.data)[i] = 1;
            ((float *)grad.data)[i] = 0.5f;
        }
        yk_test_write_back(view.value, value);
        yk_test_write_back(view.grad, grad);
    }
    return model;
}

static double first_element(const yk_model *model, size_t parameter)
{
    return (double)*(float *)yk_test_on_host(yk_model_parameter(model, parameter).value).data;
}

static void assert_near(double value, double expected)
{
    if (!(fabs(value - expected) < 1e-6))
        fail_msg("%.9g is not %.9g", value, expected);
}

YK_TEST(norms_and_biases_without_decay)
{
    yk_model *model = make_model();
    yk_optimizer *optimizer;
    size_t group;
    assert_ok(yk_sgd_create(
        &optimizer, model,
        YK_WITH(yk_sgd_options, YK_SGD_OPTIONS_INIT, o.lr = 0.1, o.weight_decay = 0.2)));
    assert_ok(yk_optimizer_add_param_group(optimizer, yk_filter_norms_and_biases, NULL, &group));
    assert_int_equal(group, 1);
    assert_int_equal(yk_optimizer_group_count(optimizer), 2);
    assert_ok(yk_optimizer_set_group_hyperparameter(optimizer, 1, "weight_decay", 0));
    assert_ok(yk_optimizer_step(optimizer));
    for (size_t p = 0; p < 4; p++) {
        assert_int_equal(yk_optimizer_group_of(optimizer, p), p % 2);
        assert_near(first_element(model, p), 1 - 0.1 * (0.5 + (p % 2 ? 0 : 0.2)));
    }
    yk_optimizer_destroy(optimizer);
    yk_model_destroy(model);
}

/* A group with its own lr and momentum; a group without momentum beside it is plain SGD. */
YK_TEST(a_group_by_name_with_its_own_rate)
{
    yk_model *model = make_model();
    yk_optimizer *optimizer;
    size_t group;
    assert_ok(yk_sgd_create(&optimizer, model,
                            YK_WITH(yk_sgd_options, YK_SGD_OPTIONS_INIT, o.lr = 0.1,
                                    o.momentum = 0.9, o.dampening = 0.5)));
    assert_ok(yk_optimizer_add_param_group(optimizer, yk_filter_name, "fc2.*", &group));
    assert_ok(yk_optimizer_set_group_hyperparameter(optimizer, group, "lr", 0.01));
    assert_ok(yk_optimizer_set_group_hyperparameter(optimizer, group, "momentum", 0));
    assert_ok(yk_optimizer_step(optimizer));
    assert_ok(yk_optimizer_step(optimizer));
    assert_near(first_element(model, 0), 1 - 0.1 * 0.5 - 0.1 * (0.9 * 0.5 + 0.5 * 0.5));
    assert_near(first_element(model, 2), 1 - 2 * 0.01 * 0.5);
    assert_true(yk_optimizer_lr(optimizer) == 0.1);
    assert_ok(yk_optimizer_set_hyperparameter(optimizer, "lr", 0.3)); /* in every group */
    const char *name;
    double value;
    assert_true(yk_optimizer_group_hyperparameter(optimizer, group, 0, &name, &value));
    assert_string_equal(name, "lr");
    assert_true(value == 0.3);
    assert_false(yk_optimizer_group_hyperparameter(optimizer, 2, 0, &name, &value));
    yk_optimizer_destroy(optimizer);
    yk_model_destroy(model);
}

YK_TEST(groups_that_make_no_sense_are_refused)
{
    yk_model *model = make_model();
    yk_optimizer *optimizer;
    assert_ok(yk_adam_create(&optimizer, model, NULL));
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_optimizer_add_param_group(optimizer, yk_filter_name, "conv*", NULL));
    assert_contains(
        yk_last_error(),
        "none of the first group's 4 parameters, such as fc1.weight, has a name like \"conv*\"");
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_optimizer_add_param_group(optimizer, yk_filter_name, "*", NULL));
    assert_contains(yk_last_error(), "would take all 4 parameters of the first one");
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_optimizer_add_param_group(optimizer, yk_filter_name, NULL, NULL));
    assert_contains(yk_last_error(), "its filter selects none of the first group's 4 parameters");
    assert_int_equal(yk_optimizer_group_count(optimizer), 1);
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_optimizer_set_group_hyperparameter(optimizer, 1, "lr", 1));
    assert_contains(yk_last_error(), "no parameter group 1");
    assert_ok(yk_optimizer_add_param_group(optimizer, yk_filter_name, "fc1.*", NULL));
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_optimizer_set_group_hyperparameter(optimizer, 1, "beta2", 1));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_optimizer_set_hyperparameter(optimizer, "eps", -1));
    yk_optimizer_destroy(optimizer);
    yk_model_destroy(model);
}

/* A checkpoint gives a fresh optimizer, which has one group, the groups back. */
YK_TEST(a_checkpoint_holds_the_groups)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/groups.pth", yk_test_directory());
    yk_model *model = make_model(), *other = make_model();
    yk_optimizer *optimizer, *fresh;
    yk_sgd_options options = YK_SGD_OPTIONS_INIT;
    options.lr = 0.1;
    options.momentum = 0.9;
    options.weight_decay = 0.01;
    assert_ok(yk_sgd_create(&optimizer, model, &options));
    assert_ok(yk_sgd_create(&fresh, other, &options));
    assert_ok(yk_optimizer_add_param_group(optimizer, yk_filter_norms_and_biases, NULL, NULL));
    assert_ok(yk_optimizer_add_param_group(optimizer, yk_filter_name, "fc1.*", NULL));
    assert_ok(yk_optimizer_set_group_hyperparameter(optimizer, 1, "weight_decay", 0));
    assert_ok(yk_optimizer_set_group_hyperparameter(optimizer, 2, "lr", 0.02));
    assert_ok(yk_optimizer_step(optimizer));
    assert_ok(yk_checkpoint_save(path, model, optimizer, NULL));
    assert_ok(yk_checkpoint_load(path, other, fresh, NULL));

    assert_int_equal(yk_optimizer_group_count(fresh), 3);
    const char *name;
    double value, expected;
    for (size_t g = 0; g < 3; g++)
        for (size_t i = 0; yk_optimizer_group_hyperparameter(optimizer, g, i, &name, &expected);
             i++) {
            assert_true(yk_optimizer_group_hyperparameter(fresh, g, i, &name, &value));
            assert_true(value == expected);
        }
    yk_tensor left, right;
    for (size_t p = 0; p < 4; p++) {
        assert_int_equal(yk_optimizer_group_of(fresh, p), yk_optimizer_group_of(optimizer, p));
        assert_true(yk_optimizer_state(optimizer, p, 0, &name, &left));
        assert_true(yk_optimizer_state(fresh, p, 0, &name, &right));
        assert_memory_equal(yk_test_on_host(left).data, yk_test_on_host(right).data,
                            yk_tensor_bytes(&left));
    }
    yk_optimizer_destroy(optimizer);
    yk_optimizer_destroy(fresh);
    yk_model_destroy(model);
    yk_model_destroy(other);
}

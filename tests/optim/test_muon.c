/* Muon: which parameters it updates and how, groups, checkpoints, misuse. The update of one matrix
 * is in tests/device/test_muon_update.c. */
#define _GNU_SOURCE
#include "harness.h"

#include <math.h>
#include <string.h>

#include <yoke/checkpoint.h>

#include "optim/step.h"

enum { BATCH = 4, SIDE = 6, CLASSES = 3 };

/* Filters of 8 x 18 and 5 x 72, a norm, a linear layer. */
static yk_model *make_model(void)
{
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "images", YK_F32, 4, (int64_t[]){YK_BATCH, 2, SIDE, SIDE});
    yk_value *labels = yk_input(graph, "labels", YK_I32, 1, (int64_t[]){YK_BATCH});
    x = yk_relu(yk_nn_batch_norm(yk_nn_conv2d(x, "conv1", 8, 3, NULL), "bn"));
    x = yk_flatten(yk_global_avg_pool2d(yk_nn_conv2d(x, "conv2", 5, 3, NULL)));
    yk_model *model;
    assert_ok(yk_model_create(&model,
                              yk_cross_entropy(yk_nn_linear(x, "fc", CLASSES), labels, NULL),
                              YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT,
                                      o.device = yk_test_device("ref"), o.threads = 1)));
    return model;
}

static yk_optimizer *make_muon(yk_model *model)
{
    yk_optimizer *optimizer;
    yk_muon_options options = YK_MUON_OPTIONS_INIT;
    options.lr = 0.1;
    options.sgd.lr = 0.05;
    options.normalize = true;
    assert_ok(yk_muon_create(&optimizer, model, &options));
    return optimizer;
}

static void backward(yk_model *model, int step)
{
    static float x[BATCH * 2 * SIDE * SIDE];
    static int32_t labels[BATCH];
    for (int i = 0; i < BATCH * 2 * SIDE * SIDE; i++)
        x[i] = (float)sin(0.37 * i * (1 + step % 7) + step);
    for (int n = 0; n < BATCH; n++)
        labels[n] = (step + n) % CLASSES;
    yk_batch batch = {.size = BATCH,
                      .count = 2,
                      .names = (const char *[]){"images", "labels"},
                      .tensors = (yk_tensor[]){
                          {.data = x, .dtype = YK_F32, .ndim = 4, .dims = {BATCH, 2, SIDE, SIDE}},
                          {.data = labels, .dtype = YK_I32, .ndim = 1, .dims = {BATCH}}}};
    assert_ok(yk_model_forward(model, &batch));
    assert_ok(yk_model_backward(model));
}

static double norm(yk_tensor tensor)
{
    double sum = 0;
    const float *values = yk_test_on_host(tensor).data;
    for (int64_t i = 0; i < yk_tensor_count(&tensor); i++)
        sum += (double)values[i] * (double)values[i];
    return sqrt(sum);
}

/* All that is no filter has the bits that SGD alone gives it, as long as filters have no part in
 * them: in the first step. */
YK_TEST(the_rest_is_updated_by_sgd)
{
    yk_model *model = make_model(), *other = make_model();
    yk_optimizer *muon = make_muon(model), *sgd;
    assert_ok(yk_sgd_create(&sgd, other,
                            YK_WITH(yk_sgd_options, YK_SGD_OPTIONS_INIT, o.lr = 0.05,
                                    o.momentum = 0.9, o.nesterov = true)));
    backward(model, 0);
    backward(other, 0);
    assert_ok(yk_optimizer_step(muon));
    assert_ok(yk_optimizer_step(sgd));
    for (size_t i = 0; i < yk_model_parameter_count(model); i++) {
        yk_tensor a = yk_test_on_host(yk_model_parameter(model, i).value);
        yk_tensor b = yk_test_on_host(yk_model_parameter(other, i).value);
        bool same = memcmp(a.data, b.data, yk_tensor_bytes(&a)) == 0;
        assert_true(same == (a.ndim != 4));
        assert_int_equal(yk_optimizer_group_of(muon, i), a.ndim == 4);
    }
    yk_optimizer_destroy(muon);
    yk_optimizer_destroy(sgd);
    yk_model_destroy(model);
    yk_model_destroy(other);
}

/* With normalised weights and a rate of 0 the filters have the norm sqrt(K); with another rate they
 * go from there by a matrix whose singular values are about 1. */
YK_TEST(filters_are_normalised_and_take_orthogonal_steps)
{
    yk_model *model = make_model();
    yk_optimizer *optimizer = make_muon(model);
    assert_ok(yk_optimizer_set_group_hyperparameter(optimizer, 1, "lr", 0));
    backward(model, 0);
    assert_ok(yk_optimizer_step(optimizer));
    yk_tensor filters = yk_model_parameter(model, 0).value;
    assert_true(fabs(norm(filters) - sqrt(8)) < 1e-5);
    float before[8 * 18], after[8 * 18];
    memcpy(before, yk_test_on_host(filters).data, sizeof before);
    assert_ok(yk_optimizer_set_group_hyperparameter(optimizer, 1, "lr", 0.1));
    backward(model, 1);
    assert_ok(yk_optimizer_step(optimizer));
    memcpy(after, yk_test_on_host(filters).data, sizeof after);
    double squares = 0;
    for (int i = 0; i < 8 * 18; i++)
        squares += pow(((double)before[i] - (double)after[i]) / 0.1, 2);
    assert_true(squares > 8 * 0.4 && squares < 8 * 1.5); /* of 8 singular values */
    yk_optimizer_destroy(optimizer);
    yk_model_destroy(model);
}

/* Zeros, such as those of a branch that is to begin as nothing, have no norm to be given. */
YK_TEST(filters_of_zeros_take_a_step)
{
    yk_model *model = make_model();
    yk_optimizer *optimizer = make_muon(model);
    yk_tensor filters = yk_model_parameter(model, 3).value;
    assert_ok(yk_nn_init_constant(model, "conv2.weight", 0));
    assert_true(norm(filters) == 0);
    backward(model, 0);
    assert_ok(yk_optimizer_step(optimizer));
    assert_true(norm(filters) > 0.1 * 0.5 && norm(filters) < 0.1 * sqrt(5) * 1.3);
    yk_optimizer_destroy(optimizer);
    yk_model_destroy(model);
}

YK_TEST(promise_15_a_checkpoint_of_muon_continues_to_the_same_bits)
{
    char path[256];
    snprintf(path, sizeof path, "%s/muon.pth", yk_test_directory());
    yk_model *model = make_model(), *resumed = make_model();
    yk_optimizer *optimizer = make_muon(model), *other = make_muon(resumed);
    for (int step = 0; step < 6; step++) {
        backward(model, step);
        assert_ok(yk_optimizer_step(optimizer));
        if (step == 2)
            assert_ok(yk_checkpoint_save(path, model, optimizer, NULL));
    }
    assert_ok(yk_checkpoint_load(path, resumed, other, NULL));
    for (int step = 3; step < 6; step++) {
        backward(resumed, step);
        assert_ok(yk_optimizer_step(other));
    }
    for (size_t i = 0; i < yk_model_parameter_count(model); i++) {
        yk_tensor a = yk_test_on_host(yk_model_parameter(model, i).value);
        yk_tensor b = yk_test_on_host(yk_model_parameter(resumed, i).value);
        assert_memory_equal(a.data, b.data, yk_tensor_bytes(&a));
    }
    yk_optimizer_destroy(optimizer);
    yk_optimizer_destroy(other);
    yk_model_destroy(model);
    yk_model_destroy(resumed);
}

/* Two steps; if `torn`, the second is made once more after it has failed in the middle. */
static yk_model *train_two_steps(bool torn)
{
    size_t part_of[6];
    const char *path = yk_test_path("one_step.pth");
    yk_model *model = make_model();
    yk_optimizer *optimizer = make_muon(model);
    assert_int_equal(yk_model_parameter_count(model), sizeof part_of / sizeof *part_of);
    for (size_t i = 0; i < sizeof part_of / sizeof *part_of; i++)
        part_of[i] = i > 0; /* the first filters, and the rest */
    assert_ok(yki_optimizer_partition(optimizer, part_of, 2));
    backward(model, 0);
    assert_ok(yk_optimizer_step(optimizer));
    assert_ok(yk_checkpoint_save(path, model, optimizer, NULL));
    backward(model, 1);
    if (torn) {
        assert_ok(yki_optimizer_update_part(optimizer, 0));
        yki_optimizer_break_step(optimizer);
        assert_ok(yk_checkpoint_load(path, model, optimizer, NULL));
        yk_model_zero_grad(model);
        backward(model, 1);
    }
    assert_ok(yk_optimizer_step(optimizer));
    yk_optimizer_destroy(optimizer);
    return model;
}

YK_TEST(a_step_that_failed_half_way_leaves_nothing_for_the_next)
{
    yk_model *model = train_two_steps(true), *expected = train_two_steps(false);
    for (size_t i = 0; i < yk_model_parameter_count(model); i++) {
        yk_tensor a = yk_test_on_host(yk_model_parameter(model, i).value);
        yk_tensor b = yk_test_on_host(yk_model_parameter(expected, i).value);
        assert_memory_equal(a.data, b.data, yk_tensor_bytes(&a));
    }
    yk_model_destroy(model);
    yk_model_destroy(expected);
}

YK_TEST(misuse_of_muon_is_an_error)
{
    yk_optimizer *optimizer;
    yk_model *model = make_model();
    const yk_muon_options usual = YK_MUON_OPTIONS_INIT;
    yk_muon_options wrong[5] = {usual, usual, usual, usual, usual};
    wrong[0].lr = -1;
    wrong[1].momentum = 0;
    wrong[2].ns_steps = 0;
    wrong[3].sgd.momentum = 0;
    wrong[4].weight_decay = NAN;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_status(YK_ERROR_INVALID_ARGUMENT, yk_muon_create(&optimizer, model, &wrong[i]));
        assert_null(optimizer);
    }
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_muon_create(&optimizer, NULL, NULL));
    yk_optimizer *muon = make_muon(model);
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_optimizer_set_group_hyperparameter(muon, 1, "ns_steps", 2.5));
    assert_status(YK_ERROR_INVALID_ARGUMENT, /* norms and biases are no matrices */
                  yk_optimizer_set_group_hyperparameter(muon, 0, "ns_steps", 3));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_optimizer_set_hyperparameter(muon, "ns_steps", 3));
    assert_ok(yk_optimizer_set_group_hyperparameter(muon, 1, "ns_steps", 3));
    yk_optimizer_destroy(muon);
    yk_model_destroy(model);
}

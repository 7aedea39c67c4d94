/* The states of optimizers in checkpoints: there and back, and those that are refused. */
#define _GNU_SOURCE
#include "harness.h"
#include "same.h"
#include "small_model.h"

#include <string.h>

#include "optim/optimizer.h"

static const yk_training_state begun = {.epoch = 1, .step = 300};

/* Takes some steps and saves a checkpoint, from which `fresh` must continue as `optimizer` does.
 * Destroys all four. */
static void check_going_on(yk_model *model, yk_optimizer *optimizer, yk_model *other,
                           yk_optimizer *fresh, int steps)
{
    train(model, optimizer, steps);
    assert_ok(yk_checkpoint_save(yk_test_path("a.pth"), model, optimizer, NULL));
    assert_ok(yk_checkpoint_load(yk_test_path("a.pth"), other, fresh, NULL));
    assert_same_optimizer(optimizer, fresh);
    train(model, optimizer, 2);
    train(other, fresh, 2);
    assert_same_values(model, other);
    assert_same_optimizer(optimizer, fresh);
    yk_optimizer_destroy(optimizer);
    yk_optimizer_destroy(fresh);
    yk_model_destroy(model);
    yk_model_destroy(other);
}

/* Norms and biases become a group of their own, in which this is 0. */
static void switch_off_for_norms(yk_optimizer *optimizer, const char *name)
{
    assert_ok(yk_optimizer_add_param_group(optimizer, yk_filter_norms_and_biases, NULL, NULL));
    assert_ok(yk_optimizer_set_group_hyperparameter(optimizer, 1, name, 0));
}

YK_TEST(adamw_there_and_back)
{
    yk_model *model = make_model(1, 10), *other = make_model(2, 10);
    yk_optimizer *optimizer, *fresh;
    yk_adam_options options = YK_ADAM_OPTIONS_INIT;
    options.lr = 0.01;
    options.beta1 = 0.8;
    options.weight_decay = 0.1;
    options.decoupled = true;
    assert_ok(yk_adam_create(&optimizer, model, &options));
    assert_ok(yk_adam_create(&fresh, other,
                             YK_WITH(yk_adam_options, YK_ADAM_OPTIONS_INIT, o.decoupled = true)));
    train(model, optimizer, 3);
    assert_ok(yk_checkpoint_save(yk_test_path("a.pth"), model, optimizer, NULL));
    assert_ok(yk_checkpoint_load(yk_test_path("a.pth"), other, fresh, NULL));
    assert_same_values(model, other);
    assert_same_optimizer(optimizer, fresh);
    yk_optimizer_destroy(optimizer);
    yk_optimizer_destroy(fresh);
    yk_model_destroy(model);
    yk_model_destroy(other);
}

/* A group without amsgrad has no largest squares in the file. */
YK_TEST(promise_15_amsgrad_goes_on_to_the_same_bits)
{
    for (int decoupled = 0; decoupled < 2; decoupled++) {
        yk_model *model = make_model(1, 10), *other = make_model(2, 10);
        yk_optimizer *optimizer, *fresh;
        yk_adam_options options = YK_ADAM_OPTIONS_INIT;
        options.amsgrad = true;
        options.decoupled = decoupled;
        assert_ok(yk_adam_create(&fresh, other, &options));
        options.lr = 0.01;
        options.beta2 = 0.5;
        assert_ok(yk_adam_create(&optimizer, model, &options));
        switch_off_for_norms(optimizer, "amsgrad");
        check_going_on(model, optimizer, other, fresh, 3);
    }
}

YK_TEST(promise_15_adadelta_goes_on_to_the_same_bits)
{
    yk_model *model = make_model(1, 10), *other = make_model(2, 10);
    yk_optimizer *optimizer, *fresh;
    assert_ok(yk_adadelta_create(&fresh, other, NULL));
    assert_ok(yk_adadelta_create(&optimizer, model,
                                 YK_WITH(yk_adadelta_options, YK_ADADELTA_OPTIONS_INIT, o.lr = 0.5,
                                         o.rho = 0.8, o.weight_decay = 0.1)));
    switch_off_for_norms(optimizer, "weight_decay");
    check_going_on(model, optimizer, other, fresh, 3);
}

/* Its state is another one. */
YK_TEST(amsgrad_is_not_loaded_without_memory_for_it)
{
    yk_model *model = make_model(1, 10), *other = make_model(2, 10), *copy = make_model(2, 10);
    yk_optimizer *optimizer, *plain;
    assert_ok(yk_adam_create(&optimizer, model,
                             YK_WITH(yk_adam_options, YK_ADAM_OPTIONS_INIT, o.amsgrad = true)));
    assert_ok(yk_adam_create(&plain, other, NULL));
    train(model, optimizer, 1);
    assert_ok(yk_checkpoint_save(yk_test_path("a.pth"), model, optimizer, NULL));
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_checkpoint_load(yk_test_path("a.pth"), other, plain, NULL));
    assert_contains(yk_last_error(), "created without amsgrad");
    assert_same_values(other, copy);
    assert_int_equal(yk_optimizer_steps(plain), 0);
    yk_optimizer_destroy(optimizer);
    yk_optimizer_destroy(plain);
    yk_model_destroy(model);
    yk_model_destroy(other);
    yk_model_destroy(copy);
}

/* A group without momentum has none in the file; the others keep theirs. */
YK_TEST(promise_15_rmsprop_goes_on_to_the_same_bits)
{
    for (int form = 0; form < 4; form++) {
        yk_model *model = make_model(1, 10), *other = make_model(2, 10);
        yk_optimizer *optimizer, *fresh;
        yk_rmsprop_options options = YK_RMSPROP_OPTIONS_INIT;
        options.momentum = form & 1 ? 0.9 : 0;
        options.centered = form & 2;
        assert_ok(yk_rmsprop_create(&fresh, other, &options));
        options.lr = 0.001;
        options.alpha = 0.9;
        options.weight_decay = 0.1;
        assert_ok(yk_rmsprop_create(&optimizer, model, &options));
        switch_off_for_norms(optimizer, "momentum");
        check_going_on(model, optimizer, other, fresh, 3);
    }
}

YK_TEST(promise_15_nadam_radam_and_adamax_go_on_to_the_same_bits)
{
    for (int decoupled = 0; decoupled < 2; decoupled++) {
        yk_model *model = make_model(1, 10), *other = make_model(2, 10);
        yk_optimizer *optimizer, *fresh;
        assert_ok(yk_nadam_create(&fresh, other, NULL));
        assert_ok(yk_nadam_create(&optimizer, model,
                                  YK_WITH(yk_nadam_options, YK_NADAM_OPTIONS_INIT, o.beta1 = 0.8,
                                          o.momentum_decay = 0.1, o.weight_decay = 0.1,
                                          o.decoupled_weight_decay = decoupled)));
        switch_off_for_norms(optimizer, "decoupled_weight_decay");
        check_going_on(model, optimizer, other, fresh, 3);
        model = make_model(1, 10), other = make_model(2, 10);
        assert_ok(yk_radam_create(&fresh, other, NULL));
        assert_ok(
            yk_radam_create(&optimizer, model,
                            YK_WITH(yk_radam_options, YK_RADAM_OPTIONS_INIT, o.beta2 = 0.8,
                                    o.weight_decay = 0.1, o.decoupled_weight_decay = decoupled)));
        switch_off_for_norms(optimizer, "weight_decay");
        check_going_on(model, optimizer, other, fresh, 7);
    }
    yk_model *model = make_model(1, 10), *other = make_model(2, 10);
    yk_optimizer *optimizer, *fresh;
    assert_ok(yk_adamax_create(&fresh, other, NULL));
    assert_ok(yk_adamax_create(&optimizer, model,
                               YK_WITH(yk_adamax_options, YK_ADAMAX_OPTIONS_INIT, o.beta2 = 0.8)));
    check_going_on(model, optimizer, other, fresh, 3);
}

/* A step that schedules have given another beta1: the product is kept, not computed again. */
YK_TEST(promise_15_nadams_product_of_other_momenta_goes_on)
{
    yk_model *model = make_model(1, 10), *other = make_model(2, 10);
    yk_optimizer *optimizer, *fresh;
    assert_ok(yk_nadam_create(&fresh, other, NULL));
    assert_ok(yk_nadam_create(&optimizer, model, NULL));
    assert_ok(yk_optimizer_set_hyperparameter(optimizer, "beta1", 0.5));
    train(model, optimizer, 2);
    assert_ok(yk_optimizer_set_hyperparameter(optimizer, "beta1", 0.95));
    check_going_on(model, optimizer, other, fresh, 1);
}

/* Also where the state in the file has not begun. */
YK_TEST(promise_15_adagrad_goes_on_to_the_same_bits)
{
    for (int steps = 0; steps <= 3; steps += 3) {
        yk_model *model = make_model(1, 10), *other = make_model(2, 10);
        yk_optimizer *optimizer, *fresh;
        yk_adagrad_options options = YK_ADAGRAD_OPTIONS_INIT;
        assert_ok(yk_adagrad_create(&fresh, other, &options));
        train(other, fresh, 2); /* which loading undoes */
        options.lr_decay = 0.1;
        options.weight_decay = 0.1;
        options.initial_accumulator_value = 0.5;
        assert_ok(yk_adagrad_create(&optimizer, model, &options));
        check_going_on(model, optimizer, other, fresh, steps);
    }
}

/* Files have the steps of Adam as float32, as PyTorch's do, which does not hold all of them. */
YK_TEST(adam_counts_on_after_millions_of_steps)
{
    const int64_t many = ((int64_t)1 << 24) + 1;
    yk_model *model = make_model(1, 10), *other = make_model(2, 10);
    yk_optimizer *optimizer, *fresh;
    assert_ok(yk_adam_create(&optimizer, model, NULL));
    assert_ok(yk_adam_create(&fresh, other, NULL));
    train(model, optimizer, 1);
    yk_optimizer_set_steps(optimizer, many);
    assert_ok(yk_checkpoint_save(yk_test_path("a.pth"), model, optimizer, &begun));
    assert_ok(yk_checkpoint_load(yk_test_path("a.pth"), other, fresh, NULL));
    assert_true(yk_optimizer_steps(fresh) == many);
    for (size_t i = 0; i < yk_model_parameter_count(other); i++)
        assert_true(yki_optimizer_age(fresh, i).steps == many);
    yk_optimizer_destroy(optimizer);
    yk_optimizer_destroy(fresh);
    yk_model_destroy(model);
    yk_model_destroy(other);
}

/* ---- thawed parameters ----------------------------------------------------------------------- */

typedef enum rule { SGD, ADAM, ADAGRAD, RMSPROP } rule;

static yk_optimizer *make_optimizer(yk_model *model, rule with)
{
    yk_optimizer *optimizer;
    if (with == ADAM)
        assert_ok(yk_adam_create(&optimizer, model, NULL));
    else if (with == ADAGRAD)
        assert_ok(yk_adagrad_create(&optimizer, model,
                                    YK_WITH(yk_adagrad_options, YK_ADAGRAD_OPTIONS_INIT,
                                            o.initial_accumulator_value = 0.1)));
    else if (with == RMSPROP)
        assert_ok(yk_rmsprop_create(
            &optimizer, model,
            YK_WITH(yk_rmsprop_options, YK_RMSPROP_OPTIONS_INIT, o.lr = 0.001, o.momentum = 0.9)));
    else
        assert_ok(yk_sgd_create(&optimizer, model,
                                YK_WITH(yk_sgd_options, YK_SGD_OPTIONS_INIT, o.lr = 0.1,
                                        o.momentum = 0.9, o.dampening = 0.5)));
    return optimizer;
}

/* All three models have been in one state and taken one step with the same gradients. For `thawed`
 * it is the first one of conv1 alone, for `fresh` that of all parameters. */
static void assert_thawed(yk_model *thawed, yk_model *frozen, yk_model *fresh)
{
    for (size_t i = 0; i < yk_model_parameter_count(thawed); i++) {
        yk_parameter_view found = yk_model_parameter(thawed, i);
        const yk_model *expected = strncmp(found.name, "conv1", 5) == 0 ? fresh : frozen;
        assert_same_tensor(found.name, found.value, yk_model_parameter(expected, i).value);
    }
}

static void check_thawed(rule with)
{
    const char *path = yk_test_path("frozen.pth"), *again = yk_test_path("thawed.pth");
    yk_model *frozen = make_model_with(1, 10, "conv1*"), *thawed = make_model(2, 10),
             *fresh = make_model(3, 10), *other = make_model(4, 10);
    yk_optimizer *optimizers[] = {make_optimizer(frozen, with), make_optimizer(thawed, with),
                                  make_optimizer(fresh, with), make_optimizer(other, with)};
    train(frozen, optimizers[0], 300);
    assert_ok(yk_checkpoint_save(path, frozen, optimizers[0], &begun));
    assert_ok(yk_checkpoint_load(path, thawed, optimizers[1], NULL));
    assert_ok(yk_model_load(fresh, path));
    for (int i = 0; i < 3; i++)
        train((yk_model *[]){frozen, thawed, fresh}[i], optimizers[i], 1);
    assert_thawed(thawed, frozen, fresh);
    assert_ok(yk_checkpoint_save(again, thawed, optimizers[1], &begun));
    assert_ok(yk_checkpoint_load(again, other, optimizers[3], NULL));
    train(thawed, optimizers[1], 2);
    train(other, optimizers[3], 2);
    assert_same_values(thawed, other);
    assert_same_optimizer(optimizers[1], optimizers[3]);
    for (int i = 0; i < 4; i++) {
        yk_optimizer_destroy(optimizers[i]);
        yk_model_destroy((yk_model *[]){frozen, thawed, fresh, other}[i]);
    }
}

/* As in PyTorch, whose optimizers have no state of parameters without gradients. */
YK_TEST(thawed_parameters_begin_with_their_first_step)
{
    check_thawed(SGD);
    check_thawed(ADAM);
    check_thawed(ADAGRAD);
    check_thawed(RMSPROP);
}

YK_TEST(another_optimizer_is_refused_and_nothing_changes)
{
    yk_model *model = make_model(1, 10), *other = make_model(2, 10), *copy = make_model(2, 10);
    yk_optimizer *optimizer = make_sgd(model), *adam, *adagrad, *rmsprop;
    train(model, optimizer, 1);
    assert_ok(yk_checkpoint_save(yk_test_path("a.pth"), model, optimizer, &begun));
    assert_ok(yk_adam_create(&adam, other, NULL));
    assert_status(YK_ERROR_MISMATCH, yk_checkpoint_load(yk_test_path("a.pth"), other, adam, NULL));
    assert_contains(yk_last_error(), "was trained with sgd, not with adam");
    /* As PyTorch's files, which do not say whose state they hold. */
    assert_ok(yk_checkpoint_save(yk_test_path("b.pth"), model, optimizer, NULL));
    assert_status(YK_ERROR_MISMATCH, yk_checkpoint_load(yk_test_path("b.pth"), other, adam, NULL));
    assert_contains(yk_last_error(), "its optimizer is not adam, whose ");
    assert_ok(yk_rmsprop_create(&rmsprop, other, NULL));
    assert_status(YK_ERROR_MISMATCH,
                  yk_checkpoint_load(yk_test_path("b.pth"), other, rmsprop, NULL));
    assert_contains(yk_last_error(), "its optimizer is not rmsprop, whose \"alpha\"");
    assert_ok(yk_adagrad_create(&adagrad, other, NULL));
    assert_status(YK_ERROR_MISMATCH,
                  yk_checkpoint_load(yk_test_path("b.pth"), other, adagrad, NULL));
    assert_contains(yk_last_error(), "its optimizer is not adagrad, whose \"lr_decay\"");
    assert_same_values(other, copy);
    assert_int_equal(yk_optimizer_steps(adam), 0);
    yk_optimizer_destroy(optimizer);
    yk_optimizer_destroy(adam);
    yk_optimizer_destroy(adagrad);
    yk_optimizer_destroy(rmsprop);
    yk_model_destroy(model);
    yk_model_destroy(other);
    yk_model_destroy(copy);
}

typedef yk_status (*creation)(yk_optimizer **optimizer, yk_model *model);

static yk_status create_adam(yk_optimizer **optimizer, yk_model *model)
{
    return yk_adam_create(optimizer, model, NULL);
}

static yk_status create_nadam(yk_optimizer **optimizer, yk_model *model)
{
    return yk_nadam_create(optimizer, model, NULL);
}

static yk_status create_radam(yk_optimizer **optimizer, yk_model *model)
{
    return yk_radam_create(optimizer, model, NULL);
}

static yk_status create_adamax(yk_optimizer **optimizer, yk_model *model)
{
    return yk_adamax_create(optimizer, model, NULL);
}

static yk_status create_lamb(yk_optimizer **optimizer, yk_model *model)
{
    return yk_lamb_create(optimizer, model, NULL);
}

/* In files that do not name their optimizer, as PyTorch's do not. */
YK_TEST(relatives_of_adam_are_told_apart)
{
    static const struct {
        creation create;
        const char *refusal; /* of its files, by the others */
    } kinds[] = {{create_adam, "its optimizer is adam, not "},
                 {create_nadam, "its optimizer is nadam, not "},
                 {create_radam, "its optimizer is radam, not "},
                 {create_adamax, "its optimizer is adamax, not "},
                 {create_lamb, "its optimizer is not "}};
    enum { KINDS = sizeof kinds / sizeof *kinds };
    for (int from = 0; from < KINDS; from++) {
        yk_model *model = make_model(1, 10);
        yk_optimizer *optimizer;
        assert_ok(kinds[from].create(&optimizer, model));
        train(model, optimizer, 1);
        assert_ok(yk_checkpoint_save(yk_test_path("a.pth"), model, optimizer, NULL));
        yk_optimizer_destroy(optimizer);
        for (int to = 0; to < KINDS; to++) {
            assert_ok(kinds[to].create(&optimizer, model));
            assert_status(from == to ? YK_OK : YK_ERROR_MISMATCH,
                          yk_checkpoint_load(yk_test_path("a.pth"), model, optimizer, NULL));
            if (from != to)
                assert_contains(yk_last_error(), kinds[from].refusal);
            yk_optimizer_destroy(optimizer);
        }
        yk_model_destroy(model);
    }
}

/* A layer whose parameters are declared in either order. */
static yk_model *make_linear(bool bias_first)
{
    yk_value *parameters[2];
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "x", YK_F32, 2, (int64_t[]){YK_BATCH, 3});
    for (int i = 0; i < 2; i++) {
        bool bias = bias_first == (i == 0);
        parameters[bias] = bias ? yk_parameter(graph, "bias", YK_F32, 1, (int64_t[]){2}, 0, 0)
                                : yk_parameter(graph, "weight", YK_F32, 2, (int64_t[]){2, 3}, 0, 0);
    }
    yk_value *y = yk_linear(x, parameters[0], parameters[1]);
    yk_model *model;
    assert_ok(yk_model_create(&model, yk_reduce_loss(y, YK_LOSS_MEAN), NULL));
    return model;
}

/* As in PyTorch, whose state_dict of an optimizer has no names. */
YK_TEST(the_state_of_an_optimizer_goes_by_the_order_of_parameters)
{
    yk_model *model = make_linear(false), *other = make_linear(true);
    yk_optimizer *from, *to;
    assert_ok(yk_adam_create(&from, model, NULL));
    assert_ok(yk_adam_create(&to, other, NULL));
    assert_ok(yk_optimizer_step(from));
    assert_ok(yk_checkpoint_save(yk_test_path("a.pth"), model, from, NULL));
    assert_ok(yk_checkpoint_load(yk_test_path("a.pth"), other, NULL, NULL));
    assert_status(YK_ERROR_MISMATCH, yk_checkpoint_load(yk_test_path("a.pth"), other, to, NULL));
    assert_contains(yk_last_error(),
                    "the optimizer's exp_avg of parameter 0 is (2, 3), but that of the model, "
                    "bias, is (2): they must be declared in the same order");
    yk_optimizer_destroy(from);
    yk_optimizer_destroy(to);
    yk_model_destroy(model);
    yk_model_destroy(other);
}

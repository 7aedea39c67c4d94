/* Averaged weights: the numbers, swapping, buffers, checkpoints. */
#define _GNU_SOURCE
#include "given.h"

static yk_model *make_model(void)
{
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "images", YK_F32, 2, (int64_t[]){YK_BATCH, 7});
    yk_value *labels = yk_input(graph, "labels", YK_I32, 1, (int64_t[]){YK_BATCH});
    x = yk_nn_batch_norm(yk_nn_linear(x, "fc", 3), "bn");
    yk_model *model;
    assert_ok(yk_model_create(
        &model, yk_cross_entropy(x, labels, NULL),
        YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.device = yk_test_device("ref"))));
    return model;
}

/* All parameters and floating-point buffers. */
static void fill(yk_model *model, float value)
{
    for (size_t p = 0; p < yk_model_parameter_count(model); p++) {
        yk_tensor tensor = yk_model_parameter(model, p).value, host = yk_test_on_host(tensor);
        for (int64_t i = 0; i < yk_tensor_count(&tensor); i++)
            ((float *)host.data)[i] = value + (float)p;
        yk_test_write_back(tensor, host);
    }
    for (size_t b = 0; b < 3; b++) {
        yk_tensor tensor = yk_model_buffer(model, b).value, host = yk_test_on_host(tensor);
        if (b < 2)
            *(float *)host.data = value;
        else
            *(int64_t *)host.data = (int64_t)value;
        yk_test_write_back(tensor, host);
    }
}

static double value_of(yk_tensor tensor)
{
    return (double)*(float *)yk_test_on_host(tensor).data;
}

static double parameter(const yk_model *model, size_t index)
{
    return value_of(yk_model_parameter(model, index).value);
}

static void start(yk_model **model, yk_optimizer **optimizer, yk_ema **ema, bool use_buffers)
{
    *model = make_model();
    assert_ok(
        yk_sgd_create(optimizer, *model,
                      YK_WITH(yk_sgd_options, YK_SGD_OPTIONS_INIT, o.lr = 0.1, o.momentum = 0.9)));
    assert_ok(yk_ema_create(
        ema, *optimizer,
        YK_WITH(yk_ema_options, YK_EMA_OPTIONS_INIT, o.decay = 0.75, o.use_buffers = use_buffers)));
}

static void stop(yk_model *model, yk_optimizer *optimizer, yk_ema *ema)
{
    yk_ema_destroy(ema);
    yk_optimizer_destroy(optimizer);
    yk_model_destroy(model);
}

static void update_with(yk_model *model, yk_ema *ema, float value)
{
    fill(model, value);
    assert_ok(yk_ema_update(ema));
}

YK_TEST(the_first_update_copies_the_others_move)
{
    yk_model *model;
    yk_optimizer *optimizer;
    yk_ema *ema;
    start(&model, &optimizer, &ema, false);
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_ema_swap(ema)); /* nothing there yet */
    update_with(model, ema, 8);
    assert_true(value_of(yk_ema_value(ema, 0)) == 8);
    update_with(model, ema, 16);
    assert_true(value_of(yk_ema_value(ema, 0)) == 10);
    assert_true(value_of(yk_ema_value(ema, 2)) == 12);
    update_with(model, ema, 20);
    assert_true(value_of(yk_ema_value(ema, 0)) == 12.5);
    assert_int_equal(yk_ema_updates(ema), 3);
    stop(model, optimizer, ema);
}

YK_TEST(updates_of_equal_weight_give_the_mean)
{
    yk_model *model = make_model();
    yk_optimizer *optimizer;
    yk_ema *ema;
    assert_ok(yk_sgd_create(&optimizer, model, NULL));
    assert_ok(yk_ema_create(&ema, optimizer,
                            YK_WITH(yk_ema_options, YK_EMA_OPTIONS_INIT, o.equal = true)));
    update_with(model, ema, 8);
    update_with(model, ema, 16);
    assert_true(value_of(yk_ema_value(ema, 0)) == 12);
    update_with(model, ema, 0);
    assert_true(value_of(yk_ema_value(ema, 0)) == 8);
    assert_ok(yk_checkpoint_save(yk_test_path("a.pth"), model, optimizer, NULL));
    update_with(model, ema, 100);
    assert_ok(yk_checkpoint_load(yk_test_path("a.pth"), model, optimizer, NULL));
    assert_int_equal(yk_ema_updates(ema), 3);
    update_with(model, ema, 4); /* counts for a fourth, as it would have without the file */
    assert_true(value_of(yk_ema_value(ema, 0)) == 7);
    stop(model, optimizer, ema);
}

YK_TEST(swapping_twice_changes_nothing)
{
    yk_model *model;
    yk_optimizer *optimizer;
    yk_ema *ema;
    start(&model, &optimizer, &ema, false);
    update_with(model, ema, 8);
    fill(model, 1);
    assert_ok(yk_checkpoint_save(yk_test_path("a.pth"), model, optimizer, NULL));
    assert_ok(yk_ema_swap(ema));
    assert_true(parameter(model, 0) == 8);
    assert_true(value_of(yk_model_buffer(model, 0).value) == 1); /* the model's own */
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_ema_update(ema));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_optimizer_step(optimizer));
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_checkpoint_save("never.pth", model, optimizer, NULL));
    assert_contains(yk_last_error(), "call yk_ema_swap first");
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_checkpoint_load(yk_test_path("a.pth"), model, optimizer, NULL));
    assert_contains(yk_last_error(), "call yk_ema_swap first");
    assert_ok(yk_ema_swap(ema));
    assert_true(parameter(model, 0) == 1);
    assert_true(value_of(yk_ema_value(ema, 0)) == 8);
    stop(model, optimizer, ema);
}

YK_TEST(buffers_are_averaged_on_request)
{
    yk_model *model;
    yk_optimizer *optimizer;
    yk_ema *ema;
    start(&model, &optimizer, &ema, true);
    size_t parameters = yk_model_parameter_count(model);
    update_with(model, ema, 8);
    update_with(model, ema, 16);
    assert_true(value_of(yk_ema_value(ema, parameters)) == 10);     /* running_mean */
    assert_true(value_of(yk_ema_value(ema, parameters + 1)) == 10); /* running_var */
    assert_int_equal(*(int64_t *)yk_test_on_host(yk_ema_value(ema, parameters + 2)).data, 16);
    assert_ok(yk_ema_swap(ema));
    assert_true(value_of(yk_model_buffer(model, 0).value) == 10);
    assert_ok(yk_ema_swap(ema));
    stop(model, optimizer, ema);
}

/* Model, optimizer, scaler and average in every order; what is left keeps the rest alive. */
YK_TEST(objects_are_destroyed_in_any_order)
{
    for (int order = 0; order < 24; order++) {
        yk_model *model;
        yk_optimizer *optimizer;
        yk_ema *ema;
        yk_grad_scaler *scaler;
        start(&model, &optimizer, &ema, true);
        assert_ok(yk_grad_scaler_create(&scaler, model, NULL));
        bool gone[4] = {false};
        for (int left = 4, code = order; left > 0; code /= left, left--) {
            int which = code % left;
            for (int i = 0; i <= which; i++)
                which += gone[i];
            gone[which] = true;
            if (which == 0)
                yk_model_destroy(model);
            else if (which == 1)
                yk_optimizer_destroy(optimizer);
            else if (which == 2)
                yk_ema_destroy(ema);
            else
                yk_grad_scaler_destroy(scaler);
            if (!gone[1])
                assert_ok(yk_optimizer_step(optimizer));
            if (!gone[2])
                assert_ok(yk_ema_update(ema));
        }
    }
}

YK_TEST(null_is_refused)
{
    yk_model *model;
    yk_optimizer *optimizer, *none;
    yk_ema *ema;
    yk_grad_scaler *scaler;
    start(&model, &optimizer, &ema, false);
    const yk_status all[] = {yk_sgd_create(&none, NULL, NULL),
                             yk_sgd_create(NULL, model, NULL),
                             yk_adam_create(&none, NULL, NULL),
                             yk_grad_scaler_create(&scaler, NULL, NULL),
                             yk_grad_scaler_step(NULL, NULL),
                             yk_grad_scaler_unscale(NULL),
                             yk_grad_scaler_update(NULL),
                             yk_ema_update(NULL),
                             yk_ema_swap(NULL),
                             yk_optimizer_step(NULL),
                             yk_clip_grad_norm(NULL, 1, NULL),
                             yk_optimizer_add_param_group(NULL, NULL, NULL, NULL),
                             yk_optimizer_set_hyperparameter(NULL, "lr", 1),
                             yk_schedule_check(NULL)};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        assert_int_equal(all[i], YK_ERROR_INVALID_ARGUMENT);
    assert_null(none);
    assert_null(scaler);
    stop(model, optimizer, ema);
}

YK_TEST(a_decay_of_zero_follows_the_weights)
{
    yk_model *model;
    yk_optimizer *optimizer;
    yk_ema *ema;
    start(&model, &optimizer, &ema, false);
    yk_ema_destroy(ema);
    assert_ok(
        yk_ema_create(&ema, optimizer, YK_WITH(yk_ema_options, YK_EMA_OPTIONS_INIT, o.decay = 0)));
    assert_true(yk_ema_decay(ema) == 0);
    stop(model, optimizer, ema);
}

YK_TEST(wrong_decays_and_a_second_average_are_refused)
{
    yk_model *model;
    yk_optimizer *optimizer;
    yk_ema *ema, *second;
    start(&model, &optimizer, &ema, false);
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_ema_create(&second, optimizer, NULL));
    assert_null(second);
    yk_ema_destroy(ema);
    assert_status(
        YK_ERROR_INVALID_ARGUMENT,
        yk_ema_create(&ema, optimizer, YK_WITH(yk_ema_options, YK_EMA_OPTIONS_INIT, o.decay = 1)));
    assert_contains(yk_last_error(), "decay must be at least 0 and below 1");
    stop(model, optimizer, NULL);
}

/* Saved and loaded into another average, both continue with the same bits. */
YK_TEST(a_checkpoint_holds_the_average)
{
    char path[256];
    yk_model *model, *other;
    yk_optimizer *optimizer, *fresh;
    yk_ema *ema, *loaded;
    snprintf(path, sizeof path, "%s/ema.pth", yk_test_directory());
    start(&model, &optimizer, &ema, true);
    start(&other, &fresh, &loaded, true);
    update_with(model, ema, 8);
    update_with(model, ema, 16);
    assert_ok(yk_checkpoint_save(path, model, optimizer, NULL));
    assert_ok(yk_checkpoint_load(path, other, fresh, NULL));
    assert_int_equal(yk_ema_updates(loaded), 2);
    assert_true(parameter(other, 1) == 17);
    update_with(model, ema, 3.3f);
    update_with(other, loaded, 3.3f);
    size_t count = yk_model_parameter_count(model) + yk_model_buffer_count(model);
    for (size_t i = 0; i < count; i++) {
        yk_tensor a = yk_test_on_host(yk_ema_value(ema, i));
        yk_tensor b = yk_test_on_host(yk_ema_value(loaded, i));
        assert_memory_equal(a.data, b.data, yk_tensor_bytes(&a));
    }
    assert_ok(yk_model_load_ema(other, path)); /* alone, as weights */
    assert_true(parameter(other, 0) == 10);

    yk_ema_destroy(ema);
    assert_ok(yk_checkpoint_save(path, model, optimizer, NULL)); /* without */
    assert_status(YK_ERROR_NOT_FOUND, yk_model_load_ema(other, path));
    assert_ok(yk_checkpoint_load(path, other, fresh, NULL));
    assert_int_equal(yk_ema_updates(loaded), 0); /* begins afresh */
    stop(model, optimizer, NULL);
    stop(other, fresh, loaded);
}

/* As in torch.optim.swa_utils.AveragedModel, which starts from a copy of the model. */
YK_TEST(an_average_without_updates_is_saved_as_the_weights)
{
    yk_model *model;
    yk_optimizer *optimizer;
    yk_ema *ema;
    for (int use_buffers = 0; use_buffers < 2; use_buffers++) {
        start(&model, &optimizer, &ema, use_buffers);
        fill(model, 8);
        assert_ok(yk_checkpoint_save(yk_test_path("new.pth"), model, optimizer, NULL));
        fill(model, 1);
        assert_ok(yk_model_load_ema(model, yk_test_path("new.pth")));
        assert_true(parameter(model, 0) == 8);
        assert_true(parameter(model, 2) == 10);
        assert_true(value_of(yk_model_buffer(model, 1).value) == 8);
        assert_ok(yk_checkpoint_load(yk_test_path("new.pth"), model, optimizer, NULL));
        assert_int_equal(yk_ema_updates(ema), 0);
        update_with(model, ema, 4);
        assert_true(value_of(yk_ema_value(ema, 0)) == 4);
        stop(model, optimizer, ema);
    }
}

/* A mask with infinities would become NaN, of their difference. */
YK_TEST(buffers_of_given_numbers_are_not_averaged)
{
    yk_model *model = given_model(yk_test_device("ref"), &given_numbers, 1);
    yk_optimizer *optimizer;
    yk_ema *ema;
    yk_lookahead *lookahead;
    assert_ok(
        yk_sgd_create(&optimizer, model, YK_WITH(yk_sgd_options, YK_SGD_OPTIONS_INIT, o.lr = 0.1)));
    assert_ok(yk_ema_create(&ema, optimizer,
                            YK_WITH(yk_ema_options, YK_EMA_OPTIONS_INIT, o.use_buffers = true)));
    assert_ok(yk_lookahead_create(
        &lookahead, optimizer,
        YK_WITH(yk_lookahead_options, YK_LOOKAHEAD_OPTIONS_INIT, o.interval = 2)));
    for (int i = 0; i < 4; i++) {
        given_step(model, 3);
        assert_ok(yk_optimizer_step(optimizer));
        assert_ok(yk_lookahead_update(lookahead));
        assert_ok(yk_ema_update(ema));
    }
    assert_given(model, &given_numbers);
    for (int swapped = 0; swapped < 2; swapped++) {
        assert_ok(yk_ema_swap(ema));
        assert_given(model, &given_numbers);
        yk_tensor mask = yk_ema_value(ema, yk_model_parameter_count(model));
        assert_ptr_equal(mask.data, yk_model_buffer(model, 0).value.data);
    }
    yk_lookahead_destroy(lookahead);
    stop(model, optimizer, ema);
}

/* Running statistics may start with given numbers, and move all the same. */
YK_TEST(running_statistics_of_given_numbers_are_averaged)
{
    float numbers[] = {1, 2, 3};
    const yk_tensor three = given_tensor(numbers, YK_F32, 3);
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "x", YK_F32, 2, (int64_t[]){YK_BATCH, 3});
    yk_value *weight = yk_parameter(graph, "w", YK_F32, 1, three.dims, YK_INIT_ONES, 0);
    yk_value *mean = yk_register_buffer(graph, "mean", &three, true);
    yk_value *var = yk_register_buffer(graph, "var", &three, true);
    x = yk_batch_norm(x, weight, weight, mean, var, NULL);
    yk_model *model;
    yk_optimizer *optimizer;
    yk_ema *ema;
    assert_ok(yk_model_create(
        &model, yk_reduce_loss(x, YK_LOSS_SUM),
        YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.device = yk_test_device("ref"))));
    assert_ok(yk_sgd_create(&optimizer, model, NULL));
    assert_ok(yk_ema_create(&ema, optimizer,
                            YK_WITH(yk_ema_options, YK_EMA_OPTIONS_INIT, o.use_buffers = true)));
    given_step(model, 3);
    assert_ok(yk_ema_update(ema));
    assert_ptr_not_equal(yk_ema_value(ema, 1).data, yk_model_buffer(model, 0).value.data);
    assert_true(value_of(yk_model_buffer(model, 0).value) != 1);
    assert_true(value_of(yk_ema_value(ema, 1)) == value_of(yk_model_buffer(model, 0).value));
    stop(model, optimizer, ema);
}

YK_TEST(an_average_destroyed_while_swapped_in_stays_in_the_model)
{
    yk_model *model;
    yk_optimizer *optimizer;
    yk_ema *ema;
    start(&model, &optimizer, &ema, false);
    update_with(model, ema, 1);
    fill(model, 9);
    assert_ok(yk_ema_swap(ema));
    yk_ema_destroy(ema);
    assert_true(parameter(model, 0) == 1);
    assert_ok(yk_optimizer_step(optimizer)); /* there is nothing left to swap back */
    assert_ok(yk_ema_create(&ema, optimizer, NULL));
    assert_ok(yk_ema_update(ema));
    stop(model, optimizer, ema);
}

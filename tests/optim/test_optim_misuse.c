/* NULL where an optimizer, an average or a scaler is required: neutral values, never a crash. */
#include <math.h>
#include <string.h>

#include "linear_model.h"

YK_TEST(optimizers_that_are_null_hold_nothing)
{
    const char *name;
    double value;
    yk_tensor tensor;
    assert_true(isnan(yk_optimizer_lr(NULL)));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_optimizer_set_lr(NULL, 1));
    assert_null(yk_optimizer_name(NULL));
    assert_int_equal(yk_optimizer_steps(NULL), 0);
    yk_optimizer_set_steps(NULL, 1);
    assert_int_equal(yk_optimizer_state_bytes(NULL), 0);
    assert_int_equal(yk_optimizer_group_count(NULL), 0);
    assert_null(yk_optimizer_ema(NULL));
    assert_true(yk_optimizer_group_of(NULL, 0) == SIZE_MAX);
    assert_false(yk_optimizer_state(NULL, 0, 0, &name, &tensor));
    assert_false(yk_optimizer_hyperparameter(NULL, 0, &name, &value));
}

YK_TEST(what_an_optimizer_tells_needs_room)
{
    const char *name;
    double value;
    yk_tensor tensor;
    yk_optimizer *optimizer;
    yk_model *model = make_linear_model(YK_F32, 3, 2);
    assert_ok(yk_adam_create(&optimizer, model, NULL));
    assert_false(yk_optimizer_hyperparameter(optimizer, 0, NULL, &value));
    assert_false(yk_optimizer_hyperparameter(optimizer, 0, &name, NULL));
    assert_false(yk_optimizer_group_hyperparameter(optimizer, 0, 0, NULL, NULL));
    assert_false(yk_optimizer_state(optimizer, 0, 0, NULL, &tensor));
    assert_false(yk_optimizer_state(optimizer, 0, 0, &name, NULL));
    assert_true(yk_optimizer_state(optimizer, 0, 0, &name, &tensor));
    yk_optimizer_destroy(optimizer);
    yk_model_destroy(model);
}

YK_TEST(averages_and_scalers_that_are_null_hold_nothing)
{
    assert_true(isnan(yk_ema_decay(NULL)));
    assert_int_equal(yk_ema_updates(NULL), 0);
    assert_null(yk_ema_value(NULL, 0).data);
    yk_grad_scaler_state saved = {.enabled = true};
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_grad_scaler_set_state(NULL, &saved));
    yk_ema_set_updates(NULL, 1);
    assert_true(yk_grad_scaler_scale(NULL) == 1);
    assert_false(yk_grad_scaler_found_inf(NULL));
    assert_false(yk_grad_scaler_get_state(NULL).enabled);
}

YK_TEST(rates_are_refused_later_as_on_creation)
{
    yk_model *model = make_linear_model(YK_F32, 3, 2);
    yk_optimizer *optimizer;
    const double wrong[] = {-1, NAN, INFINITY};
    assert_ok(
        yk_sgd_create(&optimizer, model,
                      YK_WITH(yk_sgd_options, YK_SGD_OPTIONS_INIT, o.lr = 0.25, o.momentum = 0.9)));
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_status(YK_ERROR_INVALID_ARGUMENT, yk_optimizer_set_lr(optimizer, wrong[i]));
        assert_contains(yk_last_error(), "lr");
        assert_true(yk_optimizer_lr(optimizer) == 0.25);
    }
    assert_ok(yk_optimizer_set_lr(optimizer, 0));
    assert_true(yk_optimizer_lr(optimizer) == 0);
    yk_optimizer_destroy(optimizer);
    yk_model_destroy(model);
}

YK_TEST(values_that_an_average_does_not_have_are_empty)
{
    yk_model *model = make_linear_model(YK_F32, 3, 2);
    yk_optimizer *optimizer;
    yk_ema *ema;
    assert_ok(yk_sgd_create(&optimizer, model, NULL));
    assert_ok(yk_ema_create(&ema, optimizer, NULL));
    size_t count = yk_model_parameter_count(model) + yk_model_buffer_count(model);
    assert_non_null(yk_ema_value(ema, count - 1).data);
    assert_null(yk_ema_value(ema, count).data);
    assert_null(yk_ema_value(ema, SIZE_MAX).data);
    yk_ema_destroy(ema);
    yk_optimizer_destroy(optimizer);
    yk_model_destroy(model);
}

YK_TEST(filters_select_nothing_from_null)
{
    yk_parameter_view unnamed = {.value = {.ndim = 2}};
    assert_false(yk_filter_norms_and_biases(NULL, NULL));
    assert_false(yk_filter_name(NULL, "*"));
    assert_false(yk_filter_name(&unnamed, "*"));
    assert_false(yk_filter_name(&(yk_parameter_view){.name = "weight"}, NULL));
}

YK_TEST(schedules_that_are_null_or_wrong_have_no_rate)
{
    yk_schedule broken = {.kind = YK_SCHEDULE_STEP, .gamma = 0.1}; /* a step_size of 0 */
    yk_schedule one_cycle = YK_SCHEDULE_INIT;
    double momentum = 7;
    one_cycle.kind = YK_SCHEDULE_ONE_CYCLE;
    assert_true(isnan(yk_schedule_lr(NULL, 3, 0.1)));
    assert_true(isnan(yk_schedule_lr(&broken, 3, 0.1)));
    assert_contains(yk_last_error(), "step_size");
    broken = (yk_schedule){.kind = YK_SCHEDULE_MULTISTEP, .gamma = 0.1, .milestone_count = 1000};
    assert_true(isnan(yk_schedule_lr(&broken, 3, 0.1)));
    assert_false(yk_schedule_momentum(NULL, 3, &momentum));
    assert_false(yk_schedule_momentum(&one_cycle, 3, &momentum)); /* total_steps of 0 */
    one_cycle.total_steps = 10;
    assert_false(yk_schedule_momentum(&one_cycle, 3, NULL));
    assert_true(momentum == 7);
    assert_true(yk_schedule_momentum(&one_cycle, 3, &momentum));
}

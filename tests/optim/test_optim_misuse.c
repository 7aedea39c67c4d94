/* NULL where an optimizer, an average or a scaler is required: neutral values, never a crash. */
#include <math.h>

#include "harness.h"

YK_TEST(optimizers_that_are_null_hold_nothing)
{
    const char *name;
    double value;
    yk_tensor tensor;
    assert_true(isnan(yk_optimizer_lr(NULL)));
    yk_optimizer_set_lr(NULL, 1);
    assert_null(yk_optimizer_name(NULL));
    assert_int_equal(yk_optimizer_steps(NULL), 0);
    yk_optimizer_set_steps(NULL, 1);
    assert_int_equal(yk_optimizer_state_bytes(NULL), 0);
    assert_int_equal(yk_optimizer_group_count(NULL), 0);
    assert_null(yk_optimizer_ema(NULL));
    assert_false(yk_optimizer_state(NULL, 0, 0, &name, &tensor));
    assert_false(yk_optimizer_hyperparameter(NULL, 0, &name, &value));
}

YK_TEST(averages_and_scalers_that_are_null_hold_nothing)
{
    assert_true(isnan(yk_ema_decay(NULL)));
    assert_int_equal(yk_ema_updates(NULL), 0);
    yk_ema_set_updates(NULL, 1);
    assert_true(yk_grad_scaler_scale(NULL) == 1);
    assert_false(yk_grad_scaler_found_inf(NULL));
    assert_true(yk_grad_scaler_get_state(NULL).scale == 0);
}

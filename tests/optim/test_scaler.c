/*
 * The grad scaler: what it does to gradients, steps and its own scale, by hand; tests/parity holds
 * it against PyTorch's, tests/ddp shares what it finds.
 */
#include "harness.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <yoke/scaler.h>

enum { INPUTS = 37, CLASSES = 3, SAMPLES = 4 };

static yk_model *make_model(yk_dtype dtype)
{
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "images", dtype, 2, (int64_t[]){YK_BATCH, INPUTS});
    yk_value *labels = yk_input(graph, "labels", YK_I32, 1, (int64_t[]){YK_BATCH});
    yk_value *weight = yk_parameter(graph, "weight", dtype, 2, (int64_t[]){CLASSES, INPUTS},
                                    YK_INIT_KAIMING_UNIFORM, 0);
    yk_model *model;
    assert_ok(yk_model_create(&model, yk_cross_entropy(yk_linear(x, weight, NULL), labels, NULL),
                              YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT,
                                      o.device = yk_test_device("ref"), o.seed = 1)));
    return model;
}

/* Forward and backward on one and the same batch. */
static void backward(yk_model *model)
{
    static const char *const names[] = {"images", "labels"};
    yk_tensor value = yk_model_parameter(model, 0).value;
    double f64[SAMPLES * INPUTS];
    float f32[SAMPLES * INPUTS];
    for (int i = 0; i < SAMPLES * INPUTS; i++)
        f64[i] = f32[i] = (float)sin(i);
    int32_t labels[SAMPLES] = {0, 1, 2, 1};
    yk_tensor tensors[] = {{.data = value.dtype == YK_F64 ? (void *)f64 : f32,
                            .dtype = value.dtype,
                            .ndim = 2,
                            .dims = {SAMPLES, INPUTS}},
                           {.data = labels, .dtype = YK_I32, .ndim = 1, .dims = {SAMPLES}}};
    yk_batch batch = {.size = SAMPLES, .count = 2, .names = names, .tensors = tensors};
    assert_ok(yk_model_forward(model, &batch));
    assert_ok(yk_model_backward(model));
}

/* Both models' gradients, the first's divided by factor: equal to the bit. */
static void assert_gradients(yk_model *found, yk_model *expected, float factor)
{
    const float *a = yk_test_on_host(yk_model_parameter(found, 0).grad).data;
    const float *b = yk_test_on_host(yk_model_parameter(expected, 0).grad).data;
    for (int i = 0; i < CLASSES * INPUTS; i++)
        if (a[i] != factor * b[i])
            fail_msg("gradient %d is %.9g, not %g times %.9g", i, (double)a[i], (double)factor,
                     (double)b[i]);
}

YK_TEST(the_constants_are_pytorchs)
{
    yk_model *model = make_model(YK_F32);
    yk_grad_scaler *scaler;
    assert_ok(yk_grad_scaler_create(&scaler, model, NULL));
    yk_grad_scaler_state s = yk_grad_scaler_get_state(scaler);
    assert_true(s.scale == 65536 && s.growth_factor == 2 && s.backoff_factor == 0.5);
    assert_int_equal(s.growth_interval, 2000);
    assert_int_equal(s.growth_tracker, 0);
    yk_grad_scaler_destroy(scaler);
    yk_model_destroy(model);
}

/* The scale is a power of two: scaling and unscaling leave no trace, nor does accumulation. */
YK_TEST(gradients_are_scaled_until_unscaled)
{
    yk_model *model = make_model(YK_F32), *plain = make_model(YK_F32);
    yk_grad_scaler *scaler;
    assert_ok(yk_grad_scaler_create(&scaler, model, NULL));
    for (int times = 1; times <= 3; times++) {
        yk_model_zero_grad(model);
        yk_model_zero_grad(plain);
        for (int i = 0; i < times; i++) {
            backward(model);
            backward(plain);
        }
        assert_gradients(model, plain, 65536);
        assert_ok(yk_grad_scaler_unscale(scaler));
        assert_gradients(model, plain, 1);
        assert_false(yk_grad_scaler_found_inf(scaler));
        assert_ok(yk_grad_scaler_update(scaler));
    }
    yk_grad_scaler_destroy(scaler);
    yk_model_zero_grad(model);
    yk_model_zero_grad(plain);
    backward(model);
    backward(plain);
    assert_gradients(model, plain, 1); /* scaled no more */
    yk_model_destroy(model);
    yk_model_destroy(plain);
}

static void plant(yk_tensor grad, int64_t at, double value)
{
    yk_tensor host = yk_test_on_host(grad);
    if (grad.dtype == YK_F64)
        ((double *)host.data)[at] = value;
    else
        ((float *)host.data)[at] = (float)value;
    yk_test_write_back(grad, host);
}

/* For a single bad gradient, wherever it is, the step is skipped and changes nothing. */
static void check_skips(yk_dtype dtype)
{
    static const double bad[] = {INFINITY, -INFINITY, NAN, -NAN};
    yk_model *model = make_model(dtype);
    yk_grad_scaler *scaler;
    yk_optimizer *optimizer;
    assert_ok(yk_grad_scaler_create(&scaler, model, NULL));
    assert_ok(
        yk_sgd_create(&optimizer, model,
                      YK_WITH(yk_sgd_options, YK_SGD_OPTIONS_INIT, o.lr = 0.1, o.momentum = 0.9)));
    yk_parameter_view weight = yk_model_parameter(model, 0);
    size_t bytes = yk_tensor_bytes(&weight.value);
    void *before = malloc(bytes);
    assert_ok(yk_tensor_read(&weight.value, before));
    for (int64_t at = 0; at < CLASSES * INPUTS; at++) {
        backward(model);
        plant(weight.grad, at, bad[at % 4]);
        assert_ok(yk_grad_scaler_step(scaler, optimizer));
        assert_true(yk_grad_scaler_found_inf(scaler));
        assert_memory_equal(yk_test_on_host(weight.value).data, before, bytes);
        assert_int_equal(yk_optimizer_steps(optimizer), 0);
        assert_ok(yk_grad_scaler_update(scaler));
        assert_ok(yk_grad_scaler_set_state(
            scaler,
            &(yk_grad_scaler_state){true, 65536, 2, 0.5, 2000, 0})); /* as if it were the first */
    }
    backward(model); /* sets the gradients: those of the skipped step are spent */
    assert_ok(yk_grad_scaler_step(scaler, optimizer));
    assert_false(yk_grad_scaler_found_inf(scaler));
    assert_int_equal(yk_optimizer_steps(optimizer), 1);
    assert_memory_not_equal(yk_test_on_host(weight.value).data, before, bytes);
    free(before);
    yk_optimizer_destroy(optimizer);
    yk_grad_scaler_destroy(scaler);
    yk_model_destroy(model);
}

YK_TEST(a_step_with_an_infinite_gradient_is_skipped)
{
    check_skips(YK_F32);
    check_skips(YK_F64);
}

YK_TEST(the_scale_backs_off_and_grows)
{
    static const double scales[] = {8, 8, 4, 4, 4, 8, 8, 8, 16}; /* before each step */
    yk_model *model = make_model(YK_F32);
    yk_grad_scaler *scaler;
    yk_optimizer *optimizer;
    assert_ok(yk_grad_scaler_create(&scaler, model,
                                    YK_WITH(yk_grad_scaler_options, YK_GRAD_SCALER_OPTIONS_INIT,
                                            o.init_scale = 8, o.growth_interval = 3)));
    assert_ok(
        yk_sgd_create(&optimizer, model, YK_WITH(yk_sgd_options, YK_SGD_OPTIONS_INIT, o.lr = 0.1)));
    for (int step = 0; step < 9; step++) {
        assert_true(yk_grad_scaler_scale(scaler) == scales[step]);
        backward(model);
        if (step == 1)
            plant(yk_model_parameter(model, 0).grad, 5, INFINITY);
        assert_ok(yk_grad_scaler_step(scaler, optimizer));
        assert_ok(yk_grad_scaler_update(scaler));
    }
    yk_optimizer_destroy(optimizer);
    yk_grad_scaler_destroy(scaler);
    yk_model_destroy(model);
}

/* With a grad scaler and an SGD of rate 0.1. */
static yk_model *make_scaled(yk_grad_scaler **scaler, yk_optimizer **optimizer)
{
    yk_model *model = make_model(YK_F32);
    assert_ok(yk_grad_scaler_create(scaler, model, NULL));
    assert_ok(
        yk_sgd_create(optimizer, model, YK_WITH(yk_sgd_options, YK_SGD_OPTIONS_INIT, o.lr = 0.1)));
    return model;
}

static void end_scaled(yk_model *model, yk_grad_scaler *scaler, yk_optimizer *optimizer)
{
    yk_optimizer_destroy(optimizer);
    yk_grad_scaler_destroy(scaler);
    yk_model_destroy(model);
}

YK_TEST(calls_out_of_order_are_refused)
{
    yk_grad_scaler *scaler;
    yk_optimizer *optimizer;
    yk_model *model = make_scaled(&scaler, &optimizer);
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_grad_scaler_update(scaler));
    backward(model);
    assert_ok(yk_grad_scaler_unscale(scaler));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_grad_scaler_unscale(scaler));
    assert_ok(yk_grad_scaler_step(scaler, optimizer));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_grad_scaler_step(scaler, optimizer));
    assert_ok(yk_grad_scaler_update(scaler));
    end_scaled(model, scaler, optimizer);
}

/* Every call that would take scaled gradients for those of the loss. */
YK_TEST(scaled_gradients_are_neither_clipped_nor_stepped_with)
{
    yk_grad_scaler *scaler;
    yk_optimizer *optimizer;
    yk_model *model = make_scaled(&scaler, &optimizer);
    yk_model *plain = make_model(YK_F32);
    backward(model);
    backward(plain);
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_clip_grad_norm(optimizer, 1, NULL));
    assert_contains(yk_last_error(), "clip_grad_norm: a grad scaler has scaled the gradients: call "
                                     "yk_grad_scaler_unscale first");
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_clip_grad_value(optimizer, 1));
    assert_contains(yk_last_error(), "clip_grad_value: a grad scaler has scaled");
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_optimizer_step(optimizer));
    assert_contains(yk_last_error(), "call yk_grad_scaler_step instead");
    assert_gradients(model, plain, 65536); /* as they were */
    assert_ok(yk_grad_scaler_unscale(scaler));
    assert_gradients(model, plain, 1);
    assert_ok(yk_clip_grad_norm(optimizer, 1, NULL));
    assert_ok(yk_clip_grad_value(optimizer, 1));
    assert_ok(yk_grad_scaler_step(scaler, optimizer));
    assert_ok(yk_grad_scaler_update(scaler));
    assert_int_equal(yk_optimizer_steps(optimizer), 1);
    yk_model_destroy(plain);
    end_scaled(model, scaler, optimizer);
}

/* What counts is what the gradients hold, not whether there is a scaler. */
YK_TEST(a_scaler_that_comes_or_goes_between_backward_and_step_is_not_overlooked)
{
    yk_model *model = make_model(YK_F32);
    yk_grad_scaler *scaler;
    yk_optimizer *optimizer;
    assert_ok(
        yk_sgd_create(&optimizer, model, YK_WITH(yk_sgd_options, YK_SGD_OPTIONS_INIT, o.lr = 0.1)));
    backward(model);
    assert_ok(yk_grad_scaler_create(&scaler, model, NULL));
    assert_ok(yk_optimizer_step(optimizer));
    backward(model);
    yk_grad_scaler_destroy(scaler);
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_optimizer_step(optimizer));
    backward(model); /* adds to them */
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_optimizer_step(optimizer));
    yk_model_zero_grad(model);
    backward(model);
    assert_ok(yk_optimizer_step(optimizer));
    yk_optimizer_destroy(optimizer);
    yk_model_destroy(model);
}

YK_TEST(a_backward_after_unscaling_is_refused_by_the_step)
{
    yk_grad_scaler *scaler;
    yk_optimizer *optimizer;
    yk_model *model = make_scaled(&scaler, &optimizer);
    backward(model);
    assert_ok(yk_grad_scaler_unscale(scaler));
    backward(model); /* adds scaled gradients to those that are not */
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_grad_scaler_step(scaler, optimizer));
    assert_contains(yk_last_error(), "call yk_grad_scaler_unscale after the last backward");
    yk_model_zero_grad(model);
    assert_ok(yk_grad_scaler_update(scaler));
    backward(model);
    assert_ok(yk_grad_scaler_step(scaler, optimizer));
    assert_int_equal(yk_optimizer_steps(optimizer), 1);
    end_scaled(model, scaler, optimizer);
}

YK_TEST(a_step_that_was_refused_can_be_taken)
{
    yk_model *model = make_model(YK_F32);
    yk_grad_scaler *scaler;
    yk_optimizer *optimizer;
    yk_ema *ema;
    assert_ok(yk_grad_scaler_create(&scaler, model, NULL));
    assert_ok(
        yk_sgd_create(&optimizer, model, YK_WITH(yk_sgd_options, YK_SGD_OPTIONS_INIT, o.lr = 0.1)));
    assert_ok(yk_ema_create(&ema, optimizer, NULL));
    assert_ok(yk_ema_update(ema));
    backward(model);
    assert_ok(yk_ema_swap(ema));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_grad_scaler_step(scaler, optimizer));
    assert_ok(yk_ema_swap(ema));
    assert_ok(yk_grad_scaler_step(scaler, optimizer));
    assert_ok(yk_grad_scaler_update(scaler));
    assert_int_equal(yk_optimizer_steps(optimizer), 1);
    backward(model);
    plant(yk_model_parameter(model, 0).grad, 5, INFINITY);
    assert_ok(yk_ema_swap(ema));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_grad_scaler_step(scaler, optimizer));
    assert_ok(yk_ema_swap(ema));
    assert_ok(yk_grad_scaler_step(scaler, optimizer));
    assert_int_equal(yk_optimizer_steps(optimizer), 1);
    yk_ema_destroy(ema);
    yk_optimizer_destroy(optimizer);
    yk_grad_scaler_destroy(scaler);
    yk_model_destroy(model);
}

YK_TEST(an_optimizer_of_another_model_is_refused)
{
    yk_model *model = make_model(YK_F32), *other = make_model(YK_F32);
    yk_grad_scaler *scaler;
    yk_optimizer *optimizer;
    assert_ok(yk_grad_scaler_create(&scaler, model, NULL));
    assert_ok(
        yk_sgd_create(&optimizer, other, YK_WITH(yk_sgd_options, YK_SGD_OPTIONS_INIT, o.lr = 0.1)));
    backward(model);
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_grad_scaler_step(scaler, optimizer));
    assert_contains(yk_last_error(), "the optimizer belongs to another model");
    assert_int_equal(yk_optimizer_steps(optimizer), 0);
    yk_optimizer_destroy(optimizer);
    yk_grad_scaler_destroy(scaler);
    yk_model_destroy(other);
    yk_model_destroy(model);
}

YK_TEST(a_second_scaler_of_a_model_is_refused)
{
    yk_model *model = make_model(YK_F32);
    yk_grad_scaler *scaler, *second;
    assert_ok(yk_grad_scaler_create(&scaler, model, NULL));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_grad_scaler_create(&second, model, NULL));
    assert_null(second);
    assert_contains(yk_last_error(), "the model has one already");
    yk_grad_scaler_destroy(scaler);
    assert_ok(yk_grad_scaler_create(&scaler, model, NULL));
    yk_grad_scaler_destroy(scaler);
    yk_model_destroy(model);
}

YK_TEST(a_model_of_which_nothing_is_trained_is_refused)
{
    static const char *const devices[] = {"ref", "sim"};
    for (int i = 0; i < 2; i++) {
        yk_graph *graph = yk_graph_create();
        yk_value *x = yk_input(graph, "x", YK_F32, 2, (int64_t[]){YK_BATCH, INPUTS});
        yk_model *model;
        yk_grad_scaler *scaler;
        assert_ok(yk_model_create(
            &model, yk_reduce_loss(x, YK_LOSS_MEAN),
            YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.device = devices[i])));
        assert_status(YK_ERROR_INVALID_ARGUMENT, yk_grad_scaler_create(&scaler, model, NULL));
        assert_null(scaler);
        assert_contains(yk_last_error(), "nothing is trained");
        yk_model_destroy(model);
    }
}

YK_TEST(impossible_factors_are_refused)
{
#define WRONG(change) *YK_WITH(yk_grad_scaler_options, YK_GRAD_SCALER_OPTIONS_INIT, change)
    const yk_grad_scaler_options wrong[] = {
        WRONG(o.init_scale = -1),     WRONG(o.init_scale = INFINITY), WRONG(o.init_scale = 0),
        WRONG(o.growth_factor = 1),   WRONG(o.growth_factor = 0),     WRONG(o.backoff_factor = 1),
        WRONG(o.backoff_factor = 0),  WRONG(o.backoff_factor = NAN),  WRONG(o.growth_interval = -1),
        WRONG(o.growth_interval = 0), WRONG(o.init_scale = 1e-60)}; /* zero as an f32 */
#undef WRONG
    yk_model *model = make_model(YK_F32);
    yk_grad_scaler *scaler;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_status(YK_ERROR_INVALID_ARGUMENT, yk_grad_scaler_create(&scaler, model, &wrong[i]));
        assert_null(scaler);
    }
    yk_model_destroy(model);
}

YK_TEST(a_disabled_scaler_does_nothing)
{
    yk_model *model = make_model(YK_F32), *plain = make_model(YK_F32);
    yk_grad_scaler *scaler;
    yk_optimizer *optimizer;
    assert_ok(yk_grad_scaler_create(
        &scaler, model,
        YK_WITH(yk_grad_scaler_options, YK_GRAD_SCALER_OPTIONS_INIT, o.enabled = false)));
    assert_ok(
        yk_sgd_create(&optimizer, model, YK_WITH(yk_sgd_options, YK_SGD_OPTIONS_INIT, o.lr = 0.1)));
    backward(model);
    backward(plain);
    assert_ok(yk_grad_scaler_unscale(scaler));
    assert_gradients(model, plain, 1);
    assert_ok(yk_grad_scaler_step(scaler, optimizer));
    assert_int_equal(yk_optimizer_steps(optimizer), 1);
    assert_ok(yk_grad_scaler_update(scaler));
    assert_true(yk_grad_scaler_scale(scaler) == 1);
    assert_false(yk_grad_scaler_get_state(scaler).enabled);
    yk_optimizer_destroy(optimizer);
    yk_grad_scaler_destroy(scaler);
    yk_model_destroy(model);
    yk_model_destroy(plain);
}

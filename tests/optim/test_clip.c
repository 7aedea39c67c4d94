/* Clipping: the norm, what is scaled, the same bits for any number of threads; by value. */
#define _GNU_SOURCE
#include "harness.h"

#include <math.h>
#include <omp.h>

#include "linear_model.h"

/* Gradients made up; returns their norm. */
static double fill(yk_model *model)
{
    double sum = 0;
    for (size_t p = 0; p < yk_model_parameter_count(model); p++) {
        yk_tensor grad = yk_model_parameter(model, p).grad;
        for (int64_t i = 0; i < yk_tensor_count(&grad); i++) {
            put(grad, i, sin(0.7 * (double)i + (double)p));
            sum += get(grad, i) * get(grad, i);
        }
    }
    return sqrt(sum);
}

static void check(yk_dtype dtype, double share)
{
    yk_model *model = make_linear_model(dtype, 11003, 3);
    yk_optimizer *optimizer;
    assert_ok(
        yk_sgd_create(&optimizer, model, YK_WITH(yk_sgd_options, YK_SGD_OPTIONS_INIT, o.lr = 0.1)));
    double norm = fill(model), found;
    double factor = share < 1 ? norm * share / (norm + 1e-6) : 1;
    assert_ok(yk_clip_grad_norm(optimizer, norm * share, &found));
    assert_true(fabs(found - norm) < 1e-12 * norm);
    for (size_t p = 0; p < 2; p++) {
        yk_tensor grad = yk_model_parameter(model, p).grad;
        for (int64_t i = 0; i < yk_tensor_count(&grad); i++) {
            double expected = sin(0.7 * (double)i + (double)p) * factor;
            if (!(fabs(get(grad, i) - expected) <= (dtype == YK_F64 ? 1e-14 : 1.2e-7)))
                fail_msg("parameter %zu, element %d: %.17g is not %.17g", p, (int)i, get(grad, i),
                         expected);
        }
    }
    yk_optimizer_destroy(optimizer);
    yk_model_destroy(model);
}

YK_TEST(gradients_above_the_norm_are_scaled_others_are_not)
{
    check(YK_F32, 0.25);
    check(YK_F64, 0.25);
    check(YK_F32, 2);
    check(YK_F64, 2);
}

YK_TEST(threads_make_no_difference)
{
    yk_model *model = make_linear_model(YK_F32, 50021, 3);
    yk_optimizer *optimizer;
    double norms[3];
    assert_ok(
        yk_sgd_create(&optimizer, model, YK_WITH(yk_sgd_options, YK_SGD_OPTIONS_INIT, o.lr = 0.1)));
    for (int threads = 1; threads <= 3; threads++) {
        omp_set_num_threads(threads);
        fill(model);
        assert_ok(yk_clip_grad_norm(optimizer, 1, &norms[threads - 1]));
    }
    assert_memory_equal(&norms[0], &norms[1], sizeof(double));
    assert_memory_equal(&norms[0], &norms[2], sizeof(double));
    yk_optimizer_destroy(optimizer);
    yk_model_destroy(model);
}

YK_TEST(what_is_no_number_shows_in_the_norm)
{
    yk_model *model = make_linear_model(YK_F32, 5, 3);
    yk_optimizer *optimizer;
    double norm;
    assert_ok(
        yk_sgd_create(&optimizer, model, YK_WITH(yk_sgd_options, YK_SGD_OPTIONS_INIT, o.lr = 0.1)));
    fill(model);
    put(yk_model_parameter(model, 1).grad, 0, NAN);
    assert_ok(yk_clip_grad_norm(optimizer, 1, &norm));
    assert_true(isnan(norm));
    assert_true(isnan(get(yk_model_parameter(model, 0).grad, 0))); /* as PyTorch */
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_clip_grad_norm(optimizer, 0, NULL));
    assert_contains(yk_last_error(), "max_norm must be above 0");
    yk_optimizer_destroy(optimizer);
    yk_model_destroy(model);
}

static void check_value(yk_dtype dtype, double most)
{
    yk_model *model = make_linear_model(dtype, 11003, 3);
    yk_optimizer *optimizer;
    assert_ok(
        yk_sgd_create(&optimizer, model, YK_WITH(yk_sgd_options, YK_SGD_OPTIONS_INIT, o.lr = 0.1)));
    fill(model);
    yk_tensor first = yk_model_parameter(model, 0).grad;
    put(first, 1, INFINITY);
    put(first, 2, -INFINITY);
    put(first, 3, NAN);
    assert_ok(yk_clip_grad_value(optimizer, most));
    double limit = dtype == YK_F64 ? most : (double)(float)most;
    assert_true(get(first, 1) == limit && get(first, 2) == -limit && isnan(get(first, 3)));
    for (size_t p = 0; p < 2; p++) {
        yk_tensor grad = yk_model_parameter(model, p).grad;
        for (int64_t i = p == 0 ? 4 : 0; i < yk_tensor_count(&grad); i++) {
            double given = sin(0.7 * (double)i + (double)p);
            double expected = fmin(fmax(given, -most), most);
            if (!(fabs(get(grad, i) - expected) <= (dtype == YK_F64 ? 0 : 6e-8)))
                fail_msg("parameter %zu, element %d: %.17g is not %.17g", p, (int)i, get(grad, i),
                         expected);
        }
    }
    yk_optimizer_destroy(optimizer);
    yk_model_destroy(model);
}

YK_TEST(elements_are_brought_into_the_range)
{
    check_value(YK_F32, 0.3);
    check_value(YK_F64, 0.3);
    check_value(YK_F32, 0);
}

YK_TEST(a_range_is_refused_that_is_none)
{
    yk_model *model = make_linear_model(YK_F32, 5, 3);
    yk_optimizer *optimizer;
    assert_ok(yk_sgd_create(&optimizer, model, NULL));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_clip_grad_value(NULL, 1));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_clip_grad_value(optimizer, -1));
    assert_contains(yk_last_error(), "max_value must be at least 0, not -1");
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_clip_grad_value(optimizer, NAN));
    yk_optimizer_destroy(optimizer);
    yk_model_destroy(model);
}

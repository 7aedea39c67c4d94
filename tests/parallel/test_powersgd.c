/* PowerSGD: its results against what they must be, and training with it. */
#include "harness.h"

#include "side.h"

static const network net = {.device = "ref", .dtype = YK_F32, .seed = 11};

/* Compresses from the second backward on, whatever the sizes. */
/* Compresses from the second backward on, whatever it gains. */
static yk_powersgd_options eager(void)
{
    yk_powersgd_options options = YK_POWERSGD_OPTIONS_INIT;
    options.start_iter = 1;
    options.min_compression_rate = 1e-9;
    return options;
}

static void begin(side *s, const yk_powersgd_options *options)
{
    side_join(s, &net);
    s->model = make_model(&net);
    s->alone = make_model(&net);
    assert_ok(yk_ddp_create(&s->ddp, s->model, s->group,
                            YK_WITH(yk_ddp_options, YK_DDP_OPTIONS_INIT, o.bucket_cap_mb = 1e-3)));
    assert_ok(yk_ddp_register_powersgd_hook(s->ddp, options));
}

/* The gradients of the same samples every time, over the ranks and by one process. */
static void step_again(side *s)
{
    zero_both(s);
    both_step(s, 0, 4);
}

static void assert_equal_gradients(const side *s)
{
    for (size_t i = 0; i < yk_model_parameter_count(s->model); i++) {
        yk_tensor grad = yk_model_parameter(s->model, i).grad;
        assert_equal_over_ranks(s->group, &grad);
    }
}

/* ---- results --------------------------------------------------------------------------------- */

/* Before start_iter nothing is compressed; with the full rank nothing is lost. */
YK_TEST_RANKS(with_full_rank_nothing_is_lost, 3)
{
    side s;
    yk_powersgd_options options = eager();
    options.matrix_approximation_rank = 64;
    options.start_iter = 2;
    begin(&s, &options);
    for (int i = 0; i < 5; i++) {
        step_again(&s);
        assert_same_gradients(s.model, s.alone, i < 2 ? 1e-5 : 1e-4);
        assert_equal_gradients(&s);
        assert_true((yk_ddp_powersgd_stats(s.ddp).elements_before > 0) == (i >= 2));
    }
    side_end(&s);
}

/* The best approximation of rank 1 in f64, by power iteration until it converges: sigma u v^T. */
static void best_rank_1(double *best, const float *m, int64_t rows, int64_t columns)
{
    double v[64], u[64];
    assert_in_range(rows, 1, 64);
    assert_in_range(columns, 1, 64);
    for (int64_t j = 0; j < columns; j++)
        v[j] = 1 + 0.1 * (double)j;
    for (int iteration = 0; iteration < 5000; iteration++) {
        double norm = 0;
        for (int64_t i = 0; i < rows; i++) {
            u[i] = 0;
            for (int64_t j = 0; j < columns; j++)
                u[i] += (double)m[i * columns + j] * v[j];
            norm += u[i] * u[i];
        }
        for (int64_t i = 0; i < rows; i++)
            u[i] /= sqrt(norm);
        for (int64_t j = 0; j < columns; j++) {
            v[j] = 0;
            for (int64_t i = 0; i < rows; i++)
                v[j] += (double)m[i * columns + j] * u[i];
        }
    }
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++)
            best[i * columns + j] = u[i] * v[j];
}

/* One gradient again and again, without error feedback: warm starts make it a power iteration. */
YK_TEST_RANKS(warm_starts_reach_the_best_approximation, 2)
{
    side s;
    yk_powersgd_options options = eager();
    options.error_feedback = false;
    begin(&s, &options);
    for (int i = 0; i < 200; i++)
        step_again(&s);
    static const char *const names[] = {"conv1.weight", "conv2.weight", "fc.weight"};
    for (int i = 0; i < 3; i++) {
        yk_tensor found = find(s.model, names[i]).grad, exact = find(s.alone, names[i]).grad;
        exact = yk_test_on_host(exact);
        int64_t rows = exact.dims[0], columns = yk_tensor_count(&exact) / rows;
        double best[64 * 64];
        best_rank_1(best, exact.data, rows, columns);
        yk_tensor expected = exact;
        expected.data = best;
        expected.dtype = YK_F64;
        assert_near(names[i], &found, &expected, 1e-3);
    }
    yk_tensor bias = find(s.model, "fc.bias").grad, exact = find(s.alone, "fc.bias").grad;
    assert_near("fc.bias", &bias, &exact, 1e-5);
    assert_equal_gradients(&s);
    side_end(&s);
}

/* With error feedback nothing is lost for ever: the mean of what came out is what went in. */
static void feedback(int rank, int world)
{
    (void)rank, (void)world;
    side s;
    yk_powersgd_options options = eager();
    options.iter = 1; /* continues from there, so it compresses at once */
    begin(&s, &options);
    enum { STEPS = 400, ELEMENTS = 4 * 27 };
    double sum[ELEMENTS] = {0}, first_error = 0, mean_error = 0, size = 0;
    yk_tensor found = find(s.model, "conv1.weight").grad,
              exact = find(s.alone, "conv1.weight").grad;
    for (int i = 0; i < STEPS; i++) {
        step_again(&s);
        for (int e = 0; e < ELEMENTS; e++) {
            sum[e] += element(&found, e);
            if (i == 0)
                first_error += fabs(element(&found, e) - element(&exact, e));
        }
    }
    for (int e = 0; e < ELEMENTS; e++) {
        mean_error += fabs(sum[e] / STEPS - element(&exact, e));
        size += fabs(element(&exact, e));
    }
    assert_true(first_error > 0.1 * size); /* one step alone loses a lot */
    if (!(mean_error < 0.03 * size))
        fail_msg("the mean is %g from the gradient, of %g", mean_error, size);
    assert_equal_gradients(&s);
    yk_powersgd_stats stats = yk_ddp_powersgd_stats(s.ddp);
    assert_int_equal(stats.elements_before, STEPS * yk_model_parameter_elements(s.model));
    assert_true(stats.elements_after < stats.elements_before / 2);
    side_end(&s);
}

YK_TEST(error_feedback_loses_nothing_in_the_long_run)
{
    yk_test_ranks(3, feedback);
}

/* A gradient that is not finite on one rank shows on all, and leaves no trace in later steps. */
YK_TEST_RANKS(an_infinite_gradient_spoils_one_step_alone, 2)
{
    side s;
    begin(&s, (yk_powersgd_options[1]){eager()});
    for (int i = 0; i < 4; i++)
        step_again(&s);
    yk_model_zero_grad(s.model);
    const yk_batch *batch = take_samples(&s.own, net.dtype, 0, 4);
    if (rank == 1)
        s.own.f32[5] = INFINITY;
    step(s.model, batch);
    yk_tensor found = find(s.model, "conv1.weight").grad;
    assert_false(isfinite(element(&found, 0)));
    for (int i = 0; i < 3; i++) {
        step_again(&s);
        assert_equal_gradients(&s);
        for (int e = 0; e < yk_tensor_count(&found); e++)
            assert_true(isfinite(element(&found, e)));
    }
    side_end(&s);
}

/* ---- training -------------------------------------------------------------------------------- */

/* The joint loss after some steps. */
static double train(side *s, int steps)
{
    yk_optimizer *sgd;
    yk_sgd_options options = YK_SGD_OPTIONS_INIT;
    options.lr = 0.1;
    options.momentum = 0.9;
    double loss = 0;
    assert_ok(yk_sgd_create(&sgd, s->model, &options));
    for (int i = 0; i < steps; i++) {
        step(s->model, take_samples(&s->own, net.dtype, 8 * s->rank, 8));
        loss = yk_model_loss(s->model) / s->world;
        assert_ok(yk_all_reduce(s->group, &loss, 1, YK_F64, YK_REDUCE_SUM, NULL));
        assert_ok(yk_optimizer_step(sgd));
        if (i % 50 == 0)
            assert_ok(yk_ddp_check_divergence(s->ddp));
    }
    yk_optimizer_destroy(sgd);
    return loss;
}

YK_TEST_RANKS(training_converges_with_rank_1, 2)
{
    double losses[2];
    for (int compressed = 0; compressed < 2; compressed++) {
        side s;
        yk_powersgd_options options = YK_POWERSGD_OPTIONS_INIT;
        options.start_iter = compressed ? 10 : 1000000;
        begin(&s, &options);
        losses[compressed] = train(&s, 700);
        assert_true((yk_ddp_powersgd_stats(s.ddp).elements_after > 0) == compressed);
        side_end(&s);
    }
    if (!(losses[0] < 0.1 && losses[1] < 0.2))
        fail_msg("after training the loss is %g, compressed %g", losses[0], losses[1]);
}

/* A start_iter of 0 is 0, not the default of 1000. */
YK_TEST_RANKS(compression_can_start_at_once, 2)
{
    side s;
    yk_powersgd_options options = eager();
    options.start_iter = 0;
    begin(&s, &options);
    step_again(&s);
    assert_true(yk_ddp_powersgd_stats(s.ddp).elements_after > 0);
    side_end(&s);
}

/* ---- misuse ---------------------------------------------------------------------------------- */

YK_TEST(wrong_options_are_refused)
{
    yk_group *group;
    yk_ddp *ddp;
    assert_ok(yk_group_init(&group, NULL));
    network wide = net;
    wide.dtype = YK_F64;
    yk_model *model = make_model(&net), *model64 = make_model(&wide);
    assert_ok(yk_ddp_create(&ddp, model, group, NULL));
    assert_status(
        YK_ERROR_INVALID_ARGUMENT,
        yk_ddp_register_powersgd_hook(ddp, YK_WITH(yk_powersgd_options, YK_POWERSGD_OPTIONS_INIT,
                                                   o.matrix_approximation_rank = -1)));
    assert_status(
        YK_ERROR_INVALID_ARGUMENT,
        yk_ddp_register_powersgd_hook(ddp, YK_WITH(yk_powersgd_options, YK_POWERSGD_OPTIONS_INIT,
                                                   o.min_compression_rate = -2)));
    assert_status(
        YK_ERROR_INVALID_ARGUMENT,
        yk_ddp_register_powersgd_hook(ddp, YK_WITH(yk_powersgd_options, YK_POWERSGD_OPTIONS_INIT,
                                                   o.matrix_approximation_rank = 0)));
    assert_contains(yk_last_error(), "matrix_approximation_rank is 0");
    yk_ddp_destroy(ddp);
    assert_ok(yk_ddp_create(&ddp, model64, group, NULL));
    assert_status(YK_ERROR_UNSUPPORTED, yk_ddp_register_powersgd_hook(ddp, NULL));
    assert_contains(yk_last_error(), "float64");
    yk_ddp_destroy(ddp);
    yk_model_destroy(model);
    yk_model_destroy(model64);
    yk_group_destroy(group);
}

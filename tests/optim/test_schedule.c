/* Schedules: values that PyTorch gave, what they do to an optimizer, what is refused. */
#include "harness.h"

#include <math.h>
#include <string.h>

#include "linear_model.h"

static void assert_rates(const yk_schedule *schedule, const double *expected, int count)
{
    assert_ok(yk_schedule_check(schedule));
    for (int t = count; t-- > 0;) { /* in any order: the function is pure */
        double lr = yk_schedule_lr(schedule, t, 0.1);
        if (!(fabs(lr - expected[t]) <= 1e-15))
            fail_msg("%s, t = %d: %.17g is not %.17g", yk_schedule_name(schedule->kind), t, lr,
                     expected[t]);
    }
}

#define ASSERT_RATES(schedule, ...)                                                                \
    assert_rates(schedule, (const double[]){__VA_ARGS__},                                          \
                 (int)(sizeof(double[]){__VA_ARGS__} / sizeof(double)))

YK_TEST(rates_are_torchs)
{
    ASSERT_RATES(&(yk_schedule)YK_SCHEDULE_INIT, 0.1, 0.1, 0.1);
    ASSERT_RATES((YK_WITH(yk_schedule, YK_SCHEDULE_INIT, o.kind = YK_SCHEDULE_STEP, o.step_size = 3,
                          o.gamma = 0.5)),
                 0.1, 0.1, 0.1, 0.05, 0.05, 0.05, 0.025, 0.025);
    ASSERT_RATES((YK_WITH(yk_schedule, YK_SCHEDULE_INIT, o.kind = YK_SCHEDULE_MULTISTEP,
                          o.milestones[0] = 2, o.milestones[1] = 5, o.milestone_count = 2)),
                 0.1, 0.1, 0.010000000000000002, 0.010000000000000002, 0.010000000000000002,
                 0.0010000000000000002, 0.0010000000000000002);
    ASSERT_RATES((YK_WITH(yk_schedule, YK_SCHEDULE_INIT, o.kind = YK_SCHEDULE_COSINE, o.t_max = 6,
                          o.eta_min = 0.01)),
                 0.1, 0.09397114317029975, 0.0775, 0.055, 0.0325, 0.01602885682970026, 0.01,
                 0.01602885682970026, 0.0325);
    ASSERT_RATES((YK_WITH(yk_schedule, YK_SCHEDULE_INIT, o.kind = YK_SCHEDULE_STEP, o.step_size = 2,
                          o.warmup = 4)),
                 0.03333333333333333, 0.05, 0.06666666666666668, 0.08333333333333334, 0.1, 0.1,
                 0.010000000000000002, 0.010000000000000002, 0.0010000000000000002);
}

YK_TEST(one_cycle_is_torchs)
{
    yk_schedule schedule = YK_SCHEDULE_INIT;
    schedule.kind = YK_SCHEDULE_ONE_CYCLE;
    schedule.total_steps = 10;
    schedule.max_lr = 0.4;
    const double momenta[] = {0.95, 0.9, 0.85, 0.854951556604879, 0.8688255099070633};
    ASSERT_RATES(&schedule, 0.016, 0.208, 0.4, 0.38019385280538953, 0.3246982615799052,
                 0.24450480877451572, 0.1554967912254843, 0.0753033384200948, 0.019807747194610516,
                 1.6e-06, 1.6e-06);
    for (int t = 0; t < 5; t++) {
        double momentum;
        assert_true(yk_schedule_momentum(&schedule, t, &momentum));
        assert_true(fabs(momentum - momenta[t]) < 1e-15);
    }
    schedule.three_phase = schedule.linear_anneal = true;
    schedule.cycle_momentum = false;
    ASSERT_RATES(&schedule, 0.016, 0.208, 0.4, 0.208, 0.016, 0.01280032, 0.00960064, 0.00640096,
                 0.00320128, 1.6e-06);
    assert_false(yk_schedule_momentum(&schedule, 0, &(double){0}));
    schedule.max_lr = YK_LR_INITIAL; /* the group's own rate is the peak */
    assert_true(yk_schedule_lr(&schedule, 2, 0.7) == 0.7);
}

YK_TEST(restarts_are_torchs)
{
    ASSERT_RATES((YK_WITH(yk_schedule, YK_SCHEDULE_INIT, o.kind = YK_SCHEDULE_WARM_RESTARTS,
                          o.t_0 = 3, o.eta_min = 0.01)),
                 0.1, 0.0775, 0.0325, 0.1, 0.0775, 0.0325, 0.1, 0.0775);
    ASSERT_RATES((YK_WITH(yk_schedule, YK_SCHEDULE_INIT, o.kind = YK_SCHEDULE_WARM_RESTARTS,
                          o.t_0 = 2, o.t_mult = 3)),
                 0.1, 0.05, 0.1, 0.09330127018922195, 0.075, 0.05, 0.025, 0.006698729810778065, 0.1,
                 0.09924038765061041, 0.09698463103929543, 0.09330127018922195);
    ASSERT_RATES((YK_WITH(yk_schedule, YK_SCHEDULE_INIT, o.kind = YK_SCHEDULE_WARM_RESTARTS,
                          o.t_0 = 3, o.warmup = 2)),
                 0.03333333333333333, 0.06666666666666667, 0.1, 0.075, 0.025, 0.1, 0.075, 0.025,
                 0.1);
    /* Cycles whose lengths grow past all numbers. */
    assert_true(
        yk_schedule_lr(YK_WITH(yk_schedule, YK_SCHEDULE_INIT, o.kind = YK_SCHEDULE_WARM_RESTARTS,
                               o.t_0 = INT64_MAX / 2, o.t_mult = INT64_MAX),
                       INT64_MAX, 0.1) < 0.1);
}

YK_TEST(polynomial_and_exponential_rates_are_torchs)
{
    ASSERT_RATES((YK_WITH(yk_schedule, YK_SCHEDULE_INIT, o.kind = YK_SCHEDULE_POLYNOMIAL,
                          o.total_steps = 5, o.power = 0.9)),
                 0.1, 0.08180521460508584, 0.06314458674893553, 0.043838329055408694,
                 0.023492378861760376, 0, 0, 0);
    ASSERT_RATES((YK_WITH(yk_schedule, YK_SCHEDULE_INIT, o.kind = YK_SCHEDULE_POLYNOMIAL,
                          o.total_steps = 4)),
                 0.1, 0.075, 0.05, 0.025, 0, 0);
    ASSERT_RATES(
        (YK_WITH(yk_schedule, YK_SCHEDULE_INIT, o.kind = YK_SCHEDULE_EXPONENTIAL, o.gamma = 0.5)),
        0.1, 0.05, 0.025, 0.0125, 0.00625);
}

/* numpy.interp(range(11), [0, 4, 10], [0.2, 1, 0.1]) / 10, of which 4 is int(0.46 * 10). */
/* Printed by torch.optim.lr_scheduler.CyclicLR; the momentum is the other way up. */
YK_TEST(cycles_are_torchs)
{
    yk_schedule s = YK_SCHEDULE_INIT;
    s.kind = YK_SCHEDULE_CYCLIC;
    s.base_lr = 0.02;
    s.max_lr = 0.1;
    s.step_size_up = 4;
    s.step_size_down = 2;
    assert_rates(&s, (double[]){0.02, 0.04, 0.06, 0.08, 0.1, 0.06, 0.02, 0.04}, 8);
    s.cycle_mode = YK_CYCLE_TRIANGULAR2;
    assert_rates(&s,
                 (double[]){0.02, 0.04, 0.06, 0.08, 0.1, 0.06, 0.02, 0.03, 0.04, 0.05, 0.06, 0.04,
                            0.02, 0.025},
                 14);
    s.cycle_mode = YK_CYCLE_EXP_RANGE;
    s.gamma = 0.5;
    assert_rates(&s, (double[]){0.02, 0.03, 0.03, 0.0275, 0.025, 0.02125, 0.02}, 7);
    s = (yk_schedule)YK_SCHEDULE_INIT;
    s.kind = YK_SCHEDULE_CYCLIC; /* up to the group's own rate, and back as slowly */
    s.step_size_up = 2;
    double momentum;
    const double expected[] = {0.95, 0.9, 0.85, 0.9, 0.95};
    for (int t = 0; t < 5; t++) {
        assert_true(fabs(yk_schedule_lr(&s, t, 0.1) - 0.1 * (0.95 - expected[t]) / 0.1) <= 1e-15);
        assert_true(yk_schedule_momentum(&s, t, &momentum));
        assert_true(fabs(momentum - expected[t]) <= 1e-15);
    }
    s.cycle_momentum = false;
    assert_false(yk_schedule_momentum(&s, 0, &momentum));
    s.step_size_up = s.step_size_down = INT64_MAX;
    assert_true(yk_schedule_lr(&s, INT64_MAX, 0.1) <= 0.1);
}

YK_TEST(a_warm_up_may_be_constant)
{
    yk_schedule s = YK_SCHEDULE_INIT;
    s.warmup = 3;
    s.warmup_factor = 0.25;
    s.warmup_constant = true;
    for (int t = 0; t < 5; t++)
        assert_true(yk_schedule_lr(&s, t, 0.4) == (t < 3 ? 0.1 : 0.4));
}

YK_TEST(steps_end_where_they_change_nothing)
{
    yk_schedule s = YK_SCHEDULE_INIT;
    s.kind = YK_SCHEDULE_STEP;
    s.step_size = 1;
    s.gamma = 1;
    assert_true(yk_schedule_lr(&s, INT64_MAX, 0.4) == 0.4);
    s.gamma = 0.75; /* down to a number of which three quarters are rounded to itself */
    assert_true(yk_schedule_lr(&s, INT64_MAX, 0.4) < 1e-300);
    assert_true(isnan(yk_schedule_lr(&s, INT64_MAX, (double)NAN)));
}

YK_TEST(a_triangle_rises_to_its_peak_and_falls)
{
    yk_schedule schedule = YK_SCHEDULE_INIT;
    schedule.kind = YK_SCHEDULE_TRIANGLE;
    schedule.total_steps = 10;
    schedule.pct_start = 0.46;
    schedule.end_factor = 0.1;
    ASSERT_RATES(&schedule, 0.02, 0.04, 0.06, 0.08, 0.1, 0.085, 0.07, 0.055, 0.04, 0.025, 0.01,
                 0.01);
    schedule.pct_start = schedule.end_factor = 0; /* a line from the whole rate to 0 */
    ASSERT_RATES(&schedule, 0.1, 0.09, 0.08, 0.07, 0.06, 0.05, 0.04, 0.03, 0.02, 0.01, 0, 0);
    schedule.end_factor = 1.5;
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_schedule_check(&schedule));
    schedule.end_factor = 0;
    schedule.warmup = 3;
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_schedule_check(&schedule));
    assert_non_null(strstr(yk_last_error(), "triangle has a warmup of its own"));
}

static double hyperparameter(const yk_optimizer *optimizer, size_t group, size_t index)
{
    const char *name;
    double value = NAN;
    assert_true(yk_optimizer_group_hyperparameter(optimizer, group, index, &name, &value));
    return value;
}

YK_TEST(every_group_goes_from_its_own_rate)
{
    yk_model *model = make_linear_model(YK_F32, 3, 2);
    yk_optimizer *optimizer;
    yk_schedule schedule = YK_SCHEDULE_INIT;
    schedule.kind = YK_SCHEDULE_STEP;
    schedule.step_size = 1;
    schedule.gamma = 0.5;
    assert_ok(
        yk_sgd_create(&optimizer, model, YK_WITH(yk_sgd_options, YK_SGD_OPTIONS_INIT, o.lr = 0.8)));
    assert_ok(yk_optimizer_add_param_group(optimizer, yk_filter_name, "*.bias", NULL));
    assert_ok(yk_optimizer_set_group_hyperparameter(optimizer, 1, "lr", 0.08));
    for (int t = 0; t < 3; t++) {
        assert_ok(yk_schedule_apply(&schedule, optimizer, t));
        assert_true(hyperparameter(optimizer, 0, 0) == 0.8 * pow(0.5, t));
        assert_true(hyperparameter(optimizer, 1, 0) == 0.08 * pow(0.5, t));
    }
    schedule.kind = YK_SCHEDULE_ONE_CYCLE;
    schedule.total_steps = 5;
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_schedule_apply(&schedule, optimizer, 0));
    assert_contains(yk_last_error(), "cycles the momentum, and this sgd has none; without "
                                     "cycle_momentum it needs none");
    yk_optimizer_destroy(optimizer);

    assert_ok(yk_adam_create(&optimizer, model, NULL));
    assert_ok(yk_schedule_apply(&schedule, optimizer, 0));
    assert_true(fabs(hyperparameter(optimizer, 0, 0) - 1e-3 / 25) < 1e-16);
    assert_true(hyperparameter(optimizer, 0, 1) == 0.95); /* beta1 */
    yk_optimizer_destroy(optimizer);

    assert_ok(yk_adagrad_create(&optimizer, model, NULL));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_schedule_apply(&schedule, optimizer, 0));
    assert_contains(yk_last_error(), "cycles the momentum, and this adagrad has none");
    yk_optimizer_destroy(optimizer);
    assert_ok(yk_rmsprop_create(&optimizer, model, NULL));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_schedule_apply(&schedule, optimizer, 0));
    assert_contains(yk_last_error(), "cycles the momentum, and this rmsprop has none");
    yk_optimizer_destroy(optimizer);
    assert_ok(yk_rmsprop_create(
        &optimizer, model, YK_WITH(yk_rmsprop_options, YK_RMSPROP_OPTIONS_INIT, o.momentum = 0.9)));
    assert_ok(yk_schedule_apply(&schedule, optimizer, 0));
    assert_true(hyperparameter(optimizer, 0, 1) == 0.95);
    yk_optimizer_destroy(optimizer);
    yk_model_destroy(model);
}

static void assert_refused(yk_schedule schedule, const char *words)
{
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_schedule_check(&schedule));
    assert_contains(yk_last_error(), words);
}

YK_TEST(wrong_schedules_are_refused)
{
    assert_refused(*YK_WITH(yk_schedule, YK_SCHEDULE_INIT, o.kind = (yk_schedule_kind)10),
                   "kind 10");
    assert_refused(
        *YK_WITH(yk_schedule, YK_SCHEDULE_INIT, o.kind = YK_SCHEDULE_CYCLIC, o.step_size_up = 0),
        "schedule cyclic: step_size_up must be at least 1, not 0");
    assert_refused(
        *YK_WITH(yk_schedule, YK_SCHEDULE_INIT, o.kind = YK_SCHEDULE_CYCLIC, o.step_size_down = -1),
        "step_size_down must be at least 1, not -1");
    assert_refused(*YK_WITH(yk_schedule, YK_SCHEDULE_INIT, o.kind = YK_SCHEDULE_CYCLIC,
                            o.cycle_mode = (yk_cycle_mode)3),
                   "there is no cycle_mode 3");
    assert_refused(*YK_WITH(yk_schedule, YK_SCHEDULE_INIT, o.kind = YK_SCHEDULE_CYCLIC,
                            o.cycle_mode = YK_CYCLE_EXP_RANGE, o.gamma = 1.01),
                   "schedule cyclic: gamma must be at least 0 and at most 1, not 1.01");
    assert_refused(
        *YK_WITH(yk_schedule, YK_SCHEDULE_INIT, o.kind = YK_SCHEDULE_CYCLIC, o.base_lr = NAN),
        "base_lr");
    assert_refused(
        *YK_WITH(yk_schedule, YK_SCHEDULE_INIT, o.kind = YK_SCHEDULE_CYCLIC, o.max_momentum = 1),
        "max_momentum");
    assert_refused(
        *YK_WITH(yk_schedule, YK_SCHEDULE_INIT, o.kind = YK_SCHEDULE_CYCLIC, o.warmup = 2),
        "warmup must be 0, not 2");
    assert_refused(*YK_WITH(yk_schedule, YK_SCHEDULE_INIT, o.kind = YK_SCHEDULE_STEP),
                   "step_size must be at least 1, not 0");
    assert_refused(*YK_WITH(yk_schedule, YK_SCHEDULE_INIT, o.kind = YK_SCHEDULE_STEP,
                            o.step_size = 1, o.gamma = NAN),
                   "gamma");
    assert_refused(*YK_WITH(yk_schedule, YK_SCHEDULE_INIT, o.kind = YK_SCHEDULE_MULTISTEP),
                   "1 to 32 milestones, not 0");
    assert_refused(
        (yk_schedule){.kind = YK_SCHEDULE_MULTISTEP, .milestones = {5, 3}, .milestone_count = 2},
        "must be 1 or more and in increasing order, not 3");
    assert_refused(*YK_WITH(yk_schedule, YK_SCHEDULE_INIT, o.kind = YK_SCHEDULE_COSINE), "t_max");
    assert_refused(*YK_WITH(yk_schedule, YK_SCHEDULE_INIT, o.kind = YK_SCHEDULE_COSINE, o.t_max = 3,
                            o.eta_min = -1),
                   "eta_min");
    assert_refused(*YK_WITH(yk_schedule, YK_SCHEDULE_INIT, o.kind = YK_SCHEDULE_ONE_CYCLE),
                   "total_steps");
    assert_refused(*YK_WITH(yk_schedule, YK_SCHEDULE_INIT, o.kind = YK_SCHEDULE_ONE_CYCLE,
                            o.total_steps = 5, o.pct_start = 1.5),
                   "pct_start");
    assert_refused(*YK_WITH(yk_schedule, YK_SCHEDULE_INIT, o.kind = YK_SCHEDULE_ONE_CYCLE,
                            o.total_steps = 5, o.warmup = 2),
                   "warmup must be 0, not 2");
    assert_refused(*YK_WITH(yk_schedule, YK_SCHEDULE_INIT, o.kind = YK_SCHEDULE_WARM_RESTARTS),
                   "schedule warmrestarts: t_0 must be at least 1, not 0");
    assert_refused(*YK_WITH(yk_schedule, YK_SCHEDULE_INIT, o.kind = YK_SCHEDULE_WARM_RESTARTS,
                            o.t_0 = 2, o.t_mult = 0),
                   "t_mult must be at least 1, not 0");
    assert_refused(*YK_WITH(yk_schedule, YK_SCHEDULE_INIT, o.kind = YK_SCHEDULE_WARM_RESTARTS,
                            o.t_0 = 2, o.eta_min = NAN),
                   "eta_min");
    assert_refused(*YK_WITH(yk_schedule, YK_SCHEDULE_INIT, o.kind = YK_SCHEDULE_POLYNOMIAL),
                   "total_steps");
    assert_refused(*YK_WITH(yk_schedule, YK_SCHEDULE_INIT, o.kind = YK_SCHEDULE_POLYNOMIAL,
                            o.total_steps = 5, o.power = -1),
                   "schedule polynomial: power must be at least 0, not -1");
    assert_refused(
        *YK_WITH(yk_schedule, YK_SCHEDULE_INIT, o.kind = YK_SCHEDULE_EXPONENTIAL, o.gamma = -1),
        "gamma");
    assert_refused(*YK_WITH(yk_schedule, YK_SCHEDULE_INIT, o.warmup = -1), "warmup");
    assert_refused(*YK_WITH(yk_schedule, YK_SCHEDULE_INIT, o.warmup = 1, o.warmup_factor = 2),
                   "warmup_factor");
}

/* A warm-up goes on below its first rate there, which would be a rate below 0. */
YK_TEST(there_is_no_rate_before_the_first_step)
{
    yk_model *model = make_linear_model(YK_F32, 3, 2);
    yk_optimizer *sgd;
    yk_schedule warmup = YK_SCHEDULE_INIT, cycle = YK_SCHEDULE_INIT;
    double momentum;
    warmup.warmup = 2;
    cycle.kind = YK_SCHEDULE_ONE_CYCLE;
    cycle.total_steps = 9;
    assert_true(isnan(yk_schedule_lr(&warmup, -3, 0.1)));
    assert_false(yk_schedule_momentum(&cycle, -1, &momentum));
    assert_ok(yk_sgd_create(&sgd, model, NULL));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_schedule_apply(&warmup, sgd, -3));
    assert_contains(yk_last_error(), "schedule constant: t must be at least 0, not -3");
    assert_true(yk_optimizer_lr(sgd) == 1e-3);
    yk_optimizer_destroy(sgd);
    yk_model_destroy(model);
}

static void assert_described(const yk_schedule *schedule, const char *expected)
{
    char text[YK_SCHEDULE_TEXT];
    assert_string_equal(yk_schedule_describe(schedule, 0.1, text, sizeof text), expected);
}

YK_TEST(schedules_are_described_in_words)
{
    char text[8];
    yk_schedule multistep = {.kind = YK_SCHEDULE_MULTISTEP, .gamma = 0.1, .milestone_count = 2};
    multistep.milestones[0] = 30;
    multistep.milestones[1] = 60;
    assert_described(YK_WITH(yk_schedule, YK_SCHEDULE_INIT, o.warmup = 1),
                     "constant, after a warm-up of 1 epoch from 0.0333");
    assert_described(YK_WITH(yk_schedule, YK_SCHEDULE_INIT, o.kind = YK_SCHEDULE_STEP,
                             o.step_size = 5, o.per_step = true),
                     "step, every 5 steps x 0.1");
    assert_described(&multistep, "multistep after 30 epochs, 60 epochs x 0.1");
    assert_described(
        YK_WITH(yk_schedule, YK_SCHEDULE_INIT, o.kind = YK_SCHEDULE_COSINE, o.t_max = 20),
        "cosine over 20 epochs to 0");
    assert_described(YK_WITH(yk_schedule, YK_SCHEDULE_INIT, o.kind = YK_SCHEDULE_ONE_CYCLE,
                             o.total_steps = 9, o.per_step = true, o.max_lr = 0.5),
                     "onecycle over 9 steps with its peak at 0.5, momentum 0.95 to 0.85");
    assert_described(YK_WITH(yk_schedule, YK_SCHEDULE_INIT, o.kind = YK_SCHEDULE_ONE_CYCLE,
                             o.total_steps = 9, o.max_lr = 0, o.cycle_momentum = false),
                     "onecycle over 9 epochs with its peak at 0");
    assert_described(YK_WITH(yk_schedule, YK_SCHEDULE_INIT, o.kind = YK_SCHEDULE_WARM_RESTARTS,
                             o.t_0 = 10, o.warmup = 5),
                     "warmrestarts every 10 epochs, falling to 0, after a warm-up of 5 epochs from "
                     "0.0333");
    assert_described(YK_WITH(yk_schedule, YK_SCHEDULE_INIT, o.kind = YK_SCHEDULE_WARM_RESTARTS,
                             o.t_0 = 10, o.t_mult = 2, o.eta_min = 0.001, o.per_step = true),
                     "warmrestarts after 10 steps, then each time after 2 times as many, falling "
                     "to 0.001");
    assert_described(YK_WITH(yk_schedule, YK_SCHEDULE_INIT, o.kind = YK_SCHEDULE_POLYNOMIAL,
                             o.total_steps = 30, o.power = 0.9),
                     "polynomial over 30 epochs to 0, power 0.9");
    assert_described(
        YK_WITH(yk_schedule, YK_SCHEDULE_INIT, o.kind = YK_SCHEDULE_EXPONENTIAL, o.gamma = 0.97),
        "exponential, every epoch x 0.97");
    assert_described(YK_WITH(yk_schedule, YK_SCHEDULE_INIT, o.kind = YK_SCHEDULE_CYCLIC,
                             o.base_lr = 0.01, o.step_size_up = 9, o.per_step = true),
                     "cyclic, triangular, from 0.01 to 0.1 over 9 steps and back over 9 steps, "
                     "momentum 0.95 to 0.85");
    assert_described(YK_WITH(yk_schedule, YK_SCHEDULE_INIT, o.kind = YK_SCHEDULE_CYCLIC,
                             o.max_lr = 0.5, o.step_size_up = 9, o.step_size_down = 1,
                             o.cycle_mode = YK_CYCLE_EXP_RANGE, o.cycle_momentum = false),
                     "cyclic, exp_range 0.1, from 0 to 0.5 over 9 epochs and back over 1 epoch");
    assert_described(YK_WITH(yk_schedule, YK_SCHEDULE_INIT, o.warmup = 2, o.warmup_constant = true),
                     "constant, after a warm-up of 2 epochs at 0.0333");
    assert_described(NULL, "unknown");
    assert_string_equal(yk_schedule_describe(&multistep, 0.1, text, sizeof text), "multist");
    assert_null(yk_schedule_describe(&multistep, 0.1, NULL, 0));
}

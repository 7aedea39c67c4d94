/* ReduceLROnPlateau: rates that PyTorch 2.15 gave, and what is refused. */
#include "harness.h"

#include <math.h>

#include "linear_model.h"

/* Two groups, which start with rates of 0.1 and 0.03. */
static void start(yk_model **model, yk_optimizer **optimizer)
{
    *model = make_linear_model(YK_F32, 5, 3);
    assert_ok(
        yk_sgd_create(optimizer, *model, YK_WITH(yk_sgd_options, YK_SGD_OPTIONS_INIT, o.lr = 0.1)));
    assert_ok(yk_optimizer_add_param_group(*optimizer, yk_filter_name, "*.bias", NULL));
    assert_ok(yk_optimizer_set_group_hyperparameter(*optimizer, 1, "lr", 0.03));
}

static double rate(const yk_optimizer *optimizer, size_t group)
{
    const char *name;
    double value = NAN;
    assert_true(yk_optimizer_group_hyperparameter(optimizer, group, 0, &name, &value));
    return value;
}

enum { VALUES = 16 };

static void check(yk_plateau plateau, const double expected[VALUES][2])
{
    static const double values[VALUES] = {1,       0.9,  0.9, 0.89999, 0.95, 0.8,  0.81, 0.82,
                                          0.79995, 0.83, NAN, 0.7,     0.71, 0.72, 0.73, 0.74};
    yk_model *model;
    yk_optimizer *optimizer;
    start(&model, &optimizer);
    for (int i = 0; i < VALUES; i++) {
        bool reduced;
        double before = rate(optimizer, 0) + rate(optimizer, 1);
        assert_ok(yk_plateau_step(&plateau, optimizer, values[i], &reduced));
        for (size_t group = 0; group < 2; group++)
            if (!(fabs(rate(optimizer, group) - expected[i][group]) < 1e-16))
                fail_msg("value %d, group %zu: %.17g is not %.17g", i, group,
                         rate(optimizer, group), expected[i][group]);
        assert_true(reduced == (rate(optimizer, 0) + rate(optimizer, 1) < before));
    }
    yk_optimizer_destroy(optimizer);
    yk_model_destroy(model);
}

YK_TEST(rates_are_torchs)
{
    static const double falling[VALUES][2] = {
        {0.1, 0.03},       {0.1, 0.03},         {0.1, 0.03},         {0.05, 0.015},
        {0.05, 0.015},     {0.05, 0.015},       {0.05, 0.015},       {0.025, 0.0075},
        {0.025, 0.0075},   {0.025, 0.0075},     {0.0125, 0.00375},   {0.0125, 0.00375},
        {0.0125, 0.00375}, {0.00625, 0.001875}, {0.00625, 0.001875}, {0.00625, 0.001875}};
    yk_plateau plateau = YK_PLATEAU_INIT;
    plateau.patience = 1;
    plateau.factor = 0.5;
    plateau.cooldown = 1;
    check(plateau, falling);

    static const double rising[VALUES][2] = {
        {0.1, 0.03},  {0.05, 0.02}, {0.025, 0.02}, {0.02, 0.02}, {0.02, 0.02}, {0.02, 0.02},
        {0.02, 0.02}, {0.02, 0.02}, {0.02, 0.02},  {0.02, 0.02}, {0.02, 0.02}, {0.02, 0.02},
        {0.02, 0.02}, {0.02, 0.02}, {0.02, 0.02},  {0.02, 0.02}};
    plateau = (yk_plateau)YK_PLATEAU_INIT;
    plateau.maximize = true;
    plateau.patience = 0;
    plateau.factor = 0.5;
    plateau.threshold = 0.1;
    plateau.absolute = true;
    plateau.min_lr = 0.02;
    check(plateau, rising);
}

YK_TEST(schedules_start_from_the_reduced_rate)
{
    yk_model *model;
    yk_optimizer *optimizer;
    bool reduced;
    yk_plateau plateau = YK_PLATEAU_INIT;
    plateau.patience = 0;
    start(&model, &optimizer);
    assert_ok(yk_plateau_step(&plateau, optimizer, 1, &reduced));
    assert_true(!reduced);
    assert_ok(yk_plateau_step(&plateau, optimizer, 2, &reduced));
    assert_true(reduced);
    assert_ok(yk_schedule_apply(&(yk_schedule)YK_SCHEDULE_INIT, optimizer, 7)); /* the trainer's */
    assert_true(rate(optimizer, 0) == 0.1 * 0.1 && rate(optimizer, 1) == 0.03 * 0.1);
    yk_optimizer_destroy(optimizer);
    yk_model_destroy(model);
}

static void refuse(yk_plateau plateau, const char *why)
{
    yk_model *model;
    yk_optimizer *optimizer;
    start(&model, &optimizer);
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_plateau_step(&plateau, optimizer, 1, NULL));
    assert_contains(yk_last_error(), why);
    assert_true(isnan(plateau.best));
    yk_optimizer_destroy(optimizer);
    yk_model_destroy(model);
}

YK_TEST(what_makes_no_sense_is_refused)
{
    refuse(*YK_WITH(yk_plateau, YK_PLATEAU_INIT, o.factor = 1), "factor must be from 0 to below 1");
    refuse(*YK_WITH(yk_plateau, YK_PLATEAU_INIT, o.factor = NAN), "factor must be");
    refuse(*YK_WITH(yk_plateau, YK_PLATEAU_INIT, o.patience = -1), "patience -1");
    refuse(*YK_WITH(yk_plateau, YK_PLATEAU_INIT, o.threshold = -1), "threshold -1");
    refuse(*YK_WITH(yk_plateau, YK_PLATEAU_INIT, o.min_lr = NAN), "min_lr");
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_plateau_step(NULL, NULL, 1, NULL));
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_plateau_step(&(yk_plateau)YK_PLATEAU_INIT, NULL, 1, NULL));
}

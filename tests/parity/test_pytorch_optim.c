/*
 * Optimizers, parameter groups, schedules, clipping and averaging against PyTorch's: 200 steps of a
 * small model from the same weights on the same batches, parameters within 1e-6 in f32; the rates
 * of every step within 1e-12 of what PyTorch's schedulers gave; and 30 steps of optimizers in f64,
 * within 1e-13.
 */
#define _GNU_SOURCE
#include "harness.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <yoke/nn.h>

#include "pytorch.h"

enum { STEPS = 200, BATCH = 32, FEATURES = 8, CLASSES = 5 };

typedef struct optim_case {
    const char *name;
    enum { SGD, ADAM, NADAM, RADAM, ADAMAX, ADAGRAD, ADADELTA, RMSPROP } rule;
    yk_sgd_options sgd;
    yk_adam_options adam;
    yk_nadam_options nadam;
    yk_radam_options radam;
    yk_adamax_options adamax;
    yk_adagrad_options adagrad;
    yk_adadelta_options adadelta;
    yk_rmsprop_options rmsprop;
    bool norms_apart; /* without weight decay */
    bool last_slow;   /* fc2 at a rate of 0.005 */
    yk_schedule schedule;
    double clip, ema;
} optim_case;

#define OF(kind, ...)                                                                              \
    {                                                                                              \
        sizeof(yk_##kind##_options), __VA_ARGS__                                                   \
    }
#define OF_SGD(...)     OF(sgd, __VA_ARGS__)
#define OF_ADAM(...)    OF(adam, __VA_ARGS__)
#define OF_ADAGRAD(...) OF(adagrad, __VA_ARGS__)
#define OF_RMSPROP(...) OF(rmsprop, __VA_ARGS__)

/* The other fields at their defaults. */
#define SCHEDULE(kind, gamma, pct_start, ...)                                                      \
    {                                                                                              \
        kind, .warmup_factor = 1.0 / 3, gamma, .max_lr = YK_LR_INITIAL, pct_start,                 \
              .div_factor = 25, .final_div_factor = 1e4, .cycle_momentum = true,                   \
              .base_momentum = 0.85, .max_momentum = 0.95, __VA_ARGS__                             \
    }

static const optim_case cases[] = {
    {"sgd", .sgd = OF_SGD(.lr = 0.05)},
    {"momentum", .sgd = OF_SGD(.lr = 0.02, .momentum = 0.9)},
    {"decay", .sgd = OF_SGD(.lr = 0.02, .momentum = 0.9, .weight_decay = 5e-3)},
    {"dampening", .sgd = OF_SGD(.lr = 0.05, .momentum = 0.9, .dampening = 0.5)},
    {"nesterov",
     .sgd = OF_SGD(.lr = 0.02, .momentum = 0.9, .weight_decay = 5e-4, .nesterov = true)},
    {"adam", .rule = ADAM, .adam = OF_ADAM(0.002, 0.85, 0.99, 1e-6, 1e-3, false, false)},
    {"adamw", .rule = ADAM, .adam = OF_ADAM(0.002, 0.9, 0.999, 1e-8, 0.05, true, false)},
    {"amsgrad", .rule = ADAM, .adam = OF_ADAM(0.002, 0.85, 0.9, 1e-6, 1e-3, false, true)},
    {"amsgrad_adamw", .norms_apart = true, .rule = ADAM,
     .adam = OF_ADAM(0.002, 0.9, 0.95, 1e-8, 0.05, true, true)},
    {"nadam", .rule = NADAM, .nadam = OF(nadam, 0.002, 0.9, 0.999, 1e-8, 0, 4e-3, false)},
    {"nadam_decay", .norms_apart = true, .rule = NADAM,
     .nadam = OF(nadam, 0.002, 0.8, 0.95, 1e-6, 1e-2, 0.1, false)},
    {"nadam_shrink", .rule = NADAM, .nadam = OF(nadam, 0.002, 0.9, 0.999, 1e-8, 0.05, 4e-3, true)},
    {"radam", .rule = RADAM, .radam = OF(radam, 0.002, 0.9, 0.999, 1e-8, 0, false)},
    {"radam_decay", .norms_apart = true, .rule = RADAM,
     .radam = OF(radam, 0.002, 0.85, 0.97, 1e-6, 1e-2, false)},
    {"radam_shrink", .last_slow = true, .rule = RADAM,
     .radam = OF(radam, 0.002, 0.9, 0.999, 1e-8, 0.05, true)},
    {"adamax", .rule = ADAMAX, .adamax = OF(adamax, 0.004, 0.9, 0.999, 1e-8, 0)},
    {"adamax_decay", .norms_apart = true, .rule = ADAMAX,
     .adamax = OF(adamax, 0.004, 0.8, 0.9, 1e-3, 1e-2)},
    {"adagrad", .rule = ADAGRAD, .adagrad = OF_ADAGRAD(0.02, 0, 0, 0, 1e-10)},
    {"adagrad_from", .norms_apart = true, .rule = ADAGRAD,
     .adagrad = OF_ADAGRAD(0.02, 0.01, 1e-2, 0.1, 1e-6)},
    {"adadelta", .rule = ADADELTA, .adadelta = OF(adadelta, 1, 0.9, 1e-6, 0)},
    {"adadelta_decay", .norms_apart = true, .rule = ADADELTA,
     .adadelta = OF(adadelta, 0.5, 0.8, 1e-4, 1e-2)},
    {"rmsprop", .rule = RMSPROP, .rmsprop = OF_RMSPROP(5e-4, 0.99, 1e-4, 0, 0, false)},
    {"rmsprop_decay", .norms_apart = true, .rule = RMSPROP,
     .rmsprop = OF_RMSPROP(0.002, 0.9, 0.0316, 1e-2, 0.9, false)},
    {"rmsprop_centered", .last_slow = true, .rule = RMSPROP,
     .rmsprop = OF_RMSPROP(0.002, 0.95, 1e-4, 0, 0, true)},
    {"rmsprop_both", .rule = RMSPROP, .rmsprop = OF_RMSPROP(5e-4, 0.95, 1e-3, 1e-3, 0.8, true)},
    {"norms_apart", .norms_apart = true,
     .sgd = OF_SGD(.lr = 0.02, .momentum = 0.9, .weight_decay = 0.01)},
    {"last_slow", .last_slow = true, .sgd = OF_SGD(.lr = 0.02, .momentum = 0.9)},
    {"step", .sgd = OF_SGD(.lr = 0.05),
     .schedule =
         SCHEDULE(.kind = YK_SCHEDULE_STEP, .gamma = 0.5, .pct_start = 0.3, .step_size = 40)},
    {"multistep", .last_slow = true, .sgd = OF_SGD(.lr = 0.05),
     .schedule = SCHEDULE(.kind = YK_SCHEDULE_MULTISTEP, .gamma = 0.1, .pct_start = 0.3,
                          .milestones = {50, 120}, .milestone_count = 2)},
    {"cosine", .sgd = OF_SGD(.lr = 0.05),
     .schedule = SCHEDULE(.kind = YK_SCHEDULE_COSINE, .gamma = 0.1, .pct_start = 0.3, .t_max = 160,
                          .eta_min = 0.001)},
    {"warm_cosine", .norms_apart = true, .rule = ADAM,
     .adam = OF_ADAM(0.004, 0.9, 0.999, 1e-8, 0.05, true, false),
     .schedule = SCHEDULE(.kind = YK_SCHEDULE_COSINE, .gamma = 0.1, .pct_start = 0.3, .t_max = 180,
                          .warmup = 20)},
    {"restarts", .last_slow = true, .sgd = OF_SGD(.lr = 0.05),
     .schedule = SCHEDULE(.kind = YK_SCHEDULE_WARM_RESTARTS, .gamma = 0.1, .pct_start = 0.3,
                          .t_0 = 30, .t_mult = 1, .eta_min = 0.001)},
    {"growing_restarts", .sgd = OF_SGD(.lr = 0.05),
     .schedule = SCHEDULE(.kind = YK_SCHEDULE_WARM_RESTARTS, .gamma = 0.1, .pct_start = 0.3,
                          .t_0 = 10, .t_mult = 2)},
    {"warm_restarts", .sgd = OF_SGD(.lr = 0.05),
     .schedule = SCHEDULE(.kind = YK_SCHEDULE_WARM_RESTARTS, .gamma = 0.1, .pct_start = 0.3,
                          .t_0 = 15, .t_mult = 3, .warmup = 20)},
    {"polynomial", .last_slow = true, .sgd = OF_SGD(.lr = 0.05),
     .schedule = SCHEDULE(.kind = YK_SCHEDULE_POLYNOMIAL, .gamma = 0.1, .pct_start = 0.3,
                          .total_steps = 180, .power = 0.9)},
    {"exponential", .last_slow = true, .sgd = OF_SGD(.lr = 0.05),
     .schedule = SCHEDULE(.kind = YK_SCHEDULE_EXPONENTIAL, .gamma = 0.97, .pct_start = 0.3)},
    {"warm_step", .sgd = OF_SGD(.lr = 0.05),
     .schedule = SCHEDULE(.kind = YK_SCHEDULE_STEP, .gamma = 0.1, .pct_start = 0.3, .step_size = 60,
                          .warmup = 30)},
    {"onecycle", .sgd = OF_SGD(.lr = 0.05, .momentum = 0.9),
     .schedule = SCHEDULE(.kind = YK_SCHEDULE_ONE_CYCLE, .gamma = 0.1, .pct_start = 0.3,
                          .total_steps = STEPS)},
    {"onecycle_adam", .rule = ADAM, .adam = OF_ADAM(0.004, 0.9, 0.999, 1e-8, 0, false, false),
     .schedule = SCHEDULE(.kind = YK_SCHEDULE_ONE_CYCLE, .gamma = 0.1, .pct_start = 0.4,
                          .total_steps = STEPS, .three_phase = true, .linear_anneal = true)},
    {"onecycle_rmsprop", .rule = RMSPROP, .rmsprop = OF_RMSPROP(0.002, 0.99, 1e-3, 0, 0.9, false),
     .schedule = SCHEDULE(.kind = YK_SCHEDULE_ONE_CYCLE, .gamma = 0.1, .pct_start = 0.3,
                          .total_steps = STEPS)},
    {"cyclic", .sgd = OF_SGD(.lr = 0.05, .momentum = 0.9),
     .schedule = SCHEDULE(.kind = YK_SCHEDULE_CYCLIC, .gamma = 0.1, .pct_start = 0.3,
                          .base_lr = 0.005, .step_size_up = 30, .step_size_down = 20)},
    {"cyclic_halved", .sgd = OF_SGD(.lr = 0.05, .momentum = 0.9),
     .schedule =
         SCHEDULE(.kind = YK_SCHEDULE_CYCLIC, .gamma = 0.1, .pct_start = 0.3, .base_lr = 0.001,
                  .step_size_up = 25, .cycle_mode = YK_CYCLE_TRIANGULAR2)},
    {"cyclic_range", .rule = ADAM, .adam = OF_ADAM(0.004, 0.9, 0.999, 1e-8, 0, false, false),
     .schedule = {.kind = YK_SCHEDULE_CYCLIC,
                  .gamma = 0.99,
                  .max_lr = YK_LR_INITIAL,
                  .base_lr = 0.0005,
                  .step_size_up = 15,
                  .step_size_down = 25,
                  .cycle_mode = YK_CYCLE_EXP_RANGE}},
    {"constant_warm", .last_slow = true, .sgd = OF_SGD(.lr = 0.05),
     .schedule = {.kind = YK_SCHEDULE_STEP,
                  .gamma = 0.1,
                  .step_size = 60,
                  .warmup = 30,
                  .warmup_factor = 0.25,
                  .warmup_constant = true}},
    {"clip", .sgd = OF_SGD(.lr = 0.05, .momentum = 0.9), .clip = 0.3},
    {"ema", .sgd = OF_SGD(.lr = 0.05), .ema = 0.95},
};

static const char *path_of(const char *name, const char *ending)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s%s", yk_test_directory(), name, ending);
    return path;
}

static yk_model *make_model(void)
{
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "x", YK_F32, 2, (int64_t[]){YK_BATCH, FEATURES});
    yk_value *labels = yk_input(graph, "labels", YK_I32, 1, (int64_t[]){YK_BATCH});
    x = yk_gelu(yk_nn_linear(x, "fc1", 16));
    yk_value *loss = yk_cross_entropy(yk_nn_linear(x, "fc2", CLASSES), labels, NULL);
    yk_model *model;
    assert_ok(yk_model_create(&model, loss,
                              YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.threads = 1)));
    return model;
}

static yk_optimizer *make_optimizer(yk_model *model, const optim_case *c)
{
    yk_optimizer *optimizer;
    if (c->rule == ADAM)
        assert_ok(yk_adam_create(&optimizer, model, &c->adam));
    else if (c->rule == NADAM)
        assert_ok(yk_nadam_create(&optimizer, model, &c->nadam));
    else if (c->rule == RADAM)
        assert_ok(yk_radam_create(&optimizer, model, &c->radam));
    else if (c->rule == ADAMAX)
        assert_ok(yk_adamax_create(&optimizer, model, &c->adamax));
    else if (c->rule == ADAGRAD)
        assert_ok(yk_adagrad_create(&optimizer, model, &c->adagrad));
    else if (c->rule == ADADELTA)
        assert_ok(yk_adadelta_create(&optimizer, model, &c->adadelta));
    else if (c->rule == RMSPROP)
        assert_ok(yk_rmsprop_create(&optimizer, model, &c->rmsprop));
    else
        assert_ok(yk_sgd_create(&optimizer, model, &c->sgd));
    if (c->norms_apart) {
        assert_ok(yk_optimizer_add_param_group(optimizer, yk_filter_norms_and_biases, NULL, NULL));
        assert_ok(yk_optimizer_set_group_hyperparameter(optimizer, 1, "weight_decay", 0));
    }
    if (c->last_slow) {
        assert_ok(yk_optimizer_add_param_group(optimizer, yk_filter_name, "fc2.*", NULL));
        assert_ok(yk_optimizer_set_group_hyperparameter(optimizer, 1, "lr", 0.005));
    }
    return optimizer;
}

static void backward(yk_model *model, int step)
{
    static float x[BATCH * FEATURES];
    static int32_t labels[BATCH];
    for (int i = 0; i < BATCH * FEATURES; i++)
        x[i] = (float)sin(0.37 * i * (1 + step % 7) + step);
    for (int n = 0; n < BATCH; n++)
        labels[n] = (step + 3 * n + n * n) % CLASSES;
    yk_batch batch = {
        .size = BATCH,
        .count = 2,
        .names = (const char *[]){"x", "labels"},
        .tensors = (yk_tensor[]){{.data = x, .dtype = YK_F32, .ndim = 2, .dims = {BATCH, FEATURES}},
                                 {.data = labels, .dtype = YK_I32, .ndim = 1, .dims = {BATCH}}}};
    assert_ok(yk_model_forward(model, &batch));
    assert_ok(yk_model_backward(model));
}

/* The next lines of rates.txt are this step's: the largest difference, relative. */
static double compare_rates(FILE *rates, const optim_case *c, const yk_optimizer *optimizer,
                            int step)
{
    double largest = 0;
    for (size_t g = 0; g < yk_optimizer_group_count(optimizer); g++) {
        char name[64], lr[64], momentum[64];
        int at, group;
        assert_int_equal(fscanf(rates, "%63s %d %d %63s %63s", name, &at, &group, lr, momentum), 5);
        assert_string_equal(name, c->name);
        assert_true(at == step && group == (int)g);
        const double expected[] = {strtod(lr, NULL), strtod(momentum, NULL)};
        const char *ignored;
        for (size_t i = 0; i < 2; i++) { /* lr; momentum, beta1 or lr_decay */
            double value;
            assert_true(yk_optimizer_group_hyperparameter(optimizer, g, i, &ignored, &value));
            largest = fmax(largest, fabs(value - expected[i]) / (fabs(expected[i]) + 1e-30));
        }
    }
    return largest;
}

/* Relative to 1 + |PyTorch's|. */
static double compare_weights(const optim_case *c, const yk_model *model, const yk_ema *ema)
{
    yk_model *there = make_model();
    double largest = 0;
    assert_ok(yk_model_load(there, path_of(c->name, ".pth")));
    for (size_t p = 0; p < yk_model_parameter_count(there); p++) {
        yk_tensor a = ema ? yk_ema_value(ema, p) : yk_model_parameter(model, p).value;
        yk_tensor b = yk_model_parameter(there, p).value;
        for (int64_t i = 0; i < yk_tensor_count(&a); i++) {
            double here = (double)((float *)a.data)[i], torch = (double)((float *)b.data)[i];
            largest = fmax(largest, fabs(here - torch) / (1 + fabs(torch)));
        }
    }
    yk_model_destroy(there);
    return largest;
}

static void check(const optim_case *c, FILE *rates)
{
    yk_model *model = make_model();
    yk_ema *ema = NULL;
    double rate = 0;
    assert_ok(yk_model_load(model, path_of("init", ".pth")));
    yk_optimizer *optimizer = make_optimizer(model, c);
    if (c->ema > 0)
        assert_ok(yk_ema_create(&ema, optimizer,
                                YK_WITH(yk_ema_options, YK_EMA_OPTIONS_INIT, o.decay = c->ema)));
    assert_ok(yk_schedule_check(&c->schedule));
    for (int step = 0; step < STEPS; step++) {
        assert_ok(yk_schedule_apply(&c->schedule, optimizer, step));
        rate = fmax(rate, compare_rates(rates, c, optimizer, step));
        backward(model, step);
        if (c->clip > 0)
            assert_ok(yk_clip_grad_norm(optimizer, c->clip, NULL));
        assert_ok(yk_optimizer_step(optimizer));
        if (ema)
            assert_ok(yk_ema_update(ema));
    }
    double weight = compare_weights(c, model, ema);
    print_message("%-14s parameters differ by %.1e, rates by %.1e\n", c->name, weight, rate);
    assert_true(weight <= 1e-6);
    assert_true(rate <= 1e-12);
    yk_ema_destroy(ema);
    yk_optimizer_destroy(optimizer);
    yk_model_destroy(model);
}

static yk_model *make_doubles(void)
{
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "x", YK_F64, 2, (int64_t[]){YK_BATCH, 3});
    yk_value *y = yk_nn_linear(x, "fc", 2);
    yk_model *model;
    assert_ok(yk_model_create(&model, yk_reduce_loss(y, YK_LOSS_MEAN), NULL));
    for (size_t p = 0; p < 2; p++) {
        yk_tensor value = yk_model_parameter(model, p).value;
        for (int64_t i = 0; i < yk_tensor_count(&value); i++)
            ((double *)value.data)[i] = 0.5 * (double)(i + 1) * (i % 2 ? -1 : 1);
    }
    return model;
}

static void step_doubles(yk_model *model, yk_optimizer *optimizer)
{
    for (int step = 1; step <= 30; step++) {
        for (size_t p = 0; p < 2; p++) {
            yk_tensor grad = yk_model_parameter(model, p).grad;
            for (int64_t i = 0; i < yk_tensor_count(&grad); i++)
                ((double *)grad.data)[i] = 0.3 * sin(1.3 * step + (double)i + 10 * (double)p);
        }
        assert_ok(yk_optimizer_step(optimizer));
    }
}

/* The next line of doubles.txt is this case's. */
static void check_doubles(const optim_case *c, FILE *doubles)
{
    char word[64];
    double largest = 0;
    yk_model *model = make_doubles();
    yk_optimizer *optimizer = make_optimizer(model, c);
    step_doubles(model, optimizer);
    assert_int_equal(fscanf(doubles, "%63s", word), 1);
    assert_string_equal(word, c->name);
    for (size_t p = 0; p < 2; p++) {
        yk_tensor value = yk_model_parameter(model, p).value;
        for (int64_t i = 0; i < yk_tensor_count(&value); i++) {
            assert_int_equal(fscanf(doubles, "%63s", word), 1);
            double torch = strtod(word, NULL);
            double difference = fabs(((double *)value.data)[i] - torch) / (1 + fabs(torch));
            largest = difference >= largest ? difference : largest;
            assert_false(isnan(difference));
        }
    }
    print_message("%-14s parameters in f64 differ by %.1e\n", c->name, largest);
    assert_true(largest <= 1e-13);
    yk_optimizer_destroy(optimizer);
    yk_model_destroy(model);
}

static bool has_doubles(const optim_case *c)
{
    return c->schedule.kind == YK_SCHEDULE_CONSTANT && c->clip == 0 && c->ema == 0 && !c->last_slow;
}

YK_TEST(two_hundred_steps_are_pytorchs)
{
    pytorch_judges("optim.py", "%s", yk_test_directory());
    FILE *rates = fopen(path_of("rates", ".txt"), "re");
    assert_non_null(rates);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check(&cases[i], rates);
    fclose(rates);
    FILE *doubles = fopen(path_of("doubles", ".txt"), "re");
    assert_non_null(doubles);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (has_doubles(&cases[i]))
            check_doubles(&cases[i], doubles);
    fclose(doubles);
}

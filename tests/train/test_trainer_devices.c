/* When the trainer tells of a step: on a device that works behind the host's back, while the next
 * one computes. */
#define _GNU_SOURCE
#include <yoke/yoke.h>

#include <math.h>
#include <stdlib.h>

#include "parts.h"

enum { EPOCHS = 2, STEPS = 10 }; /* steps of an epoch */

typedef struct listener {
    yk_model *model;
    int64_t told, late; /* steps; late: after the next one's forward */
    int64_t spoils;     /* the step after which it makes the weights NaN; 0: none */
} listener;

static void spoil_weights(const yk_model *model)
{
    yk_tensor value = yk_model_parameter(model, 0).value;
    size_t count = (size_t)yk_tensor_count(&value);
    float *values = malloc(count * sizeof *values);
    for (size_t i = 0; i < count; i++)
        values[i] = NAN;
    assert_ok(yk_tensor_write(&value, values));
    free(values);
}

static yk_status listen(void *context, yk_trainer *trainer, const yk_step_record *record)
{
    listener *l = context;
    (void)trainer;
    assert_int_equal(record->step, ++l->told);
    assert_true(record->has_grad_norm && record->grad_norm > 0);
    l->late += yk_model_forwards(l->model) > record->step;
    if (record->step == l->spoils)
        spoil_weights(l->model);
    return YK_OK;
}

static yk_status count_step(void *context, yk_trainer *trainer, const yk_step_record *record)
{
    listener *l = context;
    (void)trainer;
    assert_int_equal(record->step, ++l->told);
    assert_true(isfinite(record->loss));
    return YK_OK;
}

static yk_status begin_step(void *context, yk_trainer *trainer)
{
    const listener *l = context;
    assert_int_equal(l->told, yk_trainer_state(trainer)->step);
    return YK_OK;
}

static void fit(listener *l, const char *device, bool begins, yk_status expected)
{
    yk_trainer_options options = YK_TRAINER_OPTIONS_INIT;
    options.epochs = EPOCHS;
    options.clip_grad_norm = 1;
    options.callbacks = (yk_trainer_callbacks){
        .context = l, .on_step = listen, .on_step_begin = begins ? begin_step : NULL};
    setenv("YK_TEST_DEVICE", device, 1);
    parts p = create_parts(&options, (int64_t)20 * STEPS);
    l->model = p.model;
    assert_status(expected, yk_trainer_fit(p.trainer));
    destroy_parts(p);
}

YK_TEST(a_step_is_told_while_the_next_computes)
{
    listener sim = {.told = 0}, cpu = {.told = 0};
    fit(&sim, "sim", false, YK_OK);
    assert_int_equal(sim.told, EPOCHS * STEPS);
    assert_int_equal(sim.late, EPOCHS * (STEPS - 1)); /* not the last of an epoch */
    fit(&cpu, "cpu", false, YK_OK);
    assert_int_equal(cpu.told, EPOCHS * STEPS);
    assert_int_equal(cpu.late, 0);
}

YK_TEST(a_step_is_told_before_the_next_begins_if_that_is_told_too)
{
    listener sim = {.told = 0};
    fit(&sim, "sim", true, YK_OK);
    assert_int_equal(sim.told, EPOCHS * STEPS);
    assert_int_equal(sim.late, 0);
}

/* The weights that step 5 updates are no numbers, and so is the loss of step 6. */
YK_TEST(the_step_before_one_that_fails_is_told)
{
    listener sim = {.spoils = 4};
    fit(&sim, "sim", false, YK_ERROR_INVALID_ARGUMENT);
    assert_contains(yk_last_error(), "step 6: the loss is nan; stopped before the weights");
    assert_int_equal(sim.told, 5);
}

/* A rate so large that the loss of step 2 is no number. */
static parts fail_in_step_2(listener *l, const char *device)
{
    yk_trainer_options options = YK_TRAINER_OPTIONS_INIT;
    options.callbacks = (yk_trainer_callbacks){.context = l, .on_step = count_step};
    setenv("YK_TEST_DEVICE", device, 1);
    parts p = create_parts(&options, (int64_t)20 * STEPS);
    yk_optimizer_set_lr(p.optimizer, 1e38);
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_trainer_fit(p.trainer));
    assert_contains(yk_last_error(), "step 2: the loss is nan; stopped before the weights");
    assert_int_equal(l->told, 1);
    assert_int_equal(yk_trainer_state(p.trainer)->step, 1);
    assert_int_equal(yk_optimizer_steps(p.optimizer), 1);
    return p;
}

/* By the time that the host reads the loss, the update has been entered. */
YK_TEST(a_loss_that_is_no_number_never_reaches_the_weights)
{
    listener late = {.told = 0}, prompt = {.told = 0};
    parts ref = fail_in_step_2(&prompt, "ref");
    parts sim = fail_in_step_2(&late, "sim");
    assert_same_weights(&sim, &ref);
    destroy_parts(sim);
    destroy_parts(ref);
}

/* ---- averages of the weights ----------------------------------------------------------------- */

typedef struct averaged {
    parts p;
    yk_ema *ema;
    yk_lookahead *lookahead;
} averaged;

static averaged create_averaged(yk_trainer_options *options, const char *device)
{
    averaged a;
    setenv("YK_TEST_DEVICE", device, 1);
    a.p = create_parts(options, (int64_t)20 * STEPS);
    yk_trainer_destroy(a.p.trainer);
    assert_ok(yk_ema_create(&a.ema, a.p.optimizer, NULL));
    assert_ok(yk_lookahead_create(&a.lookahead, a.p.optimizer,
                                  YK_WITH(yk_lookahead_options, YK_LOOKAHEAD_OPTIONS_INIT,
                                          o.interval = 1, o.total_steps = 100)));
    options->ema = a.ema;
    options->lookahead = a.lookahead;
    assert_ok(yk_trainer_create(&a.p.trainer, a.p.model, a.p.optimizer, a.p.loader, options));
    return a;
}

static void destroy_averaged(averaged a)
{
    destroy_parts(a.p);
    yk_lookahead_destroy(a.lookahead);
    yk_ema_destroy(a.ema);
}

static void assert_same_averages(const averaged *a, const averaged *b)
{
    for (size_t i = 0; i < yk_model_parameter_count(a->p.model); i++) {
        yk_tensor one = yk_ema_value(a->ema, i), other = yk_ema_value(b->ema, i);
        size_t bytes = yk_tensor_bytes(&one);
        void *values[2] = {malloc(bytes), malloc(bytes)};
        assert_ok(yk_tensor_read(&one, values[0]));
        assert_ok(yk_tensor_read(&other, values[1]));
        assert_memory_equal(values[0], values[1], bytes);
        free(values[0]);
        free(values[1]);
    }
}

static averaged average_until_step_2(const char *device)
{
    listener l = {.told = 0};
    yk_trainer_options options = YK_TRAINER_OPTIONS_INIT;
    options.callbacks = (yk_trainer_callbacks){.context = &l, .on_step = count_step};
    averaged a = create_averaged(&options, device);
    yk_optimizer_set_lr(a.p.optimizer, 1e38);
    assert_ok(yk_ema_update(a.ema)); /* the next ones do not only copy */
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_trainer_fit(a.p.trainer));
    assert_contains(yk_last_error(), "step 2: the loss is nan; stopped before the weights");
    assert_int_equal(yk_ema_updates(a.ema), 2);
    assert_int_equal(yk_trainer_state(a.p.trainer)->step, 1);
    return a;
}

/* What the device leaves out of the weights, it leaves out of their averages. */
YK_TEST(a_loss_that_is_no_number_never_reaches_the_averages)
{
    averaged ref = average_until_step_2("ref"), sim = average_until_step_2("sim");
    assert_same_averages(&sim, &ref);
    assert_same_weights(&sim.p, &ref.p);
    assert_ok(yk_ema_swap(sim.ema)); /* and later sweeps do what they should */
    assert_ok(yk_ema_swap(ref.ema));
    assert_same_averages(&sim, &ref);
    assert_same_weights(&sim.p, &ref.p);
    destroy_averaged(sim);
    destroy_averaged(ref);
}

static averaged average(listener *l, const char *device)
{
    yk_trainer_options options = YK_TRAINER_OPTIONS_INIT;
    options.epochs = EPOCHS;
    options.clip_grad_norm = 1;
    options.callbacks = (yk_trainer_callbacks){.context = l, .on_step = listen};
    averaged a = create_averaged(&options, device);
    l->model = a.p.model;
    assert_ok(yk_trainer_fit(a.p.trainer));
    return a;
}

YK_TEST(averages_are_updated_while_the_step_before_is_told)
{
    listener late = {.told = 0}, prompt = {.told = 0};
    averaged sim = average(&late, "sim"), ref = average(&prompt, "ref");
    assert_int_equal(late.late, EPOCHS * (STEPS - 1));
    assert_int_equal(prompt.late, 0);
    assert_same_averages(&sim, &ref);
    assert_same_weights(&sim.p, &ref.p);
    destroy_averaged(sim);
    destroy_averaged(ref);
}

/* ---- sizes ----------------------------------------------------------------------------------- */

/* A step takes no more batches than an epoch has. */
YK_TEST(a_step_of_any_size_needs_memory_for_an_epochs_losses)
{
    listener l = {.told = 0};
    yk_trainer_options options = YK_TRAINER_OPTIONS_INIT;
    options.callbacks = (yk_trainer_callbacks){.context = &l, .on_step = count_step};
    options.accumulate = INT32_MAX;
    setenv("YK_TEST_DEVICE", "cpu", 1);
    parts p = create_parts(&options, (int64_t)20 * STEPS);
    assert_ok(yk_trainer_fit(p.trainer));
    assert_int_equal(l.told, yk_trainer_state(p.trainer)->step);
    destroy_parts(p);
}

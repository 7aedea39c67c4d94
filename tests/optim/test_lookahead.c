/* Lookahead: the numbers, the end of training, checkpoints. */
#define _GNU_SOURCE
#include "harness.h"

#include <math.h>

#include <yoke/checkpoint.h>

#include "linear_model.h"
#include "optim/average.h"
#include "optim/optimizer.h"

typedef struct parts {
    yk_model *model;
    yk_optimizer *optimizer;
    yk_lookahead *lookahead;
} parts;

static parts start(const yk_lookahead_options *options)
{
    parts p = {.model = make_linear_model(YK_F32, 3, 2)};
    assert_ok(yk_sgd_create(&p.optimizer, p.model, NULL));
    assert_ok(yk_lookahead_create(&p.lookahead, p.optimizer, options));
    return p;
}

static void stop(parts p)
{
    yk_lookahead_destroy(p.lookahead);
    yk_optimizer_destroy(p.optimizer);
    yk_model_destroy(p.model);
}

static void fill(const parts *p, float value)
{
    for (size_t i = 0; i < yk_model_parameter_count(p->model); i++) {
        yk_tensor tensor = yk_model_parameter(p->model, i).value, host = yk_test_on_host(tensor);
        for (int64_t k = 0; k < yk_tensor_count(&tensor); k++)
            ((float *)host.data)[k] = value;
        yk_test_write_back(tensor, host);
    }
}

static double weight(const parts *p)
{
    return (double)*(float *)yk_test_on_host(yk_model_parameter(p->model, 0).value).data;
}

/* The weight after a step that has taken it to `value`. */
static double after_step(const parts *p, int64_t step, float value)
{
    fill(p, value);
    p->optimizer->steps = step;
    assert_ok(yk_lookahead_update(p->lookahead));
    return weight(p);
}

YK_TEST(weights_meet_the_slow_ones_every_few_steps)
{
    parts p = {.model = make_linear_model(YK_F32, 3, 2)};
    fill(&p, 8); /* where the slow weights start */
    assert_ok(yk_sgd_create(&p.optimizer, p.model, NULL));
    assert_ok(yk_lookahead_create(
        &p.lookahead, p.optimizer,
        YK_WITH(yk_lookahead_options, YK_LOOKAHEAD_OPTIONS_INIT, o.decay = 0.75, o.interval = 2)));
    assert_true(after_step(&p, 1, 100) == 100);
    assert_true(after_step(&p, 2, 16) == 10);
    assert_true(after_step(&p, 3, 2) == 2);
    assert_true(after_step(&p, 4, 18) == 12);
    stop(p);
}

/* The optimizer has counted 6 steps of 8, because a grad scaler skipped two. */
YK_TEST(training_ends_on_the_slow_weights_after_skipped_steps_too)
{
    parts p = start(YK_WITH(yk_lookahead_options, YK_LOOKAHEAD_OPTIONS_INIT, o.interval = 5,
                            o.total_steps = 8));
    double slow = weight(&p);
    fill(&p, 7);
    yk_optimizer_set_steps(p.optimizer, 6);
    assert_ok(yki_lookahead_update_at(p.lookahead, 7, NULL));
    assert_true(weight(&p) == 7);
    assert_ok(yki_lookahead_update_at(p.lookahead, 8, NULL));
    assert_true(weight(&p) == slow);
    stop(p);
}

YK_TEST(a_skipped_step_is_no_second_exchange)
{
    parts p = start(YK_WITH(yk_lookahead_options, YK_LOOKAHEAD_OPTIONS_INIT, o.interval = 2,
                            o.total_steps = 4));
    for (int64_t step = 2; step <= 4; step += 2) {
        assert_true(after_step(&p, step, 16 * (float)step) != 16 * (float)step);
        fill(&p, 100);
        assert_ok(yk_lookahead_update(p.lookahead)); /* the step after it was skipped */
        assert_true(weight(&p) == 100);
    }
    yk_optimizer_set_steps(p.optimizer, 2); /* as loading an earlier checkpoint does */
    assert_true(after_step(&p, 4, 7) != 7);
    stop(p);
}

/* As in a run that begins with a scale that is too large, and in one that is resumed. */
YK_TEST(a_skipped_step_is_no_first_exchange)
{
    parts p = start(YK_WITH(yk_lookahead_options, YK_LOOKAHEAD_OPTIONS_INIT, o.interval = 2));
    fill(&p, 100);
    assert_ok(yk_lookahead_update(p.lookahead));
    assert_true(weight(&p) == 100);
    yk_optimizer_set_steps(p.optimizer, 4);
    assert_ok(yk_lookahead_update(p.lookahead));
    assert_true(weight(&p) == 100);
    assert_true(after_step(&p, 6, 100) != 100);
    stop(p);
}

/* decay (t / 8)^2, at step 8 the slow weights, and then the whole decay. */
YK_TEST(a_growing_decay_and_the_end_of_training)
{
    parts p = start(YK_WITH(yk_lookahead_options, YK_LOOKAHEAD_OPTIONS_INIT, o.decay = 0.5,
                            o.interval = 3, o.power = 2, o.total_steps = 8));
    double slow = after_step(&p, 3, 16), decay = 0.5 * 36 / 64;
    slow += (1 - decay) * (32 - slow);
    assert_true(fabs(after_step(&p, 6, 32) - slow) < 1e-5);
    assert_true(fabs(after_step(&p, 8, 7) - slow) < 1e-5);
    slow += 0.5 * (32 - slow);
    assert_true(fabs(after_step(&p, 12, 32) - slow) < 1e-4);
    stop(p);
}

YK_TEST(a_checkpoint_holds_the_slow_weights)
{
    char path[256];
    const yk_lookahead_options *options =
        YK_WITH(yk_lookahead_options, YK_LOOKAHEAD_OPTIONS_INIT, o.decay = 0.75, o.interval = 2);
    snprintf(path, sizeof path, "%s/lookahead.pth", yk_test_directory());
    parts p = start(options);
    after_step(&p, 2, 16);
    double slow = weight(&p);
    fill(&p, 100);
    assert_ok(yk_checkpoint_save(path, p.model, p.optimizer, NULL));
    parts q = start(options);
    assert_ok(yk_checkpoint_load(path, q.model, q.optimizer, NULL));
    assert_true(weight(&q) == 100);
    assert_true(fabs(after_step(&q, 4, 200) - (slow + 0.25 * (200 - slow))) < 1e-4);
    stop(q);
    /* One without starts from the loaded weights. */
    yk_lookahead_destroy(p.lookahead);
    fill(&p, 40);
    assert_ok(yk_checkpoint_save(path, p.model, p.optimizer, NULL));
    p.lookahead = NULL;
    q = start(options);
    assert_ok(yk_checkpoint_load(path, q.model, q.optimizer, NULL));
    assert_true(after_step(&q, 2, 80) == 50);
    stop(p);
    stop(q);
}

YK_TEST(misuse_of_lookahead_is_an_error)
{
    yk_lookahead *second;
    parts p = start(NULL);
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_lookahead_create(&second, p.optimizer, NULL));
    assert_contains(yk_last_error(), "already has a Lookahead");
    yk_lookahead_destroy(p.lookahead);
    p.lookahead = NULL;
    const struct {
        double decay, power;
        int64_t interval, total_steps;
    } wrong[] = {{1, 0, 5, 9}, {-0.1, 0, 5, 9}, {0.5, -1, 5, 9}, {0.5, 0, 0, 9}, {0.5, 0, 5, 0}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        yk_lookahead_options options = YK_LOOKAHEAD_OPTIONS_INIT;
        options.decay = wrong[i].decay;
        options.power = wrong[i].power;
        options.interval = wrong[i].interval;
        options.total_steps = wrong[i].total_steps;
        assert_status(YK_ERROR_INVALID_ARGUMENT,
                      yk_lookahead_create(&second, p.optimizer, &options));
        assert_null(second);
    }
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_lookahead_update(NULL));
    stop(p);
}

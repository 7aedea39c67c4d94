/* A trainer goes on: after a failed step, a stop or another trainer, and from wherever its loader
 * is. */
#define _GNU_SOURCE
#include <yoke/yoke.h>

#include "parts.h"

/* Training without any of it, for so many epochs of 10 steps. */
static parts train_whole(int64_t epochs)
{
    yk_trainer_options options = YK_TRAINER_OPTIONS_INIT;
    options.epochs = epochs;
    parts p = create_parts(&options, 200);
    assert_ok(yk_trainer_fit(p.trainer));
    return p;
}

static void assert_same_and_destroy(parts a, parts b)
{
    assert_same_weights(&a, &b);
    destroy_parts(a);
    destroy_parts(b);
}

/* ---- after a failure ------------------------------------------------------------------------- */

/* Fails once at the sample *data. */
static yk_status read_pattern(void *data, void *worker, int64_t index, yk_field_buffer *buffers)
{
    int64_t *failing = data;
    (void)worker;
    if (index == *failing) {
        *failing = -1;
        return yk_set_error(YK_ERROR_IO, "this sample cannot be read yet");
    }
    unsigned char *pixels = yk_field_buffer_reserve(&buffers[0], 3 * 32 * 32);
    for (int64_t i = 0; i < (int64_t)3 * 32 * 32; i++)
        pixels[i] = (unsigned char)(index * 31 + i * (index % 5 + 3));
    *(int32_t *)buffers[1].data = (int32_t)(index % 10);
    return YK_OK;
}

/* A sample of this batch of the first epoch. */
static int64_t sample_of_batch(int64_t batch)
{
    int64_t indices[200];
    yk_sampler_options sampler = YK_SAMPLER_OPTIONS_INIT;
    sampler.samples = 200;
    sampler.shuffle = true;
    assert_ok(yk_sampler_indices(&sampler, 0, indices));
    return indices[batch * 20 + 7];
}

YK_TEST(a_failed_step_is_made_up_for)
{
    int64_t none = -1, failing = sample_of_batch(5); /* the second batch of the third step */
    yk_trainer_options options = YK_TRAINER_OPTIONS_INIT;
    options.epochs = 2;
    options.accumulate = 2;
    parts whole = create_parts_reading(&options, "pattern", read_pattern, &none);
    assert_ok(yk_trainer_fit(whole.trainer));
    parts p = create_parts_reading(&options, "pattern", read_pattern, &failing);
    assert_status(YK_ERROR_IO, yk_trainer_fit(p.trainer));
    assert_int_equal(yk_trainer_state(p.trainer)->step, 2);
    assert_ok(yk_trainer_fit(p.trainer));
    assert_same_and_destroy(p, whole);
}

/* ---- at the end of an epoch ------------------------------------------------------------------ */

/* What on_step does after the last step of the first epoch. */
typedef enum ending { SAVES, SAVES_BY_HAND, FAILS, ENDINGS } ending;

static yk_status end_epoch(void *context, yk_trainer *trainer, const yk_step_record *record)
{
    const ending *does = context;
    if (record->step != 10)
        return YK_OK;
    assert_int_equal(yk_trainer_state(trainer)->epoch_batch, 10);
    if (*does == SAVES)
        assert_ok(yk_trainer_save(trainer));
    return YK_ERROR_INTERRUPTED;
}

static yk_status save_by_hand(void *context, yk_trainer *trainer, const yk_step_record *record)
{
    const parts *p = context;
    if (record->step != 10)
        return YK_OK;
    return yk_checkpoint_save(yk_test_path("end.pth"), p->model, p->optimizer,
                              yk_trainer_state(trainer));
}

/* Returns the checkpoint of the end of the first epoch. */
static const char *leave_end_of_epoch(ending does)
{
    static char path[512];
    parts p;
    yk_trainer_options options = YK_TRAINER_OPTIONS_INIT;
    options.epochs = 1;
    options.output = output_folder();
    options.callbacks.context = &does;
    options.callbacks.on_step = end_epoch;
    if (does == SAVES_BY_HAND) {
        options.callbacks.context = &p;
        options.callbacks.on_step = save_by_hand;
    }
    p = create_parts(&options, 200);
    assert_status(does == SAVES_BY_HAND ? YK_OK : YK_ERROR_INTERRUPTED, yk_trainer_fit(p.trainer));
    assert_int_equal(yk_trainer_state(p.trainer)->epoch, 1);
    assert_int_equal(yk_trainer_state(p.trainer)->epoch_batch, 0);
    if (does == FAILS)
        assert_ok(yk_trainer_save(p.trainer));
    destroy_parts(p);
    if (does == SAVES_BY_HAND)
        return yk_test_path("end.pth");
    assert_ok(yk_checkpoint_dir_latest(options.output, path, sizeof path));
    return path;
}

YK_TEST(checkpoints_of_the_end_of_an_epoch_resume)
{
    for (int does = SAVES; does < ENDINGS; does++) {
        yk_trainer_options options = YK_TRAINER_OPTIONS_INIT;
        options.epochs = 2;
        const char *path = leave_end_of_epoch((ending)does);
        parts p = create_parts(&options, 200);
        assert_ok(yk_trainer_resume(p.trainer, path));
        assert_int_equal(yk_trainer_resumed(p.trainer)->saved.epoch, 1);
        assert_int_equal(yk_trainer_state(p.trainer)->epoch_batch, 0);
        assert_ok(yk_trainer_fit(p.trainer));
        assert_same_and_destroy(p, train_whole(2));
    }
}

/* ---- wherever the loader is ------------------------------------------------------------------ */

YK_TEST(a_peek_at_the_data_changes_nothing)
{
    yk_trainer_options options = YK_TRAINER_OPTIONS_INIT;
    options.epochs = 2;
    parts p = create_parts(&options, 200);
    assert_non_null(yk_loader_next(p.loader));
    assert_ok(yk_trainer_step(p.trainer, NULL));
    assert_non_null(yk_loader_next(p.loader));
    assert_ok(yk_trainer_fit(p.trainer));
    assert_same_and_destroy(p, train_whole(2));
}

/* The second of two trainers of the same parts, stopped by max_steps and resumed or not. */
static parts train_after_another(bool interrupted)
{
    yk_trainer_options options = YK_TRAINER_OPTIONS_INIT;
    options.epochs = 1;
    parts p = create_parts(&options, 200);
    assert_ok(yk_trainer_fit(p.trainer));
    yk_trainer_destroy(p.trainer);
    options.epochs = 2;
    options.output = output_folder();
    options.max_steps = interrupted ? 5 : YK_NEVER;
    assert_ok(yk_trainer_create(&p.trainer, p.model, p.optimizer, p.loader, &options));
    assert_ok(yk_trainer_fit(p.trainer));
    if (!interrupted)
        return p;
    destroy_parts(p);
    options.max_steps = YK_NEVER;
    p = create_parts(&options, 200);
    assert_ok(yk_trainer_resume_latest(p.trainer, NULL));
    assert_ok(yk_trainer_fit(p.trainer));
    return p;
}

YK_TEST(a_second_trainer_of_a_loader_resumes_to_the_same_bits)
{
    assert_same_and_destroy(train_after_another(true), train_after_another(false));
}

/* ---- after a stop ---------------------------------------------------------------------------- */

static yk_status stop_after_first(void *context, yk_trainer *trainer, const yk_epoch_record *record)
{
    (void)context;
    if (record->epoch == 1)
        yk_trainer_stop(trainer);
    return YK_OK;
}

YK_TEST(a_stop_after_an_epoch_is_the_end_of_that_epoch)
{
    yk_evaluation result;
    yk_trainer_options options = YK_TRAINER_OPTIONS_INIT;
    options.epochs = 3;
    options.callbacks.on_epoch = stop_after_first;
    parts p = create_parts(&options, 200);
    assert_ok(yk_trainer_fit(p.trainer));
    assert_true(yk_trainer_stopped(p.trainer));
    assert_int_equal(yk_trainer_state(p.trainer)->step, 10);
    double accuracy = yk_trainer_state(p.trainer)->val_accuracy;
    assert_ok(yk_trainer_evaluate(p.trainer, &result, NULL));
    assert_false(result.stopped);
    assert_int_equal(result.count, 50);
    assert_true(result.accuracy == accuracy);
    assert_true(yk_trainer_stopped(p.trainer));
    assert_ok(yk_trainer_fit(p.trainer)); /* goes on */
    assert_false(yk_trainer_stopped(p.trainer));
    assert_int_equal(yk_trainer_state(p.trainer)->epoch, 3);
    assert_same_and_destroy(p, train_whole(3));
}

YK_TEST(a_loop_that_was_asked_to_stop_evaluates)
{
    bool finished;
    yk_evaluation result;
    yk_trainer_options options = YK_TRAINER_OPTIONS_INIT;
    parts p = create_parts(&options, 200);
    assert_ok(yk_trainer_step(p.trainer, NULL));
    yk_trainer_stop(p.trainer);
    assert_ok(yk_trainer_step(p.trainer, &finished));
    assert_true(finished);
    assert_ok(yk_trainer_evaluate(p.trainer, &result, NULL));
    assert_false(result.stopped);
    assert_int_equal(result.count, 50);
    assert_true(yk_trainer_stopped(p.trainer));
    destroy_parts(p);
}

/* Only one rank asks, and only after the epoch's evaluation. */
YK_TEST_RANKS(ranks_stop_together_after_an_epoch, 2)
{
    yk_group *group;
    assert_ok(yk_group_init(&group, NULL));
    yk_trainer_options options = YK_TRAINER_OPTIONS_INIT;
    options.group = group;
    options.callbacks.on_epoch = rank == 1 ? stop_after_first : NULL;
    parts p = create_parts(&options, 200);
    assert_ok(yk_trainer_fit(p.trainer));
    assert_true(yk_trainer_stopped(p.trainer));
    assert_int_equal(yk_trainer_state(p.trainer)->step, 5);
    destroy_parts(p);
    yk_group_destroy(group);
}

/* ---- after another trainer ------------------------------------------------------------------- */

/* The norm of the gradients of the first step; its rate of 0 leaves the weights alone. */
static double norm_of_step(parts *p, yk_loss_reduction reduction)
{
    double norm;
    yk_trainer_options options = YK_TRAINER_OPTIONS_INIT;
    options.loss_reduction = reduction;
    options.clip_grad_norm = 1e9;
    yk_trainer_destroy(p->trainer);
    assert_ok(yk_trainer_create(&p->trainer, p->model, p->optimizer, p->loader, &options));
    yk_optimizer_set_lr(p->optimizer, 0);
    assert_ok(yk_trainer_step(p->trainer, NULL));
    assert_ok(yk_clip_grad_norm(p->optimizer, 1e9, &norm));
    return norm;
}

YK_TEST(the_weight_of_a_sum_ends_with_the_step)
{
    parts p = create_parts(&(yk_trainer_options)YK_TRAINER_OPTIONS_INIT, 200);
    double mean = norm_of_step(&p, YK_LOSS_MEAN), sum = norm_of_step(&p, YK_LOSS_SUM);
    assert_true(sum > 19 * mean && sum < 21 * mean); /* of 20 samples */
    assert_true(norm_of_step(&p, YK_LOSS_MEAN) == mean);
    destroy_parts(p);
}

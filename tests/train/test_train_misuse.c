/* NULL where training needs a result, a model or a loader: an error, never a crash. */
#include <linux/limits.h>
#include <math.h>
#include <string.h>

#include "parts.h"

static void assert_invalid(yk_status status, const char *words)
{
    assert_status(YK_ERROR_INVALID_ARGUMENT, status);
    assert_contains(yk_last_error(), words);
}

YK_TEST(what_training_needs_must_not_be_null)
{
    int64_t correct = 1;
    yk_evaluation evaluation = {.count = 1};
    assert_invalid(yk_count_correct(NULL, NULL, NULL), "correct is NULL");
    assert_invalid(yk_count_correct(&correct, NULL, NULL), "model is NULL");
    assert_int_equal(correct, 0);
    assert_invalid(yk_mean_over_ranks(NULL, NULL, 1, 1), "mean is NULL");
    assert_invalid(yk_model_broadcast_buffers(NULL, NULL), "model is NULL");
    assert_invalid(yk_evaluate(NULL, NULL, NULL, NULL), "result is NULL");
    assert_invalid(yk_evaluate(&evaluation, NULL, NULL, NULL), "model is NULL");
    assert_int_equal(evaluation.count, 0);
}

/* On creation, not when the first checkpoint is to be saved. */
YK_TEST(an_output_folder_needs_room_for_names)
{
    static char path[PATH_MAX + 1];
    yk_trainer *trainer;
    yk_trainer_options options = YK_TRAINER_OPTIONS_INIT;
    parts p = create_parts(&options, 40);
    options.validation = p.validation;
    options.output = path;
    const size_t lengths[] = {PATH_MAX - NAME_MAX - 1, PATH_MAX - 1, PATH_MAX};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        memset(path, 'a', lengths[i]);
        assert_invalid(yk_trainer_create(&trainer, p.model, p.optimizer, p.loader, &options),
                       "aaa...: the path is too long");
        assert_null(trainer);
    }
    path[PATH_MAX - NAME_MAX - 2] = '\0';
    assert_ok(yk_trainer_create(&trainer, p.model, p.optimizer, p.loader, &options));
    yk_trainer_destroy(trainer);
    destroy_parts(p);
}

YK_TEST(loss_meters_that_are_null_do_nothing)
{
    yk_loss_meter *meter = (yk_loss_meter *)1;
    double mean = 0;
    assert_invalid(yk_loss_meter_create(NULL, NULL), "meter is NULL");
    assert_invalid(yk_loss_meter_create(&meter, NULL), "model is NULL");
    assert_null(meter);
    assert_invalid(yk_loss_meter_update(NULL, 1), "meter is NULL");
    assert_invalid(yk_loss_meter_compute(NULL, NULL), "mean is NULL");
    assert_invalid(yk_loss_meter_compute(&mean, NULL), "meter is NULL");
    assert_true(isnan(mean));
    yk_loss_meter_destroy(NULL);
}

YK_TEST(trainers_that_are_null_do_nothing)
{
    yk_trainer *trainer = (yk_trainer *)1;
    yk_evaluation evaluation;
    bool resumed = true;
    assert_invalid(yk_trainer_create(NULL, NULL, NULL, NULL, NULL), "trainer is NULL");
    assert_invalid(yk_trainer_create(&trainer, NULL, NULL, NULL, NULL), "model is NULL");
    assert_null(trainer);
    assert_invalid(yk_trainer_fit(NULL), "trainer is NULL");
    assert_invalid(yk_trainer_step(NULL, NULL), "trainer is NULL");
    assert_invalid(yk_trainer_evaluate(NULL, &evaluation, NULL), "trainer is NULL");
    assert_invalid(yk_trainer_save(NULL), "trainer is NULL");
    assert_invalid(yk_trainer_resume(NULL, "checkpoint.pth"), "trainer is NULL");
    assert_invalid(yk_trainer_resume_latest(NULL, &resumed), "trainer is NULL");
    assert_false(resumed);
    assert_null(yk_trainer_resumed(NULL));
    assert_null(yk_trainer_state(NULL));
    assert_int_equal(yk_trainer_steps_per_epoch(NULL), 0);
    yk_trainer_stop(NULL);
    assert_false(yk_trainer_stopped(NULL));
    assert_int_equal(yk_trainer_stop_signal(NULL), 0);
    assert_false(yk_trainer_owes_evaluation(NULL));
    yk_trainer_destroy(NULL);
}

/* The trainer: as a whole, step by step, stopped and resumed. */
#define _GNU_SOURCE
#include <yoke/yoke.h>

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/utf8.h"
#include "parts.h"

static yk_schedule cosine_of(int64_t epochs)
{
    yk_schedule schedule = YK_SCHEDULE_INIT;
    schedule.kind = YK_SCHEDULE_COSINE;
    schedule.t_max = epochs;
    return schedule;
}

YK_TEST(an_optimizer_of_another_model_is_refused)
{
    yk_trainer *trainer;
    const yk_trainer_options options = YK_TRAINER_OPTIONS_INIT;
    parts p = create_parts(&options, 64), other = create_parts(&options, 64);
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_trainer_create(&trainer, p.model, other.optimizer, p.loader, NULL));
    assert_null(trainer);
    assert_contains(yk_last_error(), "the optimizer belongs to another model");
    destroy_parts(other);
    destroy_parts(p);
}

/* ---- the whole and its parts ----------------------------------------------------------------- */

typedef struct calls {
    int begun, steps, epochs, saves, resumes;
    int64_t stop_after; /* steps; 0: never */
} calls;

static yk_status count_begin(void *context, yk_trainer *trainer)
{
    (void)trainer;
    ((calls *)context)->begun++;
    return YK_OK;
}

static yk_status count_step(void *context, yk_trainer *trainer, const yk_step_record *record)
{
    calls *c = context;
    c->steps++;
    assert_int_equal(record->step, yk_trainer_state(trainer)->step);
    assert_true(record->loss > 0);
    if (record->step == c->stop_after)
        yk_trainer_stop(trainer);
    return YK_OK;
}

static yk_status count_epoch(void *context, yk_trainer *trainer, const yk_epoch_record *record)
{
    (void)trainer;
    assert_int_equal(record->epoch, ++((calls *)context)->epochs);
    return YK_OK;
}

static yk_status count_save(void *context, yk_trainer *trainer)
{
    (void)trainer;
    ((calls *)context)->saves++;
    return YK_OK;
}

static yk_status count_resume(void *context, yk_trainer *trainer)
{
    (void)trainer;
    ((calls *)context)->resumes++;
    return YK_OK;
}

static yk_trainer_options options_of(int64_t epochs, calls *counted)
{
    yk_trainer_options options = YK_TRAINER_OPTIONS_INIT;
    options.epochs = epochs;
    options.callbacks = (yk_trainer_callbacks){.context = counted,
                                               .on_step_begin = count_begin,
                                               .on_step = count_step,
                                               .on_epoch = count_epoch,
                                               .on_save = count_save,
                                               .on_resume = count_resume};
    return options;
}

YK_TEST(steps_one_by_one_train_as_the_whole_does)
{
    calls whole_calls = {0}, step_calls = {0};
    yk_trainer_options options = options_of(2, &whole_calls);
    parts whole = create_parts(&options, 200);
    assert_int_equal(yk_trainer_steps_per_epoch(whole.trainer), 10);
    assert_ok(yk_trainer_fit(whole.trainer));
    assert_int_equal(whole_calls.begun, 20);
    assert_int_equal(whole_calls.steps, 20);
    assert_int_equal(whole_calls.epochs, 2);
    assert_int_equal(whole_calls.saves, 0);
    assert_true(yk_trainer_state(whole.trainer)->val_accuracy >= 0);
    options = options_of(2, &step_calls);
    parts steps = create_parts(&options, 200);
    for (bool finished = false; !finished;)
        assert_ok(yk_trainer_step(steps.trainer, &finished));
    assert_int_equal(step_calls.steps, 20);
    assert_int_equal(step_calls.epochs, 0);
    assert_int_equal(yk_trainer_state(steps.trainer)->epoch, 2);
    assert_ok(yk_trainer_step(steps.trainer, NULL)); /* nothing is left to do */
    assert_int_equal(step_calls.steps, 20);
    assert_same_weights(&whole, &steps);
    yk_evaluation result;
    assert_ok(yk_trainer_evaluate(steps.trainer, &result, NULL));
    assert_int_equal(result.count, 50);
    assert_true(result.accuracy == yk_trainer_state(whole.trainer)->val_accuracy);
    destroy_parts(steps);
    destroy_parts(whole);
}

YK_TEST(averaged_weights_are_evaluated_without_augmentation)
{
    yk_evaluation own, average;
    yk_trainer_options options = YK_TRAINER_OPTIONS_INIT;
    options.max_steps = 3;
    options.tta = YK_TTA_TRANSLATE;
    parts p = create_parts(&options, 200);
    yk_trainer_destroy(p.trainer);
    assert_ok(yk_ema_create(&options.ema, p.optimizer, NULL));
    options.validation = p.validation;
    assert_ok(yk_trainer_create(&p.trainer, p.model, p.optimizer, p.loader, &options));
    for (bool finished = false; !finished;)
        assert_ok(yk_trainer_step(p.trainer, &finished));
    assert_ok(yk_trainer_evaluate(p.trainer, &own, &average));
    assert_true(own.tta_accuracy != own.accuracy);
    assert_true(average.tta_accuracy == average.accuracy);
    yk_ema_destroy(options.ema);
    destroy_parts(p);
}

/* ---- the sum of the losses ------------------------------------------------------------------- */

/* A step of a loop without a trainer: of these batches, which have so many samples on all ranks. */
static void step_on_sum(const parts *p, yk_ddp *ddp, int batches, double samples)
{
    yk_model_set_loss_weight(p->model, samples);
    for (int i = 1; i <= batches; i++) {
        yk_ddp_set_no_sync(ddp, i < batches);
        assert_ok(yk_model_forward(p->model, yk_loader_next(p->loader)));
        assert_ok(yk_model_backward(p->model));
    }
    assert_ok(yk_optimizer_step(p->optimizer));
}

/* Trains on an epoch of 50 images, whose last step has fewer images than the others. */
static parts train_on_sum(yk_group *group, int64_t accumulate, bool by_hand)
{
    yk_ddp *ddp = NULL;
    yk_trainer_options options = YK_TRAINER_OPTIONS_INIT;
    options.group = group;
    options.accumulate = accumulate;
    options.loss_reduction = YK_LOSS_SUM;
    parts p = create_parts(&options, 50);
    if (group)
        assert_ok(yk_ddp_create(&ddp, p.model, group, NULL));
    yk_trainer_destroy(p.trainer);
    options.ddp = ddp;
    assert_ok(yk_trainer_create(&p.trainer, p.model, p.optimizer, p.loader, &options));
    int64_t steps = yk_trainer_steps_per_epoch(p.trainer), full = 20 * accumulate * (group ? 2 : 1);
    for (int64_t i = 0; i < steps; i++) {
        int64_t left = 50 - i * full;
        if (by_hand)
            step_on_sum(&p, ddp, accumulate == 2 && left >= full ? 2 : 1,
                        (double)(left < full ? left : full));
        else
            assert_ok(yk_trainer_step(p.trainer, NULL));
    }
    yk_ddp_destroy(ddp);
    return p;
}

static void assert_trains_on_sum(yk_group *group, int64_t accumulate)
{
    parts trained = train_on_sum(group, accumulate, false);
    parts by_hand = train_on_sum(group, accumulate, true);
    assert_same_weights(&trained, &by_hand);
    destroy_parts(trained);
    destroy_parts(by_hand);
}

YK_TEST(a_short_last_batch_weighs_its_samples_in_a_sum)
{
    assert_trains_on_sum(NULL, 1);
    assert_trains_on_sum(NULL, 2);
}

YK_TEST_RANKS(a_sum_is_over_the_samples_of_all_ranks, 2)
{
    yk_group *group;
    (void)rank;
    assert_ok(yk_group_init(&group, NULL));
    assert_trains_on_sum(group, 1);
    yk_group_destroy(group);
}

YK_TEST(promise_15_a_stopped_trainer_resumes_to_the_same_bits)
{
    calls counted = {.stop_after = 12}; /* agreed on in step 13 */
    yk_schedule schedule = cosine_of(3);
    yk_trainer_options options = options_of(3, &(calls){0});
    options.schedule = &schedule;
    parts whole = create_parts(&options, 200);
    assert_ok(yk_trainer_fit(whole.trainer));
    options = options_of(3, &counted);
    options.schedule = &schedule;
    options.output = output_folder();
    options.program = "colour=blue\n";
    parts first = create_parts(&options, 200);
    assert_ok(yk_trainer_fit(first.trainer));
    assert_true(yk_trainer_stopped(first.trainer));
    assert_int_equal(yk_trainer_stop_signal(first.trainer), 0);
    assert_int_equal(counted.saves, 2);
    destroy_parts(first);

    bool resumed;
    counted = (calls){.epochs = 1};
    options.schedule = NULL; /* the checkpoint's */
    parts second = create_parts(&options, 200);
    assert_ok(yk_trainer_resume_latest(second.trainer, &resumed));
    assert_true(resumed);
    assert_int_equal(counted.resumes, 1);
    const yk_resume_report *report = yk_trainer_resumed(second.trainer);
    assert_int_equal(report->saved.step, 13);
    assert_int_equal(report->saved.epoch_batch, 3);
    assert_string_equal(report->saved.program, "colour=blue\n");
    assert_false(report->schedule_changed);
    assert_ok(yk_trainer_fit(second.trainer));
    assert_int_equal(counted.steps, 17);
    assert_same_weights(&whole, &second);
    assert_true(yk_trainer_state(second.trainer)->lr == yk_trainer_state(whole.trainer)->lr);
    destroy_parts(second);
    destroy_parts(whole);
}

/* ---- what may change between a run and its continuation -------------------------------------- */

/* Writes a checkpoint after so many steps of a run of two epochs of 10 steps. */
static void leave_checkpoint(int64_t max_steps)
{
    yk_schedule schedule = cosine_of(2);
    yk_trainer_options options = YK_TRAINER_OPTIONS_INIT;
    options.epochs = 2;
    options.max_steps = max_steps;
    options.schedule = &schedule;
    options.output = output_folder();
    parts p = create_parts(&options, 200);
    assert_null(yk_trainer_resumed(p.trainer));
    assert_ok(yk_trainer_fit(p.trainer));
    destroy_parts(p);
}

YK_TEST(a_longer_run_with_another_schedule_is_said)
{
    leave_checkpoint(10);
    yk_schedule longer = cosine_of(4);
    yk_trainer_options options = YK_TRAINER_OPTIONS_INIT;
    options.schedule = &longer;
    options.output = output_folder();
    parts p = create_parts(&options, 200);
    assert_ok(yk_trainer_resume_latest(p.trainer, NULL));
    const yk_resume_report *report = yk_trainer_resumed(p.trainer);
    assert_true(report->schedule_changed);
    assert_true(report->saved.has_schedule);
    assert_int_equal(report->saved.schedule.t_max, 2);
    assert_int_equal(yk_trainer_state(p.trainer)->schedule.t_max, 4);
    destroy_parts(p);
}

YK_TEST(data_cannot_change_within_an_epoch)
{
    leave_checkpoint(13);
    yk_trainer_options options = YK_TRAINER_OPTIONS_INIT;
    options.output = output_folder();
    parts p = create_parts(&options, 400);
    assert_int_equal(yk_trainer_resume_latest(p.trainer, NULL), YK_ERROR_MISMATCH);
    assert_contains(yk_last_error(), "within an epoch over the 200 images of synthetic; the "
                                     "training data is now synthetic, 400 images");
    assert_int_equal(yk_trainer_state(p.trainer)->step, 0);
    destroy_parts(p);
}

static yk_status read_black(void *data, void *worker, int64_t index, yk_field_buffer *buffers)
{
    (void)data;
    (void)worker;
    memset(yk_field_buffer_reserve(&buffers[0], 3 * 32 * 32), 0, 3 * 32 * 32);
    *(int32_t *)buffers[1].data = (int32_t)(index % 10);
    return YK_OK;
}

#define LONG_NAME "folder:/a/prefix/of/more/than/31/bytes/im\u00e0g\u00e9n\u00ebt"

/* Leaves a checkpoint within an epoch, whose data set is described as in `described`, if any. */
static void leave_checkpoint_over(const char *name, const char *described)
{
    yk_trainer_options options = YK_TRAINER_OPTIONS_INIT;
    options.max_steps = 3;
    options.output = output_folder();
    parts p = create_parts_reading(&options, name, read_black, NULL);
    assert_ok(yk_trainer_fit(p.trainer));
    yk_training_state state = *yk_trainer_state(p.trainer);
    assert_true(yki_utf8_is_valid(state.dataset, strlen(state.dataset)));
    if (described)
        snprintf(state.dataset, sizeof state.dataset, "%.31s", described);
    assert_ok(yk_checkpoint_save(yk_test_path("left.pth"), p.model, p.optimizer, &state));
    destroy_parts(p);
}

static yk_status resume_over(const char *name)
{
    yk_trainer_options options = YK_TRAINER_OPTIONS_INIT;
    parts p = create_parts_reading(&options, name, read_black, NULL);
    yk_status status = yk_trainer_resume(p.trainer, yk_test_path("left.pth"));
    destroy_parts(p);
    return status;
}

YK_TEST(data_sets_with_long_names_are_told_apart)
{
    leave_checkpoint_over(LONG_NAME "-a", NULL);
    assert_ok(resume_over(LONG_NAME "-a"));
    assert_status(YK_ERROR_MISMATCH, resume_over(LONG_NAME "-b"));
    assert_contains(yk_last_error(), "g\u00e9n\u00ebt-b #");
    assert_status(YK_ERROR_MISMATCH, resume_over("/another" LONG_NAME "-a"));
    assert_status(YK_ERROR_MISMATCH, resume_over("short"));
}

YK_TEST(long_names_are_cut_between_characters)
{
    char name[64] = "\U0001f600\U0001f600\U0001f600\U0001f600\U0001f600\U0001f600"
                    "\U0001f600\U0001f600\U0001f600\U0001f600\U0001f600\U0001f600";
    for (int i = 0; i < 4; i++)
        leave_checkpoint_over(strcat(name, "x"), NULL);
}

YK_TEST(data_sets_of_earlier_checkpoints_are_compared_by_their_first_bytes)
{
    leave_checkpoint_over(LONG_NAME, LONG_NAME);
    assert_ok(resume_over(LONG_NAME));
    assert_status(YK_ERROR_MISMATCH, resume_over("/another" LONG_NAME));
    leave_checkpoint_over("short", "short");
    assert_ok(resume_over("short"));
    assert_status(YK_ERROR_MISMATCH, resume_over("shorter"));
}

YK_TEST(data_may_change_between_epochs)
{
    leave_checkpoint(10);
    yk_trainer_options options = YK_TRAINER_OPTIONS_INIT;
    options.output = output_folder();
    parts p = create_parts(&options, 400);
    assert_ok(yk_trainer_resume_latest(p.trainer, NULL));
    assert_int_equal(yk_trainer_state(p.trainer)->dataset_size, 400);
    destroy_parts(p);
}

YK_TEST(without_a_checkpoint_training_starts_from_the_beginning)
{
    bool resumed = true;
    yk_trainer_options options = YK_TRAINER_OPTIONS_INIT;
    options.output = output_folder();
    parts p = create_parts(&options, 200);
    assert_ok(yk_trainer_resume_latest(p.trainer, &resumed));
    assert_false(resumed);
    assert_int_equal(yk_trainer_resume(p.trainer, "/no/such/file.pth"), YK_ERROR_NOT_FOUND);
    destroy_parts(p);
}

/* ---- misuse ---------------------------------------------------------------------------------- */

static void assert_refused(yk_trainer_options options, const char *words)
{
    yk_trainer *trainer = (yk_trainer *)1;
    parts p = create_parts(&(yk_trainer_options)YK_TRAINER_OPTIONS_INIT, 200);
    assert_int_equal(yk_trainer_create(&trainer, p.model, p.optimizer, p.loader, &options),
                     YK_ERROR_INVALID_ARGUMENT);
    assert_contains(yk_last_error(), words);
    assert_null(trainer);
    destroy_parts(p);
}

#define REFUSED(WORDS, ...)                                                                        \
    assert_refused(*YK_WITH(yk_trainer_options, YK_TRAINER_OPTIONS_INIT, __VA_ARGS__), WORDS)

YK_TEST(data_that_fills_no_batch_is_refused)
{
    yk_trainer_options options = YK_TRAINER_OPTIONS_INIT;
    parts p = create_parts(&options, 200);
    yk_loader_options loading = YK_LOADER_OPTIONS_INIT;
    loading.batch_size = 300;
    loading.drop_last = true;
    loading.transforms = YK_CIFAR10_NORMALIZE;
    yk_loader *loader;
    yk_trainer *trainer;
    assert_ok(yk_loader_create(&loader, p.dataset, &loading));
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_trainer_create(&trainer, p.model, p.optimizer, loader, NULL));
    assert_contains(yk_last_error(), "no batches: the 200 samples of synthetic do not fill one of "
                                     "300 on each rank");
    yk_loader_destroy(loader);
    destroy_parts(p);
}

/* One rank that cannot make its trainer is named to all, which then make theirs. */
YK_TEST_RANKS(a_rank_that_is_refused_is_named_on_all, 2)
{
    (void)world;
    yk_trainer *trainer;
    yk_trainer_options options = YK_TRAINER_OPTIONS_INIT;
    assert_ok(yk_group_init(&options.group, NULL));
    parts p = create_parts(&options, 200);
    for (int culprit = 0; culprit < 2; culprit++) {
        yk_trainer_options own = options;
        own.keep = rank == culprit ? 0 : 3;
        assert_status(rank == culprit ? YK_ERROR_INVALID_ARGUMENT : YK_ERROR_MISMATCH,
                      yk_trainer_create(&trainer, p.model, p.optimizer, p.loader, &own));
        assert_contains(yk_last_error(), "trainer: keep is 0");
        assert_null(trainer);
    }
    assert_status(
        rank ? YK_ERROR_INVALID_ARGUMENT : YK_ERROR_MISMATCH,
        yk_trainer_create(&trainer, p.model, p.optimizer, rank ? NULL : p.loader, &options));
    assert_contains(yk_last_error(), "yk_trainer_create: loader is NULL");
    assert_ok(yk_trainer_create(&trainer, p.model, p.optimizer, p.loader, &options));
    yk_trainer_destroy(trainer);
    destroy_parts(p);
    yk_group_destroy(options.group);
}

YK_TEST(options_that_make_no_sense_are_refused)
{
    yk_trainer *trainer;
    REFUSED("epochs is -1", o.epochs = -1);
    REFUSED("accumulate is 0", o.accumulate = 0);
    REFUSED("save_every is 0", o.save_every = 0);
    REFUSED("loss_reduction is 7", o.loss_reduction = (yk_loss_reduction)7);
    REFUSED("clip_grad_norm is 0", o.clip_grad_norm = 0);
    REFUSED("call yk_stop_prepare first", o.stop_on_signals = true);
    REFUSED("arch must be shorter", o.arch = "a network with a name that is too long to keep");
    REFUSED("its size is 0", o.size = 0);
    assert_int_equal(yk_trainer_create(&trainer, NULL, NULL, NULL, NULL),
                     YK_ERROR_INVALID_ARGUMENT);
    yk_trainer_destroy(NULL);
    parts p = create_parts(&(yk_trainer_options)YK_TRAINER_OPTIONS_INIT, 200);
    assert_int_equal(yk_trainer_save(p.trainer), YK_ERROR_INVALID_ARGUMENT);
    assert_int_equal(yk_trainer_resume_latest(p.trainer, NULL), YK_ERROR_INVALID_ARGUMENT);
    destroy_parts(p);
}

/* ---- ranks ----------------------------------------------------------------------------------- */

YK_TEST_RANKS(ranks_stop_together, 2)
{
    yk_group *group;
    calls counted = {.stop_after = rank == 1 ? 3 : 0};
    assert_ok(yk_group_init(&group, NULL));
    yk_trainer_options options = options_of(5, &counted);
    options.group = group;
    options.output = output_folder();
    parts p = create_parts(&options, 200);
    yk_ddp *ddp;
    assert_ok(yk_ddp_create(&ddp, p.model, group, NULL));
    assert_ok(yk_trainer_fit(p.trainer));
    assert_true(yk_trainer_stopped(p.trainer));
    assert_int_equal(counted.steps, 4); /* what rank 1 asked after step 3 is agreed on in step 4 */
    assert_int_equal(yk_trainer_state(p.trainer)->world_size, 2);
    assert_int_equal(yk_trainer_state(p.trainer)->batch_size, 40);
    yk_trainer_destroy(p.trainer);
    p.trainer = NULL;
    yk_ddp_destroy(ddp);
    destroy_parts(p);
    yk_group_destroy(group);
}

enum { EPOCHS_OF_SLOW_RANK = 8, STEPS_OF_SLOW_RANK = 5 };

/* What the two ranks have learned of an epoch. */
typedef struct slow_epoch {
    int rank;
    yk_epoch_record record;
    yk_trace *trace;
} slow_epoch;

/* Rank 1 is later in each epoch: other programs may keep rank 0 from the processor for as long. */
static yk_status come_late(void *context, yk_trainer *trainer)
{
    const slow_epoch *seen = context;
    const yk_training_state *state = yk_trainer_state(trainer);
    yk_trace_step_begin(seen->trace, state->step + 1);
    if (seen->rank == 1)
        usleep(200000 * (1 + (useconds_t)(state->step / STEPS_OF_SLOW_RANK)));
    return YK_OK;
}

static yk_status end_step(void *context, yk_trainer *trainer, const yk_step_record *record)
{
    (void)trainer, (void)record;
    yk_trace_step_end(((slow_epoch *)context)->trace);
    return YK_OK;
}

static yk_status keep_epoch(void *context, yk_trainer *trainer, const yk_epoch_record *record)
{
    ((slow_epoch *)context)->record = *record;
    if (record->slowest_rank == 1) /* as both ranks know */
        yk_trainer_stop(trainer);
    return YK_OK;
}

/* In the folder that both ranks have inherited. */
static const char *trace_path(void)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/trace.json", getenv("YK_TEST_RUN"));
    return path;
}

/* This rank has written its events, and all ranks have the same answer. */
static void assert_named_in_trace(void)
{
    static char text[1 << 20];
    const char *shared = yk_test_read_file(text, sizeof text, trace_path());
    bool named = false;
    while (!named && (shared = strstr(shared, "\"share the loss\""))) {
        const char *args = strstr(shared++, "\"args\""), *end = args ? strchr(args, '}') : NULL;
        const char *rank = end ? strstr(args, "{\"slowest_rank\": 1, \"waited_us\": ") : NULL;
        named = rank && rank < end;
    }
    assert_true(named);
}

static void train_beside_a_slow_rank(int rank, int world)
{
    yk_group *group;
    (void)world;
    assert_ok(yk_group_init(&group, NULL));
    parts p = {.dataset = create_dataset(YK_SPLIT_TRAIN, 200),
               .test_set = create_dataset(YK_SPLIT_TEST, 50),
               .model = create_model()};
    p.loader = create_loader(p.dataset, group, true);
    p.validation = create_loader(p.test_set, group, false);
    assert_ok(yk_sgd_create(&p.optimizer, p.model, NULL));
    yk_ddp *ddp;
    assert_ok(yk_ddp_create(&ddp, p.model, group, NULL));
    slow_epoch seen = {.rank = rank};
    yk_trainer_options options = YK_TRAINER_OPTIONS_INIT;
    options.epochs = EPOCHS_OF_SLOW_RANK;
    options.group = group;
    options.ddp = ddp;
    options.validation = p.validation;
    options.callbacks = (yk_trainer_callbacks){
        .context = &seen, .on_step_begin = come_late, .on_step = end_step, .on_epoch = keep_epoch};
    assert_ok(yk_trainer_create(&p.trainer, p.model, p.optimizer, p.loader, &options));
    assert_int_equal(yk_trainer_steps_per_epoch(p.trainer), STEPS_OF_SLOW_RANK);
    assert_ok(yk_trace_open(&seen.trace, trace_path(), group, NULL));
    assert_ok(yk_trainer_fit(p.trainer));
    assert_ok(yk_trace_close(seen.trace));
    assert_named_in_trace();
    assert_int_equal(seen.record.slowest_rank, 1);
    assert_true(seen.record.waited_s > 0);
    if (rank == 0)
        assert_true(seen.record.waiting_s >= seen.record.waited_s);
    yk_trainer_destroy(p.trainer);
    p.trainer = NULL;
    yk_ddp_destroy(ddp);
    destroy_parts(p);
    yk_group_destroy(group);
}

/* The steps of an epoch, and how long rank 1 does something else before each of its steps. */
typedef struct delayed {
    int rank, steps;
    useconds_t delay_us;
} delayed;

static yk_status be_slow(void *context, yk_trainer *trainer)
{
    (void)trainer;
    const delayed *run = context;
    if (run->rank == 1)
        usleep(run->delay_us);
    return YK_OK;
}

/* Trains within one epoch, and returns what the library has logged. */
static const char *log_beside_a_slow_rank(delayed *run, yk_group *group)
{
    static char path[256], text[1 << 16];
    parts p = {.dataset = create_dataset(YK_SPLIT_TRAIN, 2 * 2 * run->steps),
               .model = create_model()};
    yk_loader_options loading = YK_LOADER_OPTIONS_INIT;
    yk_ddp *ddp;
    loading.batch_size = 2;
    loading.group = group;
    loading.transforms = YK_CIFAR10_NORMALIZE;
    assert_ok(yk_loader_create(&p.loader, p.dataset, &loading));
    assert_ok(yk_sgd_create(&p.optimizer, p.model, NULL));
    assert_ok(yk_ddp_create(&ddp, p.model, group, NULL));
    yk_trainer_options options = YK_TRAINER_OPTIONS_INIT;
    options.epochs = 1;
    options.group = group;
    options.ddp = ddp;
    options.callbacks = (yk_trainer_callbacks){.context = run, .on_step_begin = be_slow};
    assert_ok(yk_trainer_create(&p.trainer, p.model, p.optimizer, p.loader, &options));
    snprintf(path, sizeof path, "%s/log-%d", getenv("YK_TEST_RUN"), run->rank);
    int before = dup(STDERR_FILENO), file = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0600);
    assert_true(before >= 0 && file >= 0 && dup2(file, STDERR_FILENO) >= 0);
    yk_status status = yk_trainer_fit(p.trainer);
    assert_true(dup2(before, STDERR_FILENO) >= 0);
    assert_ok(status);
    close(before);
    close(file);
    yk_trainer_destroy(p.trainer);
    p.trainer = NULL;
    yk_ddp_destroy(ddp);
    destroy_parts(p);
    return yk_test_read_file(text, sizeof text, path);
}

static void check_rank_1_is_named(delayed run)
{
    yk_group *group;
    int rank = run.rank;
    assert_ok(yk_group_init(&group, NULL));
    const char *log = log_beside_a_slow_rank(&run, group);
    const char *line = strstr(log, " is slower: the other ranks waited ");
    assert_true((line != NULL) == (rank == 0));
    if (rank == 0)
        assert_contains(log, "rank 1");
    assert_true(!line || !strstr(line + 1, " is slower")); /* named once */
    yk_group_destroy(group);
}

static void train_a_long_epoch(int rank, int world)
{
    (void)world;
    check_rank_1_is_named((delayed){rank, .steps = 110, .delay_us = 60000});
}

YK_TEST(a_slower_rank_is_named_within_an_epoch)
{
    setenv("YK_TEST_RUN", yk_test_directory(), 0);
    yk_test_ranks(2, train_a_long_epoch);
}

static void train_long_steps(int rank, int world)
{
    (void)world;
    check_rank_1_is_named((delayed){rank, .steps = 9, .delay_us = 1700000});
}

YK_TEST(a_slower_rank_is_named_within_seconds)
{
    setenv("YK_TEST_RUN", yk_test_directory(), 0);
    yk_test_ranks(2, train_long_steps);
}

YK_TEST(a_slower_rank_is_named)
{
    setenv("YK_TEST_RUN", yk_test_directory(), 0);
    yk_test_ranks(2, train_beside_a_slow_rank);
}

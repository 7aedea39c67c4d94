/* A trainer whose backward updates the weights bucket by bucket: when it does, the same bits as
 * step by step, and no update from a loss that is not finite. */
#define _GNU_SOURCE
#include "parts.h"

#include <math.h>

#include "train/trainer.h"

/* What the callbacks see. */
typedef struct seen {
    int rank, early;  /* steps whose backward updated the weights */
    int64_t poisoned; /* the step before which rank 1 gets a weight that is not a number; 0: none */
    float before[10]; /* the biases before that step */
} seen;

static yk_tensor biases(yk_trainer *trainer)
{
    return yk_model_parameter(trainer->model, 1).value;
}

static yk_status poison(void *context, yk_trainer *trainer)
{
    seen *s = context;
    yk_tensor bias = biases(trainer);
    if (yk_trainer_state(trainer)->step + 1 != s->poisoned)
        return YK_OK;
    if (s->rank == 1)
        ((float *)yk_model_parameter(trainer->model, 0).value.data)[7] = NAN;
    yk_model_parameters_changed(trainer->model);
    assert_int_equal(yk_tensor_bytes(&bias), sizeof s->before);
    memcpy(s->before, bias.data, sizeof s->before);
    return YK_OK;
}

static yk_status count_early(void *context, yk_trainer *trainer, const yk_step_record *record)
{
    (void)record;
    ((seen *)context)->early += trainer->updates_early;
    return YK_OK;
}

typedef struct run {
    yk_ddp *ddp;
    yk_ema *ema;
    yk_grad_scaler *scaler;
    seen seen;
    parts p;
} run;

/* Two buckets: weights and biases. */
static void begin(run *r, yk_group *group, yk_trainer_options options, bool averages, bool scales)
{
    static yk_schedule schedule = YK_SCHEDULE_INIT;
    schedule.kind = YK_SCHEDULE_COSINE;
    schedule.t_max = 2;
    options.epochs = 2;
    options.schedule = &schedule;
    options.check_divergence = 3;
    r->seen.rank = yk_group_rank(group);
    options.group = group;
    r->p = create_parts(&options, 200);
    yk_trainer_destroy(r->p.trainer);
    assert_ok(yk_ddp_create(&options.ddp, r->p.model, group,
                            YK_WITH(yk_ddp_options, YK_DDP_OPTIONS_INIT, o.bucket_cap_mb = 0)));
    if (averages)
        assert_ok(yk_ema_create(&options.ema, r->p.optimizer, NULL));
    if (scales)
        assert_ok(yk_grad_scaler_create(&options.scaler, r->p.model, NULL));
    options.callbacks = (yk_trainer_callbacks){
        .context = &r->seen, .on_step_begin = poison, .on_step = count_early};
    assert_ok(yk_trainer_create(&r->p.trainer, r->p.model, r->p.optimizer, r->p.loader, &options));
    r->ddp = options.ddp;
    r->ema = options.ema;
    r->scaler = options.scaler;
}

static void end(run *r)
{
    yk_ema_destroy(r->ema);
    yk_grad_scaler_destroy(r->scaler);
    yk_ddp_destroy(r->ddp);
    destroy_parts(r->p);
}

static yk_group *join(void)
{
    yk_group *group;
    assert_ok(yk_group_init(&group, NULL));
    return group;
}

YK_TEST_RANKS(updates_during_backward_train_to_the_same_bits, 2)
{
    yk_group *group = join();
    run whole = {.ddp = NULL}, steps = {.ddp = NULL};
    yk_trainer_options options = YK_TRAINER_OPTIONS_INIT;
    options.accumulate = 2;
    begin(&whole, group, options, true, false);
    begin(&steps, group, options, true, false);
    assert_ok(yk_trainer_fit(whole.p.trainer));
    for (bool finished = false; !finished;)
        assert_ok(yk_trainer_step(steps.p.trainer, &finished));
    assert_int_equal(whole.seen.early, 6); /* all steps */
    assert_int_equal(steps.seen.early, 0);
    assert_same_weights(&whole.p, &steps.p);
    yk_tensor average = yk_ema_value(whole.ema, 0), expected = yk_ema_value(steps.ema, 0);
    assert_memory_equal(average.data, expected.data, yk_tensor_bytes(&expected));
    assert_true(yk_trainer_state(whole.p.trainer)->lr == yk_trainer_state(steps.p.trainer)->lr);
    end(&whole);
    end(&steps);
    yk_group_destroy(group);
}

YK_TEST_RANKS(a_loss_that_is_not_finite_updates_no_bucket_on_any_rank, 2)
{
    yk_group *group = join();
    run r = {.seen = {.poisoned = 3}};
    begin(&r, group, (yk_trainer_options)YK_TRAINER_OPTIONS_INIT, false, false);
    assert_status(rank == 1 ? YK_ERROR_INVALID_ARGUMENT : YK_ERROR_PEER_FAILED,
                  yk_trainer_fit(r.p.trainer));
    assert_contains(yk_last_error(), "step 3");
    assert_int_equal(r.seen.early, 2);
    assert_int_equal(yk_trainer_state(r.p.trainer)->step, 2);
    assert_memory_equal(biases(r.p.trainer).data, r.seen.before, sizeof r.seen.before);
    assert_ok(yk_checkpoint_save(yk_test_path("before.pth"), r.p.model, r.p.optimizer, NULL));
    end(&r);
    yk_group_destroy(group);
}

/* The second bucket of the third step. */
static yk_status fail_once(void *state, yk_group *group, const yk_grad_bucket *bucket)
{
    if (++*(int *)state == 6)
        return yk_set_error(YK_ERROR_IO, "the hook has failed");
    return yk_all_reduce(group, bucket->buffer, bucket->elements, bucket->dtype, YK_REDUCE_SUM,
                         NULL);
}

YK_TEST_RANKS(after_a_step_that_failed_half_way_training_does_not_go_on, 2)
{
    yk_group *group = join();
    run r = {.ddp = NULL};
    int calls = 0;
    begin(&r, group, (yk_trainer_options)YK_TRAINER_OPTIONS_INIT, false, false);
    assert_ok(yk_ddp_register_comm_hook(r.ddp, fail_once, &calls));
    assert_status(YK_ERROR_IO, yk_trainer_fit(r.p.trainer));
    assert_int_equal(yk_trainer_state(r.p.trainer)->step, 2);
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_checkpoint_save(yk_test_path("torn.pth"), r.p.model, r.p.optimizer, NULL));
    assert_contains(yk_last_error(), "load a checkpoint first");
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_trainer_step(r.p.trainer, NULL));
    assert_contains(yk_last_error(), "load a checkpoint first");
    end(&r);
    yk_group_destroy(group);
}

YK_TEST_RANKS(what_needs_all_gradients_is_updated_after_backward, 2)
{
    yk_group *group = join();
    run clips = {.ddp = NULL}, scales = {.ddp = NULL};
    yk_trainer_options options = YK_TRAINER_OPTIONS_INIT;
    options.clip_grad_norm = 1;
    begin(&clips, group, options, false, false);
    begin(&scales, group, (yk_trainer_options)YK_TRAINER_OPTIONS_INIT, false, true);
    assert_ok(yk_trainer_fit(clips.p.trainer));
    assert_ok(yk_trainer_fit(scales.p.trainer));
    assert_int_equal(clips.seen.early, 0);
    assert_int_equal(scales.seen.early, 0);
    end(&clips);
    end(&scales);
    yk_group_destroy(group);
}

/* ---- weights that are lost ------------------------------------------------------------------- */

/* Asserts that a training of this model with a grad scaler fails, and with these words. */
static void assert_scaled_training_fails(yk_model *model, int64_t max_steps, const char *words)
{
    yk_trainer_options options = YK_TRAINER_OPTIONS_INIT;
    parts p = {.dataset = create_dataset(YK_SPLIT_TRAIN, 200), .model = model};
    p.loader = create_loader(p.dataset, NULL, true);
    assert_ok(yk_sgd_create(&p.optimizer, p.model, NULL));
    assert_ok(yk_grad_scaler_create(
        &options.scaler, p.model,
        YK_WITH(yk_grad_scaler_options, YK_GRAD_SCALER_OPTIONS_INIT, o.init_scale = 1)));
    options.epochs = 20; /* of 10 steps */
    options.max_steps = max_steps;
    assert_ok(yk_trainer_create(&p.trainer, p.model, p.optimizer, p.loader, &options));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_trainer_fit(p.trainer));
    assert_contains(yk_last_error(), words);
    yk_trainer_destroy(p.trainer);
    yk_grad_scaler_destroy(options.scaler);
    yk_optimizer_destroy(p.optimizer);
    yk_loader_destroy(p.loader);
    yk_model_destroy(p.model);
    yk_dataset_destroy(p.dataset);
}

static yk_model *create_lost_model(void)
{
    yk_model *model = create_model();
    yk_tensor weight = yk_model_parameter(model, 0).value;
    yk_tensor lost = yk_test_on_host(weight);
    yk_tensor_set(&lost, 0, (double)NAN);
    yk_test_write_back(weight, lost);
    yk_model_parameters_changed(model);
    return model;
}

/* A grad scaler skips batches whose loss is not finite, but not for ever. */
YK_TEST(a_grad_scaler_does_not_skip_every_step_to_the_end)
{
    assert_scaled_training_fails(create_lost_model(), INT64_MAX,
                                 "step 100: the loss has not been finite in 100 steps in a row");
    assert_scaled_training_fails(create_lost_model(), 3, "none of the 3 steps was taken");
}

/* Its loss is finite, and its gradients are not, at any scale. */
static yk_model *create_model_without_gradients(void)
{
    yk_graph *graph = yk_graph_create();
    yk_value *images = yk_input(graph, "images", YK_F32, 4, (int64_t[]){YK_BATCH, 3, 32, 32});
    yk_value *labels = yk_input(graph, "labels", YK_I32, 1, (int64_t[]){YK_BATCH});
    yk_value *logits = yk_nn_linear(yk_flatten(images), "fc", 10);
    logits = yk_scale(yk_scale(yk_scale(yk_scale(logits, 1e-30), 1e-30), 1e30), 1e30);
    yk_model *model;
    assert_ok(yk_model_create(&model, yk_cross_entropy(logits, labels, NULL),
                              YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT,
                                      o.device = yk_test_device("cpu"), o.threads = 1)));
    return model;
}

YK_TEST(a_run_whose_steps_no_scale_helps_to_take_is_an_error)
{
    assert_scaled_training_fails(create_model_without_gradients(), 3,
                                 "none of the 3 steps was taken: in each of them the loss or a "
                                 "gradient was not finite");
}

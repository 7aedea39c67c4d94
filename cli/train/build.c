/*
 * From options to a training run, in the order in which its parts need each other: ranks, the
 * checkpoint to resume from, data, model, DDP, optimizer, loaders, trainer, reports.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "setup/setup.h"
#include "train/train.h"

/* ---- the model ------------------------------------------------------------------------------- */

/* Sums are rounded by the number of threads: a run keeps it as long as it keeps its ranks. Virtual
 * ranks' may not depend on how many ranks share the cores. */
static void choose_threads(cli_training *t)
{
    int wanted = t->options.model.threads;
    bool virtual_ranks = t->options.loader.virtual_ranks > 0, given = wanted != YK_THREADS_AUTO;
    bool same_ranks = virtual_ranks || t->saved.world_size == yk_group_size(t->world);
    if (!given && t->resumed[0] && t->saved.threads > 0 && same_ranks) {
        t->threads = (int)t->saved.threads;
        t->threads_source = "from the checkpoint";
    } else if (!given && virtual_ranks) {
        t->threads = 1;
        t->threads_source = "virtual ranks' default";
    } else {
        t->threads = cli_threads(wanted, yk_group_local_size(t->world), &t->threads_source);
    }
}

/* As many as the data has, or more if asked for; 0 after an error. */
static int64_t classes_of_network(const cli_training *t)
{
    int64_t wanted = t->options.classes, there = yk_dataset_classes(t->train_set);
    if (!wanted || wanted >= there)
        return wanted ? wanted : there;
    cli_complain("--classes %lld: %s has %lld classes, and the network needs at least as many",
                 (long long)wanted, yk_dataset_name(t->train_set), (long long)there);
    return 0;
}

/* Whether the labels for validation are among those that the network tells apart, and mean the same
 * as those for training. */
static bool check_validation_classes(const cli_training *t, int64_t known)
{
    int64_t there = yk_dataset_classes(t->test_set);
    if (there > known)
        return cli_complain("%s: labels for validation go up to %lld, but the network tells %lld "
                            "classes apart, as there are for training: --classes %lld adds others",
                            yk_dataset_name(t->test_set), (long long)there - 1, (long long)known,
                            (long long)there);
    for (int64_t label = 0; label < there; label++) {
        const char *name = yk_dataset_class_name(t->test_set, label);
        const char *learnt = yk_dataset_class_name(t->train_set, label);
        if (name && learnt && strcmp(name, learnt) != 0)
            return cli_complain("%s: class %lld is \"%s\" for validation and \"%s\" for "
                                "training: expected the same classes",
                                yk_dataset_name(t->test_set), (long long)label, name, learnt);
    }
    return true;
}

static bool create_model(cli_training *t)
{
    const cli_train_options *o = &t->options;
    cli_model_setup setup = {.arch = o->arch,
                             .options = o->model,
                             .label_smoothing = o->label_smoothing,
                             .freeze = o->freeze,
                             .classes = classes_of_network(t)};
    if (!setup.classes || !cli_find_images(&setup.images, t->train_set) ||
        !cli_choose_transforms(&t->transforms, &o->augment, t->train_set) ||
        !cli_apply_transforms(&setup.images, &t->transforms) ||
        !cli_check_evaluated(&setup.images, t->test_set, &t->transforms) ||
        !check_validation_classes(t, setup.classes))
        return false;
    setup.probabilities = t->transforms.mixes;
    choose_threads(t);
    setup.options.threads = t->threads;
    if (!cli_build_model(&t->model, &setup))
        return false;
    return cli_describe_model(t->model, &setup, t->train_set, t->transforms.eval) &&
           (!o->freeze || cli_training_check_frozen(t)) &&
           (!o->checkpoint || cli_training_load_weights(t));
}

/* ---- its distribution ------------------------------------------------------------------------ */

static yk_status register_hook(cli_training *t)
{
    yk_powersgd_options powersgd = t->options.powersgd;
    switch (t->options.comm_hook) {
    case CLI_COMM_HOOK_BF16:
        return yk_ddp_register_bf16_compress_hook(t->ddp);
    case CLI_COMM_HOOK_FP16:
        return yk_ddp_register_fp16_compress_hook(t->ddp);
    case CLI_COMM_HOOK_POWERSGD:
        powersgd.random_seed = t->options.model.seed;
        powersgd.iter = t->saved.step;
        return yk_ddp_register_powersgd_hook(t->ddp, &powersgd);
    case CLI_COMM_HOOK_NONE:
        break;
    }
    return YK_OK;
}

/* Local SGD between hosts. */
static bool create_ddp_of_host(cli_training *t)
{
    return cli_ok(yk_group_split_by_host(&t->host, t->world)) &&
           cli_ok(yk_ddp_create(&t->ddp, t->model, t->host, &t->options.ddp));
}

static bool create_ddp(cli_training *t)
{
    yk_ddp_options options = t->options.ddp;
    options.virtual_ranks = t->options.loader.virtual_ranks;
    if (t->options.local_sgd.sync_every)
        return t->options.sync_between == CLI_SYNC_RANKS || create_ddp_of_host(t);
    /* A single rank needs no DDP, unless a launcher has started it as a job of one rank. */
    if (yk_group_size(t->world) == 1 && t->ranks == 1 && !cli_is_rank())
        return true;
    return cli_ok(yk_ddp_create(&t->ddp, t->model, t->world, &options)) && cli_ok(register_hook(t));
}

static bool distribute(cli_training *t)
{
    yk_data_parallel_options dp = t->options.dp;
    dp.threads = t->options.model.threads;
    if (t->options.parallel == CLI_PARALLEL_DP)
        return cli_ok(yk_data_parallel_create(&t->dp, t->model, &dp));
    return (!t->options.sync_bn || cli_ok(yk_sync_batch_norm_convert(t->model, t->world))) &&
           create_ddp(t);
}

/* ---- what follows the optimizer -------------------------------------------------------------- */

static bool create_companions(cli_training *t)
{
    const cli_train_options *o = &t->options;
    yk_ema_options ema = YK_EMA_OPTIONS_INIT;
    ema.decay = o->ema;
    ema.use_buffers = true;
    return (!t->ddp || !o->zero ||
            cli_ok(yk_zero_create(&t->zero, t->optimizer, t->model, t->world))) &&
           (!o->local_sgd.sync_every ||
            cli_ok(yk_local_sgd_create(&t->local, t->optimizer, t->world, &o->local_sgd))) &&
           (o->ema == 0 || cli_ok(yk_ema_create(&t->ema, t->optimizer, &ema))) &&
           (o->model.amp != YK_AMP_FP16 ||
            cli_ok(yk_grad_scaler_create(&t->scaler, t->model, &o->scaler)));
}

static bool create_loaders(cli_training *t)
{
    const cli_train_options *o = &t->options;
    yk_loader_options train = o->loader, test = o->loader;
    t->micro_batch = o->batch_size / (t->ranks * o->trainer.accumulate);
    train.group = test.group = t->world;
    train.model = test.model = t->model;
    train.cache_bytes = test.cache_bytes = (size_t)o->device_cache << 20;
    train.batch_size = test.batch_size = t->micro_batch;
    train.classes = test.classes = classes_of_network(t);
    train.shuffle = true;
    train.transforms = t->transforms.train;
    test.exact = true;
    test.drop_last = false;
    test.transforms = t->transforms.eval;
    if (!cli_ok(yk_loader_create(&t->train, t->train_set, &train)) ||
        !cli_ok(yk_loader_create(&t->test, t->test_set, &test)))
        return false;
    int64_t step = o->trainer.accumulate * yk_loader_virtual_ranks(t->train);
    t->steps_per_epoch = (yk_loader_batches(t->train) + step - 1) / step;
    return cli_ok(cli_train_schedule(&t->schedule, o, t->steps_per_epoch)) &&
           cli_ok(cli_training_end_groups(t));
}

/* ---- what needs the loaders ------------------------------------------------------------------ */

static bool create_lookahead(cli_training *t)
{
    yk_lookahead_options options = t->options.lookahead;
    options.total_steps = cli_train_steps(&t->options, t->steps_per_epoch);
    return options.decay == 0 || cli_ok(yk_lookahead_create(&t->lookahead, t->optimizer, &options));
}

/* Every rank computes the same filters, from images as evaluation sees them. */
static bool whiten(cli_training *t)
{
    const cli_train_options *o = &t->options;
    yk_loader *loader;
    yk_loader_options options = YK_LOADER_OPTIONS_INIT;
    if (!o->whiten || o->checkpoint || t->resumed[0])
        return true;
    options.batch_size = 250;
    options.transforms = t->transforms.eval;
    options.skip_damaged = o->loader.skip_damaged;
    if (!cli_ok(yk_loader_create(&loader, t->train_set, &options)))
        return false;
    bool fine = yk_whiten_conv2d(t->model, o->whiten, loader, NULL) == YK_OK ||
                cli_complain("--whiten %s: %s", o->whiten, cli_reason());
    yk_loader_destroy(loader);
    return fine;
}

/* Without a whole number of epochs, the last ends early. */
static void limit_steps(cli_training *t)
{
    int64_t steps = cli_train_steps(&t->options, t->steps_per_epoch);
    if (t->options.epochs < (double)t->options.trainer.epochs &&
        steps < t->options.trainer.max_steps)
        t->options.trainer.max_steps = steps;
}

/* ---- the trainer ----------------------------------------------------------------------------- */

static yk_status on_resume(void *context, yk_trainer *trainer)
{
    cli_training *t = context;
    (void)trainer;
    if (t->scaler && t->options.given.scaler) {
        yk_grad_scaler_state state = yk_grad_scaler_get_state(t->scaler);
        state.growth_interval = t->options.scaler.growth_interval;
        yk_status status = yk_grad_scaler_set_state(t->scaler, &state);
        if (status != YK_OK)
            return status;
    }
    yk_status status = cli_training_override_hyperparameters(t);
    return status == YK_OK ? cli_training_end_groups(t) : status;
}

static yk_status on_step_begin(void *context, yk_trainer *trainer)
{
    const cli_training *t = context;
    yk_trace_step_begin(t->trace, yk_trainer_state(trainer)->step + 1);
    return YK_OK;
}

static yk_status on_step(void *context, yk_trainer *trainer, const yk_step_record *record)
{
    cli_training *t = context;
    yk_trace_step_end(t->trace);
    cli_startup_end(&t->startup);
    return t->leads ? cli_reports_step(t, record, yk_trainer_state(trainer)->epoch_batch) : YK_OK;
}

static yk_status on_epoch(void *context, yk_trainer *trainer, const yk_epoch_record *record)
{
    cli_training *t = context;
    int64_t skipped[] = {yk_loader_skipped(t->train), yk_loader_skipped(t->test)};
    yk_status status = YK_OK;
    (void)trainer;
    if (t->options.loader.skip_damaged)
        status = yk_all_reduce(t->world, skipped, 2, YK_I64, YK_REDUCE_SUM, NULL);
    if (status == YK_OK && t->leads)
        status = cli_reports_epoch(t, record);
    cli_progress_skipped(t->progress, record->epoch, skipped[0], skipped[1]);
    return status;
}

static void on_evaluation(void *context, yk_trainer *trainer, int64_t done, int64_t batches)
{
    const cli_training *t = context;
    const yk_training_state *state = yk_trainer_state(trainer);
    cli_progress_evaluation(t->progress, state->epoch + (state->epoch_batch > 0), done, batches);
}

static bool create_trainer(cli_training *t)
{
    yk_trainer_options options = t->options.trainer;
    options.validation = t->test;
    options.group = t->world;
    options.ddp = t->ddp;
    options.zero = t->zero;
    options.local_sgd = t->local;
    options.parallel = t->dp;
    options.ema = t->ema;
    options.lookahead = t->lookahead;
    options.scaler = t->scaler;
    options.schedule = &t->schedule;
    options.stop_on_signals = true;
    options.output = t->output;
    options.arch = t->options.arch;
    options.program = t->options.kept;
    options.callbacks =
        (yk_trainer_callbacks){.context = t,
                               .on_step_begin = t->options.trace ? on_step_begin : NULL,
                               .on_step = on_step,
                               .on_epoch = on_epoch,
                               .on_resume = on_resume,
                               .on_evaluation = on_evaluation};
    return cli_ok(yk_trainer_create(&t->trainer, t->model, t->optimizer, t->train, &options)) &&
           (!t->resumed[0] || cli_ok(yk_trainer_resume(t->trainer, t->resumed)));
}

/* The file of --resume FILE becomes the newest checkpoint of the output folder, so that --resume
 * auto continues from there if the run ends before it has saved another. */
static bool keep_resumed_file(const cli_training *t)
{
    const char *file = t->options.resume;
    if (!t->resumed[0] || !file || strcmp(t->resumed, file) != 0)
        return true;
    return cli_ok(yk_trainer_save(t->trainer)) && cli_ok(yk_trainer_wait(t->trainer));
}

bool cli_training_create(cli_training *t, const cli_train_options *options)
{
    *t = (cli_training){.options = *options};
    if (!options->quiet)
        cli_startup_begin(&t->startup, "waiting for the other ranks");
    if (!cli_ok(yk_group_init(&t->world, &options->group)))
        return false;
    if (!cli_ok(yk_stop_on_signals()))
        return false;
    t->leads = yk_group_rank(t->world) == 0;
    t->talks = t->leads && !options->quiet && !options->json;
    cli_startup_next(t->startup, "reading the checkpoint");
    if (!cli_training_find(t))
        return false;
    cli_startup_next(t->startup, "opening the data");
    t->ranks = cli_shares_of_batch(&t->options, yk_group_size(t->world));
    cli_data_setup data = {.data = t->options.data, .val_split = t->options.val_split};
    if (!cli_open_data(&t->train_set, &t->test_set, t->world, &data, &t->stop_signal))
        return false;
    cli_startup_next(t->startup, "building the network");
    if (!create_model(t))
        return false;
    if (yk_group_size(t->world) > 1)
        cli_startup_next(t->startup, "sending the weights to all ranks");
    if (!distribute(t) || !cli_training_create_optimizer(t) || !create_companions(t) ||
        !create_loaders(t) || !whiten(t) || !create_lookahead(t))
        return false;
    limit_steps(t);
    if (!create_trainer(t) || !keep_resumed_file(t) || !cli_reports_open(t))
        return false;
    cli_startup_next(t->startup, yk_group_size(t->world) > 1
                                     ? "running the first step, which prepares the kernels and "
                                       "exchanges gradients"
                                     : "running the first step, which prepares the kernels");
    return true;
}

void cli_training_destroy(cli_training *t)
{
    cli_startup_end(&t->startup);
    cli_reports_close(t);
    yk_trainer_destroy(t->trainer);
    yk_loader_destroy(t->test);
    yk_loader_destroy(t->train);
    yk_lookahead_destroy(t->lookahead);
    yk_ema_destroy(t->ema);
    yk_local_sgd_destroy(t->local);
    yk_zero_destroy(t->zero);
    yk_optimizer_destroy(t->optimizer);
    yk_grad_scaler_destroy(t->scaler);
    yk_ddp_destroy(t->ddp);
    yk_data_parallel_destroy(t->dp);
    yk_model_destroy(t->model);
    yk_dataset_destroy(t->test_set);
    yk_dataset_destroy(t->train_set);
    yk_group_destroy(t->host);
    yk_group_destroy(t->world);
}

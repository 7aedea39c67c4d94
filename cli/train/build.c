/*
 * From options to a training run, in the order in which its parts need each other: ranks, the
 * checkpoint to resume from, data, model, DDP, optimizer, loaders, trainer, reports.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "setup.h"
#include "train/train.h"

/* ---- where to resume, and where to write ----------------------------------------------------- */

/* Opens the metrics, which creates the output folder; so a folder that cannot be written ends the
 * run before any work starts. */
static bool open_metrics(cli_training *t)
{
    char path[CLI_PATH + 16];
    snprintf(path, sizeof path, "%s/metrics.jsonl", t->output);
    return cli_ok(yk_metrics_open(&t->metrics, path));
}

/* Without --output each run gets its own folder, even if another starts in the same second. */
static bool make_own_folder(cli_training *t)
{
    time_t clock = time(NULL);
    struct tm date;
    char stamp[32];
    strftime(stamp, sizeof stamp, "%Y%m%d-%H%M%S", localtime_r(&clock, &date));
    int length = snprintf(t->output, sizeof t->output, "runs/%s-%s", t->options.arch, stamp);
    if (mkdir("runs", 0777) && errno != EEXIST)
        return cli_complain("cannot create the folder runs: %s", strerror(errno));
    for (int number = 2; mkdir(t->output, 0777); number++) {
        if (errno != EEXIST)
            return cli_complain("cannot create the folder %s: %s", t->output, strerror(errno));
        snprintf(t->output + length, sizeof t->output - (size_t)length, "-%d", number);
    }
    return open_metrics(t);
}

/* The newest checkpoint of the output folder, "" where there is none. A run whose checkpoints are
 * all damaged is not overwritten by a new one. */
static bool find_newest(cli_training *t)
{
    if (access(t->output, F_OK))
        return true;
    yk_status status = yk_checkpoint_dir_latest(t->output, t->resumed, sizeof t->resumed);
    return status == YK_ERROR_NOT_FOUND || cli_ok(status);
}

/* Rank 0 names the output folder and finds the checkpoint; "" in a new run. */
static bool choose_paths(cli_training *t)
{
    const cli_train_options *o = &t->options;
    bool from_file = o->resume && strcmp(o->resume, "auto") != 0;
    snprintf(t->resumed, sizeof t->resumed, "%s", from_file ? o->resume : "");
    if (!o->output)
        return make_own_folder(t);
    snprintf(t->output, sizeof t->output, "%s", o->output);
    if (!from_file && !find_newest(t))
        return false;
    if (o->resume && !t->resumed[0]) {
        printf("No checkpoint in %s: starting a new run\n", t->output);
        fflush(stdout);
    }
    if (!o->resume && t->resumed[0])
        return cli_complain(
            "%s already contains the checkpoint %s; continue that run with --resume auto, or "
            "choose another --output",
            t->output, t->resumed);
    return open_metrics(t);
}

/* Only rank 0 tries, so that an error is printed once; the other ranks learn the outcome. */
static bool rank0_could(const cli_training *t, bool it_could)
{
    uint8_t fine = it_could;
    return cli_ok(yk_broadcast(t->world, &fine, 1, YK_U8, 0, NULL)) && fine;
}

static bool agree_on_paths(cli_training *t)
{
    return rank0_could(t, t->leads && choose_paths(t)) &&
           cli_share_text(t->world, t->output, sizeof t->output) &&
           cli_share_text(t->world, t->resumed, sizeof t->resumed);
}

/* An optimizer's state and groups are those that it was created with. */
static bool check_optimizer(const cli_training *t)
{
    const cli_train_options *o = &t->options;
    const cli_recipe *r = &o->recipe;
    if (r->given.momentum && r->momentum == 0 && o->saved_momentum > 0)
        return cli_complain("--momentum 0: %s was trained with momentum %g, which a resumed run "
                            "can change but not switch off",
                            t->resumed, o->saved_momentum);
    if (r->given.momentum && r->momentum > 0 && o->saved_momentum == 0)
        return cli_complain("--momentum %g: %s was trained without momentum, which a resumed run "
                            "cannot switch on",
                            r->momentum, t->resumed);
    if (r->no_decay_norms && !o->saved_no_decay_norms)
        return cli_complain("--no-decay-norms: %s was trained with all parameters in one group; "
                            "a resumed run cannot give norms and biases another",
                            t->resumed);
    return true;
}

/* Whether the run can resume from the checkpoint with the options that are now given. */
static bool check_adopted(const cli_training *t)
{
    const cli_train_options *o = &t->options;
    const yk_training_state *state = &t->saved;
    int64_t shares = cli_training_ranks(t);
    if (state->batch_size < 1 || state->batch_size > CLI_MAX_BATCH ||
        state->threads > CLI_MAX_THREADS)
        return cli_complain("%s is not valid: it claims batches of %lld and %lld threads per rank",
                            t->resumed, (long long)state->batch_size, (long long)state->threads);
    if (o->batch_size % (shares * o->accumulate))
        return cli_complain(
            "the run's batch of %lld is not divisible by %lld rank%s x %lld micro-batch%s",
            (long long)o->batch_size, (long long)shares, shares == 1 ? "" : "s",
            (long long)o->accumulate, o->accumulate == 1 ? "" : "es");
    if (state->epoch_batch && o->batch_size != state->batch_size)
        return cli_complain("%s was saved within an epoch of batches of %lld: --batch-size cannot "
                            "change before the next one",
                            t->resumed, (long long)state->batch_size);
    if (o->virtual_ranks && o->threads && state->threads && o->threads != state->threads)
        return cli_complain(
            "%s was made with %lld thread%s per rank; with --virtual-ranks, --threads cannot "
            "change",
            t->resumed, (long long)state->threads, state->threads == 1 ? "" : "s");
    if (state->epoch_batch && o->seed != (int64_t)state->seed)
        return cli_complain("%s was saved within an epoch in the order of seed %lld: --seed cannot "
                            "change before the next one",
                            t->resumed, (long long)state->seed);
    return true;
}

/* A resumed run keeps what it was started with, unless the command line says otherwise. */
static bool adopt(cli_training *t)
{
    cli_train_options *o = &t->options;
    yk_training_state *state = &t->saved;
    if (!t->resumed[0])
        return cli_train_options_check_batch(o) && cli_train_options_check(o, true);
    if (!cli_ok(yk_checkpoint_read_state(t->resumed, state)))
        return false;
    if (!cli_train_options_resume(o, state->program))
        return cli_complain("cannot resume from %s with these options", t->resumed);
    if (o->given.arch && strcmp(o->arch, state->arch) != 0)
        return cli_complain("%s holds a %s, not the %s of --arch", t->resumed, state->arch,
                            o->arch);
    o->arch = state->arch;
    if (!o->given.seed)
        o->seed = (int64_t)state->seed;
    if (!o->given.batch_size)
        o->batch_size = state->batch_size;
    return check_adopted(t) && check_optimizer(t);
}

static bool adopt_checkpoint(cli_training *t)
{
    return rank0_could(t, t->leads && adopt(t)) && (t->leads || adopt(t));
}

/* ---- the parts ------------------------------------------------------------------------------ */

/* Sums are rounded by the number of threads: a run keeps it as long as it keeps its ranks. Virtual
 * ranks' may not depend on how many ranks share the cores. */
static void choose_threads(cli_training *t)
{
    int64_t wanted = t->options.threads;
    bool virtual_ranks = t->options.virtual_ranks > 0;
    bool same_ranks = virtual_ranks || t->saved.world_size == yk_group_size(t->world);
    if (!wanted && t->resumed[0] && t->saved.threads > 0 && same_ranks) {
        t->threads = (int)t->saved.threads;
        t->threads_source = "from the checkpoint";
    } else if (!wanted && virtual_ranks) {
        t->threads = 1;
        t->threads_source = "virtual ranks' default";
    } else {
        t->threads = cli_threads(wanted, yk_group_local_size(t->world), &t->threads_source);
    }
}

static bool create_model(cli_training *t)
{
    const cli_train_options *o = &t->options;
    choose_threads(t);
    cli_model_setup setup = {.arch = o->arch,
                             .device = o->device,
                             .amp = o->amp,
                             .autocast = o->autocast,
                             .seed = (uint64_t)o->seed,
                             .threads = t->threads,
                             .no_winograd = o->no_winograd,
                             .label_smoothing = o->recipe.label_smoothing,
                             .classes = yk_dataset_classes(t->train_set)};
    if (!cli_build_model(&t->model, &setup) ||
        !cli_describe_model(t->model, o->arch, t->train_set, &yk_cifar10_normalize))
        return false;
    if (o->checkpoint && !cli_ok(yk_model_load(t->model, o->checkpoint)))
        return false;
    if (strcmp(o->parallel, "dp") == 0) {
        yk_data_parallel_options options = YK_DATA_PARALLEL_OPTIONS_INIT;
        options.devices = o->devices;
        if (o->threads > 0) /* given */
            options.threads = (int)o->threads;
        return cli_ok(yk_data_parallel_create(&t->dp, t->model, &options));
    }
    if (o->sync_bn && !cli_ok(yk_sync_batch_norm_convert(t->model, t->world)))
        return false;
    return cli_training_create_ddp(t);
}

static bool create_scaler(cli_training *t)
{
    const cli_train_options *o = &t->options;
    yk_grad_scaler_options options = YK_GRAD_SCALER_OPTIONS_INIT;
    options.init_scale = o->init_scale;
    options.growth_interval = o->growth_interval;
    return strcmp(o->amp, "fp16") != 0 ||
           cli_ok(yk_grad_scaler_create(&t->scaler, t->model, &options));
}

static bool create_ema(cli_training *t)
{
    yk_ema_options options = YK_EMA_OPTIONS_INIT;
    options.decay = t->options.recipe.ema;
    options.use_buffers = true;
    return options.decay == 0 || cli_ok(yk_ema_create(&t->ema, t->optimizer, &options));
}

static bool create_zero(cli_training *t)
{
    return !t->ddp || !t->options.zero ||
           cli_ok(yk_zero_create(&t->zero, t->optimizer, t->model, t->world));
}

static bool create_loaders(cli_training *t)
{
    const cli_train_options *o = &t->options;
    int64_t shares = cli_training_ranks(t);
    int64_t batches_per_step = o->accumulate * t->shares;
    t->micro_batch = o->batch_size / (shares * o->accumulate);
    yk_loader_options train = YK_LOADER_OPTIONS_INIT;
    train.group = t->world;
    train.virtual_ranks = (int)o->virtual_ranks;
    train.batch_size = t->micro_batch;
    train.shuffle = true;
    train.transform = yk_cifar10_augment;
    train.seed = (uint64_t)o->seed;
    train.workers = (int)o->workers;
    yk_loader_options test = YK_LOADER_OPTIONS_INIT;
    test.group = t->world;
    test.virtual_ranks = (int)o->virtual_ranks;
    test.batch_size = t->micro_batch;
    test.exact = true;
    test.transform = yk_cifar10_normalize;
    test.workers = (int)o->workers;
    if (!cli_ok(yk_loader_create(&t->train, t->train_set, &train)) ||
        !cli_ok(yk_loader_create(&t->test, t->test_set, &test)))
        return false;
    int64_t batches = yk_loader_batches(t->train);
    t->steps_per_epoch = (batches + batches_per_step - 1) / batches_per_step;
    return true;
}

/* ---- the trainer ---------------------------------------------------------------------------- */

static yk_status on_resume(void *context, yk_trainer *trainer)
{
    cli_training *t = context;
    (void)trainer;
    if (t->scaler && t->options.given.scaler) {
        yk_grad_scaler_state state = yk_grad_scaler_get_state(t->scaler);
        state.growth_interval = t->options.growth_interval;
        yk_status status = yk_grad_scaler_set_state(t->scaler, &state);
        if (status != YK_OK)
            return status;
    }
    return cli_training_override_hyperparameters(t);
}

static yk_status on_step_begin(void *context, yk_trainer *trainer)
{
    const cli_training *t = context;
    yk_trace_step_begin(t->trace, yk_trainer_state(trainer)->step + 1);
    return YK_OK;
}

static yk_status on_step(void *context, yk_trainer *trainer, const yk_step_record *record)
{
    const cli_training *t = context;
    yk_trace_step_end(t->trace);
    if (!t->leads)
        return YK_OK;
    cli_progress_step(t->progress, record, yk_trainer_state(trainer)->epoch_batch);
    return yk_metrics_step(t->metrics, record);
}

static yk_status on_epoch(void *context, yk_trainer *trainer, const yk_epoch_record *record)
{
    const cli_training *t = context;
    (void)trainer;
    if (!t->leads)
        return YK_OK;
    cli_progress_epoch(t->progress, record);
    return yk_metrics_epoch(t->metrics, record);
}

/* Options whose 0 means none. */
static int64_t or_never(int64_t number)
{
    return number ? number : YK_NEVER;
}

static bool create_trainer(cli_training *t)
{
    const cli_train_options *o = &t->options;
    yk_trainer_options options = YK_TRAINER_OPTIONS_INIT;
    options.validation = t->test;
    options.group = t->world;
    options.ddp = t->ddp;
    options.zero = t->zero;
    options.parallel = t->dp;
    options.ema = t->ema;
    options.scaler = t->scaler;
    options.schedule = &t->schedule;
    options.epochs = o->epochs;
    options.max_steps = or_never(o->max_steps);
    options.accumulate = o->accumulate;
    if (o->recipe.clip_grad_norm > 0)
        options.clip_grad_norm = o->recipe.clip_grad_norm;
    options.check_divergence = or_never(o->check_divergence);
    options.stop_on_signals = true;
    options.output = t->output;
    options.save_every = or_never(o->save_every);
    options.keep = o->keep ? (int)o->keep : INT_MAX;
    options.arch = o->arch;
    options.program = o->kept;
    options.callbacks = (yk_trainer_callbacks){.context = t,
                                               .on_step_begin = on_step_begin,
                                               .on_step = on_step,
                                               .on_epoch = on_epoch,
                                               .on_resume = on_resume};
    return cli_ok(yk_trainer_create(&t->trainer, t->model, t->optimizer, t->train, &options)) &&
           (!t->resumed[0] || cli_ok(yk_trainer_resume(t->trainer, t->resumed)));
}

/* ---- reports -------------------------------------------------------------------------------- */

/* Epochs that the run will begin. */
static int64_t epochs_begun(const cli_training *t)
{
    int64_t epochs = (t->options.max_steps + t->steps_per_epoch - 1) / t->steps_per_epoch;
    return epochs > 0 && epochs < t->options.epochs ? epochs : t->options.epochs;
}

static bool create_reports(cli_training *t)
{
    const yk_training_state *state = yk_trainer_state(t->trainer);
    const cli_train_options *o = &t->options;
    if (o->trace && !cli_ok(yk_trace_open(&t->trace, o->trace, t->world, &o->trace_window)))
        return false;
    if (!t->leads)
        return true;
    const yk_header_record header = {.arch = o->arch,
                                     .data = o->data,
                                     .options = o->kept,
                                     .ranks = yk_group_size(t->world),
                                     .threads = t->threads,
                                     .batch_size = o->batch_size,
                                     .seed = (uint64_t)o->seed,
                                     .step = state->step};
    t->progress = cli_progress_create(epochs_begun(t), t->steps_per_epoch, o->max_steps);
    if (!t->progress)
        return cli_complain("out of memory");
    return cli_ok(yk_metrics_rewind(t->metrics, state->step, state->val_accuracy >= 0)) &&
           cli_ok(yk_metrics_header(t->metrics, &header));
}

bool cli_training_create(cli_training *t, const cli_train_options *options)
{
    *t = (cli_training){.options = *options, .shares = 1};
    yk_group_options joining = YK_GROUP_OPTIONS_INIT;
    if (options->timeout_s > 0) /* given */
        joining.timeout_s = options->timeout_s;
    if (!cli_ok(yk_group_init(&t->world, &joining)))
        return false;
    t->leads = yk_group_rank(t->world) == 0;
    return agree_on_paths(t) && adopt_checkpoint(t) && cli_training_check_same_options(t) &&
           cli_open_data(&t->train_set, &t->test_set, t->world, t->options.data) &&
           create_model(t) && cli_training_create_optimizer(t) && create_zero(t) && create_ema(t) &&
           create_scaler(t) && create_loaders(t) && cli_training_create_schedule(t) &&
           create_trainer(t) && create_reports(t);
}

void cli_training_destroy(cli_training *t)
{
    cli_ok(yk_trace_close(t->trace));
    cli_progress_destroy(t->progress);
    yk_metrics_close(t->metrics);
    yk_trainer_destroy(t->trainer);
    yk_loader_destroy(t->test);
    yk_loader_destroy(t->train);
    yk_ema_destroy(t->ema);
    yk_zero_destroy(t->zero);
    yk_optimizer_destroy(t->optimizer);
    yk_grad_scaler_destroy(t->scaler);
    yk_ddp_destroy(t->ddp);
    yk_data_parallel_destroy(t->dp);
    yk_model_destroy(t->model);
    yk_dataset_destroy(t->test_set);
    yk_dataset_destroy(t->train_set);
    yk_group_destroy(t->world);
}

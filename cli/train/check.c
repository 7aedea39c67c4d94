/*
 * Whether the options of `yoke train` fit together, before any work starts. A check that fails
 * prints one line on what is wrong, as a usage error, and returns false.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/plural.h"
#include "options/options.h"
#include "options/paths.h"
#include "setup/setup.h"
#include "train/train.h"

/* What is wrong, or NULL, as a usage error. */
static bool accept(const cli_train_options *o, const char *trouble)
{
    if (trouble)
        cli_usage_error(o->name, "%s", trouble);
    return trouble == NULL;
}

/* ---- the batch ------------------------------------------------------------------------------- */

int64_t cli_shares_of_batch(const cli_train_options *o, int64_t ranks)
{
    return o->loader.virtual_ranks ? o->loader.virtual_ranks : ranks;
}

bool cli_train_options_check_batch(const cli_train_options *o)
{
    int64_t ranks = cli_ranks_expected(o->nproc), shares = cli_shares_of_batch(o, ranks);
    int64_t parts = shares * o->trainer.accumulate;
    char words[96];
    int length =
        snprintf(words, sizeof words, "%lld%s %s", (long long)shares,
                 o->loader.virtual_ranks ? " virtual" : "", cli_plural(shares, "rank", "ranks"));
    if (o->trainer.accumulate > 1)
        snprintf(words + length, sizeof words - (size_t)length, " x %lld micro-batches",
                 (long long)o->trainer.accumulate);
    if (o->batch_size < parts)
        cli_usage_error(o->name, "--batch-size %lld is less than one image for each of %s",
                        (long long)o->batch_size, words);
    else if (o->batch_size % parts)
        cli_usage_error(o->name,
                        "--batch-size %lld cannot be shared equally by %s; %lld or %lld can",
                        (long long)o->batch_size, words, (long long)(o->batch_size / parts * parts),
                        (long long)((o->batch_size / parts + 1) * parts));
    else
        return true;
    return false;
}

/* ---- ranks ----------------------------------------------------------------------------------- */

static bool check_virtual_ranks(const cli_train_options *o)
{
    int64_t ranks = cli_ranks_expected(o->nproc);
    if (o->loader.virtual_ranks == 0)
        return true;
    if (o->loader.virtual_ranks % ranks) {
        cli_usage_error(o->name, "--virtual-ranks %d cannot be shared equally by %lld ranks",
                        o->loader.virtual_ranks, (long long)ranks);
        return false;
    }
    return accept(
        o, o->trainer.accumulate > 1 ? "--virtual-ranks cannot be combined with --accumulate: use "
                                       "more virtual ranks instead"
           : o->sync_bn   ? "--virtual-ranks cannot be combined with --sync-bn, which needs the "
                            "batches of all ranks at the same time"
           : o->comm_hook ? "--virtual-ranks cannot be combined with --comm-hook"
           : o->parallel == CLI_PARALLEL_DP
               ? "--virtual-ranks cannot be combined with --parallel dp"
               : NULL);
}

/* What would have ranks exchange something in every step, or skip steps. */
static bool check_local_sgd(const cli_train_options *o)
{
    const char *against = o->loader.virtual_ranks                  ? "--virtual-ranks"
                          : o->sync_bn                             ? "--sync-bn"
                          : o->comm_hook                           ? "--comm-hook"
                          : o->given.bucket_cap                    ? "--bucket-cap-mb"
                          : o->zero                                ? "--zero"
                          : o->trainer.check_divergence < YK_NEVER ? "--check-divergence"
                          : o->parallel == CLI_PARALLEL_DP         ? "--parallel dp"
                          : o->lookahead.decay > 0                 ? "--lookahead"
                          : o->model.amp == YK_AMP_FP16            ? "--amp fp16"
                                                                   : NULL;
    if (!o->local_sgd.sync_every)
        return accept(o, o->given.sync_between ? "--sync-between requires --sync-every"
                         : o->given.outer || o->local_sgd.outer_nesterov
                             ? "--outer-lr, --outer-momentum and --outer-nesterov require "
                               "--sync-every"
                             : NULL);
    if (!against)
        return accept(o, o->local_sgd.outer_nesterov && o->local_sgd.outer_momentum == 0
                             ? "--outer-nesterov requires --outer-momentum"
                             : NULL);
    cli_usage_error(o->name,
                    "%s cannot be combined with --sync-every, with which ranks train on their own",
                    against);
    return false;
}

/* The model is on the first of the devices; those of the cpu are its parts. */
static void place_model(cli_train_options *o)
{
    static char first[32];
    const char *devices = o->given.devices ? o->dp.devices : "cpu";
    if (strncmp(devices, "cpu", 3) == 0 || strcmp(o->model.device, "cpu") != 0)
        return;
    snprintf(first, sizeof first, "%.*s", (int)strcspn(devices, ","), devices);
    o->model.device = first;
}

/* DataParallel runs in one process; its devices are checked before anything starts. */
static bool check_parallel(const cli_train_options *o)
{
    int count;
    int64_t ranks = cli_ranks_expected(o->nproc);
    const char *between_ranks = o->sync_bn                               ? "--sync-bn"
                                : o->comm_hook                           ? "--comm-hook"
                                : o->given.bucket_cap                    ? "--bucket-cap-mb"
                                : o->zero                                ? "--zero"
                                : o->trainer.check_divergence < YK_NEVER ? "--check-divergence"
                                                                         : NULL;
    if (o->parallel != CLI_PARALLEL_DP)
        return accept(o, o->given.devices ? "--devices requires --parallel dp" : NULL);
    if (ranks > 1)
        cli_usage_error(o->name,
                        "--parallel dp runs in one process, but there are %lld ranks: use ddp",
                        (long long)ranks);
    else if (between_ranks)
        cli_usage_error(o->name,
                        "%s cannot be combined with --parallel dp, which has a single rank",
                        between_ranks);
    else if (yk_data_parallel_check(o->dp.devices, &count) != YK_OK)
        cli_usage_error(o->name, "--devices: %s", cli_reason());
    else
        return true;
    return false;
}

/* ---- options of others ----------------------------------------------------------------------- */

typedef struct owned_option {
    const char *name;
    bool given;
    const char *owners; /* the choices of its owner that have it */
} owned_option;

/* Whether the chosen one has all of these options that were given. */
static bool check_owned(const cli_train_options *o, const owned_option *owned, size_t count,
                        const char *owner, const char *chosen)
{
    for (size_t i = 0; i < count; i++)
        if (owned[i].given && !cli_is_choice(owned[i].owners, chosen)) {
            cli_usage_error(o->name, "--%s applies to --%s %s, not %s", owned[i].name, owner,
                            owned[i].owners, chosen);
            return false;
        }
    return true;
}

static bool check_owners(const cli_train_options *o)
{
    const owned_option of_optimizers[] = {
        {"momentum", o->given.momentum, "sgd|rmsprop|lars|muon"},
        {"dampening", o->given.dampening, "sgd"},
        {"trust-coefficient", o->given.trust_coefficient, "lars"},
        {"muon-lr", o->given.muon_lr, "muon"},
        {"muon-momentum", o->given.muon_momentum, "muon"},
        {"muon-steps", o->given.muon_steps, "muon"},
        {"muon-normalize", o->given.muon_normalize, "muon"},
        {"beta1", o->given.beta1, "adam|adamw|nadam|radam|adamax|lamb"},
        {"beta2", o->given.beta2, "adam|adamw|nadam|radam|adamax|lamb"},
        {"momentum-decay", o->given.momentum_decay, "nadam"},
        {"decoupled-weight-decay", o->given.decoupled_weight_decay, "nadam|radam"},
        {"lr-decay", o->given.lr_decay, "adagrad"},
        {"initial-accumulator-value", o->given.initial_accumulator_value, "adagrad"},
        {"rho", o->given.rho, "adadelta"},
        {"alpha", o->given.alpha, "rmsprop"},
        {"centered", o->given.centered, "rmsprop"},
        {"amsgrad", o->given.amsgrad, "adam|adamw"},
        {"eps", o->given.eps, "adam|adamw|nadam|radam|adamax|adagrad|adadelta|rmsprop|lamb"},
    };
    const owned_option of_schedules[] = {
        {"step-size", o->given.step_size, "step"},
        {"milestones", o->given.milestones, "multistep"},
        {"gamma", o->given.gamma, "step|multistep|exponential|cyclic"},
        {"eta-min", o->given.eta_min, "cosine|warmrestarts"},
        {"t-0", o->given.t_0, "warmrestarts"},
        {"t-mult", o->given.t_mult, "warmrestarts"},
        {"power", o->given.power, "polynomial"},
        {"max-lr", o->given.max_lr, "onecycle|cyclic"},
        {"base-lr", o->given.base_lr, "cyclic"},
        {"step-size-up", o->given.step_size_up, "cyclic"},
        {"step-size-down", o->given.step_size_down, "cyclic"},
        {"cycle-mode", o->given.cycle_mode, "cyclic"},
        {"pct-start", o->given.pct_start, "onecycle|triangle"},
        {"start-factor", o->given.start_factor, "triangle"},
        {"end-factor", o->given.end_factor, "triangle"},
        {"div-factor", o->given.div_factor, "onecycle"},
        {"final-div-factor", o->given.final_div_factor, "onecycle"},
    };
    return check_owned(o, of_optimizers, sizeof of_optimizers / sizeof *of_optimizers, "optimizer",
                       cli_choice_name(CLI_OPTIMIZERS, (int)o->optimizer)) &&
           check_owned(o, of_schedules, sizeof of_schedules / sizeof *of_schedules, "schedule",
                       yk_schedule_name(o->schedule.kind));
}

static bool check_others(const cli_train_options *o)
{
    if (o->given.powersgd && o->comm_hook != CLI_COMM_HOOK_POWERSGD)
        cli_usage_error(o->name,
                        "--powersgd-rank and --powersgd-start require --comm-hook powersgd, not %s",
                        cli_choice_name(CLI_COMM_HOOKS, (int)o->comm_hook));
    else if (o->given.scaler && o->model.amp != YK_AMP_FP16)
        cli_usage_error(o->name, "--init-scale and --growth-interval require --amp fp16, not %s",
                        cli_amp_name(o->model.amp));
    else if (o->given.lookahead && o->lookahead.decay == 0)
        cli_usage_error(o->name, "--lookahead-steps and --lookahead-power require --lookahead");
    else if (o->given.tta_confidence && o->trainer.tta == YK_TTA_NONE)
        cli_usage_error(o->name, "--tta-confidence requires --tta mirror|translate");
    else
        return true;
    return false;
}

/* ---- optimizer and schedule ------------------------------------------------------------------ */

static const char *lr_groups_trouble(const cli_train_options *o)
{
    return !o->lr_groups || cli_lr_groups_are_valid(o->lr_groups)
               ? NULL
               : "--lr-group: expected PATTERN=RATE[:EPOCHS],..., such as 'fc.*=0.1'";
}

static const char *optimizer_trouble(const cli_train_options *o)
{
    if (!(o->lr > 0))
        return "--lr must be more than 0";
    bool muon = o->optimizer == CLI_OPTIMIZER_MUON;
    bool sgd = o->optimizer == CLI_OPTIMIZER_SGD || o->optimizer == CLI_OPTIMIZER_LARS;
    if (o->sgd.nesterov && !sgd && !muon)
        return "--nesterov requires --optimizer sgd, lars or muon";
    if (muon && o->sgd.momentum == 0)
        return "--optimizer muon requires a --momentum above 0";
    if (o->sgd.nesterov && (o->sgd.momentum == 0 || o->sgd.dampening != 0))
        return "--nesterov requires a --momentum above 0 and no --dampening";
    if (!o->decay_norms && o->weight_decay == 0)
        return "--no-decay-norms requires a --weight-decay above 0";
    return lr_groups_trouble(o);
}

static const char *momentum_trouble(const cli_train_options *o)
{
    if (!o->schedule.cycle_momentum)
        return NULL;
    if (!cli_train_has_betas(o->optimizer) && !cli_train_has_momentum(o->optimizer))
        return "cycles the momentum, which adagrad and adadelta do not have: add "
               "--no-cycle-momentum";
    if (!cli_train_has_betas(o->optimizer) && o->sgd.momentum == 0)
        return "cycles the momentum: set --momentum or --no-cycle-momentum";
    if (o->given.momentum || o->given.muon_momentum || o->given.beta1)
        return "cycles the momentum: add --no-cycle-momentum to set it";
    return NULL;
}

/* What is said of the schedule. */
static const char *cycle_trouble(const cli_train_options *o)
{
    if (o->schedule.kind == YK_SCHEDULE_ONE_CYCLE && !o->schedule.per_step)
        return "changes the rate at every step and cannot be combined with --schedule-unit epoch";
    if (o->warmup_epochs || o->warmup_steps)
        return "has its own warm-up: remove --warmup-epochs and --warmup-steps";
    if (o->given.gamma && !cli_train_needs_gamma(o))
        return "needs --cycle-mode exp_range for a --gamma";
    return momentum_trouble(o);
}

static const char *cycles_trouble(const cli_train_options *o)
{
    static char text[256];
    const char *name = yk_schedule_name(o->schedule.kind), *trouble = cycle_trouble(o);
    if (trouble)
        snprintf(text, sizeof text, "--schedule %s %s", name, trouble);
    else if (cli_train_has_peak(o) && o->given.lr)
        snprintf(text, sizeof text,
                 o->given.max_lr
                     ? "--max-lr and --lr both set the peak of --schedule %s: give one of them"
                     : "--lr: this run has the peak of its --schedule %s from --max-lr: give "
                       "--max-lr instead",
                 name);
    else
        return NULL;
    return text;
}

static const char *schedule_trouble(const cli_train_options *o)
{
    const yk_schedule *s = &o->schedule;
    if (cli_train_needs_gamma(o) && isnan(s->gamma))
        return s->kind == YK_SCHEDULE_CYCLIC
                   ? "--cycle-mode exp_range needs a --gamma, such as 0.9999"
                   : "--schedule exponential needs a --gamma, such as 0.97";
    if (cli_train_cycles(o))
        return cycles_trouble(o);
    if (s->kind == YK_SCHEDULE_STEP && s->step_size == 0)
        return "--schedule step needs a --step-size";
    if (s->kind == YK_SCHEDULE_MULTISTEP && !o->milestones)
        return "--schedule multistep needs --milestones, such as 30,60";
    if (s->kind == YK_SCHEDULE_WARM_RESTARTS && s->t_0 == 0)
        return "--schedule warmrestarts needs a --t-0";
    if (!s->cycle_momentum)
        return "--no-cycle-momentum requires --schedule onecycle or cyclic";
    if (s->kind == YK_SCHEDULE_TRIANGLE && (o->warmup_epochs || o->warmup_steps))
        return "--schedule triangle has its own warm-up: remove --warmup-epochs and --warmup-steps";
    if (o->warmup_epochs && o->warmup_steps)
        return "--warmup-epochs and --warmup-steps both set the warm-up: give one of them";
    if (o->warmup_steps && !s->per_step)
        return "--warmup-steps requires --schedule-unit step";
    if (o->given.warmup_factor && !o->warmup_epochs && !o->warmup_steps)
        return "--warmup-factor requires --warmup-epochs or --warmup-steps";
    if (o->given.warmup_method && !o->warmup_epochs && !o->warmup_steps)
        return "--warmup-method requires --warmup-epochs or --warmup-steps";
    if (cli_train_falls_to_the_end(o) && (double)o->warmup_epochs >= o->epochs)
        return "--warmup-epochs must be less than --epochs with --schedule cosine and polynomial";
    return NULL;
}

static bool check_recipe(const cli_train_options *o)
{
    yk_schedule schedule;
    if (!accept(o, optimizer_trouble(o)) || !check_owners(o) || !accept(o, schedule_trouble(o)))
        return false;
    /* How many steps an epoch has is not known yet: so many that some follow the warm-up. */
    double steps_per_epoch = ceil((double)(o->warmup_steps + 1) / o->epochs);
    if (cli_train_schedule(&schedule, o, (int64_t)steps_per_epoch) == YK_OK)
        return true;
    return accept(o, o->schedule.kind == YK_SCHEDULE_MULTISTEP
                         ? "--milestones: expected up to 32 increasing numbers from 1, such as "
                           "30,60"
                         : cli_reason());
}

/* ---- names of parameters ----------------------------------------------------------------------
 */

static bool find_parameters(const cli_train_options *o, yk_graph *graph)
{
    if (cli_freeze(graph, o->freeze) != YK_OK)
        cli_usage_error(o->name, "--freeze %s: %s", o->freeze, cli_reason());
    else if (cli_lr_groups_find(o->lr_groups, graph) != YK_OK)
        cli_usage_error(o->name, "--lr-group %s: %s", o->lr_groups, cli_reason());
    else if (o->whiten && yk_graph_set_trainable(graph, o->whiten, true, NULL) != YK_OK)
        cli_usage_error(o->name, "--whiten %s: %s", o->whiten, cli_reason());
    else
        return true;
    return false;
}

/* Said here, once, and not by each rank. */
static bool check_parameters(const cli_train_options *o)
{
    yk_graph *graph = o->freeze || o->lr_groups || o->whiten ? cli_network_of(o->arch) : NULL;
    bool found = !graph || find_parameters(o, graph);
    yk_graph_destroy(graph);
    return found;
}

/* ---- files ----------------------------------------------------------------------------------- */

/* "A:B", both from 1 on. */
static bool parse_trace_steps(yk_trace_options *window, const char *text)
{
    long long first, last;
    int length = 0;
    if (sscanf(text, "%lld:%lld%n", &first, &last, &length) != 2 || text[length] || first < 1 ||
        last < first)
        return false;
    window->first_step = first;
    window->steps = last - first + 1;
    return true;
}

/* Whether the path leads through the folder, as both are written. */
static bool is_inside(const char *path, const char *folder)
{
    size_t length = strlen(folder);
    return strncmp(path, folder, length) == 0 && (path[length] == '/' || folder[length - 1] == '/');
}

/* A file may be written into the output folder, which does not exist yet. */
static bool check_report_file(const cli_train_options *o, const char *option, const char *path)
{
    bool in_output = path && o->output && is_inside(path, o->output);
    return cli_check_result(o->name, option, path) &&
           (in_output || cli_check_writable(o->name, option, path));
}

static bool check_trace(cli_train_options *o)
{
    if (!check_report_file(o, "--trace", o->trace))
        return false;
    if (!o->trace_steps)
        return true;
    if (!o->trace)
        return accept(o, "--trace-steps requires --trace FILE");
    if (parse_trace_steps(&o->trace_window, o->trace_steps))
        return true;
    cli_usage_error(o->name,
                    "--trace-steps %s: expected A:B, the first and the last step, e.g. 10:19",
                    o->trace_steps);
    return false;
}

static bool check_reports(const cli_train_options *o)
{
    bool same = o->trace && o->metrics_file && strcmp(o->trace, o->metrics_file) == 0;
    return check_report_file(o, "--metrics-file", o->metrics_file) &&
           accept(o, same ? "--trace and --metrics-file name the same file" : NULL) &&
           accept(o, o->histograms && !o->tensorboard ? "--histograms requires --tensorboard"
                                                      : NULL) &&
           accept(o, o->quiet && o->json ? "--quiet and --json exclude each other" : NULL);
}

static bool is_auto(const char *resume)
{
    return resume && strcmp(resume, "auto") == 0;
}

static const char *beginning_trouble(const cli_train_options *o)
{
    if (o->resume && o->checkpoint && !o->restarted)
        return "--resume continues a run and --checkpoint starts a new one: give one of them";
    if (is_auto(o->resume) && !o->output)
        return "--resume auto looks in the output folder: name it with --output";
    return NULL;
}

static bool check_resume(const cli_train_options *o)
{
    struct stat found;
    if (!o->resume || is_auto(o->resume))
        return true;
    if (!cli_check_readable(o->name, "--resume", o->resume))
        return false;
    if (stat(o->resume, &found) != 0 || !S_ISDIR(found.st_mode))
        return true;
    cli_usage_error(o->name,
                    "--resume %s is a folder: resume the run in it with --resume auto --output %s",
                    o->resume, o->resume);
    return false;
}

/* In a resumed run the folder may be the checkpoint's word, not the command line's. */
static bool check_data(const cli_train_options *o, bool checkpoint_known)
{
    bool stored = o->resume && checkpoint_known && !o->given.data;
    const char *detail;
    if (!stored || cli_data_kind_of(o->data, &detail) || access(o->data, F_OK) == 0)
        return cli_check_data(o->name, "--data", o->data);
    cli_usage_error(o->name, "the data of the resumed run is no longer at %s: name it with --data",
                    o->data);
    return false;
}

bool cli_train_options_check(cli_train_options *o, bool checkpoint_known)
{
    place_model(o);
    bool known = !o->resume || checkpoint_known, batch_known = !o->resume || o->given.batch_size;
    return check_trace(o) && check_reports(o) && check_virtual_ranks(o) && check_local_sgd(o) &&
           accept(o, beginning_trouble(o)) && (!known || check_others(o)) && check_parallel(o) &&
           (!batch_known || cli_train_options_check_batch(o)) && (!known || check_recipe(o)) &&
           (!known || check_parameters(o)) && cli_check_backends(o->name, o->group.backend) &&
           check_data(o, checkpoint_known) && check_resume(o) &&
           cli_check_augment(o->name, &o->augment) &&
           cli_check_readable(o->name, "--checkpoint", o->checkpoint) &&
           cli_check_folder(o->name, "--output", o->output) &&
           cli_check_model_options(o->name, &o->model);
}

/* What `yoke train` prints before the first step: every number that matters, and its origin. */
#define _GNU_SOURCE
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/plural.h"
#include "common/terminal.h"
#include "options/options.h"
#include "setup/setup.h"
#include "train/train.h"

static const char *origin(const cli_training *t, bool given, const char *option,
                          const char *fallback)
{
    return given ? option : t->resumed[0] ? "from the checkpoint" : fallback;
}

/* The origin of an option that was not given but that every recipe sets. */
static const char *usual(const cli_train_options *o)
{
    return o->recipe ? "--recipe" : "default";
}

static double hyperparameter(const cli_training *t, const char *wanted)
{
    const char *name;
    double value;
    for (size_t i = 0; yk_optimizer_hyperparameter(t->optimizer, i, &name, &value); i++)
        if (strcmp(name, wanted) == 0)
            return value;
    return 0;
}

static void print_lr(FILE *page, const cli_training *t)
{
    const cli_train_options *o = &t->options;
    bool root = o->lr_scale == CLI_LR_SCALE_SQRT;
    double first = cli_train_first_lr(o);
    const char *from =
        cli_train_has_peak(o) ? "--max-lr" : origin(t, o->given.lr, "--lr", usual(o));
    fprintf(page, "learning rate %g", t->lr);
    if (o->lr_scale == CLI_LR_SCALE_NONE)
        fprintf(page, " (%s, not scaled)", from);
    else
        fprintf(page, " = %g (%s) x %s%lld %s%s (--lr-scale %s)", first, from, root ? "sqrt(" : "",
                (long long)t->ranks, cli_plural(t->ranks, "rank", "ranks"), root ? ")" : "",
                cli_choice_name(CLI_LR_SCALES, (int)o->lr_scale));
}

/* With --independent-decay, what the optimizer multiplies by its rate is not what was given. */
static void print_decay(FILE *page, const cli_training *t)
{
    const cli_train_options *o = &t->options;
    fprintf(page, ", %s%sweight decay %g%s", o->independent_decay ? "independent " : "",
            hyperparameter(t, "decoupled_weight_decay") > 0 ? "decoupled " : "",
            o->independent_decay ? o->weight_decay : hyperparameter(t, "weight_decay"),
            o->decay_norms ? "" : ", not on norms and biases");
    if (o->independent_decay)
        fprintf(page,
                " (the fraction of a weight that a step removes at the peak of the schedule)");
    fputc('\n', page);
}

static void print_optimizer(FILE *page, const cli_training *t)
{
    fprintf(page, "  optimizer   %s, ", yk_optimizer_name(t->optimizer));
    print_lr(page, t);
    double momentum, beta2 = hyperparameter(t, "beta2");
    bool cycles = yk_schedule_momentum(&t->schedule, 0, &momentum);
    const char *nesterov = hyperparameter(t, "nesterov") > 0 ? "Nesterov " : "";
    if (cycles)
        fprintf(page, ", %s%s of the schedule", nesterov, beta2 > 0 ? "beta1" : "momentum");
    else if (hyperparameter(t, "momentum") > 0)
        fprintf(page, ", %smomentum %g", nesterov, hyperparameter(t, "momentum"));
    if (hyperparameter(t, "lr_decay") > 0)
        fprintf(page, ", rate decay %g", hyperparameter(t, "lr_decay"));
    if (hyperparameter(t, "initial_accumulator_value") > 0)
        fprintf(page, ", sums from %g", hyperparameter(t, "initial_accumulator_value"));
    if (t->options.optimizer == CLI_OPTIMIZER_ADADELTA)
        fprintf(page, ", rho %g", hyperparameter(t, "rho"));
    if (t->options.optimizer == CLI_OPTIMIZER_RMSPROP)
        fprintf(page, ", alpha %g%s", hyperparameter(t, "alpha"),
                hyperparameter(t, "centered") > 0 ? ", centered" : "");
    if (t->options.optimizer == CLI_OPTIMIZER_LARS)
        fprintf(page, ", trust coefficient %g", hyperparameter(t, "trust_coefficient"));
    if (hyperparameter(t, "dampening") > 0)
        fprintf(page, " dampened by %g", hyperparameter(t, "dampening"));
    if (beta2 > 0 && cycles)
        fprintf(page, ", beta2 %g", beta2);
    else if (beta2 > 0)
        fprintf(page, ", betas %g %g", hyperparameter(t, "beta1"), beta2);
    if (hyperparameter(t, "amsgrad") > 0)
        fprintf(page, ", amsgrad");
    if (hyperparameter(t, "momentum_decay") > 0)
        fprintf(page, ", momentum decay %g", hyperparameter(t, "momentum_decay"));
    print_decay(page, t);
    yk_muon_options muon = cli_train_muon(t);
    if (t->options.optimizer == CLI_OPTIMIZER_MUON)
        fprintf(page, "  filters     Muon, learning rate %g, momentum %g, %d Newton-Schulz %s%s\n",
                muon.lr, muon.momentum, muon.ns_steps, cli_plural(muon.ns_steps, "step", "steps"),
                muon.normalize ? ", normalised" : "");
    if (t->options.lr_groups)
        fprintf(page, "  rates       %s (--lr-group)\n", t->options.lr_groups);
}

static void print_recipe(FILE *page, const cli_training *t)
{
    char schedule[YK_SCHEDULE_TEXT];
    const cli_train_options *o = &t->options;
    print_optimizer(page, t);
    if (t->schedule.kind != YK_SCHEDULE_CONSTANT || t->schedule.warmup > 0)
        fprintf(page, "  schedule    %s\n",
                yk_schedule_describe(&t->schedule, t->lr, schedule, sizeof schedule));
    bool sum = o->trainer.loss_reduction == YK_LOSS_SUM;
    if (o->label_smoothing > 0 || sum)
        fprintf(page, "  loss        cross entropy, label smoothing %g%s\n", o->label_smoothing,
                sum ? ", summed over the batch" : "");
    if (o->trainer.clip_grad_norm < HUGE_VAL)
        fprintf(page, "  gradients   clipped to a norm of %g\n", o->trainer.clip_grad_norm);
    if (t->lookahead)
        fprintf(page, "  lookahead   every %lld steps, decay %g%s\n",
                (long long)o->lookahead.interval, o->lookahead.decay,
                o->lookahead.power > 0 ? " at the end" : "");
    if (t->ema)
        fprintf(page,
                "  average     weights and statistics, decay %g; evaluated and saved as well\n",
                o->ema);
}

static void print_batch(FILE *page, const cli_training *t)
{
    bool virtual_ranks = t->options.loader.virtual_ranks > 0;
    int64_t accumulate = t->options.trainer.accumulate;
    fprintf(page, "  batch       effective %lld %s a step", (long long)t->options.batch_size,
            cli_plural(t->options.batch_size, "image", "images"));
    if (t->ranks > 1 || accumulate > 1)
        fprintf(page, " = %lld%s %s x %lld", (long long)t->ranks, virtual_ranks ? " virtual" : "",
                cli_plural(t->ranks, "rank", "ranks"), (long long)t->micro_batch);
    if (accumulate > 1)
        fprintf(page, " x %lld accumulated", (long long)accumulate);
    fprintf(page, " (%s)\n",
            origin(t, t->options.given.batch_size, "--batch-size", usual(&t->options)));
}

static void print_precision(FILE *page, const cli_training *t)
{
    const yk_model_options *model = &t->options.model;
    if (model->amp == YK_AMP_OFF)
        return;
    fprintf(page, "  precision   mixed: activations in %s, weights and their gradients in f32",
            cli_amp_name(model->amp));
    if (model->autocast)
        fprintf(page, ", except %s", model->autocast);
    fputc('\n', page);
}

static bool is_restarted(const cli_training *t)
{
    const yk_resume_report *report = yk_trainer_resumed(t->trainer);
    return report && report->comm_hook_restarted;
}

static void print_buckets(FILE *page, const cli_training *t)
{
    size_t buckets = yk_ddp_bucket_count(t->ddp);
    fprintf(page, "  buckets     %zu:", buckets);
    for (size_t i = 0; i < buckets; i++) {
        double kib = (double)yk_ddp_bucket_bytes(t->ddp, i) / 1024;
        fprintf(page, "%s %.1f %s", i ? "," : "", kib < 1024 ? kib : kib / 1024,
                kib < 1024 ? "KiB" : "MiB");
    }
    fprintf(page, ", in the order of backward\n");
}

static void print_comm_hook(FILE *page, const cli_training *t)
{
    const cli_train_options *o = &t->options;
    const yk_powersgd_options *powersgd = &o->powersgd;
    if (o->comm_hook == CLI_COMM_HOOK_POWERSGD)
        fprintf(page, "  comm hook   PowerSGD of rank %lld after step %lld%s\n",
                (long long)powersgd->matrix_approximation_rank, (long long)powersgd->start_iter,
                is_restarted(t) && t->saved.step > powersgd->start_iter
                    ? "; it restarts, as the checkpoint has no state that fits it"
                    : "");
    else if (o->comm_hook != CLI_COMM_HOOK_NONE)
        fprintf(page, "  comm hook   gradients travel in %s\n",
                cli_choice_name(CLI_COMM_HOOKS, (int)o->comm_hook));
}

/* Virtual ranks have no buckets. */
static void print_virtual_ranks(FILE *page, const cli_training *t)
{
    int each = yk_loader_virtual_ranks(t->train);
    if (each == 1)
        fprintf(page, "  shares      %d virtual ranks, one on each rank\n", (int)t->ranks);
    else
        fprintf(page, "  shares      %d virtual ranks, %d each in turn\n", (int)t->ranks, each);
}

static void print_local_sgd(FILE *page, const cli_training *t)
{
    const yk_local_sgd_options *o = &t->options.local_sgd;
    if (t->host)
        fprintf(page, "  gradients   averaged in every step by the %d %s of this host\n",
                yk_group_size(t->host), cli_plural(yk_group_size(t->host), "rank", "ranks"));
    fprintf(page,
            "  averages    every %lld %s, of weights, statistics and optimizer state: %.1f MiB "
            "(--sync-every)\n",
            (long long)o->sync_every, cli_plural(o->sync_every, "step", "steps"),
            (double)yk_local_sgd_bytes(t->local) / (1 << 20));
    if (o->outer_lr != 1 || o->outer_momentum > 0)
        fprintf(page, "              outer SGD with learning rate %g, %smomentum %g\n", o->outer_lr,
                o->outer_nesterov ? "Nesterov " : "", o->outer_momentum);
}

static void print_ddp(FILE *page, const cli_training *t)
{
    int64_t every = t->options.trainer.check_divergence;
    if (t->dp)
        return;
    if (t->local) {
        print_local_sgd(page, t);
        return;
    }
    if (!t->ddp) {
        fprintf(page, "  buckets     none (single rank)\n");
        return;
    }
    if (yk_ddp_bucket_count(t->ddp) == 0)
        print_virtual_ranks(page, t);
    else {
        print_buckets(page, t);
        print_comm_hook(page, t);
    }
    if (every < YK_NEVER)
        fprintf(page, "  divergence  checked every %lld %s\n", (long long)every,
                cli_plural(every, "step", "steps"));
}

static void print_frozen(FILE *page, const cli_training *t)
{
    int64_t elements = 0, tensors = 0;
    for (size_t i = 0; i < yk_model_parameter_count(t->model); i++) {
        yk_parameter_view view = yk_model_parameter(t->model, i);
        elements += view.trainable ? 0 : yk_tensor_count(&view.value);
        tensors += !view.trainable;
    }
    fprintf(page, "  frozen      %lld in %lld %s (--freeze %s)\n", (long long)elements,
            (long long)tensors, cli_plural(tensors, "tensor", "tensors"), t->options.freeze);
}

static void print_model(FILE *page, const cli_training *t)
{
    fprintf(page, "  parameters  %lld in %zu tensors\n",
            (long long)yk_model_parameter_elements(t->model), yk_model_parameter_count(t->model));
    if (t->options.freeze)
        print_frozen(page, t);
    print_ddp(page, t);
}

static void print_memory(FILE *page, const cli_training *t)
{
    int devices = 1;
    yk_memory_plan plan;
    if (t->dp && !cli_ok(yk_data_parallel_check(t->options.dp.devices, &devices)))
        return;
    if (!cli_ok(yk_model_memory_plan(t->model, (t->micro_batch + devices - 1) / devices, &plan)))
        return;
    const double mib = 1 << 20;
    fprintf(page,
            "  memory      MiB a %s: parameters %.1f, gradients %.1f, packed weights %.1f, "
            "activations %.1f, scratch %.1f, optimizer state %.1f",
            t->dp ? "device" : "rank", (double)plan.parameters / mib, (double)plan.gradients / mib,
            (double)plan.packed_weights / mib, (double)plan.activations / mib,
            (double)plan.scratch / mib, (double)yk_optimizer_state_bytes(t->optimizer) / mib);
    if (t->zero)
        fprintf(page, ": 1 of %d ranks' parts (--zero)", yk_group_size(t->world));
    fputc('\n', page);
}

/* Where the run resumes, and why its bits may differ from those of an uninterrupted run. */
static void print_resumed(FILE *page, const cli_training *t)
{
    fprintf(page, "  resumed     from %s, after step %lld\n", t->resumed, (long long)t->saved.step);
    if (t->options.recipe)
        fprintf(page, "              with the checkpoint's options: --recipe %s is for new runs\n",
                t->options.recipe);
    int64_t had = t->saved.world_size;
    int ranks = yk_group_size(t->world);
    if (had && had != ranks)
        fprintf(page, "              on %d %s (%s) instead of %lld\n", ranks,
                cli_plural(ranks, "rank", "ranks"),
                t->options.given.nproc ? "--nproc" : "set by the launcher", (long long)had);
    if (t->saved.threads && t->saved.threads != t->threads)
        fprintf(page,
                "              with %d kernel %s a rank instead of %lld: sums will be rounded "
                "differently\n",
                t->threads, cli_plural(t->threads, "thread", "threads"),
                (long long)t->saved.threads);
}

/* What decided about the backend, and who said which rank this process is. */
static void print_ranks(FILE *page, const cli_training *t)
{
    yk_place place;
    int ranks = yk_group_size(t->world);
    fprintf(page, "  ranks       %d (%s), %d %s each (%s)\n", ranks, yk_group_backend(t->world),
            t->threads, cli_plural(t->threads, "thread", "threads"), t->threads_source);
    if (ranks > 1 && yk_group_place(&place) == YK_OK && place.source)
        fprintf(page, "  places      %s; rank and size from %s\n",
                yk_group_backend_reason(t->world), place.source);
}

static void print_images(FILE *page, const cli_training *t)
{
    const char *text = *t->transforms.train ? t->transforms.train : "as they are";
    fprintf(page, "  images      ");
    cli_print_transforms(page, text, strlen(text));
    fputc('\n', page);
}

static void introduce(FILE *page, const cli_training *t)
{
    const cli_train_options *o = &t->options;
    if (o->recipe && !t->resumed[0])
        cli_recipe_print(page, o->recipe);
    fprintf(page, "Training %s on %s: %lld %s, %lld for validation, %lld %s of %lld %s", o->arch,
            yk_dataset_name(t->train_set), (long long)yk_dataset_size(t->train_set),
            cli_plural(yk_dataset_size(t->train_set), "image", "images"),
            (long long)yk_dataset_size(t->test_set), (long long)o->trainer.epochs,
            cli_plural(o->trainer.epochs, "epoch", "epochs"), (long long)t->steps_per_epoch,
            cli_plural(t->steps_per_epoch, "step", "steps"));
    if (o->trainer.max_steps < YK_NEVER)
        fprintf(page, ", at most %lld %s", (long long)o->trainer.max_steps,
                cli_plural(o->trainer.max_steps, "step", "steps"));
    fputc('\n', page);
    print_batch(page, t);
    print_recipe(page, t);
    print_ranks(page, t);
    fprintf(page, "  device      %s\n", yk_model_device_description(t->model));
    if (*yk_group_exchange(t->world))
        fprintf(page, "  exchange    %s\n", yk_group_exchange(t->world));
    if (t->dp)
        fprintf(page, "  devices     %s (--parallel dp)\n", yk_data_parallel_description(t->dp));
    print_precision(page, t);
    if (o->sync_bn)
        fprintf(page, "  batch norm  over the joint batch of all ranks (--sync-bn)\n");
    print_model(page, t);
    if (o->memory_plan)
        print_memory(page, t);
    print_images(page, t);
    if (o->trainer.tta != YK_TTA_NONE)
        fprintf(page, "  evaluation  at the end also with test-time augmentation: %s\n",
                cli_choice_name(CLI_TTA, (int)o->trainer.tta));
    fprintf(page, "  seed        %llu (%s)\n", (unsigned long long)o->model.seed,
            origin(t, o->given.seed, "--seed", "default"));
    fprintf(page, "  output      %s\n", t->output);
    if (t->resumed[0])
        print_resumed(page, t);
}

void cli_training_introduce(const cli_training *t)
{
    enum { LABELS = 14 };
    char *text = NULL;
    size_t size = 0;
    FILE *page = open_memstream(&text, &size);
    if (!page)
        return;
    introduce(page, t);
    if (fclose(page) == 0)
        cli_print_wrapped(stdout, text, cli_text_columns(STDOUT_FILENO), LABELS);
    fflush(stdout);
    free(text);
}

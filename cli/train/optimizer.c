/* The optimizer of `yoke train`, its schedule, and what is printed of them. */
#include <string.h>

#include "setup.h"
#include "train/train.h"

/* ---- building -------------------------------------------------------------------------------- */

static yk_status create_sgd(cli_training *t, double lr)
{
    const cli_recipe *r = &t->options.recipe;
    yk_sgd_options sgd = YK_SGD_OPTIONS_INIT;
    sgd.lr = lr;
    sgd.momentum = r->momentum;
    sgd.dampening = r->dampening;
    sgd.weight_decay = r->weight_decay;
    sgd.nesterov = r->nesterov;
    return yk_sgd_create(&t->optimizer, t->model, &sgd);
}

static yk_status create_adam(cli_training *t, double lr)
{
    const cli_recipe *r = &t->options.recipe;
    yk_adam_options adam = YK_ADAM_OPTIONS_INIT;
    adam.lr = lr;
    adam.beta1 = r->beta1;
    adam.beta2 = r->beta2;
    adam.eps = r->eps;
    adam.weight_decay = r->weight_decay;
    adam.decoupled = r->rule == CLI_OPTIMIZER_ADAMW;
    return yk_adam_create(&t->optimizer, t->model, &adam);
}

static yk_status create_rule(cli_training *t, double lr)
{
    return t->options.recipe.rule == CLI_OPTIMIZER_SGD ? create_sgd(t, lr) : create_adam(t, lr);
}

/* Norms and biases go into a group of their own, number 1, where they are not in one yet. */
static yk_status exempt_norms(cli_training *t)
{
    if (!t->options.recipe.no_decay_norms)
        return YK_OK;
    if (yk_optimizer_group_count(t->optimizer) == 1) {
        yk_status status =
            yk_optimizer_add_param_group(t->optimizer, yk_filter_norms_and_biases, NULL, NULL);
        if (status != YK_OK)
            return status;
    }
    return yk_optimizer_set_group_hyperparameter(t->optimizer, 1, "weight_decay", 0);
}

bool cli_training_create_optimizer(cli_training *t)
{
    const cli_recipe *r = &t->options.recipe;
    t->lr = r->lr * cli_recipe_lr_factor(r, cli_training_ranks(t));
    return cli_ok(create_rule(t, t->lr)) && cli_ok(exempt_norms(t));
}

yk_status cli_training_override_hyperparameters(cli_training *t)
{
    const cli_recipe *r = &t->options.recipe;
    const struct {
        const char *name;
        bool given;
        double value;
    } all[] = {{"lr", true, t->lr},
               {"momentum", r->given.momentum, r->momentum},
               {"dampening", r->given.dampening, r->dampening},
               {"beta1", r->given.beta1, r->beta1},
               {"beta2", r->given.beta2, r->beta2},
               {"eps", r->given.eps, r->eps},
               {"weight_decay", r->given.weight_decay, r->weight_decay}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        yk_status status = YK_OK;
        if (all[i].given)
            status = yk_optimizer_set_hyperparameter(t->optimizer, all[i].name, all[i].value);
        if (status != YK_OK)
            return status;
    }
    return exempt_norms(t);
}

bool cli_training_create_schedule(cli_training *t)
{
    const cli_recipe *r = &t->options.recipe;
    double factor = cli_recipe_lr_factor(r, cli_training_ranks(t));
    double peak = r->given.max_lr ? r->max_lr * factor : YK_LR_INITIAL;
    return cli_ok(
        cli_recipe_schedule(&t->schedule, r, peak, t->options.epochs, t->steps_per_epoch));
}

/* ---- printing -------------------------------------------------------------------------------- */

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
    const cli_recipe *r = &t->options.recipe;
    int ranks = cli_training_ranks(t);
    const char *origin = r->given.lr ? "--lr" : t->resumed[0] ? "from the checkpoint" : "default";
    fprintf(page, "learning rate %g", t->lr);
    if (r->scaling == CLI_LR_SCALE_NONE)
        fprintf(page, " (%s, not scaled)", origin);
    else
        fprintf(page, " = %g (%s) x %s%d rank%s%s (--lr-scale %s)", r->lr, origin,
                r->scaling == CLI_LR_SCALE_SQRT ? "sqrt(" : "", ranks, ranks == 1 ? "" : "s",
                r->scaling == CLI_LR_SCALE_SQRT ? ")" : "", r->lr_scale);
}

static void print_optimizer(FILE *page, const cli_training *t)
{
    fprintf(page, "  optimizer   %s, ", yk_optimizer_name(t->optimizer));
    print_lr(page, t);
    if (hyperparameter(t, "momentum") > 0)
        fprintf(page, ", %smomentum %g", hyperparameter(t, "nesterov") > 0 ? "Nesterov " : "",
                hyperparameter(t, "momentum"));
    if (hyperparameter(t, "dampening") > 0)
        fprintf(page, " dampened by %g", hyperparameter(t, "dampening"));
    if (hyperparameter(t, "beta2") > 0)
        fprintf(page, ", betas %g %g", hyperparameter(t, "beta1"), hyperparameter(t, "beta2"));
    fprintf(page, ", weight decay %g%s\n", hyperparameter(t, "weight_decay"),
            yk_optimizer_group_count(t->optimizer) > 1 ? ", not on norms and biases" : "");
}

static void print_length(FILE *page, const char *before, int64_t length, const yk_schedule *s)
{
    fprintf(page, "%s%lld %s%s", before, (long long)length, s->per_step ? "step" : "epoch",
            length == 1 ? "" : "s");
}

static void print_schedule(FILE *page, const cli_training *t)
{
    const yk_schedule *s = &t->schedule;
    if (s->kind == YK_SCHEDULE_CONSTANT && s->warmup == 0)
        return;
    fprintf(page, "  schedule    %s", yk_schedule_name(s->kind));
    if (s->kind == YK_SCHEDULE_STEP)
        print_length(page, (char[32]){", every "}, s->step_size, s);
    for (int64_t i = 0; s->kind == YK_SCHEDULE_MULTISTEP && i < s->milestone_count; i++)
        print_length(page, i ? ", " : " after ", s->milestones[i], s);
    if (s->kind == YK_SCHEDULE_STEP || s->kind == YK_SCHEDULE_MULTISTEP)
        fprintf(page, " x %g", s->gamma);
    if (s->kind == YK_SCHEDULE_COSINE) {
        print_length(page, " over ", s->t_max, s);
        fprintf(page, " to %g", s->eta_min);
    }
    if (s->kind == YK_SCHEDULE_ONE_CYCLE) {
        print_length(page, " over ", s->total_steps, s);
        fprintf(page, " with its peak at %g", s->max_lr > 0 ? s->max_lr : t->lr);
    }
    if (s->warmup) {
        print_length(page, ", after a warm-up of ", s->warmup, s);
        fprintf(page, " from %.3g", s->warmup_factor * t->lr);
    }
    fputc('\n', page);
}

void cli_training_introduce_recipe(FILE *page, const cli_training *t)
{
    const cli_recipe *r = &t->options.recipe;
    print_optimizer(page, t);
    print_schedule(page, t);
    if (r->label_smoothing > 0)
        fprintf(page, "  loss        cross entropy, label smoothing %g\n", r->label_smoothing);
    if (r->clip_grad_norm > 0)
        fprintf(page, "  gradients   clipped to a norm of %g\n", r->clip_grad_norm);
    if (t->ema)
        fprintf(page,
                "  average     weights and statistics, decay %g; evaluated and saved as well\n",
                r->ema);
}

/* See recipe.h. */
#include "train/recipe.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

const cli_recipe cli_recipe_defaults = {.optimizer = "sgd",
                                        .lr_scale = "none",
                                        .schedule = "constant",
                                        .lr = -1,
                                        .momentum = -1,
                                        .weight_decay = -1,
                                        .beta1 = 0.9,
                                        .beta2 = 0.999,
                                        .eps = 1e-8,
                                        .gamma = 0.1,
                                        .pct_start = 0.3,
                                        .div_factor = 25,
                                        .final_div_factor = 1e4,
                                        .warmup_factor = 1.0 / 3};

static bool is(const char *text, const char *word)
{
    return strcmp(text, word) == 0;
}

void cli_recipe_complete(cli_recipe *r)
{
    r->rule = (cli_optimizer)cli_choice_index("sgd|adam|adamw", r->optimizer);
    r->scaling = (cli_lr_scale)cli_choice_index("none|linear|sqrt", r->lr_scale);
    r->kind =
        (yk_schedule_kind)cli_choice_index("constant|step|multistep|cosine|onecycle", r->schedule);
    r->per_step =
        r->schedule_unit ? is(r->schedule_unit, "step") : r->kind == YK_SCHEDULE_ONE_CYCLE;
    if (r->lr < 0)
        r->lr = r->rule == CLI_OPTIMIZER_SGD ? 0.1 : 1e-3;
    if (r->momentum < 0)
        r->momentum = r->rule == CLI_OPTIMIZER_SGD ? 0.9 : 0;
    if (r->weight_decay < 0)
        r->weight_decay = r->rule == CLI_OPTIMIZER_SGD     ? 5e-4
                          : r->rule == CLI_OPTIMIZER_ADAMW ? 0.01
                                                           : 0;
}

double cli_recipe_lr_factor(const cli_recipe *r, int ranks)
{
    return r->scaling == CLI_LR_SCALE_LINEAR ? ranks
           : r->scaling == CLI_LR_SCALE_SQRT ? sqrt(ranks)
                                             : 1;
}

/* ---- the schedule ---------------------------------------------------------------------------- */

static yk_status parse_milestones(yk_schedule *schedule, const char *text)
{
    schedule->milestone_count = 0;
    for (const char *at = text ? text : ""; *at;) {
        char *end;
        long long milestone = strtoll(at, &end, 10);
        if (end == at || (*end && (*end != ',' || !end[1])) ||
            schedule->milestone_count == YK_MAX_MILESTONES)
            return YK_ERROR_INVALID_ARGUMENT;
        schedule->milestones[schedule->milestone_count++] = milestone;
        at = end + (*end == ',');
    }
    return YK_OK;
}

yk_status cli_recipe_schedule(yk_schedule *s, const cli_recipe *r, double max_lr, int64_t epochs,
                              int64_t steps_per_epoch)
{
    int64_t unit = r->per_step ? steps_per_epoch : 1, warmup = r->warmup_epochs * unit;
    if (r->warmup_steps)
        warmup = r->warmup_steps;
    *s = (yk_schedule)YK_SCHEDULE_INIT;
    s->kind = r->kind;
    s->per_step = r->per_step;
    s->warmup = warmup;
    s->warmup_factor = r->warmup_factor;
    s->gamma = r->gamma;
    s->step_size = r->step_size;
    s->t_max = epochs * unit - warmup;
    s->eta_min = r->eta_min;
    s->total_steps = epochs * unit;
    s->max_lr = max_lr;
    s->pct_start = r->pct_start;
    s->div_factor = r->div_factor;
    s->final_div_factor = r->final_div_factor;
    s->cycle_momentum = !r->no_cycle_momentum;
    if (parse_milestones(s, r->milestones) != YK_OK)
        return YK_ERROR_INVALID_ARGUMENT;
    return yk_schedule_check(s);
}

/* ---- what contradicts ------------------------------------------------------------------------ */

/* Options that only some optimizers or schedules have. */
static const struct owned_option {
    const char *name;
    size_t given; /* offset */
    const char *owners;
} owned_options[] = {
#define GIVEN(field) offsetof(cli_recipe, given.field)
    {"momentum", GIVEN(momentum), "sgd"},
    {"dampening", GIVEN(dampening), "sgd"},
    {"beta1", GIVEN(beta1), "adam|adamw"},
    {"beta2", GIVEN(beta2), "adam|adamw"},
    {"eps", GIVEN(eps), "adam|adamw"},
    {"step-size", GIVEN(step_size), "step"},
    {"milestones", GIVEN(milestones), "multistep"},
    {"gamma", GIVEN(gamma), "step|multistep"},
    {"eta-min", GIVEN(eta_min), "cosine"},
    {"max-lr", GIVEN(max_lr), "onecycle"},
    {"pct-start", GIVEN(pct_start), "onecycle"},
    {"div-factor", GIVEN(div_factor), "onecycle"},
    {"final-div-factor", GIVEN(final_div_factor), "onecycle"},
#undef GIVEN
};

static bool check_owners(const char *name, const cli_recipe *r)
{
    for (size_t i = 0; i < sizeof owned_options / sizeof *owned_options; i++) {
        const struct owned_option *option = &owned_options[i];
        bool given = *((const bool *)r + option->given);
        if (!given || cli_is_choice(option->owners, r->optimizer) ||
            cli_is_choice(option->owners, r->schedule))
            continue;
        bool optimizers =
            cli_is_choice("sgd|adam|adamw", option->owners) || is(option->owners, "adam|adamw");
        cli_usage_error(name, "--%s applies to --%s %s, not %s", option->name,
                        optimizers ? "optimizer" : "schedule", option->owners,
                        optimizers ? r->optimizer : r->schedule);
        return false;
    }
    return true;
}

static const char *optimizer_trouble(const cli_recipe *r)
{
    if (!(r->lr > 0))
        return "--lr must be more than 0";
    if (r->nesterov && r->rule != CLI_OPTIMIZER_SGD)
        return "--nesterov requires --optimizer sgd";
    if (r->nesterov && (r->momentum == 0 || r->dampening != 0))
        return "--nesterov requires a --momentum above 0 and no --dampening";
    if (r->no_decay_norms && r->weight_decay == 0)
        return "--no-decay-norms requires a --weight-decay above 0";
    return NULL;
}

static const char *schedule_trouble(const cli_recipe *r, int64_t epochs)
{
    bool one_cycle = r->kind == YK_SCHEDULE_ONE_CYCLE, warmup = r->warmup_epochs || r->warmup_steps;
    if (r->kind == YK_SCHEDULE_STEP && r->step_size == 0)
        return "--schedule step needs a --step-size";
    if (r->kind == YK_SCHEDULE_MULTISTEP && !r->milestones)
        return "--schedule multistep needs --milestones, such as 30,60";
    if (one_cycle && !r->per_step)
        return "--schedule onecycle changes the rate at every step and cannot be combined with "
               "--schedule-unit epoch";
    if (one_cycle && warmup)
        return "--schedule onecycle has its own warm-up: remove --warmup-epochs and --warmup-steps";
    if (one_cycle && r->rule == CLI_OPTIMIZER_SGD && r->momentum == 0 && !r->no_cycle_momentum)
        return "--schedule onecycle cycles the momentum: set --momentum or --no-cycle-momentum";
    if (r->no_cycle_momentum && !one_cycle)
        return "--no-cycle-momentum requires --schedule onecycle";
    if (r->given.max_lr && r->given.lr)
        return "--max-lr and --lr both set the peak of --schedule onecycle: give one of them";
    if (r->warmup_epochs && r->warmup_steps)
        return "--warmup-epochs and --warmup-steps both set the warm-up: give one of them";
    if (r->warmup_steps && !r->per_step)
        return "--warmup-steps requires --schedule-unit step";
    if (r->given.warmup_factor && !warmup)
        return "--warmup-factor requires --warmup-epochs or --warmup-steps";
    if (r->kind == YK_SCHEDULE_COSINE && r->warmup_epochs >= epochs)
        return "--warmup-epochs must be less than --epochs with --schedule cosine";
    return NULL;
}

bool cli_recipe_check(const char *name, const cli_recipe *r, int64_t epochs)
{
    yk_schedule schedule;
    const char *trouble = optimizer_trouble(r);
    if (!trouble && !check_owners(name, r))
        return false;
    if (!trouble)
        trouble = schedule_trouble(r, epochs);
    /* How many steps an epoch has is not known yet: more than one warm-up needs. */
    if (!trouble &&
        cli_recipe_schedule(&schedule, r, YK_LR_INITIAL, epochs, r->warmup_steps + 1) != YK_OK)
        trouble = schedule.kind == YK_SCHEDULE_MULTISTEP
                      ? "--milestones: expected up to 32 increasing numbers from 1, such as 30,60"
                      : yk_last_error();
    if (trouble)
        cli_usage_error(name, "%s", trouble);
    return trouble == NULL;
}

/* The optimizer of `yoke train` and its schedule. */
#include <math.h>
#include <stdlib.h>

#include "setup.h"
#include "train/train.h"

/* ---- the learning rate ----------------------------------------------------------------------- */

static double lr_factor(const cli_train_options *o, int64_t ranks)
{
    return o->lr_scale == CLI_LR_SCALE_LINEAR ? (double)ranks
           : o->lr_scale == CLI_LR_SCALE_SQRT ? sqrt((double)ranks)
                                              : 1;
}

static yk_status parse_milestones(yk_schedule *schedule, const char *text)
{
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

int64_t cli_train_units(double epochs, int64_t per_epoch)
{
    const double rounding = 1e-9; /* 1.1 x 10 is a little more than 11 */
    return (int64_t)ceil(epochs * (double)per_epoch - rounding);
}

int64_t cli_train_steps(const cli_train_options *o, int64_t steps_per_epoch)
{
    return cli_train_units(o->epochs, steps_per_epoch);
}

yk_status cli_train_schedule(yk_schedule *s, const cli_train_options *o, int64_t ranks,
                             int64_t steps_per_epoch)
{
    int64_t unit = o->schedule.per_step ? steps_per_epoch : 1;
    *s = o->schedule;
    s->warmup = o->warmup_steps ? o->warmup_steps : o->warmup_epochs * unit;
    s->total_steps = cli_train_units(o->epochs, unit);
    s->t_max = s->total_steps - s->warmup;
    if (o->lr_groups)
        s->max_lr = YK_LR_INITIAL; /* each group's own: see cli_train_first_lr */
    else if (s->max_lr != YK_LR_INITIAL)
        s->max_lr *= lr_factor(o, ranks);
    if (parse_milestones(s, o->milestones) != YK_OK)
        return YK_ERROR_INVALID_ARGUMENT;
    return yk_schedule_check(s);
}

/* ---- the optimizer --------------------------------------------------------------------------- */

double cli_train_decay(const cli_train_options *o, double rate)
{
    if (!o->independent_decay)
        return o->weight_decay;
    return rate > 0 ? o->weight_decay / rate : 0; /* without a rate, nothing decays */
}

yk_muon_options cli_train_muon(const cli_training *t)
{
    const cli_train_options *o = &t->options;
    yk_muon_options muon = o->muon;
    muon.lr *= lr_factor(o, t->ranks);
    muon.weight_decay = muon.normalize ? 0 : cli_train_decay(o, muon.lr);
    return muon;
}

static yk_status create_muon(cli_training *t, const yk_sgd_options *rest)
{
    yk_muon_options muon = cli_train_muon(t);
    muon.sgd = *rest;
    return yk_muon_create(&t->optimizer, t->model, &muon);
}

static yk_status create_optimizer(cli_training *t)
{
    yk_sgd_options sgd = t->options.sgd;
    yk_adam_options adam = t->options.adam;
    sgd.lr = adam.lr = t->lr;
    sgd.weight_decay = adam.weight_decay = cli_train_decay(&t->options, t->lr);
    switch (t->options.optimizer) {
    case CLI_OPTIMIZER_SGD:
        return yk_sgd_create(&t->optimizer, t->model, &sgd);
    case CLI_OPTIMIZER_MUON:
        return create_muon(t, &sgd);
    case CLI_OPTIMIZER_ADAM:
    case CLI_OPTIMIZER_ADAMW:
        break;
    }
    return yk_adam_create(&t->optimizer, t->model, &adam);
}

size_t cli_train_muon_group(const cli_train_options *o)
{
    return o->optimizer == CLI_OPTIMIZER_MUON ? 1 : SIZE_MAX;
}

double cli_train_first_lr(const cli_train_options *o)
{
    return o->lr_groups && o->schedule.max_lr != YK_LR_INITIAL ? o->schedule.max_lr : o->lr;
}

bool cli_training_create_optimizer(cli_training *t)
{
    double factor = lr_factor(&t->options, t->ranks);
    t->lr = cli_train_first_lr(&t->options) * factor;
    return cli_ok(create_optimizer(t)) && cli_training_check_groups(t) &&
           cli_ok(cli_training_set_groups(t, factor));
}

/* Sets a hyperparameter in all groups except Muon's. */
static yk_status set_in_all(const cli_training *t, const char *name, double value)
{
    yk_status status = YK_OK;
    for (size_t g = 0; g < yk_optimizer_group_count(t->optimizer) && status == YK_OK; g++)
        if (g != cli_train_muon_group(&t->options))
            status = yk_optimizer_set_group_hyperparameter(t->optimizer, g, name, value);
    return status;
}

/* Whether the weight decay of a resumed run follows from its options: --independent-decay ties it
 * to the rate, and --no-independent-decay unties it. */
static bool overrides_decay(const cli_train_options *o)
{
    return o->given.weight_decay || o->given.independent_decay || o->independent_decay;
}

static yk_status override_muon(const cli_training *t)
{
    const cli_train_options *o = &t->options;
    yk_muon_options muon = cli_train_muon(t);
    const struct {
        const char *name;
        bool given;
        double value;
    } all[] = {{"lr", true, muon.lr},
               {"momentum", o->given.muon_momentum, muon.momentum},
               {"weight_decay", overrides_decay(o), muon.weight_decay},
               {"ns_steps", o->given.muon_steps, muon.ns_steps},
               {"normalize", o->given.muon_normalize, muon.normalize}};
    yk_status status = YK_OK;
    for (size_t i = 0; i < sizeof all / sizeof *all && status == YK_OK; i++)
        if (all[i].given)
            status = yk_optimizer_set_group_hyperparameter(t->optimizer, cli_train_muon_group(o),
                                                           all[i].name, all[i].value);
    return status;
}

yk_status cli_training_override_hyperparameters(cli_training *t)
{
    const cli_train_options *o = &t->options;
    const struct {
        const char *name;
        bool given;
        double value;
    } all[] = {{"lr", true, t->lr},
               {"momentum", o->given.momentum, o->sgd.momentum},
               {"dampening", o->given.dampening, o->sgd.dampening},
               {"beta1", o->given.beta1, o->adam.beta1},
               {"beta2", o->given.beta2, o->adam.beta2},
               {"eps", o->given.eps, o->adam.eps},
               {"weight_decay", overrides_decay(o), cli_train_decay(o, t->lr)}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        yk_status status = YK_OK;
        if (all[i].given)
            status = set_in_all(t, all[i].name, all[i].value);
        if (status != YK_OK)
            return status;
    }
    yk_status status = o->optimizer == CLI_OPTIMIZER_MUON ? override_muon(t) : YK_OK;
    return status == YK_OK ? cli_training_set_groups(t, lr_factor(o, t->ranks)) : status;
}

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

yk_status cli_train_schedule(yk_schedule *s, const cli_train_options *o, int64_t ranks,
                             int64_t steps_per_epoch)
{
    int64_t unit = o->schedule.per_step ? steps_per_epoch : 1;
    *s = o->schedule;
    s->warmup = o->warmup_steps ? o->warmup_steps : o->warmup_epochs * unit;
    s->t_max = o->trainer.epochs * unit - s->warmup;
    s->total_steps = o->trainer.epochs * unit;
    if (s->max_lr != YK_LR_INITIAL)
        s->max_lr *= lr_factor(o, ranks);
    if (parse_milestones(s, o->milestones) != YK_OK)
        return YK_ERROR_INVALID_ARGUMENT;
    return yk_schedule_check(s);
}

/* ---- the optimizer --------------------------------------------------------------------------- */

static yk_status create_optimizer(cli_training *t)
{
    yk_sgd_options sgd = t->options.sgd;
    yk_adam_options adam = t->options.adam;
    sgd.lr = adam.lr = t->lr;
    sgd.weight_decay = adam.weight_decay = t->options.weight_decay;
    return t->options.optimizer == CLI_OPTIMIZER_SGD
               ? yk_sgd_create(&t->optimizer, t->model, &sgd)
               : yk_adam_create(&t->optimizer, t->model, &adam);
}

/* Norms and biases go into a group of their own, number 1, where they are not in one yet. */
static yk_status exempt_norms(cli_training *t)
{
    yk_status status = YK_OK;
    if (t->options.decay_norms)
        return YK_OK;
    if (yk_optimizer_group_count(t->optimizer) == 1)
        status = yk_optimizer_add_param_group(t->optimizer, yk_filter_norms_and_biases, NULL, NULL);
    return status == YK_OK
               ? yk_optimizer_set_group_hyperparameter(t->optimizer, 1, "weight_decay", 0)
               : status;
}

bool cli_training_create_optimizer(cli_training *t)
{
    t->lr = t->options.lr * lr_factor(&t->options, t->ranks);
    return cli_ok(create_optimizer(t)) && cli_ok(exempt_norms(t)) &&
           cli_ok(cli_training_set_lr_groups(t, lr_factor(&t->options, t->ranks)));
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
               {"weight_decay", o->given.weight_decay, o->weight_decay}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        yk_status status = YK_OK;
        if (all[i].given)
            status = yk_optimizer_set_hyperparameter(t->optimizer, all[i].name, all[i].value);
        if (status != YK_OK)
            return status;
    }
    yk_status status = exempt_norms(t);
    return status == YK_OK ? cli_training_set_lr_groups(t, lr_factor(o, t->ranks)) : status;
}

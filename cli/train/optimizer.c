/* The optimizer of `yoke train`. */
#include "common/errors.h"
#include "train/train.h"

bool cli_train_has_betas(cli_optimizer optimizer)
{
    return optimizer == CLI_OPTIMIZER_ADAM || optimizer == CLI_OPTIMIZER_ADAMW ||
           optimizer == CLI_OPTIMIZER_NADAM || optimizer == CLI_OPTIMIZER_RADAM ||
           optimizer == CLI_OPTIMIZER_ADAMAX || optimizer == CLI_OPTIMIZER_LAMB;
}

bool cli_train_has_momentum(cli_optimizer optimizer)
{
    return optimizer == CLI_OPTIMIZER_SGD || optimizer == CLI_OPTIMIZER_RMSPROP ||
           optimizer == CLI_OPTIMIZER_LARS || optimizer == CLI_OPTIMIZER_MUON;
}

yk_muon_options cli_train_muon(const cli_training *t)
{
    const cli_train_options *o = &t->options;
    yk_muon_options muon = o->muon;
    muon.lr *= cli_train_lr_factor(o, t->ranks);
    muon.weight_decay = muon.normalize ? 0 : cli_train_decay(o, muon.lr);
    return muon;
}

static yk_status create_muon(cli_training *t, const yk_sgd_options *rest)
{
    yk_muon_options muon = cli_train_muon(t);
    muon.sgd = *rest;
    return yk_muon_create(&t->optimizer, t->model, &muon);
}

static yk_status create_nadam(cli_training *t, const yk_adam_options *o)
{
    yk_nadam_options nadam = t->options.nadam;
    nadam.lr = o->lr;
    nadam.beta1 = o->beta1;
    nadam.beta2 = o->beta2;
    nadam.eps = o->eps;
    nadam.weight_decay = o->weight_decay;
    return yk_nadam_create(&t->optimizer, t->model, &nadam);
}

static yk_status create_radam(cli_training *t, const yk_adam_options *o)
{
    yk_radam_options radam = YK_RADAM_OPTIONS_INIT;
    radam.lr = o->lr;
    radam.beta1 = o->beta1;
    radam.beta2 = o->beta2;
    radam.eps = o->eps;
    radam.weight_decay = o->weight_decay;
    radam.decoupled_weight_decay = t->options.nadam.decoupled_weight_decay;
    return yk_radam_create(&t->optimizer, t->model, &radam);
}

static yk_status create_adamax(cli_training *t, const yk_adam_options *o)
{
    yk_adamax_options adamax = YK_ADAMAX_OPTIONS_INIT;
    adamax.lr = o->lr;
    adamax.beta1 = o->beta1;
    adamax.beta2 = o->beta2;
    adamax.eps = o->eps;
    adamax.weight_decay = o->weight_decay;
    return yk_adamax_create(&t->optimizer, t->model, &adamax);
}

static yk_status create_adagrad(cli_training *t)
{
    const cli_train_options *o = &t->options;
    yk_adagrad_options adagrad = o->adagrad;
    adagrad.lr = t->lr;
    adagrad.eps = o->adam.eps;
    adagrad.weight_decay = cli_train_decay(o, t->lr);
    return yk_adagrad_create(&t->optimizer, t->model, &adagrad);
}

static yk_status create_adadelta(cli_training *t)
{
    const cli_train_options *o = &t->options;
    yk_adadelta_options adadelta = o->adadelta;
    adadelta.lr = t->lr;
    adadelta.eps = o->adam.eps;
    adadelta.weight_decay = cli_train_decay(o, t->lr);
    return yk_adadelta_create(&t->optimizer, t->model, &adadelta);
}

static yk_status create_rmsprop(cli_training *t)
{
    const cli_train_options *o = &t->options;
    yk_rmsprop_options rmsprop = o->rmsprop;
    rmsprop.lr = t->lr;
    rmsprop.eps = o->adam.eps;
    rmsprop.momentum = o->sgd.momentum;
    rmsprop.weight_decay = cli_train_decay(o, t->lr);
    return yk_rmsprop_create(&t->optimizer, t->model, &rmsprop);
}

static yk_status create_lars(cli_training *t, const yk_sgd_options *o)
{
    yk_lars_options lars = YK_LARS_OPTIONS_INIT;
    lars.lr = o->lr;
    lars.momentum = o->momentum;
    lars.weight_decay = o->weight_decay;
    lars.nesterov = o->nesterov;
    lars.trust_coefficient = t->options.trust_coefficient;
    return yk_lars_create(&t->optimizer, t->model, &lars);
}

static yk_status create_lamb(cli_training *t, const yk_adam_options *o)
{
    yk_lamb_options lamb = YK_LAMB_OPTIONS_INIT;
    lamb.lr = o->lr;
    lamb.beta1 = o->beta1;
    lamb.beta2 = o->beta2;
    lamb.eps = o->eps;
    lamb.weight_decay = o->weight_decay;
    return yk_lamb_create(&t->optimizer, t->model, &lamb);
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
    case CLI_OPTIMIZER_NADAM:
        return create_nadam(t, &adam);
    case CLI_OPTIMIZER_RADAM:
        return create_radam(t, &adam);
    case CLI_OPTIMIZER_ADAMAX:
        return create_adamax(t, &adam);
    case CLI_OPTIMIZER_ADAGRAD:
        return create_adagrad(t);
    case CLI_OPTIMIZER_ADADELTA:
        return create_adadelta(t);
    case CLI_OPTIMIZER_RMSPROP:
        return create_rmsprop(t);
    case CLI_OPTIMIZER_LARS:
        return create_lars(t, &sgd);
    case CLI_OPTIMIZER_LAMB:
        return create_lamb(t, &adam);
    case CLI_OPTIMIZER_MUON:
        return create_muon(t, &sgd);
    case CLI_OPTIMIZER_ADAM:
    case CLI_OPTIMIZER_ADAMW:
        break;
    }
    return yk_adam_create(&t->optimizer, t->model, &adam);
}

bool cli_training_create_optimizer(cli_training *t)
{
    double factor = cli_train_lr_factor(&t->options, t->ranks);
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

/* Of a resumed run. Where the schedule does not cycle the momentum, it may have done so before. */
static bool overrides_momentum(const cli_train_options *o)
{
    return !cli_train_cycles_momentum(o);
}

static yk_status override_muon(const cli_training *t)
{
    const cli_train_options *o = &t->options;
    yk_muon_options muon = cli_train_muon(t);
    const struct {
        const char *name;
        bool wanted;
        double value;
    } all[] = {{"lr", true, muon.lr},
               {"momentum", overrides_momentum(o), muon.momentum},
               {"weight_decay", overrides_decay(o) || o->given.muon_normalize, muon.weight_decay},
               {"ns_steps", o->given.muon_steps, muon.ns_steps},
               {"normalize", o->given.muon_normalize, muon.normalize}};
    yk_status status = YK_OK;
    for (size_t i = 0; i < sizeof all / sizeof *all && status == YK_OK; i++)
        if (all[i].wanted)
            status = yk_optimizer_set_group_hyperparameter(t->optimizer, cli_train_muon_group(o),
                                                           all[i].name, all[i].value);
    return status;
}

/* Nesterov momentum goes first and comes last, as it excludes values of the others. */
yk_status cli_training_override_hyperparameters(cli_training *t)
{
    const cli_train_options *o = &t->options;
    const bool betas = cli_train_has_betas(o->optimizer);
    const bool momentum = overrides_momentum(o), nesterov = o->sgd.nesterov;
    const struct {
        const char *name;
        bool wanted;
        double value;
    } all[] = {{"lr", true, t->lr},
               {"nesterov", o->given.nesterov && !nesterov, 0},
               {"momentum", momentum && cli_train_has_momentum(o->optimizer), o->sgd.momentum},
               {"dampening", o->given.dampening, o->sgd.dampening},
               {"nesterov", o->given.nesterov && nesterov, 1},
               {"beta1", momentum && betas, o->adam.beta1},
               {"beta2", o->given.beta2, o->adam.beta2},
               {"momentum_decay", o->given.momentum_decay, o->nadam.momentum_decay},
               {"decoupled_weight_decay", o->given.decoupled_weight_decay,
                o->nadam.decoupled_weight_decay},
               {"lr_decay", o->given.lr_decay, o->adagrad.lr_decay},
               {"rho", o->given.rho, o->adadelta.rho},
               {"alpha", o->given.alpha, o->rmsprop.alpha},
               {"eps", o->given.eps, o->adam.eps},
               {"trust_coefficient", o->given.trust_coefficient, o->trust_coefficient},
               {"weight_decay", overrides_decay(o), cli_train_decay(o, t->lr)}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        yk_status status = YK_OK;
        if (all[i].wanted)
            status = set_in_all(t, all[i].name, all[i].value);
        if (status != YK_OK)
            return status;
    }
    yk_status status = o->optimizer == CLI_OPTIMIZER_MUON ? override_muon(t) : YK_OK;
    return status == YK_OK ? cli_training_set_groups(t, cli_train_lr_factor(o, t->ranks)) : status;
}

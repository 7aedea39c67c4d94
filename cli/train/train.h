/* Between the files of `yoke train`: what was asked for, and what a run consists of. */
#ifndef YOKE_CLI_TRAIN_H
#define YOKE_CLI_TRAIN_H

#include <yoke/yoke.h>

#include "progress.h"
#include "setup.h"
#include "train/recipe.h"

enum { CLI_PATH = 4096, CLI_MAX_BATCH = 10000000, CLI_MAX_THREADS = 4096 };

typedef struct cli_train_options {
    const char *data, *arch, *device, *amp, *output, *comm_hook, *resume, *checkpoint;
    const char *parallel, *devices;  /* ddp, or dp over these devices */
    const char *trace, *trace_steps; /* where a timeline goes, and of which steps */
    yk_trace_options trace_window;
    const char *autocast; /* exceptions to mixed precision's policy, or NULL */
    int64_t epochs, batch_size, accumulate, check_divergence, seed, workers, nproc, threads;
    int64_t virtual_ranks, max_steps, save_every, keep, powersgd_rank, powersgd_start;
    int64_t growth_interval; /* of --amp fp16's loss scale, which is init_scale at first */
    double init_scale;
    cli_recipe recipe;
    double timeout_s, grace_s;
    bool no_winograd, memory_plan, sync_bn, zero;
    struct {
        bool arch, batch_size, seed, powersgd, scaler;
    } given; /* on the command line; a resumed run takes the others from its checkpoint */
    char kept[sizeof((yk_training_state *)0)->options]; /* what a checkpoint keeps of them */
    int argc;
    char **argv;
} cli_train_options;

/* Into how many equal shares a batch is cut: one for each rank, or virtual rank. */
int64_t cli_shares_of_batch(const cli_train_options *options, int64_t ranks);
/* Whether each rank's share of a batch can be cut into equal micro-batches; says so if not. */
bool cli_train_options_check_batch(const cli_train_options *options);
/* Whether all of it fits together; says so if not. Fills trace_window. Before a run that is gone on
 * with has been looked at, what its checkpoint may say is left out. */
bool cli_train_options_check(cli_train_options *options, bool checkpoint_known);
/* Parses and checks; -1 to go on, else the exit code. */
int cli_train_options_parse(cli_train_options *options, int argc, char **argv);
/* Once more, on top of the options that a checkpoint has kept. The texts of kept, which is cut into
 * words, stay in use. */
bool cli_train_options_go_on(cli_train_options *options, char *kept);

/* What the ranks tell each other after each backward. */
typedef struct cli_step_totals {
    double loss, samples, stopping;
} cli_step_totals;

/* A training run of one rank. */
typedef struct cli_trainer {
    cli_train_options options;
    yk_group *world;
    bool leads; /* rank 0: prints, writes metrics and checkpoints */
    yk_dataset *train_set, *test_set;
    yk_loader *train, *test;
    yk_model *model;
    yk_ddp *ddp;          /* NULL on one rank */
    yk_data_parallel *dp; /* NULL without --parallel dp */
    yk_zero *zero;        /* NULL without --zero */
    yk_optimizer *optimizer;
    yk_schedule schedule;
    yk_ema *ema; /* NULL without --ema */
    double lr;   /* that training starts with, scaled by the number of ranks where asked for */
    yk_grad_scaler *scaler; /* of --amp fp16, else NULL */
    yk_metrics *metrics;    /* of rank 0 */
    cli_progress *progress; /* of rank 0 */
    yk_trace *trace;        /* of all ranks; NULL without --trace */
    yk_training_state state;
    int64_t micro_batch, batches_per_epoch; /* of this rank: what the loader gives */
    int64_t steps_per_epoch;                /* of options.accumulate micro-batches */
    int shares;            /* of a step that this rank works off in turn; 1 without virtual ranks */
    cli_step_totals *news; /* (shares), and room for all ranks' */
    int threads;
    const char *threads_source;
    int64_t resumed_threads; /* of the checkpoint; 0 when there is none */
    bool hook_begins_anew;   /* although the run does not */
    char output[CLI_PATH], resumed[CLI_PATH];
    char arch[sizeof((yk_training_state *)0)->arch];               /* the checkpoint's */
    char resumed_options[sizeof((yk_training_state *)0)->options]; /* of the checkpoint, in words */
} cli_trainer;

/* The ranks of the run, or the virtual ones: what does not depend on where it runs. */
int cli_trainer_ranks(const cli_trainer *trainer);

/* Whether the last epoch, or the steps asked for, have ended but their evaluation is still to come:
 * a stop came between. */
bool cli_trainer_owes_evaluation(const cli_trainer *trainer);

/* Joins the job and builds everything; false: it has said why. Destroy in either case. */
bool cli_trainer_create(cli_trainer *trainer, const cli_train_options *options);
void cli_trainer_destroy(cli_trainer *trainer);

/* What the run will do and where each number comes from. */
void cli_trainer_introduce(const cli_trainer *trainer);

/* The recipe's side (follow_recipe.c): first the optimizer; where parameters have their last place
 * their averages; behind a checkpoint's hyperparameters the ones given anew; once the steps of an
 * epoch are known the schedule. */
bool cli_trainer_create_optimizer(cli_trainer *trainer);
bool cli_trainer_create_ema(cli_trainer *trainer);
bool cli_trainer_override_hyperparameters(cli_trainer *trainer);
bool cli_trainer_create_schedule(cli_trainer *trainer);
void cli_trainer_introduce_recipe(FILE *page, const cli_trainer *trainer);
/* From gradients to weights, and what is to be told of it: the gradients' norm before clipping and
 * the loss's scale in their backward, 0 where there is no clipping and no scaler. */
typedef struct cli_update {
    double grad_norm, scale;
} cli_update;
bool cli_trainer_update_weights(cli_trainer *trainer, cli_update *update);
bool cli_trainer_evaluate(cli_trainer *trainer, yk_evaluation *result);
/* The same for the averaged weights. */
bool cli_trainer_evaluate_ema(cli_trainer *trainer, yk_evaluation *result);

/* The ranks' side (ddp.c). Whether all of them were given the same of what a run is, which those
 * that were started by hand may not have been; the one that was not says so. */
bool cli_trainer_check_same_options(const cli_trainer *trainer);
/* Created once the model is there; NULL where there is one rank. */
bool cli_trainer_create_ddp(cli_trainer *trainer);
/* What the comm hook carried, where the run goes on. */
bool cli_trainer_load_hook(cli_trainer *trainer);
/* Shards the optimizer where that was asked for. */
bool cli_trainer_shard(cli_trainer *trainer);
void cli_trainer_introduce_ddp(FILE *page, const cli_trainer *trainer);
/*
 * Before the weights take a step: false when the sum of all ranks' losses is no number any more,
 * which one rank then says: the first whose own loss is none. A grad scaler skips such steps.
 */
bool cli_trainer_check_loss(const cli_trainer *trainer, double sum, double own);
/* After a step, every so many as asked for: false when the ranks are no longer the same. */
bool cli_trainer_check_divergence(const cli_trainer *trainer);

/* How the epoch has spent its time, as far as this process has seen it. */
typedef struct cli_epoch_times {
    double start_s, data_s, compute_s, exposed_comm_s;
} cli_epoch_times;
/* One step (step.c), begun at begin_s with `batch`; *stopping when a rank was asked to stop. */
bool cli_trainer_step(cli_trainer *trainer, const yk_batch *batch, cli_epoch_times *times,
                      double begin_s, bool *stopping);

#endif

/* Between the files of `yoke train`: its options, and the parts that they are translated into. */
#ifndef YOKE_CLI_TRAIN_H
#define YOKE_CLI_TRAIN_H

#include <yoke/yoke.h>

#include "progress.h"
#include "setup.h"
#include "train/recipe.h"

enum { CLI_PATH = 4096, CLI_MAX_BATCH = 10000000, CLI_MAX_THREADS = 4096, CLI_MAX_RANKS = 1024 };

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
        bool data, arch, batch_size, seed, powersgd, scaler, nproc;
    } given; /* on the command line; a resumed run takes the others from its checkpoint */
    /* What the optimizer of a resumed run was created with. */
    double saved_momentum;
    bool saved_no_decay_norms;
    /* What a checkpoint stores of them: lines NAME=VALUE. */
    char kept[sizeof((yk_training_state *)0)->program];
    int argc;
    char **argv;
} cli_train_options;

/* The number of equal parts that a batch is cut into: one for each rank, or virtual rank. */
int64_t cli_shares_of_batch(const cli_train_options *options, int64_t ranks);
/* Whether each part of a batch can be cut into equal micro-batches; prints an error if not. */
bool cli_train_options_check_batch(const cli_train_options *options);
/* Whether the options fit together; prints an error if not. Fills trace_window. Leaves out what
 * depends on a checkpoint until that has been read. */
bool cli_train_options_check(cli_train_options *options, bool checkpoint_known);
/* Parses and checks; -1 to continue, else the exit code. */
int cli_train_options_parse(cli_train_options *options, int argc, char **argv);
/* Parses again, on top of the options that a checkpoint has stored. */
bool cli_train_options_resume(cli_train_options *options, const char *stored);

/* A training run of one rank: the parts of its trainer, and what reports on it. */
typedef struct cli_training {
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
    yk_ema *ema;            /* NULL without --ema */
    yk_grad_scaler *scaler; /* NULL without --amp fp16 */
    yk_trainer *trainer;
    yk_metrics *metrics;    /* on rank 0 */
    cli_progress *progress; /* on rank 0 */
    yk_trace *trace;        /* NULL without --trace */
    double lr; /* that training starts with, scaled by the number of ranks where asked for */
    int64_t micro_batch; /* images of a batch of the loader */
    int64_t steps_per_epoch;
    int shares; /* virtual ranks that take turns on this rank; 1 without them */
    int threads;
    const char *threads_source;
    char output[CLI_PATH], resumed[CLI_PATH]; /* resumed: the checkpoint, "" in a new run */
    yk_training_state saved;                  /* in that checkpoint */
} cli_training;

/* The number of ranks, or of virtual ranks: what does not depend on where the run takes place. */
int cli_training_ranks(const cli_training *training);

/* Joins the job and builds everything; false: it has printed why. Destroy in either case. */
bool cli_training_create(cli_training *training, const cli_train_options *options);
void cli_training_destroy(cli_training *training);

/* Prints what the run will do and where each number comes from. */
void cli_training_introduce(const cli_training *training);

/* The optimizer (optimizer.c); its schedule, once the number of steps in an epoch is known; and,
 * on top of a checkpoint's hyperparameters, the options that were given again. */
bool cli_training_create_optimizer(cli_training *training);
bool cli_training_create_schedule(cli_training *training);
yk_status cli_training_override_hyperparameters(cli_training *training);
void cli_training_introduce_recipe(FILE *page, const cli_training *training);

/* The ranks (ddp.c). Whether all ranks were given the same options; those that were started by hand
 * may not have been. Prints an error on the rank that was not. */
bool cli_training_check_same_options(const cli_training *training);
/* Creates DDP; there is none on a single rank. */
bool cli_training_create_ddp(cli_training *training);
void cli_training_introduce_ddp(FILE *page, const cli_training *training);

#endif

/* Between the files of `yoke train`: its options, and the parts that they are translated into. */
#ifndef YOKE_CLI_TRAIN_H
#define YOKE_CLI_TRAIN_H

#include <yoke/yoke.h>

#include "common/progress.h"
#include "options/options.h"
#include "setup/setup.h"
#include "train/startup.h"
#include "train/step_log.h"

enum { CLI_PATH = 4096, CLI_MAX_BATCH = 10000000, CLI_MAX_RANKS = 1024 };

/* The choices of options, in the order of their words. */
#define CLI_OPTIMIZERS "sgd|adam|adamw|nadam|radam|adamax|adagrad|adadelta|rmsprop|lars|lamb|muon"
typedef enum cli_optimizer {
    CLI_OPTIMIZER_SGD,
    CLI_OPTIMIZER_ADAM,
    CLI_OPTIMIZER_ADAMW,
    CLI_OPTIMIZER_NADAM,
    CLI_OPTIMIZER_RADAM,
    CLI_OPTIMIZER_ADAMAX,
    CLI_OPTIMIZER_ADAGRAD,
    CLI_OPTIMIZER_ADADELTA,
    CLI_OPTIMIZER_RMSPROP,
    CLI_OPTIMIZER_LARS,
    CLI_OPTIMIZER_LAMB,
    CLI_OPTIMIZER_MUON
} cli_optimizer;
#define CLI_LR_SCALES "none|linear|sqrt"
typedef enum cli_lr_scale {
    CLI_LR_SCALE_NONE,
    CLI_LR_SCALE_LINEAR,
    CLI_LR_SCALE_SQRT
} cli_lr_scale;
#define CLI_LOSS_REDUCTIONS "mean|sum" /* yk_loss_reduction */
/* yk_schedule_kind */
#define CLI_SCHEDULES                                                                              \
    "constant|step|multistep|cosine|onecycle|triangle|warmrestarts|polynomial|exponential|cyclic"
#define CLI_CYCLE_MODES    "triangular|triangular2|exp_range" /* yk_cycle_mode */
#define CLI_WARMUP_METHODS "linear|constant"
#define CLI_UNITS          "epoch|step"
typedef enum cli_unit {
    CLI_UNIT_EPOCH,
    CLI_UNIT_STEP,
    CLI_UNIT_AUTO /* the schedule's own */
} cli_unit;
#define CLI_PARALLELS "ddp|dp"
typedef enum cli_parallel { CLI_PARALLEL_DDP, CLI_PARALLEL_DP } cli_parallel;
/* Between which of them local SGD averages weights. */
#define CLI_SYNC_BETWEENS "ranks|hosts"
typedef enum cli_sync_between { CLI_SYNC_RANKS, CLI_SYNC_HOSTS } cli_sync_between;
#define CLI_COMM_HOOKS "none|bf16|fp16|powersgd"
typedef enum cli_comm_hook {
    CLI_COMM_HOOK_NONE,
    CLI_COMM_HOOK_BF16,
    CLI_COMM_HOOK_FP16,
    CLI_COMM_HOOK_POWERSGD
} cli_comm_hook;

/* The options of the library's parts, and what is the program's own. */
typedef struct cli_train_options {
    const char *name; /* of the command, for usage errors */
    const char *data, *arch, *output, *checkpoint, *resume, *milestones;
    const char *recipe;              /* NULL: none */
    const char *whiten;              /* a parameter, or NULL */
    const char *freeze, *lr_groups;  /* patterns, and PATTERN=RATE; see fine_tune.c */
    const char *trace, *trace_steps; /* where a timeline goes, and of which steps */
    const char *metrics_file;        /* for Prometheus; NULL: none */
    yk_group_options group;
    yk_model_options model; /* threads: as given */
    yk_loader_options loader;
    int device_cache; /* MiB: see yk_loader_options.cache_bytes */
    yk_trainer_options trainer;
    yk_schedule schedule;           /* its lengths are known once the loader is made */
    double trust_coefficient;       /* of lars; what else it has is sgd's, as lamb has adam's */
    yk_muon_options muon;           /* of the filters; the rest is sgd's */
    yk_sgd_options sgd;             /* lr and weight_decay: see below */
    yk_adam_options adam;           /* likewise; its relatives have its betas and eps */
    yk_nadam_options nadam;         /* the rest is adam's; radam has its decoupled_weight_decay */
    yk_adagrad_options adagrad;     /* likewise, and eps is adam's */
    yk_adadelta_options adadelta;   /* likewise */
    yk_rmsprop_options rmsprop;     /* likewise, and momentum is sgd's */
    double lr, weight_decay;        /* NaN: the optimizer's default */
    double epochs;                  /* trainer.epochs, which is rounded up */
    yk_lookahead_options lookahead; /* decay 0: none */
    double ema;                     /* decay; 0: no average */
    double val_split; /* part of the training data that validates; 0: the data's own */
    double label_smoothing, grace_s;
    cli_augment augment;
    yk_grad_scaler_options scaler;
    yk_ddp_options ddp;
    yk_data_parallel_options dp;
    yk_powersgd_options powersgd;
    yk_local_sgd_options local_sgd; /* sync_every is 0 without it */
    cli_sync_between sync_between;
    yk_trace_options trace_window;
    cli_optimizer optimizer;
    cli_lr_scale lr_scale;
    cli_unit schedule_unit;
    int warmup_method; /* of CLI_WARMUP_METHODS */
    cli_parallel parallel;
    cli_comm_hook comm_hook;
    int64_t classes; /* of the network; 0: those of the data */
    cli_ranks nproc;
    int64_t batch_size, log_every, warmup_epochs, warmup_steps;
    bool decay_norms, independent_decay, memory_plan, sync_bn, zero, requeue;
    bool tensorboard, histograms;
    bool quiet, json;       /* nothing on stdout, or the records of metrics.jsonl */
    bool restarted;         /* by Slurm or by an elastic launcher */
    bool resumes_by_itself; /* restarted: --resume auto was not given */
    /* On the command line; a resumed run takes the others from its checkpoint. */
    struct {
        bool data, arch, batch_size, seed, devices, bucket_cap, powersgd, scaler, nproc;
        bool lr, momentum, dampening, beta1, beta2, eps, weight_decay, gamma, eta_min, max_lr;
        bool pct_start, div_factor, final_div_factor, warmup_factor, step_size, milestones;
        bool start_factor, end_factor, lookahead, tta_confidence, outer, sync_between;
        bool nesterov, muon_lr, muon_momentum, muon_steps, muon_normalize, independent_decay;
        bool trust_coefficient, alpha, rho, centered, amsgrad, lr_decay, initial_accumulator_value;
        bool t_0, t_mult, power, base_lr, step_size_up, step_size_down, cycle_mode;
        bool warmup_method, momentum_decay, decoupled_weight_decay;
    } given;
    /* What the optimizer of a resumed run was created with. */
    double saved_momentum, saved_accumulator;
    bool saved_centered, saved_amsgrad, saved_decay_norms;
    const char *saved_lr_groups; /* "": none */
    /* What a checkpoint stores of them: lines NAME=VALUE. */
    char kept[sizeof((yk_training_state *)0)->program];
    int argc;
    char **argv;
} cli_train_options;

/* The options of `yoke train`, for commands that pass them on. */
const cli_option *cli_train_options_table(size_t *count);
/* Parses and checks; -1 to continue, else the exit code. */
int cli_train_options_parse(cli_train_options *options, const char *name, int argc, char **argv);
/* Parses again, on top of the options that a checkpoint has stored. */
bool cli_train_options_resume(cli_train_options *options, const yk_training_state *saved);

/* Whether the options fit together; prints an error if not. Fills trace_window. Leaves out what
 * depends on a checkpoint until that has been read (check.c). */
bool cli_train_options_check(cli_train_options *options, bool checkpoint_known);
/* Whether each part of a batch can be cut into equal micro-batches; prints an error if not. */
bool cli_train_options_check_batch(const cli_train_options *options);
/* The number of equal parts that a batch is cut into: one for each rank, or virtual rank. */
int64_t cli_shares_of_batch(const cli_train_options *options, int64_t ranks);

/* ---- rates.c --------------------------------------------------------------------------------- */

/* So many epochs in units of which an epoch has per_epoch (1, or its steps), rounded up. */
int64_t cli_train_units(double epochs, int64_t per_epoch);
/* Steps of the whole training. */
int64_t cli_train_steps(const cli_train_options *options, int64_t steps_per_epoch);
/* The weight decay of a group of this rate. */
double cli_train_decay(const cli_train_options *options, double rate);
/* The schedule over epochs of so many steps. */
yk_status cli_train_schedule(yk_schedule *schedule, const cli_train_options *options,
                             int64_t steps_per_epoch);
/* Whether the schedule is a fall after the warm-up that ends with the training. */
bool cli_train_falls_to_the_end(const cli_train_options *options);
/* What --lr-scale multiplies rates by, with so many ranks. */
double cli_train_lr_factor(const cli_train_options *options, int64_t ranks);
/* Whether the optimizer has beta1 and beta2, and no momentum. */
bool cli_train_has_betas(cli_optimizer optimizer);
/* Whether it has a momentum, which may be 0. The others have neither. */
bool cli_train_has_momentum(cli_optimizer optimizer);
/* Whether --max-lr sets the peak of the schedule, as --lr would. */
bool cli_train_has_peak(const cli_train_options *options);
/* Whether the schedule goes up and down, whether momentum goes with it, and whether --gamma must be
 * given. */
bool cli_train_cycles(const cli_train_options *options);
bool cli_train_cycles_momentum(const cli_train_options *options);
bool cli_train_needs_gamma(const cli_train_options *options);
/* The rate of the first parameter group, whose peak it is; --lr-group and --muon-lr give the other
 * groups theirs. */
double cli_train_first_lr(const cli_train_options *options);

/* A training run of one rank: the parts of its trainer, and what reports on it. */
typedef struct cli_training {
    cli_train_options options;
    yk_group *world;
    bool leads; /* rank 0: writes metrics and checkpoints */
    bool talks; /* rank 0, unless --quiet or --json: prints for people */
    yk_dataset *train_set, *test_set;
    cli_transforms transforms;
    yk_loader *train, *test;
    yk_model *model;
    yk_group *host;       /* the ranks of this host with --sync-between hosts, or NULL */
    yk_ddp *ddp;          /* NULL on one rank, and with --sync-every and no host */
    yk_data_parallel *dp; /* NULL without --parallel dp */
    yk_zero *zero;        /* NULL without --zero */
    yk_local_sgd *local;  /* NULL without --sync-every */
    yk_optimizer *optimizer;
    yk_schedule schedule;
    yk_lookahead *lookahead; /* NULL without --lookahead */
    yk_ema *ema;             /* NULL without --ema */
    yk_grad_scaler *scaler;  /* NULL without --amp fp16 */
    yk_trainer *trainer;
    yk_metrics *metrics;   /* on rank 0, as the next five */
    cli_step_log step_log; /* steps that metrics and board have not been told of */
    cli_progress *progress;
    yk_tensorboard *board;     /* NULL without --tensorboard */
    yk_prometheus *prometheus; /* NULL without --metrics-file */
    yk_kubeflow *kubeflow;     /* NULL outside a TrainJob */
    cli_startup *startup;      /* NULL once the first step is done */
    yk_trace *trace;           /* NULL without --trace */
    int64_t ranks;       /* or virtual ranks: what does not depend on where the run takes place */
    int64_t micro_batch; /* images of a batch of the loader */
    int64_t steps_per_epoch;
    double lr;       /* that training starts with, scaled by the number of ranks where asked for */
    int stop_signal; /* that has ended the search for data on all ranks, or 0 */
    bool output_is_taken; /* by another run: a mistake in the options */
    int threads;
    const char *threads_source;
    char output[CLI_PATH], resumed[CLI_PATH]; /* resumed: the checkpoint, "" in a new run */
    yk_training_state saved;                  /* in that checkpoint */
} cli_training;

/* Joins the job and builds everything; false: it has printed why. Destroy in either case. */
bool cli_training_create(cli_training *training, const cli_train_options *options);
void cli_training_destroy(cli_training *training);

/* Agrees on the output folder, the checkpoint and its options, which all ranks need to have been
 * given alike (resume.c). */
bool cli_training_find(cli_training *training);

/* The optimizer (optimizer.c); and, on top of a checkpoint's hyperparameters, the options that were
 * given again. */
bool cli_training_create_optimizer(cli_training *training);
yk_status cli_training_override_hyperparameters(cli_training *training);

/* From here on no reader of the output keeps a run that is asked to stop (output.c). */
void cli_training_print_patiently(void);

/* What is reported of the run (reports.c). On rank 0: the record of a step, which is number
 * step_in_epoch of its epoch, and that of an epoch. */
bool cli_reports_open(cli_training *training);
yk_status cli_reports_step(cli_training *training, const yk_step_record *record,
                           int64_t step_in_epoch);
yk_status cli_reports_epoch(cli_training *training, const yk_epoch_record *record);
/* Training is over: the terminal is free for other lines. */
void cli_reports_end(cli_training *training, bool succeeded);
void cli_reports_close(cli_training *training);

/* Warns if a resumed run has another GPU or other libraries than before. Call it after the first
 * step, when all libraries are open. */
void cli_keep_device(const cli_training *t);

/* TensorBoard's part of it (board.c). */
bool cli_board_open(cli_training *training);
yk_status cli_board_epoch(const cli_training *training, const yk_epoch_record *record);

/* Prints what the run will do and where each number comes from (introduce.c). */
void cli_training_introduce(const cli_training *training);

/* ---- fine_tune.c ----------------------------------------------------------------------------- */

/* Loads --checkpoint, whose last layer may be for other classes. */
bool cli_training_load_weights(const cli_training *t);
/* Whether --freeze has left something to train. */
bool cli_training_check_frozen(const cli_training *t);

/* Muon's options with its rate scaled by --lr-scale, and its weight decay (optimizer.c). */
yk_muon_options cli_train_muon(const cli_training *t);

/* ---- groups.c -------------------------------------------------------------------------------- */

/* The number of the group that Muon updates; SIZE_MAX with another optimizer. */
size_t cli_train_muon_group(const cli_train_options *options);
/* Whether a text has the form PATTERN=RATE[:EPOCHS],... */
bool cli_lr_groups_are_valid(const char *text);
/* An error if a pattern of it matches no parameter of the graph; text may be NULL. */
yk_status cli_lr_groups_find(const char *text, yk_graph *graph);
/* Whether two such texts have the same patterns. */
bool cli_lr_groups_are_alike(const char *a, const char *b);
/* Whether each pattern of --lr-group has trained parameters of its own, and leaves some to --lr. If
 * not, says what is wrong. */
bool cli_training_check_groups(const cli_training *t);
/* Makes the parameter groups of --lr-group and --no-decay-norms where they are not there yet, and
 * sets their rates, times factor, and weight decay. */
yk_status cli_training_set_groups(cli_training *t, double factor);
/* Ends the training of the groups that have EPOCHS. Call it once steps_per_epoch is known. */
yk_status cli_training_end_groups(cli_training *t);

/* ---- recipes.c ------------------------------------------------------------------------------- */

/* Prints all recipes and their options. */
void cli_recipes_list(void);
/* Whether there is a recipe of this name; if not, prints a usage error of the command. */
bool cli_recipe_check(const char *command, const char *name);
/* The words of a recipe's options, valid until the next call; returns how many. */
int cli_recipe_words(const char *name, char **words, int most);
/* Prints a recipe and its options, for a page whose lines are wrapped. */
void cli_recipe_print(FILE *out, const char *name);
/* Prints a text with a space before each transform of a list but the first: there, lines can be
 * wrapped. */
void cli_print_transforms(FILE *out, const char *text, size_t length);

#endif

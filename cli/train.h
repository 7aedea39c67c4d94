/* Between the files of `yoke train`: what was asked for, and what a run consists of. */
#ifndef YOKE_CLI_TRAIN_H
#define YOKE_CLI_TRAIN_H

#include <yoke/yoke.h>

enum { YKI_PATH = 4096 };

typedef struct yki_train_options {
    const char *data, *arch, *device, *amp, *optimizer, *output, *resume, *checkpoint;
    const char *trace, *trace_steps; /* where a timeline goes, and of which steps */
    yk_trace_options trace_window;
    int64_t epochs, batch_size, accumulate, check_divergence, seed, workers, nproc, threads,
        max_steps, keep;
    const char *autocast; /* exceptions to mixed precision's policy, or NULL */
    double lr, momentum, weight_decay, timeout_s, grace_s;
    bool no_winograd, memory_plan, sync_bn;
    struct {
        bool arch, batch_size, lr, momentum, weight_decay, seed;
    } given; /* on the command line; a resumed run takes the others from its checkpoint */
} yki_train_options;

/* Parses and checks; -1 to go on, else the exit code. */
int yki_train_options_parse(yki_train_options *options, int argc, char **argv);

/* A training run of one rank. */
typedef struct yki_trainer {
    yki_train_options options;
    yk_group *world;
    bool leads; /* rank 0: prints, writes metrics and checkpoints */
    yk_dataset *train_set, *test_set;
    yk_loader *train, *test;
    yk_model *model;
    yk_ddp *ddp; /* NULL on one rank */
    yk_optimizer *optimizer;
    yk_metrics *metrics;   /* of rank 0 */
    yk_progress *progress; /* of rank 0 */
    yk_trace *trace;       /* of all ranks; NULL without --trace */
    yk_training_state state;
    int64_t micro_batch, batches_per_epoch; /* of this rank: what the loader gives */
    int64_t steps_per_epoch;                /* of options.accumulate micro-batches */
    int threads;
    const char *threads_source;
    char output[YKI_PATH], resumed[YKI_PATH];
} yki_trainer;

/* Joins the job and builds everything; false: it has said why. Destroy in either case. */
bool yki_trainer_create(yki_trainer *trainer, const yki_train_options *options);
void yki_trainer_destroy(yki_trainer *trainer);

/* What the run will do and where each number comes from. */
void yki_trainer_introduce(const yki_trainer *trainer);

/* The signal that has asked the run to stop, or 0. Asked again, the process just ends. */
int yki_stop_signal(void);
void yki_stop_on_signals(void);

#endif

/*
 * Inside a trainer. Files: trainer.c (life and the whole run), step.c (one step), record.c (its
 * loss and record), slow_rank.c (a rank that stays slower), save.c (checkpoints and resuming),
 * schedule_equal.c (comparing schedules), warnings.c (likely mistakes).
 *
 * Invariant: between steps the state says exactly where training is.
 */
#ifndef YKI_TRAINER_H
#define YKI_TRAINER_H

#include <yoke/train.h>

#include "base/clock.h"
#include "base/error.h"
#include "train/folders.h"
#include "train/losses.h"

/* What ranks tell each other in a step, one for each virtual rank: the losses of this step or,
 * where they are late, of the one before. */
typedef struct yki_step_totals {
    double loss, samples, stopping;
    double saved;   /* by rank 0: the checkpoint in the background is written */
    double tracing; /* a timeline is being recorded */
    double looking; /* for the rank that the others wait for */
} yki_step_totals;

/* How the epoch has spent its time, as far as this process has seen it. */
typedef struct yki_epoch_times {
    double start_s, data_s, compute_s, waiting_s, exposed_comm_s;
} yki_epoch_times;

/* Whether a rank stays slower than the others, within epochs too. */
typedef struct yki_slow_watch {
    double waiting_s, all_s; /* of this rank, since the last look */
    int64_t steps;           /* since then */
    int last;                /* the rank that was slower at the last look, or -1 */
    int named;               /* the rank that has been named in the log, or -1 */
} yki_slow_watch;

struct yk_trainer {
    yk_model *model;
    yk_optimizer *optimizer;
    yk_loader *loader;
    yk_trainer_options options; /* its texts are the trainer's own */
    yk_schedule schedule;
    yk_training_state state;
    yk_resume_report resumed;
    bool is_resumed;

    int rank;
    int virtual_ranks;       /* that take turns on this rank; 1 without them */
    yki_step_totals *totals; /* (virtual_ranks) of this rank, then room for those of all ranks */
    int64_t batches_per_step, batches_per_epoch; /* of the loader, on this rank */
    int64_t steps_per_epoch;
    yki_epoch_times times;
    yki_slow_watch slow;
    yki_losses losses;
    bool updates_early;    /* backward updates buckets, see parallel/bucket_updates.h */
    bool warned;           /* of settings that are probably mistakes */
    bool lags;             /* on_step may come one step late: see yki_trainer_tell_step */
    bool has_record;       /* `record` is complete, and on_step has not been called */
    bool awaits_loss;      /* or it has no loss yet: losses.taken are those of its step */
    bool undecided;        /* the optimizer does not know whether its last step was taken */
    double lr_before;      /* the rate of the update before the last one */
    yk_step_record record; /* of the last step */
    double record_s;       /* how long that has taken */
    int64_t bad_losses;    /* steps in a row whose loss was not finite, with a grad scaler */
    bool owes_save;        /* save_every steps have passed */
    int64_t saved_step;    /* of the newest checkpoint in the output folder; -1: none is known */
    yki_folder_view view;  /* of the output folder, once it has been looked at */
    bool has_looked;
    yk_checkpoint_saver *saver; /* on rank 0, with save_async */
    bool saving;      /* a checkpoint is being written in the background; same on all ranks */
    bool stop_asked;  /* by yk_trainer_stop, on this rank, since it last stopped */
    bool stopped;     /* agreed on by all ranks */
    int stop_signal;  /* agreed on at the end of fit */
    bool out_of_time; /* likewise */
    double end_s;     /* when Slurm ends the job, as a time of yki_now(); HUGE_VAL: not known */
    double save_s;    /* how long the last save has taken on rank 0, where it is known */
    double saving_s;  /* when the save in the background began */
};

/* Whether max_steps are done. */
static inline bool yki_steps_are_over(const yk_trainer *t)
{
    return t->state.step >= t->options.max_steps;
}

/* Whether there is only time left to save. */
static inline bool yki_is_out_of_time(const yk_trainer *t)
{
    return yki_now() >= t->end_s - t->options.stop_margin_s - t->save_s;
}

/* Whether this rank wants to stop. */
static inline bool yki_wants_to_stop(const yk_trainer *t)
{
    bool listens = t->options.stop_on_signals;
    return t->stop_asked || (listens && (yk_stop_signal() != 0 || yki_is_out_of_time(t)));
}

/* Whether ranks have the same weights, and the run may be saved: with local SGD, after an average.
 */
static inline bool yki_ranks_are_equal(const yk_trainer *t)
{
    return yk_local_sgd_steps(t->options.local_sgd) == 0;
}

/* What all ranks have agreed on. A request by yk_trainer_stop is honoured with it. */
static inline void yki_set_stopped(yk_trainer *t, bool stopped)
{
    t->stopped = stopped;
    t->stop_asked = t->stop_asked && !stopped;
}

/* Warns, once, about settings that are allowed, but are probably mistakes. */
void yki_trainer_warn(yk_trainer *t);
/* Collective: looks at the output folder for the first time, and says if it is not shared. */
yk_status yki_trainer_look(yk_trainer *t);
/* Whether this rank wants to look for a slower one, as all do after so many steps or seconds. */
bool yki_trainer_looks_for_slow_rank(const yk_trainer *t);
/* Collective: looks for a rank that stays slower, and names it in the log. */
yk_status yki_trainer_name_slow_rank(yk_trainer *t);
/* Saves; in the background where the options say so and final is false. */
yk_status yki_trainer_save(yk_trainer *t, bool final);
/* On rank 0: whether the checkpoint in the background has been written since the last call. */
yk_status yki_trainer_check_saved(const yk_trainer *t, double *saved);
/* After the ranks have agreed that it has. */
yk_status yki_trainer_saved(yk_trainer *t);

/* Trains one step. */
yk_status yki_trainer_step(yk_trainer *t);
/*
 * In a step that began at begin_s, before the update: adds up the losses of all ranks, and fails if
 * the sum is not finite. Where *late is set, these are the losses of the step before, and the
 * update is to be left out if *skip, unless it is NULL, is not 0.
 */
yk_status yki_trainer_share_losses(yk_trainer *t, double begin_s, yk_step_record *record,
                                   const double **skip, bool *late);
/* Completes the record after the update. */
yk_status yki_trainer_record_step(yk_trainer *t, double begin_s, yk_step_record *record, bool late);
/*
 * Calls on_step for the last step, unless that has been done. Reads what only the device knows: the
 * norm of the gradients, and whether the step was skipped. On an asynchronous device,
 * yk_trainer_fit tells of a step when the next one's passes have been entered, so that the device
 * always has work. The losses are read then, too, unless ranks can agree only through the host that
 * all of them are finite. On a host device, and where something other than another step follows, a
 * step is told at once.
 */
yk_status yki_trainer_tell_step(yk_trainer *t);
/* At the end of a run that a grad scaler has kept alive: an error if the last losses and that of
 * validation (0: none) are not finite, or if no step was taken; a warning if that may be because
 * the scale was too large for so few steps. */
yk_status yki_trainer_check_end(const yk_trainer *t, double loss);
/* After a failure: tells of the last step if its loss can be known without the other ranks. */
yk_status yki_trainer_tell_last_step(yk_trainer *t);
/* Waits until the optimizer knows whether its last step was taken; context is the trainer. */
yk_status yki_trainer_settle(void *context);
/* Sets the learning rate of step or epoch `at`, whichever the schedule counts. */
yk_status yki_trainer_set_rate(yk_trainer *t, int64_t at);
/* Fills in what the state says about the run and what does not change while it trains. */
void yki_trainer_describe(yk_trainer *t);

/* Whether two schedules give the same rates. */
bool yki_schedule_equal(const yk_schedule *a, const yk_schedule *b);

#endif

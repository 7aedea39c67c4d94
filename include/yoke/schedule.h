/**
 * @file
 * Learning-rate schedules: those of torch.optim.lr_scheduler in closed form, and a triangle. A
 * schedule is a plain value. The rate is a pure function of it, of how far training is, and of the
 * rate that training started with, so the schedule itself is all there is to save, and a resumed
 * run replays nothing.
 */
#ifndef YOKE_SCHEDULE_H
#define YOKE_SCHEDULE_H

#include <yoke/optim.h>

#include <math.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/** How the rate changes. */
typedef enum yk_schedule_kind {
    YK_SCHEDULE_CONSTANT,  /**< ConstantLR with factor 1 */
    YK_SCHEDULE_STEP,      /**< StepLR: multiplied by gamma every step_size */
    YK_SCHEDULE_MULTISTEP, /**< MultiStepLR: multiplied by gamma at each milestone */
    YK_SCHEDULE_COSINE,    /**< CosineAnnealingLR (Loshchilov, Hutter 2016): falls to eta_min over
                                t_max, then rises again */
    YK_SCHEDULE_ONE_CYCLE, /**< OneCycleLR (Smith, Topin 2017): rises to max_lr, then falls to
                                nearly 0, over total_steps; momentum (Adam: beta1) goes the other
                                way */
    YK_SCHEDULE_TRIANGLE,  /**< rises linearly from start_factor times the rate to the whole rate
                                over the first pct_start of total_steps, then falls linearly to
                                end_factor times the rate */
    YK_SCHEDULE_WARM_RESTARTS, /**< CosineAnnealingWarmRestarts (Loshchilov, Hutter 2016): falls to
                                    eta_min over t_0, then over t_mult times as long, and so on,
                                    each time from the whole rate */
    YK_SCHEDULE_POLYNOMIAL,    /**< PolynomialLR: falls to 0 over total_steps, as the remaining
                                    share of them to the power of power */
    YK_SCHEDULE_EXPONENTIAL,   /**< ExponentialLR: multiplied by gamma at every t */
    YK_SCHEDULE_CYCLIC         /**< CyclicLR (Smith 2017): rises linearly from base_lr to max_lr and
                                    falls again, over and over; momentum (Adam: beta1) goes the
                                    other way */
} yk_schedule_kind;

/** What later cycles of YK_SCHEDULE_CYCLIC have of the distance from base_lr to max_lr. */
typedef enum yk_cycle_mode {
    YK_CYCLE_TRIANGULAR,  /**< all of it */
    YK_CYCLE_TRIANGULAR2, /**< half as much as the cycle before */
    YK_CYCLE_EXP_RANGE    /**< gamma, at most 1, to the power of t */
} yk_cycle_mode;

/** Room for milestones in a yk_schedule. */
enum { YK_MAX_MILESTONES = 32 };

/** yk_schedule.max_lr: the rate that each parameter group started with. */
#define YK_LR_INITIAL (-1.0)

/**
 * A schedule. t, which all lengths count, starts at 0; it counts epochs or optimizer steps, as the
 * caller likes.
 */
typedef struct yk_schedule {
    yk_schedule_kind kind; /**< [YK_SCHEDULE_CONSTANT] */
    bool per_step;         /**< for the trainer, the caller and checkpoints: t counts optimizer
                                steps, not epochs, as it does in PyTorch where step() follows each
                                batch [false] */

    int64_t warmup;       /**< linear warm-up (LinearLR) while t < warmup, followed by the schedule
                               at t - warmup, as with SequentialLR; one-cycle, cyclic and triangle
                               warm up by themselves and take none [0] */
    double warmup_factor; /**< of the rate at t = 0, from 0 to 1 [1/3] */

    double gamma;      /**< factor of STEP, MULTISTEP and EXPONENTIAL, and of CYCLIC with
                            YK_CYCLE_EXP_RANGE [0.1] */
    int64_t step_size; /**< of STEP, at least 1 [0] */
    int64_t milestones[YK_MAX_MILESTONES]; /**< of MULTISTEP, in rising order [0] */
    int64_t milestone_count;               /**< how many there are [0] */

    int64_t t_max;  /**< of COSINE, at least 1 [0] */
    double eta_min; /**< of COSINE, the rate at t_max, and of WARM_RESTARTS, the one that
                         each cycle falls to [0] */

    int64_t total_steps; /**< of ONE_CYCLE, TRIANGLE and POLYNOMIAL (its total_iters), at
                              least 1; after them the last rate stays [0] */
    double max_lr;       /**< of ONE_CYCLE and CYCLIC: their peak for every group, or YK_LR_INITIAL
                              [YK_LR_INITIAL] */
    double pct_start; /**< of ONE_CYCLE and TRIANGLE: fraction of the steps in which the rate rises,
                         at least 0 and below 1 [0.3] */
    double div_factor;       /**< max_lr / first rate, above 0 [25] */
    double final_div_factor; /**< first rate / last rate, above 0 [1e4] */
    bool linear_anneal;      /**< straight lines instead of half cosines [false] */
    bool three_phase;        /**< fall to the first rate as fast as it rose, then to the last
                                  [false] */
    bool cycle_momentum;     /**< of ONE_CYCLE and CYCLIC: momentum (Adam: beta1) goes the other way
                                  [true] */
    double base_momentum;    /**< at the peak of the rate; CyclicLR's default is 0.8 [0.85] */
    double max_momentum;     /**< at the first and last rate; CyclicLR's default is 0.9 [0.95] */

    double start_factor; /**< of TRIANGLE: first rate / peak rate, from 0 to 1 [0.2] */
    double end_factor;   /**< of TRIANGLE: last rate / peak rate, from 0 to 1 [0] */

    int64_t t_0;    /**< of WARM_RESTARTS: length of the first cycle, at least 1 [0] */
    int64_t t_mult; /**< of WARM_RESTARTS: length of a cycle / that of the one before, at least 1
                         [1] */
    double power;   /**< of POLYNOMIAL, at least 0 [1] */

    double base_lr;         /**< of CYCLIC: the rate that each cycle starts from, at least 0 [0] */
    int64_t step_size_up;   /**< of CYCLIC: how long the rate rises, at least 1 [2000] */
    int64_t step_size_down; /**< of CYCLIC: how long it falls; 0: as long as it rises [0] */
    yk_cycle_mode cycle_mode; /**< of CYCLIC [YK_CYCLE_TRIANGULAR] */

    bool warmup_constant; /**< the warm-up has warmup_factor of the rate all the time (ConstantLR)
                               [false] */
} yk_schedule;

/** A constant rate, with PyTorch's defaults for the other kinds. */
#define YK_SCHEDULE_INIT                                                                           \
    {                                                                                              \
        YK_SCHEDULE_CONSTANT, false, 0, 1.0 / 3, 0.1, 0, {0}, 0, 0, 0, 0, YK_LR_INITIAL, 0.3, 25,  \
            1e4, false, false, true, 0.85, 0.95, 0.2, 0, 0, 1, 1, 0, 2000, 0, YK_CYCLE_TRIANGULAR, \
            false                                                                                  \
    }

/**
 * YK_ERROR_INVALID_ARGUMENT, saying what is wrong, for values that PyTorch refuses or that make no
 * sense.
 */
yk_status yk_schedule_check(const yk_schedule *schedule);

/** The rate at t for a group that started with initial_lr; NaN for a schedule that is NULL or that
 *  yk_schedule_check refuses, and for a t below 0. */
double yk_schedule_lr(const yk_schedule *schedule, int64_t t, double initial_lr);
/** The momentum at t of a one-cycle or cyclic schedule. Returns false and leaves *momentum
 * unchanged if the schedule does not change the momentum, or if yk_schedule_lr would return NaN. */
bool yk_schedule_momentum(const yk_schedule *schedule, int64_t t, double *momentum);

/**
 * Sets the rate (and momentum) of every parameter group for the step at t. Each rate starts from
 * the one that the optimizer was created with or that a setter gave it last, and is 0 once the
 * group's training has ended (yk_optimizer_set_group_end). Changes nothing and fails with
 * YK_ERROR_INVALID_ARGUMENT for a schedule that yk_schedule_check refuses, for a t below 0, and
 * where a momentum is to cycle that the optimizer does not have.
 */
yk_status yk_schedule_apply(const yk_schedule *schedule, yk_optimizer *optimizer, int64_t t);

/** "constant", "step", "multistep", "cosine", "onecycle", "triangle", "warmrestarts", "polynomial",
 *  "exponential", "cyclic"; NULL past the last. */
const char *yk_schedule_name(yk_schedule_kind kind);
/** "triangular", "triangular2", "exp_range"; NULL past the last. */
const char *yk_cycle_mode_name(yk_cycle_mode mode);

/** Room for every text of yk_schedule_describe. */
enum { YK_SCHEDULE_TEXT = 1024 };

/**
 * Describes the schedule of a group that starts with initial_lr, such as "cosine over 20 epochs to
 * 0, after a warm-up of 2 epochs from 0.0333". Writes at most size bytes to text, and returns it.
 */
const char *yk_schedule_describe(const yk_schedule *schedule, double initial_lr, char *text,
                                 size_t size);

/* ---- a rate that follows a measured value ---------------------------------------------------- */

/**
 * torch.optim.lr_scheduler.ReduceLROnPlateau: the learning rate is reduced once a value, such as
 * the validation loss, has stopped improving. Like a schedule it is a plain value, of which a
 * program that resumes saves the last three members. `bad` also tells when to stop early.
 */
typedef struct yk_plateau {
    double factor;    /**< of the rate at each reduction, from 0 to below 1 [0.1] */
    int64_t patience; /**< values in a row without an improvement that are put up with [10] */
    bool maximize;    /**< larger values are better, as of an accuracy [false] */
    double threshold; /**< least improvement that counts, at least 0 [1e-4] */
    bool absolute; /**< threshold is a difference rather than a share of the best value [false] */
    int64_t cooldown;      /**< values after a reduction that are not counted as bad [0] */
    double min_lr;         /**< the rate is not reduced below it [0] */
    double eps;            /**< smaller changes of the rate are not made [1e-8] */
    double best;           /**< the best value; NaN before the first one [NaN] */
    int64_t bad;           /**< values since then, or since the last reduction [0] */
    int64_t cooldown_left; /**< values that the cooldown still lasts [0] */
} yk_plateau;

/** PyTorch's defaults, before the first value. */
#define YK_PLATEAU_INIT                                                                            \
    {                                                                                              \
        0.1, 10, false, 1e-4, false, 0, 0, 1e-8, NAN, 0, 0                                         \
    }

/**
 * Takes in a value, usually after each epoch, and reduces the rate of every parameter group where
 * that is due; *reduced (may be NULL) says whether it was. Of several ranks, all call it with the
 * same value, as yk_evaluate returns it. YK_ERROR_INVALID_ARGUMENT, and nothing changes, for
 * members that PyTorch refuses or that make no sense. A value that is NaN never is an improvement.
 */
yk_status yk_plateau_step(yk_plateau *plateau, yk_optimizer *optimizer, double value,
                          bool *reduced);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif

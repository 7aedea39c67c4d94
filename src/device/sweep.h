/*
 * Sweeps: passes over many tensors at once, in one call and, on an asynchronous device, in one
 * kernel. Optimizers, clipping, averages, the gradient scaler and comparisons
 * between ranks are made of them.
 *
 * A sweep is prepared once, over spans: the tensors that take part in each place, all of `count`
 * elements. Spans are cut into chunks that depend on their sizes alone, so that threads share the
 * work evenly, and sums that are made by chunk and added up in order have the same bits for every
 * number of threads and every width of vectors.
 *
 * Everything that changes from step to step is read from the device's memory, see block.h: eight
 * coefficients for each group of spans, of which an operation may read fewer. The arithmetic of one
 * element is in sweep_rules.h.
 */
#ifndef YKI_SWEEP_H
#define YKI_SWEEP_H

#include <math.h>
#include <stdbool.h>

#include "base/random.h"
#include "device/memory.h"

/* What a sweep does, with a, b, ... for elements of at[0], at[1], ... and c for the coefficients of
 * the span's group. f32 and f64, if nothing else is said. */
typedef enum yki_sweep_op {
    YKI_SWEEP_COPY,     /* a = b; any dtype */
    YKI_SWEEP_SWAP,     /* a is exchanged with b; any dtype */
    YKI_SWEEP_ADD,      /* a = c[0] a + b */
    YKI_SWEEP_SCALE,    /* a = c[0] a */
    YKI_SWEEP_APPROACH, /* a = a + c[0] (b - a) */
    YKI_SWEEP_SQUARES,  /* result: a double, the sum of all a^2 */
    YKI_SWEEP_CLIP,     /* scales a so that all have a joint norm of at most a limit; see
                           yki_clip_coefficient, of the first group */
    YKI_SWEEP_LIMIT,    /* a is brought into the range from -c[0] to c[0]; NaN stays */
    YKI_SWEEP_UNSCALE,  /* a = c[0] a; result: a double, 1 if some a was not finite, else 0 */
    YKI_SWEEP_SGD,      /* value, gradient, momentum or NULL; see yki_sgd_coefficient */
    YKI_SWEEP_ADAM,     /* value, gradient, mean, mean of squares, the largest of these or NULL; see
                           yki_adam_coefficient */
    YKI_SWEEP_NADAM,    /* as ADAM without the largest, with the gradient in the step, too */
    YKI_SWEEP_ADAMAX,   /* value, gradient, mean, largest gradient so far, which fades */
    YKI_SWEEP_RMSPROP,  /* value, gradient, mean of squares, momentum or NULL, mean or NULL; see
                           yki_rmsprop_coefficient */
    YKI_SWEEP_ADADELTA, /* value, gradient, mean of squares, mean of squared updates */
    YKI_SWEEP_NORMS,    /* result: for each span two doubles, the sums of all a^2 and of all b^2 */
    YKI_SWEEP_LARS,     /* as SGD, with the trust ratios of LARS; result: what NORMS has left */
    YKI_SWEEP_MOMENTS,  /* updates the means as ADAM does, and leaves in the result for each span
                           the sums of squares of value and of LAMB's update */
    YKI_SWEEP_LAMB,     /* updates the value from the means; result: what MOMENTS has left */
    YKI_SWEEP_HASH      /* result: a uint64_t for each span, which differs if one byte does, and
                           else is the same with a probability of 2^-64; any dtype */
} yki_sweep_op;

enum { YKI_SWEEP_TENSORS = 5, YKI_SWEEP_COEFFICIENTS = 8 };

/* Of the updates of optimizers, MOMENTS and APPROACH, and of COPY and SWAP where they have
 * coefficients: not 0 where nothing is to be updated, which the device itself may have found. */
enum { YKI_SWEEP_SKIP = YKI_SWEEP_COEFFICIENTS - 1 };

/* Nothing is scaled where the norm is smaller already. */
typedef enum yki_clip_coefficient { YKI_CLIP_SQUARES, YKI_CLIP_MAX_NORM } yki_clip_coefficient;

/* b = keep b + take (g + decay value); value -= lr b, or lr (g + momentum b) for nesterov. */
typedef enum yki_sgd_coefficient {
    YKI_SGD_LR,
    YKI_SGD_MOMENTUM,
    YKI_SGD_KEEP,
    YKI_SGD_TAKE,
    YKI_SGD_DECAY,
    YKI_SGD_NESTEROV, /* 0 or 1 */
    YKI_LARS_TRUST    /* of LARS: its trust coefficient */
} yki_sgd_coefficient;

/* value = shrink value - step mean / (sqrt(square) / root + eps), with g + decay value in the
 * means. Where the largest squares are kept, as AMSGrad does, they take the place of square. */
typedef enum yki_adam_coefficient {
    YKI_ADAM_STEP,
    YKI_ADAM_BETA1,
    YKI_ADAM_BETA2,
    YKI_ADAM_ROOT,
    YKI_ADAM_EPS,
    YKI_ADAM_DECAY,
    YKI_ADAM_SHRINK
} yki_adam_coefficient;

/* NADAM's value = shrink value - (step mean + ahead g) / (sqrt(square) + eps), and ADAMAX's largest
 * = max(beta2 largest, |g| + eps) and value = value - step mean / largest, with Adam's names. */
enum { YKI_NADAM_AHEAD = YKI_ADAM_ROOT };

/* With g = gradient + decay value, square = alpha square + take g^2 and mean += take (g - mean),
 * u = g / (sqrt(square) + eps), or g / (sqrt(square - mean^2) + eps) where there is a mean;
 * value -= lr u, or, where there is a momentum, momentum = factor momentum + u and
 * value -= lr momentum. */
typedef enum yki_rmsprop_coefficient {
    YKI_RMSPROP_LR,
    YKI_RMSPROP_ALPHA,
    YKI_RMSPROP_EPS,
    YKI_RMSPROP_DECAY,
    YKI_RMSPROP_MOMENTUM, /* the factor */
    YKI_RMSPROP_TAKE      /* 1 - alpha; 1 for a sum instead of a mean, as Adagrad has it */
} yki_rmsprop_coefficient;

/* ADADELTA, with RMSprop's names: square = alpha square + take g^2, u = sqrt(updates + eps) /
 * sqrt(square + eps) g, updates = alpha updates + take u^2 and value -= lr u. */

/* LAMB's update is step mean / (sqrt(square) / root + eps) + decay value, with Adam's names. */
enum { YKI_LAMB_LR = YKI_ADAM_SHRINK };

/* Tensors of one dtype and of equal size; those that an operation does not use are NULL. */
typedef struct yki_span {
    void *at[YKI_SWEEP_TENSORS];
    int64_t count;
    yk_dtype dtype;
    int group; /* whose coefficients it takes */
} yki_span;

typedef struct yki_sweep yki_sweep;

yk_status yki_sweep_create(yki_sweep **sweep, yki_device *device, const yki_span *spans,
                           size_t count);
/* After all work that was entered. Accepts NULL. */
void yki_sweep_destroy(yki_sweep *sweep);

/* Moves a tensor of a span, or the span to another group, before the next run. */
void yki_sweep_move(yki_sweep *sweep, size_t span, int tensor, void *memory);
void yki_sweep_regroup(yki_sweep *sweep, size_t span, int group);
/* How often either has changed something: an earlier recording is stale if this differs. */
uint64_t yki_sweep_moves(const yki_sweep *sweep);

/* Enters a pass in the stream. Coefficients and the result, both NULL where the operation has none,
 * are in the device's memory. */
yk_status yki_sweep_run(yki_sweep *sweep, yki_sweep_op op, const double *coefficients, void *result,
                        yki_stream *stream);

/* ---- for devices ----------------------------------------------------------------------------- */

typedef struct yki_sweep_chunk {
    int64_t begin; /* element of the span */
    int32_t count;
    int32_t span;
} yki_sweep_chunk;

/* Whether what a pass finds is kept by span, as two numbers. */
static inline bool yki_sweep_finds_norms(yki_sweep_op op)
{
    return op == YKI_SWEEP_NORMS || op == YKI_SWEEP_MOMENTS;
}

/* One pass; all pointers are to the device's memory. */
typedef struct yki_sweep_args {
    yki_sweep_op op;
    const yki_span *spans;
    const yki_sweep_chunk *chunks;
    size_t span_count, chunk_count;
    const double *coefficients; /* (groups, YKI_SWEEP_COEFFICIENTS) */
    void *partial;              /* (chunks) of 16 bytes each, for results by chunk */
    void *result;
    yki_stream *stream;
} yki_sweep_args;

/* What clipping multiplies with; from 1 on, nothing is to be done. As in PyTorch, also for NaN. */
YKI_HOST_DEVICE double yki_clip_factor(const double *c)
{
    return c[YKI_CLIP_MAX_NORM] / (sqrt(c[YKI_CLIP_SQUARES]) + 1e-6);
}

/*
 * Trust ratios: what the updates of a whole tensor are multiplied with, by the norms of its values
 * and of its gradient or update. 1 where weights do not decay, as for norms and biases.
 */
YKI_HOST_DEVICE double yki_lars_ratio(const double *c, const double *squares)
{
    double value = sqrt(squares[0]), grad = sqrt(squares[1]), decay = c[YKI_SGD_DECAY];
    if (!(decay > 0 && value > 0 && grad > 0))
        return 1;
    return c[YKI_LARS_TRUST] * value / (grad + decay * value + 1e-8);
}

YKI_HOST_DEVICE double yki_lamb_ratio(const double *c, const double *squares)
{
    bool adapts = c[YKI_ADAM_DECAY] > 0 && squares[0] > 0 && squares[1] > 0;
    return adapts ? sqrt(squares[0]) / sqrt(squares[1]) : 1;
}

/* What a word of 8 bytes adds to the hash of its span: a map that is one to one, for each place. */
YKI_HOST_DEVICE uint64_t yki_sweep_hash(uint64_t word, uint64_t place)
{
    return yki_mix64(word ^ place * 0x9e3779b97f4a7c15u);
}

#endif

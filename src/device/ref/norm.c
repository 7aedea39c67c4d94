/*
 * batch_norm (Ioffe and Szegedy 2015) as torch.nn.BatchNorm computes it, with an optional residual
 * and activation after it, and its gradient. x is (N, C, H, W) or (N, C); a channel has N * H * W
 * values. Mean and variance take two passes over a channel, which avoids cancellation, or none
 * where the convolution that has made x gives the sums. If synchronised (run->sync), the ranks
 * exchange their results for all channels and continue with those of all ranks.
 */
#include "device/ref/ref.h"

#include <math.h>

#include "device/norm_rules.h"

#define YKI_REAL       double
#define YKI_RULE(name) name##_rule
#include "device/activation_rules.h"

/* The location of a channel's values: value i of `count` is at index(). */
typedef struct span {
    int64_t c, channels, pixels, count;
} span;

static span channel_of(const yk_tensor *x, int64_t c)
{
    int64_t pixels = x->ndim == 4 ? x->dims[2] * x->dims[3] : 1;
    return (span){c, x->dims[1], pixels, x->dims[0] * pixels};
}

static int64_t index(const span *channel, int64_t i)
{
    int64_t n = i / channel->pixels, pixel = i % channel->pixels;
    return (n * channel->channels + channel->c) * channel->pixels + pixel;
}

static yki_moments measure(const yk_tensor *x, const span *channel)
{
    double sum = 0, squares = 0, count = (double)channel->count;
    for (int64_t i = 0; i < channel->count; i++)
        sum += yki_ref_get(x, index(channel, i));
    double mean = count > 0 ? sum / count : 0;
    for (int64_t i = 0; i < channel->count; i++) {
        double distance = yki_ref_get(x, index(channel, i)) - mean;
        squares += distance * distance;
    }
    return (yki_moments){count, mean, squares};
}

/* What this rank has measured; sums of x and of its squares may be there already. */
static yki_moments moments_of(const yk_tensor *x, const yk_tensor *sums, const span *channel)
{
    if (!sums->data || channel->count == 0)
        return measure(x, channel);
    return yki_moments_of_sums((double)channel->count, yki_ref_get(sums, channel->c),
                               yki_ref_get(sums, channel->channels + channel->c));
}

static void move_running(const yk_tensor *running, int64_t c, double momentum, double value)
{
    yki_ref_set(running, c, (1 - momentum) * yki_ref_get(running, c) + momentum * value);
}

/* Sends this rank's moments to all ranks. */
static yk_status share_moments(const yki_sync *sync, const yk_tensor *x, const yk_tensor *sums)
{
    sync->mine[0] = (double)channel_of(x, 0).count;
    for (int64_t c = 0; c < x->dims[1]; c++) {
        span channel = channel_of(x, c);
        yki_moments found = moments_of(x, sums, &channel);
        yki_sync_put(sync, x->dims[1], c, found.mean, found.squares);
    }
    return sync->gather(sync, x->dims[1], NULL);
}

typedef struct statistics {
    double mean, variance; /* biased */
} statistics;

/* In training the statistics of the batch, which also update the running ones; in evaluation the
 * running ones. */
static statistics take_statistics(const yki_kernel *kernel, const yki_kernel_args *run,
                                  const span *channel)
{
    double momentum = yki_ref_attrs(kernel)->momentum;
    yk_tensor x = yki_ref_in(kernel, run, YKI_BATCH_NORM_X);
    yk_tensor running_mean = yki_ref_in(kernel, run, YKI_BATCH_NORM_RUNNING_MEAN); /* (C) */
    yk_tensor running_var = yki_ref_in(kernel, run, YKI_BATCH_NORM_RUNNING_VAR);   /* (C) */
    if (!yki_ref_training(kernel))
        return (statistics){yki_ref_get(&running_mean, channel->c),
                            yki_ref_get(&running_var, channel->c)};
    yk_tensor sums = yki_ref_in(kernel, run, YKI_BATCH_NORM_SUMS); /* (2, C) or absent */
    yki_moments batch = run->sync ? yki_sync_moments(run->sync, channel->channels, channel->c)
                                  : moments_of(&x, &sums, channel);
    move_running(&running_mean, channel->c, momentum, batch.mean);
    move_running(&running_var, channel->c, momentum, batch.squares / (batch.count - 1));
    return (statistics){batch.mean, batch.squares / batch.count};
}

/* What one channel is normalised with, and where from and to. */
typedef struct normal {
    yk_tensor x, residual, y;
    double mean, invstd, weight, bias;
    const yki_attrs *attrs;
} normal;

static void normalise(const normal *n, const span *channel)
{
    double slope = n->weight * n->invstd;
    for (int64_t i = 0; i < channel->count; i++) {
        int64_t element = index(channel, i);
        double value = (yki_ref_get(&n->x, element) - n->mean) * slope + n->bias;
        if (n->residual.data)
            value += yki_ref_get(&n->residual, element);
        yki_ref_set(&n->y, element, fused_rule(n->attrs->activation, value));
    }
}

/* Rounded as the outputs mean and invstd are, so that batch_norm_apply repeats the same bits. */
static double as_kept(const yk_tensor *x, double value)
{
    return yki_accumulate_dtype(x->dtype) == YK_F64 ? value : (float)value;
}

/* Without samples and without peers, the statistics stay as they are, and backward adds nothing. */
static yk_status skip_empty(const yki_kernel *kernel, const yki_kernel_args *run)
{
    for (int i = 1; i <= 2; i++) { /* mean, invstd */
        yk_tensor out = yki_ref_out(kernel, run, i);
        for (int64_t c = 0; out.data && c < out.dims[0]; c++)
            yki_ref_set(&out, c, 0);
    }
    return YK_OK;
}

static yk_status ref_batch_norm(const yki_kernel *kernel, const yki_kernel_args *run)
{
    yk_tensor x = yki_ref_in(kernel, run, YKI_BATCH_NORM_X); /* (N, C, H, W) or (N, C) */
    yk_tensor batches = yki_ref_in(kernel, run, YKI_BATCH_NORM_NUM_BATCHES_TRACKED);
    yk_tensor mean = yki_ref_out(kernel, run, YKI_BATCH_NORM_MEAN);     /* (C) */
    yk_tensor invstd = yki_ref_out(kernel, run, YKI_BATCH_NORM_INVSTD); /* (C) */
    bool training = yki_ref_training(kernel);
    double count = (double)channel_of(&x, 0).count;
    if (run->sync) {
        yk_tensor sums = yki_ref_in(kernel, run, YKI_BATCH_NORM_SUMS);
        YK_TRY(share_moments(run->sync, &x, &sums));
        count = yki_sync_count(run->sync, x.dims[1]);
    }
    if (training && x.dims[0] == 0 && !run->sync)
        return skip_empty(kernel, run);
    if (training && count < 2)
        return yki_too_few_values((int64_t)count);
    yk_tensor weight = yki_ref_in(kernel, run, YKI_BATCH_NORM_WEIGHT),
              bias = yki_ref_in(kernel, run, YKI_BATCH_NORM_BIAS);
    normal n = {.x = x,
                .residual = yki_ref_in(kernel, run, YKI_BATCH_NORM_RESIDUAL),
                .y = yki_ref_out(kernel, run, YKI_BATCH_NORM_Y),
                .attrs = yki_ref_attrs(kernel)};
    for (int64_t c = 0; c < x.dims[1]; c++) {
        span channel = channel_of(&x, c);
        statistics found = take_statistics(kernel, run, &channel);
        n.mean = as_kept(&x, found.mean);
        n.invstd = as_kept(&x, 1 / sqrt(found.variance + n.attrs->eps));
        n.weight = yki_ref_get(&weight, c);
        n.bias = yki_ref_get(&bias, c);
        if (mean.data)
            yki_ref_set(&mean, c, n.mean);
        if (invstd.data)
            yki_ref_set(&invstd, c, n.invstd);
        normalise(&n, &channel);
    }
    if (training && batches.data)
        *(int64_t *)batches.data += 1;
    return YK_OK;
}

static yk_status ref_batch_norm_apply(const yki_kernel *kernel, const yki_kernel_args *run)
{
    yk_tensor weight = yki_ref_in(kernel, run, YKI_BATCH_NORM_APPLY_WEIGHT),
              bias = yki_ref_in(kernel, run, YKI_BATCH_NORM_APPLY_BIAS);
    yk_tensor mean = yki_ref_in(kernel, run, YKI_BATCH_NORM_APPLY_MEAN),
              invstd = yki_ref_in(kernel, run, YKI_BATCH_NORM_APPLY_INVSTD);
    normal n = {.x = yki_ref_in(kernel, run, YKI_BATCH_NORM_APPLY_X),
                .residual = yki_ref_in(kernel, run, YKI_BATCH_NORM_APPLY_RESIDUAL),
                .y = yki_ref_out(kernel, run, YKI_BATCH_NORM_APPLY_Y),
                .attrs = yki_ref_attrs(kernel)};
    for (int64_t c = 0; c < n.x.dims[1]; c++) {
        span channel = channel_of(&n.x, c);
        n.mean = yki_ref_get(&mean, c);
        n.invstd = yki_ref_get(&invstd, c);
        n.weight = yki_ref_get(&weight, c);
        n.bias = yki_ref_get(&bias, c);
        normalise(&n, &channel);
    }
    return YK_OK;
}

/* ---- backward ------------------------------------------------------------------------------- */

/* The operands of backward, and one channel's constants. */
typedef struct backward {
    yk_tensor x, dy, y, dy2;
    yki_fused activation;
    double weight, bias, mean, invstd;
} backward;

static double normalised(const backward *b, int64_t element)
{
    return (yki_ref_get(&b->x, element) - b->mean) * b->invstd;
}

/* dy + dy2 times the slope of the activation, which is known from y or, without y, from bn(x). */
static double incoming(const backward *b, int64_t element)
{
    double dy = yki_ref_get(&b->dy, element) + (b->dy2.data ? yki_ref_get(&b->dy2, element) : 0);
    double y =
        b->y.data ? yki_ref_get(&b->y, element) : normalised(b, element) * b->weight + b->bias;
    return fused_backward_rule(b->activation, dy, y);
}

static void set_channel(backward *b, const yki_kernel *kernel, const yki_kernel_args *run,
                        int64_t c)
{
    yk_tensor weight = yki_ref_in(kernel, run, YKI_BATCH_NORM_BACKWARD_WEIGHT),
              bias = yki_ref_in(kernel, run, YKI_BATCH_NORM_BACKWARD_BIAS);
    yk_tensor mean = yki_ref_in(kernel, run, YKI_BATCH_NORM_BACKWARD_MEAN),
              invstd = yki_ref_in(kernel, run, YKI_BATCH_NORM_BACKWARD_INVSTD);
    b->weight = yki_ref_get(&weight, c);
    b->bias = yki_ref_get(&bias, c);
    b->mean = yki_ref_get(&mean, c);
    b->invstd = yki_ref_get(&invstd, c);
}

/* Sums over the `count` values of one channel: of g and of g h (see below). */
typedef struct sums {
    double sum, product, count;
} sums;

static sums add_up(const backward *b, const span *channel)
{
    sums s = {.count = (double)channel->count};
    for (int64_t i = 0; i < channel->count; i++) {
        double g = incoming(b, index(channel, i));
        s.sum += g;
        s.product += g * normalised(b, index(channel, i));
    }
    return s;
}

/* Sends this rank's sums to all ranks. */
static yk_status share_sums(const yki_sync *sync, backward *b, const yki_kernel *kernel,
                            const yki_kernel_args *run)
{
    int64_t channels = b->x.dims[1];
    sync->mine[0] = (double)channel_of(&b->x, 0).count;
    for (int64_t c = 0; c < channels; c++) {
        span channel = channel_of(&b->x, c);
        set_channel(b, kernel, run, c);
        sums own = add_up(b, &channel);
        yki_sync_put(sync, channels, c, own.sum, own.product);
    }
    return sync->gather(sync, channels, NULL);
}

/*
 * With the incoming gradient g, the normalised x called h, and n values per channel:
 * dbias = sum g; dweight = sum g h; dx = weight * invstd * (g - dbias / n - h * dweight / n).
 * In evaluation mean and invstd do not depend on x, so the two means are left out. If synchronised,
 * the sums and n in dx are those of all ranks; dweight and dbias remain this rank's share.
 */
static void backward_channel(const yki_kernel *kernel, const yki_kernel_args *run,
                             const backward *b, const span *channel)
{
    yk_tensor dx = yki_ref_out(kernel, run, YKI_BATCH_NORM_BACKWARD_DX);
    yk_tensor dresidual = yki_ref_out(kernel, run, YKI_BATCH_NORM_BACKWARD_DRESIDUAL);
    yk_tensor dweight = yki_ref_out(kernel, run, YKI_BATCH_NORM_BACKWARD_DWEIGHT);
    yk_tensor dbias = yki_ref_out(kernel, run, YKI_BATCH_NORM_BACKWARD_DBIAS);
    sums all = add_up(b, channel);
    if (dweight.data)
        yki_ref_set(&dweight, channel->c, all.product);
    if (dbias.data)
        yki_ref_set(&dbias, channel->c, all.sum);
    if (run->sync) {
        yki_sync_sums(run->sync, channel->channels, channel->c, &all.sum, &all.product);
        all.count = yki_sync_count(run->sync, channel->channels);
    }
    for (int64_t i = 0; i < channel->count; i++) {
        int64_t element = index(channel, i);
        double g = incoming(b, element), centred = g;
        if (yki_ref_training(kernel))
            centred -= (all.sum + normalised(b, element) * all.product) / all.count;
        if (dx.data)
            yki_ref_set(&dx, element, b->weight * b->invstd * centred);
        if (dresidual.data)
            yki_ref_set(&dresidual, element, g);
    }
}

static yk_status ref_batch_norm_backward(const yki_kernel *kernel, const yki_kernel_args *run)
{
    backward b = {.x = yki_ref_in(kernel, run, YKI_BATCH_NORM_BACKWARD_X),
                  .dy = yki_ref_in(kernel, run, YKI_BATCH_NORM_BACKWARD_DY),
                  .y = yki_ref_in(kernel, run, YKI_BATCH_NORM_BACKWARD_Y),
                  .dy2 = yki_ref_in(kernel, run, YKI_BATCH_NORM_BACKWARD_DY2),
                  .activation = yki_ref_attrs(kernel)->activation};
    if (run->sync)
        YK_TRY(share_sums(run->sync, &b, kernel, run));
    for (int64_t c = 0; c < b.x.dims[1]; c++) {
        span channel = channel_of(&b.x, c);
        set_channel(&b, kernel, run, c);
        backward_channel(kernel, run, &b, &channel);
    }
    return YK_OK;
}

const yki_kernel_impl yki_ref_batch_norm = {.op = &yki_op_batch_norm,
                                            .inplace = 1 << YKI_BATCH_NORM_X,
                                            .supports = yki_ref_supports,
                                            .prepare = yki_ref_prepare,
                                            .run = ref_batch_norm};
const yki_kernel_impl yki_ref_batch_norm_backward = {.op = &yki_op_batch_norm_backward,
                                                     .inplace = 1 << YKI_BATCH_NORM_BACKWARD_DY,
                                                     .supports = yki_ref_supports,
                                                     .prepare = yki_ref_prepare,
                                                     .run = ref_batch_norm_backward};
const yki_kernel_impl yki_ref_batch_norm_apply = {.op = &yki_op_batch_norm_apply,
                                                  .inplace = 1 << YKI_BATCH_NORM_APPLY_X,
                                                  .supports = yki_ref_supports,
                                                  .prepare = yki_ref_prepare,
                                                  .run = ref_batch_norm_apply};

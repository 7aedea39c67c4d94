/*
 * batch_norm, fused with the residual addition and the activation that follow it, and its gradient.
 * It is bound by memory: there are two sweeps over each channel block, and the second finds its
 * data in the cache.
 *
 * For accuracy, a value near the mean is subtracted from x before it is summed, in f32 over short
 * runs and in f64 beyond; slices are combined as in Chan, Golub and LeVeque (1979).
 *
 * If synchronised (run->sync), the ranks exchange the results of all slices between the sweeps.
 */
#include "device/cpu/norm.h"

#include <math.h>

#include "device/norm_rules.h"

enum { SHIFT_PIXELS = 16 /* whose mean is near enough to the channel's */ };

/* ---- operands and constants ----------------------------------------------------------------- */

static void *in(const yki_norm *k, const yki_kernel_args *run, int i)
{
    return k->in[i] ? run->in[i] : NULL;
}

static void *out(const yki_norm *k, const yki_kernel_args *run, int i)
{
    return k->out[i] ? run->out[i] : NULL;
}

/* Adds the sums of elements up to sums of channels. */
static void fold(const double *elements, int64_t b, double *channels)
{
    for (int64_t c = 0; c < b; c++)
        channels[c] = 0;
    for (int64_t e = 0; e < YKI_PERIOD; e++)
        channels[e % b] += elements[e];
}

/* Repeats the constants of channels for every element of a period; zero in padding channels. */
static void repeat(float *elements, const float *channels, int64_t b)
{
    for (int64_t e = 0; e < YKI_PERIOD; e++)
        elements[e] = channels[e % b];
}

/* ---- forward --------------------------------------------------------------------------------- */

/* A value near each channel's mean: the mean of the slice's first pixels. */
static void choose_shift(const yki_norm *k, const void *x, const yki_norm_unit *u, float *shift)
{
    static const float zero[YKI_PERIOD];
    yki_norm_sums sums = {{0}, {0}};
    yki_run_range range = {u->range.begin, u->range.begin + 1};
    while (range.end < u->range.end && yki_norm_pixels(&u->runs, range) < SHIFT_PIXELS)
        range.end++;
    k->loops->moments(&u->runs, range, x, zero, &sums);
    double total[YKI_NORM_MAX_BLOCK];
    fold(sums.first, k->shape.b, total);
    float mean[YKI_NORM_MAX_BLOCK];
    for (int64_t c = 0; c < k->shape.b; c++)
        mean[c] = (float)(total[c] / (double)yki_norm_pixels(&u->runs, range));
    repeat(shift, mean, k->shape.b);
}

static void norm_measure(const yki_norm *k, const yki_kernel_args *run, const yki_norm_unit *u)
{
    yki_norm_partial *p = &u->partials[u->slice];
    if (!k->training)
        return;
    if (u->range.begin == u->range.end) {
        *p = (yki_norm_partial){0};
        return;
    }
    float shift[YKI_PERIOD];
    choose_shift(k, run->in[YKI_BATCH_NORM_X], u, shift);
    yki_norm_sums sums = {{0}, {0}};
    k->loops->moments(&u->runs, u->range, run->in[YKI_BATCH_NORM_X], shift, &sums);
    p->count = (double)yki_norm_pixels(&u->runs, u->range);
    fold(sums.first, k->shape.b, p->first);
    fold(sums.second, k->shape.b, p->second);
    for (int64_t c = 0; c < k->shape.b; c++) {
        double distance = p->first[c] / p->count;
        p->second[c] -= p->first[c] * distance;
        p->first[c] = shift[c] + distance;
    }
}

static yki_moments combine(const yki_norm *k, const yki_norm_unit *u, int64_t c)
{
    yki_moments all = {0, 0, 0};
    for (int64_t s = 0; s < k->slices; s++) {
        const yki_norm_partial *p = &u->partials[s];
        all = yki_moments_merge(all, (yki_moments){p->count, p->first[c], p->second[c]});
    }
    return all;
}

static void found_moments(const yki_norm *k, const yki_kernel_args *run, const yki_norm_unit *u,
                          int64_t c, double *mean, double *squares)
{
    (void)run;
    yki_moments found = combine(k, u, c);
    *mean = found.mean;
    *squares = found.squares;
}

typedef struct statistics {
    double mean, variance, count; /* the variance is biased */
} statistics;

static statistics batch_statistics(const yki_norm *k, const yki_kernel_args *run,
                                   const yki_norm_unit *u, int64_t c)
{
    yki_moments m = run->sync ? yki_sync_moments(run->sync, k->shape.channels, u->channel + c)
                              : combine(k, u, c);
    double variance = m.squares < 0 ? 0 : m.squares / m.count; /* NaN stays NaN */
    return (statistics){m.mean, variance, m.count};
}

static void move(float *running, double momentum, double value)
{
    *running = (float)((1 - momentum) * *running + momentum * value);
}

/* The mean and 1 / std of one channel; the first slice of a block also stores them. */
static void settle(const yki_norm *k, const yki_kernel_args *run, const yki_norm_unit *u, int64_t c,
                   float *mean, float *invstd)
{
    int64_t channel = u->channel + c;
    float *running_mean = run->in[YKI_BATCH_NORM_RUNNING_MEAN],
          *running_var = run->in[YKI_BATCH_NORM_RUNNING_VAR];
    statistics s = {0, 0, 0};
    if (k->training)
        s = batch_statistics(k, run, u, c);
    else
        s = (statistics){running_mean[channel], running_var[channel], 0};
    *mean = (float)s.mean;
    *invstd = (float)(1 / sqrt(s.variance + k->eps));
    if (u->slice != 0)
        return;
    float *means = out(k, run, YKI_BATCH_NORM_MEAN), *invstds = out(k, run, YKI_BATCH_NORM_INVSTD);
    if (means)
        means[channel] = *mean;
    if (invstds)
        invstds[channel] = *invstd;
    if (k->training) {
        move(&running_mean[channel], k->momentum, s.mean);
        move(&running_var[channel], k->momentum, s.variance * s.count / (s.count - 1));
    }
}

/* The constants of y = (x - mean) * scale + bias, for forward and backward. */
static void set_constants(yki_norm_constants *constants, int64_t b, int64_t channels,
                          const float *mean, const float *invstd, const float *weight,
                          const float *bias)
{
    float m[YKI_NORM_MAX_BLOCK] = {0}, s[YKI_NORM_MAX_BLOCK] = {0}, o[YKI_NORM_MAX_BLOCK] = {0};
    for (int64_t c = 0; c < channels; c++) {
        m[c] = mean[c];
        s[c] = weight[c] * invstd[c];
        o[c] = bias[c];
    }
    repeat(constants->mean, m, b);
    repeat(constants->scale, s, b);
    repeat(constants->bias, o, b);
}

static void norm_normalise(const yki_norm *k, const yki_kernel_args *run, const yki_norm_unit *u)
{
    float mean[YKI_NORM_MAX_BLOCK], invstd[YKI_NORM_MAX_BLOCK];
    for (int64_t c = 0; c < u->channels; c++)
        settle(k, run, u, c, &mean[c], &invstd[c]);
    yki_norm_constants constants;
    set_constants(&constants, k->shape.b, u->channels, mean, invstd,
                  (const float *)run->in[YKI_BATCH_NORM_WEIGHT] + u->channel,
                  (const float *)run->in[YKI_BATCH_NORM_BIAS] + u->channel);
    yki_norm_forward operands = {.x = run->in[YKI_BATCH_NORM_X],
                                 .residual = in(k, run, YKI_BATCH_NORM_RESIDUAL),
                                 .y = run->out[YKI_BATCH_NORM_Y],
                                 .activation = k->activation,
                                 .stream = k->stream};
    k->loops->normalise(&u->runs, u->range, &operands, &constants);
}

/* Without samples and without peers, the statistics stay as they are, and backward adds nothing. */
static yk_status skip_empty(const yki_norm *k, const yki_kernel_args *run)
{
    float *means = out(k, run, YKI_BATCH_NORM_MEAN), *invstds = out(k, run, YKI_BATCH_NORM_INVSTD);
    for (int64_t c = 0; c < k->shape.channels; c++) {
        if (means)
            means[c] = 0;
        if (invstds)
            invstds[c] = 0;
    }
    return YK_OK;
}

static yk_status batch_norm(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const yki_norm *k = (const yki_norm *)kernel;
    const int64_t values = k->shape.images * k->shape.pixels;
    if (k->training && k->shape.images == 0 && !run->sync)
        return skip_empty(k, run);
    if (k->training && values < 2 && !run->sync)
        return yki_too_few_values(values);
    if (run->sync)
        YK_TRY(yki_norm_sweep_synced(k, run, norm_measure, found_moments, norm_normalise));
    else
        yki_norm_sweep(k, run, norm_measure, norm_normalise);
    int64_t *batches = in(k, run, YKI_BATCH_NORM_NUM_BATCHES_TRACKED);
    if (k->training && batches)
        ++*batches;
    return YK_OK;
}

/* ---- forward once more ----------------------------------------------------------------------- */

static void norm_apply_unit(const yki_norm *k, const yki_kernel_args *run, const yki_norm_unit *u)
{
    yki_norm_constants constants;
    set_constants(&constants, k->shape.b, u->channels,
                  (const float *)run->in[YKI_BATCH_NORM_APPLY_MEAN] + u->channel,
                  (const float *)run->in[YKI_BATCH_NORM_APPLY_INVSTD] + u->channel,
                  (const float *)run->in[YKI_BATCH_NORM_APPLY_WEIGHT] + u->channel,
                  (const float *)run->in[YKI_BATCH_NORM_APPLY_BIAS] + u->channel);
    yki_norm_forward operands = {.x = run->in[YKI_BATCH_NORM_APPLY_X],
                                 .residual = in(k, run, YKI_BATCH_NORM_APPLY_RESIDUAL),
                                 .y = run->out[YKI_BATCH_NORM_APPLY_Y],
                                 .activation = k->activation,
                                 .stream = k->stream};
    k->loops->normalise(&u->runs, u->range, &operands, &constants);
}

static yk_status batch_norm_apply(const yki_kernel *kernel, const yki_kernel_args *run)
{
    yki_norm_sweep_once((const yki_norm *)kernel, run, norm_apply_unit);
    return YK_OK;
}

/* ---- backward -------------------------------------------------------------------------------- */

/* Where dx takes the place of what the second sweep has just read, its lines are in the cache. */
static void choose_streams(const yki_norm *k, yki_norm_backward *operands)
{
    operands->stream_kept = k->stream_kept && operands->kept != operands->dx;
    if (operands->kept == operands->dx)
        operands->stream = false;
    else if (operands->dx == operands->dy)
        operands->stream = operands->kept && k->stream_kept;
    else
        operands->stream = k->stream;
}

static yki_norm_gate gate_of(const yki_norm *k, bool has_y)
{
    switch (k->activation) {
    case YKI_FUSED_NONE:
        return YKI_GATE_NONE;
    case YKI_FUSED_SILU:
        return YKI_GATE_SILU;
    case YKI_FUSED_HARDSWISH:
        return YKI_GATE_HARDSWISH;
    default:
        return has_y ? YKI_GATE_Y : YKI_GATE_X;
    }
}

static yki_norm_backward backward_operands(const yki_norm *k, const yki_kernel_args *run)
{
    yki_norm_backward operands = {.x = run->in[YKI_BATCH_NORM_BACKWARD_X],
                                  .dy = run->in[YKI_BATCH_NORM_BACKWARD_DY],
                                  .dy2 = in(k, run, YKI_BATCH_NORM_BACKWARD_DY2),
                                  .y = in(k, run, YKI_BATCH_NORM_BACKWARD_Y),
                                  .dx = out(k, run, YKI_BATCH_NORM_BACKWARD_DX),
                                  .kept = out(k, run, YKI_BATCH_NORM_BACKWARD_DRESIDUAL),
                                  .passing = k->activation == YKI_FUSED_RELU6 ? nextafterf(6, 0)
                                                                              : INFINITY,
                                  .constant = !k->training};
    operands.gate = gate_of(k, operands.y);
    if (!yki_fused_clamps(k->activation)) /* slopes take longer than to write g and read it again */
        operands.kept = operands.dx;
    choose_streams(k, &operands);
    return operands;
}

static yki_norm_constants backward_constants(const yki_norm *k, const yki_kernel_args *run,
                                             const yki_norm_unit *u)
{
    yki_norm_constants constants;
    set_constants(&constants, k->shape.b, u->channels,
                  (const float *)run->in[YKI_BATCH_NORM_BACKWARD_MEAN] + u->channel,
                  (const float *)run->in[YKI_BATCH_NORM_BACKWARD_INVSTD] + u->channel,
                  (const float *)run->in[YKI_BATCH_NORM_BACKWARD_WEIGHT] + u->channel,
                  (const float *)run->in[YKI_BATCH_NORM_BACKWARD_BIAS] + u->channel);
    return constants;
}

static void reduce(const yki_norm *k, const yki_kernel_args *run, const yki_norm_unit *u)
{
    yki_norm_sums sums = {{0}, {0}};
    yki_norm_backward operands = backward_operands(k, run);
    yki_norm_constants constants = backward_constants(k, run, u);
    k->loops->gradient_sums(&u->runs, u->range, &operands, &constants, &sums);
    yki_norm_partial *p = &u->partials[u->slice];
    fold(sums.first, k->shape.b, p->first);
    fold(sums.second, k->shape.b, p->second);
}

/* This rank's sum of g and of g h: the gradients of bias and weight. */
static void found_sums(const yki_norm *k, const yki_kernel_args *run, const yki_norm_unit *u,
                       int64_t c, double *sum, double *product)
{
    const float *invstd = run->in[YKI_BATCH_NORM_BACKWARD_INVSTD];
    *sum = *product = 0;
    for (int64_t s = 0; s < k->slices; s++) {
        *sum += u->partials[s].first[c];
        *product += u->partials[s].second[c] * invstd[u->channel + c];
    }
}

/*
 * With the gradient g that comes from relu, h = (x - mean) invstd, and n values per channel:
 * dbias = sum g; dweight = sum g h; dx = weight invstd (g - dbias / n - h dweight / n).
 * In evaluation mean and invstd do not depend on x, so the two means are left out. If synchronised,
 * dx uses the sums and n of all ranks; dweight and dbias remain this rank's share.
 */
static void derive(const yki_norm *k, const yki_kernel_args *run, const yki_norm_unit *u)
{
    const float *weight = run->in[YKI_BATCH_NORM_BACKWARD_WEIGHT],
                *invstd = run->in[YKI_BATCH_NORM_BACKWARD_INVSTD];
    float *dweight = out(k, run, YKI_BATCH_NORM_BACKWARD_DWEIGHT),
          *dbias = out(k, run, YKI_BATCH_NORM_BACKWARD_DBIAS);
    float a[YKI_NORM_MAX_BLOCK] = {0}, b[YKI_NORM_MAX_BLOCK] = {0},
          offset[YKI_NORM_MAX_BLOCK] = {0};
    double count = run->sync ? yki_sync_count(run->sync, k->shape.channels)
                             : (double)(k->shape.images * k->shape.pixels);
    for (int64_t c = 0; c < u->channels; c++) {
        int64_t channel = u->channel + c;
        double sum, product, slope = (double)weight[channel] * invstd[channel];
        found_sums(k, run, u, c, &sum, &product);
        if (dweight && u->slice == 0)
            dweight[channel] = (float)product;
        if (dbias && u->slice == 0)
            dbias[channel] = (float)sum;
        if (run->sync)
            yki_sync_sums(run->sync, k->shape.channels, channel, &sum, &product);
        a[c] = (float)slope;
        if (k->training) {
            b[c] = (float)(-slope * invstd[channel] * product / count);
            offset[c] = (float)(-slope * sum / count);
        }
    }
    yki_norm_backward operands = backward_operands(k, run);
    if (!operands.dx)
        return;
    yki_norm_constants constants = backward_constants(k, run, u);
    yki_norm_slopes slopes;
    repeat(slopes.a, a, k->shape.b);
    repeat(slopes.b, b, k->shape.b);
    repeat(slopes.c, offset, k->shape.b);
    k->loops->gradient(&u->runs, u->range, &operands, &constants, &slopes);
}

static yk_status batch_norm_backward(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const yki_norm *k = (const yki_norm *)kernel;
    if (run->sync)
        return yki_norm_sweep_synced(k, run, reduce, found_sums, derive);
    yki_norm_sweep(k, run, reduce, derive);
    return YK_OK;
}

/* ---- what is supported ----------------------------------------------------------------------- */

static bool is_vector(const yki_operand *operand)
{
    return operand->dtype == YK_F32 && operand->layout == YKI_PLAIN;
}

static bool norm_supports(const yki_device *device, const yki_kernel_desc *desc)
{
    (void)device;
    const yki_operand *x = &desc->in[YKI_BATCH_NORM_X];
    bool good = yki_is_float(x) && (x->ndim == 2 || x->ndim == 4) &&
                yki_alike(x, &desc->out[YKI_BATCH_NORM_Y]);
    for (int i = YKI_BATCH_NORM_WEIGHT; i <= YKI_BATCH_NORM_RUNNING_VAR; i++)
        good = good && is_vector(&desc->in[i]);
    return good && (!yki_has_in(desc, YKI_BATCH_NORM_RESIDUAL) ||
                    yki_alike(x, &desc->in[YKI_BATCH_NORM_RESIDUAL]));
}

static bool supports_apply(const yki_device *device, const yki_kernel_desc *desc)
{
    (void)device;
    const yki_operand *x = &desc->in[YKI_BATCH_NORM_APPLY_X];
    bool good = yki_is_float(x) && (x->ndim == 2 || x->ndim == 4) &&
                yki_alike(x, &desc->out[YKI_BATCH_NORM_APPLY_Y]);
    for (int i = YKI_BATCH_NORM_APPLY_WEIGHT; i <= YKI_BATCH_NORM_APPLY_INVSTD; i++)
        good = good && is_vector(&desc->in[i]);
    return good && (!yki_has_in(desc, YKI_BATCH_NORM_APPLY_RESIDUAL) ||
                    yki_alike(x, &desc->in[YKI_BATCH_NORM_APPLY_RESIDUAL]));
}

static bool supports_backward(const yki_device *device, const yki_kernel_desc *desc)
{
    (void)device;
    const yki_operand *x = &desc->in[YKI_BATCH_NORM_BACKWARD_X];
    bool good = yki_is_float(x) && (x->ndim == 2 || x->ndim == 4) &&
                yki_alike(x, &desc->in[YKI_BATCH_NORM_BACKWARD_DY]);
    for (int i = YKI_BATCH_NORM_BACKWARD_WEIGHT; i <= YKI_BATCH_NORM_BACKWARD_INVSTD; i++)
        good = good && is_vector(&desc->in[i]);
    for (int i = YKI_BATCH_NORM_BACKWARD_Y; i <= YKI_BATCH_NORM_BACKWARD_DY2; i++)
        good = good && (!yki_has_in(desc, i) || yki_alike(x, &desc->in[i]));
    const int outputs[] = {YKI_BATCH_NORM_BACKWARD_DX, YKI_BATCH_NORM_BACKWARD_DRESIDUAL};
    for (int i = 0; i < 2; i++)
        good = good && (!yki_has_out(desc, outputs[i]) || yki_alike(x, &desc->out[outputs[i]]));
    return good;
}

const yki_kernel_impl yki_cpu_batch_norm = {.op = &yki_op_batch_norm,
                                            .inplace = 1 << YKI_BATCH_NORM_X,
                                            .supports = norm_supports,
                                            .prepare = yki_norm_prepare,
                                            .run = batch_norm};
const yki_kernel_impl yki_cpu_batch_norm_apply = {.op = &yki_op_batch_norm_apply,
                                                  .inplace = 1 << YKI_BATCH_NORM_APPLY_X,
                                                  .supports = supports_apply,
                                                  .prepare = yki_norm_prepare,
                                                  .run = batch_norm_apply};
const yki_kernel_impl yki_cpu_batch_norm_backward = {.op = &yki_op_batch_norm_backward,
                                                     .inplace = 1 << YKI_BATCH_NORM_BACKWARD_DY,
                                                     .supports = supports_backward,
                                                     .prepare = yki_norm_prepare,
                                                     .run = batch_norm_backward};

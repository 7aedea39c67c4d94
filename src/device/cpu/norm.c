/*
 * batch_norm fused with the residual addition and relu behind it, and its gradient. Bound by
 * memory: two sweeps over each channel block, the second over what the first left in the cache.
 *
 * A unit of work is a slice of the images of one channel block. There is one slice a block when
 * the blocks share out evenly over the threads, so that a thread's two sweeps follow each other;
 * otherwise as many as make the units even, with a barrier between the sweeps. Sums are combined
 * in the order of slices: the result depends on the number of threads, never on their timing.
 *
 * Accuracy: sums are taken of x minus a value near the mean, in f32 over short runs and f64 above;
 * slices are combined as in Chan, Golub and LeVeque 1979.
 *
 * Synchronised (run->sync), the ranks exchange what all slices have found between the sweeps.
 */
#include <math.h>

#include "base/memory.h"
#include "device/cpu/geometry.h"
#include "device/cpu/loops.h"

enum { X, WEIGHT, BIAS, RUNNING_MEAN, RUNNING_VAR, BATCHES, RESIDUAL };
enum { Y, MEAN, INVSTD };
enum { B_X, B_DY, B_WEIGHT, B_BIAS, B_MEAN, B_INVSTD, B_Y, B_DY2 };
enum { DX, DWEIGHT, DBIAS, DRESIDUAL };

enum {
    MAX_BLOCK = 16,
    RUN = 4096,        /* elements of a run at most: 16 KiB, a part of the first-level cache */
    SHIFT_PIXELS = 16, /* whose mean is near enough to the channel's */
    STREAM = 1 << 25 /* bytes of a result that no cache keeps until it is read: see bench/kernels */
};

/* What a slice knows of its channels: count, mean, squared distances; in backward two sums. */
typedef struct partial {
    double count;
    double first[MAX_BLOCK], second[MAX_BLOCK];
} partial;

typedef struct norm {
    yki_kernel base;
    const yki_cpu_loops *loops;
    yki_geometry shape;
    yki_runs runs; /* of block 0 */
    int64_t run_count, slices;
    int team;
    bool training, relu, stream;
    double eps, momentum;
    bool in[YKI_MAX_IN], out[YKI_MAX_OUT]; /* which operands there are */
} norm;

/* ---- preparation ------------------------------------------------------------------------------
 */

/* A channel of one pixel: channels are neighbours in memory and make blocks themselves. */
static void widen_block(yki_geometry *shape)
{
    while (shape->pixels == 1 && shape->b < MAX_BLOCK && shape->channels % (2 * shape->b) == 0)
        shape->b *= 2;
    shape->blocks = (shape->channels + shape->b - 1) / shape->b;
}

static int64_t common_divisor(int64_t a, int64_t b)
{
    return b == 0 ? a : common_divisor(b, a % b);
}

static void divide_work(norm *k, const yki_device *device, yk_dtype dtype)
{
    yki_geometry *g = &k->shape;
    int64_t image = g->blocks * g->pixels * g->b;
    k->runs = (yki_runs){
        .dtype = dtype, .b = g->b, .pixels = g->pixels, .image = image, .run = RUN / g->b};
    k->runs.runs_an_image = (g->pixels + k->runs.run - 1) / k->runs.run;
    k->run_count = g->images * k->runs.runs_an_image;
    k->team = yki_team(device, g->images * image);
    k->slices = k->team / common_divisor(k->team, g->blocks);
    if (k->slices > k->run_count)
        k->slices = k->run_count > 0 ? k->run_count : 1; /* without samples: one, empty */
    k->base.scratch = (size_t)(g->blocks * k->slices) * sizeof(partial);
}

static yk_status prepare(yki_device *device, const yki_kernel_desc *desc, yki_kernel **kernel)
{
    norm *k = yki_calloc(1, sizeof *k);
    if (!k)
        return yki_error_memory(sizeof *k, "a batch_norm kernel");
    k->loops = yki_cpu_loops_of(device);
    k->shape = yki_geometry_of(device, &desc->in[X]);
    if (desc->in[X].layout == YKI_PLAIN)
        widen_block(&k->shape);
    divide_work(k, device, desc->in[X].dtype);
    k->stream = yki_operand_bytes(device, &desc->in[X]) >= STREAM;
    k->training = desc->training;
    k->relu = desc->attrs->relu;
    k->eps = desc->attrs->eps;
    k->momentum = desc->attrs->momentum;
    for (int i = 0; i < YKI_MAX_IN; i++)
        k->in[i] = yki_has_in(desc, i);
    for (int i = 0; i < YKI_MAX_OUT; i++)
        k->out[i] = yki_has_out(desc, i);
    *kernel = &k->base;
    return YK_OK;
}

static void *in(const norm *k, const yki_run *run, int i)
{
    return k->in[i] ? run->in[i] : NULL;
}

static void *out(const norm *k, const yki_run *run, int i)
{
    return k->out[i] ? run->out[i] : NULL;
}

/* ---- units of work ----------------------------------------------------------------------------
 */

typedef struct unit {
    int64_t block, slice, channel, channels; /* the block's first channel, and how many it has */
    yki_runs runs;
    yki_run_range range;
    partial *partials; /* all slices of the block */
} unit;

static unit unit_of(const norm *k, const yki_run *run, int64_t index)
{
    const yki_geometry *g = &k->shape;
    unit u = {.block = index / k->slices, .slice = index % k->slices, .runs = k->runs};
    u.channel = u.block * g->b;
    u.channels = g->channels - u.channel < g->b ? g->channels - u.channel : g->b;
    u.runs.base = u.block * g->pixels * g->b;
    u.range = (yki_run_range){k->run_count * u.slice / k->slices,
                              k->run_count * (u.slice + 1) / k->slices};
    u.partials = (partial *)run->scratch + u.block * k->slices;
    return u;
}

/* Pixels in the first `end` runs. */
static int64_t pixels_before(const yki_runs *runs, int64_t end)
{
    return end / runs->runs_an_image * runs->pixels + end % runs->runs_an_image * runs->run;
}

static int64_t pixels_in(const yki_runs *runs, yki_run_range range)
{
    return pixels_before(runs, range.end) - pixels_before(runs, range.begin);
}

/* Sums by element folded into sums by channel. */
static void fold(const double *elements, int64_t b, double *channels)
{
    for (int64_t c = 0; c < b; c++)
        channels[c] = 0;
    for (int64_t e = 0; e < YKI_PERIOD; e++)
        channels[e % b] += elements[e];
}

/* Constants by channel repeated for every element of a period; zero in padding channels. */
static void repeat(float *elements, const float *channels, int64_t b)
{
    for (int64_t e = 0; e < YKI_PERIOD; e++)
        elements[e] = channels[e % b];
}

typedef void (*unit_fn)(const norm *k, const yki_run *run, const unit *u);

static void sweep_once(const norm *k, const yki_run *run, unit_fn function)
{
#pragma omp parallel num_threads(k->team) if (k->team > 1)
    {
        int64_t begin, end;
        yki_share(k->shape.blocks * k->slices, &begin, &end);
        for (int64_t i = begin; i < end; i++) {
            unit u = unit_of(k, run, i);
            function(k, run, &u);
        }
    }
}

/* Both sweeps over all units. */
static void sweep(const norm *k, const yki_run *run, unit_fn first, unit_fn second)
{
#pragma omp parallel num_threads(k->team) if (k->team > 1)
    {
        int64_t begin, end;
        yki_share(k->shape.blocks * k->slices, &begin, &end);
        for (int64_t i = begin; i < end; i++) {
            unit u = unit_of(k, run, i);
            first(k, run, &u);
            if (k->slices == 1)
                second(k, run, &u);
        }
        if (k->slices > 1) {
#pragma omp barrier
            for (int64_t i = begin; i < end; i++) {
                unit u = unit_of(k, run, i);
                second(k, run, &u);
            }
        }
    }
}

static yk_status too_few(double count)
{
    if (count >= 2)
        return YK_OK;
    return yki_error(YK_INVALID_SHAPE,
                     "batch_norm: a channel of %g value%s has no variance to "
                     "train with; use a larger batch",
                     count, count == 1 ? "" : "s");
}

/* What this rank has found for a channel: the two numbers that the ranks exchange. */
typedef void (*found_fn)(const norm *k, const yki_run *run, const unit *u, int64_t c, double *first,
                         double *second);

/* Both sweeps with the ranks' exchange between them. */
static yk_status sweep_synced(const norm *k, const yki_run *run, unit_fn first, found_fn found,
                              unit_fn second)
{
    const yki_sync *sync = run->sync;
    int64_t channels = k->shape.channels;
    sweep_once(k, run, first);
    sync->mine[0] = (double)(k->shape.images * k->shape.pixels);
    for (int64_t block = 0; block < k->shape.blocks; block++) {
        unit u = unit_of(k, run, block * k->slices);
        for (int64_t c = 0; c < u.channels; c++) {
            double a, b;
            found(k, run, &u, c, &a, &b);
            yki_sync_put(sync, channels, u.channel + c, a, b);
        }
    }
    YK_TRY(sync->gather(sync, channels));
    YK_TRY(too_few(yki_sync_count(sync, channels))); /* known to all ranks alike */
    sweep_once(k, run, second);
    return YK_OK;
}

/* ---- forward ----------------------------------------------------------------------------------
 */

/* A value near each channel's mean: that of the slice's first pixels. */
static void choose_shift(const norm *k, const void *x, const unit *u, float *shift)
{
    static const float zero[YKI_PERIOD];
    yki_norm_sums sums = {{0}, {0}};
    yki_run_range range = {u->range.begin, u->range.begin + 1};
    while (range.end < u->range.end && pixels_in(&u->runs, range) < SHIFT_PIXELS)
        range.end++;
    k->loops->moments(&u->runs, range, x, zero, &sums);
    double total[MAX_BLOCK];
    fold(sums.first, k->shape.b, total);
    float mean[MAX_BLOCK];
    for (int64_t c = 0; c < k->shape.b; c++)
        mean[c] = (float)(total[c] / (double)pixels_in(&u->runs, range));
    repeat(shift, mean, k->shape.b);
}

static void measure(const norm *k, const yki_run *run, const unit *u)
{
    partial *p = &u->partials[u->slice];
    if (!k->training)
        return;
    if (u->range.begin == u->range.end) {
        *p = (partial){0};
        return;
    }
    float shift[YKI_PERIOD];
    choose_shift(k, run->in[X], u, shift);
    yki_norm_sums sums = {{0}, {0}};
    k->loops->moments(&u->runs, u->range, run->in[X], shift, &sums);
    p->count = (double)pixels_in(&u->runs, u->range);
    fold(sums.first, k->shape.b, p->first);
    fold(sums.second, k->shape.b, p->second);
    for (int64_t c = 0; c < k->shape.b; c++) {
        double distance = p->first[c] / p->count;
        p->second[c] -= p->first[c] * distance;
        p->first[c] = shift[c] + distance;
    }
}

static yki_moments combine(const norm *k, const unit *u, int64_t c)
{
    yki_moments all = {0, 0, 0};
    for (int64_t s = 0; s < k->slices; s++) {
        const partial *p = &u->partials[s];
        all = yki_moments_merge(all, (yki_moments){p->count, p->first[c], p->second[c]});
    }
    return all;
}

static void found_moments(const norm *k, const yki_run *run, const unit *u, int64_t c, double *mean,
                          double *squares)
{
    (void)run;
    yki_moments found = combine(k, u, c);
    *mean = found.mean;
    *squares = found.squares;
}

typedef struct statistics {
    double mean, variance, count; /* the variance is biased */
} statistics;

static statistics batch_statistics(const norm *k, const yki_run *run, const unit *u, int64_t c)
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

/* One channel's mean and 1 / std; the block's first slice also keeps them. */
static void settle(const norm *k, const yki_run *run, const unit *u, int64_t c, float *mean,
                   float *invstd)
{
    int64_t channel = u->channel + c;
    float *running_mean = run->in[RUNNING_MEAN], *running_var = run->in[RUNNING_VAR];
    statistics s = {0, 0, 0};
    if (k->training)
        s = batch_statistics(k, run, u, c);
    else
        s = (statistics){running_mean[channel], running_var[channel], 0};
    *mean = (float)s.mean;
    *invstd = (float)(1 / sqrt(s.variance + k->eps));
    if (u->slice != 0)
        return;
    float *means = out(k, run, MEAN), *invstds = out(k, run, INVSTD);
    if (means)
        means[channel] = *mean;
    if (invstds)
        invstds[channel] = *invstd;
    if (k->training) {
        move(&running_mean[channel], k->momentum, s.mean);
        move(&running_var[channel], k->momentum, s.variance * s.count / (s.count - 1));
    }
}

/* The constants of y = (x - mean) * scale + bias, by forward and backward alike. */
static void set_constants(yki_norm_constants *constants, int64_t b, int64_t channels,
                          const float *mean, const float *invstd, const float *weight,
                          const float *bias)
{
    float m[MAX_BLOCK] = {0}, s[MAX_BLOCK] = {0}, o[MAX_BLOCK] = {0};
    for (int64_t c = 0; c < channels; c++) {
        m[c] = mean[c];
        s[c] = weight[c] * invstd[c];
        o[c] = bias[c];
    }
    repeat(constants->mean, m, b);
    repeat(constants->scale, s, b);
    repeat(constants->bias, o, b);
}

static void normalise(const norm *k, const yki_run *run, const unit *u)
{
    float mean[MAX_BLOCK], invstd[MAX_BLOCK];
    for (int64_t c = 0; c < u->channels; c++)
        settle(k, run, u, c, &mean[c], &invstd[c]);
    yki_norm_constants constants;
    set_constants(&constants, k->shape.b, u->channels, mean, invstd,
                  (const float *)run->in[WEIGHT] + u->channel,
                  (const float *)run->in[BIAS] + u->channel);
    yki_norm_forward operands = {.x = run->in[X],
                                 .residual = in(k, run, RESIDUAL),
                                 .y = run->out[Y],
                                 .relu = k->relu,
                                 .stream = k->stream};
    k->loops->normalise(&u->runs, u->range, &operands, &constants);
}

/* No samples and nobody to meet: the statistics stay as they are, and backward adds up nothing. */
static yk_status skip_empty(const norm *k, const yki_run *run)
{
    float *means = out(k, run, MEAN), *invstds = out(k, run, INVSTD);
    for (int64_t c = 0; c < k->shape.channels; c++) {
        if (means)
            means[c] = 0;
        if (invstds)
            invstds[c] = 0;
    }
    return YK_OK;
}

static yk_status batch_norm(const yki_kernel *kernel, const yki_run *run)
{
    const norm *k = (const norm *)kernel;
    if (k->training && k->shape.images == 0 && !run->sync)
        return skip_empty(k, run);
    if (run->sync) {
        YK_TRY(sweep_synced(k, run, measure, found_moments, normalise));
    } else {
        if (k->training)
            YK_TRY(too_few((double)(k->shape.images * k->shape.pixels)));
        sweep(k, run, measure, normalise);
    }
    int64_t *batches = in(k, run, BATCHES);
    if (k->training && batches)
        ++*batches;
    return YK_OK;
}

/* ---- backward ---------------------------------------------------------------------------------
 */

static yki_norm_backward backward_operands(const norm *k, const yki_run *run)
{
    yki_norm_backward operands = {.x = run->in[B_X],
                                  .dy = run->in[B_DY],
                                  .dy2 = in(k, run, B_DY2),
                                  .y = in(k, run, B_Y),
                                  .dx = out(k, run, DX),
                                  .dresidual = out(k, run, DRESIDUAL),
                                  .stream = k->stream};
    if (k->relu)
        operands.mask = operands.y ? YKI_MASK_Y : YKI_MASK_X;
    return operands;
}

static yki_norm_constants backward_constants(const norm *k, const yki_run *run, const unit *u)
{
    yki_norm_constants constants;
    set_constants(&constants, k->shape.b, u->channels, (const float *)run->in[B_MEAN] + u->channel,
                  (const float *)run->in[B_INVSTD] + u->channel,
                  (const float *)run->in[B_WEIGHT] + u->channel,
                  (const float *)run->in[B_BIAS] + u->channel);
    return constants;
}

static void reduce(const norm *k, const yki_run *run, const unit *u)
{
    yki_norm_sums sums = {{0}, {0}};
    yki_norm_backward operands = backward_operands(k, run);
    yki_norm_constants constants = backward_constants(k, run, u);
    k->loops->gradient_sums(&u->runs, u->range, &operands, &constants, &sums);
    partial *p = &u->partials[u->slice];
    fold(sums.first, k->shape.b, p->first);
    fold(sums.second, k->shape.b, p->second);
}

/* This rank's sum of g and of g h: the gradients of bias and weight. */
static void found_sums(const norm *k, const yki_run *run, const unit *u, int64_t c, double *sum,
                       double *product)
{
    const float *invstd = run->in[B_INVSTD];
    *sum = *product = 0;
    for (int64_t s = 0; s < k->slices; s++) {
        *sum += u->partials[s].first[c];
        *product += u->partials[s].second[c] * invstd[u->channel + c];
    }
}

/*
 * With g = gradient behind relu, h = (x - mean) invstd and n values a channel:
 * dbias = sum g; dweight = sum g h; dx = weight invstd (g - dbias / n - h dweight / n).
 * In evaluation mean and invstd do not depend on x, and the two means fall away. Synchronised, dx
 * follows from all ranks' sums and values; dweight and dbias stay this rank's share.
 */
static void derive(const norm *k, const yki_run *run, const unit *u)
{
    const float *weight = run->in[B_WEIGHT], *invstd = run->in[B_INVSTD];
    float *dweight = out(k, run, DWEIGHT), *dbias = out(k, run, DBIAS);
    float a[MAX_BLOCK] = {0}, b[MAX_BLOCK] = {0}, offset[MAX_BLOCK] = {0};
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

static yk_status batch_norm_backward(const yki_kernel *kernel, const yki_run *run)
{
    const norm *k = (const norm *)kernel;
    if (run->sync)
        return sweep_synced(k, run, reduce, found_sums, derive);
    sweep(k, run, reduce, derive);
    return YK_OK;
}

/* ---- what is supported ------------------------------------------------------------------------
 */

static bool is_vector(const yki_operand *operand)
{
    return operand->dtype == YK_F32 && operand->layout == YKI_PLAIN;
}

static bool supports(const yki_device *device, const yki_kernel_desc *desc)
{
    (void)device;
    const yki_operand *x = &desc->in[X];
    bool good = yki_is_float(x) && (x->ndim == 2 || x->ndim == 4) && yki_alike(x, &desc->out[Y]);
    for (int i = WEIGHT; i <= RUNNING_VAR; i++)
        good = good && is_vector(&desc->in[i]);
    return good && (!yki_has_in(desc, RESIDUAL) || yki_alike(x, &desc->in[RESIDUAL]));
}

static bool supports_backward(const yki_device *device, const yki_kernel_desc *desc)
{
    (void)device;
    const yki_operand *x = &desc->in[B_X];
    bool good = yki_is_float(x) && (x->ndim == 2 || x->ndim == 4) && yki_alike(x, &desc->in[B_DY]);
    for (int i = B_WEIGHT; i <= B_INVSTD; i++)
        good = good && is_vector(&desc->in[i]);
    for (int i = B_Y; i <= B_DY2; i++)
        good = good && (!yki_has_in(desc, i) || yki_alike(x, &desc->in[i]));
    for (int i = DX; i <= DRESIDUAL; i += DRESIDUAL - DX)
        good = good && (!yki_has_out(desc, i) || yki_alike(x, &desc->out[i]));
    return good;
}

const yki_kernel_impl yki_cpu_batch_norm = {.op = &yki_op_batch_norm,
                                            .inplace = 1 + X,
                                            .supports = supports,
                                            .prepare = prepare,
                                            .run = batch_norm};
const yki_kernel_impl yki_cpu_batch_norm_backward = {.op = &yki_op_batch_norm_backward,
                                                     .inplace = 1 + B_DY,
                                                     .supports = supports_backward,
                                                     .prepare = prepare,
                                                     .run = batch_norm_backward};

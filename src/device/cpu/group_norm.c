/*
 * group_norm by the loops of batch_norm, so that it reads activations where they are, in blocks of
 * channels too. It is bound by memory, as batch_norm is: there are two sweeps, and if a thread has
 * whole groups, the second finds its data in the cache. Small images have loops of their own, which
 * need less preparation for each block.
 *
 * For accuracy, a value near the mean of the group is subtracted from x before it is summed, in f32
 * over short runs and in f64 beyond.
 */
#include "device/cpu/group_norm.h"

#include <math.h>

#include "tensor/element.h"

enum { MOST_BLOCK = YKI_GROUP_NORM_MOST_BLOCK };

typedef yki_group_norm group_norm;
typedef yki_group_norm_work work;
typedef yki_group_norm_piece piece;

/* ---- pieces ---------------------------------------------------------------------------------- */

/* The two sums of a channel of a piece: this one, and the one `channels` further on. */
static double *sums_at(const work *w, int64_t sample, int64_t slice, int64_t channel)
{
    const int64_t channels = w->k->shape.channels;
    return w->sums + (sample * w->k->slices + slice) * 2 * channels + channel;
}

static void keep_sums(const work *w, const piece *p, const double *first, const double *second)
{
    double *kept = sums_at(w, p->sample, p->slice, p->channel);
    for (int64_t c = 0; c < p->channels; c++) {
        kept[c] = first[c];
        kept[w->k->shape.channels + c] = second[c];
    }
}

/* Adds the sums of elements up to sums of channels, which become those of the piece. */
static void keep_element_sums(const work *w, const piece *p, const yki_norm_sums *elements)
{
    const int64_t b = w->k->shape.b;
    double first[MOST_BLOCK] = {0}, second[MOST_BLOCK] = {0};
    for (int64_t e = 0; e < YKI_PERIOD; e++) {
        first[e % b] += elements->first[e];
        second[e % b] += elements->second[e];
    }
    keep_sums(w, p, first, second);
}

/* Repeats the constants of channels for every element of a period. */
static void repeat(float *elements, const float *channels, int64_t b)
{
    for (int64_t e = 0; e < YKI_PERIOD; e += b)
        for (int64_t c = 0; c < b; c++)
            elements[e + c] = channels[c];
}

/* The groups of a block's channels, one after another: divisions take longer than small images. */
typedef struct group_walk {
    int64_t at, left; /* at: in (N, groups); left: channels of the group */
} group_walk;

static group_walk first_group(const work *w, const piece *p)
{
    const int64_t group = p->channel / w->k->group_channels;
    return (group_walk){p->sample * w->k->groups + group,
                        (group + 1) * w->k->group_channels - p->channel};
}

static void next_channel(const work *w, group_walk *walk)
{
    if (--walk->left > 0)
        return;
    walk->at++;
    walk->left = w->k->group_channels;
}

/* The means of the channels' groups; zero in padding channels. */
static void spread_means(const work *w, const piece *p, float *means)
{
    group_walk group = first_group(w, p);
    for (int64_t c = 0; c < p->channels; c++, next_channel(w, &group))
        means[c] = w->means[group.at];
}

/* Of the channels of a block, for y = (x - mean) scale + bias; zero in padding channels. */
typedef struct constants {
    float mean[MOST_BLOCK], scale[MOST_BLOCK], bias[MOST_BLOCK];
} constants;

/* ---- forward --------------------------------------------------------------------------------- */

/* A value near the mean of a group, which is kept in the place of the mean. */
static void choose_origin(const work *w, int64_t sample, int64_t group)
{
    const group_norm *k = w->k;
    const int64_t *elements = k->samples + group * YKI_GROUP_NORM_SAMPLES,
                  image = sample * k->runs.image;
    double sum = 0;
    for (int i = 0; i < YKI_GROUP_NORM_SAMPLES; i++)
        sum += yki_element_get(k->runs.dtype, w->run->in[YKI_GROUP_NORM_X], image + elements[i]);
    w->means[sample * k->groups + group] = (float)(sum / YKI_GROUP_NORM_SAMPLES);
}

static void measure(const work *w, const piece *p)
{
    const group_norm *k = w->k;
    float origins[MOST_BLOCK] = {0}, shift[YKI_PERIOD];
    yki_runs runs;
    const yki_run_range range = yki_group_norm_runs(k, p, &runs);
    spread_means(w, p, origins);
    repeat(shift, origins, k->shape.b);
    yki_norm_sums sums = {{0}, {0}};
    k->loops->moments(&runs, range, w->run->in[YKI_GROUP_NORM_X], shift, &sums);
    keep_element_sums(w, p, &sums);
}

static void measure_small(const work *w, const piece *p)
{
    const float *x = w->run->in[YKI_GROUP_NORM_X];
    float origins[MOST_BLOCK] = {0};
    double sums[MOST_BLOCK], squares[MOST_BLOCK];
    spread_means(w, p, origins);
    w->k->loops->small_moments(x + p->at, w->k->shape.pixels, origins, sums, squares);
    keep_sums(w, p, sums, squares);
}

/* In four parts, since each addition waits for the one before it. */
static double sum_channels(const double *sums, const float *weight, int64_t channels)
{
    double part[4] = {0};
    int64_t c = 0;
    for (; c + 4 <= channels; c += 4)
        for (int i = 0; i < 4; i++)
            part[i] += weight ? weight[c + i] * sums[c + i] : sums[c + i];
    for (; c < channels; c++)
        part[0] += weight ? weight[c] * sums[c] : sums[c];
    return part[0] + part[1] + (part[2] + part[3]);
}

/* The sums of a group's channels, weighted or not, over all slices in their order. */
static void sum_group(const work *w, int64_t sample, int64_t group, const float *weight,
                      double *first, double *second)
{
    const group_norm *k = w->k;
    const int64_t begin = group * k->group_channels;
    const float *factors = weight ? weight + begin : NULL;
    *first = *second = 0;
    for (int64_t slice = 0; slice < k->slices; slice++) {
        const double *sums = sums_at(w, sample, slice, begin);
        *first += sum_channels(sums, factors, k->group_channels);
        *second += sum_channels(sums + k->shape.channels, factors, k->group_channels);
    }
}

static double group_count(const group_norm *k)
{
    return (double)(k->group_channels * k->shape.pixels);
}

static void settle_moments(const work *w, int64_t sample, int64_t group)
{
    const group_norm *k = w->k;
    const double count = group_count(k);
    double sum, squares;
    sum_group(w, sample, group, NULL, &sum, &squares);
    double variance = (squares - sum * sum / count) / count;
    if (variance < 0) /* NaN stays NaN */
        variance = 0;
    const int64_t at = sample * k->groups + group;
    w->means[at] = (float)(w->means[at] + sum / count);
    w->invstds[at] = (float)(1 / sqrt(variance + k->eps));
}

static void set_constants(const work *w, const piece *p, constants *of)
{
    group_walk group = first_group(w, p);
    for (int64_t c = 0; c < p->channels; c++, next_channel(w, &group)) {
        const int64_t channel = p->channel + c;
        of->mean[c] = w->means[group.at];
        of->scale[c] = (w->weight ? w->weight[channel] : 1) * w->invstds[group.at];
        of->bias[c] = w->bias ? w->bias[channel] : 0;
    }
}

static void normalise(const work *w, const piece *p)
{
    const group_norm *k = w->k;
    constants of_channels = {{0}, {0}, {0}};
    yki_norm_constants of_elements;
    yki_runs runs;
    const yki_run_range range = yki_group_norm_runs(k, p, &runs);
    set_constants(w, p, &of_channels);
    repeat(of_elements.mean, of_channels.mean, k->shape.b);
    repeat(of_elements.scale, of_channels.scale, k->shape.b);
    repeat(of_elements.bias, of_channels.bias, k->shape.b);
    const yki_norm_forward operands = {
        .x = w->run->in[YKI_GROUP_NORM_X], .y = w->run->out[YKI_GROUP_NORM_Y], .stream = k->stream};
    k->loops->normalise(&runs, range, &operands, &of_elements);
}

static void normalise_small(const work *w, const piece *p)
{
    const float *x = w->run->in[YKI_GROUP_NORM_X];
    float *y = w->run->out[YKI_GROUP_NORM_Y];
    constants c = {{0}, {0}, {0}};
    set_constants(w, p, &c);
    w->k->loops->small_normalise(x + p->at, y + p->at, w->k->shape.pixels, c.mean, c.scale, c.bias);
}

/* Of a group of whole blocks. */
static yki_small_group small_group_of(const work *w, int64_t group)
{
    const group_norm *k = w->k;
    const int64_t channel = group * k->group_channels;
    return (yki_small_group){.blocks = k->group_channels / k->shape.b,
                             .pixels = k->shape.pixels,
                             .weight = w->weight ? w->weight + channel : NULL,
                             .bias = w->bias ? w->bias + channel : NULL,
                             .eps = k->eps};
}

/* Its first element. */
static int64_t small_group_at(const group_norm *k, int64_t sample, int64_t group)
{
    return sample * k->runs.image + group * k->group_channels * k->shape.pixels;
}

static void normalise_group(const work *w, int64_t sample, int64_t group)
{
    const group_norm *k = w->k;
    const yki_small_group small = small_group_of(w, group);
    const int64_t at = small_group_at(k, sample, group), number = sample * k->groups + group;
    choose_origin(w, sample, group);
    k->loops->small_group(&small, (const float *)w->run->in[YKI_GROUP_NORM_X] + at,
                          (float *)w->run->out[YKI_GROUP_NORM_Y] + at, &w->means[number],
                          &w->invstds[number]);
}

static work work_of(const group_norm *k, const yki_kernel_args *run)
{
    char *scratch = run->scratch;
    return (work){.k = k,
                  .run = run,
                  .sums = (double *)scratch,
                  .means = (float *)(scratch + k->means_at),
                  .invstds = (float *)(scratch + k->invstds_at),
                  .slopes = (float *)(scratch + k->slopes_at)};
}

static yk_status group_norm_run(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const group_norm *k = (const group_norm *)kernel;
    work w = work_of(k, run);
    w.weight = k->in[YKI_GROUP_NORM_WEIGHT] ? run->in[YKI_GROUP_NORM_WEIGHT] : NULL;
    w.bias = k->in[YKI_GROUP_NORM_BIAS] ? run->in[YKI_GROUP_NORM_BIAS] : NULL;
    if (k->out[YKI_GROUP_NORM_MEAN])
        w.means = run->out[YKI_GROUP_NORM_MEAN];
    if (k->out[YKI_GROUP_NORM_INVSTD])
        w.invstds = run->out[YKI_GROUP_NORM_INVSTD];
    static const yki_group_norm_sweeps sweeps[] = {
        {choose_origin, settle_moments, measure, normalise},
        {choose_origin, settle_moments, measure_small, normalise_small},
        {NULL, normalise_group, NULL, NULL}};
    yki_group_norm_sweep(&w, &sweeps[k->is_small + k->is_apart]);
    return YK_OK;
}

/* ---- backward -------------------------------------------------------------------------------- */

/* With h = (x - mean) invstd and g = dy weight: dx = invstd (g - mean(g) - h mean(g h)),
 * dweight = sum(dy h), dbias = sum(dy). */

static yki_norm_backward operands_of(const work *w)
{
    const void *dy = w->run->in[YKI_GROUP_NORM_BACKWARD_DY];
    void *dx = w->run->out[YKI_GROUP_NORM_BACKWARD_DX];
    return (yki_norm_backward){.x = w->run->in[YKI_GROUP_NORM_BACKWARD_X],
                               .dy = dy,
                               .dx = dx,
                               .passing = INFINITY,
                               .stream = w->k->stream && dx != dy};
}

/* Sums of dy, and of dy (x - mean). */
static void reduce(const work *w, const piece *p)
{
    const yki_norm_backward operands = operands_of(w);
    float means[MOST_BLOCK] = {0};
    yki_norm_constants of_elements = {{0}, {0}, {0}};
    yki_norm_sums sums = {{0}, {0}};
    yki_runs runs;
    const yki_run_range range = yki_group_norm_runs(w->k, p, &runs);
    spread_means(w, p, means);
    repeat(of_elements.mean, means, w->k->shape.b);
    w->k->loops->gradient_sums(&runs, range, &operands, &of_elements, &sums);
    keep_element_sums(w, p, &sums);
}

static void reduce_small(const work *w, const piece *p)
{
    const float *x = w->run->in[YKI_GROUP_NORM_BACKWARD_X],
                *dy = w->run->in[YKI_GROUP_NORM_BACKWARD_DY];
    float means[MOST_BLOCK] = {0};
    double sums[MOST_BLOCK], products[MOST_BLOCK];
    spread_means(w, p, means);
    w->k->loops->small_gradient_sums(x + p->at, dy + p->at, w->k->shape.pixels, means, sums,
                                     products);
    keep_sums(w, p, sums, products);
}

/* The sums of dy (x - mean) of a group's channels become those of dy h. */
static void scale_products(const work *w, int64_t sample, int64_t group, double invstd)
{
    const group_norm *k = w->k;
    const int64_t begin = group * k->group_channels;
    for (int64_t slice = 0; slice < k->slices; slice++) {
        double *products = sums_at(w, sample, slice, begin) + k->shape.channels;
        for (int64_t c = 0; c < k->group_channels; c++)
            products[c] *= invstd;
    }
}

static void settle_slopes(const work *w, int64_t sample, int64_t group)
{
    const group_norm *k = w->k;
    const int64_t at = sample * k->groups + group;
    const double invstd = w->invstds[at], count = group_count(k);
    double sum, product;
    sum_group(w, sample, group, w->weight, &sum, &product);
    scale_products(w, sample, group, invstd);
    w->slopes[2 * at] = (float)(-invstd * invstd * invstd * product / count);
    w->slopes[2 * at + 1] = (float)(-invstd * sum / count);
}

/* Of the channels of a block, for dx = a dy + b (x - mean) + c; zero in padding channels. */
typedef struct slopes {
    float mean[MOST_BLOCK], a[MOST_BLOCK], b[MOST_BLOCK], c[MOST_BLOCK];
} slopes;

static void set_slopes(const work *w, const piece *p, slopes *of)
{
    group_walk group = first_group(w, p);
    for (int64_t c = 0; c < p->channels; c++, next_channel(w, &group)) {
        of->mean[c] = w->means[group.at];
        of->a[c] = (w->weight ? w->weight[p->channel + c] : 1) * w->invstds[group.at];
        of->b[c] = w->slopes[2 * group.at];
        of->c[c] = w->slopes[2 * group.at + 1];
    }
}

static void derive(const work *w, const piece *p)
{
    const int64_t b = w->k->shape.b;
    if (!w->k->out[YKI_GROUP_NORM_BACKWARD_DX])
        return;
    const yki_norm_backward operands = operands_of(w);
    slopes of_channels = {{0}, {0}, {0}, {0}};
    yki_norm_constants means = {{0}, {0}, {0}};
    yki_norm_slopes of_elements;
    yki_runs runs;
    const yki_run_range range = yki_group_norm_runs(w->k, p, &runs);
    set_slopes(w, p, &of_channels);
    repeat(means.mean, of_channels.mean, b);
    repeat(of_elements.a, of_channels.a, b);
    repeat(of_elements.b, of_channels.b, b);
    repeat(of_elements.c, of_channels.c, b);
    w->k->loops->gradient(&runs, range, &operands, &means, &of_elements);
}

static void derive_small(const work *w, const piece *p)
{
    const float *x = w->run->in[YKI_GROUP_NORM_BACKWARD_X],
                *dy = w->run->in[YKI_GROUP_NORM_BACKWARD_DY];
    float *dx = w->run->out[YKI_GROUP_NORM_BACKWARD_DX];
    if (!w->k->out[YKI_GROUP_NORM_BACKWARD_DX])
        return;
    slopes k = {{0}, {0}, {0}, {0}};
    set_slopes(w, p, &k);
    w->k->loops->small_gradient(x + p->at, dy + p->at, dx + p->at, w->k->shape.pixels, k.mean, k.a,
                                k.b, k.c);
}

static void derive_group(const work *w, int64_t sample, int64_t group)
{
    const group_norm *k = w->k;
    const yki_small_group small = small_group_of(w, group);
    const int64_t at = small_group_at(k, sample, group), number = sample * k->groups + group;
    float *dx = k->out[YKI_GROUP_NORM_BACKWARD_DX]
                    ? (float *)w->run->out[YKI_GROUP_NORM_BACKWARD_DX] + at
                    : NULL;
    double *sums = sums_at(w, sample, 0, group * k->group_channels);
    k->loops->small_group_slopes(&small, (const float *)w->run->in[YKI_GROUP_NORM_BACKWARD_X] + at,
                                 (const float *)w->run->in[YKI_GROUP_NORM_BACKWARD_DY] + at, dx,
                                 w->means[number], w->invstds[number], sums,
                                 sums + k->shape.channels);
}

/* Of a block of several groups. */
static void derive_groups(const work *w, const piece *p)
{
    const group_norm *k = w->k;
    float means[MOST_BLOCK], invstds[MOST_BLOCK];
    const int64_t first = p->sample * k->groups + p->channel / k->group_channels;
    for (int64_t c = 0, group = first; c < p->channels; group++)
        for (const int64_t end = c + k->group_channels; c < end; c++) {
            means[c] = w->means[group];
            invstds[c] = w->invstds[group];
        }
    const yki_small_groups groups = {.channels = k->group_channels,
                                     .pixels = k->shape.pixels,
                                     .weight = w->weight ? w->weight + p->channel : NULL,
                                     .mean = means,
                                     .invstd = invstds};
    float *dx = k->out[YKI_GROUP_NORM_BACKWARD_DX]
                    ? (float *)w->run->out[YKI_GROUP_NORM_BACKWARD_DX] + p->at
                    : NULL;
    double *sums = sums_at(w, p->sample, 0, p->channel);
    k->loops->small_groups_slopes(&groups,
                                  (const float *)w->run->in[YKI_GROUP_NORM_BACKWARD_X] + p->at,
                                  (const float *)w->run->in[YKI_GROUP_NORM_BACKWARD_DY] + p->at, dx,
                                  sums, sums + k->shape.channels);
}

/* Adds a row of the matrix of all sums, or a part of its channels, to another. */
static void add_row(const work *w, int64_t to, int64_t from, int64_t begin, int64_t end)
{
    const int64_t channels = w->k->shape.channels;
    double *sums = w->sums + to * 2 * channels;
    const double *more = w->sums + from * 2 * channels;
    for (int64_t c = begin; c < end; c++) {
        sums[c] += more[c];
        sums[channels + c] += more[channels + c];
    }
}

/*
 * The sums over samples and slices in their order, which become the matrix's first row. Those of
 * many are first added in parts, which depend on the shape alone, by the threads that have most of
 * them in their caches.
 */
static void add_samples(const work *w, float *dweight, float *dbias)
{
    enum { PARTS = 16, LEAST_ROWS = 64 };
    const group_norm *k = w->k;
    const int64_t channels = k->shape.channels, rows = k->shape.images * k->slices;
    const int64_t parts = rows < LEAST_ROWS ? rows : PARTS;
    int64_t begin, end;
    if (parts < rows) {
#pragma omp for
        for (int64_t part = 0; part < parts; part++)
            for (int64_t row = rows * part / parts + 1; row < rows * (part + 1) / parts; row++)
                add_row(w, rows * part / parts, row, 0, channels);
    }
    yki_share(channels, &begin, &end);
    for (int64_t part = 1; part < parts; part++)
        add_row(w, 0, rows * part / parts, begin, end);
    for (int64_t c = begin; c < end; c++) {
        if (dbias)
            dbias[c] = (float)w->sums[c];
        if (dweight)
            dweight[c] = (float)w->sums[channels + c];
    }
}

static yk_status group_norm_backward_run(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const group_norm *k = (const group_norm *)kernel;
    float *dweight =
        k->out[YKI_GROUP_NORM_BACKWARD_DWEIGHT] ? run->out[YKI_GROUP_NORM_BACKWARD_DWEIGHT] : NULL;
    float *dbias =
        k->out[YKI_GROUP_NORM_BACKWARD_DBIAS] ? run->out[YKI_GROUP_NORM_BACKWARD_DBIAS] : NULL;
    work w = work_of(k, run);
    w.weight =
        k->in[YKI_GROUP_NORM_BACKWARD_WEIGHT] ? run->in[YKI_GROUP_NORM_BACKWARD_WEIGHT] : NULL;
    w.means = run->in[YKI_GROUP_NORM_BACKWARD_MEAN];
    w.invstds = run->in[YKI_GROUP_NORM_BACKWARD_INVSTD];
    static const yki_group_norm_sweeps sweeps[] = {
        {NULL, settle_slopes, reduce, derive},
        {NULL, settle_slopes, reduce_small, derive_small},
        {NULL, derive_group, NULL, NULL},
        {NULL, NULL, derive_groups, NULL}};
    yki_group_norm_sweep(&w, &sweeps[k->is_shared ? 3 : k->is_small + k->is_apart]);
    if (!dweight && !dbias)
        return YK_OK;
#pragma omp parallel num_threads(k->team) if (k->team > 1)
    add_samples(&w, dweight, dbias);
    return YK_OK;
}

/* ---- what is supported ----------------------------------------------------------------------- */

/* Other operands are vectors, and statistics of f32. */
static bool supports(const yki_device *device, const yki_kernel_desc *desc)
{
    (void)device;
    const yki_operand *x = &desc->in[0];
    bool good = yki_is_float(x) && (x->layout == YKI_PLAIN || x->ndim == 4);
    for (int i = 0; i < desc->in_count; i++)
        good = good && (desc->in[i].ndim < 3 || yki_alike(x, &desc->in[i]));
    return good && (desc->out[0].ndim < 0 || yki_alike(x, &desc->out[0]));
}

const yki_kernel_impl yki_cpu_group_norm = {.op = &yki_op_group_norm,
                                            .inplace = 1 << YKI_GROUP_NORM_X,
                                            .supports = supports,
                                            .prepare = yki_group_norm_prepare,
                                            .run = group_norm_run};
const yki_kernel_impl yki_cpu_group_norm_backward = {.op = &yki_op_group_norm_backward,
                                                     .inplace = 1 << YKI_GROUP_NORM_BACKWARD_DY,
                                                     .supports = supports,
                                                     .prepare = yki_group_norm_prepare,
                                                     .run = group_norm_backward_run};

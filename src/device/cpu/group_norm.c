/*
 * group_norm by the loops of batch_norm, so that it reads activations where they are, in blocks of
 * channels too. It is bound by memory, as batch_norm is: there are two sweeps, and if a thread has
 * whole groups, the second finds its data in the cache.
 *
 * A piece is a slice of the pixels of a channel block of a sample. How many pieces there are
 * depends on shapes alone, and sums over them are made in their order, so the bits do not depend on
 * the number of threads.
 *
 * For accuracy, a value near the mean of the group is subtracted from x before it is summed, in f32
 * over short runs and in f64 beyond.
 */
#include <math.h>

#include "base/memory.h"
#include "device/cpu/geometry.h"
#include "device/cpu/loops.h"
#include "device/cpu/units.h"
#include "tensor/element.h"

enum {
    MOST_BLOCK = 16,
    RUN = 4096,       /* the most elements of a run, as in norm_units.c */
    PIECES = 64,      /* at least, for many threads, if there are as many runs */
    STREAM = 1 << 23, /* results of so many bytes are written past the caches, as there */
    SAMPLES = 4       /* values of a group whose mean is near enough to the group's */
};

typedef struct group_norm {
    yki_kernel base;
    const yki_cpu_loops *loops;
    yki_geometry shape;
    yki_runs runs;                  /* of block 0 */
    int64_t groups, group_channels; /* of a sample, and of a group */
    int64_t slices;                 /* of the runs of a block of a sample */
    int64_t cluster;                /* blocks that have whole groups together */
    int team;
    bool stream, is_whole; /* is_whole: threads take whole clusters, not pieces */
    double eps;
    size_t means_at, invstds_at, slopes_at; /* in scratch memory, after the sums */
    bool in[YKI_MAX_IN], out[YKI_MAX_OUT];
    int64_t samples[]; /* (groups, SAMPLES): elements of a sample, see set_samples() */
} group_norm;

/* What the sweeps of a run share. Where no other size is given, arrays are (N, groups). */
typedef struct work {
    const group_norm *k;
    const yki_kernel_args *run;
    double *sums; /* (N, slices, 2, channels): two sums of each channel of a piece */
    const float *weight, *bias;
    float *means, *invstds; /* means: of forward, first the values that are subtracted */
    float *slopes;          /* (N, groups, 2): of backward, b and c of yki_norm_slopes */
} work;

/* ---- preparation ----------------------------------------------------------------------------- */

static int64_t common_divisor(int64_t a, int64_t b)
{
    return b == 0 ? a : common_divisor(b, a % b);
}

/* Also of values that are no images; channels of one pixel are neighbours and form blocks. */
static yki_geometry geometry_of(const yki_device *device, const yki_operand *x, int pack)
{
    yki_geometry g = yki_geometry_of(device, x);
    if (x->ndim != 4) {
        g.pixels = 1;
        for (int d = 2; d < x->ndim; d++)
            g.pixels *= x->dims[d];
    }
    const int most = pack < MOST_BLOCK ? pack : MOST_BLOCK;
    while (x->layout == YKI_PLAIN && g.pixels == 1 && g.b < most && g.channels % (2 * g.b) == 0)
        g.b *= 2;
    g.blocks = (g.channels + g.b - 1) / g.b;
    return g;
}

static void divide_work(group_norm *k, const yki_device *device, yk_dtype dtype)
{
    const yki_geometry *g = &k->shape;
    const int64_t image = g->blocks * g->pixels * g->b, pieces = g->images * g->blocks;
    k->runs = (yki_runs){
        .dtype = dtype, .b = g->b, .pixels = g->pixels, .image = image, .run = RUN / g->b};
    k->runs.runs_an_image = (g->pixels + k->runs.run - 1) / k->runs.run;
    k->slices = (PIECES + pieces - 1) / pieces;
    if (k->slices > k->runs.runs_an_image)
        k->slices = k->runs.runs_an_image;
    k->cluster = k->group_channels / common_divisor(k->group_channels, g->b);
    k->team = yki_team(device, g->images * image);
    const int64_t clusters = (g->blocks + k->cluster - 1) / k->cluster;
    k->is_whole = k->team == 1 || g->images * clusters >= 4 * (int64_t)k->team;
}

/* The values of each group whose mean is near the group's: they are far apart. */
static void set_samples(group_norm *k)
{
    const yki_geometry *g = &k->shape;
    for (int64_t i = 0; i < k->groups * SAMPLES; i++) {
        const int64_t group = i / SAMPLES, sample = i % SAMPLES;
        const int64_t channel = (group * SAMPLES + sample) * k->group_channels / SAMPLES;
        const int64_t pixel = (2 * sample + 1) * g->pixels / (2 * SAMPLES);
        k->samples[i] = (channel / g->b * g->pixels + pixel) * g->b + channel % g->b;
    }
}

static size_t reserve(group_norm *k, size_t bytes)
{
    const size_t at = k->base.scratch;
    k->base.scratch = yki_align(at + bytes, YKI_ALIGNMENT);
    return at;
}

static yk_status prepare(yki_device *device, const yki_kernel_desc *desc, yki_kernel **kernel)
{
    const size_t bytes =
        sizeof(group_norm) + (size_t)(desc->attrs->groups * SAMPLES) * sizeof(int64_t);
    group_norm *k = yki_calloc(1, bytes);
    if (!k)
        return yki_error_memory(bytes, "a group_norm kernel");
    const yki_operand *x = &desc->in[0];
    k->loops = yki_cpu_loops_of(device);
    k->shape = geometry_of(device, x, k->loops->pack);
    k->groups = desc->attrs->groups;
    k->group_channels = k->shape.channels / k->groups;
    k->eps = desc->attrs->eps;
    k->stream = yki_operand_bytes(device, x) >= STREAM;
    divide_work(k, device, x->dtype);
    set_samples(k);
    const size_t of_groups = (size_t)(k->shape.images * k->groups) * sizeof(float);
    const size_t of_channels = (size_t)(k->shape.images * k->shape.channels) * sizeof(double);
    reserve(k, 2 * (size_t)k->slices * of_channels);
    k->means_at = reserve(k, of_groups);
    k->invstds_at = reserve(k, of_groups);
    k->slopes_at = reserve(k, 2 * of_groups);
    for (int i = 0; i < YKI_MAX_IN; i++)
        k->in[i] = yki_has_in(desc, i);
    for (int i = 0; i < YKI_MAX_OUT; i++)
        k->out[i] = yki_has_out(desc, i);
    *kernel = &k->base;
    return YK_OK;
}

/* ---- pieces ---------------------------------------------------------------------------------- */

typedef struct piece {
    int64_t sample, slice, channel, channels; /* the block's first channel, and how many it has */
    yki_runs runs;
    yki_run_range range;
} piece;

static piece piece_of(const group_norm *k, int64_t sample, int64_t block, int64_t slice)
{
    const yki_geometry *g = &k->shape;
    const int64_t runs = k->runs.runs_an_image, first = sample * runs;
    piece p = {.sample = sample, .slice = slice, .channel = block * g->b, .runs = k->runs};
    p.channels = g->channels - p.channel < g->b ? g->channels - p.channel : g->b;
    p.runs.base = block * g->pixels * g->b;
    p.range =
        (yki_run_range){first + runs * slice / k->slices, first + runs * (slice + 1) / k->slices};
    return p;
}

/* The two sums of a channel of a piece: this one, and the one `channels` further on. */
static double *sums_at(const work *w, int64_t sample, int64_t slice, int64_t channel)
{
    const int64_t channels = w->k->shape.channels;
    return w->sums + (sample * w->k->slices + slice) * 2 * channels + channel;
}

/* Adds the sums of elements up to sums of channels, which become those of the piece. */
static void keep_sums(const work *w, const piece *p, const yki_norm_sums *elements)
{
    const int64_t b = w->k->shape.b, channels = w->k->shape.channels;
    double *kept = sums_at(w, p->sample, p->slice, p->channel);
    for (int64_t c = 0; c < p->channels; c++) {
        double first = 0, second = 0;
        for (int64_t e = c; e < YKI_PERIOD; e += b) {
            first += elements->first[e];
            second += elements->second[e];
        }
        kept[c] = first;
        kept[channels + c] = second;
    }
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

/* Those of y = (x - mean) scale + bias; zero in padding channels. */
static void set_constants(const work *w, const piece *p, yki_norm_constants *constants)
{
    float mean[MOST_BLOCK] = {0}, scale[MOST_BLOCK] = {0}, bias[MOST_BLOCK] = {0};
    group_walk group = first_group(w, p);
    for (int64_t c = 0; c < p->channels; c++, next_channel(w, &group)) {
        const int64_t channel = p->channel + c;
        mean[c] = w->means[group.at];
        scale[c] = (w->weight ? w->weight[channel] : 1) * w->invstds[group.at];
        bias[c] = w->bias ? w->bias[channel] : 0;
    }
    repeat(constants->mean, mean, w->k->shape.b);
    repeat(constants->scale, scale, w->k->shape.b);
    repeat(constants->bias, bias, w->k->shape.b);
}

/* ---- the order of work ----------------------------------------------------------------------- */

typedef void (*piece_fn)(const work *w, const piece *p);
typedef void (*group_fn)(const work *w, int64_t sample, int64_t group);

/* `begin`, which may be NULL, comes before the first sweep, and `settle` makes of the sums that the
 * first has left what the second needs. */
typedef struct sweeps {
    group_fn begin, settle;
    piece_fn first, second;
} sweeps;

static void for_pieces(const work *w, int64_t sample, int64_t first_block, int64_t end_block,
                       piece_fn function)
{
    for (int64_t block = first_block; block < end_block; block++)
        for (int64_t slice = 0; slice < w->k->slices; slice++) {
            const piece p = piece_of(w->k, sample, block, slice);
            function(w, &p);
        }
}

static void for_groups(const work *w, int64_t sample, int64_t first, int64_t end, group_fn function)
{
    for (int64_t group = first; function && group < end; group++)
        function(w, sample, group);
}

static int64_t clusters_of(const group_norm *k)
{
    return (k->shape.blocks + k->cluster - 1) / k->cluster;
}

/* All of some whole groups at once. */
static void sweep_cluster(const work *w, int64_t unit, const sweeps *s)
{
    const group_norm *k = w->k;
    const yki_geometry *g = &k->shape;
    const int64_t sample = unit / clusters_of(k), begin = unit % clusters_of(k) * k->cluster;
    const int64_t end = begin + k->cluster < g->blocks ? begin + k->cluster : g->blocks;
    const int64_t channels = end * g->b < g->channels ? end * g->b : g->channels;
    const int64_t first = begin * g->b / k->group_channels, last = channels / k->group_channels;
    for_groups(w, sample, first, last, s->begin);
    for_pieces(w, sample, begin, end, s->first);
    for_groups(w, sample, first, last, s->settle);
    for_pieces(w, sample, begin, end, s->second);
}

static void sweep_clusters(const work *w, const sweeps *s)
{
    const group_norm *k = w->k;
    yki_units units;
    yki_units_divide(&units, k->shape.images * clusters_of(k), 1, k->team);
#pragma omp parallel num_threads(k->team) if (k->team > 1)
    for (int64_t unit = -1; (unit = yki_units_next(&units, unit)) >= 0;)
        sweep_cluster(w, unit, s);
}

static void sweep_piece(const work *w, int64_t index, piece_fn function)
{
    const group_norm *k = w->k;
    const int64_t slice = index % k->slices, block = index / k->slices;
    const piece p = piece_of(k, block / k->shape.blocks, block % k->shape.blocks, slice);
    function(w, &p);
}

/* Where there are few groups for so many threads. A thread keeps its pieces for the second sweep,
 * because their data may be in its cache. */
static void sweep_pieces(const work *w, const sweeps *s)
{
    const group_norm *k = w->k;
    const int64_t pieces = k->shape.images * k->shape.blocks * k->slices;
#pragma omp parallel num_threads(k->team) if (k->team > 1)
    {
#pragma omp for
        for (int64_t sample = 0; sample < k->shape.images; sample++)
            for_groups(w, sample, 0, k->groups, s->begin);
#pragma omp for
        for (int64_t i = 0; i < pieces; i++)
            sweep_piece(w, i, s->first);
#pragma omp for
        for (int64_t i = 0; i < k->shape.images * k->groups; i++)
            s->settle(w, i / k->groups, i % k->groups);
#pragma omp for
        for (int64_t i = 0; i < pieces; i++)
            sweep_piece(w, i, s->second);
    }
}

static void sweep(const work *w, const sweeps *s)
{
    if (w->k->is_whole)
        sweep_clusters(w, s);
    else
        sweep_pieces(w, s);
}

/* ---- forward --------------------------------------------------------------------------------- */

/* A value near the mean of a group, which is kept in the place of the mean. */
static void choose_origin(const work *w, int64_t sample, int64_t group)
{
    const group_norm *k = w->k;
    const int64_t *elements = k->samples + group * SAMPLES, image = sample * k->runs.image;
    double sum = 0;
    for (int i = 0; i < SAMPLES; i++)
        sum += yki_element_get(k->runs.dtype, w->run->in[YKI_GROUP_NORM_X], image + elements[i]);
    w->means[sample * k->groups + group] = (float)(sum / SAMPLES);
}

static void measure(const work *w, const piece *p)
{
    float origins[MOST_BLOCK] = {0}, shift[YKI_PERIOD];
    group_walk group = first_group(w, p);
    for (int64_t c = 0; c < p->channels; c++, next_channel(w, &group))
        origins[c] = w->means[group.at];
    repeat(shift, origins, w->k->shape.b);
    yki_norm_sums sums = {{0}, {0}};
    w->k->loops->moments(&p->runs, p->range, w->run->in[YKI_GROUP_NORM_X], shift, &sums);
    keep_sums(w, p, &sums);
}

/* The sums of a group's channels, weighted or not, over all slices in their order. */
static void sum_group(const work *w, int64_t sample, int64_t group, const float *weight,
                      double *first, double *second)
{
    const group_norm *k = w->k;
    const int64_t begin = group * k->group_channels, channels = k->shape.channels;
    *first = *second = 0;
    for (int64_t slice = 0; slice < k->slices; slice++)
        for (int64_t c = begin; c < begin + k->group_channels; c++) {
            const double *sums = sums_at(w, sample, slice, c), factor = weight ? weight[c] : 1;
            *first += factor * sums[0];
            *second += factor * sums[channels];
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

static void normalise(const work *w, const piece *p)
{
    yki_norm_constants constants;
    set_constants(w, p, &constants);
    const yki_norm_forward operands = {.x = w->run->in[YKI_GROUP_NORM_X],
                                       .y = w->run->out[YKI_GROUP_NORM_Y],
                                       .ceiling = INFINITY,
                                       .stream = w->k->stream};
    w->k->loops->normalise(&p->runs, p->range, &operands, &constants);
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
    sweep(&w, &(sweeps){choose_origin, settle_moments, measure, normalise});
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
    yki_norm_constants constants;
    set_constants(w, p, &constants);
    yki_norm_sums sums = {{0}, {0}};
    w->k->loops->gradient_sums(&p->runs, p->range, &operands, &constants, &sums);
    keep_sums(w, p, &sums);
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
    scale_products(w, sample, group, invstd);
    sum_group(w, sample, group, w->weight, &sum, &product);
    w->slopes[2 * at] = (float)(-invstd * invstd * product / count);
    w->slopes[2 * at + 1] = (float)(-invstd * sum / count);
}

static void derive(const work *w, const piece *p)
{
    const int64_t b = w->k->shape.b;
    if (!w->k->out[YKI_GROUP_NORM_BACKWARD_DX])
        return;
    float factor[MOST_BLOCK] = {0}, slope[MOST_BLOCK] = {0}, offset[MOST_BLOCK] = {0};
    group_walk group = first_group(w, p);
    for (int64_t c = 0; c < p->channels; c++, next_channel(w, &group)) {
        const int64_t channel = p->channel + c;
        factor[c] = (w->weight ? w->weight[channel] : 1) * w->invstds[group.at];
        slope[c] = w->slopes[2 * group.at];
        offset[c] = w->slopes[2 * group.at + 1];
    }
    const yki_norm_backward operands = operands_of(w);
    yki_norm_constants constants;
    yki_norm_slopes slopes;
    set_constants(w, p, &constants);
    repeat(slopes.a, factor, b);
    repeat(slopes.b, slope, b);
    repeat(slopes.c, offset, b);
    w->k->loops->gradient(&p->runs, p->range, &operands, &constants, &slopes);
}

/* The sums of the calling thread's channels, over samples and slices in their order: the matrix of
 * all sums becomes its first row. */
static void add_samples(const work *w, float *dweight, float *dbias)
{
    const group_norm *k = w->k;
    const int64_t channels = k->shape.channels;
    int64_t begin, end;
    yki_share(channels, &begin, &end);
    for (int64_t row = 1; row < k->shape.images * k->slices; row++) {
        const double *more = w->sums + row * 2 * channels;
        for (int64_t c = begin; c < end; c++) {
            w->sums[c] += more[c];
            w->sums[channels + c] += more[channels + c];
        }
    }
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
    sweep(&w, &(sweeps){NULL, settle_slopes, reduce, derive});
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
                                            .inplace = 1 + YKI_GROUP_NORM_X,
                                            .supports = supports,
                                            .prepare = prepare,
                                            .run = group_norm_run};
const yki_kernel_impl yki_cpu_group_norm_backward = {.op = &yki_op_group_norm_backward,
                                                     .inplace = 1 + YKI_GROUP_NORM_BACKWARD_DY,
                                                     .supports = supports,
                                                     .prepare = prepare,
                                                     .run = group_norm_backward_run};

/* See group_norm.h. */
#include "device/cpu/group_norm.h"

#include "base/memory.h"
#include "device/cpu/units.h"

enum {
    MOST_BLOCK = YKI_GROUP_NORM_MOST_BLOCK,
    SAMPLES = YKI_GROUP_NORM_SAMPLES,
    RUN = 4096,  /* the most elements of a run, as in norm_units.c */
    PIECES = 64, /* at least, for many threads, if there are as many runs */
    GROUPS = 32  /* of a batch: enough for many threads */
};

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

static int64_t clusters_of(const yki_group_norm *k)
{
    return (k->shape.blocks + k->cluster - 1) / k->cluster;
}

static void divide_work(yki_group_norm *k, const yki_device *device, yk_dtype dtype)
{
    const yki_geometry *g = &k->shape;
    const int64_t image = g->blocks * g->pixels * g->b, pieces = g->images * g->blocks;
    k->runs = (yki_runs){
        .dtype = dtype, .b = g->b, .pixels = g->pixels, .image = image, .run = RUN / g->b};
    k->runs.runs_an_image = (g->pixels + k->runs.run - 1) / k->runs.run;
    k->slices = (PIECES + pieces - 1) / pieces;
    if (k->slices > k->runs.runs_an_image)
        k->slices = k->runs.runs_an_image;
    k->is_small = dtype == YK_F32 && k->runs.runs_an_image == 1 && 2 * g->b == k->loops->pack;
    k->is_apart = k->is_small && k->group_channels % g->b == 0 && g->images * k->groups >= GROUPS;
    k->is_shared = k->is_small && g->b > k->group_channels && g->b % k->group_channels == 0 &&
                   g->channels % g->b == 0;
    k->team = yki_team(device, g->images * image);
    k->cluster = k->group_channels / common_divisor(k->group_channels, g->b);
    k->is_whole = k->team == 1 || g->images * clusters_of(k) >= 4 * (int64_t)k->team;
}

/* The values of each group whose mean is near the group's: they are far apart. */
static void set_samples(yki_group_norm *k)
{
    const yki_geometry *g = &k->shape;
    for (int64_t i = 0; i < k->groups * SAMPLES; i++) {
        const int64_t group = i / SAMPLES, sample = i % SAMPLES;
        const int64_t channel = (group * SAMPLES + sample) * k->group_channels / SAMPLES;
        const int64_t pixel = (2 * sample + 1) * g->pixels / (2 * SAMPLES);
        k->samples[i] = (channel / g->b * g->pixels + pixel) * g->b + channel % g->b;
    }
}

static size_t reserve(yki_group_norm *k, size_t bytes)
{
    const size_t at = k->base.scratch;
    k->base.scratch = yki_align(at + bytes, YKI_ALIGNMENT);
    return at;
}

yk_status yki_group_norm_prepare(yki_device *device, const yki_kernel_desc *desc,
                                 yki_kernel **kernel)
{
    const size_t bytes =
        sizeof(yki_group_norm) + (size_t)(desc->attrs->groups * SAMPLES) * sizeof(int64_t);
    yki_group_norm *k = yki_calloc(1, bytes);
    if (!k)
        return yki_error_memory(bytes, "a group_norm kernel");
    const yki_operand *x = &desc->in[0];
    k->loops = yki_cpu_loops_of(device);
    k->shape = geometry_of(device, x, k->loops->pack);
    k->groups = desc->attrs->groups;
    k->group_channels = k->shape.channels / k->groups;
    k->eps = desc->attrs->eps;
    k->stream = yki_operand_bytes(device, x) >= yki_cpu_sizes_of(device)->streamed;
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

static yki_group_norm_piece piece_of(const yki_group_norm *k, int64_t sample, int64_t block,
                                     int64_t slice)
{
    const yki_geometry *g = &k->shape;
    yki_group_norm_piece p = {.sample = sample, .slice = slice, .channel = block * g->b};
    p.channels = g->channels - p.channel < g->b ? g->channels - p.channel : g->b;
    p.at = (sample * g->blocks + block) * g->pixels * g->b;
    return p;
}

yki_run_range yki_group_norm_runs(const yki_group_norm *k, const yki_group_norm_piece *p,
                                  yki_runs *runs)
{
    const int64_t count = k->runs.runs_an_image, first = p->sample * count;
    *runs = k->runs;
    runs->base = p->channel * k->shape.pixels;
    return (yki_run_range){first + count * p->slice / k->slices,
                           first + count * (p->slice + 1) / k->slices};
}

/* ---- the order of work ----------------------------------------------------------------------- */

static void for_pieces(const yki_group_norm_work *w, int64_t sample, int64_t first_block,
                       int64_t end_block, yki_group_norm_piece_fn function)
{
    for (int64_t block = first_block; function && block < end_block; block++)
        for (int64_t slice = 0; slice < w->k->slices; slice++) {
            const yki_group_norm_piece p = piece_of(w->k, sample, block, slice);
            function(w, &p);
        }
}

static void for_groups(const yki_group_norm_work *w, int64_t sample, int64_t first, int64_t end,
                       yki_group_norm_group_fn function)
{
    for (int64_t group = first; function && group < end; group++)
        function(w, sample, group);
}

/* All of some whole groups at once. */
static void sweep_cluster(const yki_group_norm_work *w, int64_t unit,
                          const yki_group_norm_sweeps *s)
{
    const yki_group_norm *k = w->k;
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

static void sweep_clusters(const yki_group_norm_work *w, const yki_group_norm_sweeps *s)
{
    const yki_group_norm *k = w->k;
    const int64_t count = k->shape.images * clusters_of(k);
    yki_units units;
    yki_units_divide(&units, count,
                     yki_grain(count, k->cluster * k->shape.b * k->shape.pixels, k->team), k->team);
#pragma omp parallel num_threads(k->team) if (k->team > 1)
    for (int64_t unit = -1; (unit = yki_units_next(&units, unit)) >= 0;)
        sweep_cluster(w, unit, s);
}

static void sweep_piece(const yki_group_norm_work *w, int64_t index,
                        yki_group_norm_piece_fn function)
{
    const yki_group_norm *k = w->k;
    const int64_t slice = index % k->slices, block = index / k->slices;
    const yki_group_norm_piece p =
        piece_of(k, block / k->shape.blocks, block % k->shape.blocks, slice);
    function(w, &p);
}

/* Where there are few groups for so many threads. A thread keeps its pieces for the second sweep,
 * because their data may be in its cache. */
static void sweep_pieces(const yki_group_norm_work *w, const yki_group_norm_sweeps *s)
{
    const yki_group_norm *k = w->k;
    const int64_t pieces = k->shape.images * k->shape.blocks * k->slices;
#pragma omp parallel num_threads(k->team) if (k->team > 1)
    {
#pragma omp for
        for (int64_t sample = 0; sample < k->shape.images; sample++)
            for_groups(w, sample, 0, k->groups, s->begin);
#pragma omp for
        for (int64_t i = 0; i < (s->first ? pieces : 0); i++)
            sweep_piece(w, i, s->first);
#pragma omp for
        for (int64_t i = 0; i < (s->settle ? k->shape.images * k->groups : 0); i++)
            s->settle(w, i / k->groups, i % k->groups);
#pragma omp for
        for (int64_t i = 0; i < (s->second ? pieces : 0); i++)
            sweep_piece(w, i, s->second);
    }
}

void yki_group_norm_sweep(const yki_group_norm_work *w, const yki_group_norm_sweeps *s)
{
    if (w->k->is_whole)
        sweep_clusters(w, s);
    else
        sweep_pieces(w, s);
}

/* See norm.h. */
#include "device/cpu/norm.h"

#include "base/memory.h"
#include "device/cpu/units.h"
#include "device/norm_rules.h"

enum {
    RUN = 4096, /* the most elements of a run: 16 KiB, a part of the first-level cache */
    INPUT = 0
};

/* ---- preparation ----------------------------------------------------------------------------- */

/* Channels of one pixel are neighbours in memory, so they form blocks themselves. */
static void widen_block(yki_geometry *shape, int pack)
{
    int most = pack < YKI_NORM_MAX_BLOCK ? pack : YKI_NORM_MAX_BLOCK;
    while (shape->pixels == 1 && shape->b < most && shape->channels % (2 * shape->b) == 0)
        shape->b *= 2;
    shape->blocks = (shape->channels + shape->b - 1) / shape->b;
}

static int64_t common_divisor(int64_t a, int64_t b)
{
    return b == 0 ? a : common_divisor(b, a % b);
}

static void divide_work(yki_norm *k, const yki_device *device, yk_dtype dtype)
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
        k->slices =
            k->run_count > 0 ? k->run_count : 1; /* without samples there is one, which is empty */
    k->base.scratch = (size_t)(g->blocks * k->slices) * sizeof(yki_norm_partial);
}

yk_status yki_norm_prepare(yki_device *device, const yki_kernel_desc *desc, yki_kernel **kernel)
{
    yki_norm *k = yki_calloc(1, sizeof *k);
    if (!k)
        return yki_error_memory(sizeof *k, "a batch_norm kernel");
    k->loops = yki_cpu_loops_of(device);
    k->shape = yki_geometry_of(device, &desc->in[INPUT]);
    if (desc->in[INPUT].layout == YKI_PLAIN)
        widen_block(&k->shape, k->loops->pack);
    divide_work(k, device, desc->in[INPUT].dtype);
    size_t bytes = yki_operand_bytes(device, &desc->in[INPUT]);
    /* Such results leave the second-level cache before they are read; twice as much, what the
     * second sweep reads again. */
    const size_t streamed = yki_cpu_sizes_of(device)->streamed;
    k->stream = bytes >= streamed;
    k->stream_kept = bytes >= 2 * streamed;
    k->training = desc->training;
    k->activation = desc->attrs->activation;
    k->eps = desc->attrs->eps;
    k->momentum = desc->attrs->momentum;
    for (int i = 0; i < YKI_MAX_IN; i++)
        k->in[i] = yki_has_in(desc, i);
    for (int i = 0; i < YKI_MAX_OUT; i++)
        k->out[i] = yki_has_out(desc, i);
    *kernel = &k->base;
    return YK_OK;
}

/* ---- units of work --------------------------------------------------------------------------- */

static yki_norm_unit unit_of(const yki_norm *k, const yki_kernel_args *run, int64_t index)
{
    const yki_geometry *g = &k->shape;
    yki_norm_unit u = {.block = index / k->slices, .slice = index % k->slices, .runs = k->runs};
    u.channel = u.block * g->b;
    u.channels = g->channels - u.channel < g->b ? g->channels - u.channel : g->b;
    u.runs.base = u.block * g->pixels * g->b;
    u.range = (yki_run_range){k->run_count * u.slice / k->slices,
                              k->run_count * (u.slice + 1) / k->slices};
    u.partials = (yki_norm_partial *)run->scratch + u.block * k->slices;
    return u;
}

/* The number of pixels in the first `end` runs. */
static int64_t pixels_before(const yki_runs *runs, int64_t end)
{
    return end / runs->runs_an_image * runs->pixels + end % runs->runs_an_image * runs->run;
}

int64_t yki_norm_pixels(const yki_runs *runs, yki_run_range range)
{
    return pixels_before(runs, range.end) - pixels_before(runs, range.begin);
}

void yki_norm_sweep_once(const yki_norm *k, const yki_kernel_args *run, yki_norm_unit_fn function)
{
    yki_units units;
    yki_units_divide(&units, k->shape.blocks * k->slices, 1, k->team);
#pragma omp parallel num_threads(k->team) if (k->team > 1)
    for (int64_t i = -1; (i = yki_units_next(&units, i)) >= 0;) {
        yki_norm_unit u = unit_of(k, run, i);
        function(k, run, &u);
    }
}

/* If units are whole blocks, the second sweep follows at once, while the block is in the cache. */
static void sweep_blocks(const yki_norm *k, const yki_kernel_args *run, yki_norm_unit_fn first,
                         yki_norm_unit_fn second)
{
    yki_units units;
    yki_units_divide(&units, k->shape.blocks, 1, k->team);
#pragma omp parallel num_threads(k->team) if (k->team > 1)
    for (int64_t i = -1; (i = yki_units_next(&units, i)) >= 0;) {
        yki_norm_unit u = unit_of(k, run, i);
        first(k, run, &u);
        second(k, run, &u);
    }
}

/* If units are slices of blocks, a thread keeps its slices for the second sweep, because their data
 * is in its cache. */
static void sweep_slices(const yki_norm *k, const yki_kernel_args *run, yki_norm_unit_fn first,
                         yki_norm_unit_fn second)
{
#pragma omp parallel num_threads(k->team) if (k->team > 1)
    {
        int64_t begin, end;
        yki_share(k->shape.blocks * k->slices, &begin, &end);
        for (int64_t i = begin; i < end; i++) {
            yki_norm_unit u = unit_of(k, run, i);
            first(k, run, &u);
        }
#pragma omp barrier
        for (int64_t i = begin; i < end; i++) {
            yki_norm_unit u = unit_of(k, run, i);
            second(k, run, &u);
        }
    }
}

void yki_norm_sweep(const yki_norm *k, const yki_kernel_args *run, yki_norm_unit_fn first,
                    yki_norm_unit_fn second)
{
    if (k->slices == 1)
        sweep_blocks(k, run, first, second);
    else
        sweep_slices(k, run, first, second);
}

yk_status yki_norm_sweep_synced(const yki_norm *k, const yki_kernel_args *run,
                                yki_norm_unit_fn first, yki_norm_found_fn found,
                                yki_norm_unit_fn second)
{
    const yki_sync *sync = run->sync;
    int64_t channels = k->shape.channels;
    yki_norm_sweep_once(k, run, first);
    sync->mine[0] = (double)(k->shape.images * k->shape.pixels);
    for (int64_t block = 0; block < k->shape.blocks; block++) {
        yki_norm_unit u = unit_of(k, run, block * k->slices);
        for (int64_t c = 0; c < u.channels; c++) {
            double a, b;
            found(k, run, &u, c, &a, &b);
            yki_sync_put(sync, channels, u.channel + c, a, b);
        }
    }
    YK_TRY(sync->gather(sync, channels, NULL));
    const double count = yki_sync_count(sync, channels);
    if (count < 2) /* all ranks come to the same answer */
        return yki_too_few_values((int64_t)count);
    yki_norm_sweep_once(k, run, second);
    return YK_OK;
}

/*
 * Images of another size, over (images, blocks, pixels, b), forward and gradient: each row of the
 * result is a sum of rows, and each of its pixels a sum of that row's pixels, with weights that are
 * found in advance. So the sums over rows run along memory, and threads, which take whole rows,
 * never write to the same place.
 */
#include "graph/interpolate.h"

#include <stdlib.h>

#include "base/memory.h"
#include "device/cpu/geometry.h"
#include "device/cpu/loops/loops.h"
#include "device/cpu/units.h"

typedef struct interpolate {
    yki_kernel base;
    const yki_cpu_loops *loops;
    yki_geometry from, to;
    yki_mixing mixing;
    void *taps;                  /* of plain images */
    size_t from_image, to_image; /* bytes of a block of channels */
    int64_t own;                 /* floats of a row of each thread */
    int team;
    int64_t grain; /* rows that a thread takes at a time */
} interpolate;

static bool supports(const yki_device *device, const yki_kernel_desc *desc)
{
    (void)device;
    return desc->in[0].ndim == 4 && yki_alike(&desc->in[0], &desc->out[0]) &&
           desc->in[0].layout != YKI_CHANNELS_LAST && desc->in[0].dims[3] < INT32_MAX;
}

/* ---- weights --------------------------------------------------------------------------------- */

/* How many weights yki_mix needs for all results of an axis. */
static int64_t count_weights(const yki_axis *axis, bool is_gradient)
{
    int64_t count = 0;
    if (!is_gradient)
        return 2 * axis->outputs;
    for (int64_t i = 0; i < axis->inputs; i++)
        count += yki_end_output(axis, i) - yki_first_output(axis, i);
    return count;
}

/* Returns the weights that are left. */
static float *weigh_inputs(const yki_axis *axis, yki_mix *mixes, float *weights)
{
    for (int64_t i = 0; i < axis->outputs; i++, weights += 2) {
        const yki_taps taps = yki_taps_of(axis, i);
        mixes[i] = (yki_mix){taps.first, taps.part ? 2 : 1, weights};
        weights[1] = (float)((double)taps.part / (double)axis->divisor);
        weights[0] = (float)(1 - (double)taps.part / (double)axis->divisor);
    }
    return weights;
}

static float *weigh_outputs(const yki_axis *axis, yki_mix *mixes, float *weights)
{
    for (int64_t i = 0; i < axis->inputs; i++) {
        const int64_t first = yki_first_output(axis, i), end = yki_end_output(axis, i);
        mixes[i] = (yki_mix){first, end - first, weights};
        for (int64_t p = first; p < end; p++)
            *weights++ = (float)((double)yki_part_of(axis, p, i) / (double)axis->divisor);
    }
    return weights;
}

static float *weigh(const yki_axis *axis, bool is_gradient, yki_mix *mixes, float *weights)
{
    return is_gradient ? weigh_outputs(axis, mixes, weights) : weigh_inputs(axis, mixes, weights);
}

/* Where images are plain, the taps of vectors of results; see yki_mixing. */
static yk_status list_taps(interpolate *k)
{
    yki_mixing *m = &k->mixing;
    for (int64_t q = 0; q < m->columns; q++)
        m->taps = m->of_columns[q].count > m->taps ? m->of_columns[q].count : m->taps;
    m->line = yki_line_floats(m->columns);
    const size_t count = (size_t)(m->taps * m->line),
                 bytes = count * (sizeof(int32_t) + sizeof(float));
    k->taps = yki_calloc(1, bytes);
    if (!k->taps)
        return yki_error_memory(bytes, "a kernel of interpolate");
    float *shares = k->taps;
    int32_t *places = (int32_t *)(shares + count);
    for (int64_t t = 0; t < m->taps; t++)
        for (int64_t q = 0; q < m->line; q++) {
            const yki_mix *mix = &m->of_columns[q];
            const bool is_tap = q < m->columns && t < mix->count;
            places[t * m->line + q] = (int32_t)(is_tap ? mix->first + t : m->pitch);
            shares[t * m->line + q] = is_tap ? mix->weights[t] : 0;
        }
    m->places = places;
    m->shares = shares;
    return YK_OK;
}

/* ---- preparation and running ----------------------------------------------------------------- */

/* The kernel's memory is followed by the mixes of rows and of columns, and the weights. */
static yk_status prepare(yki_device *device, const yki_kernel_desc *desc, yki_kernel **kernel)
{
    const yki_attrs *a = desc->attrs;
    const bool is_gradient = desc->op == &yki_op_interpolate_backward;
    const yki_geometry from = yki_geometry_of(device, &desc->in[0]);
    const yki_geometry to = yki_geometry_of(device, &desc->out[0]);
    const yki_geometry *x = is_gradient ? &to : &from, *y = is_gradient ? &from : &to;
    const yki_axis down = yki_axis_of(a->bilinear, a->align_corners, x->rows, y->rows);
    const yki_axis across = yki_axis_of(a->bilinear, a->align_corners, x->columns, y->columns);
    const int64_t mixes = to.rows + to.columns, units = to.images * to.blocks * to.rows;
    const int64_t weights = count_weights(&down, is_gradient) + count_weights(&across, is_gradient);
    const int64_t pixels = (from.pixels > to.pixels ? from.pixels : to.pixels) * to.b;
    const int team = yki_team(device, to.images * to.blocks * pixels);
    const size_t bytes =
        sizeof(interpolate) + (size_t)mixes * sizeof(yki_mix) + (size_t)weights * sizeof(float);
    interpolate *k = yki_calloc(1, bytes);
    if (!k)
        return yki_error_memory(bytes, "a kernel of interpolate");
    yki_mix *of_rows = (yki_mix *)(k + 1), *of_columns = of_rows + to.rows;
    weigh(&across, is_gradient, of_columns,
          weigh(&down, is_gradient, of_rows, (float *)(of_columns + to.columns)));
    k->loops = yki_cpu_loops_of(device);
    k->from = from;
    k->to = to;
    k->mixing = (yki_mixing){.dtype = desc->in[0].dtype,
                             .pitch = from.columns,
                             .columns = to.columns,
                             .of_rows = of_rows,
                             .of_columns = of_columns,
                             .copies = !a->bilinear && !is_gradient,
                             .apart = from.pixels > to.pixels,
                             .stream = yki_streams(device, &desc->out[0]) &&
                                       yki_exceed_caches(device, &desc->in[0], &desc->out[0])};
    k->from_image = (size_t)(from.pixels * from.b) * yk_dtype_size(desc->in[0].dtype);
    k->to_image = (size_t)(to.pixels * to.b) * yk_dtype_size(desc->in[0].dtype);
    k->team = team;
    k->own = yki_line_floats(from.columns * from.b + 1);
    k->base.scratch = (size_t)(team * k->own) * sizeof(float);
    k->grain = yki_grain(units, pixels / to.rows, team);
    const yk_status status = from.b == 1 ? list_taps(k) : YK_OK;
    if (status != YK_OK)
        free(k);
    else
        *kernel = &k->base;
    return status;
}

static void interpolate_destroy(yki_kernel *kernel)
{
    free(((interpolate *)kernel)->taps);
    free(kernel);
}

static yk_status interpolate_run(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const interpolate *k = (const interpolate *)kernel;
    const int64_t rows = k->to.rows;
    const char *from = run->in[0];
    char *to = run->out[0];
    yki_units units;
    yki_units_divide(&units, k->to.images * k->to.blocks * rows, k->grain, k->team);
#pragma omp parallel num_threads(k->team) if (k->team > 1)
    for (int64_t i = -1; (i = yki_units_next(&units, i)) >= 0;) {
        const void *x = from + (size_t)(i / rows) * k->from_image;
        void *y = to + (size_t)(i / rows) * k->to_image;
        float *own = (float *)run->scratch + omp_get_thread_num() * k->own;
        if (k->from.b == 1)
            k->loops->mix_numbers(&k->mixing, i % rows, x, y, own);
        else
            k->loops->mix_pixels(&k->mixing, i % rows, x, y, own);
    }
    return YK_OK;
}

#define IMPL(name)                                                                                 \
    const yki_kernel_impl yki_cpu_##name = {.op = &yki_op_##name,                                  \
                                            .supports = supports,                                  \
                                            .prepare = prepare,                                    \
                                            .run = interpolate_run,                                \
                                            .destroy = interpolate_destroy}
IMPL(interpolate);
IMPL(interpolate_backward);

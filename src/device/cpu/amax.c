/*
 * amax and amin, and their gradient, of f32, bf16 and f16. A value is columns of so many rows, or
 * rows where the last dimension is reduced, or the channels of pixels, which lie in blocks. Maxima
 * are the same in any order, so the threads share whatever is left.
 */
#include "base/memory.h"
#include "device/cpu/geometry.h"
#include "device/cpu/loops/loops.h"
#include "device/cpu/units.h"
#include "device/middle.h"

enum {
    MOST_COLUMNS = 1024, /* that are taken at a time, */
    LEAST_COLUMNS = 64,
    NEAR_ELEMENTS = 1 << 16, /* of so many elements, if possible, which are read twice backward */
    UNIT_ELEMENTS = 4096,    /* of rows, or of channels */
    UNITS_OF_THREAD = 4
};

typedef struct amax {
    yki_kernel base;
    const yki_cpu_loops *loops;
    yk_dtype dtype;
    bool least;
    bool channels; /* in blocks, */
    int64_t used;  /* of which the last has so many */
    size_t size;   /* of an element */
    yki_middle middle;
    int64_t length;       /* of a unit: columns, rows or pixels */
    int64_t parts, units; /* of an outer one, and of all */
    int64_t block, grain;
    int team;
} amax;

/* The operands like x are in its layout, and the others too, unless channels in blocks are reduced.
 */
static bool supports(const yki_kernel_desc *desc, const yki_operand *x, const yki_operand *others[],
                     int count)
{
    const bool channels = x->layout == YKI_BLOCKED && desc->attrs->dim == 1;
    bool good = yki_is_float(x) && x->layout != YKI_CHANNELS_LAST;
    for (int i = 0; i < count; i++)
        good = good && others[i]->dtype == x->dtype &&
               others[i]->layout == (channels ? YKI_PLAIN : x->layout);
    return good;
}

static bool amax_supports(const yki_device *device, const yki_kernel_desc *desc)
{
    (void)device;
    const yki_operand *others[] = {&desc->out[YKI_AMAX_Y]};
    return supports(desc, &desc->in[YKI_AMAX_X], others, 1);
}

static bool backward_supports(const yki_device *device, const yki_kernel_desc *desc)
{
    (void)device;
    const yki_operand *x = &desc->in[YKI_AMAX_BACKWARD_X];
    const yki_operand *others[] = {&desc->in[YKI_AMAX_BACKWARD_DY], &desc->in[YKI_AMAX_BACKWARD_Y]};
    return yki_alike(x, &desc->out[YKI_AMAX_BACKWARD_DX]) && supports(desc, x, others, 2);
}

static int64_t within(int64_t number, int64_t least, int64_t most)
{
    return number < least ? least : number > most ? most : number;
}

/* How many columns a unit has: fewer where there are many rows, or few columns for the threads. */
static int64_t columns_of_unit(const amax *k)
{
    const yki_middle *m = &k->middle;
    const int64_t wanted = m->outer * m->inner / (UNITS_OF_THREAD * k->team) + 1;
    int64_t most = within(NEAR_ELEMENTS / m->size, LEAST_COLUMNS, MOST_COLUMNS);
    most = within(wanted, LEAST_COLUMNS, most) / LEAST_COLUMNS * LEAST_COLUMNS;
    return most < m->inner ? most : m->inner;
}

/* Of rows, the outer ones are the parts. */
static void divide(amax *k)
{
    const yki_middle *m = &k->middle;
    const bool rows = !k->channels && m->inner == 1;
    const int64_t count = k->channels ? m->inner / k->block : rows ? m->outer : m->inner;
    const int64_t elements = k->channels ? m->size * k->block : m->size;
    k->length =
        k->channels || rows ? within(UNIT_ELEMENTS / elements, 1, count) : columns_of_unit(k);
    k->parts = (count + k->length - 1) / k->length;
    k->units = k->parts * (rows ? 1 : m->outer);
    k->grain = yki_grain(k->units, k->length * elements, k->team);
}

static yk_status prepare(yki_device *device, const yki_kernel_desc *desc, const yki_operand *x,
                         yki_kernel **kernel)
{
    amax *k = yki_calloc(1, sizeof *k);
    if (!k)
        return yki_error_memory(sizeof *k, "a kernel of maxima");
    k->loops = yki_cpu_loops_of(device);
    k->dtype = x->dtype;
    k->least = desc->op == &yki_op_amin;
    k->channels = x->layout == YKI_BLOCKED && desc->attrs->dim == 1;
    k->block = device->block;
    k->size = yk_dtype_size(x->dtype);
    k->middle = yki_middle_of(x, desc->attrs->dim, device->block);
    k->used = k->channels ? x->dims[1] - (k->middle.size - 1) * k->block : 0;
    k->team = yki_team(device, yki_operand_elements(device, x));
    divide(k);
    *kernel = &k->base;
    return YK_OK;
}

static yk_status amax_prepare(yki_device *device, const yki_kernel_desc *desc, yki_kernel **kernel)
{
    return prepare(device, desc, &desc->in[YKI_AMAX_X], kernel);
}

static yk_status backward_prepare(yki_device *device, const yki_kernel_desc *desc,
                                  yki_kernel **kernel)
{
    return prepare(device, desc, &desc->in[YKI_AMAX_BACKWARD_X], kernel);
}

/* Some columns, rows or pixels: where they begin in x and in y, and how many they are. */
typedef struct unit {
    size_t x, y; /* bytes */
    int64_t count;
    yki_pixel_channels pixels;
} unit;

static unit unit_at(const amax *k, int64_t number)
{
    const yki_middle *m = &k->middle;
    const int64_t outer = number / k->parts, begin = number % k->parts * k->length;
    const int64_t lanes = k->channels ? k->block : 1;
    const bool rows = !k->channels && m->inner == 1;
    const int64_t all = rows ? m->outer : m->inner / lanes;
    unit u = {.count = within(all - begin, 0, k->length)};
    u.x = (size_t)(outer * m->size * m->inner + begin * (rows ? m->size : lanes)) * k->size;
    u.y = (size_t)(outer * (rows ? 1 : all) + begin) * k->size;
    u.pixels = (yki_pixel_channels){m->size, all, k->used, u.count};
    return u;
}

static yk_status run_amax(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const amax *k = (const amax *)kernel;
    const yki_middle *m = &k->middle;
    yki_units units;
    yki_units_divide(&units, k->units, k->grain, k->team);
#pragma omp parallel num_threads(k->team) if (k->team > 1)
    for (int64_t i = -1; (i = yki_units_next(&units, i)) >= 0;) {
        const unit u = unit_at(k, i);
        const void *x = (const char *)run->in[YKI_AMAX_X] + u.x;
        void *y = (char *)run->out[YKI_AMAX_Y] + u.y;
        if (k->channels)
            k->loops->extreme_channels(k->dtype, k->least, x, &u.pixels, y);
        else if (m->inner == 1)
            k->loops->extreme_rows(k->dtype, k->least, x, u.count, m->size, y);
        else
            k->loops->extreme_columns(k->dtype, k->least, x, m->size, m->inner, u.count, y);
    }
    return YK_OK;
}

static yk_status run_backward(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const amax *k = (const amax *)kernel;
    const yki_middle *m = &k->middle;
    yki_units units;
    yki_units_divide(&units, k->units, k->grain, k->team);
#pragma omp parallel num_threads(k->team) if (k->team > 1)
    for (int64_t i = -1; (i = yki_units_next(&units, i)) >= 0;) {
        const unit u = unit_at(k, i);
        const void *x = (const char *)run->in[YKI_AMAX_BACKWARD_X] + u.x;
        const void *y = (const char *)run->in[YKI_AMAX_BACKWARD_Y] + u.y;
        const void *dy = (const char *)run->in[YKI_AMAX_BACKWARD_DY] + u.y;
        void *dx = (char *)run->out[YKI_AMAX_BACKWARD_DX] + u.x;
        float own[2 * MOST_COLUMNS];
        if (k->channels)
            k->loops->extreme_channel_slopes(k->dtype, x, &u.pixels, y, dy, dx);
        else if (m->inner == 1)
            k->loops->extreme_row_slopes(k->dtype, x, y, dy, dx, u.count, m->size);
        else
            k->loops->extreme_column_slopes(k->dtype, x, m->size, m->inner, u.count, y, dy, dx,
                                            own);
    }
    return YK_OK;
}

#define IMPL(name, check, make, run_it)                                                            \
    const yki_kernel_impl yki_cpu_##name = {                                                       \
        .op = &yki_op_##name, .supports = check, .prepare = make, .run = run_it}
IMPL(amax, amax_supports, amax_prepare, run_amax);
IMPL(amin, amax_supports, amax_prepare, run_amax);
IMPL(amax_backward, backward_supports, backward_prepare, run_backward);

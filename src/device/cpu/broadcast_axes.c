/* See broadcast_axes.h. */
#include "device/cpu/broadcast_axes.h"

#include "device/broadcast.h"
#include "device/cpu/geometry.h"

/* The dimension and axis of channels, which blocks have, and the axis of their lanes. */
enum { CHANNELS = YK_MAX_DIMS - 3, LANES = YK_MAX_DIMS };

static int64_t round_up(int64_t count, int64_t multiple)
{
    return (count + multiple - 1) / multiple * multiple;
}

/* lanes: those of the large operand. */
static void describe_operand(const yki_operand *x, int64_t lanes, yki_side which,
                             yki_axis axes[YKI_MAX_AXES])
{
    int64_t dims[YK_MAX_DIMS];
    const bool is_blocked = x->layout == YKI_BLOCKED;
    const int64_t own = is_blocked ? lanes : 1;
    yki_broadcast_dims(x->ndim, x->dims, dims);
    const int64_t pixels = dims[CHANNELS + 1] * dims[CHANNELS + 2];
    int64_t step = own;
    for (int d = YK_MAX_DIMS - 1; d >= 0; d--) {
        axes[d].stride[which] = dims[d] == 1 ? 0 : d == CHANNELS ? lanes * pixels : step;
        step = d == CHANNELS ? round_up(dims[d], own) * pixels : step * dims[d];
    }
    axes[LANES].stride[which] = dims[CHANNELS] == 1 ? 0 : is_blocked ? 1 : pixels;
}

/* Whether all operands walk along the inner axis as often as the outer one has steps. */
static bool can_merge(const yki_axis *outer, const yki_axis *inner)
{
    bool can = true;
    for (int i = 0; i < YKI_AXIS_OPERANDS; i++)
        can = can && outer->stride[i] == inner->size * inner->stride[i];
    return can;
}

static void merge_axes(yki_axes *k, const yki_axis axes[YKI_MAX_AXES], bool ragged)
{
    int last = -1; /* of those that were kept, in `axes` */
    for (int d = 0; d < YKI_MAX_AXES; d++) {
        bool apart = ragged && (d == CHANNELS || d == LANES || last == CHANNELS);
        if (axes[d].size == 1 && !(ragged && (d == CHANNELS || d == LANES)))
            continue;
        if (k->count > 0 && !apart && can_merge(&k->axis[k->count - 1], &axes[d])) {
            int64_t size = k->axis[k->count - 1].size;
            k->axis[k->count - 1] = axes[d];
            k->axis[k->count - 1].size *= size;
        } else
            k->axis[k->count++] = axes[d];
        if (ragged && d == CHANNELS)
            k->block_axis = k->count - 1;
        last = d;
    }
    if (k->count == 0)
        k->axis[k->count++] = (yki_axis){.size = 1};
}

yki_axes yki_axes_of(const yki_device *device, const yki_kernel_desc *desc,
                     const yki_operand *large)
{
    yki_axes k = {.block_axis = -1};
    int64_t dims[YK_MAX_DIMS];
    int64_t lanes = large->layout == YKI_BLOCKED ? device->block : 1;
    yki_broadcast_dims(large->ndim, large->dims, dims);
    yki_axis axes[YKI_MAX_AXES] = {{0}};
    for (int d = 0; d < YK_MAX_DIMS; d++)
        axes[d].size = d == CHANNELS ? round_up(dims[d], lanes) / lanes : dims[d];
    axes[LANES].size = lanes;
    describe_operand(&desc->in[0], lanes, YKI_SIDE_A, axes);
    if (desc->in_count > 1 && desc->in[1].ndim >= 0)
        describe_operand(&desc->in[1], lanes, YKI_SIDE_B, axes);
    describe_operand(&desc->out[0], lanes, YKI_SIDE_Y, axes);
    k.last_lanes = dims[CHANNELS] % lanes;
    merge_axes(&k, axes, k.last_lanes != 0);
    return k;
}

int64_t yki_axes_lanes(const yki_axes *k, int64_t block)
{
    bool is_last = k->block_axis >= 0 && block == k->axis[k->block_axis].size - 1;
    return is_last ? k->last_lanes : k->axis[k->count - 1].size;
}

bool yki_axes_known(const yki_kernel_desc *desc, const yki_operand *large)
{
    bool good = yki_is_float(large);
    for (int i = 0; i < desc->in_count && desc->in[i].ndim >= 0; i++)
        good = good && desc->in[i].dtype == large->dtype &&
               (desc->in[i].layout == YKI_PLAIN || large->layout == YKI_BLOCKED);
    const yki_operand *out = &desc->out[0];
    return good && out->dtype == large->dtype &&
           (out->layout == YKI_PLAIN || large->layout == YKI_BLOCKED);
}

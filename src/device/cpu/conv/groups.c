/* See groups.h. */
#include "device/cpu/conv/groups.h"

#include <string.h>

/* Channels of a blocked activation with its padding, if they are fewer than a vector has. */
static int64_t padded(const yki_device *device, const yki_operand *activation)
{
    int64_t channels = activation->dims[1];
    bool few = activation->layout == YKI_BLOCKED && channels < device->block;
    return few ? device->block : channels;
}

/* Groups as wide as a part of a vector. The last of the merged ones may lack some, whose channels
 * are padding. */
static void merge_narrow(const yki_device *device, const yki_operand *x, const yki_operand *y,
                         yki_conv_groups *g)
{
    int64_t width = g->inputs_a_group, merged = device->block > 0 ? device->block / width : 1;
    bool narrow = width > 1 && width < device->block && device->block % width == 0;
    bool blocked = x->layout == YKI_BLOCKED && y->layout == YKI_BLOCKED;
    if (!narrow || g->filters_a_group != width || !(blocked || g->groups % merged == 0))
        return;
    g->merged = merged;
    g->groups = (g->groups + merged - 1) / merged;
    g->all_filters = g->all_inputs = device->block;
}

yki_conv_groups yki_conv_groups_of(const yki_device *device, const yki_operand *x,
                                   const yki_operand *weight, const yki_operand *y, int64_t groups)
{
    const int64_t *dims = weight->dims; /* (K, I, R, S) */
    yki_conv_groups g = {.filters = dims[0],
                         .filters_a_group = dims[0] / groups,
                         .inputs_a_group = dims[1],
                         .taps = dims[2] * dims[3],
                         .merged = 1,
                         .groups = groups,
                         .all_filters = dims[0] / groups,
                         .all_inputs = dims[1]};
    if (groups > 1) {
        merge_narrow(device, x, y, &g);
        return g;
    }
    g.all_filters = padded(device, y);
    g.all_inputs = padded(device, x);
    return g;
}

bool yki_conv_groups_differ(const yki_conv_groups *g)
{
    return g->all_filters != g->filters_a_group || g->all_inputs != g->inputs_a_group;
}

size_t yki_conv_groups_elements(const yki_conv_groups *g)
{
    return (size_t)(g->groups * g->all_filters * g->all_inputs * g->taps);
}

/* Where the weights of a filter begin among the arranged ones. */
static int64_t place(const yki_conv_groups *g, int64_t filter)
{
    int64_t group = filter / g->filters_a_group, first = group / g->merged * g->merged;
    int64_t among = group / g->merged * g->all_filters + filter - first * g->filters_a_group;
    return (among * g->all_inputs + (group - first) * g->inputs_a_group) * g->taps;
}

void yki_conv_groups_arrange(const yki_conv_groups *g, const float *weights, float *arranged)
{
    int64_t count = g->inputs_a_group * g->taps;
    for (int64_t k = 0; k < g->filters; k++)
        memcpy(arranged + place(g, k), weights + k * count, (size_t)count * sizeof *weights);
}

void yki_conv_groups_extract(const yki_conv_groups *g, const float *arranged, float *weights)
{
    int64_t count = g->inputs_a_group * g->taps;
    for (int64_t k = 0; k < g->filters; k++)
        memcpy(weights + k * count, arranged + place(g, k), (size_t)count * sizeof *weights);
}

/* See conv_groups.h. */
#include "device/cpu/conv_groups.h"

#include <string.h>

yki_conv_groups yki_conv_groups_of(const yki_device *device, const yki_operand *weight,
                                   int64_t groups)
{
    const int64_t *dims = weight->dims; /* (K, I, R, S) */
    yki_conv_groups g = {.merged = 1,
                         .filters = dims[0],
                         .filters_a_group = dims[0] / groups,
                         .inputs_a_group = dims[1],
                         .taps = dims[2] * dims[3]};
    bool narrow = dims[1] > 1 && dims[1] < device->block && device->block % dims[1] == 0;
    int64_t merged = narrow ? device->block / dims[1] : 1;
    if (g.filters_a_group == dims[1] && groups % merged == 0)
        g.merged = merged;
    return g;
}

size_t yki_conv_groups_elements(const yki_conv_groups *groups)
{
    return (size_t)(groups->filters * groups->merged * groups->inputs_a_group * groups->taps);
}

/* Where the weights of a filter begin among the merged ones. */
static int64_t place(const yki_conv_groups *g, int64_t filter)
{
    int64_t group = filter / g->filters_a_group;
    return (filter * g->merged + group % g->merged) * g->inputs_a_group * g->taps;
}

void yki_conv_groups_merge(const yki_conv_groups *g, const float *weights, float *merged)
{
    int64_t count = g->inputs_a_group * g->taps;
    for (int64_t k = 0; k < g->filters; k++)
        memcpy(merged + place(g, k), weights + k * count, (size_t)count * sizeof *weights);
}

void yki_conv_groups_extract(const yki_conv_groups *g, const float *merged, float *weights)
{
    int64_t count = g->inputs_a_group * g->taps;
    for (int64_t k = 0; k < g->filters; k++)
        memcpy(weights + k * count, merged + place(g, k), (size_t)count * sizeof *weights);
}

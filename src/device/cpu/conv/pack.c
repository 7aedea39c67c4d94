/* See pack.h. */
#include "device/cpu/conv/pack.h"

#include <stdlib.h>

#include "base/memory.h"
#include "device/cpu/x86/weight_pairs.h"

enum { LANES = 16, TAPS = 9 };

/* Whether `packed` is the layout of weight_pairs.h. */
static bool takes_pairs(const yki_conv_groups *g, yki_const_md packed)
{
#if defined(__x86_64__)
    bool grouped = g->groups > 1;
    int64_t dims[] = {g->groups, g->all_filters, g->all_inputs, 3, 3};
    yki_md pairs = NULL;
    if (yki_conv_groups_differ(g) || g->taps != TAPS || g->all_filters % LANES != 0 ||
        g->all_inputs % LANES != 0)
        return false;
    yk_status status = yki_md_with_tag(&pairs, 4 + grouped, dims + !grouped, YK_BF16,
                                       grouped ? dnnl_gOIhw8i16o2i : dnnl_OIhw8i16o2i);
    bool same = status == YK_OK && yki_md_equal(pairs, packed);
    yki_md_destroy(pairs);
    return same;
#else
    (void)g;
    (void)packed;
    return false;
#endif
}

yk_status yki_conv_pack_prepare(yki_conv_pack *pack, dnnl_engine_t engine, yki_const_md plain,
                                yki_const_md packed)
{
    pack->pairs = takes_pairs(&pack->groups, packed);
    if (pack->pairs)
        return YK_OK;
    if (yki_conv_groups_differ(&pack->groups) || pack->turned) {
        size_t elements = yki_conv_groups_elements(&pack->groups);
        pack->arranged = yki_calloc(elements, sizeof *pack->arranged);
        if (!pack->arranged)
            return yki_error_memory(elements * sizeof *pack->arranged, "a convolution's weights");
    }
    return yki_dnn_prepare_reorder(&pack->reorder, engine, plain, packed);
}

/* (groups, inputs, filters, taps) to (groups, filters, inputs, taps). */
static void turn(const yki_conv_groups *g, const float *weights, float *turned)
{
    const int64_t group = g->all_filters * g->all_inputs;
    for (int64_t filter = 0; filter < g->groups * g->all_filters; filter++)
        for (int64_t in = 0; in < g->all_inputs; in++) {
            int64_t of_group = filter / g->all_filters * group, one = filter % g->all_filters;
            const float *from = weights + (of_group + in * g->all_filters + one) * g->taps;
            for (int64_t t = 0; t < g->taps; t++)
                *turned++ = from[g->taps - 1 - t];
        }
}

#if defined(__x86_64__)
static void pack_pairs(const yki_conv_pack *pack, const float *weights, uint16_t *packed)
{
    const yki_weight_pairs pairs = {.groups = pack->groups.groups,
                                    .filters = pack->groups.all_filters,
                                    .inputs = pack->groups.all_inputs,
                                    .turned = pack->turned};
    const int64_t blocks = pairs.groups * (pairs.filters / LANES);
#pragma omp parallel for num_threads(pack->team) if (pack->team > 1) schedule(dynamic)
    for (int64_t block = 0; block < blocks; block++)
        yki_weight_pairs_pack(&pairs, weights, block, packed);
}
#endif

yk_status yki_conv_pack_run(const yki_conv_pack *pack, dnnl_stream_t stream, const float *weights,
                            void *packed)
{
#if defined(__x86_64__)
    if (pack->pairs) {
        pack_pairs(pack, weights, packed);
        return YK_OK;
    }
#endif
    void *pointers[] = {pack->arranged ? pack->arranged : (void *)(uintptr_t)weights, packed};
    if (pack->arranged && pack->turned)
        turn(&pack->groups, weights, pack->arranged);
    else if (pack->arranged)
        yki_conv_groups_arrange(&pack->groups, weights, pack->arranged);
    return yki_dnn_run(&pack->reorder, stream, pointers, NULL);
}

void yki_conv_pack_destroy(yki_conv_pack *pack)
{
    yki_dnn_destroy(&pack->reorder);
    free(pack->arranged);
}

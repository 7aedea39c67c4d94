/* The weights of bf16 dot products, packed by weight_pairs.c, against oneDNN's own reorder. */
#include <stdlib.h>
#include <string.h>

#include "device/cpu/loops/loops.h"
#include "device/cpu/onednn.h"
#include "device/cpu/x86/weight_pairs.h"
#include "harness.h"

enum { GROUPS = 3, FILTERS = 48, INPUTS = 32, TAPS = 9, SQUARE = 16 };

static const size_t weight_count = (size_t)GROUPS * FILTERS * INPUTS * TAPS;

static yki_device *open_device(void)
{
    yki_device *device;
    assert_ok(yki_device_create(&device, "cpu", &(yki_device_options){.threads = 1}));
    bool has_avx512 = false, has_bf16 = ((const yki_cpu_device *)device)->has_bf16;
#if defined(__x86_64__)
    has_avx512 = yki_cpu_loops_of(device) == &yki_cpu_loops_avx512;
#endif
    if (has_avx512 && has_bf16)
        return device;
    yki_device_destroy(device);
    skip_because("this processor has no AVX-512 with bf16");
    return NULL;
}

/* Numbers that bf16 rounds up and down, ties, and some that it cannot represent. */
static float *random_weights(void)
{
    float *weights = malloc(weight_count * sizeof *weights);
    uint32_t state = 1;
    for (size_t i = 0; i < weight_count; i++) {
        state = state * 1664525u + 1013904223u;
        uint32_t bits = (state & 0x807fffffu) | 0x3f000000u;
        if (i % 7 == 0)
            bits = (bits & 0xffff0000u) | 0x8000u;
        memcpy(&weights[i], &bits, sizeof bits);
    }
    const uint32_t infinity = 0x7f800000u, largest = 0x7f7fffffu;
    memcpy(&weights[5], &infinity, sizeof infinity);
    memcpy(&weights[6], &largest, sizeof largest);
    return weights;
}

static uint16_t *pack(const float *weights, bool turned)
{
    const yki_weight_pairs pairs = {
        .groups = GROUPS, .filters = FILTERS, .inputs = INPUTS, .turned = turned};
    uint16_t *packed = calloc(weight_count, sizeof *packed);
    for (int64_t block = 0; block < GROUPS * (FILTERS / SQUARE); block++)
        yki_weight_pairs_pack(&pairs, weights, block, packed);
    return packed;
}

static uint16_t *reordered(yki_device *device, float *weights)
{
    const yki_cpu_device *cpu = (const yki_cpu_device *)device;
    int64_t dims[] = {GROUPS, FILTERS, INPUTS, 3, 3};
    yki_md plain, packed;
    yki_dnn_primitive reorder = {NULL};
    uint16_t *result = calloc(weight_count, sizeof *result);
    assert_ok(yki_md_with_tag(&plain, 5, dims, YK_F32, dnnl_abcde));
    assert_ok(yki_md_with_tag(&packed, 5, dims, YK_BF16, dnnl_gOIhw8i16o2i));
    assert_ok(yki_dnn_prepare_reorder(&reorder, cpu->engine, plain, packed));
    void *scratch = malloc(reorder.scratch + 1);
    assert_ok(yki_dnn_run(&reorder, cpu->stream, (void *[]){weights, result}, scratch));
    free(scratch);
    yki_dnn_destroy(&reorder);
    yki_md_destroy(plain);
    yki_md_destroy(packed);
    return result;
}

YK_TEST(weights_in_pairs_are_those_of_onednn)
{
    yki_device *device = open_device();
    float *weights = random_weights();
    uint16_t *ours = pack(weights, false), *theirs = reordered(device, weights);
    assert_memory_equal(ours, theirs, weight_count * sizeof *ours);
    free(ours);
    free(theirs);
    free(weights);
    yki_device_destroy(device);
}

/* (groups, filters, inputs, taps) to (groups, inputs, filters, taps in reverse order) */
static float *turn(const float *weights)
{
    float *turned = malloc(weight_count * sizeof *turned);
    for (size_t g = 0; g < GROUPS; g++)
        for (size_t f = 0; f < FILTERS; f++)
            for (size_t i = 0; i < INPUTS; i++)
                for (size_t t = 0; t < TAPS; t++)
                    turned[((g * INPUTS + i) * FILTERS + f) * TAPS + TAPS - 1 - t] =
                        weights[((g * FILTERS + f) * INPUTS + i) * TAPS + t];
    return turned;
}

YK_TEST(weights_that_are_turned_are_packed_as_those_that_were)
{
    yki_device *device = open_device();
    float *weights = random_weights(), *turned = turn(weights);
    uint16_t *of_weights = pack(weights, false), *of_turned = pack(turned, true);
    assert_memory_equal(of_weights, of_turned, weight_count * sizeof *of_weights);
    free(of_weights);
    free(of_turned);
    free(turned);
    free(weights);
    yki_device_destroy(device);
}

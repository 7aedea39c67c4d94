/* Every kernel of the cpu device against ref, wherever it is possible, whatever the rules say. */
#define _GNU_SOURCE
#include <stdlib.h>

#include "device/cpu/x86/amx.h"
#include "families.h"
#include "forced_kernel.h"
#include "harness.h"

static const conformance_setting f32 = {
    .device = "cpu", .dtype = YK_F32, .threads = 2, .tolerance = 1e-3, .winograd = true};
static const conformance_setting bf16 = {
    .device = "cpu", .dtype = YK_BF16, .threads = 2, .tolerance = 1e-2, .winograd = true};

static void force(const char *name, const conformance_setting *setting,
                  const conformance_family *const *families)
{
    conformance_setting with = *setting;
    with.type = forced_kernel_type(name);
    for (; *families; families++)
        conformance_device(*families, &with);
}

/* The families whose shapes a kernel may be chosen for. */
#define OF(...) ((const conformance_family *const[]){__VA_ARGS__, NULL})

YK_TEST(winograd_wherever_it_is_possible)
{
    force("winograd", &f32, OF(&family_winograd64));
}

YK_TEST(winograd_wherever_it_is_possible_in_bf16)
{
    force("winograd", &bf16, OF(&family_winograd64));
}

YK_TEST(minimal_wherever_it_is_possible)
{
    force("minimal", &f32, OF(&family_conv2d, &family_winograd, &family_halving64));
}

YK_TEST(minimal_wherever_it_is_possible_in_bf16)
{
    force("minimal", &bf16, OF(&family_winograd, &family_halving64));
}

YK_TEST(minimal_wherever_it_is_possible_with_avx2)
{
    setenv("ONEDNN_MAX_CPU_ISA", "AVX2", 1);
    force("minimal", &f32, OF(&family_conv2d, &family_winograd));
}

YK_TEST(minimal_wherever_it_is_possible_with_sse2)
{
    setenv("ONEDNN_MAX_CPU_ISA", "SSE41", 1);
    force("minimal", &f32, OF(&family_conv2d, &family_winograd, &family_halving64));
    force("minimal", &bf16, OF(&family_winograd, &family_halving64));
}

YK_TEST(strided_wherever_it_is_possible)
{
    force("strided", &f32, OF(&family_strided64));
}

YK_TEST(pointwise_wherever_it_is_possible)
{
    force("pointwise", &f32, OF(&family_conv2d));
}

YK_TEST(patches_wherever_they_are_possible)
{
    force("patches", &f32, OF(&family_conv2d, &family_conv_transpose2d));
}

YK_TEST(strips_wherever_they_are_possible)
{
    force("strips", &f32, OF(&family_conv2d));
    force("strips", &bf16, OF(&family_conv2d));
}

YK_TEST(narrow_wherever_it_is_possible)
{
    force("narrow", &f32, OF(&family_conv2d));
}

/* By dot products of bf16, where they are fast. */
YK_TEST(narrow_wherever_it_is_possible_in_bf16)
{
    force("narrow", &bf16, OF(&family_conv2d));
}

/* As on a processor with AVX-512, but without bf16. */
YK_TEST(narrow_wherever_it_is_possible_in_bf16_by_f32_arithmetic)
{
    setenv("ONEDNN_MAX_CPU_ISA", "AVX512_CORE", 1);
    force("narrow", &bf16, OF(&family_conv2d));
}

YK_TEST(narrow_wherever_it_is_possible_with_avx2)
{
    setenv("ONEDNN_MAX_CPU_ISA", "AVX2", 1);
    force("narrow", &f32, OF(&family_conv2d));
    force("narrow", &bf16, OF(&family_conv2d));
}

YK_TEST(narrow_wherever_it_is_possible_with_sse2)
{
    setenv("ONEDNN_MAX_CPU_ISA", "SSE41", 1);
    force("narrow", &f32, OF(&family_conv2d));
    force("narrow", &bf16, OF(&family_conv2d));
}

YK_TEST(depthwise_wherever_it_is_possible)
{
    force("depthwise", &f32, OF(&family_conv2d));
    force("depthwise", &bf16, OF(&family_conv2d));
}

YK_TEST(depthwise_wherever_it_is_possible_with_avx2)
{
    setenv("ONEDNN_MAX_CPU_ISA", "AVX2", 1);
    force("depthwise", &f32, OF(&family_conv2d));
    force("depthwise", &bf16, OF(&family_conv2d));
}

YK_TEST(depthwise_wherever_it_is_possible_with_sse2)
{
    setenv("ONEDNN_MAX_CPU_ISA", "SSE41", 1);
    force("depthwise", &f32, OF(&family_conv2d));
    force("depthwise", &bf16, OF(&family_conv2d));
}

YK_TEST(split_wherever_it_is_possible)
{
#if defined(__x86_64__)
    if (!__builtin_cpu_supports("avx512bw"))
        skip();
#endif
    force("split", &f32, OF(&family_conv2d));
    force("split", &bf16, OF(&family_conv2d));
}

/* Also for so many images that rules would prefer other kernels. */
YK_TEST(amx_wherever_it_is_possible)
{
    static const conformance_case cases[] = {{.x = {40, 32, 5, 6},
                                              .filters = 48,
                                              .kernel = {3},
                                              .stride = 1,
                                              .padding = 1,
                                              .dilation = 1,
                                              .groups = 1},
                                             {.x = {9, 64, 4, 4},
                                              .filters = 32,
                                              .kernel = {3},
                                              .stride = 1,
                                              .padding = 1,
                                              .dilation = 1,
                                              .groups = 1},
                                             {.x = {33, 40, 3, 3},
                                              .filters = 24,
                                              .kernel = {1},
                                              .stride = 1,
                                              .dilation = 1,
                                              .groups = 1}};
    const conformance_family family = {family_conv2d.build, cases, sizeof cases / sizeof *cases};
#if defined(__x86_64__)
    if (!yki_amx_is_usable())
        skip_because("this processor has no AMX");
#endif
    force("amx", &bf16, OF(&family));
    force("amx_line", &bf16, OF(&family));
}

YK_TEST(onednn_wherever_it_is_possible)
{
    force("onednn", &f32, OF(&family_winograd, &family_halving64));
    force("onednn", &bf16, OF(&family_conv2d, &family_winograd));
}

YK_TEST(staged_wherever_it_is_possible)
{
    force("staged", &bf16, OF(&family_conv2d, &family_winograd));
}

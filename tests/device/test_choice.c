/* Kernels that are chosen by measuring them, and how the choice is kept. */
#define _GNU_SOURCE
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <yoke/system.h>

#include "device/cpu/amx.h"
#include "device/cpu/onednn.h"
#include "device/device.h"
#include "device/plan_cache.h"
#include "families.h"
#include "harness.h"

/* ---- kernels that take as long as the test wants --------------------------------------------- */

enum {
    REPEATS = 4,     /* of a kernel, when it is measured */
    SLOW_US = 300000 /* so slow that nothing else that happens on the machine matters */
};

/* A case's kernels, how long they take, and how often they have run. */
typedef struct trial {
    yki_device_type type; /* of the case's devices */
    const yki_kernel_impl *const *kernels;
    bool first_is_slow;
    int stalls; /* runs of the second kernel that something else holds up */
    int quick_runs, slow_runs;
} trial;

typedef struct trial_kernel {
    yki_kernel base;
    trial *of;
} trial_kernel;

static bool takes_conv(const yki_device *device, const yki_kernel_desc *desc)
{
    (void)device;
    (void)desc;
    return true;
}

static yk_status prepare_trial(yki_device *device, const yki_kernel_desc *desc, yki_kernel **kernel)
{
    (void)desc;
    trial_kernel *made = calloc(1, sizeof *made);
    made->of = (trial *)(uintptr_t)device->type; /* its first member */
    *kernel = &made->base;
    return YK_OK;
}

static yk_status fail_to_prepare(yki_device *device, const yki_kernel_desc *desc,
                                 yki_kernel **kernel)
{
    (void)device;
    (void)desc;
    (void)kernel;
    return yki_error(YK_ERROR_UNSUPPORTED, "not this one");
}

static yk_status run_slowly_or_not(const yki_kernel *kernel, bool slow)
{
    trial *t = ((const trial_kernel *)kernel)->of;
    (*(slow ? &t->slow_runs : &t->quick_runs))++;
    if (slow)
        usleep(SLOW_US);
    return YK_OK;
}

static yk_status run_first(const yki_kernel *kernel, const yki_kernel_args *run)
{
    (void)run;
    return run_slowly_or_not(kernel, ((const trial_kernel *)kernel)->of->first_is_slow);
}

static yk_status run_second(const yki_kernel *kernel, const yki_kernel_args *run)
{
    (void)run;
    trial *t = ((const trial_kernel *)kernel)->of;
    if (t->stalls > 0 && t->stalls--)
        usleep(10 * SLOW_US);
    return run_slowly_or_not(kernel, !t->first_is_slow);
}

static const yki_kernel_impl first = {.op = &yki_op_conv2d,
                                      .name = "first",
                                      .supports = takes_conv,
                                      .prepare = prepare_trial,
                                      .run = run_first};
static const yki_kernel_impl second = {.op = &yki_op_conv2d,
                                       .name = "second",
                                       .supports = takes_conv,
                                       .prepare = prepare_trial,
                                       .run = run_second};
static const yki_kernel_impl broken = {.op = &yki_op_conv2d,
                                       .name = "broken",
                                       .supports = takes_conv,
                                       .prepare = fail_to_prepare,
                                       .run = run_second};
static const yki_kernel_impl *const two_kernels[] = {&first, &second, &broken, NULL};
static const yki_kernel_impl *const one_kernel[] = {&first, NULL};

/* A cpu device with the trial's kernels alone. */
static yki_device *open_device(trial *t)
{
    yki_device *device;
    assert_ok(
        yki_device_create(&device, "cpu", &(yki_device_options){.threads = 1, .measures = true}));
    t->type = *device->type;
    t->type.kernels = t->kernels;
    device->type = &t->type;
    return device;
}

static const yki_attrs attrs = {.stride = 1, .padding = 1, .dilation = 1, .groups = 1};

static yki_kernel_desc conv_desc(int64_t batch)
{
    yki_kernel_desc desc = {.op = &yki_op_conv2d, .attrs = &attrs, .in_count = 3, .out_count = 1};
    desc.in[0] = (yki_operand){.dtype = YK_F32, .ndim = 4, .dims = {batch, 4, 4, 4}};
    desc.in[1] = (yki_operand){.dtype = YK_F32, .ndim = 4, .dims = {4, 4, 3, 3}};
    desc.in[2].ndim = -1;
    desc.out[0] = desc.in[0];
    return desc;
}

static const yki_kernel_impl *chosen(yki_device *device, int64_t batch)
{
    yki_kernel *kernel;
    yki_kernel_desc desc = conv_desc(batch);
    assert_ok(yki_kernel_create(device, &desc, &kernel));
    const yki_kernel_impl *impl = kernel->impl;
    yki_kernel_destroy(kernel);
    return impl;
}

/* Of a device of its own. */
static const yki_kernel_impl *choose(trial *t, int64_t batch)
{
    yki_device *device = open_device(t);
    const yki_kernel_impl *impl = chosen(device, batch);
    assert_ptr_equal(chosen(device, batch), impl);
    yki_device_destroy(device);
    return impl;
}

static void use_new_cache(void)
{
    char folder[256];
    snprintf(folder, sizeof folder, "%s/cache-XXXXXX", yk_test_directory());
    assert_non_null(mkdtemp(folder));
    setenv("XDG_CACHE_HOME", folder, 1);
}

/* The one file that there is. */
static void find_file(trial *t, char path[2 * YKI_PLAN_PATH])
{
    char folder[YKI_PLAN_PATH];
    yki_device *device = open_device(t);
    yki_plan_cache_folder(folder, device->choices.hardware, device->choices.library);
    yki_device_destroy(device);
    int count = 0;
    DIR *open = opendir(folder);
    assert_non_null(open);
    for (struct dirent *entry; (entry = readdir(open));)
        if (strstr(entry->d_name, ".plan")) {
            snprintf(path, 2 * YKI_PLAN_PATH, "%s/%s", folder, entry->d_name);
            count++;
        }
    closedir(open);
    assert_int_equal(count, 1);
}

/* ---- measuring ------------------------------------------------------------------------------- */

YK_TEST(the_fastest_kernel_is_chosen)
{
    trial t = {.kernels = two_kernels, .first_is_slow = true};
    setenv("XDG_CACHE_HOME", "/dev/null", 1);
    assert_ptr_equal(choose(&t, 1), &second);
    t.first_is_slow = false;
    assert_ptr_equal(choose(&t, 1), &first);
}

/* A kernel that is many times slower runs twice. */
YK_TEST(a_hopeless_kernel_is_not_measured_again)
{
    trial t = {.kernels = two_kernels, .first_is_slow = true};
    setenv("XDG_CACHE_HOME", "/dev/null", 1);
    choose(&t, 1);
    assert_int_equal(t.quick_runs, REPEATS);
    assert_int_equal(t.slow_runs, 2);
}

/* Its first run, which only warms up, took long because of something else on the machine. */
YK_TEST(a_fast_kernel_that_was_held_up_once_is_chosen)
{
    trial t = {.kernels = two_kernels, .first_is_slow = true, .stalls = 1};
    setenv("XDG_CACHE_HOME", "/dev/null", 1);
    assert_ptr_equal(choose(&t, 1), &second);
}

YK_TEST(nothing_is_measured_unless_asked_for)
{
    trial two = {.kernels = two_kernels, .first_is_slow = true};
    trial one = {.kernels = one_kernel, .first_is_slow = true};
    yki_device *device = open_device(&two);
    device->choices.measures = false;
    assert_ptr_equal(chosen(device, 1), &first);
    assert_int_equal(device->choices.count, 0);
    yki_device_destroy(device);
    device = open_device(&one);
    assert_ptr_equal(chosen(device, 1), &first);
    yki_device_destroy(device);
    assert_int_equal(two.quick_runs + two.slow_runs + one.quick_runs + one.slow_runs, 0);
}

/* A device without AMX, for example, resumes the run of one that has it. */
YK_TEST(a_recorded_choice_counts_where_it_is_possible)
{
    trial two = {.kernels = two_kernels, .first_is_slow = true};
    trial one = {.kernels = one_kernel};
    yki_device *device = open_device(&two), *other = open_device(&one);
    setenv("XDG_CACHE_HOME", "/dev/null", 1);
    assert_ptr_equal(chosen(device, 3), &second);
    const yki_choice *choice = &device->choices.list[0];
    assert_string_equal(choice->problem, "conv2d stride 1 padding 1 dilation 1 groups 1, float32 "
                                         "3x4x4x4, float32 4x4x3x3, none, float32 3x4x4x4");
    assert_string_equal(choice->kernel, "second");
    assert_ok(yki_choices_set(&other->choices, choice->problem, choice->kernel));
    assert_ptr_equal(chosen(other, 3), &first);
    yki_device_destroy(other);

    other = open_device(&two);
    other->choices.measures = false;
    assert_ok(yki_choices_set(&other->choices, choice->problem, choice->kernel));
    assert_ptr_equal(chosen(other, 3), &second);
    assert_ptr_equal(chosen(other, 4), &first);
    yki_device_destroy(other);
    yki_device_destroy(device);
}

/* ---- files ----------------------------------------------------------------------------------- */

YK_TEST(a_choice_is_kept_for_the_next_run)
{
    trial t = {.kernels = two_kernels, .first_is_slow = true};
    use_new_cache();
    assert_ptr_equal(choose(&t, 1), &second);
    t.first_is_slow = false;
    assert_ptr_equal(choose(&t, 1), &second);
    assert_int_equal(t.quick_runs, REPEATS);
    assert_ptr_equal(choose(&t, 2), &first); /* another problem */
}

YK_TEST(a_damaged_file_is_replaced)
{
    char path[2 * YKI_PLAN_PATH];
    trial t = {.kernels = two_kernels, .first_is_slow = true};
    use_new_cache();
    choose(&t, 1);
    find_file(&t, path);
    FILE *file = fopen(path, "r+");
    assert_non_null(file);
    fseek(file, -2, SEEK_END);
    fputc('!', file);
    fclose(file);
    choose(&t, 1);
    assert_int_equal(t.quick_runs, 2 * REPEATS);
    choose(&t, 1);
    assert_int_equal(t.quick_runs, 2 * REPEATS);
}

/* ---- rules ----------------------------------------------------------------------------------- */

static const yki_kernel_impl *ruled(const yki_op *op, yki_operand in1, yki_operand out)
{
    yki_device *device;
    yki_kernel *kernel;
    const yki_attrs depthwise = {.stride = 1, .padding = 1, .dilation = 1, .groups = 32};
    yki_kernel_desc desc = {
        .op = op, .attrs = &depthwise, .in_count = 2, .out_count = 1, .in = {{.ndim = 0}}};
    assert_ok(yki_device_create(&device, "cpu", &(yki_device_options){.threads = 1}));
    if (device->block != 16 || !yk_cpu_has_bf16()) {
        yki_device_destroy(device);
        skip_because("this processor has no AVX-512 with bf16");
    }
    desc.in[0] =
        (yki_operand){.dtype = YK_BF16, .ndim = 4, .dims = {8, 32, 6, 6}, .layout = YKI_BLOCKED};
    desc.in[1] = in1;
    desc.out[0] = out;
    desc.in[2].ndim = desc.out[1].ndim = -1;
    assert_ok(yki_kernel_create(device, &desc, &kernel));
    const yki_kernel_impl *impl = kernel->impl;
    yki_kernel_destroy(kernel);
    yki_device_destroy(device);
    return impl;
}

YK_TEST(depthwise_convolutions_compute_in_bf16)
{
    if (!yk_cpu_has_bf16())
        skip_because("this processor has no AVX-512 with bf16");
    const yki_operand y = {
        .dtype = YK_BF16, .ndim = 4, .dims = {8, 32, 6, 6}, .layout = YKI_BLOCKED};
    const yki_operand weight = {.dtype = YK_F32, .ndim = 4, .dims = {32, 1, 3, 3}};
    assert_ptr_equal(ruled(&yki_op_conv2d, weight, y), &yki_cpu_conv2d);
    assert_ptr_equal(ruled(&yki_op_conv2d_backward_data, weight, y), &yki_cpu_conv2d_backward_data);
    assert_ptr_equal(ruled(&yki_op_conv2d_backward_weight, y, weight),
                     &yki_cpu_conv2d_backward_weight);
}

static bool is_of_matrix_unit(yki_device *device, yk_dtype dtype)
{
    static const yki_attrs conv = {.stride = 1, .dilation = 1, .groups = 1};
    const yki_operand x = {dtype, 4, {8, 64, 6, 6}, YKI_BLOCKED};
    yki_kernel_desc desc = {.op = &yki_op_conv2d,
                            .attrs = &conv,
                            .in_count = 3,
                            .in = {x, {YK_F32, 4, {64, 64, 1, 1}, YKI_PLAIN}, {.ndim = -1}},
                            .out_count = 1,
                            .out = {x}};
    yki_kernel *kernel;
    assert_ok(yki_kernel_create(device, &desc, &kernel));
    bool is = kernel->matrix_unit;
    yki_kernel_destroy(kernel);
    return is;
}

/* A profile compares them with what they can do, not with f32 arithmetic. */
YK_TEST(fast_dot_products_of_bf16_have_a_limit_of_their_own)
{
    yki_device *device;
    yki_limits limits = {0, 0, 0};
    assert_ok(yki_device_create(&device, "cpu", &(yki_device_options){.threads = 1}));
    yki_cpu_device *cpu = (yki_cpu_device *)device;
    bool fast = cpu->native_bf16;
    cpu->has_amx = false;
    if (fast) {
        assert_ok(device->type->measure(device, &limits));
        assert_true(limits.matrix_flop_s > limits.flop_s);
        assert_true(is_of_matrix_unit(device, YK_BF16));
        assert_false(is_of_matrix_unit(device, YK_F32));
    }
    yki_device_destroy(device);
    if (!fast)
        skip_because("dot products of bf16 are not fast here");
}

/* A 3x3 convolution on a processor that has AVX-512 with bf16, but no AMX. */
typedef struct rule_case {
    int64_t batch, channels, side, stride, groups;
} rule_case;

static const char *ruled_as(yk_dtype dtype, const yki_op *op, rule_case c, bool fast)
{
    yki_device *device;
    yki_kernel *kernel;
    int64_t half = (c.side - 1) / c.stride + 1;
    const yki_operand weight = {YK_F32, 4, {c.channels, c.channels / c.groups, 3, 3}, YKI_PLAIN};
    const yki_operand x = {dtype, 4, {c.batch, c.channels, c.side, c.side}, YKI_BLOCKED};
    const yki_operand y = {dtype, 4, {c.batch, c.channels, half, half}, YKI_BLOCKED};
    const yki_attrs conv = {.stride = c.stride, .padding = 1, .dilation = 1, .groups = c.groups};
    yki_kernel_desc desc = {.op = op, .attrs = &conv, .in_count = 2, .out_count = 1};
    desc.in[0] = op == &yki_op_conv2d_backward_data ? y : x;
    desc.in[1] = op == &yki_op_conv2d_backward_weight ? y : weight;
    desc.out[0] = op == &yki_op_conv2d ? y : op == &yki_op_conv2d_backward_data ? x : weight;
    desc.in[2].ndim = desc.out[1].ndim = -1;
    assert_ok(
        yki_device_create(&device, "cpu", &(yki_device_options){.threads = 1, .winograd = true}));
    yki_cpu_device *cpu = (yki_cpu_device *)device;
    if (!cpu->has_bf16) {
        yki_device_destroy(device);
        skip_because("this processor has no AVX-512 with bf16");
    }
    cpu->has_amx = false;
    cpu->native_bf16 = fast;
    assert_ok(yki_kernel_create(device, &desc, &kernel));
    const char *name = kernel->impl->name;
    yki_kernel_destroy(kernel);
    yki_device_destroy(device);
    return name;
}

static void assert_ruled(rule_case c, bool fast, const char *forward, const char *data,
                         const char *weight)
{
    assert_string_equal(ruled_as(YK_BF16, &yki_op_conv2d, c, fast), forward);
    assert_string_equal(ruled_as(YK_BF16, &yki_op_conv2d_backward_data, c, fast), data);
    assert_string_equal(ruled_as(YK_BF16, &yki_op_conv2d_backward_weight, c, fast), weight);
}

/* See bf16_gains.c. */
YK_TEST(convolutions_in_bf16_follow_the_rate_of_its_dot_products)
{
    const rule_case large = {16, 64, 32, 1, 1}, padded = {32, 64, 4, 1, 1},
                    ragged = {16, 64, 14, 1, 1}, few = {16, 32, 32, 1, 1},
                    some = {16, 96, 32, 1, 1}, narrow = {64, 48, 16, 1, 1},
                    deep = {64, 256, 14, 1, 1}, odd = {64, 64, 15, 1, 1},
                    deep_odd = {64, 256, 7, 1, 1}, half_filled = {64, 128, 10, 1, 1},
                    halving = {32, 64, 32, 2, 1}, long_rows = {32, 64, 64, 2, 1},
                    part_filled = {32, 64, 14, 2, 1};
    assert_ruled(large, false, "winograd", "winograd", "winograd");
    assert_ruled(large, true, "winograd", "winograd", "winograd");
    assert_ruled(padded, false, "winograd", "winograd", "winograd");
    assert_ruled(padded, true, "onednn", "onednn", "winograd"); /* a third of it is padding */
    assert_ruled(ragged, false, "winograd", "winograd", "winograd");
    assert_ruled(ragged, true, "onednn", "onednn", "winograd");   /* tiles of 16x16 */
    assert_ruled(deep, true, "winograd", "winograd", "winograd"); /* transforms less, compared */
    assert_ruled(odd, true, "winograd", "winograd", "winograd");
    assert_ruled(deep_odd, true, "winograd", "winograd", "winograd");
    assert_ruled(half_filled, false, "winograd", "winograd", "winograd");
    assert_ruled(half_filled, true, "onednn", "onednn", "onednn"); /* tiles of 12x12 */
    assert_ruled(few, false, "minimal", "minimal", "minimal");
    assert_ruled(few, true, "onednn", "onednn", "minimal");
    assert_ruled(narrow, true, "minimal", "minimal", "minimal");
    assert_ruled(some, true, "minimal", "minimal", "minimal");
    assert_ruled(halving, false, "minimal", "minimal", "minimal");
    assert_ruled(halving, true, "onednn", "onednn", "minimal");
    assert_ruled(long_rows, true, "onednn", "onednn", "onednn");
    assert_ruled(part_filled, true, "onednn", "onednn", "onednn");
}

/* See conv_narrow.c. */
YK_TEST(narrow_groups_in_bf16_follow_the_rate_of_its_dot_products)
{
    const rule_case depthwise = {8, 32, 14, 1, 32}, small_depthwise = {8, 32, 12, 1, 32},
                    eight = {8, 64, 14, 1, 8}, small_eight = {8, 64, 12, 1, 8},
                    small_four = {8, 64, 7, 1, 16};
    assert_ruled(depthwise, false, "narrow", "narrow", "onednn");
    assert_ruled(depthwise, true, "narrow", "narrow", "onednn");
    assert_ruled(small_depthwise, false, "onednn", "onednn", "onednn");
    assert_ruled(small_depthwise, true, "onednn", "onednn", "onednn");
    assert_ruled(eight, false, "narrow", "narrow", "narrow");
    assert_ruled(eight, true, "narrow", "narrow", "onednn");
    assert_ruled(small_eight, false, "narrow", "narrow", "narrow");
    assert_ruled(small_eight, true, "onednn", "onednn", "onednn");
    assert_ruled(small_four, true, "narrow", "narrow", "narrow");
    const rule_case halving = {8, 64, 56, 2, 8}, small_halving = {8, 64, 14, 2, 8};
    assert_string_equal(ruled_as(YK_BF16, &yki_op_conv2d, halving, true), "narrow");
    assert_string_equal(ruled_as(YK_F32, &yki_op_conv2d, halving, true), "narrow");
    assert_string_equal(ruled_as(YK_BF16, &yki_op_conv2d, small_halving, true), "onednn");
}

/* See minimal.c and conv_strided.c. */
YK_TEST(convolutions_of_stride_2_follow_the_products_that_tiles_save)
{
    const yki_op *const ops[] = {&yki_op_conv2d, &yki_op_conv2d_backward_data};
    const rule_case full = {16, 64, 64, 2, 1}, many = {64, 256, 14, 2, 1},
                    few = {16, 256, 14, 2, 1}, fewer = {8, 256, 14, 2, 1};
    for (int i = 0; i < 2; i++) {
        assert_string_equal(ruled_as(YK_F32, ops[i], full, true), "minimal");
        assert_string_equal(ruled_as(YK_F32, ops[i], many, true), "minimal");
        assert_string_equal(ruled_as(YK_F32, ops[i], few, true), "onednn"); /* weights count */
    }
    assert_string_equal(ruled_as(YK_F32, ops[1], fewer, true), "onednn");
    assert_string_equal(ruled_as(YK_F32, ops[1], fewer, false), "strided");
    assert_string_equal(ruled_as(YK_F32, &yki_op_conv2d_backward_weight, few, true), "minimal");
    assert_string_equal(ruled_as(YK_F32, &yki_op_conv2d_backward_weight, fewer, true), "minimal");
    const rule_case small = {8, 64, 14, 2, 1};
    assert_true(strcmp(ruled_as(YK_F32, &yki_op_conv2d_backward_weight, small, true), "minimal"));
}

/* See minimal.c. */
YK_TEST(eight_tiles_are_enough_for_winograds_algorithm)
{
    const yki_op *const ops[] = {&yki_op_conv2d, &yki_op_conv2d_backward_data,
                                 &yki_op_conv2d_backward_weight};
    const rule_case eight = {2, 96, 7, 1, 1}, four = {1, 96, 7, 1, 1}, group = {2, 64, 7, 1, 2};
    for (int i = 0; i < 3; i++) {
        assert_string_equal(ruled_as(YK_F32, ops[i], eight, true), "minimal");
        assert_string_equal(ruled_as(YK_F32, ops[i], four, true), "onednn");
        assert_string_equal(ruled_as(YK_F32, ops[i], group, true), "split");
    }
}

/* See conv_depthwise.c. */
YK_TEST(gradients_of_depthwise_weights_follow_the_size_of_images)
{
    const yki_op *op = &yki_op_conv2d_backward_weight;
    const rule_case two = {8, 32, 2, 1, 32}, narrow = {8, 32, 6, 1, 32}, wide = {8, 32, 24, 1, 32};
    const rule_case from_memory = {8, 144, 56, 1, 144};
    for (int fast = 0; fast < 2; fast++) {
        assert_string_equal(ruled_as(YK_F32, op, two, fast), "depthwise");
        assert_string_equal(ruled_as(YK_F32, op, narrow, fast), "onednn");
        assert_string_equal(ruled_as(YK_F32, op, wide, fast), fast ? "onednn" : "depthwise");
        assert_string_equal(ruled_as(YK_F32, op, from_memory, fast), "depthwise");
    }
}

/* See conv_strips.c. */
YK_TEST(wide_groups_with_stride_2_in_f32_are_our_own_where_they_come_from_memory)
{
    const rule_case large = {16, 1024, 28, 2, 32}, deep = {16, 1024, 14, 2, 16},
                    cached = {2, 1024, 28, 2, 32}, few = {16, 1024, 14, 2, 32},
                    long_rows = {16, 512, 56, 2, 16}, one = {16, 128, 28, 1, 4};
    const yki_op *op = &yki_op_conv2d;
    for (int fast = 0; fast < 2; fast++) {
        assert_string_equal(ruled_as(YK_F32, op, large, fast), "strips");
        assert_string_equal(ruled_as(YK_F32, op, deep, fast), "strips");
        assert_string_equal(ruled_as(YK_F32, op, cached, fast), "onednn");
        assert_string_equal(ruled_as(YK_F32, op, few, fast), "onednn");
        assert_string_equal(ruled_as(YK_F32, op, long_rows, fast), "onednn");
        assert_string_not_equal(ruled_as(YK_F32, op, one, fast), "strips");
        assert_string_not_equal(ruled_as(YK_BF16, op, large, fast), "strips");
    }
}

YK_TEST(weights_of_wide_groups_with_stride_2_in_bf16_are_our_own_beyond_the_caches)
{
    const yki_op *op = &yki_op_conv2d_backward_weight;
    const rule_case large = {8, 1024, 28, 2, 64}, cached = {8, 512, 28, 2, 32},
                    few = {64, 64, 56, 2, 4}, wide = {8, 1024, 28, 2, 16},
                    short_rows = {16, 1024, 14, 2, 32}, one = {16, 512, 28, 1, 32};
    assert_string_equal(ruled_as(YK_BF16, op, large, true), "strips");
    assert_string_not_equal(ruled_as(YK_BF16, op, large, false), "strips");
    assert_string_not_equal(ruled_as(YK_F32, op, large, true), "strips");
    assert_string_equal(ruled_as(YK_BF16, op, cached, true), "onednn");
    assert_string_equal(ruled_as(YK_BF16, op, few, true), "onednn");
    assert_string_equal(ruled_as(YK_BF16, op, wide, true), "onednn");
    assert_string_equal(ruled_as(YK_BF16, op, short_rows, true), "onednn");
    assert_string_equal(ruled_as(YK_BF16, op, one, true), "onednn");
}

/* See conv_narrow.c and conv_depthwise_strided.c. */
YK_TEST(depthwise_convolutions_beyond_the_caches_are_our_own)
{
    const rule_case small = {8, 144, 28, 1, 144}, large = {8, 144, 56, 1, 144},
                    small_halving = {8, 96, 56, 2, 96}, large_halving = {8, 96, 112, 2, 96};
    for (int fast = 0; fast < 2; fast++) {
        assert_string_equal(ruled_as(YK_F32, &yki_op_conv2d, small, fast), "onednn");
        assert_string_equal(ruled_as(YK_F32, &yki_op_conv2d, large, fast), "narrow");
        assert_string_equal(ruled_as(YK_F32, &yki_op_conv2d_backward_data, large, fast), "narrow");
        assert_string_equal(ruled_as(YK_F32, &yki_op_conv2d, small_halving, fast), "onednn");
        assert_string_equal(ruled_as(YK_F32, &yki_op_conv2d, large_halving, fast), "depthwise");
        assert_string_equal(ruled_as(YK_BF16, &yki_op_conv2d, large_halving, fast), "onednn");
    }
}

/* See conv_depthwise_strided.c. */
YK_TEST(gradients_of_x_of_depthwise_convolutions_of_stride_2_are_our_own)
{
    const yki_op *op = &yki_op_conv2d_backward_data;
    const rule_case narrow = {8, 32, 28, 2, 32}, wide = {8, 32, 56, 2, 32};
    for (int fast = 0; fast < 2; fast++) {
        assert_string_equal(ruled_as(YK_F32, op, narrow, fast), "depthwise");
        assert_string_equal(ruled_as(YK_F32, op, wide, fast), "depthwise");
        assert_string_equal(ruled_as(YK_BF16, op, narrow, fast), "depthwise");
        assert_string_equal(ruled_as(YK_BF16, op, wide, fast), "onednn");
    }
}

/* See conv_split.c. */
YK_TEST(groups_are_convolved_one_by_one_where_they_end_within_vectors_or_tiles_save_products)
{
    const yki_op *const ops[] = {&yki_op_conv2d, &yki_op_conv2d_backward_data,
                                 &yki_op_conv2d_backward_weight};
    const rule_case within = {8, 72, 14, 1, 3}, wide = {8, 64, 14, 1, 2},
                    halving = {8, 64, 14, 2, 2};
    for (int i = 0; i < 3; i++) {
        assert_string_equal(ruled_as(YK_F32, ops[i], within, true), "split");
        assert_string_equal(ruled_as(YK_BF16, ops[i], within, true), "split");
        assert_string_equal(ruled_as(YK_F32, ops[i], wide, true), "split");
        assert_string_equal(ruled_as(YK_BF16, ops[i], wide, true), "onednn");
        assert_true(strcmp(ruled_as(YK_F32, ops[i], halving, true), "split") != 0);
    }
}

/* ---- every kernel against ref ---------------------------------------------------------------- */

enum { MOST_KERNELS = 256 };

static const conformance_setting f32 = {
    .device = "cpu", .dtype = YK_F32, .threads = 2, .tolerance = 1e-3, .winograd = true};
static const conformance_setting bf16 = {
    .device = "cpu", .dtype = YK_BF16, .threads = 2, .tolerance = 1e-2, .winograd = true};

/* The cpu device, where the kernels of this name come first and always gain. */
static void force(const char *name, const conformance_setting *setting,
                  const conformance_family *const *families)
{
    static yki_kernel_impl forced[MOST_KERNELS];
    static const yki_kernel_impl *kernels[2 * MOST_KERNELS];
    static yki_device_type type;
    size_t count = 0;
    type = yki_device_cpu;
    for (const yki_kernel_impl *const *impl = type.kernels; *impl; impl++)
        if ((*impl)->name && strcmp((*impl)->name, name) == 0) {
            forced[count] = **impl;
            forced[count].gains = NULL;
            kernels[count] = &forced[count];
            count++;
        }
    assert_true(count > 0);
    for (size_t i = 0; yki_device_cpu.kernels[i]; i++)
        kernels[count + i] = yki_device_cpu.kernels[i];
    type.kernels = kernels;
    conformance_setting with = *setting;
    with.type = &type;
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

YK_TEST(strided_wherever_it_is_possible)
{
    force("strided", &f32, OF(&family_strided64));
}

YK_TEST(pointwise_wherever_it_is_possible)
{
    force("pointwise", &f32, OF(&family_conv2d));
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

YK_TEST(split_wherever_it_is_possible)
{
    if (!__builtin_cpu_supports("avx512bw"))
        skip();
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
    if (!yki_amx_is_usable())
        skip_because("this processor has no AMX");
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

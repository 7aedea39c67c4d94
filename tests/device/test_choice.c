/* Kernels that are chosen by measuring them, and how the choice is kept. */
#define _GNU_SOURCE
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device/device.h"
#include "device/plan_cache.h"
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

static const yki_attrs attrs = {
    .stride = {1, 1}, .padding = {1, 1}, .dilation = {1, 1}, .groups = 1};

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

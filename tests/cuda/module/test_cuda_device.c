/*
 * The cuda device on the fake driver (cuda/fake_driver): opened as a module, its operators against
 * ref's, and what it says when something is missing.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/module.h"
#include "families.h"
#include "harness.h"

static const conformance_setting settings[] = {
    {.device = "cuda", .dtype = YK_F32, .tolerance = 1e-5},
    {.device = "cuda", .dtype = YK_BF16, .tolerance = 1e-2},
    {.device = "cuda", .dtype = YK_F16, .tolerance = 2e-3},
};

/* ---- operators: the cases that tests/gpu/verify runs ------------------------------------------
 */

enum { FULL = 1, ALL = sizeof settings / sizeof *settings, MOST = 10 };

/* What a case runs: in f32, or in 16 bits too. The list ends with NULL. */
typedef struct operators_case {
    int dtypes;
    const conformance_family *families[MOST];
} operators_case;

static const operators_case broadcasts = {ALL,
                                          {&family_broadcast_add, &family_broadcast_subtract,
                                           &family_broadcast_multiply, &family_broadcast_divide}};
static const operators_case choices = {ALL,
                                       {&family_maximum, &family_minimum, &family_tied_maximum,
                                        &family_tied_minimum, &family_compare, &family_masked_fill,
                                        &family_kept}};
static const operators_case norms = {
    ALL, {&family_batch_norm, &family_batch_norm_apply, &family_group_norm}};
static const operators_case pools = {ALL,
                                     {&family_max_pool2d, &family_avg_pool2d, &family_global,
                                      &family_adaptive, &family_interpolate}};
static const operators_case moves = {
    ALL,
    {&family_flatten, &family_reshape, &family_permute, &family_slice, &family_pad, &family_take}};
static const operators_case rows = {ALL,
                                    {&family_softmax, &family_log_softmax, &family_layer_norm,
                                     &family_layer_norm_wide, &family_rms_norm,
                                     &family_rms_norm_wide, &family_rotary}};
static const operators_case maxima = {ALL, {&family_amax, &family_amin}};
static const operators_case cross_entropies = {ALL,
                                               {&family_cross_entropy, &family_soft_cross_entropy}};
static const operators_case losses = {FULL,
                                      {&family_mse_loss, &family_smooth_l1_loss, &family_bce,
                                       &family_reduce_loss, &family_sum, &family_randn_like,
                                       &family_embedding}};
static const operators_case convolutions = {
    ALL, {&family_conv2d, &family_conv2d_sums, &family_conv_transpose2d}};
static const operators_case matrices = {ALL, {&family_linear, &family_matmul}};
static const operators_case recurrent = {
    ALL, {&family_lstm_cell, &family_gru_cell, &family_lstm, &family_gru}};
static const operators_case attention = {ALL, {&family_attention}};
static const operators_case flash_attention = {ALL, {&family_flash_attention}};

static void run_setting(const operators_case *c, int setting)
{
    for (int i = 0; c->families[i]; i++)
        conformance_device(c->families[i], &settings[setting]);
}

static void run_case(const operators_case *c)
{
    for (int setting = 0; setting < c->dtypes; setting++)
        run_setting(c, setting);
}

YK_TEST(operators_elementwise)
{
    for (int i = 0; i < FAMILIES_ELEMENTWISE; i++)
        for (int setting = 0; setting < ALL; setting++)
            conformance_device(&families_elementwise[i], &settings[setting]);
    run_case(&broadcasts);
    run_case(&choices);
}

YK_TEST(operators_norms)
{
    run_case(&norms);
}

YK_TEST(operators_pools)
{
    run_case(&pools);
}

YK_TEST(operators_moves)
{
    run_case(&moves);
}

YK_TEST(operators_rows)
{
    run_case(&rows);
}

YK_TEST(operators_maxima)
{
    run_case(&maxima);
}

YK_TEST(operators_losses)
{
    run_case(&cross_entropies);
    run_case(&losses);
}

YK_TEST(operators_convolutions_f32)
{
    run_setting(&convolutions, 0);
}

YK_TEST(operators_convolutions_bf16)
{
    run_setting(&convolutions, 1);
}

YK_TEST(operators_convolutions_f16)
{
    run_setting(&convolutions, 2);
}

YK_TEST(operators_matrices)
{
    run_case(&matrices);
}

YK_TEST(operators_recurrent)
{
    run_case(&recurrent);
}

YK_TEST(operators_attention)
{
    run_case(&attention);
}

YK_TEST(operators_flash_attention)
{
    run_case(&flash_attention);
}

YK_TEST(every_operator_is_in_a_case)
{
    static const operators_case *const all[] = {
        &broadcasts, &choices,   &norms,           &pools,          &moves,
        &rows,       &maxima,    &cross_entropies, &losses,         &convolutions,
        &matrices,   &recurrent, &attention,       &flash_attention};
    bool seen[YKI_OPERATORS] = {false};
    for (int i = 0; i < FAMILIES_ELEMENTWISE; i++)
        conformance_mark(&families_elementwise[i], seen);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (int f = 0; all[i]->families[f]; f++)
            conformance_mark(all[i]->families[f], seen);
    for (size_t i = 0; i < YKI_OPERATORS; i++) {
        const yki_op *op = yki_operators[i];
        bool elsewhere = op == &yki_op_cast || op == &yki_op_reorder || /* in all models */
                         op == &yki_op_all_gather_batch ||              /* in tests/parallel */
                         op == &yki_op_reduce_scatter_batch;
        if (!seen[i] && !elsewhere)
            fail_msg("%s is in none of the cases", op->name);
    }
}

/* ---- where scores are ------------------------------------------------------------------------ */

/* What cuBLASLt has computed by now. */
static long products(void)
{
    char path[512];
    snprintf(path, sizeof path, "%s/libcublasLt.so.13", getenv("YOKE_CUDA_LIBS"));
    void *library = dlopen(path, RTLD_NOW);
    if (!library)
        fail_msg("%s", dlerror());
    return *(long *)dlsym(library, "yk_library_entered");
}

YK_TEST(scores_are_in_memory_where_that_is_wanted)
{
    const long before = products();
    conformance_device(&family_flash_attention, &settings[1]);
    assert_int_equal(products(), before);
    setenv("YOKE_CUDA_FLASH", "0", 1);
    conformance_device(&family_flash_attention, &settings[1]);
    assert_true(products() > before);
}

/* On disk afterwards; see tests/cuda/test_cuda_plans.c. A run is one operation of the stream, which
 * takes the fake driver a microsecond: what empties the caches before it does not count. */
YK_TEST(plans_are_measured)
{
    char output[256];
    conformance_family few = family_conv2d;
    few.count = 3;
    setenv("YOKE_CUDA_MEASURE", "1", 1);
    setenv("XDG_CACHE_HOME", yk_test_directory(), 1);
    conformance_device(&few, &settings[0]);
    static const char *const lines[] = {"^conv2d", "^1[.]000 "};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(yk_test_command(output, sizeof output,
                                         "cat %s/yoke/plans/Fake-GPU-0-*-cudnn-9.19.0*/*.plan | "
                                         "grep -c '%s'",
                                         yk_test_directory(), lines[i]),
                         0);
        assert_string_equal(output, "9\n");
    }
}

/* ---- opening -------------------------------------------------------------------------------- */

static void expect_refusal(const char *name, const char *text)
{
    yki_device *device;
    assert_status(YK_ERROR_UNSUPPORTED,
                  yki_device_create(&device, name, &(yki_device_options){.threads = 1}));
    assert_null(device);
    assert_contains(yk_last_error(), text);
}

static yki_device *open_device(const char *name)
{
    yki_device *device;
    assert_ok(yki_device_create(&device, name, &(yki_device_options){.threads = 1}));
    return device;
}

YK_TEST(devices_are_counted_and_described)
{
    char text[160];
    int count;
    setenv("YK_FAKE_GPUS", "2", 1);
    assert_ok(yk_device_count("cuda", &count));
    assert_int_equal(count, 2);
    assert_ok(yk_device_describe("cuda:1", text, sizeof text));
    assert_contains(text, "cuda:1: Fake GPU 1, 4.0 GiB, compute capability 9.0, driver ");
    assert_contains(text, "CUDA 13.0");
    assert_status(YK_ERROR_UNSUPPORTED, yk_device_describe("cuda:2", text, sizeof text));
    expect_refusal("cuda:2", "device cuda:2: there are 2 GPUs, cuda:0 and so on");
    yki_device *device = open_device("cuda:1");
    assert_string_equal(device->name, "cuda:1");
    assert_contains(device->description, "Fake GPU 1");
    yki_device_destroy(device);
}

YK_TEST(without_a_gpu)
{
    int count;
    setenv("YK_FAKE_GPUS", "0", 1);
    expect_refusal("cuda", "the NVIDIA driver finds no GPU");
    assert_status(YK_ERROR_UNSUPPORTED, yk_device_count("cuda", &count));
    assert_int_equal(count, 0);
    expect_refusal("cuda:0", "the NVIDIA driver finds no GPU"); /* the same again */
}

YK_TEST(old_drivers_are_refused_with_both_versions)
{
    setenv("YK_FAKE_DRIVER_VERSION", "12040", 1);
    expect_refusal("cuda", "the NVIDIA driver supports CUDA 12.4, but the kernels of this build "
                           "need CUDA 13.0: install a newer driver");
}

YK_TEST(a_stub_of_the_driver_is_named)
{
    setenv("YK_FAKE_DRIVER_VERSION", "0", 1);
    expect_refusal("cuda", "libcuda.so.1 is the toolkit's stub, to link with: take its folder, "
                           "stubs, out of LD_LIBRARY_PATH");
}

YK_TEST(old_gpus_are_refused)
{
    setenv("YK_FAKE_GPU_COMPUTE", "61", 1);
    expect_refusal("cuda", "device cuda:0: its compute capability is 6.1, but yoke needs 7.5");
}

YK_TEST(images_that_do_not_load_name_the_driver)
{
    setenv("YK_FAKE_IMAGE", "broken", 1);
    expect_refusal("cuda", "the driver (CUDA 13.0) cannot load the kernels of kernels: ptxas "
                           "fatal: unsupported version of PTX: device cuda: cuModuleLoadDataEx");
}

YK_TEST(a_missing_module_is_named)
{
    setenv("YOKE_MODULES", "/nowhere", 1);
    expect_refusal("cuda", "device cuda: its module libyoke-cuda.so is not in ");
}

/* Writes the module to a folder, with one byte of its table's version changed. */
static void change_version(const char *folder)
{
    static char bytes[8 << 20];
    char path[512];
    const yki_device_module *module;
    assert_ok(yki_device_module_open(&module, "cuda"));
    const uint32_t head[] = {module->version, module->size};
    snprintf(path, sizeof path, "%s/tests/cuda/libyoke-cuda.so", getenv("YOKE_BUILD"));
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    size_t length = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    char *at = memmem(bytes, length, head, sizeof head);
    assert_non_null(at);
    *at ^= 1;
    snprintf(path, sizeof path, "%s/libyoke-cuda.so", folder);
    file = fopen(path, "we");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
}

/* Its structs may differ from the library's. */
YK_TEST(a_module_from_another_tree_is_refused)
{
    change_version(yk_test_directory());
    setenv("YOKE_MODULES", yk_test_directory(), 1);
    expect_refusal("cuda", "libyoke-cuda.so was built for version ");
}

/* Ranks take the GPU of their number on the machine, and share if there are too few. */
YK_TEST(ranks_take_gpus_in_turn)
{
    setenv("YK_FAKE_GPUS", "2", 1);
    setenv("LOCAL_RANK", "1", 1);
    yki_device *device = open_device("cuda");
    assert_string_equal(device->name, "cuda:1");
    yki_device_destroy(device);
    setenv("LOCAL_RANK", "2", 1);
    device = open_device("cuda");
    assert_string_equal(device->name, "cuda:0");
    yki_device_destroy(device);
}

YK_TEST(one_gpu_may_stand_for_two)
{
    char text[160];
    int count;
    setenv("YK_FAKE_GPUS", "1", 1);
    setenv("YOKE_TEST_GPUS", "2", 1);
    assert_ok(yk_device_count("cuda", &count));
    assert_int_equal(count, 2);
    assert_ok(yk_device_describe("cuda:1", text, sizeof text));
    assert_contains(text, "cuda:1: Fake GPU 0");
    expect_refusal("cuda:2", "device cuda:2: there are 2 GPUs");
    yki_device *first = open_device("cuda:0"), *second = open_device("cuda:1");
    assert_string_equal(second->name, "cuda:1");
    yki_device_destroy(first);
    yki_device_destroy(second);
}

/* ---- memory --------------------------------------------------------------------------------- */

YK_TEST(memory_is_zeroed_and_aligned)
{
    yki_device *device = open_device("cuda");
    yki_stream *stream = yki_device_stream(device);
    char bytes[1000];
    void *memory;
    memset(bytes, 1, sizeof bytes);
    assert_ok(yki_device_alloc(device, sizeof bytes, &memory));
    assert_int_equal((uintptr_t)memory % 64, 0);
    assert_ok(yki_device_copy(device, bytes, memory, sizeof bytes, YKI_TO_HOST, stream));
    assert_ok(yki_stream_wait(device, stream));
    for (size_t i = 0; i < sizeof bytes; i++)
        assert_int_equal(bytes[i], 0);
    yki_device_free(device, memory, sizeof bytes);
    yki_device_destroy(device);
}

YK_TEST(too_much_memory_is_refused_with_what_is_free)
{
    setenv("YK_FAKE_GPU_MEMORY", "64", 1);
    yki_device *device = open_device("cuda");
    void *memory, *more;
    assert_ok(yki_device_alloc(device, 16 << 20, &memory));
    assert_status(YK_ERROR_OUT_OF_MEMORY, yki_device_alloc(device, 128 << 20, &more));
    assert_null(more);
    assert_contains(yk_last_error(), "device cuda:0: out of memory: 0.12 GiB requested, 0.05 of "
                                     "0.06 GiB free");
    yki_device_free(device, memory, 16 << 20);
    yki_device_destroy(device);
}

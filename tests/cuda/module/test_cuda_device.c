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

static void on_cuda(const conformance_family *family)
{
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        conformance_device(family, &settings[i]);
}

YK_TEST(elementwise)
{
    for (int i = 0; i < FAMILIES_ELEMENTWISE; i++)
        on_cuda(&families_elementwise[i]);
    on_cuda(&family_broadcast_add);
    on_cuda(&family_broadcast_subtract);
    on_cuda(&family_broadcast_multiply);
    on_cuda(&family_broadcast_divide);
}

YK_TEST(batch_norm)
{
    on_cuda(&family_batch_norm);
}

YK_TEST(pool)
{
    on_cuda(&family_max_pool2d);
    on_cuda(&family_avg_pool2d);
    on_cuda(&family_global);
    on_cuda(&family_adaptive);
    on_cuda(&family_flatten);
    on_cuda(&family_permute);
    on_cuda(&family_slice);
    on_cuda(&family_pad);
}

YK_TEST(rows_and_losses)
{
    static const conformance_family *const families[] = {&family_softmax,
                                                         &family_layer_norm,
                                                         &family_layer_norm_wide,
                                                         &family_rms_norm,
                                                         &family_rms_norm_wide,
                                                         &family_cross_entropy,
                                                         &family_soft_cross_entropy,
                                                         &family_mse_loss,
                                                         &family_smooth_l1_loss,
                                                         &family_bce,
                                                         &family_rotary,
                                                         &family_embedding};
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        conformance_device(families[i], &settings[0]);
}

static void convolutions(const conformance_setting *setting)
{
    conformance_device(&family_conv2d, setting);
    conformance_device(&family_conv2d_sums, setting);
}

YK_TEST(convolutions_in_f32)
{
    convolutions(&settings[0]);
}

YK_TEST(convolutions_in_bf16)
{
    convolutions(&settings[1]);
}

YK_TEST(convolutions_in_f16)
{
    convolutions(&settings[2]);
}

YK_TEST(linear_layers)
{
    on_cuda(&family_linear);
}

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

YK_TEST(attention)
{
    on_cuda(&family_attention);
    on_cuda(&family_flash_attention);
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

/*
 * The kernels of the cuda device, compiled for the processor, against ref: every operator on the
 * cases of the conformance suite. test_cuda_situations.c has what the suite does not run.
 */
#include <dlfcn.h>
#include <stdlib.h>

#include "families.h"
#include "harness.h"
#include "sim_device.h"

static const conformance_setting settings[] = {
    {.device = "cuda", .type = &sim_device_type, .dtype = YK_F32, .tolerance = 1e-5},
    {.device = "cuda", .type = &sim_device_type, .dtype = YK_F64, .tolerance = 1e-12},
    {.device = "cuda", .type = &sim_device_type, .dtype = YK_BF16, .tolerance = 1e-2},
    {.device = "cuda", .type = &sim_device_type, .dtype = YK_F16, .tolerance = 2e-3},
};
enum { FULL = 2, ALL = sizeof settings / sizeof *settings };

/* Kernels that are not launched would be ref's. */
static void on_device(const conformance_family *family, const conformance_setting *setting)
{
    uint64_t before = sim_device_launches();
    conformance_device(family, setting);
    assert_true(sim_device_launches() >= before + family->count);
}

/* In f32 and f64, or in 16 bits too. */
static void on_cuda(const conformance_family *family, int dtypes)
{
    for (int i = 0; i < dtypes; i++)
        on_device(family, &settings[i]);
}

/* Work that a stand-in for one of NVIDIA's libraries has had by now. */
static long work_of(const char *file)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", getenv("YOKE_CUDA_LIBS"), file);
    void *library = dlopen(path, RTLD_NOW);
    if (!library)
        fail_msg("%s", dlerror());
    return *(long *)dlsym(library, "yk_library_entered");
}

/* Each node is of this library, once with all its outputs and once with one. */
static void on_library(const conformance_family *family, const char *file)
{
    for (int i = 0; i < ALL; i++) {
        long before = work_of(file);
        conformance_device(family, &settings[i]);
        assert_true(work_of(file) >= before + 3 * (long)family->count);
    }
}

YK_TEST(elementwise)
{
    for (int i = 0; i < FAMILIES_ELEMENTWISE; i++)
        on_cuda(&families_elementwise[i], ALL);
}

YK_TEST(broadcasting)
{
    on_cuda(&family_broadcast_add, ALL);
    on_cuda(&family_broadcast_subtract, ALL);
    on_cuda(&family_broadcast_multiply, ALL);
    on_cuda(&family_broadcast_divide, ALL);
}

YK_TEST(choices)
{
    on_cuda(&family_maximum, ALL);
    on_cuda(&family_minimum, ALL);
    on_cuda(&family_tied_maximum, ALL);
    on_cuda(&family_tied_minimum, ALL);
    on_cuda(&family_compare, ALL);
    on_cuda(&family_masked_fill, ALL);
    on_cuda(&family_kept, ALL);
}

YK_TEST(batch_norm)
{
    on_cuda(&family_batch_norm, ALL);
    on_cuda(&family_batch_norm_apply, ALL);
}

YK_TEST(group_norm)
{
    on_cuda(&family_group_norm, ALL);
}

YK_TEST(pool)
{
    on_cuda(&family_max_pool2d, ALL);
    on_cuda(&family_avg_pool2d, ALL);
    on_cuda(&family_global, ALL);
    on_cuda(&family_adaptive, ALL);
    on_cuda(&family_interpolate, ALL);
}

YK_TEST(flatten)
{
    on_cuda(&family_flatten, ALL);
    on_cuda(&family_reshape, ALL);
    on_cuda(&family_permute, ALL);
    on_cuda(&family_slice, ALL);
    on_cuda(&family_pad, ALL);
}

YK_TEST(rows)
{
    on_cuda(&family_softmax, ALL);
    on_cuda(&family_log_softmax, ALL);
    on_cuda(&family_layer_norm, ALL);
    on_cuda(&family_layer_norm_wide, ALL);
    on_cuda(&family_rms_norm, ALL);
    on_cuda(&family_rms_norm_wide, ALL);
}

YK_TEST(maxima)
{
    on_cuda(&family_amax, ALL);
    on_cuda(&family_amin, ALL);
}

YK_TEST(losses)
{
    on_cuda(&family_cross_entropy, ALL);
    on_cuda(&family_soft_cross_entropy, ALL);
    on_cuda(&family_mse_loss, FULL);
    on_cuda(&family_smooth_l1_loss, FULL);
    on_cuda(&family_bce, FULL);
    on_cuda(&family_reduce_loss, FULL);
    on_cuda(&family_sum, FULL);
    on_cuda(&family_randn_like, FULL);
}

YK_TEST(convolutions)
{
    on_library(&family_conv2d, "libcudnn.so.9");
    on_library(&family_conv2d_sums, "libcudnn.so.9");
    on_library(&family_conv_transpose2d, "libcudnn.so.9");
}

YK_TEST(linear_layers)
{
    on_library(&family_linear, "libcublasLt.so.13");
}

/* Each case is one product, and one for each gradient. */
YK_TEST(products_of_values)
{
    on_library(&family_matmul, "libcublasLt.so.13");
}

YK_TEST(attention)
{
    sim_device_flash(false);
    on_library(&family_attention, "libcublasLt.so.13");
}

/* In 16 bits, without products by the library. */
YK_TEST(flash_attention)
{
    const long before = work_of("libcublasLt.so.13");
    for (int i = FULL; i < ALL; i++)
        on_device(&family_flash_attention, &settings[i]);
    assert_int_equal(work_of("libcublasLt.so.13"), before);
}

YK_TEST(rotary_embedding)
{
    on_cuda(&family_rotary, ALL);
}

YK_TEST(cells)
{
    on_cuda(&family_lstm_cell, ALL);
    on_cuda(&family_gru_cell, ALL);
}

/* Each step is a product and a kernel. */
YK_TEST(recurrent_layers)
{
    const conformance_family *const families[] = {&family_lstm, &family_gru};
    for (int f = 0; f < 2; f++)
        for (int i = 0; i < ALL; i++) {
            const long before = work_of("libcublasLt.so.13");
            on_device(families[f], &settings[i]);
            assert_true(work_of("libcublasLt.so.13") > before + (long)families[f]->count);
        }
}

YK_TEST(embedding)
{
    on_cuda(&family_embedding, FULL);
}

YK_TEST(take_along_dim)
{
    on_cuda(&family_take, ALL);
}

static const yki_kernel_impl *kernel_of(const yki_kernel_impl *const *kernels, const yki_op *op)
{
    while (*kernels && (*kernels)->op != op)
        kernels++;
    return *kernels;
}

/* Those that the host enters need none of the device's own. */
YK_TEST(every_operator_has_a_kernel)
{
    for (size_t i = 0; i < YKI_OPERATORS; i++) {
        const yki_op *op = yki_operators[i];
        const yki_kernel_impl *of_ref = kernel_of(yki_device_ref.kernels, op);
        if (!kernel_of(yki_cuda_kernels, op) && !(of_ref && of_ref->on_host))
            fail_msg("the cuda device has no kernel for %s", op->name);
    }
}

/*
 * The kernels of the cuda device, compiled for the processor, against ref: every operator on the
 * cases of the conformance suite, and what has no operator.
 */
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

/* In f32 and f64, or in 16 bits too. Kernels that are not launched would be ref's. */
static void on_cuda(const conformance_family *family, int dtypes)
{
    for (int i = 0; i < dtypes; i++) {
        uint64_t before = sim_device_launches();
        conformance_device(family, &settings[i]);
        assert_true(sim_device_launches() >= before + family->count);
    }
}

YK_TEST(elementwise)
{
    for (int i = 0; i < FAMILIES_ELEMENTWISE; i++)
        on_cuda(&families_elementwise[i], ALL);
}

YK_TEST(batch_norm)
{
    on_cuda(&family_batch_norm, ALL);
}

YK_TEST(pool)
{
    on_cuda(&family_max_pool2d, ALL);
    on_cuda(&family_avg_pool2d, ALL);
    on_cuda(&family_global, ALL);
}

YK_TEST(flatten)
{
    on_cuda(&family_flatten, ALL);
}

YK_TEST(rows)
{
    on_cuda(&family_softmax, FULL);
    on_cuda(&family_layer_norm, FULL);
}

YK_TEST(losses)
{
    on_cuda(&family_cross_entropy, FULL);
    on_cuda(&family_soft_cross_entropy, FULL);
    on_cuda(&family_mse_loss, FULL);
}

/* Convolutions and linear layers are cuDNN's and cuBLASLt's. */
YK_TEST(every_other_operator_has_a_kernel)
{
    for (size_t i = 0; i < YKI_OPERATORS; i++) {
        const yki_op *op = yki_operators[i];
        bool found = strncmp(op->name, "conv2d", 6) == 0 || strncmp(op->name, "linear", 6) == 0;
        for (int k = 0; yki_cuda_kernels[k]; k++)
            found = found || yki_cuda_kernels[k]->op == op;
        if (!found)
            fail_msg("the cuda device has no kernel for %s", op->name);
    }
}

/* What moves values between layouts and dtypes must do so to the bit: reorder and cast. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <yoke/model.h>
#include <yoke/operator.h>
#include <yoke/system.h>

#include "base/memory.h"
#include "conformance.h"
#include "harness.h"
#include "tensor/bf16.h"

static const int64_t shapes[][4] = {{1, 16, 1, 1}, {2, 17, 3, 5}, {3, 24, 4, 4},
                                    {1, 40, 7, 2}, {2, 8, 5, 5},  {2, 3, 4, 4}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static yki_device *open_cpu(void)
{
    yki_device *device;
    assert_ok(yki_device_create(&device, "cpu", &(yki_device_options){.threads = 2}));
    device->type->enter(device);
    return device;
}

static yki_operand operand_of(const int64_t *dims, yk_dtype dtype)
{
    yki_operand operand = {.dtype = dtype, .ndim = 4};
    memcpy(operand.dims, dims, sizeof operand.dims);
    return operand;
}

static void *memory_of(const yki_device *device, const yki_operand *operand)
{
    size_t bytes = yki_align(yki_operand_bytes(device, operand), YKI_ALIGNMENT);
    void *memory = aligned_alloc(YKI_ALIGNMENT, bytes);
    assert_non_null(memory);
    memset(memory, 0xff, bytes);
    return memory;
}

/* Runs reorder or cast from one operand to another. */
static void move(yki_device *device, const yki_op *op, const yki_operand *from, const void *source,
                 const yki_operand *to, void *target)
{
    yki_kernel_desc desc = {.op = op, .in_count = 1, .out_count = 1};
    for (int i = 0; i < YKI_MAX_IN; i++)
        desc.in[i].ndim = -1;
    for (int i = 0; i < YKI_MAX_OUT; i++)
        desc.out[i].ndim = -1;
    desc.in[0] = *from;
    desc.out[0] = *to;
    yki_kernel *kernel;
    assert_ok(yki_kernel_create(device, &desc, &kernel));
    void *in = (void *)(uintptr_t)source;
    assert_int_equal(kernel->scratch, 0);
    assert_ok(kernel->impl->run(kernel, &(yki_kernel_args){.in = &in, .out = &target}));
    yki_kernel_destroy(kernel);
}

static void check_reorder(yki_device *device, const int64_t *dims, yk_dtype dtype)
{
    yki_operand plain = operand_of(dims, dtype), own = plain;
    own.layout = device->type->layout(device, &plain);
    if (own.layout == YKI_PLAIN)
        return;
    size_t width = yk_dtype_size(dtype);
    char *a = memory_of(device, &plain), *b = memory_of(device, &own);
    char *c = memory_of(device, &plain);
    int64_t count = yki_operand_count(&plain);
    for (int64_t i = 0; i < count * (int64_t)width; i++)
        a[i] = (char)(i % 61 + 1); /* as floats: small, ordinary numbers */
    move(device, &yki_op_reorder, &plain, a, &own, b);
    assert_ok(yki_conformance_padding(device, &own, b));
    for (int64_t i = 0; i < count; i++)
        assert_memory_equal(a + i * (int64_t)width,
                            b + yki_conformance_place(device, &own, i) * (int64_t)width, width);
    move(device, &yki_op_reorder, &own, b, &plain, c);
    assert_memory_equal(a, c, (size_t)count * width);
    free(a);
    free(b);
    free(c);
}

YK_TEST(cpu_reorder)
{
    yki_device *device = open_cpu();
    for (int i = 0; i < SHAPES; i++) {
        check_reorder(device, shapes[i], YK_F32);
        check_reorder(device, shapes[i], YK_BF16);
        check_reorder(device, shapes[i], YK_U8);
    }
    yki_device_destroy(device);
}

/* f32 -> bf16 -> f32 in the device's layout: rounded to nearest even, and back exactly. */
static void check_cast(yki_device *device, const int64_t *dims)
{
    yki_operand wide = operand_of(dims, YK_F32), low = operand_of(dims, YK_BF16);
    wide.layout = device->type->layout(device, &wide);
    low.layout = device->type->layout(device, &low);
    float *a = memory_of(device, &wide), *c = memory_of(device, &wide);
    uint16_t *b = memory_of(device, &low);
    int64_t count = yki_operand_count(&wide);
    memset(a, 0, yki_operand_bytes(device, &wide));
    for (int64_t i = 0; i < count; i++)
        a[yki_conformance_place(device, &wide, i)] =
            ldexpf(1 + (float)i / 1024, (int)(i % 40) - 20);
    move(device, &yki_op_cast, &wide, a, &low, b);
    assert_ok(yki_conformance_padding(device, &low, b));
    move(device, &yki_op_cast, &low, b, &wide, c);
    assert_ok(yki_conformance_padding(device, &wide, c));
    for (int64_t i = 0; i < count; i++) {
        int64_t in_wide = yki_conformance_place(device, &wide, i);
        uint16_t expected = yki_bf16_from_float(a[in_wide]);
        assert_int_equal(b[yki_conformance_place(device, &low, i)], expected);
        assert_true(c[in_wide] == yki_bf16_to_float(expected));
    }
    free(a);
    free(b);
    free(c);
}

YK_TEST(cpu_cast)
{
    yki_device *device = open_cpu();
    for (int i = 0; i < SHAPES; i++)
        check_cast(device, shapes[i]);
    yki_device_destroy(device);
}

YK_TEST(ref_cast)
{
    yki_device *device;
    assert_ok(yki_device_create(&device, "ref", &(yki_device_options){.threads = 1}));
    for (int i = 0; i < SHAPES; i++)
        check_cast(device, shapes[i]);
    yki_device_destroy(device);
}

/* ---- kernels that work on copies in another layout ------------------------------------------- */

static uintptr_t scratch_at;

static yk_status copy_run(const yk_operator_run *run)
{
    scratch_at = (uintptr_t)run->scratch;
    memcpy(run->outputs[0].data, run->inputs[0].data, yk_tensor_bytes(&run->inputs[0]));
    return YK_OK;
}

static size_t some_scratch(const yk_operator_run *run)
{
    (void)run;
    return 1;
}

/* The copies are made in scratch memory, too. */
YK_TEST(scratch_of_a_kernel_on_copies_is_aligned)
{
    static const yk_operator_kernel kernel = {
        .size = sizeof(yk_operator_kernel), .run = copy_run, .scratch = some_scratch};
    static const yk_operator copy = {.size = sizeof(yk_operator),
                                     .name = "copy",
                                     .input_count = 1,
                                     .output_count = 1,
                                     .inputs = {{.name = "x", .is_activation = true}},
                                     .ref = &kernel};
    static float numbers[17 * 2 * 2];
    static const yk_tensor tensor = {
        .data = numbers, .dtype = YK_F32, .ndim = 4, .dims = {1, 17, 2, 2}};
    const yk_batch batch = {
        .size = 1, .count = 1, .names = (const char *[]){"x"}, .tensors = &tensor};
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "x", YK_F32, 4, (int64_t[]){YK_BATCH, 17, 2, 2});
    yk_value *y = yk_operator_apply(&copy, NULL, (yk_value *[]){yk_relu(x)}, NULL);
    yk_model *model;
    assert_ok(yk_model_create(
        &model, NULL, YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.logits = yk_relu(y))));
    assert_ok(yk_model_forward(model, &batch));
    assert_int_equal(scratch_at % YKI_SCRATCH_ALIGNMENT, 0);
    yk_model_destroy(model);
}

/* Batch norm on the cpu: every layout and width of vectors against ref; accuracy; determinism. */
#include "cpu_check.h"
#include "device/cpu/cpu.h"

typedef struct norm_shape {
    int64_t dims[4];
} norm_shape;

/* Odd channels, odd maps, one pixel, runs longer than a chunk, more threads than blocks. */
static const norm_shape shapes[] = {{{2, 16, 3, 3}}, {{3, 19, 5, 7}},  {{1, 8, 2, 1}},
                                    {{5, 32, 1, 1}}, {{1, 3, 65, 64}}, {{2, 40, 4, 4}},
                                    {{7, 1, 4, 4}},  {{2, 20, 17, 18}}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static const int64_t no_dims[1] = {0};

/* What forward is asked for, as bits beside the activation. */
enum { RESIDUAL = 1, EVALUATION = 2, VARIANTS = 4 };

static void forward_variant(check_case start, const int64_t *dims, yki_fused activation,
                            int variant)
{
    check_case c = start;
    const int64_t *channels = &dims[1];
    c.op = &yki_op_batch_norm;
    c.attrs = (yki_attrs){.eps = 1e-5, .momentum = 0.1, .activation = activation};
    c.training = !(variant & EVALUATION);
    check_in(&c, c.dtype, 4, dims, 2, 0.5);
    check_in(&c, YK_F32, 1, channels, 1, 0);
    check_in(&c, YK_F32, 1, channels, 1, 0.3);
    check_in(&c, YK_F32, 1, channels, 1, 0);
    check_in(&c, YK_F32, 1, channels, 0.4, 1);
    check_in(&c, YK_I64, 0, no_dims, 0, 5);
    check_in(&c, c.dtype, variant & RESIDUAL ? 4 : -1, dims, 1, 0);
    check_out(&c, c.dtype, 4, dims);
    check_out(&c, YK_F32, 1, channels);
    check_out(&c, YK_F32, 1, channels);
    check(&c);
}

static void forward(check_case start)
{
    for (int s = 0; s < SHAPES; s++)
        for (int a = YKI_FUSED_NONE; a <= YKI_FUSED_HARDSWISH; a++)
            for (int variant = 0; variant < VARIANTS; variant++)
                if (yki_fused_clamps((yki_fused)a) || !(variant & RESIDUAL))
                    forward_variant(start, shapes[s].dims, (yki_fused)a, variant);
}

YK_TEST(batch_norm_equals_ref)
{
    check_everywhere(forward);
}

/* Values of scale * (-1, 1) + offset, as check_in() draws them. */
typedef struct norm_values {
    double scale, offset;
} norm_values;

/* Forward in training: x, and weight, bias and running statistics drawn alike. */
static check_case training_case(check_case start, const yki_attrs *attrs, int ndim,
                                const int64_t *dims, norm_values x, norm_values vectors)
{
    check_case c = start;
    const int64_t *channels = &dims[1];
    c.op = &yki_op_batch_norm;
    c.attrs = *attrs;
    c.training = true;
    check_in(&c, c.dtype, ndim, dims, x.scale, x.offset);
    for (int i = 0; i < 4; i++)
        check_in(&c, YK_F32, 1, channels, vectors.scale, vectors.offset);
    check_out(&c, c.dtype, ndim, dims);
    check_out(&c, YK_F32, 1, channels);
    check_out(&c, YK_F32, 1, channels);
    return c;
}

/* (N, C): plain memory, channels side by side. */
static void forward_flat(check_case start)
{
    static const int64_t flat[][2] = {{4, 16}, {6, 24}, {3, 7}, {130, 40}};
    for (int s = 0; s < 4 && !start.blocked; s++) {
        check_case c = training_case(start, &(yki_attrs){.eps = 1e-5, .momentum = 0.1}, 2, flat[s],
                                     (norm_values){2, 0.5}, (norm_values){0.5, 1});
        check(&c);
    }
}

YK_TEST(batch_norm_of_vectors_equals_ref)
{
    check_everywhere(forward_flat);
}

/* What backward is given, as bits. */
enum { B_RELU = 1, B_Y = 2, B_DY2 = 4, B_DRESIDUAL = 8, B_EVALUATION = 16, B_VARIANTS = 32 };

static check_case backward_case(check_case start, const int64_t *dims, int variant)
{
    check_case c = start;
    const int64_t *channels = &dims[1];
    c.op = &yki_op_batch_norm_backward;
    c.attrs = (yki_attrs){.eps = 1e-5,
                          .momentum = 0.1,
                          .activation = variant & B_RELU ? YKI_FUSED_RELU : YKI_FUSED_NONE};
    c.training = !(variant & B_EVALUATION);
    c.tolerance = 2e-5; /* sums of thousands, relative to their result */
    if ((variant & B_DY2) && (variant & B_DRESIDUAL))
        c.tolerance_low = 0x1p-6; /* dx is made of dresidual, itself rounded */
    check_in(&c, c.dtype, 4, dims, 2, 0.5);
    check_in(&c, c.dtype, 4, dims, 1, 0.1);
    check_in(&c, YK_F32, 1, channels, 0.5, 1);
    check_in(&c, YK_F32, 1, channels, 1, 0.3);
    check_in(&c, YK_F32, 1, channels, 0.2, 0.5);
    check_in(&c, YK_F32, 1, channels, 0.2, 0.8);
    check_in(&c, c.dtype, variant & B_Y ? 4 : -1, dims, 1, 0);
    check_in(&c, c.dtype, variant & B_DY2 ? 4 : -1, dims, 1, 0);
    check_out(&c, c.dtype, 4, dims);
    check_out(&c, YK_F32, 1, channels);
    check_out(&c, YK_F32, 1, channels);
    check_out(&c, c.dtype, variant & B_DRESIDUAL ? 4 : -1, dims);
    return c;
}

static void backward(check_case start)
{
    for (int s = 0; s < SHAPES; s++) {
        for (int variant = 0; variant < B_VARIANTS; variant++) {
            if ((variant & B_Y) && !(variant & B_RELU))
                continue;
            check_case c = backward_case(start, shapes[s].dims, variant);
            check(&c);
        }
        for (int a = YKI_FUSED_RELU6; a <= YKI_FUSED_HARDSWISH; a++)
            for (int variant = 0; variant <= B_DY2; variant += B_DY2) {
                check_case c = backward_case(start, shapes[s].dims, variant);
                c.attrs.activation = (yki_fused)a;
                c.tolerance_low = 0x1p-6; /* dx is made of g, itself rounded */
                check(&c);
            }
    }
}

YK_TEST(batch_norm_backward_equals_ref)
{
    check_everywhere(backward);
}

/* In float16, what a convolution makes may be infinite. relu closes there, and a norm whose
 * statistics are constants passes nothing on. */
static void infinite(check_case start)
{
    enum { PLACE = 3 };
    for (int variant = B_RELU | B_EVALUATION; variant < B_VARIANTS; variant++) {
        if ((variant & B_RELU) == 0)
            continue;
        check_case c = backward_case(start, shapes[1].dims, variant);
        c.in[YKI_BATCH_NORM_BACKWARD_X].values[PLACE] = -INFINITY;
        if (variant & B_Y)
            c.in[YKI_BATCH_NORM_BACKWARD_Y].values[PLACE] = 0;
        check_memory cpu;
        check_run(&c, false, &cpu);
        int64_t at = check_place(&c.out[0].operand, c.block, PLACE);
        assert_true(check_get(cpu.out[YKI_BATCH_NORM_BACKWARD_DX], at, c.dtype) == 0);
        check_free(&cpu);
        check_end(&c);
    }
}

YK_TEST(an_infinity_behind_a_closed_relu_leaves_no_gradient)
{
    check_everywhere(infinite);
}

/* relu lets an infinity through, and so its gradient. */
static void infinite_and_open(check_case start)
{
    enum { PLACE = 3 };
    for (int variant = B_RELU | B_EVALUATION; variant < B_VARIANTS; variant++) {
        if ((variant & B_RELU) == 0)
            continue;
        check_case c = backward_case(start, shapes[1].dims, variant);
        c.in[YKI_BATCH_NORM_BACKWARD_X].values[PLACE] = INFINITY;
        c.in[YKI_BATCH_NORM_BACKWARD_DY].values[PLACE] = 2;
        if (variant & B_Y)
            c.in[YKI_BATCH_NORM_BACKWARD_Y].values[PLACE] = INFINITY;
        check_memory cpu;
        check_run(&c, false, &cpu);
        int64_t at = check_place(&c.out[0].operand, c.block, PLACE);
        assert_true(check_get(cpu.out[YKI_BATCH_NORM_BACKWARD_DX], at, c.dtype) > 0);
        check_free(&cpu);
        check_end(&c);
    }
}

YK_TEST(an_infinity_behind_an_open_relu_has_a_gradient)
{
    check_everywhere(infinite_and_open);
}

/* Results of more than 16 MiB are written past the caches where their runs are aligned: those of
 * the second shape are not. Three threads share the four blocks of the first in slices. */
YK_TEST(large_batch_norm_backward_equals_ref)
{
    static const int64_t aligned[] = {33, 32, 64, 64}, unaligned[] = {35, 33, 61, 63};
    check_case start = {
        .block = 8, .threads = 3, .dtype = YK_F32, .tolerance_low = 0x1p-8, .state = 42};
    if (!check_has_block(start.block))
        skip_because("this processor has no AVX2");
    for (int blocked = 0; blocked < 2; blocked++) {
        start.blocked = blocked;
        check_case c = backward_case(start, blocked ? aligned : unaligned, B_RELU | B_DRESIDUAL);
        c.tolerance = 1e-3; /* sums of a hundred thousand */
        check(&c);
    }
}

/* A mean a thousand times the deviation: one-pass sums of squares would leave nothing. */
static void far_from_zero(check_case start)
{
    static const int64_t dims[] = {16, 32, 16, 16};
    if (start.dtype == YK_BF16)
        return;
    check_case c = training_case(start, &(yki_attrs){.eps = 1e-12, .momentum = 1}, 4, dims,
                                 (norm_values){1, 1000}, (norm_values){0, 1});
    check_memory cpu, ref;
    check_run(&c, false, &cpu);
    check_run(&c, true, &ref);
    for (int i = 0; i < 32; i++) {
        double got = ((float *)cpu.out[2])[i], expected = ((float *)ref.out[2])[i];
        assert_true(fabs(got / expected - 1) < 1e-6);
        assert_true(((float *)cpu.out[1])[i] == ((float *)ref.out[1])[i]);
    }
    check_free(&cpu);
    check_free(&ref);
    check_end(&c);
}

YK_TEST(statistics_are_accurate_far_from_zero)
{
    check_everywhere(far_from_zero);
}

/* The same of groups, of which one block has several or one, or several blocks have one. */
static void groups_far_from_zero(check_case start)
{
    static const int64_t dims[] = {16, 48, 16, 16}, groups[] = {12, 2, 48, 3};
    for (int g = 0; g < 4 && start.dtype != YK_BF16; g++) {
        const int64_t moments[] = {dims[0], groups[g]};
        check_case c = start;
        c.op = &yki_op_group_norm;
        c.attrs = (yki_attrs){.eps = 1e-12, .groups = groups[g]};
        c.expected = &yki_cpu_group_norm;
        check_in(&c, c.dtype, 4, dims, 1, 1000);
        check_in(&c, YK_F32, 1, &dims[1], 0.5, 1);
        check_in(&c, YK_F32, 1, &dims[1], 1, 0);
        check_out(&c, c.dtype, 4, dims);
        check_out(&c, YK_F32, 2, moments);
        check_out(&c, YK_F32, 2, moments);
        check_memory cpu, ref;
        check_run(&c, false, &cpu);
        check_run(&c, true, &ref);
        for (int o = 1; o <= 2; o++) /* mean, invstd */
            for (int i = 0; i < moments[0] * moments[1]; i++)
                assert_float_equal(((float *)cpu.out[o])[i] / ((float *)ref.out[o])[i], 1, 1e-6);
        check_free(&cpu);
        check_free(&ref);
        check_end(&c);
    }
}

YK_TEST(statistics_of_groups_are_accurate_far_from_zero)
{
    check_everywhere(groups_far_from_zero);
}

static void twice(check_case start)
{
    static const int64_t dims[] = {6, 40, 17, 19};
    check_case c = training_case(
        start, &(yki_attrs){.eps = 1e-5, .momentum = 0.1, .activation = YKI_FUSED_RELU}, 4, dims,
        (norm_values){1, 3}, (norm_values){0.5, 1});
    check_memory a, b;
    check_run(&c, false, &a);
    for (int again = 0; again < 3; again++) {
        check_run(&c, false, &b);
        int64_t elements = check_elements(&c.out[0].operand, c.block);
        assert_memory_equal(a.out[0], b.out[0], (size_t)elements * yk_dtype_size(c.dtype));
        assert_memory_equal(a.out[2], b.out[2], 40 * sizeof(float));
        check_free(&b);
    }
    check_free(&a);
    check_end(&c);
}

YK_TEST(same_threads_give_the_same_bits)
{
    check_everywhere(twice);
}

static void nans(check_case start)
{
    static const int64_t dims[] = {1, 16, 3, 3};
    check_case c = training_case(
        start, &(yki_attrs){.eps = 1e-5, .momentum = 0.1, .activation = YKI_FUSED_RELU}, 4, dims,
        (norm_values){1, 0}, (norm_values){0.1, 1});
    c.in[0].values[3] = NAN;
    check_memory cpu;
    check_run(&c, false, &cpu);
    for (int i = 0; i < 144; i++) {
        int64_t at = check_place(&c.out[0].operand, c.block, i);
        assert_int_equal(isnan(check_get(cpu.out[0], at, c.dtype)) != 0, i < 9);
    }
    check_free(&cpu);
    check_end(&c);
}

YK_TEST(nan_passes_through_the_fused_relu)
{
    check_everywhere(nans);
}

YK_TEST(one_value_a_channel_cannot_train)
{
    yki_device *device = NULL;
    assert_ok(
        yki_device_create(&device, "cpu", &(yki_device_options){.threads = 1, .winograd = true}));
    yki_operand x = {.dtype = YK_F32, .ndim = 2, .dims = {1, 4}};
    yki_operand vector = {.dtype = YK_F32, .ndim = 1, .dims = {4}};
    yki_kernel_desc desc = {.op = &yki_op_batch_norm,
                            .attrs = &(yki_attrs){.eps = 1e-5, .momentum = 0.1},
                            .training = true,
                            .in_count = 5,
                            .out_count = 3,
                            .in = {x, vector, vector, vector, vector},
                            .out = {x, vector, vector}};
    float memory[8][4] = {{0}};
    void *in[] = {memory[0], memory[1], memory[2], memory[3], memory[4]};
    void *out[] = {memory[5], memory[6], memory[7]};
    char scratch[1024] __attribute__((aligned(64)));
    yki_kernel *kernel = NULL;
    assert_ok(yki_kernel_create(device, &desc, &kernel));
    assert_true(kernel->scratch <= sizeof scratch);
    yki_kernel_args run = {.in = in, .out = out, .scratch = scratch};
    assert_status(YK_ERROR_INVALID_SHAPE, kernel->impl->run(kernel, &run));
    assert_contains(yk_last_error(), "batch_norm");
    yki_kernel_destroy(kernel);
    yki_device_destroy(device);
}

/*
 * Direct convolutions of bf16 activations on AMX next to ref's, for shapes that do and do not fill
 * its tiles, and with the same bits for any number of threads. Weights are numbers that bf16 has,
 * so that sums differ only by the order in which they are added up.
 */
#include "base/cpu_features.h"
#include "cpu_check.h"
#include "device/cpu/cpu.h"

typedef struct shape {
    int64_t images, channels, filters, rows, columns, size;
    yki_attrs attrs;
} shape;

static const shape shapes[] = {
    {32, 32, 32, 4, 4, 3, {.stride = 1, .padding = 1, .dilation = 1, .groups = 1}},
    {33, 64, 96, 7, 5, 3, {.stride = 1, .padding = 1, .dilation = 1, .groups = 1}},
    {8, 16, 16, 5, 5, 1, {.stride = 1, .padding = 0, .dilation = 1, .groups = 1}},
    {9, 24, 40, 6, 9, 3, {.stride = 1, .padding = 1, .dilation = 1, .groups = 1}},
    {70, 48, 17, 3, 3, 3, {.stride = 1, .padding = 2, .dilation = 1, .groups = 1}},
    {40, 160, 32, 4, 5, 1, {.stride = 1, .padding = 0, .dilation = 1, .groups = 1}},
    {16, 64, 64, 9, 9, 3, {.stride = 2, .padding = 1, .dilation = 1, .groups = 1}},
    {34, 32, 64, 8, 8, 1, {.stride = 2, .padding = 0, .dilation = 1, .groups = 1}},
    {12, 32, 32, 8, 21, 3, {.stride = 1, .padding = 0, .dilation = 1, .groups = 1}},
    {10, 32, 16, 9, 10, 3, {.stride = 1, .padding = 2, .dilation = 2, .groups = 1}},
    {17, 16, 32, 7, 7, 5, {.stride = 1, .padding = 2, .dilation = 1, .groups = 1}},
    /* Gradients of weights in several ranges. */
    {32, 320, 288, 2, 2, 3, {.stride = 1, .padding = 1, .dilation = 1, .groups = 1}},
    {8, 16, 16, 1, 1, 3, {.stride = 1, .padding = 1, .dilation = 1, .groups = 1}},
    {11, 16, 32, 8, 7, 2, {.stride = 2, .padding = 0, .dilation = 1, .groups = 1}},
    {8, 32, 16, 10, 11, 3, {.stride = 3, .padding = 1, .dilation = 1, .groups = 1}},
};

enum { SHAPES = sizeof shapes / sizeof *shapes };

static void needs_amx(void)
{
    if (!yki_cpu_use_amx())
        skip_because("this processor has no AMX");
}

static int64_t out_size(const shape *s, int64_t in)
{
    return (in + 2 * s->attrs.padding - s->attrs.dilation * (s->size - 1) - 1) / s->attrs.stride +
           1;
}

static check_case start_case(const shape *s, const yki_op *op, const yki_kernel_impl *expected)
{
    return (check_case){.op = op,
                        .attrs = s->attrs,
                        .blocked = true,
                        .dtype = YK_BF16,
                        .block = 16,
                        .threads = 1,
                        .tolerance = 1e-4,
                        .tolerance_low = 0x1p-7,
                        .expected = expected,
                        .state = 42};
}

/* An f32 weight with numbers of bf16. */
static void add_weight(check_case *c, const int64_t *dims, double scale)
{
    check_in(c, YK_BF16, 4, dims, scale, 0);
    c->in[c->in_count - 1].operand.dtype = YK_F32;
    c->in[c->in_count - 1].operand.layout = YKI_PLAIN;
}

static check_case forward(const shape *s, bool bias)
{
    check_case c = start_case(s, &yki_op_conv2d, &yki_cpu_conv2d_amx);
    double scale = 1 / sqrt((double)(s->channels * s->size * s->size));
    check_in(&c, YK_BF16, 4, (int64_t[]){s->images, s->channels, s->rows, s->columns}, 1, 0);
    add_weight(&c, (int64_t[]){s->filters, s->channels, s->size, s->size}, scale);
    check_in(&c, YK_F32, bias ? 1 : -1, (int64_t[]){s->filters}, 1, 0);
    check_out(&c, YK_BF16, 4,
              (int64_t[]){s->images, s->filters, out_size(s, s->rows), out_size(s, s->columns)});
    return c;
}

static check_case data(const shape *s)
{
    check_case c = start_case(s, &yki_op_conv2d_backward_data, &yki_cpu_conv2d_backward_data_amx);
    double scale = 1 / sqrt((double)(s->filters * s->size * s->size));
    check_in(&c, YK_BF16, 4,
             (int64_t[]){s->images, s->filters, out_size(s, s->rows), out_size(s, s->columns)}, 1,
             0);
    add_weight(&c, (int64_t[]){s->filters, s->channels, s->size, s->size}, scale);
    check_out(&c, YK_BF16, 4, (int64_t[]){s->images, s->channels, s->rows, s->columns});
    return c;
}

static check_case gradient(const shape *s)
{
    check_case c =
        start_case(s, &yki_op_conv2d_backward_weight, &yki_cpu_conv2d_backward_weight_amx);
    check_in(&c, YK_BF16, 4, (int64_t[]){s->images, s->channels, s->rows, s->columns}, 1, 0);
    check_in(&c, YK_BF16, 4,
             (int64_t[]){s->images, s->filters, out_size(s, s->rows), out_size(s, s->columns)}, 1,
             0);
    c.blocked = false;
    check_out(&c, YK_F32, 4, (int64_t[]){s->filters, s->channels, s->size, s->size});
    check_out(&c, YK_F32, -1, NULL);
    return c;
}

/* ---- next to ref ---------------------------------------------------------------------------- */

YK_TEST(forward_is_refs)
{
    needs_amx();
    for (int i = 0; i < SHAPES; i++)
        for (int bias = 0; bias < 2; bias++) {
            check_case c = forward(&shapes[i], bias);
            check(&c);
        }
}

YK_TEST(gradient_of_x_is_refs)
{
    needs_amx();
    for (int i = 0; i < SHAPES; i++) {
        check_case c = data(&shapes[i]);
        check(&c);
    }
}

YK_TEST(gradient_of_weights_is_refs)
{
    needs_amx();
    for (int i = 0; i < SHAPES; i++) {
        check_case c = gradient(&shapes[i]);
        check(&c);
    }
}

/* ---- bits ----------------------------------------------------------------------------------- */

static void same_bits(check_case c)
{
    check_memory one, many;
    check_run(&c, false, &one);
    for (c.threads = 2; c.threads <= 5; c.threads++) {
        check_run(&c, false, &many);
        const yki_operand *out = &c.out[0].operand;
        assert_memory_equal(one.out[0], many.out[0],
                            (size_t)check_elements(out, c.block) * yk_dtype_size(out->dtype));
        check_free(&many);
    }
    check_free(&one);
    check_end(&c);
}

YK_TEST(bits_do_not_depend_on_threads)
{
    needs_amx();
    for (int i = 0; i < SHAPES; i++) {
        same_bits(forward(&shapes[i], true));
        same_bits(data(&shapes[i]));
        same_bits(gradient(&shapes[i]));
    }
}

/* ---- what is left to other kernels ---------------------------------------------------------- */

/* A few images would leave most of a tile's rows empty. */
YK_TEST(few_images_are_left_to_other_kernels)
{
    needs_amx();
    shape few = shapes[0];
    few.images = 2;
    check_case c = forward(&few, false);
    c.expected = &yki_cpu_conv2d_staged;
    c.tolerance_low = 0x1p-6;
    check(&c);
}

/* ---- profiles ------------------------------------------------------------------------------- */

YK_TEST(limits_have_the_peak_of_tiles)
{
    needs_amx();
    yki_device *device;
    assert_ok(yki_device_create(&device, "cpu", &(yki_device_options){.threads = 1}));
    yki_limits limits = {0, 0, 0};
    assert_ok(device->type->measure(device, &limits));
    assert_true(limits.matrix_flop_s > limits.flop_s);
    assert_contains(device->description, "with AMX");
    yki_device_destroy(device);
}

/*
 * Direct convolutions of bf16 activations on AMX next to ref's, for shapes that do and do not fill
 * its tiles, and with the same bits for any number of threads. Weights are numbers that bf16 has,
 * so that sums differ only by the order in which they are added up.
 */
#include "base/cpu_features.h"
#include "cpu_check.h"
#include "device/cpu/cpu.h"
#include "device/cpu/onednn.h"
#include "device/cpu/x86/amx.h"

typedef struct shape {
    int64_t images, channels, filters, rows, columns, size;
    yki_attrs attrs;
    enum { IMAGES, PIXELS } rows_of_tiles; /* conv_amx.c or conv_amx_line.c */
} shape;

/* Stride, padding, dilation, and groups. */
#define GROUPED(s, p, d, g)                                                                        \
    {                                                                                              \
        .stride = {s, s}, .padding = {p, p}, .dilation = {d, d}, .groups = (g)                     \
    }
#define ATTRS(s, p, d) GROUPED(s, p, d, 1)

static const shape shapes[] = {
    {32, 32, 32, 4, 4, 3, ATTRS(1, 1, 1), IMAGES},
    {33, 64, 96, 7, 5, 3, ATTRS(1, 1, 1), IMAGES},
    {8, 16, 16, 5, 5, 1, ATTRS(1, 0, 1), PIXELS},
    /* Dilated: the rows that are read do not only move down. */
    {33, 32, 48, 7, 9, 3, ATTRS(1, 4, 4), IMAGES},
    {40, 48, 32, 11, 6, 3, ATTRS(2, 3, 3), IMAGES},
    {32, 16, 16, 12, 5, 5, ATTRS(1, 4, 3), IMAGES},
    {9, 24, 40, 6, 9, 3, ATTRS(1, 1, 1), PIXELS},
    {70, 48, 17, 3, 3, 3, ATTRS(1, 2, 1), IMAGES},
    {40, 160, 32, 4, 5, 1, ATTRS(1, 0, 1), PIXELS},
    {16, 64, 64, 9, 9, 3, ATTRS(2, 1, 1), PIXELS},
    {40, 48, 64, 9, 8, 3, ATTRS(2, 1, 1), IMAGES},
    {1, 40, 33, 1, 2, 3, ATTRS(2, 1, 1), PIXELS},
    {3, 64, 96, 37, 20, 3, ATTRS(2, 1, 1), PIXELS},
    {5, 32, 48, 8, 11, 1, ATTRS(3, 0, 1), PIXELS},
    {34, 32, 64, 8, 8, 1, ATTRS(2, 0, 1), PIXELS},
    {12, 32, 32, 8, 21, 3, ATTRS(1, 0, 1), IMAGES},
    {10, 32, 16, 9, 10, 3, ATTRS(1, 2, 2), PIXELS},
    {17, 16, 32, 7, 7, 5, ATTRS(1, 2, 1), PIXELS},
    /* Gradients of weights in strips of several rows, and in pieces of a row. */
    {32, 16, 48, 9, 16, 3, ATTRS(1, 1, 1), IMAGES},
    {32, 16, 16, 3, 70, 3, ATTRS(1, 1, 1), IMAGES},
    {32, 16, 16, 5, 67, 3, ATTRS(1, 0, 1), IMAGES},
    /* Gradients of weights in several ranges. */
    {32, 320, 288, 2, 2, 3, ATTRS(1, 1, 1), IMAGES},
    {8, 16, 16, 1, 1, 3, ATTRS(1, 1, 1), PIXELS},
    {11, 16, 32, 8, 7, 2, ATTRS(2, 0, 1), IMAGES},
    {8, 32, 16, 10, 11, 3, ATTRS(3, 1, 1), IMAGES},
    {1, 16, 16, 7, 5, 3, ATTRS(1, 1, 1), PIXELS},
    {3, 24, 40, 9, 6, 1, ATTRS(1, 0, 1), PIXELS},
    {1, 48, 17, 33, 3, 1, ATTRS(1, 0, 1), PIXELS},
    {33, 32, 33, 2, 3, 1, ATTRS(1, 0, 1), PIXELS},
    {5, 32, 64, 8, 9, 1, ATTRS(2, 0, 1), PIXELS},
    {2, 16, 32, 5, 7, 5, ATTRS(1, 2, 1), PIXELS},
    {3, 40, 32, 9, 8, 3, ATTRS(1, 2, 2), PIXELS},
    /* Several stretches, ranges, and visits of the sums. */
    {3, 32, 48, 19, 23, 3, ATTRS(1, 1, 1), PIXELS},
    {4, 640, 416, 14, 15, 1, ATTRS(1, 0, 1), PIXELS},
    {2, 320, 288, 5, 5, 3, ATTRS(1, 1, 1), PIXELS},
    /* Groups of 2 to 32 channels, in part of a tile, many ranges, and many images. */
    {3, 64, 64, 19, 23, 3, GROUPED(1, 1, 1, 8), PIXELS},
    {2, 32, 32, 9, 8, 3, GROUPED(2, 1, 1, 8), PIXELS},
    {33, 96, 96, 5, 6, 3, GROUPED(1, 1, 1, 3), PIXELS},
    {2, 40, 40, 7, 5, 3, GROUPED(2, 1, 1, 20), PIXELS},
    {1, 72, 72, 7, 9, 5, GROUPED(1, 2, 1, 18), PIXELS},
    {2, 48, 48, 6, 5, 1, GROUPED(1, 0, 1, 3), PIXELS},
    {2, 24, 24, 9, 8, 3, GROUPED(1, 2, 2, 6), PIXELS},
    {2, 1024, 1024, 5, 3, 3, GROUPED(1, 1, 1, 32), PIXELS},
};

enum { SHAPES = sizeof shapes / sizeof *shapes };

static void needs_amx(void)
{
    if (!yki_amx_is_usable())
        skip_because("this processor has no AMX");
}

static int64_t out_size(const shape *s, int64_t in)
{
    const yki_attrs *a = &s->attrs;
    return (in + 2 * a->padding[0] - a->dilation[0] * (s->size - 1) - 1) / a->stride[0] + 1;
}

/* Channels that an output channel reads. */
static int64_t inputs(const shape *s)
{
    return s->channels / s->attrs.groups;
}

/* Channels that read an input channel. */
static int64_t outputs(const shape *s)
{
    return s->filters / s->attrs.groups;
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
    check_case c =
        start_case(s, &yki_op_conv2d,
                   s->rows_of_tiles == PIXELS ? &yki_cpu_conv2d_amx_line : &yki_cpu_conv2d_amx);
    double scale = 1 / sqrt((double)(inputs(s) * s->size * s->size));
    check_in(&c, YK_BF16, 4, (int64_t[]){s->images, s->channels, s->rows, s->columns}, 1, 0);
    add_weight(&c, (int64_t[]){s->filters, inputs(s), s->size, s->size}, scale);
    check_in(&c, YK_F32, bias ? 1 : -1, (int64_t[]){s->filters}, 1, 0);
    check_out(&c, YK_BF16, 4,
              (int64_t[]){s->images, s->filters, out_size(s, s->rows), out_size(s, s->columns)});
    return c;
}

static check_case data(const shape *s)
{
    check_case c = start_case(s, &yki_op_conv2d_backward_data,
                              s->rows_of_tiles == PIXELS && s->attrs.stride[0] <= 2
                                  ? &yki_cpu_conv2d_backward_data_amx_line
                                  : NULL);
    double scale = 1 / sqrt((double)(outputs(s) * s->size * s->size));
    check_in(&c, YK_BF16, 4,
             (int64_t[]){s->images, s->filters, out_size(s, s->rows), out_size(s, s->columns)}, 1,
             0);
    add_weight(&c, (int64_t[]){s->filters, inputs(s), s->size, s->size}, scale);
    check_out(&c, YK_BF16, 4, (int64_t[]){s->images, s->channels, s->rows, s->columns});
    return c;
}

static check_case gradient(const shape *s, bool bias)
{
    check_case c = start_case(s, &yki_op_conv2d_backward_weight,
                              s->rows_of_tiles == PIXELS ? &yki_cpu_conv2d_backward_weight_amx_line
                                                         : &yki_cpu_conv2d_backward_weight_amx);
    check_in(&c, YK_BF16, 4, (int64_t[]){s->images, s->channels, s->rows, s->columns}, 1, 0);
    check_in(&c, YK_BF16, 4,
             (int64_t[]){s->images, s->filters, out_size(s, s->rows), out_size(s, s->columns)}, 1,
             0);
    c.blocked = false;
    check_out(&c, YK_F32, 4, (int64_t[]){s->filters, inputs(s), s->size, s->size});
    check_out(&c, YK_F32, bias ? 1 : -1, (int64_t[]){s->filters});
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
    for (int i = 0; i < SHAPES; i++)
        for (int bias = 0; bias < 1 + (shapes[i].rows_of_tiles == PIXELS); bias++) {
            check_case c = gradient(&shapes[i], bias);
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
        same_bits(gradient(&shapes[i], false));
    }
}

/* ---- what is left to other kernels ---------------------------------------------------------- */

static bool native_bf16(void)
{
    yki_device *device;
    assert_ok(yki_device_create(&device, "cpu", &(yki_device_options){.threads = 1}));
    bool native = ((const yki_cpu_device *)device)->native_bf16;
    yki_device_destroy(device);
    return native;
}

/* A few images would leave most of a tile's rows empty. */
YK_TEST(few_images_are_left_to_other_kernels)
{
    needs_amx();
    shape few = shapes[0];
    few.images = 2;
    few.attrs.padding[0] = few.attrs.padding[1] = 0;
    check_case c = forward(&few, false);
    c.expected = native_bf16() ? &yki_cpu_conv2d : &yki_cpu_conv2d_staged;
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
    assert_true(limits.matrix_flop_s > (yki_cpu_use_amx() ? limits.flop_s : 0));
    assert_contains(device->description, "with AMX");
    yki_device_destroy(device);
}

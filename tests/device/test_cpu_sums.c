/*
 * Operators of the cpu device that are computed in parts, such as sums over many numbers: the same
 * bits with any number of threads.
 */
#define _GNU_SOURCE
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "device/cpu/cpu.h"
#include "graph/randn.h"
#include "harness.h"

enum { MOST_THREADS = 5 };

static const yki_operand none = {.ndim = -1};

static const yki_scalars scalars = {.seed = 11, .step = 12};

static void *allocate(size_t bytes)
{
    void *memory = calloc(1, bytes + 1);
    assert_non_null(memory);
    return memory;
}

/* Numbers from -1 to 1, or classes from 0 to 4. */
static void *numbers(const yki_device *device, const yki_operand *operand)
{
    int64_t count = operand->ndim < 0 ? 0 : yki_operand_elements(device, operand);
    float *values = allocate((size_t)count * sizeof *values);
    uint32_t state = (uint32_t)count;
    for (int64_t i = 0; i < count; i++) {
        state = state * 1664525u + 1013904223u;
        int32_t class = (int32_t)(state >> 16) % 5;
        values[i] = (float)(int32_t)state / 2147483648.0f;
        if (operand->dtype == YK_I32)
            memcpy(&values[i], &class, sizeof class);
    }
    return values;
}

/* What the kernel writes with so many threads, all outputs one after the other. */
static char *run(const yki_kernel_desc *desc, int threads, size_t *bytes)
{
    yki_device *device;
    yki_kernel *kernel;
    void *in[YKI_MAX_IN] = {NULL}, *out[YKI_MAX_OUT] = {NULL};
    assert_ok(yki_device_create(&device, "cpu", &(yki_device_options){.threads = threads}));
    device->type->enter(device);
    assert_ok(yki_kernel_create(device, desc, &kernel));
    for (int i = 0; i < desc->in_count; i++)
        in[i] = numbers(device, &desc->in[i]);
    *bytes = 0;
    for (int i = 0; i < desc->out_count; i++)
        *bytes += yki_operand_bytes(device, &desc->out[i]);
    char *written = allocate(*bytes), *at = written;
    for (int i = 0; i < desc->out_count; i++) {
        out[i] = at;
        at += yki_operand_bytes(device, &desc->out[i]);
    }
    void *scratch = aligned_alloc(YKI_ALIGNMENT, yki_align(kernel->scratch + 1, YKI_ALIGNMENT));
    assert_ok(kernel->impl->run(
        kernel, &(yki_kernel_args){.in = in, .out = out, .scratch = scratch, .scalars = &scalars}));
    free(scratch);
    for (int i = 0; i < desc->in_count; i++)
        free(in[i]);
    yki_kernel_destroy(kernel);
    yki_device_destroy(device);
    return written;
}

static void same_bits(const yki_kernel_desc *desc)
{
    size_t bytes;
    char *one = run(desc, 1, &bytes);
    for (int threads = 2; threads <= MOST_THREADS; threads++) {
        char *many = run(desc, threads, &bytes);
        assert_memory_equal(one, many, bytes);
        free(many);
    }
    free(one);
}

#define IMAGES(n, c, h, w)                                                                         \
    {                                                                                              \
        .dtype = YK_F32, .ndim = 4, .dims = {n, c, h, w}, .layout = YKI_BLOCKED                    \
    }

YK_TEST(sums_over_what_was_repeated)
{
    const yki_operand large = IMAGES(8, 40, 17, 19);
    const yki_operand rows = {.dtype = YK_F32, .ndim = 2, .dims = {700, 300}};
    const yki_operand sums[] = {{.dtype = YK_F32, .ndim = 1, .dims = {1}},
                                {.dtype = YK_F32, .ndim = 3, .dims = {40, 1, 1}},
                                {.dtype = YK_F32, .ndim = 4, .dims = {8, 1, 17, 19}},
                                IMAGES(8, 40, 1, 1)};
    const yki_operand columns = {.dtype = YK_F32, .ndim = 1, .dims = {300}};
    yki_kernel_desc desc = {.op = &yki_op_reduce, .in_count = 1, .out_count = 1, .in = {large}};
    for (size_t i = 0; i < sizeof sums / sizeof *sums; i++) {
        desc.out[0] = sums[i];
        same_bits(&desc);
    }
    desc.in[0] = rows;
    desc.out[0] = columns;
    same_bits(&desc);
}

YK_TEST(sums_over_rows_of_norms)
{
    const yki_operand columns = {.dtype = YK_F32, .ndim = 1, .dims = {130}};
    const yki_attrs attrs = {.eps = 1e-5};
    static const int64_t counts[] = {1, 3, 70, 2100};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        const yki_operand rows = {.dtype = YK_F32, .ndim = 2, .dims = {counts[i], 130}};
        same_bits(&(yki_kernel_desc){.op = &yki_op_layer_norm_backward,
                                     .attrs = &attrs,
                                     .in_count = 3,
                                     .out_count = 3,
                                     .in = {rows, rows, columns},
                                     .out = {rows, columns, columns}});
        same_bits(&(yki_kernel_desc){.op = &yki_op_rms_norm_backward,
                                     .attrs = &attrs,
                                     .in_count = 3,
                                     .out_count = 2,
                                     .in = {rows, rows, columns},
                                     .out = {rows, columns}});
    }
}

/* db of linear, after dW, which oneDNN computes with other bits for other numbers of threads. As a
 * sum in f32 it would have errors of 1e-3; as a sum in f64 of sums of 16 in f32, it has 4e-5. */
YK_TEST(sums_of_a_bias)
{
    enum { SAMPLES = 100000, INPUTS = 2, OUTPUTS = 35 };
    const yki_operand x = {.dtype = YK_F32, .ndim = 2, .dims = {SAMPLES, INPUTS}},
                      dy = {.dtype = YK_F32, .ndim = 2, .dims = {SAMPLES, OUTPUTS}},
                      weight = {.dtype = YK_F32, .ndim = 2, .dims = {OUTPUTS, INPUTS}},
                      bias = {.dtype = YK_F32, .ndim = 1, .dims = {OUTPUTS}};
    const yki_kernel_desc desc = {.op = &yki_op_linear_backward_weight,
                                  .in_count = 2,
                                  .out_count = 2,
                                  .in = {x, dy},
                                  .out = {weight, bias}};
    float *slopes = numbers(NULL, &dy), *first = NULL;
    for (int threads = 1; threads <= MOST_THREADS; threads++) {
        size_t bytes;
        float *written = (float *)(void *)run(&desc, threads, &bytes);
        float *db = written + OUTPUTS * INPUTS;
        for (int o = 0; o < OUTPUTS; o++) {
            double sum = 0;
            for (int n = 0; n < SAMPLES; n++)
                sum += slopes[n * OUTPUTS + o];
            assert_true(fabs(db[o] - sum) <= 1e-4);
        }
        if (first)
            assert_memory_equal(first + OUTPUTS * INPUTS, db, OUTPUTS * sizeof *db);
        if (first)
            free(written);
        else
            first = written;
    }
    free(first);
    free(slopes);
}

/* Many groups for few threads, also of small images, and few for many, in slices. */
YK_TEST(group_norms_of_samples)
{
    static const yki_attrs attrs = {.eps = 1e-5, .groups = 4};
    static const yki_operand shapes[] = {IMAGES(9, 40, 17, 19),
                                         IMAGES(9, 256, 9, 7),
                                         IMAGES(70, 32, 5, 7),
                                         IMAGES(1, 40, 80, 90),
                                         {.dtype = YK_F32, .ndim = 3, .dims = {2, 24, 5000}}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const yki_operand x = shapes[i];
        const yki_operand channels = {.dtype = YK_F32, .ndim = 1, .dims = {x.dims[1]}};
        const yki_operand groups = {.dtype = YK_F32, .ndim = 2, .dims = {x.dims[0], attrs.groups}};
        same_bits(&(yki_kernel_desc){.op = &yki_op_group_norm,
                                     .attrs = &attrs,
                                     .in_count = 3,
                                     .out_count = 3,
                                     .in = {x, channels, channels},
                                     .out = {x, groups, groups}});
        same_bits(&(yki_kernel_desc){.op = &yki_op_group_norm_backward,
                                     .attrs = &attrs,
                                     .in_count = 5,
                                     .out_count = 3,
                                     .in = {x, x, channels, groups, groups},
                                     .out = {x, channels, channels}});
    }
}

/* Products in slices, of which each thread takes whole ones. */
YK_TEST(products_of_many_matrices)
{
    static const yki_attrs attrs = {.heads = 4, .transpose_b = true};
    const yki_operand a = {.dtype = YK_F32, .ndim = 3, .dims = {9, 4 * 37, 64}},
                      b = {.dtype = YK_F32, .ndim = 3, .dims = {9, 4 * 50, 64}},
                      y = {.dtype = YK_F32, .ndim = 3, .dims = {9, 4 * 37, 50}};
    same_bits(&(yki_kernel_desc){.op = &yki_op_matmul,
                                 .attrs = &attrs,
                                 .in_count = 2,
                                 .out_count = 1,
                                 .in = {a, b},
                                 .out = {y}});
}

YK_TEST(losses_of_samples_and_pixels)
{
    const yki_operand images = IMAGES(3, 21, 33, 40), scalar = {.dtype = YK_F32, .ndim = 0};
    const yki_operand pixels = {.dtype = YK_I32, .ndim = 3, .dims = {3, 33, 40}};
    const yki_operand samples = {.dtype = YK_F32, .ndim = 2, .dims = {2000, 30}};
    const yki_operand long_samples = {.dtype = YK_F32, .ndim = 2, .dims = {2000, 70}};
    const yki_operand classes = {.dtype = YK_I32, .ndim = 1, .dims = {2000}};
    const yki_operand cases[][2] = {{images, pixels},        {images, images},
                                    {samples, classes},      {samples, samples},
                                    {long_samples, classes}, {long_samples, long_samples}};
    const yki_attrs attrs = {.label_smoothing = 0.1, .ignore_index = 3};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const yki_operand *logits = &cases[i][0];
        const yki_operand log_sums = {
            .dtype = YK_F32,
            .ndim = 2,
            .dims = {logits->dims[0], logits->ndim == 4 ? logits->dims[2] * logits->dims[3] : 1}};
        same_bits(&(yki_kernel_desc){.op = &yki_op_cross_entropy,
                                     .attrs = &attrs,
                                     .in_count = 3,
                                     .out_count = 3,
                                     .in = {cases[i][0], cases[i][1], none},
                                     .out = {scalar, log_sums, scalar}});
    }
}

YK_TEST(losses_of_pairs)
{
    const yki_operand images = IMAGES(5, 48, 33, 40), scalar = {.dtype = YK_F32, .ndim = 0};
    const yki_op *const ops[] = {&yki_op_mse_loss, &yki_op_smooth_l1_loss,
                                 &yki_op_binary_cross_entropy_with_logits};
    const yki_attrs attrs = {.beta = 0.5};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        same_bits(&(yki_kernel_desc){.op = ops[i],
                                     .attrs = &attrs,
                                     .in_count = 3,
                                     .out_count = 1,
                                     .in = {images, images, none},
                                     .out = {scalar}});
}

YK_TEST(sums_over_a_dimension)
{
    const yki_operand x = IMAGES(4, 48, 33, 40),
                      sums[] = {{.dtype = YK_F32, .ndim = 4, .dims = {4, 1, 33, 40}},
                                IMAGES(4, 48, 1, 40),
                                IMAGES(4, 48, 33, 1)};
    for (int dim = 1; dim < 4; dim++)
        same_bits(&(yki_kernel_desc){.op = &yki_op_sum,
                                     .attrs = &(yki_attrs){.dim = dim},
                                     .in_count = 1,
                                     .out_count = 1,
                                     .in = {x},
                                     .out = {sums[dim - 1]}});
}

YK_TEST(averages_of_windows)
{
    static const yki_attrs attrs = {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}};
    const yki_operand x = IMAGES(5, 44, 33, 41), y = IMAGES(5, 44, 17, 21);
    yki_kernel_desc desc = {.op = &yki_op_avg_pool2d,
                            .attrs = &attrs,
                            .in_count = 1,
                            .out_count = 1,
                            .in = {x},
                            .out = {y}};
    same_bits(&desc);
    desc.op = &yki_op_avg_pool2d_backward;
    desc.in[0] = y;
    desc.out[0] = x;
    same_bits(&desc);
}

/* In rows, and in channels of blocks beside each other. */
static void same_bits_of_rows(const yki_op *op, const yki_op *backward)
{
    const yki_operand shapes[] = {IMAGES(3, 44, 33, 41),
                                  {.dtype = YK_F32, .ndim = 2, .dims = {3000, 10}}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        yki_kernel_desc desc = {
            .op = op, .in_count = 1, .out_count = 1, .in = {shapes[i]}, .out = {shapes[i]}};
        same_bits(&desc);
        desc.op = backward;
        desc.in_count = 2;
        desc.in[1] = shapes[i];
        same_bits(&desc);
    }
}

YK_TEST(softmax_of_rows)
{
    same_bits_of_rows(&yki_op_softmax, &yki_op_softmax_backward);
    same_bits_of_rows(&yki_op_log_softmax, &yki_op_log_softmax_backward);
}

YK_TEST(products_with_a_repeated_side)
{
    const yki_operand x = IMAGES(4, 44, 33, 40),
                      sides[] = {IMAGES(4, 44, 1, 1),
                                 {.dtype = YK_F32, .ndim = 4, .dims = {4, 1, 33, 40}},
                                 {.dtype = YK_F32, .ndim = 3, .dims = {44, 1, 1}}};
    for (size_t i = 0; i < sizeof sides / sizeof *sides; i++)
        same_bits(&(yki_kernel_desc){.op = &yki_op_multiply,
                                     .in_count = 2,
                                     .out_count = 1,
                                     .in = {x, sides[i]},
                                     .out = {x}});
}

YK_TEST(permutations)
{
    static const int64_t orders[][YK_MAX_DIMS] = {{0, 2, 1, 3}, {0, 2, 3, 1}, {3, 1, 2, 0}};
    const int64_t sizes[] = {3, 44, 33, 41};
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        yki_attrs attrs = {0};
        yki_operand y = IMAGES(0, 0, 0, 0);
        for (int d = 0; d < YK_MAX_DIMS; d++) {
            attrs.dims[d] = orders[i][d];
            y.dims[d] = sizes[orders[i][d]];
        }
        same_bits(&(yki_kernel_desc){.op = &yki_op_permute,
                                     .attrs = &attrs,
                                     .in_count = 1,
                                     .out_count = 1,
                                     .in = {IMAGES(3, 44, 33, 41)},
                                     .out = {y}});
    }
}

YK_TEST(copies)
{
    const yki_operand x = {.dtype = YK_F32, .ndim = 3, .dims = {7, 50, 301}};
    const yki_operand y = {.dtype = YK_F32, .ndim = 2, .dims = {7, 50 * 301}};
    same_bits(&(yki_kernel_desc){
        .op = &yki_op_flatten, .in_count = 1, .out_count = 1, .in = {x}, .out = {y}});
}

/* In vectors, with the bits of the C library's logarithm and cosine. */
YK_TEST(normal_numbers_are_those_of_other_devices)
{
    static const yki_attrs attrs = {.salt = 5};
    const yki_operand x = {.dtype = YK_F32, .ndim = 2, .dims = {1000, 3001}};
    const yki_kernel_desc desc = {.op = &yki_op_randn_like,
                                  .attrs = &attrs,
                                  .in_count = 1,
                                  .out_count = 1,
                                  .in = {x},
                                  .out = {x}};
    const yki_randn draw = yki_randn_of(scalars.seed, scalars.step, attrs.salt);
    size_t bytes;
    same_bits(&desc);
    float *numbers = (float *)(void *)run(&desc, 3, &bytes);
    for (size_t i = 0; i < bytes / sizeof *numbers; i++)
        if (numbers[i] != (float)yki_randn_at(&draw, i))
            fail_msg("number %zu is %.9g, expected %.9g", i, (double)numbers[i],
                     yki_randn_at(&draw, i));
    free(numbers);
}

/*
 * The kernels of the cuda device, compiled for the processor, in situations that the conformance
 * suite does not have: what has no operator, grids that are too small, NaN, labels that are no
 * class, statistics of several ranks.
 */
#include <math.h>
#include <stdlib.h>

#include "base/random.h"
#include "harness.h"
#include "sim_device.h"
#include "simulator.h"
#include "tensor/bf16.h"

static float *floats(int64_t count)
{
    float *made = calloc((size_t)count + 1, sizeof *made);
    assert_non_null(made);
    for (int64_t i = 0; i < count; i++)
        made[i] = (float)(yki_hash3(7, 8, (uint64_t)i) >> 40) * 0x1p-23f - 1;
    return made;
}

static yki_kernel *make(yki_device *device, const yki_op *op, const yki_attrs *attrs,
                        const yki_operand *in, int in_count, const yki_operand *out, int out_count)
{
    yki_kernel_desc desc = {
        .op = op, .attrs = attrs, .training = true, .in_count = in_count, .out_count = out_count};
    memcpy(desc.in, in, (size_t)in_count * sizeof *in);
    memcpy(desc.out, out, (size_t)out_count * sizeof *out);
    yki_kernel *kernel;
    assert_ok(yki_kernel_create(device, &desc, &kernel));
    return kernel;
}

static yki_device *open_device(void)
{
    static const yki_device_options options = {.threads = 1};
    yki_device *device;
    assert_ok(sim_device_type.create(&device, &options));
    return device;
}

/* Filters (K, C, R, S) in f32 become (K, R, S, 8) in bf16, with zeros after the last channel. */
YK_TEST(filters_with_padded_channels)
{
    enum { K = 5, C = 3, TAPS = 49, PITCH = 8 };
    float *in = floats(K * C * TAPS);
    uint16_t *out = malloc(K * TAPS * PITCH * sizeof *out);
    memset(out, 0xff, K * TAPS * PITCH * sizeof *out);
    yki_cuda_transpose_args args = {.in = in,
                                    .out = out,
                                    .batch = K,
                                    .rows = C,
                                    .columns = TAPS,
                                    .in_pitch = TAPS,
                                    .out_pitch = PITCH};
    sim_launch("transpose_f32_bf16", yki_cuda_grid_of_transpose(&args), &args, sizeof args);
    for (int k = 0; k < K; k++)
        for (int tap = 0; tap < TAPS; tap++)
            for (int c = 0; c < PITCH; c++) {
                float value = c < C ? in[(k * C + c) * TAPS + tap] : 0;
                assert_int_equal(out[(k * TAPS + tap) * PITCH + c], yki_bf16_from_float(value));
            }
    free(in);
    free(out);
}

static void transpose_floats(int batch, int rows, int columns)
{
    float *in = floats(batch * rows * columns), *out = malloc((size_t)(batch * rows * columns) * 4);
    yki_cuda_transpose_args args = {.in = in,
                                    .out = out,
                                    .batch = batch,
                                    .rows = rows,
                                    .columns = columns,
                                    .in_pitch = columns,
                                    .out_pitch = rows};
    sim_launch("transpose_4", yki_cuda_grid_of_transpose(&args), &args, sizeof args);
    for (int i = 0; i < batch * rows * columns; i++) {
        int image = i / (rows * columns), row = i / columns % rows, column = i % columns;
        assert_float_equal(out[(image * columns + column) * rows + row], in[i], 0);
    }
    free(in);
    free(out);
}

/* Filters and their gradients, whose channels need several pieces, and pictures. */
YK_TEST(short_matrices_are_transposed_in_pieces)
{
    transpose_floats(2, 500, 9);
    transpose_floats(2, 9, 500);
    transpose_floats(1, 3000, 1);
    transpose_floats(3, 3, 1500);
    transpose_floats(2, 16, 16);
    transpose_floats(2, 17, 16);
}

/* More rows, pictures and images than blocks fit in a grid: the blocks that there are take them. */
YK_TEST(grids_that_are_too_small)
{
    enum { ROWS = 100, COLUMNS = 20, IMAGES = 5, PIXELS = 6, CHANNELS = 4 };
    yki_cuda_transpose_args huge = {
        .batch = 1 << 20, .rows = 1 << 30, .columns = 64, .in_pitch = 64, .out_pitch = 1 << 30};
    yki_cuda_grid grid = yki_cuda_grid_of_transpose(&huge);
    assert_int_equal(grid.x, 2);
    assert_int_equal(grid.y, 65535);
    assert_int_equal(grid.z, 65535);

    float *in = floats(2 * ROWS * COLUMNS), out[2 * COLUMNS * ROWS];
    yki_cuda_transpose_args moved = {.in = in,
                                     .out = out,
                                     .batch = 2,
                                     .rows = ROWS,
                                     .columns = COLUMNS,
                                     .in_pitch = COLUMNS,
                                     .out_pitch = ROWS};
    sim_launch("transpose_4", (yki_cuda_grid){1, 1, 1}, &moved, sizeof moved);
    for (int i = 0; i < 2 * ROWS * COLUMNS; i++) {
        int image = i / (ROWS * COLUMNS), row = i / COLUMNS % ROWS, column = i % COLUMNS;
        assert_float_equal(out[(image * COLUMNS + column) * ROWS + row], in[i], 0);
    }
    free(in);

    float *images = floats(IMAGES * PIXELS * CHANNELS), means[IMAGES * CHANNELS];
    yki_cuda_pool_args pool = {
        .in = images, .out = means, .batch = IMAGES, .columns = CHANNELS, .h = PIXELS / 2, .w = 2};
    sim_launch("global_pool_f32", (yki_cuda_grid){1, 2, 1}, &pool, sizeof pool);
    for (int i = 0; i < IMAGES * CHANNELS; i++) {
        float sum = 0;
        for (int p = 0; p < PIXELS; p++)
            sum += images[(i / CHANNELS * PIXELS + p) * CHANNELS + i % CHANNELS];
        assert_float_equal(means[i], sum / PIXELS, 1e-6);
    }
    free(images);
}

/* Windows, erased boxes and mixed samples, to the bit as ref makes them. */
static void fill_pictures(uint8_t *pictures, size_t bytes, yki_picture_draw *draws,
                          yki_picture_box *boxes, int samples, const yki_pictures_args *args)
{
    for (size_t i = 0; i < bytes; i++)
        pictures[i] = (uint8_t)(yki_hash3(3, 0, i) & 255);
    for (int n = 0; n < samples; n++) {
        uint64_t word = yki_hash3(1, 2, (uint64_t)n);
        draws[n] = (yki_picture_draw){.source = (int64_t)(word % (uint64_t)args->count),
                                      .top = (int32_t)(word >> 8 & 3) - 2,
                                      .left = (int32_t)(word >> 16 & 3) - 2,
                                      .mirrored = word >> 24 & 1,
                                      .upside_down = word >> 25 & 1};
    }
    for (int i = 0; i < samples * args->erasing_count; i++) {
        uint64_t word = yki_hash3(2, 2, (uint64_t)i);
        boxes[i] = (yki_picture_box){.top = (int32_t)(word & 7),
                                     .left = (int32_t)(word >> 8 & 7),
                                     .bottom = (int32_t)(word >> 16 & 7),
                                     .right = 8,
                                     .noise = word};
    }
}

static void assert_pictures_as_ref(yki_device *cuda, yki_device *ref, yki_pictures_args args)
{
    size_t count = (size_t)(args.batch * args.channels * args.out_height * args.out_width);
    size_t bytes = count * yk_dtype_size(args.dtype);
    void *made = malloc(bytes), *expected = malloc(bytes);
    args.out = made;
    assert_ok(cuda->type->pictures(cuda, &args));
    args.out = expected;
    assert_ok(ref->type->pictures(ref, &args));
    assert_memory_equal(made, expected, bytes);
    free(made);
    free(expected);
}

YK_TEST(pictures_have_the_bits_of_ref)
{
    enum { N = 5, COUNT = 4, H = 7, W = 9, NUMBERS = 3 * YKI_PICTURE_NUMBERS, ERASINGS = 2 };
    static uint8_t pictures[COUNT * 3 * H * W];
    static const yki_picture_mix mixes[] = {
        {.share = 0.3}, {.share = 1}, {0.5, .cut = 1, .top = 2, .bottom = 5, .right = 4}};
    double f64[NUMBERS];
    float f32[NUMBERS];
    static const yki_picture_erasing erasings[ERASINGS] = {
        {.value = 0.3, .mean = {0.5, 0.4, 0.1}, .std = {0.25, 0.7, 0.3}},
        {.random = 1, .mean = {0.5, 0.4, 0.1}, .std = {0.25, 0.7, 0.3}}};
    yki_picture_draw draws[N + 1];
    yki_picture_box boxes[(N + 1) * ERASINGS];
    yki_device *cuda = open_device(), *ref;
    assert_ok(yki_device_create(&ref, "ref", &(yki_device_options){.threads = 1}));
    yki_pictures_args args = {.pictures = pictures,
                              .draws = draws,
                              .erasings = erasings,
                              .boxes = boxes,
                              .erasing_count = ERASINGS,
                              .count = COUNT,
                              .batch = N,
                              .channels = 3,
                              .height = H,
                              .width = W,
                              .out_height = H,
                              .out_width = W};
    fill_pictures(pictures, sizeof pictures, draws, boxes, N + 1, &args);
    for (int i = 0; i < NUMBERS; i++) {
        f64[i] = (double)(i % YKI_PICTURE_NUMBERS) / 51.7 - i / 300.1;
        f32[i] = (float)f64[i];
    }
    for (int c = 0; c < 32; c++) {
        args.mix = c & 3 ? &mixes[(c & 3) - 1] : NULL;
        args.interleaved = c >> 2 & 1;
        args.reflects = c >> 3 & 1;
        args.dtype = c >> 4 & 1 ? YK_F64 : YK_F32;
        args.numbers = args.dtype == YK_F64 ? (void *)f64 : (void *)f32;
        assert_pictures_as_ref(cuda, ref, args);
    }
    yki_device_destroy(ref);
    cuda->type->destroy(cuda);
}

typedef struct order {
    yk_dtype dtype;
    int ndim;
    int64_t x[3], dims[3];
    const char *kernel;
} order;

static void assert_permuted(yki_device *device, const order *o)
{
    yki_operand x = {.dtype = o->dtype, .ndim = o->ndim}, y = x;
    yki_attrs attrs = {0};
    for (int d = 0; d < o->ndim; d++) {
        x.dims[d] = o->x[d];
        y.dims[d] = o->x[o->dims[d]];
        attrs.dims[d] = o->dims[d];
    }
    const size_t size = yk_dtype_size(o->dtype), count = (size_t)yki_operand_count(&x);
    uint8_t *from = malloc(count * size), *to = malloc(count * size);
    for (size_t i = 0; i < count * size; i++)
        from[i] = (uint8_t)yki_hash3(9, 9, i);
    yki_kernel *kernel = make(device, &yki_op_permute, &attrs, &x, 1, &y, 1);
    assert_ptr_equal(((yki_cuda_kernel *)kernel)->stage[0], yk_sim_find(o->kernel));
    void *in[] = {from}, *out[] = {to};
    yki_kernel_args run = {.in = in, .out = out};
    assert_ok(kernel->impl->run(kernel, &run));
    for (size_t i = 0; i < count; i++) { /* element i of y */
        size_t rest = i, at[3] = {0}, place = 0;
        for (int d = o->ndim - 1; d >= 0; d--) {
            at[o->dims[d]] = rest % (size_t)y.dims[d];
            rest /= (size_t)y.dims[d];
        }
        for (int d = 0; d < o->ndim; d++)
            place = place * (size_t)x.dims[d] + at[d];
        assert_memory_equal(to + i * size, from + place * size, size);
    }
    yki_kernel_destroy(kernel);
    free(from);
    free(to);
}

/* Vectors where neighbours stay neighbours, and tiles where matrices are transposed. */
YK_TEST(permute_moves_long_lines)
{
    static const order orders[] = {
        {YK_BF16, 3, {5, 7, 24}, {1, 0, 2}, "permute_16"},
        {YK_BF16, 3, {5, 7, 20}, {1, 0, 2}, "permute_8"},
        {YK_BF16, 3, {5, 7, 21}, {1, 0, 2}, "permute_2"},
        {YK_F32, 3, {5, 7, 6}, {1, 0, 2}, "permute_8"},
        {YK_F64, 3, {5, 7, 6}, {0, 1, 2}, "permute_16"},
        {YK_F64, 3, {5, 7, 3}, {0, 1, 2}, "permute_8"},
        {YK_F32, 3, {3, 40, 70}, {0, 2, 1}, "transpose_4"},
        {YK_BF16, 3, {3, 40, 9}, {0, 2, 1}, "transpose_2"},
        {YK_F64, 3, {3, 4, 70}, {2, 0, 1}, "transpose_8"},
        {YK_F32, 3, {6, 1, 70}, {2, 1, 0}, "transpose_4"},
        {YK_F32, 3, {6, 5, 8}, {2, 1, 0}, "permute_4"},
        {YK_F32, 3, {6, 5, 8}, {1, 2, 0}, "transpose_4"},
        {YK_F32, 2, {300, 2}, {1, 0}, "transpose_4"},
        {YK_F32, 1, {7}, {0}, "permute_4"},
        {YK_F32, 1, {1}, {0}, "permute_4"},
    };
    yki_device *device = open_device();
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++)
        assert_permuted(device, &orders[i]);
    device->type->destroy(device);
}

/* More of them than cuBLASLt takes at once, of matrices that are aligned to their elements. */
YK_TEST(many_products_are_entered_in_turns)
{
    enum { COUNT = 140000 };
    yki_device *device = open_device();
    const yki_operand operand = {.dtype = YK_BF16, .ndim = 3, .dims = {1, COUNT, 1}};
    const yki_attrs attrs = {.heads = COUNT};
    yki_kernel *kernel =
        make(device, &yki_op_matmul, &attrs, (yki_operand[]){operand, operand}, 2, &operand, 1);
    uint16_t *a = malloc(COUNT * sizeof *a), *b = malloc(COUNT * sizeof *b);
    uint16_t *y = calloc(COUNT, sizeof *y);
    char *scratch = malloc(kernel->scratch + 1);
    for (int i = 0; i < COUNT; i++) {
        a[i] = yki_bf16_from_float((float)(i % 13 - 6));
        b[i] = yki_bf16_from_float((float)(i % 7 - 3));
    }
    void *in[] = {a, b}, *out[] = {y};
    yki_kernel_args run = {.in = in, .out = out, .scratch = scratch};
    for (int pass = 0; pass < 2; pass++) {
        memset(y, 0xff, COUNT * sizeof *y);
        assert_ok(kernel->impl->run(kernel, &run));
        for (int i = 0; i < COUNT; i++)
            if (yki_bf16_to_float(y[i]) != (float)((i % 13 - 6) * (i % 7 - 3)))
                fail_msg("product %d is %g", i, (double)yki_bf16_to_float(y[i]));
    }
    yki_kernel_destroy(kernel);
    device->type->destroy(device);
    free(a);
    free(b);
    free(y);
    free(scratch);
}

/* The loss is NaN, and the first of the rows is reported. */
YK_TEST(labels_that_are_no_class_are_reported)
{
    enum { N = 40, C = 10 };
    yki_device *device = open_device();
    yki_operand logits = {.dtype = YK_F32, .ndim = 2, .dims = {N, C}};
    yki_operand labels = {.dtype = YK_I32, .ndim = 1, .dims = {N}};
    yki_operand loss = {.dtype = YK_F32}, absent = {.ndim = -1};
    yki_attrs attrs = {.reduction = YK_LOSS_MEAN, .ignore_index = -100};
    yki_kernel *kernel = make(device, &yki_op_cross_entropy, &attrs,
                              (yki_operand[]){logits, labels}, 2, (yki_operand[]){loss, absent}, 2);
    float *x = floats(N * C), result = 0;
    int32_t classes[N] = {0};
    double scratch[N];
    assert_true(kernel->scratch <= sizeof scratch);
    void *in[] = {x, classes}, *out[] = {&result, NULL};
    yki_kernel_args run = {.in = in, .out = out, .scratch = scratch};
    assert_ok(kernel->impl->run(kernel, &run));
    assert_int_equal(sim_device_mistakes().label, 0);
    assert_false(isnan(result));
    classes[31] = C;
    classes[17] = -1;
    assert_ok(kernel->impl->run(kernel, &run));
    assert_int_equal(INT32_MAX - sim_device_mistakes().label, 17);
    assert_true(isnan(result));
    yki_kernel_destroy(kernel);
    device->type->destroy(device);
    free(x);
}

/* Warps then take several rows, and the few sums of the blocks are all that one block adds up. */
YK_TEST(many_rows_have_few_losses)
{
    enum { N = YKI_CUDA_LOSSES * 8 + 100, C = 3 };
    yki_device *device = open_device();
    yki_operand logits = {.dtype = YK_F64, .ndim = 2, .dims = {N, C}};
    yki_operand labels = {.dtype = YK_I32, .ndim = 1, .dims = {N}};
    yki_operand loss = {.dtype = YK_F64}, absent = {.ndim = -1};
    yki_attrs attrs = {.reduction = YK_LOSS_MEAN, .ignore_index = -100};
    yki_kernel *kernel = make(device, &yki_op_cross_entropy, &attrs,
                              (yki_operand[]){logits, labels}, 2, (yki_operand[]){loss, absent}, 2);
    static double x[N * C], scratch[2 * YKI_CUDA_LOSSES];
    static int32_t classes[N];
    double sum = 0, result[2];
    for (int n = 0; n < N; n++) {
        double *row = x + n * C;
        for (int c = 0; c < C; c++)
            row[c] = (n * 7 + c * 5) % 13 - 6;
        classes[n] = n % C;
        sum += log(exp(row[0]) + exp(row[1]) + exp(row[2])) - row[n % C];
    }
    assert_true(kernel->scratch <= sizeof scratch);
    for (int i = 0; i < 2; i++) {
        void *in[] = {x, classes}, *out[] = {&result[i], NULL};
        yki_kernel_args run = {.in = in, .out = out, .scratch = scratch};
        sim_device_seed(500 + (uint64_t)i);
        assert_ok(kernel->impl->run(kernel, &run));
    }
    assert_true(fabs(result[0] - sum / N) < 1e-12);
    assert_memory_equal(&result[0], &result[1], sizeof result[0]);
    yki_kernel_destroy(kernel);
    device->type->destroy(device);
}

/* A logit may be -infinity: such a class has no share. */
YK_TEST(classes_may_be_ruled_out)
{
    enum { C = 300 };
    yki_device *device = open_device();
    yki_operand logits = {.dtype = YK_F32, .ndim = 2, .dims = {1, C}};
    yki_operand labels = {.dtype = YK_I32, .ndim = 1, .dims = {1}};
    yki_operand loss = {.dtype = YK_F32}, absent = {.ndim = -1};
    yki_attrs attrs = {.reduction = YK_LOSS_MEAN, .ignore_index = -100};
    yki_kernel *kernel = make(device, &yki_op_cross_entropy, &attrs,
                              (yki_operand[]){logits, labels}, 2, (yki_operand[]){loss, absent}, 2);
    float x[C], result;
    int32_t label = 299;
    double scratch[2];
    void *in[] = {x, &label}, *out[] = {&result, NULL};
    yki_kernel_args run = {.in = in, .out = out, .scratch = scratch};
    for (int c = 0; c < C; c++)
        x[c] = c < 290 ? -INFINITY : 2;
    assert_ok(kernel->impl->run(kernel, &run));
    assert_true(fabsf(result - logf(10)) < 1e-6f);
    x[150] = NAN;
    assert_ok(kernel->impl->run(kernel, &run));
    assert_true(isnan(result));
    yki_kernel_destroy(kernel);
    device->type->destroy(device);
}

/* Forward alone, of one head of 32 columns that attends to itself. */
static void attend(yki_device *device, const yki_attrs *attrs, int64_t tokens, uint16_t *q,
                   uint16_t *y, float *log_sums)
{
    const yki_operand absent = {.ndim = -1}, sums = {.ndim = 3, .dims = {1, 1, tokens}};
    const yki_operand rows = {.dtype = YK_BF16, .ndim = 3, .dims = {1, tokens, 32}};
    yki_kernel_desc desc = {.op = &yki_op_scaled_dot_product_attention,
                            .attrs = attrs,
                            .training = true,
                            .in_count = 4,
                            .out_count = 2,
                            .in = {rows, rows, rows, absent},
                            .out = {rows, sums}};
    const yki_scalars scalars = {.seed = 5, .step = 6};
    yki_kernel *kernel;
    assert_ok(yki_kernel_create(device, &desc, &kernel));
    void *in[] = {q, q, q, NULL}, *out[] = {y, log_sums};
    assert_ok(
        kernel->impl->run(kernel, &(yki_kernel_args){.in = in, .out = out, .scalars = &scalars}));
    yki_kernel_destroy(kernel);
}

/* Whatever dropout drops: a query whose scores are no numbers has no shares. */
YK_TEST(flash_attention_of_nan_is_nan)
{
    enum { TOKENS = 40, WIDTH = 32, QUERY = 17 };
    yki_device *device = open_device();
    const yki_attrs attrs = {.heads = 1, .kv_heads = 1, .alpha = 1, .p = 0.95};
    uint16_t q[TOKENS * WIDTH], y[TOKENS * WIDTH];
    float log_sums[TOKENS];
    for (int i = 0; i < TOKENS * WIDTH; i++)
        q[i] = yki_bf16_from_float((float)(i % 7) / 8);
    attend(device, &attrs, TOKENS, q, y, log_sums);
    assert_false(isnan(log_sums[QUERY]));
    for (int i = 0; i < WIDTH; i++)
        q[QUERY * WIDTH + i] = yki_bf16_from_float(NAN);
    attend(device, &attrs, TOKENS, q, y, log_sums);
    for (int row = 0; row < TOKENS; row++) {
        assert_true(isnan(log_sums[row])); /* the NaN is a key of every query */
        for (int i = 0; i < WIDTH; i++)
            assert_true(isnan(yki_bf16_to_float(y[row * WIDTH + i])));
    }
    device->type->destroy(device);
}

/* Likewise, of rows that are divided among the samples. */
YK_TEST(places_that_are_outside_their_dimension_are_reported)
{
    enum { N = 9, ROWS = 4, T = 10, K = 3 };
    yki_device *device = open_device();
    yki_operand x = {.dtype = YK_F32, .ndim = 3, .dims = {N, ROWS, T}};
    yki_operand index = {.dtype = YK_I64, .ndim = 3, .dims = {N, ROWS, K}};
    yki_operand y = {.dtype = YK_F32, .ndim = 3, .dims = {N, ROWS, K}};
    yki_kernel *kernel = make(device, &yki_op_take_along_dim, &(yki_attrs){.dim = 2},
                              (yki_operand[]){x, index}, 2, &y, 1);
    float *numbers = floats(N * ROWS * T), *taken = floats(N * ROWS * K);
    int64_t places[N * ROWS * K] = {0};
    void *in[] = {numbers, places}, *out[] = {taken};
    yki_kernel_args run = {.in = in, .out = out};
    places[5] = T - 1;
    assert_ok(kernel->impl->run(kernel, &run));
    assert_int_equal(sim_device_mistakes().place, 0);
    places[8 * ROWS * K + 1] = -1;
    places[5 * ROWS * K + 7] = (1LL << 32) + 1;
    assert_ok(kernel->impl->run(kernel, &run));
    assert_int_equal(INT32_MAX - sim_device_mistakes().place, 5);
    assert_true(isnan(taken[5 * ROWS * K + 7]) && !isnan(taken[5 * ROWS * K + 6]));
    yki_kernel_destroy(kernel);
    device->type->destroy(device);
    free(numbers);
    free(taken);
}

/* Its row is NaN, and the first of the samples is reported. */
YK_TEST(indices_that_are_no_row_are_reported)
{
    enum { N = 9, LENGTH = 4, V = 10, C = 70 };
    yki_device *device = open_device();
    yki_operand indices = {.dtype = YK_I32, .ndim = 2, .dims = {N, LENGTH}};
    yki_operand weight = {.dtype = YK_F32, .ndim = 2, .dims = {V, C}};
    yki_operand y = {.dtype = YK_F32, .ndim = 3, .dims = {N, LENGTH, C}};
    yki_kernel *kernel = make(device, &yki_op_embedding, &(yki_attrs){0},
                              (yki_operand[]){indices, weight}, 2, &y, 1);
    float *x = floats(V * C), *rows = floats(N * LENGTH * C);
    int32_t chosen[N * LENGTH] = {0};
    void *in[] = {chosen, x}, *out[] = {rows};
    yki_kernel_args run = {.in = in, .out = out};
    chosen[5] = V - 1;
    assert_ok(kernel->impl->run(kernel, &run));
    assert_int_equal(sim_device_mistakes().index, 0);
    chosen[8 * LENGTH + 1] = -1;
    chosen[5 * LENGTH + 3] = V;
    assert_ok(kernel->impl->run(kernel, &run));
    assert_int_equal(INT32_MAX - sim_device_mistakes().index, 5);
    assert_true(isnan(rows[(5 * LENGTH + 3) * C]) && !isnan(rows[(5 * LENGTH + 2) * C]));
    yki_kernel_destroy(kernel);
    device->type->destroy(device);
    free(x);
    free(rows);
}

/* A block lists the indices that are its rows, and there are more of them than the list holds. All
 * sums are whole numbers, which are exact. */
YK_TEST(an_embedding_whose_indices_are_nearly_all_the_same)
{
    enum { N = 7000, V = 600, C = 3, OFTEN = 5 };
    yki_device *device = open_device();
    yki_operand indices = {.dtype = YK_I32, .ndim = 1, .dims = {N}};
    yki_operand dy = {.dtype = YK_F32, .ndim = 2, .dims = {N, C}};
    yki_operand dweight = {.dtype = YK_F32, .ndim = 2, .dims = {V, C}};
    yki_kernel *kernel = make(device, &yki_op_embedding_backward, &(yki_attrs){0},
                              (yki_operand[]){indices, dy}, 2, &dweight, 1);
    float *incoming = floats(N * C), *sums = floats(V * C), *expected = floats(V * C);
    int32_t chosen[N];
    memset(expected, 0, V * C * sizeof *expected);
    for (int i = 0; i < N; i++) {
        chosen[i] = i % 10 == 0 ? i % V : OFTEN;
        for (int c = 0; c < C; c++) {
            incoming[i * C + c] = (float)(i % 17 + c);
            expected[chosen[i] * C + c] += incoming[i * C + c];
        }
    }
    void *in[] = {chosen, incoming}, *out[] = {sums};
    yki_kernel_args run = {.in = in, .out = out};
    assert_int_equal(kernel->scratch, 0); /* indices are not divided among blocks */
    assert_ok(kernel->impl->run(kernel, &run));
    assert_memory_equal(sums, expected, V * C * sizeof *sums);
    yki_kernel_destroy(kernel);
    device->type->destroy(device);
    free(incoming);
    free(sums);
    free(expected);
}

/* ---- amax ------------------------------------------------------------------------------------ */

/* Of (outer, size, inner): the NaN is in the second of the results. */
static void check_nan(const yki_op *op, int64_t outer, int64_t size, int64_t inner)
{
    const int64_t count = outer * size * inner, nan = 1 % inner + (size - 1) * inner;
    const yki_operand like_x = {.dtype = YK_F32, .ndim = 3, .dims = {outer, size, inner}};
    const yki_operand like_y = {.dtype = YK_F32, .ndim = 3, .dims = {outer, 1, inner}};
    const yki_attrs attrs = {.dim = 1};
    yki_device *device = open_device();
    yki_kernel *forward = make(device, op, &attrs, &like_x, 1, &like_y, 1);
    yki_kernel *backward = make(device, &yki_op_amax_backward, &attrs,
                                (yki_operand[]){like_y, like_x, like_y}, 3, &like_x, 1);
    float *x = floats(count), *y = floats(outer * inner), *dy = floats(outer * inner);
    float *dx = floats(count);
    x[nan] = NAN;
    const yki_kernel_args run = {.in = (void *[]){x}, .out = (void *[]){y}};
    const yki_kernel_args back = {.in = (void *[]){dy, x, y}, .out = (void *[]){dx}};
    assert_ok(forward->impl->run(forward, &run));
    assert_ok(backward->impl->run(backward, &back));
    for (int64_t i = 0; i < outer * inner; i++)
        assert_int_equal(isnan(y[i]) != 0, i == nan % inner);
    for (int64_t i = 0; i < count; i++)
        assert_int_equal(isnan(dx[i]) != 0, i < size * inner && i % inner == nan % inner);
    yki_kernel_destroy(forward);
    yki_kernel_destroy(backward);
    device->type->destroy(device);
    free(x);
    free(y);
    free(dy);
    free(dx);
}

/* Where a warp has a result, and where threads have columns. */
YK_TEST(a_nan_is_the_largest_and_the_smallest)
{
    static const int64_t shapes[][3] = {{3, 70, 1}, {2, 40, 5}, {64, 3, 67}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        check_nan(&yki_op_amax, shapes[i][0], shapes[i][1], shapes[i][2]);
        check_nan(&yki_op_amin, shapes[i][0], shapes[i][1], shapes[i][2]);
    }
}

/* ---- batch_norm ------------------------------------------------------------------------------ */

enum { NORM_C = 11, NORM_HW = 6, NORM_N = 10 };

/* One training step's forward over the first n images from `first` on. */
typedef struct norm {
    float y[NORM_N * NORM_HW * NORM_C], mean[NORM_C], invstd[NORM_C];
    float running_mean[NORM_C], running_var[NORM_C];
    int64_t batches;
} norm;

static void run_norm(yki_device *device, float *x, int n, const yki_sync *sync, norm *result)
{
    yki_operand image = {.dtype = YK_F32,
                         .ndim = 4,
                         .dims = {n, NORM_C, 2, NORM_HW / 2},
                         .layout = YKI_CHANNELS_LAST};
    yki_operand vector = {.dtype = YK_F32, .ndim = 1, .dims = {NORM_C}};
    yki_operand count = {.dtype = YK_I64}, absent = {.ndim = -1};
    yki_attrs attrs = {.eps = 1e-5, .momentum = 0.1};
    yki_kernel *kernel = make(device, &yki_op_batch_norm, &attrs,
                              (yki_operand[]){image, vector, vector, vector, vector, count, absent},
                              7, (yki_operand[]){image, vector, vector}, 3);
    float weight[NORM_C], bias[NORM_C];
    for (int c = 0; c < NORM_C; c++) {
        weight[c] = 1;
        bias[c] = result->running_mean[c] = 0;
        result->running_var[c] = 1;
    }
    void *in[] = {x,   weight, bias, result->running_mean, result->running_var, &result->batches,
                  NULL};
    void *out[] = {result->y, result->mean, result->invstd};
    yki_kernel_args run = {.in = in, .out = out, .scratch = malloc(kernel->scratch), .sync = sync};
    assert_ok(kernel->impl->run(kernel, &run));
    free(run.scratch);
    yki_kernel_destroy(kernel);
}

/* The same bits whatever the order of threads and blocks. */
YK_TEST(batch_norm_repeats_its_bits)
{
    yki_device *device = open_device();
    float *x = floats(NORM_N * NORM_HW * NORM_C);
    norm first = {.batches = 0};
    run_norm(device, x, NORM_N, NULL, &first);
    for (uint64_t seed = 100; seed < 110; seed++) {
        norm again = {.batches = 0};
        sim_device_seed(seed);
        run_norm(device, x, NORM_N, NULL, &again);
        assert_memory_equal(&again, &first, sizeof first);
    }
    free(x);
    device->type->destroy(device);
}

/* Gives the vectors of two ranks, the second of which has been measured before. */
static double vectors[2][2 * NORM_C + 1];

static yk_status gather(const yki_sync *sync, int64_t channels, yki_stream *stream)
{
    (void)sync, (void)stream;
    assert_int_equal(channels, NORM_C);
    return YK_OK;
}

/* Two ranks, then two ranks one of which has no samples, normalise as one with all samples. */
YK_TEST(batch_norm_of_all_ranks)
{
    yki_device *device = open_device();
    float *x = floats(NORM_N * NORM_HW * NORM_C);
    norm whole = {.batches = 0};
    run_norm(device, x, NORM_N, NULL, &whole);
    for (int mine = 4; mine <= NORM_N; mine += 6) {
        norm parts[2] = {{.batches = 0}, {.batches = 0}};
        float *rest = x + mine * NORM_HW * NORM_C;
        for (int rank = 1; rank >= -1; rank--) { /* the last time with both vectors there */
            yki_sync sync = {.world = 2, .all = vectors[0], .gather = gather};
            int at = rank < 0 ? 1 : rank;
            sync.mine = vectors[at];
            parts[at].batches = 0;
            run_norm(device, at ? rest : x, at ? NORM_N - mine : mine, &sync, &parts[at]);
        }
        for (int c = 0; c < NORM_C; c++) {
            assert_true(fabsf(parts[0].mean[c] - whole.mean[c]) < 1e-6f);
            assert_memory_equal(&parts[0].mean[c], &parts[1].mean[c], sizeof(float));
            assert_memory_equal(&parts[0].running_var[c], &parts[1].running_var[c], sizeof(float));
        }
        for (int i = 0; i < mine * NORM_HW * NORM_C; i++)
            assert_true(fabsf(parts[0].y[i] - whole.y[i]) < 1e-5f);
        assert_int_equal(parts[0].batches, 1);
    }
    free(x);
    device->type->destroy(device);
}

/* In float16, what a convolution makes may be infinite. relu closes there, and a norm whose
 * statistics are constants passes nothing on. */
YK_TEST(an_infinity_behind_a_closed_relu_leaves_no_gradient)
{
    yki_device *device = open_device();
    const yki_operand image = {
        .dtype = YK_F32, .ndim = 4, .dims = {1, 1, 1, 2}, .layout = YKI_CHANNELS_LAST};
    const yki_operand vector = {.dtype = YK_F32, .ndim = 1, .dims = {1}}, absent = {.ndim = -1};
    yki_kernel_desc desc = {
        .op = &yki_op_batch_norm_backward,
        .attrs = &(yki_attrs){.eps = 1e-5, .activation = YKI_FUSED_RELU},
        .in_count = 8,
        .in = {image, image, vector, vector, vector, vector, absent, absent},
        .out_count = 4,
        .out = {image, vector, vector, absent},
    };
    yki_kernel *kernel;
    assert_ok(yki_kernel_create(device, &desc, &kernel));
    float x[] = {-INFINITY, 3}, dy[] = {1, 1}, one = 1, zero = 0, dx[2], dweight, dbias;
    void *in[] = {x, dy, &one, &zero, &zero, &one, NULL, NULL};
    void *out[] = {dx, &dweight, &dbias, NULL};
    yki_kernel_args run = {.in = in, .out = out, .scratch = malloc(kernel->scratch)};
    assert_ok(kernel->impl->run(kernel, &run));
    assert_true(dx[0] == 0 && dx[1] == 1);
    free(run.scratch);
    yki_kernel_destroy(kernel);
    device->type->destroy(device);
}

/* Without samples and without peers, running statistics stay as they are. */
YK_TEST(batch_norm_without_samples)
{
    yki_device *device = open_device();
    norm result = {.batches = 0};
    memset(result.mean, 0xff, sizeof result.mean);
    run_norm(device, NULL, 0, NULL, &result);
    for (int c = 0; c < NORM_C; c++)
        assert_true(result.mean[c] == 0 && result.invstd[c] == 0 && result.running_mean[c] == 0 &&
                    result.running_var[c] == 1);
    assert_int_equal(result.batches, 0);
    device->type->destroy(device);
}

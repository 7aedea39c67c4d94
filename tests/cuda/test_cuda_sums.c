/* Convolutions that give sums of their results, and batch_norm that takes its statistics of them:
 * which do, how accurate that is, and that ranks can exchange them. */
#define _GNU_SOURCE
#include <math.h>
#include <stdlib.h>

#include "base/random.h"
#include "harness.h"
#include "sim_device.h"
#include "tensor/element.h"

enum { ROWS = 6400, TILE = 128, C = 16 };

static yki_device *open_device(void)
{
    static const yki_device_options options = {.threads = 1};
    yki_device *device;
    assert_ok(sim_device_type.create(&device, &options));
    return device;
}

/* ---- who gives sums -------------------------------------------------------------------------- */

static bool gives_sums(yk_dtype dtype, int64_t filters, bool wanted)
{
    yki_device *device = open_device();
    yk_dtype parameter = yki_accumulate_dtype(dtype);
    yki_attrs attrs = {.stride = {1, 1}, .padding = {1, 1}, .dilation = {1, 1}, .groups = 1};
    yki_kernel_desc desc = {.op = &yki_op_conv2d,
                            .attrs = &attrs,
                            .training = true,
                            .in_count = YKI_CONV2D_INPUTS,
                            .out_count = YKI_CONV2D_OUTPUTS};
    desc.in[YKI_CONV2D_X] = (yki_operand){dtype, 4, {2, 8, 4, 4}, YKI_CHANNELS_LAST};
    desc.in[YKI_CONV2D_WEIGHT] = (yki_operand){parameter, 4, {filters, 8, 3, 3}, YKI_PLAIN};
    desc.in[YKI_CONV2D_BIAS].ndim = -1;
    desc.out[YKI_CONV2D_Y] = (yki_operand){dtype, 4, {2, filters, 4, 4}, YKI_CHANNELS_LAST};
    desc.out[YKI_CONV2D_SUMS] =
        (yki_operand){yki_sums_dtype(dtype), wanted ? 2 : -1, {2, filters}, YKI_PLAIN};
    yki_kernel *kernel;
    assert_ok(yki_kernel_create(device, &desc, &kernel));
    bool gives = kernel->sums;
    yki_kernel_destroy(kernel);
    device->type->destroy(device);
    return gives;
}

YK_TEST(convolutions_in_16_bits_give_sums)
{
    assert_true(gives_sums(YK_BF16, 16, true));
    assert_true(gives_sums(YK_F16, 16, true));
    assert_false(gives_sums(YK_BF16, 16, false));
    assert_false(gives_sums(YK_BF16, 12, true)); /* its plan has more channels */
    assert_false(gives_sums(YK_F32, 16, true));
    assert_false(gives_sums(YK_F64, 16, true));
    setenv("YOKE_CUDA_FUSE", "0", 1);
    assert_false(gives_sums(YK_BF16, 16, true));
}

/* ---- batch_norm ------------------------------------------------------------------------------ */

typedef struct norm {
    uint16_t x[ROWS * C], y[ROWS * C];
    float sums[2 * C], mean[C], invstd[C], running_mean[C], running_var[C];
} norm;

/* Values of deviation 1 around `mean`, and their sums in f32, of tiles of rows as engines have
 * them. */
static void draw(norm *n, yk_dtype dtype, double mean)
{
    memset(n, 0, sizeof *n);
    for (int64_t i = 0; i < ROWS * C; i++) {
        double uniform = (double)(yki_hash3(1, 2, (uint64_t)i) >> 11) * 0x1p-52 - 1;
        yki_element_set(dtype, n->x, i, mean + sqrt(3) * uniform);
    }
    for (int64_t tile = 0; tile < ROWS; tile += TILE)
        for (int c = 0; c < C; c++) {
            float sum = 0, squares = 0;
            for (int64_t row = tile; row < tile + TILE; row++) {
                float value = (float)yki_element_get(dtype, n->x, row * C + c);
                sum += value;
                squares += value * value;
            }
            n->sums[c] += sum;
            n->sums[C + c] += squares;
        }
}

static void run_norm(norm *n, yk_dtype dtype, bool with_sums, const yki_sync *sync)
{
    yki_device *device = open_device();
    yki_operand x = {dtype, 4, {ROWS / 64, C, 8, 8}, YKI_CHANNELS_LAST};
    yki_operand vector = {YK_F32, 1, {C}, YKI_PLAIN}, absent = {.ndim = -1};
    yki_operand sums = {YK_F32, 2, {2, C}, YKI_PLAIN};
    yki_attrs attrs = {.eps = 1e-5, .momentum = 0.1};
    yki_kernel_desc desc = {
        .op = &yki_op_batch_norm,
        .attrs = &attrs,
        .training = true,
        .in_count = YKI_BATCH_NORM_INPUTS,
        .out_count = YKI_BATCH_NORM_OUTPUTS,
        .in = {x, vector, vector, vector, vector, absent, absent, with_sums ? sums : absent},
        .out = {x, vector, vector}};
    yki_kernel *kernel;
    assert_ok(yki_kernel_create(device, &desc, &kernel));
    float ones[C], zeros[C] = {0};
    for (int c = 0; c < C; c++)
        ones[c] = 1;
    void *in[] = {n->x, ones, zeros, n->running_mean, n->running_var, NULL, NULL, n->sums};
    void *out[] = {n->y, n->mean, n->invstd};
    yki_kernel_args run = {.in = in, .out = out, .scratch = malloc(kernel->scratch), .sync = sync};
    assert_ok(kernel->impl->run(kernel, &run));
    free(run.scratch);
    yki_kernel_destroy(kernel);
    device->type->destroy(device);
}

static double error_of(const norm *a, const norm *b, yk_dtype dtype)
{
    double error = 0, squares = 0;
    for (int64_t i = 0; i < ROWS * C; i++) {
        double value = yki_element_get(dtype, b->y, i);
        double distance = yki_element_get(dtype, a->y, i) - value;
        error += distance * distance;
        squares += value * value;
    }
    return sqrt(error / squares);
}

/* Within the tolerance of the dtype, up to means at which values themselves keep few digits. */
YK_TEST(sums_are_as_good_as_a_pass_over_x)
{
    static const yk_dtype dtypes[] = {YK_BF16, YK_F16};
    static const double means[] = {0, 1, 10, 100}, tolerances[] = {1e-2, 2e-3};
    norm *by_sums = malloc(sizeof *by_sums), *by_pass = malloc(sizeof *by_pass);
    for (int d = 0; d < 2; d++)
        for (int m = 0; m < 4; m++) {
            draw(by_sums, dtypes[d], means[m]);
            *by_pass = *by_sums;
            run_norm(by_sums, dtypes[d], true, NULL);
            run_norm(by_pass, dtypes[d], false, NULL);
            double error = error_of(by_sums, by_pass, dtypes[d]);
            print_message("%s, mean %g: %.1e\n", yk_dtype_name(dtypes[d]), means[m], error);
            assert_true(error <= tolerances[d]);
            assert_float_equal(by_sums->running_var[0], by_pass->running_var[0], 0.01);
        }
    free(by_sums);
    free(by_pass);
}

/* The pass makes the statistics where sums are wrong: it does not look at them. */
YK_TEST(sums_are_used_where_they_are_given)
{
    norm *n = malloc(sizeof *n);
    draw(n, YK_BF16, 0);
    for (int c = 0; c < C; c++) {
        n->sums[c] = 3 * ROWS;
        n->sums[C + c] = 13 * ROWS;
    }
    run_norm(n, YK_BF16, true, NULL);
    for (int c = 0; c < C; c++) {
        assert_float_equal(n->mean[c], 3, 1e-6);
        assert_float_equal(n->invstd[c], 0.5, 1e-5);
    }
    free(n);
}

/* ---- of several ranks ------------------------------------------------------------------------ */

static double vectors[2][2 * C + 1];

static yk_status gather(const yki_sync *sync, int64_t channels, yki_stream *stream)
{
    (void)sync, (void)stream;
    assert_int_equal(channels, C);
    memcpy(vectors[1], vectors[0], sizeof vectors[1]);
    return YK_OK;
}

/* With another rank that has the same x, the mean and the deviation stay as they are. */
YK_TEST(ranks_exchange_what_sums_give)
{
    norm *one = malloc(sizeof *one), *two = malloc(sizeof *two);
    draw(one, YK_BF16, 1);
    *two = *one;
    yki_sync sync = {.world = 2, .mine = vectors[0], .all = vectors[0], .gather = gather};
    run_norm(one, YK_BF16, true, NULL);
    run_norm(two, YK_BF16, true, &sync);
    assert_true(vectors[0][0] == ROWS);
    for (int c = 0; c < C; c++) {
        assert_float_equal(two->mean[c], one->mean[c], 1e-6);
        assert_float_equal(two->invstd[c], one->invstd[c], 1e-6);
    }
    free(one);
    free(two);
}

/*
 * The ref kernels against numbers worked out by hand or by PyTorch, where central differences
 * cannot see a mistake: what is rounded, what is updated in place, what wins a tie, what fails.
 */
#include <math.h>
#include <string.h>

#include "device/device.h"
#include "graph/dropout.h"
#include "harness.h"
#include "tensor/bf16.h"

/* An operand given in a line: OPERAND(YK_F32, 2, 3). */
#define OPERAND(type, ...)                                                                         \
    ((yki_operand){.dtype = type,                                                                  \
                   .ndim = (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)),              \
                   .dims = {__VA_ARGS__}})

static const yki_operand scalar_i64 = {.dtype = YK_I64}, scalar_f64 = {.dtype = YK_F64};

/* Runs one kernel of ref. */
static yk_status run_op(const yki_op *op, const yki_attrs *attrs, bool training, int in_count,
                        const yki_operand *in, void *const *in_data, int out_count,
                        const yki_operand *out, void *const *out_data)
{
    yki_device *device;
    yki_kernel *kernel;
    assert_ok(yki_device_create(&device, "ref", &(yki_device_options){.threads = 1}));
    yki_kernel_desc desc = {.op = op,
                            .attrs = attrs,
                            .training = training,
                            .in_count = in_count,
                            .out_count = out_count};
    memcpy(desc.in, in, (size_t)in_count * sizeof *in);
    memcpy(desc.out, out, (size_t)out_count * sizeof *out);
    assert_ok(yki_kernel_create(device, &desc, &kernel));
    yki_kernel_args run = {
        .in = in_data, .out = out_data, .scalars = &(yki_scalars){.seed = 11, .step = 3}};
    yk_status status = kernel->impl->run(kernel, &run);
    yki_kernel_destroy(kernel);
    yki_device_destroy(device);
    return status;
}

static void assert_close(const double *got, const double *expected, int count)
{
    for (int i = 0; i < count; i++)
        if (!(fabs(got[i] - expected[i]) < 1e-12))
            fail_msg("element %d is %.15g, expected %.15g", i, got[i], expected[i]);
}

/* ---- batch_norm ------------------------------------------------------------------------------ */

/* One channel 1 2 3 6: mean 3, biased variance 3.5, unbiased 14/3. */
static yk_status norm_forward(bool training, double *running_mean, double *running_var,
                              int64_t *batches, double *y)
{
    double x[] = {1, 2, 3, 6}, weight = 2, bias = 0.5, mean, invstd;
    yki_operand in[] = {OPERAND(YK_F64, 2, 1, 1, 2), OPERAND(YK_F64, 1), OPERAND(YK_F64, 1),
                        OPERAND(YK_F64, 1),          OPERAND(YK_F64, 1), scalar_i64};
    yki_operand out[] = {in[0], OPERAND(YK_F64, 1), OPERAND(YK_F64, 1)};
    yk_status status =
        run_op(&yki_op_batch_norm, &(yki_attrs){.eps = 0.5, .momentum = 0.1}, training, 6, in,
               (void *[]){x, &weight, &bias, running_mean, running_var, batches}, 3, out,
               (void *[]){y, &mean, &invstd});
    assert_close(&mean, &(double){training ? 3 : *running_mean}, 1);
    assert_close(&invstd, &(double){1 / sqrt((training ? 3.5 : *running_var) + 0.5)}, 1);
    return status;
}

YK_TEST(running_statistics_move_as_in_pytorch)
{
    double running_mean = 10, running_var = 2, y[4];
    int64_t batches = 7;
    assert_ok(norm_forward(true, &running_mean, &running_var, &batches, y));
    assert_close(y, (double[]){-1.5, -0.5, 0.5, 3.5}, 4);
    assert_close(&running_mean, &(double){0.9 * 10 + 0.1 * 3}, 1);
    assert_close(&running_var, &(double){0.9 * 2 + 0.1 * 14 / 3}, 1);
    assert_int_equal(batches, 8);
}

YK_TEST(evaluation_uses_running_statistics_and_keeps_them)
{
    double running_mean = 2, running_var = 3.5, y[4];
    int64_t batches = 7;
    assert_ok(norm_forward(false, &running_mean, &running_var, &batches, y));
    assert_close(y, (double[]){-0.5, 0.5, 1.5, 4.5}, 4);
    assert_true(running_mean == 2 && running_var == 3.5);
    assert_int_equal(batches, 7);
}

YK_TEST(a_channel_of_one_value_cannot_be_trained_with)
{
    double x[2] = {1, 2}, weight[2] = {1, 1}, bias[2] = {0}, mean[2] = {0}, var[2] = {1, 1}, y[2];
    double m[2], s[2];
    yki_operand in[] = {OPERAND(YK_F64, 1, 2, 1, 1), OPERAND(YK_F64, 2), OPERAND(YK_F64, 2),
                        OPERAND(YK_F64, 2), OPERAND(YK_F64, 2)};
    yki_operand out[] = {in[0], in[1], in[1]};
    assert_status(YK_ERROR_INVALID_SHAPE,
                  run_op(&yki_op_batch_norm, &(yki_attrs){.eps = 1e-5}, true, 5, in,
                         (void *[]){x, weight, bias, mean, var}, 3, out, (void *[]){y, m, s}));
    assert_contains(yk_last_error(), "a channel of 1 value has");
    assert_true(mean[0] == 0 && var[0] == 1);
}

/* ---- convolution and pooling ----------------------------------------------------------------- */

YK_TEST(conv2d_is_cross_correlation)
{
    double x[] = {1, 2, 3, 4, 5, 6, 7, 8, 9}, weight[] = {1, 10, 100, 1000}, bias = 0.5, y[4];
    yki_operand in[] = {OPERAND(YK_F64, 1, 1, 3, 3), OPERAND(YK_F64, 1, 1, 2, 2),
                        OPERAND(YK_F64, 1)};
    yki_operand out[] = {OPERAND(YK_F64, 1, 1, 2, 2)};
    yki_attrs attrs = {.stride = {2, 2}, .padding = {1, 1}, .dilation = {1, 1}, .groups = 1};
    assert_ok(run_op(&yki_op_conv2d, &attrs, true, 3, in, (void *[]){x, weight, &bias}, 1, out,
                     (void *[]){y}));
    assert_close(y, (double[]){1000.5, 3200.5, 7040.5, 9865.5}, 4);
}

YK_TEST(the_first_maximum_wins)
{
    float x[] = {3, 5, 5, 1, /**/ 2, 2, 2, 2}, y[2];
    uint8_t index[2];
    yki_operand in[] = {OPERAND(YK_F32, 2, 1, 2, 2)};
    yki_operand out[] = {OPERAND(YK_F32, 2, 1, 1, 1), OPERAND(YK_U8, 2, 1, 1, 1)};
    assert_ok(run_op(&yki_op_max_pool2d, &(yki_attrs){.kernel = {2, 2}, .stride = {2, 2}}, true, 1,
                     in, (void *[]){x}, 2, out, (void *[]){y, index}));
    assert_true(y[0] == 5 && y[1] == 2);
    assert_int_equal(index[0], 1);
    assert_int_equal(index[1], 0);
}

/* As in PyTorch: what comes out of a broken layer is not hidden by the next. */
YK_TEST(a_nan_is_the_maximum)
{
    float x[] = {3, NAN, 5, 1, /**/ NAN, 2, 2, NAN, /**/ 1, 2, 3, INFINITY}, y[3];
    uint8_t index[3];
    yki_operand in[] = {OPERAND(YK_F32, 3, 1, 2, 2)};
    yki_operand out[] = {OPERAND(YK_F32, 3, 1, 1, 1), OPERAND(YK_U8, 3, 1, 1, 1)};
    assert_ok(run_op(&yki_op_max_pool2d, &(yki_attrs){.kernel = {2, 2}, .stride = {2, 2}}, true, 1,
                     in, (void *[]){x}, 2, out, (void *[]){y, index}));
    assert_true(isnan(y[0]) && isnan(y[1]) && isinf(y[2]));
    assert_int_equal(index[0], 1);
    assert_int_equal(index[1], 3); /* the last of several, PyTorch's choice too */
    assert_int_equal(index[2], 3);
}

YK_TEST(the_maximum_ignores_padding)
{
    double x = -3, y[4];
    uint8_t index[4];
    yki_operand in[] = {OPERAND(YK_F64, 1, 1, 1, 1)};
    yki_operand out[] = {OPERAND(YK_F64, 1, 1, 2, 2), OPERAND(YK_U8, 1, 1, 2, 2)};
    yki_attrs attrs = {.kernel = {2, 2}, .stride = {1, 1}, .padding = {1, 1}};
    assert_ok(run_op(&yki_op_max_pool2d, &attrs, true, 1, in, (void *[]){&x}, 2, out,
                     (void *[]){y, index}));
    assert_close(y, (double[]){-3, -3, -3, -3}, 4);
    for (int i = 0; i < 4; i++)
        assert_int_equal(index[i], 3 - i);
}

/* ---- cross_entropy --------------------------------------------------------------------------- */

static yk_status loss_of(const double *logits, const int32_t *labels, const yki_attrs *attrs,
                         double *loss)
{
    double log_sums[2];
    yki_attrs all_counted = *attrs;
    all_counted.ignore_index = -100;
    yki_operand in[] = {OPERAND(YK_F64, 2, 3), OPERAND(YK_I32, 2)};
    yki_operand out[] = {scalar_f64, OPERAND(YK_F64, 2, 1)};
    return run_op(&yki_op_cross_entropy, &all_counted, true, 2, in,
                  (void *[]){(void *)(uintptr_t)logits, (void *)(uintptr_t)labels}, 2, out,
                  (void *[]){loss, log_sums});
}

YK_TEST(cross_entropy_as_in_pytorch)
{
    /* Worked out: row 0 has probabilities 1/4 1/4 1/2; row 1 is uniform, far from zero. */
    const double logits[] = {0, 0, log(2), 1000, 1000, 1000};
    const int32_t labels[] = {2, 0};
    double loss;
    assert_ok(loss_of(logits, labels, &(yki_attrs){0}, &loss));
    assert_close(&loss, &(double){(log(2) + log(3)) / 2}, 1);
    assert_ok(loss_of(logits, labels, &(yki_attrs){.reduction = YK_LOSS_SUM}, &loss));
    assert_close(&loss, &(double){log(2) + log(3)}, 1);
    double smooth = 0.7 * log(2) + 0.1 * (log(4) + log(4) + log(2)) + log(3);
    assert_ok(loss_of(logits, labels,
                      &(yki_attrs){.reduction = YK_LOSS_SUM, .label_smoothing = 0.3}, &loss));
    assert_close(&loss, &smooth, 1);
}

/* A class ruled out by an infinite logit, as masks do it, adds nothing unless it is the target. */
YK_TEST(a_class_may_be_ruled_out)
{
    const double logits[] = {0, -INFINITY, 0, 0, 0, -INFINITY};
    double loss;
    assert_ok(loss_of(logits, (int32_t[]){2, 0}, &(yki_attrs){0}, &loss));
    assert_close(&loss, &(double){log(2)}, 1);
    assert_ok(loss_of(logits, (int32_t[]){1, 0}, &(yki_attrs){0}, &loss));
    assert_true(loss == INFINITY);
}

YK_TEST(a_label_out_of_range_is_named)
{
    const double logits[6] = {0};
    double loss;
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  loss_of(logits, (int32_t[]){2, 12}, &(yki_attrs){0}, &loss));
    assert_contains(yk_last_error(), "label 12 of sample 1 is outside 0..2");
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  loss_of(logits, (int32_t[]){-1, 0}, &(yki_attrs){0}, &loss));
    assert_contains(yk_last_error(), "label -1 of sample 0 is outside 0..2");
}

/* ---- dropout --------------------------------------------------------------------------------- */

enum { DRAWS = 20000 };

YK_TEST(dropout_keeps_its_share_and_backward_draws_the_same)
{
    static float x[DRAWS], y[DRAWS], dx[DRAWS];
    for (int i = 0; i < DRAWS; i++)
        x[i] = 1;
    yki_operand operand = OPERAND(YK_F32, DRAWS, 1);
    yki_attrs attrs = {.p = 0.3, .salt = 4};
    assert_ok(run_op(&yki_op_dropout, &attrs, true, 1, &operand, (void *[]){x}, 1, &operand,
                     (void *[]){y}));
    assert_ok(run_op(&yki_op_dropout_backward, &attrs, true, 1, &operand, (void *[]){x}, 1,
                     &operand, (void *[]){dx}));
    int kept = 0;
    yki_dropout_draw draw = yki_dropout_draw_of(11, 3, 4, 0.3);
    for (int i = 0; i < DRAWS; i++) {
        assert_true(y[i] == 0 || y[i] == (float)(1 / (1 - 0.3)));
        assert_true((y[i] != 0) == yki_dropout_keeps(&draw, (uint64_t)i));
        kept += y[i] != 0;
    }
    assert_memory_equal(y, dx, sizeof y);
    assert_in_range(kept, 0.7 * DRAWS - 260, 0.7 * DRAWS + 260); /* 4 standard deviations */
}

YK_TEST(dropout_masks_of_steps_and_nodes_are_unlike)
{
    int same_step = 0, same_salt = 0, same_neighbour = 0;
    yki_dropout_draw draw = yki_dropout_draw_of(1, 1, 1, 0.5),
                     next_step = yki_dropout_draw_of(1, 2, 1, 0.5),
                     next_node = yki_dropout_draw_of(1, 1, 2, 0.5);
    for (uint64_t i = 0; i < DRAWS; i++) {
        bool kept = yki_dropout_keeps(&draw, i);
        same_step += kept == yki_dropout_keeps(&next_step, i);
        same_salt += kept == yki_dropout_keeps(&next_node, i);
        same_neighbour += kept == yki_dropout_keeps(&draw, i + 1);
    }
    assert_in_range(same_step, DRAWS / 2 - 283, DRAWS / 2 + 283);
    assert_in_range(same_salt, DRAWS / 2 - 283, DRAWS / 2 + 283);
    assert_in_range(same_neighbour, DRAWS / 2 - 283, DRAWS / 2 + 283);
}

YK_TEST(dropout_in_evaluation_is_the_identity)
{
    float x[4] = {1, -2, 3, 4}, y[4];
    yki_operand operand = OPERAND(YK_F32, 4, 1);
    assert_ok(run_op(&yki_op_dropout, &(yki_attrs){.p = 0.9}, false, 1, &operand, (void *[]){x}, 1,
                     &operand, (void *[]){y}));
    assert_memory_equal(x, y, sizeof x);
}

/* With scores of 0 and unit vectors as values, the result is the shares that queries have of keys.
 */
static void shares_of_attention(bool training, double *y)
{
    enum { N = 2, T = 3, S = 5, HEADS = 2 };
    double q[N * T * HEADS] = {0}, k[N * S * HEADS] = {0}, v[N * S * HEADS * S] = {0};
    for (int row = 0; row < N * S; row++)
        for (int head = 0; head < HEADS; head++)
            v[(row * HEADS + head) * S + row % S] = 1;
    yki_operand in[] = {OPERAND(YK_F64, N, T, HEADS),
                        OPERAND(YK_F64, N, S, HEADS),
                        OPERAND(YK_F64, N, S, HEADS * S),
                        {.ndim = -1}};
    yki_operand out = OPERAND(YK_F64, N, T, HEADS * S);
    yki_attrs attrs = {.heads = HEADS, .kv_heads = HEADS, .alpha = 1, .p = 0.3, .salt = 4};
    assert_ok(run_op(&yki_op_scaled_dot_product_attention, &attrs, training, 4, in,
                     (void *[]){q, k, v, NULL}, 1, &out, (void *[]){y}));
    yki_dropout_draw draw = yki_dropout_draw_of(11, 3, 4, 0.3);
    for (int i = 0; i < N * T * HEADS * S; i++) {
        int key = i % S, head = i / S % HEADS, query = i / S / HEADS % T,
            sample = i / S / HEADS / T;
        int place = ((sample * HEADS + head) * T + query) * S + key;
        double factor = 1;
        if (training)
            factor = yki_dropout_keeps(&draw, (uint64_t)place) ? 1 / (1 - 0.3) : 0;
        assert_close(&y[i], &(double){factor / S}, 1);
    }
}

YK_TEST(attention_drops_shares_in_training)
{
    double y[60], other[60];
    shares_of_attention(true, y);
    shares_of_attention(false, other);
    assert_memory_not_equal(y, other, sizeof y);
}

/* ---- element by element, dtypes -------------------------------------------------------------- */

YK_TEST(gelu_is_the_exact_form)
{
    double x[] = {-1, 0, 0.5, 3}, y[4]; /* torch.nn.functional.gelu */
    yki_operand operand = OPERAND(YK_F64, 4, 1);
    assert_ok(run_op(&yki_op_gelu, &(yki_attrs){0}, true, 1, &operand, (void *[]){x}, 1, &operand,
                     (void *[]){y}));
    assert_close(y, (double[]){-0.158655253931457, 0, 0.345731230637007, 2.995950305905110}, 4);
}

YK_TEST(bf16_rounds_to_nearest_even)
{
    assert_int_equal(yki_bf16_from_float(1), 0x3f80);
    assert_int_equal(yki_bf16_from_float(1 + 0x1p-8f), 0x3f80);            /* a tie: down to even */
    assert_int_equal(yki_bf16_from_float(1 + 0x3p-8f), 0x3f82);            /* a tie: up to even */
    assert_int_equal(yki_bf16_from_float(1 + 0x1p-8f + 0x1p-20f), 0x3f81); /* above the tie */
    assert_int_equal(yki_bf16_from_float(-0.0f), 0x8000);
    assert_int_equal(yki_bf16_from_float(3.4e38f), 0x7f80); /* to infinity */
    assert_true(isnan(yki_bf16_to_float(yki_bf16_from_float(NAN))));
    for (uint32_t half = 0; half < 0x7f80; half++)
        assert_int_equal(yki_bf16_from_float(yki_bf16_to_float((uint16_t)half)), half);
}

YK_TEST(ref_refuses_what_it_cannot_read)
{
    yki_device *device;
    yki_kernel *kernel;
    yki_operand blocked = OPERAND(YK_F32, 1, 16, 1, 1);
    blocked.layout = YKI_BLOCKED;
    assert_ok(yki_device_create(&device, "ref", &(yki_device_options){.threads = 1}));
    yki_kernel_desc desc = {.op = &yki_op_relu,
                            .attrs = &(yki_attrs){0},
                            .in_count = 1,
                            .out_count = 1,
                            .in = {blocked},
                            .out = {blocked}};
    assert_status(YK_ERROR_UNSUPPORTED, yki_kernel_create(device, &desc, &kernel));
    assert_contains(yk_last_error(), "relu");
    assert_string_equal(device->description, "ref: plain C, 1 thread");
    yki_device_destroy(device);
}

/* ---- amax, amin ------------------------------------------------------------------------------ */

static void extremes_of(const yki_op *op, const double *y, const double *dx)
{
    enum { ROWS = 3, COLUMNS = 4, COUNT = ROWS * COLUMNS };
    double x[COUNT] = {2, 5, 5, 1, 1, NAN, 3, 0, -1, -1, -1, -1}, dy[ROWS] = {6, 1, 8};
    double best[ROWS], slopes[COUNT];
    const yki_attrs attrs = {.dim = 1};
    const yki_operand like_x = OPERAND(YK_F64, ROWS, COLUMNS), like_y = OPERAND(YK_F64, ROWS, 1);
    assert_ok(run_op(op, &attrs, true, 1, &like_x, (void *[]){x}, 1, &like_y, (void *[]){best}));
    assert_ok(run_op(&yki_op_amax_backward, &attrs, true, 3,
                     (yki_operand[]){like_y, like_x, like_y}, (void *[]){dy, x, best}, 1, &like_x,
                     (void *[]){slopes}));
    for (int i = 0; i < ROWS; i++)
        assert_true(isnan(y[i]) ? isnan(best[i]) : best[i] == y[i]);
    for (int i = 0; i < COUNT; i++)
        assert_true(isnan(dx[i]) ? isnan(slopes[i]) : slopes[i] == dx[i]);
}

/* As torch.amax and torch.amin have it: equal elements share the gradient, and a NaN is the largest
 * and the smallest, whose gradients are NaN. */
YK_TEST(equal_maxima_share_the_gradient)
{
    extremes_of(&yki_op_amax, (double[]){5, NAN, -1},
                (double[]){0, 3, 3, 0, NAN, NAN, NAN, NAN, 2, 2, 2, 2});
    extremes_of(&yki_op_amin, (double[]){1, NAN, -1},
                (double[]){0, 0, 0, 6, NAN, NAN, NAN, NAN, 2, 2, 2, 2});
}

/*
 * Every operator forward and backward against PyTorch, on 200 shapes each, in f32: on cpu and on
 * ref within 1e-5 (Winograd's convolutions within 1e-3) of the largest number of PyTorch's tensor.
 * operators.py computes and judges.
 */
#define _GNU_SOURCE
#include "operator_case.h"

#include "harness.h"
#include "pytorch.h"

enum { CASES = 200, DIRECT = false, WINOGRAD = true };

/* Runs all cases on the device and writes them to the file. */
static void run_cases(const char *device_name, bool winograd, uint64_t seed, operator_build build,
                      const char *path)
{
    static operator_case cases[CASES];
    FILE *stream = fopen(path, "wb");
    assert_non_null(stream);
    yki_pth_writer *file;
    assert_ok(yki_pth_writer_create(&file, fileno(stream), path));
    yki_pickle_writer *pickle = yki_pth_pickle(file);
    yki_pickle_list(pickle);
    yki_pickle_mark(pickle);
    for (int i = 0; i < CASES; i++) {
        yki_device *device;
        assert_ok(yki_device_create(&device, device_name,
                                    &(yki_device_options){.threads = 1, .winograd = winograd}));
        if (device->type->enter)
            device->type->enter(device);
        operator_case_init(&cases[i], seed * CASES + (uint64_t)i, build);
        operator_case_run(&cases[i], device);
        operator_case_write(&cases[i], file);
        yki_device_destroy(device);
    }
    yki_pickle_appends(pickle);
    assert_ok(yki_pth_writer_finish(file));
    assert_int_equal(fclose(stream), 0);
    for (int i = 0; i < CASES; i++)
        operator_case_fini(&cases[i]);
}

/* operator: as operators.py knows it. seed: tells this table of cases from the others. */
static void compare_within(const char *operator, double tolerance, uint64_t seed,
                           operator_build build)
{
    char ref[128], cpu[128];
    snprintf(ref, sizeof ref, "%s/ref.pth", yk_test_directory());
    snprintf(cpu, sizeof cpu, "%s/cpu.pth", yk_test_directory());
    run_cases("ref", DIRECT, seed, build, ref);
    run_cases("cpu", DIRECT, seed, build, cpu);
    pytorch_judges("operators.py", "%s %g ref %s cpu %s", operator, tolerance, ref, cpu);
}

static void compare(const char *operator, uint64_t seed, operator_build build)
{
    compare_within(operator, 1e-5, seed, build);
}

static void compare_winograd(uint64_t seed, operator_build build)
{
    char path[128];
    snprintf(path, sizeof path, "%s/winograd.pth", yk_test_directory());
    run_cases("cpu", WINOGRAD, seed, build, path);
    pytorch_judges("operators.py", "conv2d 1e-3 cpu-winograd %s", path);
}

/* ---- operands ------------------------------------------------------------------------------- */

static yk_value *input(operator_case *c, const char *name, int ndim, const int64_t *dims)
{
    return yk_input(c->graph, name, YK_F32, ndim, dims);
}

static yk_value *parameter(operator_case *c, const char *name, int ndim, const int64_t *dims)
{
    return yk_parameter(c->graph, name, YK_F32, ndim, dims, YK_INIT_ZEROS, 0);
}

/* (N, C, H, W), channels around the multiples of a block of 16 and elsewhere. */
static yk_value *image(operator_case *c, int64_t least_side)
{
    operator_dice *dice = &c->dice;
    int64_t dims[] = {operator_between(dice, 1, 5), operator_between(dice, 1, 50),
                      operator_between(dice, least_side, 14),
                      operator_between(dice, least_side, 14)};
    return input(c, "x", 4, dims);
}

/* (N, C, H, W), or once in three times (N, C). */
static yk_value *image_or_features(operator_case *c)
{
    if (!operator_once_in(&c->dice, 3))
        return image(c, 1);
    return input(c, "x", 2,
                 (int64_t[]){operator_between(&c->dice, 2, 40), operator_between(&c->dice, 1, 70)});
}

/* ---- convolution, linear -------------------------------------------------------------------- */

static yk_value *build_conv2d(operator_case *c)
{
    operator_dice *dice = &c->dice;
    bool deep = operator_once_in(dice, 6); /* depthwise, or with a multiplier */
    int64_t groups = operator_once_in(dice, 3) ? operator_between(dice, 2, deep ? 40 : 5) : 1;
    int64_t channels = deep && groups > 1 ? 1 : operator_between(dice, 1, 48 / groups);
    int64_t filters = operator_between(dice, 1, deep && groups > 1 ? 2 : 48 / groups);
    int64_t rows = operator_between(dice, 1, 5), columns = rows;
    if (operator_once_in(dice, 4))
        columns = operator_between(dice, 1, 7);
    yk_conv2d_options options = YK_CONV2D_OPTIONS_INIT;
    options.stride = operator_between(dice, 1, 3);
    options.padding = operator_between(dice, 0, 3);
    options.dilation = operator_once_in(dice, 3) ? operator_between(dice, 2, 3) : 1;
    options.groups = groups;
    int64_t least[] = {options.dilation * (rows - 1) + 1 - 2 * options.padding,
                       options.dilation * (columns - 1) + 1 - 2 * options.padding};
    int64_t x[] = {operator_between(dice, 1, 4), groups * channels};
    int64_t dims[] = {x[0], x[1], (least[0] < 1 ? 1 : least[0]) + operator_between(dice, 0, 12),
                      (least[1] < 1 ? 1 : least[1]) + operator_between(dice, 0, 12)};
    int64_t weight[] = {groups * filters, channels, rows, columns};
    bool bias = operator_once_in(dice, 2);
    return yk_conv2d(input(c, "x", 4, dims), parameter(c, "weight", 4, weight),
                     bias ? parameter(c, "bias", 1, weight) : NULL, &options);
}

static yk_value *build_conv_transpose2d(operator_case *c)
{
    operator_dice *dice = &c->dice;
    int64_t groups = operator_once_in(dice, 4) ? operator_between(dice, 2, 8) : 1;
    int64_t x[] = {operator_between(dice, 1, 4), groups * operator_between(dice, 1, 48 / groups),
                   operator_between(dice, 1, 7), operator_between(dice, 1, 7)};
    int64_t filters = operator_between(dice, 1, 48 / groups), rows = operator_between(dice, 1, 5);
    int64_t weight[] = {x[1], filters, rows,
                        operator_once_in(dice, 4) ? operator_between(dice, 1, 5) : rows};
    yk_conv_transpose2d_options options = YK_CONV_TRANSPOSE2D_OPTIONS_INIT;
    options.stride = operator_between(dice, 1, 3);
    options.output_padding = operator_between(dice, 0, options.stride - 1);
    options.dilation = operator_once_in(dice, 3) ? operator_between(dice, 2, 3) : 1;
    options.groups = groups;
    int64_t least = rows < weight[3] ? rows : weight[3];
    options.padding = operator_between(dice, 0, options.dilation * (least - 1) / 2);
    int64_t all = groups * filters;
    bool bias = operator_once_in(dice, 2);
    return yk_conv_transpose2d(input(c, "x", 4, x), parameter(c, "weight", 4, weight),
                               bias ? parameter(c, "bias", 1, &all) : NULL, &options);
}

/* What oneDNN runs with Winograd's algorithm. */
static yk_value *build_winograd(operator_case *c)
{
    operator_dice *dice = &c->dice;
    int64_t dims[] = {operator_between(dice, 16, 20), operator_between(dice, 16, 48),
                      operator_between(dice, 3, 10), operator_between(dice, 3, 10)};
    int64_t weight[] = {operator_between(dice, 16, 48), dims[1], 3, 3};
    bool bias = operator_once_in(dice, 2);
    return yk_conv2d(input(c, "x", 4, dims), parameter(c, "weight", 4, weight),
                     bias ? parameter(c, "bias", 1, weight) : NULL,
                     YK_WITH(yk_conv2d_options, YK_CONV2D_OPTIONS_INIT,
                             o.padding = operator_between(dice, 0, 1)));
}

static yk_value *build_linear(operator_case *c)
{
    operator_dice *dice = &c->dice;
    int64_t dims[] = {operator_between(dice, 1, 64), operator_between(dice, 1, 300), 0};
    int ndim = operator_once_in(dice, 3) ? 3 : 2;
    dims[2] = operator_between(dice, 1, 50);
    int64_t weight[] = {operator_between(dice, 1, 100), dims[ndim - 1]};
    bool bias = operator_once_in(dice, 2);
    return yk_linear(input(c, "x", ndim, dims), parameter(c, "weight", 2, weight),
                     bias ? parameter(c, "bias", 1, weight) : NULL);
}

YK_TEST(conv2d_is_pytorchs)
{
    compare("conv2d", 1, build_conv2d);
}

YK_TEST(conv2d_with_winograd_is_pytorchs)
{
    compare_winograd(2, build_winograd);
}

YK_TEST(conv_transpose2d_is_pytorchs)
{
    compare("conv_transpose2d", 25, build_conv_transpose2d);
}

YK_TEST(linear_is_pytorchs)
{
    compare("linear", 3, build_linear);
}

/* ---- batch_norm ----------------------------------------------------------------------------- */

static yk_value *build_batch_norm(operator_case *c)
{
    yk_value *x = image_or_features(c);
    int64_t dims[YK_MAX_DIMS];
    yk_value_shape(x, dims);
    const int64_t *channels = &dims[1];
    c->training =
        !operator_once_in(&c->dice, 3) && (x->ndim == 2 || dims[0] * dims[2] * dims[3] > 1);
    return yk_batch_norm(
        x, parameter(c, "weight", 1, channels), parameter(c, "bias", 1, channels),
        yk_buffer(c->graph, "running_mean", YK_F32, 1, channels, YK_INIT_ZEROS),
        yk_buffer(c->graph, "running_var", YK_F32, 1, channels, YK_INIT_ONES),
        YK_WITH(yk_batch_norm_options, YK_BATCH_NORM_OPTIONS_INIT,
                o.eps = operator_once_in(&c->dice, 2) ? 1e-5 : 1e-3,
                o.momentum = 0.1 * (double)operator_between(&c->dice, 1, 9),
                o.num_batches_tracked =
                    yk_buffer(c->graph, "num_batches_tracked", YK_I64, 0, NULL, YK_INIT_ZEROS)));
}

YK_TEST(batch_norm_is_pytorchs)
{
    compare("batch_norm", 4, build_batch_norm);
}

/* ---- element by element --------------------------------------------------------------------- */

static yk_value *build_relu(operator_case *c)
{
    c->ties = operator_once_in(&c->dice, 3); /* zeros among them */
    return yk_relu(image_or_features(c));
}

static yk_value *build_gelu(operator_case *c)
{
    return yk_gelu(image_or_features(c));
}

static yk_value *build_relu6(operator_case *c)
{
    return yk_relu6(image_or_features(c));
}

static yk_value *build_sigmoid(operator_case *c)
{
    return yk_sigmoid(image_or_features(c));
}

static yk_value *build_silu(operator_case *c)
{
    return yk_silu(image_or_features(c));
}

static yk_value *build_hardswish(operator_case *c)
{
    return yk_hardswish(image_or_features(c));
}

static yk_value *build_tanh(operator_case *c)
{
    return yk_tanh(image_or_features(c));
}

static yk_value *build_leaky_relu(operator_case *c)
{
    c->ties = operator_once_in(&c->dice, 3);
    yk_value *x = image_or_features(c);
    return yk_leaky_relu(x, 0.1 * (double)operator_between(&c->dice, 0, 12));
}

/* What a value of these sizes can be added to: some sizes become 1, or are missing at the front. */
static yk_value *broadcast_side(operator_case *c, const yk_value *x)
{
    int64_t dims[YK_MAX_DIMS];
    int missing = operator_once_in(&c->dice, 3) ? (int)operator_between(&c->dice, 1, x->ndim) : 0;
    for (int d = missing; d < x->ndim; d++)
        dims[d - missing] = operator_once_in(&c->dice, 3) ? 1 : x->dims[d];
    return input(c, "other", x->ndim - missing, dims);
}

static yk_value *build_add(operator_case *c)
{
    yk_value *x = image_or_features(c), *other = broadcast_side(c, x);
    return operator_once_in(&c->dice, 2) ? yk_add(x, other) : yk_add(other, x);
}

static yk_value *build_multiply(operator_case *c)
{
    yk_value *x = image_or_features(c), *other = broadcast_side(c, x);
    return operator_once_in(&c->dice, 2) ? yk_multiply(x, other) : yk_multiply(other, x);
}

/* Special numbers, or else of which logarithms and quotients are fine. */
static yk_value *above(operator_case *c)
{
    operator_dice *dice = &c->dice;
    int64_t dims[] = {operator_between(dice, 1, 5), operator_between(dice, 1, 50),
                      operator_between(dice, 1, 14), operator_between(dice, 1, 14)};
    return input(c, "above", 4, dims);
}

static yk_value *build_exp(operator_case *c)
{
    return yk_exp(image_or_features(c));
}

static yk_value *build_log(operator_case *c)
{
    return yk_log(above(c));
}

static yk_value *build_abs(operator_case *c)
{
    c->ties = operator_once_in(&c->dice, 3);
    return yk_abs(image_or_features(c));
}

static const double exponents[] = {0, 1, 2, 3, -1, -2, 0.5, -0.5, 1.5, -1.5, 2.4, 1.0 / 3};
enum { EXPONENTS = sizeof exponents / sizeof *exponents };

static yk_value *build_pow(operator_case *c)
{
    yk_value *x = above(c);
    return yk_pow(x, exponents[operator_between(&c->dice, 0, EXPONENTS - 1)]);
}

/* Bounds that are met in a third of the cases. */
static yk_value *build_clamp(operator_case *c)
{
    c->ties = operator_once_in(&c->dice, 3);
    yk_value *x = image_or_features(c);
    double min = -0.5 * (double)operator_between(&c->dice, 0, 2);
    return yk_clamp(x, min, min + 0.5 * (double)operator_between(&c->dice, 0, 4));
}

static yk_value *build_add_scalar(operator_case *c)
{
    yk_value *x = image_or_features(c);
    return yk_add_scalar(x, 0.3 * (double)operator_between(&c->dice, -9, 9));
}

static yk_value *build_subtract(operator_case *c)
{
    yk_value *x = image_or_features(c), *other = broadcast_side(c, x);
    return operator_once_in(&c->dice, 2) ? yk_subtract(x, other) : yk_subtract(other, x);
}

static yk_value *build_divide(operator_case *c)
{
    yk_value *b = above(c), *other = broadcast_side(c, b);
    return yk_divide(other, b);
}

static yk_value *build_sum(operator_case *c)
{
    yk_value *x = image_or_features(c);
    int64_t dim = operator_between(&c->dice, 1, x->ndim - 1);
    return yki_emit_one(x, &yki_op_sum, &(yki_attrs){.dim = dim});
}

static yk_value *build_reduce_loss(operator_case *c)
{
    yk_value *x = above(c);
    return yk_reduce_loss(x, operator_once_in(&c->dice, 2) ? YK_LOSS_SUM : YK_LOSS_MEAN);
}

static yk_value *build_special_exp(operator_case *c)
{
    c->special = true;
    return build_exp(c);
}

static yk_value *build_special_log(operator_case *c)
{
    c->special = true;
    return build_log(c);
}

static yk_value *build_special_abs(operator_case *c)
{
    c->special = true;
    return yk_abs(image_or_features(c));
}

static yk_value *build_special_pow(operator_case *c)
{
    c->special = true;
    return build_pow(c);
}

static yk_value *build_special_clamp(operator_case *c)
{
    yk_value *y = build_clamp(c);
    c->special = true;
    return y;
}

/* Of one shape: PyTorch adds up gradients in another order, in which infinities meet. */
static yk_value *build_special_divide(operator_case *c)
{
    yk_value *b = above(c);
    c->special = true;
    return yk_divide(input(c, "other", b->ndim, b->dims), b);
}

/* Most often channels. */
static int64_t any_dim(operator_case *c, const yk_value *x)
{
    return operator_once_in(&c->dice, 2) ? 1 : operator_between(&c->dice, 0, x->ndim - 1);
}

static yk_value *build_concat(operator_case *c)
{
    static const char *const names[] = {"b", "c", "d", "e", "f", "g", "h"};
    yk_value *values[8] = {image_or_features(c)};
    int count = (int)operator_between(&c->dice, 2, 8);
    int64_t dims[YK_MAX_DIMS], dim = any_dim(c, values[0]);
    int ndim = yk_value_shape(values[0], dims);
    for (int i = 1; i < count; i++) {
        dims[dim] = operator_between(&c->dice, 1, dim == 1 ? 40 : 9);
        values[i] = input(c, names[i - 1], ndim, dims);
    }
    return yk_concat(values, count, dim);
}

/* 1 to 4 dimensions. */
static yk_value *rows_of(operator_case *c)
{
    operator_dice *dice = &c->dice;
    int64_t dims[] = {operator_between(dice, 4, 40), operator_between(dice, 4, 20),
                      operator_between(dice, 4, 9), operator_between(dice, 4, 30)};
    return input(c, "x", (int)operator_between(dice, 1, 4), dims);
}

static yk_value *build_softmax(operator_case *c)
{
    return yk_softmax(rows_of(c));
}

static yk_value *build_layer_norm(operator_case *c)
{
    yk_value *x = rows_of(c);
    int ndim = (int)operator_between(&c->dice, 1, x->ndim);
    const int64_t *dims = &x->dims[x->ndim - ndim];
    return yk_layer_norm(x, parameter(c, "weight", ndim, dims), parameter(c, "bias", ndim, dims),
                         1e-3);
}

static yk_value *build_rms_norm(operator_case *c)
{
    yk_value *x = rows_of(c);
    int ndim = (int)operator_between(&c->dice, 1, x->ndim);
    return yk_rms_norm(x, parameter(c, "weight", ndim, &x->dims[x->ndim - ndim]), 1e-3);
}

/* Groups of `least` channels or more. */
static int64_t draw_groups(operator_dice *dice, int64_t channels, int64_t least)
{
    int64_t groups = operator_once_in(dice, 5) ? channels : operator_between(dice, 1, channels);
    while (channels % groups || channels / groups < least)
        groups--;
    return groups;
}

/* Images, (N, C) or (N, C, L). Groups have several values: dx of one or two is all but 0, the
 * difference of numbers as large as dy. */
static yk_value *build_group_norm(operator_case *c)
{
    operator_dice *dice = &c->dice;
    const int64_t dims[] = {operator_between(dice, 1, 6), operator_between(dice, 5, 50),
                            operator_between(dice, 5, 90)};
    const int ndim = (int)operator_between(dice, 2, 4);
    yk_value *x = ndim == 4 ? image(c, 3) : input(c, "x", ndim, dims);
    const int64_t *channels = &x->dims[1], least = ndim == 2 ? 5 : 1;
    const int64_t groups = draw_groups(dice, *channels, least);
    if (operator_once_in(dice, 4)) /* PyTorch's gradient needs both or neither */
        return yk_group_norm(x, groups, NULL, NULL, 1e-3);
    return yk_group_norm(x, groups, parameter(c, "weight", 1, channels),
                         parameter(c, "bias", 1, channels), 1e-3);
}

/* (N, M, K) and (N, K, P), or the same of several heads; either side may be transposed. */
static yk_value *build_matmul(operator_case *c)
{
    operator_dice *dice = &c->dice;
    const int64_t samples = operator_between(dice, 1, 20), rows = operator_between(dice, 1, 30),
                  inner = operator_between(dice, 1, 30), columns = operator_between(dice, 1, 30);
    const yki_attrs attrs = {.heads = operator_once_in(dice, 2) ? 1 : operator_between(dice, 2, 6),
                             .transpose_a = operator_once_in(dice, 2),
                             .transpose_b = operator_once_in(dice, 2)};
    const int64_t a[] = {samples, attrs.heads * (attrs.transpose_a ? inner : rows),
                         attrs.transpose_a ? rows : inner};
    const int64_t b[] = {samples, attrs.heads * (attrs.transpose_b ? columns : inner),
                         attrs.transpose_b ? inner : columns};
    yk_value *sides[] = {input(c, "x", 3, a), input(c, "other", 3, b)};
    return yki_emit(&yki_op_matmul, &attrs, sides);
}

static int64_t draw_head_width(operator_dice *dice)
{
    return operator_once_in(dice, 5) ? 32 << operator_between(dice, 1, 3)
                                     : operator_between(dice, 1, 40);
}

/* Self-attention of one value, or of three. */
static yk_value *build_attention(operator_case *c)
{
    operator_dice *dice = &c->dice;
    bool packed = operator_once_in(dice, 2);
    int64_t kv_heads = operator_between(dice, 1, 4), width = draw_head_width(dice);
    int64_t heads = kv_heads * (operator_once_in(dice, 2) ? 1 : operator_between(dice, 2, 3));
    int64_t q[] = {operator_between(dice, 1, 3), operator_between(dice, 1, 70),
                   (heads + (packed ? 2 * kv_heads : 0)) * width};
    int64_t k[] = {q[0], operator_between(dice, 1, 70), kv_heads * width};
    int64_t v[] = {q[0], k[1], kv_heads * draw_head_width(dice)};
    yk_attention_options options = YK_ATTENTION_OPTIONS_INIT;
    options.num_heads = heads;
    if (kv_heads < heads)
        options.num_kv_heads = kv_heads;
    options.is_causal = operator_once_in(dice, 2);
    if (operator_once_in(dice, 3))
        options.scale = 0.02 * (double)operator_between(dice, 1, 5);
    if (operator_once_in(dice, 3))
        options.dropout_p = 0.1 * (double)operator_between(dice, 1, 9);
    c->training = !operator_once_in(dice, 4);
    if (operator_once_in(dice, 2)) {
        int64_t mask[] = {q[0], heads, q[1], packed ? q[1] : k[1]};
        for (int d = 0; d < 4; d++)
            mask[d] = operator_once_in(dice, 2) ? mask[d] : 1;
        options.attn_mask = input(c, "mask", 4, mask);
    }
    yk_value *x = input(c, "x", 3, q);
    if (packed)
        return yk_scaled_dot_product_attention(x, NULL, NULL, &options);
    yk_value *keys = input(c, "k", 3, k);
    return yk_scaled_dot_product_attention(x, keys, input(c, "v", 3, v), &options);
}

static yk_value *build_rotary(operator_case *c)
{
    operator_dice *dice = &c->dice;
    yk_rotary_embedding_options options = YK_ROTARY_EMBEDDING_OPTIONS_INIT;
    int64_t width = 2 * operator_between(dice, 1, 64);
    options.num_heads = operator_between(dice, 1, 4);
    options.interleaved = operator_once_in(dice, 2);
    if (operator_once_in(dice, 3))
        options.rotary_dim = 2 * operator_between(dice, 1, width / 2);
    if (operator_once_in(dice, 3))
        options.base = 500000;
    if (operator_once_in(dice, 3))
        options.first_position = operator_between(dice, 1, 20);
    const int64_t dims[] = {operator_between(dice, 1, 3), operator_between(dice, 1, 40),
                            options.num_heads * width};
    return yk_rotary_embedding(input(c, "x", 3, dims), &options);
}

/* Indices are below the columns of x. */
static yk_value *build_embedding(operator_case *c)
{
    operator_dice *dice = &c->dice;
    int64_t x[] = {operator_between(dice, 1, 9), operator_between(dice, 1, 40)};
    int64_t weight[] = {x[1] + operator_between(dice, 0, 9), operator_between(dice, 1, 70)};
    return yk_embedding(yk_input(c->graph, "x", YK_I32, 2, x), parameter(c, "weight", 2, weight));
}

static yk_value *build_scale(operator_case *c)
{
    yk_value *x = image_or_features(c);
    return yk_scale(x, 0.3 * (double)operator_between(&c->dice, -9, 9));
}

static yk_value *build_flatten(operator_case *c)
{
    return yk_flatten(image_or_features(c));
}

static yk_value *build_dropout(operator_case *c)
{
    c->training = !operator_once_in(&c->dice, 3);
    yk_value *x = image_or_features(c);
    return yk_dropout(x, 0.1 * (double)operator_between(&c->dice, 0, 9));
}

YK_TEST(relu_is_pytorchs)
{
    compare("relu", 5, build_relu);
}

YK_TEST(gelu_is_pytorchs)
{
    compare("gelu", 6, build_gelu);
}

YK_TEST(relu6_is_pytorchs)
{
    compare("relu6", 16, build_relu6);
}

YK_TEST(sigmoid_is_pytorchs)
{
    compare("sigmoid", 17, build_sigmoid);
}

YK_TEST(silu_is_pytorchs)
{
    compare("silu", 18, build_silu);
}

YK_TEST(hardswish_is_pytorchs)
{
    compare("hardswish", 19, build_hardswish);
}

YK_TEST(tanh_is_pytorchs)
{
    compare("tanh", 26, build_tanh);
}

YK_TEST(leaky_relu_is_pytorchs)
{
    compare("leaky_relu", 27, build_leaky_relu);
}

/* PyTorch adds up gradients of what was broadcast in f32, which is 1.3e-5 from f64 where they all
 * but cancel. */
YK_TEST(add_is_pytorchs)
{
    compare_within("add", 1e-4, 7, build_add);
}

YK_TEST(multiply_is_pytorchs)
{
    compare_within("multiply", 1e-4, 21, build_multiply);
}

YK_TEST(subtract_is_pytorchs)
{
    compare_within("subtract", 1e-4, 31, build_subtract);
}

YK_TEST(divide_is_pytorchs)
{
    compare_within("divide", 1e-4, 32, build_divide);
}

YK_TEST(exp_is_pytorchs)
{
    compare("exp", 33, build_exp);
}

YK_TEST(log_is_pytorchs)
{
    compare("log", 34, build_log);
}

YK_TEST(abs_is_pytorchs)
{
    compare("abs", 35, build_abs);
}

YK_TEST(pow_is_pytorchs)
{
    compare("pow", 36, build_pow);
}

YK_TEST(clamp_is_pytorchs)
{
    compare("clamp", 37, build_clamp);
}

YK_TEST(add_scalar_is_pytorchs)
{
    compare("add_scalar", 38, build_add_scalar);
}

YK_TEST(sum_is_pytorchs)
{
    compare("sum", 45, build_sum);
}

YK_TEST(reduce_loss_is_pytorchs)
{
    compare("reduce_loss", 46, build_reduce_loss);
}

YK_TEST(special_numbers_are_pytorchs)
{
    compare("exp", 39, build_special_exp);
    compare("log", 40, build_special_log);
    compare("abs", 41, build_special_abs);
    compare("pow", 42, build_special_pow);
    compare("clamp", 43, build_special_clamp);
    compare("divide", 44, build_special_divide);
}

YK_TEST(concat_is_pytorchs)
{
    compare("concat", 24, build_concat);
}

YK_TEST(softmax_is_pytorchs)
{
    compare("softmax", 22, build_softmax);
}

YK_TEST(layer_norm_is_pytorchs)
{
    compare("layer_norm", 23, build_layer_norm);
}

YK_TEST(rms_norm_is_pytorchs)
{
    compare("rms_norm", 49, build_rms_norm);
}

/* PyTorch's powers in f32 differ by one unit in the last place, which positions multiply. */
YK_TEST(rotary_embedding_is_llamas)
{
    compare_within("rotary_embedding", 3e-5, 50, build_rotary);
}

YK_TEST(group_norm_is_pytorchs)
{
    compare("group_norm", 47, build_group_norm);
}

YK_TEST(matmul_is_pytorchs)
{
    compare("matmul", 48, build_matmul);
}

/* Gradients of a query that sees little but one key are differences of numbers that are close. */
YK_TEST(scaled_dot_product_attention_is_pytorchs)
{
    compare_within("scaled_dot_product_attention", 1e-4, 28, build_attention);
}

YK_TEST(embedding_is_pytorchs)
{
    compare("embedding", 29, build_embedding);
}

YK_TEST(scale_is_pytorchs)
{
    compare("scale", 8, build_scale);
}

YK_TEST(flatten_is_pytorchs)
{
    compare("flatten", 9, build_flatten);
}

/* (N, C H W) to an image. */
static yk_value *build_reshape(operator_case *c)
{
    operator_dice *dice = &c->dice;
    int64_t dims[] = {YK_BATCH, operator_between(dice, 1, 50), operator_between(dice, 1, 9),
                      operator_between(dice, 1, 9)};
    int64_t x[] = {operator_between(dice, 1, 5), dims[1] * dims[2] * dims[3]};
    return yk_reshape(input(c, "x", 2, x), 4, dims);
}

static yk_value *build_permute(operator_case *c)
{
    operator_dice *dice = &c->dice;
    int64_t dims[YK_MAX_DIMS], order[] = {0, 1, 2, 3};
    int ndim = (int)operator_between(dice, 2, 4);
    for (int d = 0; d < ndim; d++) {
        int64_t other = operator_between(dice, d, ndim - 1), kept = order[d];
        dims[d] = operator_between(dice, 1, 20);
        order[d] = order[other];
        order[other] = kept;
    }
    return yk_permute(input(c, "x", ndim, dims), ndim, order);
}

/* A part of one of the value's dimensions. */
static int64_t draw_part(operator_case *c, const yk_value *x, int64_t *first, int64_t *count)
{
    int64_t dims[YK_MAX_DIMS], dim = any_dim(c, x);
    yk_value_shape(x, dims);
    *first = operator_between(&c->dice, 0, dims[dim] - 1);
    *count = operator_between(&c->dice, 1, dims[dim] - *first);
    return dim;
}

static yk_value *build_slice(operator_case *c)
{
    int64_t first, count;
    yk_value *x = image_or_features(c);
    int64_t dim = draw_part(c, x, &first, &count);
    return yk_slice(x, dim, first, count);
}

static yk_value *build_pad(operator_case *c)
{
    int64_t before, after;
    yk_value *x = image_or_features(c);
    int64_t dim = draw_part(c, x, &before, &after);
    return yk_pad(x, dim, before, after);
}

YK_TEST(slice_is_pytorchs)
{
    compare("slice", 32, build_slice);
}

YK_TEST(pad_is_pytorchs)
{
    compare("pad", 33, build_pad);
}

YK_TEST(permute_is_pytorchs)
{
    compare("permute", 31, build_permute);
}

YK_TEST(reshape_is_pytorchs)
{
    compare("reshape", 26, build_reshape);
}

YK_TEST(dropout_is_pytorchs)
{
    compare("dropout", 10, build_dropout);
}

/* ---- pooling -------------------------------------------------------------------------------- */

typedef yk_value *(*pool_fn)(yk_value *x, int64_t kernel, int64_t stride, int64_t padding);

/* Padding is at most half the kernel, as PyTorch demands. */
static yk_value *build_pool(operator_case *c, pool_fn pool)
{
    operator_dice *dice = &c->dice;
    c->ties = operator_once_in(dice, 3);
    int64_t kernel = operator_between(dice, 1, 5), stride = operator_between(dice, 1, kernel + 1);
    int64_t padding = operator_between(dice, 0, kernel / 2);
    return pool(image(c, kernel > 2 * padding ? kernel - 2 * padding : 1), kernel, stride, padding);
}

static yk_value *build_max_pool2d(operator_case *c)
{
    return build_pool(c, yk_max_pool2d);
}

static yk_value *build_avg_pool2d(operator_case *c)
{
    return build_pool(c, yk_avg_pool2d);
}

static yk_value *build_global_avg_pool2d(operator_case *c)
{
    return yk_global_avg_pool2d(image(c, 1));
}

YK_TEST(max_pool2d_is_pytorchs)
{
    compare("max_pool2d", 11, build_max_pool2d);
}

YK_TEST(avg_pool2d_is_pytorchs)
{
    compare("avg_pool2d", 12, build_avg_pool2d);
}

YK_TEST(global_avg_pool2d_is_pytorchs)
{
    compare("global_avg_pool2d", 13, build_global_avg_pool2d);
}

static yk_value *build_adaptive_avg_pool2d(operator_case *c)
{
    yk_value *x = image(c, 1);
    int64_t rows = operator_between(&c->dice, 1, 9), columns = operator_between(&c->dice, 1, 9);
    return yk_adaptive_avg_pool2d(x, rows == x->dims[2] ? rows + 1 : rows, columns);
}

YK_TEST(adaptive_avg_pool2d_is_pytorchs)
{
    compare("adaptive_avg_pool2d", 25, build_adaptive_avg_pool2d);
}

/* ---- losses --------------------------------------------------------------------------------- */

/* Labels are classes, or a share for each class; shares need not add up to 1. */
static yk_value *cross_entropy_of(operator_case *c, yk_value *logits, int class_dim,
                                  yk_value *labels)
{
    operator_dice *dice = &c->dice;
    yk_cross_entropy_options options = YK_CROSS_ENTROPY_OPTIONS_INIT;
    options.class_dim = class_dim == 1 ? 1 : -1;
    options.reduction = operator_once_in(dice, 2) ? YK_LOSS_SUM : YK_LOSS_MEAN;
    if (operator_once_in(dice, 2))
        options.label_smoothing = 0.1 * (double)operator_between(dice, 1, 10);
    if (operator_once_in(dice, 3))
        options.weight =
            yk_buffer(c->graph, "class_weight", YK_F32, 1, &logits->dims[class_dim], YK_INIT_ONES);
    /* A class, so that some labels are; PyTorch has none for probabilities. */
    if (labels->dtype == YK_I32 && operator_once_in(dice, 3))
        options.ignore_index = operator_between(dice, 0, logits->dims[1] - 1);
    return yk_cross_entropy(logits, labels, &options);
}

/* (N, C), (N, C, L) or (N, C, H, W); there are enough labels that some count. */
static yk_value *scores(operator_case *c)
{
    operator_dice *dice = &c->dice;
    int64_t dims[] = {operator_between(dice, 20, 90), operator_between(dice, 2, 60),
                      operator_between(dice, 1, 9), operator_between(dice, 1, 9)};
    int ndim = (int)operator_between(dice, 2, 4);
    dims[0] = ndim == 4 ? operator_between(dice, 15, 20) : dims[0];
    return input(c, "x", ndim, dims);
}

static yk_value *build_cross_entropy(operator_case *c)
{
    yk_value *x = scores(c);
    const int64_t dims[] = {x->dims[0], x->dims[2], x->dims[3]};
    return cross_entropy_of(c, x, 1, yk_input(c->graph, "labels", YK_I32, x->ndim - 1, dims));
}

/* (N, T, C), where T is at most C, because labels are below T here. */
static yk_value *build_token_cross_entropy(operator_case *c)
{
    operator_dice *dice = &c->dice;
    int64_t dims[] = {operator_between(dice, 20, 40), 0, operator_between(dice, 2, 60)};
    dims[1] = operator_between(dice, 2, dims[2]);
    yk_value *x = input(c, "x", 3, dims);
    if (operator_once_in(dice, 3))
        return cross_entropy_of(c, x, 2, input(c, "labels", 3, dims));
    return cross_entropy_of(c, x, 2, yk_input(c->graph, "labels", YK_I32, 2, dims));
}

static yk_value *build_soft_cross_entropy(operator_case *c)
{
    yk_value *x = scores(c);
    return cross_entropy_of(c, x, 1, input(c, "labels", x->ndim, x->dims));
}

YK_TEST(cross_entropy_is_pytorchs)
{
    compare("cross_entropy", 14, build_cross_entropy);
}

YK_TEST(cross_entropy_of_tokens_is_pytorchs)
{
    compare("cross_entropy", 30, build_token_cross_entropy);
}

YK_TEST(cross_entropy_of_probabilities_is_pytorchs)
{
    compare("cross_entropy", 20, build_soft_cross_entropy);
}

static yk_value *build_mse_loss(operator_case *c)
{
    yk_value *x = image_or_features(c);
    return yk_mse_loss(x, input(c, "other", x->ndim, x->dims),
                       operator_once_in(&c->dice, 2) ? YK_LOSS_SUM : YK_LOSS_MEAN);
}

YK_TEST(mse_loss_is_pytorchs)
{
    compare("mse_loss", 15, build_mse_loss);
}

static yk_loss_reduction reduction(operator_case *c)
{
    return operator_once_in(&c->dice, 2) ? YK_LOSS_SUM : YK_LOSS_MEAN;
}

/* l1_loss among them. */
static yk_value *build_smooth_l1_loss(operator_case *c)
{
    yk_value *x = image_or_features(c);
    double beta = 0.3 * (double)operator_between(&c->dice, 0, 6);
    return yk_smooth_l1_loss(x, input(c, "other", x->ndim, x->dims), beta, reduction(c));
}

YK_TEST(smooth_l1_loss_is_pytorchs)
{
    compare("smooth_l1_loss", 28, build_smooth_l1_loss);
}

static yk_value *build_bce(operator_case *c)
{
    yk_value *x = image_or_features(c);
    yk_binary_cross_entropy_options options = YK_BINARY_CROSS_ENTROPY_OPTIONS_INIT;
    options.reduction = reduction(c);
    int64_t weights = operator_once_in(&c->dice, 3) ? 1 : x->dims[1];
    if (operator_once_in(&c->dice, 2))
        options.pos_weight = yk_buffer(c->graph, "pos_weight", YK_F32, 1, &weights, YK_INIT_ONES);
    return yk_binary_cross_entropy_with_logits(x, input(c, "target", x->ndim, x->dims), &options);
}

YK_TEST(binary_cross_entropy_with_logits_is_pytorchs)
{
    compare("binary_cross_entropy_with_logits", 29, build_bce);
}

/*
 * Training on the cuda device, with the fake driver and the stand-ins for NVIDIA's libraries: in
 * passes that are recorded from the second step on and replayed from the third.
 */
#define _GNU_SOURCE
#include <math.h>
#include <stdlib.h>

#include "harness.h"
#include "nets.h"

enum { STEPS = 4 };

static void assert_close(double a, double b, double tolerance, const char *what, int step)
{
    if (!(fabs(a - b) <= tolerance * fabs(b)))
        fail_msg("%s, step %d: the loss is %.9g, and %.9g on the other device", what, step, a, b);
}

static void train_net(const test_net *net, const char *device, double losses[STEPS])
{
    yk_optimizer *optimizer;
    yk_model *model = net_model(net, device, YK_F64, 1);
    assert_ok(
        yk_sgd_create(&optimizer, model,
                      YK_WITH(yk_sgd_options, YK_SGD_OPTIONS_INIT, o.lr = 0.05, o.momentum = 0.9)));
    for (int step = 0; step < STEPS; step++) {
        net_batch b;
        net_batch_init(&b, YK_F64, 3, (uint64_t)step);
        losses[step] = net_step(model, &b);
        assert_ok(yk_optimizer_step(optimizer));
        net_batch_fini(&b);
    }
    yk_optimizer_destroy(optimizer);
    yk_model_destroy(model);
}

YK_TEST(every_net_trains_as_on_ref)
{
    for (int n = 0; n < net_count; n++) {
        double cuda[STEPS], ref[STEPS];
        train_net(&nets[n], "cuda", cuda);
        train_net(&nets[n], "ref", ref);
        for (int step = 0; step < STEPS; step++)
            assert_close(cuda[step], ref[step], 1e-8, nets[n].name, step);
    }
}

/* ---- a ResNet ------------------------------------------------------------------------------- */

enum { BATCH = 4, PIXELS = 8, CLASSES = 10 };

static void draw(float *images, int32_t *labels, int step)
{
    for (int i = 0; i < BATCH * 3 * PIXELS * PIXELS; i++)
        images[i] = sinf((float)(i + 1) * (1.7f + (float)step));
    for (int i = 0; i < BATCH; i++)
        labels[i] = (i + step) % CLASSES;
}

static void train_resnet(const char *device, yk_amp amp, double losses[STEPS])
{
    static float images[BATCH * 3 * PIXELS * PIXELS];
    static int32_t labels[BATCH];
    const yk_tensor tensors[] = {
        {.data = images, .dtype = YK_F32, .ndim = 4, .dims = {BATCH, 3, PIXELS, PIXELS}},
        {.data = labels, .dtype = YK_I32, .ndim = 1, .dims = {BATCH}}};
    static const char *const names[] = {"images", "labels"};
    const yk_batch batch = {.size = BATCH, .count = 2, .names = names, .tensors = tensors};
    const int64_t dims[] = {YK_BATCH, 3, PIXELS, PIXELS};
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "images", YK_F32, 4, dims);
    yk_value *y = yk_input(graph, "labels", YK_I32, 1, dims);
    yk_value *loss = yk_cross_entropy(yk_resnet9(x, CLASSES), y, NULL);
    yk_model *model;
    yk_optimizer *optimizer;
    assert_ok(yk_model_create(
        &model, loss,
        YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.device = device, o.amp = amp,
                o.winograd = false))); /* its rounding would be compared, too */
    assert_ok(yk_sgd_create(&optimizer, model,
                            YK_WITH(yk_sgd_options, YK_SGD_OPTIONS_INIT, o.lr = 0.01)));
    for (int step = 0; step < STEPS; step++) {
        draw(images, labels, step);
        assert_ok(yk_model_forward(model, &batch));
        assert_ok(yk_model_backward(model));
        losses[step] = yk_model_loss(model);
        assert_ok(yk_optimizer_step(optimizer));
    }
    yk_optimizer_destroy(optimizer);
    yk_model_destroy(model);
}

static void compare_resnet(yk_amp amp, double tolerance)
{
    double cuda[STEPS], cpu[STEPS];
    train_resnet("cuda", amp, cuda);
    train_resnet("cpu", YK_AMP_OFF, cpu);
    for (int step = 0; step < STEPS; step++)
        assert_close(cuda[step], cpu[step], tolerance, "resnet9", step);
}

YK_TEST(resnet_trains_as_on_the_cpu)
{
    compare_resnet(YK_AMP_OFF, 1e-3);
}

YK_TEST(resnet_trains_in_bf16)
{
    compare_resnet(YK_AMP_BF16, 0.05);
}

YK_TEST(resnet_trains_in_fp16)
{
    compare_resnet(YK_AMP_FP16, 0.05);
}

/* ---- attention in bf16, whose scores are in registers or in memory --------------------------- */

/* Queries, keys and values lie in one tensor. */
typedef struct attention_case {
    int64_t batch, tokens, heads, kv_heads, width;
    bool causal, masked;
    double dropout;
} attention_case;

/* y has batch times tokens rows of `columns`, and the gradient of a parameter that is added to
 * queries, keys and values as many rows as there are tokens. */
typedef struct attention_result {
    int64_t rows, columns, gradient_rows, gradient_columns;
    float *y, *gradient;
} attention_result;

static attention_result attention_room(const attention_case *c)
{
    attention_result r = {.rows = c->batch * c->tokens,
                          .columns = c->heads * c->width,
                          .gradient_rows = c->tokens,
                          .gradient_columns = (c->heads + 2 * c->kv_heads) * c->width};
    r.y = calloc((size_t)(r.rows * r.columns), sizeof *r.y);
    r.gradient = calloc((size_t)(r.gradient_rows * r.gradient_columns), sizeof *r.gradient);
    assert_non_null(r.y);
    assert_non_null(r.gradient);
    return r;
}

static void attention_free(attention_result *r)
{
    free(r->y);
    free(r->gradient);
}

static yk_model *attention_model(const attention_case *c, const attention_result *r)
{
    const int64_t rows[] = {YK_BATCH, c->tokens, r->gradient_columns};
    const int64_t padding[] = {YK_BATCH, c->tokens}, mask[] = {YK_BATCH, 1, 1, c->tokens};
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "x", YK_F32, 3, rows);
    yk_value *hidden = yk_input(graph, "hidden", YK_F32, 2, padding);
    yk_value *shift = yk_parameter(graph, "shift", YK_F32, 2, &rows[1], YK_INIT_ZEROS, 0);
    yk_value *y = yk_scaled_dot_product_attention(
        yk_add(x, shift), NULL, NULL,
        YK_WITH(yk_attention_options, YK_ATTENTION_OPTIONS_INIT, o.num_heads = c->heads,
                o.num_kv_heads = c->kv_heads, o.is_causal = c->causal,
                o.scale = 3 / sqrt((double)c->width), o.dropout_p = c->dropout,
                o.attn_mask = c->masked ? yk_reshape(hidden, 4, mask) : NULL));
    yk_value *target = yk_slice(x, 2, 0, r->columns);
    yk_model *model;
    assert_ok(yk_model_create(&model, yk_mse_loss(y, target, YK_LOSS_SUM),
                              YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.device = "cuda",
                                      o.amp = YK_AMP_BF16, o.logits = y, o.seed = 3)));
    return model;
}

/* Of the second sample, the last keys are hidden, and of the third all. */
static attention_result attend(const attention_case *c)
{
    attention_result r = attention_room(c);
    const int64_t count = r.rows * r.gradient_columns;
    float *x = calloc((size_t)count, sizeof *x), *hidden = calloc((size_t)r.rows, sizeof *hidden);
    for (int64_t i = 0; i < count; i++)
        x[i] = sinf((float)(i % 100003) * 1.7f);
    for (int64_t s = 0; s < c->batch; s++)
        for (int64_t t = 0; t < c->tokens; t++) {
            bool is_hidden = s == 2 || (s == 1 && t >= c->tokens * 2 / 3);
            hidden[s * c->tokens + t] = is_hidden ? -INFINITY : 0;
        }
    const yk_tensor tensors[] = {
        {.data = x, .dtype = YK_F32, .ndim = 3, .dims = {c->batch, c->tokens, r.gradient_columns}},
        {.data = hidden, .dtype = YK_F32, .ndim = 2, .dims = {c->batch, c->tokens}}};
    static const char *const names[] = {"x", "hidden"};
    const yk_batch batch = {.size = c->batch, .count = 2, .names = names, .tensors = tensors};
    yk_model *model = attention_model(c, &r);
    yk_tensor y, gradient = yk_model_parameter(model, 0).grad;
    for (int pass = 0; pass < 3; pass++) { /* the last is replayed */
        yk_model_zero_grad(model);
        assert_ok(yk_model_forward(model, &batch));
        assert_ok(yk_model_backward(model));
    }
    assert_ok(yk_model_output(model, &y));
    assert_ok(yk_tensor_read(&y, r.y));
    assert_ok(yk_tensor_read(&gradient, r.gradient));
    yk_model_destroy(model);
    free(x);
    free(hidden);
    return r;
}

static double largest_of(const float *numbers, int64_t count)
{
    double largest = 0;
    for (int64_t i = 0; i < count; i++)
        largest = fmax(largest, fabs((double)numbers[i]));
    return largest;
}

/* Each row on its own, too, so that no wrong one disappears among many that are right. */
static void assert_rows_close(const float *a, const float *b, int64_t rows, int64_t columns,
                              const char *what)
{
    const double all = largest_of(b, rows * columns);
    double most = 0;
    for (int64_t row = 0; row < rows; row++) {
        const float *mine = a + row * columns, *other = b + row * columns;
        const double limit = fmin(0.015 * all, 0.05 * largest_of(other, columns) + 0.002 * all);
        for (int64_t i = 0; i < columns; i++) {
            const double error = fabs((double)mine[i] - (double)other[i]);
            most = fmax(most, error / all);
            if (!(error <= limit))
                fail_msg("%s: row %lld, column %lld is %g, and %g with scores in memory", what,
                         (long long)row, (long long)i, (double)mine[i], (double)other[i]);
        }
    }
    print_message("%s: differs by %.1e of the largest\n", what, most);
}

static void compare_attention(const attention_case *c)
{
    setenv("YOKE_CUDA_FLASH", "1", 1);
    attention_result first = attend(c), again = attend(c);
    setenv("YOKE_CUDA_FLASH", "0", 1);
    attention_result memory = attend(c);
    const size_t y_bytes = (size_t)(first.rows * first.columns) * sizeof(float);
    const size_t bytes = (size_t)(first.gradient_rows * first.gradient_columns) * sizeof(float);
    assert_memory_equal(first.y, again.y, y_bytes);
    assert_memory_equal(first.gradient, again.gradient, bytes);
    assert_memory_not_equal(first.y, memory.y, y_bytes); /* both have run */
    assert_rows_close(first.y, memory.y, first.rows, first.columns, "y");
    assert_rows_close(first.gradient, memory.gradient, first.gradient_rows, first.gradient_columns,
                      "gradient");
    attention_free(&first);
    attention_free(&again);
    attention_free(&memory);
}

/* With YK_TEST_LARGE, enough blocks to keep a GPU busy. */
YK_TEST(attention_has_the_same_results_in_registers_and_in_memory)
{
    static const attention_case cases[] = {
        {3, 70, 2, 1, 32, .causal = true, .masked = true},
        {3, 40, 1, 1, 64, .masked = true, .dropout = 0.2},
        {2, 20, 1, 1, 128, .causal = true, .masked = true},
        {1, 3, 1, 1, 128, .causal = true, .dropout = 0.1}, /* queries that see one key, almost */
    };
    const bool large = getenv("YK_TEST_LARGE") != NULL;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        attention_case c = cases[i];
        c.tokens = large ? 25 * c.tokens + 11 : c.tokens;
        c.heads *= large ? 6 : 1;
        c.kv_heads *= large ? 6 : 1;
        compare_attention(&c);
    }
}

/* ---- PowerSGD -------------------------------------------------------------------------------- */

/* The norms of gradients that one rank alone has compressed, which its device does in streams. */
static void compress_gradients(const char *device, double norms[STEPS])
{
    yk_group *group;
    yk_ddp *ddp;
    yk_model *model = net_model(&nets[0], device, YK_F32, 1);
    assert_ok(yk_group_init(
        &group, YK_WITH(yk_group_options, YK_GROUP_OPTIONS_INIT, o.world_size = 1, o.rank = 0)));
    assert_ok(yk_ddp_create(&ddp, model, group, NULL));
    assert_ok(yk_ddp_register_powersgd_hook(
        ddp, YK_WITH(yk_powersgd_options, YK_POWERSGD_OPTIONS_INIT, o.start_iter = 0,
                     o.min_compression_rate = 0.1, o.matrix_approximation_rank = 2)));
    for (int step = 0; step < STEPS; step++) {
        net_batch b;
        net_batch_init(&b, YK_F32, 3, (uint64_t)step);
        net_step(model, &b);
        norms[step] = 0;
        for (size_t i = 0; i < yk_model_parameter_count(model); i++) {
            yk_tensor grad = yk_test_on_host(yk_model_parameter(model, i).grad);
            for (int64_t e = 0; e < yk_tensor_count(&grad); e++)
                norms[step] += pow((double)((const float *)grad.data)[e], 2);
        }
        yk_model_zero_grad(model);
        net_batch_fini(&b);
    }
    yk_powersgd_stats stats = yk_ddp_powersgd_stats(ddp);
    assert_int_equal(stats.elements_before, STEPS * yk_model_parameter_elements(model));
    assert_true(stats.elements_after < stats.elements_before);
    yk_ddp_destroy(ddp);
    yk_group_destroy(group);
    yk_model_destroy(model);
}

YK_TEST(gradients_are_compressed_as_on_the_host)
{
    double cuda[STEPS], ref[STEPS];
    compress_gradients("cuda", cuda);
    compress_gradients("ref", ref);
    for (int step = 0; step < STEPS; step++)
        assert_close(cuda[step], ref[step], 1e-3, "PowerSGD", step);
}

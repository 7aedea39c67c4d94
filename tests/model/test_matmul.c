/*
 * Attention that is written out with matmul, permute and softmax, as many networks have it, next to
 * the operator of attention: the same loss and the same gradients on every kind of device.
 */
#include "harness.h"

#include <math.h>

#include "graph/operators.h"

enum { SAMPLES = 3, TOKENS = 7, HEADS = 6, WIDTH = 24, OUTPUTS = 5 };

/* The third of qkv from column `first` on, as (N, tokens, width) or by heads. */
static yk_value *third(yk_value *qkv, int which, int heads)
{
    yk_value *x = yk_slice(qkv, -1, (int64_t)which * WIDTH, WIDTH);
    if (heads == 1)
        return x;
    x = yk_reshape(x, 4, (int64_t[]){YK_BATCH, TOKENS, heads, WIDTH / heads});
    return yk_permute(x, 4, (int64_t[]){0, 2, 1, 3});
}

static yk_value *transposed(yk_value *x)
{
    const int64_t rows[] = {0, 2, 1}, heads[] = {0, 1, 3, 2};
    int ndim = yk_value_shape(x, NULL);
    return yk_permute(x, ndim, ndim == 3 ? rows : heads);
}

static yk_value *written_out(yk_value *qkv, int heads)
{
    yk_value *q = third(qkv, 0, heads), *k = third(qkv, 1, heads), *v = third(qkv, 2, heads);
    yk_value *scores = yk_scale(yk_matmul(q, transposed(k)), 1 / sqrt((double)WIDTH / heads));
    yk_value *y = yk_matmul(yk_softmax(scores), v);
    if (heads == 1)
        return y;
    y = yk_permute(y, 4, (int64_t[]){0, 2, 1, 3});
    return yk_reshape(y, 3, (int64_t[]){YK_BATCH, TOKENS, WIDTH});
}

static yk_value *by_operator(yk_value *qkv, int heads)
{
    return yk_scaled_dot_product_attention(
        qkv, NULL, NULL,
        YK_WITH(yk_attention_options, YK_ATTENTION_OPTIONS_INIT, o.num_heads = heads));
}

static yk_model *create(yk_value *(*attend)(yk_value *qkv, int heads), int heads, yk_dtype dtype,
                        const char *device)
{
    const int64_t dims[] = {YK_BATCH, TOKENS, WIDTH};
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "x", dtype, 3, dims);
    x = yk_nn_linear(attend(yk_nn_linear(x, "qkv", 3 * WIDTH), heads), "out", OUTPUTS);
    yk_model *model;
    assert_ok(yk_model_create(&model, yk_reduce_loss(yk_multiply(x, x), YK_LOSS_MEAN),
                              YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.seed = 3,
                                      o.device = device, o.threads = 2)));
    return model;
}

static double element(const yk_tensor *tensor, int64_t i)
{
    return tensor->dtype == YK_F64 ? ((double *)tensor->data)[i] : ((float *)tensor->data)[i];
}

static void step(yk_model *model, yk_dtype dtype)
{
    static double wide[SAMPLES * TOKENS * WIDTH];
    static float narrow[SAMPLES * TOKENS * WIDTH];
    static const char *const names[] = {"x"};
    for (int i = 0; i < SAMPLES * TOKENS * WIDTH; i++)
        wide[i] = narrow[i] = (float)sin(1.7 * i);
    yk_tensor tensor = {.data = dtype == YK_F64 ? (void *)wide : narrow,
                        .dtype = dtype,
                        .ndim = 3,
                        .dims = {SAMPLES, TOKENS, WIDTH}};
    yk_batch batch = {.size = SAMPLES, .count = 1, .names = names, .tensors = &tensor};
    assert_ok(yk_model_forward(model, &batch));
    assert_ok(yk_model_backward(model));
}

static void compare(int heads, yk_dtype dtype, const char *device, double tolerance)
{
    yk_model *one = create(written_out, heads, dtype, device),
             *other = create(by_operator, heads, dtype, device);
    step(one, dtype);
    step(other, dtype);
    assert_float_equal(yk_model_loss(one), yk_model_loss(other), 1e-6);
    for (size_t p = 0; p < yk_model_parameter_count(one); p++) {
        const yk_tensor a = yk_model_parameter(one, p).grad, b = yk_model_parameter(other, p).grad;
        for (int64_t i = 0; i < yk_tensor_count(&a); i++)
            assert_true(fabs(element(&a, i) - element(&b, i)) <= tolerance);
    }
    yk_model_destroy(one);
    yk_model_destroy(other);
}

YK_TEST(attention_of_products_is_attention)
{
    compare(1, YK_F64, "ref", 1e-12);
    compare(HEADS, YK_F64, "ref", 1e-12);
    compare(2, YK_F32, "cpu", 1e-6);
    compare(HEADS, YK_F32, "cpu", 1e-6);
}

/* What is transposed on the way into a product is not copied: no permute is left. */
YK_TEST(transposed_sides_are_read_where_they_are)
{
    const int64_t dims[] = {YK_BATCH, TOKENS, WIDTH};
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "x", YK_F32, 3, dims);
    yk_value *gram = yk_matmul(x, transposed(x)), *other = yk_matmul(transposed(x), x);
    assert_ptr_equal(gram->producer->in[YKI_MATMUL_B], x);
    assert_true(gram->producer->attrs.transpose_b && !gram->producer->attrs.transpose_a);
    assert_true(other->producer->attrs.transpose_a && !other->producer->attrs.transpose_b);
    assert_true(gram->dims[1] == TOKENS && gram->dims[2] == TOKENS && other->dims[1] == WIDTH);
    yk_value *loss = yk_add(yk_reduce_loss(gram, YK_LOSS_SUM), yk_reduce_loss(other, YK_LOSS_SUM));
    yk_model *model;
    assert_ok(yk_model_create(&model, loss, NULL));
    for (size_t n = 0; n < graph->node_count; n++)
        assert_true(graph->nodes[n]->op != &yki_op_permute);
    yk_model_destroy(model);
}

/* Of a weight that is the product of two parameters, as LoRA's. */
YK_TEST(two_parameters_make_a_weight)
{
    const int64_t dims[] = {YK_BATCH, 4}, down[] = {2, 4}, up[] = {3, 2};
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "x", YK_F32, 2, dims);
    yk_value *a = yk_parameter(graph, "a", YK_F32, 2, down, YK_INIT_ONES, 0);
    yk_value *b = yk_parameter(graph, "b", YK_F32, 2, up, YK_INIT_ONES, 0);
    yk_value *y = yk_linear(x, yk_matmul(b, a), NULL);
    yk_model *model;
    assert_ok(yk_model_create(&model, yk_reduce_loss(y, YK_LOSS_SUM), NULL));
    float numbers[] = {1, 2, 3, 4, 5, 6, 7, 8};
    static const char *const names[] = {"x"};
    yk_tensor tensor = {.data = numbers, .dtype = YK_F32, .ndim = 2, .dims = {2, 4}};
    yk_batch batch = {.size = 2, .count = 1, .names = names, .tensors = &tensor};
    assert_ok(yk_model_forward(model, &batch));
    assert_ok(yk_model_backward(model));
    assert_float_equal(yk_model_loss(model), 6 * 36, 1e-4); /* each of 3 outputs is 2 sum(x) */
    const yk_tensor da = yk_model_parameter(model, 0).grad, db = yk_model_parameter(model, 1).grad;
    for (int i = 0; i < 8; i++)
        assert_float_equal(element(&da, i), 3 * (numbers[i % 4] + numbers[4 + i % 4]), 1e-4);
    for (int i = 0; i < 6; i++)
        assert_float_equal(element(&db, i), 36, 1e-4);
    yk_model_destroy(model);
}

/* A model that reads buffers of given numbers: a mask with an infinity, which no file has, weights
 * and a table of indices, which files have. */
#ifndef YK_TEST_GIVEN_H
#define YK_TEST_GIVEN_H

#include <math.h>

#include "harness.h"

enum { GIVEN_WIDTH = 3 };

typedef struct given {
    float mask[GIVEN_WIDTH], weight[GIVEN_WIDTH];
    int64_t index[GIVEN_WIDTH];
} given;

static const given given_numbers = {{0.1F, -INFINITY, 0.7F}, {0.1F, 0.2F, 0.3F}, {3, 0, 3}};

static inline yk_tensor given_tensor(const void *numbers, yk_dtype dtype, int64_t count)
{
    return (yk_tensor){
        .data = (void *)(uintptr_t)numbers, .dtype = dtype, .ndim = 1, .dims = {count}};
}

/* The loss is the sum of softmax(fc(x) + mask) * weight + table[index], of x (N, 3). */
static inline yk_model *given_model(const char *device, const given *numbers, uint64_t seed)
{
    const yk_tensor mask = given_tensor(numbers->mask, YK_F32, GIVEN_WIDTH),
                    weight = given_tensor(numbers->weight, YK_F32, GIVEN_WIDTH),
                    index = given_tensor(numbers->index, YK_I64, GIVEN_WIDTH);
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "x", YK_F32, 2, (int64_t[]){YK_BATCH, GIVEN_WIDTH});
    x = yk_add(yk_nn_linear(x, "fc", GIVEN_WIDTH), yk_register_buffer(graph, "mask", &mask, false));
    x = yk_multiply(yk_softmax(x), yk_register_buffer(graph, "weight", &weight, true));
    yk_value *table =
        yk_parameter(graph, "table", YK_F32, 2, (int64_t[]){4, 1}, YK_INIT_STANDARD_NORMAL, 0);
    yk_value *rows = yk_embedding(yk_register_buffer(graph, "index", &index, true), table);
    x = yk_add(x, yk_reshape(rows, 1, (int64_t[]){GIVEN_WIDTH}));
    yk_model *model;
    assert_ok(yk_model_create(&model, yk_reduce_loss(x, YK_LOSS_SUM),
                              YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.device = device,
                                      o.threads = 1, o.seed = seed)));
    return model;
}

/* A step on `count` samples, at most 16. */
static inline void given_step(yk_model *model, int64_t count)
{
    static const char *const names[] = {"x"};
    static float room[16 * GIVEN_WIDTH];
    for (int i = 0; i < 16 * GIVEN_WIDTH; i++)
        room[i] = (float)(i % 7) / 4;
    const yk_tensor x = {.data = room, .dtype = YK_F32, .ndim = 2, .dims = {count, GIVEN_WIDTH}};
    const yk_batch batch = {.size = count, .count = 1, .names = names, .tensors = &x};
    assert_ok(yk_model_forward(model, &batch));
    assert_ok(yk_model_backward(model));
    assert_true(isfinite(yk_model_loss(model)));
}

/* The model's buffers have these bits. */
static inline void assert_given(const yk_model *model, const given *numbers)
{
    given found;
    yk_tensor mask = yk_model_buffer(model, 0).value, weight = yk_model_buffer(model, 1).value,
              index = yk_model_buffer(model, 2).value;
    assert_ok(yk_tensor_read(&mask, found.mask));
    assert_ok(yk_tensor_read(&weight, found.weight));
    assert_ok(yk_tensor_read(&index, found.index));
    assert_memory_equal(found.mask, numbers->mask, sizeof found.mask);
    assert_memory_equal(found.weight, numbers->weight, sizeof found.weight);
    assert_memory_equal(found.index, numbers->index, sizeof found.index);
}

#endif

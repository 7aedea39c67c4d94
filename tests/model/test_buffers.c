/* Buffers of given numbers in models: on each device, next to values that have a batch, under
 * autocast, as indices, and copied. */
#include <math.h>

#include "harness.h"

enum { SAMPLES = 2, TOKENS = 3, WIDTH = 4, ROWS = 5 };

static const char *const devices[] = {"ref", "cpu", "sim"};
enum { DEVICES = sizeof devices / sizeof *devices };

static const float positions[TOKENS][WIDTH] = {{1, 2, 3, 4}, {5, 6, 7, 8}, {9, 10, 11, 12}};
static const int64_t chosen[TOKENS] = {4, 0, 4};

static yk_value *give(yk_graph *graph, const char *name, const void *numbers, yk_dtype dtype,
                      int ndim, const int64_t *dims, bool persistent)
{
    yk_tensor tensor = {.data = (void *)(uintptr_t)numbers, .dtype = dtype, .ndim = ndim};
    memcpy(tensor.dims, dims, (size_t)ndim * sizeof *dims);
    return name ? yk_register_buffer(graph, name, &tensor, persistent)
                : yk_constant(graph, &tensor);
}

static yk_model *make_model(yk_value *loss, yk_value *output, const char *device, yk_amp amp)
{
    yk_model *model;
    yk_value *outputs[] = {output};
    assert_ok(yk_model_create(&model, loss,
                              YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.device = device,
                                      o.threads = 1, o.amp = amp, o.outputs = outputs,
                                      o.output_count = 1)));
    return model;
}

static yk_status forward(yk_model *model, const void *numbers, yk_dtype dtype, int ndim,
                         const int64_t *dims)
{
    static const char *const names[] = {"x"};
    yk_tensor tensor = {.data = (void *)(uintptr_t)numbers, .dtype = dtype, .ndim = ndim};
    memcpy(tensor.dims, dims, (size_t)ndim * sizeof *dims);
    const yk_batch batch = {.size = dims[0], .count = 1, .names = names, .tensors = &tensor};
    return yk_model_forward(model, &batch);
}

/* x + positions + table[chosen], in which positions are persistent; the loss is the sum of it times
 * a constant. */
static yk_model *tables_on(const char *device)
{
    static const float weights[WIDTH] = {1, 0, 2, 3};
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "x", YK_F32, 3, (int64_t[]){YK_BATCH, TOKENS, WIDTH});
    yk_value *table =
        yk_parameter(graph, "table", YK_F32, 2, (int64_t[]){ROWS, WIDTH}, YK_INIT_ONES, 0);
    yk_value *rows =
        yk_embedding(give(graph, "index", chosen, YK_I64, 1, (int64_t[]){TOKENS}, true), table);
    yk_value *given =
        give(graph, "positions", positions, YK_F32, 2, (int64_t[]){TOKENS, WIDTH}, false);
    yk_value *y = yk_add(yk_add(x, given), rows);
    yk_value *weighted =
        yk_multiply(y, give(graph, NULL, weights, YK_F32, 1, (int64_t[]){WIDTH}, false));
    return make_model(yk_reduce_loss(weighted, YK_LOSS_SUM), y, device, YK_AMP_OFF);
}

YK_TEST(values_with_a_batch_meet_given_numbers)
{
    static const float x[SAMPLES][TOKENS][WIDTH] = {{{0.5F}}, {{0, 0.25F}}};
    for (int d = 0; d < DEVICES; d++) {
        yk_model *model = tables_on(devices[d]);
        yk_tensor y;
        assert_ok(forward(model, x, YK_F32, 3, (int64_t[]){SAMPLES, TOKENS, WIDTH}));
        assert_ok(yk_model_output_at(model, 0, &y));
        for (int i = 0; i < SAMPLES * TOKENS * WIDTH; i++) {
            const float expected = (&x[0][0][0])[i] + (&positions[0][0])[i % (TOKENS * WIDTH)] + 1;
            assert_true(((float *)y.data)[i] == expected);
        }
        yk_model_destroy(model);
    }
}

/* Of each sample and token that took the row. */
YK_TEST(the_table_of_a_constant_index_has_a_gradient)
{
    static const float x[SAMPLES][TOKENS][WIDTH];
    static const float times[ROWS] = {1, 0, 0, 0, 2}, weights[WIDTH] = {1, 0, 2, 3};
    for (int d = 0; d < DEVICES; d++) {
        yk_model *model = tables_on(devices[d]);
        float grad[ROWS][WIDTH];
        assert_ok(forward(model, x, YK_F32, 3, (int64_t[]){SAMPLES, TOKENS, WIDTH}));
        assert_ok(yk_model_backward(model));
        yk_tensor of_table = yk_model_parameter(model, 0).grad;
        assert_ok(yk_tensor_read(&of_table, grad));
        for (int r = 0; r < ROWS; r++)
            for (int c = 0; c < WIDTH; c++)
                assert_true(grad[r][c] == SAMPLES * times[r] * weights[c]);
        yk_model_destroy(model);
    }
}

YK_TEST(given_numbers_are_those_of_the_models_buffers)
{
    for (int d = 0; d < DEVICES; d++) {
        yk_model *model = tables_on(devices[d]);
        float numbers[TOKENS][WIDTH];
        int64_t index[TOKENS];
        assert_int_equal(yk_model_buffer_count(model), 3);
        yk_parameter_view first = yk_model_buffer(model, 0), second = yk_model_buffer(model, 1);
        assert_string_equal(first.name, "index");
        assert_string_equal(second.name, "positions");
        assert_string_equal(yk_model_buffer(model, 2).name, "_tensor_constant0");
        assert_false(first.trainable || first.grad.data || second.trainable || second.grad.data);
        assert_ok(yk_tensor_read(&first.value, index));
        assert_ok(yk_tensor_read(&second.value, numbers));
        assert_memory_equal(index, chosen, sizeof chosen);
        assert_memory_equal(numbers, positions, sizeof positions);
        yk_model_destroy(model);
    }
}

/* Whatever the bytes mean. */
YK_TEST(numbers_of_every_dtype_can_be_given)
{
    static const unsigned char bytes[3 * 8] = {1, 2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12,
                                               0, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 255};
    for (int d = 0; d < DEVICES; d++) {
        yk_graph *graph = yk_graph_create();
        yk_value *x = yk_input(graph, "x", YK_F32, 1, (int64_t[]){YK_BATCH});
        for (int dtype = 0; dtype < YK_DTYPE_COUNT; dtype++)
            give(graph, yk_dtype_name((yk_dtype)dtype), bytes, (yk_dtype)dtype, 1, (int64_t[]){3},
                 true);
        yk_model *model = make_model(NULL, yk_relu(x), devices[d], YK_AMP_OFF);
        assert_int_equal(yk_model_buffer_count(model), YK_DTYPE_COUNT);
        for (int dtype = 0; dtype < YK_DTYPE_COUNT; dtype++) {
            yk_tensor value = yk_model_buffer(model, (size_t)dtype).value;
            unsigned char found[sizeof bytes];
            assert_int_equal(value.dtype, dtype);
            assert_ok(yk_tensor_read(&value, found));
            assert_memory_equal(found, bytes, yk_tensor_bytes(&value));
        }
        yk_model_destroy(model);
    }
}

/* As torch.autocast promotes the sum of a bfloat16 tensor and a float32 one. */
YK_TEST(autocast_leaves_given_numbers_as_they_are)
{
    static const float fine = 1 + 0x1p-20F, one = 1, x = 2;
    const int64_t scalar[] = {1, 1};
    yk_graph *graph = yk_graph_create();
    yk_value *y = yk_linear(yk_input(graph, "x", YK_F32, 2, (int64_t[]){YK_BATCH, 1}),
                            give(graph, "weight", &one, YK_F32, 2, scalar, true), NULL);
    y = yk_add(y, give(graph, "bias", &fine, YK_F32, 1, scalar, true));
    yk_model *model = make_model(NULL, y, "cpu", YK_AMP_BF16);
    yk_tensor output;
    assert_ok(forward(model, &x, YK_F32, 2, scalar));
    assert_ok(yk_model_output_at(model, 0, &output));
    assert_true(*(float *)output.data == 3 + 0x1p-20F);
    yk_model_destroy(model);
}

/* A file or the program may have changed them. */
YK_TEST(indices_are_checked_where_they_are_used)
{
    static const int64_t wrong[TOKENS] = {0, ROWS, 1};
    static const float x[SAMPLES][TOKENS][WIDTH];
    for (int d = 0; d < DEVICES; d++) {
        yk_model *model = tables_on(devices[d]);
        yk_tensor index = yk_model_buffer(model, 0).value;
        assert_ok(yk_tensor_write(&index, wrong));
        yk_status status = forward(model, x, YK_F32, 3, (int64_t[]){SAMPLES, TOKENS, WIDTH});
        if (index.device) { /* which tells late */
            assert_ok(status);
            assert_true(isnan(yk_model_loss(model)));
            status = forward(model, x, YK_F32, 3, (int64_t[]){SAMPLES, TOKENS, WIDTH});
        }
        assert_int_equal(status, YK_ERROR_INVALID_ARGUMENT);
        assert_contains(yk_last_error(), index.device ? "index 5 is outside 0..4"
                                                      : "embedding: index 5 is outside 0..4");
        yk_model_destroy(model);
    }
}

YK_TEST(indices_of_a_batch_may_be_int64)
{
    static const int64_t good[] = {4, 0}, bad[] = {1, (int64_t)1 << 32};
    for (int d = 0; d < DEVICES; d++) {
        yk_graph *graph = yk_graph_create();
        yk_value *table = yk_parameter(graph, "table", YK_F32, 2, (int64_t[]){ROWS, WIDTH},
                                       YK_INIT_STANDARD_NORMAL, 0);
        yk_value *y = yk_embedding(yk_input(graph, "x", YK_I64, 1, (int64_t[]){YK_BATCH}), table);
        yk_model *model = make_model(NULL, y, devices[d], YK_AMP_OFF);
        yk_tensor output, weight = yk_model_parameter(model, 0).value;
        float numbers[ROWS][WIDTH];
        assert_ok(yk_tensor_read(&weight, numbers));
        assert_ok(forward(model, good, YK_I64, 1, (int64_t[]){2}));
        assert_ok(yk_model_output_at(model, 0, &output));
        assert_memory_equal(output.data, numbers[4], sizeof *numbers);
        assert_memory_equal((float *)output.data + WIDTH, numbers[0], sizeof *numbers);
        assert_status(YK_ERROR_INVALID_ARGUMENT, forward(model, bad, YK_I64, 1, (int64_t[]){2}));
        assert_contains(yk_last_error(), "embedding: index 4294967296 of sample 1 is outside 0..4");
        yk_model_destroy(model);
    }
}

/* As load_state_dict() of a state_dict, in which buffers that are not persistent have no place: the
 * models are for images of two sizes, as it were. */
YK_TEST(copies_of_a_model_have_its_persistent_buffers)
{
    static const float ones[TOKENS] = {1, 1, 1}, twos[TOKENS] = {2, 2, 2};
    yk_model *models[2];
    for (int m = 0; m < 2; m++) {
        yk_graph *graph = yk_graph_create();
        yk_value *x = yk_input(graph, "x", YK_F32, 1, (int64_t[]){YK_BATCH});
        give(graph, "kept", m ? twos : ones, YK_F32, 1, (int64_t[]){TOKENS}, true);
        give(graph, "mask", m ? twos : ones, YK_F32, 1, (int64_t[]){m ? 2 : TOKENS}, false);
        if (m == 0)
            give(graph, NULL, ones, YK_F32, 1, (int64_t[]){1}, false);
        models[m] = make_model(NULL, yk_relu(x), "cpu", YK_AMP_OFF);
    }
    assert_ok(yk_model_copy_values(models[1], models[0], NULL));
    yk_tensor kept = yk_model_buffer(models[1], 0).value,
              mask = yk_model_buffer(models[1], 1).value;
    assert_memory_equal(kept.data, ones, sizeof ones);
    assert_memory_equal(mask.data, twos, 2 * sizeof *twos);
    assert_status(YK_ERROR_NOT_FOUND, yk_model_copy_values(models[1], models[0], "mask"));
    for (int m = 0; m < 2; m++)
        yk_model_destroy(models[m]);
}

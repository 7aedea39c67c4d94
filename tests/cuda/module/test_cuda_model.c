/* Models on the cuda device with the fake driver. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>

#include "harness.h"

enum { SIDE = 16, MOST = 512 };

static yk_model *make_model(void)
{
    const int64_t images[] = {YK_BATCH, 3, SIDE, SIDE}, labels[] = {YK_BATCH};
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "images", YK_F32, 4, images);
    x = yk_nn_conv2d(x, "conv", 16, 3,
                     YK_WITH(yk_conv2d_options, YK_CONV2D_OPTIONS_INIT, o.padding = 1));
    x = yk_nn_linear(yk_flatten(yk_global_avg_pool2d(yk_relu(x))), "fc", 10);
    yk_value *loss = yk_cross_entropy(x, yk_input(graph, "labels", YK_I32, 1, labels), NULL);
    yk_model *model;
    assert_ok(yk_model_create(&model, loss,
                              YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.device = "cuda")));
    return model;
}

static yk_status forward(yk_model *model, int64_t samples)
{
    static float images[MOST * 3 * SIDE * SIDE];
    static int32_t labels[MOST];
    static const char *const names[] = {"images", "labels"};
    yk_tensor tensors[] = {
        {.data = images, .dtype = YK_F32, .ndim = 4, .dims = {samples, 3, SIDE, SIDE}},
        {.data = labels, .dtype = YK_I32, .ndim = 1, .dims = {samples}}};
    const yk_batch batch = {.size = samples, .count = 2, .names = names, .tensors = tensors};
    return yk_model_forward(model, &batch);
}

/* The batch that the error names does fit. */
YK_TEST(out_of_memory_names_a_batch_that_fits)
{
    setenv("YK_FAKE_GPU_MEMORY", "6", 1);
    yk_model *model = make_model();
    int fits = 0;
    assert_status(YK_ERROR_OUT_OF_MEMORY, forward(model, MOST));
    assert_contains(yk_last_error(), "device cuda:0: out of memory: ");
    const char *advice = strstr(yk_last_error(), "; a batch of ");
    assert_non_null(advice);
    assert_int_equal(sscanf(advice, "; a batch of %d samples would fit, instead of 512", &fits), 1);
    assert_true(fits > 0 && fits < MOST);
    assert_ok(forward(model, fits));
    assert_ok(yk_model_backward(model));
    assert_true(yk_model_loss(model) > 0);
    yk_model_destroy(model);
}

/*
 * yk_update_bn against torch.optim.swa_utils.update_bn: the statistics of the mean of two sets of
 * weights, over the same batches, of which the last is shorter.
 */
#include <math.h>

#include <yoke/yoke.h>

#include "pytorch.h"
#include "tensor_files.h"

enum { SAMPLES = 29, BATCH = 8, CHANNELS = 3, SIDE = 6, NUMBERS = CHANNELS * SIDE * SIDE };

static yk_status read_sample(void *data, void *worker, int64_t index, yk_field_buffer *buffers)
{
    (void)data, (void)worker;
    float *x = buffers[0].data;
    for (int i = 0; i < NUMBERS; i++)
        x[i] = (float)(sin(0.37 * (double)(index * NUMBERS + i)) + 0.1 * (double)index);
    *(int32_t *)buffers[1].data = (int32_t)(index % 4);
    return YK_OK;
}

static yk_loader *create_loader(void)
{
    static const yk_field fields[] = {{"x", YK_FIELD_TENSOR, YK_F32, 3, {CHANNELS, SIDE, SIDE}},
                                      {"labels", YK_FIELD_TENSOR, YK_I32, 0, {0}}};
    yk_dataset_ops ops = YK_DATASET_OPS_INIT;
    yk_dataset *dataset;
    yk_loader *loader;
    ops.count = SAMPLES;
    ops.field_count = 2;
    ops.fields = fields;
    ops.read = read_sample;
    assert_ok(yk_dataset_create(&dataset, &ops, NULL));
    assert_ok(
        yk_loader_create(&loader, dataset,
                         YK_WITH(yk_loader_options, YK_LOADER_OPTIONS_INIT, o.batch_size = BATCH)));
    yk_dataset_destroy(dataset);
    return loader;
}

static yk_model *create_model(void)
{
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "x", YK_F32, 4, (int64_t[]){YK_BATCH, CHANNELS, SIDE, SIDE});
    yk_value *labels = yk_input(graph, "labels", YK_I32, 1, (int64_t[]){YK_BATCH});
    x = yk_nn_conv2d(yk_nn_batch_norm(x, "bn0"), "conv1", 8, 3,
                     YK_WITH(yk_conv2d_options, YK_CONV2D_OPTIONS_INIT, o.padding = 1));
    x = yk_relu(yk_nn_batch_norm(x, "bn1"));
    x = yk_relu(yk_nn_batch_norm(yk_nn_linear(yk_flatten(x), "fc1", 16), "bn2"));
    yk_model *model;
    assert_ok(yk_model_create(
        &model, yk_cross_entropy(yk_nn_linear(x, "fc2", 4), labels, NULL),
        YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.threads = 1, o.winograd = false)));
    return model;
}

YK_TEST(statistics_of_an_average_equal_pytorchs)
{
    yk_optimizer *optimizer;
    yk_ema *ema;
    yk_model *model = create_model();
    yk_loader *loader = create_loader();
    assert_ok(
        yk_sgd_create(&optimizer, model, YK_WITH(yk_sgd_options, YK_SGD_OPTIONS_INIT, o.lr = 0.5)));
    assert_ok(yk_ema_create(
        &ema, optimizer,
        YK_WITH(yk_ema_options, YK_EMA_OPTIONS_INIT, o.equal = true, o.use_buffers = true)));
    for (int i = 0; i < 2; i++) {
        const yk_batch *batch = yk_loader_next(loader);
        assert_ok(yk_model_forward(model, batch));
        assert_ok(yk_model_backward(model));
        assert_ok(yk_optimizer_step(optimizer));
        assert_ok(yk_ema_update(ema));
    }
    assert_ok(yk_ema_swap(ema));
    assert_ok(yk_model_save(model, file_of("before.pth")));
    assert_ok(yk_update_bn(model, loader, NULL, NULL));
    assert_ok(yk_model_save(model, file_of("after.pth")));
    pytorch_judges("update_bn.py", "%s", yk_test_directory());
    yk_ema_destroy(ema);
    yk_optimizer_destroy(optimizer);
    yk_loader_destroy(loader);
    yk_model_destroy(model);
}

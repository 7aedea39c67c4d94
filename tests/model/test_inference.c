/* Logits in evaluation mode from the inputs that they need: no labels, no loss. */
#include "harness.h"

#include <math.h>
#include <string.h>

enum { SAMPLES = 5, SIDE = 4, CLASSES = 3 };

typedef struct network {
    yk_model *model;
    float pixels[SAMPLES * 3 * SIDE * SIDE];
    int32_t labels[SAMPLES];
    yk_tensor tensors[2];
    yk_batch batch;
} network;

static const char *const names[] = {"images", "labels"};

static yk_model *make_model(const char *device, bool with_loss)
{
    yk_model *model;
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "images", YK_F32, 4, (int64_t[]){YK_BATCH, 3, SIDE, SIDE});
    yk_value *labels = yk_input(graph, "labels", YK_I32, 1, (int64_t[]){YK_BATCH});
    x = yk_relu(yk_nn_batch_norm(yk_nn_conv2d(x, "conv", 8, 1, NULL), "bn"));
    yk_value *logits = yk_nn_linear(yk_flatten(yk_global_avg_pool2d(x)), "fc", CLASSES);
    yk_value *loss = with_loss ? yk_cross_entropy(logits, labels, NULL) : NULL;
    assert_ok(yk_model_create(&model, loss,
                              YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.device = device,
                                      o.threads = 1, o.logits = logits)));
    return model;
}

static void start(network *net, const char *device)
{
    net->model = make_model(device, true);
    for (int i = 0; i < (int)(sizeof net->pixels / sizeof *net->pixels); i++)
        net->pixels[i] = (float)sin(0.7 * i);
    for (int i = 0; i < SAMPLES; i++)
        net->labels[i] = i % CLASSES;
    net->tensors[0] = (yk_tensor){
        .data = net->pixels, .dtype = YK_F32, .ndim = 4, .dims = {SAMPLES, 3, SIDE, SIDE}};
    net->tensors[1] =
        (yk_tensor){.data = net->labels, .dtype = YK_I32, .ndim = 1, .dims = {SAMPLES}};
    net->batch = (yk_batch){.size = SAMPLES, .count = 2, .names = names, .tensors = net->tensors};
}

static void read_logits(network *net, float logits[SAMPLES * CLASSES])
{
    yk_tensor output;
    assert_ok(yk_model_output(net->model, &output));
    assert_int_equal(output.dims[0], SAMPLES);
    memcpy(logits, output.data, SAMPLES * CLASSES * sizeof *logits);
}

static void check_device(const char *device)
{
    network net;
    float with[SAMPLES * CLASSES], without[SAMPLES * CLASSES];
    start(&net, device);
    yk_model_eval(net.model);
    assert_ok(yk_model_forward(net.model, &net.batch));
    double loss = yk_model_loss(net.model);
    read_logits(&net, with);
    net.batch.count = 1;
    assert_ok(yk_model_forward(net.model, &net.batch));
    read_logits(&net, without);
    assert_memory_equal(with, without, sizeof with);
    assert_true(isnan(yk_model_loss(net.model)));
    net.batch.count = 2;
    assert_ok(yk_model_forward(net.model, &net.batch));
    assert_true(yk_model_loss(net.model) == loss);
    yk_model_destroy(net.model);
}

YK_TEST(logits_without_labels_are_the_same)
{
    check_device("ref");
    check_device("cpu");
}

YK_TEST(there_is_no_backward_without_labels)
{
    network net;
    start(&net, "cpu");
    yk_model_eval(net.model);
    net.batch.count = 1;
    assert_ok(yk_model_forward(net.model, &net.batch));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_model_backward(net.model));
    assert_contains(yk_last_error(), "no \"labels\"");
    net.batch.count = 2;
    assert_ok(yk_model_forward(net.model, &net.batch));
    assert_ok(yk_model_backward(net.model));
    yk_model_destroy(net.model);
}

YK_TEST(what_the_logits_need_stays_needed)
{
    network net;
    start(&net, "cpu");
    net.batch.count = 1;
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_model_forward(net.model, &net.batch));
    assert_contains(yk_last_error(), "no tensor \"labels\""); /* in training */
    yk_model_eval(net.model);
    net.batch.count = 0;
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_model_forward(net.model, &net.batch));
    assert_contains(yk_last_error(), "no tensor \"images\"");
    yk_model_destroy(net.model);
}

/* ---- a model without a loss ------------------------------------------------------------------ */

static void check_inference_model(const char *device)
{
    network net;
    float expected[SAMPLES * CLASSES], found[SAMPLES * CLASSES];
    start(&net, device);
    yk_model_eval(net.model);
    assert_ok(yk_model_forward(net.model, &net.batch));
    read_logits(&net, expected);
    yk_model_destroy(net.model);

    net.model = make_model(device, false);
    yk_model_train(net.model); /* it stays in evaluation mode */
    for (net.batch.count = 1; net.batch.count <= 2; net.batch.count++) {
        assert_ok(yk_model_forward(net.model, &net.batch));
        read_logits(&net, found);
        assert_memory_equal(expected, found, sizeof found);
        assert_true(isnan(yk_model_loss(net.model)));
    }
    assert_int_equal(yk_model_forwards(net.model), 0);
    yk_model_destroy(net.model);
}

YK_TEST(a_model_without_a_loss_has_the_same_logits)
{
    check_inference_model("ref");
    check_inference_model("cpu");
}

YK_TEST(a_model_without_a_loss_has_no_gradients)
{
    network net;
    yk_memory_plan training, inference;
    start(&net, "cpu");
    assert_ok(yk_model_memory_plan(net.model, SAMPLES, &training));
    assert_true(training.gradients > 0);
    yk_model_destroy(net.model);

    net.model = make_model("cpu", false);
    assert_ok(yk_model_memory_plan(net.model, SAMPLES, &inference));
    assert_int_equal(inference.parameters, training.parameters);
    assert_int_equal(inference.gradients, 0);
    assert_true(inference.activations < training.activations);
    yk_parameter_view weight = yk_model_parameter(net.model, 0);
    assert_null(weight.grad.data);
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_tensor_read(&weight.grad, net.pixels));
    assert_contains(yk_last_error(), "yk_tensor_read: the tensor has no data");
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_tensor_write(&weight.grad, net.pixels));
    assert_contains(yk_last_error(), "yk_tensor_write: the tensor has no data");
    assert_false(yk_model_parameter(net.model, 0).trainable);
    yk_model_destroy(net.model);
}

YK_TEST(a_model_without_a_loss_cannot_be_trained)
{
    network net;
    yk_optimizer *optimizer;
    yk_grad_scaler *scaler;
    yk_data_parallel *parallel;
    yk_group *group;
    yk_ddp *ddp;
    start(&net, "cpu");
    yk_model_destroy(net.model);
    net.model = make_model("cpu", false);
    assert_ok(yk_model_forward(net.model, &net.batch));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_model_backward(net.model));
    assert_contains(yk_last_error(), "created without a loss");
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_sgd_create(&optimizer, net.model, NULL));
    assert_contains(yk_last_error(), "optimizer: the model is for inference alone");
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_grad_scaler_create(&scaler, net.model, NULL));
    assert_contains(yk_last_error(), "grad scaler: the model is for inference alone");
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_data_parallel_create(&parallel, net.model, NULL));
    assert_contains(yk_last_error(), "data parallel: the model is for inference alone");
    assert_ok(yk_group_init(&group, NULL));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_ddp_create(&ddp, net.model, group, NULL));
    assert_contains(yk_last_error(), "ddp: the model is for inference alone");
    yk_group_destroy(group);
    yk_model_destroy(net.model);
}

YK_TEST(a_model_needs_a_loss_or_logits)
{
    yk_model *model;
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_model_create(&model, NULL, NULL));
    assert_contains(yk_last_error(), "there is no loss, and options.logits is NULL");
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "x", YK_F32, 2, (int64_t[]){YK_BATCH, 3});
    yk_value *wrong = yk_conv2d(x, x, NULL, NULL);
    assert_status(
        YK_ERROR_INVALID_SHAPE,
        yk_model_create(&model, NULL,
                        YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.logits = wrong)));
    assert_contains(yk_last_error(), "conv2d");
    yk_graph_destroy(graph);
}

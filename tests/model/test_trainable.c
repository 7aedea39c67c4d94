/* Frozen parameters: what is not computed, not moved and not communicated. */
#include "harness.h"

#include <math.h>
#include <string.h>

#include "model/model.h"
#include "parallel/ddp.h"

enum { SAMPLES = 6, SIDE = 4 };

typedef struct network {
    bool batch_statistics; /* of its norms */
    yk_graph *graph;
    yk_model *model;
    yk_optimizer *optimizer;
    float pixels[SAMPLES * 3 * SIDE * SIDE];
    int32_t labels[SAMPLES];
    yk_tensor tensors[2];
} network;

/* Two blocks of convolution, norm and relu, and a linear head. */
static yk_value *build(network *net)
{
    net->graph = yk_graph_create();
    yk_value *x = yk_input(net->graph, "images", YK_F32, 4, (int64_t[]){YK_BATCH, 3, SIDE, SIDE});
    yk_value *labels = yk_input(net->graph, "labels", YK_I32, 1, (int64_t[]){YK_BATCH});
    yk_nn_batch_norm_options norm = YK_NN_BATCH_NORM_OPTIONS_INIT;
    norm.batch_statistics = net->batch_statistics;
    for (int i = 0; i < 2; i++) {
        yk_scope_push(net->graph, i ? "layer2" : "layer1");
        x = yk_nn_conv2d(x, "conv", 8, 1, NULL);
        x = yk_relu(yk_nn_batch_norm_with(x, "bn", &norm));
        yk_scope_pop(net->graph);
    }
    yk_value *logits = yk_nn_linear(yk_flatten(yk_global_avg_pool2d(x)), "fc", 3);
    return yk_cross_entropy(logits, labels, NULL);
}

static void make_batch(network *net)
{
    for (int i = 0; i < (int)(sizeof net->pixels / sizeof *net->pixels); i++)
        net->pixels[i] = (float)sin(0.7 * i);
    for (int i = 0; i < SAMPLES; i++)
        net->labels[i] = i % 3;
    net->tensors[0] = (yk_tensor){
        .data = net->pixels, .dtype = YK_F32, .ndim = 4, .dims = {SAMPLES, 3, SIDE, SIDE}};
    net->tensors[1] =
        (yk_tensor){.data = net->labels, .dtype = YK_I32, .ndim = 1, .dims = {SAMPLES}};
}

static void start_with(network *net, const char *device, const char *frozen, bool batch_statistics)
{
    *net = (network){.batch_statistics = batch_statistics};
    yk_value *loss = build(net);
    if (frozen)
        assert_ok(yk_graph_set_trainable(net->graph, frozen, false, NULL));
    assert_ok(yk_model_create(
        &net->model, loss,
        YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.device = device, o.threads = 1)));
    assert_ok(yk_sgd_create(&net->optimizer, net->model,
                            YK_WITH(yk_sgd_options, YK_SGD_OPTIONS_INIT, o.lr = 0.1,
                                    o.momentum = 0.9, o.weight_decay = 0.01)));
    make_batch(net);
}

static void start(network *net, const char *device, const char *frozen)
{
    start_with(net, device, frozen, false);
}

static void forward(network *net)
{
    static const char *const names[] = {"images", "labels"};
    static yk_batch batch; /* lives until backward */
    batch = (yk_batch){.size = SAMPLES, .count = 2, .names = names, .tensors = net->tensors};
    assert_ok(yk_model_forward(net->model, &batch));
}

static void step(network *net)
{
    forward(net);
    assert_ok(yk_model_backward(net->model));
    assert_ok(yk_optimizer_step(net->optimizer));
}

static void finish(network *net)
{
    yk_optimizer_destroy(net->optimizer);
    yk_model_destroy(net->model);
}

static yk_parameter_view find(const network *net, const char *name)
{
    for (size_t i = 0; i < yk_model_parameter_count(net->model); i++)
        if (strcmp(yk_model_parameter(net->model, i).name, name) == 0)
            return yk_model_parameter(net->model, i);
    for (size_t i = 0; i < yk_model_buffer_count(net->model); i++)
        if (strcmp(yk_model_buffer(net->model, i).name, name) == 0)
            return yk_model_buffer(net->model, i);
    fail_msg("no tensor %s", name);
    return (yk_parameter_view){0};
}

static void assert_moves(const char *device, const char *frozen, const char *name, bool moves)
{
    network net;
    float before[64], after[64];
    start(&net, device, frozen);
    yk_tensor value = find(&net, name).value;
    size_t bytes = yk_tensor_bytes(&value);
    memcpy(before, value.data, bytes);
    step(&net);
    step(&net);
    value = find(&net, name).value;
    memcpy(after, value.data, bytes);
    assert_int_equal(memcmp(before, after, bytes) != 0, moves);
    finish(&net);
}

static void check_device(const char *device)
{
    assert_moves(device, "layer1.*", "layer1.conv.weight", false);
    assert_moves(device, "layer1.*", "layer1.bn.running_mean", false);
    assert_moves(device, "layer1.*", "layer1.bn.num_batches_tracked", false);
    assert_moves(device, "layer1.*", "layer2.conv.weight", true);
    assert_moves(device, "layer1.*", "layer2.bn.running_mean", true);
    assert_moves(device, "layer2.*", "layer1.conv.weight", true);
    assert_moves(device, "layer2.*", "layer2.bn.running_var", false);
    assert_moves(device, "*.bias", "layer1.bn.bias", false);
    assert_moves(device, "*.bias", "layer1.bn.running_mean", true); /* its weight is trained */
}

YK_TEST(frozen_tensors_do_not_move)
{
    check_device("ref");
    check_device("cpu");
}

static size_t backward_steps(const char *frozen)
{
    network net;
    start(&net, "cpu", frozen);
    forward(&net);
    const yki_plan *plan = net.model->executor.current->plan;
    size_t steps = plan->step_count - plan->forward_count;
    finish(&net);
    return steps;
}

static size_t activations(const char *frozen)
{
    network net;
    yk_memory_plan plan;
    start(&net, "cpu", frozen);
    assert_ok(yk_model_memory_plan(net.model, 4096, &plan));
    finish(&net);
    return plan.activations;
}

YK_TEST(backward_ends_where_only_frozen_parts_are_left)
{
    assert_true(backward_steps("layer*") <= 2); /* the head's alone */
    assert_true(backward_steps("layer1.*") < backward_steps(NULL));
    assert_true(activations("layer*") < activations(NULL));
}

/* A frozen norm in the middle: what is before it has the gradient of evaluation mode. */
YK_TEST(gradients_pass_through_a_frozen_norm)
{
    network frozen, reference;
    start(&frozen, "cpu", "layer2.*");
    start(&reference, "ref", "layer2.*");
    step(&frozen);
    step(&reference);
    yk_tensor a = find(&frozen, "layer1.conv.weight").grad;
    yk_tensor b = find(&reference, "layer1.conv.weight").grad;
    double largest = 0;
    for (int i = 0; i < 24; i++) {
        largest = fmax(largest, fabs((double)((float *)b.data)[i]));
        assert_true(fabs((double)((float *)a.data)[i] - (double)((float *)b.data)[i]) < 1e-5);
    }
    assert_true(largest > 1e-4);
    finish(&frozen);
    finish(&reference);
}

static void assert_same(const yk_tensor *a, const yk_tensor *b)
{
    for (int64_t i = 0; i < yk_tensor_count(a); i++)
        assert_true(fabs(yk_tensor_get(a, i) - yk_tensor_get(b, i)) < 1e-6);
}

/* As in PyTorch's GANs: the discriminator's norms normalise with the batch that the generator has
 * made, whether their weights are trained or not. */
YK_TEST(frozen_norms_may_use_the_batch)
{
    static const char *const devices[] = {"ref", "cpu"};
    for (int i = 0; i < 2; i++) {
        network frozen, trained;
        start_with(&frozen, devices[i], "*.bn.*", true);
        start(&trained, devices[i], NULL);
        step(&frozen);
        step(&trained);
        assert_true(fabs(yk_model_loss(frozen.model) - yk_model_loss(trained.model)) < 1e-6);
        static const char *const names[] = {"layer1.conv.weight", "layer2.bn.running_mean",
                                            "layer2.bn.running_var"};
        for (int n = 0; n < 3; n++) {
            yk_parameter_view a = find(&frozen, names[n]), b = find(&trained, names[n]);
            assert_same(&a.value, &b.value);
        }
        yk_parameter_view scale = find(&frozen, "layer2.bn.weight");
        assert_true(yk_tensor_get(&scale.value, 0) == 1);
        finish(&frozen);
        finish(&trained);
    }
}

YK_TEST(frozen_parameters_are_marked)
{
    network net;
    start(&net, "ref", "layer1.*");
    assert_false(find(&net, "layer1.bn.weight").trainable);
    assert_true(find(&net, "fc.weight").trainable);
    assert_false(find(&net, "layer2.bn.running_mean").trainable);
    step(&net);
    assert_true(((float *)find(&net, "layer1.conv.weight").grad.data)[0] == 0);
    finish(&net);
}

YK_TEST(patterns_match_or_are_refused)
{
    size_t count;
    network net = {.graph = NULL};
    yk_value *loss = build(&net);
    assert_ok(yk_graph_set_trainable(net.graph, "*", false, &count));
    assert_int_equal(count, 8);
    assert_ok(yk_graph_set_trainable(net.graph, "fc.*", true, &count));
    assert_int_equal(count, 2);
    assert_status(YK_ERROR_NOT_FOUND, yk_graph_set_trainable(net.graph, "head.*", false, &count));
    assert_contains(yk_last_error(), "no parameter has a name like \"head.*\"");
    assert_int_equal(count, 0);
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_graph_set_trainable(NULL, "*", false, NULL));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_graph_set_trainable(net.graph, NULL, false, NULL));
    assert_ok(yk_model_create(&net.model, loss, NULL));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_graph_set_trainable(net.graph, "*", false, NULL));
    yk_model_destroy(net.model);
}

/* As in PyTorch: such a loss does not require grad, and such an optimizer has nothing to do. It can
 * still be computed. */
YK_TEST(a_network_of_which_nothing_is_trained_is_not_trained)
{
    network net = {.graph = NULL};
    yk_value *loss = build(&net);
    assert_ok(yk_graph_set_trainable(net.graph, "*", false, NULL));
    assert_ok(yk_model_create(&net.model, loss, NULL));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_sgd_create(&net.optimizer, net.model, NULL));
    assert_contains(yk_last_error(), "optimizer: nothing is trained");
    assert_contains(yk_last_error(), "thaw some with yk_graph_set_trainable");
    assert_null(net.optimizer);
    make_batch(&net);
    forward(&net);
    assert_true(isfinite(yk_model_loss(net.model)));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_model_backward(net.model));
    assert_contains(yk_last_error(), "backward: nothing is trained");
    yk_model_destroy(net.model);
}

/* The whitening and the scales of norms are no part of what a pattern thaws. */
YK_TEST(what_a_layer_keeps_fixed_is_not_thawed)
{
    yk_graph *graph = yk_graph_create();
    yk_value *images = yk_input(graph, "images", YK_F32, 4, (int64_t[]){YK_BATCH, 3, 32, 32});
    yk_value *labels = yk_input(graph, "labels", YK_I32, 1, (int64_t[]){YK_BATCH});
    yk_value *loss = yk_cross_entropy(yk_airbench94(images, 10), labels, NULL);
    yk_model *model;
    assert_ok(yk_graph_set_trainable(graph, "*", false, NULL));
    assert_ok(yk_graph_set_trainable(graph, "*", true, NULL));
    assert_ok(yk_model_create(&model, loss, NULL));
    for (size_t i = 0; i < yk_model_parameter_count(model); i++) {
        yk_parameter_view view = yk_model_parameter(model, i);
        bool is_scale = strstr(view.name, "norm") && strstr(view.name, ".weight");
        bool is_fixed = is_scale || strcmp(view.name, "whiten.weight") == 0;
        if (view.trainable == is_fixed)
            fail_msg("%s is %strained", view.name, view.trainable ? "" : "not ");
    }
    yk_model_destroy(model);
}

YK_TEST_RANKS(frozen_parameters_are_not_communicated, 2)
{
    network net;
    yk_ddp *ddp;
    yk_group *group;
    (void)rank;
    (void)world;
    assert_ok(yk_group_init(&group, NULL));
    start(&net, "cpu", "layer*");
    assert_ok(yk_ddp_create(&ddp, net.model, group, NULL));
    assert_int_equal(ddp->used, 2); /* the head's */
    step(&net);
    float weight = ((float *)find(&net, "fc.weight").value.data)[0], other = weight;
    assert_ok(yk_broadcast(group, &other, 1, YK_F32, 0, NULL));
    assert_true(weight == other);
    yk_ddp_destroy(ddp);
    finish(&net);
    yk_group_destroy(group);
}

YK_TEST_RANKS(ranks_that_freeze_differently_are_refused, 2)
{
    network net;
    yk_ddp *ddp;
    yk_group *group;
    (void)world;
    assert_ok(yk_group_init(&group, NULL));
    start(&net, "cpu", rank == 0 ? "layer1.*" : NULL);
    assert_status(YK_ERROR_MISMATCH, yk_ddp_create(&ddp, net.model, group, NULL));
    assert_contains(yk_last_error(), "frozen");
    finish(&net);
    yk_group_destroy(group);
}

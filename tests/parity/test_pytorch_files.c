/*
 * Files that PyTorch and torchvision read from yoke, and yoke from them; and optimizers that go on
 * in PyTorch where yoke stopped. Skipped where PyTorch is not installed (python3-torch,
 * python3-torchvision).
 */
#define _GNU_SOURCE
#include "harness.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hidden_layers.h"
#include "pytorch.h"

static void python(const char *command, const char *argument)
{
    pytorch_judges("pytorch_files.py", "%s %s %s", command, yk_test_directory(), argument);
}

static const char *file_path(const char *name, const char *ending)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s%s", yk_test_directory(), name, ending);
    return path;
}

static yk_model *make(yk_value *logits, yk_graph *graph)
{
    yk_value *labels = yk_input(graph, "labels", YK_I32, 1, (int64_t[]){YK_BATCH});
    yk_model *model;
    assert_ok(yk_model_create(
        &model, yk_cross_entropy(logits, labels, NULL),
        YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.device = "ref", o.seed = 3)));
    return model;
}

/* ---- the networks --------------------------------------------------------------------------- */

static void check_network(const char *name, int64_t side)
{
    yk_graph *graph = yk_graph_create();
    yk_value *images = yk_input(graph, "images", YK_F32, 4, (int64_t[]){YK_BATCH, 3, side, side});
    yk_model *model = make(yk_arch_find(name)(images, 10), graph);
    assert_ok(yk_model_save(model, file_path(name, ".pth")));
    yk_model_destroy(model);
    python("state_dict", name);
}

YK_TEST(torchvision_loads_resnet18)
{
    check_network("resnet18-cifar", 32);
}

YK_TEST(torchvision_loads_resnet18_imagenet)
{
    check_network("resnet18", 224);
}

YK_TEST(torchvision_loads_resnet50)
{
    check_network("resnet50", 224);
}

YK_TEST(torchvision_loads_resnext50)
{
    check_network("resnext50-32x4d", 224);
}

YK_TEST(torchvision_loads_mobilenet_v2)
{
    check_network("mobilenet-v2", 224);
}

YK_TEST(torchvision_loads_mobilenet_v3)
{
    check_network("mobilenet-v3-large", 224);
    check_network("mobilenet-v3-small", 224);
}

YK_TEST(torchvision_loads_mnasnet)
{
    check_network("mnasnet0-5", 224);
}

YK_TEST(torchvision_loads_shufflenet)
{
    check_network("shufflenet-v2-x0-5", 224);
}

YK_TEST(torchvision_loads_efficientnet)
{
    check_network("efficientnet-b0", 224);
}

YK_TEST(torchvision_loads_regnet)
{
    check_network("regnet-y-400mf", 224);
    check_network("regnet-x-400mf", 224);
}

YK_TEST(torchvision_loads_densenet)
{
    check_network("densenet121", 224);
}

YK_TEST(torchvision_loads_squeezenet)
{
    check_network("squeezenet1-0", 224);
}

YK_TEST(torchvision_loads_googlenet)
{
    check_network("googlenet", 224);
}

YK_TEST(torchvision_loads_convnext)
{
    check_network("convnext-tiny", 224);
}

YK_TEST(torchvision_loads_swin)
{
    check_network("swin-t", 224);
    check_network("swin-v2-t", 256);
}

YK_TEST(torchvision_loads_vit_b_16)
{
    check_network("vit-b-16", 224);
}

/* ---- optimizers ----------------------------------------------------------------------------- */

static yk_model *make_small(void)
{
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "images", YK_F32, 4, (int64_t[]){YK_BATCH, 3, 8, 8});
    x = yk_nn_batch_norm(yk_nn_conv2d(x, "conv", 4, 3, NULL), "bn");
    return make(yk_nn_linear(yk_flatten(yk_global_avg_pool2d(x)), "fc", 10), graph);
}

static void steps(yk_model *model, yk_optimizer *optimizer, int count)
{
    for (int64_t step = yk_optimizer_steps(optimizer), end = step + count; step < end; step++) {
        for (size_t p = 0; p < yk_model_parameter_count(model); p++) {
            yk_tensor grad = yk_model_parameter(model, p).grad;
            for (int64_t i = 0; i < yk_tensor_count(&grad); i++)
                ((float *)grad.data)[i] =
                    (float)(0.1 * sin(0.37 * (double)i + (double)step + 3 * (double)p));
        }
        assert_ok(yk_optimizer_step(optimizer));
    }
}

static void assert_close(const char *name, yk_tensor a, yk_tensor b)
{
    for (int64_t i = 0; i < yk_tensor_count(&a); i++) {
        double left = (double)((float *)a.data)[i], right = (double)((float *)b.data)[i];
        if (!(fabs(left - right) <= 1e-6 * (1 + fabs(right))))
            fail_msg("%s, element %d: %.9g here, %.9g in PyTorch", name, (int)i, left, right);
    }
}

/* 3 steps here, saved; 20 more here and in PyTorch from the file; both save the same. */
static void check_optimizer(const char *name, yk_model *model, yk_optimizer *optimizer,
                            yk_model *other, yk_optimizer *fresh)
{
    yk_training_state training = {.arch = "small", .step = 3};
    steps(model, optimizer, 3);
    assert_ok(yk_checkpoint_save(file_path(name, ".pth"), model, optimizer, &training));
    steps(model, optimizer, 20);
    python("train_on", name);
    assert_ok(yk_checkpoint_load(file_path(name, ".torch.pth"), other, fresh, NULL));

    const char *slot_name;
    yk_tensor here, there;
    for (size_t p = 0; p < yk_model_parameter_count(model); p++) {
        yk_parameter_view view = yk_model_parameter(model, p);
        assert_close(view.name, view.value, yk_model_parameter(other, p).value);
        for (size_t slot = 0; yk_optimizer_state(optimizer, p, slot, &slot_name, &here); slot++) {
            assert_true(yk_optimizer_state(fresh, p, slot, &slot_name, &there));
            assert_close(slot_name, here, there);
        }
    }
    assert_true(yk_optimizer_lr(fresh) == yk_optimizer_lr(optimizer));
    yk_optimizer_destroy(optimizer);
    yk_optimizer_destroy(fresh);
    yk_model_destroy(model);
    yk_model_destroy(other);
}

static void check_sgd(const yk_sgd_options *options)
{
    yk_model *model = make_small(), *other = make_small();
    yk_optimizer *optimizer, *fresh;
    assert_ok(yk_sgd_create(&optimizer, model, options));
    assert_ok(yk_sgd_create(
        &fresh, other,
        YK_WITH(yk_sgd_options, YK_SGD_OPTIONS_INIT, o.lr = 5, o.momentum = options->momentum)));
    check_optimizer("sgd", model, optimizer, other, fresh);
}

static void check_adam(const yk_adam_options *options)
{
    yk_model *model = make_small(), *other = make_small();
    yk_optimizer *optimizer, *fresh;
    assert_ok(yk_adam_create(&optimizer, model, options));
    assert_ok(
        yk_adam_create(&fresh, other,
                       YK_WITH(yk_adam_options, YK_ADAM_OPTIONS_INIT,
                               o.decoupled = options->decoupled, o.amsgrad = options->amsgrad)));
    int64_t before = yk_optimizer_steps(fresh);
    assert_int_equal(before, 0);
    check_optimizer(options->decoupled ? "adamw" : "adam", model, optimizer, other, fresh);
}

static void check_rmsprop(const yk_rmsprop_options *options)
{
    yk_model *model = make_small(), *other = make_small();
    yk_optimizer *optimizer, *fresh;
    assert_ok(yk_rmsprop_create(&optimizer, model, options));
    assert_ok(
        yk_rmsprop_create(&fresh, other,
                          YK_WITH(yk_rmsprop_options, YK_RMSPROP_OPTIONS_INIT,
                                  o.momentum = options->momentum, o.centered = options->centered)));
    check_optimizer("rmsprop", model, optimizer, other, fresh);
}

YK_TEST(pytorch_goes_on_with_sgd)
{
    check_sgd(YK_WITH(yk_sgd_options, YK_SGD_OPTIONS_INIT, o.lr = 0.1, o.momentum = 0.9,
                      o.weight_decay = 5e-4));
}

YK_TEST(pytorch_goes_on_with_plain_sgd)
{
    check_sgd(YK_WITH(yk_sgd_options, YK_SGD_OPTIONS_INIT, o.lr = 0.1, o.weight_decay = 5e-4));
}

YK_TEST(pytorch_goes_on_with_dampened_sgd)
{
    check_sgd(YK_WITH(yk_sgd_options, YK_SGD_OPTIONS_INIT, o.lr = 0.1, o.momentum = 0.9,
                      o.dampening = 0.3));
}

YK_TEST(pytorch_goes_on_with_nesterov)
{
    check_sgd(YK_WITH(yk_sgd_options, YK_SGD_OPTIONS_INIT, o.lr = 0.05, o.momentum = 0.9,
                      o.weight_decay = 5e-4, o.nesterov = true));
}

YK_TEST(pytorch_goes_on_with_adam)
{
    check_adam(YK_WITH(yk_adam_options, YK_ADAM_OPTIONS_INIT, o.lr = 0.002, o.beta1 = 0.85,
                       o.weight_decay = 0.01));
}

YK_TEST(pytorch_goes_on_with_adamw)
{
    check_adam(YK_WITH(yk_adam_options, YK_ADAM_OPTIONS_INIT, o.lr = 0.002, o.weight_decay = 0.05,
                       o.decoupled = true));
}

YK_TEST(pytorch_goes_on_with_amsgrad)
{
    check_adam(YK_WITH(yk_adam_options, YK_ADAM_OPTIONS_INIT, o.lr = 0.01, o.beta2 = 0.8,
                       o.weight_decay = 0.01, o.amsgrad = true));
    check_adam(YK_WITH(yk_adam_options, YK_ADAM_OPTIONS_INIT, o.lr = 0.01, o.beta2 = 0.8,
                       o.weight_decay = 0.1, o.decoupled = true, o.amsgrad = true));
}

YK_TEST(pytorch_goes_on_with_nadam)
{
    yk_model *model = make_small(), *other = make_small();
    yk_optimizer *optimizer, *fresh;
    assert_ok(yk_nadam_create(&optimizer, model,
                              YK_WITH(yk_nadam_options, YK_NADAM_OPTIONS_INIT, o.beta1 = 0.8,
                                      o.momentum_decay = 0.1, o.weight_decay = 0.01)));
    assert_ok(yk_nadam_create(&fresh, other, NULL));
    check_optimizer("nadam", model, optimizer, other, fresh);
}

/* Its steps are rectified from the sixth on, which PyTorch takes. */
YK_TEST(pytorch_goes_on_with_radam)
{
    yk_model *model = make_small(), *other = make_small();
    yk_optimizer *optimizer, *fresh;
    assert_ok(yk_radam_create(
        &optimizer, model,
        YK_WITH(yk_radam_options, YK_RADAM_OPTIONS_INIT, o.beta1 = 0.8, o.weight_decay = 0.01)));
    assert_ok(yk_radam_create(&fresh, other, NULL));
    check_optimizer("radam", model, optimizer, other, fresh);
}

YK_TEST(pytorch_goes_on_with_adamax)
{
    yk_model *model = make_small(), *other = make_small();
    yk_optimizer *optimizer, *fresh;
    assert_ok(yk_adamax_create(
        &optimizer, model,
        YK_WITH(yk_adamax_options, YK_ADAMAX_OPTIONS_INIT, o.beta2 = 0.8, o.weight_decay = 0.01)));
    assert_ok(yk_adamax_create(&fresh, other, NULL));
    check_optimizer("adamax", model, optimizer, other, fresh);
}

YK_TEST(pytorch_goes_on_with_adagrad)
{
    yk_model *model = make_small(), *other = make_small();
    yk_optimizer *optimizer, *fresh;
    assert_ok(yk_adagrad_create(&optimizer, model,
                                YK_WITH(yk_adagrad_options, YK_ADAGRAD_OPTIONS_INIT, o.lr = 0.05,
                                        o.lr_decay = 0.1, o.weight_decay = 0.01, o.eps = 1e-6,
                                        o.initial_accumulator_value = 0.2)));
    assert_ok(yk_adagrad_create(&fresh, other, NULL));
    check_optimizer("adagrad", model, optimizer, other, fresh);
}

YK_TEST(pytorch_goes_on_with_adadelta)
{
    yk_model *model = make_small(), *other = make_small();
    yk_optimizer *optimizer, *fresh;
    assert_ok(yk_adadelta_create(&optimizer, model,
                                 YK_WITH(yk_adadelta_options, YK_ADADELTA_OPTIONS_INIT, o.lr = 0.5,
                                         o.rho = 0.8, o.weight_decay = 0.01)));
    assert_ok(yk_adadelta_create(&fresh, other, NULL));
    check_optimizer("adadelta", model, optimizer, other, fresh);
}

YK_TEST(pytorch_goes_on_with_rmsprop)
{
    check_rmsprop(YK_WITH(yk_rmsprop_options, YK_RMSPROP_OPTIONS_INIT, o.lr = 0.002, o.alpha = 0.9,
                          o.weight_decay = 0.01));
    check_rmsprop(YK_WITH(yk_rmsprop_options, YK_RMSPROP_OPTIONS_INIT, o.lr = 0.002, o.eps = 1e-3,
                          o.momentum = 0.9));
}

YK_TEST(pytorch_goes_on_with_centered_rmsprop)
{
    check_rmsprop(
        YK_WITH(yk_rmsprop_options, YK_RMSPROP_OPTIONS_INIT, o.lr = 0.002, o.centered = true));
    check_rmsprop(YK_WITH(yk_rmsprop_options, YK_RMSPROP_OPTIONS_INIT, o.lr = 0.002,
                          o.momentum = 0.9, o.centered = true));
}

/* (K, C, 1, L) = (3, 2, 1, 5) */
static yk_model *make_row_convolution(void)
{
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "images", YK_F32, 4, (int64_t[]){YK_BATCH, 2, 1, 9});
    yk_conv2d_options options = YK_CONV2D_OPTIONS_INIT;
    options.column_kernel = 5;
    x = yk_nn_conv2d_bias(x, "conv", 3, 1, &options);
    return make(yk_flatten(yk_global_avg_pool2d(x)), graph);
}

static void check_conv1d(const char *name, yk_model *model, yk_optimizer *optimizer)
{
    char after[32];
    yk_model *other = make_row_convolution();
    snprintf(after, sizeof after, "%s_after", name);
    assert_ok(yk_checkpoint_load(file_path(name, ".pth"), model, optimizer, NULL));
    yk_optimizer_set_steps(optimizer, 3); /* SGD's file does not say */
    steps(model, optimizer, 5);
    assert_ok(yk_model_load(other, file_path(after, ".pth")));
    for (size_t p = 0; p < 2; p++)
        assert_close(name, yk_model_parameter(model, p).value, yk_model_parameter(other, p).value);
    yk_optimizer_destroy(optimizer);
    yk_model_destroy(model);
    yk_model_destroy(other);
}

YK_TEST(optimizers_of_conv1d_go_on_over_images_of_one_row)
{
    python("conv1d", "");
    yk_model *model = make_row_convolution();
    yk_optimizer *optimizer;
    assert_ok(yk_sgd_create(&optimizer, model,
                            YK_WITH(yk_sgd_options, YK_SGD_OPTIONS_INIT, o.momentum = 0.9)));
    check_conv1d("sgd", model, optimizer);
    model = make_row_convolution();
    assert_ok(yk_adam_create(&optimizer, model, NULL));
    check_conv1d("adam", model, optimizer);
}

/* ---- PyTorch's files ------------------------------------------------------------------------ */

YK_TEST(odd_files_of_pytorch_are_read)
{
    static const char *const names[] = {
        "module", "nested", "float64",  "float16",    "bfloat16",   "views",     "deflated",
        "part",   "whole",  "gathered", "protocol_3", "protocol_4", "protocol_5"};
    python("odd_files", "");
    yk_model *plain = make_small();
    assert_ok(yk_model_load(plain, file_path("plain", ".pth")));
    assert_int_equal(*(int64_t *)yk_model_buffer(plain, 2).value.data, 42);
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        yk_model *model = make_small();
        assert_ok(yk_model_load(model, file_path(names[n], ".pth")));
        for (size_t i = 0; i < yk_model_parameter_count(model); i++) {
            yk_parameter_view view = yk_model_parameter(model, i);
            if (memcmp(view.value.data, yk_model_parameter(plain, i).value.data,
                       yk_tensor_bytes(&view.value)) != 0)
                fail_msg("%s.pth: %s differs", names[n], view.name);
        }
        for (size_t i = 0; i < yk_model_buffer_count(model); i++) {
            yk_parameter_view view = yk_model_buffer(model, i);
            if (memcmp(view.value.data, yk_model_buffer(plain, i).value.data,
                       yk_tensor_bytes(&view.value)) != 0)
                fail_msg("%s.pth: %s differs", names[n], view.name);
        }
        yk_model_destroy(model);
    }
    yk_model_destroy(plain);
}

/* Every tensor of two models bit for bit. */
static void assert_same_model(const char *name, const yk_model *a, const yk_model *b)
{
    size_t parameters = yk_model_parameter_count(a);
    for (size_t i = 0; i < parameters + yk_model_buffer_count(a); i++) {
        bool buffer = i >= parameters;
        yk_parameter_view left =
            buffer ? yk_model_buffer(a, i - parameters) : yk_model_parameter(a, i);
        yk_parameter_view right =
            buffer ? yk_model_buffer(b, i - parameters) : yk_model_parameter(b, i);
        if (memcmp(left.value.data, right.value.data, yk_tensor_bytes(&left.value)) != 0)
            fail_msg("%s: %s differs", name, left.name);
    }
}

YK_TEST(every_dtype_of_pytorch_is_read)
{
    static const char *const kinds[][9] = {
        {"signed", "float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8"},
        {"bits", "float32", "uint8", "bool", "uint16", "uint32", "uint64"}};
    python("every_dtype", "");
    for (size_t k = 0; k < 2; k++) {
        yk_model *expected = make_small(), *model = make_small();
        char name[64];
        for (size_t d = 1; d < 9 && kinds[k][d]; d++) {
            snprintf(name, sizeof name, "%s-%s", kinds[k][0], kinds[k][d]);
            if (access(file_path(name, ".pth"), F_OK) != 0)
                continue; /* this version of PyTorch does not know the dtype */
            assert_ok(yk_model_load(d == 1 ? expected : model, file_path(name, ".pth")));
            if (d > 1)
                assert_same_model(name, expected, model);
            /* And through safetensors, which keeps the dtype. */
            char from[256];
            snprintf(from, sizeof from, "%s", file_path(name, ".pth"));
            assert_ok(yk_tensor_file_convert(from, file_path(name, ".safetensors"), NULL));
            assert_ok(yk_model_load(model, file_path(name, ".safetensors")));
            assert_same_model(name, expected, model);
        }
        yk_model_destroy(expected);
        yk_model_destroy(model);
    }
}

YK_TEST(what_pytorch_writes_and_yoke_does_not_read_is_named)
{
    static const struct {
        const char *name, *words;
    } cases[] = {{"legacy", "is in PyTorch's legacy format from before 1.6: load and save"},
                 {"complex", "is complex64: yoke reads dense tensors of floats"},
                 {"sparse", "sparse: yoke reads dense tensors of floats"},
                 {"script", "is a TorchScript program: save its state_dict()"},
                 {"module", "holds a whole module, which only Python can load: expected its state"},
                 {"checkpoint_of_module", "holds a whole module, which only Python can load"},
                 {"sharded", "holds one rank's part of a model that FSDP has sharded: save the"},
                 {"flat", "a model that FSDP has sharded and flattened: save the whole model in"},
                 {"optimizer", "holds an optimizer's state_dict: expected a model's"}};
    python("every_dtype", "");
    yk_model *model = make_small();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_not_equal(yk_model_load(model, file_path(cases[i].name, ".pth")), YK_OK);
        assert_contains(yk_last_error(), cases[i].words);
        assert_contains(yk_last_error(), file_path(cases[i].name, ".pth"));
    }
    assert_status(YK_ERROR_UNSUPPORTED, yk_model_load(model, file_path("__0_0", ".distcp")));
    assert_contains(yk_last_error(), "is a file of a distributed checkpoint of PyTorch: convert it "
                                     "with python -m torch.distributed.checkpoint.format_utils");
    yk_model_destroy(model);
}

static void find_items(void *context, const char *name, const char *value)
{
    int *found = context;
    *found += strcmp(name, "epoch") == 0 && strcmp(value, "3") == 0;
    *found += strcmp(name, "args") == 0 && strcmp(value, "a call of argparse.Namespace") == 0;
    *found += strcmp(name, "optimizer.param_groups[0].lr") == 0 && strcmp(value, "0.5") == 0;
    *found += strcmp(name, "numpy.bit_generator") == 0 && strcmp(value, "PCG64") == 0;
}

/* Each file loads into an optimizer of its own kind, and into no other. */
static void load_relatives(yk_model *model, const char *const *names)
{
    yk_optimizer *optimizers[3];
    assert_ok(yk_nadam_create(&optimizers[0], model, NULL));
    assert_ok(yk_radam_create(&optimizers[1], model, NULL));
    assert_ok(yk_adamax_create(&optimizers[2], model, NULL));
    for (int from = 0; from < 3; from++)
        for (int to = 0; to < 3; to++)
            assert_status(
                from == to ? YK_OK : YK_ERROR_MISMATCH,
                yk_checkpoint_load(file_path(names[from], ".pth"), model, optimizers[to], NULL));
    for (int i = 0; i < 3; i++) {
        assert_true(yk_optimizer_lr(optimizers[i]) == 0.5);
        assert_int_equal(yk_optimizer_steps(optimizers[i]), 1);
        yk_optimizer_destroy(optimizers[i]);
    }
}

YK_TEST(whatever_lies_beside_a_model_does_no_harm)
{
    python("odd_checkpoints", "");
    yk_model *model = make_small();
    yk_optimizer *optimizer;
    yk_tensor_file *file;
    int found = 0;
    assert_ok(yk_adam_create(&optimizer, model, NULL));
    assert_ok(yk_checkpoint_load(file_path("all", ".pth"), model, optimizer, NULL));
    assert_true(yk_optimizer_lr(optimizer) == 0.5);
    assert_ok(yk_tensor_file_open(&file, file_path("all", ".pth")));
    yk_tensor_file_items(file, find_items, &found);
    assert_int_equal(found, 4);
    yk_tensor_file_close(file);
    assert_ok(yk_checkpoint_load(file_path("wrapped_names", ".pth"), model, optimizer, NULL));
    assert_int_equal(yk_optimizer_steps(optimizer), 1);
    assert_ok(yk_checkpoint_load(file_path("tensor_lr", ".pth"), model, optimizer, NULL));
    assert_true(yk_optimizer_lr(optimizer) == 0.25);
    assert_status(YK_ERROR_UNSUPPORTED,
                  yk_checkpoint_load(file_path("maximize", ".pth"), model, optimizer, NULL));
    assert_contains(yk_last_error(), "its optimizer uses maximize");
    assert_ok(yk_model_load(model, file_path("maximize", ".pth")));
    static const char *const relatives[] = {"nadam", "radam", "adamax"};
    for (int i = 0; i < 3; i++) {
        assert_status(YK_ERROR_MISMATCH,
                      yk_checkpoint_load(file_path(relatives[i], ".pth"), model, optimizer, NULL));
        assert_contains(yk_last_error(), relatives[i]);
    }
    load_relatives(model, relatives);
    assert_status(YK_ERROR_MISMATCH,
                  yk_checkpoint_load(file_path("adamw", ".pth"), model, optimizer, NULL));
    assert_contains(yk_last_error(), "its optimizer is adamw, not adam");
    yk_optimizer_destroy(optimizer);
    yk_model_destroy(model);
}

/* ---- logits --------------------------------------------------------------------------------- */

enum { IMAGES = 4, CLASSES = 10 };

/* A network with readable logits, and a batch of the images that the other side makes up too. */
typedef struct network {
    yk_model *model;
    yk_tensor tensors[2];
    yk_batch batch;
} network;

static network make_network(const char *name, int64_t side)
{
    static const char *const names[] = {"images", "labels"};
    yk_graph *graph = yk_graph_create();
    yk_value *images = yk_input(graph, "images", YK_F32, 4, (int64_t[]){YK_BATCH, 3, side, side});
    yk_value *labels = yk_input(graph, "labels", YK_I32, 1, (int64_t[]){YK_BATCH});
    yk_value *logits = yk_arch_find(name)(images, CLASSES);
    network made = {.batch = {.size = IMAGES, .count = 2, .names = names}};
    int64_t count = IMAGES * 3 * side * side;
    float *pixels = malloc((size_t)count * sizeof *pixels);
    for (int64_t i = 0; i < count; i++)
        pixels[i] = (float)sin(0.7 * (double)i);
    made.tensors[0] =
        (yk_tensor){.data = pixels, .dtype = YK_F32, .ndim = 4, .dims = {IMAGES, 3, side, side}};
    made.tensors[1] = (yk_tensor){
        .data = calloc(IMAGES, sizeof(int32_t)), .dtype = YK_I32, .ndim = 1, .dims = {IMAGES}};
    assert_ok(yk_model_create(&made.model, yk_cross_entropy(logits, labels, NULL),
                              YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.seed = 3,
                                      o.logits = logits, o.winograd = false)));
    return made;
}

static void destroy_network(network *net)
{
    yk_model_destroy(net->model);
    free(net->tensors[0].data);
    free(net->tensors[1].data);
}

static const float *run_network(network *net)
{
    yk_tensor output;
    net->batch.tensors = net->tensors;
    yk_model_eval(net->model);
    assert_ok(yk_model_forward(net->model, &net->batch));
    assert_ok(yk_model_output(net->model, &output));
    return output.data;
}

/* The logits that PyTorch wrote beside ours of the file it wrote. */
static void compare_logits(network *net, const char *name, const char *ending, const char *kind)
{
    float expected[IMAGES * CLASSES];
    float largest = 0, difference = 0;
    assert_ok(yk_model_load(net->model, file_path(name, ending)));
    const float *found = run_network(net);
    FILE *stream = fopen(file_path(kind, ".logits"), "rb");
    assert_non_null(stream);
    assert_int_equal(fread(expected, sizeof *expected, IMAGES * CLASSES, stream), IMAGES * CLASSES);
    fclose(stream);
    for (int i = 0; i < IMAGES * CLASSES; i++)
        largest = fmaxf(largest, fabsf(expected[i]));
    for (int i = 0; i < IMAGES * CLASSES; i++)
        difference = fmaxf(difference, fabsf(expected[i] - found[i]));
    print_message("%s%s in yoke: largest difference of a logit %.1e of the largest logit\n", name,
                  ending, (double)(difference / largest));
    assert_true(difference < 1e-4 * largest);
}

static void check_logits(const char *name, int64_t side)
{
    char argument[64];
    network net = make_network(name, side);
    show_hidden_layers(net.model);
    const float *logits = run_network(&net);
    assert_ok(yk_model_save(net.model, file_path(name, ".pth")));
    assert_ok(yk_model_save(net.model, file_path(name, ".safetensors")));
    FILE *stream = fopen(file_path(name, ".logits"), "wb");
    assert_non_null(stream);
    fwrite(logits, sizeof *logits, IMAGES * CLASSES, stream);
    fclose(stream);
    snprintf(argument, sizeof argument, "%s %d", name, (int)side);
    python("logits", argument);
    compare_logits(&net, "fresh", ".pth", "fresh");
    compare_logits(&net, "optimizer", ".pth", "fresh");
    compare_logits(&net, "module", ".pth", "fresh");
    compare_logits(&net, "theirs", ".safetensors", "fresh");
    compare_logits(&net, "half", ".pth", "half");
    destroy_network(&net);
}

YK_TEST(the_same_logits_of_resnet18)
{
    check_logits("resnet18-cifar", 32);
}

YK_TEST(the_same_logits_of_resnet50)
{
    check_logits("resnet50", 32);
}

YK_TEST(the_same_logits_of_resnext50)
{
    check_logits("resnext50-32x4d", 32);
}

YK_TEST(the_same_logits_of_mobilenet_v2)
{
    check_logits("mobilenet-v2", 64);
}

YK_TEST(the_same_logits_of_mobilenet_v3)
{
    check_logits("mobilenet-v3-large", 64);
    check_logits("mobilenet-v3-small", 64);
}

YK_TEST(the_same_logits_of_mnasnet)
{
    check_logits("mnasnet0-5", 64);
}

YK_TEST(the_same_logits_of_shufflenet)
{
    check_logits("shufflenet-v2-x0-5", 64);
}

YK_TEST(the_same_logits_of_efficientnet)
{
    check_logits("efficientnet-b0", 128);
}

YK_TEST(the_same_logits_of_regnet)
{
    check_logits("regnet-y-400mf", 64);
}

YK_TEST(the_same_logits_of_densenet)
{
    check_logits("densenet121", 64);
}

YK_TEST(the_same_logits_of_squeezenet)
{
    check_logits("squeezenet1-0", 32);
}

YK_TEST(the_same_logits_of_googlenet)
{
    check_logits("googlenet", 32);
}

YK_TEST(the_same_logits_of_convnext)
{
    check_logits("convnext-tiny", 32);
}

YK_TEST(the_same_logits_of_swin)
{
    check_logits("swin-t", 32);
    check_logits("swin-v2-t", 32);
}

YK_TEST(the_same_logits_of_vit_tiny)
{
    check_logits("vit-tiny-patch4-32", 32);
}

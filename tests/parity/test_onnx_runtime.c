/*
 * Exported networks in ONNX Runtime: on the same images the same logits, within 1e-4 of the
 * largest. onnx_runtime.py judges, with the packages that scripts/install-deps installs from PyPI.
 */
#define _GNU_SOURCE
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness.h"
#include "hidden_layers.h"
#include "tensor_files.h"

enum { SAMPLES = 3, CLASSES = 7, FEATURES = 5, WORDS = 9 };

static char said[16384];

/* Values for an input, which take the place of those that it had. */
static void fill(yk_tensor *input, yk_tensor shape)
{
    free(input->data);
    *input = shape;
    input->data = malloc(yk_tensor_bytes(input));
    assert_non_null(input->data);
    int64_t count = yk_tensor_count(input);
    for (int64_t i = 0; i < count; i++) {
        int64_t sample = i / (count / SAMPLES);
        double pitch = 0.37 + 0.2 * (double)sample;
        ((float *)input->data)[i] = (float)sin(pitch * (double)i + 0.01 * (double)(i % 97));
    }
}

/* Images, and FEATURES numbers and tokens for each. */
static yk_batch *batch_of(int64_t side)
{
    static const char *const names[] = {"images", "features", "tokens"};
    static int32_t tokens[SAMPLES * FEATURES];
    static yk_tensor inputs[3];
    static yk_batch batch = {.size = SAMPLES, .count = 3, .names = names, .tensors = inputs};
    for (int i = 0; i < SAMPLES * FEATURES; i++)
        tokens[i] = i * i % WORDS;
    inputs[2] =
        (yk_tensor){.data = tokens, .dtype = YK_I32, .ndim = 2, .dims = {SAMPLES, FEATURES}};
    fill(&inputs[0], (yk_tensor){.dtype = YK_F32, .ndim = 4, .dims = {SAMPLES, 3, side, side}});
    fill(&inputs[1], (yk_tensor){.dtype = YK_F32, .ndim = 2, .dims = {SAMPLES, FEATURES}});
    return &batch;
}

/* Statistics as if something had been learned. They are small: what exceeds the values of a network
 * that is new would silence it. */
static void shake(yk_model *model)
{
    for (size_t i = 0; i < yk_model_buffer_count(model); i++) {
        yk_tensor value = yk_model_buffer(model, i).value;
        for (int64_t j = 0; value.dtype == YK_F32 && j < yk_tensor_count(&value); j++)
            ((float *)value.data)[j] += 0.02F * (float)(j % 7 - 3);
    }
    yk_model_parameters_changed(model);
}

/* The largest distance between the logits of two images. */
static float spread_of(yk_model *model, const yk_batch *batch)
{
    yk_tensor logits;
    float spread = 0;
    assert_ok(yk_model_forward(model, batch));
    assert_ok(yk_model_output(model, &logits));
    const float *values = logits.data;
    for (int64_t i = 0; i < yk_tensor_count(&logits); i++)
        spread = fmaxf(spread, fabsf(values[i] - values[i % CLASSES]));
    return spread;
}

/* Initial weights of convolutions preserve the size of gradients (PyTorch's mode="fan_out"). These
 * preserve the size of values, times `gain`, so that images reach the last layer. */
static void let_images_through(yk_model *model, float gain)
{
    for (size_t i = 0; i < yk_model_parameter_count(model); i++) {
        yk_tensor value = yk_model_parameter(model, i).value;
        float scale = gain * sqrtf((float)value.dims[0] / (float)value.dims[1]);
        for (int64_t j = 0; value.ndim == 4 && j < yk_tensor_count(&value); j++)
            ((float *)value.data)[j] *= scale;
    }
    yk_model_parameters_changed(model);
}

/* Scales the weights of the last layer so that the logits of images differ by about 1, as those of
 * a trained network do at least. What goes wrong before that layer would hide below the bound else.
 */
static void tell_images_apart(yk_model *model, const yk_batch *batch)
{
    float scale = 1 / spread_of(model, batch);
    yk_tensor head = {.ndim = 0};
    for (size_t i = 0; i < yk_model_parameter_count(model); i++)
        if (yk_model_parameter(model, i).value.ndim > 1)
            head = yk_model_parameter(model, i).value;
    for (int64_t j = 0; j < yk_tensor_count(&head); j++)
        ((float *)head.data)[j] *= scale;
    yk_model_parameters_changed(model);
}

static yk_model *make_model(yk_value *logits, yk_amp amp)
{
    yk_model *model;
    assert_ok(yk_model_create(&model, NULL,
                              YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.logits = logits,
                                      o.seed = 1, o.amp = amp)));
    shake(model);
    return model;
}

/* Exports, runs and judges the model, and destroys it. */
static void judge(yk_model *model, int64_t side)
{
    yk_tensor logits;
    yk_batch *batch = batch_of(side);
    assert_ok(yk_model_forward(model, batch));
    assert_ok(yk_model_output(model, &logits));
    for (int i = 0; i < batch->count; i++)
        write_floats(batch->names[i], &batch->tensors[i]);
    write_floats("logits", &logits);
    assert_ok(yk_model_export_onnx(model, file_of("model.onnx")));
    yk_model_destroy(model);
    int code =
        yk_test_command(said, sizeof said,
                        "cd %s && %s/python/bin/python3 %s/tests/parity/onnx_runtime.py "
                        "model.onnx logits %d 2>&1",
                        yk_test_directory(), getenv("YOKE_BUILD"), getenv("YOKE_SOURCE"), SAMPLES);
    if (code == 77 || code == 127)
        skip_because("no ONNX Runtime here (scripts/install-deps pypi installs it): %s", said);
    fputs(said, stdout);
    assert_int_equal(code, 0);
    unlink(file_of("model.onnx"));
}

static yk_value *images_of(int64_t side)
{
    return yk_input(yk_graph_create(), "images", YK_F32, 4, (int64_t[]){YK_BATCH, 3, side, side});
}

/* SiLU halves small values, and new layers of squeeze and excitation halve all. GoogLeNet starts
 * with smaller filters than others. */
static float gain_of(const char *arch)
{
    return strncmp(arch, "efficientnet", 12) == 0 ? 1.7F : strcmp(arch, "googlenet") == 0 ? 6 : 1;
}

static void judge_arch(const char *arch, int64_t side)
{
    printf("%s\n", arch);
    yk_model *model = make_model(yk_arch_find(arch)(images_of(side), CLASSES), YK_AMP_OFF);
    show_hidden_layers(model);
    let_images_through(model, gain_of(arch));
    tell_images_apart(model, batch_of(side));
    judge(model, side);
}

YK_TEST(networks_for_small_images_have_the_same_logits)
{
    judge_arch("mlp", 32);
    judge_arch("resnet9", 32);
    judge_arch("resnet18-cifar", 32);
    judge_arch("airbench94", 32);
    judge_arch("airbench96", 32);
}

YK_TEST(torchvisions_networks_have_the_same_logits)
{
    judge_arch("resnet18", 64);
    judge_arch("resnet50", 96);
    judge_arch("resnext50-32x4d", 64);
    judge_arch("regnet-y-400mf", 64);
    judge_arch("regnet-x-400mf", 64);
    judge_arch("convnext-tiny", 64);
    judge_arch("densenet121", 64);
}

YK_TEST(networks_for_small_devices_have_the_same_logits)
{
    judge_arch("mobilenet-v2", 64);
    judge_arch("mobilenet-v3-large", 64);
    judge_arch("mobilenet-v3-small", 64);
    judge_arch("mnasnet0-5", 64);
    judge_arch("shufflenet-v2-x0-5", 64);
    judge_arch("efficientnet-b0", 64);
    judge_arch("efficientnet-v2-s", 64);
    judge_arch("squeezenet1-0", 64);
    judge_arch("squeezenet1-1", 64);
    judge_arch("googlenet", 64);
}

YK_TEST(vision_transformers_have_the_same_logits)
{
    judge_arch("vit-tiny-patch4-32", 32);
    judge_arch("vit-b-32", 64);
}

YK_TEST(swin_transformers_have_the_same_logits)
{
    judge_arch("swin-t", 64);
    judge_arch("swin-v2-t", 72);
}

YK_TEST(alexnet_has_the_same_logits)
{
    judge_arch("alexnet", 96);
}

/* Half a gigabyte of weights. */
YK_TEST(vgg_has_the_same_logits)
{
    judge_arch("vgg11-bn", 224);
}

/* All networks whose names begin so; most have hundreds of megabytes of weights. */
static void judge_family(const char *begin)
{
    if (!getenv("YK_TEST_LARGE"))
        skip_because("it exports gigabytes of weights; YK_TEST_LARGE=1 runs it");
    for (size_t i = 0; yk_arch_name(i); i++) {
        const char *arch = yk_arch_name(i);
        bool small = strstr(arch, "cifar") || strcmp(arch, "resnet9") == 0;
        bool huge = strcmp(arch, "regnet-y-128gf") == 0; /* a file holds less than 2 GiB */
        if (strncmp(arch, begin, strlen(begin)) == 0 && !huge)
            judge_arch(arch, small ? 32 : 64);
    }
}

YK_TEST(every_resnet_has_the_same_logits)
{
    judge_family("resnet");
}

YK_TEST(every_resnext_and_wide_resnet_has_the_same_logits)
{
    judge_family("resnext");
    judge_family("wide-resnet");
}

YK_TEST(every_mnasnet_and_shufflenet_has_the_same_logits)
{
    judge_family("mnasnet");
    judge_family("shufflenet");
}

YK_TEST(every_regnet_x_has_the_same_logits)
{
    judge_family("regnet-x");
}

YK_TEST(every_regnet_y_has_the_same_logits)
{
    judge_family("regnet-y");
}

YK_TEST(every_convnext_has_the_same_logits)
{
    judge_family("convnext");
}

YK_TEST(every_densenet_has_the_same_logits)
{
    judge_family("densenet");
}

YK_TEST(every_vgg11_has_the_same_logits)
{
    judge_family("vgg11");
}

YK_TEST(every_vgg13_has_the_same_logits)
{
    judge_family("vgg13");
}

YK_TEST(every_vgg16_has_the_same_logits)
{
    judge_family("vgg16");
}

YK_TEST(every_vgg19_has_the_same_logits)
{
    judge_family("vgg19");
}

static yk_value *choices_of(yk_value *x)
{
    yk_value *bound = yk_full_like(x, 0.25),
             *y = yk_minimum(yk_maximum(x, yk_scale(x, -0.5)), bound);
    yk_value *equal = yk_masked_fill(x, yk_equal(y, bound), 0.75);
    return yk_where(yk_less(x, yk_full_like(x, -0.1)), y, yk_multiply(equal, yk_greater(y, x)));
}

/* Products of several heads and of one, with either side transposed. */
static yk_value *products_of(yk_value *x)
{
    yk_value *gram = yk_matmul(yk_permute(x, 4, (int64_t[]){0, 1, 3, 2}), x);
    yk_value *rows = yk_reshape(x, 3, (int64_t[]){YK_BATCH, -1, 2});
    yk_value *scores = yk_matmul(rows, yk_permute(rows, 3, (int64_t[]){0, 2, 1}));
    rows = yk_matmul(yk_add(yk_softmax(scores), yk_scale(yk_log_softmax(scores), 0.01)), rows);
    x = yk_add(yk_matmul(x, gram), yk_reshape(rows, 4, (int64_t[]){YK_BATCH, 28, 13, 2}));
    return yk_scale(x, 0.1);
}

/* Every operator that has a counterpart and is in none of these networks. */
static yk_value *all_operators(yk_value *x)
{
    yk_graph *graph = yk_value_graph(x);
    x = yk_nn_batch_norm(yk_nn_conv2d(x, "conv", 8, 3, NULL), "bn"); /* (N, 8, 14, 14) */
    yk_value *across =
        yk_nn_conv2d(x, "across", 8, 1,
                     YK_WITH(yk_conv2d_options, YK_CONV2D_OPTIONS_INIT, o.column_kernel = 5,
                             o.column_padding = 4, o.column_dilation = 2));
    yk_pool2d_options rows_of_three = YK_POOL2D_OPTIONS_INIT;
    rows_of_three.column_kernel = 3;
    rows_of_three.column_stride = rows_of_three.column_padding = 1;
    x = yk_add(yk_max_pool2d_with(x, &rows_of_three), yk_avg_pool2d_with(across, &rows_of_three));
    yk_value *y = yk_relu6(yk_add(yk_nn_batch_norm(x, "bn2"), yk_silu(x)));
    y = yk_hardswish(yk_nn_batch_norm(yk_silu(yk_nn_batch_norm(y, "bn3")), "bn4"));
    y = yk_add(yk_leaky_relu(yk_tanh(y), 0.3), yk_multiply(yk_sin(y), yk_cos(yk_elu(y, 0.7))));
    y = yk_concat((yk_value *[]){yk_gelu(y), yk_multiply(yk_hardswish(x), yk_sigmoid(x))}, 2, 1);
    yk_value *z = yk_subtract(yk_log(yk_add_scalar(yk_exp(y), 1)), yk_abs(yk_clamp(y, -0.3, 0.6)));
    y = yk_add(y, yk_divide(z, yk_sqrt(yk_add_scalar(yk_pow(z, 2), 0.1))));
    y = yk_nn_group_norm(yk_group_norm(y, 8, NULL, NULL, 1e-3), "gn", 2, 1e-3);
    y = yk_avg_pool2d(yk_max_pool2d(y, 3, 2, 1), 3, 2, 1);             /* (N, 16, 4, 4) */
    y = yk_adaptive_avg_pool2d(yk_adaptive_avg_pool2d(y, 7, 3), 2, 4); /* windows that overlap */
    y = yk_nn_conv_transpose2d_bias(y, "up", 6, 3,
                                    YK_WITH(yk_conv_transpose2d_options,
                                            YK_CONV_TRANSPOSE2D_OPTIONS_INIT, o.stride = 3,
                                            o.padding = 1, o.output_padding = 2, o.groups = 2));
    y = yk_nn_conv_transpose2d(y, "up2", 4, 2, NULL);
    y = yk_reshape(yk_relu(y), 3, (int64_t[]){YK_BATCH, -1, 13}); /* (N, 28, 13) */
    y = yk_nn_linear(y, "rows", 13);
    y = yk_reshape(yk_gelu(y), 4, (int64_t[]){YK_BATCH, 13, 1, -1});
    z = yk_reshape(yk_sum(y, 1), 4, (int64_t[]){YK_BATCH, 1, 1, -1});
    y = yk_add(y, yk_scale(z, 0.1));
    z = yk_subtract(yk_amax(y, 1), yk_amin(y, 1));
    y = yk_add(y, yk_scale(yk_reshape(z, 4, (int64_t[]){YK_BATCH, 1, 1, -1}), 0.1));
    y = yk_permute(yk_pad(yk_slice(y, 1, 2, 9), 1, 1, 3), 4, (int64_t[]){0, 3, 1, 2});
    y = yk_concat((yk_value *[]){y, yk_pad(yk_slice(y, -2, 4, 8), 2, 2, 3)}, 2, -1);
    y = yk_add(y, products_of(y));
    y = yk_add(y, choices_of(y));
    y = yk_nn_linear(yk_flatten(y), "fc", 24);
    yk_value *weight = yk_parameter(graph, "weight", YK_F32, 1, (int64_t[]){24}, YK_INIT_ONES, 0);
    yk_value *bias = yk_parameter(graph, "bias", YK_F32, 1, (int64_t[]){24}, YK_INIT_ZEROS, 0);
    y = yk_layer_norm(yk_dropout(yk_relu(y), 0.5), weight, bias, 1e-3);
    y = yk_nn_rms_norm(yk_add_scalar(y, 0.5), "rms_norm", 1e-2);
    return yk_dropout(yk_scale(yk_softmax(y), 3), 0.1);
}

YK_TEST(every_operator_is_translated)
{
    judge(make_model(all_operators(images_of(16)), YK_AMP_OFF), 16);
}

/* Windows beyond the padding, and padding that counts in means or does not. */
YK_TEST(windows_beyond_the_padding_are_translated)
{
    yk_value *x = yk_nn_conv2d(images_of(12), "conv", 8, 3, NULL), *all = NULL; /* (N, 8, 10, 10) */
    for (int i = 0; i < 4; i++) {
        yk_pool2d_options options = YK_POOL2D_OPTIONS_INIT;
        options.kernel = 3;
        options.stride = 2;
        options.padding = i % 2;
        options.column_padding = 1;
        options.ceil_mode = true;
        yk_value *most = yk_max_pool2d_with(x, &options);
        yk_value *mean = yk_avg_pool2d_with(x, &options);
        options.count_include_pad = false;
        yk_value *inner = yk_avg_pool2d_with(x, &options);
        x = yk_add(most, yk_add(yk_scale(mean, 3), inner)); /* to 5x6, 3x4, 1x3, 1x2 */
        yk_value *part = yk_flatten(x);
        all = all ? yk_concat((yk_value *[]){all, part}, 2, 1) : part;
    }
    judge(make_model(yk_nn_linear(all, "fc", 6), YK_AMP_OFF), 12);
}

/* One number, row or column for a whole image, on either side of an operator. */
static yk_value *broadcasts(yk_value *x)
{
    yk_graph *graph = yk_value_graph(x);
    yk_value *row = yk_parameter(graph, "row", YK_F32, 1, (int64_t[]){16}, YK_INIT_ONES, 0);
    yk_value *column =
        yk_parameter(graph, "column", YK_F32, 3, (int64_t[]){3, 16, 1}, YK_INIT_ONES, 0);
    yk_value *channel =
        yk_parameter(graph, "channel", YK_F32, 4, (int64_t[]){1, 3, 1, 1}, YK_INIT_ONES, 0);
    yk_value *one = yk_parameter(graph, "one", YK_F32, 1, (int64_t[]){1}, YK_INIT_ONES, 0);
    yk_value *gate = yk_sigmoid(yk_global_avg_pool2d(x)); /* of a channel, as in SE-ResNet */
    x = yk_multiply(gate, yk_multiply(yk_add(row, x), yk_add(x, column)));
    x = yk_add(yk_multiply(channel, x), one);
    return yk_nn_linear(yk_flatten(x), "fc", CLASSES);
}

YK_TEST(broadcasts_are_onnxs)
{
    judge(make_model(broadcasts(images_of(16)), YK_AMP_OFF), 16);
}

/* Several values of different sizes, one of them twice, and one alone. */
static yk_value *concatenations(yk_value *x)
{
    yk_value *wide = yk_nn_conv2d(x, "wide", 6, 3, NULL),
             *narrow = yk_nn_conv2d(x, "narrow", 2, 3, NULL);
    yk_value *all = yk_concat((yk_value *[]){wide, narrow, yk_relu(wide), narrow}, 4, 1);
    yk_value *means = yk_flatten(yk_global_avg_pool2d(yk_concat(&all, 1, 1)));
    yk_value *logits = yk_nn_linear(means, "fc", CLASSES);
    return yk_concat((yk_value *[]){logits, yk_softmax(logits), means}, 3, -1);
}

YK_TEST(any_number_of_values_is_concatenated)
{
    judge(make_model(concatenations(images_of(16)), YK_AMP_OFF), 16);
}

/* Tokens, and attention of queries, keys and values in one value and in three. */
YK_TEST(attention_is_translated)
{
    yk_graph *graph = yk_graph_create();
    yk_value *tokens = yk_input(graph, "tokens", YK_I32, 2, (int64_t[]){YK_BATCH, FEATURES});
    yk_value *x = yk_nn_embedding(tokens, "table", WORDS, 12);
    yk_value *y = yk_nn_linear(x, "all", 36);
    y = yk_scaled_dot_product_attention(y, NULL, NULL,
                                        YK_WITH(yk_attention_options, YK_ATTENTION_OPTIONS_INIT,
                                                o.num_heads = 2, o.is_causal = true));
    x = yk_add(x, y);
    y = yk_scaled_dot_product_attention(x, yk_nn_linear(x, "keys", 12),
                                        yk_nn_linear(x, "values", 8), NULL);
    y = yk_flatten(yk_permute(y, 3, (int64_t[]){0, 2, 1}));
    judge(make_model(yk_nn_linear(y, "head", CLASSES), YK_AMP_OFF), 16);
}

/* -INFINITY where a feature is positive; the first query sees only the first key. */
static yk_value *hidden_by_features(yk_graph *graph)
{
    const int64_t dims[] = {YK_BATCH, FEATURES}, mask[] = {YK_BATCH, 1, 1, FEATURES};
    yk_value *features = yk_relu(yk_input(graph, "features", YK_F32, 2, dims));
    return yk_reshape(yk_scale(yk_scale(features, -1e30), 1e30), 4, mask);
}

/* Heads of queries that share keys and values, in one value and in three. */
YK_TEST(grouped_query_attention_is_translated)
{
    yk_graph *graph = yk_graph_create();
    yk_value *tokens = yk_input(graph, "tokens", YK_I32, 2, (int64_t[]){YK_BATCH, FEATURES});
    yk_value *x = yk_nn_embedding(tokens, "table", WORDS, 12);
    yk_attention_options options = YK_ATTENTION_OPTIONS_INIT;
    options.num_heads = 6;
    options.num_kv_heads = 2;
    options.is_causal = true;
    yk_value *y = yk_scaled_dot_product_attention(yk_nn_linear(x, "all", 20), NULL, NULL, &options);
    x = yk_add(x, y);
    options.num_kv_heads = 1;
    options.attn_mask = hidden_by_features(graph);
    y = yk_scaled_dot_product_attention(x, yk_nn_linear(x, "keys", 2), yk_nn_linear(x, "values", 3),
                                        &options);
    judge(make_model(yk_nn_linear(yk_flatten(y), "head", CLASSES), YK_AMP_OFF), 16);
}

/* Of halves and of neighbours, and of some columns of a head. */
YK_TEST(rotary_embeddings_are_translated)
{
    yk_graph *graph = yk_graph_create();
    yk_value *tokens = yk_input(graph, "tokens", YK_I32, 2, (int64_t[]){YK_BATCH, FEATURES});
    yk_value *x = yk_nn_embedding(tokens, "table", WORDS, 24);
    for (int i = 0; i < 4; i++)
        x = yk_rotary_embedding(x, YK_WITH(yk_rotary_embedding_options,
                                           YK_ROTARY_EMBEDDING_OPTIONS_INIT, o.num_heads = 1 + i,
                                           o.interleaved = i & 1, o.rotary_dim = i < 2 ? 0 : 4,
                                           o.first_position = i));
    judge(make_model(yk_nn_linear(yk_flatten(x), "head", CLASSES), YK_AMP_OFF), 16);
}

/* A mask, and a table of which a constant index takes rows. */
YK_TEST(buffers_of_given_numbers_are_initializers)
{
    static float mask[FEATURES] = {1, 0, 1, 1, 0};
    static int64_t index[FEATURES] = {3, 0, 3, 2, 1};
    const yk_tensor numbers = {.data = mask, .dtype = YK_F32, .ndim = 1, .dims = {FEATURES}},
                    rows = {.data = index, .dtype = YK_I64, .ndim = 1, .dims = {FEATURES}};
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "features", YK_F32, 2, (int64_t[]){YK_BATCH, FEATURES});
    yk_value *table =
        yk_parameter(graph, "table", YK_F32, 2, (int64_t[]){4, 1}, YK_INIT_STANDARD_NORMAL, 0);
    yk_value *taken = yk_embedding(yk_register_buffer(graph, "index", &rows, true), table);
    x = yk_add(x, yk_reshape(taken, 1, (int64_t[]){FEATURES}));
    x = yk_multiply(x, yk_constant(graph, &numbers));
    judge(make_model(yk_nn_linear(x, "head", CLASSES), YK_AMP_OFF), 16);
}

/* One place of each row, rows in an order of each sample's own, and in one for all. */
YK_TEST(taken_places_are_translated)
{
    static int64_t backwards[FEATURES] = {4, 3, 2, 1, 0};
    const yk_tensor order = {.data = backwards, .dtype = YK_I64, .ndim = 1, .dims = {FEATURES}};
    yk_graph *graph = yk_graph_create();
    yk_value *tokens = yk_input(graph, "tokens", YK_I32, 2, (int64_t[]){YK_BATCH, FEATURES});
    yk_value *x = yk_nn_embedding(tokens, "table", WORDS, 12);
    yk_value *scores = yk_take_along_dim(yk_nn_linear(x, "scores", WORDS), tokens, -1);
    yk_value *rows = yk_nn_linear(yk_flatten(x), "rows", WORDS * 3);
    rows = yk_take_along_dim(yk_reshape(rows, 3, (int64_t[]){YK_BATCH, WORDS, 3}), tokens, 1);
    yk_value *turned = yk_index_select(rows, 1, yk_constant(graph, &order));
    yk_value *all = yk_concat(
        (yk_value *[]){scores, yk_flatten(rows), yk_flatten(yk_multiply(rows, turned))}, 3, 1);
    judge(make_model(yk_nn_linear(all, "head", CLASSES), YK_AMP_OFF), 16);
}

/* Larger, smaller, and both. */
YK_TEST(images_of_another_size_are_translated)
{
    yk_value *x = yk_nn_conv2d(images_of(16), "conv", 8, 3, NULL);
    x = yk_interpolate(x, 28, 7, NULL);
    x = yk_interpolate(x, 9, 20,
                       YK_WITH(yk_interpolate_options, YK_INTERPOLATE_OPTIONS_INIT,
                               o.mode = YK_INTERPOLATE_BILINEAR));
    x = yk_interpolate(x, 5, 30,
                       YK_WITH(yk_interpolate_options, YK_INTERPOLATE_OPTIONS_INIT,
                               o.mode = YK_INTERPOLATE_BILINEAR, o.align_corners = true));
    judge(make_model(yk_nn_linear(yk_flatten(x), "head", CLASSES), YK_AMP_OFF), 16);
}

YK_TEST(masks_of_attention_are_translated)
{
    yk_graph *graph = yk_graph_create();
    yk_value *tokens = yk_input(graph, "tokens", YK_I32, 2, (int64_t[]){YK_BATCH, FEATURES});
    yk_value *x = yk_nn_linear(yk_nn_embedding(tokens, "table", WORDS, 12), "all", 36);
    yk_value *hidden = hidden_by_features(graph), *parts[2];
    for (int i = 0; i < 2; i++)
        parts[i] = yk_scaled_dot_product_attention(
            x, NULL, NULL,
            YK_WITH(yk_attention_options, YK_ATTENTION_OPTIONS_INIT, o.num_heads = 2,
                    o.is_causal = i == 0, o.attn_mask = hidden));
    x = yk_flatten(yk_concat(parts, 2, 1));
    judge(make_model(yk_nn_linear(x, "head", CLASSES), YK_AMP_OFF), 16);
}

/* Both stacks, where padding is hidden from all attention. */
YK_TEST(transformers_with_padding_are_translated)
{
    yk_graph *graph = yk_graph_create();
    yk_value *tokens = yk_input(graph, "tokens", YK_I32, 2, (int64_t[]){YK_BATCH, FEATURES});
    yk_value *features = yk_input(graph, "features", YK_F32, 2, (int64_t[]){YK_BATCH, FEATURES});
    yk_value *padding = yk_greater(features, yk_full_like(features, 0.3));
    yk_value *x = yk_nn_embedding(tokens, "table", WORDS, 12);
    yk_nn_transformer_options options = YK_NN_TRANSFORMER_OPTIONS_INIT;
    options.num_heads = 2;
    options.dim_feedforward = 16;
    options.key_padding_mask = padding;
    yk_value *memory = yk_nn_transformer_encoder(x, "encoder", 2, &options);
    options.is_causal = options.final_norm = options.norm_first = true;
    options.memory_key_padding_mask = padding;
    x = yk_nn_transformer_decoder(x, memory, "decoder", 2, &options);
    judge(make_model(yk_nn_linear(yk_flatten(x), "head", CLASSES), YK_AMP_OFF), 16);
}

YK_TEST(a_network_may_have_several_inputs)
{
    yk_value *images = images_of(16);
    yk_value *features =
        yk_input(yk_value_graph(images), "features", YK_F32, 2, (int64_t[]){YK_BATCH, FEATURES});
    yk_value *seen = yk_nn_linear(yk_flatten(images), "fc", FEATURES);
    yk_value *joined = yk_concat((yk_value *[]){yk_multiply(features, seen), features}, 2, 1);
    judge(make_model(yk_nn_linear(joined, "head", CLASSES), YK_AMP_OFF), 16);
}

YK_TEST(mixed_precision_is_left_out)
{
    yk_model *model = make_model(yk_resnet9(images_of(16), CLASSES), YK_AMP_BF16);
    assert_ok(yk_model_export_onnx(model, file_of("model.onnx")));
    yk_model_destroy(model);
    model = make_model(yk_resnet9(images_of(16), CLASSES), YK_AMP_OFF);
    assert_ok(yk_model_export_onnx(model, file_of("other.onnx")));
    int code = yk_test_command(said, sizeof said, "cd %s && cmp model.onnx other.onnx",
                               yk_test_directory());
    if (code)
        fail_msg("%s", said);
    yk_model_destroy(model);
}

YK_TEST(the_file_describes_its_network)
{
    yk_model_info info = YK_MODEL_INFO_INIT;
    yk_model *model = make_model(yk_mlp(images_of(4), 2), YK_AMP_OFF);
    info.arch = "mlp";
    info.classes = 2;
    info.class_names = (const char *const[]){"cat", "dog \"Rex\""};
    info.channels = 3;
    info.mean = (const float[]){0.5F, 0.25F, 0};
    info.std = (const float[]){1, 1, 1};
    info.transforms = "Resize(4)";
    assert_ok(yk_model_set_info(model, &info));
    judge(model, 4);
    assert_contains(said, "input images ['batch', 3, 4, 4] tensor(float)");
    assert_contains(said, "output logits ['batch', 2] tensor(float)");
    assert_contains(said, "metadata class_names [\"cat\",\"dog \\\"Rex\\\"\"]");
    assert_contains(said, "metadata mean [0.5,0.25,0]");
    assert_contains(said, "metadata transforms Resize(4)");
    assert_contains(said, "metadata arch mlp");
}

/* Six steps, in both directions and in two layers. */
static yk_value *recurrent_layers(yk_value *x)
{
    yk_nn_recurrent_options options = YK_NN_RECURRENT_OPTIONS_INIT;
    options.num_layers = 2;
    options.bidirectional = true;
    x = yk_reshape(x, 3, (int64_t[]){YK_BATCH, 6, -1});
    return yk_flatten(yk_nn_gru(yk_nn_lstm(x, "lstm", 9, &options), "gru", 7, &options));
}

YK_TEST(recurrent_layers_are_translated)
{
    judge(make_model(recurrent_layers(images_of(16)), YK_AMP_OFF), 16);
}

/* Norms, products and what chooses, in six dimensions. */
static yk_value *six_dimensions(yk_value *x)
{
    x = yk_reshape(x, 6, (int64_t[]){YK_BATCH, 4, 3, 8, 2, 4});
    yk_value *turned = yk_permute(x, 6, (int64_t[]){0, 1, 2, 3, 5, 4});
    x = yk_add(yk_nn_group_norm(x, "gn", 2, 1e-3), yk_matmul(x, yk_matmul(turned, x)));
    x = yk_maximum(yk_nn_layer_norm(x, "ln", 1e-3), yk_scale(yk_softmax(x), 2));
    return yk_flatten(yk_concat((yk_value *[]){yk_slice(x, 3, 1, 5), yk_pad(x, 3, 1, 0)}, 2, 3));
}

YK_TEST(six_dimensions_are_translated)
{
    judge(make_model(six_dimensions(images_of(16)), YK_AMP_OFF), 16);
}

/* Sequences of three and of six steps, from states that are given, of which the last states alone
 * are read where `last`. */
static yk_value *sequences(yk_value *x, bool last)
{
    yk_value *flat = yk_flatten(x), *h_n[2], *c_n;
    yk_value *is_long =
        yk_greater(yk_slice(flat, 1, 40, 1), yk_full_like(yk_slice(flat, 1, 0, 1), 0));
    yk_nn_recurrent_options options = YK_NN_RECURRENT_OPTIONS_INIT;
    options.bidirectional = true;
    options.lengths = yk_reshape(yk_add_scalar(yk_scale(is_long, 3), 3), 1, (int64_t[]){YK_BATCH});
    options.h0 = yk_reshape(yk_slice(flat, 1, 0, 14), 3, (int64_t[]){YK_BATCH, 2, 7});
    options.h_n = &h_n[0];
    x = yk_reshape(x, 3, (int64_t[]){YK_BATCH, 6, -1});
    yk_value *gru = yk_nn_gru(x, "gru", 7, &options);
    options.c0 = yk_reshape(yk_slice(flat, 1, 20, 14), 3, (int64_t[]){YK_BATCH, 2, 7});
    options.h_n = &h_n[1];
    options.c_n = &c_n;
    yk_value *lstm = yk_nn_lstm(last ? x : gru, "lstm", 7, &options);
    yk_value *results[] = {yk_flatten(h_n[0]), yk_flatten(h_n[1]), yk_flatten(c_n),
                           yk_flatten(lstm)};
    return yk_concat(results, last ? 3 : 4, 1);
}

YK_TEST(lengths_and_states_of_recurrent_layers_are_translated)
{
    judge(make_model(sequences(images_of(16), false), YK_AMP_OFF), 16);
    judge(make_model(sequences(images_of(16), true), YK_AMP_OFF), 16);
}

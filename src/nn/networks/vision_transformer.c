/*
 * Vision transformers: Dosovitskiy et al., "An Image Is Worth 16x16 Words" (2020), in torchvision's
 * form. A convolution makes a token of each patch; a token of its own, the class token, comes
 * before them, and its last state alone goes to the head.
 *
 * Nothing here copies the class token to each sample. It is added to the first position instead,
 * before which patches have a token of zeros. The last norm takes the class token alone, as norms
 * treat each token by itself. Sums and products are the same as torchvision's.
 */
#include <yoke/networks.h>
#include <yoke/transformer.h>

#include <stdio.h>

#include "graph/operators.h"
#include "nn/layers.h"

typedef struct vit_config {
    int64_t patch, layers, heads, width, hidden;
} vit_config;

static const double eps = 1e-6;

static yk_value *mlp(yk_value *x, const vit_config *config)
{
    static const yki_layer_init init = {YK_INIT_XAVIER_UNIFORM, true, YK_INIT_NORMAL_1E_6};
    yk_graph *graph = yk_value_graph(x);
    yk_scope_push(graph, "mlp");
    yk_scope_version(graph, 2); /* torchvision's, since its layers have these names */
    x = yk_gelu(yki_nn_linear(x, "0", config->hidden, init));
    x = yki_nn_linear(x, "3", config->width, init);
    yk_scope_pop(graph);
    return x;
}

static yk_value *encoder_layer(yk_value *x, int64_t index, const vit_config *config)
{
    char name[32];
    yk_graph *graph = yk_value_graph(x);
    yk_nn_multihead_attention_options options = YK_NN_MULTIHEAD_ATTENTION_OPTIONS_INIT;
    options.num_heads = config->heads;
    snprintf(name, sizeof name, "encoder_layer_%lld", (long long)index);
    yk_scope_push(graph, name);
    yk_value *normed = yk_nn_layer_norm(x, "ln_1", eps);
    x = yk_add(x, yk_nn_multihead_attention(normed, NULL, NULL, "self_attention", &options));
    x = yk_add(x, mlp(yk_nn_layer_norm(x, "ln_2", eps), config));
    yk_scope_pop(graph);
    return x;
}

/* Tokens of patches (N, T, C) and the class token (1, 1, C) -> that of each sample (N, 1, C) */
static yk_value *encoder(yk_value *x, yk_value *class_token, const vit_config *config)
{
    int64_t dims[YK_MAX_DIMS] = {0};
    yk_graph *graph = yk_value_graph(x);
    const int64_t patches = yk_value_shape(x, dims) == 3 ? dims[1] : 0;
    yk_scope_push(graph, "encoder");
    yk_value *positions =
        yk_parameter(graph, "pos_embedding", yk_value_dtype(x), 3,
                     (int64_t[]){1, 1 + patches, config->width}, YK_INIT_NORMAL_0_02, 0);
    x = yk_add(yk_pad(x, 1, 1, 0), yk_add(positions, yk_pad(class_token, 1, 0, patches)));
    yk_scope_push(graph, "layers");
    for (int64_t i = 0; i < config->layers; i++)
        x = encoder_layer(x, i, config);
    yk_scope_pop(graph);
    x = yk_nn_layer_norm(yk_slice(x, 1, 0, 1), "ln", eps);
    yk_scope_pop(graph);
    return x;
}

/* (N, 3, H, W) -> (N, H / patch * W / patch, C) */
static yk_value *tokens_of_patches(yk_value *images, const vit_config *config)
{
    static const yki_layer_init init = {YK_INIT_NORMAL_FAN_IN, true, YK_INIT_ZEROS};
    int64_t dims[YK_MAX_DIMS] = {YK_BATCH};
    yk_conv2d_options options = YK_CONV2D_OPTIONS_INIT;
    options.stride = config->patch;
    yk_value *x = yki_nn_conv2d(images, "conv_proj", config->width, config->patch, &options, init);
    yk_value_shape(x, dims);
    x = yk_reshape(x, 3, (int64_t[]){dims[0], config->width, -1});
    return yk_permute(x, 3, (int64_t[]){0, 2, 1});
}

static yk_value *vision_transformer(yk_value *images, int64_t classes, const vit_config *config)
{
    static const yki_layer_init init = {YK_INIT_ZEROS, true, YK_INIT_ZEROS};
    int64_t dims[YK_MAX_DIMS];
    char text[96];
    if (yk_value_shape(images, dims) == 4 && (dims[2] % config->patch || dims[3] % config->patch)) {
        yk_status status =
            yki_error(YK_ERROR_INVALID_SHAPE,
                      "images have shape %s, whose sides are not multiples of the patches' %lld",
                      yki_shape_text(images, text, sizeof text), (long long)config->patch);
        return yki_emit_error(images, "vision transformer", status);
    }
    yk_graph *graph = yk_value_graph(images);
    yk_value *class_token = yk_parameter(graph, "class_token", yk_value_dtype(images), 3,
                                         (int64_t[]){1, 1, config->width}, YK_INIT_ZEROS, 0);
    yk_value *x = encoder(tokens_of_patches(images, config), class_token, config);
    yk_scope_push(graph, "heads");
    x = yki_nn_linear(yk_flatten(x), "head", classes, init);
    yk_scope_pop(graph);
    return x;
}

yk_value *yk_vit_b_16(yk_value *images, int64_t classes)
{
    return vision_transformer(images, classes, &(vit_config){16, 12, 12, 768, 3072});
}

yk_value *yk_vit_b_32(yk_value *images, int64_t classes)
{
    return vision_transformer(images, classes, &(vit_config){32, 12, 12, 768, 3072});
}

yk_value *yk_vit_l_16(yk_value *images, int64_t classes)
{
    return vision_transformer(images, classes, &(vit_config){16, 24, 16, 1024, 4096});
}

yk_value *yk_vit_l_32(yk_value *images, int64_t classes)
{
    return vision_transformer(images, classes, &(vit_config){32, 24, 16, 1024, 4096});
}

yk_value *yk_vit_h_14(yk_value *images, int64_t classes)
{
    return vision_transformer(images, classes, &(vit_config){14, 32, 16, 1280, 5120});
}

yk_value *yk_vit_tiny_patch4_32(yk_value *images, int64_t classes)
{
    return vision_transformer(images, classes, &(vit_config){4, 12, 3, 192, 768});
}

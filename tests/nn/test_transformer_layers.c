/* Layers of transformers: their parameters, what masks hide, and mistakes. That they compute what
 * PyTorch's do is compared in tests/parity. */
#include <yoke/yoke.h>

#include "harness.h"

#include <math.h>
#include <string.h>

enum { SAMPLES = 2, TOKENS = 4, KEYS = 5, WIDTH = 8, MOST = SAMPLES * KEYS * WIDTH };

/* What a case builds of these inputs. */
typedef struct inputs {
    yk_value *x, *memory, *padding; /* (N, TOKENS, WIDTH), (N, KEYS, WIDTH), (N, KEYS) */
} inputs;

typedef yk_value *build_fn(const inputs *in);

static inputs make_inputs(yk_graph *graph)
{
    return (inputs){
        yk_input(graph, "x", YK_F32, 3, (int64_t[]){YK_BATCH, TOKENS, WIDTH}),
        yk_input(graph, "memory", YK_F32, 3, (int64_t[]){YK_BATCH, KEYS, WIDTH}),
        yk_input(graph, "padding", YK_F32, 2, (int64_t[]){YK_BATCH, KEYS}),
    };
}

/* ---- parameters ------------------------------------------------------------------------------ */

static void assert_parameters(build_fn *build, const char *const *names, size_t count)
{
    const inputs in = make_inputs(yk_graph_create());
    yk_model *model;
    assert_ok(yk_model_create(&model, yk_reduce_loss(build(&in), YK_LOSS_MEAN), NULL));
    assert_int_equal(yk_model_parameter_count(model), count);
    for (size_t i = 0; i < count; i++)
        assert_string_equal(yk_model_parameter(model, i).name, names[i]);
    yk_model_destroy(model);
}

static yk_value *decoder_layer(const inputs *in)
{
    return yk_nn_transformer_decoder_layer(in->x, in->memory, "layer", NULL);
}

static yk_value *encoder(const inputs *in)
{
    return yk_nn_transformer_encoder(in->x, "encoder", 2,
                                     YK_WITH(yk_nn_transformer_options,
                                             YK_NN_TRANSFORMER_OPTIONS_INIT, o.final_norm = true,
                                             o.norm_first = true));
}

static yk_value *attention_of_several_widths(const inputs *in)
{
    return yk_nn_multihead_attention(in->x, in->memory, yk_slice(in->memory, 2, 0, 3), "attn",
                                     YK_WITH(yk_nn_multihead_attention_options,
                                             YK_NN_MULTIHEAD_ATTENTION_OPTIONS_INIT,
                                             o.bias = false));
}

/* list(nn.TransformerDecoderLayer(8, 8).state_dict()): norms come last. */
YK_TEST(parameters_have_pytorchs_names_and_order)
{
    static const char *const of_decoder_layer[] = {"layer.self_attn.in_proj_weight",
                                                   "layer.self_attn.in_proj_bias",
                                                   "layer.self_attn.out_proj.weight",
                                                   "layer.self_attn.out_proj.bias",
                                                   "layer.multihead_attn.in_proj_weight",
                                                   "layer.multihead_attn.in_proj_bias",
                                                   "layer.multihead_attn.out_proj.weight",
                                                   "layer.multihead_attn.out_proj.bias",
                                                   "layer.linear1.weight",
                                                   "layer.linear1.bias",
                                                   "layer.linear2.weight",
                                                   "layer.linear2.bias",
                                                   "layer.norm1.weight",
                                                   "layer.norm1.bias",
                                                   "layer.norm2.weight",
                                                   "layer.norm2.bias",
                                                   "layer.norm3.weight",
                                                   "layer.norm3.bias"};
    static const char *const of_encoder[] = {"encoder.layers.0.self_attn.in_proj_weight",
                                             "encoder.layers.0.self_attn.in_proj_bias",
                                             "encoder.layers.0.self_attn.out_proj.weight",
                                             "encoder.layers.0.self_attn.out_proj.bias",
                                             "encoder.layers.0.linear1.weight",
                                             "encoder.layers.0.linear1.bias",
                                             "encoder.layers.0.linear2.weight",
                                             "encoder.layers.0.linear2.bias",
                                             "encoder.layers.0.norm1.weight",
                                             "encoder.layers.0.norm1.bias",
                                             "encoder.layers.0.norm2.weight",
                                             "encoder.layers.0.norm2.bias",
                                             "encoder.layers.1.self_attn.in_proj_weight",
                                             "encoder.layers.1.self_attn.in_proj_bias",
                                             "encoder.layers.1.self_attn.out_proj.weight",
                                             "encoder.layers.1.self_attn.out_proj.bias",
                                             "encoder.layers.1.linear1.weight",
                                             "encoder.layers.1.linear1.bias",
                                             "encoder.layers.1.linear2.weight",
                                             "encoder.layers.1.linear2.bias",
                                             "encoder.layers.1.norm1.weight",
                                             "encoder.layers.1.norm1.bias",
                                             "encoder.layers.1.norm2.weight",
                                             "encoder.layers.1.norm2.bias",
                                             "encoder.norm.weight",
                                             "encoder.norm.bias"};
    static const char *const of_attention[] = {"attn.q_proj_weight", "attn.k_proj_weight",
                                               "attn.v_proj_weight", "attn.out_proj.weight"};
    assert_parameters(decoder_layer, of_decoder_layer, 18);
    assert_parameters(encoder, of_encoder, 26);
    assert_parameters(attention_of_several_widths, of_attention, 4);
}

/* Uniform and normal values of PyTorch's constructors lie within these bounds. */
YK_TEST(parameters_start_as_pytorchs)
{
    static const struct start {
        const char *end;
        double low, high;                          /* of the largest magnitude */
    } starts[] = {{"in_proj_weight", 0.35, 0.433}, /* sqrt(6 / (8 + 24)) */
                  {"in_proj_bias", 0, 0},
                  {"out_proj.weight", 0.3, 0.354},
                  {"out_proj.bias", 0, 0},
                  {"linear1.bias", 0.35, 0.354},
                  {"linear2.weight", 0.022, 0.0221}, /* 1 / sqrt(2048) */
                  {"norm1.weight", 1, 1},
                  {"norm1.bias", 0, 0}};
    const inputs in = make_inputs(yk_graph_create());
    yk_model *model;
    assert_ok(yk_model_create(
        &model, yk_reduce_loss(yk_nn_transformer_encoder_layer(in.x, "l", NULL), YK_LOSS_MEAN),
        NULL));
    for (size_t i = 0; i < yk_model_parameter_count(model); i++) {
        yk_parameter_view p = yk_model_parameter(model, i);
        double largest = 0;
        for (int64_t e = 0; e < yk_tensor_count(&p.value); e++)
            largest = fmax(largest, fabs(yk_tensor_get(&p.value, e)));
        for (size_t s = 0; s < sizeof starts / sizeof *starts; s++)
            if (strstr(p.name, starts[s].end))
                assert_true(largest >= starts[s].low && largest <= starts[s].high);
    }
    yk_model_destroy(model);
}

/* ---- what masks hide ------------------------------------------------------------------------- */

typedef struct numbers {
    float x[SAMPLES * TOKENS * WIDTH], memory[SAMPLES * KEYS * WIDTH], padding[SAMPLES * KEYS];
} numbers;

/* In evaluation mode. */
static yk_model *create(build_fn *build, yk_value **y, yk_amp amp)
{
    const inputs in = make_inputs(yk_graph_create());
    yk_model *model;
    *y = build(&in);
    assert_ok(yk_model_create(&model, yk_reduce_loss(*y, YK_LOSS_MEAN),
                              YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.amp = amp,
                                      o.outputs = y, o.output_count = 1)));
    yk_model_eval(model);
    return model;
}

static void run(yk_model *model, numbers *n, float *results)
{
    static const char *const names[] = {"x", "memory", "padding"};
    const yk_tensor tensors[] = {
        {.data = n->x, .dtype = YK_F32, .ndim = 3, .dims = {SAMPLES, TOKENS, WIDTH}},
        {.data = n->memory, .dtype = YK_F32, .ndim = 3, .dims = {SAMPLES, KEYS, WIDTH}},
        {.data = n->padding, .dtype = YK_F32, .ndim = 2, .dims = {SAMPLES, KEYS}}};
    const yk_batch batch = {.size = SAMPLES, .count = 3, .names = names, .tensors = tensors};
    yk_tensor y;
    assert_ok(yk_model_forward(model, &batch));
    assert_ok(yk_model_output_at(model, 0, &y));
    for (int64_t i = 0; i < yk_tensor_count(&y); i++)
        results[i] = (float)yk_tensor_get(&y, i);
}

static numbers draw(void)
{
    numbers n = {.padding = {0}};
    for (int i = 0; i < SAMPLES * TOKENS * WIDTH; i++)
        n.x[i] = sinf(0.7F * (float)i);
    for (int i = 0; i < SAMPLES * KEYS * WIDTH; i++)
        n.memory[i] = cosf(0.9F * (float)i);
    return n;
}

/* How far the tokens of two results are from each other. */
static void compare_tokens(const float *a, const float *b, int tokens, float *far)
{
    for (int t = 0; t < tokens; t++) {
        far[t] = 0;
        for (int c = 0; c < WIDTH; c++)
            far[t] = fmaxf(far[t], fabsf(a[t * WIDTH + c] - b[t * WIDTH + c]));
    }
}

static yk_value *causal_decoder(const inputs *in)
{
    return yk_nn_transformer_decoder(
        in->x, in->memory, "decoder", 2,
        YK_WITH(yk_nn_transformer_options, YK_NN_TRANSFORMER_OPTIONS_INIT, o.is_causal = true,
                o.dim_feedforward = 16, o.memory_key_padding_mask = in->padding));
}

/* A token of the input reaches those after it; what is padding in the memory reaches none. */
YK_TEST(masks_hide_tokens_from_a_decoder)
{
    static const yk_amp amps[] = {YK_AMP_OFF, YK_AMP_BF16};
    for (size_t i = 0; i < sizeof amps / sizeof *amps; i++) {
        float before[MOST], after[MOST], far[SAMPLES * TOKENS];
        yk_value *y;
        yk_model *model = create(causal_decoder, &y, amps[i]);
        numbers n = draw();
        n.padding[KEYS - 1] = 1; /* of the first sample */
        run(model, &n, before);
        n.x[2 * WIDTH] += 1; /* token 2 of the first sample */
        run(model, &n, after);
        compare_tokens(before, after, SAMPLES * TOKENS, far);
        assert_true(far[0] == 0 && far[1] == 0 && far[2] > 0.01F && far[3] > 0.001F);
        assert_true(far[4] == 0 && far[5] == 0 && far[6] == 0 && far[7] == 0);
        n.x[2 * WIDTH] -= 1;
        n.memory[(KEYS - 1) * WIDTH] += 1;
        run(model, &n, after);
        compare_tokens(before, after, SAMPLES * TOKENS, far);
        for (int t = 0; t < SAMPLES * TOKENS; t++)
            assert_true(far[t] == 0);
        n.memory[(2 * KEYS - 1) * WIDTH] += 1; /* the second sample has no padding */
        run(model, &n, after);
        compare_tokens(before, after, SAMPLES * TOKENS, far);
        assert_true(far[0] == 0 && far[4] > 0.001F && far[7] > 0.001F);
        yk_model_destroy(model);
    }
}

static yk_value *doubly_masked_encoder(const inputs *in)
{
    static float hidden[KEYS * KEYS];
    hidden[1] = -INFINITY; /* key 1 from query 0 */
    yk_value *mask =
        yk_constant(yk_value_graph(in->x),
                    &(yk_tensor){.data = hidden, .dtype = YK_F32, .ndim = 2, .dims = {KEYS, KEYS}});
    return yk_nn_transformer_encoder_layer(
        in->memory, "layer",
        YK_WITH(yk_nn_transformer_options, YK_NN_TRANSFORMER_OPTIONS_INIT, o.attn_mask = mask,
                o.dim_feedforward = 16, o.key_padding_mask = in->padding));
}

YK_TEST(a_mask_and_padding_are_joined)
{
    float before[MOST], after[MOST], far[SAMPLES * KEYS];
    yk_value *y;
    yk_model *model = create(doubly_masked_encoder, &y, YK_AMP_OFF);
    numbers n = draw();
    n.padding[2] = 1;
    run(model, &n, before);
    n.memory[WIDTH] += 1;
    n.memory[2 * WIDTH] += 1;
    run(model, &n, after);
    compare_tokens(before, after, SAMPLES * KEYS, far);
    assert_true(far[0] == 0 && far[1] > 0.01F && far[2] > 0.01F && far[3] > 0.001F);
    n.memory[WIDTH] -= 1;
    run(model, &n, after);
    compare_tokens(before, after, SAMPLES * KEYS, far);
    assert_true(far[0] == 0 && far[1] == 0 && far[2] > 0.01F && far[3] == 0);
    yk_model_destroy(model);
}

YK_TEST(layers_drop_in_training_alone)
{
    float first[MOST], second[MOST];
    numbers n = draw();
    yk_value *y;
    yk_model *model = create(encoder, &y, YK_AMP_OFF);
    run(model, &n, first);
    run(model, &n, second);
    assert_memory_equal(first, second, SAMPLES * TOKENS * WIDTH * sizeof *first);
    yk_model_train(model);
    run(model, &n, second);
    assert_memory_not_equal(first, second, SAMPLES * TOKENS * WIDTH * sizeof *first);
    yk_model_destroy(model);
}

/* ---- mistakes -------------------------------------------------------------------------------- */

static void assert_mistake(build_fn *build, const char *text)
{
    const inputs in = make_inputs(yk_graph_create());
    yk_model *model;
    yk_graph *graph = yk_value_graph(in.x);
    assert_true(yk_model_create(&model, build(&in), NULL) != YK_OK);
    assert_contains(yk_last_error(), text);
    yk_graph_destroy(graph);
}

static yk_value *padding_of_other_tokens(const inputs *in)
{
    return yk_nn_multihead_attention(in->x, NULL, NULL, "attn",
                                     YK_WITH(yk_nn_multihead_attention_options,
                                             YK_NN_MULTIHEAD_ATTENTION_OPTIONS_INIT,
                                             o.key_padding_mask = in->padding));
}

static yk_value *heads_that_do_not_fit(const inputs *in)
{
    return yk_nn_transformer_encoder_layer(
        in->x, "layer",
        YK_WITH(yk_nn_transformer_options, YK_NN_TRANSFORMER_OPTIONS_INIT, o.num_heads = 3));
}

static yk_value *image_for_tokens(const inputs *in)
{
    return yk_nn_transformer_encoder(yk_unsqueeze(in->x, 1), "encoder", 2, NULL);
}

static yk_value *memory_of_another_width(const inputs *in)
{
    return yk_nn_transformer_decoder_layer(in->x, yk_slice(in->memory, 2, 0, 6), "layer", NULL);
}

static yk_value *norm_of_one_layer(const inputs *in)
{
    return yk_nn_transformer_encoder_layer(
        in->x, "layer",
        YK_WITH(yk_nn_transformer_options, YK_NN_TRANSFORMER_OPTIONS_INIT, o.final_norm = true));
}

static yk_value *memory_of_an_encoder(const inputs *in)
{
    return yk_nn_transformer_encoder(in->x, "encoder", 1,
                                     YK_WITH(yk_nn_transformer_options,
                                             YK_NN_TRANSFORMER_OPTIONS_INIT,
                                             o.memory_key_padding_mask = in->padding));
}

static yk_value *no_layers(const inputs *in)
{
    return yk_nn_transformer_decoder(in->x, in->memory, "decoder", 0, NULL);
}

static yk_value *no_activation(const inputs *in)
{
    return yk_nn_transformer_encoder_layer(
        in->x, "layer",
        YK_WITH(yk_nn_transformer_options, YK_NN_TRANSFORMER_OPTIONS_INIT, o.activation = NULL));
}

static yk_value *no_memory(const inputs *in)
{
    return yk_nn_transformer_decoder_layer(in->x, NULL, "layer", NULL);
}

YK_TEST(mistakes_are_reported)
{
    assert_mistake(padding_of_other_tokens,
                   "attn.multihead_attention: key_padding_mask has shape (N, 5), "
                   "expected (N, S) of the key, (N, 4, 8)");
    assert_mistake(heads_that_do_not_fit, "layer.self_attn.scaled_dot_product_attention: ");
    assert_mistake(image_for_tokens, "encoder.transformer_encoder: input has shape (N, 1, 4, 8), "
                                     "expected (N, T, E)");
    assert_mistake(memory_of_another_width, "layer.transformer_decoder_layer: memory has shape "
                                            "(N, 5, 6), expected (N, S, 8) as the input");
    assert_mistake(norm_of_one_layer, "final_norm is an option of stacks of layers");
    assert_mistake(memory_of_an_encoder, "are options of decoders");
    assert_mistake(no_layers, "decoder.transformer_decoder: num_layers 0: expected 1 or more");
    assert_mistake(no_activation, "the activation of the options is NULL");
    assert_mistake(no_memory, "NULL");
}

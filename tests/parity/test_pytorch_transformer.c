/*
 * Layers of transformers against PyTorch's: a state_dict of PyTorch's is loaded, trained for one
 * step and loaded by PyTorch again, which compares what the layers compute and how far the weights
 * have gone. Tokens that are padding do not count in the loss.
 */
#define _GNU_SOURCE
#include <math.h>
#include <string.h>

#include "harness.h"
#include "pytorch.h"
#include "tensor_files.h"

enum { SAMPLES = 3, TOKENS = 6, KEYS = 5, WIDTH = 8, HEADS = 2, HIDDEN = 12 };

/* x is of the decoder, or of all there is. */
typedef struct inputs {
    yk_value *x, *memory, *padding, *memory_padding;
} inputs;

typedef yk_value *build_fn(const inputs *in);

/* ---- networks -------------------------------------------------------------------------------- */

static yk_value *self_attention(const inputs *in)
{
    return yk_nn_multihead_attention(
        in->x, NULL, NULL, "attn",
        YK_WITH(yk_nn_multihead_attention_options, YK_NN_MULTIHEAD_ATTENTION_OPTIONS_INIT,
                o.num_heads = HEADS, o.bias = false, o.is_causal = true));
}

static yk_value *attend(const inputs *in, int64_t width_of_keys, int64_t width_of_values)
{
    yk_value *key = yk_slice(in->memory, 2, 0, width_of_keys);
    yk_value *value = yk_slice(in->memory, 2, 0, width_of_values);
    return yk_nn_multihead_attention(
        in->x, key, value, "attn",
        YK_WITH(yk_nn_multihead_attention_options, YK_NN_MULTIHEAD_ATTENTION_OPTIONS_INIT,
                o.num_heads = HEADS, o.key_padding_mask = in->memory_padding));
}

static yk_value *cross_attention(const inputs *in)
{
    return attend(in, WIDTH, WIDTH);
}

static yk_value *attention_of_several_widths(const inputs *in)
{
    return attend(in, 7, 4);
}

static yk_nn_transformer_options small(void)
{
    yk_nn_transformer_options options = YK_NN_TRANSFORMER_OPTIONS_INIT;
    options.num_heads = HEADS;
    options.dim_feedforward = HIDDEN;
    options.dropout = 0;
    return options;
}

static yk_value *encode(const inputs *in, bool norm_first)
{
    yk_nn_transformer_options options = small();
    options.activation = yk_gelu;
    options.norm_first = options.final_norm = norm_first;
    options.key_padding_mask = in->padding;
    return yk_nn_transformer_encoder(in->x, "encoder", 2, &options);
}

static yk_value *encoder(const inputs *in)
{
    return encode(in, false);
}

static yk_value *encoder_norm_first(const inputs *in)
{
    return encode(in, true);
}

static yk_value *transformer(const inputs *in)
{
    yk_nn_transformer_options source = small(), target = small();
    source.final_norm = target.final_norm = true;
    source.key_padding_mask = target.memory_key_padding_mask = in->memory_padding;
    target.is_causal = true;
    target.key_padding_mask = in->padding;
    yk_graph *graph = yk_value_graph(in->x);
    yk_scope_push(graph, "transformer");
    yk_value *memory = yk_nn_transformer_encoder(in->memory, "encoder", 2, &source);
    yk_value *y = yk_nn_transformer_decoder(in->x, memory, "decoder", 2, &target);
    yk_scope_pop(graph);
    return y;
}

/* ---- a step ---------------------------------------------------------------------------------- */

/* The mean of the squares of the tokens that count. */
static yk_value *loss_of(yk_value *y, yk_value *padding)
{
    yk_value *counts = yk_add_scalar(yk_scale(yk_unsqueeze(padding, 2), -1), 1);
    return yk_reduce_loss(yk_pow(yk_multiply(y, counts), 2), YK_LOSS_MEAN);
}

static yk_model *create(build_fn *build, const char *device)
{
    yk_graph *graph = yk_graph_create();
    const inputs in = {
        yk_input(graph, "x", YK_F32, 3, (int64_t[]){YK_BATCH, TOKENS, WIDTH}),
        yk_input(graph, "memory", YK_F32, 3, (int64_t[]){YK_BATCH, KEYS, WIDTH}),
        yk_input(graph, "padding", YK_F32, 2, (int64_t[]){YK_BATCH, TOKENS}),
        yk_input(graph, "memory padding", YK_F32, 2, (int64_t[]){YK_BATCH, KEYS}),
    };
    yk_value *y = build(&in);
    yk_model *model;
    assert_ok(yk_model_create(&model, loss_of(y, in.padding),
                              YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.device = device,
                                      o.outputs = &y, o.output_count = 1)));
    return model;
}

/* Writes what the batch holds and what the model makes of it. */
static void run_on(build_fn *build, const char *device)
{
    static float x[SAMPLES * TOKENS * WIDTH], memory[SAMPLES * KEYS * WIDTH];
    static float padding[SAMPLES * TOKENS], memory_padding[SAMPLES * KEYS];
    static const char *const names[] = {"x", "memory", "padding", "memory padding"};
    yk_tensor tensors[] = {
        {.data = x, .dtype = YK_F32, .ndim = 3, .dims = {SAMPLES, TOKENS, WIDTH}},
        {.data = memory, .dtype = YK_F32, .ndim = 3, .dims = {SAMPLES, KEYS, WIDTH}},
        {.data = padding, .dtype = YK_F32, .ndim = 2, .dims = {SAMPLES, TOKENS}},
        {.data = memory_padding, .dtype = YK_F32, .ndim = 2, .dims = {SAMPLES, KEYS}},
        {.data = NULL}};
    const yk_batch batch = {.size = SAMPLES, .count = 4, .names = names, .tensors = tensors};
    for (int i = 0; i < SAMPLES * TOKENS * WIDTH; i++)
        x[i] = sinf(0.7F * (float)i);
    for (int i = 0; i < SAMPLES * KEYS * WIDTH; i++)
        memory[i] = cosf(1.1F * (float)i);
    padding[TOKENS - 1] = padding[TOKENS - 2] = memory_padding[2 * KEYS - 1] = 1;

    char name[32];
    yk_optimizer *sgd;
    yk_model *model = create(build, device);
    assert_ok(yk_sgd_create(&sgd, model, YK_WITH(yk_sgd_options, YK_SGD_OPTIONS_INIT, o.lr = 1)));
    assert_ok(yk_model_load(model, file_of("start.pth")));
    assert_ok(yk_model_forward(model, &batch));
    assert_ok(yk_model_output_at(model, 0, &tensors[4]));
    snprintf(name, sizeof name, "numbers.%s", device);
    FILE *file = fopen(file_of(name), "wbe");
    assert_non_null(file);
    for (int i = 0; i < 5; i++)
        assert_int_equal(fwrite(tensors[i].data, yk_tensor_bytes(&tensors[i]), 1, file), 1);
    assert_int_equal(fclose(file), 0);
    assert_ok(yk_model_backward(model));
    assert_ok(yk_optimizer_step(sgd));
    snprintf(name, sizeof name, "stepped.%s.pth", device);
    assert_ok(yk_model_save(model, file_of(name)));
    yk_optimizer_destroy(sgd);
    yk_model_destroy(model);
}

static void compare(const char *kind, build_fn *build)
{
    pytorch_judges("transformer.py", "start %s %s", kind, yk_test_directory());
    run_on(build, "ref");
    run_on(build, "cpu");
    pytorch_judges("transformer.py", "judge %s %s ref cpu", kind, yk_test_directory());
}

YK_TEST(attention_is_pytorchs)
{
    compare("self_attention", self_attention);
    compare("cross_attention", cross_attention);
    compare("widths", attention_of_several_widths);
}

YK_TEST(encoders_are_pytorchs)
{
    compare("encoder", encoder);
    compare("encoder_norm_first", encoder_norm_first);
}

YK_TEST(a_transformer_is_pytorchs)
{
    compare("transformer", transformer);
}

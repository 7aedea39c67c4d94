/*
 * A small GPT learns to write, character by character, on as many processes as a launcher has
 * started. It reads side by side with the last part of PyTorch's tutorials on DDP, "Training
 * real-world models with DDP", which trains Karpathy's minGPT on the characters of a text. Its
 * parameters have GPT-2's names. At the end it shows what it has learnt: it continues the
 * text from its first character.
 *
 *     ./gpt                                    sentences that the program makes itself
 *     yoke run -n 2 -- ./gpt --text FILE       two processes, any text, such as Shakespeare's
 */
#define _POSIX_C_SOURCE 200809L
#include "characters.h"

typedef struct gpt_config {
    int64_t n_layer, n_head, n_embd;
    writing_options writing;
} gpt_config;

/* ---- the model ------------------------------------------------------------------------------ */

enum { VALUES_OF_A_TOKEN = 3 /* query, key, value */ };
static const double dropout = 0.1;

static yk_value *causal_self_attention(yk_value *x, const gpt_config *config)
{
    yk_attention_options options = YK_ATTENTION_OPTIONS_INIT;
    options.num_heads = config->n_head;
    options.is_causal = true;
    options.dropout_p = dropout;
    x = yk_nn_linear(x, "attn.c_attn", VALUES_OF_A_TOKEN * config->n_embd);
    x = yk_scaled_dot_product_attention(x, NULL, NULL, &options);
    return yk_dropout(yk_nn_linear(x, "attn.c_proj", config->n_embd), dropout);
}

static yk_value *block(yk_value *x, const gpt_config *config)
{
    x = yk_add(x, causal_self_attention(yk_nn_layer_norm(x, "ln_1", 1e-5), config));
    yk_value *y = yk_nn_linear(yk_nn_layer_norm(x, "ln_2", 1e-5), "mlp.c_fc", 4 * config->n_embd);
    return yk_add(x, yk_dropout(yk_nn_linear(yk_gelu(y), "mlp.c_proj", config->n_embd), dropout));
}

/* minGPT's: the layers whose sums all blocks add up begin with less. */
static void init_weights(yk_model *model, const gpt_config *config)
{
    YK_CHECK(yk_nn_init_normal(model, "w?e.weight", 0, 0.02)); /* embeddings */
    YK_CHECK(yk_nn_init_normal(model, "*.c_*.weight", 0, 0.02));
    YK_CHECK(yk_nn_init_normal(model, "lm_head.weight", 0, 0.02));
    YK_CHECK(yk_nn_init_constant(model, "*.c_*.bias", 0));
    YK_CHECK(yk_nn_init_constant(model, "lm_head.bias", 0));
    double deviation = 0.02 / sqrt(2 * (double)config->n_layer);
    YK_CHECK(yk_nn_init_normal(model, "*.c_proj.weight", 0, deviation));
}

static yk_model *create_model(const gpt_config *config)
{
    yk_graph *graph = yk_graph_create();
    const int64_t dims[] = {YK_BATCH, config->writing.block_size};
    yk_value *tokens = yk_input(graph, "tokens", YK_I32, 2, dims);
    yk_value *labels = yk_input(graph, "labels", YK_I32, 2, dims);
    yk_value *positions =
        yk_parameter(graph, "wpe.weight", YK_F32, 2,
                     (int64_t[]){config->writing.block_size, config->n_embd}, YK_INIT_NORMAL, 0);
    yk_value *x = yk_nn_embedding(tokens, "wte", CHARACTERS, config->n_embd);
    x = yk_dropout(yk_add(x, positions), dropout); /* which are the same in all samples */
    for (int64_t layer = 0; layer < config->n_layer; layer++) {
        char name[32];
        snprintf(name, sizeof name, "h.%lld", (long long)layer);
        yk_scope_push(graph, name);
        x = block(x, config);
        yk_scope_pop(graph);
    }
    yk_value *logits = yk_nn_linear(yk_nn_layer_norm(x, "ln_f", 1e-5), "lm_head", CHARACTERS);
    yk_cross_entropy_options loss = YK_CROSS_ENTROPY_OPTIONS_INIT;
    loss.class_dim = -1; /* logits (N, T, V), labels (N, T) */

    yk_model *model;
    yk_model_options options = YK_MODEL_OPTIONS_INIT;
    options.device = config->writing.device;
    options.logits = logits;
    YK_CHECK(yk_model_create(&model, yk_cross_entropy(logits, labels, &loss), &options));
    init_weights(model, config);
    return model;
}

/* ---- the program ---------------------------------------------------------------------------- */

int main(int argc, char **argv)
{
    gpt_config config = {2, 4, 64, WRITING_DEFAULTS};
    const flag flags[] = {
        {"layers", "N", "blocks [2]", .number = &config.n_layer},
        {"heads", "N", "of attention [4]", .number = &config.n_head},
        {"width", "N", "numbers for each character [64]", .number = &config.n_embd},
        WRITING_FLAGS(&config.writing)};
    setvbuf(stdout, NULL, _IOLBF, 0);
    parse_flags(argc, argv, flags, sizeof flags / sizeof *flags);
    yk_group *world;
    YK_CHECK(yk_group_init(&world, NULL)); /* alone, a group of one */
    yk_model *model = create_model(&config);
    learn_to_write(&config.writing, model, world);
    yk_model_destroy(model);
    yk_group_destroy(world);
    return 0;
}

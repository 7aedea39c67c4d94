/*
 * A decoder like Llama's (Touvron et al. 2023): RMSNorm before attention and before the MLP, rotary
 * position embeddings, an MLP with SwiGLU, and no biases. Parameters have the names and shapes of
 * Hugging Face's LlamaForCausalLM, and the fields of llama_config those of its config.json.
 * tests/parity compares it with PyTorch.
 */
#ifndef YOKE_EXAMPLES_LLAMA_H
#define YOKE_EXAMPLES_LLAMA_H

#include <stdio.h>

#include <yoke/yoke.h>

typedef struct llama_config {
    int64_t vocab_size, hidden_size, intermediate_size, num_hidden_layers, num_attention_heads;
    int64_t num_key_value_heads; /* of which num_attention_heads is a multiple */
    double rms_norm_eps, rope_theta;
    bool tie_word_embeddings; /* the head has the weight of embed_tokens */
    yk_dtype dtype;           /* of the parameters: YK_F32, or YK_F64 */
} llama_config;

/* NAME.weight (out_features, in_features), which starts as Hugging Face's. */
static inline yk_value *llama_weight(yk_graph *graph, const char *name, int64_t out_features,
                                     int64_t in_features, const llama_config *config)
{
    yk_scope_push(graph, name);
    yk_value *weight = yk_parameter(graph, "weight", config->dtype, 2,
                                    (int64_t[]){out_features, in_features}, YK_INIT_NORMAL_0_02, 0);
    yk_scope_pop(graph);
    return weight;
}

/* x (N, T, in_features) -> (N, T, out_features), without a bias. */
static inline yk_value *llama_linear(yk_value *x, const char *name, int64_t out_features,
                                     int64_t in_features, const llama_config *config)
{
    yk_graph *graph = yk_value_graph(x);
    return yk_linear(x, llama_weight(graph, name, out_features, in_features, config), NULL);
}

static inline yk_value *llama_rotate(yk_value *x, int64_t heads, const llama_config *config)
{
    yk_rotary_embedding_options options = YK_ROTARY_EMBEDDING_OPTIONS_INIT;
    options.num_heads = heads;
    options.base = config->rope_theta;
    return yk_rotary_embedding(x, &options);
}

/* Grouped-query attention (Ainslie et al. 2023) where there are fewer heads of keys and values. */
static inline yk_value *llama_attention(yk_value *x, const llama_config *config)
{
    const int64_t width = config->hidden_size;
    const int64_t heads = config->num_attention_heads, kv_heads = config->num_key_value_heads;
    const int64_t kv_width = width / heads * kv_heads;
    yk_attention_options options = YK_ATTENTION_OPTIONS_INIT;
    options.num_heads = heads;
    options.num_kv_heads = kv_heads;
    options.is_causal = true;
    yk_value *q = llama_linear(x, "self_attn.q_proj", width, width, config);
    yk_value *k = llama_linear(x, "self_attn.k_proj", kv_width, width, config);
    yk_value *v = llama_linear(x, "self_attn.v_proj", kv_width, width, config);
    q = llama_rotate(q, heads, config);
    k = llama_rotate(k, kv_heads, config);
    yk_value *y = yk_scaled_dot_product_attention(q, k, v, &options);
    return llama_linear(y, "self_attn.o_proj", width, width, config);
}

/* SwiGLU (Shazeer 2020). */
static inline yk_value *llama_mlp(yk_value *x, const llama_config *config)
{
    const int64_t width = config->hidden_size, inner = config->intermediate_size;
    yk_value *gate = yk_silu(llama_linear(x, "mlp.gate_proj", inner, width, config));
    yk_value *y = yk_multiply(gate, llama_linear(x, "mlp.up_proj", inner, width, config));
    return llama_linear(y, "mlp.down_proj", width, inner, config);
}

static inline yk_value *llama_layer(yk_value *x, const llama_config *config)
{
    const double eps = config->rms_norm_eps;
    x = yk_add(x, llama_attention(yk_nn_rms_norm(x, "input_layernorm", eps), config));
    return yk_add(x, llama_mlp(yk_nn_rms_norm(x, "post_attention_layernorm", eps), config));
}

/* tokens (N, T), int32 -> logits (N, T, vocab_size). */
static inline yk_value *llama_logits(yk_value *tokens, const llama_config *config)
{
    yk_graph *graph = yk_value_graph(tokens);
    const int64_t words = config->vocab_size, width = config->hidden_size;
    yk_scope_push(graph, "model");
    yk_value *embeddings = llama_weight(graph, "embed_tokens", words, width, config);
    yk_value *x = yk_embedding(tokens, embeddings);
    for (int64_t layer = 0; layer < config->num_hidden_layers; layer++) {
        char name[32];
        snprintf(name, sizeof name, "layers.%lld", (long long)layer);
        yk_scope_push(graph, name);
        x = llama_layer(x, config);
        yk_scope_pop(graph);
    }
    x = yk_nn_rms_norm(x, "norm", config->rms_norm_eps);
    yk_scope_pop(graph);
    if (config->tie_word_embeddings)
        return yk_linear(x, embeddings, NULL);
    return llama_linear(x, "lm_head", words, width, config);
}

#endif

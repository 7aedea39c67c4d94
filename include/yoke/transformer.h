/**
 * @file
 * The layers of transformers (Vaswani et al., "Attention Is All You Need", 2017), as torch.nn's
 * with batch_first: names, shapes and order of their parameters are PyTorch's. Their operators are
 * in graph.h, and layers that other networks have too, such as norms and embeddings, in nn.h.
 */
#ifndef YOKE_TRANSFORMER_H
#define YOKE_TRANSFORMER_H

#include <yoke/nn.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/** How a layer attends. */
typedef struct yk_nn_multihead_attention_options {
    size_t size;                /**< set by YK_NN_MULTIHEAD_ATTENTION_OPTIONS_INIT */
    int64_t num_heads;          /**< of which E is a multiple, at least 1 [1] */
    double dropout;             /**< of the weights that softmax gives, 0 to below 1 [0] */
    bool bias;                  /**< in_proj_bias and out_proj.bias are declared [true] */
    bool is_causal;             /**< a query sees only the keys up to its own position [false] */
    yk_value *attn_mask;        /**< as in yk_attention_options [NULL] */
    yk_value *key_padding_mask; /**< (N, S) of the query's dtype, 1 where a key is padding, which no
                                   query sees, and 0 elsewhere; NULL: none is [NULL] */
} yk_nn_multihead_attention_options;

/** The defaults of yk_nn_multihead_attention_options. */
#define YK_NN_MULTIHEAD_ATTENTION_OPTIONS_INIT                                                     \
    {                                                                                              \
        sizeof(yk_nn_multihead_attention_options), 1, 0, true, false, NULL, NULL                   \
    }

/**
 * nn.MultiheadAttention: query (N, T, E), key (N, S, K), value (N, S, V) -> (N, T, E). A key that
 * is NULL is the query (self-attention), and a value that is NULL is the key. Declares the
 * parameters NAME.in_proj_weight (3 E, E) or, where K or V is not E, NAME.q_proj_weight (E, E),
 * NAME.k_proj_weight (E, K) and NAME.v_proj_weight (E, V); NAME.in_proj_bias (3 E);
 * NAME.out_proj.weight (E, E) and NAME.out_proj.bias (E). They start as PyTorch's. A query from
 * which all keys are hidden attends to nothing, where PyTorch has NaN. NULL options mean the
 * defaults.
 */
yk_value *yk_nn_multihead_attention(yk_value *query, yk_value *key, yk_value *value,
                                    const char *name,
                                    const yk_nn_multihead_attention_options *options);

/** What the layers of a transformer are like, and what is hidden from them. */
typedef struct yk_nn_transformer_options {
    size_t size;                          /**< set by YK_NN_TRANSFORMER_OPTIONS_INIT */
    int64_t num_heads;                    /**< nhead, of which E is a multiple, at least 1 [8] */
    int64_t dim_feedforward;              /**< columns between the two linear layers [2048] */
    double dropout;                       /**< of attention's weights, of what it adds, and of both
                                             linear layers' results, 0 to below 1 [0.1] */
    yk_value *(*activation)(yk_value *x); /**< between the linear layers [yk_relu] */
    double layer_norm_eps;                /**< above 0 [1e-5] */
    bool norm_first;     /**< norms come before attention and linear layers, not after [false] */
    bool final_norm;     /**< a stack ends with a norm, NAME.norm; layers have none [false] */
    bool is_causal;      /**< a token sees only those before it and itself [false] */
    yk_value *attn_mask; /**< of self-attention, as in yk_attention_options [NULL] */
    yk_value *key_padding_mask;        /**< (N, T): 1 where a token is padding, as in
                                          yk_nn_multihead_attention_options [NULL] */
    yk_value *memory_mask;             /**< of a decoder's attention to the memory [NULL] */
    yk_value *memory_key_padding_mask; /**< (N, S): 1 where the memory is padding [NULL] */
} yk_nn_transformer_options;

/** The defaults of yk_nn_transformer_options. */
#define YK_NN_TRANSFORMER_OPTIONS_INIT                                                             \
    {                                                                                              \
        sizeof(yk_nn_transformer_options), 8, 2048, 0.1, yk_relu, 1e-5, false, false, false, NULL, \
            NULL, NULL, NULL                                                                       \
    }

/**
 * nn.TransformerEncoderLayer: x (N, T, E) -> (N, T, E). Declares the layers NAME.self_attn (a
 * multi-head attention), NAME.linear1, NAME.linear2, NAME.norm1 and NAME.norm2, which start as
 * PyTorch's. NULL options mean the defaults; those about memory are for decoders.
 */
yk_value *yk_nn_transformer_encoder_layer(yk_value *x, const char *name,
                                          const yk_nn_transformer_options *options);
/**
 * nn.TransformerDecoderLayer: x (N, T, E), and the memory (N, S, E) to which it attends, which is
 * what an encoder has made -> (N, T, E). Declares NAME.multihead_attn and NAME.norm3 besides.
 * Decoders usually have is_causal.
 */
yk_value *yk_nn_transformer_decoder_layer(yk_value *x, yk_value *memory, const char *name,
                                          const yk_nn_transformer_options *options);
/**
 * nn.TransformerEncoder: num_layers (at least 1) layers one after another, NAME.layers.0 and so on.
 * Each layer draws its own initial values, while PyTorch copies one layer.
 */
yk_value *yk_nn_transformer_encoder(yk_value *x, const char *name, int64_t num_layers,
                                    const yk_nn_transformer_options *options);
/** nn.TransformerDecoder, likewise. */
yk_value *yk_nn_transformer_decoder(yk_value *x, yk_value *memory, const char *name,
                                    int64_t num_layers, const yk_nn_transformer_options *options);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif

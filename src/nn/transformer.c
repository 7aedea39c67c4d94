/*
 * Layers of transformers: Vaswani et al., "Attention Is All You Need" (2017), in the form of
 * torch.nn's modules. Heads lie side by side in the columns of a token, so nothing is transposed.
 */
#include <yoke/transformer.h>

#include <math.h>

#include "base/options.h"
#include "graph/operators.h"
#include "nn/layers.h"

/* ---- attention ------------------------------------------------------------------------------- */

/* The tokens that attention takes: (N, T, E), (N, S, K) and (N, S, V). */
enum { QUERY, KEY, VALUE, SIDES };

/* What makes queries, keys and values of the tokens. */
typedef struct projections {
    yk_value *weight[SIDES]; /* (E, E), (E, K), (E, V) */
    yk_value *joint;         /* (3 E, E) in place of these, if K and V are E */
    yk_value *bias;          /* (3 E), or NULL */
} projections;

static projections declare_projections(yk_value *const *tokens, bool has_bias)
{
    static const char *const names[] = {"q_proj_weight", "k_proj_weight", "v_proj_weight"};
    yk_graph *graph = yk_value_graph(tokens[QUERY]);
    const yk_dtype dtype = yk_value_dtype(tokens[QUERY]);
    const int64_t width = tokens[QUERY]->dims[2], joint[] = {SIDES * width, width};
    projections p = {.joint = NULL};
    if (tokens[KEY]->dims[2] == width && tokens[VALUE]->dims[2] == width)
        p.joint = yk_parameter(graph, "in_proj_weight", dtype, 2, joint, YK_INIT_XAVIER_UNIFORM, 0);
    for (int i = 0; i < SIDES && !p.joint; i++)
        p.weight[i] =
            yk_parameter(graph, names[i], dtype, 2, (int64_t[]){width, tokens[i]->dims[2]},
                         YK_INIT_XAVIER_UNIFORM, 0);
    if (has_bias)
        p.bias = yk_parameter(graph, "in_proj_bias", dtype, 1, joint, YK_INIT_ZEROS, 0);
    return p;
}

/* What attention takes, (N, T, E) and twice (N, S, E); or in sides[QUERY] alone, (N, T, 3 E), if
 * all three are of the same tokens. */
static void project(yk_value *const *tokens, const projections *p, yk_value **sides)
{
    const int64_t width = tokens[QUERY]->dims[2];
    if (tokens[KEY] == tokens[QUERY] && tokens[VALUE] == tokens[QUERY]) {
        sides[QUERY] = yk_linear(tokens[QUERY], p->joint, p->bias);
        return;
    }
    for (int i = 0; i < SIDES; i++) {
        yk_value *weight = p->joint ? yk_slice(p->joint, 0, i * width, width) : p->weight[i];
        yk_value *bias = p->bias ? yk_slice(p->bias, 0, i * width, width) : NULL;
        sides[i] = yk_linear(tokens[i], weight, bias);
    }
}

/* What is added to scores, or NULL; of padding, (N, 1, 1, S). */
static yk_value *mask_of(const yk_nn_multihead_attention_options *o)
{
    int64_t dims[YK_MAX_DIMS];
    yk_value *padding = o->key_padding_mask;
    if (!padding || yk_value_shape(padding, dims) < 0)
        return padding ? padding : o->attn_mask;
    padding = yk_reshape(padding, 4, (int64_t[]){dims[0], 1, 1, dims[1]});
    padding = yk_masked_fill(yk_full_like(padding, 0), padding, -INFINITY);
    return o->attn_mask ? yk_add(padding, o->attn_mask) : padding;
}

static yki_layer_init output_init(bool has_bias)
{
    return (yki_layer_init){YK_INIT_KAIMING_UNIFORM, has_bias, YK_INIT_ZEROS};
}

static yk_status check_attention(yk_value *const *tokens,
                                 const yk_nn_multihead_attention_options *o)
{
    static const char *const names[] = {"query", "key", "value"};
    const yk_value *padding = o->key_padding_mask, *key = tokens[KEY];
    char text[96], other[96];
    for (int i = 0; i < SIDES; i++)
        if (tokens[i]->ndim != 3)
            return yki_error(YK_ERROR_INVALID_SHAPE, "%s has shape %s, expected (N, T, E)",
                             names[i], yki_shape_text(tokens[i], text, sizeof text));
    if (padding && padding->valid &&
        (padding->ndim != 2 || padding->dims[0] != key->dims[0] ||
         padding->dims[1] != key->dims[1]))
        return yki_error(
            YK_ERROR_INVALID_SHAPE, "key_padding_mask has shape %s, expected (N, S) of the key, %s",
            yki_shape_text(padding, text, sizeof text), yki_shape_text(key, other, sizeof other));
    return YK_OK;
}

static yk_value *attend(yk_value *const *tokens, const yk_nn_multihead_attention_options *o)
{
    yk_value *sides[SIDES] = {NULL};
    yk_attention_options options = YK_ATTENTION_OPTIONS_INIT;
    options.num_heads = o->num_heads;
    options.is_causal = o->is_causal;
    options.dropout_p = o->dropout;
    options.attn_mask = mask_of(o);
    const projections p = declare_projections(tokens, o->bias);
    project(tokens, &p, sides);
    yk_value *x = yk_scaled_dot_product_attention(sides[QUERY], sides[KEY], sides[VALUE], &options);
    return yki_nn_linear(x, "out_proj", tokens[QUERY]->dims[2], output_init(o->bias));
}

yk_value *yk_nn_multihead_attention(yk_value *query, yk_value *key, yk_value *value,
                                    const char *name,
                                    const yk_nn_multihead_attention_options *options)
{
    yk_nn_multihead_attention_options o;
    yk_value *const tokens[SIDES] = {query, key ? key : query, value ? value : key ? key : query};
    for (int i = 0; i < SIDES; i++)
        if (yk_value_shape(tokens[i], NULL) < 0)
            return tokens[i] ? tokens[i] : yki_no_operand(name ? name : "a layer");
    yk_status status = YKI_READ_OPTIONS(&o, options, yk_nn_multihead_attention_options,
                                        YK_NN_MULTIHEAD_ATTENTION_OPTIONS_INIT);
    yk_graph *graph = yk_value_graph(query);
    yk_scope_push(graph, name);
    status = status == YK_OK ? check_attention(tokens, &o) : status;
    yk_value *x =
        status == YK_OK ? attend(tokens, &o) : yki_emit_error(query, "multihead_attention", status);
    yk_scope_pop(graph);
    return x;
}

/* ---- layers ---------------------------------------------------------------------------------- */

/*
 * PyTorch declares a layer's norms last, and the states of optimizers go by that order. A layer
 * therefore declares everything first, and is then built in a scope that uses it again.
 */

static const yki_layer_init linear_init = YKI_LINEAR_INIT;

static void declare_linear(yk_value *x, const char *name, int64_t out_features, int64_t in_features,
                           yki_layer_init init)
{
    yk_value *unused;
    yk_scope_push(yk_value_graph(x), name);
    yki_nn_declare_linear(x, out_features, in_features, init, &unused);
    yk_scope_pop(yk_value_graph(x));
}

static void declare_norm(yk_value *x, const char *name)
{
    yk_graph *graph = yk_value_graph(x);
    yk_scope_push(graph, name);
    yk_parameter(graph, "weight", yk_value_dtype(x), 1, &x->dims[2], YK_INIT_ONES, 0);
    yk_parameter(graph, "bias", yk_value_dtype(x), 1, &x->dims[2], YK_INIT_ZEROS, 0);
    yk_scope_pop(graph);
}

static void declare_attention(yk_value *x, yk_value *memory, const char *name)
{
    yk_scope_push(yk_value_graph(x), name);
    declare_projections((yk_value *[SIDES]){x, memory, memory}, true);
    declare_linear(x, "out_proj", x->dims[2], x->dims[2], output_init(true));
    yk_scope_pop(yk_value_graph(x));
}

/* memory: NULL in an encoder. */
static void declare_layer(yk_value *x, yk_value *memory, const yk_nn_transformer_options *o)
{
    declare_attention(x, x, "self_attn");
    if (memory)
        declare_attention(x, memory, "multihead_attn");
    declare_linear(x, "linear1", o->dim_feedforward, x->dims[2], linear_init);
    declare_linear(x, "linear2", x->dims[2], o->dim_feedforward, linear_init);
    declare_norm(x, "norm1");
    declare_norm(x, "norm2");
    if (memory)
        declare_norm(x, "norm3");
}

static yk_value *attend_to_itself(yk_value *x, yk_value *memory, const yk_nn_transformer_options *o)
{
    yk_nn_multihead_attention_options options = YK_NN_MULTIHEAD_ATTENTION_OPTIONS_INIT;
    (void)memory;
    options.num_heads = o->num_heads;
    options.dropout = o->dropout;
    options.is_causal = o->is_causal;
    options.attn_mask = o->attn_mask;
    options.key_padding_mask = o->key_padding_mask;
    return yk_nn_multihead_attention(x, NULL, NULL, "self_attn", &options);
}

static yk_value *attend_to_memory(yk_value *x, yk_value *memory, const yk_nn_transformer_options *o)
{
    yk_nn_multihead_attention_options options = YK_NN_MULTIHEAD_ATTENTION_OPTIONS_INIT;
    options.num_heads = o->num_heads;
    options.dropout = o->dropout;
    options.attn_mask = o->memory_mask;
    options.key_padding_mask = o->memory_key_padding_mask;
    return yk_nn_multihead_attention(x, memory, NULL, "multihead_attn", &options);
}

static yk_value *feed_forward(yk_value *x, yk_value *memory, const yk_nn_transformer_options *o)
{
    int64_t dims[YK_MAX_DIMS] = {0, 0, 1};
    (void)memory;
    yk_value_shape(x, dims);
    x = o->activation(yk_nn_linear(x, "linear1", o->dim_feedforward));
    return yk_nn_linear(yk_dropout(x, o->dropout), "linear2", dims[2]);
}

/* A part of a layer is added to what it takes, and a norm comes before the part or after the sum.
 */
static yk_value *add_part(yk_value *x, yk_value *memory, const yk_nn_transformer_options *o,
                          yk_value *(*part)(yk_value *x, yk_value *memory,
                                            const yk_nn_transformer_options *o),
                          const char *norm)
{
    yk_value *from = o->norm_first ? yk_nn_layer_norm(x, norm, o->layer_norm_eps) : x;
    x = yk_add(x, yk_dropout(part(from, memory, o), o->dropout));
    return o->norm_first ? x : yk_nn_layer_norm(x, norm, o->layer_norm_eps);
}

static yk_value *build_layer(yk_value *x, yk_value *memory, const yk_nn_transformer_options *o)
{
    yk_graph *graph = yk_value_graph(x);
    declare_layer(x, memory, o);
    yk_scope_reuse(graph, "");
    x = add_part(x, memory, o, attend_to_itself, "norm1");
    if (memory)
        x = add_part(x, memory, o, attend_to_memory, "norm2");
    x = add_part(x, memory, o, feed_forward, memory ? "norm3" : "norm2");
    yk_scope_pop(graph);
    return x;
}

/* ---- stacks ---------------------------------------------------------------------------------- */

/* What the functions of layers and stacks are called with. */
typedef struct call {
    const char *kind, *name;
    bool has_memory, is_stack;
    int64_t layers;
} call;

static yk_status check_call(const yk_value *x, const yk_value *memory, const call *c,
                            const yk_nn_transformer_options *o)
{
    char text[96];
    if (x->ndim != 3)
        return yki_error(YK_ERROR_INVALID_SHAPE, "input has shape %s, expected (N, T, E)",
                         yki_shape_text(x, text, sizeof text));
    if (memory && (memory->ndim != 3 || memory->dims[2] != x->dims[2]))
        return yki_error(YK_ERROR_INVALID_SHAPE,
                         "memory has shape %s, expected (N, S, %lld) as the input",
                         yki_shape_text(memory, text, sizeof text), (long long)x->dims[2]);
    if (!o->activation)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "the activation of the options is NULL");
    if (!c->is_stack && o->final_norm)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "final_norm is an option of stacks of layers");
    if (!c->has_memory && (o->memory_mask || o->memory_key_padding_mask))
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "memory_mask and memory_key_padding_mask are options of decoders");
    if (c->is_stack && !yki_in_range(c->layers, 1))
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "num_layers %lld: expected 1 or more",
                         (long long)c->layers);
    return YK_OK;
}

static yk_value *build_stack(yk_value *x, yk_value *memory, int64_t layers,
                             const yk_nn_transformer_options *o)
{
    yk_graph *graph = yk_value_graph(x);
    yk_scope_push(graph, "layers");
    for (int64_t i = 0; i < layers && x->valid; i++) {
        yki_scope_push_number(graph, (int)i);
        x = build_layer(x, memory, o);
        yk_scope_pop(graph);
    }
    yk_scope_pop(graph);
    return o->final_norm ? yk_nn_layer_norm(x, "norm", o->layer_norm_eps) : x;
}

static yk_value *build(yk_value *x, yk_value *memory, const call *c,
                       const yk_nn_transformer_options *options)
{
    yk_nn_transformer_options o;
    const char *name = c->name ? c->name : "a layer";
    if (yk_value_shape(x, NULL) < 0)
        return x ? x : yki_no_operand(name);
    if (c->has_memory && yk_value_shape(memory, NULL) < 0)
        return memory ? memory : yki_no_operand(name);
    yk_status status =
        YKI_READ_OPTIONS(&o, options, yk_nn_transformer_options, YK_NN_TRANSFORMER_OPTIONS_INIT);
    yk_graph *graph = yk_value_graph(x);
    yk_scope_push(graph, c->name);
    status = status == YK_OK ? check_call(x, memory, c, &o) : status;
    if (status != YK_OK)
        x = yki_emit_error(x, c->kind, status);
    else
        x = c->is_stack ? build_stack(x, memory, c->layers, &o) : build_layer(x, memory, &o);
    yk_scope_pop(graph);
    return x;
}

yk_value *yk_nn_transformer_encoder_layer(yk_value *x, const char *name,
                                          const yk_nn_transformer_options *options)
{
    return build(x, NULL, &(call){"transformer_encoder_layer", name, false, false, 1}, options);
}

yk_value *yk_nn_transformer_decoder_layer(yk_value *x, yk_value *memory, const char *name,
                                          const yk_nn_transformer_options *options)
{
    return build(x, memory, &(call){"transformer_decoder_layer", name, true, false, 1}, options);
}

yk_value *yk_nn_transformer_encoder(yk_value *x, const char *name, int64_t num_layers,
                                    const yk_nn_transformer_options *options)
{
    return build(x, NULL, &(call){"transformer_encoder", name, false, true, num_layers}, options);
}

yk_value *yk_nn_transformer_decoder(yk_value *x, yk_value *memory, const char *name,
                                    int64_t num_layers, const yk_nn_transformer_options *options)
{
    return build(x, memory, &(call){"transformer_decoder", name, true, true, num_layers}, options);
}

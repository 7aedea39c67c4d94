/* Attention and rotary position embeddings as nodes of ONNX. */
#include "onnx/operators.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "graph/rotary.h"

/* q, k or v: the value whose rows have its heads, or NULL where they are a part of q's. */
typedef struct attention_rows {
    const char *name;
    const yk_value *value;
    int64_t heads, width;
    bool is_keys;
} attention_rows;

/* Another part of the attention, which is named after these rows. */
static const char *part_of(const attention_rows *rows, const char *suffix, char text[YKI_ONNX_NAME])
{
    snprintf(text, YKI_ONNX_NAME, "%s%s", rows->name, suffix);
    return text;
}

/* The rows in dimensions of these sizes. */
static void write_rows_as(yki_onnx_graph *g, const yk_value *out, const attention_rows *rows,
                          const char *made, int count, const int64_t *sizes)
{
    char shape[YKI_ONNX_NAME];
    snprintf(shape, YKI_ONNX_NAME, "%s_shape", made);
    yki_onnx_add_sizes(g, out, shape, count, sizes);
    size_t node = yki_onnx_begin_node(g, "Reshape", out, made);
    if (rows->value)
        yki_onnx_add_operand(g, rows->value);
    else
        yki_onnx_add_part(g, out, rows->name);
    yki_onnx_add_part(g, out, shape);
    yki_onnx_end_node(g, node);
}

/* (N, T, heads, width) of rows with fewer heads, each of which is repeated. */
static void write_repeated(yki_onnx_graph *g, const yk_value *out, const attention_rows *rows,
                           int64_t heads, const char *made)
{
    char shared[YKI_ONNX_NAME], repeated[YKI_ONNX_NAME], times[YKI_ONNX_NAME], shape[YKI_ONNX_NAME];
    part_of(rows, "_shared", shared);
    part_of(rows, "_repeated", repeated);
    part_of(rows, "_times", times);
    part_of(rows, "_shape", shape);
    write_rows_as(g, out, rows, shared, 5, (int64_t[]){0, 0, rows->heads, 1, rows->width});
    yki_onnx_add_sizes(g, out, times, 5, (int64_t[]){1, 1, 1, heads / rows->heads, 1});
    yki_onnx_add_step(g, "Expand", out, repeated, shared, times);
    yki_onnx_add_sizes(g, out, shape, 4, (int64_t[]){0, 0, heads, rows->width});
    yki_onnx_add_step(g, "Reshape", out, made, repeated, shape);
}

/* Of rows (N, T, heads width): (N, heads of queries, T, width), or for keys (N, heads of queries,
 * width, T). */
static void write_heads(yki_onnx_graph *g, const yki_node *node, const attention_rows *rows)
{
    const yk_value *out = node->out[YKI_ATTENTION_Y];
    const int64_t heads = node->attrs.heads;
    char apart[YKI_ONNX_NAME], text[YKI_ONNX_NAME];
    part_of(rows, "_apart", apart);
    if (rows->heads == heads)
        write_rows_as(g, out, rows, apart, 4, (int64_t[]){0, 0, heads, rows->width});
    else
        write_repeated(g, out, rows, heads, apart);
    size_t made = yki_onnx_begin_node(g, "Transpose", out, part_of(rows, "_heads", text));
    yki_onnx_add_part(g, out, apart);
    yki_onnx_add_list(g, "perm", rows->is_keys ? (int64_t[]){0, 2, 3, 1} : (int64_t[]){0, 2, 1, 3},
                      4);
    yki_onnx_end_node(g, made);
}

/* q, k and v of a value that has all three. */
static void write_split(yki_onnx_graph *g, const yki_node *node, int64_t width)
{
    const yk_value *out = node->out[YKI_ATTENTION_Y];
    const int64_t columns = node->attrs.heads * width, of_keys = node->attrs.kv_heads * width;
    yki_onnx_add_sizes(g, out, ".columns", 3, (int64_t[]){columns, of_keys, of_keys});
    size_t made = yki_onnx_begin_node(g, "Split", out, ".q");
    yki_onnx_add_output(g, out, ".k");
    yki_onnx_add_output(g, out, ".v");
    yki_onnx_add_operand(g, node->in[YKI_ATTENTION_Q]);
    yki_onnx_add_part(g, out, ".columns");
    yki_onnx_add_int(g, "axis", 2);
    yki_onnx_end_node(g, made);
}

/* What is added to scores: nothing, or where the causal mask hides a key `hidden`. */
static void write_mask(yki_onnx_graph *g, const yk_value *out, int64_t queries, int64_t keys,
                       double hidden)
{
    double *mask = yki_calloc((size_t)(queries * keys), sizeof *mask);
    g->message.failed |= !mask;
    for (int64_t i = 0; mask && i < queries * keys; i++)
        mask[i] = i % keys > i / keys ? hidden : 0;
    if (mask)
        yki_onnx_add_initializer(g, out, ".mask", 2, (int64_t[]){queries, keys}, mask);
    free(mask);
}

/* The softmax of the scores with the mask. Where all keys are hidden from a query, it is NaN, which
 * becomes 0. */
static void write_shares(yki_onnx_graph *g, const yk_value *out, const char *scores,
                         const yk_value *mask)
{
    if (mask) {
        size_t sum = yki_onnx_begin_node(g, "Add", out, ".masked_scores");
        yki_onnx_add_part(g, out, scores);
        yki_onnx_add_operand(g, mask);
        yki_onnx_end_node(g, sum);
        scores = ".masked_scores";
    }
    size_t softmax = yki_onnx_begin_node(g, "Softmax", out, mask ? ".all_shares" : ".shares");
    yki_onnx_add_part(g, out, scores);
    yki_onnx_add_int(g, "axis", -1);
    yki_onnx_end_node(g, softmax);
    if (!mask)
        return;
    yki_onnx_add_step(g, "IsNaN", out, ".hidden", ".all_shares", NULL);
    yki_onnx_add_constant(g, out, ".none", 0);
    size_t made = yki_onnx_begin_node(g, "Where", out, ".shares");
    yki_onnx_add_part(g, out, ".hidden");
    yki_onnx_add_part(g, out, ".none");
    yki_onnx_add_part(g, out, ".all_shares");
    yki_onnx_end_node(g, made);
}

void yki_onnx_write_attention(yki_onnx_graph *g, const yki_node *node, const char *type)
{
    const yk_value *out = node->out[YKI_ATTENTION_Y], *q = node->in[YKI_ATTENTION_Q];
    const yk_value *k = node->in[YKI_ATTENTION_K], *v = node->in[YKI_ATTENTION_V];
    const int64_t heads = node->attrs.heads, kv_heads = node->attrs.kv_heads;
    const int64_t width = q->dims[2] / (k ? heads : heads + 2 * kv_heads);
    const attention_rows queries = {".q", k ? q : NULL, heads, width, false};
    const attention_rows keys = {".k", k, kv_heads, width, true};
    const attention_rows values = {".v", v, kv_heads, out->dims[2] / heads, false};
    const yk_value *mask = node->in[YKI_ATTENTION_MASK];
    const char *scores = ".all_scores";
    if (!k)
        write_split(g, node, width);
    write_heads(g, node, &queries);
    write_heads(g, node, &keys);
    write_heads(g, node, &values);
    yki_onnx_add_step(g, type, out, ".products", ".q_heads", ".k_heads");
    yki_onnx_add_constant(g, out, ".scale", node->attrs.alpha);
    yki_onnx_add_step(g, "Mul", out, scores, ".products", ".scale");
    if (node->attrs.causal) {
        write_mask(g, out, q->dims[1], (k ? k : q)->dims[1], mask ? -INFINITY : -FLT_MAX);
        yki_onnx_add_step(g, "Add", out, ".causal_scores", scores, ".mask");
        scores = ".causal_scores";
    }
    write_shares(g, out, scores, mask);
    yki_onnx_add_step(g, type, out, ".y_heads", ".shares", ".v_heads");
    size_t made = yki_onnx_begin_node(g, "Transpose", out, ".y_apart");
    yki_onnx_add_part(g, out, ".y_heads");
    yki_onnx_add_list(g, "perm", (int64_t[]){0, 2, 1, 3}, 4);
    yki_onnx_end_node(g, made);
    yki_onnx_add_sizes(g, out, ".shape", 3, (int64_t[]){0, 0, out->dims[2]});
    yki_onnx_add_step(g, "Reshape", out, "", ".y_apart", ".shape");
}

/* The cosines and sines of all positions, (T, 1, width), with which a head x becomes
 * x cosines + partners sines, and the partner of each column. Columns that are not turned have the
 * angle 0. */
static void write_rotary_tables(yki_onnx_graph *g, const yki_node *node, int64_t width)
{
    const yk_value *out = node->out[0];
    const yki_attrs *a = &node->attrs;
    const int64_t tokens = out->dims[1], distance = yki_rotary_distance(a->rotary, a->interleaved);
    const size_t count = (size_t)(tokens * width);
    double *cosines = yki_calloc(count, sizeof *cosines), *sines = yki_calloc(count, sizeof *sines);
    int64_t *partners = yki_calloc((size_t)width, sizeof *partners);
    const bool good = cosines && sines && partners;
    g->message.failed |= !good;
    for (int64_t i = 0; good && i < width; i++)
        partners[i] = i;
    for (size_t i = 0; good && i < count; i++)
        cosines[i] = 1;
    for (int64_t pair = 0; good && pair < a->rotary / 2; pair++) {
        const float frequency = yki_rotary_frequency(a->alpha, pair, a->rotary);
        const int64_t i = yki_rotary_column(pair, a->interleaved), j = i + distance;
        partners[i] = j;
        partners[j] = i;
        for (int64_t t = 0; t < tokens; t++) {
            const double angle = yki_rotary_angle(a->first + t, frequency);
            cosines[t * width + i] = cosines[t * width + j] = cos(angle);
            sines[t * width + j] = a->inverse ? -sin(angle) : sin(angle);
            sines[t * width + i] = -sines[t * width + j];
        }
    }
    if (good) {
        yki_onnx_add_initializer(g, out, ".cosines", 3, (int64_t[]){tokens, 1, width}, cosines);
        yki_onnx_add_initializer(g, out, ".sines", 3, (int64_t[]){tokens, 1, width}, sines);
        yki_onnx_add_sizes(g, out, ".pairs", (int)width, partners);
    }
    free(cosines);
    free(sines);
    free(partners);
}

/* ONNX has RotaryEmbedding from set 23 on. */
void yki_onnx_write_rotary(yki_onnx_graph *g, const yki_node *node, const char *type)
{
    const yk_value *out = node->out[0];
    const int64_t width = out->dims[2] / node->attrs.heads;
    write_rotary_tables(g, node, width);
    yki_onnx_add_sizes(g, out, ".apart", 4, (int64_t[]){0, 0, node->attrs.heads, width});
    size_t made = yki_onnx_begin_node(g, "Reshape", out, ".heads");
    yki_onnx_add_operand(g, node->in[0]);
    yki_onnx_add_part(g, out, ".apart");
    yki_onnx_end_node(g, made);
    made = yki_onnx_begin_node(g, type, out, ".partners");
    yki_onnx_add_part(g, out, ".heads");
    yki_onnx_add_part(g, out, ".pairs");
    yki_onnx_add_int(g, "axis", 3);
    yki_onnx_end_node(g, made);
    yki_onnx_add_step(g, "Mul", out, ".own", ".heads", ".cosines");
    yki_onnx_add_step(g, "Mul", out, ".others", ".partners", ".sines");
    yki_onnx_add_step(g, "Add", out, ".turned", ".own", ".others");
    yki_onnx_add_sizes(g, out, ".shape", 3, (int64_t[]){0, 0, out->dims[2]});
    yki_onnx_add_step(g, "Reshape", out, "", ".turned", ".shape");
}

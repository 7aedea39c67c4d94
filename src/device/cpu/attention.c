/*
 * scaled_dot_product_attention in f32, and in bf16 and f16 by way of it: a thread takes a head of a
 * sample, copies its rows to memory of its own, where they fit the caches, and computes some
 * queries at a time with all the keys that these see. Scores never leave the caches. Backward makes
 * them again from the logarithms of their sums, and draws the masks of dropout again.
 *
 * Where several heads of queries share keys and values, a thread takes all of them, one after
 * another, and copies the keys and values once. Backward always does, so that the gradients of keys
 * and values are summed in one order. Forward does so if that leaves work for every thread.
 *
 * Rows are padded with zeros to whole vectors, in memory of a thread (T queries, S keys):
 * q (T, D), times the scale, so that dk needs none; k (S, D); k^T (D, S); v (S, V); ...
 */
#include "device/attention.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "device/cpu/cpu.h"
#include "device/cpu/geometry.h"
#include "device/cpu/loops/loops.h"

enum {
    QUERIES = 48, /* at a time: a multiple of the rows that every width of vectors sums */
    COLUMNS = 16  /* what rows are padded to: a multiple of every width of vectors */
};

typedef struct attention {
    yki_kernel base;
    yki_attention a;
    const yki_cpu_loops *loops;
    yk_dtype dtype;
    int64_t d, v; /* the widths of heads, padded */
    int64_t s;    /* the pitch of rows of all keys */
    int64_t each; /* heads that a thread takes at a time: one, or all of a group */
    int64_t own;  /* floats of a thread */
    int team;
    bool out[YKI_MAX_OUT];
} attention;

static int64_t padded(int64_t count)
{
    return (count + COLUMNS - 1) / COLUMNS * COLUMNS;
}

/* From one row of all keys to the next: an odd number of cache lines. Rows that are a power of two
 * apart would share a few sets of a cache, which a column of them does not fit. */
static int64_t keys_pitch(int64_t keys)
{
    const int64_t columns = padded(keys);
    return columns / COLUMNS % 2 ? columns : columns + COLUMNS;
}

static bool is_plain_like(const yki_operand *operand, yk_dtype dtype)
{
    return operand->ndim < 0 || (operand->dtype == dtype && operand->layout == YKI_PLAIN);
}

static bool supports(const yki_device *device, const yki_kernel_desc *desc)
{
    (void)device;
    const yk_dtype dtype = desc->in[YKI_ATTENTION_Q].dtype;
    return yki_is_float(&desc->in[YKI_ATTENTION_Q]) &&
           is_plain_like(&desc->in[YKI_ATTENTION_Q], dtype) &&
           is_plain_like(&desc->in[YKI_ATTENTION_K], dtype) &&
           is_plain_like(&desc->in[YKI_ATTENTION_V], dtype) &&
           (!yki_has_in(desc, YKI_ATTENTION_MASK) || desc->in[YKI_ATTENTION_MASK].dtype == YK_F32);
}

/* whole: a thread takes all heads of a group, even if some threads then have none. */
static attention *create(yki_device *device, const yki_kernel_desc *desc, bool whole)
{
    attention *k = yki_calloc(1, sizeof *k);
    if (!k) {
        yki_error_memory(sizeof *k, "an attention kernel");
        return NULL;
    }
    k->a = yki_attention_of(desc);
    if (desc->in[YKI_ATTENTION_MASK].layout == YKI_BLOCKED)
        k->a.mask.block = device->block;
    k->loops = yki_cpu_loops_of(device);
    k->dtype = desc->in[YKI_ATTENTION_Q].dtype;
    k->d = padded(k->a.q.width);
    k->v = padded(k->a.v.width);
    k->s = keys_pitch(k->a.k.rows);
    int64_t heads = k->a.batch * k->a.heads;
    k->team = yki_team(device, heads * k->a.q.rows * k->a.k.rows);
    k->each = whole || k->a.batch * k->a.kv_heads >= k->team ? k->a.group : 1;
    k->team = k->team < heads / k->each ? k->team : (int)(heads / k->each);
    for (int i = 0; i < YKI_MAX_OUT; i++)
        k->out[i] = yki_has_out(desc, i);
    return k;
}

/* floats: those of a thread beside a row of a mask, which comes last. */
static void reserve(attention *k, int64_t floats)
{
    k->own = yki_line_floats(floats + k->s);
    k->base.scratch = (size_t)(k->team * k->own) * sizeof(float);
}

/* ---- a head's rows, to a thread's memory and back -------------------------------------------- */

/* The head that a thread works on, or the first of several. */
typedef struct head {
    const attention *k;
    const yki_kernel_args *run;
    int64_t sample, head;
    float *own;
} head;

/* So many rows of a part from `first` on, and their copy in rows of so many floats. */
static yki_head_rows rows_of(const head *h, const yki_attention_part *part, void *memory,
                             int64_t first, int64_t rows, float factor, int64_t pitch, float *own)
{
    const int64_t at = yki_attention_at(part, h->sample, first, h->head);
    return (yki_head_rows){.dtype = h->k->dtype,
                           .memory = (char *)memory + (size_t)at * yk_dtype_size(h->k->dtype),
                           .own = own,
                           .rows = rows,
                           .width = part->width,
                           .pitch = part->pitch,
                           .own_pitch = pitch,
                           .factor = factor};
}

/* All rows of a part, times the factor. */
static void take(const head *h, const yki_attention_part *part, void *memory, float factor,
                 int64_t pitch, float *to)
{
    const yki_head_rows rows = rows_of(h, part, memory, 0, part->rows, factor, pitch, to);
    h->k->loops->take_rows(&rows);
}

/* So many rows from `first` on, times the factor. */
static void give(const head *h, const yki_attention_part *part, void *memory, int64_t first,
                 int64_t count, float factor, int64_t pitch, float *from)
{
    const yki_head_rows rows = rows_of(h, part, memory, first, count, factor, pitch, from);
    h->k->loops->give_rows(&rows);
}

/* ---- blocks of queries ----------------------------------------------------------------------- */

typedef struct block {
    int64_t first, rows;   /* queries */
    int64_t keys, columns; /* that they see, and padded */
} block;

static block block_from(const attention *k, int64_t first)
{
    int64_t left = k->a.q.rows - first, rows = left < QUERIES ? left : QUERIES;
    int64_t keys = yki_attention_keys(&k->a, first + rows - 1);
    return (block){first, rows, keys, padded(keys)};
}

/* Of each query with the keys, rows of k->s: what a (rows, inner) makes of b (inner, k->s). */
static void against_keys(const attention *k, const block *b, const float *rows, int64_t inner,
                         int64_t pitch, const float *turned, float *result)
{
    k->loops->multiply(&(yki_small_product){.a = rows + b->first * pitch,
                                            .b = turned,
                                            .c = result,
                                            .rows = b->rows,
                                            .inner = inner,
                                            .columns = b->columns,
                                            .a_row = pitch,
                                            .a_inner = 1,
                                            .b_pitch = k->s,
                                            .c_pitch = k->s});
}

/* The sum of all keys' rows, weighted. */
static void over_keys(const attention *k, const block *b, const float *weights, const float *rows,
                      int64_t pitch, float *result)
{
    k->loops->multiply(&(yki_small_product){.a = weights,
                                            .b = rows,
                                            .c = result,
                                            .rows = b->rows,
                                            .inner = b->keys,
                                            .columns = pitch,
                                            .a_row = k->s,
                                            .a_inner = 1,
                                            .b_pitch = pitch,
                                            .c_pitch = pitch});
}

/* Adds to each key's row the sum of the queries' rows, weighted. */
static void over_queries(const attention *k, const block *b, const float *weights,
                         const float *rows, int64_t pitch, float *result)
{
    k->loops->multiply(&(yki_small_product){.a = weights,
                                            .b = rows + b->first * pitch,
                                            .c = result,
                                            .rows = b->keys,
                                            .inner = b->rows,
                                            .columns = pitch,
                                            .a_row = 1,
                                            .a_inner = k->s,
                                            .b_pitch = pitch,
                                            .c_pitch = pitch,
                                            .add = true});
}

/* Of a head in log_sums (N, heads, T). */
static int64_t log_sums_at(const head *h)
{
    return (h->sample * h->k->a.heads + h->head) * h->k->a.q.rows;
}

/* Calls work for every k->each heads, on all threads. */
static yk_status for_heads(const attention *k, const yki_kernel_args *run,
                           void (*work)(const head *h))
{
#pragma omp parallel for num_threads(k->team) if (k->team > 1) schedule(dynamic)
    for (int64_t i = 0; i < k->a.batch * k->a.heads; i += k->each)
        work(&(head){.k = k,
                     .run = run,
                     .sample = i / k->a.heads,
                     .head = i % k->a.heads,
                     .own = (float *)run->scratch + omp_get_thread_num() * k->own});
    return YK_OK;
}

/* ---- attn_mask ------------------------------------------------------------------------------- */

static void mask_scores(const head *h, int64_t query, int64_t keys, float *row)
{
    const yki_attention_mask *m = &h->k->a.mask;
    const float *mask = (const float *)h->run->in[YKI_ATTENTION_MASK] +
                        yki_attention_mask_at(m, h->sample, h->head, query);
    const int64_t step = yki_attention_mask_step(m);
    if (step == 1) {
        const yki_elementwise add = {.op = YKI_MAP_ADD, .dtype = YK_F32};
        h->k->loops->map(&add, row, mask, row, keys);
        return;
    }
    for (int64_t key = 0; key < keys; key++)
        row[key] += mask[key * step];
}

static bool all_hidden(const float *row, int64_t keys)
{
    int64_t key = 0;
    while (key < keys && row[key] == -INFINITY)
        key++;
    return key == keys;
}

/* ---- dropout --------------------------------------------------------------------------------- */

/* Which of the keys dropout leaves to a query. */
static uint16_t *draw_kept(const head *h, int64_t query, int64_t keys)
{
    const yki_attention *a = &h->k->a;
    const yki_dropout_draw draw = yki_attention_draw(a, h->run->scalars);
    uint16_t *kept = (uint16_t *)(h->own + h->k->own - h->k->s);
    h->k->loops->draw(&draw, yki_attention_share(a, h->sample, h->head, query), keys, kept);
    return kept;
}

/* Dropout of the keys' numbers in a row. */
static void drop(const attention *k, const uint16_t *kept, int64_t keys, float *row)
{
    k->loops->drop(YK_F32, row, kept, row, (float)(1 / (1 - k->a.dropout)), keys);
}

/* ---- forward --------------------------------------------------------------------------------- */

static yk_status prepare(yki_device *device, const yki_kernel_desc *desc, yki_kernel **kernel)
{
    attention *k = create(device, desc, false);
    if (!k)
        return YK_ERROR_OUT_OF_MEMORY;
    const yki_attention *a = &k->a;
    int64_t keys = a->k.rows * (k->d + k->v) + a->k.width * k->s;
    reserve(k, a->q.rows * k->d + keys + QUERIES * (k->s + k->v));
    *kernel = &k->base;
    return YK_OK;
}

/* In a thread's memory. */
typedef struct forward_rows {
    float *q, *keys, *turned, *v; /* turned: k^T */
    float *p, *y;                 /* of a block */
} forward_rows;

/* Of a query's scores with the keys that it sees makes its shares; returns log_sums' number, which
 * is 0 where there are no shares, so that backward finds none either. */
static float share_out(const head *h, int64_t query, int64_t columns, float *row)
{
    const attention *k = h->k;
    const int64_t keys = yki_attention_keys(&k->a, query);
    if (k->a.mask.keys) {
        mask_scores(h, query, keys, row);
        if (all_hidden(row, keys)) {
            memset(row, 0, (size_t)columns * sizeof *row);
            return 0;
        }
    }
    const float log_sum = k->loops->masked_softmax(row, keys, columns);
    if (k->a.dropout > 0)
        drop(k, draw_kept(h, query, keys), keys, row);
    return log_sum;
}

/* Writes y of the queries of one head. */
static void attend_queries(const head *h, const forward_rows *own)
{
    const attention *k = h->k;
    const yki_attention *a = &k->a;
    float *log_sums = k->out[YKI_ATTENTION_LOG_SUMS] ? h->run->out[YKI_ATTENTION_LOG_SUMS] : NULL;
    float *q = own->q, *p = own->p;
    take(h, &a->q, h->run->in[a->q.operand], (float)a->scale, k->d, q);
    for (int64_t first = 0; first < a->q.rows; first += QUERIES) {
        block b = block_from(k, first);
        against_keys(k, &b, q, a->q.width, k->d, own->turned, p);
        for (int64_t i = 0; i < b.rows; i++) {
            float log_sum = share_out(h, first + i, b.columns, p + i * k->s);
            if (log_sums)
                log_sums[log_sums_at(h) + first + i] = log_sum;
        }
        over_keys(k, &b, p, own->v, k->v, own->y);
        give(h, &a->y, h->run->out[YKI_ATTENTION_Y], first, b.rows, 1, k->v, own->y);
    }
}

static void attend(const head *h)
{
    const attention *k = h->k;
    const yki_attention *a = &k->a;
    void *const *in = h->run->in;
    forward_rows own = {.q = h->own};
    own.keys = own.q + a->q.rows * k->d;
    own.turned = own.keys + a->k.rows * k->d;
    own.v = own.turned + a->k.width * k->s;
    own.p = own.v + a->k.rows * k->v;
    own.y = own.p + QUERIES * k->s;
    take(h, &a->k, in[a->k.operand], 1, k->d, own.keys);
    take(h, &a->v, in[a->v.operand], 1, k->v, own.v);
    k->loops->turn_rows(own.keys, a->k.rows, a->k.width, k->d, own.turned, k->s);
    head of = *h;
    for (int64_t i = 0; i < k->each; i++, of.head++)
        attend_queries(&of, &own);
}

static yk_status run_forward(const yki_kernel *kernel, const yki_kernel_args *run)
{
    return for_heads((const attention *)kernel, run, attend);
}

const yki_kernel_impl yki_cpu_scaled_dot_product_attention = {
    .op = &yki_op_scaled_dot_product_attention,
    .supports = supports,
    .prepare = prepare,
    .run = run_forward};

/* ---- gradients ------------------------------------------------------------------------------- */

/* dv = (m p)^T dy, dp = m (dy v^T), ds = p (dp - sum(p dp)), dq = scale ds k, dk = ds^T q, where m
 * is what dropout multiplies by. */

static yk_status prepare_backward(yki_device *device, const yki_kernel_desc *desc,
                                  yki_kernel **kernel)
{
    attention *k = create(device, desc, true);
    if (!k)
        return YK_ERROR_OUT_OF_MEMORY;
    const yki_attention *a = &k->a;
    int64_t queries = a->q.rows * (k->d + k->v), keys = 2 * a->k.rows * (k->d + k->v);
    reserve(k, queries + keys + (a->k.width + a->v.width) * k->s + QUERIES * (2 * k->s + k->d));
    *kernel = &k->base;
    return YK_OK;
}

/* In a thread's memory. */
typedef struct backward_rows {
    float *q, *dy, *keys, *v, *dk, *dv;
    float *turned_keys, *turned_v; /* k^T, v^T */
    float *p, *ds, *dq;            /* of a block */
} backward_rows;

static backward_rows backward_rows_of(const head *h)
{
    const attention *k = h->k;
    const yki_attention *a = &k->a;
    backward_rows own = {.q = h->own};
    own.dy = own.q + a->q.rows * k->d;
    own.keys = own.dy + a->q.rows * k->v;
    own.v = own.keys + a->k.rows * k->d;
    own.dk = own.v + a->k.rows * k->v;
    own.dv = own.dk + a->k.rows * k->d;
    own.turned_keys = own.dv + a->k.rows * k->v;
    own.turned_v = own.turned_keys + a->k.width * k->s;
    own.p = own.turned_v + a->v.width * k->s;
    own.ds = own.p + QUERIES * k->s;
    own.dq = own.ds + QUERIES * k->s;
    return own;
}

/* Of a query's scores makes m p, and of its slopes, dy v^T, makes ds. */
static void share_slopes(const head *h, int64_t query, int64_t columns, float log_sum, float *row,
                         float *slopes)
{
    const attention *k = h->k;
    const int64_t keys = yki_attention_keys(&k->a, query);
    const uint16_t *kept = k->a.dropout > 0 ? draw_kept(h, query, keys) : NULL;
    if (k->a.mask.keys)
        mask_scores(h, query, keys, row);
    if (kept)
        drop(k, kept, keys, slopes);
    k->loops->masked_softmax_slopes(row, slopes, keys, columns, log_sum);
    if (kept)
        drop(k, kept, keys, row);
}

/* Writes dq of the queries of one head, and adds what they give to dk and dv. */
static void differentiate_queries(const head *h, const backward_rows *own)
{
    const attention *k = h->k;
    const yki_attention *a = &k->a;
    void *const *in = h->run->in, *const *out = h->run->out;
    const float *log_sums = (const float *)in[YKI_ATTENTION_BACKWARD_LOG_SUMS] + log_sums_at(h);
    float *q = own->q, *dy = own->dy, *p = own->p, *ds = own->ds;
    take(h, &a->q, in[a->q.operand], (float)a->scale, k->d, q);
    take(h, &a->y, in[YKI_ATTENTION_BACKWARD_DY], 1, k->v, dy);
    for (int64_t first = 0; first < a->q.rows; first += QUERIES) {
        block b = block_from(k, first);
        against_keys(k, &b, q, a->q.width, k->d, own->turned_keys, p);
        against_keys(k, &b, dy, a->v.width, k->v, own->turned_v, ds);
        for (int64_t i = 0; i < b.rows; i++)
            share_slopes(h, first + i, b.columns, log_sums[first + i], p + i * k->s, ds + i * k->s);
        over_keys(k, &b, ds, own->keys, k->d, own->dq);
        give(h, &a->q, out[a->q.operand], first, b.rows, (float)a->scale, k->d, own->dq);
        over_queries(k, &b, ds, q, k->d, own->dk);
        over_queries(k, &b, p, dy, k->v, own->dv);
    }
}

static void differentiate(const head *h)
{
    const attention *k = h->k;
    const yki_attention *a = &k->a;
    void *const *in = h->run->in, *const *out = h->run->out;
    const backward_rows own = backward_rows_of(h);
    take(h, &a->k, in[a->k.operand], 1, k->d, own.keys);
    take(h, &a->v, in[a->v.operand], 1, k->v, own.v);
    k->loops->turn_rows(own.keys, a->k.rows, a->k.width, k->d, own.turned_keys, k->s);
    k->loops->turn_rows(own.v, a->k.rows, a->v.width, k->v, own.turned_v, k->s);
    memset(own.dk, 0, (size_t)(a->k.rows * (k->d + k->v)) * sizeof *own.dk); /* and dv */
    head of = *h;
    for (int64_t i = 0; i < k->each; i++, of.head++)
        differentiate_queries(&of, &own);
    if (k->out[a->k.operand])
        give(h, &a->k, out[a->k.operand], 0, a->k.rows, 1, k->d, own.dk);
    if (k->out[a->v.operand])
        give(h, &a->v, out[a->v.operand], 0, a->k.rows, 1, k->v, own.dv);
}

static yk_status run_backward(const yki_kernel *kernel, const yki_kernel_args *run)
{
    return for_heads((const attention *)kernel, run, differentiate);
}

const yki_kernel_impl yki_cpu_scaled_dot_product_attention_backward = {
    .op = &yki_op_scaled_dot_product_attention_backward,
    .supports = supports,
    .prepare = prepare_backward,
    .run = run_backward};

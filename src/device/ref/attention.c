/*
 * scaled_dot_product_attention of each head: scores = scale q k^T + attn_mask, of which a query
 * sees all or, with the causal mask, the first ones; p = softmax(scores), y = (m p) v, where m is
 * what dropout multiplies by, 0 or 1 / (1 - its p). With dp = m (dy v^T) and
 * ds = p (dp - sum(p dp)): dv = (m p)^T dy, dq = scale ds k, dk = scale ds^T q, of which dv and dk
 * are sums over all heads of queries that share the head of keys and values.
 */
#include "device/attention.h"
#include "device/ref/ref.h"

#include <math.h>

enum { COLUMNS = 64 }; /* of a head that are summed at a time */

/* One head of one sample. */
typedef struct head {
    yki_attention a;
    int64_t sample, head;
    yki_dropout_draw draw;
    yk_tensor q, k, v, mask, dy; /* those that the kernel has */
    double *norms, *means; /* of backward, of the queries of a group: log_sum() and sum(p dp) */
} head;

static head begin(const yki_kernel *kernel, const yki_kernel_args *run)
{
    yki_kernel_desc desc = ((const yki_ref_kernel *)kernel)->desc;
    desc.attrs = yki_ref_attrs(kernel);
    head h = {.a = yki_attention_of(&desc)};
    h.draw = yki_attention_draw(&h.a, run->scalars);
    h.q = yki_ref_in(kernel, run, h.a.q.operand);
    h.k = yki_ref_in(kernel, run, h.a.k.operand);
    h.v = yki_ref_in(kernel, run, h.a.v.operand);
    h.mask = yki_ref_in(kernel, run, YKI_ATTENTION_MASK);
    return h;
}

static int64_t place(const head *h, const yki_attention_part *part, int64_t row)
{
    return yki_attention_at(part, h->sample, row, h->head);
}

static double dot(const head *h, const yk_tensor *a, const yki_attention_part *of_a, int64_t row_a,
                  const yk_tensor *b, const yki_attention_part *of_b, int64_t row_b)
{
    double sum = 0;
    int64_t at = place(h, of_a, row_a), other = place(h, of_b, row_b);
    for (int64_t i = 0; i < of_a->width; i++)
        sum += yki_ref_get(a, at + i) * yki_ref_get(b, other + i);
    return sum;
}

static double mask(const head *h, int64_t query, int64_t key)
{
    const yki_attention_mask *m = &h->a.mask;
    if (!h->mask.data)
        return 0;
    int64_t at = yki_attention_mask_at(m, h->sample, h->head, query);
    return yki_ref_get(&h->mask, at + key * yki_attention_mask_step(m));
}

static double score(const head *h, int64_t query, int64_t key)
{
    return h->a.scale * dot(h, &h->q, &h->a.q, query, &h->k, &h->a.k, key) + mask(h, query, key);
}

/* The element of log_sums (N, H, T). */
static int64_t of_query(const head *h, int64_t query)
{
    return (h->sample * h->a.heads + h->head) * h->a.q.rows + query;
}

/* log(sum(exp(scores))) over the keys that the query sees; 0 where all are hidden from it, so that
 * exp(score - log_sum) is 0. */
static double log_sum(const head *h, int64_t query)
{
    double largest = -INFINITY, sum = 0;
    for (int64_t key = 0; key < yki_attention_keys(&h->a, query); key++)
        largest = fmax(largest, score(h, query, key));
    largest = largest > -INFINITY ? largest : 0; /* or nothing is a number */
    for (int64_t key = 0; key < yki_attention_keys(&h->a, query); key++)
        sum += exp(score(h, query, key) - largest);
    return sum == 0 ? 0 : largest + log(sum);
}

/* What dropout multiplies the share by that a query has of a key. */
static double kept(const head *h, int64_t query, int64_t key)
{
    uint64_t share = yki_attention_share(&h->a, h->sample, h->head, query) + (uint64_t)key;
    return yki_dropout_keeps(&h->draw, share) ? 1 / (1 - h->a.dropout) : 0;
}

static int64_t columns_from(int64_t first, int64_t width)
{
    return width - first < COLUMNS ? width - first : COLUMNS;
}

/* Columns of a row, from `first` on, times a factor, added to sums. */
static void add_columns(const yk_tensor *from, int64_t at, int64_t first, int64_t width,
                        double factor, double *sums)
{
    for (int64_t i = 0; i < columns_from(first, width); i++)
        sums[i] += factor * yki_ref_get(from, at + first + i);
}

static void set_columns(const yk_tensor *to, int64_t at, int64_t first, int64_t width,
                        const double *sums)
{
    for (int64_t i = 0; i < columns_from(first, width); i++)
        yki_ref_set(to, at + first + i, sums[i]);
}

static void write_y(const head *h, const yk_tensor *y, int64_t query, double norm)
{
    int64_t width = h->a.v.width;
    for (int64_t first = 0; first < width; first += COLUMNS) {
        double sums[COLUMNS] = {0};
        for (int64_t key = 0; key < yki_attention_keys(&h->a, query); key++)
            add_columns(&h->v, place(h, &h->a.v, key), first, width,
                        kept(h, query, key) * exp(score(h, query, key) - norm), sums);
        set_columns(y, place(h, &h->a.y, query), first, width, sums);
    }
}

static yk_status ref_scaled_dot_product_attention(const yki_kernel *kernel,
                                                  const yki_kernel_args *run)
{
    head h = begin(kernel, run);
    yk_tensor y = yki_ref_out(kernel, run, YKI_ATTENTION_Y);
    yk_tensor log_sums = yki_ref_out(kernel, run, YKI_ATTENTION_LOG_SUMS);
    for (h.sample = 0; h.sample < h.a.batch; h.sample++)
        for (h.head = 0; h.head < h.a.heads; h.head++)
            for (int64_t query = 0; query < h.a.q.rows; query++) {
                double norm = log_sum(&h, query);
                write_y(&h, &y, query, norm);
                if (log_sums.data)
                    yki_ref_set(&log_sums, of_query(&h, query), norm);
            }
    return YK_OK;
}

/* ---- gradients ------------------------------------------------------------------------------- */

/* The place of a query in norms and means. */
static int64_t in_group(const head *h, int64_t query)
{
    return h->head % h->a.group * h->a.q.rows + query;
}

/* log_sums of forward would do but for its rounding, in a row of large scores by more than what a
 * share of almost 1 lacks. */
static double probability(const head *h, int64_t query, int64_t key)
{
    return exp(score(h, query, key) - h->norms[in_group(h, query)]);
}

static double slope(const head *h, int64_t query, int64_t key)
{
    return kept(h, query, key) * dot(h, &h->dy, &h->a.y, query, &h->v, &h->a.v, key);
}

static double mean_slope(const head *h, int64_t query)
{
    double sum = 0;
    for (int64_t key = 0; key < yki_attention_keys(&h->a, query); key++)
        sum += probability(h, query, key) * slope(h, query, key);
    return sum;
}

static double kept_probability(const head *h, int64_t query, int64_t key)
{
    return kept(h, query, key) * probability(h, query, key);
}

/* Of the product of q and k. */
static double score_slope(const head *h, int64_t query, int64_t key)
{
    return h->a.scale * probability(h, query, key) *
           (slope(h, query, key) - h->means[in_group(h, query)]);
}

static void write_dq(const head *h, const yk_tensor *dq, int64_t query)
{
    int64_t width = h->a.q.width;
    for (int64_t first = 0; first < width; first += COLUMNS) {
        double sums[COLUMNS] = {0};
        for (int64_t key = 0; key < yki_attention_keys(&h->a, query); key++)
            add_columns(&h->k, place(h, &h->a.k, key), first, width, score_slope(h, query, key),
                        sums);
        set_columns(dq, place(h, &h->a.q, query), first, width, sums);
    }
}

/* The first query that sees a key. */
static int64_t first_query(const head *h, int64_t key)
{
    return h->a.causal ? key : 0;
}

/* A key's row of the gradient of `part`: rows of the group's queries, times their share of each. */
static void write_of_key(const head *h, const yk_tensor *gradient, const yki_attention_part *part,
                         int64_t key, const yk_tensor *rows, const yki_attention_part *queries,
                         double (*share)(const head *h, int64_t query, int64_t key))
{
    for (int64_t first = 0; first < part->width; first += COLUMNS) {
        double sums[COLUMNS] = {0};
        head of = *h;
        for (int64_t i = 0; i < h->a.group; i++, of.head++)
            for (int64_t query = first_query(h, key); query < h->a.q.rows; query++)
                add_columns(rows, place(&of, queries, query), first, part->width,
                            share(&of, query, key), sums);
        set_columns(gradient, place(h, part, key), first, part->width, sums);
    }
}

/* The rows of dq of a head, and its norms and means. */
static void write_of_queries(const head *h, const yk_tensor *dq)
{
    for (int64_t query = 0; query < h->a.q.rows; query++) {
        h->norms[in_group(h, query)] = log_sum(h, query);
        h->means[in_group(h, query)] = mean_slope(h, query);
    }
    for (int64_t query = 0; query < h->a.q.rows; query++)
        write_dq(h, dq, query);
}

/* The rows of dk and dv, of the group whose first head this is. */
static void write_of_keys(const head *h, const yk_tensor *dk, const yk_tensor *dv)
{
    for (int64_t key = 0; key < h->a.k.rows; key++) {
        if (dk->data)
            write_of_key(h, dk, &h->a.k, key, &h->q, &h->a.q, score_slope);
        if (dv->data)
            write_of_key(h, dv, &h->a.v, key, &h->dy, &h->a.y, kept_probability);
    }
}

static yk_status prepare_backward(yki_device *device, const yki_kernel_desc *desc,
                                  yki_kernel **kernel)
{
    YK_TRY(yki_ref_prepare(device, desc, kernel));
    const yki_attention a = yki_attention_of(desc);
    (*kernel)->scratch = (size_t)(2 * a.group * a.q.rows) * sizeof(double);
    return YK_OK;
}

static yk_status ref_scaled_dot_product_attention_backward(const yki_kernel *kernel,
                                                           const yki_kernel_args *run)
{
    head h = begin(kernel, run);
    h.norms = run->scratch;
    h.means = h.norms + h.a.group * h.a.q.rows;
    h.dy = yki_ref_in(kernel, run, YKI_ATTENTION_BACKWARD_DY);
    yk_tensor dq = yki_ref_out(kernel, run, h.a.q.operand);
    yk_tensor dk = yki_ref_out(kernel, run, h.a.k.operand);
    yk_tensor dv = yki_ref_out(kernel, run, h.a.v.operand);
    if (!h.dy.data) /* there are no elements */
        return YK_OK;
    for (h.sample = 0; h.sample < h.a.batch; h.sample++)
        for (int64_t first = 0; first < h.a.heads; first += h.a.group) {
            for (h.head = first; h.head < first + h.a.group; h.head++)
                write_of_queries(&h, &dq);
            h.head = first;
            write_of_keys(&h, &dk, &dv);
        }
    return YK_OK;
}

YKI_REF_IMPL(scaled_dot_product_attention, 0);
const yki_kernel_impl yki_ref_scaled_dot_product_attention_backward = {
    .op = &yki_op_scaled_dot_product_attention_backward,
    .supports = yki_ref_supports,
    .prepare = prepare_backward,
    .run = ref_scaled_dot_product_attention_backward};

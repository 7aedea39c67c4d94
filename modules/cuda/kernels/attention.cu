/* What attention needs besides products: heads apart from each other, and the softmax of scores, of
 * which a query sees all or, with the causal mask, the first ones. Where a mask hides all of them,
 * log_sum and p are 0. */
#include "graph/dropout.h"
#include "sums.cuh"

/* ---- heads ----------------------------------------------------------------------------------- */

/* T: an integer of the element's size, or a vector. */
template <typename T, bool GIVE> DEVICE void move_heads(const yki_cuda_heads_args &args)
{
    int64_t i = thread_number();
    if (i >= args.count)
        return;
    const int64_t column = i % args.width, row = i / args.width % args.rows;
    const int64_t number = args.first + i / args.width / args.rows;
    const int64_t head = number % args.heads, sample = number / args.heads;
    const int64_t at = (sample * args.rows + row) * args.pitch + head * args.width + column;
    ((T *)args.out)[GIVE ? at : i] = ((const T *)args.in)[GIVE ? i : at];
}

KERNEL(heads_take_2, yki_cuda_heads_args, move_heads<uint16_t, false>)
KERNEL(heads_take_4, yki_cuda_heads_args, move_heads<uint32_t, false>)
KERNEL(heads_take_8, yki_cuda_heads_args, move_heads<uint64_t, false>)
KERNEL(heads_take_16, yki_cuda_heads_args, move_heads<uint4, false>)
KERNEL(heads_give_2, yki_cuda_heads_args, move_heads<uint16_t, true>)
KERNEL(heads_give_4, yki_cuda_heads_args, move_heads<uint32_t, true>)
KERNEL(heads_give_8, yki_cuda_heads_args, move_heads<uint64_t, true>)
KERNEL(heads_give_16, yki_cuda_heads_args, move_heads<uint4, true>)

/* ---- softmax of scores ----------------------------------------------------------------------- */

DEVICE int keys_of(const yki_cuda_attention_args &args, int64_t row)
{
    const int query = (int)(row % args.queries);
    return args.causal && query < args.keys ? query + 1 : args.keys;
}

/* Scores, and what is added to them, or NULL. */
template <typename R> struct score_row {
    const R *scores, *mask;
    int64_t step; /* of the mask */
};

template <typename R>
DEVICE score_row<R> score_row_of(const yki_cuda_attention_args &args, int64_t row)
{
    score_row<R> r = {(const R *)args.scores + row * args.keys, NULL, 0};
    if (args.mask) {
        const int64_t number = args.first + row, heads = number / args.queries;
        r.mask =
            (const R *)args.mask + yki_attention_mask_at(&args.mask_at, heads / args.heads,
                                                         heads % args.heads, number % args.queries);
        r.step = yki_attention_mask_step(&args.mask_at);
    }
    return r;
}

template <typename R> DEVICE R score(const score_row<R> &r, int key)
{
    return r.mask ? r.scores[key] + r.mask[key * r.step] : r.scores[key];
}

/* What dropout multiplies a row of p by: see yki_attention_share. */
template <typename R> struct dropping {
    bool drops;
    yki_dropout_draw draw;
    uint64_t first;
    R factor;
};

template <typename R>
DEVICE dropping<R> dropping_of(const yki_cuda_attention_args &args, int64_t row)
{
    dropping<R> d = {};
    d.drops = args.dropout > 0;
    if (d.drops) {
        d.draw = yki_dropout_draw_of(*args.seed, *args.step, args.salt, args.dropout);
        d.first = (uint64_t)((args.first + row) * args.keys);
        d.factor = (R)(1 / (1 - args.dropout));
    }
    return d;
}

template <typename R> DEVICE R kept(const dropping<R> &d, int key)
{
    if (!d.drops)
        return 1;
    return yki_dropout_keeps(&d.draw, d.first + (uint64_t)key) ? d.factor : 0;
}

/* p, of T, dropped, and log_sums. */
template <typename T> DEVICE void attention_softmax(const yki_cuda_attention_args &args)
{
    typedef real_of<T> real;
    const int64_t row = row_of_warp();
    if (row >= args.rows)
        return;
    const int keys = keys_of(args, row);
    const score_row<real> scores = score_row_of<real>(args, row);
    T *p = (T *)args.p + row * args.keys;
    const dropping<real> d = dropping_of<real>(args, row);
    real largest = -INFINITY, sum = 0;
    for (int i = lane_number(); i < keys; i += WARP)
        largest = score(scores, i) > largest ? score(scores, i) : largest;
    largest = warp_max(largest);
    largest = largest > -INFINITY ? largest : 0;
    for (int i = lane_number(); i < keys; i += WARP)
        sum += exp(score(scores, i) - largest);
    sum = warp_sum(sum);
    sum = sum == 0 ? 1 : sum;
    for (int i = lane_number(); i < args.keys; i += WARP)
        p[i] = narrow<T>(i < keys ? kept(d, i) * (exp(score(scores, i) - largest) / sum) : 0);
    if (args.log_sums && lane_number() == 0)
        ((real *)args.log_sums)[args.first + row] = largest + log(sum);
}
SCALAR_KERNELS(attention_softmax, yki_cuda_attention_args, attention_softmax)

/* p again, and with dp = slopes, dropped like p: ds = p (dp - sum(p dp)). log_sum is rounded, in a
 * row of large scores by more than what a share of almost 1 lacks: the shares are divided by their
 * sum. */
template <typename T> DEVICE void attention_slopes(const yki_cuda_attention_args &args)
{
    typedef real_of<T> real;
    const int64_t row = row_of_warp();
    if (row >= args.rows)
        return;
    const int keys = keys_of(args, row);
    const score_row<real> scores = score_row_of<real>(args, row);
    const real *slopes = (const real *)args.slopes + row * args.keys;
    const real log_sum = ((const real *)args.log_sums)[args.first + row];
    T *p = (T *)args.p + row * args.keys, *ds = (T *)args.ds + row * args.keys;
    const dropping<real> d = dropping_of<real>(args, row);
    real total = 0, sum = 0;
    for (int i = lane_number(); i < keys; i += WARP) {
        const real share = exp(score(scores, i) - log_sum);
        total += share;
        sum += share * (kept(d, i) * slopes[i]);
    }
    total = warp_sum(total);
    const real factor = total > (real)0.5 ? 1 / total : 0; /* all hidden: 0 */
    const real mean = warp_sum(sum) * factor;
    for (int i = lane_number(); i < args.keys; i += WARP) {
        const real share = i < keys ? exp(score(scores, i) - log_sum) * factor : 0;
        const real m = i < keys ? kept(d, i) : 0;
        p[i] = narrow<T>(m * share);
        ds[i] = narrow<T>(i < keys ? share * (m * slopes[i] - mean) : 0);
    }
}
SCALAR_KERNELS(attention_slopes, yki_cuda_attention_args, attention_slopes)

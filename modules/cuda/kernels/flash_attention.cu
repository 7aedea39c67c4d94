/*
 * Attention in 16 bits, whose scores never leave the registers (FlashAttention-2, Dao 2023).
 *
 * A block has 128 rows of one head, of which each warp has 16: queries, or where the gradients of k
 * and v are computed, keys. It passes over all that these rows see, a tile at a time: the rows of a
 * tile are fetched to registers while the tile before is computed, and then lie in the block's
 * memory. Nothing is added by several blocks, so that the bits of results repeat: where heads of
 * queries share keys and values, the block of these keys passes over one head after another.
 *
 * D is the head's width, 32, 64 or 128; narrower heads are filled up with zeros. Exponents are
 * those of 2, as the GPU computes them.
 */
#include "graph/dropout.h"
#include "matrix.cuh"

#define LOG2_E 1.4426950408889634f
#define LN_2   0.6931471805599453f

enum { ROWS = YKI_CUDA_FLASH, OF_WARP = ROWS / WARPS };

/* ---- rows ------------------------------------------------------------------------------------ */

/* The rows of one head, as uint4 of 8 elements. */
struct head_rows {
    uint4 *first;
    int64_t pitch;
    int count, width;
};

/* In the block's memory, rows begin in different banks: 8 of them are read at once. */
template <int D> constexpr int tile_pitch = D / 8 + 1;

/* This thread's part of N rows. */
template <int D, int N> struct piece {
    uint4 parts[N * D / 8 / THREADS];
};

template <int D, int N> DEVICE piece<D, N> fetch(const head_rows &rows, int first)
{
    piece<D, N> fetched;
#pragma unroll
    for (int i = 0; i < N * D / 8 / THREADS; i++) {
        const int at = i * THREADS + (int)threadIdx.x;
        const int row = first + at / (D / 8), column = at % (D / 8);
        fetched.parts[i] = row < rows.count && column < rows.width
                               ? rows.first[row * rows.pitch + column]
                               : uint4{0, 0, 0, 0};
    }
    return fetched;
}

template <int D, int N> DEVICE void put(const piece<D, N> &fetched, uint4 *tile)
{
#pragma unroll
    for (int i = 0; i < N * D / 8 / THREADS; i++) {
        const int at = i * THREADS + (int)threadIdx.x;
        tile[at / (D / 8) * tile_pitch<D> + at % (D / 8)] = fetched.parts[i];
    }
}

/* The 16 rows of this warp, of the ROWS from `first` on, through the block's memory. */
template <typename T, int D>
DEVICE void take_rows(const head_rows &rows, int first, uint4 *room, pair<T> (&to)[D / 16][4])
{
    __syncthreads();
    put(fetch<D, ROWS>(rows, first), room);
    __syncthreads();
    const int lane = lane_number(), warp = (int)threadIdx.x / WARP;
    const uint4 *row = room + (warp * OF_WARP + lane % 16) * tile_pitch<D> + lane / 16;
#pragma unroll
    for (int k = 0; k < D / 16; k++)
        load_matrices(row + 2 * k, to[k]);
}

/* Element i of column group n of a product: see matrix.cuh. */
DEVICE int row_of(int i)
{
    return lane_number() / 4 + i / 2 * 8;
}

DEVICE int column_of(int n, int i)
{
    return n * 8 + lane_number() % 4 * 2 + i % 2;
}

/* Stores `factors` times the warp's rows, one factor for row_of(0) and one for row_of(2). */
template <typename T, int D>
DEVICE void give_rows(const head_rows &rows, int first, const float (&c)[D / 8][4],
                      const float (&factors)[2])
{
#pragma unroll
    for (int n = 0; n < D / 8; n++)
#pragma unroll
        for (int i = 0; i < 4; i += 2) {
            const int row = first + row_of(i);
            if (row >= rows.count || n >= rows.width)
                continue;
            uint32_t *to = (uint32_t *)(rows.first + row * rows.pitch + n) + lane_number() % 4;
            *to = pair_of<T>(c[n][i] * factors[i / 2], c[n][i + 1] * factors[i / 2]).bits;
        }
}

/* ---- products -------------------------------------------------------------------------------- */

/* c += a b^T, where b is a tile of N rows */
template <typename T, int D, int N>
DEVICE void multiply_by_rows(float (&c)[N / 8][4], const pair<T> (&a)[D / 16][4], const uint4 *tile)
{
    const int lane = lane_number();
    const uint4 *row = tile + (lane % 8 + lane / 16 * 8) * tile_pitch<D> + lane / 8 % 2;
#pragma unroll
    for (int n = 0; n < N / 16; n++)
#pragma unroll
        for (int k = 0; k < D / 16; k++) {
            pair<T> b[4];
            load_matrices(row + n * 16 * tile_pitch<D> + 2 * k, b);
            multiply_add(c[2 * n], a[k], b[0], b[1]);
            multiply_add(c[2 * n + 1], a[k], b[2], b[3]);
        }
}

/* c += a b, where b is a tile of N rows, and a has N columns, in f32 */
template <typename T, int D, int N>
DEVICE void multiply_by_columns(float (&c)[D / 8][4], const float (&a)[N / 8][4], const uint4 *tile)
{
    const int lane = lane_number();
    const uint4 *row = tile + lane % 16 * tile_pitch<D> + lane / 16;
#pragma unroll
    for (int k = 0; k < N / 16; k++) {
        const float(&low)[4] = a[2 * k], (&high)[4] = a[2 * k + 1];
        const pair<T> narrowed[4] = {pair_of<T>(low[0], low[1]), pair_of<T>(low[2], low[3]),
                                     pair_of<T>(high[0], high[1]), pair_of<T>(high[2], high[3])};
#pragma unroll
        for (int n = 0; n < D / 16; n++) {
            pair<T> b[4];
            load_transposed(row + k * 16 * tile_pitch<D> + 2 * n, b);
            multiply_add(c[2 * n], narrowed, b[0], b[1]);
            multiply_add(c[2 * n + 1], narrowed, b[2], b[3]);
        }
    }
}

/* ---- a head ---------------------------------------------------------------------------------- */

struct flash_head {
    head_rows q, k, v, y;
    int number; /* of all samples' heads */
    int queries, keys;
    bool causal;
    float scale; /* of exponents */
    const float *mask;            /* of the first query and key; NULL without one */
    int64_t mask_query, mask_key; /* from one query, or key, to the next */
    bool drops;
    yki_dropout_draw draw;
    float factor; /* of what is kept */
};

/* Of a tensor whose rows lie as those of `part` do. */
DEVICE head_rows head_rows_of(const void *rows, const yki_cuda_flash_part &part, int64_t sample,
                              int64_t head)
{
    head_rows r;
    r.pitch = part.pitch / 8;
    r.width = part.width / 8;
    r.count = part.rows;
    r.first = (uint4 *)rows + part.first / 8 + sample * r.count * r.pitch + head * r.width;
    return r;
}

/* Of the head of queries with this number, among those of all samples. */
DEVICE flash_head flash_head_of(const yki_cuda_flash_args &args, int number)
{
    const int sample = number / args.heads, head = number % args.heads;
    flash_head h = {};
    h.q = head_rows_of(args.q, args.q_part, sample, head);
    h.k = head_rows_of(args.k, args.k_part, sample, head / args.group);
    h.v = head_rows_of(args.v, args.v_part, sample, head / args.group);
    h.y = head_rows_of(args.y, args.y_part, sample, head);
    h.number = number;
    h.queries = h.q.count;
    h.keys = h.k.count;
    h.causal = args.causal;
    h.scale = args.scale * LOG2_E;
    if (args.mask) {
        const int64_t first = yki_attention_mask_at(&args.mask_at, sample, head, 0);
        h.mask = args.mask + first;
        h.mask_query = yki_attention_mask_at(&args.mask_at, sample, head, 1) - first;
        h.mask_key = yki_attention_mask_step(&args.mask_at);
    }
    h.drops = args.dropout > 0;
    h.factor = args.factor;
    if (h.drops)
        h.draw = yki_dropout_draw_of(*args.seed, *args.step, args.salt, args.dropout);
    return h;
}

/* A query and a key: the first ones of a warp's part of the scores, or those of element i of column
 * group n in it. Where gradients of keys are computed, scores are TRANSPOSED. */
struct score_place {
    int query, key;
};

template <bool TRANSPOSED> DEVICE score_place element_of(const score_place &first, int n, int i)
{
    if (TRANSPOSED)
        return {first.query + column_of(n, i), first.key + row_of(i)};
    return {first.query + row_of(i), first.key + column_of(n, i)};
}

DEVICE bool sees(const flash_head &h, const score_place &at)
{
    return at.query < h.queries && at.key < h.keys && !(h.causal && at.key > at.query);
}

/* Products become exponents: -INFINITY where a query does not see a key. Most parts are seen
 * entirely. */
template <bool MASKED, bool TRANSPOSED, int N>
DEVICE void make_exponents(const flash_head &h, const score_place &first, float (&s)[N][4])
{
    const int rows = OF_WARP - 1, columns = N * 8 - 1;
    const int queries = TRANSPOSED ? columns : rows, keys = TRANSPOSED ? rows : columns;
    const score_place last = {first.query + queries, first.key + keys};
    const bool all = !MASKED && sees(h, {first.query, last.key}) && last.query < h.queries;
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            s[n][i] *= h.scale;
    if (all)
        return;
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const score_place at = element_of<TRANSPOSED>(first, n, i);
            if (!sees(h, at))
                s[n][i] = -INFINITY;
            else if (MASKED)
                s[n][i] += h.mask[at.query * h.mask_query + at.key * h.mask_key] * LOG2_E;
        }
}

/* The shares that dropout keeps, a bit for each element: see yki_attention_share. */
template <bool TRANSPOSED, int N>
DEVICE uint32_t draw_kept(const flash_head &h, const score_place &first)
{
    static_assert(N <= 8, "32 elements in each lane");
    uint32_t kept = ~0u;
    if (!h.drops)
        return kept;
#pragma unroll 1 /* which takes fewer registers */
    for (int at = 0; at < 4 * N; at++) {
        const score_place of = element_of<TRANSPOSED>(first, at / 4, at % 4);
        const uint64_t row = (uint64_t)((int64_t)h.number * h.queries + of.query);
        if (!yki_dropout_keeps(&h.draw, row * (uint64_t)h.keys + (uint64_t)of.key))
            kept &= ~(1u << at);
    }
    return kept;
}

DEVICE bool keeps(uint32_t kept, int n, int i)
{
    return kept >> (4 * n + i) & 1;
}

/* What dropout multiplies a share by. Shares that are rounded to 16 bits are multiplied afterwards,
 * in sums: a product would be rounded in another way, in one direction for all columns of a value,
 * and a share of 1 would no longer be exact. */
DEVICE float factor_of(const flash_head &h, uint32_t kept, int n, int i)
{
    return keeps(kept, n, i) ? h.factor : 0;
}

/* Over the four lanes of a row. */
DEVICE float sum_of_row(float value)
{
    value += __shfl_xor_sync(ALL_LANES, value, 1);
    return value + __shfl_xor_sync(ALL_LANES, value, 2);
}

DEVICE float max_of_row(float value)
{
    float other = __shfl_xor_sync(ALL_LANES, value, 1);
    value = other > value ? other : value;
    other = __shfl_xor_sync(ALL_LANES, value, 2);
    return other > value ? other : value;
}

/* The block's head and its first row. Of queries with the causal mask, the last see most keys:
 * theirs begin first. */
struct place {
    int head, first;
};

DEVICE place place_of(int count)
{
    const int tiles = (count + ROWS - 1) / ROWS, block = (int)blockIdx.x;
    return {block / tiles, (tiles - 1 - block % tiles) * ROWS};
}

DEVICE int first_of_warp(const place &at)
{
    return at.first + (int)threadIdx.x / WARP * OF_WARP;
}

/* How many keys the block's queries see. */
DEVICE int keys_of_block(const flash_head &h, int first)
{
    return h.causal && first + ROWS < h.keys ? first + ROWS : h.keys;
}

/* Whether none of the warp's queries sees a key from `key` on. */
DEVICE bool sees_none(const flash_head &h, int first, int key)
{
    return first >= h.queries || (h.causal && key >= first + OF_WARP);
}

/* ---- forward --------------------------------------------------------------------------------- */

/* What has been summed of y and p = exp(scores - largest) up to now, two rows in each lane. */
template <int D> struct running {
    float y[D / 8][4], largest[2], sum[2]; /* sum: of this lane's columns */
};

/* Exponents become p. */
template <int D, int N> DEVICE void add_tile(running<D> &r, float (&s)[N / 8][4])
{
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float largest = r.largest[half], sum = 0;
#pragma unroll
        for (int n = 0; n < N / 8; n++)
#pragma unroll
            for (int i = 2 * half; i < 2 * half + 2; i++)
                largest = s[n][i] > largest ? s[n][i] : largest;
        largest = max_of_row(largest);
        const float base = largest > -INFINITY ? largest : 0;
        const float factor = exp2f(r.largest[half] - base);
#pragma unroll
        for (int n = 0; n < N / 8; n++)
#pragma unroll
            for (int i = 2 * half; i < 2 * half + 2; i++) {
                s[n][i] = exp2f(s[n][i] - base);
                sum += s[n][i];
            }
#pragma unroll
        for (int n = 0; n < D / 8; n++)
#pragma unroll
            for (int i = 2 * half; i < 2 * half + 2; i++)
                r.y[n][i] *= factor;
        r.sum[half] = r.sum[half] * factor + sum;
        r.largest[half] = largest;
    }
}

template <typename T, int D, bool MASKED>
DEVICE void flash_forward(const yki_cuda_flash_args &args)
{
    enum { N = ROWS / 2 };
    SHARED(uint4, room, ROWS * tile_pitch<D>);
    const place at = place_of(args.q_part.rows);
    const flash_head h = flash_head_of(args, at.head);
    const int first = first_of_warp(at), keys = keys_of_block(h, at.first);
    uint4 *const k_tile = room, *const v_tile = room + N * tile_pitch<D>;
    pair<T> q[D / 16][4];
    running<D> r = {{}, {-INFINITY, -INFINITY}, {}};
    take_rows<T, D>(h.q, at.first, room, q);
    piece<D, N> k = fetch<D, N>(h.k, 0), v = fetch<D, N>(h.v, 0);
    for (int key = 0; key < keys; key += N) {
        __syncthreads();
        put(k, k_tile);
        put(v, v_tile);
        __syncthreads();
        k = fetch<D, N>(h.k, key + N);
        v = fetch<D, N>(h.v, key + N);
        if (sees_none(h, first, key))
            continue;
        float s[N / 8][4] = {};
        multiply_by_rows<T, D, N>(s, q, k_tile);
        make_exponents<MASKED, false>(h, {first, key}, s);
        add_tile<D, N>(r, s);
        const uint32_t kept = draw_kept<false, N / 8>(h, {first, key});
        if (h.drops)
#pragma unroll
            for (int n = 0; n < N / 8; n++)
#pragma unroll
                for (int i = 0; i < 4; i++)
                    s[n][i] = keeps(kept, n, i) ? s[n][i] : 0;
        multiply_by_columns<T, D, N>(r.y, s, v_tile);
    }
    float factors[2];
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const float sum = sum_of_row(r.sum[half]);
        const int query = first + row_of(2 * half);
        factors[half] = sum == 0 ? 0 : h.factor / sum; /* NaN stays */
        if (args.log_sums && query < h.queries && lane_number() % 4 == 0)
            args.log_sums[(int64_t)h.number * h.queries + query] =
                sum == 0 ? 0 : (r.largest[half] + log2f(sum)) * LN_2;
    }
    give_rows<T, D>(h.y, first, r.y, factors);
}

/* ---- the gradient of q ----------------------------------------------------------------------- */

/* Of a row of y and one of dy: the sum of their products is that of p dp. */
template <typename T, int D>
DEVICE void multiply_rows(const pair<T> (&y)[D / 16][4], const pair<T> (&dy)[D / 16][4],
                          float (&sums)[2])
{
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float sum = 0;
#pragma unroll
        for (int k = 0; k < D / 16; k++)
#pragma unroll
            for (int i = half; i < 4; i += 2)
                sum += first_of(y[k][i]) * first_of(dy[k][i]) +
                       second_of(y[k][i]) * second_of(dy[k][i]);
        sums[half] = sum_of_row(sum);
    }
}

/* Also writes means, sum(p dp) of each query, which the gradients of k and v need. */
template <typename T, int D, bool MASKED>
DEVICE void flash_dq(const yki_cuda_flash_args &args)
{
    enum { N = D < 128 ? 64 : 32 };
    SHARED(uint4, room, ROWS * tile_pitch<D>);
    const place at = place_of(args.q_part.rows);
    const flash_head h = flash_head_of(args, at.head);
    const int sample = h.number / args.heads, head = h.number % args.heads;
    const head_rows dy_rows = head_rows_of(args.dy, args.y_part, sample, head);
    const int first = first_of_warp(at), keys = args.dq ? keys_of_block(h, at.first) : 0;
    uint4 *const k_tile = room, *const v_tile = room + N * tile_pitch<D>;
    pair<T> q[D / 16][4], dy[D / 16][4];
    float dq[D / 8][4] = {}, log_sums[2], means[2];
    take_rows<T, D>(h.y, at.first, room, q);
    take_rows<T, D>(dy_rows, at.first, room, dy);
    multiply_rows<T, D>(q, dy, means);
    take_rows<T, D>(h.q, at.first, room, q);
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int query = first + row_of(2 * half);
        const int64_t row = (int64_t)h.number * h.queries + query;
        log_sums[half] = query < h.queries ? args.log_sums[row] * LOG2_E : 0;
        if (query < h.queries && lane_number() % 4 == 0)
            args.means[row] = means[half];
    }
    piece<D, N> k = fetch<D, N>(h.k, 0), v = fetch<D, N>(h.v, 0);
    for (int key = 0; key < keys; key += N) {
        __syncthreads();
        put(k, k_tile);
        put(v, v_tile);
        __syncthreads();
        k = fetch<D, N>(h.k, key + N);
        v = fetch<D, N>(h.v, key + N);
        if (sees_none(h, first, key))
            continue;
        float s[N / 8][4] = {}, dp[N / 8][4] = {};
        multiply_by_rows<T, D, N>(s, q, k_tile);
        multiply_by_rows<T, D, N>(dp, dy, v_tile);
        make_exponents<MASKED, false>(h, {first, key}, s);
        const uint32_t kept = draw_kept<false, N / 8>(h, {first, key});
#pragma unroll
        for (int n = 0; n < N / 8; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const float p = exp2f(s[n][i] - log_sums[i / 2]);
                s[n][i] = p * (dp[n][i] * factor_of(h, kept, n, i) - means[i / 2]);
            }
        multiply_by_columns<T, D, N>(dq, s, k_tile);
    }
    if (args.dq)
        give_rows<T, D>(head_rows_of(args.dq, args.q_part, sample, head), first, dq,
                        {args.scale, args.scale});
}

/* ---- the gradients of k and v ---------------------------------------------------------------- */

/* The first query that sees one of the block's keys. With the causal mask, those that have no key
 * at their own position see all. */
DEVICE int first_query(const flash_head &h, int key)
{
    return h.causal ? key : 0;
}

/* The block's memory for some queries. */
struct query_room {
    uint4 *q, *dy;
    float *log_sums, *means;
};

/* Adds what the queries of one head give to the warp's rows of dk and dv. Scores and their like are
 * transposed: a row for each key. */
template <typename T, int D, int N, bool MASKED>
DEVICE void add_queries(const yki_cuda_flash_args &args, const flash_head &h, const place &at,
                        const query_room &room, const pair<T> (&k)[D / 16][4],
                        const pair<T> (&v)[D / 16][4], float (&dk)[D / 8][4],
                        float (&dv)[D / 8][4])
{
    const head_rows dy_rows = head_rows_of(args.dy, args.y_part, h.number / args.heads,
                                           h.number % args.heads);
    const int first = first_of_warp(at), thread = (int)threadIdx.x;
    int query = first_query(h, at.first) / N * N;
    piece<D, N> q = fetch<D, N>(h.q, query), dy = fetch<D, N>(dy_rows, query);
    for (; query < h.queries; query += N) {
        __syncthreads();
        put(q, room.q);
        put(dy, room.dy);
        if (thread < N) {
            const int64_t row = (int64_t)h.number * h.queries + query + thread;
            const bool is_query = query + thread < h.queries;
            room.log_sums[thread] = is_query ? args.log_sums[row] * LOG2_E : 0;
            room.means[thread] = is_query ? args.means[row] : 0;
        }
        __syncthreads();
        q = fetch<D, N>(h.q, query + N);
        dy = fetch<D, N>(dy_rows, query + N);
        if (first >= h.keys || query + N <= first_query(h, first))
            continue;
        float p[N / 8][4] = {}, ds[N / 8][4] = {};
        multiply_by_rows<T, D, N>(p, k, room.q);
        multiply_by_rows<T, D, N>(ds, v, room.dy);
        make_exponents<MASKED, true>(h, {query, first}, p);
        const uint32_t kept = draw_kept<true, N / 8>(h, {query, first});
#pragma unroll
        for (int n = 0; n < N / 8; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int column = column_of(n, i);
                const float share = exp2f(p[n][i] - room.log_sums[column]);
                p[n][i] = keeps(kept, n, i) ? share : 0;
                ds[n][i] = share * (ds[n][i] * factor_of(h, kept, n, i) - room.means[column]);
            }
        multiply_by_columns<T, D, N>(dv, p, room.dy);
        multiply_by_columns<T, D, N>(dk, ds, room.q);
    }
}

template <typename T, int D, bool MASKED>
DEVICE void flash_dkv(const yki_cuda_flash_args &args)
{
    enum { N = 2048 / D };
    SHARED(uint4, room, ROWS * tile_pitch<D>);
    SHARED(float, log_sums, N);
    SHARED(float, means, N);
    const query_room of_queries = {room, room + N * tile_pitch<D>, log_sums, means};
    const place at = place_of(args.k_part.rows);
    const int kv_heads = args.heads / args.group;
    const int sample = at.head / kv_heads, head = at.head % kv_heads;
    const int first = first_of_warp(at);
    pair<T> k[D / 16][4], v[D / 16][4];
    float dk[D / 8][4] = {}, dv[D / 8][4] = {};
    take_rows<T, D>(head_rows_of(args.k, args.k_part, sample, head), at.first, room, k);
    take_rows<T, D>(head_rows_of(args.v, args.v_part, sample, head), at.first, room, v);
#pragma unroll 1
    for (int i = 0; i < args.group; i++)
        add_queries<T, D, N, MASKED>(args, flash_head_of(args, at.head * args.group + i), at,
                                     of_queries, k, v, dk, dv);
    if (args.dk)
        give_rows<T, D>(head_rows_of(args.dk, args.k_part, sample, head), first, dk,
                        {args.scale, args.scale});
    if (args.dv)
        give_rows<T, D>(head_rows_of(args.dv, args.v_part, sample, head), first, dv,
                        {args.factor, args.factor});
}

/* Those without a mask have more registers for the rest. */
#define FLASH_KERNELS_OF(name, type, D)                                                            \
    KERNEL(name##_##D##_##type, yki_cuda_flash_args, name<type, D, false>)                         \
    KERNEL(name##_masked_##D##_##type, yki_cuda_flash_args, name<type, D, true>)
#define FLASH_KERNELS(name)                                                                        \
    FLASH_KERNELS_OF(name, bf16, 32)                                                               \
    FLASH_KERNELS_OF(name, bf16, 64)                                                               \
    FLASH_KERNELS_OF(name, bf16, 128)                                                              \
    FLASH_KERNELS_OF(name, f16, 32)                                                                \
    FLASH_KERNELS_OF(name, f16, 64)                                                                \
    FLASH_KERNELS_OF(name, f16, 128)

FLASH_KERNELS(flash_forward)
FLASH_KERNELS(flash_dq)
FLASH_KERNELS(flash_dkv)

/* Rows of a weight by their indices, and the sums of what came for each row. */
#include "sums.cuh"

/* A thread for each W elements of y, of which there are fewer than 2^31. */
template <typename T, int W> DEVICE void embedding(const yki_cuda_embedding_args &args)
{
    const int64_t at = thread_number() * W;
    if (at >= args.count * args.columns)
        return;
    const uint32_t i = (uint32_t)at / (uint32_t)args.columns;
    const uint32_t column = (uint32_t)at % (uint32_t)args.columns;
    const int64_t row = index_at(args.indices, args.wide, i);
    const bool exists = row >= 0 && row < args.rows;
    T value[W];
    if (!exists && column == 0)
        report(&args.mistakes->index, i / args.length);
    if (exists)
        load((const T *)args.weight + row * args.columns + column, value);
#pragma unroll
    for (int j = 0; !exists && j < W; j++)
        value[j] = NAN;
    store((T *)args.y + at, value);
}
KERNELS_OF(embedding, yki_cuda_embedding_args, embedding, float, f32)
KERNELS_OF(embedding, yki_cuda_embedding_args, embedding, double, f64)

/* ---- the gradient of the weight --------------------------------------------------------------
 *
 * A block has a few rows of the weight, THREADS of its columns, and a slice of the indices. It
 * lists which indices are its rows. When the list may be full, and at the end, the first warp sorts
 * it by rows, and each thread adds up what came for its column: in the order of the indices, so
 * that the sums have the same bits in every run.
 */

enum {
    ROWS = YKI_CUDA_EMBEDDING_ROWS,
    EACH = 4, /* indices that a thread looks at in a turn */
    TURN = EACH * THREADS,
    LIST = 2 * TURN
};
static_assert(ROWS == WARP, "the first warp has a lane for each row");

/* In the block's memory. */
struct found {
    int32_t *place; /* of an index */
    uint8_t *row;   /* that it is, from the block's first one */
    int32_t *order; /* the places of the first row's indices, of the second's, ... */
    int *begin;     /* of each row in `order`; ROWS + 1 */
    int count;
};

/* Lists the block's rows among the indices of a turn, which begins there. */
DEVICE void look(const yki_cuda_embedding_args &args, int64_t begin, int64_t end, found &list)
{
    SHARED(int, of_warps, WARPS);
    const int lane = lane_number(), warp = (int)threadIdx.x / WARP;
    const int64_t first = begin + warp * EACH * WARP + lane;
    int64_t row[EACH];
    unsigned lanes[EACH];
    int mine = 0;
#pragma unroll
    for (int k = 0; k < EACH; k++) {
        const int64_t i = first + k * WARP;
        row[k] = i < end ? index_at(args.indices, args.wide, i) : -1;
    }
#pragma unroll
    for (int k = 0; k < EACH; k++) {
        row[k] -= (int64_t)blockIdx.x * args.range;
        lanes[k] = __ballot_sync(ALL_LANES, row[k] >= 0 && row[k] < args.range);
        mine += __popc(lanes[k]);
    }
    if (lane == 0)
        of_warps[warp] = mine;
    __syncthreads();
    int at = list.count;
    for (int w = 0; w < WARPS; w++) {
        at += w < warp ? of_warps[w] : 0;
        list.count += of_warps[w];
    }
#pragma unroll
    for (int k = 0; k < EACH; k++) {
        if (lanes[k] >> lane & 1) {
            const int to = at + __popc(lanes[k] & ((1u << lane) - 1));
            list.place[to] = (int32_t)(first + k * WARP);
            list.row[to] = (uint8_t)row[k];
        }
        at += __popc(lanes[k]);
    }
    __syncthreads();
}

/* What a warp knows of WARP entries of the list: which exist, and the bits of their rows. */
struct entries {
    unsigned exist, bits[5];
};

DEVICE entries entries_at(const found &list, int first, int *row)
{
    entries e;
    const int i = first + lane_number();
    *row = i < list.count ? list.row[i] : 0;
    e.exist = __ballot_sync(ALL_LANES, i < list.count);
#pragma unroll
    for (int b = 0; b < 5; b++)
        e.bits[b] = __ballot_sync(ALL_LANES, *row >> b & 1);
    return e;
}

/* The lanes that have this row. */
DEVICE unsigned lanes_of(const entries &e, int row)
{
    unsigned lanes = e.exist;
#pragma unroll
    for (int b = 0; b < 5; b++)
        lanes &= row >> b & 1 ? e.bits[b] : ~e.bits[b];
    return lanes;
}

/* The sum of the values of the lanes before. */
DEVICE int sum_before(int value)
{
    const int lane = lane_number();
    int sum = value;
    for (int distance = 1; distance < WARP; distance *= 2) {
        const int other = __shfl_sync(ALL_LANES, sum, (lane + WARP - distance) % WARP);
        sum += lane >= distance ? other : 0;
    }
    return sum - value;
}

/* Sorts by counting; a lane counts the entries of the row that has its number. */
DEVICE void sort(const found &list)
{
    const int lane = lane_number();
    int row, of_row = 0;
    for (int first = 0; first < list.count; first += WARP)
        of_row += __popc(lanes_of(entries_at(list, first, &row), lane));
    int next = sum_before(of_row);
    list.begin[lane] = next;
    if (lane == WARP - 1)
        list.begin[ROWS] = list.count;
    for (int first = 0; first < list.count; first += WARP) {
        const entries e = entries_at(list, first, &row);
        const unsigned before = lanes_of(e, row) & ((1u << lane) - 1);
        const int to = __shfl_sync(ALL_LANES, next, row) + __popc(before);
        if (e.exist >> lane & 1)
            list.order[to] = list.place[first + lane];
        next += __popc(lanes_of(e, lane));
    }
}

/* Adds what came for the listed indices to the block's rows, which have no sums yet if `fresh`. */
template <typename T>
DEVICE void add_found(const yki_cuda_embedding_args &args, const found &list, bool fresh)
{
    const int column = (int)(blockIdx.y * THREADS + threadIdx.x);
    const int64_t row = (int64_t)blockIdx.x * args.range;
    T *to = (T *)args.dweight + ((int64_t)blockIdx.z * args.rows + row) * args.columns + column;
    const T *dy = (const T *)args.dy + column;
    for (int r = 0; r < args.range && row + r < args.rows && column < args.columns; r++) {
        T sum = fresh ? 0 : to[(int64_t)r * args.columns];
#pragma unroll 8
        for (int e = list.begin[r]; e < list.begin[r + 1]; e++)
            sum += dy[(int64_t)list.order[e] * args.columns];
        to[(int64_t)r * args.columns] = sum;
    }
}

template <typename T> DEVICE void embedding_backward(const yki_cuda_embedding_args &args)
{
    SHARED(int32_t, place, LIST);
    SHARED(int32_t, order, LIST);
    SHARED(uint8_t, row, LIST);
    SHARED(int, begin, ROWS + 1);
    found list = {place, row, order, begin, 0};
    int64_t at = blockIdx.z * args.slice, end = at + args.slice;
    end = end < args.count ? end : args.count;
    for (bool fresh = true; at < end; fresh = false) {
        for (list.count = 0; at < end && list.count <= LIST - TURN; at += TURN)
            look(args, at, end, list);
        if (threadIdx.x < WARP)
            sort(list);
        __syncthreads();
        add_found<T>(args, list, fresh);
    }
}
KERNEL(embedding_backward_f32, yki_cuda_embedding_args, embedding_backward<float>)
KERNEL(embedding_backward_f64, yki_cuda_embedding_args, embedding_backward<double>)

/* The sum over the slices, a thread for each element. */
template <typename T> DEVICE void embedding_merge(const yki_cuda_embedding_merge_args &args)
{
    const int64_t i = thread_number();
    if (i >= args.count)
        return;
    T sum = 0;
#pragma unroll 8
    for (int64_t slice = 0; slice < args.slices; slice++)
        sum += ((const T *)args.partial)[slice * args.count + i];
    ((T *)args.dweight)[i] = sum;
}
KERNEL(embedding_merge_f32, yki_cuda_embedding_merge_args, embedding_merge<float>)
KERNEL(embedding_merge_f64, yki_cuda_embedding_merge_args, embedding_merge<double>)

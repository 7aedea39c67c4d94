/*
 * Sums whose order depends on shapes alone, so that their bits repeat: of a warp, of a block, and
 * of the columns of a matrix.
 */
#ifndef YKI_SUMS_CUH
#define YKI_SUMS_CUH

#include "kernel.cuh"

#define WARP      32
#define WARPS     (THREADS / WARP)
#define ALL_LANES 0xffffffffu

/* Where each warp has a row: that row, at or beyond the last if there is none. */
DEVICE int64_t row_of_warp()
{
    return thread_number() / WARP;
}

DEVICE int lane_number()
{
    return (int)threadIdx.x % WARP;
}

/* The same bits in every lane. */
template <typename R> DEVICE R warp_sum(R value)
{
    for (int distance = WARP / 2; distance > 0; distance /= 2)
        value += __shfl_xor_sync(ALL_LANES, value, distance);
    return value;
}

template <typename R> DEVICE R warp_max(R value)
{
    for (int distance = WARP / 2; distance > 0; distance /= 2) {
        R other = __shfl_xor_sync(ALL_LANES, value, distance);
        value = other > value ? other : value;
    }
    return value;
}

/* The sum over the block, in thread 0. The block meets between two of them in a kernel. */
template <typename R> DEVICE R block_sum(R value)
{
    SHARED(R, part, WARPS);
    value = warp_sum(value);
    if (threadIdx.x % WARP == 0)
        part[threadIdx.x / WARP] = value;
    __syncthreads();
    if (threadIdx.x == 0)
        for (int warp = 1; warp < WARPS; warp++)
            value += part[warp];
    return value;
}

/* ---- columns: see yki_cuda_columns ----------------------------------------------------------- */

/* The W columns and the rows of one thread: row, row + stride, ... below last. */
struct part {
    int32_t column;
    int place, places; /* among the threads of the same columns */
    int64_t row, stride, last;
};

/* Of the block that is the `block`-th across. */
template <int W> DEVICE part part_at(const yki_cuda_columns &at, int block)
{
    part p;
    int tile = at.tile, thread = (int)threadIdx.x;
    p.places = THREADS / tile;
    p.place = thread / tile;
    p.column = (block * tile + thread % tile) * W;
    p.row = blockIdx.y * at.slice + p.place;
    p.stride = p.places;
    p.last = (blockIdx.y + 1) * at.slice;
    if (p.last > at.rows)
        p.last = at.rows;
    if (p.place >= p.places || p.column >= at.columns)
        p.last = 0;
    return p;
}

template <int W> DEVICE part part_of(const yki_cuda_columns &at)
{
    return part_at<W>(at, (int)blockIdx.x);
}

/* Calls take(i, offset) for several rows of a part, of which offset is the distance from the first
 * row in elements, and then use(i, offset) for the same ones: what the first loads is on its way
 * meanwhile. A matrix has fewer than 2^31 elements. */
template <int ROWS, typename A, typename B>
DEVICE void for_rows(const yki_cuda_columns &at, const part &p, A take, B use)
{
    const uint32_t stride = (uint32_t)p.stride, step = stride * (uint32_t)at.columns;
    uint32_t offset = (uint32_t)p.row * (uint32_t)at.columns + (uint32_t)p.column;
    int32_t left = (int32_t)(p.last - p.row);
    for (; left > (ROWS - 1) * p.places; left -= ROWS * p.places, offset += ROWS * step) {
#pragma unroll
        for (int i = 0; i < ROWS; i++)
            take(i, offset + i * step);
#pragma unroll
        for (int i = 0; i < ROWS; i++)
            use(i, offset + i * step);
    }
#pragma unroll
    for (int i = 0; i < ROWS; i++)
        if (left > i * p.places)
            take(i, offset + i * step);
#pragma unroll
    for (int i = 0; i < ROWS; i++)
        if (left > i * p.places)
            use(i, offset + i * step);
}

/* Adds up N numbers of each place over the block, in the threads of place 0. `mine`: this thread's,
 * THREADS apart, in the block's memory. */
template <int N, typename R> DEVICE void add_places(R *mine, const part &p, int tile)
{
    for (int distance = THREADS / 2; distance > 0; distance /= 2) {
        if (distance >= p.places)
            continue;
        __syncthreads();
        if (p.place < distance && p.place + distance < p.places)
            for (int i = 0; i < N; i++)
                mine[i * THREADS] += mine[i * THREADS + distance * tile];
    }
}

/* Adds two sums of each column up over the block, into this slice's place in partial. */
template <typename R, int W>
DEVICE void add_up(const yki_cuda_columns &at, const part &p, const R (&first)[W],
                   const R (&second)[W], double *partial)
{
    SHARED(R, sums, 2 * W * THREADS);
    R *mine = sums + threadIdx.x;
#pragma unroll
    for (int i = 0; i < W; i++) {
        mine[2 * i * THREADS] = first[i];
        mine[(2 * i + 1) * THREADS] = second[i];
    }
    add_places<2 * W>(mine, p, at.tile);
    if (p.place > 0 || p.column >= at.columns)
        return;
    double *to = partial + (int64_t)blockIdx.y * 2 * at.columns + p.column;
    for (int i = 0; i < W; i++) {
        to[i] = mine[2 * i * THREADS];
        to[at.columns + i] = mine[(2 * i + 1) * THREADS];
    }
}

/* The column of a thread in sum_slices; there may be no such column. */
DEVICE int column_of_merge()
{
    return (int)blockIdx.x * YKI_CUDA_MERGE + (int)threadIdx.x % YKI_CUDA_MERGE;
}

/* The two sums over all slices of a column, in the first threads of the block, which has
 * YKI_CUDA_MERGE columns. Returns whether this thread has one, and which. */
DEVICE bool sum_slices(const double *partial, int slices, int columns, int *column, double *first,
                       double *second)
{
    const int places = THREADS / YKI_CUDA_MERGE;
    SHARED(double, sums, 2 * THREADS);
    int thread = (int)threadIdx.x, place = thread / YKI_CUDA_MERGE;
    *column = column_of_merge();
    double a = 0, b = 0;
    if (*column < columns) {
#pragma unroll 8
        for (int slice = place; slice < slices; slice += places) {
            const double *from = partial + (int64_t)slice * 2 * columns + *column;
            a += from[0];
            b += from[columns];
        }
    }
    for (int distance = places / 2; distance > 0; distance /= 2) {
        sums[thread] = a;
        sums[THREADS + thread] = b;
        __syncthreads();
        if (place < distance) {
            a += sums[thread + distance * YKI_CUDA_MERGE];
            b += sums[THREADS + thread + distance * YKI_CUDA_MERGE];
        }
        __syncthreads();
    }
    *first = a;
    *second = b;
    return place == 0 && *column < columns;
}

#endif

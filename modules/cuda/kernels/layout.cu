/*
 * Moving elements: between layouts, which are transposed matrices (channels and pixels of each
 * image; channels and taps of each filter), and parts of rows, for concat, slice and pad.
 */
#include "kernel.cuh"

#define TILE 32

DEVICE uint8_t convert(uint8_t x, uint8_t)
{
    return x;
}

DEVICE uint16_t convert(uint16_t x, uint16_t)
{
    return x;
}

DEVICE uint32_t convert(uint32_t x, uint32_t)
{
    return x;
}

DEVICE uint64_t convert(uint64_t x, uint64_t)
{
    return x;
}

template <typename U> DEVICE U convert(float x, U)
{
    return narrow<U>(x);
}

template <typename T> DEVICE float convert(T x, float)
{
    return widen(x);
}

/* A block moves tiles through shared memory, so that it reads and writes whole lines. Its rows are
 * one element longer than a tile, which keeps columns in different banks. */
template <typename T, typename U>
DEVICE void transpose_tile(const yki_cuda_transpose_args &args, T *tile, int64_t image, int row0)
{
    int lane = (int)threadIdx.x % TILE, first = (int)threadIdx.x / TILE;
    int column0 = (int)blockIdx.x * TILE;
    const T *in = (const T *)args.in + image * args.rows * args.in_pitch;
    U *out = (U *)args.out + image * args.columns * args.out_pitch;
    for (int i = first; i < TILE; i += THREADS / TILE)
        if (row0 + i < args.rows && column0 + lane < args.columns)
            tile[i * (TILE + 1) + lane] = in[(int64_t)(row0 + i) * args.in_pitch + column0 + lane];
    __syncthreads();
    for (int i = first; i < TILE; i += THREADS / TILE) {
        if (column0 + i >= args.columns || row0 + lane >= args.out_pitch)
            continue;
        T value = row0 + lane < args.rows ? tile[lane * (TILE + 1) + i] : T();
        out[(int64_t)(column0 + i) * args.out_pitch + row0 + lane] = convert(value, U());
    }
    __syncthreads();
}

/* Few columns, such as the taps of a filter: a thread moves a row, and a warp reads and writes long
 * lines. */
template <typename T, typename U> DEVICE void transpose_row(const yki_cuda_transpose_args &args)
{
    const uint32_t item = (uint32_t)thread_number(), pitch = (uint32_t)args.out_pitch;
    const int64_t image = item / pitch, row = item % pitch;
    if (image >= args.batch)
        return;
    const T *in = (const T *)args.in + (image * args.rows + row) * args.in_pitch;
    U *out = (U *)args.out + image * args.columns * args.out_pitch + row;
    T value[YKI_CUDA_SHORT] = {};
#pragma unroll
    for (int i = 0; i < YKI_CUDA_SHORT; i++)
        if (i < args.columns && row < args.rows)
            value[i] = in[i];
#pragma unroll
    for (int i = 0; i < YKI_CUDA_SHORT; i++)
        if (i < args.columns)
            out[(int64_t)i * args.out_pitch] = convert(value[i], U());
}

/* The places of a thread in (major, minor), which all threads of a block walk through together:
 * with one division at the beginning. */
struct walk {
    int minor, major, size, minor_step, major_step;
};

DEVICE walk walk_of(int size)
{
    walk w;
    w.size = size;
    w.minor = (int)threadIdx.x % size;
    w.major = (int)threadIdx.x / size;
    w.minor_step = THREADS % size;
    w.major_step = THREADS / size;
    return w;
}

DEVICE void advance(walk &w)
{
    w.minor += w.minor_step;
    w.major += w.major_step;
    if (w.minor >= w.size) {
        w.minor -= w.size;
        w.major++;
    }
}

/* Few rows, such as the channels of a picture, or the taps of a filter's gradient: a block moves a
 * piece of the columns, with all of their rows, through shared memory. */
template <typename T, typename U>
DEVICE void transpose_columns(const yki_cuda_transpose_args &args, T *piece)
{
    const int rounds = YKI_CUDA_PIECE / THREADS, few = args.out_pitch;
    const int most = YKI_CUDA_PIECE / few, pitch = most + 1;
    const int pieces = (args.columns + most - 1) / most;
    const int64_t image = blockIdx.x / (unsigned)pieces;
    const int begin = (int)(blockIdx.x % (unsigned)pieces) * most;
    const int count = args.columns - begin < most ? args.columns - begin : most;
    const T *in = (const T *)args.in + image * args.rows * args.in_pitch + begin;
    U *out = (U *)args.out + (image * args.columns + begin) * args.out_pitch;
    const int elements = few * count;
    T held[rounds];
    const walk first = walk_of(count);
    walk at = first;
#pragma unroll
    for (int i = 0; i < rounds; i++, advance(at))
        if (i * THREADS < elements && at.major < args.rows)
            held[i] = in[at.major * args.in_pitch + at.minor];
        else
            held[i] = T();
    at = first;
#pragma unroll
    for (int i = 0; i < rounds; i++, advance(at))
        if (i * THREADS < elements && at.major < few)
            piece[at.major * pitch + at.minor] = held[i];
    __syncthreads();
    at = walk_of(few);
#pragma unroll
    for (int i = 0; i < rounds; i++, advance(at)) {
        const int place = i * THREADS + (int)threadIdx.x; /* the output has no gaps */
        if (place < elements)
            out[place] = convert(piece[at.minor * pitch + at.major], U());
    }
}

template <typename T, typename U> DEVICE void transpose(const yki_cuda_transpose_args &args)
{
    SHARED(T, tile, YKI_CUDA_PIECE + YKI_CUDA_SHORT);
    if (args.columns <= YKI_CUDA_SHORT) {
        transpose_row<T, U>(args);
        return;
    }
    if (args.out_pitch <= YKI_CUDA_SHORT) {
        transpose_columns<T, U>(args, tile);
        return;
    }
    for (int64_t image = blockIdx.z; image < args.batch; image += gridDim.z)
        for (int64_t row = (int64_t)blockIdx.y * TILE; row < args.out_pitch;
             row += (int64_t)gridDim.y * TILE)
            transpose_tile<T, U>(args, tile, image, (int)row);
}
/* Bytes are the places of max_pool2d's maxima. */
KERNEL(transpose_1, yki_cuda_transpose_args, transpose<uint8_t, uint8_t>)
KERNEL(transpose_2, yki_cuda_transpose_args, transpose<uint16_t, uint16_t>)
KERNEL(transpose_4, yki_cuda_transpose_args, transpose<uint32_t, uint32_t>)
KERNEL(transpose_8, yki_cuda_transpose_args, transpose<uint64_t, uint64_t>)
/* Weights of convolutions, which are f32, for 16 bits, and their gradients in 16 bits. */
KERNEL(transpose_f32_bf16, yki_cuda_transpose_args, transpose<float, bf16>)
KERNEL(transpose_f32_f16, yki_cuda_transpose_args, transpose<float, f16>)
KERNEL(transpose_bf16_f32, yki_cuda_transpose_args, transpose<bf16, float>)
KERNEL(transpose_f16_f32, yki_cuda_transpose_args, transpose<f16, float>)

/* A thread takes W elements of a row. */
template <typename T, int W> DEVICE void copy(const yki_cuda_copy_args &args)
{
    int64_t vectors = args.columns / W, item = thread_number(), row = item / vectors;
    if (row >= args.rows)
        return;
    T value[W];
    int64_t column = item % vectors * W;
    load_raw((const T *)args.in + row * args.in_pitch + column, value);
    store_raw((T *)args.out + row * args.out_pitch + column, value);
}
KERNEL(copy_1, yki_cuda_copy_args, copy<uint8_t, 16>)
KERNEL(copy_2, yki_cuda_copy_args, copy<uint16_t, 8>)
KERNEL(copy_4, yki_cuda_copy_args, copy<uint32_t, 4>)
KERNEL(copy_8, yki_cuda_copy_args, copy<uint64_t, 2>)
KERNEL(copy_1_1, yki_cuda_copy_args, copy<uint8_t, 1>)
KERNEL(copy_2_1, yki_cuda_copy_args, copy<uint16_t, 1>)
KERNEL(copy_4_1, yki_cuda_copy_args, copy<uint32_t, 1>)
KERNEL(copy_8_1, yki_cuda_copy_args, copy<uint64_t, 1>)

/* For pad, and for cuDNN's engines of 16 bits, which want channels in eights. A thread writes W
 * elements of a row, whose pitch is a multiple of W. */
template <typename T, int W> DEVICE void pad(const yki_cuda_copy_args &args)
{
    int64_t vectors = args.out_pitch / W, item = thread_number(), row = item / vectors;
    if (row >= args.rows)
        return;
    T value[W];
    int64_t column = item % vectors * W, from = column - args.first;
#pragma unroll
    for (int i = 0; i < W; i++)
        value[i] = from + i >= 0 && from + i < args.columns
                       ? ((const T *)args.in)[row * args.in_pitch + from + i]
                       : T();
    store_raw((T *)args.out + row * args.out_pitch + column, value);
}
KERNEL(pad_2, yki_cuda_copy_args, pad<uint16_t, 8>)
KERNEL(pad_4, yki_cuda_copy_args, pad<uint32_t, 4>)
KERNEL(pad_8, yki_cuda_copy_args, pad<uint64_t, 2>)
KERNEL(pad_2_1, yki_cuda_copy_args, pad<uint16_t, 1>)
KERNEL(pad_4_1, yki_cuda_copy_args, pad<uint32_t, 1>)
KERNEL(pad_8_1, yki_cuda_copy_args, pad<uint64_t, 1>)

DEVICE void fill_elements(const yki_cuda_fill_args &args)
{
    int64_t i = thread_number();
    if (i >= args.count)
        return;
    if (args.element_size == 1)
        ((uint8_t *)args.to)[i] = (uint8_t)args.value;
    else if (args.element_size == 2)
        ((uint16_t *)args.to)[i] = (uint16_t)args.value;
    else
        ((uint32_t *)args.to)[i] = args.value;
}
KERNEL(fill, yki_cuda_fill_args, fill_elements)

/*
 * Approximations of matrices (device/low_rank.h). Sums are added in an order that depends on shapes
 * alone. Factors with many columns are worked on in groups, for each of which M is read again.
 */
#include "sums.cuh"

/* The columns of factors that one pass over M works on. */
#define GROUP 8

/* The sum over the block, in all threads; may be called again with the same part. */
DEVICE float sum_of_block(float value, float *part)
{
    value = warp_sum(value);
    __syncthreads(); /* part has been read */
    if (threadIdx.x % WARP == 0)
        part[threadIdx.x / WARP] = value;
    __syncthreads();
    value = part[0];
    for (int warp = 1; warp < WARPS; warp++)
        value += part[warp];
    return value;
}

DEVICE int group_of(const yki_low_rank &x, int64_t first)
{
    return (int)(x.rank - first < GROUP ? x.rank - first : GROUP);
}

DEVICE void do_begin(const yki_low_rank_args &args)
{
    int64_t i = thread_number();
    if ((*args.warm && !args.always_draws) || i >= args.at.rank * args.at.m)
        return;
    args.at.q[i] = yki_low_rank_draw(*args.key, args.number, (uint64_t)i);
}
KERNEL(low_rank_begin, yki_low_rank_args, do_begin)

/* ---- one block for each matrix: each thread reads and writes elements of its own ----------------------------- */

DEVICE float dot(const float *a, const float *b, int64_t length, float *part)
{
    float sum = 0;
    for (int64_t i = threadIdx.x; i < length; i += THREADS)
        sum += a[i] * b[i];
    return sum_of_block(sum, part);
}

DEVICE void do_orthonormalise(const yki_cuda_orthonormalise_args &args)
{
    SHARED(float, part, WARPS);
    const yki_low_rank &x = args.at[blockIdx.x];
    float *columns = args.is_p ? x.p : x.q;
    int64_t length = args.is_p ? x.n : x.m;
    for (int64_t k = 0; k < x.rank; k++) {
        float *column = columns + k * length;
        double norm = sqrt((double)dot(column, column, length, part)) + args.epsilon;
        float scale = norm > 0 ? (float)(1 / norm) : 0;
        for (int64_t i = threadIdx.x; i < length; i += THREADS)
            column[i] *= scale;
        for (int64_t l = k + 1; l < x.rank; l++) {
            float *other = columns + l * length;
            float along = dot(column, other, length, part);
            for (int64_t i = threadIdx.x; i < length; i += THREADS)
                other[i] -= along * column[i];
        }
    }
}
KERNEL(low_rank_orthonormalise, yki_cuda_orthonormalise_args, do_orthonormalise)

/* ---- M --------------------------------------------------------------------------------------- */

/* A row of M for each block. */
DEVICE void do_project(const yki_low_rank_args &args)
{
    SHARED(float, part, WARPS);
    const yki_low_rank &x = args.at;
    int64_t row = blockIdx.x;
    float *m = x.matrix + row * x.m;
    for (int64_t first = 0; first < x.rank; first += GROUP) {
        const float *q = x.q + first * x.m;
        int group = group_of(x, first);
        float sums[GROUP] = {};
        for (int64_t j = threadIdx.x; j < x.m; j += THREADS) {
            float value = m[j];
            if (x.error && first == 0)
                m[j] = value += x.error[row * x.m + j];
#pragma unroll
            for (int k = 0; k < GROUP; k++)
                if (k < group)
                    sums[k] += value * q[k * x.m + j];
        }
#pragma unroll
        for (int k = 0; k < GROUP; k++)
            if (k < group) {
                float sum = sum_of_block(sums[k], part);
                if (threadIdx.x == 0)
                    x.p[(first + k) * x.n + row] = sum;
            }
    }
}
KERNEL(low_rank_project, yki_low_rank_args, do_project)

/* A column of M for each lane, whose rows the warps of the block share. */
DEVICE void do_project_back(const yki_low_rank_args &args)
{
    SHARED(float, shared, GROUP * THREADS);
    const yki_low_rank &x = args.at;
    int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP;
    int64_t column = (int64_t)blockIdx.x * WARP + lane;
    for (int64_t first = 0; first < x.rank; first += GROUP) {
        const float *p = x.p + first * x.n;
        int group = group_of(x, first);
        float sums[GROUP] = {};
        if (column < x.m)
            for (int64_t i = warp; i < x.n; i += WARPS) {
                float value = x.matrix[i * x.m + column];
#pragma unroll
                for (int k = 0; k < GROUP; k++)
                    if (k < group)
                        sums[k] += p[k * x.n + i] * value;
            }
        __syncthreads(); /* the sums of the group before have been read */
#pragma unroll
        for (int k = 0; k < GROUP; k++)
            shared[k * THREADS + threadIdx.x] = sums[k];
        __syncthreads();
        if (warp < group && column < x.m) { /* warp w adds up column w of the group */
            float sum = shared[warp * THREADS + lane];
            for (int other = 1; other < WARPS; other++)
                sum += shared[warp * THREADS + other * WARP + lane];
            x.q[(first + warp) * x.m + column] = sum;
        }
    }
}
KERNEL(low_rank_project_back, yki_low_rank_args, do_project_back)

DEVICE void do_approximate(const yki_low_rank_args &args)
{
    const yki_low_rank &x = args.at;
    int64_t e = thread_number(), i = e / x.m, j = e % x.m;
    if (i >= x.n)
        return;
    if (*args.bad != 0) {
        x.matrix[e] = NAN;
        if (x.error)
            x.error[e] = 0;
        return;
    }
    float sum = 0;
    for (int64_t k = 0; k < x.rank; k++)
        sum += x.p[k * x.n + i] * x.q[k * x.m + j];
    if (x.error)
        x.error[e] = x.matrix[e] - args.share * sum;
    x.matrix[e] = sum;
}
KERNEL(low_rank_approximate, yki_low_rank_args, do_approximate)

DEVICE void do_end(const yki_low_rank_args &args)
{
    if (threadIdx.x > 0)
        return;
    bool good = *args.bad == 0;
    *args.warm = good;
    *args.count += good;
}
KERNEL(low_rank_end, yki_low_rank_args, do_end)

/* Kernels with the mistakes that the simulator must find, and the same without them. */
#include "matrix.cuh"

struct faulty_args {
    const double *x;
    double *out;
    int fault;
};

/* The sum of a block; `fault` leaves out the barrier before other warps' sums are read. */
DEVICE void block_total(const faulty_args &args)
{
    SHARED(double, part, WARPS);
    double sum = warp_sum(args.x[threadIdx.x]);
    if (threadIdx.x % WARP == 0)
        part[threadIdx.x / WARP] = sum;
    if (!args.fault)
        __syncthreads();
    if (threadIdx.x > 0)
        return;
    for (int warp = 1; warp < WARPS; warp++)
        sum += part[warp];
    *args.out = sum;
}
KERNEL(faulty_total, faulty_args, block_total)

/* A barrier that the last thread does not reach: it has left, or waits at another one. */
DEVICE void divergent_barrier(const faulty_args &args)
{
    bool last = threadIdx.x == THREADS - 1;
    if (args.fault == 1 && last)
        return;
    if (args.fault == 2 && last)
        __syncthreads();
    else
        __syncthreads();
}
KERNEL(faulty_barrier, faulty_args, divergent_barrier)

/* An exchange in which some lanes do not take part. */
DEVICE void divergent_shuffle(const faulty_args &args)
{
    double sum = 1;
    if (!args.fault || threadIdx.x % WARP < 16)
        sum = warp_sum(sum);
    __syncthreads();
    if (threadIdx.x == 0)
        *args.out = sum;
}
KERNEL(faulty_shuffle, faulty_args, divergent_shuffle)

/* Sums what other threads have left in shared memory; with `fault`, what none has written. */
DEVICE void unwritten(const faulty_args &args)
{
    SHARED(double, part, THREADS);
    if (!args.fault || threadIdx.x != 7)
        part[threadIdx.x] = args.x[threadIdx.x];
    __syncthreads();
    double sum = 0;
    for (int i = 0; i < THREADS; i++)
        sum += part[i];
    if (threadIdx.x == 0)
        *args.out = sum;
}
KERNEL(faulty_unwritten, faulty_args, unwritten)

/* Which warp comes first is not said: it must differ from seed to seed. */
DEVICE void first_thread(const faulty_args &args)
{
    if (*args.out < 0)
        *args.out = (double)threadIdx.x;
}
KERNEL(faulty_first, faulty_args, first_thread)

/* How far a product by tensor cores is from the sums that it stands for; with `fault`, rows do not
 * begin where ldmatrix needs them. */
DEVICE void matrix_error(const faulty_args &args)
{
    SHARED(uint4, rows, 2 * 16 + 1);
    SHARED(uint4, columns, 16);
    bf16 *const a = (bf16 *)rows, *const b = (bf16 *)columns; /* 16 x 16, 16 x 8 */
    const int thread = (int)threadIdx.x, lane = lane_number();
    a[thread] = narrow<bf16>((float)(thread * 7 % 31 - 9));
    if (thread < 16 * 8)
        b[thread] = narrow<bf16>((float)(thread * 5 % 23 - 8));
    __syncthreads();
    pair<bf16> of_a[4], of_b[4];
    float c[4] = {1, 2, 3, 4};
    double error = 0;
    load_matrices((const uint4 *)(a + lane % 16 * 16 + lane / 16 * 8 + args.fault), of_a);
    load_transposed(columns + lane % 16, of_b);
    multiply_add(c, of_a, of_b[0], of_b[1]);
    for (int i = 0; i < 4; i++) {
        const int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
        double sum = i + 1;
        for (int k = 0; k < 16; k++)
            sum += (double)widen(a[row * 16 + k]) * (double)widen(b[k * 8 + column]);
        error += sum < c[i] ? c[i] - sum : sum - c[i];
    }
    error = block_sum(error);
    if (thread == 0)
        *args.out = error;
}
KERNEL(faulty_matrix, faulty_args, matrix_error)

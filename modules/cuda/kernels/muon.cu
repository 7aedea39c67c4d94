/* What Muon does besides products of matrices (device/muon.h). */
#include "device/muon.h"
#include "sums.cuh"

/* The norm of all values, of which the blocks of muon_squares have summed the squares; in thread
 * 0. */
DEVICE double norm_of(const yki_cuda_muon_args &args)
{
    return sqrt(block_sum((int)threadIdx.x < args.blocks ? args.partial[threadIdx.x] : 0.0));
}

DEVICE int64_t stride()
{
    return (int64_t)gridDim.x * THREADS;
}

DEVICE void do_squares(const yki_cuda_muon_args &args)
{
    double sum = 0;
    for (int64_t i = thread_number(); i < args.count; i += stride())
        sum += (double)args.in[i] * (double)args.in[i];
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        args.partial[blockIdx.x] = sum;
}
KERNEL(muon_squares, yki_cuda_muon_args, do_squares)

DEVICE void do_begin(const yki_cuda_muon_args &args)
{
    SHARED(float, scale, 1);
    double norm = norm_of(args);
    if (threadIdx.x == 0)
        *scale = (float)(1 / (norm + 1e-7));
    __syncthreads();
    for (int64_t i = thread_number(); i < args.count; i += stride())
        args.out[i] = *scale * args.in[i];
}
KERNEL(muon_begin, yki_cuda_muon_args, do_begin)

DEVICE void do_apply(const yki_cuda_muon_args &args)
{
    SHARED(float, kept, 1);
    const double *c = args.coefficients;
    float lr = (float)c[YKI_MUON_LR];
    double norm = args.normalize ? norm_of(args) : 0;
    if (threadIdx.x == 0) {
        double keep = 1 - c[YKI_MUON_LR] * args.weight_decay;
        *kept = (float)(norm > 0 ? keep * sqrt((double)args.rows) / norm : keep);
    }
    __syncthreads();
    if (c[YKI_SWEEP_SKIP] != 0)
        return;
    for (int64_t i = thread_number(); i < args.count; i += stride())
        args.out[i] = *kept * args.out[i] - lr * args.in[i];
}
KERNEL(muon_apply, yki_cuda_muon_args, do_apply)

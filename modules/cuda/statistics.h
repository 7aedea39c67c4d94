/*
 * The statistics of batch_norm, the count, mean and squared distances of each channel as a vector
 * of device/sync.h: by a pass over x, or from the sums that a convolution gives. See
 * kernels/batch_norm.cu.
 */
#ifndef YKI_CUDA_STATISTICS_H
#define YKI_CUDA_STATISTICS_H

#include "cuda.h"

/* How many channels a thread of batch_norm takes, and how its kernels divide x: also as rows of
 * their gradients. */
int yki_cuda_norm_width(const yki_operand *x);
yki_cuda_grid yki_cuda_norm_divide(const yki_operand *x, yki_cuda_columns *at);

/* By a pass over x, with the kernels of this stage and the next. */
yk_status yki_cuda_statistics_find(yki_cuda_kernel *kernel, int stage, const yki_operand *x);
size_t yki_cuda_statistics_bytes(const yki_operand *x); /* of the partial sums */
yk_status yki_cuda_statistics(const yki_cuda_kernel *kernel, int stage, const yki_operand *x,
                              const void *memory, double *partial, double *vector,
                              const yki_kernel_args *run);
/* The first of the two alone: so many slices of partial sums. */
yk_status yki_cuda_statistics_measure(const yki_cuda_kernel *kernel, int stage,
                                      const yki_operand *x, const void *memory, double *partial,
                                      const yki_kernel_args *run, int32_t *slices);

/* Whether sums can replace the pass. They do for 16 bits, whose own rounding is coarser than what
 * a variance loses that is the difference of sums in f32. */
bool yki_cuda_statistics_of_sums(const yki_operand *x, const yki_operand *sums);
/* By the kernel of this stage. */
yk_status yki_cuda_sums_find(yki_cuda_kernel *kernel, int stage);
yk_status yki_cuda_sums(const yki_cuda_kernel *kernel, int stage, const yki_operand *x,
                        const void *sums, double *vector, const yki_kernel_args *run);

#endif

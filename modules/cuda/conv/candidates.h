/*
 * The plans among which plan.c chooses. Making one may take a compiler, and seconds. The
 * convolutions that a network needs are therefore foreseen: when the first of them is asked for,
 * the plans of all are made, by a thread for each core. No other thread uses cuDNN meanwhile.
 */
#ifndef YKI_CUDA_CONV_CANDIDATES_H
#define YKI_CUDA_CONV_CANDIDATES_H

#include "cuda.h"
#include "libraries/cudnn_conv.h"

enum { YKI_CUDA_CANDIDATES = 8 };

/* Of one kernel: what a plan needs beyond its operands, while it runs. */
extern const size_t yki_cuda_most_workspace;

/* Begins with a convolution, whose problem is its text. YK_ERROR_UNSUPPORTED if cuDNN refuses its
 * graph; nothing is done if it has been foreseen already. */
yk_status yki_cuda_candidates_foresee(yki_cuda_device *device, const yki_cudnn *cudnn,
                                      const yki_cudnn_conv *conv, const char *problem);
/* The first plans that work, best first, at most so many; the caller owns them. Where nothing is
 * measured, one is enough. Forgets the convolution. */
yk_status yki_cuda_candidates_take(yki_cuda_device *device, const yki_cudnn *cudnn,
                                   const yki_cudnn_conv *conv, const char *problem,
                                   yki_cudnn_plan plans[YKI_CUDA_CANDIDATES], int *count);
/* Frees the candidates that were made but never taken. */
void yki_cuda_candidates_free(yki_cuda_device *device);

#endif

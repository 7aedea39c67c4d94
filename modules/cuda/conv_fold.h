/*
 * The first layer of most networks has 3 channels, and cuDNN's engines of 16 bits want them in
 * eights: more than half of what they multiply are zeros. Where such a convolution has stride 2, it
 * is computed as one of stride 1 over an image of half the size, in which four neighbouring pixels
 * are the channels of one; a filter of 7x7 taps becomes one of 4x4. On an H200, both directions of
 * the first layer of a ResNet-50 take less than half the time.
 */
#ifndef YKI_CUDA_CONV_FOLD_H
#define YKI_CUDA_CONV_FOLD_H

#include "cuda.h"
#include "cudnn_conv.h"

/* Also whether there are at most 4 channels and 16 bits. */
bool yki_cuda_fold_helps(const yki_cudnn_conv *conv, int64_t groups);
/* From the convolution as it is; the folded one has its y. The image gets zeros around it instead
 * of padding. */
void yki_cuda_fold(const yki_cudnn_conv *conv, yki_cudnn_conv *folded);

/* What is folded, and what of: for the kernels. in and out are left to the caller. */
yki_cuda_fold_args yki_cuda_fold_pixels(const yki_cudnn_conv *conv, const yki_cudnn_conv *folded);
yki_cuda_fold_args yki_cuda_fold_filters(const yki_cudnn_conv *conv, const yki_cudnn_conv *folded);

#endif

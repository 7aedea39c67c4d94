/*
 * The first layer of most networks has 3 channels, and cuDNN's engines of 16 bits want them in
 * eights: more than half of what they multiply are zeros. Where such a convolution has stride 2, it
 * is computed as one of stride 1 over an image of half the size, in which four neighbouring pixels
 * are the channels of one; a filter of 7x7 taps becomes one of 4x4. On an H200, the first layer of
 * a ResNet-50 takes 0.4 of the time forward, and half of it for the gradient of its weights.
 */
#ifndef YKI_CUDA_CONV_FOLD_H
#define YKI_CUDA_CONV_FOLD_H

#include "cuda.h"
#include "libraries/cudnn_conv.h"

/* It does with stride 2, at most 4 channels and 16 bits. */
bool yki_cuda_fold_helps(const yki_cudnn_conv *conv, int64_t groups);
/* The folded convolution has the same y. Instead of padding, its image has zeros around it. */
void yki_cuda_fold(const yki_cudnn_conv *conv, yki_cudnn_conv *folded);

/* Whether both have the same folded filters of a parameter. */
bool yki_cuda_folds_alike(const yki_cudnn_conv *conv, const yki_cudnn_conv *other);

/* Arguments of the kernels that fold images and filters; the caller sets in and out. */
yki_cuda_fold_args yki_cuda_fold_pixels(const yki_cudnn_conv *conv, const yki_cudnn_conv *folded);
yki_cuda_fold_args yki_cuda_fold_filters(const yki_cudnn_conv *conv, const yki_cudnn_conv *folded);

#endif

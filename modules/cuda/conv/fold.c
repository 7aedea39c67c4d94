/* See fold.h. */
#include "conv/fold.h"

static bool is_two(const int64_t pair[2])
{
    return pair[0] == 2 && pair[1] == 2;
}

bool yki_cuda_fold_helps(const yki_cudnn_conv *conv, int64_t groups)
{
    return yk_dtype_size(conv->dtype) == 2 && groups == 1 && is_two(conv->stride) &&
           conv->dilation[0] * conv->dilation[1] == 1 && conv->x[1] <= YKI_CUDA_FOLDED / 4 &&
           conv->padding[0] == conv->padding[1] && conv->w[2] > 1 && conv->w[3] > 1;
}

/* Pixels are folded in pairs. With odd padding, a filter would begin in the middle of a pair, and
 * therefore gets a row and a column of zeros first. */
static int64_t zeros_before(const yki_cudnn_conv *conv)
{
    return conv->padding[0] % 2;
}

bool yki_cuda_folds_alike(const yki_cudnn_conv *conv, const yki_cudnn_conv *other)
{
    return zeros_before(conv) == zeros_before(other);
}

void yki_cuda_fold(const yki_cudnn_conv *conv, yki_cudnn_conv *folded)
{
    int64_t before = zeros_before(conv);
    *folded = *conv;
    for (int d = 0; d < 2; d++) {
        folded->stride[d] = 1;
        folded->padding[d] = 0;
    }
    folded->x[1] = folded->w[1] = YKI_CUDA_FOLDED;
    for (int i = 2; i < 4; i++) {
        folded->w[i] = (conv->w[i] + before + 1) / 2;
        folded->x[i] = conv->y[i] + folded->w[i] - 1;
    }
}

/* Of images or of filters, whose dimensions have the same order. */
static yki_cuda_fold_args args_of(const int64_t plain[4], const int64_t folded[4], int64_t begin)
{
    return (yki_cuda_fold_args){.count = plain[0],
                                .channels = (int32_t)plain[1],
                                .height = (int32_t)plain[2],
                                .width = (int32_t)plain[3],
                                .out_height = (int32_t)folded[2],
                                .out_width = (int32_t)folded[3],
                                .begin = (int32_t)begin};
}

yki_cuda_fold_args yki_cuda_fold_pixels(const yki_cudnn_conv *conv, const yki_cudnn_conv *folded)
{
    return args_of(conv->x, folded->x, conv->padding[0] + zeros_before(conv));
}

yki_cuda_fold_args yki_cuda_fold_filters(const yki_cudnn_conv *conv, const yki_cudnn_conv *folded)
{
    return args_of(conv->w, folded->w, zeros_before(conv));
}

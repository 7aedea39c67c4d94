/* Convolutions of stride 2 over few channels, folded into channels: see conv/fold.h. */
#include "kernel.cuh"

/* A thread writes one pixel of the folded image, of at most 16 channels. */
DEVICE void fold_image(const yki_cuda_fold_args &args)
{
    const uint32_t item = (uint32_t)thread_number(), line = item / (uint32_t)args.out_width;
    const int column = (int)(item % (uint32_t)args.out_width);
    const int row = (int)(line % (uint32_t)args.out_height);
    const int64_t image = line / (uint32_t)args.out_height;
    if (image >= args.count)
        return;
    const int64_t before = image * args.height * args.width * args.channels;
    const uint16_t *in = (const uint16_t *)args.in + before;
    const int top = 2 * row - args.begin, left = 2 * column - args.begin;
    alignas(16) uint16_t out[YKI_CUDA_FOLDED] = {};
#pragma unroll
    for (int place = 0; place < 4; place++) {
        const int h = top + place / 2, w = left + place % 2;
        const bool inside = h >= 0 && h < args.height && w >= 0 && w < args.width;
#pragma unroll
        for (int c = 0; c < YKI_CUDA_FOLDED / 4; c++)
            if (inside && c < args.channels)
                out[place * (YKI_CUDA_FOLDED / 4) + c] =
                    in[((int64_t)h * args.width + w) * args.channels + c];
    }
    store_raw((uint16_t *)args.out + (int64_t)item * YKI_CUDA_FOLDED, out);
}
KERNEL(fold_pixels, yki_cuda_fold_args, fold_image)

/* The place of a tap and a channel in a folded filter. */
DEVICE int64_t folded_place(const yki_cuda_fold_args &args, int64_t filter, int row, int column,
                            int channel)
{
    const int h = row + args.begin, w = column + args.begin;
    const int64_t tap = (filter * args.out_height + h / 2) * args.out_width + w / 2;
    return tap * YKI_CUDA_FOLDED + (h % 2 * 2 + w % 2) * (YKI_CUDA_FOLDED / 4) + channel;
}

/* A thread takes one element of a filter (count, channels, height, width). */
template <typename F> DEVICE void each_of_filters(const yki_cuda_fold_args &args, F f)
{
    int64_t item = thread_number(), rest = item;
    const int column = (int)(rest % args.width), row = (int)((rest /= args.width) % args.height);
    const int channel = (int)((rest /= args.height) % args.channels);
    const int64_t filter = rest / args.channels;
    if (filter < args.count)
        f(item, folded_place(args, filter, row, column, channel));
}

template <typename T> DEVICE void fold_filters(const yki_cuda_fold_args &args)
{
    each_of_filters(args, [&](int64_t plain, int64_t folded) {
        ((T *)args.out)[folded] = narrow<T>(((const float *)args.in)[plain]);
    });
}
KERNEL(fold_filters_bf16, yki_cuda_fold_args, fold_filters<bf16>)
KERNEL(fold_filters_f16, yki_cuda_fold_args, fold_filters<f16>)

template <typename T> DEVICE void unfold_filters(const yki_cuda_fold_args &args)
{
    each_of_filters(args, [&](int64_t plain, int64_t folded) {
        ((float *)args.out)[plain] = widen(((const T *)args.in)[folded]);
    });
}
KERNEL(unfold_filters_f32, yki_cuda_fold_args, unfold_filters<float>)
KERNEL(unfold_filters_bf16, yki_cuda_fold_args, unfold_filters<bf16>)
KERNEL(unfold_filters_f16, yki_cuda_fold_args, unfold_filters<f16>)

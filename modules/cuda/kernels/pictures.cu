/* Batches from pictures of bytes: see device/pictures.h. */
#include "kernel.cuh"

template <typename T>
DEVICE T picture_number(const yki_pictures_args &args, int64_t sample, int channel, int y, int x)
{
    double erased;
    if (yki_picture_is_erased(&args, sample, channel, y, x, &erased))
        return (T)erased;
    const T *numbers = (const T *)args.numbers + channel * YKI_PICTURE_NUMBERS;
    return numbers[yki_picture_byte(&args, sample, channel, y, x)];
}

/* A thread makes one number: blockIdx.x takes pixels, blockIdx.y channels, blockIdx.z samples. */
template <typename T> DEVICE void pictures(const yki_pictures_args &args)
{
    int plane = args.out_height * args.out_width, channel = (int)blockIdx.y;
    int64_t pixel = thread_number();
    if (pixel >= plane)
        return;
    int y = (int)pixel / args.out_width, x = (int)pixel % args.out_width;
    T *out = (T *)args.out + (int64_t)channel * plane + pixel;
    bool mixes = args.mix && args.mix->share != 1;
    bool cuts = mixes && args.mix->cut, inside = cuts && yki_picture_is_cut(args.mix, y, x);
    for (int64_t n = blockIdx.z; n < args.batch; n += gridDim.z) {
        int64_t before = n > 0 ? n - 1 : args.batch;
        T value = picture_number<T>(args, inside ? before : n, channel, y, x);
        if (mixes && !cuts) {
            T share = (T)args.mix->share;
            T other = picture_number<T>(args, before, channel, y, x);
            value = share * value + (1 - share) * other;
        }
        out[n * args.channels * plane] = value;
    }
}
KERNEL(pictures_f32, yki_pictures_args, pictures<float>)
KERNEL(pictures_f64, yki_pictures_args, pictures<double>)

/* Images of another size: see graph/interpolate.h. */
#include "pixel.cuh"

/* Adds a pixel of the input, so much of it. */
template <typename T, int W>
DEVICE void add_pixel(const yki_cuda_pool_args &args, int64_t place, real_of<T> weight,
                      real_of<T> (&sum)[W])
{
    real_of<T> value[W];
    load((const T *)args.in + place, value);
#pragma unroll
    for (int i = 0; i < W; i++)
        sum[i] += weight * value[i];
}

template <typename T, int W> DEVICE void interpolate(const yki_cuda_interpolate_args &args)
{
    typedef real_of<T> real;
    const pixel at = pixel_of<W>(args.images);
    if (!at.exists)
        return;
    const yki_taps rows = yki_taps_of(&args.down, at.h), columns = yki_taps_of(&args.across, at.w);
    const real down[2] = {(real)(args.down.divisor - rows.part) / (real)args.down.divisor,
                          (real)rows.part / (real)args.down.divisor};
    const real across[2] = {(real)(args.across.divisor - columns.part) / (real)args.across.divisor,
                            (real)columns.part / (real)args.across.divisor};
    const int height = args.images.h, width = args.images.w;
    real sum[W] = {};
#pragma unroll
    for (int r = 0; r < 2; r++)
#pragma unroll
        for (int s = 0; s < 2; s++) {
            if ((r == 1 && rows.part == 0) || (s == 1 && columns.part == 0))
                continue;
            add_pixel<T, W>(args.images,
                            place_of(args.images, at, height, width, (int)rows.first + r,
                                     (int)columns.first + s),
                            down[r] * across[s], sum);
        }
    store((T *)args.images.out + at.offset, sum);
}
KERNELS(interpolate, yki_cuda_interpolate_args, interpolate)

/* A pixel of the input sums over the outputs that have something of it. */
template <typename T, int W> DEVICE void interpolate_backward(const yki_cuda_interpolate_args &args)
{
    typedef real_of<T> real;
    const pixel at = pixel_of<W>(args.images);
    if (!at.exists)
        return;
    const int left = (int)yki_first_output(&args.across, at.w);
    const int right = (int)yki_end_output(&args.across, at.w);
    const int bottom = (int)yki_end_output(&args.down, at.h);
    real sum[W] = {};
    for (int p = (int)yki_first_output(&args.down, at.h); p < bottom; p++) {
        const real down = (real)yki_part_of(&args.down, p, at.h) / (real)args.down.divisor;
        for (int q = left; q < right; q++) {
            const real across =
                (real)yki_part_of(&args.across, q, at.w) / (real)args.across.divisor;
            add_pixel<T, W>(args.images,
                            place_of(args.images, at, args.images.p, args.images.q, p, q),
                            down * across, sum);
        }
    }
    store((T *)args.images.out + at.offset, sum);
}
KERNELS(interpolate_backward, yki_cuda_interpolate_args, interpolate_backward)

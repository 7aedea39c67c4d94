/* How threads share images: see yki_cuda_pool_args. */
#ifndef YKI_PIXEL_CUH
#define YKI_PIXEL_CUH

#include "kernel.cuh"

/* A vector of channels at one of the places that threads take; the place may not exist. */
struct pixel {
    int column, w, h;
    int64_t image, offset; /* offset: of its first element in a tensor of these places */
    bool exists;
};

template <int W> DEVICE pixel pixel_of(const yki_cuda_pool_args &args)
{
    const uint32_t vectors = (uint32_t)(args.columns / W);
    const uint32_t w = (uint32_t)args.across, h = (uint32_t)args.down;
    const uint32_t item = (uint32_t)thread_number(), place = item / vectors, line = place / w;
    pixel at;
    at.column = (int)(item % vectors) * W;
    at.exists = place < (uint32_t)args.batch * h * w;
    at.w = (int)(place % w);
    at.h = (int)(line % h);
    at.image = line / h;
    at.offset = (int64_t)place * args.columns + at.column;
    return at;
}

DEVICE int64_t place_of(const yki_cuda_pool_args &args, const pixel &at, int height, int width,
                        int h, int w)
{
    return ((at.image * height + h) * width + w) * args.columns + at.column;
}

#endif

/* Batches from pictures of bytes: a window of each, perhaps mirrored, and a number for each byte.
 */
#include "kernel.cuh"

/* A thread makes one pixel of `pitch` channels; PITCH is 8, or 0 for any. */
template <typename T, int PITCH> DEVICE void prepare(const yki_cuda_prepare_args &args)
{
    typedef real_of<T> real;
    int64_t item = thread_number();
    if (item >= (int64_t)args.batch * args.h * args.w)
        return;
    int x = (int)(item % args.w), y = (int)(item / args.w % args.h);
    int64_t image = item / args.w / args.h;
    const yki_cuda_window window = args.windows[image];
    int row = window.top + y, column = window.left + (window.flipped ? args.w - 1 - x : x);
    bool inside = row >= 0 && row < args.in_h && column >= 0 && column < args.in_w;
    const uint8_t *pixel = args.pictures + ((image * args.in_h + row) * args.in_w + column) * 3;
    real number[8] = {};
#pragma unroll
    for (int c = 0; c < 3; c++)
        number[c] = ((const real *)args.tables)[c * 256 + (inside ? pixel[c] : 0)];
    if (PITCH == 8) {
        store((T *)args.out + item * 8, number);
        return;
    }
    T *out = (T *)args.out + item * args.pitch;
    for (int c = 0; c < args.pitch; c++)
        out[c] = narrow<T>(c < 3 ? number[c] : 0);
}
#define PREPARE(type, suffix)                                                                      \
    KERNEL(prepare_##suffix, yki_cuda_prepare_args, prepare<type, 8>)                              \
    KERNEL(prepare_##suffix##_1, yki_cuda_prepare_args, prepare<type, 0>)
PREPARE(float, f32)
PREPARE(double, f64)
PREPARE(bf16, bf16)
PREPARE(f16, f16)

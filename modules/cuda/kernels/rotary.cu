/* Rotary position embeddings. A thread takes a pair of columns of one token, or a column that is
 * left as it is, in all heads, which share the angle. */
#include "graph/rotary.h"
#include "kernel.cuh"

template <typename T> DEVICE void turn(const yki_cuda_rotary_args &args, int64_t token, int pair)
{
    typedef real_of<T> real;
    const int dims = 2 * args.pairs;
    const int64_t distance = yki_rotary_distance(dims, args.interleaved);
    const int64_t row = token * args.heads * args.width;
    const real angle = yki_rotary_angle(args.first + token % args.positions,
                                        yki_rotary_frequency(args.base, pair, dims));
    const real cosine = cos(angle), sine = args.inverse ? -sin(angle) : sin(angle);
    for (int head = 0; head < args.heads; head++) {
        const int64_t i = row + head * args.width + yki_rotary_column(pair, args.interleaved);
        const real p = widen(((const T *)args.x)[i]), q = widen(((const T *)args.x)[i + distance]);
        ((T *)args.y)[i] = narrow<T>(p * cosine - q * sine);
        ((T *)args.y)[i + distance] = narrow<T>(q * cosine + p * sine);
    }
}

template <typename T> DEVICE void rotary(const yki_cuda_rotary_args &args)
{
    const int places = args.width - args.pairs;
    const int64_t number = thread_number(), token = number / places;
    const int place = (int)(number % places);
    if (token >= args.tokens)
        return;
    if (place < args.pairs) {
        turn<T>(args, token, place);
        return;
    }
    for (int head = 0; head < args.heads; head++) {
        const int64_t i = (token * args.heads + head) * args.width + args.pairs + place;
        ((T *)args.y)[i] = ((const T *)args.x)[i];
    }
}
SCALAR_KERNELS(rotary, yki_cuda_rotary_args, rotary)

/* rotary_embedding: see graph/rotary.h. */
#include "graph/rotary.h"

#include "device/ref/ref.h"

/* Turns the pairs of a head, whose columns begin at element `at`. */
static void turn_head(const yk_tensor *x, const yk_tensor *y, int64_t at, int64_t position,
                      const yki_attrs *a)
{
    const int64_t distance = yki_rotary_distance(a->rotary, a->interleaved);
    for (int64_t pair = 0; pair < a->rotary / 2; pair++) {
        const float frequency = yki_rotary_frequency(a->alpha, pair, a->rotary);
        const double angle = yki_rotary_angle(position, frequency);
        const double c = cos(angle), s = a->inverse ? -sin(angle) : sin(angle);
        const int64_t i = at + yki_rotary_column(pair, a->interleaved), j = i + distance;
        const double p = yki_ref_get(x, i), q = yki_ref_get(x, j);
        yki_ref_set(y, i, p * c - q * s);
        yki_ref_set(y, j, q * c + p * s);
    }
}

static yk_status ref_rotary_embedding(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const yki_attrs *a = yki_ref_attrs(kernel);
    yk_tensor x = yki_ref_in(kernel, run, YKI_ROTARY_EMBEDDING_X); /* (N, T, heads width) */
    yk_tensor y = yki_ref_out(kernel, run, YKI_ROTARY_EMBEDDING_Y);
    const int64_t count = yk_tensor_count(&x), width = x.dims[2] / a->heads;
    for (int64_t at = 0; at < count; at += width) {
        const int64_t position = a->first + at / x.dims[2] % x.dims[1];
        turn_head(&x, &y, at, position, a);
        for (int64_t i = at + a->rotary; i < at + width; i++)
            yki_ref_set(&y, i, yki_ref_get(&x, i));
    }
    return YK_OK;
}

YKI_REF_IMPL(rotary_embedding, 1);

/* take_along_dim: y[r, k] is x[r, index[r, k]]. */
#include "device/take.h"
#include "device/ref/ref.h"

static int64_t index_at(const yki_take *t, const yk_tensor *index, int64_t row, int64_t k)
{
    return yki_index_at(index->dtype, index->data, t->shared ? k : row * t->taken + k);
}

static yki_take take_of(const yki_kernel *kernel, const yki_operand *x, int index)
{
    const yki_ref_kernel *k = (const yki_ref_kernel *)kernel;
    return yki_take_of(&k->attrs, x, &k->desc.in[index]);
}

static yk_status ref_take_along_dim(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const yki_ref_kernel *k = (const yki_ref_kernel *)kernel;
    const yki_take t = take_of(kernel, &k->desc.in[YKI_TAKE_ALONG_DIM_X], YKI_TAKE_ALONG_DIM_INDEX);
    yk_tensor x = yki_ref_in(kernel, run, YKI_TAKE_ALONG_DIM_X);
    yk_tensor index = yki_ref_in(kernel, run, YKI_TAKE_ALONG_DIM_INDEX);
    yk_tensor y = yki_ref_out(kernel, run, YKI_TAKE_ALONG_DIM_Y);
    for (int64_t i = 0; i < t.rows * t.taken; i++) {
        const int64_t row = i / t.taken, place = index_at(&t, &index, row, i % t.taken);
        if (place < 0 || place >= t.places)
            return yki_error(YK_ERROR_INVALID_ARGUMENT, "index %lld is outside 0..%lld",
                             (long long)place, (long long)t.places - 1);
        for (int64_t c = 0; c < t.inner; c++)
            yki_ref_set(&y, i * t.inner + c,
                        yki_ref_get(&x, (row * t.places + place) * t.inner + c));
    }
    return YK_OK;
}

static yk_status ref_take_along_dim_backward(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const yki_ref_kernel *k = (const yki_ref_kernel *)kernel;
    const yki_take t = take_of(kernel, &k->desc.out[YKI_TAKE_ALONG_DIM_BACKWARD_DX],
                               YKI_TAKE_ALONG_DIM_BACKWARD_INDEX);
    yk_tensor index = yki_ref_in(kernel, run, YKI_TAKE_ALONG_DIM_BACKWARD_INDEX);
    yk_tensor dy = yki_ref_in(kernel, run, YKI_TAKE_ALONG_DIM_BACKWARD_DY);
    yk_tensor dx = yki_ref_out(kernel, run, YKI_TAKE_ALONG_DIM_BACKWARD_DX);
    for (int64_t i = 0; i < t.rows * t.places * t.inner; i++) {
        const int64_t row = i / t.inner / t.places, place = i / t.inner % t.places;
        double sum = 0;
        for (int64_t n = 0; n < t.taken; n++)
            if (index_at(&t, &index, row, n) == place)
                sum += yki_ref_get(&dy, (row * t.taken + n) * t.inner + i % t.inner);
        yki_ref_set(&dx, i, sum);
    }
    return YK_OK;
}

YKI_REF_IMPL(take_along_dim, 0);
YKI_REF_IMPL(take_along_dim_backward, 0);

/* embedding: y[i] is row indices[i] of the weight. */
#include "device/ref/ref.h"

static int64_t index_at(const yk_tensor *indices, int64_t i)
{
    return yki_index_at(indices->dtype, indices->data, i);
}

static yk_status ref_embedding(const yki_kernel *kernel, const yki_kernel_args *run)
{
    yk_tensor indices = yki_ref_in(kernel, run, YKI_EMBEDDING_INDICES);
    yk_tensor weight = yki_ref_in(kernel, run, YKI_EMBEDDING_WEIGHT); /* (V, C) */
    yk_tensor y = yki_ref_out(kernel, run, YKI_EMBEDDING_Y);
    int64_t count = yk_tensor_count(&indices), columns = weight.dims[1];
    for (int64_t i = 0; i < count; i++) {
        int64_t row = index_at(&indices, i);
        if (row < 0 || row >= weight.dims[0])
            return yki_error(YK_ERROR_INVALID_ARGUMENT, "index %lld is outside 0..%lld",
                             (long long)row, (long long)weight.dims[0] - 1);
        for (int64_t c = 0; c < columns; c++)
            yki_ref_set(&y, i * columns + c, yki_ref_get(&weight, row * columns + c));
    }
    return YK_OK;
}

enum { COLUMNS = 64 };

/* Up to COLUMNS columns of a row of dweight, from `first` on. */
static void sum_columns(const yk_tensor *indices, const yk_tensor *dy, const yk_tensor *dweight,
                        int64_t row, int64_t first)
{
    int64_t count = yk_tensor_count(indices), all = dweight->dims[1];
    int64_t columns = all - first < COLUMNS ? all - first : COLUMNS;
    double sums[COLUMNS] = {0};
    for (int64_t i = 0; i < count; i++)
        for (int64_t c = 0; index_at(indices, i) == row && c < columns; c++)
            sums[c] += yki_ref_get(dy, i * all + first + c);
    for (int64_t c = 0; c < columns; c++)
        yki_ref_set(dweight, row * all + first + c, sums[c]);
}

static yk_status ref_embedding_backward(const yki_kernel *kernel, const yki_kernel_args *run)
{
    yk_tensor indices = yki_ref_in(kernel, run, YKI_EMBEDDING_BACKWARD_INDICES);
    yk_tensor dy = yki_ref_in(kernel, run, YKI_EMBEDDING_BACKWARD_DY);
    yk_tensor dweight = yki_ref_out(kernel, run, YKI_EMBEDDING_BACKWARD_DWEIGHT);
    for (int64_t row = 0; row < dweight.dims[0]; row++)
        for (int64_t first = 0; first < dweight.dims[1]; first += COLUMNS)
            sum_columns(&indices, &dy, &dweight, row, first);
    return YK_OK;
}

YKI_REF_IMPL(embedding, 0);
YKI_REF_IMPL(embedding_backward, 0);

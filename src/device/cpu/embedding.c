/*
 * embedding in f32. Threads of the gradient take columns, each of which adds up its rows in the
 * order of the indices, so that the bits do not depend on the number of threads.
 */
#include <string.h>

#include "base/memory.h"
#include "device/cpu/geometry.h"
#include "tensor/element.h"

enum { LARGE_TABLE = 1 << 20 /* numbers */ };

typedef struct embedding {
    yki_kernel base;
    yk_dtype indices;
    int64_t count, rows, columns; /* of indices, and of the weight */
    int team;
} embedding;

static bool supports(const yki_device *device, const yki_kernel_desc *desc)
{
    (void)device;
    return desc->out[0].dtype == YK_F32;
}

static yk_status create(yki_device *device, const yki_kernel_desc *desc, const yki_operand *weight,
                        yki_kernel **kernel)
{
    embedding *k = yki_calloc(1, sizeof *k);
    if (!k)
        return yki_error_memory(sizeof *k, "an embedding kernel");
    k->indices = desc->in[YKI_EMBEDDING_INDICES].dtype;
    k->count = yki_operand_count(&desc->in[YKI_EMBEDDING_INDICES]);
    k->rows = weight->dims[0];
    k->columns = weight->dims[1];
    k->team = yki_team(device, k->count * k->columns);
    *kernel = &k->base;
    return YK_OK;
}

/* ---- forward --------------------------------------------------------------------------------- */

static yk_status prepare(yki_device *device, const yki_kernel_desc *desc, yki_kernel **kernel)
{
    return create(device, desc, &desc->in[YKI_EMBEDDING_WEIGHT], kernel);
}

static yk_status check_indices(const embedding *k, const void *indices)
{
    for (int64_t i = 0; i < k->count; i++) {
        const int64_t row = yki_index_at(k->indices, indices, i);
        if (row < 0 || row >= k->rows)
            return yki_error(YK_ERROR_INVALID_ARGUMENT, "index %lld is outside 0..%lld",
                             (long long)row, (long long)k->rows - 1);
    }
    return YK_OK;
}

static yk_status run_forward(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const embedding *k = (const embedding *)kernel;
    const void *indices = run->in[YKI_EMBEDDING_INDICES];
    const float *weight = run->in[YKI_EMBEDDING_WEIGHT];
    float *y = run->out[YKI_EMBEDDING_Y];
    YK_TRY(check_indices(k, indices));
#pragma omp parallel for num_threads(k->team) if (k->team > 1)
    for (int64_t i = 0; i < k->count; i++)
        memcpy(y + i * k->columns, weight + yki_index_at(k->indices, indices, i) * k->columns,
               (size_t)k->columns * sizeof *y);
    return YK_OK;
}

const yki_kernel_impl yki_cpu_embedding = {
    .op = &yki_op_embedding, .supports = supports, .prepare = prepare, .run = run_forward};

/* ---- gradient -------------------------------------------------------------------------------- */

static yk_status prepare_backward(yki_device *device, const yki_kernel_desc *desc,
                                  yki_kernel **kernel)
{
    return create(device, desc, &desc->out[YKI_EMBEDDING_BACKWARD_DWEIGHT], kernel);
}

static void add_row(float *to, const float *row, int64_t count)
{
    for (int64_t c = 0; c < count; c++)
        to[c] += row[c];
}

/* Zeros for what the calling thread adds to, columns [begin, end), or for a large table for rows,
 * which are stored past the caches. */
static void clear(const embedding *k, float *dweight, int64_t begin, int64_t end)
{
    if (k->rows * k->columns < LARGE_TABLE) {
        for (int64_t row = 0; row < k->rows; row++)
            memset(dweight + row * k->columns + begin, 0, (size_t)(end - begin) * sizeof *dweight);
        return;
    }
    yki_share(k->rows * k->columns, &begin, &end);
    memset(dweight + begin, 0, (size_t)(end - begin) * sizeof *dweight);
#pragma omp barrier
}

static yk_status run_backward(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const embedding *k = (const embedding *)kernel;
    const void *indices = run->in[YKI_EMBEDDING_BACKWARD_INDICES];
    const float *dy = run->in[YKI_EMBEDDING_BACKWARD_DY];
    float *dweight = run->out[YKI_EMBEDDING_BACKWARD_DWEIGHT];
#pragma omp parallel num_threads(k->team) if (k->team > 1)
    {
        int64_t begin, end;
        yki_share(k->columns, &begin, &end);
        clear(k, dweight, begin, end);
        for (int64_t i = 0; i < k->count; i++)
            add_row(dweight + yki_index_at(k->indices, indices, i) * k->columns + begin,
                    dy + i * k->columns + begin, end - begin);
    }
    return YK_OK;
}

const yki_kernel_impl yki_cpu_embedding_backward = {.op = &yki_op_embedding_backward,
                                                    .supports = supports,
                                                    .prepare = prepare_backward,
                                                    .run = run_backward};

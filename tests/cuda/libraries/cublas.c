/* A stand-in for cuBLASLt (libcublasLt.so.13) that computes with plain loops: the calls of
 * cublas_calls.h. It adds no bias in f64, wants a workspace for odd products, and takes no more
 * products at once than a grid has blocks along z, as some algorithms of the real one. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "libraries/cublas_calls.h"
#include "tensor/element.h"
#include "work.h"

#define EXPORT __attribute__((visibility("default")))

enum { OK = 0, ALLOC = 3, INVALID = 7, FAILED = 13, NOT_SUPPORTED = 15 };
enum { MOST_PRODUCTS = 65535 };

typedef struct desc {
    int compute, scale;
    int32_t transposed[2];
    uint32_t epilogue;
    const void *bias;
} desc;

typedef struct layout { /* column-major */
    int type;
    int64_t rows, columns, pitch;
    int32_t batch;
    int64_t distance; /* from one matrix of a batch to the next */
} layout;

static yk_dtype dtype_of(int type)
{
    return type == CUBLAS_R_64F    ? YK_F64
           : type == CUBLAS_R_16F  ? YK_F16
           : type == CUBLAS_R_16BF ? YK_BF16
                                   : YK_F32;
}

EXPORT size_t cublasLtGetVersion(void)
{
    return 130100;
}

EXPORT const char *cublasLtGetStatusName(int status)
{
    return status == OK ? "CUBLAS_STATUS_SUCCESS" : "CUBLAS_STATUS_INVALID_VALUE";
}

static int make(void **made, size_t bytes)
{
    *made = calloc(1, bytes);
    return *made ? OK : ALLOC;
}

static int give_back(void *made)
{
    free(made);
    return OK;
}

EXPORT int cublasLtCreate(void **handle)
{
    return yk_library_has_context() ? make(handle, 1) : INVALID;
}

EXPORT int cublasLtDestroy(void *handle)
{
    return give_back(handle);
}

EXPORT int cublasLtMatmulDescCreate(void **made, int compute, int scale)
{
    if (make(made, sizeof(desc)) != OK)
        return ALLOC;
    *(desc *)*made =
        (desc){.compute = compute, .scale = scale, .epilogue = CUBLAS_EPILOGUE_DEFAULT};
    return OK;
}

EXPORT int cublasLtMatmulDescDestroy(void *made)
{
    return give_back(made);
}

EXPORT int cublasLtMatmulDescSetAttribute(void *which, int attribute, const void *value,
                                          size_t bytes)
{
    desc *d = which;
    void *at = attribute == CUBLAS_DESC_TRANSPOSE_A    ? (void *)&d->transposed[0]
               : attribute == CUBLAS_DESC_TRANSPOSE_B  ? (void *)&d->transposed[1]
               : attribute == CUBLAS_DESC_EPILOGUE     ? (void *)&d->epilogue
               : attribute == CUBLAS_DESC_BIAS_POINTER ? (void *)&d->bias
                                                       : NULL;
    if (!at || bytes != (attribute == CUBLAS_DESC_BIAS_POINTER ? sizeof(void *) : 4))
        return INVALID;
    memcpy(at, value, bytes);
    return OK;
}

EXPORT int cublasLtMatrixLayoutCreate(void **made, int type, uint64_t rows, uint64_t columns,
                                      int64_t pitch)
{
    if (pitch < (int64_t)rows)
        return INVALID;
    if (make(made, sizeof(layout)) != OK)
        return ALLOC;
    *(layout *)*made = (layout){type, (int64_t)rows, (int64_t)columns, pitch, 1, 0};
    return OK;
}

EXPORT int cublasLtMatrixLayoutSetAttribute(void *which, int attribute, const void *value,
                                            size_t bytes)
{
    layout *l = which;
    if (attribute == CUBLAS_LAYOUT_BATCH && bytes == sizeof l->batch)
        memcpy(&l->batch, value, bytes);
    else if (attribute == CUBLAS_LAYOUT_DISTANCE && bytes == sizeof l->distance)
        memcpy(&l->distance, value, bytes);
    else
        return INVALID;
    return OK;
}

EXPORT int cublasLtMatrixLayoutDestroy(void *made)
{
    return give_back(made);
}

/* How matrices are aligned, A to D: if nobody says so, to 256 bytes. */
typedef struct preference {
    uint32_t alignment[4];
} preference;

EXPORT int cublasLtMatmulPreferenceCreate(void **made)
{
    if (make(made, sizeof(preference)) != OK)
        return ALLOC;
    *(preference *)*made = (preference){{256, 256, 256, 256}};
    return OK;
}

EXPORT int cublasLtMatmulPreferenceDestroy(void *made)
{
    return give_back(made);
}

EXPORT int cublasLtMatmulPreferenceSetAttribute(void *made, int attribute, const void *value,
                                                size_t bytes)
{
    preference *p = made;
    int matrix = attribute - CUBLAS_PREFERENCE_ALIGNMENT_A;
    if (attribute == CUBLAS_PREFERENCE_WORKSPACE)
        return bytes == 8 ? OK : INVALID;
    if (matrix < 0 || matrix > 3 || bytes != 4)
        return INVALID;
    memcpy(&p->alignment[matrix], value, bytes);
    return OK;
}

/* The product's sizes; false if the matrices do not fit. */
static bool sizes(const desc *d, const layout *a, const layout *b, const layout *c,
                  int64_t m_n_k[3])
{
    int64_t m = d->transposed[0] ? a->columns : a->rows,
            k = d->transposed[0] ? a->rows : a->columns;
    int64_t n = d->transposed[1] ? b->rows : b->columns;
    memcpy(m_n_k, (int64_t[]){m, n, k}, 3 * sizeof *m_n_k);
    return k == (d->transposed[1] ? b->columns : b->rows) && c->rows == m && c->columns == n &&
           a->type == b->type && a->batch == b->batch && a->batch == c->batch;
}

static size_t workspace_of(const layout *c)
{
    return c->rows % 2 ? 320 : 0;
}

EXPORT int cublasLtMatmulAlgoGetHeuristic(void *handle, void *which, void *a, void *b, void *c,
                                          void *d, void *wanted, int room, cublas_choice *choices,
                                          int *count)
{
    int64_t m_n_k[3];
    (void)handle, (void)c;
    *count = 0;
    if (room < 1 || !sizes(which, a, b, d, m_n_k))
        return INVALID;
    if (((desc *)which)->scale == CUBLAS_R_64F && ((desc *)which)->epilogue & CUBLAS_EPILOGUE_BIAS)
        return NOT_SUPPORTED;
    if (((layout *)d)->batch > MOST_PRODUCTS)
        return NOT_SUPPORTED;
    *choices = (cublas_choice){.algorithm.data = {0xa1}, .workspace = workspace_of(d)};
    for (int i = 0; i < 4; i++)
        choices->algorithm.data[1 + i] = ((preference *)wanted)->alignment[i];
    *count = 1;
    return OK;
}

/* ---- execution ------------------------------------------------------------------------------- */

typedef struct call {
    desc d;
    layout a, b, c;
    const void *a_at, *b_at, *added;
    void *c_at, *workspace;
    double scale, added_scale;
} call;

/* Of the product number `of` of a batch, the lines that are multiplied, as doubles: rows or columns
 * of the matrix, each `length` long. */
static double *lines_of(const layout *l, const void *memory, int64_t of, bool columns,
                        int64_t lines, int64_t length)
{
    double *all = calloc((size_t)(lines * length) + 1, sizeof *all);
    for (int64_t line = 0; line < lines; line++)
        for (int64_t i = 0; i < length; i++) {
            int64_t at = columns ? line * l->pitch + i : i * l->pitch + line;
            all[line * length + i] =
                yki_element_get(dtype_of(l->type), memory, of * l->distance + at);
        }
    return all;
}

static void multiply(const call *c, int64_t of)
{
    const desc *d = &c->d;
    int64_t m_n_k[3];
    sizes(d, &c->a, &c->b, &c->c, m_n_k);
    const int64_t length = m_n_k[2];
    double *rows = lines_of(&c->a, c->a_at, of, d->transposed[0], m_n_k[0], length);
    double *columns = lines_of(&c->b, c->b_at, of, !d->transposed[1], m_n_k[1], length);
    yk_dtype dtype = dtype_of(c->c.type);
    const void *bias = d->epilogue & CUBLAS_EPILOGUE_BIAS ? d->bias : NULL;
    for (int64_t n = 0; n < m_n_k[1]; n++)
        for (int64_t m = 0; m < m_n_k[0]; m++) {
            int64_t at = of * c->c.distance + n * c->c.pitch + m;
            double sum = 0;
            for (int64_t k = 0; k < length; k++)
                sum += rows[m * length + k] * columns[n * length + k];
            sum = c->scale * sum + (bias ? yki_element_get(dtype, bias, m) : 0);
            if (c->added_scale != 0) /* else it is not read */
                sum += c->added_scale * yki_element_get(dtype, c->added, at);
            yki_element_set(dtype, c->c_at, at, sum);
        }
    free(rows);
    free(columns);
}

static const char *run_call(void *data)
{
    const call *c = data;
    for (int64_t of = 0; of < c->c.batch; of++)
        multiply(c, of);
    if (c->workspace)
        memset(c->workspace, 0xee, workspace_of(&c->c));
    return NULL;
}

/* As the algorithm was chosen for; a workspace in the memory of a GPU always to 256 bytes. */
static bool is_aligned(const cublas_algorithm *algorithm, const void *const matrices[4],
                       const void *workspace)
{
    bool aligned = (uintptr_t)workspace % 256 == 0;
    for (int i = 0; i < 4; i++)
        aligned = aligned && (uintptr_t)matrices[i] % algorithm->data[1 + i] == 0;
    return aligned;
}

EXPORT int cublasLtMatmul(void *handle, void *which, const void *alpha, const void *a,
                          void *a_layout, const void *b, void *b_layout, const void *beta,
                          const void *c, void *c_layout, void *d, void *d_layout,
                          const cublas_algorithm *algorithm, void *workspace,
                          size_t workspace_bytes, void *stream)
{
    const desc *operation = which;
    bool wide = operation->scale == CUBLAS_R_64F;
    double factor = wide ? *(const double *)alpha : *(const float *)alpha;
    double kept = wide ? *(const double *)beta : *(const float *)beta;
    (void)handle;
    bool biased = operation->epilogue & CUBLAS_EPILOGUE_BIAS;
    if (memcmp(c_layout, d_layout, sizeof(layout)) != 0 || algorithm->data[0] != 0xa1 ||
        ((const layout *)d_layout)->batch > MOST_PRODUCTS || (biased && !operation->bias) ||
        workspace_bytes < workspace_of(d_layout) || (workspace_bytes && !workspace) ||
        !is_aligned(algorithm, (const void *const[]){a, b, c, d}, stream ? workspace : NULL))
        return INVALID;
    call made = {.d = *operation,
                 .a = *(const layout *)a_layout,
                 .b = *(const layout *)b_layout,
                 .c = *(const layout *)d_layout,
                 .a_at = a,
                 .b_at = b,
                 .added = c,
                 .c_at = d,
                 .scale = factor,
                 .added_scale = kept,
                 .workspace = workspace_bytes ? workspace : NULL};
    return yk_library_enter(stream, run_call, &made, sizeof made) ? OK : FAILED;
}

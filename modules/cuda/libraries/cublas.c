/*
 * See cublas.h. cuBLASLt's matrices are column-major: what is (rows, columns) in yoke's memory is
 * its transpose to cuBLASLt, which therefore computes c^T = b^T a^T. Its first operand is b, and a
 * bias, which it adds to every column of c^T, is yoke's.
 */
#include "libraries/cublas.h"

#include <stdlib.h>

#include "base/environment.h"
#include "base/memory.h"
#include "device/memory.h"

static const size_t most_workspace = 32 << 20;

/* How many products of a batch are entered at once. Algorithms have them along a dimension of the
 * grid that ends at 65535. A multiple of 8, so that matrices of any size are aligned where the next
 * ones begin. */
enum { MOST_AT_ONCE = 65528 };

static const char *const symbols[] = {CUBLAS_SYMBOLS};
static const yki_cuda_library library = {
    .what = "cuBLAS",
    .files = {"libcublasLt.so.13", "libcublasLt.so.12"},
    .package = "cuBLAS (NVIDIA's libcublas-13-0, or nvidia-cublas from PyPI)",
    .symbols = symbols};

static yk_status check(const yki_cublas *cublas, const char *what, int status)
{
    if (status == 0)
        return YK_OK;
    return yki_error(YK_ERROR_INTERNAL, "device cuda: cuBLASLt cannot %s: %s", what,
                     cublas->calls.get_status_name(status));
}

static yk_status open_library(yki_cublas *cublas)
{
    bool found;
    long tf32 = 0;
    YK_TRY(yki_env_int("YOKE_CUDA_TF32", 0, 1, &tf32, &found));
    YK_TRY(yki_cuda_library_open(&library, &cublas->calls));
    cublas->tf32 = tf32;
    return check(cublas, "start on this GPU", cublas->calls.create(&cublas->handle));
}

yk_status yki_cublas_open(yki_cublas **cublas)
{
    *cublas = NULL;
    yki_cublas *made = yki_calloc(1, sizeof *made);
    if (!made)
        return yki_error_memory(sizeof *made, "cuBLASLt");
    yk_status status = open_library(made);
    if (status == YK_OK)
        *cublas = made;
    else
        free(made);
    return status;
}

void yki_cublas_close(yki_cublas *cublas)
{
    if (cublas && cublas->handle)
        cublas->calls.destroy(cublas->handle);
    free(cublas);
}

/* ---- products -------------------------------------------------------------------------------- */

static int type_of(yk_dtype dtype)
{
    switch (dtype) {
    case YK_F64:
        return CUBLAS_R_64F;
    case YK_F16:
        return CUBLAS_R_16F;
    case YK_BF16:
        return CUBLAS_R_16BF;
    default:
        return CUBLAS_R_32F;
    }
}

static int compute_type(const yki_cublas *cublas, yk_dtype dtype)
{
    if (dtype == YK_F64)
        return CUBLAS_COMPUTE_64F;
    return dtype == YK_F32 && cublas->tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

static yk_status describe_operation(yki_cublas_product *p, const yki_cublas_shape *shape)
{
    const yki_cublas_calls *calls = &p->cublas->calls;
    /* The operands are swapped, and what is transposed in memory is not so to cuBLASLt. */
    const int32_t first = shape->transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    const int32_t second = shape->transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    const uint32_t epilogue = shape->bias ? CUBLAS_EPILOGUE_BIAS : CUBLAS_EPILOGUE_DEFAULT;
    int status = calls->create_desc(&p->desc, compute_type(p->cublas, shape->dtype),
                                    p->wide ? CUBLAS_R_64F : CUBLAS_R_32F);
    if (status == 0)
        status = calls->set_desc(p->desc, CUBLAS_DESC_TRANSPOSE_A, &first, sizeof first);
    if (status == 0)
        status = calls->set_desc(p->desc, CUBLAS_DESC_TRANSPOSE_B, &second, sizeof second);
    if (status == 0)
        status = calls->set_desc(p->desc, CUBLAS_DESC_EPILOGUE, &epilogue, sizeof epilogue);
    return check(p->cublas, "describe a product", status);
}

/* A row-major matrix of so many rows and columns, or a batch of them. */
static int describe_matrix(const yki_cublas_product *p, void **layout, yk_dtype dtype, int64_t rows,
                           int64_t columns, bool transposed, size_t *bytes)
{
    const yki_cublas_calls *calls = &p->cublas->calls;
    int64_t pitch = transposed ? rows : columns, lines = transposed ? columns : rows;
    const int64_t distance = rows * columns;
    *bytes = (size_t)distance * yk_dtype_size(dtype);
    int status =
        calls->create_layout(layout, type_of(dtype), (uint64_t)pitch, (uint64_t)lines, pitch);
    if (status == 0 && p->batch > 1)
        status = calls->set_layout(*layout, CUBLAS_LAYOUT_DISTANCE, &distance, sizeof distance);
    return status;
}

/* So many of the products are entered at once. */
static int count_products(const yki_cublas_product *p, int64_t batch)
{
    void *const layouts[] = {p->a, p->b, p->c};
    const int32_t count = (int32_t)batch;
    int status = 0;
    for (int i = 0; i < 3 && status == 0; i++)
        status = p->cublas->calls.set_layout(layouts[i], CUBLAS_LAYOUT_BATCH, &count, sizeof count);
    return status;
}

static int64_t products_at_once(int64_t batch)
{
    return batch < MOST_AT_ONCE ? batch : MOST_AT_ONCE;
}

static yk_status describe_matrices(yki_cublas_product *p, const yki_cublas_shape *s)
{
    int status =
        describe_matrix(p, &p->a, s->dtype, s->rows, s->inner, s->transpose_a, &p->a_bytes);
    if (status == 0)
        status =
            describe_matrix(p, &p->b, s->dtype, s->inner, s->columns, s->transpose_b, &p->b_bytes);
    if (status == 0)
        status = describe_matrix(p, &p->c, s->result, s->rows, s->columns, false, &p->c_bytes);
    if (status == 0 && p->batch > 1)
        status = count_products(p, products_at_once(p->batch));
    return check(p->cublas, "describe a matrix", status);
}

static yk_status prefer(const yki_cublas *cublas, void *preference)
{
    const uint32_t alignment = YKI_OPERAND_ALIGNMENT;
    int status = cublas->calls.set_preference(preference, CUBLAS_PREFERENCE_WORKSPACE,
                                              &most_workspace, sizeof most_workspace);
    for (int i = CUBLAS_PREFERENCE_ALIGNMENT_A; i <= CUBLAS_PREFERENCE_ALIGNMENT_D; i++)
        if (status == 0)
            status = cublas->calls.set_preference(preference, i, &alignment, sizeof alignment);
    return check(cublas, "take preferences", status);
}

static yk_status choose(yki_cublas_product *p, bool *found)
{
    const yki_cublas_calls *calls = &p->cublas->calls;
    cublas_choice choice = {.state = -1};
    void *preference = NULL;
    int count = 0;
    YK_TRY(check(p->cublas, "make preferences", calls->create_preference(&preference)));
    yk_status status = prefer(p->cublas, preference);
    if (status == YK_OK) {
        int answer = calls->choose(p->cublas->handle, p->desc, p->b, p->a, p->c, p->c, preference,
                                   1, &choice, &count);
        *found = answer == 0 && count > 0 && choice.state == 0;
    }
    calls->destroy_preference(preference);
    p->algorithm = choice.algorithm;
    p->workspace = choice.workspace;
    return status;
}

yk_status yki_cublas_prepare(yki_cublas_product *product, const yki_cublas *cublas,
                             const yki_cublas_shape *shape, bool *found)
{
    *product = (yki_cublas_product){.cublas = cublas,
                                    .batch = shape->batch > 1 ? shape->batch : 1,
                                    .wide = shape->dtype == YK_F64};
    *found = false;
    yk_status status = describe_operation(product, shape);
    if (status == YK_OK)
        status = describe_matrices(product, shape);
    if (status == YK_OK)
        status = choose(product, found);
    if (!*found)
        yki_cublas_product_fini(product);
    return status;
}

void yki_cublas_product_fini(yki_cublas_product *product)
{
    void *const layouts[] = {product->a, product->b, product->c};
    for (int i = 0; i < 3; i++)
        if (layouts[i])
            product->cublas->calls.destroy_layout(layouts[i]);
    if (product->desc)
        product->cublas->calls.destroy_desc(product->desc);
    *product = (yki_cublas_product){0};
}

yk_status yki_cublas_no_algorithm(const yki_cublas_shape *shape)
{
    return yki_error(YK_ERROR_UNSUPPORTED,
                     "device cuda: cuBLASLt has no algorithm for (%lld, %lld) times (%lld, %lld) "
                     "in %s",
                     (long long)shape->rows, (long long)shape->inner, (long long)shape->inner,
                     (long long)shape->columns, yk_dtype_name(shape->dtype));
}

/* As many products as the matrices' descriptions say. */
static yk_status multiply(const yki_cublas_product *product, const yki_cublas_terms *t,
                          void *workspace, void *stream)
{
    const yki_cublas_calls *calls = &product->cublas->calls;
    const double scale = t->scale, kept = t->added ? t->added_scale : 0;
    const float scale_f32 = (float)scale, kept_f32 = (float)kept;
    const void *alpha = product->wide ? (const void *)&scale : &scale_f32;
    const void *beta = product->wide ? (const void *)&kept : &kept_f32;
    int status = 0;
    if (t->bias)
        status = calls->set_desc(product->desc, CUBLAS_DESC_BIAS_POINTER, &t->bias, sizeof t->bias);
    if (status == 0)
        status = calls->multiply(product->cublas->handle, product->desc, alpha, t->b, product->b,
                                 t->a, product->a, beta, t->added ? t->added : t->c, product->c,
                                 t->c, product->c, &product->algorithm,
                                 product->workspace ? workspace : NULL, product->workspace, stream);
    return check(product->cublas, "multiply", status);
}

/* Of a batch that is entered in turns, which have no terms that are added, those from product
 * `first` on. */
static yki_cublas_terms terms_from(const yki_cublas_product *p, const yki_cublas_terms *terms,
                                   int64_t first)
{
    yki_cublas_terms of_turn = *terms;
    of_turn.a = (const char *)terms->a + (size_t)first * p->a_bytes;
    of_turn.b = (const char *)terms->b + (size_t)first * p->b_bytes;
    of_turn.c = (char *)terms->c + (size_t)first * p->c_bytes;
    return of_turn;
}

yk_status yki_cublas_run(const yki_cublas_product *product, const yki_cublas_terms *terms,
                         void *workspace, void *stream)
{
    if (product->batch <= MOST_AT_ONCE)
        return multiply(product, terms, workspace, stream);
    for (int64_t first = 0; first < product->batch; first += MOST_AT_ONCE) {
        const yki_cublas_terms of_turn = terms_from(product, terms, first);
        const int status = count_products(product, products_at_once(product->batch - first));
        YK_TRY(check(product->cublas, "describe a matrix", status));
        YK_TRY(multiply(product, &of_turn, workspace, stream));
    }
    return YK_OK;
}

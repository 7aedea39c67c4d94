/* matmul by cuBLASLt: products in batches, as attention.c has them. */
#include "device/matmul.h"

#include <stdlib.h>

#include "base/memory.h"
#include "implementations.h"
#include "libraries.h"

typedef struct matmul_kernel {
    yki_cuda_kernel cuda;
    yki_cublas_product product;
    size_t workspace_at;
} matmul_kernel;

static bool supports(const yki_device *device, const yki_kernel_desc *desc)
{
    return yki_cuda_is_real(desc->in[YKI_MATMUL_A].dtype) && yki_cuda_supports(device, desc);
}

static void destroy(yki_kernel *kernel)
{
    matmul_kernel *k = (matmul_kernel *)kernel;
    yki_cublas_product_fini(&k->product);
    free(k);
}

static yk_status prepare_product(matmul_kernel *k, const yki_matmul *m, yk_dtype dtype)
{
    const yki_cublas_shape shape = {.dtype = dtype,
                                    .result = dtype,
                                    .rows = m->rows,
                                    .inner = m->inner,
                                    .columns = m->columns,
                                    .batch = m->count,
                                    .transpose_a = m->transpose_a,
                                    .transpose_b = m->transpose_b};
    const yki_cublas *cublas;
    bool found;
    YK_TRY(yki_cuda_need_cublas(k->cuda.device, &cublas));
    YK_TRY(yki_cublas_prepare(&k->product, cublas, &shape, &found));
    if (!found)
        return yki_cublas_no_algorithm(&shape);
    k->workspace_at = yki_cuda_reserve(&k->cuda, k->product.workspace);
    return YK_OK;
}

static yk_status create(yki_device *device, const yki_kernel_desc *desc, yki_kernel **kernel)
{
    const yki_matmul m = yki_matmul_of(desc);
    matmul_kernel *k = yki_calloc(1, sizeof *k);
    if (!k)
        return yki_error_memory(sizeof *k, "a matmul kernel");
    yki_cuda_kernel_init(&k->cuda, device, desc);
    yk_status status = prepare_product(k, &m, desc->in[YKI_MATMUL_A].dtype);
    if (status == YK_OK)
        *kernel = &k->cuda.base;
    else
        destroy(&k->cuda.base);
    return status;
}

static yk_status run_matmul(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const matmul_kernel *k = (const matmul_kernel *)kernel;
    char *scratch = run->scratch;
    const yki_cublas_terms terms = {.a = run->in[YKI_MATMUL_A],
                                    .b = run->in[YKI_MATMUL_B],
                                    .c = run->out[YKI_MATMUL_Y],
                                    .scale = 1};
    return yki_cublas_run(&k->product, &terms, scratch ? scratch + k->workspace_at : NULL,
                          k->cuda.device->launcher->handle_of(run->stream));
}

const yki_kernel_impl yki_cuda_matmul = {.op = &yki_op_matmul,
                                         .supports = supports,
                                         .prepare = create,
                                         .run = run_matmul,
                                         .destroy = destroy};

/*
 * linear and its gradients by cuBLASLt. Weights are f32 parameters (O, I); where the activations
 * have 16 bits, a copy of the weight in their type is packed once per step. The bias of 16 bits is
 * converted in every run, as autocast does it.
 */
#include <stdlib.h>

#include "base/memory.h"
#include "bias.h"
#include "implementations.h"
#include "libraries.h"

/* The kernels beside the product. */
enum { CAST, ADD, REDUCE = CAST }; /* REDUCE takes two */

typedef struct linear_kernel {
    yki_cuda_kernel cuda;
    yki_cublas_product product;
    bool add_bias;                            /* by a kernel: no algorithm adds it */
    size_t bias_at, partial_at, workspace_at; /* in scratch */
} linear_kernel;

static bool is_matrix(const yki_operand *operand, yk_dtype dtype)
{
    return operand->ndim == 2 && operand->dtype == dtype && yki_operand_count(operand) <= INT32_MAX;
}

/* Whether x and y are matrices of one floating dtype, and the weight is its parameter. */
static bool supports_operands(const yki_operand *x, const yki_operand *weight, const yki_operand *y)
{
    return yki_cuda_is_real(x->dtype) && is_matrix(x, x->dtype) && is_matrix(y, x->dtype) &&
           is_matrix(weight, yki_accumulate_dtype(x->dtype));
}

static bool is_present(const yki_operand *operand)
{
    return operand->ndim >= 0;
}

static void destroy(yki_kernel *kernel)
{
    linear_kernel *k = (linear_kernel *)kernel;
    yki_cublas_product_fini(&k->product);
    free(k);
}

/* With the bias if there is an algorithm that adds it, else without. */
static yk_status prepare_product(linear_kernel *k, yki_cublas_shape *shape)
{
    const yki_cublas *cublas;
    bool found, biased = shape->bias;
    YK_TRY(yki_cuda_need_cublas(k->cuda.device, &cublas));
    YK_TRY(yki_cublas_prepare(&k->product, cublas, shape, &found));
    if (!found && biased) {
        k->add_bias = true;
        shape->bias = false;
        YK_TRY(yki_cublas_prepare(&k->product, cublas, shape, &found));
    }
    if (!found)
        return yki_cublas_no_algorithm(shape);
    k->workspace_at = yki_cuda_reserve(&k->cuda, k->product.workspace);
    return YK_OK;
}

/* A weight in the dtype of the activations. */
static yk_status prepare_pack(linear_kernel *k, int input, yk_dtype dtype)
{
    const yki_operand *weight = &k->cuda.desc.in[input];
    k->cuda.base.pack_input = input;
    if (weight->dtype == dtype)
        return YK_OK;
    k->cuda.base.pack_bytes = (size_t)yki_operand_count(weight) * yk_dtype_size(dtype);
    return yki_cuda_convert_find(&k->cuda, CAST, weight->dtype, dtype);
}

typedef yk_status prepare_rest(linear_kernel *k);

static yk_status prepare(yki_device *device, const yki_kernel_desc *desc, prepare_rest *rest,
                         yki_kernel **kernel)
{
    linear_kernel *k = yki_calloc(1, sizeof *k);
    if (!k)
        return yki_error_memory(sizeof *k, "a linear layer");
    yki_cuda_kernel_init(&k->cuda, device, desc);
    yk_status status = rest(k);
    if (status == YK_OK)
        *kernel = &k->cuda.base;
    else
        destroy(&k->cuda.base);
    return status;
}

static yk_status multiply(const linear_kernel *k, const void *a, const void *b, const void *bias,
                          void *c, const yki_kernel_args *run)
{
    char *scratch = run->scratch;
    const yki_cublas_terms terms = {.a = a, .b = b, .bias = bias, .c = c, .scale = 1};
    return yki_cublas_run(&k->product, &terms, scratch ? scratch + k->workspace_at : NULL,
                          k->cuda.device->launcher->handle_of(run->stream));
}

/* ---- weights and biases in 16 bits ----------------------------------------------------------- */

static yk_status pack(const yki_kernel *kernel, const void *parameter, void *packed,
                      yki_stream *stream)
{
    const linear_kernel *k = (const linear_kernel *)kernel;
    const yki_kernel_args run = {.stream = stream};
    return yki_cuda_convert(&k->cuda, CAST, parameter, packed,
                            yki_operand_count(&k->cuda.desc.in[kernel->pack_input]), &run);
}

/* Of the same parameter. */
static bool same_pack(const yki_kernel *kernel, const yki_kernel *other)
{
    const yki_cuda_kernel *a = (const yki_cuda_kernel *)kernel, *b = (const yki_cuda_kernel *)other;
    return a->desc.in[0].dtype == b->desc.in[0].dtype;
}

#define LINEAR(name, supports_, prepare_, run_)                                                    \
    const yki_kernel_impl yki_cuda_##name = {.op = &yki_op_##name,                                 \
                                             .supports = supports_,                                \
                                             .prepare = prepare_,                                  \
                                             .run = run_,                                          \
                                             .destroy = destroy,                                   \
                                             .pack = pack,                                         \
                                             .same_pack = same_pack}

/* ---- forward: y (N, O) = x (N, I) weight^T + bias -------------------------------------------- */

static bool supports(const yki_device *device, const yki_kernel_desc *desc)
{
    (void)device;
    return supports_operands(&desc->in[YKI_LINEAR_X], &desc->in[YKI_LINEAR_WEIGHT],
                             &desc->out[YKI_LINEAR_Y]);
}

static yk_status prepare_forward(linear_kernel *k)
{
    const yki_operand *x = &k->cuda.desc.in[YKI_LINEAR_X], *y = &k->cuda.desc.out[YKI_LINEAR_Y];
    const yki_operand *bias = &k->cuda.desc.in[YKI_LINEAR_BIAS];
    yki_cublas_shape shape = {.dtype = x->dtype,
                              .result = y->dtype,
                              .rows = x->dims[0],
                              .inner = x->dims[1],
                              .columns = y->dims[1],
                              .transpose_b = true,
                              .bias = is_present(bias)};
    YK_TRY(prepare_pack(k, YKI_LINEAR_WEIGHT, x->dtype));
    YK_TRY(prepare_product(k, &shape));
    if (shape.bias && bias->dtype != y->dtype)
        k->bias_at = yki_cuda_reserve(&k->cuda, (size_t)y->dims[1] * yk_dtype_size(y->dtype));
    return k->add_bias ? yki_cuda_bias_add_find(&k->cuda, ADD, y) : YK_OK;
}

static yk_status create(yki_device *device, const yki_kernel_desc *desc, yki_kernel **kernel)
{
    return prepare(device, desc, prepare_forward, kernel);
}

static yk_status run_linear(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const linear_kernel *k = (const linear_kernel *)kernel;
    const yki_operand *operand = &k->cuda.desc.out[YKI_LINEAR_Y];
    const void *x = run->in[YKI_LINEAR_X], *weight = run->in[YKI_LINEAR_WEIGHT];
    const void *bias = yki_cuda_in(&k->cuda, run, YKI_LINEAR_BIAS);
    void *y = run->out[YKI_LINEAR_Y];
    if (k->add_bias) {
        YK_TRY(multiply(k, x, weight, NULL, y, run));
        return yki_cuda_bias_add(&k->cuda, ADD, operand, y, bias, run);
    }
    if (bias && k->cuda.desc.in[YKI_LINEAR_BIAS].dtype != operand->dtype) {
        void *narrow = (char *)run->scratch + k->bias_at;
        YK_TRY(yki_cuda_convert(&k->cuda, CAST, bias, narrow, operand->dims[1], run));
        bias = narrow;
    }
    return multiply(k, x, weight, bias, y, run);
}
LINEAR(linear, supports, create, run_linear);

/* ---- dx (N, I) = dy (N, O) weight ------------------------------------------------------------ */

static bool supports_backward_data(const yki_device *device, const yki_kernel_desc *desc)
{
    (void)device;
    return supports_operands(&desc->out[YKI_LINEAR_BACKWARD_DATA_DX],
                             &desc->in[YKI_LINEAR_BACKWARD_DATA_WEIGHT],
                             &desc->in[YKI_LINEAR_BACKWARD_DATA_DY]);
}

static yk_status prepare_backward_data(linear_kernel *k)
{
    const yki_operand *dy = &k->cuda.desc.in[YKI_LINEAR_BACKWARD_DATA_DY];
    const yki_operand *dx = &k->cuda.desc.out[YKI_LINEAR_BACKWARD_DATA_DX];
    yki_cublas_shape shape = {.dtype = dy->dtype,
                              .result = dx->dtype,
                              .rows = dy->dims[0],
                              .inner = dy->dims[1],
                              .columns = dx->dims[1]};
    YK_TRY(prepare_pack(k, YKI_LINEAR_BACKWARD_DATA_WEIGHT, dy->dtype));
    return prepare_product(k, &shape);
}

static yk_status create_backward_data(yki_device *device, const yki_kernel_desc *desc,
                                      yki_kernel **kernel)
{
    return prepare(device, desc, prepare_backward_data, kernel);
}

static yk_status run_backward_data(const yki_kernel *kernel, const yki_kernel_args *run)
{
    return multiply((const linear_kernel *)kernel, run->in[YKI_LINEAR_BACKWARD_DATA_DY],
                    run->in[YKI_LINEAR_BACKWARD_DATA_WEIGHT], NULL,
                    run->out[YKI_LINEAR_BACKWARD_DATA_DX], run);
}
LINEAR(linear_backward_data, supports_backward_data, create_backward_data, run_backward_data);

/* ---- dweight (O, I) = dy^T x; dbias ---------------------------------------------------------- */

static bool supports_backward_weight(const yki_device *device, const yki_kernel_desc *desc)
{
    (void)device;
    return supports_operands(&desc->in[YKI_LINEAR_BACKWARD_WEIGHT_X],
                             &desc->out[YKI_LINEAR_BACKWARD_WEIGHT_DWEIGHT],
                             &desc->in[YKI_LINEAR_BACKWARD_WEIGHT_DY]);
}

static yk_status prepare_backward_weight(linear_kernel *k)
{
    const yki_operand *x = &k->cuda.desc.in[YKI_LINEAR_BACKWARD_WEIGHT_X];
    const yki_operand *dy = &k->cuda.desc.in[YKI_LINEAR_BACKWARD_WEIGHT_DY];
    yki_cublas_shape shape = {.dtype = x->dtype,
                              .result = yki_accumulate_dtype(x->dtype),
                              .rows = dy->dims[1],
                              .inner = dy->dims[0],
                              .columns = x->dims[1],
                              .transpose_a = true};
    YK_TRY(prepare_product(k, &shape));
    if (!is_present(&k->cuda.desc.out[YKI_LINEAR_BACKWARD_WEIGHT_DBIAS]))
        return YK_OK;
    k->partial_at = yki_cuda_reserve(&k->cuda, yki_cuda_bias_gradient_bytes(dy));
    return yki_cuda_bias_gradient_find(&k->cuda, REDUCE, dy, false);
}

static yk_status create_backward_weight(yki_device *device, const yki_kernel_desc *desc,
                                        yki_kernel **kernel)
{
    return prepare(device, desc, prepare_backward_weight, kernel);
}

static yk_status run_backward_weight(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const linear_kernel *k = (const linear_kernel *)kernel;
    const void *dy = run->in[YKI_LINEAR_BACKWARD_WEIGHT_DY];
    void *dbias = yki_cuda_out(&k->cuda, run, YKI_LINEAR_BACKWARD_WEIGHT_DBIAS);
    YK_TRY(multiply(k, dy, run->in[YKI_LINEAR_BACKWARD_WEIGHT_X], NULL,
                    run->out[YKI_LINEAR_BACKWARD_WEIGHT_DWEIGHT], run));
    if (!dbias)
        return YK_OK;
    return yki_cuda_bias_gradient(&k->cuda, REDUCE, &k->cuda.desc.in[YKI_LINEAR_BACKWARD_WEIGHT_DY],
                                  dy, NULL, dbias, (char *)run->scratch + k->partial_at, run);
}
LINEAR(linear_backward_weight, supports_backward_weight, create_backward_weight,
       run_backward_weight);

/*
 * mse_loss of f32 tensors that share any layout: the zeros in their padding add nothing. Pieces of
 * fixed size are summed separately and then added in order, so the sum does not depend on the
 * number of threads.
 */
#include "base/memory.h"
#include "device/cpu/geometry.h"

enum { PIECE = 4096 };

typedef struct mse {
    yki_kernel base;
    int64_t elements, pieces; /* in memory, padding included */
    double scale;             /* 1, or for a mean 1 / the number of elements without padding */
    int team;
} mse;

static bool is_scalar_f32(const yki_operand *operand)
{
    return operand->dtype == YK_F32 && operand->ndim == 0;
}

static bool mse_supports(const yki_device *device, const yki_kernel_desc *desc)
{
    (void)device;
    const yki_operand *x = &desc->in[0], *target = &desc->in[1], *out = &desc->out[0];
    bool fine = x->dtype == YK_F32 && target->dtype == YK_F32 && x->layout == target->layout;
    if (desc->op == &yki_op_mse_loss)
        return fine && is_scalar_f32(out);
    return fine && is_scalar_f32(&desc->in[2]) && out->dtype == YK_F32 && out->layout == x->layout;
}

static yk_status mse_prepare(yki_device *device, const yki_kernel_desc *desc, yki_kernel **kernel)
{
    mse *k = yki_calloc(1, sizeof *k);
    if (!k)
        return yki_error_memory(sizeof *k, "an mse_loss kernel");
    k->elements = yki_operand_elements(device, &desc->in[0]);
    k->pieces = (k->elements + PIECE - 1) / PIECE;
    bool mean = desc->attrs->reduction == YK_LOSS_MEAN;
    k->scale = mean ? 1 / (double)yki_operand_count(&desc->in[0]) : 1;
    k->team = yki_team(device, k->elements);
    k->base.scratch = (size_t)k->pieces * sizeof(double);
    *kernel = &k->base;
    return YK_OK;
}

static yk_status mse_loss(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const mse *k = (const mse *)kernel;
    const float *x = run->in[YKI_MSE_LOSS_X], *target = run->in[YKI_MSE_LOSS_TARGET];
    double *sums = run->scratch, sum = 0;
#pragma omp parallel for num_threads(k->team) if (k->team > 1)
    for (int64_t p = 0; p < k->pieces; p++) {
        int64_t begin = p * PIECE, end = begin + PIECE < k->elements ? begin + PIECE : k->elements;
        double piece = 0;
#pragma omp simd reduction(+ : piece)
        for (int64_t i = begin; i < end; i++) {
            double difference = (double)x[i] - (double)target[i];
            piece += difference * difference;
        }
        sums[p] = piece;
    }
    for (int64_t p = 0; p < k->pieces; p++)
        sum += sums[p];
    *(float *)run->out[YKI_MSE_LOSS_LOSS] = (float)(sum * k->scale);
    return YK_OK;
}

static yk_status mse_loss_backward(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const mse *k = (const mse *)kernel;
    const float *x = run->in[YKI_MSE_LOSS_BACKWARD_X],
                *target = run->in[YKI_MSE_LOSS_BACKWARD_TARGET];
    float *dx = run->out[YKI_MSE_LOSS_BACKWARD_DX];
    float factor =
        (float)(2 * (double)*(const float *)run->in[YKI_MSE_LOSS_BACKWARD_DLOSS] * k->scale);
#pragma omp parallel for simd num_threads(k->team) if (parallel : k->team > 1)
    for (int64_t i = 0; i < k->elements; i++)
        dx[i] = (x[i] - target[i]) * factor;
    return YK_OK;
}

const yki_kernel_impl yki_cpu_mse_loss = {
    .op = &yki_op_mse_loss, .supports = mse_supports, .prepare = mse_prepare, .run = mse_loss};
const yki_kernel_impl yki_cpu_mse_loss_backward = {.op = &yki_op_mse_loss_backward,
                                                   .inplace = 1,
                                                   .supports = mse_supports,
                                                   .prepare = mse_prepare,
                                                   .run = mse_loss_backward};

/* See work.h. */
#include "compile/work.h"

#include <stdio.h>

#include "device/attention.h"
#include "device/matmul.h"

/* The weight of a convolution or a matrix product, and what has one element for each of the
 * weight's uses by a filter: its result, or the gradient of that. */
typedef struct product {
    const yki_op *op;
    const yki_operand *weight, *result;
} product;

static double product_flop(const product *p)
{
    const yki_operand *result = p->result;
    double filters = (double)(result->ndim == 4 ? result->dims[1] : result->dims[result->ndim - 1]);
    double uses = filters > 0 ? (double)yki_operand_count(result) / filters : 0;
    return 2 * uses * (double)yki_operand_count(p->weight);
}

/* Of the products of all pairs of tokens: q k^T and p v, and backward q k^T again and four more. */
static double attention_flop(const yki_kernel_desc *desc)
{
    const yki_attention a = yki_attention_of(desc);
    bool backward = desc->op == &yki_op_scaled_dot_product_attention_backward;
    double pairs = 0;
    for (int64_t query = 0; query < a.q.rows; query++)
        pairs += (double)yki_attention_keys(&a, query);
    double widths = (double)((backward ? 3 : 1) * a.q.width + (backward ? 2 : 1) * a.v.width);
    return 2 * (double)(a.batch * a.heads) * pairs * widths;
}

static double matmul_flop(const yki_kernel_desc *desc)
{
    const yki_matmul m = yki_matmul_of(desc);
    return 2 * (double)(m.count * m.rows) * (double)(m.inner * m.columns);
}

static double flop_of(const yki_kernel_desc *desc)
{
    if (desc->op == &yki_op_matmul)
        return matmul_flop(desc);
    if (desc->op == &yki_op_scaled_dot_product_attention ||
        desc->op == &yki_op_scaled_dot_product_attention_backward)
        return attention_flop(desc);
    const yki_operand *in = desc->in, *out = desc->out;
    const product products[] = {
        {&yki_op_conv2d, &in[YKI_CONV2D_WEIGHT], &out[YKI_CONV2D_Y]},
        {&yki_op_conv2d_backward_data, &in[YKI_CONV2D_BACKWARD_DATA_WEIGHT],
         &in[YKI_CONV2D_BACKWARD_DATA_DY]},
        {&yki_op_conv2d_backward_weight, &out[YKI_CONV2D_BACKWARD_WEIGHT_DWEIGHT],
         &in[YKI_CONV2D_BACKWARD_WEIGHT_DY]},
        {&yki_op_conv_transpose2d, &in[YKI_CONV_TRANSPOSE2D_WEIGHT], &in[YKI_CONV_TRANSPOSE2D_X]},
        {&yki_op_linear, &in[YKI_LINEAR_WEIGHT], &out[YKI_LINEAR_Y]},
        {&yki_op_linear_backward_data, &in[YKI_LINEAR_BACKWARD_DATA_WEIGHT],
         &in[YKI_LINEAR_BACKWARD_DATA_DY]},
        {&yki_op_linear_backward_weight, &out[YKI_LINEAR_BACKWARD_WEIGHT_DWEIGHT],
         &in[YKI_LINEAR_BACKWARD_WEIGHT_DY]},
        {&yki_op_lstm, &in[YKI_LSTM_WEIGHT], &in[YKI_LSTM_FROM_INPUT]},
        {&yki_op_lstm_backward, &in[YKI_LSTM_BACKWARD_WEIGHT], &out[YKI_LSTM_BACKWARD_DGATES]},
        {&yki_op_gru, &in[YKI_GRU_WEIGHT], &in[YKI_GRU_FROM_INPUT]},
        {&yki_op_gru_backward, &in[YKI_GRU_BACKWARD_WEIGHT], &out[YKI_GRU_BACKWARD_DGATES]},
    };
    for (size_t i = 0; i < sizeof products / sizeof *products; i++)
        if (products[i].op == desc->op)
            return product_flop(&products[i]);
    return 0;
}

/* "128x64x32x32", or "scalar". Texts that are too long are cut off. */
static size_t write_dims(char *text, size_t size, const yki_operand *operand)
{
    size_t at = 0;
    for (int i = 0; i < operand->ndim && at < size; i++)
        at += (size_t)snprintf(text + at, size - at, "%s%lld", i ? "x" : "",
                               (long long)operand->dims[i]);
    if (operand->ndim == 0)
        at = (size_t)snprintf(text, size, "scalar");
    return at < size ? at : size - 1;
}

static void write_shape(char *text, size_t size, const yki_kernel_desc *desc)
{
    size_t at = write_dims(text, size, &desc->in[0]);
    at += (size_t)snprintf(text + at, size - at, " -> ");
    if (at < size)
        write_dims(text + at, size - at, &desc->out[0]);
}

yki_work yki_work_of(const yki_device *device, const yki_kernel_desc *desc,
                     const yki_kernel *kernel)
{
    yki_work work = {.flop = flop_of(desc)};
    work.computed = kernel->flop > 0 ? kernel->flop : work.flop;
    work.matrix_unit = kernel->matrix_unit && work.flop > 0;
    for (int i = 0; i < desc->in_count; i++)
        work.bytes += desc->in[i].ndim < 0 ? 0 : (double)yki_operand_bytes(device, &desc->in[i]);
    for (int i = 0; i < desc->out_count; i++)
        work.bytes += desc->out[i].ndim < 0 ? 0 : (double)yki_operand_bytes(device, &desc->out[i]);
    write_shape(work.shape, sizeof work.shape, desc);
    return work;
}

/*
 * What the convolutions share, forward (conv.c) and for the gradient of weights (weight.c):
 * cuDNN's plan, the copies of operands around it, and weights as it wants them.
 */
#ifndef YKI_CUDA_CONV_KERNEL_H
#define YKI_CUDA_CONV_KERNEL_H

#include "conv/plan.h"
#include "cuda.h"
#include "libraries/cublas.h"

/* The kernels beside the plan. TRANSPOSE converts filters whose order is the same, and folds those
 * of a convolution that is folded. REDUCE takes two. */
enum { TRANSPOSE, PAD, CROP, ADD, FOLD, REDUCE = CROP };

typedef struct yki_conv {
    yki_cuda_kernel cuda;
    const yki_cudnn *cudnn;
    yki_cudnn_conv conv; /* as the plan computes it: with all its channels, and perhaps folded */
    bool folds;
    yki_cudnn_conv plain; /* before it was folded */
    const yki_cudnn_plan *plan;
    yki_cublas_product product;                             /* in the plan's place */
    yki_operand x, weight, y;                               /* or their gradients */
    bool add_bias;                                          /* by a kernel: no engine adds it */
    size_t x_at, weight_at, y_at, partial_at, workspace_at; /* in scratch */
} yki_conv;

/* ---- shapes ---------------------------------------------------------------------------------- */

static inline bool yki_conv_has_more_inputs(const yki_conv *k)
{
    return k->conv.x[1] > k->x.dims[1];
}

static inline bool yki_conv_has_more_outputs(const yki_conv *k)
{
    return k->conv.y[1] > k->y.dims[1];
}

static inline bool yki_conv_is_narrow(const yki_conv *k)
{
    return yk_dtype_size(k->x.dtype) == 2;
}

static inline int64_t yki_conv_taps(const yki_conv *k)
{
    return k->conv.w[2] * k->conv.w[3];
}

static inline int64_t yki_conv_count(const int64_t dims[4])
{
    return dims[0] * dims[1] * dims[2] * dims[3];
}

/* Whether a filter is the same with its channels first and last. */
static inline bool yki_conv_is_same_order(const yki_conv *k)
{
    return !yki_conv_has_more_inputs(k) && (yki_conv_taps(k) == 1 || k->conv.w[1] == 1);
}

/* Whether operands have types and layouts that cuDNN's engines take. */
bool yki_conv_supports(const yki_operand *x, const yki_operand *weight, const yki_operand *y);
/* Fills in conv, from x, weight and y. */
void yki_conv_describe(yki_conv *k, yki_cudnn_direction direction);

/* ---- preparing ------------------------------------------------------------------------------- */

/* Whether the plan is to give sums of y, in 16 bits. */
bool yki_conv_wants_sums(const yki_conv *k, const yki_operand *sums);
/* The plan that is wanted, or else what the engines can do: a bias is left to a kernel where none
 * adds it, or where y has more channels than it. */
yk_status yki_conv_prepare_plan(yki_conv *k, bool bias, const yki_operand *sums);
/* Copies of operands that have more channels than they have. */
yk_status yki_conv_prepare_copies(yki_conv *k);
/* Weights, which are this input, as the plan wants them. */
yk_status yki_conv_prepare_pack(yki_conv *k, int input);
/* A kernel, prepared by the function. */
typedef yk_status yki_conv_prepare(yki_conv *k);
yk_status yki_conv_create(yki_device *device, const yki_kernel_desc *desc,
                          yki_conv_prepare *prepare, yki_kernel **kernel);
void yki_conv_destroy(yki_kernel *kernel);

/* ---- running --------------------------------------------------------------------------------- */

/* An input with zeros as the channels that it lacks. */
yk_status yki_conv_pad(const yki_conv *k, const yki_operand *operand, const int64_t dims[4],
                       const void *from, void *to, const yki_kernel_args *run);
/* An output without the channels that it lacks. */
yk_status yki_conv_crop(const yki_conv *k, const yki_operand *operand, const int64_t dims[4],
                        const void *from, void *to, const yki_kernel_args *run);
/* x as the plan wants it. */
yk_status yki_conv_widen_x(const yki_conv *k, const void *x, void *to, const yki_kernel_args *run);
/* Filters to the folded ones, or back. */
yk_status yki_conv_fold_filters(const yki_conv *k, const void *from, void *to,
                                const yki_kernel_args *run);
yk_status yki_conv_execute(const yki_conv *k, yki_cudnn_conv_memory memory,
                           const yki_kernel_args *run);
yk_status yki_conv_pack(const yki_kernel *kernel, const void *parameter, void *packed,
                        yki_stream *stream);
bool yki_conv_same_pack(const yki_kernel *kernel, const yki_kernel *other);

#define YKI_CONV(name, supports_, prepare_, run_)                                                  \
    const yki_kernel_impl yki_cuda_##name = {.op = &yki_op_##name,                                 \
                                             .supports = supports_,                                \
                                             .prepare = prepare_,                                  \
                                             .run = run_,                                          \
                                             .destroy = yki_conv_destroy,                          \
                                             .pack = yki_conv_pack,                                \
                                             .same_pack = yki_conv_same_pack}

/* ---- of weight.c, for foresight -------------------------------------------------------------- */

bool yki_conv_supports_backward_weight(const yki_device *device, const yki_kernel_desc *desc);
void yki_conv_describe_backward_weight(yki_conv *k);
/* Whether it is a product of matrices, which cuBLASLt computes. */
bool yki_conv_is_product(const yki_conv *k);

#endif

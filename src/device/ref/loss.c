/*
 * cross_entropy of logits (N, C) and labels: classes (N) or probabilities (N, C). With smoothing s
 * the target of a sample is (1 - s) * labels + s / C, as in PyTorch, where a class counts as
 * one-hot. The softmax first subtracts the largest logit.
 */
#include "device/ref/ref.h"

#include <math.h>

static double target(const yki_attrs *a, const yk_tensor *labels, int64_t n, int64_t c,
                     int64_t classes)
{
    double share = labels->ndim == 2 ? yki_ref_get(labels, n * classes + c)
                                     : ((const int32_t *)labels->data)[n] == c;
    return a->label_smoothing / (double)classes + (1 - a->label_smoothing) * share;
}

static yk_status check_class(const yk_tensor *labels, int64_t n, int64_t classes)
{
    int64_t label = labels->ndim == 1 ? ((const int32_t *)labels->data)[n] : 0;
    if (label >= 0 && label < classes)
        return YK_OK;
    return yki_error(YK_ERROR_INVALID_ARGUMENT, "label %lld of sample %lld is outside 0..%lld",
                     (long long)label, (long long)n, (long long)classes - 1);
}

/* log(sum(exp(row))). */
static double log_sum_exp(const yk_tensor *logits, int64_t n)
{
    int64_t classes = logits->dims[1];
    double largest = yki_ref_get(logits, n * classes), sum = 0;
    for (int64_t c = 1; c < classes; c++)
        largest = fmax(largest, yki_ref_get(logits, n * classes + c));
    for (int64_t c = 0; c < classes; c++)
        sum += exp(yki_ref_get(logits, n * classes + c) - largest);
    return largest + log(sum);
}

static yk_status ref_cross_entropy(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const yki_attrs *a = yki_ref_attrs(kernel);
    yk_tensor logits = yki_ref_in(kernel, run, YKI_CROSS_ENTROPY_LOGITS),
              labels = yki_ref_in(kernel, run, YKI_CROSS_ENTROPY_LABELS);
    yk_tensor loss = yki_ref_out(kernel, run, YKI_CROSS_ENTROPY_LOSS); /* scalar */
    yk_tensor probabilities =
        yki_ref_out(kernel, run, YKI_CROSS_ENTROPY_PROBABILITIES); /* (N, C) */
    int64_t batch = logits.dims[0], classes = logits.dims[1];
    double sum = 0;
    for (int64_t n = 0; n < batch; n++) {
        YK_TRY(check_class(&labels, n, classes));
        double norm = log_sum_exp(&logits, n);
        for (int64_t c = 0; c < classes; c++) {
            double log_probability = yki_ref_get(&logits, n * classes + c) - norm;
            double share = target(a, &labels, n, c, classes);
            sum -= share == 0 ? 0 : share * log_probability; /* which may be -infinity */
            if (probabilities.data)
                yki_ref_set(&probabilities, n * classes + c, exp(log_probability));
        }
    }
    yki_ref_set(&loss, 0, a->reduction == YK_LOSS_MEAN ? sum / (double)batch : sum);
    return YK_OK;
}

static yk_status ref_cross_entropy_backward(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const yki_attrs *a = yki_ref_attrs(kernel);
    yk_tensor probabilities =
        yki_ref_in(kernel, run, YKI_CROSS_ENTROPY_BACKWARD_PROBABILITIES); /* (N, C) */
    yk_tensor labels =
        yki_ref_in(kernel, run, YKI_CROSS_ENTROPY_BACKWARD_LABELS);              /* (N) or (N, C) */
    yk_tensor dloss = yki_ref_in(kernel, run, YKI_CROSS_ENTROPY_BACKWARD_DLOSS); /* scalar */
    yk_tensor dlogits = yki_ref_out(kernel, run, YKI_CROSS_ENTROPY_BACKWARD_DLOGITS); /* (N, C) */
    int64_t batch = dlogits.dims[0], classes = dlogits.dims[1];
    double factor = yki_ref_get(&dloss, 0) / (a->reduction == YK_LOSS_MEAN ? (double)batch : 1);
    for (int64_t n = 0; n < batch; n++) {
        double total = 0;
        for (int64_t c = 0; c < classes; c++)
            total += target(a, &labels, n, c, classes);
        for (int64_t c = 0; c < classes; c++) {
            int64_t i = n * classes + c;
            double excess =
                total * yki_ref_get(&probabilities, i) - target(a, &labels, n, c, classes);
            yki_ref_set(&dlogits, i, excess * factor);
        }
    }
    return YK_OK;
}

const yki_kernel_impl yki_ref_cross_entropy = {.op = &yki_op_cross_entropy,
                                               .supports = yki_ref_supports,
                                               .prepare = yki_ref_prepare,
                                               .run = ref_cross_entropy};
const yki_kernel_impl yki_ref_cross_entropy_backward = {.op = &yki_op_cross_entropy_backward,
                                                        .inplace = 1,
                                                        .supports = yki_ref_supports,
                                                        .prepare = yki_ref_prepare,
                                                        .run = ref_cross_entropy_backward};

/* ---- mse_loss -------------------------------------------------------------------------------- */

static yk_status ref_mse_loss(const yki_kernel *kernel, const yki_kernel_args *run)
{
    yk_tensor x = yki_ref_in(kernel, run, YKI_MSE_LOSS_X),
              target = yki_ref_in(kernel, run, YKI_MSE_LOSS_TARGET);
    yk_tensor loss = yki_ref_out(kernel, run, YKI_MSE_LOSS_LOSS); /* scalar */
    int64_t count = yk_tensor_count(&x);
    double sum = 0;
    for (int64_t i = 0; i < count; i++) {
        double difference = yki_ref_get(&x, i) - yki_ref_get(&target, i);
        sum += difference * difference;
    }
    yki_ref_set(&loss, 0,
                yki_ref_attrs(kernel)->reduction == YK_LOSS_MEAN ? sum / (double)count : sum);
    return YK_OK;
}

static yk_status ref_mse_loss_backward(const yki_kernel *kernel, const yki_kernel_args *run)
{
    yk_tensor x = yki_ref_in(kernel, run, YKI_MSE_LOSS_BACKWARD_X),
              target = yki_ref_in(kernel, run, YKI_MSE_LOSS_BACKWARD_TARGET);
    yk_tensor dloss = yki_ref_in(kernel, run, YKI_MSE_LOSS_BACKWARD_DLOSS); /* scalar */
    yk_tensor dx = yki_ref_out(kernel, run, YKI_MSE_LOSS_BACKWARD_DX);
    int64_t count = yk_tensor_count(&x);
    bool mean = yki_ref_attrs(kernel)->reduction == YK_LOSS_MEAN;
    double factor = 2 * yki_ref_get(&dloss, 0) / (mean ? (double)count : 1);
    for (int64_t i = 0; i < count; i++)
        yki_ref_set(&dx, i, (yki_ref_get(&x, i) - yki_ref_get(&target, i)) * factor);
    return YK_OK;
}

const yki_kernel_impl yki_ref_mse_loss = {.op = &yki_op_mse_loss,
                                          .supports = yki_ref_supports,
                                          .prepare = yki_ref_prepare,
                                          .run = ref_mse_loss};
const yki_kernel_impl yki_ref_mse_loss_backward = {.op = &yki_op_mse_loss_backward,
                                                   .inplace = 1,
                                                   .supports = yki_ref_supports,
                                                   .prepare = yki_ref_prepare,
                                                   .run = ref_mse_loss_backward};

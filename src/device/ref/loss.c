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

/* ---- losses over pairs of elements: input 0 is x, input 1 the target, of backward 2 is dloss ----
 */

#define YKI_REAL       double
#define YKI_RULE(name) name##_rule
#include "device/loss_rules.h"

/* The loss of one pair, or its slope by x; weight: the pair's pos_weight. */
typedef double (*pair_fn)(double x, double target, double weight, const yki_attrs *attrs);

/* The pos_weight of element i; 1 where there is none. */
static double weight_of(const yk_tensor *weights, const yk_tensor *x, int64_t i)
{
    int64_t pixels = 1;
    if (!weights->data)
        return 1;
    for (int d = 2; d < x->ndim; d++)
        pixels *= x->dims[d];
    return yki_ref_get(weights, i / pixels % weights->dims[0]);
}

static void pair_loss(const yki_kernel *kernel, const yki_kernel_args *run, pair_fn f)
{
    const yki_attrs *a = yki_ref_attrs(kernel);
    yk_tensor x = yki_ref_in(kernel, run, 0), target = yki_ref_in(kernel, run, 1),
              weights = yki_ref_in(kernel, run, 2);
    yk_tensor loss = yki_ref_out(kernel, run, 0); /* scalar */
    int64_t count = yk_tensor_count(&x);
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += f(yki_ref_get(&x, i), yki_ref_get(&target, i), weight_of(&weights, &x, i), a);
    yki_ref_set(&loss, 0, a->reduction == YK_LOSS_MEAN ? sum / (double)count : sum);
}

static void pair_slope(const yki_kernel *kernel, const yki_kernel_args *run, pair_fn f)
{
    const yki_attrs *a = yki_ref_attrs(kernel);
    yk_tensor x = yki_ref_in(kernel, run, 0), target = yki_ref_in(kernel, run, 1),
              dloss = yki_ref_in(kernel, run, 2), weights = yki_ref_in(kernel, run, 3);
    yk_tensor dx = yki_ref_out(kernel, run, 0);
    int64_t count = yk_tensor_count(&x);
    double factor = yki_ref_get(&dloss, 0) / (a->reduction == YK_LOSS_MEAN ? (double)count : 1);
    for (int64_t i = 0; i < count; i++)
        yki_ref_set(
            &dx, i,
            factor * f(yki_ref_get(&x, i), yki_ref_get(&target, i), weight_of(&weights, &x, i), a));
}

/* The kernels of a loss and of its gradient, of what is in scope here. */
#define PAIR_LOSS(name, loss, slope)                                                               \
    static double name##_of(double x, double target, double weight, const yki_attrs *attrs)        \
    {                                                                                              \
        const double beta = attrs->beta;                                                           \
        (void)beta, (void)weight;                                                                  \
        return loss;                                                                               \
    }                                                                                              \
    static double name##_slope_of(double x, double target, double weight, const yki_attrs *attrs)  \
    {                                                                                              \
        const double beta = attrs->beta;                                                           \
        (void)beta, (void)weight;                                                                  \
        return slope;                                                                              \
    }                                                                                              \
    static yk_status ref_##name(const yki_kernel *kernel, const yki_kernel_args *run)              \
    {                                                                                              \
        pair_loss(kernel, run, name##_of);                                                         \
        return YK_OK;                                                                              \
    }                                                                                              \
    static yk_status ref_##name##_backward(const yki_kernel *kernel, const yki_kernel_args *run)   \
    {                                                                                              \
        pair_slope(kernel, run, name##_slope_of);                                                  \
        return YK_OK;                                                                              \
    }                                                                                              \
    YKI_REF_IMPL(name, 0);                                                                         \
    YKI_REF_IMPL(name##_backward, 1)

PAIR_LOSS(mse_loss, (x - target) * (x - target), 2 * (x - target));
PAIR_LOSS(smooth_l1_loss, smooth_l1_rule(x - target, beta), smooth_l1_slope_rule(x - target, beta));
PAIR_LOSS(binary_cross_entropy_with_logits, bce_rule(x, target, weight),
          bce_slope_rule(x, target, weight));

/*
 * cross_entropy of logits (N, C, ...) and labels: classes (N, ...) or probabilities like the
 * logits. A row is what has one softmax: a sample, or one of its pixels. With smoothing s and a
 * weight of each class, the target of a row is ((1 - s) labels + s / C) weight, as in PyTorch,
 * where a class counts as one-hot, and 0 if it is ignored. The softmax first subtracts the largest
 * logit.
 */
#include "device/ref/ref.h"

#include <math.h>

typedef struct rows {
    const yki_attrs *attrs;
    yk_tensor labels, weight; /* weight: without data if there is none */
    int64_t classes, pixels, count;
    bool soft; /* labels are probabilities */
} rows;

static rows rows_of(const yki_attrs *attrs, const yk_tensor *logits, yk_tensor labels,
                    yk_tensor weight)
{
    rows r = {.attrs = attrs,
              .labels = labels,
              .weight = weight,
              .classes = logits->dims[1],
              .pixels = 1,
              .soft = labels.ndim == logits->ndim};
    for (int d = 2; d < logits->ndim; d++)
        r.pixels *= logits->dims[d];
    r.count = logits->dims[0] * r.pixels;
    return r;
}

/* The element of class c in the logits and what is like them. */
static int64_t at(const rows *r, int64_t row, int64_t c)
{
    return (row / r->pixels * r->classes + c) * r->pixels + row % r->pixels;
}

static double weight_of_class(const rows *r, int64_t c)
{
    return r->weight.data ? yki_ref_get(&r->weight, c) : 1;
}

static int64_t label_of(const rows *r, int64_t row)
{
    return yki_index_at(r->labels.dtype, r->labels.data, row);
}

static bool is_ignored(const rows *r, int64_t row)
{
    return !r->soft && label_of(r, row) == r->attrs->ignore_index;
}

/* What the row adds to the number that a mean is divided by. */
static double share_of_mean(const rows *r, int64_t row)
{
    return is_ignored(r, row) ? 0 : r->soft ? 1 : weight_of_class(r, label_of(r, row));
}

static double target(const rows *r, int64_t row, int64_t c)
{
    double smoothing = r->attrs->label_smoothing;
    if (is_ignored(r, row))
        return 0;
    double share = r->soft ? yki_ref_get(&r->labels, at(r, row, c)) : label_of(r, row) == c;
    return (smoothing / (double)r->classes + (1 - smoothing) * share) * weight_of_class(r, c);
}

static yk_status check_class(const rows *r, int64_t row)
{
    if (r->soft || is_ignored(r, row))
        return YK_OK;
    int64_t label = label_of(r, row);
    if (label >= 0 && label < r->classes)
        return YK_OK;
    return yki_error(YK_ERROR_INVALID_ARGUMENT, "label %lld of sample %lld is outside 0..%lld",
                     (long long)label, (long long)(row / r->pixels), (long long)r->classes - 1);
}

/* log(sum(exp(row))). */
static double log_sum_exp(const rows *r, const yk_tensor *logits, int64_t row)
{
    double largest = yki_ref_get(logits, at(r, row, 0)), sum = 0;
    for (int64_t c = 1; c < r->classes; c++)
        largest = fmax(largest, yki_ref_get(logits, at(r, row, c)));
    for (int64_t c = 0; c < r->classes; c++)
        sum += exp(yki_ref_get(logits, at(r, row, c)) - largest);
    return largest + log(sum);
}

static yk_status ref_cross_entropy(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const yki_attrs *a = yki_ref_attrs(kernel);
    yk_tensor logits = yki_ref_in(kernel, run, YKI_CROSS_ENTROPY_LOGITS);
    yk_tensor loss = yki_ref_out(kernel, run, YKI_CROSS_ENTROPY_LOSS),
              total = yki_ref_out(kernel, run, YKI_CROSS_ENTROPY_TOTAL);       /* scalars */
    yk_tensor log_sums = yki_ref_out(kernel, run, YKI_CROSS_ENTROPY_LOG_SUMS); /* (N, ...) */
    rows r = rows_of(a, &logits, yki_ref_in(kernel, run, YKI_CROSS_ENTROPY_LABELS),
                     yki_ref_in(kernel, run, YKI_CROSS_ENTROPY_WEIGHT));
    double sum = 0, counted = 0;
    for (int64_t row = 0; row < r.count; row++) {
        YK_TRY(check_class(&r, row));
        double norm = log_sum_exp(&r, &logits, row);
        counted += share_of_mean(&r, row);
        for (int64_t c = 0; c < r.classes; c++) {
            double log_probability = yki_ref_get(&logits, at(&r, row, c)) - norm;
            double share = target(&r, row, c);
            sum -= share == 0 ? 0 : share * log_probability; /* which may be -infinity */
        }
        if (log_sums.data)
            yki_ref_set(&log_sums, row, norm);
    }
    yki_ref_set(&loss, 0, a->reduction == YK_LOSS_MEAN ? sum / counted : sum);
    if (total.data)
        yki_ref_set(&total, 0, counted);
    return YK_OK;
}

static yk_status ref_cross_entropy_backward(const yki_kernel *kernel, const yki_kernel_args *run)
{
    yk_tensor logits = yki_ref_in(kernel, run, YKI_CROSS_ENTROPY_BACKWARD_LOGITS),
              log_sums = yki_ref_in(kernel, run, YKI_CROSS_ENTROPY_BACKWARD_LOG_SUMS);
    yk_tensor dloss = yki_ref_in(kernel, run, YKI_CROSS_ENTROPY_BACKWARD_DLOSS),
              total = yki_ref_in(kernel, run, YKI_CROSS_ENTROPY_BACKWARD_TOTAL); /* scalars */
    yk_tensor dlogits = yki_ref_out(kernel, run, YKI_CROSS_ENTROPY_BACKWARD_DLOGITS);
    rows r = rows_of(yki_ref_attrs(kernel), &logits,
                     yki_ref_in(kernel, run, YKI_CROSS_ENTROPY_BACKWARD_LABELS),
                     yki_ref_in(kernel, run, YKI_CROSS_ENTROPY_BACKWARD_WEIGHT));
    double factor = yki_ref_get(&dloss, 0) / (total.data ? yki_ref_get(&total, 0) : 1);
    for (int64_t row = 0; row < r.count; row++) {
        double sum = 0;
        for (int64_t c = 0; c < r.classes; c++)
            sum += target(&r, row, c);
        for (int64_t c = 0; c < r.classes; c++) {
            int64_t i = at(&r, row, c);
            double share = exp(yki_ref_get(&logits, i) - yki_ref_get(&log_sums, row));
            double excess = sum * share - target(&r, row, c);
            /* If none counts, the factor is infinite. */
            yki_ref_set(&dlogits, i, is_ignored(&r, row) ? 0 : excess * factor);
        }
    }
    return YK_OK;
}

YKI_REF_IMPL(cross_entropy, 0);
YKI_REF_IMPL(cross_entropy_backward, 1);

/* ---- losses over pairs of elements: input 0 is x, input 1 the target, of backward 2 is dloss - */

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

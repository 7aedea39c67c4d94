/*
 * cross_entropy of plain f32 logits (N, C) and labels: classes (N) or probabilities (N, C). With
 * smoothing s the target of a sample is (1 - s) * labels + s / C, where a class counts as one-hot.
 * Samples are divided among the threads, but their losses are
 * added in order, so the sum does not depend on the number of threads.
 */
#include <math.h>

#include "base/memory.h"
#include "device/cpu/geometry.h"

typedef struct loss {
    yki_kernel base;
    int64_t batch, classes;
    int team;
    float smoothing;
    bool mean, keep_probabilities;
    bool soft; /* labels are probabilities */
} loss;

static bool is_plain_f32(const yki_operand *operand)
{
    return operand->dtype == YK_F32 && operand->layout == YKI_PLAIN;
}

static bool loss_supports(const yki_device *device, const yki_kernel_desc *desc)
{
    (void)device;
    const yki_operand *labels = &desc->in[1];
    bool good = is_plain_f32(&desc->in[0]) && (labels->dtype == YK_I32 || is_plain_f32(labels));
    for (int i = 0; i < desc->out_count; i++)
        good = good && (!yki_has_out(desc, i) || is_plain_f32(&desc->out[i]));
    return good;
}

static yk_status loss_prepare(yki_device *device, const yki_kernel_desc *desc, yki_kernel **kernel)
{
    loss *k = yki_calloc(1, sizeof *k);
    if (!k)
        return yki_error_memory(sizeof *k, "a cross_entropy kernel");
    k->batch = desc->in[0].dims[0];
    k->classes = desc->in[0].dims[1];
    k->team = yki_team(
        device, 4 * k->batch * k->classes); /* an exponential costs as much as several elements */
    k->smoothing = (float)desc->attrs->label_smoothing;
    k->soft = desc->in[1].ndim == 2;
    k->mean = desc->attrs->reduction == YK_LOSS_MEAN;
    k->keep_probabilities = yki_has_out(desc, 1);
    k->base.scratch = (size_t)k->batch * sizeof(double);
    *kernel = &k->base;
    return YK_OK;
}

static yk_status check_labels(const loss *k, const int32_t *labels)
{
    for (int64_t n = 0; n < k->batch && !k->soft; n++)
        if (labels[n] < 0 || labels[n] >= k->classes)
            return yki_error(YK_ERROR_INVALID_ARGUMENT,
                             "label %lld of sample %lld is outside 0..%lld", (long long)labels[n],
                             (long long)n, (long long)k->classes - 1);
    return YK_OK;
}

/*
 * What a sample's labels take off log(sum(exp)): the logits, relative to the largest, weighted by
 * the targets. A target of 0 takes nothing off, even if its logit is -infinity. *total is the sum
 * of the targets.
 */
static double weigh(const loss *k, const float *logits, float largest, const float *shares,
                    double *total)
{
    double sum = 0, rest = (double)k->smoothing / (double)k->classes;
    *total = 0;
    for (int64_t c = 0; c < k->classes; c++) {
        double target = rest + (1 - (double)k->smoothing) * shares[c];
        sum += target == 0 ? 0 : target * (logits[c] - largest);
        *total += target;
    }
    return sum;
}

/* The loss of sample n, and its probabilities unless NULL. */
static double sample_loss(const loss *k, const float *logits, const void *labels, int64_t n,
                          float *probabilities)
{
    float largest = logits[0];
    for (int64_t c = 1; c < k->classes; c++)
        largest = fmaxf(largest, logits[c]);
    double sum = 0, distance = 0; /* of exp(), and of the logits below the largest */
    for (int64_t c = 0; c < k->classes; c++) {
        float below = logits[c] - largest, power = expf(below);
        sum += power;
        distance += below;
        if (probabilities)
            probabilities[c] = power;
    }
    for (int64_t c = 0; probabilities && c < k->classes; c++)
        probabilities[c] = (float)(probabilities[c] / sum);
    double log_sum = log(sum), mean = distance / (double)k->classes, total;
    if (k->soft) {
        double taken = weigh(k, logits, largest, (const float *)labels + n * k->classes, &total);
        return total * log_sum - taken;
    }
    int32_t label = ((const int32_t *)labels)[n];
    return log_sum - (1 - (double)k->smoothing) * (logits[label] - largest) -
           (k->smoothing != 0 ? (double)k->smoothing * mean : 0);
}

static yk_status cross_entropy(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const loss *k = (const loss *)kernel;
    const float *logits = run->in[YKI_CROSS_ENTROPY_LOGITS]; /* (N, C) */
    const void *labels = run->in[YKI_CROSS_ENTROPY_LABELS];  /* (N) or (N, C) */
    float *probabilities = k->keep_probabilities ? run->out[YKI_CROSS_ENTROPY_PROBABILITIES] : NULL;
    double *losses = run->scratch, sum = 0;
    YK_TRY(check_labels(k, labels));
#pragma omp parallel for num_threads(k->team) if (k->team > 1)
    for (int64_t n = 0; n < k->batch; n++)
        losses[n] = sample_loss(k, logits + n * k->classes, labels, n,
                                probabilities ? probabilities + n * k->classes : NULL);
    for (int64_t n = 0; n < k->batch; n++)
        sum += losses[n];
    *(float *)run->out[YKI_CROSS_ENTROPY_LOSS] = (float)(k->mean ? sum / (double)k->batch : sum);
    return YK_OK;
}

/* One sample's dlogits where the labels are probabilities. */
static void soft_gradient(const loss *k, const float *probabilities, const float *shares,
                          float factor, float *dlogits)
{
    float rest = k->smoothing / (float)k->classes, given = 1 - k->smoothing;
    double total = 0;
    for (int64_t c = 0; c < k->classes; c++)
        total += rest + given * shares[c];
    for (int64_t c = 0; c < k->classes; c++)
        dlogits[c] = ((float)total * probabilities[c] - (rest + given * shares[c])) * factor;
}

/* dlogits = (probabilities * sum(target) - target) * dloss, divided by N for a mean. */
static yk_status cross_entropy_backward(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const loss *k = (const loss *)kernel;
    const float *probabilities = run->in[YKI_CROSS_ENTROPY_BACKWARD_PROBABILITIES]; /* (N, C) */
    const void *given = run->in[YKI_CROSS_ENTROPY_BACKWARD_LABELS]; /* (N) or (N, C) */
    const int32_t *labels = given;
    float *dlogits = run->out[YKI_CROSS_ENTROPY_BACKWARD_DLOGITS]; /* (N, C) */
    float factor =
        *(const float *)run->in[YKI_CROSS_ENTROPY_BACKWARD_DLOSS] / (k->mean ? (float)k->batch : 1);
    float rest = k->smoothing / (float)k->classes;
#pragma omp parallel for num_threads(k->team) if (k->team > 1)
    for (int64_t n = 0; n < k->batch; n++) {
        int64_t row = n * k->classes;
        if (k->soft) {
            soft_gradient(k, probabilities + row, (const float *)given + row, factor,
                          dlogits + row);
            continue;
        }
        for (int64_t c = 0; c < k->classes; c++) {
            float target = rest + (c == labels[n] ? 1 - k->smoothing : 0);
            dlogits[row + c] = (probabilities[row + c] - target) * factor;
        }
    }
    return YK_OK;
}

const yki_kernel_impl yki_cpu_cross_entropy = {.op = &yki_op_cross_entropy,
                                               .supports = loss_supports,
                                               .prepare = loss_prepare,
                                               .run = cross_entropy};
const yki_kernel_impl yki_cpu_cross_entropy_backward = {.op = &yki_op_cross_entropy_backward,
                                                        .inplace = 1,
                                                        .supports = loss_supports,
                                                        .prepare = loss_prepare,
                                                        .run = cross_entropy_backward};

/*
 * cross_entropy of plain f32 logits (N, C) and labels, classes (N) or probabilities (N, C); and of
 * logits (N, C, ...) and classes (N, ...), in vectors of pixels. With smoothing s and a weight of
 * each class the target of a row, a sample or a pixel, is ((1 - s) * labels + s / C) * weight,
 * where a class counts as one-hot, and 0 if it is ignored. Samples are divided among the threads,
 * and pixels in strips, but their losses are added in order, so the sum does not depend on the
 * number of threads.
 */
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "device/cpu/geometry.h"
#include "device/cpu/loops.h"

enum { STRIP = 1024 /* pixels */ };

typedef struct loss {
    yki_kernel base;
    const yki_cpu_loops *loops;
    int64_t batch, classes, pixels;
    int64_t strips; /* of an image */
    int64_t ignored;
    int team;
    float smoothing;
    bool mean, keep_probabilities, keep_total;
    bool soft;     /* labels are probabilities */
    bool weighted; /* there is a weight of each class */
    bool divides;  /* backward: by what a mean is divided by */
} loss;

/* The operands of a run that all rows share. */
typedef struct operands {
    const void *labels;
    const float *weights; /* (C), or NULL: 1 */
} operands;

static bool is_plain_f32(const yki_operand *operand)
{
    return operand->dtype == YK_F32 && operand->layout == YKI_PLAIN;
}

static bool loss_supports(const yki_device *device, const yki_kernel_desc *desc)
{
    (void)device;
    const yki_operand *labels = &desc->in[1];
    bool good = is_plain_f32(&desc->in[0]) && labels->layout == YKI_PLAIN &&
                (labels->dtype == YK_I32 || (labels->dtype == YK_F32 && labels->ndim == 2));
    for (int i = 2; i < desc->in_count; i++)
        good = good && (!yki_has_in(desc, i) || is_plain_f32(&desc->in[i]));
    for (int i = 0; i < desc->out_count; i++)
        good = good && (!yki_has_out(desc, i) || is_plain_f32(&desc->out[i]));
    return good;
}

static yk_status loss_prepare(yki_device *device, const yki_kernel_desc *desc, yki_kernel **kernel)
{
    loss *k = yki_calloc(1, sizeof *k);
    if (!k)
        return yki_error_memory(sizeof *k, "a cross_entropy kernel");
    const yki_operand *logits = &desc->in[0];
    k->loops = yki_cpu_loops_of(device);
    k->batch = logits->dims[0];
    k->classes = logits->dims[1];
    k->pixels = 1;
    for (int d = 2; d < logits->ndim; d++)
        k->pixels *= logits->dims[d];
    k->strips = (k->pixels + STRIP - 1) / STRIP;
    k->ignored = desc->attrs->ignore_index;
    /* An exponential costs as much as several elements. */
    k->team = yki_team(device, 4 * yki_operand_count(logits));
    k->smoothing = (float)desc->attrs->label_smoothing;
    k->soft = desc->in[1].ndim == logits->ndim;
    k->mean = desc->attrs->reduction == YK_LOSS_MEAN;
    k->keep_probabilities = yki_has_out(desc, YKI_CROSS_ENTROPY_PROBABILITIES);
    k->keep_total = yki_has_out(desc, YKI_CROSS_ENTROPY_TOTAL);
    bool is_backward = desc->op == &yki_op_cross_entropy_backward;
    k->weighted = yki_has_in(desc, is_backward ? (int)YKI_CROSS_ENTROPY_BACKWARD_WEIGHT
                                               : (int)YKI_CROSS_ENTROPY_WEIGHT);
    k->divides = is_backward && yki_has_in(desc, YKI_CROSS_ENTROPY_BACKWARD_TOTAL);
    k->base.scratch = (size_t)(k->batch * k->strips) * sizeof(yki_pixel_sums);
    *kernel = &k->base;
    return YK_OK;
}

static bool is_counted(const loss *k, const operands *o, int64_t n)
{
    return k->soft || ((const int32_t *)o->labels)[n] != k->ignored;
}

static yk_status check_labels(const loss *k, const operands *o)
{
    const int32_t *labels = o->labels;
    for (int64_t n = 0; n < k->batch * k->pixels && !k->soft; n++)
        if ((labels[n] < 0 || labels[n] >= k->classes) && labels[n] != k->ignored)
            return yki_error(YK_ERROR_INVALID_ARGUMENT,
                             "label %lld of sample %lld is outside 0..%lld", (long long)labels[n],
                             (long long)(n / k->pixels), (long long)k->classes - 1);
    return YK_OK;
}

/* ---- samples (N, C) -------------------------------------------------------------------------- */

/* What sample n adds to the number that a mean is divided by. */
static double share_of_mean(const loss *k, const operands *o, int64_t n)
{
    if (!is_counted(k, o, n))
        return 0;
    return k->soft || !o->weights ? 1 : o->weights[((const int32_t *)o->labels)[n]];
}

/* The target of a class of sample n, which counts. */
static double target_of(const loss *k, const operands *o, int64_t n, int64_t c)
{
    double rest = (double)k->smoothing / (double)k->classes;
    double share = k->soft ? ((const float *)o->labels)[n * k->classes + c]
                           : ((const int32_t *)o->labels)[n] == c;
    double target = rest + (1 - (double)k->smoothing) * share;
    return o->weights ? target * o->weights[c] : target;
}

/*
 * What a sample's labels take off log(sum(exp)): the logits, relative to the largest, weighted by
 * the targets. A target of 0 takes nothing off, even if its logit is -infinity. *total is the sum
 * of the targets.
 */
static double weigh(const loss *k, const operands *o, int64_t n, const float *logits, float largest,
                    double *total)
{
    double sum = 0;
    *total = 0;
    for (int64_t c = 0; c < k->classes; c++) {
        double target = target_of(k, o, n, c);
        sum += target == 0 ? 0 : target * (logits[c] - largest);
        *total += target;
    }
    return sum;
}

/* The loss of sample n, and its probabilities unless NULL. */
static double sample_loss(const loss *k, const operands *o, const float *logits, int64_t n,
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
    if (!is_counted(k, o, n))
        return 0;
    if (k->soft || o->weights) {
        double taken = weigh(k, o, n, logits, largest, &total);
        return total * log_sum - taken;
    }
    int32_t label = ((const int32_t *)o->labels)[n];
    return log_sum - (1 - (double)k->smoothing) * (logits[label] - largest) -
           (k->smoothing != 0 ? (double)k->smoothing * mean : 0);
}

/* As target_of, in f32. */
static float narrow_target_of(const loss *k, const operands *o, int64_t n, int64_t c)
{
    float rest = k->smoothing / (float)k->classes, given = 1 - k->smoothing;
    float share = k->soft ? ((const float *)o->labels)[n * k->classes + c]
                          : (float)(((const int32_t *)o->labels)[n] == c);
    float target = rest + given * share;
    return o->weights ? target * o->weights[c] : target;
}

/* One sample's dlogits = (probabilities * sum(target) - target) * factor. */
static void sample_slopes(const loss *k, const operands *o, int64_t n, const float *probabilities,
                          float factor, float *dlogits)
{
    const bool whole = !k->soft && !o->weights; /* the targets' sum is 1 */
    double total = whole;
    if (!is_counted(k, o, n)) { /* if none is, the factor is infinite */
        memset(dlogits, 0, (size_t)k->classes * sizeof *dlogits);
        return;
    }
    for (int64_t c = 0; !whole && c < k->classes; c++)
        total += narrow_target_of(k, o, n, c);
    for (int64_t c = 0; c < k->classes; c++)
        dlogits[c] = ((float)total * probabilities[c] - narrow_target_of(k, o, n, c)) * factor;
}

/* ---- pixels ---------------------------------------------------------------------------------- */

static yki_pixel_loss pixels_of(const loss *k, const operands *o)
{
    yki_pixel_loss p = {.classes = k->classes,
                        .pixels = k->pixels,
                        .weights = o->weights,
                        .smoothing = k->smoothing,
                        .ignored = k->ignored};
    for (int64_t c = 0; c < k->classes; c++)
        p.weight_sum += o->weights ? o->weights[c] : 1;
    return p;
}

/* A strip of pixels: the place of the first among the labels, and in its first class. */
typedef struct strip {
    int64_t label, at, count;
} strip;

static strip strip_at(const loss *k, int64_t number)
{
    int64_t n = number / k->strips, first = number % k->strips * STRIP, left = k->pixels - first;
    return (strip){n * k->pixels + first, n * k->classes * k->pixels + first,
                   left < STRIP ? left : STRIP};
}

/* ---- kernels --------------------------------------------------------------------------------- */

static yk_status cross_entropy(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const loss *k = (const loss *)kernel;
    const float *logits = run->in[YKI_CROSS_ENTROPY_LOGITS]; /* (N, C, ...) */
    const operands o = {run->in[YKI_CROSS_ENTROPY_LABELS],
                        k->weighted ? run->in[YKI_CROSS_ENTROPY_WEIGHT] : NULL};
    float *probabilities = k->keep_probabilities ? run->out[YKI_CROSS_ENTROPY_PROBABILITIES] : NULL;
    const yki_pixel_loss pixels = pixels_of(k, &o);
    yki_pixel_sums *sums = run->scratch, all = {0, 0};
    YK_TRY(check_labels(k, &o));
#pragma omp parallel for num_threads(k->team) if (k->team > 1)
    for (int64_t i = 0; i < k->batch * k->strips; i++) {
        strip s = strip_at(k, i);
        float *kept = probabilities ? probabilities + s.at : NULL;
        sums[i] = (yki_pixel_sums){0, 0};
        if (k->pixels > 1)
            k->loops->pixel_losses(&pixels, logits + s.at, (const int32_t *)o.labels + s.label,
                                   kept, s.count, &sums[i]);
        else
            sums[i] = (yki_pixel_sums){sample_loss(k, &o, logits + s.at, i, kept),
                                       share_of_mean(k, &o, i)};
    }
    for (int64_t i = 0; i < k->batch * k->strips; i++) {
        all.losses += sums[i].losses;
        all.weights += sums[i].weights;
    }
    *(float *)run->out[YKI_CROSS_ENTROPY_LOSS] =
        (float)(k->mean ? all.losses / all.weights : all.losses);
    if (k->keep_total)
        *(float *)run->out[YKI_CROSS_ENTROPY_TOTAL] = (float)all.weights;
    return YK_OK;
}

static yk_status cross_entropy_backward(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const loss *k = (const loss *)kernel;
    const float *probabilities = run->in[YKI_CROSS_ENTROPY_BACKWARD_PROBABILITIES];
    const operands o = {run->in[YKI_CROSS_ENTROPY_BACKWARD_LABELS],
                        k->weighted ? run->in[YKI_CROSS_ENTROPY_BACKWARD_WEIGHT] : NULL};
    const yki_pixel_loss pixels = pixels_of(k, &o);
    float *dlogits = run->out[YKI_CROSS_ENTROPY_BACKWARD_DLOGITS]; /* (N, C, ...) */
    float factor = *(const float *)run->in[YKI_CROSS_ENTROPY_BACKWARD_DLOSS];
    if (k->divides)
        factor /= *(const float *)run->in[YKI_CROSS_ENTROPY_BACKWARD_TOTAL];
#pragma omp parallel for num_threads(k->team) if (k->team > 1)
    for (int64_t i = 0; i < k->batch * k->strips; i++) {
        strip s = strip_at(k, i);
        if (k->pixels > 1)
            k->loops->pixel_slopes(&pixels, probabilities + s.at,
                                   (const int32_t *)o.labels + s.label, dlogits + s.at, factor,
                                   s.count);
        else
            sample_slopes(k, &o, i, probabilities + s.at, factor, dlogits + s.at);
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

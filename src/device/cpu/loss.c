/*
 * cross_entropy in f32: of samples (N, C), in rows, and of pixels (N, C, ...), in vectors of
 * pixels, with labels that are classes or probabilities. With smoothing s and a weight of each
 * class the target of a row, a sample or a pixel, is ((1 - s) * labels + s / C) * weight, where a
 * class counts as one-hot, and 0 if it is ignored. Samples are divided among the threads, and
 * pixels in strips, but their losses are added in order, so the sum does not depend on the number
 * of threads.
 *
 * Strips of blocked images are turned, so that the pixels of a class are next to each other while
 * they are in the cache. So are samples of few classes, which are as the pixels of one image: a row
 * would be shorter than what its sum and its logarithm take. Of logits of 16 bits a thread widens
 * what it takes at a time, and narrows its gradient.
 */
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "device/cpu/geometry.h"
#include "device/cpu/loops/loops.h"
#include "tensor/convert16.h"
#include "tensor/element.h"

enum {
    STRIP = 1024,
    TURNED_STRIP = 128, /* pixels */
    LEAST_STRIP = 64,
    FEW_CLASSES = 32,
    MOST_WIDENED = 1 << 16 /* numbers of a strip that is widened, if it has LEAST_STRIP pixels */
};

typedef struct loss {
    yki_kernel base;
    const yki_cpu_loops *loops;
    int64_t batch, classes, pixels, sample_pixels; /* pixels: of an image */
    int64_t strip, strips;                         /* pixels of a strip, and strips of an image */
    yk_dtype dtype;                                /* of logits and their gradient */
    bool turned, in_rows;  /* images are blocked, or pixels are samples of few classes in rows */
    int64_t padded, block; /* classes with padding, and numbers of a pixel next to each other */
    int64_t ignored;       /* of int64 labels, as narrow_labels() makes them */
    int64_t wide_ignored;  /* ignore_index */
    int team;
    float smoothing;
    bool mean, keep_log_sums, keep_total;
    bool soft;     /* labels are probabilities */
    bool wide;     /* labels are int64, of which kernels make int32 */
    bool weighted; /* there is a weight of each class */
    bool divides;  /* backward: by what a mean is divided by */
} loss;

/* The operands of a run that all rows share. */
typedef struct operands {
    const void *labels;
    const float *weights; /* (C), or NULL: 1 */
} operands;

static bool is_in(const yki_operand *operand, yk_dtype dtype, yki_layout layout)
{
    return operand->dtype == dtype && operand->layout == layout;
}

static bool is_f32(const yki_operand *operand, yki_layout layout)
{
    return is_in(operand, YK_F32, layout);
}

static bool loss_supports(const yki_device *device, const yki_kernel_desc *desc)
{
    (void)device;
    const yki_operand *logits = &desc->in[0], *labels = &desc->in[1];
    yki_layout layout = logits->layout;
    bool soft = labels->ndim == logits->ndim;
    bool good = logits->dtype == YK_F32 || logits->dtype == YK_BF16 || logits->dtype == YK_F16;
    good = good && (layout == YKI_PLAIN || logits->dims[2] * logits->dims[3] > 1);
    good = good && (soft ? is_f32(labels, layout)
                         : yki_is_index(labels->dtype) && labels->layout == YKI_PLAIN);
    for (int i = 2; i < desc->in_count; i++)
        good = good && (!yki_has_in(desc, i) || is_f32(&desc->in[i], YKI_PLAIN));
    if (desc->op == &yki_op_cross_entropy_backward)
        return good && is_in(&desc->out[0], logits->dtype, layout);
    for (int i = 0; i < desc->out_count; i++)
        good = good && (!yki_has_out(desc, i) || is_f32(&desc->out[i], YKI_PLAIN));
    return good;
}

/* What a thread keeps of a strip that is turned, and before it what it has widened. */
typedef enum room { LOGITS, LABELS, RESULTS, ROOMS } room;

static int64_t room_numbers(const loss *k)
{
    return k->turned ? k->classes * TURNED_STRIP : 0;
}

/* Of a strip, or of a sample. */
static int64_t widened_numbers(const loss *k)
{
    if (k->dtype == YK_F32)
        return 0;
    return k->pixels > 1 ? k->padded * k->strip : (k->classes + 15) / 16 * 16;
}

static size_t rooms_bytes(const loss *k)
{
    return (size_t)(widened_numbers(k) + ROOMS * room_numbers(k)) * sizeof(float);
}

/* Of each sample or strip. */
static size_t sums_bytes(const loss *k)
{
    return yki_align((size_t)(k->batch * k->strips) * sizeof(yki_pixel_sums), YKI_ALIGNMENT);
}

/* Of labels that have been narrowed. */
static size_t labels_bytes(const loss *k)
{
    const size_t count = k->wide ? (size_t)(k->batch * k->pixels) : 0;
    return yki_align(count * sizeof(int32_t), YKI_ALIGNMENT);
}

/* What is taken at a time, and of which images. */
static void set_shape(loss *k, const yki_device *device, const yki_operand *logits)
{
    k->dtype = logits->dtype;
    k->batch = logits->dims[0];
    k->classes = logits->dims[1];
    k->pixels = 1;
    for (int d = 2; d < logits->ndim; d++)
        k->pixels *= logits->dims[d];
    k->sample_pixels = k->pixels;
    k->in_rows = k->pixels == 1 && k->classes <= FEW_CLASSES && k->batch > 1;
    k->turned = k->in_rows || logits->layout == YKI_BLOCKED;
    k->block = k->in_rows ? k->classes : k->turned ? device->block : 1;
    k->padded = logits->layout == YKI_BLOCKED
                    ? yki_operand_elements(device, logits) / k->batch / k->pixels
                    : k->classes;
    if (k->in_rows) {
        k->pixels = k->batch;
        k->batch = 1;
    }
    k->strip = k->turned ? TURNED_STRIP : STRIP;
    while (!k->turned && k->dtype != YK_F32 && k->strip > LEAST_STRIP &&
           k->strip * k->classes > MOST_WIDENED)
        k->strip /= 2;
    k->strips = (k->pixels + k->strip - 1) / k->strip;
}

static yk_status loss_prepare(yki_device *device, const yki_kernel_desc *desc, yki_kernel **kernel)
{
    loss *k = yki_calloc(1, sizeof *k);
    if (!k)
        return yki_error_memory(sizeof *k, "a cross_entropy kernel");
    const yki_operand *logits = &desc->in[0];
    k->loops = yki_cpu_loops_of(device);
    set_shape(k, device, logits);
    k->wide = desc->in[1].dtype == YK_I64;
    k->wide_ignored = k->ignored = desc->attrs->ignore_index;
    if (k->wide && k->ignored != (int32_t)k->ignored)
        k->ignored = -1; /* which is no class */
    /* An exponential costs as much as several elements. */
    k->team = yki_team(device, 4 * yki_operand_count(logits));
    k->smoothing = (float)desc->attrs->label_smoothing;
    k->soft = desc->in[1].ndim == logits->ndim;
    k->mean = desc->attrs->reduction == YK_LOSS_MEAN;
    k->keep_log_sums = yki_has_out(desc, YKI_CROSS_ENTROPY_LOG_SUMS);
    k->keep_total = yki_has_out(desc, YKI_CROSS_ENTROPY_TOTAL);
    bool is_backward = desc->op == &yki_op_cross_entropy_backward;
    k->weighted = yki_has_in(desc, is_backward ? (int)YKI_CROSS_ENTROPY_BACKWARD_WEIGHT
                                               : (int)YKI_CROSS_ENTROPY_WEIGHT);
    k->divides = is_backward && yki_has_in(desc, YKI_CROSS_ENTROPY_BACKWARD_TOTAL);
    k->base.scratch = sums_bytes(k) + labels_bytes(k) + (size_t)k->team * rooms_bytes(k);
    *kernel = &k->base;
    return YK_OK;
}

static bool is_counted(const loss *k, const operands *o, int64_t n)
{
    return k->soft || ((const int32_t *)o->labels)[n] != k->ignored;
}

/* Whether any label is no class. */
YKI_VECTOR_CLONES
static bool has_stranger(const int32_t *labels, int64_t count, int64_t classes, int64_t ignored)
{
    const uint32_t limit = (uint32_t)classes;
    const int32_t passed = (int32_t)ignored;
    const bool passes = passed == ignored;
    uint32_t strangers = 0;
#pragma omp simd reduction(| : strangers)
    for (int64_t n = 0; n < count; n++)
        strangers |= ((uint32_t)labels[n] >= limit) & !(passes & (labels[n] == passed));
    return strangers != 0;
}

static yk_status check_labels(const loss *k, const void *labels)
{
    const yk_dtype dtype = k->wide ? YK_I64 : YK_I32;
    const int64_t count = k->batch * k->pixels;
    if (k->soft || (!k->wide && !has_stranger(labels, count, k->classes, k->ignored)))
        return YK_OK;
    for (int64_t n = 0; n < count; n++) {
        const int64_t label = yki_index_at(dtype, labels, n);
        if ((label < 0 || label >= k->classes) && label != k->wide_ignored)
            return yki_error(YK_ERROR_INVALID_ARGUMENT,
                             "label %lld of sample %lld is outside 0..%lld", (long long)label,
                             (long long)(n / k->sample_pixels), (long long)k->classes - 1);
    }
    return YK_OK;
}

/* Labels as the loops read them: of int64 ones, which have been checked, a copy in int32. */
static const void *narrow_labels(const loss *k, const yki_kernel_args *run, const void *labels)
{
    const int64_t *wide = labels;
    int32_t *narrow = (int32_t *)(void *)((char *)run->scratch + sums_bytes(k));
    if (!k->wide)
        return labels;
    for (int64_t n = 0; n < k->batch * k->pixels; n++)
        narrow[n] = (int32_t)(wide[n] == k->wide_ignored ? k->ignored : wide[n]);
    return narrow;
}

/* ---- samples (N, C) -------------------------------------------------------------------------- */

/* What sample n adds to the number that a mean is divided by. */
static double share_of_mean(const loss *k, const operands *o, int64_t n)
{
    if (!is_counted(k, o, n))
        return 0;
    return k->soft || !o->weights ? 1 : o->weights[((const int32_t *)o->labels)[n]];
}

/* The targets of sample n; what its class has more than the others is label_share(). */
static yki_row_targets targets_of(const loss *k, const operands *o, int64_t n)
{
    return (yki_row_targets){.labels = k->soft ? (const float *)o->labels + n * k->classes : NULL,
                             .weights = o->weights,
                             .rest = k->smoothing / (float)k->classes,
                             .given = 1 - k->smoothing};
}

static float label_share(const loss *k, const operands *o, int32_t label)
{
    return (1 - k->smoothing) * (o->weights ? o->weights[label] : 1);
}

/* The loss of sample n, and log(sum(exp(logits))) unless NULL. */
static double sample_loss(const loss *k, const operands *o, const float *logits, int64_t n,
                          float *log_sums)
{
    const yki_row_softmax s = k->loops->softmax.row(logits, NULL, k->classes);
    const yki_row_targets targets = targets_of(k, o, n);
    const double log_sum = log(s.sum);
    double taken = 0, total = 0; /* of log_sum, and of the targets */
    if (log_sums)
        log_sums[n] = (float)(s.largest + log_sum);
    if (!is_counted(k, o, n))
        return 0;
    if (k->soft || k->smoothing != 0) /* or a logit may be -infinity */
        k->loops->weigh_targets(&targets, logits, s.largest, k->classes, &taken, &total);
    if (!k->soft) {
        int32_t label = ((const int32_t *)o->labels)[n];
        double share = label_share(k, o, label);
        taken += share == 0 ? 0 : share * (logits[label] - s.largest); /* which may be infinite */
        total += share;
    }
    return total * log_sum - taken;
}

/* One sample's dlogits = (exp(logits - log_sum) * sum(target) - target) * factor. */
static void sample_slopes(const loss *k, const operands *o, int64_t n, const float *logits,
                          float log_sum, float factor, float *dlogits)
{
    const yki_row_targets targets = targets_of(k, o, n);
    double taken, total = 0;
    if (!is_counted(k, o, n)) { /* if none is, the factor is infinite */
        memset(dlogits, 0, (size_t)k->classes * sizeof *dlogits);
        return;
    }
    if (k->soft || k->smoothing != 0)
        k->loops->weigh_targets(&targets, logits, 0, k->classes, &taken, &total);
    if (k->soft) {
        k->loops->target_slopes(&targets, logits, log_sum, dlogits, (float)total, factor,
                                k->classes);
        return;
    }
    int32_t label = ((const int32_t *)o->labels)[n];
    const float share = label_share(k, o, label), probability = expf(logits[label] - log_sum);
    const float rest = targets.rest * (o->weights ? o->weights[label] : 1);
    total += share;
    k->loops->target_slopes(&targets, logits, log_sum, dlogits, (float)total, factor, k->classes);
    dlogits[label] = ((float)total * probability - (rest + share)) * factor;
}

/* ---- pixels ---------------------------------------------------------------------------------- */

static yki_pixel_loss pixels_of(const loss *k, const operands *o)
{
    const int64_t labels = k->turned ? TURNED_STRIP : k->pixels;
    yki_pixel_loss p = {.classes = k->classes,
                        .pixels = k->dtype == YK_F32 ? labels : k->strip,
                        .label_pixels = labels,
                        .weights = o->weights,
                        .smoothing = k->smoothing,
                        .soft = k->soft,
                        .ignored = k->ignored};
    for (int64_t c = 0; c < k->classes; c++)
        p.weight_sum += o->weights ? o->weights[c] : 1;
    return p;
}

/* A strip of pixels: the first among the labels that are classes, and in its first class. */
typedef struct strip {
    int64_t label, at, count;
} strip;

static strip strip_at(const loss *k, int64_t number)
{
    int64_t n = number / k->strips, first = number % k->strips * k->strip;
    int64_t left = k->pixels - first;
    return (strip){n * k->pixels + first, n * k->padded * k->pixels + first * k->block,
                   left < k->strip ? left : k->strip};
}

/* What the calling thread has widened. */
static float *widened_of(const loss *k, const yki_kernel_args *run)
{
    char *rooms = (char *)run->scratch + sums_bytes(k) + labels_bytes(k);
    return (float *)(void *)(rooms + (size_t)omp_get_thread_num() * rooms_bytes(k));
}

/* Where it keeps turned strips. */
static float *room_of(const loss *k, const yki_kernel_args *run, room which)
{
    return widened_of(k, run) + widened_numbers(k) + which * room_numbers(k);
}

/* How a strip lies in memory: in pieces, of which the first begins at strip.at. */
typedef struct pieces {
    int64_t count, numbers, apart, own_apart; /* own_apart: where it has been widened */
} pieces;

static pieces pieces_of(const loss *k, const strip *s)
{
    if (k->in_rows || k->pixels == 1)
        return (pieces){1, s->count * k->classes, 0, 0};
    return (pieces){k->padded / k->block, s->count * k->block, k->pixels * k->block,
                    k->strip * k->block};
}

/* A strip of logits in f32: where they are, or widened. */
static const float *widen(const loss *k, const yki_kernel_args *run, const void *x, const strip *s)
{
    const pieces p = pieces_of(k, s);
    float *wide = widened_of(k, run);
    if (k->dtype == YK_F32)
        return (const float *)x + s->at;
    for (int64_t i = 0; i < p.count; i++)
        yki_widen16(wide + i * p.own_apart, (const uint16_t *)x + s->at + i * p.apart, k->dtype,
                    (size_t)p.numbers);
    return wide;
}

/* Where a strip of the gradient is made; narrow() then takes it to dlogits. */
static float *slopes_of(const loss *k, const yki_kernel_args *run, void *dlogits, const strip *s)
{
    return k->dtype == YK_F32 ? (float *)dlogits + s->at : widened_of(k, run);
}

static void narrow(const loss *k, const yki_kernel_args *run, void *dlogits, const strip *s)
{
    const pieces p = pieces_of(k, s);
    const float *wide = widened_of(k, run);
    for (int64_t i = 0; k->dtype != YK_F32 && i < p.count; i++)
        yki_narrow16((uint16_t *)dlogits + s->at + i * p.apart, wide + i * p.own_apart, k->dtype,
                     (size_t)p.numbers);
}

/* What lies at x as rows of pixels; pixels: from one block of channels to the next. */
static const float *turned(const loss *k, const yki_kernel_args *run, room which, const float *x,
                           int64_t pixels, int64_t count)
{
    if (!k->turned)
        return x;
    float *rows = room_of(k, run, which);
    const yki_turn of_rows = {.x_count = k->classes,
                              .y_count = count,
                              .x_step = k->classes,
                              .y_step = TURNED_STRIP,
                              .x_room = k->classes,
                              .y_room = count,
                              .tiles = 1};
    if (k->in_rows)
        k->loops->turn(&of_rows, x, rows);
    else
        k->loops->unblock(x, k->classes, pixels, count, rows, TURNED_STRIP);
    return rows;
}

/* From rows of pixels to where x is. */
static void turn_back(const loss *k, const float *rows, int64_t pixels, int64_t count, float *x)
{
    const yki_turn of_classes = {.x_count = count,
                                 .y_count = k->classes,
                                 .x_step = TURNED_STRIP,
                                 .y_step = k->classes,
                                 .x_room = count,
                                 .y_room = k->classes,
                                 .tiles = 1};
    if (k->in_rows)
        k->loops->turn(&of_classes, rows, x);
    else
        k->loops->block(rows, TURNED_STRIP, k->classes, pixels, count, x);
}

static const void *labels_of(const loss *k, const yki_kernel_args *run, const operands *o,
                             const strip *s)
{
    if (!k->soft)
        return (const int32_t *)o->labels + s->label;
    return turned(k, run, LABELS, (const float *)o->labels + s->at, k->pixels, s->count);
}

/* From one class of a strip's numbers in f32, or block of them, to the next. */
static int64_t pixels_apart(const loss *k)
{
    return k->dtype == YK_F32 ? k->pixels : k->strip;
}

static void strip_losses(const loss *k, const yki_kernel_args *run, const operands *o,
                         const yki_pixel_loss *pixels, strip s, yki_pixel_sums *sums)
{
    const float *logits = widen(k, run, run->in[YKI_CROSS_ENTROPY_LOGITS], &s);
    float *log_sums =
        k->keep_log_sums ? (float *)run->out[YKI_CROSS_ENTROPY_LOG_SUMS] + s.label : NULL;
    k->loops->pixel_losses(pixels, turned(k, run, LOGITS, logits, pixels_apart(k), s.count),
                           labels_of(k, run, o, &s), log_sums, s.count, sums);
}

static void strip_slopes(const loss *k, const yki_kernel_args *run, const operands *o,
                         const yki_pixel_loss *pixels, strip s, float factor)
{
    const float *logits = widen(k, run, run->in[YKI_CROSS_ENTROPY_BACKWARD_LOGITS], &s),
                *log_sums = run->in[YKI_CROSS_ENTROPY_BACKWARD_LOG_SUMS];
    float *slopes = slopes_of(k, run, run->out[YKI_CROSS_ENTROPY_BACKWARD_DLOGITS], &s);
    float *rows = k->turned ? room_of(k, run, RESULTS) : slopes;
    k->loops->pixel_slopes(pixels, turned(k, run, LOGITS, logits, pixels_apart(k), s.count),
                           log_sums + s.label, labels_of(k, run, o, &s), rows, factor, s.count);
    if (rows != slopes)
        turn_back(k, rows, pixels_apart(k), s.count, slopes);
    narrow(k, run, run->out[YKI_CROSS_ENTROPY_BACKWARD_DLOGITS], &s);
}

/* ---- kernels --------------------------------------------------------------------------------- */

static yk_status cross_entropy(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const loss *k = (const loss *)kernel;
    const void *labels = run->in[YKI_CROSS_ENTROPY_LABELS];
    YK_TRY(check_labels(k, labels));
    const operands o = {narrow_labels(k, run, labels),
                        k->weighted ? run->in[YKI_CROSS_ENTROPY_WEIGHT] : NULL};
    float *log_sums = k->keep_log_sums ? run->out[YKI_CROSS_ENTROPY_LOG_SUMS] : NULL;
    const yki_pixel_loss pixels = pixels_of(k, &o);
    yki_pixel_sums *sums = run->scratch, all = {0, 0};
#pragma omp parallel for num_threads(k->team) if (k->team > 1)
    for (int64_t i = 0; i < k->batch * k->strips; i++) {
        strip s = strip_at(k, i);
        sums[i] = (yki_pixel_sums){0, 0};
        if (k->pixels > 1) {
            strip_losses(k, run, &o, &pixels, s, &sums[i]);
            continue;
        }
        const float *logits = widen(k, run, run->in[YKI_CROSS_ENTROPY_LOGITS], &s);
        sums[i] =
            (yki_pixel_sums){sample_loss(k, &o, logits, i, log_sums), share_of_mean(k, &o, i)};
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
    const float *log_sums = run->in[YKI_CROSS_ENTROPY_BACKWARD_LOG_SUMS];
    void *dlogits = run->out[YKI_CROSS_ENTROPY_BACKWARD_DLOGITS];
    const operands o = {narrow_labels(k, run, run->in[YKI_CROSS_ENTROPY_BACKWARD_LABELS]),
                        k->weighted ? run->in[YKI_CROSS_ENTROPY_BACKWARD_WEIGHT] : NULL};
    const yki_pixel_loss pixels = pixels_of(k, &o);
    float factor = *(const float *)run->in[YKI_CROSS_ENTROPY_BACKWARD_DLOSS];
    if (k->divides)
        factor /= *(const float *)run->in[YKI_CROSS_ENTROPY_BACKWARD_TOTAL];
#pragma omp parallel for num_threads(k->team) if (k->team > 1)
    for (int64_t i = 0; i < k->batch * k->strips; i++) {
        strip s = strip_at(k, i);
        if (k->pixels > 1) {
            strip_slopes(k, run, &o, &pixels, s, factor);
            continue;
        }
        const float *logits = widen(k, run, run->in[YKI_CROSS_ENTROPY_BACKWARD_LOGITS], &s);
        sample_slopes(k, &o, i, logits, log_sums[i], factor, slopes_of(k, run, dlogits, &s));
        narrow(k, run, dlogits, &s);
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

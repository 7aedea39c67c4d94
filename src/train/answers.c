/* See answers.h. */
#include "train/answers.h"

#include <math.h>

#include <yoke/train.h>

#include "tensor/element.h"
#include "tensor/tensor.h"

enum { TOP = 5 };

/* ---- labels ---------------------------------------------------------------------------------- */

static bool are_classes(const yk_tensor *labels)
{
    return yki_is_index(labels->dtype) && labels->ndim >= 1;
}

static bool are_probabilities(const yk_tensor *labels)
{
    return labels->dtype == YK_F32 && labels->ndim == 2;
}

static bool fit(const yki_label_rules *rules, const yk_tensor *logits, const yk_tensor *labels)
{
    bool whole = are_probabilities(labels) ? logits->ndim == 2
                                           : yki_labels_fit(rules, labels->ndim, labels->dims,
                                                            logits->ndim, logits->dims);
    return whole && logits->dims[0] == labels->dims[0];
}

yk_status yki_answers_create(yki_answers *answers, const yk_tensor *logits, const yk_tensor *labels,
                             yki_label_rules rules)
{
    char text[2][96];
    if (!labels || (!are_classes(labels) && !are_probabilities(labels)))
        return yki_error(
            YK_ERROR_INVALID_ARGUMENT,
            "accuracy: expected a batch with \"labels\" of shape (N), int32 or int64, "
            "or of its pixels or tokens, or of probabilities of shape (N, C), float32");
    if (!fit(&rules, logits, labels))
        return yki_error(
            YK_ERROR_INVALID_SHAPE,
            "accuracy: expected logits of shape (N, C), or of pixels or tokens; they have %s, "
            "the labels %s",
            yki_dims_text(text[0], sizeof text[0], logits->ndim, logits->dims),
            yki_dims_text(text[1], sizeof text[1], labels->ndim, labels->dims));
    *answers = (yki_answers){.logits = logits,
                             .labels = labels,
                             .rules = rules,
                             .classes = logits->dims[yki_class_dim(&rules, logits->ndim)],
                             .places = 1};
    for (int d = 1; d < logits->ndim - 1; d++)
        answers->places *= labels->dims[d];
    answers->stride = rules.classes_last ? 1 : answers->places;
    return YK_OK;
}

/* The number of labels of a batch, of samples, pixels or tokens. */
static int64_t count_labels(const yki_answers *a)
{
    return a->labels->dims[0] * a->places;
}

/* The class of a label or, of probabilities, the first of the largest. */
static int64_t label_of(const yki_answers *a, int64_t i)
{
    if (are_classes(a->labels))
        return yki_index_at(a->labels->dtype, a->labels->data, i);
    const int64_t classes = a->labels->dims[1];
    const float *row = (const float *)a->labels->data + i * classes;
    int64_t best = 0;
    for (int64_t c = 1; c < classes; c++)
        if (row[c] > row[best])
            best = c;
    return best;
}

static bool is_ignored(const yki_answers *a, int64_t label)
{
    return label == a->rules.ignored && are_classes(a->labels);
}

static bool is_class(const yki_answers *a, int64_t label)
{
    return label >= 0 && label < a->classes;
}

yk_status yki_answers_check(const yki_answers *a)
{
    for (int64_t i = 0; i < count_labels(a); i++) {
        int64_t label = label_of(a, i);
        if (!is_class(a, label) && !is_ignored(a, label))
            return yki_error(YK_ERROR_INVALID_ARGUMENT,
                             "yk_evaluate: label %lld of sample %lld of a batch is outside 0..%lld",
                             (long long)label, (long long)(i / a->places),
                             (long long)a->classes - 1);
    }
    return YK_OK;
}

/* ---- logits ---------------------------------------------------------------------------------- */

static double logit_at(const yk_tensor *logits, int64_t at)
{
    return yki_element_get(logits->dtype, logits->data, at);
}

/* *best is the class of the largest logit, the first one when several are; returns how many logits
 * are larger than the label's, or all of them if that is not a number. */
static int64_t rank_label(const yki_answers *a, int64_t i, int64_t label, int64_t *best)
{
    int64_t at = i / a->stride * a->classes * a->stride + i % a->stride, larger = 0;
    double own = is_class(a, label) ? logit_at(a->logits, at + label * a->stride) : NAN;
    double largest = logit_at(a->logits, at);
    *best = 0;
    for (int64_t c = 0; c < a->classes; c++) {
        double logit = logit_at(a->logits, at + c * a->stride);
        larger += logit > own;
        if (logit > largest) {
            largest = logit;
            *best = c;
        }
    }
    return own == own ? larger : a->classes;
}

yki_answer_counts yki_answers_count(const yki_answers *a, int64_t *confusion)
{
    yki_answer_counts counts = {0};
    for (int64_t i = 0; i < count_labels(a); i++) {
        int64_t best, label = label_of(a, i);
        if (is_ignored(a, label))
            continue;
        int64_t larger = rank_label(a, i, label, &best);
        counts.labels++;
        counts.correct += best == label;
        counts.top += larger < TOP && larger < a->classes;
        if (confusion && is_class(a, label))
            confusion[label * a->classes + best]++;
    }
    return counts;
}

yk_status yk_count_correct(int64_t *correct, yk_model *model, const yk_batch *batch)
{
    yk_tensor logits;
    yki_answers answers;
    YKI_NOT_NULL(correct);
    *correct = 0;
    YKI_NOT_NULL(model);
    YKI_NOT_NULL(batch);
    YK_TRY(yk_model_output(model, &logits));
    YK_TRY(yki_answers_create(&answers, &logits, yk_batch_find(batch, "labels"),
                              yki_model_label_rules(model)));
    *correct = yki_answers_count(&answers, NULL).correct;
    return YK_OK;
}

double yk_mean_iou(const int64_t *confusion, int64_t classes)
{
    double sum = 0;
    int64_t present = 0;
    for (int64_t k = 0; confusion && k < classes; k++) {
        double both = (double)confusion[k * classes + k], either = -both;
        for (int64_t other = 0; other < classes; other++)
            either +=
                (double)confusion[k * classes + other] + (double)confusion[other * classes + k];
        if (either == 0)
            continue;
        sum += both / either;
        present++;
    }
    return present > 0 ? sum / (double)present : NAN;
}

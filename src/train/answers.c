/* See answers.h. */
#include "train/answers.h"

#include <stdbool.h>

#include <yoke/train.h>

#include "tensor/element.h"

static double element(const yk_tensor *rows, int64_t row, int64_t column)
{
    return yki_element_get(rows->dtype, rows->data, row * rows->dims[1] + column);
}

/* The column of a row's largest element; the first one when several are. */
static int64_t largest_of(const yk_tensor *rows, int64_t row)
{
    int64_t best = 0;
    double largest = element(rows, row, 0);
    for (int64_t column = 1; column < rows->dims[1]; column++) {
        double value = element(rows, row, column);
        if (value > largest) {
            largest = value;
            best = column;
        }
    }
    return best;
}

/* What a sample is, or is for the most part. */
static int64_t label_of(const yk_tensor *labels, int64_t sample)
{
    return labels->ndim == 1 ? ((const int32_t *)labels->data)[sample] : largest_of(labels, sample);
}

/* ---- checking -------------------------------------------------------------------------------- */

yk_status yki_answers_check(const yk_tensor *logits, const yk_tensor *labels)
{
    if (!labels || !((labels->ndim == 1 && labels->dtype == YK_I32) ||
                     (labels->ndim == 2 && labels->dtype == YK_F32)))
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "yk_count_correct: expected a batch with \"labels\" of shape (N), int32, "
                         "or of probabilities of shape (N, C), float32");
    if (logits->ndim != 2 || logits->dims[0] != labels->dims[0])
        return yki_error(YK_ERROR_INVALID_SHAPE,
                         "yk_count_correct: expected logits of shape (N, C) for %lld labels; they "
                         "have %d dimensions, the first of %lld",
                         (long long)labels->dims[0], logits->ndim, (long long)logits->dims[0]);
    return YK_OK;
}

yk_status yki_answers_check_classes(const yk_tensor *logits, const yk_tensor *labels)
{
    for (int64_t i = 0; i < labels->dims[0]; i++) {
        int64_t label = label_of(labels, i);
        if (label < 0 || label >= logits->dims[1])
            return yki_error(YK_ERROR_INVALID_ARGUMENT,
                             "yk_evaluate: label %lld of sample %lld of a batch is outside 0..%lld",
                             (long long)label, (long long)i, (long long)logits->dims[1] - 1);
    }
    return YK_OK;
}

/* ---- counting -------------------------------------------------------------------------------- */

int64_t yki_answers_correct(const yk_tensor *logits, const yk_tensor *labels)
{
    int64_t correct = 0;
    for (int64_t i = 0; i < logits->dims[0]; i++)
        correct += largest_of(logits, i) == label_of(labels, i);
    return correct;
}

int64_t yki_answers_in_top(const yk_tensor *logits, const yk_tensor *labels, int64_t top)
{
    int64_t inside = 0;
    for (int64_t i = 0; i < logits->dims[0]; i++) {
        double own = element(logits, i, label_of(labels, i));
        int64_t larger = 0;
        for (int64_t c = 0; c < logits->dims[1]; c++)
            larger += element(logits, i, c) > own;
        inside += own == own && larger < top;
    }
    return inside;
}

void yki_answers_confuse(int64_t *confusion, const yk_tensor *logits, const yk_tensor *labels)
{
    for (int64_t i = 0; i < logits->dims[0]; i++)
        confusion[label_of(labels, i) * logits->dims[1] + largest_of(logits, i)]++;
}

yk_status yk_count_correct(int64_t *correct, yk_model *model, const yk_batch *batch)
{
    yk_tensor logits;
    YKI_NOT_NULL(correct);
    *correct = 0;
    YKI_NOT_NULL(model);
    YKI_NOT_NULL(batch);
    YK_TRY(yk_model_output(model, &logits));
    const yk_tensor *labels = yk_batch_find(batch, "labels");
    YK_TRY(yki_answers_check(&logits, labels));
    *correct = yki_answers_correct(&logits, labels);
    return YK_OK;
}

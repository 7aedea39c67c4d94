/*
 * A classifier's answers: logits (N, C) compared with labels (N) or, for each pixel, logits
 * (N, C, ...) with labels (N, ...), or for each token, logits (N, T, C) with labels (N, T). Labels
 * are classes, int32, or for samples the probabilities (N, C) of classes, float32, of which the
 * largest counts.
 */
#ifndef YKI_ANSWERS_H
#define YKI_ANSWERS_H

#include <yoke/tensor.h>

#include "base/error.h"
#include "model/outcome.h"

typedef struct yki_answers {
    const yk_tensor *logits, *labels;
    yki_label_rules rules;
    int64_t classes;
    int64_t places; /* labels of a sample: its pixels, its tokens, or 1 */
    int64_t stride; /* logits from one class to the next */
} yki_answers;

typedef struct yki_answer_counts {
    int64_t labels;  /* those that count */
    int64_t correct; /* with the largest logit */
    int64_t top;     /* among the five largest */
} yki_answer_counts;

/* Of a batch with these labels, or none (NULL). Only shapes are checked; data may be missing. */
yk_status yki_answers_create(yki_answers *answers, const yk_tensor *logits, const yk_tensor *labels,
                             yki_label_rules rules);
/* Refuses labels that are neither classes nor ignored. */
yk_status yki_answers_check(const yki_answers *answers);
/* Adds to confusion, (C, C) or NULL, as yk_evaluate_options says, unless a label is no class. */
yki_answer_counts yki_answers_count(const yki_answers *answers, int64_t *confusion);

#endif

/*
 * The answers of a classifier: logits (N, C), f32 or f64, compared with what the samples are:
 * labels (N), int32, or probabilities (N, C), float32, of which the largest counts.
 */
#ifndef YKI_ANSWERS_H
#define YKI_ANSWERS_H

#include <yoke/tensor.h>

#include "base/error.h"

/* Whether they have these dtypes and shapes; labels may be NULL. Comes before all others. */
yk_status yki_answers_check(const yk_tensor *logits, const yk_tensor *labels);
/* Whether each label is one of the C classes: a forward that does not read the labels has not
 * checked it. */
yk_status yki_answers_check_classes(const yk_tensor *logits, const yk_tensor *labels);

/* Samples whose label has the largest logit. */
int64_t yki_answers_correct(const yk_tensor *logits, const yk_tensor *labels);
/* Samples whose label has one of the `top` largest. */
int64_t yki_answers_in_top(const yk_tensor *logits, const yk_tensor *labels, int64_t top);
/* Adds each sample to confusion (C, C): by its label, then by the class with the largest logit. */
void yki_answers_confuse(int64_t *confusion, const yk_tensor *logits, const yk_tensor *labels);

#endif

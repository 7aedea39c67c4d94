/*
 * The loss and the logits of a forward, which the host reads when it has entered the next one, so
 * that the device always has work. On a host device they are copied at once.
 */
#ifndef YKI_OUTCOME_H
#define YKI_OUTCOME_H

#include <yoke/model.h>

#include "device/late.h"

/* Whether logits can be compared with the batch's "labels": those are classes, of samples or of the
 * logits' pixels or tokens, or the probabilities of the logits' classes. Without a loss, only the
 * batch knows; a loss that reads no such labels is not that of a classifier. */
bool yki_model_classifies(const yk_model *model);

/* How the loss reads labels that are classes, or the usual where it reads none. */
typedef struct yki_label_rules {
    int64_t ignored;   /* the label that does not count */
    bool classes_last; /* the logits' last dimension is that of the classes, not dimension 1 */
} yki_label_rules;

yki_label_rules yki_model_label_rules(const yk_model *model);
/* The dimension of the classes among `ndim` of logits. */
int yki_class_dim(const yki_label_rules *rules, int ndim);
/* Whether labels have the dimensions of logits without that of the classes; the first one, the
 * batch size, is not compared. */
bool yki_labels_fit(const yki_label_rules *rules, int label_ndim, const int64_t *labels,
                    int logit_ndim, const int64_t *logits);

typedef struct yki_outcome {
    yki_device *device;
    yki_late loss, logits;
    bool has_loss; /* that forward computed one */
    yk_dtype loss_dtype;
    yk_tensor shape; /* of the logits, without data */
} yki_outcome;

yk_status yki_outcome_create(yki_outcome *outcome, const yk_model *model);
/* Accepts one that was never created. */
void yki_outcome_destroy(yki_outcome *outcome);

/* Keeps those of the model's last forward; the loss is NAN where none was computed. The model runs
 * by itself: it is not replicated. */
yk_status yki_outcome_take(yki_outcome *outcome, const yk_model *model);
/* Waits for that forward. The logits stay until the next ones are taken. */
yk_status yki_outcome_read(yki_outcome *outcome, double *loss, yk_tensor *logits);

/* Of a model without replicas, after a forward and backward: copies the loss within the device's
 * memory, in its stream. */
yk_dtype yki_model_loss_dtype(const yk_model *model);
yk_status yki_model_copy_loss(const yk_model *model, void *to);
/* Of such a model, after any forward that computes a loss: takes it, for the host to read later.
 * late has room for a double. */
yk_status yki_model_take_loss(const yk_model *model, yki_late *late);
yk_status yki_loss_read(yki_late *late, yk_dtype dtype, double *loss);

#endif

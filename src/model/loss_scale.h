/* The factors that the gradient of the loss is multiplied by: the program's weight, and the scale
 * of the one grad scaler that has taken it (optim/scaler.c). */
#ifndef YKI_LOSS_SCALE_H
#define YKI_LOSS_SCALE_H

#include <yoke/model.h>

typedef struct yki_loss_scale {
    double factor;                      /* of the grad scaler */
    double weight;                      /* yk_model_set_loss_weight */
    bool taken;                         /* by a grad scaler */
    bool in_gradients;                  /* what backward has scaled has not been unscaled */
    yk_status (*settle)(void *context); /* of the scaler: sets the factor, if it has not yet */
    void *context;
} yki_loss_scale;

/* Fails when another grad scaler has taken the scale. settle(context) is called before a backward
 * reads the scale. */
yk_status yki_model_take_loss_scale(yk_model *model, yk_status (*settle)(void *context),
                                    void *context);
/* Gives the scale back, as 1. */
void yki_model_release_loss_scale(yk_model *model);
/* From the next backward on. */
void yki_model_set_loss_scale(yk_model *model, double scale);
/* The gradients have been divided by the scale. */
void yki_model_note_unscaled(yk_model *model);
/* Whether a grad scaler's scale is in gradients that no step has used. */
bool yki_model_is_scaled(const yk_model *model);
/* yk_model_set_loss_weight's. */
double yki_model_loss_weight(const yk_model *model);
/* Before the factor is read. */
yk_status yki_model_settle_loss_scale(const yk_model *model);

/* Makes *value the largest that any rank passes; collective. A model that is not distributed leaves
 * it as it is. */
yk_status yki_model_reduce_maximum(yk_model *model, double *value);
/* The same for a value in the device's memory, in its stream, if the ranks exchange such. */
yk_status yki_model_reduce_maximum_in_stream(yk_model *model, double *value, bool *done);
/* Whether that has anything to do. */
bool yki_model_reduces_maximum(const yk_model *model);

#endif

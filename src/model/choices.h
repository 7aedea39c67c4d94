/*
 * Shares the kernels that were chosen for a model by measuring them (device/choice.h) with
 * checkpoints and other ranks.
 */
#ifndef YKI_MODEL_CHOICES_H
#define YKI_MODEL_CHOICES_H

#include <yoke/model.h>

#include "device/choice.h"

const yki_choices *yki_model_choices(const yk_model *model);
/* Adopts choices that another run has made. If this changes any, the model makes its plans again,
 * and a backward needs a new forward. */
yk_status yki_model_adopt_choices(yk_model *model, const yki_choices *choices);
/* Makes the ranks agree, through the model's hooks, on the present choices and on later ones. */
yk_status yki_model_share_choices(yk_model *model);

#endif

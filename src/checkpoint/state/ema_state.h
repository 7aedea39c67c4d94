/*
 * The averaged weights' part of a checkpoint: the state_dict of PyTorch's AveragedModel,
 * {"n_averaged": tensor, "module.conv1.weight": tensor, ...}, as torchvision's training scripts
 * save it. The slow weights of Lookahead and the momentum of local
 * SGD's outer optimizer have the same form.
 */
#ifndef YKI_EMA_STATE_H
#define YKI_EMA_STATE_H

#include <yoke/optim.h>

#include "checkpoint/state/state_dict.h"

#define YKI_EMA_KEY            "model_ema"
#define YKI_LOOKAHEAD_KEY      "lookahead"
#define YKI_OUTER_MOMENTUM_KEY "outer_momentum"

yk_status yki_ema_state_write(yki_pth_writer *writer, const char *key, const yk_model *model,
                              yk_ema *ema);

/* What a file holds, checked and read, not yet applied. */
typedef struct yki_ema_state {
    yki_state_dict weights;
    int64_t updates;
} yki_ema_state;

/* YK_ERROR_NOT_FOUND when the file has none. Afterwards the file shows these tensors and no longer
 * the model's. */
yk_status yki_ema_state_read(yki_ema_state *state, yk_tensor_file *file, const char *key,
                             const yk_model *model);
/* Cannot fail if the averages are in host memory. */
yk_status yki_ema_state_apply(const yki_ema_state *state, const yk_model *model, yk_ema *ema);
void yki_ema_state_fini(yki_ema_state *state);

#endif

/*
 * Yoke's own part of a checkpoint: the dict "yoke", numbers and texts under the struct's names.
 * What else a run needs to go on belongs here when it is a number (a row of the table in
 * training_state.c), and beside "model" and "optimizer" in checkpoint.c when it is tensors.
 */
#ifndef YKI_TRAINING_STATE_H
#define YKI_TRAINING_STATE_H

#include <yoke/checkpoint.h>

#include "checkpoint/tensor_file/pth.h"

/*
 * optimizer may be NULL; its name and number of steps are kept here, since torch.optim keeps none.
 * Of the model it keeps the number of its forwards, and the kernels that were chosen for it.
 */
void yki_training_state_write(yki_pickle_writer *pickle, const yk_training_state *state,
                              const yk_model *model, const yk_optimizer *optimizer);
/* Whether what is written could be read again: counts of 0 or more, texts with an end. */
yk_status yki_training_state_check(const yk_training_state *state);
/* value: the pickled dict. */
yk_status yki_training_state_read(const yki_pth *pth, const yki_pickle_value *value,
                                  yk_training_state *state);
/* The model's forwards in training mode, for yk_model_set_forwards; 0 in older files. */
yk_status yki_training_state_forwards(const yki_pth *pth, const yki_pickle_value *value,
                                      int64_t *forwards);
/* The optimizer's steps, or -1; refused when the file is of another optimizer. */
yk_status yki_training_state_steps(const yki_pth *pth, const yki_pickle_value *value,
                                   const yk_optimizer *optimizer, int64_t *steps);

#endif

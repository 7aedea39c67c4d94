/* A grad scaler's state as torch.cuda.amp.GradScaler.state_dict() lays it out. */
#ifndef YKI_SCALER_STATE_H
#define YKI_SCALER_STATE_H

#include <yoke/scaler.h>

#include "checkpoint/tensor_file/pth.h"

void yki_scaler_state_write(yki_pickle_writer *pickle, const yk_grad_scaler_state *state);
/* value: the pickled dict, NULL where the file has none; without one, and with an empty one
 * (PyTorch's of a disabled scaler), the state is not enabled. yk_grad_scaler_set_state checks the
 * numbers. */
yk_status yki_scaler_state_read(const yki_pth *pth, const yki_pickle_value *value,
                                yk_grad_scaler_state *state);

#endif

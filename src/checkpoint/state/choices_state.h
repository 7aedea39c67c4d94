/*
 * The kernels that a model was trained with where they were chosen by measuring: the dict "kernels"
 * of texts, from a convolution in words to the name of its kernel. A resumed run uses them, so that
 * it computes the same bits.
 */
#ifndef YKI_CHOICES_STATE_H
#define YKI_CHOICES_STATE_H

#include "checkpoint/tensor_file/pth.h"
#include "device/choice.h"

/* Appends the dict. */
void yki_choices_state_write(yki_pickle_writer *pickle, const yki_choices *choices);
/* Reads the dict "kernels" of the dict `state` into choices, which are empty and to be freed with
 * yki_choices_fini. A file without it has none. */
yk_status yki_choices_state_read(const yki_pth *pth, const yki_pickle_value *state,
                                 yki_choices *choices);

#endif

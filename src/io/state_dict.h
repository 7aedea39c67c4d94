/* The model's part of a checkpoint: PyTorch's state_dict, names to tensors. */
#ifndef YKI_STATE_DICT_H
#define YKI_STATE_DICT_H

#include <yoke/graph.h>

#include "io/pth.h"

/* Parameters and buffers in PyTorch's order: a module's buffers follow its parameters. */
yk_status yki_state_dict_write(yki_pth_writer *writer, const yk_model *model);

/* What a file holds for each tensor of a model: parameters, then buffers. */
typedef struct yki_state_dict {
    yki_pth_view *views;
    size_t count;
} yki_state_dict;

/*
 * The state_dict in a file, be it the whole file or under "model", "model_state_dict" or
 * "state_dict"; NULL when there is none.
 */
const yki_pickle_value *yki_state_dict_find(const yki_pth *pth);
/*
 * Matches names (those of a DataParallel or DDP model, which begin with "module.", too) and shapes,
 * and reads the tensors' bytes. An error names what is missing, unexpected or differently shaped.
 */
yk_status yki_state_dict_read(yki_state_dict *dict, yki_pth *pth, const yk_model *model);
/* Copies into the model. Cannot fail. */
void yki_state_dict_apply(const yki_state_dict *dict, const yki_pth *pth, yk_model *model);
void yki_state_dict_fini(yki_state_dict *dict);

#endif

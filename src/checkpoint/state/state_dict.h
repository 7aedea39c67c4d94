/* The model's part of a checkpoint: PyTorch's state_dict, names to tensors. */
#ifndef YKI_STATE_DICT_H
#define YKI_STATE_DICT_H

#include <yoke/checkpoint.h>

#include "checkpoint/tensor_file/pth.h"
#include "checkpoint/tensor_file/tensor_file.h"

/* Parameters and buffers in PyTorch's order: a module's buffers follow its parameters. */
yk_status yki_state_dict_write(yki_pth_writer *writer, const yk_model *model);
/* The entries alone, into a dict that is being written; with ema, which may be NULL, the averages
 * under names that begin with "module.". */
yk_status yki_state_dict_write_entries(yki_pth_writer *writer, const yk_model *model,
                                       const yk_ema *ema);
/* The attribute `_metadata` of the dict that has been written: the versions of all modules that
 * hold tensors, and of those around them. averaged: of the entries of an average. */
void yki_state_dict_write_metadata(yki_pth_writer *writer, const yk_model *model, bool averaged);
/* The same alone, as safetensors, into the empty file fd. */
yk_status yki_state_dict_write_safetensors(int fd, const char *path, const yk_model *model);

/* What a file holds for each tensor of a model: parameters, then buffers. */
typedef struct yki_state_dict {
    yk_tensor_file *file;
    yki_file_tensor *tensors; /* (count) without a dtype where nothing is loaded */
    size_t count;
} yki_state_dict;

/*
 * Matches names and shapes, and reads the tensors' bytes. An error names what is missing,
 * unexpected, differently shaped, or holds numbers that the model's dtype cannot.
 */
yk_status yki_state_dict_read(yki_state_dict *dict, yk_tensor_file *file, const yk_model *model);
/* Likewise, where the options allow that not everything fits; report may be NULL. */
yk_status yki_state_dict_read_some(yki_state_dict *dict, yk_tensor_file *file,
                                   const yk_model *model, const yk_load_options *options,
                                   yk_load_report *report);
/* The elements of a tensor that is loaded. */
const void *yki_state_dict_storage(const yki_state_dict *dict, size_t index);
/* Copies into the model. Cannot fail if that is in host memory. */
yk_status yki_state_dict_apply(const yki_state_dict *dict, yk_model *model);
void yki_state_dict_fini(yki_state_dict *dict);

#endif

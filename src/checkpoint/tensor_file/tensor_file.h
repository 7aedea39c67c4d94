/*
 * Named tensors, in either format, between the files of this folder. What a model is loaded from
 * and what is converted goes through here; only tensor_file*.c knows which format it is.
 */
#ifndef YKI_TENSOR_FILE_H
#define YKI_TENSOR_FILE_H

#include <yoke/model_info.h>
#include <yoke/tensor_file.h>

#include "base/error.h"
#include "checkpoint/tensor_file/file_tensor.h"
#include "checkpoint/tensor_file/pth.h"

/* ---- reading -------------------------------------------------------------------------------- */

const char *yki_tensor_file_path(const yk_tensor_file *file);
/* The .pth file behind it, for what else a checkpoint holds; NULL for safetensors. */
yki_pth *yki_tensor_file_pth(const yk_tensor_file *file);

/* YK_ERROR_FORMAT where it holds no tensors of a model, with a line that says what it holds
 * instead. */
yk_status yki_tensor_file_check(const yk_tensor_file *file);
/* Looks from here on at the averaged weights under this key, e.g. "model_ema", and no longer at the
 * model's. YK_ERROR_NOT_FOUND, changing nothing, where the file has none. */
yk_status yki_tensor_file_choose(yk_tensor_file *file, const char *key);
/* Whether the name is "n_averaged", AveragedModel's own beside the wrapped names of the model. */
bool yki_is_n_averaged(const char *name, size_t length);
/* Its state_dict, or NULL. */
const yki_pickle_value *yki_tensor_file_dict(const yk_tensor_file *file);
/* NULL for a .pth file. */
struct yki_safetensors *yki_tensor_file_safetensors(const yk_tensor_file *file);

/* A tensor's name, length bytes of it, not terminated; NULL where the file has another thing for a
 * name. What wraps the model ("module.") comes off with yki_tensor_file_wrapper bytes of it. */
const char *yki_tensor_file_name(const yk_tensor_file *file, size_t index, size_t *length);
enum { YKI_TENSOR_LABEL = 128 };
/* The name for an error line: cut, and shown for what it is where it is not text. Returns label. */
const char *yki_tensor_file_label(const yk_tensor_file *file, size_t index,
                                  char label[YKI_TENSOR_LABEL]);
/* Bytes of wrappers, such as "module.", that all names begin with. */
size_t yki_tensor_file_wrapper(const yk_tensor_file *file);
/* The index of the tensor that has this name once its wrappers are off (wrappers.h), or -1. */
int64_t yki_tensor_file_find(const yk_tensor_file *file, const char *name);

/* What and where it is, checked; made dense it takes at most a small factor of the file's size. */
yk_status yki_tensor_file_stored(const yk_tensor_file *file, size_t index, yki_file_tensor *stored);
/* Whether all of them together do: views of one storage could be many. */
yk_status yki_tensor_file_check_total(const yk_tensor_file *file);
/* Reads the tensor's bytes, once; afterwards they are at yki_tensor_file_storage. */
yk_status yki_tensor_file_fetch(yk_tensor_file *file, const yki_file_tensor *stored);
const void *yki_tensor_file_storage(const yk_tensor_file *file, const yki_file_tensor *stored);

/* ---- writing -------------------------------------------------------------------------------- */

/* A dense tensor to be written. */
typedef struct yki_tensor_source {
    const char *name;
    yki_file_tensor stored; /* dtype and shape */
    const void *data;
    yk_device *device; /* whose memory it is in; NULL: the host's */
} yki_tensor_source;

typedef enum yki_tensor_format { YKI_PTH, YKI_SAFETENSORS } yki_tensor_format;

/* What the name of a file says: safetensors where it ends so, else .pth. */
yki_tensor_format yki_tensor_format_of(const char *path);
/* A file of these tensors, whole or not at all, and the network's description if info is given. */
yk_status yki_tensor_file_write(const char *path, yki_tensor_format format,
                                const yki_tensor_source *sources, size_t count,
                                const yk_model_info *info);

#endif

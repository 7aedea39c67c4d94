/*
 * Files of named tensors: PyTorch's .pth (a state_dict, or a checkpoint with one in it) and
 * safetensors. Which of the two a file is, its first bytes say, not its name. No file can make a
 * reader run code, or take more memory than a small factor of the file's size.
 */
#ifndef YOKE_TENSOR_FILE_H
#define YOKE_TENSOR_FILE_H

#include <yoke/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef struct yk_tensor_file yk_tensor_file;

#define YK_FILE_NAME 256 /* bytes of a tensor's name, with the zero; longer ones are refused */
#define YK_FILE_DIMS 8

/* What a file says of a tensor. dtype is PyTorch's word for it, also where yoke has no such one. */
typedef struct yk_tensor_entry {
    char name[YK_FILE_NAME];
    const char *dtype;
    int ndim;
    int64_t dims[YK_FILE_DIMS];
    int64_t count; /* elements */
    size_t bytes;  /* of all elements */
} yk_tensor_entry;

/*
 * Opens a file and reads its table of contents; tensors are read when they are asked for.
 * YK_ERROR_NOT_FOUND, YK_ERROR_IO, YK_ERROR_FORMAT (with the offset, and what was expected there),
 * YK_ERROR_UNSUPPORTED (PyTorch's format from before 1.6, TorchScript).
 */
yk_status yk_tensor_file_open(yk_tensor_file **file, const char *path);
/* Accepts NULL. */
void yk_tensor_file_close(yk_tensor_file *file);

/* "pth" or "safetensors". */
const char *yk_tensor_file_format(const yk_tensor_file *file);
/* Tensors of the state_dict, in the file's order; 0 for a .pth file that has none. */
size_t yk_tensor_file_count(const yk_tensor_file *file);
/* YK_ERROR_UNSUPPORTED for a tensor of a kind that yoke does not read, such as complex or sparse:
 * entry then holds its name and, as dtype, the word for its kind. YK_ERROR_FORMAT for a name that
 * is not text, not UTF-8 or too long. */
yk_status yk_tensor_file_entry(const yk_tensor_file *file, size_t index, yk_tensor_entry *entry);
/* The square root of the sum of squares, in f64. Reads the tensor. */
yk_status yk_tensor_file_norm(yk_tensor_file *file, size_t index, double *norm);

/*
 * Calls visit for everything else that the file holds, as texts: "optimizer.param_groups[0].lr" and
 * "0.1", or the metadata of safetensors. Long lists and dicts of tensors are counted, not listed;
 * after 1,000 texts it stops.
 */
typedef void (*yk_tensor_file_visit)(void *context, const char *name, const char *value);
void yk_tensor_file_items(const yk_tensor_file *file, yk_tensor_file_visit visit, void *context);

/** How a file of tensors is converted. */
typedef struct yk_convert_options {
    size_t size;        /**< set by YK_CONVERT_OPTIONS_INIT */
    const char *format; /**< "pth" or "safetensors"; NULL: by the ending of the name [NULL] */
    const char *dtype;  /**< of all floating-point tensors: "f32", "f16" or "bf16"; NULL: unchanged
                             [NULL] */
    const char *prefix; /**< put before every name; NULL: nothing [NULL] */
} yk_convert_options;

/** The defaults of yk_convert_options. */
#define YK_CONVERT_OPTIONS_INIT                                                                    \
    {                                                                                              \
        sizeof(yk_convert_options), NULL, NULL, NULL                                               \
    }

/*
 * Writes the state_dict of one file into another. "module." (DataParallel, DDP) and "_orig_mod."
 * (torch.compile) before all names are left off. Optimizer and training state stay behind, and so
 * does the "n_averaged" of PyTorch's AveragedModel. Numbers that are too large for a 16-bit dtype
 * become infinite, as in PyTorch.
 */
yk_status yk_tensor_file_convert(const char *from, const char *to,
                                 const yk_convert_options *options);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif

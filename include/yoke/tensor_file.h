/**
 * @file
 * Files of named tensors: PyTorch's .pth (a state_dict, or a checkpoint that holds one) and
 * safetensors. A file's first bytes, not its name, tell which of the two it is. No file can make a
 * reader run code, or use more memory than a small multiple of the file's size.
 */
#ifndef YOKE_TENSOR_FILE_H
#define YOKE_TENSOR_FILE_H

#include <yoke/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/** An open file of tensors. */
typedef struct yk_tensor_file yk_tensor_file;

/** Bytes of a tensor's name, including the final zero; longer names are refused. */
#define YK_FILE_NAME 256
/** Dimensions that a tensor of a file may have. */
#define YK_FILE_DIMS 8

/** A file's description of a tensor. */
typedef struct yk_tensor_entry {
    char name[YK_FILE_NAME];    /**< its name, in UTF-8 */
    const char *dtype;          /**< PyTorch's word for its dtype, even where yoke has none; "" on
                                     failure */
    int ndim;                   /**< dimensions */
    int64_t dims[YK_FILE_DIMS]; /**< (ndim) their sizes */
    int64_t count;              /**< elements */
    size_t bytes;               /**< of all elements */
} yk_tensor_entry;

/**
 * Opens a file and reads its table of contents; tensors are read on demand. YK_ERROR_NOT_FOUND,
 * YK_ERROR_IO, YK_ERROR_FORMAT (with the offset, and what was expected there), YK_ERROR_UNSUPPORTED
 * (PyTorch's format from before 1.6, TorchScript). On failure *file is NULL.
 */
yk_status yk_tensor_file_open(yk_tensor_file **file, const char *path);
/** Closes a file. Accepts NULL. */
void yk_tensor_file_close(yk_tensor_file *file);

/** "pth" or "safetensors"; NULL for NULL. */
const char *yk_tensor_file_format(const yk_tensor_file *file);
/** Number of tensors in the state_dict; 0 for a .pth file that has none, and for NULL. */
size_t yk_tensor_file_count(const yk_tensor_file *file);
/**
 * Describes the index-th tensor, in the file's order. YK_ERROR_UNSUPPORTED for a kind of tensor
 * that yoke cannot read, such as a complex or sparse one: entry then holds its name and, as dtype,
 * the word for its kind. YK_ERROR_FORMAT for a name that is not text, not UTF-8 or too long.
 */
yk_status yk_tensor_file_entry(const yk_tensor_file *file, size_t index, yk_tensor_entry *entry);
/** Reads a tensor and computes the square root of the sum of its squares, in f64. */
yk_status yk_tensor_file_norm(yk_tensor_file *file, size_t index, double *norm);
/**
 * Writes an entry's shape as text, such as "(64, 3, 7, 7)" or "()", and returns text. Shortens it
 * to size bytes where necessary. NULL for NULL.
 */
const char *yk_tensor_entry_shape(const yk_tensor_entry *entry, char *text, size_t size);

/** Called by yk_tensor_file_items for each item; both texts are valid only during the call. */
typedef void (*yk_tensor_file_visit)(void *context, const char *name, const char *value);
/**
 * Calls visit for everything else that the file holds, as text: for example
 * "optimizer.param_groups[0].lr" and "0.1", or the metadata of safetensors. Long lists and dicts of
 * tensors are counted instead of listed. Stops after 1,000 items. Does nothing when file or visit
 * is NULL.
 */
void yk_tensor_file_items(const yk_tensor_file *file, yk_tensor_file_visit visit, void *context);

/** How a file of tensors is converted. */
typedef struct yk_convert_options {
    size_t size;        /**< set by YK_CONVERT_OPTIONS_INIT */
    const char *format; /**< "pth" or "safetensors", or NULL to go by the name's ending [NULL] */
    const char *dtype;  /**< of floating-point tensors: "f32", "f16" or "bf16", or NULL to keep each
                             tensor's own [NULL] */
    const char *prefix; /**< put before every name, or NULL for no prefix [NULL] */
} yk_convert_options;

/** The defaults of yk_convert_options. */
#define YK_CONVERT_OPTIONS_INIT                                                                    \
    {                                                                                              \
        sizeof(yk_convert_options), NULL, NULL, NULL                                               \
    }

/**
 * Writes the state_dict of one file to another. Drops "module." (DataParallel, DDP) and
 * "_orig_mod." (torch.compile) where all names begin with them, and the "n_averaged" of PyTorch's
 * AveragedModel. Optimizer and training state are not copied. Numbers too large for a 16-bit dtype
 * become infinite, as in PyTorch.
 */
yk_status yk_tensor_file_convert(const char *from, const char *to,
                                 const yk_convert_options *options);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif

/*
 * The tensors of a network in a file. Matching is strict, as load_state_dict is: all names and all
 * shapes must fit, except for what yk_load_options allows. Only the numbers of batches that batch
 * norms have seen may be absent beside their other statistics, as they are in files from before
 * PyTorch 0.4.1; they count as 0, as in PyTorch. A tensor (K, C, L) of the file fits (K, C, 1, L).
 */
#ifndef YKI_MATCH_H
#define YKI_MATCH_H

#include <yoke/checkpoint.h>

#include "checkpoint/tensor_file/tensor_file.h"

/* A parameter or buffer of the network. */
typedef struct yki_wanted_tensor {
    const char *name;
    int ndim;
    int64_t dims[YK_MAX_DIMS];
} yki_wanted_tensor;

/* The storage of a tensor that the file lacks and that counts as 0. */
#define YKI_NOT_STORED SIZE_MAX

/* Whether this is the number of batches of a batch norm whose other statistics are in the file, and
 * the file lacks it. */
bool yki_lacks_batch_count(const yk_tensor_file *file, const char *name);

bool yki_has_shape(const yki_file_tensor *stored, int ndim, const int64_t *dims);
/* Gives a tensor (K, C, L), such as the weight of a Conv1d, the dimension that it lacks where
 * images of one row want (K, C, 1, L). */
void yki_add_row(yki_file_tensor *stored, int ndim, const int64_t *dims);

/*
 * Finds the wanted tensors: found (count, zeros before) is without a dtype where none is loaded.
 * YK_ERROR_MISMATCH names what is missing, unexpected or differently shaped; report, which may be
 * NULL, describes it as well.
 */
yk_status yki_match_tensors(yki_file_tensor *found, const yk_tensor_file *file,
                            const yki_wanted_tensor *wanted, size_t count,
                            const yk_load_options *options, yk_load_report *report);

#endif

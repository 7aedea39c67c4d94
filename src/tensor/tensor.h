/* What the library does with tensors of any dtype: their size in memory, shapes as text, sums. */
#ifndef YKI_TENSOR_H
#define YKI_TENSOR_H

#include <yoke/tensor.h>

/*
 * The bytes that a tensor takes where several lie one after the other, as parameters, gradients
 * and optimizer state do: padded to a multiple of YKI_ALIGNMENT, so that each starts aligned.
 */
size_t yki_tensor_padded_bytes(const yk_tensor *tensor);

/*
 * Writes a shape as text, "(64, 3, 7, 7)" or "()", cut to size bytes, and returns text. A negative
 * dimension, YK_BATCH, is written as N.
 */
const char *yki_dims_text(char *text, size_t size, int ndim, const int64_t *dims);

/* out[i] = scale * a[i] + b[i] for count elements in f32 or f64. out may be a or b. */
void yki_add_scaled(yk_dtype dtype, void *out, double scale, const void *a, const void *b,
                    int64_t count);

#endif

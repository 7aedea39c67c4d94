/* What the library computes with tensors of any dtype: their size in memory, and sums. */
#ifndef YKI_TENSOR_H
#define YKI_TENSOR_H

#include <yoke/tensor.h>

/*
 * The bytes that a tensor takes where several lie one after the other, as parameters, gradients
 * and optimizer state do: padded to a multiple of YKI_ALIGNMENT, so that each starts aligned.
 */
size_t yki_tensor_padded_bytes(const yk_tensor *tensor);

/* out[i] = scale * a[i] + b[i] for count elements in f32 or f64. out may be a or b. */
void yki_add_scaled(yk_dtype dtype, void *out, double scale, const void *a, const void *b,
                    int64_t count);

#endif

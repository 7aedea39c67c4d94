/* Biases of convolutions and linear layers: see kernels/bias.cu. An operand is a matrix whose
 * columns are channels. */
#ifndef YKI_CUDA_BIAS_H
#define YKI_CUDA_BIAS_H

#include "cuda.h"

/* y += bias, by the kernel of this stage. */
yk_status yki_cuda_bias_add_find(yki_cuda_kernel *kernel, int stage, const yki_operand *y);
yk_status yki_cuda_bias_add(const yki_cuda_kernel *kernel, int stage, const yki_operand *y,
                            void *memory, const void *bias, const yki_kernel_args *run);

/* dbias = the sums of the columns of dy, or of dy times factor if that is not NULL, in f32 at
 * least, by the kernels of this stage and the next. */
yk_status yki_cuda_bias_gradient_find(yki_cuda_kernel *kernel, int stage, const yki_operand *dy,
                                      bool is_product);
size_t yki_cuda_bias_gradient_bytes(const yki_operand *dy); /* of the partial sums */
yk_status yki_cuda_bias_gradient(const yki_cuda_kernel *kernel, int stage, const yki_operand *dy,
                                 const void *memory, const void *factor, void *dbias, void *partial,
                                 const yki_kernel_args *run);

#endif

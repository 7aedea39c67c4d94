/* The implementations of operators, and how the files of operators define them. */
#ifndef YKI_CUDA_IMPLEMENTATIONS_H
#define YKI_CUDA_IMPLEMENTATIONS_H

#include "cuda.h"

#define EACH(number, name) extern const yki_kernel_impl yki_cuda_##name;
#include "graph/operators.def"

/* In 16 bits, before attention.c's. */
extern const yki_kernel_impl yki_cuda_flash_attention, yki_cuda_flash_attention_backward;

/* y = f(a) or f(a, b), element by element. */
yk_status yki_cuda_run_map(const yki_kernel *kernel, const yki_kernel_args *run);

#define IMPLEMENTATION(name, supports_, prepare_, run_, place)                                     \
    const yki_kernel_impl yki_cuda_##name = {.op = &yki_op_##name,                                 \
                                             .inplace = place,                                     \
                                             .supports = supports_,                                \
                                             .prepare = prepare_,                                  \
                                             .run = run_}

#endif

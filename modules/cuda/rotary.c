/* rotary_embedding: see kernels/rotary.cu. */
#include "cuda.h"
#include "implementations.h"

static yk_status prepare(yki_device *device, const yki_kernel_desc *desc, yki_kernel **kernel)
{
    return yki_cuda_prepare_named(device, desc, "rotary", desc->in[0].dtype, true, kernel);
}

static yk_status run_rotary(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const yki_cuda_kernel *k = (const yki_cuda_kernel *)kernel;
    const yki_operand *x = &k->desc.in[YKI_ROTARY_EMBEDDING_X];
    const int64_t width = x->dims[2] / k->attrs.heads, pairs = k->attrs.rotary / 2;
    const yki_cuda_rotary_args args = {.x = run->in[YKI_ROTARY_EMBEDDING_X],
                                       .y = run->out[YKI_ROTARY_EMBEDDING_Y],
                                       .tokens = x->dims[0] * x->dims[1],
                                       .positions = x->dims[1],
                                       .first = k->attrs.first,
                                       .base = k->attrs.alpha,
                                       .heads = (int32_t)k->attrs.heads,
                                       .width = (int32_t)width,
                                       .pairs = (int32_t)pairs,
                                       .interleaved = k->attrs.interleaved,
                                       .inverse = k->attrs.inverse};
    yki_cuda_grid grid = yki_cuda_grid_of(args.tokens * (width - pairs));
    return yki_cuda_launch(k, 0, grid, &args, sizeof args, run);
}
IMPLEMENTATION(rotary_embedding, yki_cuda_supports, prepare, run_rotary, 1);

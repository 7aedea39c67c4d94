/* embedding: see kernels/embedding.cu. */
#include "cuda.h"
#include "implementations.h"

/* In f32 or f64, as the weight or its gradient. */
static bool supports(const yki_device *device, const yki_kernel_desc *desc)
{
    yk_dtype dtype = desc->out[0].dtype;
    return (dtype == YK_F32 || dtype == YK_F64) && yki_cuda_supports(device, desc);
}

static bool is_wide(const yki_operand *indices)
{
    return indices->dtype == YK_I64;
}

/* How many columns of forward's weight a thread takes. */
static int width_of(const yki_kernel_desc *desc)
{
    const yki_operand *weight = &desc->in[YKI_EMBEDDING_WEIGHT];
    return yki_cuda_width_for(weight->dtype, weight->dims[1]);
}

static yk_status prepare(yki_device *device, const yki_kernel_desc *desc, yki_kernel **kernel)
{
    const yk_dtype dtype = desc->out[0].dtype;
    return yki_cuda_prepare_named(device, desc, "embedding", dtype, width_of(desc) > 1, kernel);
}

static yk_status run_embedding(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const yki_cuda_kernel *k = (const yki_cuda_kernel *)kernel;
    const yki_operand *indices = &k->desc.in[YKI_EMBEDDING_INDICES];
    const yki_operand *weight = &k->desc.in[YKI_EMBEDDING_WEIGHT];
    const int64_t count = yki_operand_count(indices);
    const yki_cuda_embedding_args args = {.indices = run->in[YKI_EMBEDDING_INDICES],
                                          .weight = run->in[YKI_EMBEDDING_WEIGHT],
                                          .y = run->out[YKI_EMBEDDING_Y],
                                          .mistakes = k->device->mistakes,
                                          .count = count,
                                          .length = count / indices->dims[0],
                                          .rows = (int32_t)weight->dims[0],
                                          .columns = (int32_t)weight->dims[1],
                                          .wide = is_wide(indices)};
    yki_cuda_grid grid = yki_cuda_grid_of(args.count * args.columns / width_of(&k->desc));
    return yki_cuda_launch(k, 0, grid, &args, sizeof args, run);
}
IMPLEMENTATION(embedding, supports, prepare, run_embedding, 0);

static yk_status prepare_backward(yki_device *device, const yki_kernel_desc *desc,
                                  yki_kernel **kernel)
{
    return yki_cuda_prepare_named(device, desc, "embedding_backward", desc->out[0].dtype, true,
                                  kernel);
}

static yk_status run_backward(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const yki_cuda_kernel *k = (const yki_cuda_kernel *)kernel;
    const yki_operand *indices = &k->desc.in[YKI_EMBEDDING_BACKWARD_INDICES];
    const yki_operand *dweight = &k->desc.out[YKI_EMBEDDING_BACKWARD_DWEIGHT];
    const yki_cuda_embedding_args args = {.indices = run->in[YKI_EMBEDDING_BACKWARD_INDICES],
                                          .dy = run->in[YKI_EMBEDDING_BACKWARD_DY],
                                          .dweight = run->out[YKI_EMBEDDING_BACKWARD_DWEIGHT],
                                          .count = yki_operand_count(indices),
                                          .rows = (int32_t)dweight->dims[0],
                                          .columns = (int32_t)dweight->dims[1],
                                          .wide = is_wide(indices)};
    yki_cuda_grid grid = {(unsigned)args.rows, 1, 1};
    return yki_cuda_launch(k, 0, grid, &args, sizeof args, run);
}
IMPLEMENTATION(embedding_backward, supports, prepare_backward, run_backward, 0);

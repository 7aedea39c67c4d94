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

/* ---- the gradient of the weight ------------------------------------------------------------- */

enum { BACKWARD, MERGE };

/* A block looks through its slice of the indices for its rows. Rows are few where blocks would not
 * fill the GPU otherwise; then, if there still are too few blocks, indices are divided, too. */
static yki_cuda_grid divide(const yki_kernel_desc *desc, yki_cuda_embedding_args *args)
{
    const yki_operand *indices = &desc->in[YKI_EMBEDDING_BACKWARD_INDICES];
    const yki_operand *dweight = &desc->out[YKI_EMBEDDING_BACKWARD_DWEIGHT];
    const int64_t least = YKI_CUDA_THREADS; /* indices of a slice */
    *args = (yki_cuda_embedding_args){.count = yki_operand_count(indices),
                                      .rows = (int32_t)dweight->dims[0],
                                      .columns = (int32_t)dweight->dims[1],
                                      .wide = is_wide(indices)};
    const int64_t across = yki_cuda_blocks(args->columns, YKI_CUDA_THREADS);
    int64_t range = args->rows * across / YKI_CUDA_BLOCKS;
    range = range > YKI_CUDA_EMBEDDING_ROWS ? YKI_CUDA_EMBEDDING_ROWS : range;
    args->range = range < 1 ? 1 : (int32_t)range;
    const int64_t ranges = yki_cuda_blocks(args->rows, args->range);
    const int64_t most = yki_cuda_blocks(args->count, least);
    int64_t slices = YKI_CUDA_BLOCKS / (ranges * across);
    slices = slices > most ? most : slices;
    args->slice = slices < 1 ? args->count : yki_cuda_blocks(args->count, slices);
    slices = yki_cuda_blocks(args->count, args->slice);
    return (yki_cuda_grid){(unsigned)ranges, (unsigned)across, (unsigned)slices};
}

static yk_status prepare_backward(yki_device *device, const yki_kernel_desc *desc,
                                  yki_kernel **kernel)
{
    const yki_operand *dweight = &desc->out[YKI_EMBEDDING_BACKWARD_DWEIGHT];
    yki_cuda_kernel *k;
    YK_TRY(yki_cuda_prepare(device, desc, &k));
    yki_cuda_embedding_args args;
    const size_t slices = divide(desc, &args).z;
    const size_t bytes = (size_t)yki_operand_count(dweight) * yk_dtype_size(dweight->dtype);
    if (slices > 1)
        yki_cuda_reserve(k, slices * bytes);
    yk_status status = yki_cuda_find(k, BACKWARD, "embedding_backward", dweight->dtype, true);
    if (status == YK_OK)
        status = yki_cuda_find(k, MERGE, "embedding_merge", dweight->dtype, true);
    return yki_cuda_prepared(k, status, kernel);
}

static yk_status run_backward(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const yki_cuda_kernel *k = (const yki_cuda_kernel *)kernel;
    yki_cuda_embedding_args args;
    yki_cuda_grid grid = divide(&k->desc, &args);
    const yki_cuda_embedding_merge_args merge = {
        .partial = run->scratch,
        .dweight = run->out[YKI_EMBEDDING_BACKWARD_DWEIGHT],
        .count = (int64_t)args.rows * args.columns,
        .slices = grid.z,
    };
    args.indices = run->in[YKI_EMBEDDING_BACKWARD_INDICES];
    args.dy = run->in[YKI_EMBEDDING_BACKWARD_DY];
    args.dweight = merge.slices > 1 ? run->scratch : merge.dweight;
    YK_TRY(yki_cuda_launch(k, BACKWARD, grid, &args, sizeof args, run));
    if (merge.slices == 1)
        return YK_OK;
    return yki_cuda_launch(k, MERGE, yki_cuda_grid_of(merge.count), &merge, sizeof merge, run);
}
IMPLEMENTATION(embedding_backward, supports, prepare_backward, run_backward, 0);

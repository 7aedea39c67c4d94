/* What the operators share: see cuda.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "cuda.h"

/* ---- operands -------------------------------------------------------------------------------- */

yki_layout yki_cuda_layout(const yki_device *device, const yki_operand *operand)
{
    (void)device;
    return operand->ndim == 4 ? YKI_CHANNELS_LAST : YKI_PLAIN;
}

/* Kernels are those of the first operand's dtype, and bytes have none. */
static bool has_kernels(const yki_kernel_desc *desc)
{
    return desc->in[0].dtype != YK_U8;
}

static bool supported(const yki_operand *operand)
{
    return operand->ndim < 0 ||
           (operand->layout != YKI_BLOCKED && yki_operand_count(operand) <= INT32_MAX);
}

bool yki_cuda_supports_any_layout(const yki_device *device, const yki_kernel_desc *desc)
{
    (void)device;
    bool supports = has_kernels(desc);
    for (int i = 0; i < desc->in_count; i++)
        supports = supports && supported(&desc->in[i]);
    for (int i = 0; i < desc->out_count; i++)
        supports = supports && supported(&desc->out[i]);
    return supports;
}

/* Whether an operand of four dimensions has this layout. */
static bool is_laid_out(const yki_operand *operand, yki_layout layout)
{
    return operand->ndim != 4 || operand->layout == layout;
}

/* That of the first operand of four dimensions or more, of which only those of four have a choice.
 */
static yki_layout layout_of(const yki_kernel_desc *desc)
{
    for (int i = 0; i < desc->in_count; i++)
        if (desc->in[i].ndim >= 4)
            return desc->in[i].layout;
    return desc->out[0].layout;
}

bool yki_cuda_supports(const yki_device *device, const yki_kernel_desc *desc)
{
    yki_layout layout = desc->op->layouts == YKI_OF_IMAGES ? YKI_CHANNELS_LAST : layout_of(desc);
    bool supports = yki_cuda_supports_any_layout(device, desc);
    for (int i = 0; i < desc->in_count; i++)
        supports = supports && is_laid_out(&desc->in[i], layout);
    for (int i = 0; i < desc->out_count; i++)
        supports = supports && is_laid_out(&desc->out[i], layout);
    return supports;
}

bool yki_cuda_supports_full(const yki_device *device, const yki_kernel_desc *desc)
{
    yk_dtype dtype = desc->in[0].dtype;
    return (dtype == YK_F32 || dtype == YK_F64) && yki_cuda_supports(device, desc);
}

void *yki_cuda_in(const yki_cuda_kernel *kernel, const yki_kernel_args *run, int index)
{
    bool present = index < kernel->desc.in_count && kernel->desc.in[index].ndim >= 0;
    return present ? run->in[index] : NULL;
}

void *yki_cuda_out(const yki_cuda_kernel *kernel, const yki_kernel_args *run, int index)
{
    bool present = index < kernel->desc.out_count && kernel->desc.out[index].ndim >= 0;
    return present ? run->out[index] : NULL;
}

bool yki_cuda_is_real(yk_dtype dtype)
{
    return dtype == YK_F32 || dtype == YK_F64 || dtype == YK_BF16 || dtype == YK_F16;
}

size_t yki_cuda_reserve(yki_cuda_kernel *kernel, size_t bytes)
{
    size_t at = kernel->base.scratch;
    kernel->base.scratch = yki_align(at + bytes, 256);
    return at;
}

int32_t yki_cuda_columns_of(const yki_operand *operand)
{
    int last = operand->layout == YKI_CHANNELS_LAST ? 1 : operand->ndim - 1;
    return (int32_t)operand->dims[last];
}

int64_t yki_cuda_rows(const yki_operand *operand)
{
    int64_t columns = yki_cuda_columns_of(operand);
    return columns ? yki_operand_count(operand) / columns : 0;
}

int yki_cuda_width(yk_dtype dtype)
{
    return 16 / (int)yk_dtype_size(dtype);
}

int yki_cuda_width_for(yk_dtype dtype, int64_t count)
{
    int width = yki_cuda_width(dtype);
    return count % width == 0 ? width : 1;
}

/* ---- preparing and launching ----------------------------------------------------------------- */

void yki_cuda_kernel_init(yki_cuda_kernel *kernel, yki_device *device, const yki_kernel_desc *desc)
{
    kernel->device = (yki_cuda_device *)device;
    kernel->desc = *desc;
    kernel->base.matrix_unit = yk_dtype_size(desc->in[0].dtype) == 2; /* tensor cores */
    if (desc->attrs)
        kernel->attrs = *desc->attrs;
    kernel->desc.attrs = NULL;
}

yk_status yki_cuda_prepare(yki_device *device, const yki_kernel_desc *desc,
                           yki_cuda_kernel **kernel)
{
    *kernel = yki_calloc(1, sizeof **kernel);
    if (!*kernel)
        return yki_error_memory(sizeof **kernel, "a kernel of the cuda device");
    yki_cuda_kernel_init(*kernel, device, desc);
    return YK_OK;
}

const char *yki_cuda_suffix(yk_dtype dtype)
{
    switch (dtype) {
    case YK_F32:
        return "f32";
    case YK_F64:
        return "f64";
    case YK_BF16:
        return "bf16";
    case YK_F16:
        return "f16";
    default:
        return "no_number";
    }
}

yk_status yki_cuda_find_exactly(yki_cuda_kernel *kernel, int stage, const char *name)
{
    return yki_cuda_find_of_device(kernel->device, name, &kernel->stage[stage]);
}

yk_status yki_cuda_find(yki_cuda_kernel *kernel, int stage, const char *name, yk_dtype dtype,
                        bool vectors)
{
    char full[64];
    snprintf(full, sizeof full, "%s_%s%s", name, yki_cuda_suffix(dtype), vectors ? "" : "_1");
    return yki_cuda_find_exactly(kernel, stage, full);
}

yk_status yki_cuda_prepared(yki_cuda_kernel *made, yk_status status, yki_kernel **kernel)
{
    if (status == YK_OK)
        *kernel = &made->base;
    else
        free(made);
    return status;
}

yk_status yki_cuda_prepare_named(yki_device *device, const yki_kernel_desc *desc, const char *name,
                                 yk_dtype dtype, bool vectors, yki_kernel **kernel)
{
    yki_cuda_kernel *made;
    YK_TRY(yki_cuda_prepare(device, desc, &made));
    return yki_cuda_prepared(made, yki_cuda_find(made, 0, name, dtype, vectors), kernel);
}

yk_status yki_cuda_prepare_one(yki_device *device, const yki_kernel_desc *desc, const char *name,
                               bool vectors, yki_kernel **kernel)
{
    return yki_cuda_prepare_named(device, desc, name, desc->in[0].dtype, vectors, kernel);
}

yk_status yki_cuda_launch(const yki_cuda_kernel *kernel, int stage, yki_cuda_grid grid,
                          const void *args, size_t bytes, const yki_kernel_args *run)
{
    const yki_cuda_launcher *launcher = kernel->device->launcher;
    return launcher->launch(launcher, kernel->stage[stage], grid, args, bytes, run->stream);
}

/* ---- grids ----------------------------------------------------------------------------------- */

yk_status yki_cuda_convert_find(yki_cuda_kernel *kernel, int stage, yk_dtype from, yk_dtype to)
{
    char name[16];
    snprintf(name, sizeof name, "cast_%s", yki_cuda_suffix(from));
    return yki_cuda_find(kernel, stage, name, to, true);
}

yk_status yki_cuda_convert(const yki_cuda_kernel *kernel, int stage, const void *from, void *to,
                           int64_t count, const yki_kernel_args *run)
{
    yki_cuda_map_args args = {.a = from, .y = to, .count = count};
    int64_t items = (int64_t)YKI_CUDA_THREADS * YKI_CUDA_BATCH * yki_cuda_width(YK_BF16);
    yki_cuda_grid grid = {(unsigned)yki_cuda_blocks(count, items), 1, 1};
    return yki_cuda_launch(kernel, stage, grid, &args, sizeof args, run);
}

int64_t yki_cuda_blocks(int64_t items, int64_t items_of_block)
{
    return (items + items_of_block - 1) / items_of_block;
}

yki_cuda_grid yki_cuda_grid_of(int64_t items)
{
    return (yki_cuda_grid){(unsigned)yki_cuda_blocks(items, YKI_CUDA_THREADS), 1, 1};
}

/* As many blocks as large GPUs run at once, unless threads had fewer than LEAST rows each. */
enum { LEAST = 8 };

yki_cuda_grid yki_cuda_grid_of_columns(int64_t matrices, int64_t rows, int64_t columns, int width,
                                       yki_cuda_columns *at)
{
    int64_t vectors = columns / width;
    int64_t tile = vectors < YKI_CUDA_THREADS ? vectors : YKI_CUDA_THREADS;
    int64_t across = yki_cuda_blocks(vectors, tile);
    int64_t least = LEAST * (YKI_CUDA_THREADS / tile);
    int64_t most = matrices > 0 ? yki_cuda_blocks(YKI_CUDA_BLOCKS, across * matrices) : 1;
    int64_t slices = yki_cuda_blocks(rows, least);
    slices = slices > most ? most : slices;
    slices = slices < 1 ? 1 : slices;
    int64_t slice = yki_cuda_blocks(rows, slices);
    slice = slice < 1 ? 1 : slice;
    *at = (yki_cuda_columns){
        .rows = rows, .slice = slice, .columns = (int32_t)columns, .tile = (int32_t)tile};
    int64_t used = rows > 0 ? yki_cuda_blocks(rows, slice) : 1;
    return (yki_cuda_grid){(unsigned)across, (unsigned)used, 1};
}

unsigned yki_cuda_blocks_in_loops(int64_t blocks)
{
    const int64_t most = 65535;
    return (unsigned)(blocks < most ? blocks : most);
}

yki_cuda_grid yki_cuda_grid_of_transpose(const yki_cuda_transpose_args *args)
{
    if (args->columns <= YKI_CUDA_SHORT)
        return yki_cuda_grid_of(args->batch * args->out_pitch);
    if (args->out_pitch <= YKI_CUDA_SHORT) {
        int64_t pieces = yki_cuda_blocks(args->columns, YKI_CUDA_PIECE / args->out_pitch);
        return (yki_cuda_grid){(unsigned)(args->batch * pieces), 1, 1};
    }
    return (yki_cuda_grid){(unsigned)yki_cuda_blocks(args->columns, 32),
                           yki_cuda_blocks_in_loops(yki_cuda_blocks(args->out_pitch, 32)),
                           yki_cuda_blocks_in_loops(args->batch)};
}

yki_cuda_grid yki_cuda_grid_of_merge(int64_t columns)
{
    return (yki_cuda_grid){(unsigned)yki_cuda_blocks(columns, YKI_CUDA_MERGE), 1, 1};
}

size_t yki_cuda_partial_bytes(yki_cuda_grid grid, const yki_cuda_columns *at)
{
    return (size_t)grid.y * 2 * (size_t)at->columns * sizeof(double);
}

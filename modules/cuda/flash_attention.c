/*
 * scaled_dot_product_attention in 16 bits on tensor cores, whose scores are never in memory: see
 * kernels/flash_attention.cu. attention.c has the rest: f32 and f64, wide heads, those whose rows
 * do not begin at multiples of 16 bytes, and older GPUs.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "device/attention.h"
#include "implementations.h"

enum { FORWARD, DQ = FORWARD, DKV }; /* stages */
enum { VECTOR = 8, WIDEST = 128 };   /* elements */

typedef struct flash_kernel {
    yki_cuda_kernel cuda;
    yki_attention a;
    size_t means_at;
} flash_kernel;

static bool fits(const yki_attention_part *part)
{
    return part->width <= WIDEST && part->width % VECTOR == 0;
}

static bool supports(const yki_device *device, const yki_kernel_desc *desc)
{
    const yki_operand *mask = &desc->in[YKI_ATTENTION_MASK];
    const yk_dtype dtype = desc->in[0].dtype;
    if ((dtype != YK_BF16 && dtype != YK_F16) || !yki_cuda_supports_any_layout(device, desc))
        return false;
    const yki_attention a = yki_attention_of(desc);
    return ((const yki_cuda_device *)device)->flash && fits(&a.q) && fits(&a.v) &&
           (mask->ndim < 0 || mask->dtype == YK_F32);
}

/* ---- preparation ----------------------------------------------------------------------------- */

/* The narrowest kernel in which heads find room. */
static yk_status find(flash_kernel *k, int stage, const char *name)
{
    char full[64];
    const yki_kernel_desc *desc = &k->cuda.desc;
    const int64_t width = k->a.q.width > k->a.v.width ? k->a.q.width : k->a.v.width;
    const bool is_masked = desc->in[YKI_ATTENTION_MASK].ndim >= 0;
    snprintf(full, sizeof full, "%s%s_%d_%s", name, is_masked ? "_masked" : "",
             width <= 32   ? 32
             : width <= 64 ? 64
                           : WIDEST,
             yki_cuda_suffix(desc->in[0].dtype));
    return yki_cuda_find_exactly(&k->cuda, stage, full);
}

static yk_status prepare_forward(flash_kernel *k)
{
    return find(k, FORWARD, "flash_forward");
}

static yk_status prepare_backward(flash_kernel *k)
{
    const int64_t rows = k->a.batch * k->a.heads * k->a.q.rows;
    k->means_at = yki_cuda_reserve(&k->cuda, (size_t)rows * sizeof(float));
    YK_TRY(find(k, DQ, "flash_dq"));
    return find(k, DKV, "flash_dkv");
}

static yk_status prepare(yki_device *device, const yki_kernel_desc *desc,
                         yk_status (*rest)(flash_kernel *k), yki_kernel **kernel)
{
    flash_kernel *k = yki_calloc(1, sizeof *k);
    if (!k)
        return yki_error_memory(sizeof *k, "an attention kernel");
    yki_cuda_kernel_init(&k->cuda, device, desc);
    k->a = yki_attention_of(desc);
    return yki_cuda_prepared(&k->cuda, rest(k), kernel);
}

/* ---- steps ----------------------------------------------------------------------------------- */

static yki_cuda_flash_part part_of(const yki_attention_part *part)
{
    return (yki_cuda_flash_part){.first = part->first,
                                 .pitch = part->pitch,
                                 .rows = (int32_t)part->rows,
                                 .width = (int32_t)part->width};
}

/* What both directions share. */
static yki_cuda_flash_args args_of(const flash_kernel *k, const yki_kernel_args *run)
{
    const yki_attention *a = &k->a;
    return (yki_cuda_flash_args){.q = run->in[a->q.operand],
                                 .k = run->in[a->k.operand],
                                 .v = run->in[a->v.operand],
                                 .q_part = part_of(&a->q),
                                 .k_part = part_of(&a->k),
                                 .v_part = part_of(&a->v),
                                 .y_part = part_of(&a->y),
                                 .mask = yki_cuda_in(&k->cuda, run, YKI_ATTENTION_MASK),
                                 .mask_at = a->mask,
                                 .heads = (int32_t)a->heads,
                                 .group = (int32_t)a->group,
                                 .causal = a->causal,
                                 .scale = (float)a->scale,
                                 .factor = (float)(1 / (1 - a->dropout)),
                                 .dropout = a->dropout,
                                 .salt = a->salt,
                                 .seed = &run->scalars->seed,
                                 .step = &run->scalars->step};
}

/* A block for each tile of rows of each head of the part. */
static yk_status launch(const flash_kernel *k, int stage, const yki_attention_part *part,
                        const yki_cuda_flash_args *args, const yki_kernel_args *run)
{
    const int64_t heads = k->a.batch * k->a.heads / part->group;
    const int64_t tiles = heads * yki_cuda_blocks(part->rows, YKI_CUDA_FLASH);
    const yki_cuda_grid grid = {(unsigned)tiles, 1, 1};
    return tiles ? yki_cuda_launch(&k->cuda, stage, grid, args, sizeof *args, run) : YK_OK;
}

/* ---- forward --------------------------------------------------------------------------------- */

static yk_status create(yki_device *device, const yki_kernel_desc *desc, yki_kernel **kernel)
{
    return prepare(device, desc, prepare_forward, kernel);
}

static yk_status run_forward(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const flash_kernel *k = (const flash_kernel *)kernel;
    yki_cuda_flash_args args = args_of(k, run);
    args.y = run->out[YKI_ATTENTION_Y];
    args.log_sums = yki_cuda_out(&k->cuda, run, YKI_ATTENTION_LOG_SUMS);
    return launch(k, FORWARD, &k->a.q, &args, run);
}

const yki_kernel_impl yki_cuda_flash_attention = {.op = &yki_op_scaled_dot_product_attention,
                                                  .supports = supports,
                                                  .prepare = create,
                                                  .run = run_forward};

/* ---- gradients ------------------------------------------------------------------------------- */

static yk_status create_backward(yki_device *device, const yki_kernel_desc *desc,
                                 yki_kernel **kernel)
{
    return prepare(device, desc, prepare_backward, kernel);
}

/* Rows are not written where their gradient is not wanted. */
static yk_status run_backward(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const flash_kernel *k = (const flash_kernel *)kernel;
    yki_cuda_flash_args args = args_of(k, run);
    args.y = run->in[YKI_ATTENTION_BACKWARD_Y];
    args.dy = run->in[YKI_ATTENTION_BACKWARD_DY];
    args.log_sums = run->in[YKI_ATTENTION_BACKWARD_LOG_SUMS];
    args.means = (float *)((char *)run->scratch + k->means_at);
    args.dq = yki_cuda_out(&k->cuda, run, k->a.q.operand);
    args.dk = yki_cuda_out(&k->cuda, run, k->a.k.operand);
    args.dv = yki_cuda_out(&k->cuda, run, k->a.v.operand);
    YK_TRY(launch(k, DQ, &k->a.q, &args, run));
    return args.dk || args.dv ? launch(k, DKV, &k->a.k, &args, run) : YK_OK;
}

const yki_kernel_impl yki_cuda_flash_attention_backward = {
    .op = &yki_op_scaled_dot_product_attention_backward,
    .supports = supports,
    .prepare = create_backward,
    .run = run_backward};

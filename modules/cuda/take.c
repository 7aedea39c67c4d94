/* take_along_dim: see kernels/take.cu. */
#include "device/take.h"
#include "cuda.h"
#include "implementations.h"

/* The operands of forward, and of backward, which has gradients in place of two of them. */
typedef struct operands {
    const yki_operand *x, *y, *index;
} operands;

static operands operands_of(const yki_kernel_desc *desc)
{
    if (desc->op == &yki_op_take_along_dim)
        return (operands){&desc->in[YKI_TAKE_ALONG_DIM_X], &desc->out[YKI_TAKE_ALONG_DIM_Y],
                          &desc->in[YKI_TAKE_ALONG_DIM_INDEX]};
    return (operands){&desc->out[YKI_TAKE_ALONG_DIM_BACKWARD_DX],
                      &desc->in[YKI_TAKE_ALONG_DIM_BACKWARD_DY],
                      &desc->in[YKI_TAKE_ALONG_DIM_BACKWARD_INDEX]};
}

static yki_cuda_order order_of(const yki_operand *operand)
{
    if (operand->layout == YKI_PLAIN)
        return (yki_cuda_order){0, 1};
    return (yki_cuda_order){operand->dims[1], operand->dims[2] * operand->dims[3]};
}

static yki_cuda_take_args args_of(const yki_cuda_kernel *k)
{
    const operands o = operands_of(&k->desc);
    const yki_take t = yki_take_of(&k->attrs, o.x, o.index);
    return (yki_cuda_take_args){.mistakes = k->device->mistakes,
                                .count = yki_operand_count(&k->desc.out[0]),
                                .rows_of_sample = t.rows / t.samples > 0 ? t.rows / t.samples : 1,
                                .places = t.places,
                                .taken = t.taken,
                                .inner = t.inner,
                                .x_order = order_of(o.x),
                                .y_order = order_of(o.y),
                                .index_order = order_of(o.index),
                                .shared = t.shared,
                                .wide = o.index->dtype == YK_I64};
}

/* How many elements a thread takes. */
static int width_of(const yki_kernel_desc *desc, const yki_attrs *attrs)
{
    const operands o = operands_of(desc);
    const bool plain = o.x->layout == YKI_PLAIN && o.y->layout == YKI_PLAIN;
    if (!plain || o.index->layout != YKI_PLAIN)
        return 1;
    return yki_cuda_width_for(o.x->dtype, yki_take_of(attrs, o.x, o.index).inner);
}

static yk_status prepare(yki_device *device, const yki_kernel_desc *desc, yki_kernel **kernel)
{
    return yki_cuda_prepare_named(device, desc, desc->op->name, desc->out[0].dtype,
                                  width_of(desc, desc->attrs) > 1, kernel);
}

static yk_status launch(const yki_cuda_kernel *k, const yki_cuda_take_args *args,
                        const yki_kernel_args *run)
{
    const yki_cuda_grid grid = yki_cuda_grid_of(args->count / width_of(&k->desc, &k->attrs));
    return yki_cuda_launch(k, 0, grid, args, sizeof *args, run);
}

static yk_status run_take(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const yki_cuda_kernel *k = (const yki_cuda_kernel *)kernel;
    yki_cuda_take_args args = args_of(k);
    args.x = run->in[YKI_TAKE_ALONG_DIM_X];
    args.index = run->in[YKI_TAKE_ALONG_DIM_INDEX];
    args.y = run->out[YKI_TAKE_ALONG_DIM_Y];
    return launch(k, &args, run);
}
IMPLEMENTATION(take_along_dim, yki_cuda_supports_any_layout, prepare, run_take, 0);

/* ---- the gradient ---------------------------------------------------------------------------- */

enum { BACKWARD, RANGES };

/* Places are looked for beforehand where several threads would look for the same one. */
static int64_t ranges_of(const yki_kernel_desc *desc, const yki_attrs *attrs)
{
    const operands o = operands_of(desc);
    const yki_take t = yki_take_of(attrs, o.x, o.index);
    if (t.taken < 2 || t.inner == width_of(desc, attrs))
        return 0;
    return (t.shared ? 1 : t.rows) * t.places;
}

static yk_status prepare_backward(yki_device *device, const yki_kernel_desc *desc,
                                  yki_kernel **kernel)
{
    const bool vectors = width_of(desc, desc->attrs) > 1;
    yki_cuda_kernel *k;
    YK_TRY(yki_cuda_prepare(device, desc, &k));
    yki_cuda_reserve(k, (size_t)ranges_of(desc, desc->attrs) * 2 * sizeof(int32_t));
    yk_status status = yki_cuda_find_exactly(k, RANGES, "take_along_dim_ranges");
    if (status == YK_OK)
        status = yki_cuda_find(k, BACKWARD, desc->op->name, desc->out[0].dtype, vectors);
    return yki_cuda_prepared(k, status, kernel);
}

static yk_status run_backward(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const yki_cuda_kernel *k = (const yki_cuda_kernel *)kernel;
    yki_cuda_take_args args = args_of(k);
    args.dy = run->in[YKI_TAKE_ALONG_DIM_BACKWARD_DY];
    args.index = run->in[YKI_TAKE_ALONG_DIM_BACKWARD_INDEX];
    args.dx = run->out[YKI_TAKE_ALONG_DIM_BACKWARD_DX];
    args.ranges = ranges_of(&k->desc, &k->attrs);
    if (args.ranges == 0)
        return launch(k, &args, run);
    args.between = run->scratch;
    YK_TRY(yki_cuda_launch(k, RANGES, yki_cuda_grid_of(args.ranges), &args, sizeof args, run));
    return launch(k, &args, run);
}
IMPLEMENTATION(take_along_dim_backward, yki_cuda_supports_any_layout, prepare_backward,
               run_backward, 0);

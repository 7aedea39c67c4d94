/* Activations and the like, scale, cast, dropout and randn_like: see kernels/elementwise.cu. */
#include <stdio.h>

#include "cuda.h"
#include "implementations.h"

/* ---- y = f(a), y = f(a, b) ------------------------------------------------------------------- */

/* The lanes of a thread: 16 bytes of the narrower type. */
static int lanes_of(const yki_cuda_kernel *k)
{
    int in = yki_cuda_width(k->desc.in[0].dtype), out = yki_cuda_width(k->desc.out[0].dtype);
    return in > out ? in : out;
}

static yk_status launch_map(const yki_cuda_kernel *k, int stage, double alpha, double beta,
                            const yki_kernel_args *run)
{
    yki_cuda_map_args args = {.a = yki_cuda_in(k, run, 0),
                              .b = yki_cuda_in(k, run, 1),
                              .y = yki_cuda_out(k, run, 0),
                              .count = yki_operand_count(&k->desc.in[0]),
                              .alpha = alpha,
                              .beta = beta};
    int64_t items_of_block = (int64_t)YKI_CUDA_THREADS * YKI_CUDA_BATCH * lanes_of(k);
    yki_cuda_grid grid = {(unsigned)yki_cuda_blocks(args.count, items_of_block), 1, 1};
    return yki_cuda_launch(k, stage, grid, &args, sizeof args, run);
}

yk_status yki_cuda_run_map(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const yki_cuda_kernel *k = (const yki_cuda_kernel *)kernel;
    return launch_map(k, 0, k->attrs.alpha, k->attrs.beta, run);
}

#define MAP(name)                                                                                  \
    static yk_status prepare_##name(yki_device *device, const yki_kernel_desc *desc,               \
                                    yki_kernel **kernel)                                           \
    {                                                                                              \
        return yki_cuda_prepare_one(device, desc, #name, true, kernel);                            \
    }                                                                                              \
    IMPLEMENTATION(name, yki_cuda_supports_any_layout, prepare_##name, yki_cuda_run_map, 1)

MAP(relu);
MAP(relu_backward);
MAP(relu6);
MAP(relu6_backward);
MAP(gelu);
MAP(gelu_backward);
MAP(sigmoid);
MAP(sigmoid_backward);
MAP(silu);
MAP(silu_backward);
MAP(hardswish);
MAP(hardswish_backward);
MAP(tanh);
MAP(tanh_backward);
MAP(leaky_relu);
MAP(leaky_relu_backward);
MAP(elu);
MAP(elu_backward);
MAP(abs);
MAP(abs_backward);
MAP(pow);
MAP(pow_backward);
MAP(clamp);
MAP(clamp_backward);
MAP(exp);
MAP(log);
MAP(sin);
MAP(cos);
MAP(scale);
MAP(add_scalar);

static yk_status prepare_cast(yki_device *device, const yki_kernel_desc *desc, yki_kernel **kernel)
{
    char name[16];
    snprintf(name, sizeof name, "cast_%s", yki_cuda_suffix(desc->in[0].dtype));
    return yki_cuda_prepare_named(device, desc, name, desc->out[0].dtype, true, kernel);
}
IMPLEMENTATION(cast, yki_cuda_supports_any_layout, prepare_cast, yki_cuda_run_map, 0);

/* ---- dropout, randn_like --------------------------------------------------------------------- */

static bool is_vectors(const yki_kernel_desc *desc)
{
    const yki_operand *x = &desc->in[0];
    return yki_cuda_width_for(x->dtype, yki_cuda_columns_of(x)) > 1;
}

/* Each element with the draw of its place. */
static yk_status launch_draws(const yki_cuda_kernel *k, const yki_kernel_args *run)
{
    const yki_operand *x = &k->desc.in[0];
    bool last = x->layout == YKI_CHANNELS_LAST;
    yki_cuda_draw_args args = {.x = yki_cuda_in(k, run, 0),
                               .y = yki_cuda_out(k, run, 0),
                               .rows = yki_cuda_rows(x),
                               .image = last ? x->dims[2] * x->dims[3] : 1,
                               .columns = yki_cuda_columns_of(x),
                               .p = k->attrs.p,
                               .salt = k->attrs.salt,
                               .seed = &run->scalars->seed,
                               .step = &run->scalars->step};
    int64_t items = args.rows * args.columns / yki_cuda_width_for(x->dtype, args.columns);
    return yki_cuda_launch(k, 0, yki_cuda_grid_of(items), &args, sizeof args, run);
}

/* In evaluation it is a copy, which is scaled by 1. */
static yk_status prepare_dropout(yki_device *device, const yki_kernel_desc *desc,
                                 yki_kernel **kernel)
{
    return desc->training ? yki_cuda_prepare_one(device, desc, "dropout", is_vectors(desc), kernel)
                          : yki_cuda_prepare_one(device, desc, "scale", true, kernel);
}

static yk_status run_dropout(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const yki_cuda_kernel *k = (const yki_cuda_kernel *)kernel;
    return k->desc.training ? launch_draws(k, run) : launch_map(k, 0, 1, 0, run);
}
IMPLEMENTATION(dropout, yki_cuda_supports, prepare_dropout, run_dropout, 1);
IMPLEMENTATION(dropout_backward, yki_cuda_supports, prepare_dropout, run_dropout, 1);

static yk_status prepare_randn_like(yki_device *device, const yki_kernel_desc *desc,
                                    yki_kernel **kernel)
{
    return yki_cuda_prepare_one(device, desc, "randn_like", is_vectors(desc), kernel);
}

static yk_status run_randn_like(const yki_kernel *kernel, const yki_kernel_args *run)
{
    return launch_draws((const yki_cuda_kernel *)kernel, run);
}
IMPLEMENTATION(randn_like, yki_cuda_supports, prepare_randn_like, run_randn_like, 1);

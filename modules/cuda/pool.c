/* Pooling: see kernels/pool.cu. */
#include "cuda.h"
#include "implementations.h"

static bool supports(const yki_device *device, const yki_kernel_desc *desc)
{
    return desc->in[0].ndim == 4 && yki_cuda_supports(device, desc);
}

static yk_status prepare(yki_device *device, const yki_kernel_desc *desc, const char *name,
                         yki_kernel **kernel)
{
    bool vectors = yki_cuda_width_for(desc->in[0].dtype, desc->in[0].dims[1]) > 1;
    return yki_cuda_prepare_one(device, desc, name, vectors, kernel);
}

/* x is the larger image, which is the output in backward. */
static yki_cuda_pool_args args_of(const yki_cuda_kernel *k, const yki_kernel_args *run,
                                  bool backward)
{
    const yki_operand *x = backward ? &k->desc.out[0] : &k->desc.in[0];
    const yki_operand *y = backward ? &k->desc.in[0] : &k->desc.out[0];
    return (yki_cuda_pool_args){.in = yki_cuda_in(k, run, 0),
                                .out = yki_cuda_out(k, run, 0),
                                .batch = (int32_t)x->dims[0],
                                .columns = (int32_t)x->dims[1],
                                .h = (int32_t)x->dims[2],
                                .w = (int32_t)x->dims[3],
                                .p = (int32_t)y->dims[2],
                                .q = (int32_t)y->dims[3],
                                .kernel = (int32_t)k->attrs.kernel,
                                .stride = (int32_t)k->attrs.stride,
                                .padding = (int32_t)k->attrs.padding};
}

/* A thread for each vector of the output. */
static yk_status launch(const yki_cuda_kernel *k, const yki_cuda_pool_args *args,
                        const yki_kernel_args *run)
{
    int64_t items = yki_operand_count(&k->desc.out[0]);
    items /= yki_cuda_width_for(k->desc.in[0].dtype, args->columns);
    return yki_cuda_launch(k, 0, yki_cuda_grid_of(items), args, sizeof *args, run);
}

static yk_status run_forward(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const yki_cuda_kernel *k = (const yki_cuda_kernel *)kernel;
    yki_cuda_pool_args args = args_of(k, run, false);
    args.index = yki_cuda_out(k, run, YKI_MAX_POOL2D_INDEX);
    return launch(k, &args, run);
}

static yk_status run_backward(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const yki_cuda_kernel *k = (const yki_cuda_kernel *)kernel;
    yki_cuda_pool_args args = args_of(k, run, true);
    args.index = yki_cuda_in(k, run, YKI_MAX_POOL2D_BACKWARD_INDEX);
    return launch(k, &args, run);
}

/* A block for 32 vectors of channels of each image. */
static yk_status run_global(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const yki_cuda_kernel *k = (const yki_cuda_kernel *)kernel;
    yki_cuda_pool_args args = args_of(k, run, false);
    int width = yki_cuda_width_for(k->desc.in[0].dtype, args.columns);
    yki_cuda_grid grid = {(unsigned)yki_cuda_blocks(args.columns / width, 32),
                          yki_cuda_blocks_in_loops(args.batch), 1};
    return yki_cuda_launch(k, 0, grid, &args, sizeof args, run);
}

#define POOL(name, kernel_name, run_)                                                              \
    static yk_status prepare_##name(yki_device *device, const yki_kernel_desc *desc,               \
                                    yki_kernel **kernel)                                           \
    {                                                                                              \
        return prepare(device, desc, kernel_name, kernel);                                         \
    }                                                                                              \
    IMPLEMENTATION(name, supports, prepare_##name, run_, 0)

POOL(max_pool2d, "max_pool", run_forward);
POOL(max_pool2d_backward, "max_pool_backward", run_backward);
POOL(avg_pool2d, "avg_pool", run_forward);
POOL(avg_pool2d_backward, "avg_pool_backward", run_backward);
POOL(global_avg_pool2d, "global_pool", run_global);
POOL(global_avg_pool2d_backward, "global_pool_backward", run_backward);
POOL(adaptive_avg_pool2d, "adaptive_pool", run_forward);
POOL(adaptive_avg_pool2d_backward, "adaptive_pool_backward", run_backward);

/* Pooling, and images of another size: see kernels/pool.cu and kernels/interpolate.cu. */
#include <stdio.h>

#include "cuda.h"
#include "implementations.h"

static bool supports(const yki_device *device, const yki_kernel_desc *desc)
{
    return desc->in[0].ndim == 4 && yki_cuda_supports(device, desc);
}

/* ---- which kernel ---------------------------------------------------------------------------- */

static yk_status prepare(yki_device *device, const yki_kernel_desc *desc, const char *name,
                         yki_kernel **kernel)
{
    bool vectors = yki_cuda_width_for(desc->in[0].dtype, desc->in[0].dims[1]) > 1;
    return yki_cuda_prepare_one(device, desc, name, vectors, kernel);
}

/* Whether there are kernels for this size and stride of windows, which take vectors only. */
static bool is_fixed(const yki_kernel_desc *desc, const yki_attrs *attrs)
{
    const int64_t kernel = attrs->kernel[0], stride = attrs->stride[0];
    bool halves = stride == 2 && (kernel == 2 || kernel == 3), thirds = stride == 3 && kernel == 3;
    return yki_is_square(attrs) && (halves || thirds) &&
           yki_cuda_width_for(desc->in[0].dtype, desc->in[0].dims[1]) > 1;
}

/* name: of the kernel for windows of any size. */
static yk_status prepare_max(yki_device *device, const yki_kernel_desc *desc, const char *name,
                             yki_kernel **kernel)
{
    const yki_attrs *attrs = desc->attrs;
    char full[48];
    if (is_fixed(desc, attrs))
        snprintf(full, sizeof full, "%s_%d_%d", name, (int)attrs->kernel[0], (int)attrs->stride[0]);
    else
        snprintf(full, sizeof full, "%s%s", name,
                 yki_max_pool2d_index_dtype(attrs->kernel) == YK_U8 ? "" : "_wide");
    return prepare(device, desc, full, kernel);
}

/* ---- launching ------------------------------------------------------------------------------- */

/* x is the larger image, which is the output in backward. */
static yki_cuda_pool_args args_of(const yki_cuda_kernel *k, const yki_kernel_args *run,
                                  bool backward)
{
    const yki_operand *x = backward ? &k->desc.out[0] : &k->desc.in[0];
    const yki_operand *y = backward ? &k->desc.in[0] : &k->desc.out[0];
    const yki_attrs *a = &k->attrs;
    return (yki_cuda_pool_args){.in = yki_cuda_in(k, run, 0),
                                .out = yki_cuda_out(k, run, 0),
                                .batch = (int32_t)x->dims[0],
                                .columns = (int32_t)x->dims[1],
                                .h = (int32_t)x->dims[2],
                                .w = (int32_t)x->dims[3],
                                .p = (int32_t)y->dims[2],
                                .q = (int32_t)y->dims[3],
                                .kernel = {(int32_t)a->kernel[0], (int32_t)a->kernel[1]},
                                .stride = {(int32_t)a->stride[0], (int32_t)a->stride[1]},
                                .padding = {(int32_t)a->padding[0], (int32_t)a->padding[1]},
                                .count_include_pad = a->count_include_pad};
}

/* A thread for each vector of channels at each of the places. */
static yk_status launch(const yki_cuda_kernel *k, yki_cuda_pool_args *args, int64_t down,
                        int64_t across, const yki_kernel_args *run)
{
    int64_t vectors = args->columns / yki_cuda_width_for(k->desc.in[0].dtype, args->columns);
    args->down = (int32_t)down;
    args->across = (int32_t)across;
    return yki_cuda_launch(k, 0, yki_cuda_grid_of(args->batch * down * across * vectors), args,
                           sizeof *args, run);
}

static yk_status run_forward(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const yki_cuda_kernel *k = (const yki_cuda_kernel *)kernel;
    yki_cuda_pool_args args = args_of(k, run, false);
    return launch(k, &args, args.p, args.q, run);
}

static yk_status run_backward(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const yki_cuda_kernel *k = (const yki_cuda_kernel *)kernel;
    yki_cuda_pool_args args = args_of(k, run, true);
    return launch(k, &args, args.h, args.w, run);
}

/* Strips of results. */
static yk_status run_max(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const yki_cuda_kernel *k = (const yki_cuda_kernel *)kernel;
    yki_cuda_pool_args args = args_of(k, run, false);
    bool fixed = is_fixed(&k->desc, &k->attrs);
    args.index = yki_cuda_out(k, run, YKI_MAX_POOL2D_INDEX);
    return launch(k, &args, fixed ? yki_cuda_blocks(args.p, YKI_CUDA_STRIP) : args.p, args.q, run);
}

/* Strips of cells, of which the first begin in the padding. */
static yk_status run_max_backward(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const yki_cuda_kernel *k = (const yki_cuda_kernel *)kernel;
    yki_cuda_pool_args args = args_of(k, run, true);
    args.index = yki_cuda_in(k, run, YKI_MAX_POOL2D_BACKWARD_INDEX);
    if (!is_fixed(&k->desc, &k->attrs))
        return launch(k, &args, args.h, args.w, run);
    int64_t down = yki_cuda_blocks(args.h + args.padding[0], args.stride[0]);
    int64_t across = yki_cuda_blocks(args.w + args.padding[1], args.stride[1]);
    return launch(k, &args, yki_cuda_blocks(down, YKI_CUDA_STRIP), across, run);
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

/* ---- images of another size: a thread for each vector of channels of each result ------------- */

static yk_status run_resized(const yki_cuda_kernel *k, const yki_kernel_args *run, bool backward)
{
    const yki_attrs *a = &k->attrs;
    const yki_operand *out = &k->desc.out[0];
    yki_cuda_pool_args images = args_of(k, run, backward);
    images.down = (int32_t)out->dims[2];
    images.across = (int32_t)out->dims[3];
    const yki_cuda_interpolate_args args = {
        .images = images,
        .down = yki_axis_of(a->bilinear, a->align_corners, images.h, images.p),
        .across = yki_axis_of(a->bilinear, a->align_corners, images.w, images.q)};
    const int64_t vectors = out->dims[1] / yki_cuda_width_for(out->dtype, out->dims[1]);
    yki_cuda_grid grid = yki_cuda_grid_of(out->dims[0] * out->dims[2] * out->dims[3] * vectors);
    return yki_cuda_launch(k, 0, grid, &args, sizeof args, run);
}

static yk_status run_interpolate(const yki_kernel *kernel, const yki_kernel_args *run)
{
    return run_resized((const yki_cuda_kernel *)kernel, run, false);
}

static yk_status run_interpolate_backward(const yki_kernel *kernel, const yki_kernel_args *run)
{
    return run_resized((const yki_cuda_kernel *)kernel, run, true);
}

/* ---- the operators --------------------------------------------------------------------------- */

#define POOL(name, prepare_, kernel_name, run_)                                                    \
    static yk_status prepare_##name(yki_device *device, const yki_kernel_desc *desc,               \
                                    yki_kernel **kernel)                                           \
    {                                                                                              \
        return prepare_(device, desc, kernel_name, kernel);                                        \
    }                                                                                              \
    IMPLEMENTATION(name, supports, prepare_##name, run_, 0)

POOL(max_pool2d, prepare_max, "max_pool", run_max);
POOL(max_pool2d_backward, prepare_max, "max_pool_backward", run_max_backward);
POOL(avg_pool2d, prepare, "avg_pool", run_forward);
POOL(avg_pool2d_backward, prepare, "avg_pool_backward", run_backward);
POOL(global_avg_pool2d, prepare, "global_pool", run_global);
POOL(global_avg_pool2d_backward, prepare, "global_pool_backward", run_backward);
POOL(adaptive_avg_pool2d, prepare, "adaptive_pool", run_forward);
POOL(adaptive_avg_pool2d_backward, prepare, "adaptive_pool_backward", run_backward);
POOL(interpolate, prepare, "interpolate", run_interpolate);
POOL(interpolate_backward, prepare, "interpolate_backward", run_interpolate_backward);

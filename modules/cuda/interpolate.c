/* Images of another size: see kernels/interpolate.cu. */
#include "cuda.h"
#include "implementations.h"

static bool supports(const yki_device *device, const yki_kernel_desc *desc)
{
    return desc->in[0].ndim == 4 && yki_cuda_supports(device, desc);
}

static yk_status prepare(yki_device *device, const yki_kernel_desc *desc, const char *name,
                         yki_kernel **kernel)
{
    const bool vectors = yki_cuda_width_for(desc->in[0].dtype, desc->in[0].dims[1]) > 1;
    return yki_cuda_prepare_one(device, desc, name, vectors, kernel);
}

static yk_status prepare_interpolate(yki_device *device, const yki_kernel_desc *desc,
                                     yki_kernel **kernel)
{
    return prepare(device, desc, "interpolate", kernel);
}

static yk_status prepare_interpolate_backward(yki_device *device, const yki_kernel_desc *desc,
                                              yki_kernel **kernel)
{
    return prepare(device, desc, "interpolate_backward", kernel);
}

/* A thread for each vector of channels of each pixel of the result. */
static yk_status launch(const yki_cuda_kernel *k, const yki_kernel_args *run, const yki_operand *x,
                        const yki_operand *y)
{
    const yki_operand *out = &k->desc.out[0];
    const yki_attrs *a = &k->attrs;
    const yki_cuda_interpolate_args args = {
        .images = {.in = yki_cuda_in(k, run, 0),
                   .out = yki_cuda_out(k, run, 0),
                   .batch = (int32_t)x->dims[0],
                   .columns = (int32_t)x->dims[1],
                   .h = (int32_t)x->dims[2],
                   .w = (int32_t)x->dims[3],
                   .p = (int32_t)y->dims[2],
                   .q = (int32_t)y->dims[3],
                   .down = (int32_t)out->dims[2],
                   .across = (int32_t)out->dims[3]},
        .down = yki_axis_of(a->bilinear, a->align_corners, x->dims[2], y->dims[2]),
        .across = yki_axis_of(a->bilinear, a->align_corners, x->dims[3], y->dims[3])};
    const int64_t vectors = x->dims[1] / yki_cuda_width_for(x->dtype, x->dims[1]);
    const int64_t threads = out->dims[0] * out->dims[2] * out->dims[3] * vectors;
    return yki_cuda_launch(k, 0, yki_cuda_grid_of(threads), &args, sizeof args, run);
}

static yk_status run_interpolate(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const yki_cuda_kernel *k = (const yki_cuda_kernel *)kernel;
    return launch(k, run, &k->desc.in[0], &k->desc.out[0]);
}

static yk_status run_interpolate_backward(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const yki_cuda_kernel *k = (const yki_cuda_kernel *)kernel;
    return launch(k, run, &k->desc.out[0], &k->desc.in[0]);
}

IMPLEMENTATION(interpolate, supports, prepare_interpolate, run_interpolate, 0);
IMPLEMENTATION(interpolate_backward, supports, prepare_interpolate_backward,
               run_interpolate_backward, 0);

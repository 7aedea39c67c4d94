/* amax and amin, and their gradient: see kernels/amax.cu. */
#include "cuda.h"
#include "device/middle.h"
#include "implementations.h"

#include <stdio.h>

enum { LEAST_THREADS = 4096 /* that are worth a thread for each column */ };

/* x, which is (outer, size, inner) in memory; not the addresses. */
static yki_cuda_amax_args args_of(const yki_operand *x, int64_t dim)
{
    const yki_middle m = yki_middle_of(x, dim, 1);
    return (yki_cuda_amax_args){.count = m.outer * m.inner, .size = m.size, .inner = m.inner};
}

static int width_of(const yki_operand *x, const yki_cuda_amax_args *args)
{
    return yki_cuda_width_for(x->dtype, args->inner);
}

static bool has_columns(const yki_operand *x, const yki_cuda_amax_args *args)
{
    return args->inner > 1 && args->count / width_of(x, args) >= LEAST_THREADS;
}

static yk_status prepare_for(yki_device *device, const yki_kernel_desc *desc, const yki_operand *x,
                             yki_kernel **kernel)
{
    char name[32];
    const yki_cuda_amax_args args = args_of(x, desc->attrs->dim);
    const bool columns = has_columns(x, &args);
    snprintf(name, sizeof name, "%s%s", desc->op->name, columns ? "_columns" : "");
    return yki_cuda_prepare_one(device, desc, name, !columns || width_of(x, &args) > 1, kernel);
}

static yk_status prepare_amax(yki_device *device, const yki_kernel_desc *desc, yki_kernel **kernel)
{
    return prepare_for(device, desc, &desc->in[YKI_AMAX_X], kernel);
}

static yk_status prepare_amax_backward(yki_device *device, const yki_kernel_desc *desc,
                                       yki_kernel **kernel)
{
    return prepare_for(device, desc, &desc->in[YKI_AMAX_BACKWARD_X], kernel);
}

static yk_status launch(const yki_cuda_kernel *k, const yki_operand *x,
                        const yki_cuda_amax_args *args, const yki_kernel_args *run)
{
    const int64_t threads =
        has_columns(x, args) ? args->count / width_of(x, args) : args->count * 32;
    return yki_cuda_launch(k, 0, yki_cuda_grid_of(threads), args, sizeof *args, run);
}

static yk_status run_amax(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const yki_cuda_kernel *k = (const yki_cuda_kernel *)kernel;
    const yki_operand *x = &k->desc.in[YKI_AMAX_X];
    yki_cuda_amax_args args = args_of(x, k->attrs.dim);
    args.x = yki_cuda_in(k, run, YKI_AMAX_X);
    args.to = yki_cuda_out(k, run, YKI_AMAX_Y);
    return launch(k, x, &args, run);
}

static yk_status run_amax_backward(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const yki_cuda_kernel *k = (const yki_cuda_kernel *)kernel;
    const yki_operand *x = &k->desc.in[YKI_AMAX_BACKWARD_X];
    yki_cuda_amax_args args = args_of(x, k->attrs.dim);
    args.x = yki_cuda_in(k, run, YKI_AMAX_BACKWARD_X);
    args.y = yki_cuda_in(k, run, YKI_AMAX_BACKWARD_Y);
    args.dy = yki_cuda_in(k, run, YKI_AMAX_BACKWARD_DY);
    args.to = yki_cuda_out(k, run, YKI_AMAX_BACKWARD_DX);
    return launch(k, x, &args, run);
}

IMPLEMENTATION(amax, yki_cuda_supports, prepare_amax, run_amax, 0);
IMPLEMENTATION(amin, yki_cuda_supports, prepare_amax, run_amax, 0);
IMPLEMENTATION(amax_backward, yki_cuda_supports, prepare_amax_backward, run_amax_backward, 0);

/* The ref device itself: one thread, plain layout, and what its kernels share. */
#include "device/ref/ref.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

static yk_status ref_create(yki_device **device, const yki_device_options *options)
{
    (void)options;
    yki_device *made = yki_calloc(1, sizeof *made);
    if (!made)
        return yki_error_memory(sizeof *made, "the ref device");
    made->type = &yki_device_ref;
    made->threads = 1;
    snprintf(made->description, sizeof made->description, "ref: plain C, 1 thread");
    *device = made;
    return YK_OK;
}

static void ref_destroy(yki_device *device)
{
    free(device);
}

static yki_layout layout(const yki_device *device, const yki_operand *operand)
{
    (void)device, (void)operand;
    return YKI_PLAIN;
}

static const yki_kernel_impl *const kernels[] = {
#define EACH(number, name) &yki_ref_##name,
#include "graph/operators.def"
    NULL,
};

const yki_device_type yki_device_ref = {.name = "ref",
                                        .create = ref_create,
                                        .destroy = ref_destroy,
                                        .layout = layout,
                                        .kernels = kernels,
                                        .sweep = yki_ref_sweep,
                                        .muon = &yki_ref_muon,
                                        .pictures = yki_ref_pictures,
                                        .memory = &yki_host_memory};

/* ---- what the kernels share ----------------------------------------------------------------- */

static bool plain(const yki_operand *operand)
{
    return operand->ndim < 0 || operand->layout == YKI_PLAIN;
}

bool yki_ref_supports(const yki_device *device, const yki_kernel_desc *desc)
{
    (void)device;
    for (int i = 0; i < desc->in_count; i++)
        if (!plain(&desc->in[i]))
            return false;
    for (int i = 0; i < desc->out_count; i++)
        if (!plain(&desc->out[i]))
            return false;
    return true;
}

yk_status yki_ref_prepare(yki_device *device, const yki_kernel_desc *desc, yki_kernel **kernel)
{
    (void)device;
    yki_ref_kernel *made = yki_calloc(1, sizeof *made);
    if (!made)
        return yki_error_memory(sizeof *made, "a kernel of the ref device");
    made->desc = *desc;
    if (desc->attrs) /* a reorder that the planner inserts has none */
        made->attrs = *desc->attrs;
    made->desc.attrs = NULL; /* it is the caller's; this kernel uses its copy */
    *kernel = &made->base;
    return YK_OK;
}

const yki_attrs *yki_ref_attrs(const yki_kernel *kernel)
{
    return &((const yki_ref_kernel *)kernel)->attrs;
}

bool yki_ref_training(const yki_kernel *kernel)
{
    return ((const yki_ref_kernel *)kernel)->desc.training;
}

static yk_tensor tensor(const yki_operand *operand, void *data)
{
    yk_tensor view = {.data = data, .dtype = operand->dtype, .ndim = operand->ndim};
    memcpy(view.dims, operand->dims, sizeof view.dims);
    return view;
}

yk_tensor yki_ref_in(const yki_kernel *kernel, const yki_kernel_args *run, int index)
{
    const yki_kernel_desc *desc = &((const yki_ref_kernel *)kernel)->desc;
    bool present = index < desc->in_count && desc->in[index].ndim >= 0;
    return present ? tensor(&desc->in[index], run->in[index]) : (yk_tensor){.ndim = -1};
}

yk_tensor yki_ref_out(const yki_kernel *kernel, const yki_kernel_args *run, int index)
{
    const yki_kernel_desc *desc = &((const yki_ref_kernel *)kernel)->desc;
    bool present = index < desc->out_count && desc->out[index].ndim >= 0;
    return present ? tensor(&desc->out[index], run->out[index]) : (yk_tensor){.ndim = -1};
}

yk_status yki_ref_in_f64(const yki_kernel *kernel, const yki_kernel_args *run, int index,
                         yk_tensor *copy)
{
    yk_tensor operand = yki_ref_in(kernel, run, index);
    int64_t count = yk_tensor_count(&operand);
    assert(operand.data || !count);
    double *elements = yki_calloc((size_t)count, sizeof *elements);
    if (!elements)
        return yki_error_memory((size_t)count * sizeof *elements, "an operand in f64");
    for (int64_t i = 0; i < count; i++)
        elements[i] = yki_ref_get(&operand, i);
    *copy = operand;
    copy->dtype = YK_F64;
    copy->data = elements;
    return YK_OK;
}

/* ---- element by element ---------------------------------------------------------------------- */

void yki_ref_map(const yki_kernel *kernel, const yki_kernel_args *run, yki_ref_unary_fn f)
{
    yk_tensor x = yki_ref_in(kernel, run, 0), y = yki_ref_out(kernel, run, 0);
    if (!x.data || !y.data) /* there are no elements */
        return;
    int64_t count = yk_tensor_count(&x);
    for (int64_t i = 0; i < count; i++)
        yki_ref_set(&y, i, f(yki_ref_get(&x, i), yki_ref_attrs(kernel)));
}

void yki_ref_map2(const yki_kernel *kernel, const yki_kernel_args *run, yki_ref_binary_fn f)
{
    yk_tensor a = yki_ref_in(kernel, run, 0), b = yki_ref_in(kernel, run, 1);
    yk_tensor y = yki_ref_out(kernel, run, 0);
    if (!a.data || !b.data || !y.data) /* there are no elements */
        return;
    int64_t count = yk_tensor_count(&a);
    for (int64_t i = 0; i < count; i++)
        yki_ref_set(&y, i, f(yki_ref_get(&a, i), yki_ref_get(&b, i), yki_ref_attrs(kernel)));
}

void yki_ref_each_pixel(const yki_kernel *kernel, const yki_kernel_args *run, yki_ref_pixel_fn body)
{
    yk_tensor out = yki_ref_out(kernel, run, 0);
    for (int64_t n = 0; n < out.dims[0]; n++)
        for (int64_t c = 0; c < out.dims[1]; c++)
            for (int64_t h = 0; h < out.dims[2]; h++)
                for (int64_t w = 0; w < out.dims[3]; w++)
                    body(kernel, run, n, c, h, w);
}

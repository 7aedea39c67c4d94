/*
 * Kernels for operands in a device's own layout, made of kernels that only know row-major ones:
 * inputs are copied to scratch memory in row-major order, and outputs from there. It is how host
 * devices run whatever they have no kernel of their own for, and other devices the operators of
 * programs.
 */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "device/device.h"

/* The row-major copy of an operand. */
typedef struct plain_copy {
    yki_kernel *reorder; /* NULL: the operand is row-major itself */
    size_t at;           /* in scratch */
} plain_copy;

typedef struct plain_kernel {
    yki_kernel base;
    yki_kernel *inner;
    size_t inner_scratch; /* where its scratch begins */
    plain_copy in[YKI_MAX_IN], out[YKI_MAX_OUT];
    int in_count, out_count;
} plain_kernel;

static bool is_plain(const yki_operand *operand)
{
    return operand->ndim < 0 || operand->layout == YKI_PLAIN;
}

static bool plain_supports(const yki_device *device, const yki_kernel_desc *desc)
{
    bool any = false;
    for (int i = 0; i < desc->in_count; i++)
        any = any || !is_plain(&desc->in[i]);
    for (int i = 0; i < desc->out_count; i++)
        any = any || !is_plain(&desc->out[i]);
    return any && (yki_device_is_host(device) ? device->block > 0 && desc->op != &yki_op_reorder
                                              : desc->op->custom != NULL);
}

/* Makes an operand of the inner kernel row-major, by a copy between `device`'s layout and that. */
static yk_status prepare_copy(plain_kernel *k, yki_device *device, yki_operand *operand,
                              bool is_output, plain_copy *copy)
{
    if (is_plain(operand))
        return YK_OK;
    yki_operand own = *operand;
    operand->layout = YKI_PLAIN;
    yki_kernel_desc desc = {.op = &yki_op_reorder, .in_count = 1, .out_count = 1};
    for (int i = 1; i < YKI_MAX_IN; i++)
        desc.in[i].ndim = -1;
    for (int i = 1; i < YKI_MAX_OUT; i++)
        desc.out[i].ndim = -1;
    desc.in[0] = is_output ? *operand : own;
    desc.out[0] = is_output ? own : *operand;
    copy->at = k->base.scratch;
    k->base.scratch += yki_align(yki_operand_bytes(device, operand), YKI_ALIGNMENT);
    return yki_kernel_create(device, &desc, &copy->reorder);
}

static yk_status prepare_parts(plain_kernel *k, yki_device *device, const yki_kernel_desc *desc)
{
    yki_kernel_desc inner = *desc;
    for (int i = 0; i < desc->in_count; i++)
        YK_TRY(prepare_copy(k, device, &inner.in[i], false, &k->in[i]));
    for (int i = 0; i < desc->out_count; i++)
        YK_TRY(prepare_copy(k, device, &inner.out[i], true, &k->out[i]));
    YK_TRY(yki_kernel_create(device, &inner, &k->inner));
    k->inner_scratch = k->base.scratch;
    k->base.scratch += k->inner->scratch;
    k->base.pack_input = k->inner->pack_input;
    k->base.pack_bytes = k->inner->pack_bytes;
    return YK_OK;
}

static void plain_destroy(yki_kernel *kernel)
{
    plain_kernel *k = (plain_kernel *)kernel;
    for (int i = 0; i < YKI_MAX_IN; i++)
        yki_kernel_destroy(k->in[i].reorder);
    for (int i = 0; i < YKI_MAX_OUT; i++)
        yki_kernel_destroy(k->out[i].reorder);
    yki_kernel_destroy(k->inner);
    free(k);
}

static yk_status plain_prepare(yki_device *device, const yki_kernel_desc *desc, yki_kernel **kernel)
{
    plain_kernel *k = yki_calloc(1, sizeof *k);
    if (!k)
        return yki_error_memory(sizeof *k, "a kernel");
    k->in_count = desc->in_count;
    k->out_count = desc->out_count;
    yk_status status = prepare_parts(k, device, desc);
    if (status != YK_OK) {
        plain_destroy(&k->base);
        return status;
    }
    *kernel = &k->base;
    return YK_OK;
}

static yk_status reorder(const yki_kernel *kernel, void *from, void *to, yki_stream *stream)
{
    void *in[YKI_MAX_IN] = {from}, *out[YKI_MAX_OUT] = {to};
    yki_kernel_args args = {.in = in, .out = out, .stream = stream};
    return kernel->impl->run(kernel, &args);
}

static yk_status plain_run(const yki_kernel *kernel, const yki_kernel_args *args)
{
    const plain_kernel *k = (const plain_kernel *)kernel;
    char *scratch = args->scratch;
    void *in[YKI_MAX_IN] = {NULL}, *out[YKI_MAX_OUT] = {NULL};
    for (int i = 0; i < k->in_count; i++) {
        in[i] = k->in[i].reorder ? scratch + k->in[i].at : args->in[i];
        if (k->in[i].reorder)
            YK_TRY(reorder(k->in[i].reorder, args->in[i], in[i], args->stream));
    }
    for (int i = 0; i < k->out_count; i++)
        out[i] = k->out[i].reorder ? scratch + k->out[i].at : args->out[i];
    yki_kernel_args inner = *args;
    inner.in = in;
    inner.out = out;
    inner.scratch = scratch + k->inner_scratch;
    YK_TRY(k->inner->impl->run(k->inner, &inner));
    for (int i = 0; i < k->out_count; i++)
        if (k->out[i].reorder)
            YK_TRY(reorder(k->out[i].reorder, out[i], args->out[i], args->stream));
    return YK_OK;
}

static yk_status plain_pack(const yki_kernel *kernel, const void *parameter, void *packed,
                            yki_stream *stream)
{
    const yki_kernel *inner = ((const plain_kernel *)kernel)->inner;
    return inner->impl->pack(inner, parameter, packed, stream);
}

const yki_kernel_impl yki_kernel_plain = {.supports = plain_supports,
                                          .prepare = plain_prepare,
                                          .run = plain_run,
                                          .destroy = plain_destroy,
                                          .pack = plain_pack};

const yki_kernel_impl yki_kernel_plain_on_host = {
    .prepare = plain_prepare, .run = plain_run, .destroy = plain_destroy, .on_host = true};

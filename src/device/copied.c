/* See copied.h. */
#include "device/copied.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

/* The copy of an operand. */
typedef struct operand_copy {
    yki_kernel *reorder; /* NULL: the operand itself is used */
    size_t at;           /* in scratch */
} operand_copy;

typedef struct copied_kernel {
    yki_kernel base;
    yki_kernel *inner;
    size_t inner_scratch; /* where its scratch begins */
    operand_copy in[YKI_MAX_IN], out[YKI_MAX_OUT];
    int in_count, out_count;
} copied_kernel;

/* A copy between an operand and the one that takes its place. */
static yk_status prepare_copy(copied_kernel *k, yki_device *device, const yki_operand *own,
                              const yki_operand *other, bool is_output, operand_copy *copy)
{
    if (own->ndim < 0 || own->layout == other->layout)
        return YK_OK;
    yki_kernel_desc desc = {.op = &yki_op_reorder, .in_count = 1, .out_count = 1};
    for (int i = 1; i < YKI_MAX_IN; i++)
        desc.in[i].ndim = -1;
    for (int i = 1; i < YKI_MAX_OUT; i++)
        desc.out[i].ndim = -1;
    desc.in[0] = is_output ? *other : *own;
    desc.out[0] = is_output ? *own : *other;
    copy->at = k->base.scratch;
    k->base.scratch += yki_align(yki_operand_bytes(device, other), YKI_SCRATCH_ALIGNMENT);
    return yki_kernel_create(device, &desc, &copy->reorder);
}

static yk_status prepare_parts(copied_kernel *k, yki_device *device, const yki_kernel_desc *desc,
                               const yki_kernel_desc *inner)
{
    for (int i = 0; i < desc->in_count; i++)
        YK_TRY(prepare_copy(k, device, &desc->in[i], &inner->in[i], false, &k->in[i]));
    for (int i = 0; i < desc->out_count; i++)
        YK_TRY(prepare_copy(k, device, &desc->out[i], &inner->out[i], true, &k->out[i]));
    YK_TRY(yki_kernel_create(device, inner, &k->inner));
    k->inner_scratch = k->base.scratch;
    k->base.scratch += k->inner->scratch;
    k->base.pack_input = k->inner->pack_input;
    k->base.pack_bytes = k->inner->pack_bytes;
    k->base.flop = k->inner->flop;
    k->base.matrix_unit = k->inner->matrix_unit;
    return YK_OK;
}

void yki_copied_destroy(yki_kernel *kernel)
{
    copied_kernel *k = (copied_kernel *)kernel;
    for (int i = 0; i < YKI_MAX_IN; i++)
        yki_kernel_destroy(k->in[i].reorder);
    for (int i = 0; i < YKI_MAX_OUT; i++)
        yki_kernel_destroy(k->out[i].reorder);
    yki_kernel_destroy(k->inner);
    free(k);
}

yk_status yki_copied_prepare(yki_device *device, const yki_kernel_desc *desc,
                             const yki_kernel_desc *inner, yki_kernel **kernel)
{
    copied_kernel *k = yki_calloc(1, sizeof *k);
    if (!k)
        return yki_error_memory(sizeof *k, "a kernel");
    k->in_count = desc->in_count;
    k->out_count = desc->out_count;
    yk_status status = prepare_parts(k, device, desc, inner);
    if (status != YK_OK) {
        yki_copied_destroy(&k->base);
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

yk_status yki_copied_run(const yki_kernel *kernel, const yki_kernel_args *args)
{
    const copied_kernel *k = (const copied_kernel *)kernel;
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

yk_status yki_copied_pack(const yki_kernel *kernel, const void *parameter, void *packed,
                          yki_stream *stream)
{
    const yki_kernel *inner = ((const copied_kernel *)kernel)->inner;
    return inner->impl->pack(inner, parameter, packed, stream);
}

bool yki_copied_same_pack(const yki_kernel *kernel, const yki_kernel *other)
{
    const yki_kernel *a = ((const copied_kernel *)kernel)->inner,
                     *b = ((const copied_kernel *)other)->inner;
    return yki_kernels_share_pack(a, b);
}

/*
 * Kernels of programs' operators. A device's own kernel is preferred to the one for ref, which runs
 * everywhere. Both see row-major tensors: operands in the device's own layout are copied to and
 * from scratch memory, unless the kernel works element by element and the order does not matter to
 * it.
 */
#include "graph/custom.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "device/device.h"

/* The copy of an operand in row-major order. */
typedef struct custom_copy {
    yki_kernel *reorder; /* NULL: the operand is used as it is */
    size_t at;           /* in scratch */
} custom_copy;

typedef struct custom_kernel {
    yki_kernel base;
    const yki_device *device;
    yk_status (*run)(const yk_operator_run *run);
    yki_kernel_desc desc; /* without attributes, which are in `call` */
    yk_operator_run call;
    yk_tensor in[YKI_MAX_IN], out[YKI_MAX_OUT]; /* without data */
    custom_copy in_copy[YKI_MAX_IN], out_copy[YKI_MAX_OUT];
    size_t scratch_at; /* of the program's kernel */
    bool is_vector;    /* operands are given as vectors, in the device's order */
} custom_kernel;

/* ---- choosing -------------------------------------------------------------------------------- */

static yk_tensor tensor_of(const yki_operand *operand)
{
    yk_tensor tensor = {.dtype = operand->dtype, .ndim = operand->ndim};
    memcpy(tensor.dims, operand->dims, sizeof tensor.dims);
    return tensor;
}

static bool usable(const yk_operator_kernel *kernel, const yk_operator_run *run)
{
    return kernel->run && (!kernel->supports || kernel->supports(run));
}

static yk_status choose(const yki_device *device, const yki_custom_op *op,
                        const yk_operator_run *run, const yk_operator_kernel **kernel)
{
    bool has_own = strcmp(device->type->name, "cpu") == 0;
    *kernel = has_own && usable(&op->cpu, run) ? &op->cpu : &op->ref;
    if (usable(*kernel, run))
        return YK_OK;
    return yki_error(YK_ERROR_UNSUPPORTED, "operator %s has no kernel on %s for %s", op->op.name,
                     device->type->name, yk_dtype_name(run->inputs[0].dtype));
}

/* ---- preparing ------------------------------------------------------------------------------- */

/* Whether two operands have the same elements in the same order. */
static bool same_order(const yki_operand *a, const yki_operand *b)
{
    bool same = a->ndim == b->ndim && a->layout == b->layout;
    for (int d = 0; same && d < a->ndim; d++)
        same = a->dims[d] == b->dims[d];
    return same;
}

static bool all_in_one_order(const yki_kernel_desc *desc)
{
    bool same = true;
    for (int i = 0; i < desc->in_count; i++)
        same = same && (desc->in[i].ndim < 0 || same_order(&desc->in[i], &desc->out[0]));
    for (int i = 0; i < desc->out_count; i++)
        same = same && (desc->out[i].ndim < 0 || same_order(&desc->out[i], &desc->out[0]));
    return same;
}

static void make_vectors(custom_kernel *k)
{
    for (int i = 0; i < k->desc.in_count; i++)
        if (k->in[i].ndim >= 0)
            k->in[i] = (yk_tensor){.dtype = k->in[i].dtype,
                                   .ndim = 1,
                                   .dims = {yki_operand_elements(k->device, &k->desc.in[i])}};
    for (int i = 0; i < k->desc.out_count; i++)
        if (k->out[i].ndim >= 0)
            k->out[i] = (yk_tensor){.dtype = k->out[i].dtype,
                                    .ndim = 1,
                                    .dims = {yki_operand_elements(k->device, &k->desc.out[i])}};
}

/* Room in scratch; returns where it begins. */
static size_t reserve(custom_kernel *k, size_t bytes)
{
    size_t at = k->base.scratch;
    k->base.scratch += yki_align(bytes, YKI_ALIGNMENT);
    return at;
}

static yk_status prepare_copy(custom_kernel *k, yki_device *device, const yki_operand *operand,
                              bool is_output, custom_copy *copy)
{
    if (operand->ndim < 0 || operand->layout == YKI_PLAIN || k->is_vector)
        return YK_OK;
    yki_operand plain = *operand;
    plain.layout = YKI_PLAIN;
    yki_kernel_desc desc = {.op = &yki_op_reorder, .in_count = 1, .out_count = 1};
    desc.in[0] = is_output ? plain : *operand;
    desc.out[0] = is_output ? *operand : plain;
    for (int i = 1; i < YKI_MAX_IN; i++)
        desc.in[i].ndim = -1;
    for (int i = 1; i < YKI_MAX_OUT; i++)
        desc.out[i].ndim = -1;
    copy->at = reserve(k, yki_operand_bytes(device, &plain));
    YK_TRY(yki_kernel_create(device, &desc, &copy->reorder));
    if (copy->reorder->scratch > 0)
        return yki_error(YK_ERROR_INTERNAL, "a reorder kernel of %s needs scratch memory",
                         device->type->name);
    return YK_OK;
}

static yk_status prepare_copies(custom_kernel *k, yki_device *device)
{
    for (int i = 0; i < k->desc.in_count; i++)
        YK_TRY(prepare_copy(k, device, &k->desc.in[i], false, &k->in_copy[i]));
    for (int i = 0; i < k->desc.out_count; i++)
        YK_TRY(prepare_copy(k, device, &k->desc.out[i], true, &k->out_copy[i]));
    return YK_OK;
}

extern const yki_kernel_impl yki_kernel_custom, yki_kernel_custom_in_place;

static void describe(custom_kernel *k, const yki_device *device, const yki_kernel_desc *desc)
{
    k->device = device;
    k->desc = *desc;
    k->desc.attrs = NULL; /* it is the caller's */
    for (int i = 0; i < desc->in_count; i++)
        k->in[i] = tensor_of(&desc->in[i]);
    for (int i = 0; i < desc->out_count; i++)
        k->out[i] = tensor_of(&desc->out[i]);
    k->call = (yk_operator_run){.attributes = desc->attrs ? desc->attrs->custom : NULL,
                                .inputs = k->in,
                                .outputs = k->out,
                                .threads = device->threads,
                                .training = desc->training};
}

static yk_status prepare(custom_kernel *k, yki_device *device)
{
    const yk_operator_kernel *chosen;
    YK_TRY(choose(device, k->desc.op->custom, &k->call, &chosen));
    k->run = chosen->run;
    k->base.impl = chosen->in_place ? &yki_kernel_custom_in_place : &yki_kernel_custom;
    k->is_vector = chosen->elementwise && all_in_one_order(&k->desc);
    YK_TRY(prepare_copies(k, device));
    if (k->is_vector)
        make_vectors(k);
    k->scratch_at = reserve(k, chosen->scratch ? chosen->scratch(&k->call) : 0);
    return YK_OK;
}

static void destroy(yki_kernel *kernel)
{
    custom_kernel *k = (custom_kernel *)kernel;
    for (int i = 0; i < YKI_MAX_IN; i++)
        yki_kernel_destroy(k->in_copy[i].reorder);
    for (int i = 0; i < YKI_MAX_OUT; i++)
        yki_kernel_destroy(k->out_copy[i].reorder);
    free(k);
}

yk_status yki_custom_kernel_create(yki_device *device, const yki_kernel_desc *desc,
                                   yki_kernel **kernel)
{
    if (!yki_device_is_host(device))
        return yki_error(YK_ERROR_UNSUPPORTED, "operator %s has no kernel for the device %s",
                         desc->op->name, device->type->name);
    custom_kernel *k = yki_calloc(1, sizeof *k);
    if (!k)
        return yki_error_memory(sizeof *k, "a kernel");
    describe(k, device, desc);
    yk_status status = prepare(k, device);
    if (status != YK_OK) {
        destroy(&k->base);
        return status;
    }
    *kernel = &k->base;
    return YK_OK;
}

/* ---- running --------------------------------------------------------------------------------- */

static yk_status reorder(const yki_kernel *kernel, void *from, void *to)
{
    void *in[YKI_MAX_IN] = {from}, *out[YKI_MAX_OUT] = {to};
    yki_kernel_args args = {.in = in, .out = out};
    return kernel->impl->run(kernel, &args);
}

static yk_status take_inputs(const custom_kernel *k, const yki_kernel_args *args, yk_tensor *in)
{
    memcpy(in, k->in, sizeof k->in);
    for (int i = 0; i < k->desc.in_count; i++) {
        const custom_copy *copy = &k->in_copy[i];
        in[i].data = copy->reorder ? (char *)args->scratch + copy->at : args->in[i];
        if (copy->reorder)
            YK_TRY(reorder(copy->reorder, args->in[i], in[i].data));
    }
    return YK_OK;
}

static yk_status bring_outputs(const custom_kernel *k, const yki_kernel_args *args,
                               const yk_tensor *out)
{
    for (int i = 0; i < k->desc.out_count; i++) {
        if (k->out_copy[i].reorder)
            YK_TRY(reorder(k->out_copy[i].reorder, out[i].data, args->out[i]));
        else
            yki_operand_clear_padding(k->device, &k->desc.out[i], args->out[i]);
    }
    return YK_OK;
}

static yk_status run_custom(const yki_kernel *kernel, const yki_kernel_args *args)
{
    const custom_kernel *k = (const custom_kernel *)kernel;
    yk_tensor in[YKI_MAX_IN], out[YKI_MAX_OUT];
    yk_operator_run run = k->call;
    run.inputs = in;
    run.outputs = out;
    run.scratch = (char *)args->scratch + k->scratch_at;
    run.seed = args->scalars->seed; /* on a host device */
    run.step = args->scalars->step;
    YK_TRY(take_inputs(k, args, in));
    memcpy(out, k->out, sizeof k->out);
    for (int i = 0; i < k->desc.out_count; i++)
        out[i].data =
            k->out_copy[i].reorder ? (char *)args->scratch + k->out_copy[i].at : args->out[i];
    YK_TRY(k->run(&run));
    return bring_outputs(k, args, out);
}

const yki_kernel_impl yki_kernel_custom = {.run = run_custom, .destroy = destroy};
const yki_kernel_impl yki_kernel_custom_in_place = {
    .inplace = 1, .run = run_custom, .destroy = destroy};

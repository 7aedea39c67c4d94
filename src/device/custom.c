/*
 * Kernels of programs' operators. A device's own kernel is preferred to the one for ref, which runs
 * on every device: for one that works asynchronously, the host copies the operands, computes, and
 * copies the results back. Kernels see row-major tensors (plain.c copies others), unless they
 * work element by element, so that the order does not matter to them.
 */
#include "graph/custom.h"

#include <string.h>

#include "base/memory.h"
#include "device/device.h"

typedef struct custom_kernel {
    yki_kernel base;
    yki_device *device;
    const char *name; /* the operator's */
    yk_status (*run)(const yk_operator_run *run);
    yki_operand operands[YKI_MAX_OUT]; /* outputs, whose padding is cleared */
    yk_operator_run call;              /* as the program's kernel gets it, without data */
    yk_tensor in[YKI_MAX_IN], out[YKI_MAX_OUT];
    int in_count, out_count;
} custom_kernel;

/* ---- choosing -------------------------------------------------------------------------------- */

static yk_tensor tensor_of(const yki_operand *operand)
{
    yk_tensor tensor = {.dtype = operand->dtype, .ndim = operand->ndim};
    memcpy(tensor.dims, operand->dims, sizeof tensor.dims);
    return tensor;
}

/* Fills in a call without data. */
static void describe(const yki_device *device, const yki_kernel_desc *desc, yk_operator_run *call,
                     yk_tensor *in, yk_tensor *out)
{
    for (int i = 0; i < desc->in_count; i++)
        in[i] = tensor_of(&desc->in[i]);
    for (int i = 0; i < desc->out_count; i++)
        out[i] = tensor_of(&desc->out[i]);
    *call = (yk_operator_run){.attributes = desc->attrs ? desc->attrs->custom : NULL,
                              .inputs = in,
                              .outputs = out,
                              .threads = device->threads,
                              .training = desc->training};
}

static bool is_usable(const yk_operator_kernel *kernel, const yk_operator_run *call)
{
    return kernel->run && (!kernel->supports || kernel->supports(call));
}

/* NULL where there is none. */
static const yk_operator_kernel *choose(const yki_device *device, const yki_kernel_desc *desc)
{
    const yki_custom_op *op = desc->op->custom;
    yk_tensor in[YKI_MAX_IN], out[YKI_MAX_OUT];
    yk_operator_run call;
    describe(device, desc, &call, in, out);
    bool is_cpu = strcmp(device->type->name, "cpu") == 0;
    if (is_cpu && is_usable(&op->cpu, &call))
        return &op->cpu;
    return is_usable(&op->ref, &call) ? &op->ref : NULL;
}

/* ---- preparing ------------------------------------------------------------------------------- */

/* Whether an operand is absent, or has the elements of `other` in the same order. */
static bool same_order(const yki_operand *operand, const yki_operand *other)
{
    bool same = operand->ndim == other->ndim && operand->layout == other->layout;
    for (int d = 0; same && d < other->ndim; d++)
        same = operand->dims[d] == other->dims[d];
    return same || operand->ndim < 0;
}

static bool all_in_one_order(const yki_kernel_desc *desc)
{
    bool same = true;
    for (int i = 0; i < desc->in_count; i++)
        same = same && same_order(&desc->in[i], &desc->out[0]);
    for (int i = 0; i < desc->out_count; i++)
        same = same && same_order(&desc->out[i], &desc->out[0]);
    return same;
}

static bool all_plain(const yki_kernel_desc *desc)
{
    bool plain = true;
    for (int i = 0; i < desc->in_count; i++)
        plain = plain && (desc->in[i].ndim < 0 || desc->in[i].layout == YKI_PLAIN);
    for (int i = 0; i < desc->out_count; i++)
        plain = plain && (desc->out[i].ndim < 0 || desc->out[i].layout == YKI_PLAIN);
    return plain;
}

const yki_kernel_impl *yki_custom_kernel(const yki_device *device, const yki_kernel_desc *desc)
{
    const yk_operator_kernel *kernel = choose(device, desc);
    bool fits = kernel && (all_plain(desc) || (kernel->elementwise && all_in_one_order(desc)));
    if (!fits)
        return NULL;
    if (!yki_device_is_host(device))
        return &yki_kernel_custom_on_host;
    return kernel->in_place ? &yki_kernel_custom_in_place : &yki_kernel_custom;
}

static void make_vector(yk_tensor *tensor, int64_t count)
{
    if (tensor->ndim >= 0)
        *tensor = (yk_tensor){.dtype = tensor->dtype, .ndim = 1, .dims = {count}};
}

/* Into a kernel of zeros. */
static void fill_in(custom_kernel *k, yki_device *device, const yki_kernel_desc *desc)
{
    const yk_operator_kernel *chosen = choose(device, desc);
    k->device = device;
    k->name = desc->op->name;
    k->run = chosen->run;
    k->in_count = desc->in_count;
    k->out_count = desc->out_count;
    memcpy(k->operands, desc->out, sizeof k->operands);
    describe(device, desc, &k->call, k->in, k->out);
    int64_t count = yki_operand_elements(device, &desc->out[0]);
    bool is_vector = chosen->elementwise && all_in_one_order(desc);
    for (int i = 0; is_vector && i < desc->in_count; i++)
        make_vector(&k->in[i], count);
    for (int i = 0; is_vector && i < desc->out_count; i++)
        make_vector(&k->out[i], count);
    k->base.scratch = chosen->scratch ? chosen->scratch(&k->call) : 0;
}

static yk_status prepare(yki_device *device, const yki_kernel_desc *desc, yki_kernel **kernel)
{
    custom_kernel *k = yki_calloc(1, sizeof *k);
    if (!k)
        return yki_error_memory(sizeof *k, "a kernel");
    fill_in(k, device, desc);
    *kernel = &k->base;
    return YK_OK;
}

/* ---- running --------------------------------------------------------------------------------- */

static yk_status run_custom(const yki_kernel *kernel, const yki_kernel_args *args)
{
    const custom_kernel *k = (const custom_kernel *)kernel;
    yk_tensor in[YKI_MAX_IN], out[YKI_MAX_OUT];
    yk_operator_run run = k->call;
    memcpy(in, k->in, sizeof in);
    memcpy(out, k->out, sizeof out);
    for (int i = 0; i < k->in_count; i++)
        in[i].data = args->in[i];
    for (int i = 0; i < k->out_count; i++)
        out[i].data = args->out[i];
    run.inputs = in;
    run.outputs = out;
    run.scratch = args->scratch;
    run.seed = args->scalars->seed; /* on a host device */
    run.step = args->scalars->step;
    char line[YKI_ERROR_LINE];
    yki_error_begin(line);
    yk_status status = yki_error_end(k->run(&run), line, "the program's run()");
    if (status != YK_OK)
        return yki_error_context(status, "operator %s", k->name);
    for (int i = 0; i < k->out_count; i++)
        yki_operand_clear_padding(k->device, &k->operands[i], args->out[i]);
    return YK_OK;
}

const yki_kernel_impl yki_kernel_custom = {.prepare = prepare, .run = run_custom};
const yki_kernel_impl yki_kernel_custom_in_place = {
    .inplace = 1, .prepare = prepare, .run = run_custom};

/* ---- on the host, for an asynchronous device ------------------------------------------------ */

/* The host's memory holds the step's scalars, the operands and scratch memory, in this order. */
typedef struct host_kernel {
    custom_kernel custom;
    void *memory; /* pinned */
    size_t bytes;
    size_t in_bytes[YKI_MAX_IN], out_bytes[YKI_MAX_OUT];
} host_kernel;

static size_t measure(const yki_device *device, const yki_operand *operands, int count,
                      size_t *bytes)
{
    size_t sum = 0;
    for (int i = 0; i < count; i++) {
        bytes[i] = operands[i].ndim < 0 ? 0 : yki_operand_bytes(device, &operands[i]);
        sum += yki_align(bytes[i], YKI_ALIGNMENT);
    }
    return sum;
}

static yk_status prepare_on_host(yki_device *device, const yki_kernel_desc *desc,
                                 yki_kernel **kernel)
{
    host_kernel *k = yki_calloc(1, sizeof *k);
    if (!k)
        return yki_error_memory(sizeof *k, "a kernel");
    fill_in(&k->custom, device, desc);
    k->bytes = yki_align(sizeof(yki_scalars), YKI_ALIGNMENT) +
               measure(device, desc->in, desc->in_count, k->in_bytes) +
               measure(device, desc->out, desc->out_count, k->out_bytes) + k->custom.base.scratch;
    k->custom.base.scratch = 0; /* of the device's */
    yk_status status = yki_device_alloc_pinned(device, k->bytes, &k->memory);
    if (status != YK_OK)
        free(k);
    else
        *kernel = &k->custom.base;
    return status;
}

static void destroy_on_host(yki_kernel *kernel)
{
    host_kernel *k = (host_kernel *)kernel;
    yki_device *device = k->custom.device;
    yki_stream_wait(device, yki_device_stream(device)); /* for results that are being copied */
    yki_device_free_pinned(device, k->memory, k->bytes);
    free(k);
}

/* Takes the next bytes of the host's memory; NULL where the operand is absent. */
static void *take_room(char **at, const void *operand, size_t bytes)
{
    void *room = operand ? *at : NULL;
    *at += yki_align(bytes, YKI_ALIGNMENT);
    return room;
}

static yk_status run_on_host(const yki_kernel *kernel, const yki_kernel_args *args)
{
    const host_kernel *k = (const host_kernel *)kernel;
    yki_device *device = k->custom.device;
    void *in[YKI_MAX_IN] = {NULL}, *out[YKI_MAX_OUT] = {NULL};
    yki_scalars *scalars = k->memory;
    char *at = (char *)k->memory + yki_align(sizeof *scalars, YKI_ALIGNMENT);
    YK_TRY(yki_device_copy(device, scalars, args->scalars, sizeof *scalars, YKI_TO_HOST,
                           args->stream));
    for (int i = 0; i < k->custom.in_count; i++) {
        in[i] = take_room(&at, args->in[i], k->in_bytes[i]);
        YK_TRY(yki_device_copy(device, in[i], args->in[i], in[i] ? k->in_bytes[i] : 0, YKI_TO_HOST,
                               args->stream));
    }
    for (int i = 0; i < k->custom.out_count; i++)
        out[i] = take_room(&at, args->out[i], k->out_bytes[i]);
    YK_TRY(yki_stream_wait(device, args->stream));
    YK_TRY(run_custom(kernel,
                      &(yki_kernel_args){.in = in, .out = out, .scratch = at, .scalars = scalars}));
    for (int i = 0; i < k->custom.out_count; i++)
        YK_TRY(yki_device_copy(device, args->out[i], out[i], out[i] ? k->out_bytes[i] : 0,
                               YKI_TO_DEVICE, args->stream));
    return YK_OK;
}

const yki_kernel_impl yki_kernel_custom_on_host = {
    .prepare = prepare_on_host, .run = run_on_host, .destroy = destroy_on_host, .on_host = true};

/* See invocation.h. */
#include "check/invocation.h"

#include <stdlib.h>
#include <string.h>

#include "check/operand.h"

static yki_operand operand_of(const yki_trial *trial, const yki_runner *r, bool plain,
                              const yk_value *value)
{
    if (!value)
        return (yki_operand){.ndim = -1};
    yki_operand operand = {.dtype = value->dtype, .ndim = value->ndim};
    memcpy(operand.dims, value->dims, sizeof operand.dims);
    if (r->exact && yki_dtype_is_float(operand.dtype))
        operand.dtype = YK_F64;
    if (!plain && !trial->plain[value->id])
        operand.layout = r->device->type->layout(r->device, &operand);
    return operand;
}

/* As in a plan: sums that the kernel leaves out are absent. */
static void drop_sums(yki_invocation *call)
{
    if (call->desc.op != &yki_op_conv2d || call->kernel->sums)
        return;
    call->desc.out[YKI_CONV2D_SUMS].ndim = -1;
    free(call->out[YKI_CONV2D_SUMS]);
    call->out[YKI_CONV2D_SUMS] = NULL;
}

yk_status yki_invocation_init(yki_invocation *call, const yki_trial *trial, const yki_runner *r,
                              const yki_node *node, bool all)
{
    *call = (yki_invocation){.runner = r,
                             .node = node,
                             .desc = {.op = node->op,
                                      .attrs = &node->attrs,
                                      .training = !trial->row->evaluation,
                                      .in_count = node->in_count,
                                      .out_count = node->out_count}};
    bool allocated = true;
    for (int i = 0; i < YKI_MAX_IN; i++) {
        const yk_value *value = i < node->in_count ? node->in[i] : NULL;
        call->desc.in[i] = operand_of(trial, r, r->plain_in, value);
        call->in[i] =
            value ? yki_operand_encode(r->device, &call->desc.in[i], trial->numbers[value->id])
                  : NULL;
        allocated = allocated && (!value || call->in[i]);
    }
    for (int i = 0; i < YKI_MAX_OUT; i++) {
        const yk_value *value = i < (all ? node->out_count : 1) ? node->out[i] : NULL;
        call->desc.out[i] = operand_of(trial, r, r->plain_out, value);
        call->out[i] =
            value ? yki_operand_allocate(yki_operand_bytes(r->device, &call->desc.out[i]), 0xff)
                  : NULL;
        allocated = allocated && (!value || call->out[i]);
    }
    if (!allocated)
        return YK_ERROR_OUT_OF_MEMORY;
    YK_TRY(yki_kernel_create(r->device, &call->desc, &call->kernel));
    drop_sums(call);
    return YK_OK;
}

void yki_invocation_fini(yki_invocation *call)
{
    yki_kernel_destroy(call->kernel);
    for (int i = 0; i < YKI_MAX_IN; i++)
        free(call->in[i]);
    for (int i = 0; i < YKI_MAX_OUT; i++)
        free(call->out[i]);
}

/* ---- running -------------------------------------------------------------------------------- */

/* The memory of a run where its device can use it: on a host device the memory itself, elsewhere
 * copies, which are copied back after the run. */
typedef struct shadows {
    yki_device *device;
    int count;
    struct {
        void *host, *memory;
        size_t bytes;
    } list[YKI_MAX_IN + YKI_MAX_OUT + 3];
} shadows;

static yk_status cast_shadow(shadows *s, void *host, size_t bytes, void **memory)
{
    *memory = host;
    if (!host || yki_device_is_host(s->device))
        return YK_OK;
    for (int i = 0; i < s->count; i++) /* an output that takes the memory of an input */
        if (s->list[i].host == host) {
            *memory = s->list[i].memory;
            return YK_OK;
        }
    YK_TRY(yki_device_alloc(s->device, bytes, memory));
    s->list[s->count].host = host;
    s->list[s->count].memory = *memory;
    s->list[s->count++].bytes = bytes;
    return yki_device_copy(s->device, *memory, host, bytes, YKI_TO_DEVICE,
                           yki_device_stream(s->device));
}

static yk_status take_back(const shadows *s)
{
    for (int i = 0; i < s->count; i++)
        YK_TRY(yki_device_copy(s->device, s->list[i].host, s->list[i].memory, s->list[i].bytes,
                               YKI_TO_HOST, yki_device_stream(s->device)));
    return yki_stream_wait(s->device, yki_device_stream(s->device));
}

/* What a run needs besides its operands. */
typedef struct rooms {
    shadows shadows;
    void *scratch, *packed; /* NULL where a kernel needs none */
} rooms;

static void rooms_fini(rooms *r)
{
    for (int i = 0; i < r->shadows.count; i++)
        yki_device_free(r->shadows.device, r->shadows.list[i].memory, r->shadows.list[i].bytes);
    free(r->packed);
    free(r->scratch);
}

static yk_status run_in(rooms *r, const yki_kernel *kernel, const yki_kernel_desc *desc,
                        void *const *in, void *const *out)
{
    yki_device *device = r->shadows.device;
    yki_stream *stream = yki_device_stream(device);
    void *given[YKI_MAX_IN], *taken[YKI_MAX_OUT], *scratch, *packed, *scalars;
    yki_scalars drawn = {.seed = 5, .step = 6};
    for (int i = 0; i < YKI_MAX_IN; i++)
        YK_TRY(cast_shadow(&r->shadows, in[i], yki_operand_bytes(device, &desc->in[i]), &given[i]));
    for (int i = 0; i < YKI_MAX_OUT; i++)
        YK_TRY(
            cast_shadow(&r->shadows, out[i], yki_operand_bytes(device, &desc->out[i]), &taken[i]));
    YK_TRY(cast_shadow(&r->shadows, r->packed, kernel->pack_bytes, &packed));
    YK_TRY(cast_shadow(&r->shadows, r->scratch, kernel->scratch, &scratch));
    YK_TRY(cast_shadow(&r->shadows, &drawn, sizeof drawn, &scalars));
    if (packed) {
        YK_TRY(kernel->impl->pack(kernel, given[kernel->pack_input], packed, stream));
        given[kernel->pack_input] = packed;
    }
    yki_kernel_args run = {
        .in = given, .out = taken, .scratch = scratch, .stream = stream, .scalars = scalars};
    YK_TRY(kernel->impl->run(kernel, &run));
    return take_back(&r->shadows);
}

yk_status yki_invocation_run(const yki_invocation *call, void *const *in, void *const *out)
{
    const yki_kernel *kernel = call->kernel;
    rooms r = {.shadows.device = call->runner->device};
    if (kernel->scratch)
        r.scratch = yki_operand_allocate(kernel->scratch, 0xff);
    if (kernel->pack_bytes)
        r.packed = yki_operand_allocate(kernel->pack_bytes, 0xff);
    bool allocated = (r.scratch || !kernel->scratch) && (r.packed || !kernel->pack_bytes);
    yk_status status =
        allocated ? run_in(&r, kernel, &call->desc, in, out) : YK_ERROR_OUT_OF_MEMORY;
    rooms_fini(&r);
    return status;
}

yk_status yki_invoke(yki_invocation *call, const yki_trial *trial, const yki_runner *r,
                     const yki_node *node, bool all)
{
    YK_TRY(yki_invocation_init(call, trial, r, node, all));
    return yki_invocation_run(call, call->in, call->out);
}

/*
 * The simulated device's kernels: ref's, whose arguments are kept until the stream comes to them.
 * Every operand is looked up twice: when it is entered, which gives the error to the caller who
 * passed a wrong address, and when it is run, which finds memory that has been freed in between.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "device/ref/ref.h"
#include "device/sim/sim.h"

/* Shared by the layer above and what it has entered. */
typedef struct body {
    atomic_int references;
    atomic_bool destroyed;
    yki_kernel *ref;
    yki_kernel_desc desc;
    size_t in_bytes[YKI_MAX_IN], out_bytes[YKI_MAX_OUT];
} body;

typedef struct sim_kernel {
    yki_kernel base;
    yki_sim *sim;
    body *body;
} sim_kernel;

/* A batch_norm that is synchronised runs in two parts, with the exchange between them. */
typedef enum part { WHOLE, MEASURE, APPLY } part;

typedef struct call {
    body *body;
    part part;
    void *in[YKI_MAX_IN], *out[YKI_MAX_OUT];
    yki_kernel_args args;
    yki_sync sync; /* of a part; the caller's own need not outlive the call */
} call;

static void release_body(body *b)
{
    if (atomic_fetch_sub(&b->references, 1) != 1)
        return;
    yki_kernel_destroy(b->ref);
    free(b);
}

static void retain_call(void *work)
{
    atomic_fetch_add(&((call *)work)->body->references, 1);
}

static void release_call(void *work)
{
    release_body(((call *)work)->body);
}

static size_t bytes_of(const yki_operand *operand)
{
    return operand->ndim < 0 ? 0
                             : (size_t)yki_operand_count(operand) * yk_dtype_size(operand->dtype);
}

/* Operands without bytes may be anywhere. */
static yk_status find_operand(yki_sim *sim, const body *b, const char *role, int index,
                              void *address, size_t bytes, void **host)
{
    static _Alignas(YKI_ALIGNMENT) char nothing[YKI_ALIGNMENT];
    *host = address ? nothing : NULL;
    if (!address || bytes == 0 || yki_sim_find(sim, address, bytes, host) == YK_OK)
        return YK_OK;
    return yki_error_context(YK_ERROR_INTERNAL, "%s, %s %d", b->desc.op->name, role, index);
}

static yk_status find_operands(yki_sim *sim, const call *c, void **in, void **out, void **scratch)
{
    const body *b = c->body;
    for (int i = 0; i < b->desc.in_count; i++)
        YK_TRY(find_operand(sim, b, "input", i, c->in[i], b->in_bytes[i], &in[i]));
    for (int i = 0; i < b->desc.out_count; i++)
        YK_TRY(find_operand(sim, b, "output", i, c->out[i], b->out_bytes[i], &out[i]));
    return find_operand(sim, b, "scratch", 0, c->args.scratch, b->ref->scratch, scratch);
}

/* NULL where the caller knows that no kernel reads them. */
static yk_status find_scalars(yki_sim *sim, const yki_scalars *address, const yki_scalars **host)
{
    void *found = NULL;
    if (address)
        YK_TRY(yki_sim_find(sim, address, sizeof *address, &found));
    *host = found;
    return YK_OK;
}

/* Ends ref's kernel where it would exchange what it has measured. It has written nothing else. */
static yk_status end_measuring(const yki_sync *sync, int64_t channels, yki_stream *stream)
{
    (void)sync, (void)channels, (void)stream;
    return YK_ERROR_INTERRUPTED;
}

/* The second part measures again, and finds the exchange done. */
static yk_status find_exchanged(const yki_sync *sync, int64_t channels, yki_stream *stream)
{
    (void)sync, (void)channels, (void)stream;
    return YK_OK;
}

static int64_t channels_of(const body *b)
{
    return b->desc.in[0].dims[1];
}

static yk_status run_part(yki_sim *sim, const call *c, yki_kernel_args *args)
{
    const body *b = c->body;
    yki_sync sync = c->sync;
    size_t bytes = (size_t)yki_sync_length(channels_of(b)) * sizeof(double);
    void *mine, *all;
    YK_TRY(yki_sim_find(sim, sync.mine, bytes, &mine));
    YK_TRY(yki_sim_find(sim, sync.all, (size_t)sync.world * bytes, &all));
    sync.mine = mine;
    sync.all = all;
    sync.gather = c->part == MEASURE ? end_measuring : find_exchanged;
    args->sync = &sync;
    yk_status status = b->ref->impl->run(b->ref, args);
    return c->part == MEASURE && status == YK_ERROR_INTERRUPTED ? YK_OK : status;
}

static yk_status run_call(yki_sim *sim, void *work)
{
    const call *c = work;
    if (atomic_load(&c->body->destroyed))
        return yki_error(YK_ERROR_INTERNAL,
                         "device sim: a kernel of %s was destroyed before its work was done",
                         c->body->desc.op->name);
    void *in[YKI_MAX_IN] = {0}, *out[YKI_MAX_OUT] = {0};
    yki_kernel_args args = c->args;
    YK_TRY(find_operands(sim, c, in, out, &args.scratch));
    YK_TRY(find_scalars(sim, c->args.scalars, &args.scalars));
    args.in = in;
    args.out = out;
    args.stream = NULL;
    if (c->part != WHOLE)
        return run_part(sim, c, &args);
    return c->body->ref->impl->run(c->body->ref, &args);
}

static yk_status enter_call(const yki_kernel *kernel, const yki_kernel_args *run)
{
    static const yki_sim_work kind = {
        .run = run_call, .retain = retain_call, .release = release_call, .bytes = sizeof(call)};
    const sim_kernel *k = (const sim_kernel *)kernel;
    call c = {.body = k->body, .args = *run};
    c.args.sync = NULL;
    memcpy(c.in, run->in, (size_t)k->body->desc.in_count * sizeof *c.in);
    memcpy(c.out, run->out, (size_t)k->body->desc.out_count * sizeof *c.out);
    void *in[YKI_MAX_IN], *out[YKI_MAX_OUT], *scratch;
    YK_TRY(find_operands(k->sim, &c, in, out, &scratch));
    bool norm =
        c.body->desc.op == &yki_op_batch_norm || c.body->desc.op == &yki_op_batch_norm_backward;
    if (!norm || !run->sync)
        return yki_sim_enter(k->sim, run->stream, &kind, &c);
    c.sync = *run->sync;
    c.part = MEASURE;
    YK_TRY(yki_sim_enter(k->sim, run->stream, &kind, &c));
    YK_TRY(run->sync->gather(run->sync, channels_of(c.body), run->stream));
    c.part = APPLY;
    return yki_sim_enter(k->sim, run->stream, &kind, &c);
}

/* The copy's layout is the parameter's own: what is tested is that copies are made, and in time. */
static yk_status pack(const yki_kernel *kernel, const void *parameter, void *packed,
                      yki_stream *stream)
{
    const sim_kernel *k = (const sim_kernel *)kernel;
    return yki_device_copy(&k->sim->base, packed, parameter, kernel->pack_bytes, YKI_WITHIN_DEVICE,
                           stream);
}

static bool same_pack(const yki_kernel *kernel, const yki_kernel *other)
{
    return kernel->pack_bytes == other->pack_bytes;
}

/* The weight that is packed, or -1. */
static int packed_input(const yki_op *op)
{
    return op == &yki_op_conv2d                 ? YKI_CONV2D_WEIGHT
           : op == &yki_op_conv2d_backward_data ? YKI_CONV2D_BACKWARD_DATA_WEIGHT
           : op == &yki_op_conv_transpose2d     ? YKI_CONV_TRANSPOSE2D_WEIGHT
           : op == &yki_op_linear               ? YKI_LINEAR_WEIGHT
           : op == &yki_op_linear_backward_data ? YKI_LINEAR_BACKWARD_DATA_WEIGHT
                                                : -1;
}

static void destroy_kernel(yki_kernel *kernel)
{
    sim_kernel *k = (sim_kernel *)kernel;
    atomic_store(&k->body->destroyed, true);
    release_body(k->body);
    free(k);
}

static yk_status create_body(const yki_kernel_impl *impl, yki_device *device,
                             const yki_kernel_desc *desc, body **made)
{
    body *b = *made = yki_calloc(1, sizeof *b);
    if (!b)
        return yki_error_memory(sizeof *b, "a kernel of the sim device");
    atomic_init(&b->references, 1);
    atomic_init(&b->destroyed, false);
    b->desc = *desc;
    b->desc.attrs = NULL; /* it is the caller's */
    for (int i = 0; i < desc->in_count; i++)
        b->in_bytes[i] = bytes_of(&desc->in[i]);
    for (int i = 0; i < desc->out_count; i++)
        b->out_bytes[i] = bytes_of(&desc->out[i]);
    yk_status status = impl->prepare(device, desc, &b->ref);
    if (status == YK_OK)
        b->ref->impl = impl;
    else
        free(b);
    return status;
}

static const yki_kernel_impl *ref_impl(const yki_op *op)
{
    const yki_kernel_impl *const *impl = yki_device_ref.kernels;
    while ((*impl)->op != op)
        impl++;
    return *impl;
}

static yk_status prepare(yki_device *device, const yki_kernel_desc *desc, yki_kernel **kernel)
{
    sim_kernel *k = yki_calloc(1, sizeof *k);
    if (!k)
        return yki_error_memory(sizeof *k, "a kernel of the sim device");
    yk_status status = create_body(ref_impl(desc->op), device, desc, &k->body);
    if (status != YK_OK) {
        free(k);
        return status;
    }
    k->sim = (yki_sim *)device;
    k->base.scratch = k->body->ref->scratch;
    k->base.sums = k->body->ref->sums;
    int weight = packed_input(desc->op);
    if (weight >= 0) {
        k->base.pack_input = weight;
        k->base.pack_bytes = k->body->in_bytes[weight];
    }
    *kernel = &k->base;
    return YK_OK;
}

/* ---- the table ------------------------------------------------------------------------------- */

static yki_kernel_impl impls[YKI_OPERATORS];
const yki_kernel_impl *yki_sim_kernels[YKI_OPERATORS + 1];

static void fill_table(void)
{
    for (int i = 0; i < YKI_OPERATORS; i++) {
        const yki_kernel_impl *ref = yki_device_ref.kernels[i];
        impls[i] = (yki_kernel_impl){.op = ref->op,
                                     .inplace = ref->inplace,
                                     .supports = ref->supports,
                                     .prepare = prepare,
                                     .run = enter_call,
                                     .destroy = destroy_kernel,
                                     .pack = pack,
                                     .same_pack = same_pack};
        yki_sim_kernels[i] = ref->on_host ? ref : &impls[i];
    }
}

void yki_sim_fill_kernels(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, fill_table);
}

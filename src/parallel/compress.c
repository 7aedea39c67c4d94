/*
 * The comm hooks that halve what travels: gradients are rounded to bf16 or f16, summed over the
 * ranks in that type, and widened again. On a host device, the group's thread rounds and widens
 * buckets while others travel. Where the ranks exchange the memory of a device in its
 * streams, so are the rounded gradients: casts are entered in the compute stream, and become a part
 * of backward's recording as the sums do.
 */
#include <stdlib.h>

#include "base/memory.h"
#include "comm/group_internal.h"
#include "device/device.h"
#include "parallel/ddp.h"
#include "tensor/convert16.h"

/* A bucket on a device that exchanges it in streams. */
typedef struct rounded_bucket {
    yki_staged_part part;
    yki_kernel *narrow, *widen;
    void *gradients;
} rounded_bucket;

/* A bucket on the host. */
typedef struct host_bucket {
    const yk_grad_bucket *bucket; /* of the last launch */
    uint16_t *rounded;            /* its part of the block */
    yk_dtype dtype;
} host_bucket;

typedef struct compressor {
    yk_group *group;
    yk_dtype dtype; /* YK_BF16 or YK_F16 */
    /* On the host; otherwise empty. */
    uint16_t *block; /* of all buckets, shared with the peers */
    host_bucket *host_buckets;
    /* In streams; otherwise empty. */
    yki_staging rounded; /* all buckets */
    rounded_bucket *buckets;
    size_t bucket_count;
} compressor;

/* ---- on the host ----------------------------------------------------------------------------- */

enum { PIECE = 1024 };

static void narrow_bucket(void *context)
{
    const host_bucket *on = context;
    const yk_grad_bucket *bucket = on->bucket;
    if (bucket->dtype == YK_F32) {
        yki_narrow16(on->rounded, bucket->buffer, on->dtype, bucket->elements);
        return;
    }
    float piece[PIECE];
    const double *from = bucket->buffer;
    for (size_t at = 0; at < bucket->elements; at += PIECE) {
        size_t count = bucket->elements - at < PIECE ? bucket->elements - at : PIECE;
        for (size_t i = 0; i < count; i++)
            piece[i] = (float)from[at + i];
        yki_narrow16(on->rounded + at, piece, on->dtype, count);
    }
}

static void widen_bucket(void *context)
{
    const host_bucket *on = context;
    const yk_grad_bucket *bucket = on->bucket;
    if (bucket->dtype == YK_F32) {
        yki_widen16(bucket->buffer, on->rounded, on->dtype, bucket->elements);
        return;
    }
    float piece[PIECE];
    double *to = bucket->buffer;
    for (size_t at = 0; at < bucket->elements; at += PIECE) {
        size_t count = bucket->elements - at < PIECE ? bucket->elements - at : PIECE;
        yki_widen16(piece, on->rounded + at, on->dtype, count);
        for (size_t i = 0; i < count; i++)
            to[at + i] = piece[i];
    }
}

static host_bucket *find_bucket(const compressor *c, const yk_grad_bucket *bucket)
{
    host_bucket *found = &c->host_buckets[bucket->index];
    found->bucket = bucket;
    return found;
}

static yk_status start_bucket(void *state, const yk_grad_bucket *bucket, yk_work **work)
{
    const compressor *c = state;
    host_bucket *of = find_bucket(c, bucket);
    return yki_group_sum_between(c->group, of->rounded, bucket->elements, c->dtype, narrow_bucket,
                                 widen_bucket, of, work);
}

/* For memory of a device that is staged through the host. */
static yk_status compress_hook(void *state, yk_group *group, const yk_grad_bucket *bucket)
{
    const compressor *c = state;
    host_bucket *of = find_bucket(c, bucket);
    narrow_bucket(of);
    YK_TRY(yk_all_reduce(group, of->rounded, bucket->elements, c->dtype, YK_REDUCE_SUM, NULL));
    widen_bucket(of);
    return YK_OK;
}

/* ---- in streams ------------------------------------------------------------------------------ */

static yk_status cast(const yki_kernel *kernel, void *from, void *to, yki_stream *stream)
{
    void *in[] = {from}, *out[] = {to};
    return kernel->impl->run(kernel, &(yki_kernel_args){.in = in, .out = out, .stream = stream});
}

static void *rounded_memory(const compressor *c, const rounded_bucket *bucket)
{
    return (char *)c->rounded.memory + bucket->part.offset;
}

static yk_status enter_bucket(void *state, size_t index, bool agreed, yk_work **work)
{
    compressor *c = state;
    rounded_bucket *bucket = &c->buckets[index];
    *work = NULL;
    YK_TRY(cast(bucket->narrow, bucket->gradients, rounded_memory(c, bucket),
                yki_device_stream(c->rounded.device)));
    return agreed ? yki_staged_all_reduce_agreed(&bucket->part)
                  : yki_staged_all_reduce(&bucket->part, work);
}

/* The collectives of a plane come one after the other, so that the last one ends all. */
static yk_status land_buckets(void *state)
{
    compressor *c = state;
    yki_stream *stream = yki_device_stream(c->rounded.device);
    if (c->rounded.plane)
        YK_TRY(yki_staged_part_land(&c->buckets[c->bucket_count - 1].part));
    for (size_t b = 0; b < c->bucket_count; b++)
        YK_TRY(cast(c->buckets[b].widen, rounded_memory(c, &c->buckets[b]), c->buckets[b].gradients,
                    stream));
    return YK_OK;
}

static yk_status create_cast(yki_kernel **kernel, yki_device *device, size_t count, yk_dtype from,
                             yk_dtype to)
{
    static const yki_attrs none;
    yki_kernel_desc desc = {.op = &yki_op_cast, .attrs = &none, .in_count = 1, .out_count = 1};
    desc.in[0] = (yki_operand){.dtype = from, .ndim = 1, .dims = {(int64_t)count}};
    desc.out[0] = (yki_operand){.dtype = to, .ndim = 1, .dims = {(int64_t)count}};
    return yki_kernel_create(device, &desc, kernel);
}

static yk_status create_bucket(compressor *c, const yki_reduced_bucket *of, size_t offset)
{
    rounded_bucket *bucket = &c->buckets[c->bucket_count++];
    yki_device *device = c->rounded.device;
    size_t count = of->part.elements;
    bucket->gradients = (char *)of->part.staging->memory + of->part.offset;
    YK_TRY(create_cast(&bucket->narrow, device, count, of->plan.dtype, c->dtype));
    YK_TRY(create_cast(&bucket->widen, device, count, c->dtype, of->plan.dtype));
    return yki_staged_part_create(&bucket->part, &c->rounded, (char *)c->rounded.memory + offset,
                                  count, c->dtype);
}

static yk_status prepare_streams(compressor *c, const yk_ddp *ddp)
{
    size_t offset = 0, bytes = 0;
    for (size_t b = 0; b < ddp->bucket_count; b++)
        bytes += yki_align(ddp->buckets[b].part.elements * sizeof(uint16_t), YKI_ALIGNMENT);
    YK_TRY(yki_staging_create(&c->rounded, ddp->group, yki_model_device(ddp->model), bytes));
    c->buckets = yki_calloc(ddp->bucket_count, sizeof *c->buckets);
    if (!c->buckets)
        return yki_error_memory(ddp->bucket_count * sizeof *c->buckets, "buckets");
    for (size_t b = 0; b < ddp->bucket_count; b++) {
        YK_TRY(create_bucket(c, &ddp->buckets[b], offset));
        offset += yki_align(ddp->buckets[b].part.elements * sizeof(uint16_t), YKI_ALIGNMENT);
    }
    return YK_OK;
}

/* A device casts f32. Gradients in f64 go through the host. */
static bool can_enter(const yk_ddp *ddp)
{
    if (ddp->bucket_count == 0 || !yki_staging_is_in_streams(&ddp->gradients))
        return false;
    for (size_t b = 0; b < ddp->bucket_count; b++)
        if (ddp->buckets[b].plan.dtype != YK_F32)
            return false;
    return true;
}

/* ---- making ---------------------------------------------------------------------------------- */

static void destroy_compressor(void *state)
{
    compressor *c = state;
    yki_device *device = c->rounded.device;
    if (device)
        yki_stream_wait(device, yki_device_stream(device));
    for (size_t b = 0; b < c->bucket_count; b++) {
        yki_kernel_destroy(c->buckets[b].narrow);
        yki_kernel_destroy(c->buckets[b].widen);
        yki_staged_part_destroy(&c->buckets[b].part);
    }
    yki_staging_destroy(&c->rounded);
    free(c->buckets);
    free(c->host_buckets);
    yk_group_free(c->group, c->block);
    free(c);
}

static yk_status prepare_host(compressor *c, const yk_ddp *ddp)
{
    size_t elements = 0, line = YKI_ALIGNMENT / sizeof *c->block;
    void *block = NULL;
    for (size_t b = 0; b < ddp->bucket_count; b++)
        elements += yki_align(ddp->buckets[b].part.elements, line);
    YK_TRY(yk_group_alloc(ddp->group, elements * sizeof *c->block, &block));
    c->block = block;
    c->host_buckets = yki_calloc(ddp->bucket_count, sizeof *c->host_buckets);
    if (!c->host_buckets)
        return yki_error_memory(ddp->bucket_count * sizeof *c->host_buckets, "buckets");
    uint16_t *rounded = c->block;
    for (size_t b = 0; b < ddp->bucket_count; b++) {
        c->host_buckets[b] = (host_bucket){.rounded = rounded, .dtype = c->dtype};
        rounded += yki_align(ddp->buckets[b].part.elements, line);
    }
    return YK_OK;
}

static yk_status register_compressor(yk_ddp *ddp, yk_dtype dtype)
{
    YK_TRY(yki_hook_compare(ddp, dtype == YK_BF16 ? "bf16_compress\n" : "fp16_compress\n"));
    compressor *made = yki_calloc(1, sizeof *made);
    if (!made)
        return yki_error_memory(sizeof *made, "a comm hook");
    made->dtype = dtype;
    made->group = ddp->group;
    bool enters = can_enter(ddp);
    yk_status status = enters ? prepare_streams(made, ddp) : prepare_host(made, ddp);
    if (status != YK_OK) {
        destroy_compressor(made);
        return status;
    }
    yki_hook hook = {.run = compress_hook, .state = made, .destroy = destroy_compressor};
    if (yki_device_is_host(yki_model_device(ddp->model)))
        hook.start = start_bucket;
    if (enters) {
        hook.enter = enter_bucket;
        hook.land = land_buckets;
        hook.dtype = dtype;
    }
    return yki_hook_register(ddp, &hook);
}

static yk_status register_together(yk_ddp *ddp, yk_dtype dtype)
{
    yki_joint joint = yki_joint_begin(ddp->group);
    return yki_hook_end(&joint, ddp, register_compressor(ddp, dtype));
}

yk_status yk_ddp_register_bf16_compress_hook(yk_ddp *ddp)
{
    YKI_NOT_NULL(ddp);
    return register_together(ddp, YK_BF16);
}

yk_status yk_ddp_register_fp16_compress_hook(yk_ddp *ddp)
{
    YKI_NOT_NULL(ddp);
    return register_together(ddp, YK_F16);
}

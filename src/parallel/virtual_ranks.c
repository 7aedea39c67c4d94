/*
 * Virtual ranks: each step does the work of V virtual ranks on N ranks, where N divides V, so that
 * training gives bitwise the same result for every N. Rank r runs the virtual ranks r V/N
 * ... (r + 1) V/N - 1 one after the other, each with its own forward and backward.
 * The result is independent of N because nothing in it depends on N:
 *
 *   gradients   those of each virtual rank, weighted by 1/V, are added in order, ((g0 + g1) + g2) +
 *               ...: an addition of floats is not associative, so no rank adds up its own first.
 *               One rank alone adds to what it has; several keep the gradients of their virtual
 *               ranks apart and gather them, one piece at a time: on the host or, where the group
 *               has a plane for the device, in its streams
 *   buffers     start each step as rank 0's and end it as virtual rank 0 has left them, as in DDP
 *   dropout     draws from the stream of the virtual rank
 *
 * Ordinary DDP does the same on V ranks of a host device if the group adds in the order of ranks:
 * then, with N = V, the reducer runs, and none of this. NCCL promises no order.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "base/memory.h"
#include "comm/group_internal.h"
#include "device/device.h"
#include "parallel/ddp.h"
#include "tensor/tensor.h"

/* The most bytes gathered at a time: from each virtual rank, and from all of them. */
enum { PIECE_BYTES = 1 << 20, PIECES_BYTES = 64 << 20 };

/* Adjacent gradients of one dtype, at the same place in the block of each virtual rank. */
typedef struct run {
    size_t offset, bytes;
    yk_dtype dtype;
    yki_kernel *add[2]; /* of a whole piece and of the last one, in streams; else NULL */
} run;

struct yki_virtual_ranks {
    int count, own, first; /* virtual ranks in all, of this rank, its first */
    int turn;              /* index of the next virtual rank of this rank */
    int64_t samples;       /* of each virtual rank's batch in this step */
    bool kept;             /* the flat block has the buffers as virtual rank 0 has left them */
    void ***grads;         /* (own, parameters): where each one's gradients are; NULL on one rank,
                            and if there are none */
    void *memory;          /* of all of them, the device's */
    size_t bytes;          /* of memory */
    char **blocks;         /* (own): the part of each */
    run *runs;
    size_t run_count;
    size_t piece_bytes; /* of each virtual rank, gathered at a time */
    void *mine, *all;   /* a piece of this rank's, of all virtual ranks */
    yki_plane *plane;   /* which moves them; they are the device's then. NULL: the group does */
};

/* ---- making ---------------------------------------------------------------------------------- */

/* Runs of gradients in the ranks' common order; returns the bytes of a block. */
static size_t plan_runs(yk_ddp *ddp)
{
    struct yki_virtual_ranks *v = ddp->virtual_ranks;
    size_t offset = 0;
    for (size_t i = 0; i < ddp->used; i++) {
        yk_dtype dtype = yk_model_parameter(ddp->model, ddp->order[i]).value.dtype;
        if (v->run_count == 0 || v->runs[v->run_count - 1].dtype != dtype)
            v->runs[v->run_count++] = (run){.offset = offset, .dtype = dtype};
        size_t bytes = yki_model_padded_bytes(ddp->model, ddp->order[i]);
        v->runs[v->run_count - 1].bytes += bytes;
        offset += bytes;
    }
    return offset;
}

static yk_status place_virtual_gradients(yk_ddp *ddp, int turn, char *block)
{
    struct yki_virtual_ranks *v = ddp->virtual_ranks;
    size_t bytes = yk_model_parameter_count(ddp->model) * sizeof *v->grads[turn];
    v->blocks[turn] = block;
    v->grads[turn] = yki_calloc(yk_model_parameter_count(ddp->model), sizeof *v->grads[turn]);
    if (!v->grads[turn])
        return yki_error_memory(bytes, "the gradients of virtual ranks");
    for (size_t i = 0; i < ddp->used; i++) {
        v->grads[turn][ddp->order[i]] = block;
        block += yki_model_padded_bytes(ddp->model, ddp->order[i]);
    }
    return YK_OK;
}

static size_t mine_bytes(const struct yki_virtual_ranks *v)
{
    return (size_t)v->own * v->piece_bytes;
}

static size_t all_bytes(const struct yki_virtual_ranks *v)
{
    return (size_t)v->count * v->piece_bytes;
}

static yk_status create_add(yki_kernel **kernel, yki_device *device, size_t bytes, yk_dtype dtype)
{
    static const yki_attrs none;
    const yki_operand operand = {
        .dtype = dtype, .ndim = 1, .dims = {(int64_t)(bytes / yk_dtype_size(dtype))}};
    yki_kernel_desc desc = {.op = &yki_op_add, .attrs = &none, .in_count = 2, .out_count = 1};
    desc.in[0] = desc.in[1] = desc.out[0] = operand;
    return bytes ? yki_kernel_create(device, &desc, kernel) : YK_OK;
}

/* Room for pieces where the ranks exchange them. */
static yk_status place_pieces(yk_ddp *ddp)
{
    struct yki_virtual_ranks *v = ddp->virtual_ranks;
    yki_device *device = yki_model_device(ddp->model);
    YK_TRY(yki_plane_open(&v->plane, ddp->group, device));
    if (v->plane)
        YK_TRY(yki_stream_times_create(ddp));
    if (!v->plane) {
        YK_TRY(yk_group_alloc(ddp->group, mine_bytes(v), &v->mine));
        return yk_group_alloc(ddp->group, all_bytes(v), &v->all);
    }
    YK_TRY(yki_device_alloc(device, mine_bytes(v), &v->mine));
    YK_TRY(yki_device_alloc(device, all_bytes(v), &v->all));
    for (size_t i = 0; i < v->run_count; i++) {
        run *r = &v->runs[i];
        YK_TRY(create_add(&r->add[0], device, r->bytes < v->piece_bytes ? 0 : v->piece_bytes,
                          r->dtype));
        YK_TRY(create_add(&r->add[1], device, r->bytes % v->piece_bytes, r->dtype));
    }
    return YK_OK;
}

/* Keeps the gradients of the virtual ranks separate until the last one has computed its own. */
static yk_status place_all_gradients(yk_ddp *ddp)
{
    struct yki_virtual_ranks *v = ddp->virtual_ranks;
    v->runs = yki_calloc(ddp->used, sizeof *v->runs);
    v->grads = yki_calloc((size_t)v->own, sizeof *v->grads);
    v->blocks = yki_calloc((size_t)v->own, sizeof *v->blocks);
    if (!v->runs || !v->grads || !v->blocks)
        return yki_error_memory(ddp->used * sizeof *v->runs, "virtual ranks");
    size_t bytes = plan_runs(ddp);
    v->bytes = (size_t)v->own * bytes;
    YK_TRY(yki_device_alloc(yki_model_device(ddp->model), v->bytes, &v->memory));
    for (int turn = 0; turn < v->own; turn++)
        YK_TRY(place_virtual_gradients(ddp, turn, (char *)v->memory + (size_t)turn * bytes));
    v->piece_bytes = yki_align(PIECES_BYTES / (size_t)v->count, YKI_ALIGNMENT);
    if (v->piece_bytes > PIECE_BYTES)
        v->piece_bytes = PIECE_BYTES;
    YK_TRY(place_pieces(ddp));
    yki_model_place_gradients(ddp->model, v->grads[0]);
    return YK_OK;
}

yk_status yki_virtual_ranks_check(int count, int ranks)
{
    if (count >= 0 && count <= YKI_VIRTUAL_RANKS_MAX && count % ranks == 0)
        return YK_OK;
    return yki_error(YK_ERROR_INVALID_ARGUMENT,
                     "%d virtual ranks cannot be divided equally among %d ranks (at most %d)",
                     count, ranks, YKI_VIRTUAL_RANKS_MAX);
}

bool yki_virtual_ranks_needed(const yk_ddp *ddp)
{
    int ranks = yk_group_size(ddp->group), count = ddp->options.virtual_ranks;
    bool in_order = yki_device_is_host(yki_model_device(ddp->model)) &&
                    yki_group_adds_in_rank_order(ddp->group);
    return count > ranks || (count == ranks && ranks > 1 && !in_order);
}

yk_status yki_virtual_ranks_create(yk_ddp *ddp)
{
    int ranks = yk_group_size(ddp->group);
    struct yki_virtual_ranks *v = yki_calloc(1, sizeof *v);
    if (!v)
        return yki_error_memory(sizeof *v, "virtual ranks");
    v->count = ddp->options.virtual_ranks;
    v->own = v->count / ranks;
    v->first = v->own * yk_group_rank(ddp->group);
    ddp->virtual_ranks = v;
    YK_TRY(yki_ddp_find_used(ddp));
    return ranks > 1 && ddp->used > 0 ? place_all_gradients(ddp) : YK_OK;
}

static void free_pieces(yk_ddp *ddp)
{
    struct yki_virtual_ranks *v = ddp->virtual_ranks;
    yki_device *device = yki_model_device(ddp->model);
    if (!v->plane) {
        yk_group_free(ddp->group, v->mine);
        yk_group_free(ddp->group, v->all);
        return;
    }
    for (size_t i = 0; i < v->run_count; i++)
        for (int last = 0; last < 2; last++)
            yki_kernel_destroy(v->runs[i].add[last]);
    yki_device_free(device, v->mine, mine_bytes(v));
    yki_device_free(device, v->all, all_bytes(v));
    yki_plane_close(v->plane);
}

void yki_virtual_ranks_destroy(yk_ddp *ddp)
{
    struct yki_virtual_ranks *v = ddp->virtual_ranks;
    for (int turn = 0; v->grads && turn < v->own; turn++)
        free(v->grads[turn]);
    free(v->grads);
    free(v->blocks);
    yki_device *device = yki_model_device(ddp->model);
    if (v->turn > 0) /* the gradients of a step that is given up */
        yk_model_zero_grad(ddp->model);
    yki_model_return_gradients(ddp->model);
    yki_stream_wait(device, yki_device_stream(device));
    yki_device_free(device, v->memory, v->bytes);
    free_pieces(ddp);
    free(v->runs);
    free(v);
    free(ddp->order);
}

/* ---- forward --------------------------------------------------------------------------------- */

static yk_status check_virtual_samples(struct yki_virtual_ranks *v, int64_t samples)
{
    if (v->turn > 0 && samples != v->samples)
        return yki_error(
            YK_ERROR_INVALID_SHAPE,
            "virtual ranks need batches of equal size: virtual rank %d has %lld samples, "
            "virtual rank %d has %lld",
            v->first + v->turn, (long long)samples, v->first, (long long)v->samples);
    v->samples = samples;
    return YK_OK;
}

/* After the last virtual rank of a step, or before the first if a step was given up. */
static yk_status restore_buffers(yk_ddp *ddp)
{
    if (ddp->virtual_ranks->kept) /* in evaluation mode they have not moved */
        YK_TRY(yki_buffers_copy(ddp, false));
    ddp->virtual_ranks->kept = false;
    return YK_OK;
}

void yki_virtual_ranks_zero_grad(void *context)
{
    yk_ddp *ddp = context;
    ddp->virtual_ranks->turn = 0;
}

yk_status yki_virtual_ranks_forward_begin(void *context, int64_t samples)
{
    yk_ddp *ddp = context;
    struct yki_virtual_ranks *v = ddp->virtual_ranks;
    YK_TRY(yki_forward_sync_check(ddp));
    yki_group_note_batches(ddp->group);
    YK_TRY(check_virtual_samples(v, samples));
    if (v->turn == 0) {
        YK_TRY(restore_buffers(ddp));
        YK_TRY(yki_buffers_follow(ddp));
        ddp->buffers_moved = true;
    }
    if (v->turn > 0 && !v->kept) {
        YK_TRY(yki_buffers_copy(ddp, true));
        v->kept = true;
    }
    yki_model_begin_micro_step(ddp->model, v->first + v->turn, v->turn == 0);
    return YK_OK;
}

/* ---- backward -------------------------------------------------------------------------------- */

yk_status yki_virtual_ranks_backward_begin(void *context, yki_backward *backward)
{
    yk_ddp *ddp = context;
    struct yki_virtual_ranks *v = ddp->virtual_ranks;
    ddp->stats = (yk_ddp_stats){0};
    if (v->turn == 0 && backward->adds)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "virtual ranks cannot accumulate gradients over several steps: step the "
                         "optimizer first");
    if (!backward->training) /* forward_begin has not checked it */
        YK_TRY(check_virtual_samples(v, backward->samples));
    if (backward->samples == 0)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "the batches of all %d virtual ranks are empty",
                         v->count);
    backward->mean_weight = backward->sum_weight = 1.0 / v->count;
    backward->kept_weight = 1;
    if (v->grads) {
        backward->adds = false;
        yki_model_place_gradients(ddp->model, v->grads[v->turn]);
    }
    return YK_OK;
}

/* Copies a piece of each of this rank's blocks to where it is exchanged from. */
static yk_status take_pieces(yk_ddp *ddp, size_t offset, size_t bytes)
{
    struct yki_virtual_ranks *v = ddp->virtual_ranks;
    yki_device *device = yki_model_device(ddp->model);
    for (int turn = 0; turn < v->own; turn++)
        YK_TRY(yki_device_copy(
            device, (char *)v->mine + (size_t)turn * bytes, v->blocks[turn] + offset, bytes,
            v->plane ? YKI_WITHIN_DEVICE : YKI_TO_HOST, yki_device_stream(device)));
    return YK_OK;
}

/* Sums a piece over all virtual ranks, in order, into the first block. */
static yk_status reduce_on_host(yk_ddp *ddp, size_t offset, size_t bytes, yk_dtype dtype)
{
    struct yki_virtual_ranks *v = ddp->virtual_ranks;
    yki_device *device = yki_model_device(ddp->model);
    yki_stream *stream = yki_device_stream(device);
    bool direct = yki_device_is_host(device);
    char *all = v->all, *to = direct ? v->blocks[0] + offset : all;
    YK_TRY(take_pieces(ddp, offset, bytes));
    YK_TRY(yki_stream_wait(device, stream));
    size_t count = bytes / yk_dtype_size(dtype);
    double start = yki_now();
    YK_TRY(yk_all_gather(ddp->group, v->all, v->mine, (size_t)v->own * count, dtype, NULL));
    ddp->waited_s += yki_group_waited(ddp->group, start);
    yki_add_scaled(dtype, to, 1, all, all + bytes, (int64_t)count);
    for (int turn = 2; turn < v->count; turn++)
        yki_add_scaled(dtype, to, 1, to, all + (size_t)turn * bytes, (int64_t)count);
    if (direct)
        return YK_OK;
    YK_TRY(yki_device_copy(device, v->blocks[0] + offset, to, bytes, YKI_TO_DEVICE, stream));
    return yki_stream_wait(device, stream); /* the next piece comes to the same place */
}

/* The same in the device's streams. */
static yk_status reduce_in_streams(yk_ddp *ddp, size_t offset, size_t bytes, const run *r)
{
    struct yki_virtual_ranks *v = ddp->virtual_ranks;
    yki_stream *stream = yki_device_stream(yki_model_device(ddp->model));
    const yki_kernel *add = r->add[bytes != v->piece_bytes];
    char *all = v->all, *to = v->blocks[0] + offset;
    const yk_descriptor what = {.operation = YK_OPERATION_ALL_GATHER,
                                .dtype = (uint8_t)r->dtype,
                                .count = (size_t)v->own * bytes / yk_dtype_size(r->dtype)};
    YK_TRY(take_pieces(ddp, offset, bytes));
    YK_TRY(yki_plane_run(v->plane, &what, v->mine, v->all, stream));
    for (int turn = 1; turn < v->count; turn++) {
        void *in[] = {turn == 1 ? all : to, all + (size_t)turn * bytes}, *out[] = {to};
        YK_TRY(add->impl->run(add, &(yki_kernel_args){.in = in, .out = out, .stream = stream}));
    }
    return YK_OK;
}

static yk_status reduce_virtual_ranks(yk_ddp *ddp)
{
    struct yki_virtual_ranks *v = ddp->virtual_ranks;
    double start = yki_now();
    double before = ddp->waited_s;
    YK_TRY(yki_stream_times_note(ddp, YKI_STREAM_LAUNCHED));
    YK_TRY(yki_stream_times_note(ddp, YKI_STREAM_COMPUTED));
    for (size_t i = 0; i < v->run_count; i++) {
        const run *r = &v->runs[i];
        for (size_t done = 0; done < r->bytes; done += v->piece_bytes) {
            size_t left = r->bytes - done, bytes = left < v->piece_bytes ? left : v->piece_bytes;
            YK_TRY(v->plane ? reduce_in_streams(ddp, r->offset + done, bytes, r)
                            : reduce_on_host(ddp, r->offset + done, bytes, r->dtype));
        }
    }
    if (!v->plane) {
        ddp->stats.communication_s = yki_now() - start;
        ddp->stats.exposed_s = ddp->stats.communication_s - (ddp->waited_s - before);
    }
    ddp->stats.waiting_s = ddp->waited_s;
    ddp->waited_s = 0;
    yki_model_place_gradients(ddp->model, v->grads[0]);
    YK_TRY(yki_stream_times_note(ddp, YKI_STREAM_LANDED));
    return yki_stream_times_end(ddp);
}

yk_status yki_virtual_ranks_backward_end(void *context)
{
    yk_ddp *ddp = context;
    struct yki_virtual_ranks *v = ddp->virtual_ranks;
    if (++v->turn < v->own)
        return YK_OK;
    v->turn = 0;
    YK_TRY(restore_buffers(ddp));
    return v->grads ? reduce_virtual_ranks(ddp) : YK_OK;
}

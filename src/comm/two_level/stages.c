/* What the three stages do, but for all-gathers. Each uses groups that no other stage uses. */
#include <string.h>

#include "comm/two_level/two_level.h"

enum {
    ONE_SLICE = 16 << 10,     /* bytes up to which a host's first rank alone crosses the network */
    SLICE_OF_PIECE = 4 << 20, /* bytes; networks are less efficient with less */
};

/* ---- calls on the groups --------------------------------------------------------------------- */

yk_status yki_two_level_adopt_failure(two_level *tl, const yk_group *part, yk_status status)
{
    if (atomic_load(&part->watched->failed))
        yki_watch_fail(tl->group->watched, -1, &part->watched->failure);
    return status;
}

yk_status yki_two_level_run(two_level *tl, yk_group *part, const yk_descriptor *what,
                            const void *in, void *out, bool background)
{
    yki_call call = {.base = {.what = *what, .in = in, .out = out}};
    part->background = background;
    yk_status status = yki_group_submit(part, &call, YK_OK, NULL);
    return status == YK_OK ? YK_OK : yki_two_level_adopt_failure(tl, part, status);
}

/* On the flat group: of its ranks only those of the messages take part. */
static yk_status pass_messages(two_level *tl, const yk_backend_call *call)
{
    yki_call flat = {.base = {.what = call->what, .matched = call->matched}};
    yk_backend_message *messages;
    tl->flat->background = call->background;
    YK_TRY(yki_call_make_messages(&flat, call->message_count, &messages));
    memcpy(messages, call->messages, call->message_count * sizeof *messages);
    yk_status status = yki_group_submit(tl->flat, &flat, YK_OK, NULL);
    return status == YK_OK ? YK_OK : yki_two_level_adopt_failure(tl, tl->flat, status);
}

static bool is_reduced(const yk_descriptor *what)
{
    return what->operation == YK_OPERATION_ALL_REDUCE || what->operation == YK_OPERATION_REDUCE;
}

/* Whether it is an all-gather of so many bytes of each rank, which proceeds in this way. */
static bool is_gathered(const two_level *tl, const yk_backend_call *call, size_t bytes,
                        two_level_way way)
{
    return call->what.operation == YK_OPERATION_ALL_GATHER && yki_two_level_way(tl, bytes) == way;
}

static bool on_roots_host(const two_level *tl, const yk_backend_call *call)
{
    return tl->host_of[call->what.root] == tl->host;
}

/* Whether ranks of this host get the result of a reduction. */
static bool gets_result(const two_level *tl, const yk_backend_call *call)
{
    return call->what.operation == YK_OPERATION_ALL_REDUCE || on_roots_host(tl, call);
}

/* ---- pieces ---------------------------------------------------------------------------------- */

static size_t bytes_of(const yk_backend_call *call)
{
    return call->what.count * yk_dtype_size((yk_dtype)call->what.dtype);
}

size_t yki_two_level_pieces(const two_level *tl, const yk_backend_call *call)
{
    size_t bytes = bytes_of(call), most = (size_t)tl->slices * SLICE_OF_PIECE;
    if (call->compare_only)
        return 1;
    if (is_reduced(&call->what))
        return bytes <= most ? 1 : (bytes - 1) / most + 1;
    if (is_gathered(tl, call, bytes, TWO_LEVEL_COLUMNS))
        return yki_two_level_column_pieces(tl, bytes);
    return 1;
}

/* The last piece also has the rest of the division. */
two_level_piece yki_two_level_piece(const yk_backend_call *call, size_t number, size_t pieces)
{
    size_t size = yk_dtype_size((yk_dtype)call->what.dtype);
    two_level_piece piece = {.call = *call, .stride = bytes_of(call)};
    if (pieces == 1)
        return piece;
    size_t each = call->what.count / pieces, start = number * each;
    piece.call.what.count = number == pieces - 1 ? call->what.count - start : each;
    piece.call.out = (char *)call->out + start * size;
    piece.call.in = (const char *)call->in + start * size;
    return piece;
}

/* ---- slices ---------------------------------------------------------------------------------- */

typedef struct slices {
    int count;
    size_t each; /* elements of a slice; the last one also has the rest of the division */
    size_t size; /* of an element */
} slices;

static slices slices_of(const two_level *tl, const yk_backend_call *call)
{
    slices s = {.count = tl->slices, .size = yk_dtype_size((yk_dtype)call->what.dtype)};
    if (call->what.count * s.size <= ONE_SLICE)
        s.count = 1;
    s.each = call->what.count / (size_t)s.count;
    return s;
}

static void *slice_start(const slices *s, const yk_backend_call *call, int slice)
{
    return (char *)call->out + (size_t)slice * s->each * s->size;
}

static size_t slice_count(const slices *s, const yk_backend_call *call, int slice)
{
    bool last = slice == s->count - 1;
    return last ? call->what.count - (size_t)slice * s->each : s->each;
}

/* Whether every rank of every host owns a slice. */
static bool all_own_slices(const two_level *tl, const slices *s)
{
    return tl->even && s->count == tl->most && s->count > 1;
}

static bool is_float(yk_dtype dtype)
{
    return dtype != YK_I32 && dtype != YK_I64;
}

/*
 * What a level does. The average of equally many averages is the average, and does not overflow
 * where a sum would. Other averages are sums, divided at the end.
 */
static yk_reduce_op level_op(const two_level *tl, const yk_descriptor *what)
{
    if (what->reduce != YK_REDUCE_AVG || (tl->even && is_float((yk_dtype)what->dtype)))
        return (yk_reduce_op)what->reduce;
    return YK_REDUCE_SUM;
}

/* ---- stage 1: within the host ---------------------------------------------------------------- */

yk_status yki_two_level_check(two_level *tl, yk_backend_call *call)
{
    YK_TRY(yki_two_level_gather_table(tl, &call->what, sizeof call->what, tl->called,
                                      call->background));
    return yk_backend_compare(call, tl->called, tl->world);
}

/* To the owners of the slices: what has become of the rest of the data is of no interest. */
static yk_status reduce_host(two_level *tl, const yk_backend_call *call)
{
    slices s = slices_of(tl, call);
    yk_descriptor what = call->what;
    what.reduce = (uint8_t)level_op(tl, &what);
    what.operation = s.count == 1 ? YK_OPERATION_REDUCE : YK_OPERATION_ALL_REDUCE;
    what.root = 0;
    if (!all_own_slices(tl, &s))
        return yki_two_level_run(tl, tl->reducing, &what, call->out, call->out, call->background);
    yk_descriptor rest = what;
    rest.count = slice_count(&s, call, s.count - 1) - s.each;
    rest.operation = YK_OPERATION_REDUCE;
    rest.root = s.count - 1;
    what.operation = YK_OPERATION_REDUCE_SCATTER;
    what.count = s.each;
    YK_TRY(yki_two_level_run(tl, tl->reducing, &what, call->out,
                             slice_start(&s, call, yk_group_rank(tl->reducing)), call->background));
    void *end = slice_start(&s, call, s.count);
    return rest.count ? yki_two_level_run(tl, tl->reducing, &rest, end, end, call->background)
                      : YK_OK;
}

static yk_status broadcast_from(two_level *tl, yk_group *part, const yk_backend_call *call,
                                int root)
{
    yk_descriptor what = call->what;
    what.root = root;
    return yki_two_level_run(tl, part, &what, call->out, call->out, call->background);
}

yk_status yki_two_level_reduce(two_level *tl, const two_level_piece *piece)
{
    const yk_backend_call *call = &piece->call;
    if (call->compare_only)
        return YK_OK;
    if (is_reduced(&call->what))
        return reduce_host(tl, call);
    if (is_gathered(tl, call, piece->stride, TWO_LEVEL_TABLE))
        return yki_two_level_gather_table(tl, call->in, piece->stride, call->out, call->background);
    if (call->what.operation == YK_OPERATION_BROADCAST && on_roots_host(tl, call))
        return broadcast_from(tl, tl->reducing, call, tl->index_of[call->what.root]);
    return YK_OK;
}

/* ---- stage 2: across the hosts --------------------------------------------------------------- */

/* The rank on root's host that owns this slice, as the owners of the slice count themselves. */
static int roots_owner(const two_level *tl, const yk_backend_call *call, int slice)
{
    int host = tl->host_of[call->what.root], rank = 0;
    for (int r = 0; tl->host_of[r] != host || tl->index_of[r] != slice; r++)
        rank += tl->index_of[r] == slice;
    return rank;
}

static yk_status reduce_across(two_level *tl, const yk_backend_call *call)
{
    slices s = slices_of(tl, call);
    int mine = yk_group_rank(tl->gathering);
    if (mine >= s.count)
        return YK_OK;
    yk_descriptor what = call->what;
    what.count = slice_count(&s, call, mine);
    what.reduce = (uint8_t)level_op(tl, &what);
    if (what.operation == YK_OPERATION_REDUCE)
        what.root = roots_owner(tl, call, mine);
    void *data = slice_start(&s, call, mine);
    YK_TRY(yki_two_level_run(tl, tl->across, &what, data, data, call->background));
    if (what.reduce != call->what.reduce && gets_result(tl, call))
        yki_two_level_divide(data, what.count, (yk_dtype)what.dtype, tl->world);
    return YK_OK;
}

static yk_status run_flat(two_level *tl, const yk_backend_call *call)
{
    return yki_two_level_run(tl, tl->flat, &call->what, call->in, call->out, call->background);
}

static yk_status gather_across(two_level *tl, const two_level_piece *piece)
{
    switch (yki_two_level_way(tl, piece->stride)) {
    case TWO_LEVEL_COLUMNS:
        return yki_two_level_gather_column(tl, piece);
    case TWO_LEVEL_FLAT:
        return run_flat(tl, &piece->call);
    default: /* the table has been gathered */
        return YK_OK;
    }
}

yk_status yki_two_level_cross(two_level *tl, const two_level_piece *piece)
{
    const yk_backend_call *call = &piece->call;
    if (call->compare_only)
        return YK_OK;
    if (call->message_count > 0)
        return pass_messages(tl, call);
    switch ((yk_operation)call->what.operation) {
    case YK_OPERATION_ALL_REDUCE:
    case YK_OPERATION_REDUCE:
        return reduce_across(tl, call);
    case YK_OPERATION_BROADCAST:
        if (yk_group_rank(tl->gathering) != 0)
            return YK_OK;
        return broadcast_from(tl, tl->across, call, tl->host_of[call->what.root]);
    case YK_OPERATION_BARRIER: /* the check was one */
    case YK_OPERATION_ALLOC:
        return YK_OK;
    case YK_OPERATION_ALL_GATHER:
        return gather_across(tl, piece);
    default:
        return run_flat(tl, call);
    }
}

/* ---- stage 3: within the host again ---------------------------------------------------------- */

/* Slices go to all ranks of the host, unless their owner is the only one that gets the result. */
static yk_status broadcast_slice(two_level *tl, const yk_backend_call *call, int owner, void *data,
                                 size_t count)
{
    bool all = call->what.operation == YK_OPERATION_ALL_REDUCE;
    yk_descriptor what = {.operation = YK_OPERATION_BROADCAST,
                          .dtype = call->what.dtype,
                          .root = owner,
                          .count = count};
    if (count == 0 || (!all && owner == tl->index_of[call->what.root]))
        return YK_OK;
    return yki_two_level_run(tl, tl->gathering, &what, data, data, call->background);
}

static yk_status gather_host(two_level *tl, const yk_backend_call *call)
{
    slices s = slices_of(tl, call);
    bool all = call->what.operation == YK_OPERATION_ALL_REDUCE;
    if (all_own_slices(tl, &s)) {
        yk_operation gather = all ? YK_OPERATION_ALL_GATHER : YK_OPERATION_GATHER;
        yk_descriptor what = {.operation = (uint8_t)gather,
                              .dtype = call->what.dtype,
                              .root = all ? 0 : tl->index_of[call->what.root],
                              .count = s.each};
        int last = s.count - 1;
        YK_TRY(yki_two_level_run(tl, tl->gathering, &what,
                                 slice_start(&s, call, yk_group_rank(tl->gathering)), call->out,
                                 call->background));
        return broadcast_slice(tl, call, last, slice_start(&s, call, s.count),
                               slice_count(&s, call, last) - s.each);
    }
    for (int i = 0; i < s.count; i++)
        YK_TRY(broadcast_slice(tl, call, i, slice_start(&s, call, i), slice_count(&s, call, i)));
    return YK_OK;
}

yk_status yki_two_level_gather(two_level *tl, const two_level_piece *piece)
{
    const yk_backend_call *call = &piece->call;
    if (call->compare_only)
        return YK_OK;
    if (is_gathered(tl, call, piece->stride, TWO_LEVEL_COLUMNS))
        return yki_two_level_share_columns(tl, piece);
    if (is_reduced(&call->what))
        return gets_result(tl, call) ? gather_host(tl, call) : YK_OK;
    if (call->what.operation == YK_OPERATION_BROADCAST && !on_roots_host(tl, call))
        return broadcast_from(tl, tl->gathering, call, 0);
    return YK_OK;
}

/*
 * The exchange of messages with which a call begins, and the collectives. comm/engine/engine.h says
 * how a call proceeds.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "comm/engine/operators.h"
#include "mpi_engine.h"

enum {
    PART_OF_PIECE = 1 << 20, /* bytes for each rank in a piece of an all-reduce or a reduce */
    LOOSE_TESTS = 2000,      /* how often a call tests before it yields its core each time */
    TESTS_OF_CLOCK = 16,     /* how often a caller tests before it reads the clock */
    SHORTEST_NAP_NS = 2000,
    LONGEST_NAP_NS = 200000
};

/* ---- types and operations -------------------------------------------------------------------- */

static MPI_Op half_ops[2][4]; /* bf16 and f16: sum, min, max, product */

#define HALF_OPERATION(NAME, DTYPE, OP)                                                            \
    static void NAME(void *in, void *inout, int *n, MPI_Datatype *type)                            \
    {                                                                                              \
        (void)type;                                                                                \
        yki_engine_operator_of(DTYPE, OP)(inout, in, inout, (size_t)*n);                           \
    }

/* MPI_User_function has no pointers to const. NOLINTBEGIN(readability-non-const-parameter) */
HALF_OPERATION(sum_bf16, YK_BF16, YK_REDUCE_SUM)
HALF_OPERATION(min_bf16, YK_BF16, YK_REDUCE_MIN)
HALF_OPERATION(max_bf16, YK_BF16, YK_REDUCE_MAX)
HALF_OPERATION(product_bf16, YK_BF16, YK_REDUCE_PRODUCT)
HALF_OPERATION(sum_f16, YK_F16, YK_REDUCE_SUM)
HALF_OPERATION(min_f16, YK_F16, YK_REDUCE_MIN)
HALF_OPERATION(max_f16, YK_F16, YK_REDUCE_MAX)
HALF_OPERATION(product_f16, YK_F16, YK_REDUCE_PRODUCT)
/* NOLINTEND(readability-non-const-parameter) */

int mpi_engine_create_operations(void)
{
    MPI_User_function *const functions[2][4] = {{sum_bf16, min_bf16, max_bf16, product_bf16},
                                                {sum_f16, min_f16, max_f16, product_f16}};
    for (int d = 0; d < 2; d++)
        for (int o = 0; o < 4; o++) {
            int code = MPI_Op_create(functions[d][o], 1, &half_ops[d][o]);
            if (code != MPI_SUCCESS)
                return code;
        }
    return MPI_SUCCESS;
}

MPI_Datatype mpi_type_of(yk_dtype dtype)
{
    switch (dtype) {
    case YK_F32:
        return MPI_FLOAT;
    case YK_F64:
        return MPI_DOUBLE;
    case YK_I32:
        return MPI_INT32_T;
    case YK_I64:
        return MPI_INT64_T;
    case YK_BF16:
    case YK_F16:
        return MPI_UINT16_T;
    default:
        return MPI_UINT8_T;
    }
}

static MPI_Op operation_of(yk_dtype dtype, yk_reduce_op op)
{
    int index = op == YK_REDUCE_MIN ? 1 : op == YK_REDUCE_MAX ? 2 : op == YK_REDUCE_PRODUCT ? 3 : 0;
    if (dtype == YK_BF16 || dtype == YK_F16)
        return half_ops[dtype == YK_F16][index];
    return index == 1 ? MPI_MIN : index == 2 ? MPI_MAX : index == 3 ? MPI_PROD : MPI_SUM;
}

/* ---- the exchange of messages ---------------------------------------------------------------- */

/* Where the next request is to be written. It counts as pending at once, and stays so if MPI fails
 * to post it. */
static MPI_Request *next_request(mpi_engine *engine)
{
    return &engine->requests[engine->pending++];
}

yk_status mpi_engine_check_usable(const mpi_engine *engine)
{
    if (engine->pending == 0)
        return YK_OK;
    return yk_set_error(YK_ERROR_NETWORK, "an earlier call of %s has failed", LIBRARY);
}

/* Tests the requests that are pending, the last one first. */
static yk_status test_requests(mpi_engine *engine)
{
    for (int done = 1; engine->pending > 0 && done; engine->pending -= done)
        TRY_MPI(MPI_Test(&engine->requests[engine->pending - 1], &done, MPI_STATUS_IGNORE));
    if (engine->pending > 0 && atomic_load_explicit(&engine->cancelled, memory_order_relaxed))
        return yk_set_error(YK_ERROR_NETWORK, "the call was cancelled");
    return YK_OK;
}

void mpi_pause(mpi_pauses *p)
{
    bool naps = p->background && p->tests > LOOSE_TESTS / 10;
    if (naps) {
        p->nap = p->nap == 0 ? SHORTEST_NAP_NS : p->nap < LONGEST_NAP_NS ? 2 * p->nap : p->nap;
        nanosleep(&(struct timespec){.tv_nsec = p->nap}, NULL);
    } else if (p->tests > LOOSE_TESTS)
        sched_yield();
    p->tests++;
}

static yk_status await(mpi_engine *engine, bool background)
{
    for (mpi_pauses waits = {.background = background};; mpi_pause(&waits)) {
        TRY(test_requests(engine));
        if (engine->pending == 0)
            return YK_OK;
    }
}

double mpi_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static yk_status test_exchange(yki_engine_base *common, double wait_s, bool *done)
{
    mpi_engine *engine = (mpi_engine *)common;
    double until = 0;
    *done = true; /* also after an error */
    for (int tests = 1;; tests++) {
        TRY(test_requests(engine));
        if (engine->pending == 0)
            return YK_OK;
        bool yields = tests > LOOSE_TESTS; /* which takes long where ranks share a core */
        if (yields || tests % TESTS_OF_CLOCK == 0) {
            until = until > 0 ? until : mpi_now() + wait_s;
            if (mpi_now() >= until)
                break;
        }
        if (yields)
            sched_yield();
    }
    *done = false;
    return YK_OK;
}

/* Each rank sends its message to every other. */
static yk_status begin_pairs(mpi_engine *engine, size_t bytes)
{
    const yki_engine_base *common = &engine->common;
    for (int r = 0; r < common->ranks; r++)
        if (r != common->rank)
            TRY_MPI(MPI_Irecv(yki_engine_message(common, r), (int)common->stride, MPI_BYTE, r,
                              TAG_MESSAGE, engine->comm, next_request(engine)));
    for (int r = 0; r < common->ranks; r++)
        if (r != common->rank)
            TRY_MPI(MPI_Isend(yki_engine_message(common, common->rank), (int)bytes, MPI_BYTE, r,
                              TAG_MESSAGE, engine->comm, next_request(engine)));
    return YK_OK;
}

/* Among many ranks nothing is carried: their messages are the descriptors alone. */
static yk_status begin_exchange(yki_engine_base *common, size_t bytes)
{
    mpi_engine *engine = (mpi_engine *)common;
    TRY(mpi_engine_check_usable(engine));
    if (common->small > 0)
        return begin_pairs(engine, bytes);
    TRY_MPI(MPI_Iallgather(MPI_IN_PLACE, 0, MPI_BYTE, yki_engine_message(common, 0), (int)bytes,
                           MPI_BYTE, engine->comm, next_request(engine)));
    return YK_OK;
}

static yk_status exchange(yki_engine_base *common, yk_backend_call *call, size_t bytes)
{
    mpi_engine *engine = (mpi_engine *)common;
    TRY(begin_exchange(common, bytes));
    return await(engine, call->background);
}

/* ---- collectives ----------------------------------------------------------------------------- */

bool mpi_next_span(mpi_span *at, size_t *left, size_t most, size_t width)
{
    at->start += (size_t)at->count * width;
    at->count = (int)(*left < most ? *left : most);
    *left -= (size_t)at->count;
    return at->count > 0;
}

/*
 * A large buffer is reduced piece by piece. A piece is still in the cache when MPI adds to it and
 * sends it again, and the memory that MPI allocates for it is not mapped again each time: between
 * two hosts with a core each, 64 MiB take half of the time. Smaller pieces than these cost 1 to 4
 * MiB up to 40 % more time. A piece grows with the number of ranks, because that is how many parts
 * the algorithms of MPI divide it into.
 */
static size_t most_of_piece(const mpi_engine *engine, size_t width)
{
    size_t most = (size_t)engine->common.ranks * PART_OF_PIECE / width;
    return most < engine->largest ? most : engine->largest;
}

static yk_status all_reduce_pieces(yki_engine_base *common, yk_backend_call *call)
{
    mpi_engine *engine = (mpi_engine *)common;
    yk_dtype dtype = (yk_dtype)call->what.dtype;
    yk_reduce_op op = (yk_reduce_op)call->what.reduce;
    size_t width = yk_dtype_size(dtype), left = call->what.count;
    for (mpi_span at = {0}; mpi_next_span(&at, &left, most_of_piece(engine, width), width);)
        TRY_MPI(MPI_Allreduce(MPI_IN_PLACE, (char *)call->out + at.start, at.count,
                              mpi_type_of(dtype), operation_of(dtype, op), engine->comm));
    return YK_OK;
}

/* Root receives the result beside its data: MPICH 4.0 crashes where root, if it is not the first
 * rank of its host, reduces in place. */
static yk_status reduce_pieces(yki_engine_base *common, yk_backend_call *call)
{
    mpi_engine *engine = (mpi_engine *)common;
    yk_dtype dtype = (yk_dtype)call->what.dtype;
    yk_reduce_op op = (yk_reduce_op)call->what.reduce;
    size_t width = yk_dtype_size(dtype), left = call->what.count;
    size_t most = most_of_piece(engine, width), bytes = (left < most ? left : most) * width;
    bool on_root = common->rank == call->what.root;
    void *piece = on_root ? malloc(bytes) : NULL;
    if (on_root && !piece)
        return yk_set_error(YK_ERROR_NETWORK, "no memory for %zu bytes", bytes);
    int code = MPI_SUCCESS;
    for (mpi_span at = {0}; code == MPI_SUCCESS && mpi_next_span(&at, &left, most, width);) {
        char *data = (char *)call->out + at.start;
        code = MPI_Reduce(data, piece, at.count, mpi_type_of(dtype), operation_of(dtype, op),
                          call->what.root, engine->comm);
        if (on_root && code == MPI_SUCCESS)
            memcpy(data, piece, (size_t)at.count * width);
    }
    if (code != MPI_SUCCESS) /* MPI may still write to the piece, which stays */
        return mpi_engine_failed("reduce", code);
    free(piece);
    return YK_OK;
}

static yk_status all_reduce(yki_engine_base *engine, yk_backend_call *call)
{
    return yki_engine_reduce(engine, call, all_reduce_pieces);
}

static yk_status reduce(yki_engine_base *engine, yk_backend_call *call)
{
    return yki_engine_reduce(engine, call, reduce_pieces);
}

static yk_status broadcast_from(mpi_engine *engine, void *data, yk_backend_call *call, int root)
{
    yk_dtype dtype = (yk_dtype)call->what.dtype;
    size_t left = call->what.count;
    for (mpi_span at = {0}; mpi_next_span(&at, &left, engine->largest, yk_dtype_size(dtype));)
        TRY_MPI(
            MPI_Bcast((char *)data + at.start, at.count, mpi_type_of(dtype), root, engine->comm));
    return YK_OK;
}

static yk_status broadcast(yki_engine_base *common, yk_backend_call *call)
{
    return broadcast_from((mpi_engine *)common, call->out, call, call->what.root);
}

/* Parts that are too large for one call are broadcast one after the other. A rank's own part may
 * already be in its place, which MPI wants to be told. */
static yk_status all_gather(yki_engine_base *common, yk_backend_call *call)
{
    mpi_engine *engine = (mpi_engine *)common;
    MPI_Datatype type = mpi_type_of((yk_dtype)call->what.dtype);
    size_t bytes = call->what.count * yk_dtype_size((yk_dtype)call->what.dtype);
    char *out = call->out, *own = out + (size_t)engine->common.rank * bytes;
    bool in_place = call->in == own;
    if (call->what.count <= engine->largest) {
        int count = (int)call->what.count;
        TRY_MPI(MPI_Allgather(in_place ? MPI_IN_PLACE : call->in, count, type, out, count, type,
                              engine->comm));
        return YK_OK;
    }
    if (!in_place)
        memcpy(own, call->in, bytes);
    for (int r = 0; r < engine->common.ranks; r++)
        TRY(broadcast_from(engine, out + (size_t)r * bytes, call, r));
    return YK_OK;
}

/* The parts of all ranks to or from root, one after the other. */
static yk_status move_parts(mpi_engine *engine, yk_backend_call *call, bool to_root)
{
    yk_dtype dtype = (yk_dtype)call->what.dtype;
    size_t width = yk_dtype_size(dtype), bytes = call->what.count * width;
    int root = call->what.root, rank = engine->common.rank;
    for (int r = 0; r < engine->common.ranks; r++) {
        size_t left = call->what.count;
        char *all = (char *)(to_root ? call->out : (void *)(uintptr_t)call->in);
        char *mine = (char *)(to_root ? (void *)(uintptr_t)call->in : call->out);
        char *part = rank == root ? all + (size_t)r * bytes : NULL;
        if (r == root && rank == root)
            memcpy(to_root ? part : mine, to_root ? mine : part, bytes);
        for (mpi_span at = {0}; r != root && mpi_next_span(&at, &left, engine->largest, width);) {
            if (rank == (to_root ? r : root))
                TRY_MPI(MPI_Send((to_root ? mine : part) + at.start, at.count, mpi_type_of(dtype),
                                 to_root ? root : r, TAG_DATA, engine->comm));
            if (rank == (to_root ? root : r))
                TRY_MPI(MPI_Recv((to_root ? part : mine) + at.start, at.count, mpi_type_of(dtype),
                                 to_root ? r : root, TAG_DATA, engine->comm, MPI_STATUS_IGNORE));
        }
    }
    return YK_OK;
}

static yk_status gather(yki_engine_base *common, yk_backend_call *call)
{
    mpi_engine *engine = (mpi_engine *)common;
    MPI_Datatype type = mpi_type_of((yk_dtype)call->what.dtype);
    int count = (int)call->what.count;
    if (call->what.count > engine->largest)
        return move_parts(engine, call, true);
    TRY_MPI(
        MPI_Gather(call->in, count, type, call->out, count, type, call->what.root, engine->comm));
    return YK_OK;
}

static yk_status scatter(yki_engine_base *common, yk_backend_call *call)
{
    mpi_engine *engine = (mpi_engine *)common;
    MPI_Datatype type = mpi_type_of((yk_dtype)call->what.dtype);
    int count = (int)call->what.count;
    if (call->what.count > engine->largest)
        return move_parts(engine, call, false);
    TRY_MPI(
        MPI_Scatter(call->in, count, type, call->out, count, type, call->what.root, engine->comm));
    return YK_OK;
}

/* With one rank after the other, where MPI's counts cannot express it in one call. */
static yk_status trade_parts(mpi_engine *engine, yk_backend_call *call)
{
    yk_dtype dtype = (yk_dtype)call->what.dtype;
    int ranks = engine->common.ranks, rank = engine->common.rank;
    size_t width = yk_dtype_size(dtype), bytes = call->what.count * width;
    const char *in = call->in;
    char *out = call->out;
    memcpy(out + (size_t)rank * bytes, in + (size_t)rank * bytes, bytes);
    for (int step = 1; step < ranks; step++) {
        int to = (rank + step) % ranks, from = (rank + ranks - step) % ranks;
        size_t left = call->what.count;
        for (mpi_span at = {0}; mpi_next_span(&at, &left, engine->largest, width);)
            TRY_MPI(MPI_Sendrecv(in + (size_t)to * bytes + at.start, at.count, mpi_type_of(dtype),
                                 to, TAG_DATA, out + (size_t)from * bytes + at.start, at.count,
                                 mpi_type_of(dtype), from, TAG_DATA, engine->comm,
                                 MPI_STATUS_IGNORE));
    }
    return YK_OK;
}

static yk_status all_to_all(yki_engine_base *common, yk_backend_call *call)
{
    mpi_engine *engine = (mpi_engine *)common;
    MPI_Datatype type = mpi_type_of((yk_dtype)call->what.dtype);
    int count = (int)call->what.count;
    if (call->what.count > engine->largest)
        return trade_parts(engine, call);
    TRY_MPI(MPI_Alltoall(call->in, count, type, call->out, count, type, engine->comm));
    return YK_OK;
}

/* f16 is divided before it is added (yki_engine_divides_before), in a copy: `in` is the caller's.
 */
static yk_status reduce_scatter(yki_engine_base *common, yk_backend_call *call)
{
    mpi_engine *engine = (mpi_engine *)common;
    yk_dtype dtype = (yk_dtype)call->what.dtype;
    yk_reduce_op op = (yk_reduce_op)call->what.reduce;
    int ranks = engine->common.ranks;
    size_t width = yk_dtype_size(dtype), bytes = call->what.count * width;
    const char *in = call->in;
    char *copy = NULL;
    if (yki_engine_divides_before(dtype, op)) {
        if (!(copy = malloc(bytes * (size_t)ranks)))
            return yk_set_error(YK_ERROR_NETWORK, "no memory for %zu bytes", bytes * (size_t)ranks);
        memcpy(copy, in, bytes * (size_t)ranks);
        yki_engine_divide(copy, call->what.count * (size_t)ranks, dtype, ranks);
        in = copy;
    }
    int code = MPI_SUCCESS;
    if (call->what.count <= engine->largest)
        code = MPI_Reduce_scatter_block(in, call->out, (int)call->what.count, mpi_type_of(dtype),
                                        operation_of(dtype, op), engine->comm);
    for (int r = 0; r < ranks && call->what.count > engine->largest; r++) {
        size_t left = call->what.count;
        for (mpi_span at = {0};
             code == MPI_SUCCESS && mpi_next_span(&at, &left, engine->largest, width);)
            code =
                MPI_Reduce(in + (size_t)r * bytes + at.start,
                           r == engine->common.rank ? (char *)call->out + at.start : NULL, at.count,
                           mpi_type_of(dtype), operation_of(dtype, op), r, engine->comm);
    }
    if (code != MPI_SUCCESS) /* MPI may still read the copy, which stays */
        return mpi_engine_failed("reduce_scatter", code);
    free(copy);
    if (yki_engine_divides_after(dtype, op))
        yki_engine_divide(call->out, call->what.count, dtype, ranks);
    return YK_OK;
}

/* ---- the table ------------------------------------------------------------------------------- */

const yki_engine_calls mpi_engine_calls = {.exchange = exchange,
                                           .begin_exchange = begin_exchange,
                                           .test_exchange = test_exchange,
                                           .all_reduce = all_reduce,
                                           .reduce = reduce,
                                           .broadcast = broadcast,
                                           .all_gather = all_gather,
                                           .reduce_scatter = reduce_scatter,
                                           .gather = gather,
                                           .scatter = scatter,
                                           .all_to_all = all_to_all,
                                           .messages = mpi_engine_messages};

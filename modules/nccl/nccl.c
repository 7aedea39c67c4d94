/*
 * The nccl backend: NCCL moves the memory of NVIDIA GPUs between ranks.
 *
 * A communicator never blocks the host: a call that NCCL has not finished is polled, while the
 * group looks at the other ranks. Before a call returns, its kernels have been entered in the
 * stream, so that events mark what they seem to mark. A communicator that has failed, or waits for
 * a rank that is dead, is aborted, which ends its kernels. NCCL's own environment variables
 * (NCCL_SOCKET_IFNAME, NCCL_IB_..., NCCL_DEBUG) are left to the user.
 */
#define _GNU_SOURCE
#include <yoke/backend.h>

#include <assert.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "library.h"

#define POLL_NS    50000L
#define LOOKS_EACH 400   /* polls, so about every 20 ms */
#define CLOSING    20000 /* polls, about a second */
#define ABORT_S    1

enum { MAGIC = 0xcafebeef, VERSION_OF_CONFIG = NCCL_OLDEST, TEXT = 320 };

static const char FAILURE[] = "failed"; /* key: why a rank could not open its communicator */

typedef struct nccl_backend {
    yk_backend base;
    const nccl_library *nccl;
    const yk_backend_site *site;
    nccl_comm *comm; /* NULL: it was aborted */
} nccl_backend;

#define TRY(call)                                                                                  \
    do {                                                                                           \
        yk_status try_status_ = (call);                                                            \
        if (try_status_ != YK_OK)                                                                  \
            return try_status_;                                                                    \
    } while (0)

static void poll_pause(void)
{
    nanosleep(&(struct timespec){.tv_nsec = POLL_NS}, NULL);
}

/* ---- errors ---------------------------------------------------------------------------------- */

static yk_status nccl_failed(const nccl_backend *b, yk_status status, nccl_result result,
                             const char *what)
{
    const char *detail = b->nccl->GetLastError(b->comm);
    return yk_set_error(status, "%s: %s (NCCL %s)%s%.200s", what, b->nccl->GetErrorString(result),
                        b->nccl->name, detail && *detail ? ": " : "", detail ? detail : "");
}

typedef struct aborted_communicator {
    const nccl_library *nccl;
    nccl_comm *comm;
} aborted_communicator;

static void *run_abort(void *context)
{
    aborted_communicator *aborted = context;
    aborted->nccl->CommAbort(aborted->comm);
    free(aborted);
    return NULL;
}

/* Joins a thread, or gives up after so many seconds of the monotonic clock. It polls because
 * ThreadSanitizer supports pthread_tryjoin_np, but not pthread_clockjoin_np. */
static bool join_within(pthread_t thread, time_t seconds)
{
    struct timespec now, until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += seconds;
    do {
        if (pthread_tryjoin_np(thread, NULL) == 0)
            return true;
        poll_pause();
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (now.tv_sec < until.tv_sec ||
             (now.tv_sec == until.tv_sec && now.tv_nsec < until.tv_nsec));
    return false;
}

/*
 * ncclCommAbort first tells the kernels to end, then waits until no CUDA graph contains any of
 * them. The host destroys its graphs only after it has learned of the failure, so that a thread of
 * its own waits for that, and this one only for a moment.
 */
static void abort_communicator(nccl_backend *b)
{
    pthread_t thread;
    nccl_comm *comm = b->comm;
    b->comm = NULL;
    if (!comm)
        return;
    aborted_communicator *aborted = malloc(sizeof *aborted);
    if (aborted)
        *aborted = (aborted_communicator){.nccl = b->nccl, .comm = comm};
    if (!aborted || pthread_create(&thread, NULL, run_abort, aborted) != 0) {
        free(aborted);
        b->nccl->CommAbort(comm);
        return;
    }
    if (!join_within(thread, ABORT_S))
        pthread_detach(thread);
}

static bool any_rank(const void *wait, int rank)
{
    (void)wait, (void)rank;
    return true;
}

/* Polls until NCCL has finished what it returned `result` for. */
static yk_status settle(nccl_backend *b, nccl_result result, const char *what)
{
    for (int polls = 1; result == NCCL_IN_PROGRESS; polls++) {
        nccl_result asked = b->nccl->CommGetAsyncError(b->comm, &result);
        if (asked != NCCL_SUCCESS)
            result = asked;
        if (result != NCCL_IN_PROGRESS)
            break;
        if (polls % LOOKS_EACH == 0)
            TRY(b->site->look(b->site->context, any_rank, NULL));
        poll_pause();
    }
    return result == NCCL_SUCCESS ? YK_OK : nccl_failed(b, YK_ERROR_NETWORK, result, what);
}

/* ---- opening --------------------------------------------------------------------------------- */

static_assert(sizeof(nccl_config) == 48, "as large as in 2.18");

static nccl_config make_config(void)
{
    return (nccl_config){.size = sizeof(nccl_config),
                         .magic = MAGIC,
                         .version = VERSION_OF_CONFIG,
                         .blocking = 0,
                         .cga_cluster_size = INT_MIN,
                         .min_ctas = INT_MIN,
                         .max_ctas = INT_MIN,
                         .split_share = INT_MIN,
                         .traffic_class = INT_MIN};
}

/* Whether another rank has said why it cannot open its communicator. */
static yk_status ask_others(const nccl_backend *b)
{
    char text[TEXT];
    size_t used;
    const yk_backend_site *site = b->site;
    if (site->get(site->context, FAILURE, text, sizeof text - 1, &used, 0) == YK_OK) {
        text[used] = '\0';
        return yk_set_error(YK_ERROR_UNSUPPORTED, "%s", text);
    }
    return site->look(site->context, any_rank, NULL);
}

/* A rank that NCCL refuses tells the others, which wait for it within NCCL. */
static yk_status refuse(const nccl_backend *b, nccl_result result, const char *what)
{
    char text[TEXT];
    const char *detail = b->nccl->GetLastError(b->comm);
    if (detail && strstr(detail, "Duplicate GPU"))
        snprintf(text, sizeof text, "several ranks share a GPU, which NCCL %s refuses",
                 b->nccl->name);
    else
        snprintf(text, sizeof text, "%s: %s (NCCL %s)%s%.160s", what,
                 b->nccl->GetErrorString(result), b->nccl->name, detail && *detail ? ": " : "",
                 detail ? detail : "");
    b->site->set(b->site->context, FAILURE, text, strlen(text));
    return yk_set_error(YK_ERROR_UNSUPPORTED, "%s", text);
}

/* The first rank makes the id by which the communicators find each other. */
static yk_status share_id(const nccl_backend *b, nccl_id *id)
{
    const yk_backend_site *site = b->site;
    size_t used;
    if (site->rank == 0) {
        nccl_result result = b->nccl->GetUniqueId(id);
        if (result != NCCL_SUCCESS)
            return refuse(b, result, "ncclGetUniqueId");
        return site->set(site->context, "id", id, sizeof *id);
    }
    for (;;) {
        yk_status status = site->get(site->context, "id", id, sizeof *id, &used, 0.02);
        if (status != YK_ERROR_TIMEOUT)
            return status;
        TRY(ask_others(b));
    }
}

/*
 * Each plane has a communicator with an id of its own: ncclCommSplit reports its progress on the
 * communicator that is split, which another thread may be using.
 */
static yk_status open_communicator(nccl_backend *b)
{
    nccl_id id;
    nccl_config config = make_config();
    const yk_backend_site *site = b->site;
    TRY(share_id(b, &id));
    nccl_result result =
        b->nccl->CommInitRankConfig(&b->comm, site->ranks, id, site->rank, &config);
    for (int polls = 1; result == NCCL_SUCCESS || result == NCCL_IN_PROGRESS; polls++) {
        nccl_result asked = b->nccl->CommGetAsyncError(b->comm, &result);
        if (asked != NCCL_SUCCESS)
            result = asked;
        if (result == NCCL_SUCCESS)
            return YK_OK;
        if (polls % LOOKS_EACH == 0)
            TRY(ask_others(b));
        poll_pause();
    }
    return refuse(b, result, "ncclCommInitRankConfig");
}

static yk_status check_device(const yk_backend_device *device)
{
    if (strcmp(device->type, "cuda") == 0 || getenv("YOKE_TEST_NCCL"))
        return YK_OK;
    return yk_set_error(YK_ERROR_UNSUPPORTED, "NCCL does not move the memory of device %s",
                        device->type);
}

extern const yk_backend_ops yk_backend_module;

static yk_status open_backend(yk_backend **backend, const yk_backend_site *site)
{
    const nccl_library *nccl;
    *backend = NULL;
    TRY(check_device(site->device));
    TRY(nccl_open_library(&nccl));
    nccl_backend *b = calloc(1, sizeof *b);
    if (!b)
        return yk_set_error(YK_ERROR_OUT_OF_MEMORY, "no memory for the nccl backend");
    b->base.ops = &yk_backend_module;
    b->nccl = nccl;
    b->site = site;
    yk_status status = open_communicator(b);
    if (status != YK_OK) {
        abort_communicator(b);
        free(b);
        return status;
    }
    *backend = &b->base;
    return YK_OK;
}

/* The other ranks may still be at work in what this one has finished, so it waits for them in
 * NCCL, but not for long. */
static void close_backend(yk_backend *backend)
{
    nccl_backend *b = (nccl_backend *)backend;
    nccl_result result = b->comm ? b->nccl->CommFinalize(b->comm) : NCCL_SUCCESS;
    for (int polls = 0; b->comm && result == NCCL_IN_PROGRESS && polls < CLOSING; polls++) {
        if (b->nccl->CommGetAsyncError(b->comm, &result) != NCCL_SUCCESS)
            break;
        if (result == NCCL_IN_PROGRESS)
            poll_pause();
    }
    if (b->comm && result == NCCL_SUCCESS)
        b->nccl->CommDestroy(b->comm);
    else
        abort_communicator(b);
    free(b);
}

/* ---- memory ---------------------------------------------------------------------------------- */

/*
 * NCCL registers memory of ncclMemAlloc with the network and NVLink by itself where collectives on
 * it are recorded, as those of DDP are; it then reads and writes it without copies.
 */
static yk_status alloc_memory(yk_backend *backend, yk_backend_call *call, void **memory)
{
    const nccl_backend *b = (const nccl_backend *)backend;
    *memory = NULL;
    nccl_result result = b->nccl->MemAlloc && b->nccl->MemFree
                             ? b->nccl->MemAlloc(memory, call->what.count)
                             : NCCL_INVALID_USAGE;
    if (result == NCCL_SUCCESS)
        return YK_OK;
    *memory = NULL;
    return nccl_failed(b, YK_ERROR_UNSUPPORTED, result, "ncclMemAlloc");
}

static yk_status free_memory(yk_backend *backend, void *memory)
{
    const nccl_backend *b = (const nccl_backend *)backend;
    nccl_result result = b->nccl->MemFree(memory);
    return result == NCCL_SUCCESS ? YK_OK
                                  : nccl_failed(b, YK_ERROR_INTERNAL, result, "ncclMemFree");
}

/* ---- collectives ----------------------------------------------------------------------------- */

static nccl_dtype dtype_of(const yk_descriptor *what)
{
    static const nccl_dtype dtypes[YK_DTYPE_COUNT] = {
        [YK_F32] = NCCL_FLOAT32, [YK_F64] = NCCL_FLOAT64, [YK_BF16] = NCCL_BFLOAT16,
        [YK_F16] = NCCL_FLOAT16, [YK_I32] = NCCL_INT32,   [YK_I64] = NCCL_INT64,
        [YK_U8] = NCCL_UINT8};
    return dtypes[what->dtype];
}

static nccl_op op_of(const yk_descriptor *what)
{
    static const nccl_op ops[] = {[YK_REDUCE_SUM] = NCCL_SUM,
                                  [YK_REDUCE_AVG] = NCCL_AVG,
                                  [YK_REDUCE_MIN] = NCCL_MIN,
                                  [YK_REDUCE_MAX] = NCCL_MAX,
                                  [YK_REDUCE_PRODUCT] = NCCL_PROD};
    return ops[what->reduce];
}

static char *piece(const void *all, const yk_descriptor *what, int rank)
{
    size_t bytes = what->count * yk_dtype_size((yk_dtype)what->dtype);
    return (char *)(uintptr_t)all + (size_t)rank * bytes;
}

/* Within a group, a communicator that does not block may be in progress: the group's end tells. */
static bool is_noted(nccl_result result)
{
    return result == NCCL_SUCCESS || result == NCCL_IN_PROGRESS;
}

/* Gather and scatter are messages, which NCCL passes at once between GroupStart and GroupEnd. */
static nccl_result pass_messages(const nccl_backend *b, const yk_backend_call *call)
{
    const nccl_library *nccl = b->nccl;
    const yk_descriptor *what = &call->what;
    bool gathers = what->operation == YK_OPERATION_GATHER, root = b->site->rank == what->root;
    nccl_dtype dtype = dtype_of(what);
    size_t count = what->count;
    nccl_result result = nccl->GroupStart();
    for (int r = 0; root && r < b->site->ranks && is_noted(result); r++)
        result = gathers
                     ? nccl->Recv(piece(call->out, what, r), count, dtype, r, b->comm, call->stream)
                     : nccl->Send(piece(call->in, what, r), count, dtype, r, b->comm, call->stream);
    if (is_noted(result))
        result = gathers ? nccl->Send(call->in, count, dtype, what->root, b->comm, call->stream)
                         : nccl->Recv(call->out, count, dtype, what->root, b->comm, call->stream);
    nccl_result ended = nccl->GroupEnd();
    return is_noted(result) ? ended : result;
}

/* The same for a message in each direction between any two ranks. */
static nccl_result pass_all(const nccl_backend *b, const yk_backend_call *call)
{
    const nccl_library *nccl = b->nccl;
    const yk_descriptor *what = &call->what;
    nccl_dtype dtype = dtype_of(what);
    nccl_result result = nccl->GroupStart();
    for (int r = 0; r < b->site->ranks && is_noted(result); r++) {
        result = nccl->Send(piece(call->in, what, r), what->count, dtype, r, b->comm, call->stream);
        if (is_noted(result))
            result =
                nccl->Recv(piece(call->out, what, r), what->count, dtype, r, b->comm, call->stream);
    }
    nccl_result ended = nccl->GroupEnd();
    return is_noted(result) ? ended : result;
}

static nccl_result start_collective(const nccl_backend *b, const yk_backend_call *call)
{
    const nccl_library *nccl = b->nccl;
    const yk_descriptor *what = &call->what;
    nccl_dtype dtype = dtype_of(what);
    switch ((yk_operation)what->operation) {
    case YK_OPERATION_ALL_REDUCE:
        return nccl->AllReduce(call->in, call->out, what->count, dtype, op_of(what), b->comm,
                               call->stream);
    case YK_OPERATION_REDUCE:
        return nccl->Reduce(call->in, call->out, what->count, dtype, op_of(what), what->root,
                            b->comm, call->stream);
    case YK_OPERATION_BROADCAST:
        return nccl->Broadcast(call->in, call->out, what->count, dtype, what->root, b->comm,
                               call->stream);
    case YK_OPERATION_ALL_GATHER:
        return nccl->AllGather(call->in, call->out, what->count, dtype, b->comm, call->stream);
    case YK_OPERATION_REDUCE_SCATTER:
        return nccl->ReduceScatter(call->in, call->out, what->count, dtype, op_of(what), b->comm,
                                   call->stream);
    case YK_OPERATION_ALL_TO_ALL:
        return pass_all(b, call);
    default:
        return pass_messages(b, call);
    }
}

static yk_status enqueue(yk_backend *backend, const yk_backend_call *call)
{
    static const char *const names[] = {[YK_OPERATION_ALL_REDUCE] = "ncclAllReduce",
                                        [YK_OPERATION_REDUCE] = "ncclReduce",
                                        [YK_OPERATION_BROADCAST] = "ncclBroadcast",
                                        [YK_OPERATION_ALL_GATHER] = "ncclAllGather",
                                        [YK_OPERATION_REDUCE_SCATTER] = "ncclReduceScatter",
                                        [YK_OPERATION_GATHER] = "gather in NCCL",
                                        [YK_OPERATION_SCATTER] = "scatter in NCCL",
                                        [YK_OPERATION_ALL_TO_ALL] = "all_to_all in NCCL"};
    nccl_backend *b = (nccl_backend *)backend;
    if (!b->comm)
        return yk_set_error(YK_ERROR_NETWORK, "the communicator of NCCL was aborted");
    if (call->what.count == 0)
        return YK_OK;
    return settle(b, start_collective(b, call), names[call->what.operation]);
}

/* ---- failures -------------------------------------------------------------------------------- */

static yk_status check(yk_backend *backend)
{
    nccl_backend *b = (nccl_backend *)backend;
    nccl_result error = NCCL_SUCCESS;
    if (!b->comm)
        return YK_OK;
    nccl_result asked = b->nccl->CommGetAsyncError(b->comm, &error);
    if (asked != NCCL_SUCCESS)
        error = asked;
    bool well = error == NCCL_SUCCESS || error == NCCL_IN_PROGRESS;
    return well ? YK_OK : nccl_failed(b, YK_ERROR_NETWORK, error, "a collective has failed");
}

static void abort_backend(yk_backend *backend, yk_status status, const char *line)
{
    (void)status, (void)line;
    abort_communicator((nccl_backend *)backend);
}

static yk_status available(void)
{
    const nccl_library *nccl;
    return nccl_open_library(&nccl);
}

__attribute__((visibility("default"))) const yk_backend_ops yk_backend_module = {
    .version = YK_BACKEND_VERSION,
    .size = sizeof(yk_backend_ops),
    .name = "nccl",
    .capabilities = YK_BACKEND_DEVICE_MEMORY,
    .max_works = 1,
    .open = open_backend,
    .close = close_backend,
    .alloc = alloc_memory,
    .free = free_memory,
    .available = available,
    .enqueue = enqueue,
    .check = check,
    .abort = abort_backend,
};

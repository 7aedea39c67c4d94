/*
 * A libnccl for tests: communicators between the processes of one machine, whose collectives are
 * entered in the streams of simulated devices (device/sim_link.h), or of the fake CUDA driver. Like
 * NCCL's they wait in a stream for the other ranks' streams, so that a wrong order of collectives
 * never ends; and like a non-blocking communicator's, every call is first in progress: what it does
 * happens when the caller asks for the second time.
 *
 * YOKE_FAKE_NCCL tells what goes wrong: "duplicate" refuses ranks that share a device, "fail:R:N"
 * fails the N-th collective of rank R asynchronously.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "device/sim_link.h"
#include "library.h"
#include "reduce.h"

enum { RANKS = 16 };

/* Shared by the ranks of a communicator, in the memory of the first one. */
typedef struct meeting {
    char names[RANKS][YKI_SIM_LINK_NAME];
    atomic_bool here[RANKS];
} meeting;

typedef enum phase { JOINING, OPEN } phase;

struct nccl_comm {
    int rank, ranks;
    phase phase;
    meeting *meeting;
    yki_sim_link *link, *hung;
    int asked;            /* how often since the last call */
    yk_backend_call call; /* that is in progress */
    bool calling, ending;
    int calls;
    nccl_result error;
};

/* The simulated device whose memory ncclMemAlloc gives, set by a test; NULL: it fails. */
__attribute__((visibility("default"))) yki_device *fake_nccl_device;
/* How much there is now. */
__attribute__((visibility("default"))) size_t fake_nccl_bytes;

static _Thread_local char last_error[160];
/* Between GroupStart and GroupEnd. */
static _Thread_local struct {
    bool on;
    int sends, receives, peer;
    yk_backend_call call;
    nccl_comm *comm;
} group;

/* ---- what goes wrong ------------------------------------------------------------------------- */

static const char *fault(void)
{
    const char *text = getenv("YOKE_FAKE_NCCL");
    return text ? text : "";
}

static bool fails_now(const nccl_comm *comm)
{
    int rank, call;
    return sscanf(fault(), "fail:%d:%d", &rank, &call) == 2 && comm->rank == rank &&
           comm->calls == call;
}

/* ---- the fake CUDA driver (tests/cuda/fake_driver), where it is loaded --------------------------
 */

static void *driver_function(const char *name)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    return driver ? dlsym(driver, name) : NULL;
}

/* As NCCL needs it: its GPU is that of the context. */
static bool has_context(void)
{
    int (*current)(void) = (int (*)(void))driver_function("yk_fake_current");
    return !current || current() >= 0;
}

static yki_stream *stream_of(void *given)
{
    yki_stream *(*behind)(void *) = (yki_stream * (*)(void *)) driver_function("yk_fake_stream");
    return behind ? behind(given) : given;
}

/* ---- meeting --------------------------------------------------------------------------------- */

static meeting *map_meeting(int file)
{
    void *memory = mmap(NULL, sizeof(meeting), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

/* The file stays open: its name is that of the descriptor. */
static meeting *create_meeting(char name[YKI_SIM_LINK_NAME])
{
    int file = memfd_create("fake-nccl", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, sizeof(meeting)) != 0)
        return NULL;
    snprintf(name, YKI_SIM_LINK_NAME, "/proc/%d/fd/%d", (int)getpid(), file);
    return map_meeting(file);
}

static meeting *open_meeting(const char *name)
{
    int file = open(name, O_RDWR | O_CLOEXEC);
    meeting *found = file < 0 ? NULL : map_meeting(file);
    if (file >= 0)
        close(file);
    return found;
}

static nccl_result enter_meeting(nccl_comm *comm)
{
    if (yki_sim_link_create(&comm->link, comm->rank, comm->ranks, fake_nccl_reduce) != YK_OK)
        return NCCL_SYSTEM_ERROR;
    yki_sim_link_name(comm->link, comm->meeting->names[comm->rank]);
    atomic_store(&comm->meeting->here[comm->rank], true);
    comm->phase = JOINING;
    return NCCL_IN_PROGRESS;
}

static nccl_result join(nccl_comm *comm)
{
    for (int r = 0; r < comm->ranks; r++)
        if (!atomic_load(&comm->meeting->here[r]))
            return NCCL_IN_PROGRESS;
    for (int r = 0; r < comm->ranks; r++)
        if (r != comm->rank && yki_sim_link_attach(comm->link, r, comm->meeting->names[r]) != YK_OK)
            return NCCL_SYSTEM_ERROR;
    comm->phase = OPEN;
    return NCCL_SUCCESS;
}

/* ---- NCCL's functions ------------------------------------------------------------------------ */

#pragma GCC visibility push(default)
#define NCCL_DECLARE(name, arguments) nccl_result nccl##name arguments;
NCCL_FUNCTIONS(NCCL_DECLARE)
const char *ncclGetErrorString(nccl_result result);
const char *ncclGetLastError(nccl_comm *comm);
nccl_result ncclMemAlloc(void **memory, size_t bytes);
nccl_result ncclMemFree(void *memory);
#pragma GCC visibility pop

nccl_result ncclGetVersion(int *version)
{
    *version = 22809;
    return NCCL_SUCCESS;
}

const char *ncclGetErrorString(nccl_result result)
{
    return result == NCCL_INVALID_USAGE  ? "invalid usage"
           : result == NCCL_REMOTE_ERROR ? "remote process exited or there was a network error"
           : result == NCCL_SUCCESS      ? "no error"
                                         : "unhandled system error";
}

const char *ncclGetLastError(nccl_comm *comm)
{
    (void)comm;
    return last_error;
}

nccl_result ncclGetUniqueId(nccl_id *id)
{
    char name[YKI_SIM_LINK_NAME];
    memset(id, 0, sizeof *id);
    if (!create_meeting(name))
        return NCCL_SYSTEM_ERROR;
    memcpy(id->bytes, name, sizeof name);
    return NCCL_SUCCESS;
}

/* The configuration of 2.28, which reads as much of another as that says to have. */
static bool is_right(const nccl_config *config)
{
    struct {
        nccl_config of_2_18;
        const char *name;
        int others[6];
    } read = {.of_2_18 = {.size = 0}};
    size_t size = config->size < sizeof read ? config->size : sizeof read;
    memcpy(&read, config, size);
    const nccl_config *c = &read.of_2_18;
    const int unset[] = {c->cga_cluster_size, c->min_ctas, c->max_ctas, c->split_share,
                         c->traffic_class};
    for (size_t i = 0; i < sizeof unset / sizeof *unset; i++)
        if (unset[i] != INT_MIN)
            return false;
    return c->magic == 0xcafebeef && c->version >= 21400 && c->blocking == 0 && !c->net_name;
}

nccl_result ncclCommInitRankConfig(nccl_comm **comm, int ranks, nccl_id id, int rank,
                                   nccl_config *config)
{
    if (strcmp(fault(), "duplicate") == 0) {
        snprintf(last_error, sizeof last_error,
                 "Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 1000");
        return NCCL_INVALID_USAGE;
    }
    nccl_comm *made = calloc(1, sizeof *made);
    if (!made || !is_right(config) || ranks > RANKS || !has_context())
        return NCCL_INVALID_USAGE;
    made->rank = rank;
    made->ranks = ranks;
    made->meeting = open_meeting(id.bytes);
    *comm = made;
    return made->meeting ? enter_meeting(made) : NCCL_SYSTEM_ERROR;
}

/* Enters what was called. One that fails hangs in the stream, as a kernel does. */
static nccl_result begin_call(nccl_comm *comm)
{
    yki_sim_link *link = comm->link;
    comm->calling = false;
    comm->calls++;
    if (fails_now(comm)) {
        comm->error = NCCL_REMOTE_ERROR;
        snprintf(last_error, sizeof last_error, "connection closed by remote peer");
        if (yki_sim_link_create(&comm->hung, 0, 2, fake_nccl_reduce) != YK_OK)
            return NCCL_SYSTEM_ERROR;
        link = comm->hung;
    }
    yki_stream *stream = stream_of(comm->call.stream);
    return yki_sim_link_enter(link, &comm->call, stream) == YK_OK ? NCCL_SUCCESS
                                                                  : NCCL_SYSTEM_ERROR;
}

nccl_result ncclCommGetAsyncError(nccl_comm *comm, nccl_result *error)
{
    bool soon = comm->asked++ == 0 || (comm->ending && yki_sim_link_is_used(comm->link));
    *error = comm->phase == JOINING ? join(comm)
             : soon                 ? NCCL_IN_PROGRESS
             : comm->calling        ? begin_call(comm)
                                    : comm->error;
    return NCCL_SUCCESS;
}

nccl_result ncclCommFinalize(nccl_comm *comm)
{
    comm->asked = 0;
    comm->ending = true;
    return NCCL_IN_PROGRESS;
}

static void end_communicator(nccl_comm *comm)
{
    yki_sim_link_destroy(comm->link);
    yki_sim_link_destroy(comm->hung);
    if (comm->meeting)
        munmap(comm->meeting, sizeof *comm->meeting);
    free(comm);
}

nccl_result ncclCommDestroy(nccl_comm *comm)
{
    end_communicator(comm);
    return NCCL_SUCCESS;
}

/* NCCL ends when the last CUDA graph with one of its calls does: the host would wait in vain. */
nccl_result ncclCommAbort(nccl_comm *comm)
{
    if (comm->ending && yki_sim_link_is_used(comm->link)) {
        fprintf(stderr, "fake NCCL: a communicator is closed while a recording has its calls\n");
        abort();
    }
    end_communicator(comm);
    return NCCL_SUCCESS;
}

/* ---- memory: one piece at a time ------------------------------------------------------------- */

nccl_result ncclMemAlloc(void **memory, size_t bytes)
{
    if (!fake_nccl_device || fake_nccl_bytes ||
        yki_device_alloc(fake_nccl_device, bytes, memory) != YK_OK)
        return NCCL_INVALID_USAGE;
    fake_nccl_bytes = bytes;
    return NCCL_SUCCESS;
}

nccl_result ncclMemFree(void *memory)
{
    yki_device_free(fake_nccl_device, memory, fake_nccl_bytes);
    fake_nccl_bytes = 0;
    return NCCL_SUCCESS;
}

/* ---- collectives ----------------------------------------------------------------------------- */

static yk_dtype dtype_of(nccl_dtype dtype)
{
    return dtype == NCCL_UINT8     ? YK_U8
           : dtype == NCCL_INT32   ? YK_I32
           : dtype == NCCL_INT64   ? YK_I64
           : dtype == NCCL_FLOAT16 ? YK_F16
           : dtype == NCCL_FLOAT32 ? YK_F32
           : dtype == NCCL_FLOAT64 ? YK_F64
                                   : YK_BF16;
}

static yk_backend_call make_call(yk_operation operation, const void *in, void *out, size_t count,
                                 nccl_dtype dtype, nccl_stream stream)
{
    return (yk_backend_call){.what = {.operation = (uint8_t)operation,
                                      .dtype = (uint8_t)dtype_of(dtype),
                                      .count = count},
                             .in = in,
                             .out = out,
                             .stream = stream};
}

static nccl_result start(nccl_comm *comm, const yk_backend_call *call)
{
    if (comm->phase != OPEN || comm->calling)
        return NCCL_INVALID_USAGE;
    comm->call = *call;
    comm->calling = true;
    comm->asked = 0;
    return NCCL_IN_PROGRESS;
}

nccl_result ncclAllReduce(const void *in, void *out, size_t count, nccl_dtype dtype, nccl_op op,
                          nccl_comm *comm, nccl_stream stream)
{
    yk_backend_call call = make_call(YK_OPERATION_ALL_REDUCE, in, out, count, dtype, stream);
    call.what.reduce = (uint8_t)op;
    return start(comm, &call);
}

nccl_result ncclReduce(const void *in, void *out, size_t count, nccl_dtype dtype, nccl_op op,
                       int root, nccl_comm *comm, nccl_stream stream)
{
    yk_backend_call call = make_call(YK_OPERATION_REDUCE, in, out, count, dtype, stream);
    call.what.reduce = (uint8_t)op;
    call.what.root = root;
    return start(comm, &call);
}

nccl_result ncclBroadcast(const void *in, void *out, size_t count, nccl_dtype dtype, int root,
                          nccl_comm *comm, nccl_stream stream)
{
    yk_backend_call call = make_call(YK_OPERATION_BROADCAST, in, out, count, dtype, stream);
    call.what.root = root;
    return start(comm, &call);
}

nccl_result ncclAllGather(const void *in, void *out, size_t count, nccl_dtype dtype,
                          nccl_comm *comm, nccl_stream stream)
{
    yk_backend_call call = make_call(YK_OPERATION_ALL_GATHER, in, out, count, dtype, stream);
    return start(comm, &call);
}

nccl_result ncclReduceScatter(const void *in, void *out, size_t count, nccl_dtype dtype, nccl_op op,
                              nccl_comm *comm, nccl_stream stream)
{
    yk_backend_call call = make_call(YK_OPERATION_REDUCE_SCATTER, in, out, count, dtype, stream);
    call.what.reduce = (uint8_t)op;
    return start(comm, &call);
}

/* ---- messages, of which only gathers, scatters and all of them are known --------------------- */

nccl_result ncclGroupStart(void)
{
    memset(&group, 0, sizeof group);
    group.on = true;
    return NCCL_SUCCESS;
}

/* Messages to and from the root come in the order of ranks: the first has the lowest address. */
static nccl_result add_message(bool sends, const void *data, size_t count, nccl_dtype dtype,
                               int peer, nccl_comm *comm, nccl_stream stream)
{
    if (!group.on || comm->phase != OPEN)
        return NCCL_INVALID_USAGE;
    yk_backend_call call =
        make_call(YK_OPERATION_GATHER, group.call.in, group.call.out, count, dtype, stream);
    if (sends && group.sends++ == 0)
        call.in = data;
    if (!sends && group.receives++ == 0)
        call.out = (void *)(uintptr_t)data;
    group.call = call;
    group.comm = comm;
    group.peer = peer;
    return NCCL_IN_PROGRESS;
}

nccl_result ncclSend(const void *in, size_t count, nccl_dtype dtype, int to, nccl_comm *comm,
                     nccl_stream stream)
{
    return add_message(true, in, count, dtype, to, comm, stream);
}

nccl_result ncclRecv(void *out, size_t count, nccl_dtype dtype, int from, nccl_comm *comm,
                     nccl_stream stream)
{
    return add_message(false, out, count, dtype, from, comm, stream);
}

nccl_result ncclGroupEnd(void)
{
    nccl_comm *comm = group.comm;
    group.on = false;
    if (!comm)
        return NCCL_SUCCESS;
    bool all = group.sends == comm->ranks && group.receives == comm->ranks;
    bool root = !all && group.sends + group.receives == comm->ranks + 1;
    bool gathers = root ? group.sends == 1 : group.receives == 0;
    group.call.what.operation = all       ? YK_OPERATION_ALL_TO_ALL
                                : gathers ? YK_OPERATION_GATHER
                                          : YK_OPERATION_SCATTER;
    group.call.what.root = all ? 0 : root ? comm->rank : group.peer;
    return start(comm, &group.call);
}

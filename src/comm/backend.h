/*
 * The contract between a group and what moves data. group.c is the only caller: it has
 * checked the arguments (collectives.c) and numbered the call, and it decides when a wait times
 * out. A backend exchanges the descriptors of all ranks, refuses if they differ, and moves the
 * data.
 *
 * A backend is a constant table of functions; the concrete struct embeds yki_backend first.
 */
#ifndef YKI_BACKEND_H
#define YKI_BACKEND_H

#include <stdatomic.h>
#include <stdint.h>

#include <yoke/group.h>

#include "base/error.h"
#include "comm/rendezvous.h"

typedef enum yki_operation {
    YKI_ALL_REDUCE,
    YKI_BROADCAST,
    YKI_ALL_GATHER,
    YKI_REDUCE_SCATTER,
    YKI_GATHER,
    YKI_SCATTER,
    YKI_BARRIER,
    YKI_ALLOC,
    YKI_SEND,
    YKI_RECV
} yki_operation;

/* What all ranks of a collective must agree on; 16 bytes without padding, compared as such. */
typedef struct yki_descriptor {
    uint8_t operation, dtype, reduce;
    uint8_t invalid; /* this rank's arguments were refused: exchange, move nothing */
    int32_t root;    /* 0 where there is none; the peer of send and recv */
    uint64_t count;
} yki_descriptor;

enum { YKI_CALL_LABEL = 24 };

typedef struct yki_call {
    yki_descriptor what;
    uint64_t sequence; /* the group's count of operations, for messages */
    const void *in;
    void *out;
    bool yields_cpu; /* on the communication thread: sleep rather than spin */
    double launched; /* when it was submitted and what it is for, while a timeline is recorded */
    char label[YKI_CALL_LABEL];
    /* Not NULL: runs in place of a collective, on the communication thread; see yki_group_run. */
    yk_status (*task)(void *context);
    void *task_context;
    /* Set with YK_ERROR_MISMATCH: two ranks and what each of them called. */
    int rank_a, rank_b;
    yki_descriptor what_a, what_b;
    bool out_of_step;  /* and the ranks no longer agree on what comes next */
    bool memory_freed; /* rank_a's data is in memory that rank_b has freed */
} yki_call;

/*
 * The one failure of a group, in memory that all ranks share. The rank that finds it first writes
 * it, so that every survivor reports the same cause and not another survivor's exit.
 */
typedef enum yki_failure_state {
    YKI_FAILURE_NONE,
    YKI_FAILURE_CLAIMED, /* a rank is writing it */
    YKI_FAILURE_READY
} yki_failure_state;

typedef struct yki_failure {
    atomic_int state; /* a yki_failure_state */
    int status;
    char text[384];
} yki_failure;

/* A waiting backend asks whether to keep waiting: about every 20 ms, never on the fast path. */
typedef struct yki_watch {
    void *context;
    /* missing tells whether a rank is still waited for. Not YK_OK: give up with this status. */
    yk_status (*look)(void *context, bool (*missing)(const void *wait, int rank), const void *wait);
} yki_watch;

typedef struct yki_backend yki_backend;
typedef struct yki_backend_table {
    const char *name;
    /* Collective; job and watch stay valid until destroy. */
    yk_status (*open)(yki_backend **backend, yki_job *job, const yki_watch *watch);
    void (*destroy)(yki_backend *backend);
    yki_failure *(*failure)(yki_backend *backend);
    /* Whether that rank has destroyed its group. */
    bool (*left)(yki_backend *backend, int rank);
    /* call->what.count bytes, to *call->out. */
    yk_status (*alloc)(yki_backend *backend, yki_call *call, void **memory);
    /* Frees memory of alloc on this rank; does not wait for the others. */
    yk_status (*free)(yki_backend *backend, void *memory);
    yk_status (*collective)(yki_backend *backend, yki_call *call);
    yk_status (*transfer)(yki_backend *backend, yki_call *call); /* send and recv */
} yki_backend_table;

struct yki_backend {
    const yki_backend_table *table;
};

extern const yki_backend_table yki_backend_self, yki_backend_shm;

#endif

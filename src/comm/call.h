/* A call on its way from the public function to the backend, and the backends of the library. */
#ifndef YKI_CALL_H
#define YKI_CALL_H

#include <yoke/backend.h>

#include "base/error.h"
#include "comm/job/traffic.h"

enum { YKI_CALL_LABEL = 24 };

typedef struct yki_call {
    yk_backend_call base; /* what the backend sees; its sequence is set when the call is posted */
    yk_backend_message message; /* its only one; */
    yk_backend_message *list; /* or all of them, NULL where it has none or one; freed at its end */
    yk_backend_work *work;    /* while the backend has it */
    void **memory;            /* of YK_OPERATION_ALLOC: where to put the result */
    double looked, waited; /* when its ranks were last looked at; how long it has waited for them */
    yki_traffic traffic;   /* of this host, when it had waited for a while */
    bool broken;           /* the backend has failed in it */
    bool posted;           /* until its end, which the watch is told */
    uint64_t submitted;    /* with a work object: when, in yki_ticks() */
    uint64_t entry;        /* its first one in the flight recorder */
    double begun;          /* while a timeline is recorded: when it began, */
    double launched;       /* when it was submitted, */
    char label[YKI_CALL_LABEL]; /* and what it is for */
    /* Not NULL: runs in place of a collective, on the communication thread; see yki_group_run. */
    yk_status (*task)(void *context);
    /* Or, on the same thread: runs before a collective is posted, and after it has succeeded. */
    void (*before)(void *context), (*after)(void *context);
    void *task_context; /* of all three */
} yki_call;

/* Bytes of the elements that a descriptor counts. */
static inline size_t yki_descriptor_bytes(const yk_descriptor *what)
{
    return what->count * yk_dtype_size((yk_dtype)what->dtype);
}

extern const yk_backend_ops yki_backend_self, yki_backend_shm, yki_backend_tcp, yki_backend_sim;

/* The backend that uses shm within hosts and a network between them: see comm/two_level. */
yk_status yki_two_level_find(const yk_backend_ops **ops, const yk_backend_ops *network);

/* shm reads memory of yk_group_alloc in place; `borrower` from now on also that of `owner`, a shm
 * backend of the same ranks. Does nothing for other backends. */
void yki_shm_share_regions(yk_backend *borrower, const yk_backend *owner);
/* Whether some ranks of a shm backend share a core; false for other backends. */
bool yki_shm_is_crowded(const yk_backend *backend);

#endif

/*
 * A group from the inside, shared by the files that implement it:
 *
 *   create.c      creating groups
 *   split.c       groups of some or all ranks of another group
 *   open.c        opening the backends of both
 *   group.c       what a group knows about itself, and its end
 *   memory.c      memory of yk_group_alloc
 *   run.c         running calls: submitting, posting, waiting
 *   refusal.c     why a rank cannot take part in a call
 *   joint.c       what all ranks do together, and one of them may be unable to do
 *   look.c        looking at the other ranks while a call waits; failures
 *   site.c        what a backend sees of the group
 */
#ifndef YKI_GROUP_STATE_H
#define YKI_GROUP_STATE_H

#include "comm/flight_recorder.h"
#include "comm/group_internal.h"
#include "comm/job/rendezvous.h"
#include "comm/job/watch.h"
#include "comm/queue.h"

/* Memory of yk_group_alloc where the backend has none of its own. */
typedef struct yki_block {
    struct yki_block *next;
    void *memory;
    size_t bytes;
} yki_block;

struct yk_group {
    yki_reference reference;
    yki_job job;
    yki_watched *watched;
    yk_backend_site site;
    yk_backend_member *members; /* [world] */
    yk_backend *backend;        /* NULL while the group is being created */
    yki_block *blocks;
    yki_queue queue;
    yki_flight_ring flight;     /* its last calls */
    uint64_t collectives;       /* the number of the last one */
    uint64_t batches;           /* how many calls had several messages */
    uint64_t refusals;          /* how many calls this rank has refused, and how often */
    int64_t reads;              /* the others had read why, before the last of them */
    yk_status last;             /* of the last collective, the same for all ranks or for none */
    yki_call *running;          /* the call that waits; NULL while the group is being created */
    pthread_t opener;           /* the thread that creates the group */
    yki_call opening;           /* stands for a call while the group is being created */
    bool *late;                 /* [world], scratch of yki_group_look */
    double *gone;               /* [world]: since when calls know that it is gone; 0: it is not */
    char label[YKI_CALL_LABEL]; /* of the next asynchronous call */
    const yk_backend_ops *ops;  /* of the backend, also while it is being opened */
    char why[96];               /* see yk_group_backend_reason */
    double met_s;               /* of the last blocking call; see yk_backend_call */
    bool broken;                /* the backend: works in flight can only be cancelled */
    double patience_s;          /* by which a work may wait longer than the timeout */
    bool background;            /* all calls sleep rather than spin */
    bool named;                 /* the backend was asked for by name */
    const char *device_backend; /* the one that was asked for to move a device's memory, or NULL */
    struct yki_plane *planes;   /* see comm/plane.h */
    char exchange[320];         /* see yk_group_exchange */
    yk_group *channel;          /* see comm/group_internal.h; NULL until first used */
    bool is_part;               /* made of another group, whose store and processes job refers to */
    yk_group *parent;           /* that group; NULL in its channel, which it owns */
    int parts;                  /* how many groups have been made of this one, */
    int labels;                 /* and of these by calls for that, as messages count them */
    yk_group *whole;            /* not NULL: what waits here is a step of a call or of the opening
                                   of this group, on the same thread; it looks at its ranks, too */
};

/* ---- open.c ---------------------------------------------------------------------------------- */

/* The key of a group whose ranks have all opened their backends. */
#define YKI_ALL_OPEN "all-open"

/* Opens the backend of a group whose job is set; then the group can run calls. */
yk_status yki_group_open(yk_group *group, const yk_backend_ops *ops);

/*
 * A part of the listed ranks of a group, which become 0, 1, ... in this order, not yet opened.
 * number tells apart the parts that are made of one parent; equal on the ranks of a part.
 */
yk_status yki_part_create(yk_group **part, const yk_group *parent, const int *ranks, int count,
                          int number);
/* Collective for the ranks of the part. Discards it if this fails. */
yk_status yki_part_open(yk_group **part, const yk_backend_ops *ops);
/* One that has not been opened. */
void yki_part_discard(yk_group **part);

/* ---- look.c ---------------------------------------------------------------------------------- */

/* Sets this thread's error line, which names the running operation. */
yk_status yki_group_error(const yk_group *group, yk_status status, const char *text);
/* YK_OK, or the failure that the group is known to have; does not look for one. */
yk_status yki_group_known_failure(yk_group *group);
/*
 * Makes text the group's failure unless another rank has already reported one, which then counts.
 * culprit is the rank at fault, or -1.
 */
yk_status yki_group_fail(yk_group *group, int culprit, yk_status status, const char *text);
/* The same for this thread's last error, which keeps only this rank from a call: the others, which
 * would wait for it, get it too. For any thread. */
yk_status yki_group_fail_alone(yk_group *group, yk_status status);
/* While the backend is being opened, for which all ranks are needed. */
yk_status yki_group_look_opening(yk_group *group);
/* After an error from open(): unless another rank has caused it, the others are told that this one
 * cannot take part, and why. */
yk_status yki_group_fail_opening(yk_group *group, yk_status status);
/* yk_backend_site.look. */
yk_status yki_group_look(void *context, bool (*missing)(const void *wait, int rank),
                         const void *wait);
/* The same for a work: any rank may be missing. */
yk_status yki_group_look_at_all(yk_group *group);
/* After YK_ERROR_NETWORK from the backend: the cause, which becomes the group's failure. */
yk_status yki_group_find_cause(yk_group *group, yk_status status);

/* ---- refusal.c ------------------------------------------------------------------------------- */

/* The other ranks may read why this one refuses the call of that number, which it posts next. */
void yki_refusal_tell(yk_group *group, uint64_t sequence, const char *line);
/* Where this rank serves the store: gives the others a moment to read that, once the call has
 * ended. The process may end next. */
void yki_refusal_linger(const yk_group *group);
/* Why a rank has refused the call; false if it cannot be found out. */
bool yki_refusal_read(yk_group *group, int rank, uint64_t sequence, char *text, size_t size);

/* ---- site.c ---------------------------------------------------------------------------------- */

/* Fills the group's site and members from its job. */
yk_status yki_group_make_site(yk_group *group);
void yki_group_free_site(yk_group *group);

/* ---- memory.c -------------------------------------------------------------------------------- */

/* For yk_group_alloc where the backend has no memory of its own: it only compares the sizes. */
yk_status yki_group_allocate_block(yk_group *group, size_t bytes, void **memory);
void yki_group_free_blocks(yk_group *group);

/* ---- run.c ----------------------------------------------------------------------------------- */

/* The functions of yki_queue. */
bool yki_group_start(void *context, yk_work *work);
bool yki_group_advance(void *context, yk_work *work, double wait_s);

#endif

/*
 * The inside of yk_ddp, shared by the files of this folder:
 *
 *     ddp.c               creation and destruction
 *     unused.c            which parameters take part
 *     reducer.c           buckets of gradients, reduced during backward
 *     bucket_updates.c    the optimizer's updates of buckets that have been reduced
 *     staging.c           memory that ranks exchange, wherever the device keeps it
 *     hooks.c             comm hooks, which replace a bucket's all-reduce, ...
 *     compress.c, powersgd.c  ... and those that are built in
 *     comm_hook_state.c   the state of comm hooks in checkpoints
 *     stream_times.c      how long exchanges in a device's streams take
 *     exchange.c          what the model's all_gather_batch exchange
 *     forward_sync.c      what ranks exchange before a forward: buffers, numbers of samples
 *     join.c              ranks with different numbers of batches
 *     divergence.c        comparing parameters between ranks
 *     virtual_ranks.c     replaces the reducer when virtual ranks share a rank
 */
#ifndef YKI_DDP_H
#define YKI_DDP_H

#include <yoke/comm_hook.h>

#include "base/error.h"
#include "base/reference.h"
#include "comm/group_internal.h"
#include "device/sweep.h"
#include "device/times.h"
#include "model/model_hooks.h"
#include "parallel/bucket.h"
#include "parallel/bucket_updates.h"
#include "parallel/staging.h"

typedef struct yki_reduced_bucket {
    yki_bucket plan;
    yki_staged_part part; /* of the gradients, with each padded to 64 bytes */
    size_t pending;       /* gradients still missing */
    yk_work *work;
    struct yk_ddp *ddp;
    yk_grad_bucket hook_view; /* the bucket as a hook sees it */
} yki_reduced_bucket;

/* The state that a hook keeps between steps. It belongs to the hook. */
typedef struct yki_hook_memory {
    const char *name;   /* of the hook; NULL if it keeps no state */
    yki_device *device; /* whose memory it is; NULL: the host's */
    float *errors;      /* differ between ranks; they are added to the gradients, so only their sum
                           matters */
    float *factors;     /* equal on all ranks */
    uint8_t *warm;      /* for each bucket, whether its factors come from an earlier step */
    size_t error_elements, factor_elements, buckets;
} yki_hook_memory;

/* The comm hook, if one is registered. */
typedef struct yki_hook {
    yk_comm_hook run;
    void *state;
    void (*destroy)(void *state); /* of built-in hooks; otherwise NULL */
    /* May be NULL; otherwise in place of run on a host device: launches what is done with a bucket
     * as a work, so that several buckets are in flight. */
    yk_status (*start)(void *state, const yk_grad_bucket *bucket, yk_work **work);
    /* Before each backward that is exchanged; may be NULL. */
    yk_status (*begin)(void *state);
    yki_hook_memory memory;
    /* Both or neither; in place of run, where gradients are exchanged in streams. The first enters
     * what is done with a bucket, as yki_staged_all_reduce or, if agreed, as
     * yki_staged_all_reduce_agreed does; the second makes the compute stream follow the results of
     * all buckets, and completes them. They may be recorded. */
    yk_status (*enter)(void *state, size_t bucket, bool agreed, yk_work **work);
    yk_status (*land)(void *state);
    yk_dtype dtype; /* in which enter has buckets travel ... */
    /* ... and how many elements in the running backward; NULL: as many as gradients have. */
    size_t (*elements)(const void *state);
} yki_hook;

/* What each rank sends to the others before a backward. */
typedef struct yki_rank_samples {
    double samples; /* in the batch of this forward */
    double kept;    /* samples already in the gradients that backward will add to */
} yki_rank_samples;

/* What a rank announces about its next forward between yk_ddp_join_begin and yk_ddp_join_end. */
typedef enum yki_join_state { YKI_OUT_OF_DATA, YKI_SYNCED, YKI_UNSYNCED } yki_join_state;

typedef struct yki_join {
    bool on, shadowing;
    yk_join_options options;
    int32_t *states; /* (ranks), yki_join_state */
    int active;      /* ranks that have data */
    int leader;      /* the first of them the last time there was one; 0 without Join */
} yki_join;

/* The updates that the running backward makes, bucket by bucket. */
typedef struct yki_bucket_updates {
    yk_optimizer *optimizer; /* NULL: it updates nothing */
    double refused;          /* not 0: this rank does not want it, or, once agreed, any rank */
    yk_work *agreement;
} yki_bucket_updates;

struct yk_ddp {
    yki_reference reference;
    yk_model *model;
    yk_group *group;
    yk_ddp_options options;

    yki_reduced_bucket *buckets;
    yki_staging gradients;     /* all buckets, one after the other */
    size_t bucket_count, next; /* next: the bucket to launch next */
    size_t *order;             /* parameters in the order of all ranks' buckets */
    size_t used;       /* leading entries of order: parameters that some rank's loss depends on */
    size_t *bucket_of; /* by parameter; SIZE_MAX for an unused one */
    bool *completes;   /* by parameter: whether its gradient is the last of a bucket */

    yki_rank_samples samples, *all_samples; /* this rank's and all ranks', of this forward */
    yk_work *samples_work;
    bool samples_known; /* the exchange has been waited for before backward */
    double kept; /* samples in this rank's gradients; its share of them once they are reduced */
    yki_staging flat;         /* all buffers, packed for one broadcast; 0 bytes: there are none */
    yki_sweep *pack, *unpack; /* from the buffers, and back */
    bool buffers_moved; /* whether a forward has changed them since they were last made equal */
    yki_hook hook;
    yk_status hook_status; /* the group's thread's: the first failure in the running backward */
    yk_comm_hook_state *hook_state; /* NULL until it is first requested */
    yki_join join;
    uint64_t *hashes; /* (ranks + 1, tensors) of the divergence check, made when it first runs */
    yki_sweep *hash;
    void *hash_results; /* (tensors), the device's */

    yki_bucket_updates updates;
    bool no_sync;
    bool exchanging;  /* whether the running backward is synced */
    bool in_streams;  /* see yki_backward; of the running backward */
    bool reduced;     /* whether the last one was, so that all ranks have the same gradients */
    yk_status status; /* the first failure of a launch in the running backward */
    char error[YKI_ERROR_LINE];
    double waited_s;     /* for ranks that had not come as far, since the last backward ended */
    yki_times times;     /* of exchanges in the device's streams; empty where there are none */
    yk_ddp_stats known;  /* what they told last */
    double first_launch; /* time of the running backward's first launch (yki_now); 0 before it */
    yk_ddp_stats stats;
    struct yki_virtual_ranks *virtual_ranks; /* NULL if the reducer is used */
};

/* ---- exchange.c ------------------------------------------------------------------------------ */

/* Connects the model's all_gather_batch, if there are some, until yki_model_set_exchange removes
 * what this has set. Collective. */
yk_status yki_exchange_create(yk_ddp *ddp);

/* ---- unused.c -------------------------------------------------------------------------------- */

/* Fills order and used; see options.find_unused_parameters. Collective. */
yk_status yki_ddp_find_used(yk_ddp *ddp);

/* ---- reducer.c ------------------------------------------------------------------------------- */

/* Plans the buckets and moves the gradients into them. Collective. */
yk_status yki_reducer_create(yk_ddp *ddp);
void yki_reducer_destroy(yk_ddp *ddp);

/* Members of yki_model_hooks. */
yk_status yki_reducer_backward_begin(void *context, yki_backward *backward);
void yki_reducer_grad_ready(void *context, size_t parameter);
bool yki_reducer_needs_host(const void *context, size_t parameter);
yk_status yki_reducer_is_same(void *context, uint64_t number, bool *same);
yk_status yki_reducer_backward_end(void *context);

/* ---- stream_times.c -------------------------------------------------------------------------- */

typedef enum yki_stream_point {
    YKI_STREAM_LAUNCHED, /* the first bucket */
    YKI_STREAM_COMPUTED, /* the last kernel of backward */
    YKI_STREAM_LANDED    /* the last bucket */
} yki_stream_point;

/* Where gradients travel in a plane. Otherwise, and where a comm hook runs on the host, the others
 * do nothing. */
yk_status yki_stream_times_create(yk_ddp *ddp);
/* The compute stream has come there. May be recorded. */
yk_status yki_stream_times_note(yk_ddp *ddp, yki_stream_point point);
/* After a backward whose points have been noted: fills stats with what is known by now. */
yk_status yki_stream_times_end(yk_ddp *ddp);

/* ---- bucket_updates.c ------------------------------------------------------------------------ */

/* Before a synced backward: the ranks start to agree on whether it updates parameters. */
yk_status yki_bucket_updates_begin(yk_ddp *ddp);
/* Once they have agreed: whether it does. */
bool yki_bucket_updates_agreed(const yk_ddp *ddp);
/* Updates the parameters of a bucket that has been reduced. */
yk_status yki_bucket_updates_run(const yk_ddp *ddp, size_t bucket);
/* After the last bucket, or a failure. */
void yki_bucket_updates_end(const yk_ddp *ddp, bool failed);

/* ---- hooks.c --------------------------------------------------------------------------------- */

/* Collective: whether all ranks register the same hook, which a text of lines describes. */
yk_status yki_hook_compare(const yk_ddp *ddp, const char *description);
/* Takes ownership of the hook's state, and destroys it on failure. */
yk_status yki_hook_register(yk_ddp *ddp, const yki_hook *hook);
/* yki_joint_end, after which no rank has the hook that it has registered if one of them has not. */
yk_status yki_hook_end(const yki_joint *joint, yk_ddp *ddp, yk_status registered);
void yki_hook_destroy(yk_ddp *ddp);
/* Runs the hook instead of the bucket's all-reduce. */
yk_status yki_hook_launch(yki_reduced_bucket *bucket);

/* ---- divergence.c ---------------------------------------------------------------------------- */

/* Frees what the check has allocated. */
void yki_divergence_destroy(yk_ddp *ddp);

/* ---- comm_hook_state.c ----------------------------------------------------------------------- */

/* The state of a hook on all ranks, gathered on rank 0. */
struct yk_comm_hook_state {
    yki_hook_memory memory; /* rank 0's own */
    int64_t ranks;
    float *errors; /* (ranks, memory.error_elements) */
};

void yki_comm_hook_state_destroy(yk_comm_hook_state *state);

/* ---- virtual_ranks.c ------------------------------------------------------------------------- */

enum { YKI_VIRTUAL_RANKS_MAX = 65535 };

yk_status yki_virtual_ranks_check(int count, int ranks);
/* Whether virtual ranks must replace the reducer: there are more of them than ranks, or the backend
 * does not define the order of its sums. */
bool yki_virtual_ranks_needed(const yk_ddp *ddp);
/* Replaces the reducer. Collective. */
yk_status yki_virtual_ranks_create(yk_ddp *ddp);
void yki_virtual_ranks_destroy(yk_ddp *ddp);

/* Members of yki_model_hooks. */
yk_status yki_virtual_ranks_forward_begin(void *context, int64_t samples);
yk_status yki_virtual_ranks_backward_begin(void *context, yki_backward *backward);
yk_status yki_virtual_ranks_backward_end(void *context);
void yki_virtual_ranks_zero_grad(void *context);

/* ---- join.c ---------------------------------------------------------------------------------- */

yk_status yki_join_create(yk_ddp *ddp);
/* Before a forward: tells the ranks which of them have data and whether the step is synced.
 * Collective. */
yk_status yki_join_meet(yk_ddp *ddp, yki_join_state state);
/* The factor for the mean over the ranks that have data. */
double yki_join_factor(const yk_ddp *ddp);
/* Ranks that have data; without Join all of them. */
int yki_join_active(const yk_ddp *ddp);
/* yki_model_hooks.check_shared_step: under Join, options.step is needed. */
yk_status yki_join_check_shared_step(const void *context, const char *who);

/* ---- forward_sync.c -------------------------------------------------------------------------- */

/* Memory for the exchange before a forward. Collective. */
yk_status yki_forward_sync_create(yk_ddp *ddp);
void yki_forward_sync_destroy(yk_ddp *ddp);
/* Refuses what cannot be combined with virtual ranks, whatever the number of ranks. */
yk_status yki_forward_sync_check(const yk_ddp *ddp);
/* Members of yki_model_hooks. */
yk_status yki_forward_sync_forward_begin(void *context, int64_t samples);

/* Copies all buffers into the flat block, or back. */
yk_status yki_buffers_copy(yk_ddp *ddp, bool pack);
/* Gives every rank the leader's buffers if a forward has changed them. Collective. */
yk_status yki_buffers_follow(yk_ddp *ddp);
/* Starts the exchange of yki_rank_samples; finishes one that may be in flight. */
yk_status yki_samples_start(yk_ddp *ddp, int64_t samples);
yk_status yki_samples_finish(yk_ddp *ddp);

#endif

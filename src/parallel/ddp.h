/*
 * Inside yk_ddp, shared by the files of this folder: ddp.c (creation and destruction), unused.c
 * (what takes part), reducer.c (gradients, in backward), hooks.c and powersgd.c (what may stand in
 * for their all-reduce), comm_hook_state.c (what of that goes into checkpoints), forward_sync.c
 * (what ranks tell each other before a forward), divergence.c (a check), virtual_ranks.c (instead
 * of the reducer).
 */
#ifndef YKI_DDP_H
#define YKI_DDP_H

#include <yoke/comm_hook.h>

#include "base/error.h"
#include "base/reference.h"
#include "model/model_hooks.h"
#include "parallel/bucket.h"

typedef struct yki_reduced_bucket {
    yki_bucket plan;
    void *data;
    size_t elements; /* with each gradient padded to 64 bytes */
    size_t pending;  /* gradients still missing */
    yk_work *work;
    struct yk_ddp *ddp;
    yk_grad_bucket hook_view; /* what a hook sees of it */
} yki_reduced_bucket;

/* What a hook carries from step to step, in its own memory. */
typedef struct yki_hook_memory {
    const char *name; /* the hook's; NULL: it carries nothing */
    float *errors;  /* each rank's own; added to the gradients, so that their sum is what counts */
    float *factors; /* the same on all ranks */
    uint8_t *warm;  /* by bucket: whether its factors are those of an earlier step */
    size_t error_elements, factor_elements, buckets;
} yki_hook_memory;

/* The comm hook, where there is one. */
typedef struct yki_hook {
    yk_comm_hook run;
    void *state;
    void (*destroy)(void *state); /* of a built-in one */
    yki_hook_memory memory;
} yki_hook;

/* What a rank tells the others before a backward. */
typedef struct yki_rank_samples {
    double samples; /* of this forward's batch */
    double kept;    /* samples in the gradients that backward will add to */
} yki_rank_samples;

/* What a rank says of its next forward, between yk_ddp_join_begin and yk_ddp_join_end. */
typedef enum yki_join_state { YKI_OUT_OF_DATA, YKI_SYNCED, YKI_UNSYNCED } yki_join_state;

typedef struct yki_join {
    bool on, shadowing;
    yk_join_options options;
    int32_t *states; /* (ranks), yki_join_state */
    int active;      /* ranks that have data */
    int leader;      /* the first of them, last time that there was one; 0 without Join */
} yki_join;

struct yk_ddp {
    yki_reference reference;
    yk_model *model;
    yk_group *group;
    yk_ddp_options options;

    yki_reduced_bucket *buckets;
    void *gradients;           /* the memory they lie in, one after the other */
    size_t bucket_count, next; /* next to launch */
    size_t *order;             /* parameters in the order of all ranks' buckets */
    size_t used;               /* of order: how many parameters some rank's loss depends on */
    size_t *bucket_of;         /* by parameter; SIZE_MAX for an unused one */

    yki_rank_samples samples, *all_samples; /* of this forward; of all ranks */
    yk_work *samples_work;
    double kept; /* samples in this rank's gradients: its part of them, where they are reduced */
    void *flat_buffers; /* all buffers, packed for one broadcast */
    size_t flat_bytes;
    bool buffers_moved; /* since they were last made equal */
    yki_hook hook;
    yk_comm_hook_state *hook_state; /* NULL until it is asked for */
    yki_join join;
    uint64_t *hashes; /* of the check for divergence, made when it first runs */

    bool no_sync;
    bool exchanging;  /* the running backward is synced */
    bool reduced;     /* the last one was: its gradients are the same on all ranks */
    yk_status status; /* of the launches in the running backward */
    char error[YKI_ERROR_LINE];
    double first_launch; /* of the running backward, by yki_now; 0 until there is one */
    yk_ddp_stats stats;
    struct yki_virtual_ranks *virtual_ranks; /* NULL: the reducer's buckets instead */
};

/* ---- unused.c -------------------------------------------------------------------------------- */

/* Fills order and used; see options.find_unused_parameters. Collective. */
yk_status yki_ddp_find_used(yk_ddp *ddp);

/* ---- reducer.c ------------------------------------------------------------------------------- */

/* Plans the buckets and moves the gradients into them. Collective. */
yk_status yki_reducer_create(yk_ddp *ddp);
void yki_reducer_destroy(yk_ddp *ddp);

/* Of yki_model_hooks. */
yk_status yki_reducer_backward_begin(void *context, yki_backward *backward);
void yki_reducer_grad_ready(void *context, size_t parameter);
yk_status yki_reducer_backward_end(void *context);

/* ---- hooks.c --------------------------------------------------------------------------------- */

/* Takes state over; on failure it is destroyed. */
yk_status yki_hook_register(yk_ddp *ddp, const yki_hook *hook);
void yki_hook_destroy(yk_ddp *ddp);
/* In place of the bucket's all-reduce. */
yk_status yki_hook_launch(yk_ddp *ddp, yki_reduced_bucket *bucket);

/* ---- comm_hook_state.c ----------------------------------------------------------------------- */

/* What a hook remembers on all ranks, on rank 0. */
struct yk_comm_hook_state {
    yki_hook_memory memory; /* rank 0's own */
    int64_t ranks;
    float *errors; /* (ranks, memory.error_elements) */
};

void yki_comm_hook_state_destroy(yk_comm_hook_state *state);

/* ---- virtual_ranks.c ------------------------------------------------------------------------- */

enum { YKI_VIRTUAL_RANKS_MAX = 65535 };

yk_status yki_virtual_ranks_check(int count, int ranks);
/* Whether the reducer would not do: more virtual ranks than ranks, or sums in no certain order. */
bool yki_virtual_ranks_needed(const yk_ddp *ddp);
/* In place of the reducer. Collective. */
yk_status yki_virtual_ranks_create(yk_ddp *ddp);
void yki_virtual_ranks_destroy(yk_ddp *ddp);

/* Of yki_model_hooks. */
yk_status yki_virtual_ranks_forward_begin(void *context, int64_t samples);
yk_status yki_virtual_ranks_backward_begin(void *context, yki_backward *backward);
yk_status yki_virtual_ranks_backward_end(void *context);

/* ---- join.c ---------------------------------------------------------------------------------- */

yk_status yki_join_create(yk_ddp *ddp);
/* Before a forward: tells the ranks which of them have data and whether the step is synced.
 * Collective. */
yk_status yki_join_meet(yk_ddp *ddp, yki_join_state state);
/* What the mean over the ranks that have data is multiplied by. */
double yki_join_factor(const yk_ddp *ddp);
/* Ranks that have data; without Join all of them. */
int yki_join_active(const yk_ddp *ddp);

/* ---- forward_sync.c -------------------------------------------------------------------------- */

/* Memory for the exchange before a forward. Collective. */
yk_status yki_forward_sync_create(yk_ddp *ddp);
void yki_forward_sync_destroy(yk_ddp *ddp);
/* What cannot go with virtual ranks, however many ranks share them. */
yk_status yki_forward_sync_check(const yk_ddp *ddp);
/* Of yki_model_hooks. */
yk_status yki_forward_sync_forward_begin(void *context, int64_t samples);

/* Copies all buffers into the flat block, or back. */
void yki_buffers_copy(yk_ddp *ddp, bool pack);
/* Makes every rank's buffers the leader's, where a forward has moved them since. Collective. */
yk_status yki_buffers_follow(yk_ddp *ddp);
/* Starts the exchange of yki_rank_samples; finishes one that may be in flight. */
yk_status yki_samples_start(yk_ddp *ddp, int64_t samples);
yk_status yki_samples_finish(yk_ddp *ddp);

#endif

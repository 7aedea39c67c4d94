/*
 * The backend of several hosts with several ranks: shared memory within a host, a network between
 * them. It is a pipeline of three stages, through which all calls pass in the same order. Each
 * stage has its own thread and its own groups.
 *
 *   1. The descriptors of all ranks are compared. Then, in an all-reduce or a reduce, each rank of
 *      a host reduces its slice of the host's buffers; in a broadcast, the ranks of the root's host
 *      get the data; an all-gather of little data is done here.
 *
 *   2. In an all-reduce or a reduce, the ranks that own the same slice reduce it across the hosts,
 *      all slices at once: to all of them, or to the one on the root's host. In a broadcast, the
 *      first ranks of the hosts pass the data on. In an all-gather, the ranks that have the same
 *      place on their hosts gather each other's data. All other calls, and messages, use a flat
 *      group of all ranks.
 *
 *   3. In an all-reduce, the ranks of a host gather the slices; in a reduce, the root does; in a
 *      broadcast, the ranks of the other hosts get the data; in an all-gather, the ranks of a host
 *      share what they have gathered.
 *
 * A call that its caller only waits for, and that is a single piece, is alone in the pipeline: then
 * the caller's thread runs all stages.
 *
 * So each host sends 2 (H - 1) / H of the buffer, as little as a ring of hosts can. Large buffers
 * pass through the stages piece by piece, so that the network need not wait for the whole of the
 * buffer. Small buffers are one slice, and so are all where ranks of a host share a core: the first
 * rank of each host owns it. Where hosts have different numbers of ranks, each host has as many
 * slices as the smallest has ranks, is reduced as a whole, and its slices are broadcast one by one.
 */
#ifndef YKI_TWO_LEVEL_H
#define YKI_TWO_LEVEL_H

#include <pthread.h>

#include "comm/group_state.h"

enum { TWO_LEVEL_STAGES = 3, TWO_LEVEL_WORKS = 4 };

/* The table of "shm+NET": what follows the public part is known to this backend alone. */
typedef struct two_level_ops {
    yk_backend_ops ops;
    const yk_backend_ops *network;
    char name[72];
} two_level_ops;

/* A part of a call, which passes through the stages by itself. */
typedef struct two_level_piece {
    yk_backend_call call; /* of this part of the data alone */
    size_t stride;        /* bytes of the data of the whole call; in the result of an all-gather,
                             from one rank's part to the next */
} two_level_piece;

/* A call on its way through the stages. */
typedef struct two_level_work {
    yk_backend_work *handle[TWO_LEVEL_STAGES]; /* one in each thread's queue */
    size_t done[TWO_LEVEL_STAGES];             /* pieces that each stage has finished */
    yk_status status;                          /* of the first that failed, with its line */
    char line[YKI_ERROR_LINE];
} two_level_work;

typedef struct two_level two_level;

typedef struct two_level_stage {
    two_level *owner;
    int number;
    yk_status (*run)(two_level *tl, const two_level_piece *piece);
    yk_backend_thread *thread;
    uint64_t next; /* the number of its next work */
} two_level_stage;

struct two_level {
    yk_backend base;
    yk_group *group;         /* the group that this is the backend of */
    int world, hosts, most;  /* the most ranks of a host */
    int slices;              /* the fewest ranks of a host; 1 where ranks share a core */
    bool even;               /* all hosts have the same number of ranks */
    int host;                /* of this rank; hosts count in the order of their first ranks */
    int *host_of, *index_of; /* [world]: the host of a rank, and its rank there */
    yk_group *reducing, *gathering; /* of this host, for stages 1 and 3 */
    yk_group *leaders;              /* the hosts' first ranks, for stage 1; else NULL */
    yk_group *across;               /* the owners of this rank's slice; NULL where it has none */
    yk_group *flat;                 /* all ranks */
    yk_descriptor *called;          /* [world], of stage 1 */
    char *row, *table;              /* of stage 1; see all_gather.c */
    char *column;                   /* of stage 2 */
    two_level_stage stage[TWO_LEVEL_STAGES];
    two_level_work works[TWO_LEVEL_WORKS]; /* used in turn */
    uint64_t posted;
    yk_status failed; /* of the first work after which no other begins, with its line */
    char failed_line[YKI_ERROR_LINE];
    bool abandoned;       /* a stage does not end */
    pthread_mutex_t lock; /* of done, status and failed */
    pthread_cond_t changed;
};

/* ---- stages.c -------------------------------------------------------------------------------- */

/* Compares the descriptors of all ranks, before stage 1. */
yk_status yki_two_level_check(two_level *tl, yk_backend_call *call);
/* In how many pieces a call passes through the stages, and one of them. */
size_t yki_two_level_pieces(const two_level *tl, const yk_backend_call *call);
two_level_piece yki_two_level_piece(const yk_backend_call *call, size_t number, size_t pieces);
/* The stages. */
yk_status yki_two_level_reduce(two_level *tl, const two_level_piece *piece);
yk_status yki_two_level_cross(two_level *tl, const two_level_piece *piece);
yk_status yki_two_level_gather(two_level *tl, const two_level_piece *piece);
/* A call on one of the groups. */
yk_status yki_two_level_run(two_level *tl, yk_group *part, const yk_descriptor *what,
                            const void *in, void *out, bool background);
/* Makes the failure of one of the groups that of the whole. */
yk_status yki_two_level_adopt_failure(two_level *tl, const yk_group *part, yk_status status);

/* ---- all_gather.c ---------------------------------------------------------------------------- */

/* How an all-gather proceeds. */
typedef enum two_level_way { TWO_LEVEL_TABLE, TWO_LEVEL_COLUMNS, TWO_LEVEL_FLAT } two_level_way;

/* Of so many bytes of each rank. */
two_level_way yki_two_level_way(const two_level *tl, size_t bytes);

/* The whole of an all-gather, in stage 1. */
yk_status yki_two_level_gather_table(two_level *tl, const void *mine, size_t bytes, void *all,
                                     bool background);
/* Bytes of the largest table. A row is a part of it. */
size_t yki_two_level_table_bytes(const two_level *tl);

/* In stages 2 and 3. */
yk_status yki_two_level_gather_column(two_level *tl, const two_level_piece *piece);
yk_status yki_two_level_share_columns(two_level *tl, const two_level_piece *piece);
/* In how many pieces so many bytes of each rank are gathered, and the bytes of a column then. */
size_t yki_two_level_column_pieces(const two_level *tl, size_t bytes);
size_t yki_two_level_column_bytes(const two_level *tl);

/* ---- average.c ------------------------------------------------------------------------------- */

/* data /= ranks; integers truncate. */
void yki_two_level_divide(void *data, size_t count, yk_dtype dtype, int ranks);

#endif

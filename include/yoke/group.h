/*
 * Process groups: torch.distributed's. Every rank calls the same collectives in the same order;
 * each call is numbered and compared over all ranks before any data moves, so that a mismatch is
 * an error on every rank that names both sides, never a hang and never wrong numbers.
 *
 * Blocking calls return when the result is in the buffer. With a work object the call returns at
 * once, the group's own thread runs it in order, and the buffer belongs to the group until
 * yk_work_wait. A group may be used by one thread at a time.
 */
#ifndef YOKE_GROUP_H
#define YOKE_GROUP_H

#include <stdbool.h>

#include <yoke/status.h>
#include <yoke/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef struct yk_group yk_group;
typedef struct yk_work yk_work;

typedef enum yk_reduce_op {
    YK_REDUCE_SUM,
    YK_REDUCE_AVG,
    YK_REDUCE_MIN,
    YK_REDUCE_MAX,
    YK_REDUCE_PRODUCT
} yk_reduce_op;

typedef struct yk_group_options {
    const char *init_method; /* "env://" (default), "tcp://HOST:PORT", "file:///PATH" */
    const char *backend;     /* NULL: self for one rank, shm for ranks of one machine */
    int rank, world_size;    /* for tcp:// and file://; world_size 0: RANK and WORLD_SIZE */
    double timeout_s;        /* of rendezvous and of each collective; 0 means YOKE_TIMEOUT or 300 */
} yk_group_options;

/*
 * Joins the job and blocks until all ranks have. Without RANK and WORLD_SIZE in the environment
 * env:// makes a group of one. Ranks still missing are listed on stderr after 5 s and named in the
 * error at the timeout.
 */
yk_status yk_group_init(yk_group **group, const yk_group_options *options);
/* Leaves the job; the other ranks see an orderly departure. Accepts NULL. */
void yk_group_destroy(yk_group *group);

int yk_group_rank(const yk_group *group);
int yk_group_size(const yk_group *group);
int yk_group_local_rank(const yk_group *group);
int yk_group_local_size(const yk_group *group);
const char *yk_group_backend(const yk_group *group);

/*
 * Memory that every rank of the group can read directly, zeroed, 64-byte aligned; a collective
 * call (all ranks, same bytes). Collectives on it need no copy. Freed with the group.
 */
yk_status yk_group_alloc(yk_group *group, size_t bytes, void **memory);

/*
 * The collectives. count is in elements; work may be NULL for a blocking call. Reductions take f32,
 * f64, bf16, f16, i32 and i64 (bf16 and f16 accumulate in f32), are performed in rank order and are
 * bitwise the same on all ranks and in every run. data is in place. AVG of integers truncates like
 * C, and their sums and products wrap around.
 */
yk_status yk_all_reduce(yk_group *group, void *data, size_t count, yk_dtype dtype, yk_reduce_op op,
                        yk_work **work);
yk_status yk_broadcast(yk_group *group, void *data, size_t count, yk_dtype dtype, int root,
                       yk_work **work);
/* in: count elements; out: world_size * count, in rank order. */
yk_status yk_all_gather(yk_group *group, void *out, const void *in, size_t count, yk_dtype dtype,
                        yk_work **work);
/* in: world_size * count; out: this rank's count elements of the reduced whole. */
yk_status yk_reduce_scatter(yk_group *group, void *out, const void *in, size_t count,
                            yk_dtype dtype, yk_reduce_op op, yk_work **work);
/* out is used on root alone (world_size * count elements); may be NULL elsewhere. */
yk_status yk_gather(yk_group *group, void *out, const void *in, size_t count, yk_dtype dtype,
                    int root, yk_work **work);
/* in is used on root alone (world_size * count elements). */
yk_status yk_scatter(yk_group *group, void *out, const void *in, size_t count, yk_dtype dtype,
                     int root, yk_work **work);
/* Point to point, matched in order by (source, destination). Blocking. */
yk_status yk_send(yk_group *group, const void *data, size_t count, yk_dtype dtype, int to);
yk_status yk_recv(yk_group *group, void *data, size_t count, yk_dtype dtype, int from);
yk_status yk_barrier(yk_group *group);

/* Waits, returns the operation's status (its error line becomes this thread's), frees the work. */
yk_status yk_work_wait(yk_work *work);
/* True once yk_work_wait would not block. */
bool yk_work_done(const yk_work *work);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif

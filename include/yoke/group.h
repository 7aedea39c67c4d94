/**
 * @file
 * Process groups, as in torch.distributed. Every rank calls the same collectives in the same order.
 * Each call is numbered and compared over all ranks before any data moves, so a mismatch is an
 * error on every rank that names both sides; it is never a hang and never a wrong number.
 *
 * A blocking call returns when its result is in the buffer. A call that is given a work object
 * returns at once: the group's own thread runs it, in order, and the buffer belongs to the group
 * until yk_work_wait. A group may be used by one thread at a time.
 *
 * A call waits for the other ranks at most for the group's timeout. YK_ERROR_PEER_FAILED means
 * that a rank has died, has left the job or cannot take part, YK_ERROR_TIMEOUT that one is late;
 * both name it, on all ranks. The group has failed then: buffers of calls in flight are undefined,
 * and every later call returns the same failure. YK_ERROR_INVALID_ARGUMENT and, as a rule,
 * YK_ERROR_MISMATCH leave the group usable and the buffers as they were. If one rank's arguments
 * are invalid, the other ranks get YK_ERROR_MISMATCH in their call, with that rank and its reason.
 *
 * Ranks that wait for each other in collectives of different groups are told from late ranks after
 * some seconds, when all their threads that have made calls wait. The log then has a warning with
 * the calls and groups, and so has the error if no other thread makes one of the missing calls
 * until the timeout.
 */
#ifndef YOKE_GROUP_H
#define YOKE_GROUP_H

#include <stdbool.h>
#include <stdint.h>

#include <yoke/status.h>
#include <yoke/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/** The ranks of a job, connected with each other. */
typedef struct yk_group yk_group;
/** A collective that is under way. */
typedef struct yk_work yk_work;

/**
 * How a reduction combines the elements of all ranks. Where a rank has NaN, the result is NaN;
 * only the minima and maxima of mpi and nccl are what those libraries make of it.
 */
typedef enum yk_reduce_op {
    YK_REDUCE_SUM,    /**< their sum */
    YK_REDUCE_AVG,    /**< their sum divided by the number of ranks */
    YK_REDUCE_MIN,    /**< the smallest */
    YK_REDUCE_MAX,    /**< the largest */
    YK_REDUCE_PRODUCT /**< their product */
} yk_reduce_op;

/** In yk_group_options: read this value from the environment. */
#define YK_FROM_ENVIRONMENT (-1)

/** How a rank joins its job. Initialise it with YK_GROUP_OPTIONS_INIT. */
typedef struct yk_group_options {
    size_t size;             /**< of this struct; set by YK_GROUP_OPTIONS_INIT */
    const char *init_method; /**< "env://" [default], "tcp://HOST:PORT" or "file:///PATH" */
    /**
     * "self", "shm", a network ("tcp", "mpi", "gloo" or a module of YOKE_MODULES), or "shm+" and a
     * network. NULL [default] reads YOKE_BACKEND, and where that is not set chooses by the ranks'
     * places.
     *
     * "nccl" insists that the memory of GPUs travels through NCCL; the backend for the host's
     * memory is then chosen by the ranks' places. Without it NCCL is used where it can be. Any
     * other name has the memory of GPUs staged through the host's.
     */
    const char *backend;
    int rank;         /**< this process; YK_FROM_ENVIRONMENT [default] reads RANK */
    int world_size;   /**< all processes; YK_FROM_ENVIRONMENT [default] reads WORLD_SIZE */
    double timeout_s; /**< seconds to wait for the other ranks, in rendezvous and in each
                           collective; YK_FROM_ENVIRONMENT [default] reads YOKE_TIMEOUT, and
                           takes 300 where that is not set */
} yk_group_options;

/** The defaults of yk_group_options. */
#define YK_GROUP_OPTIONS_INIT                                                                      \
    {                                                                                              \
        sizeof(yk_group_options), "env://", NULL, YK_FROM_ENVIRONMENT, YK_FROM_ENVIRONMENT,        \
            YK_FROM_ENVIRONMENT                                                                    \
    }

/** A process's place in its job. */
typedef struct yk_place {
    const char *source; /**< what rank and size come from, for messages; NULL: they are not given */
    int rank;           /**< 0 if it is not given */
    int world_size;     /**< 1 if it is not given */
    int local_rank;     /**< among the ranks of this host, as far as the environment tells */
    int local_world_size; /**< the number of ranks on this host, as far as it tells */
} yk_place;

/**
 * Reads this process's place from the environment as yk_group_init does, but joins nothing. The
 * first of these that has both rank and size is taken: RANK and WORLD_SIZE, which launchers set;
 * mpirun (Open MPI, MVAPICH2, MPICH); a step of srun; an indexed Job of Kubernetes.
 * YK_ERROR_INVALID_ARGUMENT when two of them contradict each other. YOKE_SEPARATE=1 in the
 * environment says that only RANK and WORLD_SIZE count.
 */
yk_status yk_group_place(yk_place *place);

/**
 * Joins the job and blocks until all ranks have joined. Where neither the options nor the
 * environment give a rank and a world size, env:// makes a group of one; with other init methods
 * that is an error. Unlike PyTorch's, an init method never contains them (?rank=0&world_size=2).
 *
 * After 5 s the ranks that are still missing are listed in the log; at the timeout they are named
 * in the error (YK_ERROR_TIMEOUT). YK_ERROR_MISMATCH when two processes claim one rank or disagree
 * on the world size. On failure *group is NULL.
 */
yk_status yk_group_init(yk_group **group, const yk_group_options *options);

/**
 * Releases the caller's hold on the group. Whatever was made with the group keeps it alive: works
 * that nobody has waited for, groups split from it, yk_ddp, yk_zero and models converted to
 * SyncBatchNorm. When the last of them is gone, this rank leaves the job, which the other ranks see
 * as an orderly departure. Accepts NULL.
 */
void yk_group_destroy(yk_group *group);

/** As a color of yk_group_split: this rank is in none of the new groups. */
#define YK_COLOR_NONE (-1)

/**
 * Divides a group, like MPI_Comm_split: the ranks that give the same color (0 or more) form a new
 * group, in the order of their keys and, where these are equal, of their ranks. A rank that gives
 * YK_COLOR_NONE gets NULL. Collective: all ranks of the group call it.
 *
 * A new group has its own calls, works and failures, and may be used by another thread than the
 * group it was made of, which it keeps alive. Messages name ranks by their numbers in the whole
 * job. If a rank is refused, all are. On failure *part is NULL.
 */
yk_status yk_group_split(yk_group **part, yk_group *group, int color, int key);

/**
 * The ranks of this machine in the group, in order, like MPI_Comm_split_type with
 * MPI_COMM_TYPE_SHARED and torch.distributed.new_subgroups. Otherwise as yk_group_split.
 */
yk_status yk_group_split_by_host(yk_group **part, yk_group *group);

/**
 * Makes a second group of the same ranks in the same order, like MPI_Comm_dup: calls on it are
 * independent of those on the first. Otherwise as yk_group_split.
 */
yk_status yk_group_duplicate(yk_group **copy, yk_group *group);

/** This process's rank, from 0; -1 where group is NULL. */
int yk_group_rank(const yk_group *group);
/** The number of ranks (the world size); 0 where group is NULL. */
int yk_group_size(const yk_group *group);
/** This process's rank among those of its machine; -1 where group is NULL. */
int yk_group_local_rank(const yk_group *group);
/** The number of ranks on this machine; 0 where group is NULL. */
int yk_group_local_size(const yk_group *group);
/** The backend's name, e.g. "shm"; "" where group is NULL. */
const char *yk_group_backend(const yk_group *group);
/**
 * Why the group has this backend, e.g. "2 hosts with 2 ranks each", or "one machine with 2 ranks,
 * as asked for". "" where group is NULL, or was made of another group.
 */
const char *yk_group_backend_reason(const yk_group *group);

/**
 * How the memory of a device travels between the ranks: "nccl, in the device's streams", or
 * "staged through shm: " and the reason. "" as long as none has, and where group is NULL.
 */
const char *yk_group_exchange(const yk_group *group);

/**
 * Says how many training steps this rank has finished, for `yoke ps`. Cheap enough for every step:
 * only the newest number is sent, about once a second, by a thread of the job. A trainer calls this
 * by itself. Without effect in a job of one rank, where step is negative, and where group is NULL.
 */
void yk_group_note_step(yk_group *group, int64_t step);

/**
 * Allocates memory that every rank of the group can read directly; collectives on it need no copy.
 * Collective: all ranks call it with the same number of bytes. The memory is zeroed and aligned to
 * 64 bytes. It is freed by yk_group_free or with the group. On failure *memory is NULL.
 */
yk_status yk_group_alloc(yk_group *group, size_t bytes, void **memory);

/**
 * Frees memory of yk_group_alloc. Every rank frees it, after its last collective on that memory;
 * the call waits for this rank's works but not for the other ranks. A collective that would read
 * one rank's memory where another rank has freed it fails the group with YK_ERROR_MISMATCH. Accepts
 * NULL; YK_ERROR_INVALID_ARGUMENT for other memory.
 */
yk_status yk_group_free(yk_group *group, void *memory);

/**
 * Reduces `count` elements over all ranks, in place: afterwards data holds the result on every
 * rank.
 *
 * This holds for all collectives: count is in elements; work may be NULL for a blocking call.
 * Reductions take f32, f64, bf16, f16, i32 and i64, and give the same bits on all ranks and in
 * every run. In shared memory they are performed in the order of ranks, and bf16 and f16 are
 * accumulated in f32; networks have an order of their own, and round to bf16 and f16 after each
 * operation. AVG of integers truncates as C does; integer sums and products wrap around. On failure
 * *work is NULL.
 */
yk_status yk_all_reduce(yk_group *group, void *data, size_t count, yk_dtype dtype, yk_reduce_op op,
                        yk_work **work);
/**
 * Reduces `count` elements over all ranks, in place: afterwards data holds the result on root, and
 * is unspecified on the other ranks.
 */
yk_status yk_reduce(yk_group *group, void *data, size_t count, yk_dtype dtype, yk_reduce_op op,
                    int root, yk_work **work);
/** Copies root's `count` elements to every rank, in place. */
yk_status yk_broadcast(yk_group *group, void *data, size_t count, yk_dtype dtype, int root,
                       yk_work **work);
/** Gathers everybody's `count` elements everywhere: out takes world_size * count, by rank. */
yk_status yk_all_gather(yk_group *group, void *out, const void *in, size_t count, yk_dtype dtype,
                        yk_work **work);
/** Reduces world_size * count elements of in; out takes this rank's `count` of the result. */
yk_status yk_reduce_scatter(yk_group *group, void *out, const void *in, size_t count,
                            yk_dtype dtype, yk_reduce_op op, yk_work **work);
/** Gathers everybody's `count` elements on root; out (world_size * count) is used there alone. */
yk_status yk_gather(yk_group *group, void *out, const void *in, size_t count, yk_dtype dtype,
                    int root, yk_work **work);
/** Gives each rank its `count` elements of in (world_size * count), which is used on root alone. */
yk_status yk_scatter(yk_group *group, void *out, const void *in, size_t count, yk_dtype dtype,
                     int root, yk_work **work);
/**
 * Gives each rank its `count` elements of in (world_size * count), and gathers those that the ranks
 * give to this one in out (world_size * count), by rank. The buffers do not overlap.
 */
yk_status yk_all_to_all(yk_group *group, void *out, const void *in, size_t count, yk_dtype dtype,
                        yk_work **work);
/**
 * The same with parts of any size: in has in_counts[r] elements for rank r, and out takes
 * out_counts[r] of them from it, by rank and without gaps; [world_size] each, which are copied. All
 * ranks get YK_ERROR_MISMATCH where one gives another a different number than that one takes.
 */
yk_status yk_all_to_all_v(yk_group *group, void *out, const size_t *out_counts, const void *in,
                          const size_t *in_counts, yk_dtype dtype, yk_work **work);
/**
 * Sends to one rank, blocking. Sends and receives match in order by (source, destination).
 *
 * Ranks that wait for each other's messages, such as two that both send first, exchange them with
 * yk_batch_send_recv.
 */
yk_status yk_send(yk_group *group, const void *data, size_t count, yk_dtype dtype, int to);
/** Receives from one rank. Blocking. */
yk_status yk_recv(yk_group *group, void *data, size_t count, yk_dtype dtype, int from);

/** The direction of a message. */
typedef enum yk_message_kind {
    YK_MESSAGE_SEND, /**< to the peer */
    YK_MESSAGE_RECV  /**< from the peer */
} yk_message_kind;

/** A message between this rank and another one. */
typedef struct yk_message {
    yk_message_kind kind; /**< sent or received */
    int peer;             /**< the other rank */
    void *data;           /**< only read where it is sent */
    size_t count;         /**< elements */
    yk_dtype dtype;       /**< of them */
} yk_message;

/**
 * Sends and receives several messages at once, in any number and with any other ranks, as
 * batch_isend_irecv does. None waits for another one, except that those from one rank to another
 * keep their order, in the list and over all calls.
 *
 * One message and a work are isend and irecv. The works of a group are done one after the other,
 * however: ranks that first send to each other and then receive wait in vain as works, too, and
 * give both messages to one call.
 *
 * The list is copied; the buffers belong to the group until the call, or its work, is done. A
 * message that both ranks do not call alike is YK_ERROR_MISMATCH on these two, and its data does
 * not move; all other messages of the call do.
 */
yk_status yk_batch_send_recv(yk_group *group, const yk_message *messages, size_t count,
                             yk_work **work);
/** Returns when every rank has called it. */
yk_status yk_barrier(yk_group *group);

/**
 * Waits for the work, returns the operation's status (its error line becomes this thread's) and
 * frees the work. Every work must be waited for exactly once.
 */
yk_status yk_work_wait(yk_work *work);
/** True once yk_work_wait would not block. */
bool yk_work_done(const yk_work *work);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif

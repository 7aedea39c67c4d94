/**
 * @file
 * The contract between a group and a backend, the engine that moves its data. For those who write
 * one; programs only name backends (yk_group_options.backend).
 *
 * The group checks the arguments of every call, numbers it and decides how long to wait. A backend
 * posts the call, lets the group test it, and gives it up when it is cancelled. Before any data
 * moves it exchanges the descriptors of all ranks, and refuses the call with YK_ERROR_MISMATCH on
 * every rank where they differ (yk_backend_compare).
 *
 * A backend is a constant table, yk_backend_ops, whose functions take a struct that begins with
 * yk_backend. Some are part of libyoke. The others are modules, shared objects named
 * libyoke-NAME.so, which are opened when a group asks for them and never closed. They lie next to
 * libyoke or in one of the folders of YOKE_MODULES, and export the table as `yk_backend_module`.
 *
 * A backend moves either the host's memory or, with YK_BACKEND_DEVICE_MEMORY, a device's. A group
 * always has one of the first kind, by which its ranks meet, compare their calls and notice each
 * other's deaths. It opens one of the second kind for a device when something on that device is
 * exchanged for the first time; what such a backend does is described at yk_backend_ops.enqueue.
 */
#ifndef YOKE_BACKEND_H
#define YOKE_BACKEND_H

#include <stdbool.h>
#include <stdint.h>

#include <yoke/group.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/** The version of this contract; a module of another version is not used. */
#define YK_BACKEND_VERSION 4

/** What a call does. */
typedef enum yk_operation {
    YK_OPERATION_ALL_REDUCE,     /**< yk_all_reduce: in and out are the same */
    YK_OPERATION_REDUCE,         /**< yk_reduce: in and out are the same; the result is used on
                                      root alone, and other ranks' data may become anything */
    YK_OPERATION_BROADCAST,      /**< yk_broadcast: in and out are the same */
    YK_OPERATION_ALL_GATHER,     /**< yk_all_gather */
    YK_OPERATION_REDUCE_SCATTER, /**< yk_reduce_scatter */
    YK_OPERATION_GATHER,         /**< yk_gather */
    YK_OPERATION_SCATTER,        /**< yk_scatter */
    YK_OPERATION_ALL_TO_ALL,     /**< yk_all_to_all */
    YK_OPERATION_BARRIER,        /**< yk_barrier: no buffers */
    YK_OPERATION_ALLOC,        /**< yk_group_alloc: as a barrier, where memory is not registered */
    YK_OPERATION_ALL_TO_ALL_V, /**< yk_all_to_all_v: first an all-gather of the sizes of all parts,
                                    which take `count` elements of the dtype; then messages */
    YK_OPERATION_SEND,         /**< yk_send: a message */
    YK_OPERATION_RECV,         /**< yk_recv: a message */
    YK_OPERATION_BATCH         /**< yk_batch_send_recv: several of both */
} yk_operation;

/** What all ranks must agree on. It has no padding, so that it is compared as bytes. */
typedef struct yk_descriptor {
    uint8_t operation; /**< a yk_operation */
    uint8_t dtype;     /**< a yk_dtype */
    uint8_t reduce;    /**< a yk_reduce_op; zero where nothing is reduced */
    uint8_t invalid;   /**< this rank's arguments were refused, and its buffers may be wrong */
    int32_t root;      /**< zero where there is none; the other rank in send and recv, and that of
                            the first message in a batch */
    uint64_t count;    /**< in elements; in bytes for YK_OPERATION_ALLOC, in messages for
                            YK_OPERATION_BATCH */
} yk_descriptor;

/** Set together with YK_ERROR_MISMATCH: two ranks, and what each of them called. */
typedef struct yk_mismatch {
    int rank_a;           /**< the lowest rank of those that differ */
    int rank_b;           /**< a rank that differs from it */
    yk_descriptor what_a; /**< the call of rank_a */
    yk_descriptor what_b; /**< the call of rank_b */
    bool out_of_step;     /**< the ranks no longer agree on what comes next: the group has failed */
    bool memory_freed;    /**< rank_a's data is in memory that rank_b has freed */
} yk_mismatch;

/** A message from one rank to another. */
typedef struct yk_backend_message {
    yk_descriptor what; /**< YK_OPERATION_SEND or YK_OPERATION_RECV */
    uint64_t sequence;  /**< of the messages from this rank to that, from 1: usable as a tag */
    void *data;         /**< only read where it is sent */
} yk_backend_message;

/** A call. It stays valid until its work is done or cancelled; so do its buffers. */
typedef struct yk_backend_call {
    yk_descriptor what; /**< what this rank calls */
    uint64_t sequence;  /**< the group's count of collectives from 1, equal on all ranks: usable as
                             a tag */
    const void *in;     /**< see the collectives in group.h; NULL where it is not used */
    void *out;          /**< see the collectives in group.h; NULL where it is not used */
    bool background;    /**< this process computes meanwhile: sleep rather than spin. Otherwise the
                             caller only waits, and posts no other call before this one is done */
    bool compare_only;  /**< only the descriptors are exchanged and compared: the buffers are in a
                             device's memory, and another backend moves them */
    const yk_backend_message *messages; /**< [message_count]; then in and out are not used */
    size_t message_count;               /**< 0: a collective */
    bool matched; /**< both ranks of each message are known to call the same: it is not compared */
    void *stream; /**< for enqueue: the device's stream, as its own libraries know it */
    yk_mismatch mismatch; /**< set by the backend with YK_ERROR_MISMATCH */
    double met_s; /**< when all ranks had begun the call, in seconds of CLOCK_MONOTONIC: until then
                       it waited for them, from then on it moves data. Set by yk_backend_compare,
                       and 0 before; a backend may leave it when it did not wait */
} yk_backend_call;

/** One rank of the group, as all ranks know it. */
typedef struct yk_backend_member {
    int job_rank;        /**< its rank in the whole job, for messages */
    int pid;             /**< its process */
    const char *host;    /**< the name of its host, for messages */
    const char *address; /**< an IP address at which the other ranks reach its host */
    const char *machine; /**< equal for two ranks where they can share memory */
} yk_backend_member;

/** An open backend; the concrete struct begins with this. */
typedef struct yk_backend yk_backend;

/** A device whose memory a backend moves. */
typedef struct yk_backend_device {
    size_t size;      /**< of this struct */
    const char *type; /**< "cuda", "sim" */
    void *handle;     /**< for backends of the library: the device */
} yk_backend_device;

/**
 * Where a backend is opened. Everything in it stays valid until the backend is closed. set and get
 * may be called by any thread, look only by the one that is in open, post, alloc or enqueue.
 */
typedef struct yk_backend_site {
    size_t size;                      /**< of this struct */
    int rank;                         /**< this process */
    int ranks;                        /**< the number of ranks */
    const yk_backend_member *members; /**< [ranks] */
    double timeout_s;                 /**< seconds that the group waits for other ranks */
    void *context;                    /**< for the functions below */
    /** Sets a key of the job's store. Keys belong to this group alone. */
    yk_status (*set)(void *context, const char *key, const void *value, size_t size);
    /** As yk_store_get, but also ends with an error when the group has failed meanwhile. */
    yk_status (*get)(void *context, const char *key, void *value, size_t size, size_t *used,
                     double timeout_s);
    /**
     * For a backend that waits inside post, enqueue or open: called about every 20 ms, it tells
     * whether to keep waiting. missing tells whether a rank is still waited for. When the result is
     * not YK_OK, the backend gives up with it.
     */
    yk_status (*look)(void *context, bool (*missing)(const void *wait, int rank), const void *wait);
    const yk_backend_device *device; /**< with YK_BACKEND_DEVICE_MEMORY; else NULL */
} yk_backend_site;

/** What a backend can do, as bits of yk_backend_ops.capabilities. */
enum {
    YK_BACKEND_RANK_ORDER = 1 << 0,        /**< reductions add in the order of ranks: the same bits
                                                in every run and on every backend with this bit */
    YK_BACKEND_REGISTERED_MEMORY = 1 << 1, /**< memory of alloc needs no copy */
    YK_BACKEND_DEVICE_MEMORY = 1 << 2      /**< moves a device's memory, not the host's */
};

/** A posted call, owned by the backend until a test says that it is done, or until cancel. */
typedef struct yk_backend_work yk_backend_work;

/**
 * A backend's table. alloc and free are NULL without YK_BACKEND_REGISTERED_MEMORY or
 * YK_BACKEND_DEVICE_MEMORY, test and cancel where post finishes every call. A backend with
 * YK_BACKEND_DEVICE_MEMORY has open, close, enqueue, check and abort, may have alloc and free, and
 * has none of post, test and cancel; the others have no enqueue, check and abort.
 *
 * YK_ERROR_NETWORK from post, test or alloc means that the engine has failed or has lost another
 * rank: the group finds out which rank is at fault, and has failed. Any other error must be the
 * same on all ranks, and leaves the backend usable.
 */
typedef struct yk_backend_ops {
    uint32_t version;      /**< YK_BACKEND_VERSION */
    uint32_t size;         /**< of this struct */
    const char *name;      /**< "tcp" */
    uint32_t capabilities; /**< YK_BACKEND_... bits */
    int max_works;         /**< how many works may be posted before the first is done, at least 1 */
    /** Opens the backend on all ranks of the site. Blocks until all have done so. */
    yk_status (*open)(yk_backend **backend, const yk_backend_site *site);
    /** Closes it; does not wait for other ranks. No work is in flight, except cancelled ones. */
    void (*close)(yk_backend *backend);
    /**
     * Starts a call. All ranks post their collectives in the same order, and test the works in this
     * order. A backend that cannot work behind the caller's back finishes the call here and asks
     * site->look while it waits; then *work is NULL. On failure *work is NULL.
     *
     * A call with messages concerns only the ranks that they go to and come from. All messages are
     * under way at the same time: none waits for another one, unless both go from the same rank to
     * the same other one, which keeps the order of the list. Two ranks that are in such calls
     * exchange what they have for each other, whatever else they wait for. The call begins with
     * no exchange of all ranks; the two ranks of each message compare it
     * (yk_backend_compare_messages), unless call->matched. One that does not match moves no data.
     * All others do, before the call ends with YK_ERROR_MISMATCH.
     *
     * The functions of a backend are called by one thread at a time, but not always by the same.
     */
    yk_status (*post)(yk_backend *backend, yk_backend_call *call, yk_backend_work **work);
    /**
     * Whether the work is done, waiting for it at most wait_s seconds. Once *done is true the
     * result is the status of the call, and the work is gone. Only the oldest work is tested.
     */
    yk_status (*test)(yk_backend *backend, yk_backend_work *work, double wait_s, bool *done);
    /**
     * Gives up a work, because a rank is dead or late. Afterwards the buffers belong to the caller
     * again, and the backend is only closed. An engine that cannot be interrupted leaves its thread
     * and what that uses behind.
     */
    void (*cancel)(yk_backend *backend, yk_backend_work *work);
    /**
     * Collective, in place of post: call->what.count bytes of zeroed memory, aligned to 64. With
     * YK_BACKEND_DEVICE_MEMORY it is not collective, and gives memory of the device, with any
     * contents, that the backend exchanges best; where it fails on a rank, all ranks use other
     * memory of the device.
     */
    yk_status (*alloc)(yk_backend *backend, yk_backend_call *call, void **memory);
    /** Frees memory of alloc on this rank; does not wait for the others. */
    yk_status (*free)(yk_backend *backend, void *memory);

    /**
     * Whether what the backend needs, such as another library, can be used here. Otherwise the
     * error line tells what is missing and what to install. NULL: it always can.
     */
    yk_status (*available)(void);
    /**
     * Enters a collective, but not a barrier, in call->stream and returns. It begins when the
     * stream comes to it on all ranks. All ranks enter the same collectives in the same order,
     * which the group has made sure of before. The stream may be under recording: then the
     * collective takes place in each replay, with the same buffers.
     *
     * A call is made by one thread at a time, on which the device is current.
     */
    yk_status (*enqueue)(yk_backend *backend, const yk_backend_call *call);
    /**
     * Whether the collectives that were entered can still succeed. Called again and again while a
     * thread waits for the device. A failure is final; the error line tells what has happened.
     */
    yk_status (*check)(yk_backend *backend);
    /**
     * Ends the collectives that were entered, whose buffers are undefined from then on: a rank is
     * dead or late. The stream must come to its end soon afterwards. Later calls of enqueue fail.
     * The failure and its error line are given to be reported.
     */
    void (*abort)(yk_backend *backend, yk_status status, const char *line);
} yk_backend_ops;

struct yk_backend {
    const yk_backend_ops *ops; /**< set by open */
};

/**
 * A module whose engine comes with a launcher, as MPI's does, may also export a function
 * `yk_backend_share_text`. All processes that the launcher has started call it before there is a
 * group: each gets the text of the first one, which tells where to find the store. YK_ERROR_TIMEOUT
 * when not all of them have called it within timeout_s seconds.
 */
typedef yk_status yk_backend_share_text_function(char *text, size_t size, double timeout_s);

/**
 * Compares the descriptors of all ranks, all[ranks]. YK_OK, or YK_ERROR_MISMATCH with
 * call->mismatch set, the same on every rank; also when the arguments of all ranks are invalid.
 * Called as soon as the descriptors of all ranks are here, it notes the time in call->met_s.
 */
yk_status yk_backend_compare(yk_backend_call *call, const yk_descriptor *all, int ranks);
/**
 * The same for a message from one rank to another: what was sent, and what the other wanted. The
 * first mismatch of a call is kept.
 */
yk_status yk_backend_compare_messages(yk_backend_call *call, int from, const yk_descriptor *sent,
                                      int to, const yk_descriptor *wanted);

/**
 * Whether there is a backend of that name, as yk_group_options.backend takes it; a module is not
 * opened. YK_ERROR_INVALID_ARGUMENT for an unknown name and YK_ERROR_UNSUPPORTED for a module that
 * is not installed; the error line tells what there is.
 */
yk_status yk_backend_check(const char *name);
/**
 * The modules that yoke knows: the file of the one at index, and its backend; NULL past the last
 * one. A backend may have several, such as one for each MPI.
 */
const char *yk_backend_module_file(size_t index, const char **backend);
/** Whether that module can be opened here; otherwise the error line tells why, and what to do. */
yk_status yk_backend_module_check(size_t index);

/* ---- engines whose calls block -------------------------------------------------------------- */

/** A thread that runs blocking calls one after the other, for the post and test of such engines. */
typedef struct yk_backend_thread yk_backend_thread;

/**
 * Starts the thread, named `name` (at most 15 bytes). run carries out one call; its status and
 * error line become those of the work. On failure *thread is NULL.
 */
yk_status yk_backend_thread_create(yk_backend_thread **thread, const char *name,
                                   yk_status (*run)(void *context, yk_backend_call *call),
                                   void *context);
/**
 * Ends the thread after the calls that are posted. When abandoned is true, a call may never return:
 * the thread is left to itself, and what it uses must stay valid. Accepts NULL.
 */
void yk_backend_thread_destroy(yk_backend_thread *thread, bool abandoned);
/** yk_backend_ops.post for such an engine. */
yk_status yk_backend_thread_post(yk_backend_thread *thread, yk_backend_call *call,
                                 yk_backend_work **work);
/** yk_backend_ops.test for such an engine. */
yk_status yk_backend_thread_test(yk_backend_thread *thread, yk_backend_work *work, double wait_s,
                                 bool *done);
/**
 * For yk_backend_ops.cancel: drops a work, whose call may have to be interrupted before. Calls that
 * have not begun never do. Waits at most wait_s seconds for one that runs, and returns whether it
 * has ended; otherwise the thread has to be abandoned.
 */
bool yk_backend_thread_cancel(yk_backend_thread *thread, yk_backend_work *work, double wait_s);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif

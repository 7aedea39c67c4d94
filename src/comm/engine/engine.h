/*
 * What engines whose calls block have in common.
 *
 * The calls of a group run on one thread. Each begins with an exchange of messages: the descriptor
 * of what a rank calls and, if the call is small, also the data that it contributes. Where the
 * descriptors agree, a small call is then finished without the engine: that takes one message
 * between two ranks instead of two or three, one after the other. Larger data is the engine's.
 *
 * A caller that only waits drives the exchange itself where the engine can do so without blocking.
 * A small call then needs no other thread. Where the threads share a core, switching between them
 * takes as long as the message.
 *
 * What the other ranks call is not known before, so there is room for the largest small message of
 * each rank, whatever this rank expects.
 */
#ifndef YKI_ENGINE_ENGINE_H
#define YKI_ENGINE_ENGINE_H

#include <yoke/backend.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct yki_engine_base yki_engine_base;
typedef yk_status yki_engine_function(yki_engine_base *engine, yk_backend_call *call);

/* A collective has a count of at least 1. */
typedef struct yki_engine_calls {
    /*
     * Sends `bytes` bytes of yki_engine_message(engine, rank) to every other rank and receives
     * their messages, each of at most engine->stride bytes, in their places.
     */
    yk_status (*exchange)(yki_engine_base *engine, yk_backend_call *call, size_t bytes);
    /*
     * The same in two steps, both NULL where the engine cannot do so: the first starts it, the
     * second waits for it at most wait_s seconds.
     */
    yk_status (*begin_exchange)(yki_engine_base *engine, size_t bytes);
    yk_status (*test_exchange)(yki_engine_base *engine, double wait_s, bool *done);
    yki_engine_function *all_reduce, *reduce, *broadcast, *all_gather, *reduce_scatter, *gather,
        *scatter, *all_to_all;
    yki_engine_function *messages; /* those of a call, for which nothing is exchanged */
} yki_engine_calls;

/* Concrete engines begin with it. */
struct yki_engine_base {
    yk_backend base; /* first */
    const yki_engine_calls *calls;
    const yk_backend_site *site;
    int rank, ranks;
    yk_backend_thread *thread;
    bool abandoned;             /* a cancelled call may still run */
    size_t small;               /* bytes that a rank contributes to a small call, at most */
    size_t stride;              /* of the messages */
    char *messages[2];          /* [ranks] each, used in turn */
    uint64_t exchanges;         /* their number; an exchange uses messages[exchanges & 1] */
    yk_descriptor *all;         /* [ranks] */
    const void **contributions; /* [ranks], to a small call */
    /* A call whose exchange the caller drives: its work is &direct. */
    yk_backend_call *direct;
    yk_backend_work *rest; /* on the thread, once the exchange is over; NULL before */
    bool exchanged;        /* the thread's next call begins after the exchange */
};

/* ---- life ------------------------------------------------------------------------------------ */

/* Sets up what is common, except for the thread. `small` may be 0. */
yk_status yki_engine_init(yki_engine_base *engine, const yk_backend_site *site,
                          const yki_engine_calls *calls, size_t small);
/* Frees what yki_engine_init has allocated. */
void yki_engine_fini(yki_engine_base *engine);

/*
 * Waits for what another rank sets in the store, size bytes, and looks at that rank meanwhile. name
 * is the engine's, for the error where the size differs.
 */
yk_status yki_engine_get(const yk_backend_site *site, int rank, const char *key, void *value,
                         size_t size, const char *name);

/* ---- calls ----------------------------------------------------------------------------------- */

/* The message of a rank in the exchange that is under way: its descriptor, then what it carries. */
void *yki_engine_message(const yki_engine_base *engine, int rank);

/* Whether this rank gets the result of an all-reduce or a reduce. */
bool yki_engine_gets_result(const yki_engine_base *engine, const yk_descriptor *what);

/* An all-reduce or a reduce of an engine that has no averages: `sum` gets them as sums. */
yk_status yki_engine_reduce(yki_engine_base *engine, yk_backend_call *call,
                            yki_engine_function *sum);

/* Carries out one call: the run function of the engine's thread. */
yk_status yki_engine_run(void *engine, yk_backend_call *call);

/* post and test of yk_backend_ops. */
yk_status yki_engine_post(yk_backend *backend, yk_backend_call *call, yk_backend_work **work);
yk_status yki_engine_test(yk_backend *backend, yk_backend_work *work, double wait_s, bool *done);
/* The end of cancel: waits at most wait_s seconds for an interrupted call. */
void yki_engine_drop(yki_engine_base *engine, yk_backend_work *work, double wait_s);

#ifdef __cplusplus
}
#endif

#endif

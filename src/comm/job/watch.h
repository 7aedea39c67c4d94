/*
 * A job's watch: a thread that asks the store on behalf of the groups that wait. A request blocks
 * while the process that serves the store is stopped, which must not keep a group from noticing
 * that its time is up. The thread starts when there is something to do for the first time, and
 * sleeps while there is nothing.
 */
#ifndef YKI_WATCH_H
#define YKI_WATCH_H

#include <stdatomic.h>

#include "comm/job/failure.h"
#include "comm/job/waiting.h"

/* What the watch knows about a group; its own thread writes, the group reads. */
typedef struct yki_watched {
    struct yki_watched *next;
    yki_job job;   /* a copy of the group's job, and of its peers: it outlives the group */
    bool is_whole; /* it has all ranks of the job */
    /* The group's own thread has works for it: nothing in them can be started, and if the group
     * does not wait, there are none. queue is NULL before and after the group has calls of its own.
     */
    void *queue;
    bool (*rests)(void *queue, bool waits);
    const _Atomic uint64_t *begun; /* the number of its last collective */
    bool leaving;                  /* this rank has left the group, and its goodbye is to be said */
    double asked;                  /* when the group last waited, and */
    double read;                   /* when the store was last read for it */
    yki_failure failure;
    yki_waiting waiting; /* for what, once this takes long */
    yki_waiting_state told;
    atomic_bool holds;  /* waiting is active, and its end has not been told yet */
    bool proposed;      /* failure is to be recorded; */
    int dead;           /* its text is how this rank ended, if it is not negative */
    atomic_bool failed; /* failure is final */
    atomic_bool *left;  /* [world]: which ranks have left the group in order, */
    atomic_bool *waits; /* and which wait too, as far as they have said so */
    /* [world]: the other ranks of the messages for which the group waits, which writes them. */
    atomic_bool *partners;
    /* [2 * world]: messages of this rank to each rank, and from it; the group writes them. */
    _Atomic uint64_t *messages;
    /* [2 * world]: those of each rank that has left to this rank, and from it; else 0. */
    _Atomic uint64_t *last_messages;
} yki_watched;

typedef struct yki_watch yki_watch;

/* The watch of a joined job, which stays valid until it is stopped. On failure *watch is NULL. */
yk_status yki_watch_create(yki_watch **watch, const yki_job *job);
/* Accepts NULL. */
void yki_watch_destroy(yki_watch *watch);

/* The training step that this rank has finished, from 0, which the watch publishes. */
void yki_watch_note_step(yki_watch *watch, int64_t step);
/* This rank has begun to take batches, of which others may have fewer. */
void yki_watch_note_batches(yki_watch *watch);

/*
 * What the launcher is to know of a job that it has started: that this rank writes the last
 * checkpoint of a job that is being stopped, and why the job ends. The latter waits a moment for
 * the store's answer, because the process may end after it.
 */
void yki_watch_announce_save(yki_watch *watch);
void yki_watch_report_cause(yki_watch *watch, const yki_failure *cause);

/* Begins to watch a group of the job. On failure *watched is NULL. */
yk_status yki_watch_add(yki_watched **watched, const yki_job *job);
/* The group may make calls from now on; see yki_watched. queue NULL: it makes no more. */
void yki_watch_calls(yki_watched *watched, void *queue, bool (*rests)(void *queue, bool waits),
                     const _Atomic uint64_t *begun);
/* Which ranks this one and others wait for in vain, in different groups (standstill.h); false, and
 * "", where that is not known. */
bool yki_watch_standstill(yki_watch *watch, char *text, size_t size);
/*
 * Ends it, and has the thread tell the other ranks that this one has left. Only the end of the
 * group of all ranks waits for that, and for the parts before it: not long if the store does not
 * answer.
 */
void yki_watch_remove(yki_watched *watched);

/*
 * The group waits: its failure and departures are read now and in the next moments, every 100 ms.
 * waiting is for what, and active once that takes long enough to be published.
 */
void yki_watch_ask(yki_watched *watched, const yki_waiting *waiting);
/* The wait has ended. Asks nothing of the store. */
void yki_watch_rest(yki_watched *watched);
/*
 * Proposes a failure and returns when watched->failure is final: this one, or what another rank has
 * recorded before. dead is a rank whose end is the failure, which the watch then describes, or -1.
 */
void yki_watch_fail(yki_watched *watched, int dead, const yki_failure *failure);

/* The same for this process alone, for a group inside another one that has failed. */
void yki_watch_fail_here(yki_watched *watched, const yki_failure *failure);

/*
 * Whether the process of that rank of a group has ended, or its host is lost: the kernel tells of
 * ranks on this machine, the store of others.
 */
bool yki_watch_gone(const yki_job *job, int rank);
/* Since when the store cannot be reached; 0: it can. */
double yki_watch_lost(const yki_watch *watch);
/* Whether its process has closed the connection, because it has ended or left. */
bool yki_watch_was_closed(const yki_watch *watch);
/* Whether its process has not answered for longer than the ranks wait for each other. */
bool yki_watch_was_silent(const yki_watch *watch);

#endif

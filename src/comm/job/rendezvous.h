/*
 * How the processes of a job find each other: from environment and options to ranks, pids and a
 * connected store.
 */
#ifndef YKI_RENDEZVOUS_H
#define YKI_RENDEZVOUS_H

#include <sys/types.h>

#include <yoke/group.h>
#include <yoke/store.h>

#include "base/error.h"
#include "base/fair_lock.h"

enum {
    YKI_JOB_PREFIX = 96,
    YKI_JOB_KEY = YKI_JOB_PREFIX + 64,
    YKI_GROUP_LABEL = 96,
    YKI_RANK_NAME = 96 /* for yki_rank_name */
};

typedef struct yki_peer {
    pid_t pid;
    int pidfd;        /* -1 if the system does not support pidfds, or on another machine */
    int job_rank;     /* its rank in the whole job */
    bool remote;      /* on another machine than this process */
    char machine[80]; /* equal where processes share kernel and pid namespace */
    char host[65];    /* the name of its host, which has at most 64 bytes */
    char address[64]; /* an IP address at which the other ranks reach its host */
} yki_peer;

typedef struct yki_job {
    int rank, world, local_rank, local_world;
    int job_world; /* of the whole job, also in a part of it */
    double timeout_s;
    bool launcher;               /* the launcher serves the store and knows how ranks ended */
    yk_store *store;             /* NULL in a job of one */
    yki_fair_lock *lock;         /* of the store, which the groups of the job share */
    yk_store_server *server;     /* on rank 0 without a launcher */
    int signpost;                /* without a launcher: see signpost.h; else -1 */
    char prefix[YKI_JOB_PREFIX]; /* of this group's keys in the store */
    char label[YKI_GROUP_LABEL]; /* what messages call it, as in "the group of all ranks" */
    yki_peer *peers;             /* [world] */
    int hosts;                   /* on how many machines they are */
    bool several_hosts;          /* also in a part that has one: messages name hosts */
    struct yki_watch *watch;     /* asks the store while groups wait; NULL in a job of one */
} yki_job;

/* Blocks until all ranks have joined. */
yk_status yki_job_join(yki_job *job, const yk_group_options *options);
void yki_job_leave(yki_job *job);
/* yki_group_announce_save in a job of one, which has not joined its launcher's store. */
void yki_job_announce_alone(const yki_job *job);
/* After a failure and before leaving: where this process serves the store, gives the others a
 * moment to finish joining and to read the reason. */
void yki_job_linger(const yki_job *job);

/* ---- peers.c --------------------------------------------------------------------------------- */

/* On how many machines the ranks are. */
int yki_job_count_hosts(const yki_job *job);

/* Once all ranks have joined: finds out which are on this machine, and opens their processes. */
void yki_job_open_peers(yki_job *job);

/* Whether a process of this machine has ended, according to the kernel; a zombie counts as ended.
 * For ranks of any machine see yki_watch_gone. */
bool yki_peer_ended(const yki_peer *peer);

/* What a live process of this machine does: "is running", "is stopped" (by a signal or debugger),
 * "waits for a disk or a file server". */
const char *yki_job_doing(const yki_job *job, int rank);

/* The number in the job of one of the group's ranks; what is no such rank stays what it is. */
int yki_job_rank(const yki_job *job, int rank);

/* "rank 3" with its number in the job, or "rank 3 on host n2" where the job has several hosts. */
void yki_rank_name(const yki_job *job, int rank, char name[YKI_RANK_NAME]);

/* This group's key NAME, or NAME/RANK when rank is not negative. */
void yki_job_key(const yki_job *job, char *key, size_t size, const char *name, int rank);

/* Lists the ranks whose flags are set by their numbers in the job, as in "1, 3-5"; truncated with
 * "..." if it does not fit. */
void yki_rank_list(const yki_job *job, char *text, size_t size, const bool *flags);

#endif

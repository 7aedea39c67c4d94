/*
 * How the processes of a job find each other: from environment and options to ranks, pids and a
 * connected store.
 */
#ifndef YKI_RENDEZVOUS_H
#define YKI_RENDEZVOUS_H

#include <pthread.h>
#include <sys/types.h>

#include <yoke/group.h>
#include <yoke/store.h>

#include "base/error.h"

typedef struct yki_peer {
    pid_t pid;
    int pidfd;        /* -1 if the system does not support pidfds */
    char machine[80]; /* equal where processes share kernel and pid namespace */
    char host[64];    /* the name of its host */
    char address[64]; /* an IP address at which the other ranks reach its host */
} yki_peer;

typedef struct yki_job {
    int rank, world, local_rank, local_world;
    double timeout_s;
    bool launcher;           /* the launcher serves the store and knows how ranks ended */
    yk_store *store;         /* NULL in a job of one */
    pthread_mutex_t *lock;   /* of the store, which the job's groups share */
    yk_store_server *server; /* on rank 0 without a launcher */
    char prefix[32];         /* of this group's keys in the store */
    yki_peer *peers;         /* [world] */
} yki_job;

/* Blocks until all ranks have joined. */
yk_status yki_job_join(yki_job *job, const yk_group_options *options);
void yki_job_leave(yki_job *job);

/* Whether the process of that rank has ended (a zombie counts as ended). */
bool yki_job_gone(const yki_job *job, int rank);

/* The state of a live process: "running" or "stopped" (by a signal or a debugger). */
const char *yki_job_doing(const yki_job *job, int rank);

/* This group's key NAME, or NAME/RANK when rank is not negative. */
void yki_job_key(const yki_job *job, char *key, size_t size, const char *name, int rank);

/* Lists the flags that are set, as in "1, 3-5"; truncated with "..." if it does not fit. */
void yki_rank_list(char *text, size_t size, const bool *flags, int world);

#endif

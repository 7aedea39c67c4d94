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

typedef struct yki_peer {
    pid_t pid;
    int pidfd;        /* -1 where the system has none */
    char machine[80]; /* equal where processes share kernel and pid namespace */
} yki_peer;

typedef struct yki_job {
    int rank, world, local_rank, local_world;
    double timeout_s;
    bool launcher;           /* the store is the launcher's: it knows how ranks ended */
    yk_store *store;         /* NULL in a job of one */
    yk_store_server *server; /* on rank 0 without a launcher */
    char prefix[32];         /* of this group's keys in the store */
    yki_peer *peers;         /* [world] */
} yki_job;

/* Blocks until all ranks have joined. */
yk_status yki_job_join(yki_job *job, const yk_group_options *options);
void yki_job_leave(yki_job *job);

/* Whether the process of that rank has ended (a zombie has, too). */
bool yki_job_gone(const yki_job *job, int rank);

/* What a process that has not ended is up to: "running" or "stopped" (by a signal, a debugger). */
const char *yki_job_doing(const yki_job *job, int rank);

/* This group's key NAME, or NAME/RANK when rank is not negative. */
void yki_job_key(const yki_job *job, char *key, size_t size, const char *name, int rank);

/* "1, 3-5" of the flags that are set; cut short with "..." where the room ends. */
void yki_rank_list(char *text, size_t size, const bool *flags, int world);

#endif

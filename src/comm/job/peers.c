/*
 * The other ranks of a job: their processes, their keys in the store and their names in messages.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/process.h"
#include "comm/job/rendezvous.h"

/* How many different machines there are. Ranks of one machine usually follow each other. */
int yki_job_count_hosts(const yki_job *job)
{
    int machines = 0;
    for (int r = 0; r < job->world; r++) {
        int before = r - 1;
        while (before >= 0 && strcmp(job->peers[before].machine, job->peers[r].machine) != 0)
            before--;
        machines += before < 0;
    }
    return machines;
}

void yki_job_open_peers(yki_job *job)
{
    for (int r = 0; r < job->world; r++) {
        yki_peer *peer = &job->peers[r];
        peer->remote = strcmp(peer->machine, job->peers[job->rank].machine) != 0;
        if (!peer->remote)
            peer->pidfd = (int)syscall(SYS_pidfd_open, peer->pid, 0);
    }
    job->hosts = yki_job_count_hosts(job);
    job->several_hosts = job->hosts > 1;
}

/* Where pidfd_open is missing, or when the process had already ended. */
static bool has_ended(pid_t pid)
{
    if (kill(pid, 0) != 0)
        return errno == ESRCH;
    char state = yki_process_state(pid);
    return state == 'Z' || state == 'X';
}

bool yki_peer_ended(const yki_peer *peer)
{
    if (peer->pidfd < 0)
        return has_ended(peer->pid);
    struct pollfd ended = {.fd = peer->pidfd, .events = POLLIN};
    return poll(&ended, 1, 0) > 0;
}

const char *yki_job_doing(const yki_job *job, int rank)
{
    switch (yki_process_state(job->peers[rank].pid)) {
    case 'T':
    case 't':
        return "is stopped";
    case 'D':
        return "waits for a disk or a file server";
    default:
        return "is running";
    }
}

void yki_job_key(const yki_job *job, char *key, size_t size, const char *name, int rank)
{
    if (rank < 0)
        snprintf(key, size, "%s/%s", job->prefix, name);
    else
        snprintf(key, size, "%s/%s/%d", job->prefix, name, rank);
}

int yki_job_rank(const yki_job *job, int rank)
{
    return job->peers && rank >= 0 && rank < job->world ? job->peers[rank].job_rank : rank;
}

void yki_rank_name(const yki_job *job, int rank, char name[YKI_RANK_NAME])
{
    const yki_peer *peer = &job->peers[rank];
    snprintf(name, YKI_RANK_NAME, "rank %d%s%s", peer->job_rank,
             job->several_hosts ? " on host " : "", job->several_hosts ? peer->host : "");
}

/* Whether the rank after this one is to be listed with it. */
static bool continues(const yki_job *job, const bool *flags, int rank)
{
    return rank + 1 < job->world && flags[rank + 1] &&
           job->peers[rank + 1].job_rank == job->peers[rank].job_rank + 1;
}

void yki_rank_list(const yki_job *job, char *text, size_t size, const bool *flags)
{
    size_t at = 0;
    text[0] = '\0';
    for (int r = 0; r < job->world; r++) {
        if (!flags[r])
            continue;
        int last = r, number = job->peers[r].job_rank;
        while (continues(job, flags, last))
            last++;
        char item[40];
        int length = last > r + 1 ? snprintf(item, sizeof item, "%d-%d", number, number + last - r)
                                  : snprintf(item, sizeof item, "%d", number);
        if (last == r + 1)
            last = r;
        if (at + (size_t)length + 8 > size) {
            snprintf(text + at, size - at, ", ...");
            return;
        }
        at += (size_t)snprintf(text + at, size - at, "%s%s", at ? ", " : "", item);
        r = last;
    }
}

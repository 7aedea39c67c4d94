/*
 * Joining a job: a rank reaches the store (init_method.c), which rank 0 serves unless a launcher
 * does, and meets the other ranks there (meeting.c).
 */
#define _GNU_SOURCE
#include "comm/job/rendezvous.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/local_rank.h"
#include "base/log.h"
#include "base/memory.h"
#include "comm/job/host.h"
#include "comm/job/init_method.h"
#include "comm/job/meeting.h"
#include "comm/job/signpost.h"
#include "comm/job/watch.h"

/* How much longer than for a rank the store is waited for, whose process may be stopped. */
#define SILENCE_S 30.0

enum { LINGER_NS = 300000000, LOOKUP_NS = 500000000 };

/* ---- connecting to the store ----------------------------------------------------------------- */

static void notice_waiting(yki_init_method *m, const char *what, const char *where)
{
    if (yki_now() < m->next_notice)
        return;
    m->next_notice = yki_now() + YKI_NOTICE_AGAIN_S;
    YKI_WARN("still waiting for %s %s: %s", what, where, yki_error_text());
}

/* Rank 0 does not find its own store where the address that was given is another host's. */
static void describe_store(const yki_job *job, char *text, size_t size)
{
    if (job->server)
        snprintf(text, size, "its own store, on host %.64s,", job->peers[job->rank].host);
    else
        snprintf(text, size, "%s",
                 job->launcher ? "the launcher's store" : "rank 0, which serves the store,");
}

static yk_status reach_store(yki_job *job, yki_init_method *m)
{
    char where[256], what[128];
    yki_init_method_describe(m, where, sizeof where);
    describe_store(job, what, sizeof what);
    for (long pause_ns = 2000000;; pause_ns = pause_ns < 50000000 ? 2 * pause_ns : pause_ns) {
        yk_status status = yki_init_method_connect(m, job);
        if (status != YK_ERROR_TIMEOUT && status != YK_ERROR_NOT_FOUND)
            return status;
        if (yki_now() >= m->deadline) {
            char why[256];
            snprintf(why, sizeof why, "%s", yki_error_text());
            return yki_error(YK_ERROR_TIMEOUT, "%s was not found %s within %g s: %s", what, where,
                             job->timeout_s, why);
        }
        notice_waiting(m, what, where);
        long pause = status == YK_ERROR_NOT_FOUND ? LOOKUP_NS : pause_ns;
        nanosleep(&(struct timespec){.tv_nsec = pause}, NULL);
    }
}

/* ---- joining --------------------------------------------------------------------------------- */

/* YOKE_STORE_PREFIX keeps the attempts of a job apart that share a launcher's store. */
static yk_status apply_prefix(yki_job *job)
{
    const char *prefix = getenv("YOKE_STORE_PREFIX");
    return job->launcher && prefix ? yk_store_set_prefix(job->store, prefix) : YK_OK;
}

static yk_status join_once(yki_job *job, yki_init_method *m)
{
    YK_TRY(reach_store(job, m));
    YK_TRY(apply_prefix(job));
    return yki_meeting_hold(job, m);
}

void yki_job_announce_alone(const yki_job *job)
{
    const yk_group_options options = YK_GROUP_OPTIONS_INIT;
    const yki_place place = {.rank = 0, .world = 1};
    yki_init_method m = {.path = ""};
    yki_job reached = *job;
    if (yki_init_method_has_launcher() &&
        yki_init_method_read(&m, &reached, &place, &options) == YK_OK &&
        yki_init_method_connect(&m, &reached) == YK_OK && apply_prefix(&reached) == YK_OK)
        yk_store_set(reached.store, "saving", "", 0);
    yk_store_destroy(reached.store);
}

/*
 * A second group of the same ranks may still connect to the store of the first, which rank 0 is
 * just closing. That connection is then lost, and the rank connects again, to the new store.
 */
static yk_status join_with_retry(yki_job *job, yki_init_method *m)
{
    yk_status status;
    while ((status = join_once(job, m)) == YK_ERROR_NETWORK && job->store && !job->launcher &&
           !job->server && yki_now() < m->deadline) {
        yk_store_destroy(job->store);
        job->store = NULL;
    }
    return status;
}

/* Without LOCAL_RANK: this rank's place among those of its machine. */
static void count_local_ranks(yki_job *job)
{
    int before = 0, all = 0;
    for (int r = 0; r < job->world; r++) {
        bool here = strcmp(job->peers[r].machine, job->peers[job->rank].machine) == 0;
        all += here;
        before += here && r < job->rank;
    }
    if (job->local_rank < 0)
        job->local_rank = before;
    if (job->local_world < 0)
        job->local_world = all;
}

void yki_job_linger(const yki_job *job)
{
    if (job->server)
        nanosleep(&(struct timespec){.tv_nsec = LINGER_NS}, NULL);
}

static yk_status meet_in_store(yki_job *job, const yki_place *place,
                               const yk_group_options *options)
{
    yki_init_method m = {.next_notice = yki_now() + YKI_NOTICE_FIRST_S,
                         .deadline = yki_now() + job->timeout_s};
    YK_TRY(yki_init_method_read(&m, job, place, options));
    job->peers[job->rank].pid = getpid();
    yki_host_describe(job, &job->peers[job->rank]);
    if (job->rank == 0 && !job->launcher)
        YK_TRY(yki_init_method_serve(&m, job));
    yk_status status = join_with_retry(job, &m);
    if (job->rank == 0 && m.path[0])
        unlink(m.path);
    if (status != YK_OK)
        yki_job_linger(job);
    else if (!job->launcher)
        job->signpost = yki_signpost_open(m.found, m.found_port, m.secret);
    return status;
}

yk_status yki_job_join(yki_job *job, const yk_group_options *options)
{
    *job = (yki_job){.signpost = -1};
    yki_place place;
    YK_TRY(yki_init_method_read_ranks(job, &place, options));
    if (job->world == 1)
        YK_TRY(yki_init_method_check(options, &place));
    job->peers = yki_calloc((size_t)job->world, sizeof *job->peers);
    for (int r = 0; job->peers && r < job->world; r++)
        job->peers[r] = (yki_peer){.pidfd = -1, .job_rank = r};
    job->lock = yki_calloc(1, sizeof *job->lock);
    if (!job->peers || !job->lock) {
        yki_job_leave(job);
        return yki_error_memory((size_t)job->world * sizeof *job->peers, "the ranks of a job");
    }
    yki_fair_lock_init(job->lock);
    job->hosts = 1;
    if (job->world == 1)
        return YK_OK;
    yki_set_rank(job->rank);
    yk_status status = meet_in_store(job, &place, options);
    if (status != YK_OK) {
        yki_job_leave(job);
        return status;
    }
    count_local_ranks(job);
    yki_set_local_rank(job->local_rank);
    yki_job_open_peers(job);
    yk_store_set_patience(job->store, job->timeout_s + SILENCE_S);
    status = yki_watch_create(&job->watch, job);
    if (status != YK_OK)
        yki_job_leave(job);
    return status;
}

void yki_job_leave(yki_job *job)
{
    yki_watch_destroy(job->watch);
    job->watch = NULL;
    for (int r = 0; job->peers && r < job->world; r++)
        if (job->peers[r].pidfd >= 0)
            close(job->peers[r].pidfd);
    free(job->peers);
    job->peers = NULL;
    if (job->lock)
        yki_fair_lock_destroy(job->lock);
    free(job->lock);
    job->lock = NULL;
    yk_store_destroy(job->store);
    job->store = NULL;
    yk_store_server_destroy(job->server);
    job->server = NULL;
    if (job->signpost >= 0)
        close(job->signpost);
    job->signpost = -1;
}

/*
 * The ranks connect to the store (see init_method.c). Each claims its rank there with an atomic
 * add, so that a duplicate rank is detected at once, publishes its pid, world size and machine, and
 * waits until all other ranks have done the same.
 */
#define _GNU_SOURCE
#include "comm/rendezvous.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "comm/init_method.h"
#include "comm/watch.h"

#define NOTICE_S    3.0 /* when missing ranks are logged; docs/promises.md promises 5 s */
#define REPEAT_S    5.0 /* until they are logged again */
#define PATIENCE_MS 50  /* how long one request waits for a key */

enum { LINGER_NS = 300000000, LOOKUP_NS = 500000000 };

/* ---- connecting to the store ----------------------------------------------------------------- */

static void notice_waiting(yki_init_method *m, const char *what, const char *where)
{
    if (yki_now() < m->next_notice)
        return;
    m->next_notice = yki_now() + REPEAT_S;
    YKI_WARN("still waiting for %s %s: %s", what, where, yki_error_text());
}

static yk_status reach_store(yki_job *job, yki_init_method *m)
{
    char where[256];
    yki_init_method_describe(m, where, sizeof where);
    const char *what = job->launcher ? "the launcher's store" : "rank 0, which serves the store,";
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

/* ---- finding each other ---------------------------------------------------------------------- */

/* Boot id and pid namespace: ranks for which both are equal see the same pids and can share memory.
 */
static void describe_machine(char machine[80])
{
    struct stat info = {0};
    char boot[64] = "unknown";
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (file) {
        if (fscanf(file, "%63s", boot) != 1)
            snprintf(boot, sizeof boot, "unknown");
        fclose(file);
    }
    stat("/proc/self/ns/pid", &info);
    snprintf(machine, 80, "%.40s:%lu", boot, (unsigned long)info.st_ino);
}

/*
 * For tests of several hosts on one machine, YOKE_TEST_HOST=NAME makes a process believe that it is
 * on another machine, of this name. It then shares no memory with processes of another name.
 */
static void describe_host(yki_peer *me)
{
    const char *pretended = getenv("YOKE_TEST_HOST");
    if (gethostname(me->host, sizeof me->host - 1) || !me->host[0])
        snprintf(me->host, sizeof me->host, "unknown");
    if (!pretended || !*pretended)
        return;
    size_t used = strlen(me->machine);
    snprintf(me->machine + used, sizeof me->machine - used, ":%.16s", pretended);
    snprintf(me->host, sizeof me->host, "%s", pretended);
}

void yki_job_key(const yki_job *job, char *key, size_t size, const char *name, int rank)
{
    if (rank < 0)
        snprintf(key, size, "%s/%s", job->prefix, name);
    else
        snprintf(key, size, "%s/%s/%d", job->prefix, name, rank);
}

static yk_status get_text(yk_store *store, const char *key, char *text, size_t size, double wait_s)
{
    size_t used;
    YK_TRY(yk_store_get(store, key, text, size - 1, &used, wait_s));
    text[used] = '\0';
    return YK_OK;
}

/*
 * A group's keys begin with its number. All ranks create their groups in the same order, so each
 * process counts its own groups; the counters are kept in the store.
 */
static yk_status number_group(yki_job *job)
{
    char key[160];
    int64_t groups;
    const yki_peer *me = &job->peers[job->rank];
    snprintf(key, sizeof key, "groups/%s/%d", me->machine, me->pid);
    YK_TRY(yk_store_add(job->store, key, 1, &groups));
    snprintf(job->prefix, sizeof job->prefix, "group/%lld", (long long)groups - 1);
    return YK_OK;
}

/*
 * Has the store tell the other ranks, by the key "gone/RANK", when this process has ended or its
 * host is lost.
 */
static yk_status leave_will(yki_job *job)
{
    char key[32], text[128], host[64] = "?";
    gethostname(host, sizeof host - 1);
    snprintf(key, sizeof key, "gone/%d", job->rank);
    int size = snprintf(text, sizeof text, "pid %d on host %s", getpid(), host);
    return yk_store_set_will(job->store, key, text, (size_t)size);
}

/* Claims this rank. A second claim is a conflict, which is published to all ranks. */
static yk_status register_rank(yki_job *job)
{
    char key[64], text[256], first[160] = "?";
    int64_t claims;
    yki_peer *me = &job->peers[job->rank];
    snprintf(me->address, sizeof me->address, "%s", yk_store_local_address(job->store));
    yki_job_key(job, key, sizeof key, "claim", job->rank);
    YK_TRY(yk_store_add(job->store, key, 1, &claims));
    yki_job_key(job, key, sizeof key, "rank", job->rank);
    if (claims == 1) {
        YK_TRY(leave_will(job));
        int size = snprintf(text, sizeof text, "%d %d %s %s %s", me->pid, job->world, me->machine,
                            me->host, me->address);
        return yk_store_set(job->store, key, text, (size_t)size);
    }
    YK_TRY(get_text(job->store, key, first, sizeof first, 1));
    int size = snprintf(text, sizeof text,
                        "rank %d was claimed twice, by pid %d and by pid %d: each "
                        "process of a job needs its own RANK",
                        job->rank, atoi(first), me->pid);
    yki_job_key(job, key, sizeof key, "conflict", -1);
    YK_TRY(yk_store_set(job->store, key, text, (size_t)size));
    return yki_error(YK_ERROR_MISMATCH, "%s", text);
}

/* Fails if ranks conflict, or if a rank that has not joined yet has already ended. */
static yk_status check_conflicts(yki_job *job, const bool *missing)
{
    char key[64], text[256];
    yki_job_key(job, key, sizeof key, "conflict", -1);
    yk_status status = get_text(job->store, key, text, sizeof text, 0);
    if (status == YK_OK)
        return yki_error(YK_ERROR_MISMATCH, "%s", text);
    for (int r = 0; r < job->world && job->launcher && status == YK_ERROR_TIMEOUT; r++) {
        snprintf(key, sizeof key, "dead/%d", r);
        if (missing[r] && (status = get_text(job->store, key, text, sizeof text, 0)) == YK_OK)
            return yki_error(YK_ERROR_PEER_FAILED, "rank %d ended before it joined: %s", r, text);
    }
    return status == YK_ERROR_TIMEOUT ? YK_OK : status;
}

/* Reads what a rank has published; YK_ERROR_TIMEOUT if it has not joined yet. */
static yk_status meet_rank(yki_job *job, int rank, double patience_s)
{
    char key[64], text[256];
    int world;
    yki_peer *peer = &job->peers[rank];
    yki_job_key(job, key, sizeof key, "rank", rank);
    YK_TRY(get_text(job->store, key, text, sizeof text, patience_s));
    if (sscanf(text, "%d %d %79s %63s %63s", &peer->pid, &world, peer->machine, peer->host,
               peer->address) != 5)
        return yki_error(YK_ERROR_FORMAT, "the store's entry for rank %d is malformed: %s", rank,
                         text);
    if (world != job->world)
        return yki_error(YK_ERROR_MISMATCH, "rank %d has world size %d, rank %d has %d", job->rank,
                         job->world, rank, world);
    return YK_OK;
}

static void notice_missing(const yki_job *job, yki_init_method *m, const bool *missing)
{
    char list[128];
    if (yki_now() < m->next_notice)
        return;
    m->next_notice = yki_now() + REPEAT_S;
    int speaker = 0; /* the lowest rank that has joined logs for all */
    while (missing[speaker])
        speaker++;
    yki_rank_list(job, list, sizeof list, missing);
    if (speaker == job->rank)
        YKI_WARN("still waiting for rank %s of %d", list, job->world);
}

static yk_status meet_all(yki_job *job, yki_init_method *m, bool *missing)
{
    for (;;) {
        bool first = true;
        for (int r = 0; r < job->world; r++) {
            if (!missing[r])
                continue;
            yk_status status = meet_rank(job, r, first ? 1e-3 * PATIENCE_MS : 0);
            if (status != YK_OK && status != YK_ERROR_TIMEOUT)
                return status;
            missing[r] = status == YK_ERROR_TIMEOUT;
            first = first && !missing[r];
        }
        if (first)
            return YK_OK;
        YK_TRY(check_conflicts(job, missing));
        notice_missing(job, m, missing);
        if (yki_now() >= m->deadline) {
            char list[128];
            yki_rank_list(job, list, sizeof list, missing);
            return yki_error(YK_ERROR_TIMEOUT, "rank %s of %d did not join within %g s", list,
                             job->world, job->timeout_s);
        }
    }
}

/* YOKE_STORE_PREFIX keeps the attempts of a job apart that share a launcher's store. */
static yk_status apply_prefix(yki_job *job)
{
    const char *prefix = getenv("YOKE_STORE_PREFIX");
    return job->launcher && prefix ? yk_store_set_prefix(job->store, prefix) : YK_OK;
}

static yk_status join_once(yki_job *job, yki_init_method *m, bool *missing)
{
    for (int r = 0; r < job->world; r++)
        missing[r] = true;
    YK_TRY(reach_store(job, m));
    YK_TRY(apply_prefix(job));
    YK_TRY(number_group(job));
    YK_TRY(register_rank(job));
    return meet_all(job, m, missing);
}

/*
 * A second group of the same ranks may still connect to the store of the first, which rank 0 is
 * just closing. That connection is then lost, and the rank connects again, to the new store.
 */
static yk_status join_with_retry(yki_job *job, yki_init_method *m)
{
    bool *missing = yki_calloc((size_t)job->world, sizeof *missing);
    if (!missing)
        return yki_error_memory((size_t)job->world, "the ranks of a job");
    yk_status status;
    while ((status = join_once(job, m, missing)) == YK_ERROR_NETWORK && job->store &&
           !job->launcher && !job->server && yki_now() < m->deadline) {
        yk_store_destroy(job->store);
        job->store = NULL;
    }
    free(missing);
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
    yki_init_method m = {.next_notice = yki_now() + NOTICE_S,
                         .deadline = yki_now() + job->timeout_s};
    YK_TRY(yki_init_method_read(&m, job, place, options));
    job->peers[job->rank].pid = getpid();
    describe_machine(job->peers[job->rank].machine);
    describe_host(&job->peers[job->rank]);
    if (job->rank == 0 && !job->launcher)
        YK_TRY(yki_init_method_serve(&m, job));
    yk_status status = join_with_retry(job, &m);
    if (job->rank == 0 && m.path[0])
        unlink(m.path);
    if (status != YK_OK)
        yki_job_linger(job);
    return status;
}

yk_status yki_job_join(yki_job *job, const yk_group_options *options)
{
    *job = (yki_job){0};
    yki_place place;
    YK_TRY(yki_init_method_read_ranks(job, &place, options));
    if (job->world == 1)
        YK_TRY(yki_init_method_check(options));
    job->peers = yki_calloc((size_t)job->world, sizeof *job->peers);
    for (int r = 0; job->peers && r < job->world; r++)
        job->peers[r] = (yki_peer){.pidfd = -1, .job_rank = r};
    job->lock = yki_calloc(1, sizeof *job->lock);
    if (!job->peers || !job->lock) {
        yki_job_leave(job);
        return yki_error_memory((size_t)job->world * sizeof *job->peers, "the ranks of a job");
    }
    pthread_mutex_init(job->lock, NULL);
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
    status = yki_job_watch_peers(job);
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
        pthread_mutex_destroy(job->lock);
    free(job->lock);
    job->lock = NULL;
    yk_store_destroy(job->store);
    job->store = NULL;
    yk_store_server_destroy(job->server);
    job->server = NULL;
}

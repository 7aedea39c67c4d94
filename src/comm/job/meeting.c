/*
 * Each rank claims its number with an atomic add, so that a duplicate is detected at once, and
 * publishes an entry: its pid, machine, host, address and build. The last one to do so copies all
 * entries into one key, for which the others wait. So the requests grow with the number of ranks,
 * not with its square.
 *
 *     claim/RANK     how many processes have claimed the rank
 *     world          "WORLD RANK" of the first rank, with which the others must agree
 *     rank/RANK      the entry
 *     joined         how many entries there are
 *     ranks          all entries, a line each
 *     conflict       why the meeting fails, for the ranks that cannot see it themselves
 *     address/RANK   a better address than that of the entry
 */
#define _GNU_SOURCE
#include "comm/job/meeting.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "comm/job/failure.h"
#include "comm/job/host.h"

#define SHORTEST_WAIT_S 0.05 /* of one request for all entries; it doubles up to */
#define LONGEST_WAIT_S  0.5
#define LAST_CALL_S     1.0 /* beyond the deadline, if nobody is missing then */

enum { ENTRY = 320, BUILD = 48 };

static yk_status get_text(yk_store *store, const char *key, char *text, size_t size, double wait_s)
{
    size_t used;
    YK_TRY(yk_store_get(store, key, text, size - 1, &used, wait_s));
    text[used] = '\0';
    return YK_OK;
}

/* ---- joining --------------------------------------------------------------------------------- */

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

/* Tells the other ranks why there will be no meeting. */
static yk_status publish_conflict(yki_job *job, const char *text)
{
    char key[YKI_JOB_KEY];
    yki_job_key(job, key, sizeof key, "conflict", -1);
    YK_TRY(yk_store_set(job->store, key, text, strlen(text)));
    return yki_error(YK_ERROR_MISMATCH, "%s", text);
}

/* The first process may still find out its address, or have died before it published its entry. */
static yk_status claim_rank(yki_job *job)
{
    char key[YKI_JOB_KEY], text[256], first[ENTRY] = "", other[32] = "another process";
    int64_t claims;
    yki_job_key(job, key, sizeof key, "claim", job->rank);
    YK_TRY(yk_store_add(job->store, key, 1, &claims));
    if (claims == 1)
        return YK_OK;
    yki_job_key(job, key, sizeof key, "rank", job->rank);
    yk_status status = get_text(job->store, key, first, sizeof first, 1);
    if (status != YK_OK && status != YK_ERROR_TIMEOUT)
        return status;
    if (status == YK_OK)
        snprintf(other, sizeof other, "pid %d", atoi(first));
    snprintf(text, sizeof text,
             "rank %d was claimed twice, by %s and by pid %d: each process of a job needs its own "
             "RANK",
             job->rank, other, getpid());
    return publish_conflict(job, text);
}

static yk_status agree_on_world(yki_job *job)
{
    char key[YKI_JOB_KEY], mine[32], text[128], first[64];
    int size = snprintf(mine, sizeof mine, "%d %d", job->world, job->rank), world, rank;
    bool set;
    yki_job_key(job, key, sizeof key, "world", -1);
    YK_TRY(yk_store_compare_set(job->store, key, NULL, 0, mine, (size_t)size, &set));
    if (set)
        return YK_OK;
    YK_TRY(get_text(job->store, key, first, sizeof first, 1));
    if (sscanf(first, "%d %d", &world, &rank) != 2)
        return yki_error(YK_ERROR_FORMAT, "the store's entry for the job's size is malformed: %s",
                         first);
    if (world == job->world)
        return YK_OK;
    snprintf(text, sizeof text, "rank %d has world size %d, rank %d has %d", job->rank, job->world,
             rank, world);
    return publish_conflict(job, text);
}

/*
 * Has the store tell the other ranks, by the key "gone/RANK", when this process has ended or its
 * host is lost.
 */
static yk_status leave_will(yki_job *job)
{
    char key[32], text[128];
    const yki_peer *me = &job->peers[job->rank];
    snprintf(key, sizeof key, "gone/%d", job->rank);
    int size = snprintf(text, sizeof text, "pid %d on host %s", me->pid, me->host);
    return yk_store_set_will(job->store, key, text, (size_t)size);
}

static yk_status publish_entry(yki_job *job)
{
    char key[YKI_JOB_KEY], text[ENTRY];
    const yki_peer *me = &job->peers[job->rank];
    int size = snprintf(text, sizeof text, "%d %s %s %s %s", me->pid, me->machine, me->host,
                        me->address, yk_build());
    yki_job_key(job, key, sizeof key, "rank", job->rank);
    return yk_store_set(job->store, key, text, (size_t)size);
}

/* Copies all entries into one key. */
static yk_status collect_entries(yki_job *job)
{
    char key[YKI_JOB_KEY];
    size_t used = 0, size = (size_t)job->world * ENTRY;
    char *all = yki_calloc(size, 1);
    yk_status status = all ? YK_OK : yki_error_memory(size, "the ranks of a job");
    for (int r = 0; r < job->world && status == YK_OK; r++) {
        yki_job_key(job, key, sizeof key, "rank", r);
        status = get_text(job->store, key, all + used, ENTRY, 1);
        used += strlen(all + used);
        all[used++] = '\n';
    }
    yki_job_key(job, key, sizeof key, "ranks", -1);
    if (status == YK_OK)
        status = yk_store_set(job->store, key, all, used);
    free(all);
    return status;
}

static yk_status join(yki_job *job)
{
    char key[YKI_JOB_KEY];
    int64_t joined;
    YK_TRY(number_group(job));
    YK_TRY(claim_rank(job));
    YK_TRY(agree_on_world(job));
    YK_TRY(yki_host_address(&job->peers[job->rank], job->store));
    YK_TRY(leave_will(job));
    YK_TRY(publish_entry(job));
    yki_job_key(job, key, sizeof key, "joined", -1);
    YK_TRY(yk_store_add(job->store, key, 1, &joined));
    return joined == job->world ? collect_entries(job) : YK_OK;
}

/* ---- waiting --------------------------------------------------------------------------------- */

/* Sets found[RANK] for each key PREFIX RANK of the store. */
static yk_status find_ranks(yki_job *job, const char *prefix, bool *found)
{
    size_t size = (size_t)job->world * YKI_JOB_KEY, used;
    char *keys = yki_calloc(size, 1);
    if (!keys)
        return yki_error_memory(size, "the ranks of a job");
    yk_status status = yk_store_list(job->store, prefix, keys, size, &used);
    for (size_t at = 0; status == YK_OK && at < used; at += strlen(keys + at) + 1) {
        long rank = strtol(keys + at + strlen(prefix), NULL, 10);
        if (rank >= 0 && rank < job->world)
            found[rank] = true;
    }
    free(keys);
    return status;
}

/* The launcher is told whose end this is: it may learn of it after this rank's own. */
static yk_status report_ended(const yki_job *job, int rank, const char *how)
{
    yki_failure failure = {.status = YK_ERROR_PEER_FAILED, .culprit = rank};
    snprintf(failure.text, sizeof failure.text, "rank %d ended before it joined: %s", rank, how);
    yki_failure_report(job, &failure);
    return yki_error(failure.status, "%s", failure.text);
}

/* Fails if a rank has ended. "dead" is what a launcher knows, "gone" the store by itself. */
static yk_status check_ended(yki_job *job, const char *name, bool *ended)
{
    char key[64], text[256] = "";
    snprintf(key, sizeof key, "%s/", name);
    memset(ended, 0, (size_t)job->world * sizeof *ended);
    YK_TRY(find_ranks(job, key, ended));
    for (int r = 0; r < job->world; r++) {
        if (!ended[r] || r == job->rank)
            continue;
        snprintf(key, sizeof key, "%s/%d", name, r);
        YK_TRY(get_text(job->store, key, text, sizeof text, 0));
        return report_ended(job, r, text);
    }
    return YK_OK;
}

static yk_status check_conflict(yki_job *job)
{
    char key[YKI_JOB_KEY], text[256];
    yki_job_key(job, key, sizeof key, "conflict", -1);
    yk_status status = get_text(job->store, key, text, sizeof text, 0);
    if (status == YK_OK)
        return yki_error(YK_ERROR_MISMATCH, "%s", text);
    return status == YK_ERROR_TIMEOUT ? YK_OK : status;
}

/* Lists the ranks that are missing; the lowest one that has joined speaks for all. */
static yk_status list_missing(yki_job *job, bool *flags, char *list, size_t size, bool *speaks)
{
    char prefix[YKI_JOB_KEY];
    int speaker = 0;
    yki_job_key(job, prefix, sizeof prefix, "rank/", -1);
    memset(flags, 0, (size_t)job->world * sizeof *flags);
    YK_TRY(find_ranks(job, prefix, flags));
    while (speaker < job->world && !flags[speaker])
        speaker++;
    *speaks = speaker == job->rank;
    for (int r = 0; r < job->world; r++)
        flags[r] = !flags[r];
    yki_rank_list(job, list, size, flags);
    return YK_OK;
}

/* All of them have come, and the last one tells the others at once, unless something keeps it. */
static yk_status await_last_call(const yki_job *job, const yki_init_method *m)
{
    if (yki_now() < m->deadline + LAST_CALL_S)
        return YK_OK;
    return yki_error(
        YK_ERROR_TIMEOUT,
        "all %d ranks have joined, but the last of them did not confirm it within %g s", job->world,
        job->timeout_s);
}

/* What is done between two looks for the entries: errors are found, missing ranks are logged. */
static yk_status look_around(yki_job *job, yki_init_method *m, bool *flags)
{
    char list[128];
    bool speaks, late = yki_now() >= m->deadline;
    YK_TRY(check_conflict(job));
    if (job->launcher)
        YK_TRY(check_ended(job, "dead", flags));
    if (!late && yki_now() < m->next_notice)
        return YK_OK;
    m->next_notice = yki_now() + YKI_NOTICE_AGAIN_S;
    YK_TRY(list_missing(job, flags, list, sizeof list, &speaks));
    if (late && !*list) {
        YK_TRY(check_ended(job, "gone", flags));
        return await_last_call(job, m);
    }
    if (late)
        return yki_error(YK_ERROR_TIMEOUT, "rank %s of %d did not join within %g s", list,
                         job->world, job->timeout_s);
    if (speaks && *list)
        YKI_WARN("still waiting for rank %s of %d", list, job->world);
    return check_ended(job, "gone", flags);
}

/* Waits for a key of another rank. */
static yk_status await_text(yki_job *job, yki_init_method *m, const char *key, char *text,
                            size_t size)
{
    double wait_s = SHORTEST_WAIT_S;
    bool *flags = yki_calloc((size_t)job->world, sizeof *flags);
    if (!flags)
        return yki_error_memory((size_t)job->world, "the ranks of a job");
    yk_status status;
    while ((status = get_text(job->store, key, text, size, wait_s)) == YK_ERROR_TIMEOUT) {
        status = look_around(job, m, flags);
        if (status != YK_OK)
            break;
        wait_s = 2 * wait_s < LONGEST_WAIT_S ? 2 * wait_s : LONGEST_WAIT_S;
    }
    free(flags);
    return status;
}

/* Other sources may compute other bits from the same gradients, or write other bytes to a peer. */
static yk_status compare_builds(const yki_job *job, int rank, const char *first, const char *build)
{
    if (strcmp(first, build) == 0)
        return YK_OK;
    return yki_error(YK_ERROR_MISMATCH,
                     "rank 0 on host %s runs yoke %s, rank %d on host %s yoke %s: all ranks need "
                     "the same version",
                     job->peers[0].host, first, rank, job->peers[rank].host, build);
}

static yk_status read_entries(yki_job *job, const char *text)
{
    char first[BUILD] = "", build[BUILD];
    for (int r = 0; r < job->world; r++) {
        yki_peer *peer = &job->peers[r];
        const char *end = strchr(text, '\n');
        snprintf(build, sizeof build, "(older than 0.2)");
        if (!end || sscanf(text, "%d %79s %64s %63s%*[ ]%47[^ \n]", &peer->pid, peer->machine,
                           peer->host, peer->address, build) < 4)
            return yki_error(YK_ERROR_FORMAT, "the store's entry for rank %d is malformed: %.80s",
                             r, text);
        if (r == 0)
            memcpy(first, build, sizeof first);
        YK_TRY(compare_builds(job, r, first, build));
        text = end + 1;
    }
    return YK_OK;
}

static yk_status meet_all(yki_job *job, yki_init_method *m)
{
    size_t size = (size_t)job->world * ENTRY + 1;
    char key[YKI_JOB_KEY], *text = yki_calloc(size, 1);
    if (!text)
        return yki_error_memory(size, "the ranks of a job");
    yki_job_key(job, key, sizeof key, "ranks", -1);
    yk_status status = await_text(job, m, key, text, size);
    if (status == YK_OK)
        status = read_entries(job, text);
    free(text);
    return status;
}

/* ---- addresses ------------------------------------------------------------------------------- */

/* An address that other hosts use, by which a rank finds its own such address; NULL if all ranks
 * reached the store through a loopback interface. */
static const char *outer_address(const yki_job *job)
{
    for (int r = 0; r < job->world; r++)
        if (!yki_host_is_loopback(job->peers[r].address))
            return job->peers[r].address;
    return NULL;
}

static bool is_ipv6(const char *address)
{
    return strchr(address, ':') != NULL;
}

/* Whether the other ranks cannot use an address, or engines not together with the outer one. */
static bool needs_correction(const char *address, const char *outer)
{
    return yki_host_is_loopback(address) || is_ipv6(address) != is_ipv6(outer);
}

/*
 * The ranks on the store's own host may have reached it through a loopback interface, and where it
 * has several addresses, some ranks over IPv4 and others over IPv6. Such ranks publish the address
 * from which they would reach the other hosts instead.
 */
static yk_status correct_addresses(yki_job *job, yki_init_method *m)
{
    char key[YKI_JOB_KEY];
    yki_peer *me = &job->peers[job->rank];
    char outer[sizeof me->address];
    if (!outer_address(job))
        return YK_OK;
    snprintf(outer, sizeof outer, "%s", outer_address(job));
    if (needs_correction(me->address, outer)) {
        yki_host_address_towards(me, outer);
        yki_job_key(job, key, sizeof key, "address", job->rank);
        YK_TRY(yk_store_set(job->store, key, me->address, strlen(me->address)));
    }
    for (int r = 0; r < job->world; r++) {
        yki_peer *peer = &job->peers[r];
        if (peer == me || !needs_correction(peer->address, outer))
            continue;
        yki_job_key(job, key, sizeof key, "address", r);
        yk_status status = await_text(job, m, key, peer->address, sizeof peer->address);
        if (status == YK_ERROR_TIMEOUT)
            return yki_error(status, "rank %d did not publish its address within %g s", r,
                             job->timeout_s);
        YK_TRY(status);
    }
    return YK_OK;
}

yk_status yki_meeting_hold(yki_job *job, yki_init_method *m)
{
    YK_TRY(join(job));
    YK_TRY(meet_all(job, m));
    return correct_addresses(job, m);
}

/*
 * Looking at the other ranks while a call waits for them: deaths, departures, timeouts, and the
 * loss of the store. Each becomes the group's one failure, which all ranks report from then on.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "comm/group_state.h"
#include "comm/job/callers.h"
#include "comm/job/describe.h"

#define LOOK_S         0.02 /* between two looks */
#define LONGEST_LOOK_S 0.5
#define GRACE_S        0.3 /* a call may still end after a rank that has done its part has gone */
#define TELL_S         1.0 /* how long a call waits before it is published */
/* How long ranks that have left in order may be waited for without the store. */
#define STORE_GRACE_S  1.0
/* How long the cause of a broken connection is looked for; the loss of the store may be it. */
#define CAUSE_S        (STORE_GRACE_S + 0.5)

/* ---- the failure ----------------------------------------------------------------------------- */

yk_status yki_group_error(const yk_group *group, yk_status status, const char *text)
{
    char words[YKI_WORDS];
    if (!group->running)
        return yki_error(status, "creating the group: %s", text);
    yki_describe(words, &group->job, &group->running->base.what);
    return yki_error(status, "%s, operation %llu: %s", words,
                     (unsigned long long)group->running->base.sequence, text);
}

static yk_status report_failure(const yk_group *group)
{
    const yki_failure *failure = &group->watched->failure;
    return yki_group_error(group, failure->status, failure->text);
}

yk_status yki_group_known_failure(yk_group *group)
{
    return atomic_load_explicit(&group->watched->failed, memory_order_acquire)
               ? report_failure(group)
               : YK_OK;
}

const char *yki_group_failure_text(const void *context)
{
    const yk_group *group = context;
    return group->watched->failure.text;
}

yk_status yki_group_adopt_failure(void *context, yk_status status, const char *text)
{
    yk_group *group = context;
    yki_failure failure = {.status = status, .culprit = -1};
    snprintf(failure.text, sizeof failure.text, "%s", text);
    yki_watch_fail_here(group->watched, &failure);
    return report_failure(group);
}

/* culprit is a rank of the group; dead tells that its end is the failure. */
static yk_status fail(yk_group *group, int culprit, bool dead, yk_status status, const char *text)
{
    yki_failure failure = {.status = status, .culprit = -1};
    if (culprit >= 0)
        failure.culprit = group->job.peers[culprit].job_rank;
    snprintf(failure.text, sizeof failure.text, "%s", text);
    yki_watch_fail(group->watched, dead ? culprit : -1, &failure);
    return report_failure(group);
}

yk_status yki_group_fail(yk_group *group, int culprit, yk_status status, const char *text)
{
    return fail(group, culprit, false, status, text);
}

/* Does not name the running operation, which may be another thread's. */
yk_status yki_group_fail_alone(yk_group *group, yk_status status)
{
    char name[YKI_RANK_NAME];
    yki_failure failure = {.status = status, .culprit = group->job.peers[group->job.rank].job_rank};
    yki_rank_name(&group->job, group->job.rank, name);
    snprintf(failure.text, sizeof failure.text, "%s cannot take part: %s", name, yki_error_text());
    yki_watch_fail(group->watched, -1, &failure);
    return yki_error(status, "%s", failure.text);
}

/* The watch finds out how it has ended. */
static yk_status fail_dead(yk_group *group, int rank)
{
    char name[YKI_RANK_NAME], gone[96], text[YKI_RANK_NAME + sizeof gone + 16];
    yki_rank_name(&group->job, rank, name);
    yki_gone_words(&group->job.peers[rank], gone, sizeof gone);
    snprintf(text, sizeof text, "%s is dead: %s", name, gone);
    return fail(group, rank, true, YK_ERROR_PEER_FAILED, text);
}

static yk_status fail_left(yk_group *group, int rank)
{
    char name[YKI_RANK_NAME], text[YKI_RANK_NAME + 64];
    yki_rank_name(&group->job, rank, name);
    snprintf(text, sizeof text, "%s (pid %d) has left the group", name, group->job.peers[rank].pid);
    return fail(group, rank, false, YK_ERROR_PEER_FAILED, text);
}

/* Where the backend does not know which ranks are missing, those that wait too are not. */
static void leave_out_waiting(const yk_group *group, bool *late)
{
    int others = 0;
    for (int r = 0; r < group->job.world; r++)
        others += late[r] && !atomic_load(&group->watched->waits[r]);
    for (int r = 0; r < group->job.world && others > 0; r++)
        late[r] = late[r] && !atomic_load(&group->watched->waits[r]);
}

/* While a group is made, a rank that is missing may wait for another one, which is then meant. */
static void name_those_awaited(const yk_group *group, bool *late)
{
    const yki_job *job = &group->job;
    int waiting = 0;
    for (int r = 0; r < job->world; r++)
        waiting += r != job->rank && atomic_load(&group->watched->waits[r]);
    for (int r = 0; r < job->world && waiting > 0 && waiting < job->world - 1; r++)
        late[r] = r != job->rank && !atomic_load(&group->watched->waits[r]);
}

/* Whether all of these ranks are on other hosts, and wait in calls of their own. */
static bool wait_elsewhere(const yk_group *group, const bool *late)
{
    for (int r = 0; r < group->job.world; r++)
        if (late[r] && !(group->job.peers[r].remote && atomic_load(&group->watched->waits[r])))
            return false;
    return true;
}

/* Ranks of two hosts wait for each other: nothing comes through, or it comes slowly. */
static void describe_network(const yk_group *group, const char *list, const yki_peer *peer,
                             char *text, size_t size)
{
    const yki_call *call = group->running ? group->running : &group->opening;
    const char *host = group->job.peers[group->job.rank].host;
    char moved[128];
    yki_traffic_describe(&call->traffic, moved, sizeof moved);
    int used = snprintf(text, size,
                        "timed out after %g s: rank %s waits, too (pid %d): the network between "
                        "hosts %s and %s ",
                        group->job.timeout_s, list, peer->pid, host, peer->host);
    if (moved[0])
        snprintf(text + used, size - (size_t)used,
                 "is too slow for YOKE_TIMEOUT (%s), or the process is stopped", moved);
    else
        snprintf(text + used, size - (size_t)used, "loses data, or the process is stopped");
}

/* known: all of these ranks are missing; otherwise some of them may be. */
static yk_status fail_late(yk_group *group, bool *late, bool known)
{
    const yki_job *job = &group->job;
    char list[128], text[sizeof((yki_failure *)0)->text], lost[320];
    if (yki_watch_standstill(job->watch, lost, sizeof lost)) {
        snprintf(text, sizeof text, "timed out after %g s: %s", job->timeout_s, lost);
        return fail(group, -1, false, YK_ERROR_TIMEOUT, text);
    }
    if (!group->running)
        name_those_awaited(group, late);
    else if (!known)
        leave_out_waiting(group, late);
    yki_rank_list(job, list, sizeof list, late);
    int one = 0;
    while (!late[one])
        one++;
    const yki_peer *peer = &job->peers[one];
    if (wait_elsewhere(group, late))
        describe_network(group, list, peer, text, sizeof text);
    else
        snprintf(text, sizeof text, "timed out after %g s: rank %s did not take part (pid %d %s%s)",
                 job->timeout_s, list, peer->pid, peer->remote ? "on host " : "",
                 peer->remote ? peer->host : yki_job_doing(job, one));
    return fail(group, -1, false, YK_ERROR_TIMEOUT, text);
}

/* ---- the store ------------------------------------------------------------------------------- */

/* The rank of this group that serves the store, or -1. */
static int serving_rank(const yki_job *job)
{
    for (int r = 0; r < job->world && !job->launcher; r++)
        if (job->peers[r].job_rank == 0)
            return r;
    return -1;
}

/* server is the rank that served it, or -1. */
static yk_status fail_without_store(yk_group *group, int server)
{
    const yki_job *job = &group->job;
    char name[YKI_RANK_NAME], text[YKI_RANK_NAME + 128];
    bool closed = yki_watch_was_closed(job->watch), silent = yki_watch_was_silent(job->watch);
    if (server >= 0)
        yki_rank_name(job, server, name);
    if (server < 0)
        snprintf(text, sizeof text, "the store of the job, which %s serves, %s",
                 job->launcher ? "the launcher" : "rank 0",
                 silent ? "does not answer: its process is stopped"
                        : "is gone: its process or host has ended, or the network is down");
    else if (closed)
        snprintf(text, sizeof text,
                 "%s is dead, or has left the job: pid %d, which served its store, has closed it",
                 name, job->peers[server].pid);
    else
        snprintf(text, sizeof text, "%s, which serves the store of the job, does not answer: %s",
                 name, silent ? "its process is stopped" : "its host or the network is down");
    return fail(group, server, false, YK_ERROR_PEER_FAILED, text);
}

/*
 * Without the store nothing is known about ranks on other machines. The kernel still tells of those
 * on this one, except that the rank that served the store may have left in order.
 */
static yk_status check_store(yk_group *group, const bool *late)
{
    const yki_job *job = &group->job;
    double lost = job->watch ? yki_watch_lost(job->watch) : 0;
    if (!(lost > 0) || yki_now() - lost < STORE_GRACE_S)
        return YK_OK;
    int server = serving_rank(job);
    if (server >= 0 && late[server] && !job->peers[server].remote)
        return fail_left(group, server);
    for (int r = 0; r < job->world; r++)
        if (late[r] && job->peers[r].remote)
            return fail_without_store(group, server);
    return YK_OK;
}

/* ---- looking --------------------------------------------------------------------------------- */

static bool has_gone(const yk_group *group, int rank)
{
    return yki_watch_gone(&group->job, rank) || atomic_load(&group->watched->left[rank]);
}

/* Whether the other rank has had this message before it left. */
static bool is_settled(const yk_group *group, const yk_backend_message *message)
{
    const _Atomic uint64_t *last = group->watched->last_messages;
    bool sends = message->what.operation == YK_OPERATION_SEND;
    int place = message->what.root + (sends ? group->job.world : 0);
    return message->sequence <= atomic_load(&last[place]);
}

/* Whether a call still needs that rank, as far as is known. */
static bool involves(const yk_group *group, const yki_call *call, int rank)
{
    const yk_backend_call *base = &call->base;
    for (size_t i = 0; i < base->message_count; i++)
        if (base->messages[i].what.root == rank && !is_settled(group, &base->messages[i]))
            return true;
    return base->message_count == 0;
}

/*
 * Only the backend knows which ranks a work waits for. One that is gone may have done its part
 * before, so it counts as missing only some time later.
 */
static bool may_be_missing(const void *wait, int rank)
{
    const yk_group *group = wait;
    const yki_call *call = group->running ? group->running : &group->opening;
    if (!involves(group, call, rank))
        return false;
    if (call->broken || !has_gone(group, rank))
        return true;
    double since = group->gone[rank];
    return since > 0 && yki_now() - since >= GRACE_S && call->waited >= GRACE_S;
}

static void note_gone(const yk_group *group, double now)
{
    for (int r = 0; r < group->job.world; r++)
        if (r != group->job.rank && !(group->gone[r] > 0) && has_gone(group, r))
            group->gone[r] = now;
}

/* The failure of the whole, if there is one, is also that of its part. */
static yk_status look_at_whole(yk_group *part)
{
    yk_group *whole = part->whole;
    yk_status status =
        whole->running ? yki_group_look_at_all(whole) : yki_group_look_opening(whole);
    if (status == YK_OK)
        return YK_OK;
    yki_watch_fail_here(part->watched, &whole->watched->failure);
    return yki_group_known_failure(part);
}

/*
 * A waiting call looks about every 20 ms. If much more time has passed, this process itself was
 * stopped, for example with the whole job; that time does not count as a peer's delay.
 */
static void count_wait(yki_call *call, double now)
{
    double since = call->looked > 0 ? now - call->looked : 0;
    call->looked = now;
    call->waited += since < LONGEST_LOOK_S ? since : LONGEST_LOOK_S;
    if (call->waited >= TELL_S && !(call->traffic.at > 0))
        yki_traffic_read(&call->traffic);
}

/* What the call waits for; it is told once it has waited long enough. */
static yki_waiting describe_wait(const yk_group *group, const yki_call *call)
{
    const yk_descriptor *what = &call->base.what;
    double tell_s = group->job.timeout_s < 2 * TELL_S ? group->job.timeout_s / 2 : TELL_S;
    yki_waiting waiting = {.active = call->waited >= tell_s,
                           .end_is_told = call->posted,
                           .sequence = call->base.sequence,
                           .what = *what,
                           .since = yki_now() - call->waited,
                           .caller = yki_caller_self(),
                           .collectives = group->collectives,
                           .messages = group->watched->messages,
                           .partners = group->watched->partners};
    return waiting;
}

static void note_partners(const yk_group *group, const yk_backend_call *call)
{
    atomic_bool *partners = group->watched->partners;
    for (int r = 0; r < group->job.world; r++)
        atomic_store(&partners[r], false);
    for (size_t i = 0; i < call->message_count; i++)
        atomic_store(&partners[call->messages[i].what.root], true);
}

/* Whether the rank that serves the store is stopped, and has not answered for longer than the
 * timeout; those that have ended by now may have done so because of that. */
static yk_status check_silence(yk_group *group, bool (*missing)(const void *wait, int rank),
                               const void *wait)
{
    const yki_job *job = &group->job;
    int server = serving_rank(job);
    if (server < 0 || !job->watch || !yki_watch_was_silent(job->watch) ||
        yki_watch_gone(job, server) || !missing(wait, server))
        return YK_OK;
    for (int r = 0; r < job->world; r++)
        group->late[r] = r == server;
    return fail_late(group, group->late, true);
}

/* A peer may have arrived just before it ended, so missing() is called again last. */
yk_status yki_group_look(void *context, bool (*missing)(const void *wait, int rank),
                         const void *wait)
{
    yk_group *group = context;
    const yki_job *job = &group->job;
    yki_call *call = group->running ? group->running : &group->opening;
    yki_waiting waiting = describe_wait(group, call);
    if (waiting.active)
        note_partners(group, &call->base);
    yki_watch_ask(group->watched, &waiting);
    YK_TRY(yki_group_known_failure(group));
    if (group->whole)
        YK_TRY(look_at_whole(group));
    bool any = false, *late = group->late;
    YK_TRY(check_silence(group, missing, wait));
    for (int r = 0; r < job->world; r++) {
        late[r] = r != job->rank && missing(wait, r);
        if (late[r] && yki_watch_gone(job, r) && (late[r] = missing(wait, r)))
            return fail_dead(group, r);
        if (late[r] && atomic_load(&group->watched->left[r]) && (late[r] = missing(wait, r)))
            return fail_left(group, r);
        any = any || late[r];
    }
    YK_TRY(check_store(group, late));
    count_wait(call, yki_now());
    if (!any || call->waited < job->timeout_s + group->patience_s)
        return YK_OK;
    return fail_late(group, late, missing != may_be_missing && !call->base.compare_only);
}

/* ---- opening --------------------------------------------------------------------------------- */

static bool all_are_open(const yk_group *group)
{
    char key[YKI_JOB_KEY];
    bool found = false;
    yki_job_key(&group->job, key, sizeof key, YKI_ALL_OPEN, -1);
    yki_fair_lock_take(group->job.lock);
    yk_store_check(group->job.store, key, &found);
    yki_fair_lock_release(group->job.lock);
    return found;
}

/* One that has gone is not missing if all had opened before, of which this rank has yet to hear. */
static bool may_be_opening(const void *wait, int rank)
{
    const yk_group *group = wait;
    return !has_gone(group, rank) || !all_are_open(group);
}

yk_status yki_group_look_opening(yk_group *group)
{
    return yki_group_look(group, may_be_opening, group);
}

/* For the others, it is this rank that has failed. What has failed here may also have been a part
 * of the group, in which another rank did. */
yk_status yki_group_fail_opening(yk_group *group, yk_status status)
{
    char line[YKI_ERROR_LINE];
    YK_TRY(yki_group_known_failure(group));
    if (status == YK_ERROR_TIMEOUT || status == YK_ERROR_PEER_FAILED)
        return status;
    yki_error_copy(line, sizeof line);
    double patience_s = status == YK_ERROR_NETWORK ? CAUSE_S : 0;
    for (double deadline = yki_now() + patience_s; yki_now() < deadline;) {
        YK_TRY(yki_group_look_opening(group));
        nanosleep(&(struct timespec){.tv_nsec = (long)(1e9 * LOOK_S)}, NULL);
    }
    yki_error_set_line(status, line);
    yki_group_fail_alone(group, YK_ERROR_PEER_FAILED);
    return yki_error_set_line(status, line);
}

/* ---- works ----------------------------------------------------------------------------------- */

yk_status yki_group_look_at_all(yk_group *group)
{
    yki_call *call = group->running;
    double now = yki_now();
    if (call->looked > 0 && now - call->looked < LOOK_S)
        return YK_OK;
    note_gone(group, now);
    return yki_group_look(group, may_be_missing, group);
}

yk_status yki_group_find_cause(yk_group *group, yk_status status)
{
    char line[YKI_ERROR_LINE], name[YKI_RANK_NAME];
    yki_rank_name(&group->job, group->job.rank, name);
    snprintf(line, sizeof line, "the backend of %s has failed: %s", name, yki_error_text());
    group->running->broken = true; /* whoever is gone is the cause */
    for (double deadline = yki_now() + CAUSE_S; yki_now() < deadline;) {
        YK_TRY(yki_group_look(group, may_be_missing, group));
        nanosleep(&(struct timespec){.tv_nsec = (long)(1e9 * LOOK_S)}, NULL);
    }
    return yki_group_fail(group, -1, status, line);
}

/*
 * Looking at the other ranks while a call waits for them: deaths, departures, timeouts. Each
 * becomes the group's one failure, which all ranks report from then on.
 */
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "comm/describe.h"
#include "comm/group_state.h"

#define LOOK_S         0.02 /* between two looks */
#define LONGEST_LOOK_S 0.5
#define GRACE_S        0.3 /* a call may still end after a rank that has done its part has gone */
#define CAUSE_S        1.0 /* how long the cause of a broken connection is looked for */

/* ---- the failure ----------------------------------------------------------------------------- */

static yki_failure *failure_of(yk_group *group)
{
    return group->backend && group->backend->ops == &yki_backend_shm
               ? yki_shm_failure(group->backend)
               : NULL;
}

yk_status yki_group_error(const yk_group *group, yk_status status, const char *text)
{
    char words[YKI_WORDS];
    if (!group->running)
        return yki_error(status, "creating the group: %s", text);
    yki_describe(words, &group->running->base.what);
    return yki_error(status, "%s, operation %llu: %s", words,
                     (unsigned long long)group->running->base.sequence, text);
}

yk_status yki_group_known_failure(yk_group *group)
{
    yki_failure *failure = failure_of(group);
    if (!failure || atomic_load_explicit(&failure->state, memory_order_relaxed) == YKI_FAILURE_NONE)
        return YK_OK;
    char text[sizeof failure->text];
    yk_status status = yki_failure_read(failure, text, sizeof text);
    return status == YK_OK ? YK_OK : yki_group_error(group, status, text);
}

yk_status yki_group_fail(yk_group *group, int culprit, yk_status status, const char *text)
{
    yki_failure *failure = failure_of(group);
    if (!failure)
        return yki_group_error(group, status, text);
    if (yki_failure_claim(failure)) {
        yki_failure_report(&group->job, culprit, status, text);
        yki_failure_write(failure, status, text);
    }
    return yki_group_known_failure(group);
}

static yk_status fail_dead(yk_group *group, int rank)
{
    yki_failure *failure = failure_of(group);
    char text[sizeof failure->text];
    if (failure && !yki_failure_claim(failure))
        return yki_group_known_failure(group);
    yki_death_words(&group->job, rank, text, sizeof text);
    yki_failure_report(&group->job, rank, YK_ERROR_PEER_FAILED, text);
    if (failure)
        yki_failure_write(failure, YK_ERROR_PEER_FAILED, text);
    return yki_group_error(group, YK_ERROR_PEER_FAILED, text);
}

static yk_status fail_left(yk_group *group, int rank)
{
    char text[128];
    snprintf(text, sizeof text, "rank %d (pid %d) has left the group", rank,
             group->job.peers[rank].pid);
    return yki_group_fail(group, rank, YK_ERROR_PEER_FAILED, text);
}

static yk_status fail_late(yk_group *group, const bool *late)
{
    char list[128], text[320];
    yki_rank_list(list, sizeof list, late, group->job.world);
    int one = 0;
    while (!late[one])
        one++;
    snprintf(text, sizeof text, "timed out after %g s: rank %s did not take part (pid %d is %s)",
             group->job.timeout_s, list, group->job.peers[one].pid,
             yki_job_doing(&group->job, one));
    return yki_group_fail(group, -1, YK_ERROR_TIMEOUT, text);
}

/* ---- looking --------------------------------------------------------------------------------- */

static bool has_left(yk_group *group, int rank)
{
    return failure_of(group) && yki_shm_left(group->backend, rank);
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
}

/* A peer may have arrived just before it ended, so missing() is called again last. */
yk_status yki_group_look(void *context, bool (*missing)(const void *wait, int rank),
                         const void *wait)
{
    yk_group *group = context;
    const yki_job *job = &group->job;
    yki_call *call = group->running ? group->running : &group->opening;
    YK_TRY(yki_group_known_failure(group));
    bool any = false, *late = group->late;
    for (int r = 0; r < job->world; r++) {
        late[r] = r != job->rank && missing(wait, r);
        if (late[r] && yki_job_gone(job, r) && (late[r] = missing(wait, r)))
            return fail_dead(group, r);
        if (late[r] && has_left(group, r) && (late[r] = missing(wait, r)))
            return fail_left(group, r);
        any = any || late[r];
    }
    count_wait(call, yki_now());
    return any && call->waited >= job->timeout_s ? fail_late(group, late) : YK_OK;
}

/* For works, where only the backend knows which ranks are missing. A rank that is gone may have
 * done its part, so it is missing only some time later. */
static bool may_be_missing(const void *wait, int rank)
{
    const yk_group *group = wait;
    const yki_call *call = group->running;
    const yk_descriptor *what = &call->base.what;
    if (what->operation >= YK_OPERATION_SEND && rank != what->root)
        return false;
    return !yki_job_gone(&group->job, rank) ||
           (call->lost > 0 && yki_now() - call->lost >= GRACE_S);
}

static bool any_gone(const yk_group *group)
{
    for (int r = 0; r < group->job.world; r++)
        if (r != group->job.rank && yki_job_gone(&group->job, r))
            return true;
    return false;
}

yk_status yki_group_look_at_all(yk_group *group)
{
    yki_call *call = group->running;
    double now = yki_now();
    if (call->looked > 0 && now - call->looked < LOOK_S)
        return YK_OK;
    if (!(call->lost > 0) && any_gone(group))
        call->lost = now;
    return yki_group_look(group, may_be_missing, group);
}

yk_status yki_group_find_cause(yk_group *group, yk_status status)
{
    char line[YKI_ERROR_LINE];
    snprintf(line, sizeof line, "%s", yki_error_text());
    group->running->lost = yki_now() - GRACE_S; /* whoever is gone is the cause */
    for (double deadline = yki_now() + CAUSE_S; yki_now() < deadline;) {
        YK_TRY(yki_group_look(group, may_be_missing, group));
        nanosleep(&(struct timespec){.tv_nsec = (long)(1e9 * LOOK_S)}, NULL);
    }
    return yki_group_fail(group, -1, status, line);
}

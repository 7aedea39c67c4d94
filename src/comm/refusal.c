/*
 * A rank that cannot take part in a call says so in its descriptor, which all ranks compare; why it
 * cannot goes through the job's store, since it does not fit there.
 *
 * Two keys for each rank suffice. A call ends when all ranks have posted it, and they read the
 * reason before they post the next one: when a rank refuses for the third time, all of them have
 * read why it did for the first time. The number of the call tells which one a reason belongs to.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "comm/group_state.h"

enum { REASON = 256 };

#define LINGER_S 0.3

static void name_key(const yk_group *group, int rank, uint64_t refusal, char key[YKI_JOB_KEY])
{
    yki_job_key(&group->job, key, YKI_JOB_KEY, refusal & 1 ? "refusal/odd" : "refusal/even", rank);
}

/* Adds to how often the reasons of a rank have been read; 0 if the store has failed. */
static int64_t count_reads(const yk_group *group, int rank, int64_t more)
{
    const yki_job *job = &group->job;
    char key[YKI_JOB_KEY];
    int64_t reads = 0;
    yki_job_key(job, key, sizeof key, "refusal/reads", rank);
    yki_fair_lock_take(job->lock);
    if (yk_store_add(job->store, key, more, &reads) != YK_OK)
        reads = 0;
    yki_fair_lock_release(job->lock);
    return reads;
}

/* If the store has failed, the others only learn that this rank refuses, and not why. */
void yki_refusal_tell(yk_group *group, uint64_t sequence, const char *line)
{
    const yki_job *job = &group->job;
    char key[YKI_JOB_KEY], reason[REASON];
    if (job->world == 1 || !job->store)
        return;
    yki_error_set_line(YK_ERROR_INVALID_ARGUMENT, line);
    snprintf(reason, sizeof reason, "%" PRIu64 " %.220s", sequence, yki_error_text());
    name_key(group, job->rank, group->refusals++, key);
    group->reads = job->server ? count_reads(group, job->rank, 0) : 0;
    yki_fair_lock_take(job->lock);
    yk_store_set(job->store, key, reason, strlen(reason));
    yki_fair_lock_release(job->lock);
}

void yki_refusal_linger(const yk_group *group)
{
    const yki_job *job = &group->job;
    int64_t all = group->reads + job->world - 1;
    if (!job->server)
        return;
    for (double deadline = yki_now() + LINGER_S; yki_now() < deadline;) {
        if (count_reads(group, job->rank, 0) >= all)
            return;
        nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL);
    }
}

bool yki_refusal_read(yk_group *group, int rank, uint64_t sequence, char *text, size_t size)
{
    const yki_job *job = &group->job;
    bool found = false;
    for (uint64_t i = 0; i < 2 && job->store && !found; i++) {
        char key[YKI_JOB_KEY], reason[REASON];
        uint64_t call;
        size_t used = 0;
        int begin = 0;
        name_key(group, rank, i, key);
        yki_fair_lock_take(job->lock);
        yk_status status = yk_store_get(job->store, key, reason, sizeof reason - 1, &used, 0);
        yki_fair_lock_release(job->lock);
        reason[status == YK_OK ? used : 0] = '\0';
        found = sscanf(reason, "%" SCNu64 " %n", &call, &begin) == 1 && call == sequence;
        if (found)
            snprintf(text, size, "%s", reason + begin);
    }
    if (found)
        count_reads(group, rank, 1);
    return found;
}

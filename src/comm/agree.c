/* Agreement without a collective: through the job's store. */
#include "comm/group_state.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* FNV-1a */
static uint64_t hash_of(const char *text)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 0x100000001b3u;
    return hash;
}

static yk_status propose(const yki_job *job, const char *key, char *text, size_t size)
{
    bool first;
    size_t used;
    YK_TRY(yk_store_compare_set(job->store, key, NULL, 0, text, strlen(text), &first));
    if (first)
        return YK_OK;
    YK_TRY(yk_store_get(job->store, key, text, size - 1, &used, job->timeout_s));
    text[used] = '\0';
    return YK_OK;
}

/* The store has failed. This thread may look at the ranks only when no call is in flight. */
static yk_status find_cause(yk_group *group, yk_status status)
{
    char line[YKI_ERROR_LINE];
    yki_call call = {.base.what.operation = YK_OPERATION_BARRIER};
    yki_error_copy(line, sizeof line);
    if (!yki_queue_is_current(&group->queue))
        yki_queue_drain(&group->queue);
    yki_error_set_line(status, line);
    group->running = &call;
    yki_group_find_cause(group, status);
    group->running = NULL;
    const yki_failure *failure = &group->watched->failure;
    return yki_error(failure->status, "while ranks agree on what to use: %s", failure->text);
}

yk_status yki_group_agree(yk_group *group, const char *subject, char *text, size_t size)
{
    const yki_job *job = &group->job;
    char name[40], key[YKI_JOB_KEY];
    if (job->world == 1 || !job->store)
        return YK_OK;
    snprintf(name, sizeof name, "agreed/%016" PRIx64, hash_of(subject));
    yki_job_key(job, key, sizeof key, name, -1);
    yki_fair_lock_take(job->lock);
    yk_status status = propose(job, key, text, size);
    yki_fair_lock_release(job->lock);
    return status == YK_OK ? status : find_cause(group, status);
}

/* Creating groups: a group joins its job, chooses a backend, and opens it on all ranks. */
#include <yoke/group.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/options.h"
#include "comm/choose.h"
#include "comm/group_state.h"
#include "comm/job/callers.h"

static const char *backend_from_environment(void)
{
    const char *name = getenv("YOKE_BACKEND");
    return name && *name ? name : NULL;
}

/* Ranks with different backends would wait for each other until their time is up. */
static yk_status compare_backends(const yki_job *job, const char *name)
{
    enum { ROOM = 96 };
    char key[YKI_JOB_KEY], mine[ROOM], first[ROOM] = "0 ";
    bool set;
    size_t used;
    if (job->world == 1)
        return YK_OK;
    yki_job_key(job, key, sizeof key, "backend", -1);
    int size = snprintf(mine, sizeof mine, "%d %.64s", job->rank, name);
    yki_fair_lock_take(job->lock);
    yk_status status = yk_store_compare_set(job->store, key, NULL, 0, mine, (size_t)size, &set);
    if (status == YK_OK && !set)
        status = yk_store_get(job->store, key, first, sizeof first - 1, &used, 0);
    yki_fair_lock_release(job->lock);
    YK_TRY(status);
    const char *theirs = strchr(first, ' ') + 1;
    if (set || strcmp(theirs, strchr(mine, ' ') + 1) == 0)
        return YK_OK;
    yki_failure failure = {.status = YK_ERROR_MISMATCH, .culprit = -1};
    snprintf(failure.text, sizeof failure.text,
             "ranks disagree in the backend: rank %d has %s, rank %d has %.64s", atoi(first),
             theirs, job->rank, name);
    yki_failure_record(job, &failure);
    return yki_error(failure.status, "creating the group: %s", failure.text);
}

yk_status yk_group_init(yk_group **out, const yk_group_options *given)
{
    const yk_backend_ops *ops;
    yk_group_options options;
    YKI_NOT_NULL(out);
    *out = NULL;
    YK_TRY(YKI_READ_OPTIONS(&options, given, yk_group_options, YK_GROUP_OPTIONS_INIT));
    yki_caller_note();
    const char *name = options.backend ? options.backend : backend_from_environment();
    YK_TRY(yki_backend_find(&ops, name));
    yk_group *group = yki_calloc(1, sizeof *group);
    if (!group)
        return yki_error_memory(sizeof *group, "a group");
    if (ops && ops->capabilities & YK_BACKEND_DEVICE_MEMORY) {
        group->device_backend = ops->name;
        name = NULL;
        ops = NULL;
    }
    yk_status status = yki_job_join(&group->job, &options);
    if (status != YK_OK)
        goto out_group;
    if (!options.backend && group->job.world == 1) /* the environment's is for several ranks */
        name = NULL;
    status = yki_backend_choose(&ops, &group->job, name, group->why, sizeof group->why);
    if (status == YK_OK)
        status = compare_backends(&group->job, ops->name);
    snprintf(group->job.label, sizeof group->job.label, "the group of all ranks");
    if (status == YK_OK)
        status = yki_group_open(group, ops);
    if (status != YK_OK)
        goto out_job;
    YKI_INFO("rank %d of %d, backend %s, pid %d", group->job.rank, group->job.world, ops->name,
             group->job.peers[group->job.rank].pid);
    if (group->job.rank == 0)
        YKI_INFO("backend %s: %s", ops->name, group->why);
    group->named = name != NULL;
    *out = group;
    return YK_OK;

out_job:
    yki_job_linger(&group->job);
    yki_job_leave(&group->job);
out_group:
    free(group);
    return status;
}

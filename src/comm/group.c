/*
 * What a group knows about itself, and its end. create.c and split.c make groups, run.c runs their
 * calls, and look.c watches their ranks.
 */
#include <yoke/group.h>

#include <stdio.h>
#include <stdlib.h>

#include "comm/group_state.h"

void yki_group_retain(yk_group *group)
{
    yki_reference_retain(&group->reference);
}

void yki_group_release(yk_group *group)
{
    if (!yki_reference_release(&group->reference))
        return;
    yk_group_destroy(group->channel);
    yki_watch_calls(group->watched, NULL, NULL, NULL);
    yki_queue_fini(&group->queue);
    yki_flight_fini(&group->flight);
    group->backend->ops->close(group->backend);
    yki_watch_remove(group->watched);
    if (group->is_part)
        free(group->job.peers);
    else
        yki_job_leave(&group->job);
    yki_group_free_blocks(group);
    yki_group_free_site(group);
    if (group->parent)
        yki_group_release(group->parent);
    free(group);
}

void yk_group_destroy(yk_group *group)
{
    if (group)
        yki_group_release(group);
}

int yk_group_rank(const yk_group *group)
{
    return group ? group->job.rank : -1;
}

int yk_group_size(const yk_group *group)
{
    return group ? group->job.world : 0;
}

int yk_group_local_rank(const yk_group *group)
{
    return group ? group->job.local_rank : -1;
}

int yk_group_local_size(const yk_group *group)
{
    return group ? group->job.local_world : 0;
}

const char *yk_group_backend(const yk_group *group)
{
    return group ? group->backend->ops->name : "";
}

const char *yk_group_backend_reason(const yk_group *group)
{
    return group ? group->why : "";
}

const char *yk_group_exchange(const yk_group *group)
{
    return group ? group->exchange : "";
}

void yk_group_note_step(yk_group *group, int64_t step)
{
    if (group && group->job.watch && step >= 0)
        yki_watch_note_step(group->job.watch, step);
}

void yki_group_note_batches(yk_group *group)
{
    if (group->job.watch)
        yki_watch_note_batches(group->job.watch);
}

void yki_group_announce_save(yk_group *group)
{
    const yki_job *job = &group->job;
    if (job->job_world == 1)
        yki_job_announce_alone(job);
    if (job->launcher && job->watch)
        yki_watch_announce_save(job->watch);
}

void yki_group_report_cause(yk_group *group, yk_status status)
{
    const yki_job *job = &group->job;
    if (!job->launcher || !job->watch)
        return;
    yki_failure failure = {.status = status, .culprit = job->peers[job->rank].job_rank};
    snprintf(failure.text, sizeof failure.text, "%s", yk_last_error());
    yki_watch_report_cause(job->watch, &failure);
}

int yki_group_job_rank(const yk_group *group, int rank)
{
    return yki_job_rank(&group->job, rank);
}

void yki_group_rank_name(const yk_group *group, int rank, char *name, size_t size)
{
    char text[YKI_RANK_NAME];
    yki_rank_name(&group->job, rank, text);
    snprintf(name, size, "%s", text);
}

bool yki_group_adds_in_rank_order(const yk_group *group)
{
    return group->backend->ops->capabilities & YK_BACKEND_RANK_ORDER;
}

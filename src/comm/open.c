/*
 * Opening groups whose ranks have met. A part of a group uses the store, the watch and the process
 * descriptors of the job that it descends from, with keys of its own below those of its parent.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/held_signal.h"
#include "base/memory.h"
#include "comm/group_state.h"

/*
 * Ends when the backends of all ranks are open, so that a rank that ends next, in order or not, is
 * not missed by one that is still opening its own. The ranks count themselves in the store.
 */
static yk_status await_all(yk_group *group)
{
    char key[YKI_JOB_KEY], text[1];
    int64_t count = 0;
    size_t used;
    yki_job_key(&group->job, key, sizeof key, "open", -1);
    yki_fair_lock_take(group->job.lock);
    yk_status status = yk_store_add(group->job.store, key, 1, &count);
    yki_fair_lock_release(group->job.lock);
    if (status != YK_OK)
        return status;
    if (count == group->job.world)
        return group->site.set(group, YKI_ALL_OPEN, "", 0);
    return group->site.get(group, YKI_ALL_OPEN, text, sizeof text, &used, group->job.timeout_s);
}

/*
 * The threads that an engine starts inherit a blocked SIGPIPE: writing to a rank that has died is
 * an error for them, and must not end the process.
 */
static yk_status open_backend(yk_group *group)
{
    yk_backend *backend;
    yki_held_signal pipe;
    yki_signal_hold(&pipe, SIGPIPE);
    yk_status status = group->ops->open(&backend, &group->site);
    yki_signal_drop(&pipe, SIGPIPE);
    if (status != YK_OK)
        return status;
    if (group->job.world > 1 && (status = await_all(group)) != YK_OK)
        group->ops->close(backend);
    else
        group->backend = backend;
    return status;
}

yk_status yki_group_open(yk_group *group, const yk_backend_ops *ops)
{
    static const yki_queue_ops queue_ops = {yki_group_start, yki_group_advance};
    yki_reference_init(&group->reference);
    group->ops = ops;
    yk_status status = yki_watch_add(&group->watched, &group->job);
    if (status != YK_OK)
        return status;
    if ((status = yki_group_make_site(group)) != YK_OK)
        goto out_watched;
    if ((status = open_backend(group)) != YK_OK) {
        status = yki_group_fail_opening(group, status);
        goto out_site;
    }
    yki_queue_init(&group->queue, group, &queue_ops, ops->max_works);
    yki_flight_init(&group->flight, &group->job, ops->name);
    if (!group->whole) /* whose calls count; parts of a backend only make its steps */
        yki_watch_calls(group->watched, &group->queue, yki_queue_rests,
                        &group->flight.last_started);
    return YK_OK;

out_site:
    yki_group_free_site(group);
out_watched:
    yki_watch_remove(group->watched);
    return status;
}

/* ---- parts ----------------------------------------------------------------------------------- */

static void count_neighbours(yki_job *job)
{
    job->local_rank = job->local_world = 0;
    for (int r = 0; r < job->world; r++) {
        job->local_rank += !job->peers[r].remote && r < job->rank;
        job->local_world += !job->peers[r].remote;
    }
    job->hosts = yki_job_count_hosts(job);
}

/* Sets part->job: what it shares with the parent's, and what is its own. */
static yk_status make_job(yk_group *part, const yk_group *parent, const int *ranks, int count,
                          int number)
{
    yki_job *job = &part->job;
    *job = parent->job;
    job->peers = NULL;
    job->world = count;
    job->rank = -1;
    int used =
        snprintf(job->prefix, sizeof job->prefix, "%s/%d-%d", parent->job.prefix, number, ranks[0]);
    if (used >= (int)sizeof job->prefix)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "these groups have been split too many times, one out of another");
    job->peers = yki_calloc((size_t)count, sizeof *job->peers);
    if (!job->peers)
        return yki_error_memory((size_t)count * sizeof *job->peers, "a part of a group");
    for (int i = 0; i < count; i++) {
        job->peers[i] = parent->job.peers[ranks[i]];
        if (ranks[i] == parent->job.rank)
            job->rank = i;
    }
    count_neighbours(job);
    return YK_OK;
}

void yki_part_discard(yk_group **part)
{
    free((*part)->job.peers);
    free(*part);
    *part = NULL;
}

yk_status yki_part_create(yk_group **part, const yk_group *parent, const int *ranks, int count,
                          int number)
{
    *part = yki_calloc(1, sizeof **part);
    if (!*part)
        return yki_error_memory(sizeof **part, "a part of a group");
    (*part)->is_part = true;
    (*part)->named = parent->named;
    (*part)->device_backend = parent->device_backend;
    memcpy((*part)->why, parent->why, sizeof parent->why);
    yk_status status = make_job(*part, parent, ranks, count, number);
    if (status != YK_OK)
        yki_part_discard(part);
    return status;
}

yk_status yki_part_open(yk_group **part, const yk_backend_ops *ops)
{
    yk_status status = yki_group_open(*part, ops);
    if (status != YK_OK)
        yki_part_discard(part);
    return status;
}

/* What a backend sees of its group: the members, the job's store, and whether to keep waiting. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/memory.h"
#include "comm/group_state.h"

#define SLICE_S 0.05 /* how long one request waits for a key */
#define LOSS_S  3.0  /* how long it may take to find out who has gone with the store */

static bool is_opening(const yk_group *group)
{
    return !group->backend && pthread_equal(group->opener, pthread_self());
}

/* Only the thread that opens the backend may look. */
static yk_status look_while_opening(yk_group *group)
{
    return is_opening(group) ? yki_group_look_opening(group) : yki_group_known_failure(group);
}

/* The connection to the store is lost. Who served it, and so which rank is gone, is known soon. */
static yk_status find_loss(yk_group *group, yk_status status)
{
    char line[YKI_ERROR_LINE];
    yki_error_copy(line, sizeof line);
    for (double deadline = yki_now() + LOSS_S; yki_now() < deadline;) {
        YK_TRY(look_while_opening(group));
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    }
    return yki_error_set_line(status, line);
}

static yk_status site_set(void *context, const char *name, const void *value, size_t size)
{
    yk_group *group = context;
    char key[YKI_JOB_KEY];
    yki_job_key(&group->job, key, sizeof key, name, -1);
    yki_fair_lock_take(group->job.lock);
    yk_status status = yk_store_set(group->job.store, key, value, size);
    yki_fair_lock_release(group->job.lock);
    return status == YK_ERROR_NETWORK ? find_loss(group, status) : status;
}

/*
 * Waits in slices, between which other threads may use the store. While a group is opened, the look
 * at the other ranks reports a timeout, with the ranks that are late. A wait for the job's whole
 * timeout is therefore made longer here, so that it does not end first, without their names.
 */
static yk_status site_get(void *context, const char *name, void *value, size_t size, size_t *used,
                          double timeout_s)
{
    yk_group *group = context;
    char key[YKI_JOB_KEY];
    yki_job_key(&group->job, key, sizeof key, name, -1);
    if (is_opening(group) && timeout_s >= group->job.timeout_s)
        timeout_s *= 2;
    for (double deadline = yki_now() + timeout_s;;) {
        double left = deadline - yki_now();
        double wait_s = left < SLICE_S ? (left > 0 ? left : 0) : SLICE_S;
        yki_fair_lock_take(group->job.lock);
        yk_status status = yk_store_get(group->job.store, key, value, size, used, wait_s);
        yki_fair_lock_release(group->job.lock);
        if (status == YK_ERROR_NETWORK)
            return find_loss(group, status);
        if (status != YK_ERROR_TIMEOUT || left <= SLICE_S)
            return status;
        YK_TRY(look_while_opening(group));
    }
}

yk_status yki_group_make_site(yk_group *group)
{
    const yki_job *job = &group->job;
    size_t world = (size_t)job->world;
    group->members = yki_calloc(world, sizeof *group->members);
    group->late = yki_calloc(world, sizeof *group->late);
    group->gone = yki_calloc(world, sizeof *group->gone);
    if (!group->members || !group->late || !group->gone) {
        yki_group_free_site(group);
        return yki_error_memory(world * sizeof *group->members, "the members of a group");
    }
    group->opener = pthread_self();
    for (int r = 0; r < job->world; r++) {
        const yki_peer *peer = &job->peers[r];
        group->members[r] = (yk_backend_member){.job_rank = peer->job_rank,
                                                .pid = peer->pid,
                                                .host = peer->host,
                                                .address = peer->address,
                                                .machine = peer->machine};
    }
    group->site = (yk_backend_site){.size = sizeof group->site,
                                    .rank = job->rank,
                                    .ranks = job->world,
                                    .members = group->members,
                                    .timeout_s = job->timeout_s,
                                    .context = group,
                                    .set = site_set,
                                    .get = site_get,
                                    .look = yki_group_look};
    return YK_OK;
}

void yki_group_free_site(yk_group *group)
{
    free(group->members);
    free(group->late);
    free(group->gone);
    group->members = NULL;
    group->late = NULL;
    group->gone = NULL;
}

/*
 * Groups made of other groups. A part uses the store, the watch and the process descriptors of the
 * job that it descends from, with keys of its own below those of its parent.
 */
#include <yoke/group.h>

#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "comm/choose.h"
#include "comm/group_state.h"

/* ---- a part of given ranks ------------------------------------------------------------------- */

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
    job->world = count;
    job->rank = -1;
    int used =
        snprintf(job->prefix, sizeof job->prefix, "%s/%d-%d", parent->job.prefix, number, ranks[0]);
    if (used >= (int)sizeof job->prefix)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "groups cannot be split so many times over");
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

/* A backend that was asked for by name is kept, but one rank alone needs none. */
static yk_status choose(const yk_backend_ops **ops, const yk_group *part, const yk_group *parent)
{
    char why[96];
    if (*ops)
        return YK_OK;
    if (part->job.world > 1 && parent->named) {
        *ops = parent->ops;
        return YK_OK;
    }
    return yki_backend_choose(ops, &part->job, NULL, why, sizeof why);
}

yk_status yki_group_make_part(yk_group **out, yk_group *parent, const int *ranks, int count,
                              const yk_backend_ops *ops, int number, bool retain)
{
    *out = NULL;
    yk_group *part = yki_calloc(1, sizeof *part);
    if (!part)
        return yki_error_memory(sizeof *part, "a part of a group");
    part->is_part = true;
    part->named = parent->named;
    part->device_backend = parent->device_backend;
    yk_status status = make_job(part, parent, ranks, count, number);
    if (status == YK_OK)
        status = choose(&ops, part, parent);
    if (status == YK_OK)
        status = yki_group_open(part, ops);
    if (status != YK_OK) {
        if (part->job.peers != parent->job.peers)
            free(part->job.peers);
        free(part);
        return status;
    }
    if (retain) {
        part->parent = parent;
        yki_group_retain(parent);
    }
    *out = part;
    return YK_OK;
}

/* ---- duplicates ------------------------------------------------------------------------------ */

static yk_status duplicate(yk_group **out, yk_group *group, bool retain)
{
    int world = yk_group_size(group);
    *out = NULL;
    int *ranks = yki_calloc((size_t)world, sizeof *ranks);
    if (!ranks)
        return yki_group_fail_alone(
            group, yki_error_memory((size_t)world * sizeof *ranks, "a duplicate of a group"));
    for (int r = 0; r < world; r++)
        ranks[r] = r;
    yk_status status =
        yki_group_make_part(out, group, ranks, world, group->ops, group->parts++, retain);
    free(ranks);
    return status;
}

yk_status yk_group_duplicate(yk_group **copy, yk_group *group)
{
    YKI_NOT_NULL(copy);
    *copy = NULL;
    YKI_NOT_NULL(group);
    return duplicate(copy, group, true);
}

yk_status yki_group_channel(yk_group **channel, yk_group *group)
{
    *channel = group->channel;
    if (*channel)
        return YK_OK;
    YK_TRY(duplicate(channel, group, false));
    group->channel = *channel;
    return YK_OK;
}

/* ---- splits ---------------------------------------------------------------------------------- */

typedef struct choice {
    int32_t color, key;
} choice;

static yk_status gather_choices(yk_group *group, choice mine, choice *all)
{
    yk_status checked = YK_OK;
    if (mine.color < YK_COLOR_NONE)
        checked =
            yki_error(YK_ERROR_INVALID_ARGUMENT,
                      "yk_group_split: color %d: expected 0 or more, or YK_COLOR_NONE", mine.color);
    yki_call call = {.base = {.what = {.operation = YK_OPERATION_ALL_GATHER,
                                       .dtype = YK_I32,
                                       .count = sizeof mine / sizeof(int32_t)},
                              .in = &mine,
                              .out = all}};
    return yki_group_submit(group, &call, checked, NULL);
}

/*
 * Waits until every rank has its part. A part is opened with the help of the job's store, and the
 * rank that serves it might otherwise be done with everything before.
 */
static yk_status await_all_parts(yk_group *group, yk_group **part, yk_status status)
{
    char line[YKI_ERROR_LINE];
    if (status != YK_OK)
        yki_error_copy(line, sizeof line);
    yk_status met = yk_barrier(group);
    if (status != YK_OK)
        return yki_error_set_line(status, line);
    if (met != YK_OK) {
        yk_group_destroy(*part);
        *part = NULL;
    }
    return met;
}

/* The ranks of that color, by key; returns their number. */
static int sort_members(const choice *all, int world, int color, int *ranks)
{
    int count = 0;
    for (int r = 0; r < world; r++) {
        if (all[r].color != color)
            continue;
        int at = count++;
        for (; at > 0 && all[ranks[at - 1]].key > all[r].key; at--)
            ranks[at] = ranks[at - 1];
        ranks[at] = r;
    }
    return count;
}

yk_status yk_group_split(yk_group **part, yk_group *group, int color, int key)
{
    YKI_NOT_NULL(part);
    *part = NULL;
    YKI_NOT_NULL(group);
    int world = yk_group_size(group);
    choice *all = yki_calloc((size_t)world, sizeof *all);
    int *ranks = yki_calloc((size_t)world, sizeof *ranks);
    yk_status status;
    if (!all || !ranks) {
        status = yki_group_fail_alone(
            group, yki_error_memory((size_t)world * sizeof *all, "a split of a group"));
        goto out;
    }
    status = gather_choices(group, (choice){color, key}, all);
    if (status != YK_OK)
        goto out;
    int number = group->parts++;
    if (color != YK_COLOR_NONE) {
        int count = sort_members(all, world, color, ranks);
        status = yki_group_make_part(part, group, ranks, count, NULL, number, true);
    }
    status = await_all_parts(group, part, status);

out:
    free(all);
    free(ranks);
    return status;
}

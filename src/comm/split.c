/* Groups of some or all ranks of another group. */
#include <yoke/group.h>

#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "comm/choose.h"
#include "comm/group_state.h"

/* "duplicate 1 of the group of all ranks" */
static void label_part(yk_group *part, const yk_group *parent, const char *what)
{
    snprintf(part->job.label, sizeof part->job.label, "%s %d of %.72s", what, parent->labels,
             parent->job.label);
}

static void keep_alive(yk_group *part, yk_group *parent)
{
    part->parent = parent;
    yki_group_retain(parent);
}

/* ---- duplicates ------------------------------------------------------------------------------ */

/* With the backend of the group; not yet opened. */
static yk_status make_duplicate(yk_group **out, yk_group *group)
{
    int world = yk_group_size(group);
    *out = NULL;
    int *ranks = yki_calloc((size_t)world, sizeof *ranks);
    if (!ranks)
        return yki_group_fail_alone(
            group, yki_error_memory((size_t)world * sizeof *ranks, "a duplicate of a group"));
    for (int r = 0; r < world; r++)
        ranks[r] = r;
    yk_status status = yki_part_create(out, group, ranks, world, group->parts++);
    free(ranks);
    return status;
}

yk_status yk_group_duplicate(yk_group **copy, yk_group *group)
{
    if (copy)
        *copy = NULL;
    YKI_NOT_NULL(group);
    yki_joint joint = yki_joint_begin(group); /* until here: the ranks meet outside the group */
    YK_TRY(yki_joint_end(&joint, YKI_CHECK_NOT_NULL(copy)));
    YK_TRY(make_duplicate(copy, group));
    group->labels++;
    label_part(*copy, group, "duplicate");
    YK_TRY(yki_part_open(copy, group->ops));
    keep_alive(*copy, group);
    return YK_OK;
}

yk_status yki_group_channel(yk_group **channel, yk_group *group)
{
    *channel = group->channel;
    if (*channel)
        return YK_OK;
    YK_TRY(make_duplicate(channel, group));
    snprintf((*channel)->job.label, sizeof(*channel)->job.label, "the channel of %.80s",
             group->job.label);
    YK_TRY(yki_part_open(channel, group->ops));
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

/* Opens a part with a backend of its own. One that was asked for by name is kept, but one rank
 * alone needs none. */
static yk_status make_part(yk_group **part, yk_group *group, const int *ranks, int count,
                           int number)
{
    const yk_backend_ops *ops = group->ops;
    yk_status status = YK_OK;
    YK_TRY(yki_part_create(part, group, ranks, count, number));
    label_part(*part, group, "part");
    if (count == 1 || !group->named)
        status = yki_backend_choose(&ops, &(*part)->job, NULL, (*part)->why, sizeof(*part)->why);
    if (status != YK_OK) {
        yki_part_discard(part);
        return status;
    }
    YK_TRY(yki_part_open(part, ops));
    keep_alive(*part, group);
    return YK_OK;
}

yk_status yk_group_split(yk_group **part, yk_group *group, int color, int key)
{
    if (part)
        *part = NULL;
    YKI_NOT_NULL(group);
    if (!part)
        return yki_group_refuse(group, YKI_CHECK_NOT_NULL(part));
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
    group->labels++; /* also on ranks that are in no part */
    if (color != YK_COLOR_NONE) {
        int count = sort_members(all, world, color, ranks);
        status = make_part(part, group, ranks, count, number);
    }
    status = await_all_parts(group, part, status);

out:
    free(all);
    free(ranks);
    return status;
}

yk_status yk_group_split_by_host(yk_group **part, yk_group *group)
{
    if (part)
        *part = NULL;
    YKI_NOT_NULL(group);
    int first = 0; /* the first rank of this machine, which is the color of all of its ranks */
    while (group->job.peers[first].remote)
        first++;
    return yk_group_split(part, group, first, 0);
}

/*
 * What ranks do together: see group_internal.h. The end is a barrier, in which a rank that has
 * failed refuses to take part. It meets there whatever collective the others have come to, which
 * fails on all ranks; so a rank whose last collective has failed has nothing left to tell.
 */
#include "comm/group_state.h"

yki_joint yki_joint_begin(yk_group *group)
{
    if (!group)
        return (yki_joint){.group = NULL};
    if (!yki_queue_is_current(&group->queue))
        yki_queue_drain(&group->queue); /* its thread numbers the calls */
    return (yki_joint){.group = group, .collectives = group->collectives};
}

static bool is_told(const yki_joint *joint)
{
    const yk_group *group = joint->group;
    return group->collectives > joint->collectives && group->last != YK_OK;
}

yk_status yki_group_refuse(yk_group *group, yk_status status)
{
    char line[YKI_ERROR_LINE];
    yki_call call = {.base.what.operation = YK_OPERATION_BARRIER};
    yki_error_copy(line, sizeof line);
    if (yk_group_size(group) > 1)
        yki_group_submit(group, &call, status, NULL);
    return yki_error_set_line(status, line);
}

yk_status yki_joint_meet(const yki_joint *joint, yk_status status)
{
    if (yk_group_size(joint->group) <= 1)
        return status;
    if (status == YK_OK)
        return yk_barrier(joint->group);
    return is_told(joint) ? status : yki_group_refuse(joint->group, status);
}

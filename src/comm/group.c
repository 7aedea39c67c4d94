/*
 * Creating and destroying groups. A group joins its job, chooses a backend, and opens it on all
 * ranks; run.c runs its calls and peers.c watches its ranks.
 */
#include <yoke/group.h>

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/options.h"
#include "comm/group_state.h"
#include "comm/modules.h"

static bool is_built_in(const char *name)
{
    return strcmp(name, "self") == 0 || strcmp(name, "shm") == 0;
}

/* Opens the module of a backend that was asked for by name, before other ranks wait for this one.
 * *ops is NULL where none is needed. */
static yk_status open_module(const yk_backend_ops **ops, const char *name)
{
    *ops = NULL;
    return !name || is_built_in(name) ? YK_OK : yki_module_find(ops, name);
}

/* *ops is the module that open_module() has found, if any. */
static yk_status choose_backend(const yk_backend_ops **ops, const yki_job *job, const char *name)
{
    const yk_backend_ops *usual = job->world == 1 ? &yki_backend_self : &yki_backend_shm;
    bool supported = !name || (*ops ? job->world > 1 : strcmp(name, usual->name) == 0);
    if (!supported)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "backend \"%s\" does not support %d rank%s",
                         name, job->world, job->world == 1 ? "" : "s");
    *ops = *ops ? *ops : usual;
    return YK_OK;
}

/* Opens the backend of a joined job; then the group can run calls. */
static yk_status open_backend(yk_group *group, const yk_backend_ops *ops)
{
    static const yki_queue_ops queue_ops = {yki_group_start, yki_group_advance};
    yk_status status = yki_watch_add(&group->watched, &group->job);
    if (status != YK_OK)
        return status;
    if ((status = yki_group_make_site(group)) != YK_OK)
        goto out_watched;
    if ((status = ops->open(&group->backend, &group->site)) != YK_OK)
        goto out_site;
    yki_queue_init(&group->queue, group, &queue_ops, ops->max_works);
    return YK_OK;

out_site:
    group->backend = NULL;
    yki_group_free_site(group);
out_watched:
    yki_watch_remove(&group->watched);
    return status;
}

yk_status yk_group_init(yk_group **out, const yk_group_options *given)
{
    const yk_backend_ops *ops;
    yk_group_options options;
    YKI_NOT_NULL(out);
    *out = NULL;
    YK_TRY(YKI_READ_OPTIONS(&options, given, yk_group_options, YK_GROUP_OPTIONS_INIT));
    YK_TRY(open_module(&ops, options.backend));
    yk_group *group = yki_calloc(1, sizeof *group);
    if (!group)
        return yki_error_memory(sizeof *group, "a group");
    yk_status status = yki_job_join(&group->job, &options);
    if (status != YK_OK)
        goto out_group;
    if ((status = choose_backend(&ops, &group->job, options.backend)) != YK_OK ||
        (status = open_backend(group, ops)) != YK_OK)
        goto out_job;
    yki_reference_init(&group->reference);
    YKI_INFO("rank %d of %d, backend %s, pid %d", group->job.rank, group->job.world, ops->name,
             group->job.peers[group->job.rank].pid);
    *out = group;
    return YK_OK;

out_job:
    yki_job_leave(&group->job);
out_group:
    free(group);
    return status;
}

yk_status yki_group_channel(yk_group **out, yk_group *group)
{
    *out = group->channel;
    if (*out)
        return YK_OK;
    yk_group *channel = yki_calloc(1, sizeof *channel);
    if (!channel)
        return yki_error_memory(sizeof *channel, "a channel");
    yki_reference_init(&channel->reference);
    channel->job = group->job;
    channel->borrows_job = true;
    snprintf(channel->job.prefix, sizeof channel->job.prefix, "%.64s/channel", group->job.prefix);
    yk_status status = open_backend(channel, group->backend->ops);
    if (status != YK_OK) {
        free(channel);
        return status;
    }
    *out = group->channel = channel;
    return YK_OK;
}

void yki_group_retain(yk_group *group)
{
    yki_reference_retain(&group->reference);
}

void yki_group_release(yk_group *group)
{
    if (!yki_reference_release(&group->reference))
        return;
    yk_group_destroy(group->channel);
    yki_queue_fini(&group->queue);
    group->backend->ops->close(group->backend);
    yki_watch_remove(&group->watched);
    if (!group->borrows_job)
        yki_job_leave(&group->job);
    yki_group_free_blocks(group);
    yki_group_free_site(group);
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

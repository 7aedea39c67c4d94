/*
 * The choice of a backend. One rank needs none (self), ranks of one machine share memory (shm), and
 * ranks of several machines use a network (NET), which is tcp. Where a machine has several ranks,
 * they share memory too (shm+NET). A backend that moves a device's memory works besides the one
 * that these rules choose.
 */
#include "comm/choose.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "comm/backend/modules.h"
#include "comm/call.h"

static const yk_backend_ops *find_built_in(const char *name)
{
    static const yk_backend_ops *const built_in[] = {&yki_backend_self, &yki_backend_shm,
                                                     &yki_backend_tcp, &yki_backend_sim};
    for (size_t i = 0; i < sizeof built_in / sizeof *built_in; i++)
        if (strcmp(name, built_in[i]->name) == 0)
            return built_in[i];
    return NULL;
}

/* The name of the network in that of two levels; NULL in any other name. */
static const char *network_of(const char *name)
{
    static const char two_level[] = "shm+";
    size_t prefix = strlen(two_level);
    return strncmp(name, two_level, prefix) == 0 ? name + prefix : NULL;
}

static bool is_tcp(const char *name)
{
    return strcmp(name, yki_backend_tcp.name) == 0;
}

static yk_status find_two_level(const yk_backend_ops **ops, const char *name)
{
    const yk_backend_ops *network = &yki_backend_tcp;
    if (!is_tcp(network_of(name)))
        YK_TRY(yki_module_find(&network, network_of(name)));
    if (network->capabilities & YK_BACKEND_DEVICE_MEMORY)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "backend \"%s\": %s moves the memory of devices, not the host's: name it "
                         "alone",
                         name, network->name);
    return yki_two_level_find(ops, network);
}

yk_status yki_backend_find(const yk_backend_ops **ops, const char *name)
{
    *ops = name ? find_built_in(name) : NULL;
    if (*ops || !name)
        return YK_OK;
    if (network_of(name))
        return find_two_level(ops, name);
    YK_TRY(yki_module_find(ops, name));
    return (*ops)->available ? (*ops)->available() : YK_OK;
}

yk_status yk_backend_check(const char *name)
{
    YKI_NOT_NULL(name);
    const char *network = network_of(name);
    if (network ? is_tcp(network) : find_built_in(name) != NULL)
        return YK_OK;
    return yki_module_exists(network ? network : name);
}

static yk_status choose_by_place(const yk_backend_ops **ops, const yki_job *job)
{
    *ops = job->world == 1 ? &yki_backend_self : &yki_backend_shm;
    if (job->hosts <= 1)
        return YK_OK;
    *ops = &yki_backend_tcp;
    return job->world > job->hosts ? yki_two_level_find(ops, *ops) : YK_OK;
}

static yk_status check_by_name(const yki_job *job, const char *name)
{
    bool self = strcmp(name, "self") == 0, alone = job->world == 1;
    if (self != alone)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "backend \"%s\" does not support %d rank%s",
                         name, job->world, alone ? "" : "s");
    return YK_OK;
}

/* "2 hosts with 2 ranks each", "2 hosts with 1 to 3 ranks", "one machine with 4 ranks". */
static void describe_places(const yki_job *job, char *text, size_t size)
{
    int least = job->world, most = 0;
    for (int r = 0; r < job->world; r++) {
        int here = 0;
        for (int other = 0; other < job->world; other++)
            here += strcmp(job->peers[other].machine, job->peers[r].machine) == 0;
        least = here < least ? here : least;
        most = here > most ? here : most;
    }
    if (job->hosts <= 1)
        snprintf(text, size, "one machine with %d %s", job->world,
                 yki_plural(job->world, "rank", "ranks"));
    else if (least == most)
        snprintf(text, size, "%d hosts with %d %s each", job->hosts, most,
                 yki_plural(most, "rank", "ranks"));
    else
        snprintf(text, size, "%d hosts with %d to %d ranks", job->hosts, least, most);
}

yk_status yki_backend_choose(const yk_backend_ops **ops, const yki_job *job, const char *name,
                             char *why, size_t why_size)
{
    describe_places(job, why, why_size);
    if (!name)
        return choose_by_place(ops, job);
    size_t used = strlen(why);
    snprintf(why + used, why_size - used, ", as asked for");
    return check_by_name(job, name);
}

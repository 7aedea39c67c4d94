/*
 * The choice of a backend. One rank needs none (self), ranks of one machine share memory (shm), and
 * ranks of several machines use a network (NET): gloo, or MPI where its launcher has started the
 * job and gloo is not installed. Where a machine has several ranks, they share memory too
 * (shm+NET). A backend that moves a device's memory works besides the one that these rules choose.
 */
#include "comm/choose.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "comm/backend/modules.h"
#include "comm/call.h"

static bool is_built_in(const char *name)
{
    return strcmp(name, "self") == 0 || strcmp(name, "shm") == 0;
}

static const char TWO_LEVEL[] = "shm+";

yk_status yki_backend_open_module(const yk_backend_ops **ops, const char *name)
{
    *ops = NULL;
    if (!name || is_built_in(name))
        return YK_OK;
    if (strcmp(name, yki_backend_sim.name) == 0) {
        *ops = &yki_backend_sim;
        return YK_OK;
    }
    size_t prefix = strlen(TWO_LEVEL);
    if (strncmp(name, TWO_LEVEL, prefix) != 0) {
        YK_TRY(yki_module_find(ops, name));
        return (*ops)->available ? (*ops)->available() : YK_OK;
    }
    const yk_backend_ops *network;
    YK_TRY(yki_module_find(&network, name + prefix));
    if (network->capabilities & YK_BACKEND_DEVICE_MEMORY)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "backend \"%s\": %s moves the memory of devices, not the host's: name it "
                         "alone",
                         name, network->name);
    return yki_two_level_find(ops, network);
}

yk_status yk_backend_check(const char *name)
{
    YKI_NOT_NULL(name);
    if (is_built_in(name) || strcmp(name, yki_backend_sim.name) == 0)
        return YK_OK;
    size_t prefix = strlen(TWO_LEVEL);
    return yki_module_exists(strncmp(name, TWO_LEVEL, prefix) == 0 ? name + prefix : name);
}

static bool started_by_mpi(void)
{
    return getenv("OMPI_COMM_WORLD_SIZE") || getenv("PMI_SIZE");
}

/* The error for a missing network is that of gloo, the usual one. */
static yk_status choose_network(const yk_backend_ops **ops)
{
    yk_status status = yki_module_find(ops, "gloo");
    if (status == YK_OK || !started_by_mpi())
        return status;
    char line[YKI_ERROR_LINE];
    yki_error_copy(line, sizeof line);
    return yki_module_find(ops, "mpi") == YK_OK ? YK_OK : yki_error_set_line(status, line);
}

static yk_status choose_by_place(const yk_backend_ops **ops, const yki_job *job)
{
    *ops = job->world == 1 ? &yki_backend_self : &yki_backend_shm;
    if (job->hosts <= 1)
        return YK_OK;
    YK_TRY(choose_network(ops));
    return job->world > job->hosts ? yki_two_level_find(ops, *ops) : YK_OK;
}

static yk_status choose_by_name(const yk_backend_ops **ops, const yki_job *job, const char *name)
{
    bool self = strcmp(name, "self") == 0, alone = job->world == 1;
    if (self != alone)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "backend \"%s\" does not support %d rank%s",
                         name, job->world, alone ? "" : "s");
    if (!*ops)
        *ops = self ? &yki_backend_self : &yki_backend_shm;
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
    return choose_by_name(ops, job, name);
}

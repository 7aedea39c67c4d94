/*
 * The port is a hash of the job's identity. Other programs may hold it, and the jobs of an array
 * may run on one node. Rank 0 therefore tries the next ports, and the others look for it at all of
 * them; the identity is a part of the secret, by which a store refuses the ranks of other jobs.
 */
#define _GNU_SOURCE
#include "comm/job/meeting_point.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <yoke/store.h>

#include "base/environment.h"
#include "comm/backend/modules.h"
#include "comm/job/host.h"
#include "comm/job/slurm.h"

/* Below the ports that systems give out by themselves. */
enum { FIRST_PORT = 10000, PORTS = 20000 };

static const char *text_of(const char *name, const char *otherwise)
{
    const char *text = getenv(name);
    return text && *text ? text : otherwise;
}

/* FNV-1a, the same on all hosts. */
static void choose_ports(yki_meeting_point *point)
{
    uint32_t hash = 2166136261u;
    for (const char *c = point->identity; *c; c++)
        hash = (hash ^ (unsigned char)*c) * 16777619u;
    point->port = FIRST_PORT + (int)(hash % PORTS);
    point->ports = YKI_MEETING_PORTS;
}

static void add_host(yki_meeting_point *point, const char *host)
{
    if (*host)
        snprintf(point->host[point->hosts++], sizeof point->host[0], "%s", host);
}

/* The process manager of this host. Its end of the socket that it gave us tells its pid. */
static int manager_of_mpich(void)
{
    struct ucred peer;
    socklen_t size = sizeof peer;
    long fd;
    if (yki_parse_int(text_of("PMI_FD", ""), 0, 1 << 20, &fd) &&
        getsockopt((int)fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.pid > 0)
        return (int)peer.pid;
    return (int)getppid();
}

/* All ranks of one mpirun on one host know the same number, and no other job does. */
static void mpi_identity(char *text, size_t size)
{
    const char *job = text_of("OMPI_MCA_ess_base_jobid", text_of("PMIX_NAMESPACE", NULL));
    if (!job)
        job = text_of("PMI_JOBID", NULL);
    if (job)
        snprintf(text, size, "mpi %.100s", job);
    else
        snprintf(text, size, "mpi %d", manager_of_mpich());
}

/*
 * Ranks of one mpirun on several hosts: MPI itself gives all of them rank 0's addresses and a
 * secret, as lines of one text.
 */
static yk_status ask_mpi(yki_meeting_point *point, const yki_place *place, double timeout_s)
{
    char text[512] = "", list[YKI_MEETING_HOSTS][YKI_ADDRESS_TEXT], secret[YK_STORE_SECRET_SIZE];
    int count = 0;
    if (place->rank == 0) {
        YK_TRY(yk_store_secret(secret, sizeof secret));
        YK_TRY(yki_host_all_addresses(list, YKI_MEETING_HOSTS, &count));
        size_t used = (size_t)snprintf(text, sizeof text, "mpi %s", secret);
        for (int i = 0; i < count; i++)
            used += (size_t)snprintf(text + used, sizeof text - used, "\n%s", list[i]);
    }
    YK_TRY(yki_module_share_text("mpi", text, sizeof text, timeout_s));
    char *rest = NULL, *line = strtok_r(text, "\n", &rest);
    snprintf(point->identity, sizeof point->identity, "%s", line ? line : "");
    while ((line = strtok_r(NULL, "\n", &rest)) && point->hosts < YKI_MEETING_HOSTS)
        add_host(point, line);
    point->secret = true;
    return point->hosts > 0 ? YK_OK : YK_ERROR_NOT_FOUND;
}

yk_status yki_meeting_point_derive(yki_meeting_point *point, const yki_place *place,
                                   double timeout_s)
{
    *point = (yki_meeting_point){0};
    if (place->slurm) {
        YK_TRY(yki_slurm_first_host(point->host[point->hosts++], sizeof point->host[0]));
        if (strcmp(point->host[0], "127.0.0.1") != 0)
            add_host(point, yki_slurm_launch_address());
        point->nodes = yki_slurm_other_hosts(&point->node_count);
        yki_slurm_identity(point->identity, sizeof point->identity);
    } else if (place->mpi && place->local_world == place->world) {
        add_host(point, "127.0.0.1");
        mpi_identity(point->identity, sizeof point->identity);
    } else if (place->mpi) {
        YK_TRY(ask_mpi(point, place, timeout_s));
    } else {
        return YK_ERROR_NOT_FOUND;
    }
    choose_ports(point);
    return YK_OK;
}

yk_status yki_meeting_point_of_torchrun(yki_meeting_point *point)
{
    *point = (yki_meeting_point){0};
    const char *host = text_of("MASTER_ADDR", NULL);
    if (!host)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "torchrun has started ranks on several hosts, but MASTER_ADDR is not set");
    add_host(point, host);
    snprintf(point->identity, sizeof point->identity, "torchrun %.60s %.60s %.8s",
             text_of("TORCHELASTIC_RUN_ID", "-"), host, text_of("MASTER_PORT", "-"));
    choose_ports(point);
    return YK_OK;
}

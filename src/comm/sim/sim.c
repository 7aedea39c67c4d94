/*
 * The backend that moves the memory of simulated devices (device/sim_link.h): as a device's library
 * would, later and in another order than a careless caller expects.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "comm/call.h"
#include "comm/engine/reduce.h"
#include "device/sim_link.h"

typedef struct sim_backend {
    yk_backend base;
    yki_sim_link *link;
} sim_backend;

static bool is_that_rank(const void *wait, int rank)
{
    return rank == *(const int *)wait;
}

/* The ranks tell each other the names of their ends of the link. */
static yk_status attach_all(sim_backend *sim, const yk_backend_site *site)
{
    char key[32], name[YKI_SIM_LINK_NAME];
    yki_sim_link_name(sim->link, name);
    snprintf(key, sizeof key, "link/%d", site->rank);
    YK_TRY(site->set(site->context, key, name, sizeof name));
    for (int r = 0; r < site->ranks; r++) {
        size_t used;
        yk_status status = YK_ERROR_TIMEOUT;
        snprintf(key, sizeof key, "link/%d", r);
        while (r != site->rank && status == YK_ERROR_TIMEOUT) {
            status = site->get(site->context, key, name, sizeof name, &used, 0.02);
            if (status == YK_ERROR_TIMEOUT)
                YK_TRY(site->look(site->context, is_that_rank, &r));
        }
        if (r != site->rank && status == YK_OK)
            status = yki_sim_link_attach(sim->link, r, name);
        if (r != site->rank)
            YK_TRY(status);
    }
    return YK_OK;
}

static void sim_close(yk_backend *backend)
{
    sim_backend *sim = (sim_backend *)backend;
    yki_sim_link_destroy(sim->link);
    free(sim);
}

static yk_status sim_open(yk_backend **backend, const yk_backend_site *site)
{
    *backend = NULL;
    if (strcmp(site->device->type, "sim") != 0)
        return yki_error(YK_ERROR_UNSUPPORTED,
                         "the sim backend does not move the memory of device %s",
                         site->device->type);
    sim_backend *sim = yki_calloc(1, sizeof *sim);
    if (!sim)
        return yki_error_memory(sizeof *sim, "the sim backend");
    sim->base.ops = &yki_backend_sim;
    yk_status status = yki_sim_link_create(&sim->link, site->rank, site->ranks, yki_reduce_ranks);
    if (status == YK_OK)
        status = attach_all(sim, site);
    if (status != YK_OK)
        sim_close(&sim->base);
    else
        *backend = &sim->base;
    return status;
}

static yk_status sim_enqueue(yk_backend *backend, const yk_backend_call *call)
{
    return yki_sim_link_enter(((sim_backend *)backend)->link, call, call->stream);
}

/* A rank that is lost is the group's to notice. */
static yk_status sim_check(yk_backend *backend)
{
    (void)backend;
    return YK_OK;
}

static void sim_abort(yk_backend *backend, yk_status status, const char *line)
{
    yki_sim_link_abort(((sim_backend *)backend)->link, status, line);
}

const yk_backend_ops yki_backend_sim = {
    .version = YK_BACKEND_VERSION,
    .size = sizeof(yk_backend_ops),
    .name = "sim",
    .capabilities = YK_BACKEND_RANK_ORDER | YK_BACKEND_DEVICE_MEMORY,
    .max_works = 1,
    .open = sim_open,
    .close = sim_close,
    .enqueue = sim_enqueue,
    .check = sim_check,
    .abort = sim_abort,
};

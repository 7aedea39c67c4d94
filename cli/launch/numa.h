/*
 * `yoke run --numa-binding`: which processors the ranks of a host are bound to, so that each one
 * stays near its GPU or its memory. The modes are torchrun's (torch.numa.binding).
 */
#ifndef YOKE_CLI_LAUNCH_NUMA_H
#define YOKE_CLI_LAUNCH_NUMA_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>

#include "launch/topology.h"

#define CLI_NUMA_MODES "node|socket|exclusive|core-complex"

typedef enum cli_numa_mode {                       /* numbered like CLI_NUMA_MODES */
                             CLI_NUMA_NODE,        /* the rank's NUMA node */
                             CLI_NUMA_SOCKET,      /* all nodes of that node's socket */
                             CLI_NUMA_EXCLUSIVE,   /* physical cores of the node that no other rank
                                                      has */
                             CLI_NUMA_CORE_COMPLEX /* processors of the node that share a last-level
                                                      cache */
} cli_numa_mode;

typedef struct cli_numa_request {
    cli_numa_mode mode;
    const cli_topology *topology;
    const char *visible_gpus; /* the value of CUDA_VISIBLE_DEVICES, or NULL */
    int ranks;                /* on this host */
    int cores;                /* that the ranks may keep busy: affinity, and the cgroup's quota */
} cli_numa_request;

/* What a rank gets. */
typedef struct cli_binding {
    int node;
    cpu_set_t processors;
    int threads; /* that suit them, considering the ranks that are bound to them as well */
} cli_binding;

/* Fills bindings[ranks]; returns false, with the reason in why, if a rank cannot be bound. */
bool cli_numa_bind(const cli_numa_request *request, cli_binding *bindings, char *why, size_t size);

#endif

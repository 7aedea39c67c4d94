/*
 * Where the processors and GPUs of this host are, as sysfs describes them. A processor is what the
 * kernel numbers: a physical core, or one of its hardware threads.
 */
#ifndef YOKE_CLI_LAUNCH_TOPOLOGY_H
#define YOKE_CLI_LAUNCH_TOPOLOGY_H

#include <sched.h>

enum { CLI_GPUS_MAX = 64 };

typedef struct cli_processor {
    int node; /* the NUMA node */
    int socket;
    int core;  /* the first processor of its physical core */
    int cache; /* the first processor that has the same last-level cache */
} cli_processor;

typedef struct cli_topology {
    cpu_set_t allowed; /* the processors that this process may use; only these are described */
    cli_processor processors[CPU_SETSIZE];
    int gpus;
    int gpu_nodes[CLI_GPUS_MAX]; /* NUMA nodes of NVIDIA's GPUs, in the order of PCI addresses */
} cli_topology;

/*
 * Reads the sysfs that is mounted at `sysfs`. What it does not tell is 0: a kernel without NUMA has
 * one node, and a GPU whose node is unknown (-1) belongs to node 0. A processor without siblings is
 * a physical core.
 */
void cli_topology_read(cli_topology *topology, const char *sysfs, const cpu_set_t *allowed);

#endif

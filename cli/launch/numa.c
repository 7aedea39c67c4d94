/*
 * See numa.h. A rank belongs to the NUMA node of its GPU: local rank r uses the visible GPU r, or r
 * modulo their number, as ranks share GPUs (modules/cuda). Without GPUs, ranks are divided among
 * the nodes in equal blocks. The mode then selects processors around the node.
 *
 * torchrun divides a node among its GPUs. Here it is divided among its ranks, so that nothing is
 * idle when there are fewer.
 */
#define _GNU_SOURCE
#include "launch/numa.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- nodes ---------------------------------------------------------------------------------- */

/* The member at a position of a set, from 0; -1 if it has fewer. */
static int member_at(const cpu_set_t *set, int position)
{
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, set) && position-- == 0)
            return i;
    return -1;
}

static cpu_set_t processors_of_node(const cli_topology *topology, int node)
{
    cpu_set_t members;
    CPU_ZERO(&members);
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &topology->allowed) && topology->processors[i].node == node)
            CPU_SET(i, &members);
    return members;
}

/* The physical cores of a node, each by its first processor. */
static cpu_set_t cores_of_node(const cli_topology *topology, int node)
{
    cpu_set_t members = processors_of_node(topology, node), cores;
    CPU_ZERO(&cores);
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &members))
            CPU_SET(topology->processors[i].core, &cores);
    return cores;
}

/* The nodes that have processors. */
static cpu_set_t list_nodes(const cli_topology *topology)
{
    cpu_set_t nodes;
    CPU_ZERO(&nodes);
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &topology->allowed))
            CPU_SET(topology->processors[i].node, &nodes);
    return nodes;
}

/*
 * Lists the GPUs that CUDA shows to the ranks: all, or those of CUDA_VISIBLE_DEVICES up to the
 * first entry that is none. Returns their number, or -1 if one of them is named by its UUID, which
 * sysfs does not tell.
 */
static int list_gpus(const cli_numa_request *request, int gpus[CLI_GPUS_MAX])
{
    const char *at = request->visible_gpus;
    int count = 0, found = request->topology->gpus;
    for (; !at && count < found; count++)
        gpus[count] = count;
    while (at && count < found) {
        char *end;
        long index = strtol(at, &end, 10);
        if (strncmp(at, "GPU-", 4) == 0 || strncmp(at, "MIG-", 4) == 0)
            return -1;
        if (end == at || index < 0 || index >= found)
            break;
        gpus[count++] = (int)index;
        at = *end == ',' ? end + 1 : NULL;
    }
    return count;
}

/* Sets the node of each rank; false if its GPU is not known. */
static bool set_nodes(const cli_numa_request *request, cli_binding *bindings)
{
    const cli_topology *topology = request->topology;
    int gpus[CLI_GPUS_MAX], count = list_gpus(request, gpus);
    cpu_set_t nodes = list_nodes(topology);
    for (int rank = 0; rank < request->ranks && count >= 0; rank++)
        bindings[rank].node = count > 0
                                  ? topology->gpu_nodes[gpus[rank % count]]
                                  : member_at(&nodes, rank * CPU_COUNT(&nodes) / request->ranks);
    return count >= 0;
}

/* ---- modes ---------------------------------------------------------------------------------- */

/* A rank's place among the ranks of its node. */
typedef struct place {
    int node, index, ranks;
} place;

static place find_place(const cli_numa_request *request, const cli_binding *bindings, int rank)
{
    place found = {.node = bindings[rank].node};
    for (int i = 0; i < request->ranks; i++) {
        found.ranks += bindings[i].node == found.node;
        found.index += bindings[i].node == found.node && i < rank;
    }
    return found;
}

/* A node belongs to the socket of its first processor. */
static int socket_of_node(const cli_topology *topology, int node)
{
    cpu_set_t members = processors_of_node(topology, node);
    int first = member_at(&members, 0);
    return first >= 0 ? topology->processors[first].socket : -1;
}

static cpu_set_t processors_of_socket(const cli_topology *topology, int socket)
{
    cpu_set_t nodes = list_nodes(topology), members, all;
    CPU_ZERO(&all);
    for (int node = 0; node < CPU_SETSIZE; node++)
        if (CPU_ISSET(node, &nodes) && socket_of_node(topology, node) == socket) {
            members = processors_of_node(topology, node);
            CPU_OR(&all, &all, &members);
        }
    return all;
}

/* Equal ranges of the node's physical cores; the first ranks get what is left over. */
static cpu_set_t processors_of_share(const cli_topology *topology, place at)
{
    cpu_set_t members = processors_of_node(topology, at.node), share;
    cpu_set_t cores = cores_of_node(topology, at.node);
    int count = CPU_COUNT(&cores) / at.ranks, rest = CPU_COUNT(&cores) % at.ranks;
    int first = at.index * count + (at.index < rest ? at.index : rest);
    int end = first + count + (at.index < rest);
    CPU_ZERO(&share);
    for (int position = first; position < end; position++) {
        int core = member_at(&cores, position);
        for (int i = 0; i < CPU_SETSIZE; i++)
            if (CPU_ISSET(i, &members) && topology->processors[i].core == core)
                CPU_SET(i, &share);
    }
    return share;
}

/* The largest of the sizes, the first one if several are equal; -1 if all are 0. */
static int find_largest(const int sizes[CPU_SETSIZE])
{
    int largest = -1;
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (sizes[i] > (largest < 0 ? 0 : sizes[largest]))
            largest = i;
    return largest;
}

/* The node's complexes in turn, larger ones first; ranks share them if there are too few. */
static cpu_set_t processors_of_complex(const cli_topology *topology, place at)
{
    cpu_set_t members = processors_of_node(topology, at.node), own;
    int sizes[CPU_SETSIZE] = {0}, complexes = 0, cache = -1;
    CPU_ZERO(&own);
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &members))
            complexes += sizes[topology->processors[i].cache]++ == 0;
    for (int turn = 0; complexes > 0 && turn <= at.index % complexes; turn++) {
        cache = find_largest(sizes);
        sizes[cache] = 0;
    }
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &members) && topology->processors[i].cache == cache)
            CPU_SET(i, &own);
    return own;
}

static cpu_set_t select_processors(const cli_numa_request *request, place at)
{
    const cli_topology *topology = request->topology;
    switch (request->mode) {
    case CLI_NUMA_SOCKET:
        return processors_of_socket(topology, socket_of_node(topology, at.node));
    case CLI_NUMA_EXCLUSIVE:
        return processors_of_share(topology, at);
    case CLI_NUMA_CORE_COMPLEX:
        return processors_of_complex(topology, at);
    case CLI_NUMA_NODE:
        break;
    }
    return processors_of_node(topology, at.node);
}

/* ---- threads -------------------------------------------------------------------------------- */

/* Processors are divided among the ranks that are bound to them, and so is a quota among all. */
static void set_threads(const cli_numa_request *request, cli_binding *bindings)
{
    int sharers[CPU_SETSIZE] = {0};
    double quota = (double)request->cores / CPU_COUNT(&request->topology->allowed);
    for (int rank = 0; rank < request->ranks; rank++)
        for (int i = 0; i < CPU_SETSIZE; i++)
            sharers[i] += CPU_ISSET(i, &bindings[rank].processors) != 0;
    for (int rank = 0; rank < request->ranks; rank++) {
        double share = 1e-6; /* three thirds are one */
        for (int i = 0; i < CPU_SETSIZE; i++)
            if (CPU_ISSET(i, &bindings[rank].processors))
                share += quota / sharers[i];
        bindings[rank].threads = share < 1 ? 1 : (int)share;
    }
}

static bool explain_gpus(const cli_numa_request *request, char *why, size_t size)
{
    snprintf(why, size, "CUDA_VISIBLE_DEVICES=%s: expected indices of GPUs, not UUIDs",
             request->visible_gpus);
    return false;
}

static bool explain_cores(const cli_topology *topology, place at, int rank, char *why, size_t size)
{
    cpu_set_t cores = cores_of_node(topology, at.node);
    snprintf(why, size,
             "no core is left for local rank %d on NUMA node %d (ranks there: %d; physical cores "
             "that the launcher may use: %d)",
             rank, at.node, at.ranks, CPU_COUNT(&cores));
    return false;
}

bool cli_numa_bind(const cli_numa_request *request, cli_binding *bindings, char *why, size_t size)
{
    if (!set_nodes(request, bindings))
        return explain_gpus(request, why, size);
    for (int rank = 0; rank < request->ranks; rank++) {
        place at = find_place(request, bindings, rank);
        bindings[rank].processors = select_processors(request, at);
        if (CPU_COUNT(&bindings[rank].processors) == 0)
            return explain_cores(request->topology, at, rank, why, size);
    }
    set_threads(request, bindings);
    return true;
}

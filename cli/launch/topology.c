/* See topology.h. The files are described in the kernel's Documentation/ABI (sysfs-devices-node,
 * sysfs-devices-system-cpu, sysfs-bus-pci). */
#define _GNU_SOURCE
#include "launch/topology.h"

#include <dirent.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- files ---------------------------------------------------------------------------------- */

/* Opens the file with this path; NULL if there is none. */
__attribute__((format(printf, 1, 2))) static FILE *open_file(const char *format, ...)
{
    char path[PATH_MAX];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(path, sizeof path, format, arguments);
    va_end(arguments);
    return fopen(path, "re");
}

/* Reads a number that is not negative and closes the file; 0 if there is none. */
static int read_number(FILE *file)
{
    int number = 0;
    if (file && (fscanf(file, "%d", &number) != 1 || number < 0))
        number = 0;
    if (file)
        fclose(file);
    return number;
}

/* Reads a list such as "0-3,8" and closes the file; the set is empty if there is none. */
static void read_list(FILE *file, cpu_set_t *set)
{
    int first, last;
    CPU_ZERO(set);
    while (file && fscanf(file, "%d", &first) == 1 && first >= 0) {
        if (fscanf(file, "-%d", &last) != 1)
            last = first;
        for (int i = first; i <= last && i < CPU_SETSIZE; i++)
            CPU_SET(i, set);
        if (fgetc(file) != ',')
            break;
    }
    if (file)
        fclose(file);
}

/* The first number of a list, or `missing` if there is none. */
static int read_first(FILE *file, int missing)
{
    cpu_set_t set;
    read_list(file, &set);
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &set))
            return i;
    return missing;
}

/* ---- processors ----------------------------------------------------------------------------- */

static void read_nodes(cli_topology *topology, const char *sysfs)
{
    cpu_set_t nodes, members;
    read_list(open_file("%s/devices/system/node/online", sysfs), &nodes);
    for (int node = 0; node < CPU_SETSIZE; node++) {
        if (!CPU_ISSET(node, &nodes))
            continue;
        read_list(open_file("%s/devices/system/node/node%d/cpulist", sysfs, node), &members);
        for (int i = 0; i < CPU_SETSIZE; i++)
            if (CPU_ISSET(i, &members))
                topology->processors[i].node = node;
    }
}

/* Data, unified or instruction: of the three, only instruction caches begin with an I. */
static int holds_data(const char *cache)
{
    FILE *file = open_file("%s/type", cache);
    int first = file ? fgetc(file) : EOF;
    if (file)
        fclose(file);
    return first != 'I';
}

static int read_last_cache(const char *processor)
{
    int first = 0, highest = 0, level;
    char cache[PATH_MAX];
    for (int i = 0;; i++) {
        snprintf(cache, sizeof cache, "%s/cache/index%d", processor, i);
        level = read_number(open_file("%s/level", cache));
        if (level == 0)
            return first;
        if (level <= highest || !holds_data(cache))
            continue;
        highest = level;
        first = read_first(open_file("%s/shared_cpu_list", cache), 0);
    }
}

static void read_processor(cli_processor *processor, const char *sysfs, int number)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/devices/system/cpu/cpu%d", sysfs, number);
    processor->socket = read_number(open_file("%s/topology/physical_package_id", path));
    processor->core = read_first(open_file("%s/topology/thread_siblings_list", path), number);
    processor->cache = read_last_cache(path);
}

/* ---- GPUs ----------------------------------------------------------------------------------- */

static int is_address(const struct dirent *entry)
{
    return strchr(entry->d_name, ':') != NULL;
}

/* Addresses differ in length when a domain has more than four digits. */
static int compare_addresses(const struct dirent **a, const struct dirent **b)
{
    size_t length_a = strlen((*a)->d_name), length_b = strlen((*b)->d_name);
    if (length_a != length_b)
        return length_a < length_b ? -1 : 1;
    return strcmp((*a)->d_name, (*b)->d_name);
}

static void read_gpus(cli_topology *topology, const char *sysfs)
{
    char folder[PATH_MAX];
    struct dirent **entries;
    snprintf(folder, sizeof folder, "%s/bus/pci/drivers/nvidia", sysfs);
    int count = scandir(folder, &entries, is_address, compare_addresses);
    if (count < 0)
        return;
    for (int i = 0; i < count; i++) {
        if (i < CLI_GPUS_MAX)
            topology->gpu_nodes[topology->gpus++] =
                read_number(open_file("%s/%s/numa_node", folder, entries[i]->d_name));
        free(entries[i]);
    }
    free(entries);
}

void cli_topology_read(cli_topology *topology, const char *sysfs, const cpu_set_t *allowed)
{
    *topology = (cli_topology){.allowed = *allowed};
    read_nodes(topology, sysfs);
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, allowed))
            read_processor(&topology->processors[i], sysfs, i);
    read_gpus(topology, sysfs);
}

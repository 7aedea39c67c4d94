/* The variables are described in srun(1). Those of the step differ from those of the job where a
 * step uses a part of the allocation. */
#include "comm/job/slurm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/environment.h"
#include "comm/job/hostlist.h"

#define FIRST_SPECIAL_STEP 0xfffffff0L

static const char *text_of(const char *name, const char *otherwise)
{
    const char *text = getenv(name);
    return text && *text ? text : otherwise;
}

static long number_of(const char *name)
{
    long number;
    return yki_parse_int(text_of(name, ""), 0, 1L << 32, &number) ? number : -1;
}

bool yki_slurm_in_step(void)
{
    long step = number_of("SLURM_STEP_ID");
    return step >= 0 && step < FIRST_SPECIAL_STEP;
}

static const char *step_nodes(void)
{
    return text_of("SLURM_STEP_NODELIST", text_of("SLURM_JOB_NODELIST", NULL));
}

/* Where this node is in the step's lists. SLURM_NODEID tells it, but not among the components of a
 * heterogeneous job, whose lists are sorted by name. */
static long own_index(void)
{
    char host[256];
    const char *own = text_of("SLURMD_NODENAME", NULL), *nodes = step_nodes();
    long count = number_of("SLURM_STEP_NUM_NODES");
    for (long i = 0; own && nodes && i < count; i++)
        if (yki_hostlist_get(host, sizeof host, nodes, i) == YK_OK && strcmp(host, own) == 0)
            return i;
    return number_of("SLURM_NODEID");
}

int yki_slurm_local_tasks(void)
{
    const char *tasks = text_of("SLURM_STEP_TASKS_PER_NODE", text_of("SLURM_TASKS_PER_NODE", NULL));
    long node = own_index(), count;
    if (!tasks || node < 0 || yki_countlist_get(&count, tasks, node) != YK_OK || count > 1 << 16)
        return -1;
    return (int)count;
}

yk_status yki_slurm_first_host(char *host, size_t size)
{
    const char *nodes = step_nodes();
    if (number_of("SLURM_STEP_NUM_NODES") == 1 || !nodes) {
        snprintf(host, size, "127.0.0.1");
        return YK_OK;
    }
    return yki_hostlist_get(host, size, nodes, 0);
}

const char *yki_slurm_other_hosts(int *count)
{
    long nodes = number_of("SLURM_STEP_NUM_NODES");
    bool any = strcmp(text_of("SLURM_DISTRIBUTION", ""), "arbitrary") == 0 ||
               number_of("SLURM_HET_SIZE") > 1;
    *count = any && nodes > 1 ? (int)nodes : 0;
    return *count ? step_nodes() : NULL;
}

const char *yki_slurm_launch_address(void)
{
    return text_of("SLURM_LAUNCH_NODE_IPADDR", text_of("SLURM_SRUN_COMM_HOST", ""));
}

void yki_slurm_identity(char *text, size_t size)
{
    snprintf(text, size, "slurm %s %s %s %s", text_of("SLURM_CLUSTER_NAME", "-"),
             text_of("SLURM_JOB_ID", "-"), text_of("SLURM_ARRAY_TASK_ID", "-"),
             text_of("SLURM_STEP_ID", "-"));
}

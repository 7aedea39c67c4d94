/*
 * See origin.h.
 *
 * An elastic launcher gives all ranks its run id, which users often leave at "none" or use again.
 * Where all ranks are on one host, yoke's draws an id for the job, too. The file for errors is in a
 * folder that each agent of torchrun draws when it starts, and which it keeps over restarts; other
 * hosts have other agents. Where the job has several hosts and an id of its own, rank 0 may be on
 * another host after a restart, so the id alone counts. It does so, too, under yoke's launcher on
 * several hosts, which does not start ranks again that have refused a folder.
 */
#define _GNU_SOURCE
#include "checkpoint/origin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "io/hash.h"

static const char *text_of(const char *variable)
{
    const char *text = getenv(variable);
    return text ? text : "";
}

static bool is_positive(const char *variable)
{
    return atoll(text_of(variable)) > 0;
}

void yki_origin_keep(char kept[YKI_ORIGIN_NAME], const char *name, size_t length)
{
    char hash[YKI_SHA256_TEXT];
    if (length < YKI_ORIGIN_NAME && yki_utf8_is_valid(name, length))
        snprintf(kept, YKI_ORIGIN_NAME, "%.*s", (int)length, name);
    else if (yki_sha256_memory(name, length, hash) == YK_OK)
        snprintf(kept, YKI_ORIGIN_NAME, "sha256:%s", hash);
    else
        kept[0] = '\0';
}

/* LOGS/attempt_N/LOCAL_RANK/error.json */
static void find_agent(char agent[YKI_ORIGIN_NAME])
{
    const char *file = text_of("TORCHELASTIC_ERROR_FILE"), *end = NULL;
    const char *id = text_of("YOKE_JOB_ID");
    if (*id) {
        yki_origin_keep(agent, id, strlen(id));
        return;
    }
    for (const char *at = file; (at = strstr(at, "/attempt_")); at++)
        end = at;
    if (end)
        yki_origin_keep(agent, file, (size_t)(end - file));
}

yki_origin yki_origin_here(void)
{
    yki_origin here = {.slurm_job = ""};
    const char *job = text_of("SLURM_JOB_ID"), *run = text_of("TORCHELASTIC_RUN_ID");
    yki_origin_keep(here.slurm_job, job, strlen(job));
    yki_origin_keep(here.run_id, run, strlen(run));
    const bool named = *run && strcmp(run, "none") != 0;
    const bool judges = *text_of("YOKE_USE_LAUNCHER_STORE") != '\0';
    if ((!named && !judges) || atoll(text_of("GROUP_WORLD_SIZE")) <= 1)
        find_agent(here.agent);
    return here;
}

/* A job whose number of hosts has changed has an agent in one of the two. */
static bool is_same_run(const yki_origin *a, const yki_origin *b)
{
    return strcmp(a->run_id, b->run_id) == 0 &&
           (!a->agent[0] || !b->agent[0] || strcmp(a->agent, b->agent) == 0);
}

bool yki_origin_is_restarted(const yki_origin *origin)
{
    const yki_origin here = yki_origin_here();
    return (is_positive("SLURM_RESTART_COUNT") && here.slurm_job[0] &&
            strcmp(origin->slurm_job, here.slurm_job) == 0) ||
           (is_positive("TORCHELASTIC_RESTART_COUNT") && is_same_run(origin, &here));
}

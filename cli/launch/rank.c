/*
 * Starts one rank: its environment (that of torchrun), its cores and its process.
 */
#define _GNU_SOURCE
#include "common/spinning.h"
#include "launch/launch.h"
#include "launch/process.h"

#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <yoke/store.h>
#include <yoke/system.h>

extern char **environ;

/* ---- environment ---------------------------------------------------------------------------- */

typedef struct environment {
    char **entries; /* "NAME=value", ended by NULL */
    size_t count;
    bool failed;
} environment;

static void environment_free(environment *env)
{
    for (size_t i = 0; env->entries && i < env->count; i++)
        free(env->entries[i]);
    free(env->entries);
}

/* Sets the variable in "NAME=value", replacing an earlier value. There is room for all variables
 * that rank_environment adds. */
__attribute__((format(printf, 2, 3))) static void set(environment *env, const char *format, ...)
{
    char *entry;
    va_list arguments;
    va_start(arguments, format);
    int made = vasprintf(&entry, format, arguments);
    va_end(arguments);
    if (made < 0) {
        env->failed = true;
        return;
    }
    size_t length = strcspn(entry, "=") + 1, at = 0;
    while (at < env->count && strncmp(env->entries[at], entry, length) != 0)
        at++;
    if (at == env->count)
        env->count++;
    else
        free(env->entries[at]);
    env->entries[at] = entry;
}

static void set_ranks(environment *env, const cli_rank_setting *setting)
{
    const cli_launch *launch = setting->launch;
    const cli_round *round = setting->round;
    int rank = round->first_rank + setting->local_rank;
    set(env, "RANK=%d", rank);
    set(env, "LOCAL_RANK=%d", setting->local_rank);
    set(env, "WORLD_SIZE=%d", round->world);
    set(env, "LOCAL_WORLD_SIZE=%d", launch->ranks);
    set(env, "GROUP_RANK=%d", round->node);
    set(env, "GROUP_WORLD_SIZE=%d", round->nodes);
    set(env, "ROLE_NAME=%s", launch->role);
    set(env, "ROLE_RANK=%d", rank);
    set(env, "ROLE_WORLD_SIZE=%d", round->world);
}

/* The rank's only device: one of the launcher's CUDA_VISIBLE_DEVICES, where that is set. */
static void set_virtual_rank(environment *env, int local_rank)
{
    const char *list = getenv("CUDA_VISIBLE_DEVICES");
    set(env, "LOCAL_RANK=0");
    for (int before = local_rank; list && before > 0; before--) {
        list += strcspn(list, ",");
        list += *list == ',';
    }
    if (list)
        set(env, "CUDA_VISIBLE_DEVICES=%.*s", (int)strcspn(list, ","), list);
    else
        set(env, "CUDA_VISIBLE_DEVICES=%d", local_rank);
}

/* Tells this job from others of the same name, over its restarts. Launchers on several hosts would
 * draw different ones. */
static void set_job_id(environment *env, const cli_launch *launch)
{
    static char id[YK_STORE_SECRET_SIZE];
    if (launch->nodes_max > 1 || (!id[0] && yk_store_secret(id, sizeof id) != YK_OK))
        return;
    set(env, "YOKE_JOB_ID=%.16s", id);
}

static void set_rendezvous(environment *env, const cli_rank_setting *setting)
{
    const cli_round *round = setting->round;
    set(env, "MASTER_ADDR=%s", round->master_address);
    set(env, "MASTER_PORT=%d", round->master_port);
    set(env, "TORCHELASTIC_RESTART_COUNT=%d", round->attempt);
    set(env, "TORCHELASTIC_MAX_RESTARTS=%d", setting->launch->max_restarts);
    set(env, "TORCHELASTIC_RUN_ID=%s", setting->launch->run_id);
    set(env, "TORCHELASTIC_USE_AGENT_STORE=False"); /* PyTorch's rank 0 serves at MASTER_PORT */
    set(env, "YOKE_USE_LAUNCHER_STORE=1");
    set(env, "YOKE_STORE_PORT=%d", round->store_port);
    set(env, "YOKE_SECRET=%s", round->secret);
    set_job_id(env, setting->launch);
    if (setting->launch->local_address)
        set(env, "YOKE_LOCAL_ADDR=%s", setting->launch->local_address);
}

static int rank_threads(const cli_launch *launch, int rank)
{
    return launch->bindings ? launch->bindings[rank].threads : yk_threads_default(launch->ranks);
}

bool cli_threads_are_chosen(void)
{
    const char *threads = getenv("OMP_NUM_THREADS"), *chosen = getenv("YOKE_THREADS_CHOSEN");
    return !threads || (chosen && strcmp(threads, chosen) == 0);
}

static environment rank_environment(const cli_rank_setting *setting)
{
    enum { ADDED = 32 };
    size_t inherited = 0;
    while (environ[inherited])
        inherited++;
    environment env = {.entries = calloc(inherited + ADDED + 1, sizeof *env.entries)};
    env.failed = !env.entries;
    for (; !env.failed && env.count < inherited; env.count++)
        if (!(env.entries[env.count] = strdup(environ[env.count])))
            env.failed = true;
    if (env.failed)
        return env;

    set_ranks(&env, setting);
    set_rendezvous(&env, setting);
    if (setting->launch->virtual_local_rank)
        set_virtual_rank(&env, setting->local_rank);
    if (cli_threads_are_chosen()) {
        int threads = rank_threads(setting->launch, setting->local_rank);
        set(&env, "OMP_NUM_THREADS=%d", threads);
        set(&env, "YOKE_THREADS_CHOSEN=%d", threads);
    }
    if (!cli_spinning_is_set())
        set(&env, CLI_SPIN_VARIABLE "=" CLI_SPIN_COUNT);
    if (setting->error_file)
        set(&env, "TORCHELASTIC_ERROR_FILE=%s", setting->error_file);
    if (setting->terminal_columns && setting->launch->rank0_speaks && setting->local_rank == 0)
        set(&env, "YOKE_TERMINAL=%d", setting->terminal_columns);
    return env;
}

/* ---- cores ---------------------------------------------------------------------------------- */

/*
 * Local rank r of n gets the r-th of n equal ranges of the cores that the launcher may use, or what
 * --numa-binding says. With more ranks than cores, ranks are not pinned, so that the scheduler can
 * balance them.
 */
static bool rank_cores(const cli_launch *launch, int rank, cpu_set_t *cores)
{
    cpu_set_t all;
    if (launch->bindings) {
        *cores = launch->bindings[rank].processors;
        return true;
    }
    if (launch->no_pin || sched_getaffinity(0, sizeof all, &all))
        return false;
    int count = CPU_COUNT(&all);
    if (launch->ranks > count)
        return false;
    int first = rank * count / launch->ranks, end = (rank + 1) * count / launch->ranks;
    CPU_ZERO(cores);
    for (int cpu = 0, seen = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &all)) {
            if (seen >= first && seen < end)
                CPU_SET(cpu, cores);
            seen++;
        }
    return true;
}

/* ---- process -------------------------------------------------------------------------------- */

pid_t cli_rank_start(const cli_rank_setting *setting, int *out, int *err)
{
    cpu_set_t cores;
    bool pinned = rank_cores(setting->launch, setting->local_rank, &cores);
    environment env = rank_environment(setting);
    pid_t pid = -1;
    int reason = ENOMEM;
    if (!env.failed) {
        cli_process rank = {.program = setting->launch->program,
                            .environment = env.entries,
                            .cores = pinned ? &cores : NULL};
        pid = cli_process_start(&rank, NULL, out, err);
        reason = errno;
    }
    environment_free(&env);
    errno = reason;
    return pid;
}

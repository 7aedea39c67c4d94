/*
 * `yoke ps`: the ranks of running jobs and what they wait for, from the keys that the ranks keep in
 * their job's store (meeting.c, watch.c and waiting.c in src/comm/job): group/0/ranks, a line "PID
 * MACHINE HOST ADDRESS" per rank, group/N/step/RANK, a number, and group/N/waiting/RANK, "SEQUENCE
 * SINCE OPERATION PEER WORDS".
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <yoke/store.h>

#include "cli.h"
#include "launch/herald.h"
#include "launch/net.h"
#include "options/options.h"

enum { VALUE_MAX = 1 << 20, JOBS_MAX = 64 };

static const double patience_s = 3;

static const char summary[] =
    "Lists the ranks of running jobs: host, pid, the training steps that a rank has finished, and\n"
    "the collective that it has waited for longer than a second, with its sequence number.\n"
    "Without HOST:PORT, these are the jobs that have a rank of this user on this host, whatever\n"
    "launcher has started them. HOST:PORT is the rendezvous of a job on any host; the job's\n"
    "secret is taken from YOKE_SECRET.";

/* Where a job's ranks have their store. */
typedef struct job_address {
    char host[256], secret[512];
    int port;
} job_address;

/* Values of the store. */
typedef struct job_texts {
    char ranks[VALUE_MAX + 1], keys[VALUE_MAX + 1], step[VALUE_MAX + 1], waiting[VALUE_MAX + 1];
} job_texts;

/* ---- printing ------------------------------------------------------------------------------- */

static bool get_text(yk_store *store, const char *key, char *text)
{
    size_t used;
    if (yk_store_get(store, key, text, VALUE_MAX, &used, 0) != YK_OK)
        return false;
    text[used] = '\0';
    return true;
}

/* The rank's entry NAME in the newest of its groups that has one; false if there is none. */
static bool find_entry(yk_store *store, const char *keys, size_t size, const char *name, int rank,
                       char *text)
{
    char ending[32];
    const char *newest = NULL;
    int newest_group = -1;
    snprintf(ending, sizeof ending, "/%s/%d", name, rank);
    for (const char *key = keys; key < keys + size; key += strlen(key) + 1) {
        int group, at = 0;
        if (sscanf(key, "group/%d%n", &group, &at) != 1 || strcmp(key + at, ending) != 0 ||
            group < newest_group)
            continue;
        newest = key;
        newest_group = group;
    }
    return newest && get_text(store, newest, text);
}

/* step and waiting are NULL where they are not known. */
static void print_rank(int rank, const char *entry, const char *step, const char *waiting)
{
    int pid = 0, at = 0;
    char host[65] = "?";
    long long sequence, seconds;
    sscanf(entry, "%d %*s %64s", &pid, host);
    printf("%5d  %-16s %8d  %8s  ", rank, host, pid, step ? step : "-");
    if (waiting && sscanf(waiting, "%lld %lld %*d %*d %n", &sequence, &seconds, &at) == 2 && at > 0)
        printf("%8lld  %6lld s  %s\n", sequence, seconds, waiting + at);
    else
        printf("%8s  %8s  -\n", "-", "-");
}

static bool print_ranks(yk_store *store, job_texts *texts)
{
    size_t size = 0;
    char *keys = texts->keys;
    if (yk_store_list(store, "group/", keys, VALUE_MAX, &size) != YK_OK) {
        fprintf(stderr, "%s\n", yk_last_error());
        return false;
    }
    if (!get_text(store, "group/0/ranks", texts->ranks)) {
        puts(size ? "The ranks have not met yet."
                  : "The ranks have not met yet, or this is not the host of --rdzv-endpoint.");
        return true;
    }
    printf("%5s  %-16s %8s  %8s  %8s  %8s  %s\n", "rank", "host", "pid", "step", "sequence",
           "waiting", "for");
    char *line, *rest = texts->ranks;
    for (int rank = 0; (line = strsep(&rest, "\n")) && *line; rank++) {
        bool steps = find_entry(store, keys, size, "step", rank, texts->step);
        bool waits = find_entry(store, keys, size, "waiting", rank, texts->waiting);
        print_rank(rank, line, steps ? texts->step : NULL, waits ? texts->waiting : NULL);
    }
    return true;
}

/* Follows the rendezvous of several launchers to the store of the ranks; false after an error. */
static bool follow_rendezvous(yk_store **store, const job_address *job)
{
    char text[512], drawn[256];
    size_t used;
    int port;
    if (yk_store_get(*store, "attempt", text, sizeof text - 1, &used, 0) != YK_OK)
        return true;
    text[used] = '\0';
    if (sscanf(text, "%d %255s", &port, drawn) != 2)
        return true;
    yk_store_destroy(*store);
    const char *secret = strcmp(drawn, "-") == 0 ? job->secret : drawn;
    return yk_store_connect(store, job->host, port, secret, patience_s) == YK_OK;
}

/* To the rendezvous, from a store whose host knows where another has taken it over. */
static bool follow_herald(yk_store **store, job_address *job)
{
    char place[sizeof job->host + 16];
    size_t used;
    bool found;
    if (yk_store_check(*store, "attempt", &found) != YK_OK || found ||
        yk_store_get(*store, CLI_MOVED_KEY, place, sizeof place - 1, &used, 0) != YK_OK)
        return true;
    place[used] = '\0';
    if (sscanf(place, "%d %255s", &job->port, job->host) != 2)
        return true;
    yk_store_destroy(*store);
    return yk_store_connect(store, job->host, job->port, job->secret, patience_s) == YK_OK;
}

static int print_job(job_address *job)
{
    yk_store *store = NULL;
    job_texts *texts = calloc(1, sizeof *texts);
    bool printed = false;
    if (!texts) {
        fputs("yoke ps: no memory\n", stderr);
    } else if (yk_store_connect(&store, job->host, job->port, job->secret, patience_s) != YK_OK ||
               !follow_herald(&store, job) || !follow_rendezvous(&store, job)) {
        fprintf(stderr, "%s\n", yk_last_error());
    } else {
        printed = print_ranks(store, texts);
    }
    yk_store_destroy(store);
    free(texts);
    return printed ? CLI_EXIT_OK : CLI_EXIT_FAILED;
}

/* ---- the jobs of this user ------------------------------------------------------------------ */

/* Whether the process has the same network as this one; that of a container differs. */
static bool shares_network(const char *pid)
{
    char path[300], own[64], other[64];
    snprintf(path, sizeof path, "/proc/%s/ns/net", pid);
    ssize_t a = readlink("/proc/self/ns/net", own, sizeof own);
    ssize_t b = readlink(path, other, sizeof other);
    return a < 0 || b < 0 || (a == b && memcmp(own, other, (size_t)a) == 0);
}

/* Copies the value if the entry is "NAME=value"; returns whether it is. */
static bool take_variable(const char *entry, const char *name, char *value, size_t size)
{
    size_t length = strlen(name);
    bool taken = strncmp(entry, name, length) == 0 && entry[length] == '=';
    if (taken)
        snprintf(value, size, "%s", entry + length + 1);
    return taken;
}

/* Whether the process is a rank under a launcher of yoke's; then where its store is. */
static bool read_environment(const char *pid, job_address *job)
{
    char path[300], launcher[8] = "", port[16] = "", master_port[16] = "", *entry = NULL;
    size_t room = 0;
    bool secret = false;
    *job = (job_address){0};
    snprintf(path, sizeof path, "/proc/%s/environ", pid);
    FILE *file = fopen(path, "re");
    while (file && getdelim(&entry, &room, '\0', file) > 0) {
        take_variable(entry, "YOKE_USE_LAUNCHER_STORE", launcher, sizeof launcher);
        take_variable(entry, "MASTER_ADDR", job->host, sizeof job->host);
        take_variable(entry, "MASTER_PORT", master_port, sizeof master_port);
        take_variable(entry, "YOKE_STORE_PORT", port, sizeof port);
        secret |= take_variable(entry, "YOKE_SECRET", job->secret, sizeof job->secret);
    }
    free(entry);
    if (file)
        fclose(file);
    job->port = atoi(*port ? port : master_port);
    return *launcher && *job->host && job->port > 0 && secret;
}

/* Reads the lines HOST, PORT and SECRET (src/comm/signpost.h). */
static bool read_signpost(int folder, const char *name, job_address *job)
{
    char text[sizeof *job + 64] = "", *rest = text;
    int fd = openat(folder, name, O_RDONLY | O_CLOEXEC);
    ssize_t size = fd < 0 ? 0 : pread(fd, text, sizeof text - 1, 0);
    if (fd >= 0)
        close(fd);
    const char *host = strsep(&rest, "\n"), *port = rest ? strsep(&rest, "\n") : NULL;
    const char *secret = rest ? strsep(&rest, "\n") : NULL;
    if (size <= 0 || !secret)
        return false;
    snprintf(job->host, sizeof job->host, "%s", host);
    snprintf(job->secret, sizeof job->secret, "%s", secret);
    job->port = atoi(port);
    return true;
}

/* The same of a rank that something else has started, from its open files. */
static bool read_open_files(const char *pid, job_address *job)
{
    static const char signpost[] = "/memfd:yoke-job ";
    char path[300], target[64];
    bool found = false;
    snprintf(path, sizeof path, "/proc/%s/fd", pid);
    DIR *files = opendir(path);
    for (struct dirent *entry; files && !found && (entry = readdir(files));) {
        ssize_t size = readlinkat(dirfd(files), entry->d_name, target, sizeof target - 1);
        target[size > 0 ? size : 0] = '\0';
        found = strncmp(target, signpost, sizeof signpost - 1) == 0 &&
                read_signpost(dirfd(files), entry->d_name, job);
    }
    if (files)
        closedir(files);
    return found;
}

/* Ranks of one job may have found its store at different addresses of its host. */
static bool is_same_job(const job_address *a, const job_address *b)
{
    return a->port == b->port &&
           (strcmp(a->host, b->host) == 0 || (*a->secret && strcmp(a->secret, b->secret) == 0));
}

/* Returns how many different jobs there are. */
static int find_jobs(job_address *jobs)
{
    int count = 0;
    DIR *processes = opendir("/proc");
    for (struct dirent *entry; processes && count < JOBS_MAX && (entry = readdir(processes));) {
        const char *pid = entry->d_name;
        job_address *job = &jobs[count];
        if (!isdigit((unsigned char)*pid) || !shares_network(pid) ||
            (!read_environment(pid, job) && !read_open_files(pid, job)))
            continue;
        int known = 0;
        while (known < count && !is_same_job(&jobs[known], job))
            known++;
        count += known == count;
    }
    if (processes)
        closedir(processes);
    return count;
}

static int print_own_jobs(void)
{
    job_address *jobs = calloc(JOBS_MAX + 1, sizeof *jobs);
    int count = jobs ? find_jobs(jobs) : 0, code = jobs ? CLI_EXIT_OK : CLI_EXIT_FAILED;
    for (int i = 0; i < count; i++) {
        char at[CLI_NET_ENDPOINT];
        printf("%sJob at %s\n", i ? "\n" : "", cli_net_endpoint(at, jobs[i].host, jobs[i].port));
        fflush(stdout);
        if (print_job(&jobs[i]) != CLI_EXIT_OK)
            code = CLI_EXIT_FAILED;
    }
    if (count == 0)
        puts("No rank of this user runs on this host.");
    free(jobs);
    return code;
}

int cli_cmd_ps(const char *name, int argc, char **argv)
{
    char *operand = NULL;
    int operands = 0;
    const cli_command command = {.name = name,
                                 .operands = "[HOST:PORT]",
                                 .summary = summary,
                                 .examples = "  yoke ps\n  YOKE_SECRET=... yoke ps head:29400",
                                 .max_operands = 1};
    int code = cli_options_parse(&command, argc, argv, &operand, &operands);
    if (code >= 0)
        return code;
    if (operands == 0)
        return print_own_jobs();
    const char *secret = getenv("YOKE_SECRET");
    job_address job = {.port = 29400};
    snprintf(job.secret, sizeof job.secret, "%s", secret ? secret : "");
    if (!cli_net_split(operand, job.host, sizeof job.host, &job.port))
        return cli_usage_error(name, "%s: expected HOST:PORT", operand);
    return print_job(&job);
}

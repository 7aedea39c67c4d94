/*
 * The record of a failure is two keys of the group: failure/claims, a counter that decides who
 * writes, and failure, "CULPRIT STATUS TEXT". The first group of a job that fails also sets the
 * job's own key, failure, in the same form, for the launcher.
 */
#define _GNU_SOURCE
#include "comm/job/failure.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <time.h>

#include "base/clock.h"

#define NOTE_S   0.5 /* how long a launcher may take to write how a rank ended */
#define RECORD_S 1.0 /* how long a rank that has claimed the record may take to write it */

static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
}

/* ---- the store ------------------------------------------------------------------------------- */

static yk_status get_text(const yki_job *job, const char *key, char *text, size_t size,
                          double wait_s)
{
    size_t used;
    yki_fair_lock_take(job->lock);
    yk_status status = yk_store_get(job->store, key, text, size - 1, &used, wait_s);
    yki_fair_lock_release(job->lock);
    text[status == YK_OK ? used : 0] = '\0';
    return status;
}

static void set_text(const yki_job *job, const char *key, const char *text)
{
    yki_fair_lock_take(job->lock);
    yk_store_set(job->store, key, text, strlen(text));
    yki_fair_lock_release(job->lock);
}

/* True for the first caller only, among all processes. */
static bool claim(const yki_job *job, const char *key)
{
    int64_t claims = 0;
    yki_fair_lock_take(job->lock);
    yk_status status = yk_store_add(job->store, key, 1, &claims);
    yki_fair_lock_release(job->lock);
    return status == YK_OK && claims == 1;
}

/* ---- the record ------------------------------------------------------------------------------ */

static yk_status read_record(const yki_job *job, yki_failure *failure, double wait_s)
{
    char key[YKI_JOB_KEY], text[512];
    int status = YK_OK, at = 0;
    failure->status = YK_OK;
    yki_job_key(job, key, sizeof key, "failure", -1);
    yk_status got = get_text(job, key, text, sizeof text, wait_s);
    if (got != YK_OK)
        return got == YK_ERROR_TIMEOUT ? YK_OK : got;
    if (sscanf(text, "%d %d %n", &failure->culprit, &status, &at) < 2 || status == YK_OK)
        return YK_OK;
    snprintf(failure->text, sizeof failure->text, "%s", text + at);
    failure->status = (yk_status)status;
    return YK_OK;
}

yk_status yki_failure_read(const yki_job *job, yki_failure *failure)
{
    return read_record(job, failure, 0);
}

static void set_failure(const yki_job *job, const char *key, const yki_failure *failure)
{
    char text[512];
    snprintf(text, sizeof text, "%d %d %s", failure->culprit, (int)failure->status, failure->text);
    set_text(job, key, text);
}

void yki_failure_report(const yki_job *job, const yki_failure *failure)
{
    if (job->launcher && claim(job, "failure/reports"))
        set_failure(job, "failure", failure);
}

/* The launcher is told first: a rank that has read the group's record may end at once, and its end
 * must not be reported before the cause. */
static void write_record(const yki_job *job, const yki_failure *failure)
{
    char key[YKI_JOB_KEY];
    yki_failure_report(job, failure);
    yki_job_key(job, key, sizeof key, "failure", -1);
    set_failure(job, key, failure);
}

void yki_failure_record(const yki_job *job, yki_failure *failure)
{
    char key[YKI_JOB_KEY];
    yki_failure other;
    yki_job_key(job, key, sizeof key, "failure/claims", -1);
    if (claim(job, key))
        write_record(job, failure);
    else if (read_record(job, &other, RECORD_S) == YK_OK && other.status != YK_OK)
        *failure = other;
}

/* ---- how a rank ended ------------------------------------------------------------------------ */

/* From linux/pidfd.h of 6.15, which older systems lack; the ioctl number encodes the size. */
struct exit_info {
    uint64_t mask, cgroup;
    uint32_t pid, tgid, ppid, users[8];
    int32_t exit_code; /* as of waitpid */
};
#define GET_EXIT_INFO  _IOWR(0xff, 11, struct exit_info)
#define EXIT_INFO_MASK (UINT64_C(1) << 3)

static bool kernel_knows(const yki_peer *peer, int *status)
{
    struct exit_info info = {.mask = EXIT_INFO_MASK};
    if (peer->pidfd < 0 || ioctl(peer->pidfd, GET_EXIT_INFO, &info) != 0 ||
        !(info.mask & EXIT_INFO_MASK))
        return false;
    *status = info.exit_code;
    return true;
}

/* The note of the launcher, or of the agent of its host where there are several. */
static bool launcher_knows(const yki_job *job, int rank, char *text, size_t size)
{
    char key[32];
    if (!job->launcher)
        return false;
    snprintf(key, sizeof key, "dead/%d", job->peers[rank].job_rank);
    return get_text(job, key, text, size, NOTE_S) == YK_OK;
}

/* A rank that ends well has called less than the others, as a rank with fewer batches does. */
static void explain_success(bool batches, char *text, size_t size)
{
    static const char success[] = "exited with code 0";
    size_t length = strlen(text), end = sizeof success - 1;
    if (length >= end && strcmp(text + length - end, success) == 0)
        snprintf(text + length, size - length, ", ahead of this rank%s",
                 batches ? "; if it had fewer batches, see yk_ddp_join_begin"
                         : ", although all ranks make the same calls");
}

void yki_gone_words(const yki_peer *peer, char *text, size_t size)
{
    snprintf(text, size, "pid %d is gone%s", peer->pid,
             peer->remote ? ", or its host or the network is down" : "");
}

static void tell_death(const yki_job *job, int rank, char *text, size_t size)
{
    char name[YKI_RANK_NAME];
    const yki_peer *peer = &job->peers[rank];
    yki_rank_name(job, rank, name);
    int status, at = snprintf(text, size, "%s is dead: ", name);
    if (launcher_knows(job, rank, text + at, size - (size_t)at))
        return;
    double deadline = yki_now() + NOTE_S;
    bool known = false;
    while (!peer->remote && !(known = kernel_knows(peer, &status)) && !job->launcher &&
           yki_now() < deadline)
        nap(); /* until its parent has reaped it */
    if (known && WIFSIGNALED(status))
        snprintf(text + at, size - (size_t)at, "pid %d killed by signal %d (SIG%s)", peer->pid,
                 WTERMSIG(status), sigabbrev_np(WTERMSIG(status)));
    else if (known)
        snprintf(text + at, size - (size_t)at, "pid %d exited with code %d", peer->pid,
                 WEXITSTATUS(status));
    else
        yki_gone_words(peer, text + at, size - (size_t)at);
}

void yki_death_words(const yki_job *job, int rank, bool batches, char *text, size_t size)
{
    tell_death(job, rank, text, size);
    explain_success(batches, text, size);
}

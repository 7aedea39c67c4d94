/*
 * The failure record is a small lock-free state machine, none -> claimed -> ready, that never goes
 * back: a group that has failed stays failed.
 */
#define _GNU_SOURCE
#include "comm/failure.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <time.h>

#include "base/clock.h"

#define NOTE_S  0.5 /* how long a launcher may take to write how a rank ended */
#define CLAIM_S 1.5 /* how long a claimer may take, looking for a note */

static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
}

bool yki_failure_claim(yki_failure *failure)
{
    int none = YKI_FAILURE_NONE;
    return atomic_compare_exchange_strong(&failure->state, &none, YKI_FAILURE_CLAIMED);
}

void yki_failure_write(yki_failure *failure, yk_status status, const char *text)
{
    failure->status = (int)status;
    snprintf(failure->text, sizeof failure->text, "%s", text);
    atomic_store(&failure->state, YKI_FAILURE_READY);
}

yk_status yki_failure_read(const yki_failure *failure, char *text, size_t size)
{
    double deadline = yki_now() + CLAIM_S;
    int state;
    while ((state = atomic_load(&failure->state)) == YKI_FAILURE_CLAIMED && yki_now() < deadline)
        nap();
    if (state == YKI_FAILURE_NONE)
        return YK_OK;
    if (state == YKI_FAILURE_CLAIMED) {
        snprintf(text, size, "another rank failed while it reported a failure");
        return YK_ERROR_PEER_FAILED;
    }
    snprintf(text, size, "%s", failure->text);
    return (yk_status)failure->status;
}

void yki_failure_report(const yki_job *job, int rank, yk_status status, const char *text)
{
    char report[512];
    int64_t reports;
    if (!job->launcher || !job->store)
        return;
    int size = snprintf(report, sizeof report, "%d %d %.400s", rank, (int)status, text);
    pthread_mutex_lock(job->lock);
    if (yk_store_add(job->store, "failure/reports", 1, &reports) == YK_OK && reports == 1)
        yk_store_set(job->store, "failure", report, (size_t)size);
    pthread_mutex_unlock(job->lock);
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

static bool launcher_knows(const yki_job *job, int rank, char *text, size_t size)
{
    char key[32];
    size_t used;
    if (!job->launcher || !job->store)
        return false;
    snprintf(key, sizeof key, "dead/%d", rank);
    pthread_mutex_lock(job->lock);
    yk_status status = yk_store_get(job->store, key, text, size - 1, &used, NOTE_S);
    pthread_mutex_unlock(job->lock);
    if (status != YK_OK)
        return false;
    text[used] = '\0';
    return true;
}

void yki_death_words(const yki_job *job, int rank, char *text, size_t size)
{
    const yki_peer *peer = &job->peers[rank];
    int status, at = snprintf(text, size, "rank %d is dead: ", rank);
    if (launcher_knows(job, rank, text + at, size - (size_t)at))
        return;
    double deadline = yki_now() + NOTE_S;
    bool known;
    while (!(known = kernel_knows(peer, &status)) && !job->launcher && yki_now() < deadline)
        nap(); /* until its parent has reaped it */
    if (known && WIFSIGNALED(status))
        snprintf(text + at, size - (size_t)at, "pid %d killed by signal %d (SIG%s)", peer->pid,
                 WTERMSIG(status), sigabbrev_np(WTERMSIG(status)));
    else if (known)
        snprintf(text + at, size - (size_t)at, "pid %d exited with code %d", peer->pid,
                 WEXITSTATUS(status));
    else
        snprintf(text + at, size - (size_t)at, "pid %d is gone", peer->pid);
}

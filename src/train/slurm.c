/*
 * Slurm: the end of the job's time, and asking for the job to be run again. `scontrol requeue` puts
 * a batch job back into the queue and ends what is left of this run; it is started again from its
 * beginning with the same id and SLURM_RESTART_COUNT set.
 */
#define _GNU_SOURCE
#include "train/slurm.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <yoke/train.h>

#include "base/clock.h"
#include "base/environment.h"
#include "base/log.h"

enum { JOB_TEXT = 64, ANSWER = 16384 };

static const double ANSWER_S = 60; /* how long scontrol may take */

yk_status yki_slurm_end_time(double *end_s)
{
    bool found;
    double end = 0;
    *end_s = HUGE_VAL;
    YK_TRY(yki_env_double("SLURM_JOB_END_TIME", 0, 1e12, &end, &found));
    double left = end - (double)time(NULL);
    if (found && left > 0)
        *end_s = yki_now() + left;
    return YK_OK;
}

/* ---- scontrol -------------------------------------------------------------------------------- */

/* Starts the program with its output in a pipe, whose read end it returns, and signals as in any
 * new program. Returns -1 with errno set on failure. */
static int spawn_command(const char *const *words, pid_t *pid)
{
    int ends[2];
    sigset_t none, all;
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_t actions;
    if (pipe2(ends, O_CLOEXEC))
        return -1;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
    int error = posix_spawnp(pid, words[0], &actions, &attributes, (char *const *)words, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    close(ends[1]);
    if (!error)
        return ends[0];
    close(ends[0]);
    errno = error;
    return -1;
}

/* Reads to the output's end, and drops what does not fit; false when the time is over first. */
static bool read_answer(int output, char answer[ANSWER])
{
    char rest[512];
    size_t used = 0;
    ssize_t got = 1;
    double deadline = yki_now() + ANSWER_S;
    while (got > 0 && yki_now() < deadline) {
        struct pollfd ready = {.fd = output, .events = POLLIN};
        bool fits = used < ANSWER - 1;
        if (poll(&ready, 1, yki_milliseconds_until(deadline)) <= 0)
            continue;
        got =
            fits ? read(output, answer + used, ANSWER - 1 - used) : read(output, rest, sizeof rest);
        used += fits && got > 0 ? (size_t)got : 0;
    }
    answer[used] = '\0';
    return got <= 0;
}

/* Runs `scontrol ...` to its end, its output in answer. */
static yk_status run_scontrol(const char *const *words, char answer[ANSWER])
{
    pid_t pid = 0;
    int status, output = spawn_command(words, &pid);
    if (output < 0)
        return yki_error(errno == ENOENT ? YK_ERROR_NOT_FOUND : YK_ERROR_IO,
                         "cannot run scontrol: %s", strerror(errno));
    if (!read_answer(output, answer))
        kill(pid, SIGKILL);
    close(output);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return YK_OK;
    return yki_error(YK_ERROR_IO, "scontrol %s %s: %.*s", words[1], words[2],
                     (int)strcspn(answer, "\n"), answer[0] ? answer : "failed without a word");
}

/* ---- requeueing ------------------------------------------------------------------------------ */

/* The job's id as scontrol takes it, that of the task for an array; false outside Slurm. */
static bool name_job(char job[JOB_TEXT])
{
    const char *id = getenv("SLURM_JOB_ID"), *array = getenv("SLURM_ARRAY_JOB_ID"),
               *task = getenv("SLURM_ARRAY_TASK_ID");
    if (array && *array && task && *task)
        snprintf(job, JOB_TEXT, "%s_%s", array, task);
    else
        snprintf(job, JOB_TEXT, "%s", id ? id : "");
    return job[0] != '\0';
}

/* Whether `scontrol show job` has said NAME=value. */
static bool says(const char *answer, const char *field)
{
    size_t length = strlen(field);
    for (const char *at = answer; (at = strstr(at, field)); at++)
        if ((at == answer || at[-1] == ' ') && strchr(" \n", at[length]))
            return true;
    return false;
}

/* Why the job is not to be requeued, or NULL. A cancelled job is to end, and a preempted one is
 * requeued by Slurm itself; a job whose time is over is not. */
static const char *reason_not_to(const char *answer)
{
    bool ending = !says(answer, "JobState=RUNNING") && !says(answer, "Reason=TimeLimit");
    return says(answer, "BatchFlag=0") ? "it was not submitted with sbatch"
           : says(answer, "Requeue=0") ? "it may not be (sbatch --requeue allows it)"
           : ending                    ? "Slurm is ending it already"
                                       : NULL;
}

static yk_status requeue_job(bool *requeued)
{
    static char answer[ANSWER];
    char job[JOB_TEXT];
    if (!name_job(job))
        return YK_OK;
    const char *const show[] = {"scontrol", "show", "job", "--oneliner", job, NULL};
    YK_TRY(run_scontrol(show, answer));
    const char *reason = reason_not_to(answer);
    if (reason) {
        YKI_WARN("Slurm job %s is not requeued: %s", job, reason);
        return YK_OK;
    }
    const char *const requeue[] = {"scontrol", "requeue", job, NULL};
    YK_TRY(run_scontrol(requeue, answer));
    *requeued = true;
    return YK_OK;
}

yk_status yk_job_requeue(bool *requeued, yk_group *group)
{
    char line[YKI_ERROR_LINE];
    YKI_NOT_NULL(requeued);
    *requeued = false;
    int rank = group ? yk_group_rank(group) : 0;
    yk_status status = rank == 0 ? requeue_job(requeued) : YK_OK;
    if (!group)
        return status;
    yki_error_copy(line, sizeof line);
    int32_t outcome[2] = {*requeued, (int32_t)status};
    YK_TRY(yk_broadcast(group, outcome, 2, YK_I32, 0, NULL));
    *requeued = outcome[0] != 0;
    if (outcome[1] == YK_OK)
        return YK_OK;
    return rank == 0 ? yki_error_set_line(status, line)
                     : yki_error((yk_status)outcome[1], "rank 0 could not requeue the job");
}

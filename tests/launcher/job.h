/*
 * A real job under the real `yoke run`, for tests: started in the background, its output in a file,
 * all its processes findable by a mark in their environment, which they cannot lose.
 */
#ifndef YK_TEST_JOB_H
#define YK_TEST_JOB_H

#include "clock.h"
#include "harness.h"
#include "processes.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct test_job {
    pid_t pid; /* of what the user started */
    char mark[64], output_path[128];
    char output[64 * 1024];
} test_job;

static inline const char *test_program(void)
{
    const char *program = getenv("YOKE_PROGRAM");
    if (!program)
        fail_msg("YOKE_PROGRAM does not say where the program is");
    return program;
}

/* How often part occurs in text. */
static inline int count(const char *text, const char *part)
{
    int found = 0;
    for (const char *at = text; (at = strstr(at, part)); at += strlen(part))
        found++;
    return found;
}

/* Starts a command, a shell's words, with one extra environment entry as the mark. */
static inline void test_job_start_command(test_job *job, const char *words)
{
    static int number;
    snprintf(job->mark, sizeof job->mark, "YOKE_TEST_MARK=%d.%d.", (int)getpid(), ++number);
    snprintf(job->output_path, sizeof job->output_path, "%s/out.%d", yk_test_directory(), number);
    char command[8192];
    snprintf(command, sizeof command, "exec %s", words);
    job->pid = yk_test_fork();
    if (job->pid == 0) {
        int fd = open(job->output_path, O_CREAT | O_TRUNC | O_WRONLY | O_APPEND, 0600);
        dup2(fd, STDOUT_FILENO);
        dup2(fd, STDERR_FILENO);
        close(fd);
        setpgid(0, 0); /* as a shell with job control does */
        putenv(job->mark);
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
}

/* Starts `yoke ARGUMENTS`. */
static inline void test_job_start(test_job *job, const char *arguments)
{
    char command[8000];
    snprintf(command, sizeof command, "%s %s", test_program(), arguments);
    test_job_start_command(job, command);
}

static inline const char *test_job_output(test_job *job)
{
    int fd = open(job->output_path, O_RDONLY | O_CLOEXEC);
    ssize_t size = fd < 0 ? 0 : read(fd, job->output, sizeof job->output - 1);
    if (fd >= 0)
        close(fd);
    job->output[size > 0 ? size : 0] = '\0';
    return job->output;
}

/* Waits until the output holds text; fails after 20 s. */
static inline void test_job_await(test_job *job, const char *text)
{
    double deadline = yk_test_now() + 20;
    while (!strstr(test_job_output(job), text)) {
        if (yk_test_now() > deadline)
            fail_msg("\"%s\" did not appear in \"%s\"", text, job->output);
        usleep(2000);
    }
}

/* The number behind text in the output, e.g. a pid that a rank has printed. */
static inline int test_job_number(test_job *job, const char *text)
{
    test_job_await(job, text);
    return atoi(strstr(job->output, text) + strlen(text));
}

static inline bool test_is_of_job(const char *pid, const void *job)
{
    return yk_test_environment_contains(pid, ((const test_job *)job)->mark);
}

/* Where each process of a job that does not end stands, for whoever has to find out why. */
static inline void test_job_show(test_job *job)
{
    print_message("it does not end; its output: \"%s\"\n", test_job_output(job));
    DIR *processes = opendir("/proc");
    assert_non_null(processes);
    for (struct dirent *entry; (entry = readdir(processes));) {
        char lines[4096];
        if (!isdigit((unsigned char)entry->d_name[0]) || !test_is_of_job(entry->d_name, job))
            continue;
        yk_test_command(lines, sizeof lines,
                        "cd /proc/%s && tr '\\0' ' ' <cmdline && echo && grep -E "
                        "'^(State|PPid|Cpus_allowed_list|SigPnd|ShdPnd|SigBlk)' status && "
                        "for t in task/*; do echo $t $(cat $t/wchan $t/syscall); done && "
                        "ps -o pid,stat,wchan:24,psr,args --ppid %s", /* the dying have no mark */
                        entry->d_name, entry->d_name);
        print_message("pid %s: %s", entry->d_name, lines);
    }
    closedir(processes);
}

/* Waits for the end; returns the exit code, 128 + n for a signal, -1 when it took longer. */
static inline int test_job_wait(test_job *job, double seconds)
{
    double deadline = yk_test_now() + seconds;
    int status;
    while (waitpid(job->pid, &status, WNOHANG) == 0) {
        if (yk_test_now() > deadline) {
            test_job_show(job);
            return -1;
        }
        usleep(1000);
    }
    test_job_output(job);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* The exit code must be this one; prints the output otherwise. */
#define assert_job_code(job, code, expected)                                                       \
    do {                                                                                           \
        int assert_job_code_ = (code);                                                             \
        if (assert_job_code_ != (expected)) {                                                      \
            fprintf(stderr, "the output: \"%s\"\n", test_job_output(job));                         \
            fail_msg("the exit code is %d, expected %d", assert_job_code_, (expected));            \
        }                                                                                          \
    } while (0)
#define assert_job_ends(job, seconds, expected)                                                    \
    assert_job_code(job, test_job_wait(job, seconds), expected)

/* Asks a job that is being stopped to stop at once: later than signals that repeat the first. */
static inline void test_job_signal_again(const test_job *job, int number)
{
    usleep(600000);
    kill(job->pid, number);
}

/* Signals all processes of the job, as a scheduler does that suspends it. */
static inline void test_job_signal_all(const test_job *job, int number)
{
    DIR *processes = opendir("/proc");
    assert_non_null(processes);
    for (struct dirent *entry; (entry = readdir(processes));)
        if (isdigit((unsigned char)entry->d_name[0]) && test_is_of_job(entry->d_name, job))
            kill(atoi(entry->d_name), number);
    closedir(processes);
}

/* How many processes of the job are alive. */
static inline int test_job_processes(const test_job *job)
{
    return yk_test_count_processes(test_is_of_job, job);
}

/* Seconds until no process of the job is left; fails when some are after `limit`. */
static inline double test_job_gone(test_job *job, double limit)
{
    double start = yk_test_now();
    int left;
    while ((left = test_job_processes(job)) > 0) {
        if (yk_test_now() - start > limit) {
            test_job_show(job);
            fail_msg("%d processes of the job are left after %g s", left, limit);
        }
        usleep(5000);
    }
    return yk_test_now() - start;
}

/* A rank of a job, or what it has started. */
typedef struct test_rank {
    const test_job *job;
    char entry[32];
} test_rank;

static inline bool test_is_of_rank(const char *pid, const void *context)
{
    const test_rank *rank = context;
    return test_is_of_job(pid, rank->job) && yk_test_environment_has(pid, rank->entry);
}

/* The pid of a rank of the job, or 0 where there is none yet, or no more. */
static inline pid_t test_job_find_rank(const test_job *job, int rank)
{
    test_rank of = {.job = job};
    snprintf(of.entry, sizeof of.entry, "LOCAL_RANK=%d", rank);
    return yk_test_first_process(test_is_of_rank, &of);
}

/* The same of a rank that is there. */
static inline pid_t test_job_rank_pid(const test_job *job, int rank)
{
    pid_t pid = test_job_find_rank(job, rank);
    assert_true(pid > 0);
    return pid;
}

/* Starts a training without an end into FOLDER/trained and waits until it has saved an epoch. */
static inline void test_job_train(test_job *job, const char *options)
{
    char command[512], path[128];
    snprintf(path, sizeof path, "%s/trained/manifest.json", yk_test_directory());
    snprintf(command, sizeof command,
             "train --data synthetic --arch mlp --threads 1 --epochs 100000 --batch-size 240 "
             "--output %s/trained %s",
             yk_test_directory(), options);
    test_job_start(job, command);
    double deadline = yk_test_now() + 90;
    while (access(path, R_OK)) {
        if (yk_test_now() > deadline)
            fail_msg("no checkpoint appeared: \"%s\"", test_job_output(job));
        usleep(5000);
    }
}

#endif

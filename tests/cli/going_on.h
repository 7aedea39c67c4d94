/* For tests that stop a training, resume it, and compare it with one that was never stopped. */
#ifndef YK_TEST_GOING_ON_H
#define YK_TEST_GOING_ON_H

#include "train_job.h"

/* ---- what a run has left --------------------------------------------------------------------- */

/* A record without its times: what follows a step's learning rate, an epoch's accuracy. */
static inline void cut_times(char *record)
{
    for (char *at = record; at && *at; at++)
        if (strncmp(at, ", \"images_per_s\"", 16) == 0 || strncmp(at, ", \"epoch_s\"", 11) == 0) {
            *at = '\0';
            return;
        }
}

/* The next record that is not a header: a resumed run has one more of those. NULL at the end. */
static inline char *next_record(char **rest)
{
    char *line;
    while ((line = strsep(rest, "\n")) && strncmp(line, "{\"type\": \"header\"", 17) == 0)
        continue;
    return line;
}

/* Losses, rates and evaluations of every step and epoch. */
static inline void assert_same_metrics(const char *a, const char *b)
{
    char *first = strdup(metrics_of(a)), *second = strdup(metrics_of(b));
    char *rest_a = first, *rest_b = second, *line;
    while ((line = next_record(&rest_a))) {
        char *other = next_record(&rest_b);
        if (!other)
            fail_msg("%s ends before \"%s\"", b, line);
        cut_times(line);
        cut_times(other);
        assert_string_equal(line, other);
    }
    assert_null(rest_b);
    free(first);
    free(second);
}

/* ---- stopping and going on ------------------------------------------------------------------- */

/* With the options that the checkpoint has kept; returns the exit code. */
static inline int go_on(const char *name, const char *options)
{
    char command[512];
    snprintf(command, sizeof command, "train --output %s/%s --resume auto %s", yk_test_directory(),
             name, options);
    test_job_start(&job, command);
    return test_job_wait(&job, 100);
}

static inline int random_between(int low, int high)
{
    static unsigned state = 20240229;
    state = state * 1664525 + 1013904223;
    return low + (int)((state >> 8) % (unsigned)(high - low + 1));
}

/* Whom a signal goes to: the launcher, or a rank of its job. */
enum { LAUNCHER = -1 };

/*
 * Starts the training, sends it the signal after that many milliseconds of training, and waits for
 * the end. Returns the exit code: 0 when the training was over before the signal came.
 */
static inline int train_and_signal(const char *name, const char *options, int number, int to,
                                   int after_ms)
{
    char command[1024];
    snprintf(command, sizeof command, "train --output %s/%s --resume auto %s", yk_test_directory(),
             name, options);
    test_job_start(&job, command);
    test_job_await(&job, "  output ");
    usleep((unsigned)after_ms * 1000);
    pid_t pid = to == LAUNCHER ? job.pid : test_job_find_rank(&job, to);
    if (pid)
        kill(pid, number);
    int code = test_job_wait(&job, 60);
    test_job_gone(&job, 5);
    return code;
}

#endif

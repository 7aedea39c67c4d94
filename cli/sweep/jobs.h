/*
 * Running many programs, a few at a time. A first SIGINT or SIGTERM asks those that run to stop, a
 * second one, half a second later or more, kills them; none of them outlives this process.
 */
#ifndef YOKE_CLI_SWEEP_JOBS_H
#define YOKE_CLI_SWEEP_JOBS_H

#include <sys/types.h>

/* What ended a job: its exit code, 128 + n after signal n; or it has not been started. */
enum { CLI_JOB_NOT_STARTED = -1 };

typedef struct cli_jobs {
    int count, at_a_time;
    /* In the child of job number `job`: prepares it and executes a program; returns on failure. */
    void (*execute)(void *context, int job);
    /* In this process: a job has been started (code < 0) or has ended. */
    void (*report)(void *context, int job, int code, double seconds);
    void *context;
    int *codes;      /* (count), filled by the run */
    int stop_signal; /* the last one that has asked for the end, or 0; known when a job ends */
    double asked_s;  /* when it has */
} cli_jobs;

/* Runs all jobs, whatever becomes of single ones. */
void cli_jobs_run(cli_jobs *jobs);

#endif

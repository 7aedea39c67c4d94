/* A job of `yoke run` on several hosts, one launcher on each, for tests. */
#ifndef YK_TEST_HOST_JOB_H
#define YK_TEST_HOST_JOB_H

#include "../launcher/job.h"
#include "hosts.h"

enum { TEST_HOSTS = 4 };

static test_job host_jobs[TEST_HOSTS + 1]; /* by host, from 1 */

/* Starts `VARIABLES yoke run --rdzv-endpoint ENDPOINT ARGUMENTS` on a host. */
static inline void start_on(int host, const char *variables, const char *endpoint,
                            const char *arguments)
{
    char command[8000];
    snprintf(command, sizeof command,
             "%s env YOKE_SECRET=a-secret YK_TEST_LAUNCHER=1 %s %s run --rdzv-endpoint %s %s",
             yk_test_on(host), variables, test_program(), endpoint, arguments);
    test_job_start_command(&host_jobs[host], command);
}

/* The same on hosts 1 to `hosts`; n1 serves the rendezvous. What is lost is noticed after 2 s. */
static inline void start_job(int hosts, const char *arguments)
{
    char all[6000];
    snprintf(all, sizeof all, "--nnodes %d %s", hosts, arguments);
    for (int host = 1; host <= hosts; host++)
        start_on(host, "YOKE_HEARTBEAT_TIMEOUT=3", "10.77.0.1:29400", all);
}

/* Waits for the launchers of the hosts, which agree on the exit code. */
static inline int end_of_job(int hosts, double seconds)
{
    int code = test_job_wait(&host_jobs[1], seconds);
    for (int host = 2; host <= hosts; host++)
        assert_int_equal(test_job_wait(&host_jobs[host], 20), code);
    return code;
}

/* The process of a rank, or of a launcher (rank -1); 0 where there is none. */
static inline pid_t find_rank(int host, int rank)
{
    char entry[32];
    snprintf(entry, sizeof entry, "RANK=%d", rank);
    return yk_test_find_process(host, host_jobs[host].mark,
                                rank < 0 ? "YK_TEST_LAUNCHER=1" : entry);
}

/* Sends a signal to one of them, which must be there; returns its pid on its host. */
static inline int signal_rank(int host, int rank, int number)
{
    pid_t pid = find_rank(host, rank);
    if (pid <= 0)
        fail_msg("no rank %d on n%d: \"%s\"", rank, host, test_job_output(&host_jobs[host]));
    int inner = yk_test_pid_on_host(pid);
    kill(pid, number);
    return inner;
}

/* A shell command as the program, which does not look like a launcher. */
#define RANKS_RUN(script) "--nproc-per-node 2 -- env -u YK_TEST_LAUNCHER sh -c '" script "'"

#endif

/* Several launchers on this machine that run one job, for tests; each counts as a host. */
#ifndef YK_TEST_AGENTS_H
#define YK_TEST_AGENTS_H

#include "job.h"

enum { TEST_AGENTS = 4 };

static test_job agents[TEST_AGENTS];
static int rendezvous_port;

/* Starts `yoke run --nnodes NODES --rdzv-endpoint localhost:PORT ARGUMENTS`. */
static inline void start_agent(int index, const char *nodes, const char *arguments)
{
    char command[4096];
    if (!rendezvous_port)
        rendezvous_port = yk_test_free_port();
    snprintf(command, sizeof command, "run --nnodes %s --rdzv-endpoint localhost:%d %s", nodes,
             rendezvous_port, arguments);
    test_job_start(&agents[index], command);
}

/* Waits until the launcher that serves the rendezvous at this port has joined it, as the first. The
 * keys are those of cli/launch/bus.h. */
static inline void await_first_join(int port)
{
    yk_store *store;
    const char *secret = getenv("YOKE_SECRET");
    assert_ok(yk_store_connect(&store, "localhost", port, secret ? secret : "", 20));
    assert_ok(yk_store_wait(store, "reports/0", 20));
    yk_store_destroy(store);
}

/* Starts two of them with the same arguments and waits for both; they must agree on the code. */
static inline int run_two(const char *arguments)
{
    start_agent(0, "2", arguments);
    start_agent(1, "2", arguments);
    int code = test_job_wait(&agents[0], 60);
    assert_job_ends(&agents[1], 60, code);
    return code;
}

/* The output of both, for what may be on either. */
static inline const char *both_outputs(void)
{
    static char text[2 * sizeof agents[0].output];
    snprintf(text, sizeof text, "%s%s", test_job_output(&agents[0]), test_job_output(&agents[1]));
    return text;
}

/* Two ranks that say so when they hear SIGUSR1, and that SIGTERM ends in order. */
static const char *const obedient =
    "-n 2 sh -c 'trap \"echo stopped $RANK; exit 143\" TERM; trap \"echo heard $RANK\" USR1; echo "
    "ready; while :; do sleep 0.05; done'";

/* Starts two launchers of them, and returns when all four are ready. */
static inline void start_obedient(void)
{
    start_agent(0, "2", obedient);
    start_agent(1, "2", obedient);
    for (double deadline = yk_test_now() + 20; count(both_outputs(), "] ready") < 4; usleep(2000))
        if (yk_test_now() > deadline)
            fail_msg("only some ranks are ready: \"%s\"", both_outputs());
}

#endif

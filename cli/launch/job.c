/*
 * The launcher itself. In a job of one host it serves the store and restarts the ranks when one has
 * failed; with several hosts, agent.c or remote.c does the rest.
 */
#define _GNU_SOURCE
#include "launch/job.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli.h"
#include "launch/agent.h"
#include "launch/attempt.h"
#include "launch/control.h"
#include "launch/net.h"
#include "launch/remote.h"
#include "launch/verdict.h"
#include "launch/wait.h"

/* ---- a job of one host ---------------------------------------------------------------------- */

static void report_failure(cli_job *job)
{
    char words[512], tail[CLI_TAIL_SIZE];
    bool named;
    job->first_failed = cli_job_cause(job, &named);
    const cli_member *failed = &job->members[job->first_failed];
    cli_job_describe_failure(job, words, sizeof words);
    cli_stream_tail(&failed->err, tail, sizeof tail);
    cli_job_print_cause(job, words, failed->rank, tail);
}

/* Ranks are restarted after a failure, unless it would come again, and not once the job has been
 * asked to stop. */
static bool may_restart(const cli_job *job)
{
    return job->first_failed >= 0 && !job->stop_signal &&
           job->round.attempt < job->launch->max_restarts &&
           !cli_failure_is_final(job->round.attempt, cli_job_exit_code(job));
}

/*
 * The port for programs that serve a store of their own, such as PyTorch's. A port that was given
 * is tested here, so that an error can name the process that uses it. Otherwise one is drawn, once.
 */
static bool choose_master_port(cli_job *job)
{
    cli_round *round = &job->round;
    yk_store_server *trial;
    round->master_port = job->launch->master_port;
    if (round->master_port == YK_PORT_ANY) {
        if (!job->claimed_port)
            job->claimed_port = cli_net_claim_port(CLI_NET_PORT, CLI_NET_PORTS);
        round->master_port = job->claimed_port;
    } else if (round->attempt == 0) {
        if (yk_store_serve(&trial, round->master_address, &round->master_port, round->secret) !=
            YK_OK)
            return false;
        yk_store_server_destroy(trial);
    }
    return true;
}

/* Each attempt gets its own store and secret. */
static bool serve_store(cli_job *job, yk_store_server **server)
{
    cli_round *round = &job->round;
    snprintf(round->master_address, sizeof round->master_address, "%s",
             job->launch->master_address);
    round->store_port = YK_PORT_ANY;
    if (yk_store_secret(round->secret, sizeof round->secret) == YK_OK && choose_master_port(job) &&
        yk_store_serve(server, round->master_address, &round->store_port, round->secret) == YK_OK)
        return true;
    fprintf(stderr, "%s\n", yk_last_error());
    return false;
}

static int run_alone(cli_job *job)
{
    const cli_launch *launch = job->launch;
    for (int attempt = 0;; attempt++) {
        yk_store_server *server = NULL;
        job->round = (cli_round){.attempt = attempt, .nodes = 1, .world = launch->ranks};
        if (!serve_store(job, &server))
            return CLI_EXIT_FAILED;
        int code = cli_job_attempt(job);
        if (!job->unguarded && job->first_failed >= 0) {
            report_failure(job);
            code = cli_job_exit_code(job);
        }
        bool again = !job->unguarded && may_restart(job);
        cli_job_finish_attempt(job);
        yk_store_server_destroy(server);
        if (!again)
            return code;
        cli_sink_say(&job->err, "%s: restarting all ranks (restart %d of %d)", launch->name,
                     attempt + 1, launch->max_restarts);
    }
}

/* ---- the job -------------------------------------------------------------------------------- */

static void finish_job(cli_job *job)
{
    cli_logs_close(&job->logs);
    cli_sink_free(&job->out);
    cli_sink_free(&job->err);
    free(job->status.data);
    free(job->members);
    free(job->polled);
}

int cli_job_run(const cli_launch *launch, int lifeline, int signal_fd)
{
    size_t ranks = (size_t)launch->ranks;
    cli_job job = {.launch = launch,
                   .kind = launch->remote ? &cli_remote_launchers : &cli_ranks,
                   .members = calloc(ranks, sizeof(cli_member)),
                   .polled = calloc(cli_job_slots(launch->ranks), sizeof(struct pollfd)),
                   .signal_fd = signal_fd,
                   .lifeline = lifeline,
                   .control_fd = launch->controlled ? STDIN_FILENO : -1,
                   .term_at = CLI_NEVER,
                   .kill_at = CLI_NEVER,
                   .start_at = CLI_NEVER,
                   .give_up_at = CLI_NEVER,
                   .first_failed = -1};
    signal(SIGPIPE, SIG_IGN);
    cli_sink_init(&job.out, STDOUT_FILENO, &job.status);
    cli_sink_init(&job.err, STDERR_FILENO, &job.status);
    cli_sinks_join(&job.out, &job.err);
    if (launch->controlled)
        cli_sink_say(&job.out, "%s", CLI_CONTROL_READY);
    int code = CLI_EXIT_FAILED;
    if (!job.members || !job.polled)
        fprintf(stderr, "%s: no memory for %d ranks\n", launch->name, launch->ranks);
    else if (launch->remote)
        code = cli_remote_run(&job);
    else if (cli_logs_open(&job.logs, launch))
        code = launch->nodes_max > 1 ? cli_agent_run(&job) : run_alone(&job);
    if (!cli_job_flush(&job))
        code = 128 + SIGKILL;
    if (code == CLI_EXIT_OK && launch->prints_result && cli_sink_has_lost(&job.out))
        code = CLI_EXIT_FAILED;
    finish_job(&job);
    return code;
}

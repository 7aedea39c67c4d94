/*
 * The launcher proper: serves the store, starts the ranks, then waits in one poll for whatever
 * comes first: output, a death, a signal, a deadline.
 *
 * When a rank fails, the store is told first, so that the survivors can name it; they get a moment
 * to say so and to leave by themselves, then SIGTERM, then SIGKILL. The failure seen first is the
 * cause of the job's end: its exit code is the job's, its last lines on stderr are printed again.
 */
#define _GNU_SOURCE
#include "launch.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <yoke/store.h>

#include "cli.h"
#include "launch_output.h"

/* Seconds. Survivors of a failure are gone within 2 s of it. */
static const double SURVIVORS_TERM = 0.8, SURVIVORS_KILL = 1.5, TREE_KILL = 5, NEVER = 1e300;

typedef struct member {
    pid_t pid; /* 0 once it has been waited for */
    pid_t was; /* its pid, for messages */
    int status;
    yki_stream out, err;
} member;

typedef struct job {
    const yki_launch *launch;
    member *members; /* launch->ranks of them */
    struct pollfd *polled;
    int started, running;
    int signal_fd, lifeline;
    double start_s, term_at, kill_at;
    int stop_signal;  /* that asked for the end of the job, or 0 */
    int first_failed; /* rank, or -1 */
    double failed_s;
    yki_sink out, err;
    yki_bytes status; /* rank 0's progress line */
    yk_store_server *server;
    yk_store *store;
    char secret[33];
    int port;
} job;

/* ---- the end of ranks ----------------------------------------------------------------------- */

static void signal_ranks(const job *run, int number)
{
    for (int rank = 0; rank < run->started; rank++)
        if (run->members[rank].pid)
            kill(run->members[rank].pid, number);
}

/* Leaves a note for the survivors, in the words that the group's error lines use. */
static void tell_survivors(const job *run, int rank)
{
    const member *dead = &run->members[rank];
    char key[32], words[64], note[128];
    snprintf(key, sizeof key, "dead/%d", rank);
    snprintf(note, sizeof note, "pid %d %s", (int)dead->was,
             yki_describe_status(dead->status, words, sizeof words));
    if (run->store)
        yk_store_set(run->store, key, note, strlen(note));
}

/* Of two failures seen at once, a signal is no reaction to a peer's end, an exit code may be. */
static bool is_likelier_cause(const member *a, const member *b)
{
    return WIFSIGNALED(a->status) && !WIFSIGNALED(b->status);
}

static void rank_failed(job *run, int rank)
{
    tell_survivors(run, rank);
    double now = yki_launch_now();
    if (run->stop_signal)
        return;
    if (run->first_failed < 0) {
        run->first_failed = rank;
        run->failed_s = now;
        run->term_at = now + SURVIVORS_TERM;
        run->kill_at = now + SURVIVORS_KILL;
    }
}

/* Waits for every child that has ended: ranks, and orphans of ranks that became ours. */
static void reap(job *run)
{
    int before = run->first_failed;
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
        for (int rank = 0; rank < run->started; rank++) {
            member *ended = &run->members[rank];
            if (ended->pid != pid)
                continue;
            ended->pid = 0;
            ended->status = status;
            run->running--;
            if (status)
                rank_failed(run, rank);
            if (status && before < 0 && run->first_failed >= 0 &&
                is_likelier_cause(ended, &run->members[run->first_failed]))
                run->first_failed = rank;
        }
}

static void ask_to_stop(job *run, int number)
{
    double now = yki_launch_now();
    if (run->stop_signal) { /* asked again: no more patience */
        run->kill_at = now;
        return;
    }
    run->stop_signal = number;
    if (run->first_failed < 0) {
        yki_sink_say(&run->err, "%s: SIG%s: stopping %d rank%s; again to kill", run->launch->name,
                     sigabbrev_np(number), run->running, run->running == 1 ? "" : "s");
        signal_ranks(run, SIGTERM);
        run->kill_at = now + run->launch->grace_s;
    }
}

static void handle_signals(job *run)
{
    struct signalfd_siginfo info;
    while (read(run->signal_fd, &info, sizeof info) == sizeof info) {
        int number = (int)info.ssi_signo;
        if (number == SIGCHLD)
            reap(run);
        else if (number == SIGUSR1 || number == SIGUSR2)
            signal_ranks(run, number);
        else
            ask_to_stop(run, number);
    }
}

static void keep_deadlines(job *run)
{
    double now = yki_launch_now();
    if (now >= run->kill_at) {
        run->kill_at = NEVER;
        signal_ranks(run, SIGKILL);
    } else if (now >= run->term_at) {
        run->term_at = NEVER;
        signal_ranks(run, SIGTERM);
    }
}

/* ---- waiting -------------------------------------------------------------------------------- */

static bool sink_is_full(const yki_sink *sink)
{
    return sink->pending.size > YKI_SINK_MAX;
}

/* Slots of run->polled: lifeline, signals, two sinks, then out and err of each rank. */
enum { LIFELINE, SIGNALS, SINK_OUT, SINK_ERR, STREAMS };

static yki_stream *stream_at(const job *run, int slot)
{
    member *owner = &run->members[(slot - STREAMS) / 2];
    return (slot - STREAMS) % 2 ? &owner->err : &owner->out;
}

/* Fills the slots; returns how many of them are streams that are still open. */
static int fill_slots(job *run)
{
    int open = 0;
    run->polled[LIFELINE] = (struct pollfd){.fd = run->lifeline, .events = POLLIN};
    run->polled[SIGNALS] = (struct pollfd){.fd = run->signal_fd, .events = POLLIN};
    run->polled[SINK_OUT] =
        (struct pollfd){.fd = run->out.pending.size ? run->out.fd : -1, .events = POLLOUT};
    run->polled[SINK_ERR] =
        (struct pollfd){.fd = run->err.pending.size ? run->err.fd : -1, .events = POLLOUT};
    for (int slot = STREAMS; slot < STREAMS + 2 * run->started; slot++) {
        const yki_stream *stream = stream_at(run, slot);
        open += stream->fd >= 0;
        run->polled[slot] =
            (struct pollfd){.fd = sink_is_full(stream->sink) ? -1 : stream->fd, .events = POLLIN};
    }
    return open;
}

static int milliseconds_left(const job *run)
{
    double next = run->term_at < run->kill_at ? run->term_at : run->kill_at;
    double left = next - yki_launch_now();
    return left > 3600 ? -1 : left > 0 ? (int)(left * 1000) + 1 : 0;
}

/* Waits once and serves what has come. False when the guard is gone. */
static bool serve(job *run)
{
    int slots = STREAMS + 2 * run->started;
    if (poll(run->polled, (nfds_t)slots, milliseconds_left(run)) < 0)
        return true; /* EINTR: look again */
    if (run->polled[LIFELINE].revents)
        return false;
    if (run->polled[SIGNALS].revents)
        handle_signals(run);
    if (run->polled[SINK_OUT].revents)
        yki_sink_flush(&run->out);
    if (run->polled[SINK_ERR].revents)
        yki_sink_flush(&run->err);
    for (int slot = STREAMS; slot < slots; slot++)
        if (run->polled[slot].revents)
            yki_stream_read(stream_at(run, slot));
    keep_deadlines(run);
    return true;
}

/* Until all ranks have ended; then ends what they left behind, and shows the last of the output. */
static bool serve_to_the_end(job *run)
{
    while (run->running > 0) {
        fill_slots(run);
        if (!serve(run))
            return false;
    }
    run->term_at = run->kill_at = NEVER;
    if (!yki_tree_kill(TREE_KILL))
        yki_sink_say(&run->err, "%s: a process of the job does not die", run->launch->name);
    while (fill_slots(run) > 0 && run->kill_at == NEVER)
        if (!serve(run))
            return false;
    return true;
}

/* ---- starting ------------------------------------------------------------------------------- */

static bool make_secret(char secret[33])
{
    unsigned char random[16];
    if (getrandom(random, sizeof random, 0) != sizeof random)
        return false;
    for (size_t i = 0; i < sizeof random; i++)
        snprintf(secret + 2 * i, 3, "%02x", random[i]);
    return true;
}

static bool serve_store(job *run)
{
    run->port = run->launch->master_port;
    if (!make_secret(run->secret)) {
        fprintf(stderr, "%s: no random bytes: %s\n", run->launch->name, strerror(errno));
        return false;
    }
    if (yk_store_serve(&run->server, run->launch->master_address, &run->port, run->secret) ||
        yk_store_connect(&run->store, run->launch->master_address, run->port, run->secret, 10)) {
        fprintf(stderr, "%s\n", yk_last_error());
        return false;
    }
    return true;
}

static int terminal_columns(int fd)
{
    struct winsize window;
    if (!isatty(fd))
        return 0;
    return ioctl(fd, TIOCGWINSZ, &window) == 0 && window.ws_col ? window.ws_col : 80;
}

/* 0 or an exit code. */
static int start_rank(job *run, const yki_rank_setting *setting, int rank)
{
    const yki_launch *launch = run->launch;
    member *new = &run->members[rank];
    bool speaks = launch->rank0_speaks && rank == 0;
    new->out = (yki_stream){.fd = -1, .rank = rank, .speaks = speaks, .sink = &run->out};
    new->err = (yki_stream){.fd = -1,
                            .rank = rank,
                            .speaks = speaks,
                            .status = speaks ? &run->status : NULL,
                            .sink = &run->err};
    new->pid = new->was = yki_rank_start(setting, rank, &new->out.fd, &new->err.fd);
    if (new->pid < 0) {
        int reason = errno;
        fprintf(stderr, "%s: cannot start %s: %s\n", launch->name, launch->program[0],
                strerror(reason));
        return reason == ENOENT ? 127 : 126; /* a shell's codes */
    }
    run->started++;
    run->running++;
    return 0;
}

/* 0, or the exit code of a job that could not be started. */
static int start(job *run)
{
    if (!serve_store(run))
        return YKI_EXIT_FAILED;
    yki_rank_setting setting = {.launch = run->launch,
                                .port = run->port,
                                .secret = run->secret,
                                .terminal_columns = terminal_columns(STDERR_FILENO)};
    int code = 0;
    for (int rank = 0; rank < run->launch->ranks && code == 0; rank++)
        code = start_rank(run, &setting, rank);
    if (code)
        yki_tree_kill(TREE_KILL);
    return code;
}

/* ---- the whole ------------------------------------------------------------------------------ */

static void report_failure(job *run)
{
    const member *failed = &run->members[run->first_failed];
    char words[64];
    yki_sink_say(&run->err, "%s: rank %d (pid %d) %s after %.1f s, the first to fail",
                 run->launch->name, run->first_failed, (int)failed->was,
                 yki_describe_status(failed->status, words, sizeof words),
                 run->failed_s - run->start_s);
    if (run->launch->ranks > 1 && failed->err.tail_next) {
        yki_sink_say(&run->err, "%s: what it said last:", run->launch->name);
        yki_stream_repeat(&failed->err, &run->err);
    }
}

static int exit_code(const job *run)
{
    if (run->first_failed >= 0)
        return yki_exit_code(run->members[run->first_failed].status);
    return run->stop_signal ? 128 + run->stop_signal : YKI_EXIT_OK;
}

static void flush_sink(yki_sink *sink)
{
    struct pollfd slot = {.fd = sink->fd, .events = POLLOUT};
    while (sink->pending.size && poll(&slot, 1, -1) >= 0)
        yki_sink_flush(sink);
}

static int open_signals(void)
{
    sigset_t signals;
    sigprocmask(SIG_BLOCK, NULL, &signals); /* the guard has blocked all that we want */
    signal(SIGPIPE, SIG_IGN);
    return signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
}

static void finish(job *run)
{
    yk_store_destroy(run->store);
    yk_store_server_destroy(run->server);
    for (int rank = 0; run->members && rank < run->started; rank++) {
        yki_stream_free(&run->members[rank].out);
        yki_stream_free(&run->members[rank].err);
    }
    yki_sink_free(&run->out);
    yki_sink_free(&run->err);
    free(run->status.data);
    free(run->members);
    free(run->polled);
}

int yki_job_run(const yki_launch *launch, int lifeline)
{
    size_t ranks = (size_t)launch->ranks;
    job run = {.launch = launch,
               .members = calloc(ranks, sizeof(member)),
               .polled = calloc(STREAMS + 2 * ranks, sizeof(struct pollfd)),
               .signal_fd = open_signals(),
               .lifeline = lifeline,
               .start_s = yki_launch_now(),
               .term_at = NEVER,
               .kill_at = NEVER,
               .first_failed = -1};
    yki_sink_init(&run.out, STDOUT_FILENO, &run.status);
    yki_sink_init(&run.err, STDERR_FILENO, &run.status);
    if (!run.members || !run.polled || run.signal_fd < 0) {
        fprintf(stderr, "%s: cannot set up: %s\n", launch->name, strerror(errno));
        return YKI_EXIT_FAILED;
    }
    int code = start(&run);
    if (code == 0) {
        if (!serve_to_the_end(&run)) { /* the guard was killed: all goes, and without a word */
            yki_tree_kill(TREE_KILL);
            return 128 + SIGKILL;
        }
        if (run.first_failed >= 0)
            report_failure(&run);
        flush_sink(&run.out);
        flush_sink(&run.err);
        code = exit_code(&run);
    }
    finish(&run);
    return code;
}

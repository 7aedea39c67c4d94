/*
 * The launcher's only poll: it waits for output, deaths, signals, deadlines and the end of the
 * guard at the same time, so that none of them can delay the others.
 */
#define _GNU_SOURCE
#include "launch/wait.h"

#include <errno.h>
#include <string.h>

#include "common/clock.h"
#include "launch/control.h"
#include "launch/end.h"
#include "launch/ready.h"

/*
 * The slots of job->polled: lifeline, signals, orders, control, store, two sinks, then err and out
 * of each rank. err comes first, so that a progress line cleared on err is gone before a line on
 * out takes its place.
 */
enum { LIFELINE, SIGNALS, ORDERS, CONTROL, STORE, SINK_OUT, SINK_ERR, STREAMS };

size_t cli_job_slots(int ranks)
{
    return STREAMS + 2 * (size_t)ranks;
}

static cli_stream *stream_at(const cli_job *job, int slot)
{
    cli_member *owner = &job->members[(slot - STREAMS) / 2];
    return (slot - STREAMS) % 2 ? &owner->out : &owner->err;
}

/* Fills the slots; returns how many of them are streams that are still open. */
static int fill_slots(cli_job *job)
{
    int open = 0;
    job->polled[LIFELINE] = (struct pollfd){.fd = job->lifeline, .events = POLLIN};
    job->polled[SIGNALS] = (struct pollfd){.fd = job->signal_fd, .events = POLLIN};
    job->polled[ORDERS] =
        (struct pollfd){.fd = job->peers ? job->peers->orders(job) : -1, .events = POLLIN};
    job->polled[CONTROL] = (struct pollfd){.fd = job->control_fd, .events = POLLIN};
    job->polled[STORE] =
        (struct pollfd){.fd = job->store ? cli_store_thread_fd(job->store) : -1, .events = POLLIN};
    job->polled[SINK_OUT] =
        (struct pollfd){.fd = job->out.pending.size ? job->out.fd : -1, .events = POLLOUT};
    job->polled[SINK_ERR] =
        (struct pollfd){.fd = job->err.pending.size ? job->err.fd : -1, .events = POLLOUT};
    for (int slot = STREAMS; slot < STREAMS + 2 * job->started; slot++) {
        const cli_stream *stream = stream_at(job, slot);
        open += stream->fd >= 0;
        job->polled[slot] = (struct pollfd){.fd = cli_sink_is_full(stream->sink) ? -1 : stream->fd,
                                            .events = POLLIN};
    }
    return open;
}

static int milliseconds_left(const cli_job *job)
{
    double next = job->term_at < job->kill_at ? job->term_at : job->kill_at;
    next = job->give_up_at < next ? job->give_up_at : next;
    next = job->start_at < next ? job->start_at : next;
    if (job->keeps_signals)
        return (int)(CLI_LOOK_S * 1000);
    if (next >= CLI_NEVER)
        return -1;
    double left = next - cli_clock_s();
    left = left < CLI_LONGEST_WAIT_S ? left : CLI_LONGEST_WAIT_S;
    return left > 0 ? (int)(left * 1000) + 1 : 0;
}

static void flush_sinks(cli_job *job)
{
    bool had_lost = cli_sink_has_lost(&job->out);
    if (job->polled[SINK_OUT].revents)
        cli_sink_flush(&job->out);
    if (cli_sink_has_lost(&job->out) && !had_lost)
        cli_sink_say(&job->err,
                     "%s: cannot write to stdout: %s; the job continues, and lines are "
                     "lost",
                     job->launch->name, strerror(job->out.error));
    if (job->polled[SINK_ERR].revents)
        cli_sink_flush(&job->err);
}

/* Waits once for the first slots and serves what has come. False when the guard is gone. */
static bool serve_events(cli_job *job, int slots, int milliseconds)
{
    while (poll(job->polled, (nfds_t)slots, milliseconds) < 0 && errno == EINTR)
        ;
    cli_job_discount_suspension(job);
    if (job->polled[LIFELINE].revents)
        return false;
    if (job->polled[SIGNALS].revents)
        cli_job_handle_signals(job);
    if (job->polled[ORDERS].revents)
        job->peers->obey(job);
    if (job->polled[CONTROL].revents)
        cli_control_read(job);
    if (job->polled[STORE].revents)
        cli_store_thread_heed(job->store);
    flush_sinks(job);
    for (int slot = STREAMS; slot < slots; slot++)
        if (job->polled[slot].revents)
            cli_stream_read(stream_at(job, slot));
    if (job->keeps_signals)
        job->keeps_signals = cli_job_send_kept(job);
    cli_job_keep_deadlines(job);
    return true;
}

/*
 * Waits until the reader of the output takes more, when the ranks have ended. One who takes nothing
 * for a second more than the ranks had to stop does not keep a job that was asked to.
 */
static bool serve_reader(cli_job *job, int slots)
{
    double begin = cli_clock_s(), patience_s = 1 + job->launch->grace_s;
    if (!job->stop_signal || job->regrouping)
        return serve_events(job, slots, -1);
    bool guarded = serve_events(job, slots, (int)(1000 * patience_s) + 1);
    job->output_abandoned |= cli_clock_s() - begin > patience_s;
    return guarded;
}

/*
 * Reads what the ranks have left in their pipes. When no process of the job is left, all of it is
 * there: to wait for the end of a pipe would be to trust that no stranger holds it open.
 */
static bool read_rest(cli_job *job)
{
    bool waits, more = true;
    while (more && fill_slots(job) > 0 && !job->output_abandoned) {
        int slots = STREAMS + 2 * job->started;
        waits = cli_sink_is_full(&job->out) || cli_sink_is_full(&job->err);
        if (!(waits ? serve_reader(job, slots) : serve_events(job, slots, 0)))
            return false;
        more = waits;
        for (int slot = STREAMS; slot < slots; slot++)
            more = more || job->polled[slot].revents;
    }
    return true;
}

static bool serve_all(cli_job *job)
{
    job->awake_s = cli_clock_s();
    while (job->running > 0) {
        fill_slots(job);
        if (!serve_events(job, STREAMS + 2 * job->started, milliseconds_left(job)))
            return false;
    }
    job->term_at = job->kill_at = CLI_NEVER;
    if (!cli_tree_kill(CLI_TREE_KILL_S))
        cli_sink_say(&job->err, "%s: a process of the job does not die", job->launch->name);
    return read_rest(job);
}

bool cli_job_serve(cli_job *job)
{
    if (serve_all(job))
        return true;
    job->unguarded = true;
    cli_tree_kill(CLI_TREE_KILL_S);
    return false;
}

bool cli_job_await(cli_job *job, bool (*done)(const cli_job *job))
{
    job->awake_s = cli_clock_s();
    while (!done(job) && cli_clock_s() < job->give_up_at) {
        fill_slots(job);
        if (!serve_events(job, STREAMS, milliseconds_left(job)))
            return false;
    }
    return true;
}

bool cli_job_flush(cli_job *job)
{
    while ((job->out.pending.size || job->err.pending.size) && !job->output_abandoned) {
        fill_slots(job);
        if (!serve_reader(job, STREAMS))
            return false;
    }
    return true;
}

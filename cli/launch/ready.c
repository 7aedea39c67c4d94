/* See ready.h. What a process does with signals is in /proc/PID/status, as masks. */
#define _GNU_SOURCE
#include "launch/ready.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "launch/end.h"

static const double starting_s = 30; /* by then, a rank that is to handle them does */
static const int kept_signals[] = {SIGUSR1, SIGUSR2};
enum { KEPT_SIGNALS = sizeof kept_signals / sizeof *kept_signals };

unsigned cli_signal_bit(int number)
{
    return 1U << (number - 1);
}

bool cli_is_kept(int number)
{
    return number == SIGUSR1 || number == SIGUSR2;
}

void cli_member_keep(cli_member *member, int number)
{
    member->kept |= cli_signal_bit(number);
}

/*
 * The signals that do not end the process; all of them where the system does not tell. A process
 * that reads signals blocks them (signalfd). One that is just starting a thread or another process
 * blocks all of them, but only for a moment.
 */
static unsigned read_handled(pid_t pid)
{
    char path[64], line[256];
    unsigned long long mask, blocked_all = cli_signal_bit(SIGSEGV); /* only ever blocked with all */
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "re");
    unsigned handled = file ? 0 : ~0U;
    while (file && fgets(line, sizeof line, file)) {
        bool passes = sscanf(line, "SigIgn: %llx", &mask) == 1 ||
                      sscanf(line, "SigCgt: %llx", &mask) == 1 ||
                      (sscanf(line, "SigBlk: %llx", &mask) == 1 && !(mask & blocked_all));
        if (passes)
            handled |= (unsigned)mask;
    }
    if (file)
        fclose(file);
    return handled;
}

static void send_kept(cli_member *member, bool late)
{
    unsigned ready = member->kept & (late ? ~0U : read_handled(member->was));
    member->kept &= ~ready;
    for (int i = 0; i < KEPT_SIGNALS; i++)
        if (ready & cli_signal_bit(kept_signals[i]))
            cli_member_signal(member, kept_signals[i]);
}

bool cli_job_send_kept(cli_job *job)
{
    bool kept = false, late = cli_clock_s() - job->start_s >= starting_s;
    for (int i = 0; i < job->started; i++) {
        cli_member *member = &job->members[i];
        if (member->pid && member->kept)
            send_kept(member, late);
        kept = kept || (member->pid && member->kept);
    }
    return kept;
}

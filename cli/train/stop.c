/*
 * Stopping in order: a first SIGINT, SIGTERM or SIGUSR1 is only remembered, and the training loop
 * ends after a step with a checkpoint. A second one has its ordinary effect.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stddef.h>

#include "train/train.h"

static volatile sig_atomic_t stop_signal;

static void remember(int number)
{
    stop_signal = number;
}

int yki_stop_signal(void)
{
    return stop_signal;
}

void yki_stop_on_signals(void)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGUSR1};
    struct sigaction action = {.sa_handler = remember, .sa_flags = SA_RESTART | (int)SA_RESETHAND};
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        sigaction(signals[i], &action, NULL);
}

/*
 * Stopping in order: a first SIGINT, SIGTERM or SIGUSR1 is only remembered, and the training loop
 * ends after a step with a checkpoint. A second one has its ordinary effect.
 *
 * A thread of their own takes the signals. The kernel puts a handler's frame below the stack
 * pointer of the thread that it interrupts, and oneDNN's matrix products for AVX2 point that into
 * their own buffer: on a thread that computes, a handler would overwrite the heap.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "train/train.h"

static const int signals[] = {SIGINT, SIGTERM, SIGUSR1};
static atomic_int stop_signal;

static void remember(int number)
{
    atomic_store(&stop_signal, number);
}

int cli_stop_signal(void)
{
    return atomic_load(&stop_signal);
}

static void *take_signals(void *unused)
{
    for (;;)
        pause();
    return unused;
}

bool cli_stop_prepare(void)
{
    pthread_t thread;
    int error = pthread_create(&thread, NULL, take_signals, NULL);
    if (error)
        return cli_complain("cannot start the thread that takes signals: %s", strerror(error));
    pthread_detach(thread);
    pthread_setname_np(thread, "yoke-signals");
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        sigaddset(&set, signals[i]);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    return true;
}

void cli_stop_on_signals(void)
{
    struct sigaction action = {.sa_handler = remember, .sa_flags = SA_RESTART | (int)SA_RESETHAND};
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        sigaction(signals[i], &action, NULL);
}

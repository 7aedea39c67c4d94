/* See held_signal.h. */
#define _GNU_SOURCE
#include "base/held_signal.h"

#include <pthread.h>
#include <time.h>

void yki_signal_hold(yki_held_signal *signal, int number)
{
    sigemptyset(&signal->held);
    sigaddset(&signal->held, number);
    pthread_sigmask(SIG_BLOCK, &signal->held, &signal->before);
}

void yki_signal_drop(const yki_held_signal *signal, int number)
{
    static const struct timespec at_once = {0};
    if (!sigismember(&signal->before, number))
        sigtimedwait(&signal->held, NULL, &at_once);
    pthread_sigmask(SIG_SETMASK, &signal->before, NULL);
}

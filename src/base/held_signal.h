/* A signal that what this thread does may raise, where that is an error of the call as well. */
#ifndef YKI_HELD_SIGNAL_H
#define YKI_HELD_SIGNAL_H

#include <signal.h>

typedef struct yki_held_signal {
    sigset_t held, before;
} yki_held_signal;

/* Holds the signal back from this thread, and from threads that it starts meanwhile. */
void yki_signal_hold(yki_held_signal *signal, int number);
/* Ends that. One that has come meanwhile is dropped, unless the program itself held it back. */
void yki_signal_drop(const yki_held_signal *signal, int number);

#endif

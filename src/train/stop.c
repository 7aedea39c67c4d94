/*
 * Stopping in order: the first SIGINT, SIGTERM, SIGHUP, SIGUSR1 or SIGUSR2 is only remembered, and
 * the training loop ends after its current step. A second one has its ordinary effect if it comes
 * later than those that belong to the same request: timeout(1) signals its child twice, and where
 * a scheduler signals all processes of a job, a rank gets the launcher's signal, too. SIGHUP never
 * has: when a terminal is closed, both the shell and the kernel send it.
 *
 * A separate thread takes the signals. The kernel writes a handler's frame below the stack pointer
 * of the thread that it interrupts, and oneDNN's matrix products for AVX2 keep that pointer in a
 * buffer on the heap: on a thread that computes, a handler would overwrite the heap.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include <yoke/train.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"

static const int stop_signals[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};
enum { STOP_SIGNALS = sizeof stop_signals / sizeof *stop_signals };

enum { PATIENCE_MS = 1000, LOOK_MS = 50 }; /* with readers of the output, after a signal */

static const double request_s = 0.5; /* within which signals belong to one request */

static atomic_int received_signal;
static _Atomic double received_s[NSIG]; /* when each has come first, or 0 */
static atomic_int patience_ms = PATIENCE_MS;
static atomic_bool prepared;
static sem_t handled; /* posted once there are handlers */

/* nohup has it ignored. */
static bool ignores_hangup(void)
{
    struct sigaction action;
    return sigaction(SIGHUP, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

static void remember_signal(int number)
{
    double now = yki_now(), first = 0;
    if (atomic_compare_exchange_strong(&received_s[number], &first, now)) {
        atomic_store(&received_signal, number);
    } else if (number != SIGHUP && now - first > request_s) {
        signal(number, SIG_DFL);
        raise(number);
    }
}

int yk_stop_signal(void)
{
    return atomic_load(&received_signal);
}

bool yk_stop_may_write(int fd)
{
    struct pollfd output = {.fd = fd, .events = POLLOUT};
    while (fd >= 0) { /* poll ignores others, and would wait for ever */
        bool patient = !yk_stop_signal() || atomic_load(&patience_ms) > 0;
        int ready = poll(&output, 1, patient ? LOOK_MS : 0);
        if (ready > 0 || (ready < 0 && errno != EINTR))
            return true; /* the write tells of an error */
        if (!patient)
            return false;
        if (ready == 0 && yk_stop_signal())
            atomic_fetch_sub(&patience_ms, LOOK_MS);
    }
    return true;
}

static sigset_t all_stop_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < STOP_SIGNALS; i++)
        sigaddset(&set, stop_signals[i]);
    return set;
}

/*
 * The program may have been started with some of them blocked. Until there are handlers, SIGUSR1
 * and SIGUSR2 stay so: they are sent to training, not to end it. The others mean what they always
 * do.
 */
static void *wait_for_signals(void *unused)
{
    sigset_t all = all_stop_signals(), ending = all;
    sigdelset(&ending, SIGUSR1);
    sigdelset(&ending, SIGUSR2);
    pthread_sigmask(SIG_UNBLOCK, &ending, NULL);
    while (sem_wait(&handled) != 0)
        continue;
    pthread_sigmask(SIG_UNBLOCK, &all, NULL);
    for (;;)
        pause();
    return unused;
}

yk_status yk_stop_prepare(void)
{
    pthread_t thread;
    if (atomic_exchange(&prepared, true))
        return YK_OK;
    sem_init(&handled, 0, 0);
    sigset_t set = all_stop_signals(), before;
    pthread_sigmask(SIG_BLOCK, &set, &before); /* the thread inherits it */
    int error = pthread_create(&thread, NULL, wait_for_signals, NULL);
    if (error) {
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        sem_destroy(&handled);
        atomic_store(&prepared, false);
        return yki_error(YK_ERROR_OUT_OF_MEMORY, "cannot start the thread that takes signals: %s",
                         yki_thread_error(error));
    }
    pthread_setname_np(thread, "yoke-signals");
    pthread_detach(thread);
    return YK_OK;
}

yk_status yk_stop_on_signals(void)
{
    struct sigaction action = {.sa_handler = remember_signal, .sa_flags = SA_RESTART};
    if (!atomic_load(&prepared))
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "yk_stop_on_signals: call yk_stop_prepare first, at the start of main");
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < STOP_SIGNALS; i++)
        if (stop_signals[i] != SIGHUP || !ignores_hangup())
            sigaction(stop_signals[i], &action, NULL);
    sem_post(&handled);
    return YK_OK;
}

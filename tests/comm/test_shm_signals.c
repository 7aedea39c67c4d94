/* Shared memory that is allocated while signals come. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "comm/shm/shm.h"
#include "harness.h"

/* As older kernels do it: a signal undoes what has been done. */
int posix_fallocate(int fd, off_t offset, off_t bytes)
{
    if (nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL))
        return EINTR;
    return ftruncate(fd, offset + bytes) ? errno : 0;
}

static void take_signal(int number)
{
    (void)number;
}

/* They come as often as a profiler's, and used to keep it from ever coming to the end. */
YK_TEST(memory_is_allocated_while_signals_come)
{
    shm_segment segment;
    struct sigaction action = {.sa_handler = take_signal, .sa_flags = SA_RESTART};
    struct itimerval often = {.it_interval = {.tv_usec = 1000}, .it_value = {.tv_usec = 1000}};
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    yk_status status = yki_shm_create(&segment, 4096);
    setitimer(ITIMER_REAL, &(struct itimerval){.it_value = {0}}, NULL);
    assert_ok(status);
    yki_shm_detach(&segment);
}

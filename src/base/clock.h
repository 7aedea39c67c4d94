/* Monotonic wall clock, and the processor's counter. */
#ifndef YKI_CLOCK_H
#define YKI_CLOCK_H

#include <stdint.h>

#pragma GCC visibility push(default) /* shared with modules, see device/module.h */

/* Seconds since some fixed moment; never goes back. */
double yki_now(void);

/*
 * The processor's counter of time, which takes a third of the time to read. It counts at a constant
 * rate: two readings, each beside one of yki_now, give it.
 */
static inline uint64_t yki_ticks(void)
{
#if defined __x86_64__
    return __builtin_ia32_rdtsc();
#elif defined __aarch64__
    uint64_t ticks;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
#else
    return (uint64_t)(1e9 * yki_now());
#endif
}

/* From now to that moment for poll() and epoll_wait(): 0 when it is past, and at most an hour,
 * after which to look again. */
int yki_milliseconds_until(double deadline);

#pragma GCC visibility pop

#endif

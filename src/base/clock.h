/* Monotonic wall clock. */
#ifndef YKI_CLOCK_H
#define YKI_CLOCK_H

/* Seconds since some fixed moment; never goes back. */
double yki_now(void);

/* From now to that moment for poll() and epoll_wait(): 0 when it is past, and at most an hour,
 * after which to look again. */
int yki_milliseconds_until(double deadline);

#endif

/* Monotonic wall clock. */
#ifndef YKI_CLOCK_H
#define YKI_CLOCK_H

/* Seconds since some fixed moment; never goes back. */
double yki_now(void);

#endif

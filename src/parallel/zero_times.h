/* What ZeRO's exchange of updates costs a step. */
#ifndef YKI_ZERO_TIMES_H
#define YKI_ZERO_TIMES_H

#include <yoke/zero.h>

/* How many seconds the exchange of the last step's updates took, and of that, how many this rank
 * waited for others. Both are 0 from the second call after a step on, and where streams hide the
 * exchange. */
double yki_zero_take_exchange(yk_zero *zero, double *waited_s);

#endif

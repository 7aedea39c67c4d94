/* Units of work that the threads of a parallel region share.
 *
 * Neighbouring units are neighbours in memory. If threads took them in turn, each would fetch ahead
 * what the other is about to write, and share cache lines with it where blocks are small. So each
 * thread begins with a part of its own, which is also the same part in the next kernel of the same
 * shape, whose data are then in its own caches. A thread that has finished its part takes units of
 * the others, so that one whose core is busy with another program does not hold up the kernel. */
#ifndef YKI_DEVICE_CPU_UNITS_H
#define YKI_DEVICE_CPU_UNITS_H

#include <stdatomic.h>
#include <stdint.h>

enum { YKI_UNIT_PARTS = 64 }; /* of larger teams, several threads begin with the same part */

typedef struct yki_unit_part {
    _Alignas(64) atomic_llong next; /* parts are in cache lines of their own */
    int64_t end;
} yki_unit_part;

typedef struct yki_units {
    int64_t count;
    int64_t grain; /* a thread takes so many units at a time */
    int parts;
    yki_unit_part part[YKI_UNIT_PARTS];
} yki_units;

/* Before the parallel region, whose team may have as many as `team` threads. */
void yki_units_divide(yki_units *units, int64_t count, int64_t grain, int team);

/* Within the region:
 *     for (int64_t unit = -1; (unit = yki_units_next(&units, unit)) >= 0;)
 * calls the body once for each unit, in one of the threads. What a thread has written past the
 * caches is visible to the others when it finds no more units. */
int64_t yki_units_next(yki_units *units, int64_t unit);

#endif

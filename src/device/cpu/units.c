/* See units.h. */
#include "device/cpu/units.h"

#include <omp.h>

#include "device/cpu/geometry.h"

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

void yki_units_divide(yki_units *units, int64_t count, int64_t grain, int team)
{
    const int64_t grains = (count + grain - 1) / grain;
    units->count = count;
    units->grain = grain;
    units->parts = (int)least(team, YKI_UNIT_PARTS);
    for (int i = 0; i < units->parts; i++) {
        yki_unit_part *part = &units->part[i];
        atomic_init(&part->next, grains * i / units->parts * grain);
        part->end = least(grains * (i + 1) / units->parts * grain, count);
    }
}

int64_t yki_units_next(yki_units *units, int64_t unit)
{
    if ((unit + 1) % units->grain != 0 && unit + 1 < units->count)
        return unit + 1;
    const int own = omp_get_thread_num();
    for (int i = 0; i < units->parts; i++) {
        yki_unit_part *part = &units->part[(own + i) % units->parts];
        if (atomic_load_explicit(&part->next, memory_order_relaxed) >= part->end)
            continue;
        int64_t next = atomic_fetch_add_explicit(&part->next, units->grain, memory_order_relaxed);
        if (next < part->end)
            return next;
    }
    yki_stream_settle();
    return -1;
}

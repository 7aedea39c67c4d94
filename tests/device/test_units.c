/* Units of work that threads share. */
#include "device/cpu/units.h"

#include <omp.h>

#include "harness.h"

enum { MOST = 1000 };

static void each_unit_is_taken_once(int64_t count, int64_t grain, int team)
{
    atomic_int taken[MOST + 1] = {0}; /* the last one: what is not a unit */
    yki_units units;
    yki_units_divide(&units, count, grain, team);
#pragma omp parallel num_threads(team)
    for (int64_t unit = -1; (unit = yki_units_next(&units, unit)) >= 0;)
        atomic_fetch_add(&taken[unit < count ? unit : MOST], 1);
    assert_int_equal(atomic_load(&taken[MOST]), 0);
    for (int64_t unit = 0; unit < count; unit++)
        if (atomic_load(&taken[unit]) != 1)
            fail_msg("%d threads took unit %lld of %lld, %lld at a time, %d times", team,
                     (long long)unit, (long long)count, (long long)grain,
                     atomic_load(&taken[unit]));
}

YK_TEST(threads_take_each_unit_once)
{
    static const int64_t counts[] = {0, 1, 2, 7, 64, 65, 99, MOST}, grains[] = {1, 3, 16, 2 * MOST};
    static const int teams[] = {1, 2, 3, YKI_UNIT_PARTS + 3};
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
        for (size_t g = 0; g < sizeof grains / sizeof *grains; g++)
            for (size_t t = 0; t < sizeof teams / sizeof *teams; t++)
                each_unit_is_taken_once(counts[c], grains[g], teams[t]);
}

/* The only thread of this region is the first one of a team of two: it begins with the first half,
 * and then does the work of the second thread, which never comes. */
YK_TEST(a_thread_begins_with_its_own_part_and_helps_one_that_is_held_up)
{
    yki_units units;
    yki_units_divide(&units, 10, 2, 2);
    for (int64_t unit = -1, wanted = 0; wanted < 10; wanted++)
        assert_int_equal(unit = yki_units_next(&units, unit), wanted);
}

/* In turn, so that neither can take what the other has not come to. */
YK_TEST(neighbouring_units_belong_to_one_thread)
{
    int64_t first[2] = {-1, -1};
    bool team = false;
    yki_units units;
    yki_units_divide(&units, 10, 1, 2);
#pragma omp parallel num_threads(2)
    {
        const int own = omp_get_thread_num();
        if (own == 1)
            team = true;
        for (int turn = 0; turn < 2; turn++) {
            if (turn == own)
                first[own] = yki_units_next(&units, -1);
#pragma omp barrier
        }
    }
    if (!team)
        skip(); /* OpenMP may start one thread only */
    assert_int_equal(first[0], 0);
    assert_int_equal(first[1], 5);
}

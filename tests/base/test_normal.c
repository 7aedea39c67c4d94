/* Normal numbers that every processor computes alike: those of the C library, and numbers that are
 * known. */
#include "harness.h"

#include "base/normal.h"

YK_TEST(log_and_cos_are_the_librarys)
{
    const double two_pi = 6.28318530717958647692;
    assert_true(yki_normal_log(1) == 0);
    for (uint64_t i = 0; i < 100000; i++) {
        double unit = yki_unit_of(yki_word(1, i)), x = i < 54 ? ldexp(1, -(int)i) : 1 - unit;
        assert_true(fabs(yki_normal_log(x) - log(x)) <= 1e-15 * fabs(log(x)));
        assert_true(fabs(yki_normal_cos(unit) - cos(two_pi * unit)) <= 2e-15);
    }
    for (int quarter = 0; quarter < 4; quarter++)
        assert_true(yki_normal_cos(quarter / 4.0) == (quarter == 0) - (quarter == 2));
}

YK_TEST(numbers_are_normal)
{
    enum { COUNT = 200000 };
    double sums[5] = {0};
    for (uint64_t i = 0; i < COUNT; i++) {
        double value = yki_normal_at(7, i), power = 1;
        for (int k = 1; k < 5; k++)
            sums[k] += power *= value;
    }
    const double moments[] = {0, 0, 1, 0, 3};
    for (int k = 1; k < 5; k++) /* 6 deviations of the fourth moment, which deviates most */
        assert_true(fabs(sums[k] / COUNT - moments[k]) < 0.13);
}

/* Whatever the compiler and its options: a change of these bits changes training runs. */
YK_TEST(bits_are_fixed)
{
    const double expected[] = {-0x1.2d6c28ae4eb8bp+0, 0x1.4d7f4df2cf953p-4, 0x1.e10465a20c12cp-1,
                               -0x1.0bcf28380f093p+1};
    for (uint64_t i = 0; i < 4; i++)
        assert_true(yki_normal_at(3, i) == expected[i]);
}

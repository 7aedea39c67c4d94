/* How fast multiply-adds are when nothing holds them up: included by table.h alone. */

/* Independent sums hide the latency of a multiply-add, and fit the registers of every width. The
 * compiler must not know the factor: with 0.5 it would see that 2 stays 2, and leave that sum out.
 */
static double multiply_add(int64_t rounds)
{
    enum { SUMS = 12 };
    const volatile float half = 0.5f;
    yki_lanes sum[SUMS], factor = yki_splat(half), term = yki_splat(1);
    for (int i = 0; i < SUMS; i++)
        sum[i] = yki_splat((float)i);
    for (int64_t round = 0; round < rounds; round++)
        for (int i = 0; i < SUMS; i++)
            sum[i] = sum[i] * factor + term;
    for (int i = 0; i < SUMS; i++)
        __asm__ volatile("" : : "m"(sum[i])); /* the results count as used */
    return 2.0 * (double)rounds * SUMS * YKI_WIDTH;
}

/* The passes of PowerSGD on the host (device/low_rank.h): the order of their sums, to the bit,
 * whatever the width of vectors, and what they do with the error. */
#include "device/low_rank.h"

#include <math.h>
#include <stdlib.h>

#include "harness.h"

/* Rows, columns and rank: with and without a rest of lanes, of rows and of columns that are worked
 * on together, and fewer of each. */
static const int64_t shapes[][3] = {{1, 1, 1},    {3, 31, 2},   {4, 32, 1},  {7, 256, 3},
                                    {33, 300, 1}, {10, 512, 4}, {64, 27, 1}, {5, 1153, 2}};
enum { SHAPES = sizeof shapes / sizeof *shapes, LANES = 32 };

static float *draw(uint64_t which, int64_t count)
{
    float *values = malloc((size_t)count * sizeof *values);
    assert_non_null(values);
    for (int64_t i = 0; i < count; i++)
        values[i] = yki_low_rank_draw(which, 7, (uint64_t)i);
    return values;
}

/* The same numbers each time. */
static yki_low_rank make(const int64_t shape[3], bool feedback)
{
    int64_t n = shape[0], m = shape[1], rank = shape[2];
    return (yki_low_rank){.matrix = draw(1, n * m),
                          .error = feedback ? draw(2, n * m) : NULL,
                          .p = draw(3, rank * n),
                          .q = draw(4, rank * m),
                          .n = n,
                          .m = m,
                          .rank = rank};
}

static void free_all(yki_low_rank *x)
{
    free(x->matrix);
    free(x->error);
    free(x->p);
    free(x->q);
}

static void run(const yki_low_rank *x, yki_low_rank_op op)
{
    static const double good;
    yki_low_rank_run(&(yki_low_rank_args){
        .op = op, .at = *x, .matrices = x, .matrix_count = 1, .share = 0.3F, .bad = &good});
}

/* No compiler adds it to a sum without rounding it. */
static float product(float a, float b)
{
    volatile float rounded = a * b;
    return rounded;
}

/* The definition. */
static float dot(const float *a, const float *b, int64_t count)
{
    float lanes[LANES] = {0};
    for (int64_t i = 0; i < count; i++)
        lanes[i % LANES] += product(a[i], b[i]);
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int j = 0; j < half; j++)
            lanes[j] += lanes[j + half];
    return lanes[0];
}

static void expect(yki_low_rank *x, yki_low_rank_op op)
{
    int64_t n = x->n, m = x->m;
    for (int64_t e = 0; op == YKI_LOW_RANK_PROJECT && x->error && e < n * m; e++)
        x->matrix[e] += x->error[e];
    for (int64_t k = 0; op == YKI_LOW_RANK_PROJECT && k < x->rank; k++)
        for (int64_t i = 0; i < n; i++)
            x->p[k * n + i] = dot(x->matrix + i * m, x->q + k * m, m);
    for (int64_t e = 0; op == YKI_LOW_RANK_PROJECT_BACK && e < x->rank * m; e++) {
        x->q[e] = 0;
        for (int64_t i = 0; i < n; i++)
            x->q[e] += product(x->p[e / m * n + i], x->matrix[i * m + e % m]);
    }
    for (int64_t e = 0; op == YKI_LOW_RANK_APPROXIMATE && e < n * m; e++) {
        float sum = 0;
        for (int64_t k = 0; k < x->rank; k++)
            sum += product(x->p[k * n + e / m], x->q[k * m + e % m]);
        if (x->error)
            x->error[e] = x->matrix[e] - product(0.3F, sum);
        x->matrix[e] = sum;
    }
}

static void assert_same(const char *what, const float *found, const float *expected, int64_t count)
{
    for (int64_t i = 0; found && i < count; i++)
        if (memcmp(&found[i], &expected[i], sizeof *found) != 0)
            fail_msg("%s[%d] is %.9g, not %.9g", what, (int)i, (double)found[i],
                     (double)expected[i]);
}

YK_TEST(sums_have_the_order_of_the_definition)
{
    static const yki_low_rank_op ops[] = {YKI_LOW_RANK_PROJECT, YKI_LOW_RANK_PROJECT_BACK,
                                          YKI_LOW_RANK_APPROXIMATE};
    for (int s = 0; s < SHAPES; s++)
        for (int feedback = 0; feedback < 2; feedback++) {
            yki_low_rank found = make(shapes[s], feedback), expected = make(shapes[s], feedback);
            for (int i = 0; i < 3; i++) {
                run(&found, ops[i]);
                expect(&expected, ops[i]);
                assert_same("M", found.matrix, expected.matrix, found.n * found.m);
                assert_same("error", found.error, expected.error, found.n * found.m);
                assert_same("P", found.p, expected.p, found.rank * found.n);
                assert_same("Q", found.q, expected.q, found.rank * found.m);
            }
            free_all(&found);
            free_all(&expected);
        }
}

YK_TEST(columns_become_orthonormal)
{
    yki_low_rank x = make(shapes[5], false);
    run(&x, YKI_LOW_RANK_ORTHONORMALISE_Q);
    for (int64_t k = 0; k < x.rank; k++)
        for (int64_t l = 0; l <= k; l++) {
            double sum = 0;
            for (int64_t j = 0; j < x.m; j++)
                sum += (double)x.q[k * x.m + j] * (double)x.q[l * x.m + j];
            assert_true(fabs(sum - (k == l)) < 1e-6);
        }
    free_all(&x);
}

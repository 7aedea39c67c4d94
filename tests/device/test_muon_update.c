/* Muon's update of one matrix: the same bits on cpu with any number of threads as on ref, and the
 * numbers of an independent form in f64. */
#include "muon_update.h"

#include <math.h>

static const int64_t shapes[][2] = {{1, 1}, {5, 18}, {64, 216}, {70, 130}, {33, 7}, {256, 64}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

YK_TEST(cpu_has_the_bits_of_ref_with_any_number_of_threads)
{
    for (int s = 0; s < SHAPES; s++) {
        int64_t rows = shapes[s][0], columns = shapes[s][1];
        size_t bytes = (size_t)(rows * columns) * sizeof(float);
        const muon_matrix matrix = {.rows = rows, .columns = columns, .normalize = true};
        float *ref = muon_updated(&yki_device_ref, 1, matrix);
        for (int threads = 1; threads < 4; threads++) {
            float *cpu = muon_updated(&yki_device_cpu, threads, matrix);
            assert_memory_equal(cpu, ref, bytes);
            free(cpu);
        }
        free(ref);
    }
}

/* c (m, n) = p q^T for p (m, k) and q (n, k) */
static void multiply(double *c, const double *p, const double *q, int64_t m, int64_t n, int64_t k)
{
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            c[i * n + j] = 0;
            for (int64_t l = 0; l < k; l++)
                c[i * n + j] += p[i * k + l] * q[j * k + l];
        }
}

static double norm(const double *x, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += x[i] * x[i];
    return sqrt(sum);
}

/* X = 3.4445 X - 4.775 (X X^T) X + 2.0315 (X X^T)^2 X, which is the same for X and for X^T: so the
 * oracle never exchanges rows and columns. */
static void newton_schulz(double *x, int64_t rows, int64_t columns)
{
    size_t count = (size_t)(rows * columns);
    double *gram = malloc((size_t)(columns * columns) * sizeof *gram);
    double *once = malloc(count * sizeof *once), *twice = malloc(count * sizeof *twice);
    double *turned = malloc(count * sizeof *turned);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++)
            turned[j * rows + i] = x[i * columns + j];
    multiply(gram, turned, turned, columns, columns, rows); /* X^T X, symmetric */
    multiply(once, x, gram, rows, columns, columns);
    multiply(twice, once, gram, rows, columns, columns);
    for (size_t i = 0; i < count; i++)
        x[i] = 3.4445 * x[i] - 4.775 * once[i] + 2.0315 * twice[i];
    free(gram);
    free(once);
    free(twice);
    free(turned);
}

YK_TEST(the_update_is_that_of_an_independent_form)
{
    for (int s = 0; s < SHAPES; s++)
        for (int normalize = 0; normalize < 2; normalize++) {
            int64_t rows = shapes[s][0], columns = shapes[s][1], count = rows * columns;
            double *x = malloc((size_t)count * sizeof *x), *v = malloc((size_t)count * sizeof *v);
            for (int64_t i = 0; i < count; i++) {
                x[i] = (double)draw_update(i);
                v[i] = (double)draw_value(i);
            }
            double size = norm(x, count), keep = 1 - MUON_LR * MUON_WEIGHT_DECAY;
            if (normalize)
                keep *= sqrt((double)rows) / norm(v, count);
            for (int64_t i = 0; i < count; i++)
                x[i] /= size;
            for (int step = 0; step < MUON_STEPS; step++)
                newton_schulz(x, rows, columns);
            float *found = muon_updated(
                &yki_device_cpu, 2,
                (muon_matrix){.rows = rows, .columns = columns, .normalize = normalize});
            for (int64_t i = 0; i < count; i++)
                assert_true(fabs((double)found[i] - (keep * v[i] - MUON_LR * x[i])) < 2e-5);
            free(found);
            free(x);
            free(v);
        }
}

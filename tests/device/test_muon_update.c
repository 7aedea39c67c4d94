/* Muon's update of one matrix: the same bits on cpu with any number of threads as on ref, and the
 * numbers of an independent form in f64. */
#include "harness.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "device/device.h"

static double draw(int64_t i)
{
    return (double)(yki_mix64((uint64_t)i) >> 11) * 0x1p-52 - 1;
}

static const double coefficients[YKI_SWEEP_COEFFICIENTS] = {[YKI_MUON_LR] = 0.25};

/* The value after the update of a random matrix. */
static float *updated(const char *name, int threads, int64_t rows, int64_t columns, bool normalize)
{
    yki_device *device;
    size_t count = (size_t)(rows * columns);
    float *value = malloc(count * sizeof *value), *update = malloc(count * sizeof *update);
    size_t bytes;
    assert_ok(yki_device_create(&device, name,
                                &(yki_device_options){.threads = threads, .winograd = true}));
    assert_ok(device->type->muon->prepare(device, rows, columns, &bytes));
    void *scratch = malloc(bytes);
    for (size_t i = 0; i < count; i++) {
        value[i] = (float)draw((int64_t)i);
        update[i] = (float)draw(1000000 + (int64_t)i);
    }
    yki_muon_args args = {.value = value,
                          .update = update,
                          .scratch = scratch,
                          .rows = rows,
                          .columns = columns,
                          .coefficients = coefficients,
                          .weight_decay = 0.4,
                          .steps = 3,
                          .normalize = normalize};
    assert_ok(device->type->muon->update(device, &args));
    yki_device_destroy(device);
    free(update);
    free(scratch);
    return value;
}

static const int64_t shapes[][2] = {{1, 1}, {5, 18}, {64, 216}, {70, 130}, {33, 7}, {256, 64}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

YK_TEST(cpu_has_the_bits_of_ref_with_any_number_of_threads)
{
    for (int s = 0; s < SHAPES; s++) {
        int64_t rows = shapes[s][0], columns = shapes[s][1];
        size_t bytes = (size_t)(rows * columns) * sizeof(float);
        float *ref = updated("ref", 1, rows, columns, true);
        for (int threads = 1; threads < 4; threads++) {
            float *cpu = updated("cpu", threads, rows, columns, true);
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
                x[i] = (double)(float)draw(1000000 + i);
                v[i] = (double)(float)draw(i);
            }
            double size = norm(x, count), keep = 0.9;
            if (normalize)
                keep *= sqrt((double)rows) / norm(v, count);
            for (int64_t i = 0; i < count; i++)
                x[i] /= size;
            for (int step = 0; step < 3; step++)
                newton_schulz(x, rows, columns);
            float *found = updated("cpu", 2, rows, columns, normalize);
            for (int64_t i = 0; i < count; i++)
                assert_true(fabs((double)found[i] - (keep * v[i] - 0.25 * x[i])) < 2e-5);
            free(found);
            free(x);
            free(v);
        }
}

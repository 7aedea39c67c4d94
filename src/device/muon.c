/* See muon.h. What is done besides products is a small part of it, and is not divided. */
#include "device/muon.h"

#include <math.h>

static const float linear = 3.4445f, cubic = -4.775f, quintic = 2.0315f;

static double norm_of(const float *values, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += (double)values[i] * (double)values[i];
    return sqrt(sum);
}

/* to (columns, rows) = scale from (rows, columns) transposed. */
static void transpose(const float *from, int64_t rows, int64_t columns, float scale, float *to)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++)
            to[j * rows + i] = scale * from[i * columns + j];
}

/* The update by x, which is (rows, columns), or transposed if tall. */
static void apply(const yki_muon_args *args, const float *x, bool tall)
{
    int64_t rows = args->rows, columns = args->columns;
    const double *c = args->coefficients;
    double keep = 1 - c[YKI_MUON_LR] * args->weight_decay;
    double norm = args->normalize ? norm_of(args->value, rows * columns) : 0;
    if (norm > 0)
        keep *= sqrt((double)rows) / norm;
    float kept = (float)keep, lr = (float)c[YKI_MUON_LR];
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) {
            float step = tall ? x[j * rows + i] : x[i * columns + j];
            float *value = &args->value[i * columns + j];
            *value = kept * *value - lr * step;
        }
}

yk_status yki_muon_prepare(yki_device *device, int64_t rows, int64_t columns, size_t *scratch)
{
    (void)device;
    int64_t side = rows < columns ? rows : columns;
    *scratch = (size_t)(3 * rows * columns + 2 * side * side) * sizeof(float);
    return YK_OK;
}

void yki_muon_run(const yki_muon_args *args,
                  void (*multiply)(const yki_device *device, const yki_muon_product *product),
                  const yki_device *device)
{
    bool tall = args->rows > args->columns;
    if (args->coefficients[YKI_SWEEP_SKIP] != 0)
        return;
    int64_t m = tall ? args->columns : args->rows, n = tall ? args->rows : args->columns;
    int64_t count = m * n;
    float *x = args->scratch, *next = x + count, *transposed = next + count;
    float *a = transposed + count, *b = a + m * m;
    float scale = (float)(1 / (norm_of(args->update, count) + 1e-7));
    if (tall)
        transpose(args->update, args->rows, args->columns, scale, x);
    else
        for (int64_t i = 0; i < count; i++)
            x[i] = scale * args->update[i];
    for (int step = 0; step < args->steps; step++) {
        transpose(x, m, n, 1, transposed);
        multiply(device, &(yki_muon_product){a, NULL, x, transposed, m, m, n, 0, 1});
        multiply(device, &(yki_muon_product){b, a, a, a, m, m, m, cubic, quintic});
        multiply(device, &(yki_muon_product){next, x, b, x, m, n, m, linear, 1});
        float *kept = x;
        x = next;
        next = kept;
    }
    apply(args, x, tall);
}

/*
 * Muon's products: tiles of ROWS x COLUMNS, which the device's threads share. The order of the
 * terms of each sum is ref's, and so are the bits.
 */
#include <math.h>

#include "device/cpu/cpu.h"

enum { ROWS = 4, COLUMNS = 64 };

/* Rows from i on and columns from j on, fewer than a tile at the edges. */
static inline __attribute__((always_inline)) void
multiply_part(const yki_muon_product *o, int64_t i, int64_t j, int rows, int columns)
{
    float sums[ROWS][COLUMNS] = {{0}};
    for (int64_t k = 0; k < o->k; k++) {
        const float *q = o->q + k * o->n + j;
        for (int r = 0; r < rows; r++) {
            float p = o->p[(i + r) * o->k + k];
#pragma omp simd
            for (int c = 0; c < columns; c++)
                sums[r][c] = fmaf(p, q[c], sums[r][c]);
        }
    }
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < columns; c++) {
            int64_t at = (i + r) * o->n + j + c;
            o->c[at] = o->d ? o->alpha * o->d[at] + o->beta * sums[r][c] : sums[r][c];
        }
}

YKI_VECTOR_CLONES
static void multiply_tile(const yki_muon_product *o, int64_t i, int64_t j)
{
    int rows = o->m - i < ROWS ? (int)(o->m - i) : ROWS;
    int columns = o->n - j < COLUMNS ? (int)(o->n - j) : COLUMNS;
    if (rows == ROWS && columns == COLUMNS)
        multiply_part(o, i, j, ROWS, COLUMNS);
    else
        multiply_part(o, i, j, rows, columns);
}

static void multiply(const yki_device *device, const yki_muon_product *o)
{
    int64_t down = (o->m + ROWS - 1) / ROWS, right = (o->n + COLUMNS - 1) / COLUMNS;
#pragma omp parallel for schedule(static) num_threads(device->threads)
    for (int64_t tile = 0; tile < down * right; tile++) /* those of a column one after the other */
        multiply_tile(o, tile % down * ROWS, tile / down * COLUMNS);
}

static yk_status update(yki_device *device, const yki_muon_args *args)
{
    yki_muon_run(args, multiply, device);
    return YK_OK;
}

const yki_muon_ops yki_cpu_muon = {.prepare = yki_muon_prepare, .update = update};

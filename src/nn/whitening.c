/* See whitening.h. */
#include "nn/whitening.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/memory.h"
#include "tensor/element.h"

/* ---- eigenvectors: Jacobi's method (Golub and Van Loan, "Matrix Computations", 8.5) --------- */

/* Rotates rows p and q of m (n, n). */
static void rotate_rows(double *m, int64_t n, int64_t p, int64_t q, double c, double s)
{
    for (int64_t i = 0; i < n; i++) {
        double x = m[p * n + i], y = m[q * n + i];
        m[p * n + i] = c * x - s * y;
        m[q * n + i] = s * x + c * y;
    }
}

static void rotate_columns(double *m, int64_t n, int64_t p, int64_t q, double c, double s)
{
    for (int64_t i = 0; i < n; i++) {
        double x = m[i * n + p], y = m[i * n + q];
        m[i * n + p] = c * x - s * y;
        m[i * n + q] = s * x + c * y;
    }
}

/* Makes a[p][q] zero. */
static void annihilate(double *a, double *vectors, int64_t n, int64_t p, int64_t q)
{
    double off = a[p * n + q];
    if (off == 0)
        return;
    double theta = (a[q * n + q] - a[p * n + p]) / (2 * off);
    double t = (theta < 0 ? -1 : 1) / (fabs(theta) + sqrt(theta * theta + 1));
    double c = 1 / sqrt(t * t + 1), s = t * c;
    rotate_rows(a, n, p, q, c, s);
    rotate_columns(a, n, p, q, c, s);
    rotate_rows(vectors, n, p, q, c, s);
    a[p * n + q] = a[q * n + p] = 0;
}

static bool is_diagonal(const double *a, int64_t n)
{
    double off = 0, on = 0;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++)
            *(i == j ? &on : &off) += a[i * n + j] * a[i * n + j];
    return off <= 1e-30 * on;
}

static void swap_pairs(double *values, double *vectors, int64_t n, int64_t i, int64_t j)
{
    double value = values[i];
    values[i] = values[j];
    values[j] = value;
    for (int64_t k = 0; k < n; k++) {
        double element = vectors[i * n + k];
        vectors[i * n + k] = vectors[j * n + k];
        vectors[j * n + k] = element;
    }
}

static void sort_pairs(double *values, double *vectors, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t largest = i;
        for (int64_t j = i + 1; j < n; j++)
            if (values[j] > values[largest])
                largest = j;
        if (largest != i)
            swap_pairs(values, vectors, n, i, largest);
    }
}

static void fix_sign(double *vector, int64_t n)
{
    int64_t largest = 0;
    for (int64_t k = 1; k < n; k++)
        if (fabs(vector[k]) > fabs(vector[largest]))
            largest = k;
    bool negative = vector[largest] < 0;
    for (int64_t k = 0; negative && k < n; k++)
        vector[k] = -vector[k];
}

void yki_eigen_symmetric(double *a, int64_t n, double *values, double *vectors)
{
    enum { SWEEPS = 60 }; /* convergence is quadratic: 10 usually suffice */
    for (int64_t i = 0; i < n * n; i++)
        vectors[i] = i / n == i % n;
    for (int sweep = 0; sweep < SWEEPS && !is_diagonal(a, n); sweep++)
        for (int64_t p = 0; p < n; p++)
            for (int64_t q = p + 1; q < n; q++)
                annihilate(a, vectors, n, p, q);
    for (int64_t i = 0; i < n; i++)
        values[i] = a[i * n + i];
    sort_pairs(values, vectors, n);
    for (int64_t i = 0; i < n; i++)
        fix_sign(vectors + i * n, n);
}

/* ---- patches --------------------------------------------------------------------------------- */

yk_status yki_whitening_begin(yki_whitening *w, int64_t channels, int64_t rows, int64_t columns)
{
    int64_t size = channels * rows * columns;
    *w = (yki_whitening){.channels = channels, .rows = rows, .columns = columns, .size = size};
    w->products = yki_calloc((size_t)(size * size), sizeof *w->products);
    w->room = yki_calloc((size_t)(size * size + size), sizeof *w->room);
    return w->products && w->room
               ? YK_OK
               : yki_error_memory((size_t)(2 * size * size) * sizeof(double), "whitening");
}

/* images (N, C, H, W): the patch of image n whose corner is (y, x). */
static void read_patch(const yki_whitening *w, const yk_tensor *images, int64_t n, int64_t y,
                       int64_t x, double *patch)
{
    for (int64_t c = 0; c < w->channels; c++)
        for (int64_t r = 0; r < w->rows; r++)
            for (int64_t s = 0; s < w->columns; s++) {
                int64_t row = (n * w->channels + c) * images->dims[2] + y + r;
                int64_t at = row * images->dims[3] + x + s;
                *patch++ = yki_element_get(images->dtype, images->data, at);
            }
}

void yki_whitening_add(yki_whitening *w, const yk_tensor *images)
{
    double *patch = w->room;
    for (int64_t n = 0; n < images->dims[0]; n++)
        for (int64_t y = 0; y + w->rows <= images->dims[2]; y++)
            for (int64_t x = 0; x + w->columns <= images->dims[3]; x++) {
                read_patch(w, images, n, y, x, patch);
                for (int64_t i = 0; i < w->size; i++)
                    for (int64_t j = 0; j < w->size; j++)
                        w->products[i * w->size + j] += patch[i] * patch[j];
                w->patches++;
            }
}

void yki_whitening_solve(yki_whitening *w, double eps, yk_tensor *weight)
{
    int64_t n = w->size;
    double *vectors = w->room, *values = w->room + n * n;
    for (int64_t i = 0; i < n * n; i++)
        w->products[i] /= (double)w->patches;
    yki_eigen_symmetric(w->products, n, values, vectors);
    for (int64_t i = 0; i < n * n; i++) {
        double filter = vectors[i] / sqrt(fmax(values[i / n], 0) + eps);
        for (int half = 0; half < 2; half++) {
            double value = half ? -filter : filter;
            yki_element_set(weight->dtype, weight->data, half * n * n + i, value);
        }
    }
}

void yki_whitening_end(yki_whitening *w)
{
    free(w->products);
    free(w->room);
    *w = (yki_whitening){.size = 0};
}

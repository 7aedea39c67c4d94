/*
 * Minimal filtering in vectors of 8 lanes: AVX2. CMake gives this file its flags.
 *
 * The products keep a block of c, 6 rows of 16 columns, in 12 of the 16 registers.
 */
#if defined(__x86_64__)
#define YKI_WIDTH 8
#include "device/cpu/minimal_loops.h"

#include "device/cpu/minimal_stride1.h"
#include "device/cpu/minimal_stride2.h"

enum { ROWS = 6, VECTORS = 2, STRIP = VECTORS * YKI_WIDTH };

/* `rows` rows of c and 16 columns; a's numbers are at a[r * row + k * step]. The first three
 * arguments are constants. */
YKI_FORCE_INLINE void block(int rows, int64_t row, int64_t step, const float *a, const float *b,
                            float *c, int64_t count, bool first)
{
    vec sum[ROWS][VECTORS];
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < VECTORS; v++)
            sum[r][v] = first ? (vec){0} : load(c + r * SIDE + v * YKI_WIDTH);
    for (int64_t k = 0; k < count; k++) {
        vec of_b[VECTORS];
        for (int v = 0; v < VECTORS; v++)
            of_b[v] = load(b + k * SIDE + v * YKI_WIDTH);
        for (int r = 0; r < rows; r++) {
            vec of_a = yki_splat(a[r * row + k * step]);
            for (int v = 0; v < VECTORS; v++)
                sum[r][v] += of_a * of_b[v];
        }
    }
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < VECTORS; v++)
            store(c + r * SIDE + v * YKI_WIDTH, sum[r][v]);
}

/* All rows of 16 columns of c, ROWS at a time. */
YKI_FORCE_INLINE void multiply_strip(int64_t rows, int64_t row, int64_t step, const float *a,
                                     const float *b, float *c, int64_t count, bool first)
{
    for (; rows >= ROWS; rows -= ROWS) {
        block(ROWS, row, step, a, b, c, count, first);
        a += ROWS * row;
        c += (int64_t)ROWS * SIDE;
    }
    switch (rows) {
    case 5:
        block(5, row, step, a, b, c, count, first);
        break;
    case 4:
        block(4, row, step, a, b, c, count, first);
        break;
    case 3:
        block(3, row, step, a, b, c, count, first);
        break;
    case 2:
        block(2, row, step, a, b, c, count, first);
        break;
    case 1:
        block(1, row, step, a, b, c, count, first);
        break;
    default:
        break;
    }
}

static void multiply(const float *a, const float *b, float *c, int64_t rows, bool first)
{
    for (int strip = 0; strip < SIDE; strip += STRIP)
        multiply_strip(rows, SIDE, 1, a, b + strip, c + strip, SIDE, first);
}

static void multiply_transposed(const float *a, const float *b, float *c, int64_t rows, bool first)
{
    for (int strip = 0; strip < SIDE; strip += STRIP)
        multiply_strip(SIDE, 1, SIDE, a, b + strip, c + strip, rows, first);
}

const yki_minimal yki_minimal_winograd_avx2 = {
    .lanes = YKI_WIDTH,
    .stride = 1,
    .tiles = WINOGRAD_TILES,
    .data = winograd_data,
    .result = winograd_result,
    .result_gradient = winograd_result_gradient,
    .gradient_data = winograd_data,
    .gradient_result = winograd_result,
    .weight = winograd_weight,
    .weight_gradient = winograd_weight_gradient,
    .add = add_sums,
    .multiply = multiply,
    .multiply_transposed = multiply_transposed,
};

const yki_minimal yki_minimal_halving_avx2 = {
    .lanes = YKI_WIDTH,
    .stride = 2,
    .tiles = HALVING_TILES,
    .data = halving_data,
    .result = halving_result,
    .result_gradient = halving_result_gradient,
    .gradient_data = halving_gradient_data,
    .gradient_result = halving_gradient_result,
    .weight = halving_weight,
    .weight_gradient = halving_weight_gradient,
    .add = add_sums,
    .multiply = multiply,
    .multiply_transposed = multiply_transposed,
};
#endif

/*
 * Products of matrices whose rows are 64 floats apart, for YKI_WIDTH lanes. A block of c, 6 rows of
 * up to 4 vectors (2 with 16 registers), stays in registers.
 */
#include "device/cpu/conv/minimal_loops.h"

#if defined(__AVX512F__) || defined(__aarch64__)
enum { ROWS = 6, VECTORS = 4 };
#else
enum { ROWS = 6, VECTORS = 2 };
#endif

/* `rows` rows of c and `vectors` of its columns; a's numbers are at a[r * row + k * step]. The
 * first four arguments are constants. */
YKI_FORCE_INLINE void product_block(int vectors, int rows, int64_t row, int64_t step,
                                    const float *a, const float *b, float *c, int64_t count,
                                    bool first)
{
    vec sum[ROWS][VECTORS];
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vectors; v++)
            sum[r][v] = first ? (vec){0} : load(c + r * SIDE + v * YKI_WIDTH);
    for (int64_t k = 0; k < count; k++) {
        vec of_b[VECTORS];
        for (int v = 0; v < vectors; v++)
            of_b[v] = load(b + k * SIDE + v * YKI_WIDTH);
        for (int r = 0; r < rows; r++) {
            vec of_a = yki_splat(a[r * row + k * step]);
            for (int v = 0; v < vectors; v++)
                sum[r][v] += of_a * of_b[v];
        }
    }
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vectors; v++)
            store(c + r * SIDE + v * YKI_WIDTH, sum[r][v]);
}

/* All rows, ROWS at a time. */
YKI_FORCE_INLINE void product_rows(int vectors, int64_t row, int64_t step, int64_t rows,
                                   const float *a, const float *b, float *c, int64_t count,
                                   bool first)
{
    for (; rows >= ROWS; rows -= ROWS) {
        product_block(vectors, ROWS, row, step, a, b, c, count, first);
        a += ROWS * row;
        c += (int64_t)ROWS * SIDE;
    }
    switch (rows) {
    case 5:
        product_block(vectors, 5, row, step, a, b, c, count, first);
        break;
    case 4:
        product_block(vectors, 4, row, step, a, b, c, count, first);
        break;
    case 3:
        product_block(vectors, 3, row, step, a, b, c, count, first);
        break;
    case 2:
        product_block(vectors, 2, row, step, a, b, c, count, first);
        break;
    case 1:
        product_block(vectors, 1, row, step, a, b, c, count, first);
        break;
    default:
        break;
    }
}

/* All columns, VECTORS at a time. */
YKI_FORCE_INLINE void product(int64_t vectors, int64_t row, int64_t step, int64_t rows,
                              const float *a, const float *b, float *c, int64_t count, bool first)
{
    for (; vectors > 0; vectors -= VECTORS) {
        if (vectors >= VECTORS)
            product_rows(VECTORS, row, step, rows, a, b, c, count, first);
        else if (vectors == 3)
            product_rows(VECTORS < 3 ? VECTORS : 3, row, step, rows, a, b, c, count, first);
        else if (vectors == 2)
            product_rows(2, row, step, rows, a, b, c, count, first);
        else
            product_rows(1, row, step, rows, a, b, c, count, first);
        b += VECTORS * YKI_WIDTH;
        c += VECTORS * YKI_WIDTH;
    }
}

static void multiply(const float *a, const float *b, float *c, yki_minimal_size size, bool first)
{
    product(size.vectors, SIDE, 1, size.rows, a, b, c, size.count, first);
}

static void multiply_transposed(const float *a, const float *b, float *c, yki_minimal_size size,
                                bool first)
{
    product(size.vectors, 1, SIDE, size.rows, a, b, c, size.count, first);
}

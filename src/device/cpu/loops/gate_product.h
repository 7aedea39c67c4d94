/*
 * Products of a few rows with packed columns (yki_gate_product), summed in registers. Each sum is
 * made in the order of `inner`, whatever the number of rows. The includer says what a number is
 * (gate_number) and how its product is added to a sum (gate_add).
 */

/* Sums are in 24 of 32 registers or in 12 of 16. */
#if YKI_WIDTH == 16
#define GATE_ROWS(vectors) ((vectors) == 4 ? 6 : 8)
#else
#define GATE_ROWS(vectors) ((vectors) == 1 ? 8 : 12 / (vectors))
#endif

/* `rows` and `vectors` are constants in every call. */
YKI_FORCE_INLINE void gate_tile(const yki_gate_product *p, int rows, int vectors)
{
    yki_lanes sum[8][YKI_GATE_VECTORS] = {{{0}}};
    const gate_number *a = p->a;
    const yki_lanes_at *b = p->b;
    for (int64_t k = 0; k < p->inner; k++, b += vectors) {
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++) {
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++)
                sum[r][v] = gate_add(sum[r][v], a[r * p->pitch + k], b[v]);
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++) {
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++)
            *(yki_lanes_at *)(p->c + (r * vectors + v) * YKI_WIDTH) = sum[r][v];
    }
}

#define GATE_CASE(rows, vectors)                                                                   \
    case rows:                                                                                     \
        if (rows <= GATE_ROWS(vectors))                                                            \
            gate_tile(p, rows, vectors);                                                           \
        break

#define GATE_COLUMNS(vectors)                                                                      \
    static void gate_columns_##vectors(const yki_gate_product *p, int rows)                        \
    {                                                                                              \
        switch (rows) {                                                                            \
            GATE_CASE(1, vectors);                                                                 \
            GATE_CASE(2, vectors);                                                                 \
            GATE_CASE(3, vectors);                                                                 \
            GATE_CASE(4, vectors);                                                                 \
            GATE_CASE(5, vectors);                                                                 \
            GATE_CASE(6, vectors);                                                                 \
            GATE_CASE(7, vectors);                                                                 \
            GATE_CASE(8, vectors);                                                                 \
        default:                                                                                   \
            break;                                                                                 \
        }                                                                                          \
    }
GATE_COLUMNS(1)
GATE_COLUMNS(2)
GATE_COLUMNS(3)
GATE_COLUMNS(4)

static void gate_multiply(const yki_gate_product *p, int rows, int vectors)
{
    if (vectors == 4)
        gate_columns_4(p, rows);
    else if (vectors == 3)
        gate_columns_3(p, rows);
    else if (vectors == 2)
        gate_columns_2(p, rows);
    else
        gate_columns_1(p, rows);
}

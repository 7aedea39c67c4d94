/* The cells of recurrent layers, one sample at a time: included by table.h alone. Elements
 * after the last whole pack are a pack with fewer elements. */

YKI_FORCE_INLINE yki_pack load_some(const void *x, int64_t i, int64_t count, yk_dtype dtype)
{
    return count == YKI_PACK ? yki_load(x, i, dtype) : yki_load_part(x, i, count, dtype);
}

/* Zeros if x is NULL. */
YKI_FORCE_INLINE yki_pack load_if_there(const void *x, int64_t i, int64_t count, yk_dtype dtype)
{
    return x ? load_some(x, i, count, dtype) : (yki_pack){{{0}}};
}

/* Does nothing if y is NULL. */
YKI_FORCE_INLINE void store_some(void *y, int64_t i, int64_t count, yki_pack p, yk_dtype dtype)
{
    if (!y)
        return;
    if (count == YKI_PACK)
        yki_store(y, i, p, dtype);
    else
        yki_store_part(y, i, count, p, dtype);
}

#define FOR_EACH_PACK(body, of, size, dtype)                                                       \
    do {                                                                                           \
        int64_t whole = size - size % YKI_PACK;                                                    \
        for (int64_t i = 0; i < whole; i += YKI_PACK)                                              \
            body(of, size, i, YKI_PACK, dtype);                                                    \
        if (whole < size)                                                                          \
            body(of, size, whole, size - whole, dtype);                                            \
    } while (0)

/* ---- LSTM: the input, forget, cell and output gate ------------------------------------------- */

YKI_FORCE_INLINE void lstm_pack(const yki_lstm_row *r, int64_t size, int64_t i, int64_t count,
                                yk_dtype dtype)
{
    yki_pack gates[4], cell = load_some(r->cell, i, count, dtype), hidden;
#pragma GCC unroll 4
    for (int g = 0; g < 4; g++) {
        gates[g] = load_some(r->from_input, g * size + i, count, dtype);
        const yki_pack other = load_some(r->from_hidden, g * size + i, count, dtype);
        for (int j = 0; j < 2; j++)
            gates[g].v[j] += other.v[j];
    }
    for (int j = 0; j < 2; j++) {
        yki_lanes lanes[] = {gates[0].v[j], gates[1].v[j], gates[2].v[j], gates[3].v[j]};
        lstm_lanes(lanes, &cell.v[j]);
        hidden.v[j] = lanes[3] * tanh_of(cell.v[j]);
        for (int g = 0; g < 4; g++)
            gates[g].v[j] = lanes[g];
    }
#pragma GCC unroll 4
    for (int g = 0; g < 4; g++)
        store_some(r->gates, g * size + i, count, gates[g], dtype);
    store_some(r->next, i, count, cell, dtype);
    store_some(r->hidden, i, count, hidden, dtype);
}

YKI_FORCE_INLINE void lstm_as(const yki_lstm_row *r, int64_t size, yk_dtype dtype)
{
    FOR_EACH_PACK(lstm_pack, r, size, dtype);
}

static void lstm_cell(yk_dtype dtype, const yki_lstm_row *row, int64_t size)
{
    FOR_EACH_DTYPE(lstm_as, dtype, row, size);
}

YKI_FORCE_INLINE void lstm_slopes_pack(const yki_lstm_slopes *r, int64_t size, int64_t i,
                                       int64_t count, yk_dtype dtype)
{
    const yki_pack cell = load_some(r->cell, i, count, dtype);
    const yki_pack next = load_some(r->next, i, count, dtype);
    const yki_pack dhidden = load_if_there(r->dhidden, i, count, dtype);
    yki_pack dcell = load_if_there(r->dnext, i, count, dtype), gates[4];
#pragma GCC unroll 4
    for (int g = 0; g < 4; g++)
        gates[g] = load_some(r->gates, g * size + i, count, dtype);
    for (int j = 0; j < 2; j++) {
        yki_lanes lanes[] = {gates[0].v[j], gates[1].v[j], gates[2].v[j], gates[3].v[j]};
        lstm_slope_lanes(lanes, cell.v[j], next.v[j], dhidden.v[j], &dcell.v[j]);
        for (int g = 0; g < 4; g++)
            gates[g].v[j] = lanes[g];
    }
#pragma GCC unroll 4
    for (int g = 0; g < 4; g++)
        store_some(r->dgates, g * size + i, count, gates[g], dtype);
    store_some(r->dcell, i, count, dcell, dtype);
}

YKI_FORCE_INLINE void lstm_slopes_as(const yki_lstm_slopes *r, int64_t size, yk_dtype dtype)
{
    FOR_EACH_PACK(lstm_slopes_pack, r, size, dtype);
}

static void lstm_cell_slopes(yk_dtype dtype, const yki_lstm_slopes *row, int64_t size)
{
    FOR_EACH_DTYPE(lstm_slopes_as, dtype, row, size);
}

/* ---- GRU: the reset and update gate, and the new state --------------------------------------- */

YKI_FORCE_INLINE void gru_pack(const yki_gru_row *r, int64_t size, int64_t i, int64_t count,
                               yk_dtype dtype)
{
    yki_pack gates[3], hidden = load_some(r->hidden, i, count, dtype);
#pragma GCC unroll 3
    for (int g = 0; g < 3; g++) {
        gates[g] = load_some(r->from_input, g * size + i, count, dtype);
        const yki_pack other = load_some(r->from_hidden, g * size + i, count, dtype);
        for (int j = 0; j < 2; j++)
            gates[g].v[j] = g == 2 ? tanh_of(gates[2].v[j] + gates[0].v[j] * other.v[j])
                                   : sigmoid(gates[g].v[j] + other.v[j]);
        store_some(r->gates, g * size + i, count, gates[g], dtype);
    }
    for (int j = 0; j < 2; j++)
        hidden.v[j] = gates[2].v[j] + gates[1].v[j] * (hidden.v[j] - gates[2].v[j]);
    store_some(r->next, i, count, hidden, dtype);
}

YKI_FORCE_INLINE void gru_as(const yki_gru_row *r, int64_t size, yk_dtype dtype)
{
    FOR_EACH_PACK(gru_pack, r, size, dtype);
}

static void gru_cell(yk_dtype dtype, const yki_gru_row *row, int64_t size)
{
    FOR_EACH_DTYPE(gru_as, dtype, row, size);
}

YKI_FORCE_INLINE void gru_slopes_pack(const yki_gru_slopes *r, int64_t size, int64_t i,
                                      int64_t count, yk_dtype dtype)
{
    const yki_pack hidden = load_some(r->hidden, i, count, dtype);
    const yki_pack of_hidden = load_some(r->from_hidden, 2 * size + i, count, dtype);
    yki_pack dnext = load_some(r->dnext, i, count, dtype), gates[3], scaled;
#pragma GCC unroll 3
    for (int g = 0; g < 3; g++)
        gates[g] = load_some(r->gates, g * size + i, count, dtype);
    for (int j = 0; j < 2; j++) {
        const yki_lanes reset = gates[0].v[j], update = gates[1].v[j], new = gates[2].v[j];
        const yki_lanes dy = dnext.v[j], dnew = dy * (1.0f - update) * (1.0f - new *new);
        gates[0].v[j] = dnew * of_hidden.v[j] * reset * (1.0f - reset);
        gates[1].v[j] = dy * (hidden.v[j] - new) * update * (1.0f - update);
        gates[2].v[j] = dnew;
        scaled.v[j] = dnew * reset;
        dnext.v[j] = dy * update;
    }
#pragma GCC unroll 3
    for (int g = 0; g < 3; g++) {
        store_some(r->dinput, g * size + i, count, gates[g], dtype);
        store_some(r->dgates, g * size + i, count, g == 2 ? scaled : gates[g], dtype);
    }
    store_some(r->dhidden, i, count, dnext, dtype);
}

YKI_FORCE_INLINE void gru_slopes_as(const yki_gru_slopes *r, int64_t size, yk_dtype dtype)
{
    FOR_EACH_PACK(gru_slopes_pack, r, size, dtype);
}

static void gru_cell_slopes(yk_dtype dtype, const yki_gru_slopes *row, int64_t size)
{
    FOR_EACH_DTYPE(gru_slopes_as, dtype, row, size);
}

#undef FOR_EACH_PACK

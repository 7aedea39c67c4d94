/* Steps of recurrent layers, a vector of units at a time: included by table.h,
 * x86/gates_bf16.c and x86/gates_amx.c, after gate_math.h and what multiplies. */

/* `count` elements in memory order; zeros follow. */
YKI_FORCE_INLINE yki_lanes load_units(const void *x, int64_t i, int64_t count, yk_dtype dtype)
{
    if (count == YKI_WIDTH)
        return yki_load_lanes(x, i, dtype);
    float numbers[YKI_WIDTH] = {0};
    const size_t size = yki_size_of(dtype);
    memcpy(numbers, (const char *)x + (size_t)i * size, (size_t)count * size);
    return yki_load_lanes(numbers, 0, dtype);
}

/* Does nothing if y is NULL. */
YKI_FORCE_INLINE void store_units(void *y, int64_t i, int64_t count, yki_lanes units,
                                  yk_dtype dtype)
{
    if (!y)
        return;
    if (count == YKI_WIDTH) {
        yki_store_lanes(y, i, units, dtype);
        return;
    }
    float numbers[YKI_WIDTH];
    const size_t size = yki_size_of(dtype);
    yki_store_lanes(numbers, 0, units, dtype);
    memcpy((char *)y + (size_t)i * size, numbers, (size_t)count * size);
}

/* What a product reads, in f32 or bf16: whole vectors. */
YKI_FORCE_INLINE void store_operand(void *operand, int64_t i, yki_lanes units, yk_dtype dtype)
{
    if (dtype == YK_F32)
        yki_store_lanes(operand, i, units, YK_F32);
    else
        yki_store_lanes(operand, i, units, YK_BF16);
}

/* What the hidden state gives to a gate. */
YKI_FORCE_INLINE yki_lanes from_hidden(const yki_recurrent_step *s, int gate)
{
    return yki_load_lanes(s->product, gate * YKI_WIDTH, YK_F32) +
           yki_load_lanes(s->bias, gate * YKI_WIDTH, YK_F32);
}

/* ---- LSTM ------------------------------------------------------------------------------------ */

/* The cells of all rows, and then their hidden states, so that these do not wait for each other. */
YKI_FORCE_INLINE void lstm_layer_of(const yki_recurrent_step *steps, int rows, int64_t count,
                                    yk_dtype dtype)
{
    yki_lanes out[YKI_GATE_ROWS];
    for (int r = 0; r < rows; r++) {
        const yki_recurrent_step *s = &steps[r];
        yki_lanes gates[4], cell = yki_load_lanes(s->kept, s->unit, YK_F32);
#pragma GCC unroll 4
        for (int g = 0; g < 4; g++)
            gates[g] =
                load_units(s->from_input, g * s->size + s->unit, count, dtype) + from_hidden(s, g);
        store_units(s->saved, 4 * s->size + s->unit, count, cell, dtype);
        lstm_lanes(gates, &cell);
#pragma GCC unroll 4
        for (int g = 0; g < 4; g++)
            store_units(s->saved, g * s->size + s->unit, count, gates[g], dtype);
        yki_store_lanes(s->kept, s->unit, cell, YK_F32);
        out[r] = gates[3];
    }
    for (int r = 0; r < rows; r++) {
        const yki_recurrent_step *s = &steps[r];
        const yki_lanes hidden = out[r] * tanh_of(yki_load_lanes(s->kept, s->unit, YK_F32));
        store_units(s->y, s->unit, count, hidden, dtype);
        store_operand(s->operand, s->unit, hidden, s->operand_dtype);
    }
}

YKI_FORCE_INLINE void lstm_layer_slopes_of(const yki_recurrent_slopes *all, int rows, int64_t count,
                                           yk_dtype dtype)
{
    for (int r = 0; r < rows; r++) {
        const yki_recurrent_slopes *s = &all[r];
        const int64_t size = s->size, unit = s->unit;
        yki_lanes gates[4], dcell = yki_load_lanes(s->dcell, unit, YK_F32);
        yki_lanes dh =
            yki_load_lanes(s->product, 0, YK_F32) + yki_load_lanes(s->carried, unit, YK_F32);
        const yki_lanes cell = load_units(s->saved, 4 * size + unit, count, dtype);
#pragma GCC unroll 4
        for (int g = 0; g < 4; g++)
            gates[g] = load_units(s->saved, g * size + unit, count, dtype);
        if (s->dy)
            dh += load_units(s->dy, unit, count, dtype);
        lstm_slope_lanes(gates, cell, gates[1] * cell + gates[0] * gates[2], dh, &dcell);
#pragma GCC unroll 4
        for (int g = 0; g < 4; g++) {
            store_units(s->dgates, g * size + unit, count, gates[g], dtype);
            store_operand(s->operand, g * s->padded + unit, gates[g], s->operand_dtype);
        }
        yki_store_lanes(s->dcell, unit, dcell, YK_F32);
        yki_store_lanes(s->carried, unit, yki_splat(0), YK_F32);
    }
}

/* ---- GRU ------------------------------------------------------------------------------------- */

YKI_FORCE_INLINE void gru_layer_of(const yki_recurrent_step *steps, int rows, int64_t count,
                                   yk_dtype dtype)
{
    yki_lanes new[YKI_GATE_ROWS], update[YKI_GATE_ROWS];
    for (int r = 0; r < rows; r++) {
        const yki_recurrent_step *s = &steps[r];
        yki_lanes gates[3];
        const yki_lanes of_hidden = from_hidden(s, 2);
#pragma GCC unroll 3
        for (int g = 0; g < 3; g++)
            gates[g] = load_units(s->from_input, g * s->size + s->unit, count, dtype);
        gates[0] = sigmoid(gates[0] + from_hidden(s, 0));
        gates[1] = sigmoid(gates[1] + from_hidden(s, 1));
        store_units(s->saved, s->unit, count, gates[0], dtype);
        store_units(s->saved, s->size + s->unit, count, gates[1], dtype);
        store_units(s->saved, 3 * s->size + s->unit, count, of_hidden, dtype);
        update[r] = gates[1];
        new[r] = gates[2] + gates[0] * of_hidden;
    }
    for (int r = 0; r < rows; r++) {
        const yki_recurrent_step *s = &steps[r];
        const yki_lanes tanh = tanh_of(new[r]), before = yki_load_lanes(s->kept, s->unit, YK_F32);
        const yki_lanes hidden = tanh + update[r] * (before - tanh);
        store_units(s->saved, 2 * s->size + s->unit, count, tanh, dtype);
        store_units(s->y, s->unit, count, hidden, dtype);
        yki_store_lanes(s->kept, s->unit, hidden, YK_F32);
        store_operand(s->operand, s->unit, hidden, s->operand_dtype);
    }
}

YKI_FORCE_INLINE void gru_layer_slopes_of(const yki_recurrent_slopes *all, int rows, int64_t count,
                                          yk_dtype dtype)
{
    for (int r = 0; r < rows; r++) {
        const yki_recurrent_slopes *s = &all[r];
        const int64_t size = s->size, unit = s->unit;
        yki_lanes gates[4], hidden = yki_splat(0);
        yki_lanes dy =
            yki_load_lanes(s->product, 0, YK_F32) + yki_load_lanes(s->carried, unit, YK_F32);
#pragma GCC unroll 4
        for (int g = 0; g < 4; g++)
            gates[g] = load_units(s->saved, g * size + unit, count, dtype);
        if (s->before)
            hidden = load_units(s->before, unit, count, dtype);
        if (s->dy)
            dy += load_units(s->dy, unit, count, dtype);
        const yki_lanes reset = gates[0], update = gates[1], new = gates[2];
        const yki_lanes dnew = dy * (1.0f - update) * (1.0f - new *new);
        gates[0] = dnew * gates[3] * reset * (1.0f - reset);
        gates[1] = dy * (hidden - new) * update * (1.0f - update);
        gates[2] = dnew * reset;
#pragma GCC unroll 3
        for (int g = 0; g < 3; g++) {
            store_units(s->dgates, g * size + unit, count, gates[g], dtype);
            store_operand(s->operand, g * s->padded + unit, gates[g], s->operand_dtype);
        }
#pragma GCC unroll 3
        for (int g = 0; g < 3; g++)
            store_units(s->dinput, g * size + unit, count, g == 2 ? dnew : gates[g], dtype);
        yki_store_lanes(s->carried, unit, dy * update, YK_F32);
    }
}

/* ---- of any dtype ---------------------------------------------------------------------------- */

/* Whole vectors apart from the last units of a state. */
#define STEP(name, type)                                                                           \
    YKI_FORCE_INLINE void name##_as(const type *s, int rows, yk_dtype dtype)                       \
    {                                                                                              \
        if (s->count == YKI_WIDTH)                                                                 \
            name##_of(s, rows, YKI_WIDTH, dtype);                                                  \
        else                                                                                       \
            name##_of(s, rows, s->count, dtype);                                                   \
    }                                                                                              \
    static void name(const type *steps, int rows)                                                  \
    {                                                                                              \
        FOR_EACH_DTYPE(name##_as, steps->dtype, steps, rows);                                      \
    }
STEP(lstm_layer, yki_recurrent_step)
STEP(lstm_layer_slopes, yki_recurrent_slopes)
STEP(gru_layer, yki_recurrent_step)
STEP(gru_layer_slopes, yki_recurrent_slopes)
#undef STEP

#define GATE_LOOPS                                                                                 \
    {                                                                                              \
        .multiply = gate_multiply,                                                                 \
        .rows = {0, GATE_ROWS(1), GATE_ROWS(2), GATE_ROWS(3), GATE_ROWS(4)}, .lstm = lstm_layer,   \
        .lstm_slopes = lstm_layer_slopes, .gru = gru_layer, .gru_slopes = gru_layer_slopes         \
    }

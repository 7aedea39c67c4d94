/* The functions of the gates of recurrent layers, which map.h uses, too, and what an LSTM does with
 * its gates. Included by table.h, x86/gates_bf16.c and x86/gates_amx.c alone. */

YKI_FORCE_INLINE yki_lanes sigmoid(yki_lanes x)
{
    return 1.0f / (1.0f + yki_exp(-x));
}

/* Cephes' tanhf: a polynomial up to 0.625, and 1 - 2 / (exp(2 |x|) + 1) beyond. NaN passes. */
YKI_FORCE_INLINE yki_lanes tanh_of(yki_lanes x)
{
    const yki_bits sign = (yki_bits)x & 0x80000000u;
    yki_lanes z = (yki_lanes)((yki_bits)x ^ sign), s = x * x;
    yki_lanes p = yki_splat(-5.70498872745e-3f);
    p = p * s + 2.06390887954e-2f;
    p = p * s - 5.37397155531e-2f;
    p = p * s + 1.33314422036e-1f;
    p = p * s - 3.33332819422e-1f;
    p = p * s * x + x;
    yki_lanes large = 1.0f - 2.0f / (yki_exp(z + z) + 1.0f);
    return yki_select((yki_bits)(z > 0.625f), (yki_lanes)((yki_bits)large | sign), p);
}

/* From the sums of the gates to the gates and the next cell. */
YKI_FORCE_INLINE void lstm_lanes(yki_lanes gates[4], yki_lanes *cell)
{
    gates[0] = sigmoid(gates[0]);
    gates[1] = sigmoid(gates[1]);
    gates[2] = tanh_of(gates[2]);
    gates[3] = sigmoid(gates[3]);
    *cell = gates[1] * *cell + gates[0] * gates[2];
}

/* From the gates to the gradients of their sums; dcell: from that of the next cell to that of the
 * one before. */
YKI_FORCE_INLINE void lstm_slope_lanes(yki_lanes gates[4], yki_lanes cell, yki_lanes next,
                                       yki_lanes dh, yki_lanes *dcell)
{
    const yki_lanes in = gates[0], forget = gates[1], new = gates[2], out = gates[3];
    const yki_lanes t = tanh_of(next), dc = *dcell + dh * out * (1.0f - t * t);
    gates[0] = dc * new *in *(1.0f - in);
    gates[1] = dc * cell * forget * (1.0f - forget);
    gates[2] = dc * in * (1.0f - new *new);
    gates[3] = dh * t * out * (1.0f - out);
    *dcell = dc * forget;
}

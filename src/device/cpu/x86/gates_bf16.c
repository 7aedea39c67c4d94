/* Steps of recurrent layers in bf16, whose products are dot products of bf16. Compiled for a
 * processor with AVX-512 and bf16; nothing here runs on others. */
#include "device/cpu/loops/loops.h"

#define YKI_WIDTH 16
#include "device/cpu/loops/vector.h"

typedef uint32_t gate_number; /* a pair of bf16 */

YKI_FORCE_INLINE yki_lanes gate_add(yki_lanes sum, uint32_t a, yki_lanes b)
{
    const __m512bh pairs = (__m512bh)_mm512_set1_epi32((int)a);
    return (yki_lanes)_mm512_dpbf16_ps((__m512)sum, pairs, (__m512bh)b);
}

#include "device/cpu/loops/gate_product.h"

#include "device/cpu/loops/gate_math.h"
#include "device/cpu/loops/recurrent_layer.h"

const yki_gate_loops yki_gate_loops_bf16 = GATE_LOOPS;

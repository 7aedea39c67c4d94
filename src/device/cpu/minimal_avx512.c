/* Minimal filtering in vectors of 16 lanes: AVX-512. CMake gives this file its flags. */
#if defined(__x86_64__)
#define YKI_WIDTH 16
#include "device/cpu/minimal_loops.h"

#include "device/cpu/minimal_stride2.h"
#include "device/cpu/panel.h"

const yki_minimal yki_minimal_halving_avx512 = {
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
    .multiply = yki_panel_multiply,
    .multiply_transposed = yki_panel_multiply_transposed,
};
#endif

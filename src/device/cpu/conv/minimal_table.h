/* The tables of both algorithms for YKI_WIDTH lanes, under the names YKI_WINOGRAD and YKI_HALVING,
 * with YKI_MULTIPLY and YKI_MULTIPLY_TRANSPOSED, of minimal_products.h or others, as products. */
#include "device/cpu/conv/minimal_stride1.h"
#include "device/cpu/conv/minimal_stride2.h"

const yki_minimal YKI_WINOGRAD = {
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
    .sum_pixels = sum_pixels,
    .add = add_sums,
    .multiply = YKI_MULTIPLY,
    .multiply_transposed = YKI_MULTIPLY_TRANSPOSED,
};

const yki_minimal YKI_HALVING = {
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
    .sum_pixels = sum_pixels,
    .add = add_sums,
    .multiply = YKI_MULTIPLY,
    .multiply_transposed = YKI_MULTIPLY_TRANSPOSED,
};

/* Minimal filtering in vectors of 16 lanes: AVX-512. CMake gives this file its flags. */
#if defined(__x86_64__)
#define YKI_WIDTH 16
#include "device/cpu/minimal_products.h"
#include "device/cpu/minimal_stride1.h"
#include "device/cpu/minimal_stride2.h"
#include "device/cpu/panel.h"

/* Whole panels are multiplied as elsewhere. */
static void multiply_panel(const float *a, const float *b, float *c, yki_minimal_size size,
                           bool first)
{
    if (size.count == SIDE && size.vectors == VECTORS)
        yki_panel_multiply(a, b, c, size.rows, first);
    else
        multiply(a, b, c, size, first);
}

static void multiply_panel_transposed(const float *a, const float *b, float *c,
                                      yki_minimal_size size, bool first)
{
    if (size.rows == SIDE && size.vectors == VECTORS)
        yki_panel_multiply_transposed(a, b, c, size.count, first);
    else
        multiply_transposed(a, b, c, size, first);
}

const yki_minimal yki_minimal_winograd_avx512 = {
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
    .multiply = multiply_panel,
    .multiply_transposed = multiply_panel_transposed,
};

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
    .sum_pixels = sum_pixels,
    .add = add_sums,
    .multiply = multiply_panel,
    .multiply_transposed = multiply_panel_transposed,
};
#endif

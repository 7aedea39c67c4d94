/* Minimal filtering in vectors of 16 lanes: AVX-512. CMake gives this file its flags. */
#define YKI_WIDTH 16
#include "device/cpu/conv/minimal_products.h"
#include "device/cpu/x86/panel.h"

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

#define YKI_WINOGRAD            yki_minimal_winograd_avx512
#define YKI_HALVING             yki_minimal_halving_avx512
#define YKI_MULTIPLY            multiply_panel
#define YKI_MULTIPLY_TRANSPOSED multiply_panel_transposed
#include "device/cpu/conv/minimal_table.h"

/* Minimal filtering in vectors of 8 lanes: AVX2. CMake gives this file its flags. */
#define YKI_WIDTH               8
#define YKI_WINOGRAD            yki_minimal_winograd_avx2
#define YKI_HALVING             yki_minimal_halving_avx2
#define YKI_MULTIPLY            multiply
#define YKI_MULTIPLY_TRANSPOSED multiply_transposed
#include "device/cpu/conv/minimal_products.h"
#include "device/cpu/conv/minimal_table.h"

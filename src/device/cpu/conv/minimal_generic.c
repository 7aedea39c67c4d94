/* Minimal filtering in vectors of 4 lanes, which every compiler can do on any processor. CMake
 * gives this file its flags. */
#define YKI_WIDTH               4
#define YKI_WINOGRAD            yki_minimal_winograd_generic
#define YKI_HALVING             yki_minimal_halving_generic
#define YKI_MULTIPLY            multiply
#define YKI_MULTIPLY_TRANSPOSED multiply_transposed
#include "device/cpu/conv/minimal_products.h"
#include "device/cpu/conv/minimal_table.h"

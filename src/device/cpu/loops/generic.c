/* The inner loops in vectors of 4 lanes: what every compiler can do with vectors on any processor.
 * CMake gives this file its flags. */
#define YKI_WIDTH 4
#define YKI_LOOPS yki_cpu_loops_generic
#include "device/cpu/loops/table.h"

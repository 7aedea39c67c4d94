/* The inner loops in vectors of 8 lanes: AVX2. CMake gives this file its flags. */
#define YKI_WIDTH 8
#define YKI_LOOPS yki_cpu_loops_avx2
#include "device/cpu/loops/table.h"

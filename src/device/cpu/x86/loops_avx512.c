/* The inner loops in vectors of 16 lanes: AVX-512. CMake gives this file its flags. */
#define YKI_WIDTH 16
#define YKI_LOOPS yki_cpu_loops_avx512
#include "device/cpu/loops/table.h"

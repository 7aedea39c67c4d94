/* device/compare_rules.h for both types in which kernels compute. */
#ifndef YKI_COMPARE_CUH
#define YKI_COMPARE_CUH

#include "kernel.cuh"

#define YKI_RULE(name) name##_rule
#define YKI_REAL       float
#include "device/compare_rules.h"
#undef YKI_REAL
#define YKI_REAL double
#include "device/compare_rules.h"
#undef YKI_REAL
#undef YKI_RULE

#endif

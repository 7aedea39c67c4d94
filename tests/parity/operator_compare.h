/*
 * Operators forward and backward against PyTorch, on 200 shapes each, in f32: on cpu and on ref
 * within 1e-5 of the largest number of PyTorch's tensor, if a test says nothing else. operators.py
 * computes and judges.
 */
#ifndef YK_OPERATOR_COMPARE_H
#define YK_OPERATOR_COMPARE_H

#include "operator_case.h"

/* operator: as operators.py knows it. seed: tells this table of cases from the others. */
void operator_compare(const char *operator, uint64_t seed, operator_build build);
void operator_compare_within(const char *operator, double tolerance, uint64_t seed,
                             operator_build build);
/* Convolutions on cpu by Winograd's algorithm, within 1e-3. */
void operator_compare_winograd(uint64_t seed, operator_build build);

/* Operands of the case's operator, in f32. */
yk_value *operator_input(operator_case *c, const char *name, int ndim, const int64_t *dims);
yk_value *operator_parameter(operator_case *c, const char *name, int ndim, const int64_t *dims);
/* "x", (N, C, H, W), with channels around the multiples of a block of 16 and elsewhere. */
yk_value *operator_image(operator_case *c, int64_t least_side);
/* "x", (N, C, H, W), or once in three times (N, C). */
yk_value *operator_image_or_features(operator_case *c);
/* "above", (N, C, H, W): numbers whose logarithms and quotients are fine, or else special ones. */
yk_value *operator_above(operator_case *c);

#endif

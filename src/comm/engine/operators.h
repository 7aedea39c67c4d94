/*
 * What a reduction does to elements, for libraries that take it as a function (comm/engine/reduce.h
 * has the rules). bf16 and f16 are rounded after each operation.
 */
#ifndef YKI_ENGINE_OPERATORS_H
#define YKI_ENGINE_OPERATORS_H

#include <yoke/group.h>

#ifdef __cplusplus
extern "C" {
#endif

/* out = a op b, n elements; out may be a or b. */
typedef void (*yki_engine_operator)(void *out, const void *a, const void *b, size_t n);

/* YK_REDUCE_AVG gives the sum. NULL for a dtype that has no arithmetic. */
yki_engine_operator yki_engine_operator_of(yk_dtype dtype, yk_reduce_op op);

/* data = data / ranks, n elements; integers truncate. */
void yki_engine_divide(void *data, size_t n, yk_dtype dtype, int ranks);

/*
 * An average is a sum that is divided afterwards; the sum of f16 could overflow, so there each rank
 * divides its share before.
 */
bool yki_engine_divides_before(yk_dtype dtype, yk_reduce_op op);
bool yki_engine_divides_after(yk_dtype dtype, yk_reduce_op op);

#ifdef __cplusplus
}
#endif

#endif

/* Reductions of the fake backend: in an order that the caller gives, f16 and bf16 in f32. */
#ifndef YK_TEST_FAKE_REDUCE_H
#define YK_TEST_FAKE_REDUCE_H

#include <yoke/group.h>

/* out[count] = the reduction of parts[order[0]], parts[order[1]] ...; out may be one of them. */
void fake_reduce(void *out, const void *const *parts, const int *order, int ranks, size_t count,
                 yk_dtype dtype, yk_reduce_op op);

#endif

/* Elementwise reductions of the buffers of several ranks, in rank order. */
#ifndef YKI_ENGINE_REDUCE_H
#define YKI_ENGINE_REDUCE_H

#include <yoke/group.h>

/*
 * from[0] op from[1] op ... op from[world - 1] (divided by world for YK_REDUCE_AVG), count
 * elements, to each of to[0 .. copies - 1]. A `to` may be one of the `from`, but not overlap one
 * otherwise.
 */
void yki_reduce_ranks(void *const *to, int copies, const void *const *from, int world, size_t count,
                      yk_dtype dtype, yk_reduce_op op);

#endif

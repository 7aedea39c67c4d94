/* Which gradients travel together. */
#ifndef YKI_BUCKET_H
#define YKI_BUCKET_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

#include <yoke/tensor.h>

typedef struct yki_bucket {
    size_t first, count; /* parameters order[first] ... order[first + count - 1] */
    size_t bytes;        /* of the gradients themselves */
    yk_dtype dtype;
} yki_bucket;

/*
 * Walks the parameters in the order in which their gradients are finished and closes a bucket as
 * soon as its bytes reach the cap (first_cap for the first), so that a bucket may overshoot and no
 * gradient is split: the rule of PyTorch's reducer. A bucket holds one dtype. buckets has room for
 * count; returns how many there are.
 */
size_t yki_bucket_plan(yki_bucket *buckets, const size_t *order, const size_t *bytes,
                       const yk_dtype *dtypes, size_t count, size_t first_cap, size_t cap);

/*
 * Moves the gradients that are finished last, as many as fit into cap bytes, from the last of count
 * buckets to one of their own, if the bucket is larger than cap; then, of these, as many as fit
 * into a fourth of cap, because after the very last nothing is left to compute. Returns how many
 * buckets there are. Not in PyTorch, where the last bucket is whatever is left, and is waited for.
 */
size_t yki_bucket_split_last(yki_bucket *buckets, size_t count, const size_t *order,
                             const size_t *bytes, size_t cap);

#endif

/*
 * Reference counts: an object keeps alive what it depends on. A public object starts with one
 * reference, its creator's, which its destroy function releases; whatever is made on top of it
 * holds another. The last release frees it, so objects may be destroyed in any order.
 */
#ifndef YKI_REFERENCE_H
#define YKI_REFERENCE_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>

typedef struct yki_reference {
    atomic_int count;
} yki_reference;

static inline void yki_reference_init(yki_reference *reference)
{
    atomic_init(&reference->count, 1);
}

static inline void yki_reference_retain(yki_reference *reference)
{
    int before = atomic_fetch_add_explicit(&reference->count, 1, memory_order_relaxed);
    assert(before > 0);
    (void)before;
}

/* True when this was the last reference: the caller then frees the object. */
static inline bool yki_reference_release(yki_reference *reference)
{
    int before = atomic_fetch_sub_explicit(&reference->count, 1, memory_order_acq_rel);
    assert(before > 0);
    return before == 1;
}

#endif

/* See arena.h. Quadratic in the number of slots, a few hundred. */
#include "compile/arena.h"

#include <stdint.h>
#include <stdlib.h>

#include "base/memory.h"
#include "device/memory.h"

static int by_falling_size(const void *a, const void *b)
{
    const yki_slot *x = *(yki_slot *const *)a, *y = *(yki_slot *const *)b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return (x > y) - (x < y);
}

/* The best gap for slot among those placed, which are sorted by offset. */
static size_t find_gap(const yki_slot *slot, yki_slot *const *placed, size_t count)
{
    size_t end = 0, best = SIZE_MAX, best_gap = SIZE_MAX;
    for (size_t i = 0; i < count; i++) {
        const yki_slot *other = placed[i];
        if (other->last < slot->first || slot->last < other->first)
            continue;
        if (other->offset > end) {
            size_t gap = other->offset - end;
            if (gap >= slot->bytes && gap < best_gap) {
                best = end;
                best_gap = gap;
            }
        }
        if (other->offset + other->bytes > end)
            end = other->offset + other->bytes;
    }
    return best != SIZE_MAX ? best : end;
}

yk_status yki_arena_assign(yki_slot *slots, size_t count, size_t *total)
{
    yki_slot **order = yki_calloc(count, sizeof *order);
    yki_slot **placed = yki_calloc(count, sizeof *placed);
    yk_status status = YK_OK;
    *total = 0;
    if (!order || !placed) {
        status = yki_error_memory(count * sizeof *order, "the plan");
        goto out;
    }
    for (size_t i = 0; i < count; i++) {
        slots[i].bytes = yki_align(slots[i].bytes, YKI_SCRATCH_ALIGNMENT);
        order[i] = &slots[i];
    }
    qsort(order, count, sizeof *order, by_falling_size);
    for (size_t i = 0; i < count; i++) {
        yki_slot *slot = order[i];
        slot->offset = find_gap(slot, placed, i);
        size_t at = i;
        for (; at > 0 && placed[at - 1]->offset > slot->offset; at--)
            placed[at] = placed[at - 1];
        placed[at] = slot;
        if (slot->offset + slot->bytes > *total)
            *total = slot->offset + slot->bytes;
    }
out:
    free(order);
    free(placed);
    return status;
}

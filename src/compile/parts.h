/*
 * The gradient of a value of which slices are read. The gradient of each slice is a part of it:
 * parts that do not overlap are written next to each other, with zeros where there is none. To pad
 * each of them to the whole and add them up would take a pass over the whole for each slice.
 */
#ifndef YKI_PARTS_H
#define YKI_PARTS_H

#include "graph/operators.h"

typedef struct yki_part {
    yk_value *dy;
    int64_t first; /* where in the whole it begins */
} yki_part;

/* Parts of one dimension in their order in it, none of which overlap. */
typedef struct yki_parts {
    int64_t dim;
    yki_part *list;
    size_t count, capacity;
} yki_parts;

/* Whether the gradient of this slice can be one of the parts. */
bool yki_parts_have_room(const yki_parts *parts, const yki_node *slice);
/* Takes in dy, the gradient of the slice, for which there is room. */
yk_status yki_parts_add(yki_parts *parts, const yki_node *slice, yk_value *dy);
/* Whether they are all of dimension dim, which then has no place for another one. */
bool yki_parts_are_whole(const yki_parts *parts, const yk_value *whole);
/* Appends the nodes that make one value of the parts, shaped like `whole`, and forgets the parts;
 * NULL when memory is out. */
yk_value *yki_parts_join(yki_parts *parts, yk_graph *graph, const yk_value *whole);

#endif

#include "compile/parts.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

static int64_t end_of(const yki_part *part, int64_t dim)
{
    return part->first + part->dy->dims[dim];
}

/* Before which part one that begins here comes. */
static size_t place_of(const yki_parts *parts, int64_t first)
{
    size_t i = 0;
    while (i < parts->count && parts->list[i].first < first)
        i++;
    return i;
}

bool yki_parts_have_room(const yki_parts *parts, const yki_node *slice)
{
    const int64_t first = slice->attrs.first, end = first + slice->attrs.count;
    size_t place = place_of(parts, first);
    return parts->count == 0 ||
           (parts->dim == slice->attrs.dim &&
            (place == 0 || end_of(&parts->list[place - 1], parts->dim) <= first) &&
            (place == parts->count || end <= parts->list[place].first));
}

yk_status yki_parts_add(yki_parts *parts, const yki_node *slice, yk_value *dy)
{
    size_t place = place_of(parts, slice->attrs.first);
    if (!yki_grow(&parts->list, parts->count, &parts->capacity, sizeof *parts->list))
        return yki_error_memory((parts->count + 1) * sizeof *parts->list, "autograd");
    memmove(parts->list + place + 1, parts->list + place,
            (parts->count - place) * sizeof *parts->list);
    parts->list[place] = (yki_part){.dy = dy, .first = slice->attrs.first};
    parts->dim = slice->attrs.dim;
    parts->count++;
    return YK_OK;
}

bool yki_parts_are_whole(const yki_parts *parts, const yk_value *whole)
{
    int64_t covered = 0;
    for (size_t i = 0; i < parts->count; i++)
        covered += parts->list[i].dy->dims[parts->dim];
    return covered == whole->dims[parts->dim];
}

/* The part's gradient with zeros from `begin` on to `end`. */
static yk_value *fill(yk_graph *graph, const yki_part *part, int64_t dim, int64_t begin,
                      int64_t end)
{
    yk_value *dy = part->dy;
    yki_shape shape = yki_shape_of(dy);
    if (begin == part->first && end == end_of(part, dim))
        return dy;
    yki_attrs attrs = {.dim = dim, .first = part->first - begin, .count = end - begin};
    shape.dims[dim] = attrs.count;
    yki_node *node = yki_append(graph, &yki_op_pad, &attrs, &dy, &shape);
    return node ? node->out[0] : NULL;
}

yk_value *yki_parts_join(yki_parts *parts, yk_graph *graph, const yk_value *whole)
{
    const int64_t dim = parts->dim;
    yk_value *joined = NULL, **filled = yki_calloc(parts->count, sizeof *filled);
    bool good = filled != NULL;
    if (!filled)
        yki_error_memory(parts->count * sizeof *filled, "the gradient of slices");
    for (size_t i = 0; good && i < parts->count; i++) {
        int64_t begin = i == 0 ? 0 : parts->list[i].first;
        int64_t end = i + 1 < parts->count ? parts->list[i + 1].first : whole->dims[dim];
        filled[i] = fill(graph, &parts->list[i], dim, begin, end);
        good = filled[i] != NULL;
    }
    if (good)
        joined = yki_append_concat(filled, (int)parts->count, dim);
    free(filled);
    free(parts->list);
    *parts = (yki_parts){0};
    return joined;
}

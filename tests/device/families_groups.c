/* See families.h: group_norm. */
#include "families.h"

/* groups: num_groups; plain: without weight and bias. Groups within a block of channels, of several
 * blocks, across blocks and of single channels; one pixel and many; values that are no images. */
static const conformance_case group_norm_cases[] = {
    {.x = {2, 4, 3, 5}, .groups = 2}, /* plain on the cpu device */
    {.x = {3, 16, 5, 7}, .groups = 4},
    {.x = {2, 32, 4, 4}, .groups = 32},
    {.x = {3, 20, 5, 7}, .groups = 5},
    {.x = {2, 20, 5, 7}, .groups = 1},
    {.x = {2, 30, 3, 3}, .groups = 3},
    {.x = {1, 96, 9, 9}, .groups = 2},
    {.x = {2, 60, 2, 3}, .groups = 6, .plain = true},
    {.x = {1, 17, 30, 33}, .groups = 17},
    {.x = {1, 24, 70, 70}, .groups = 3}, /* several slices */
    {.x = {70, 8, 1, 1}, .groups = 2},
    {.x = {5, 24}, .groups = 3},
    {.x = {9, 7}, .groups = 1, .plain = true},
    {.x = {130, 32}, .groups = 4},
    {.x = {3, 6, 50}, .groups = 3},
    {.x = {2, 12, 33}, .groups = 12},
    {.x = {2, 8, 64}, .groups = 2},
    {.x = {40, 64, 4, 4}, .groups = 8, .spread = 3},
    {.x = {2, 1, 5, 5}, .groups = 1},
};

static yk_value *build_group_norm(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    yk_value *x = conformance_x(graph, c, dtype), *weight = NULL, *bias = NULL;
    if (!c->plain) {
        weight = conformance_parameter(graph, "weight", dtype, 1, &c->x[1]);
        bias = conformance_parameter(graph, "bias", dtype, 1, &c->x[1]);
    }
    return yk_group_norm(x, c->groups, weight, bias, 1e-2);
}

FAMILY(group_norm, build_group_norm);

/* See families.h: group_norm, matmul. */
#include "families.h"

/* groups: num_groups; plain: without weight and bias. Groups within a block of channels, of several
 * blocks, across blocks and of single channels; one pixel and many; values that are no images. */
static const conformance_case group_norm_cases[] = {
    {.x = {2, 4, 3, 5}, .groups = 2}, /* plain on the cpu device */
    {.x = {3, 16, 5, 7}, .groups = 4},
    {.x = {2, 6, 3, 2, 5}, .groups = 3},
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
    {.x = {16, 64, 3, 5}, .groups = 2}, /* many groups of whole blocks of small images */
    {.x = {11, 96, 4, 4}, .groups = 3, .plain = true},
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

/* ---- matmul ---------------------------------------------------------------------------------- */

/* x, other: the sides in memory; heads: matrices of a sample; transposed: which sides are. Few
 * products and many, of which a slice has one or several. */
static const conformance_case matmul_cases[] = {
    {.x = {1, 1, 1}, .other = {1, 1, 1}},
    {.x = {2, 5, 7}, .other = {2, 7, 3}},
    {.x = {7, 5}, .other = {5, 9}},
    {.x = {3, 17, 33}, .other = {3, 20, 33}, .transposed = {false, true}},
    {.x = {3, 17, 5}, .other = {3, 17, 20}, .transposed = {true, false}},
    {.x = {2, 9, 6}, .other = {2, 5, 9}, .transposed = {true, true}},
    {.x = {5, 9}, .other = {9, 5}, .transposed = {true, true}},
    {.x = {2, 3 * 5, 4}, .other = {2, 3 * 4, 6}, .heads = 3},
    {.x = {2, 3 * 5, 4}, .other = {2, 3 * 6, 4}, .heads = 3, .transposed = {false, true}},
    {.x = {4, 8 * 6, 5}, .other = {4, 8 * 6, 7}, .heads = 8, .transposed = {true, false}},
    {.x = {40, 9, 8}, .other = {40, 8, 16}},
    {.x = {33, 8, 30}, .other = {33, 30, 9}},
    {.x = {16, 2 * 17, 24}, .other = {16, 2 * 17, 24}, .heads = 2, .transposed = {false, true}},
    {.x = {2, 50, 70}, .other = {2, 70, 33}},
    {.x = {18, 40, 20}, .other = {18, 20, 33}},
};

static yk_value *build_matmul(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    const yki_attrs attrs = {.heads = c->heads ? c->heads : 1,
                             .transpose_a = c->transposed[0],
                             .transpose_b = c->transposed[1]};
    yk_value *sides[] = {conformance_x(graph, c, dtype),
                         yk_input(graph, "b", dtype, conformance_rank(c->other), c->other)};
    return yki_emit(&yki_op_matmul, &attrs, sides);
}

FAMILY(matmul, build_matmul);

/*
 * Which values are images. Devices keep images, (N, C, H, W), in a layout that suits convolutions,
 * in which other values of four dimensions, such as the heads of attention or rows of tokens, would
 * be slow to read. What a value is depends on its use: it is an image if an operator of images has
 * it as an operand, or if it is linked to an image by operators whose operands have one layout,
 * such as add. So the layout changes nowhere but at operators that move elements anyway, such as
 * permute.
 *
 * The sets of linked values are trees, in which each value knows one that is nearer to the root
 * (union-find).
 */
#include "compile/rewrite.h"

#include <stdlib.h>

#include "base/memory.h"

typedef struct links {
    int *nearer; /* by value id; a root's own id */
    bool *image; /* by value id: whether the set is one of images; of roots alone */
} links;

static int root_of(const links *l, int id)
{
    while (l->nearer[id] != id) {
        l->nearer[id] = l->nearer[l->nearer[id]];
        id = l->nearer[id];
    }
    return id;
}

static void join(const links *l, int a, int b)
{
    a = root_of(l, a);
    b = root_of(l, b);
    l->nearer[a] = b;
    l->image[b] |= l->image[a];
}

/* Parameters, and what is computed of them alone, are plain everywhere. */
static bool may_be_image(const yk_value *value)
{
    return value && value->ndim == 4 && value->dims[0] == YK_BATCH;
}

/* Links the operand to the one before, whose id is *last; -1: it is the first. */
static void add_operand(const links *l, const yki_op *op, const yk_value *value, int *last)
{
    if (!may_be_image(value))
        return;
    if (*last >= 0)
        join(l, *last, value->id);
    *last = value->id;
    l->image[root_of(l, value->id)] |= op->layouts == YKI_OF_IMAGES;
}

static void add_node(const links *l, const yki_node *node)
{
    int last = -1;
    if (node->op->layouts == YKI_ANY_LAYOUTS)
        return;
    for (int i = 0; i < node->in_count; i++)
        add_operand(l, node->op, node->in[i], &last);
    for (int i = 0; i < node->out_count; i++)
        add_operand(l, node->op, node->out[i], &last);
}

yk_status yki_graph_find_images(const yk_graph *graph, bool **images)
{
    const size_t count = graph->value_count;
    links l = {yki_calloc(count, sizeof *l.nearer), yki_calloc(count, sizeof *l.image)};
    if (!l.nearer || !l.image) {
        free(l.nearer);
        free(l.image);
        return yki_error_memory(count * sizeof *l.nearer, "the model");
    }
    for (size_t i = 0; i < count; i++)
        l.nearer[i] = (int)i;
    for (size_t n = 0; n < graph->node_count; n++)
        add_node(&l, graph->nodes[n]);
    for (size_t i = 0; i < count; i++)
        l.image[i] = l.image[root_of(&l, (int)i)];
    free(l.nearer);
    *images = l.image;
    return YK_OK;
}

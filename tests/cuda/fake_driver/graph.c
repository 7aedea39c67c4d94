/*
 * The nodes of the fake driver's graphs, which are the operations of a recording. A node's
 * neighbours are those before and after it in its stream. A graph can be changed in one way: a new
 * kernel gets the neighbours of a node, which is then destroyed.
 */
#include <stdlib.h>

#include "arguments.h"
#include "fake_driver.h"
#include "internal.h"

/* The kernel that has been added, and what it was given as neighbours. */
static struct {
    yki_sim_operation *kernel;
    const yki_sim_operation *before, *after;
} added;

static yki_sim_operation *first_of(yki_cu_graph graph)
{
    return yki_sim_recorded(graph->recording);
}

/* The graph whose nodes have been asked for last. */
static yki_cu_graph edited;

static int replaced;

int yk_fake_replaced_fills(void)
{
    return replaced;
}

static const yki_sim_operation *node_before(const yki_sim_operation *node)
{
    const yki_sim_operation *found = NULL;
    for (const yki_sim_operation *o = first_of(edited); o && o != node; o = o->next)
        if (o->lane == node->lane)
            found = o;
    return found;
}

static const yki_sim_operation *node_after(const yki_sim_operation *node)
{
    const yki_sim_operation *o = node->next;
    while (o && o->lane != node->lane)
        o = o->next;
    return o;
}

int fake_graph_nodes(yki_cu_graph graph, yki_cu_node *nodes, size_t *count)
{
    size_t found = 0;
    edited = graph;
    for (yki_sim_operation *o = first_of(graph); o; o = o->next, found++)
        if (nodes && found < *count)
            nodes[found] = (yki_cu_node)o;
    *count = found;
    return YKI_CU_SUCCESS;
}

static int give(const yki_sim_operation *found, yki_cu_node *nodes, size_t *count)
{
    if (nodes && *count > 0 && found)
        nodes[0] = (yki_cu_node)(uintptr_t)found;
    *count = found ? 1 : 0;
    return YKI_CU_SUCCESS;
}

int fake_graph_before(yki_cu_node node, yki_cu_node *nodes, size_t *count)
{
    return give(node_before((yki_sim_operation *)node), nodes, count);
}

int fake_graph_after(yki_cu_node node, yki_cu_node *nodes, size_t *count)
{
    return give(node_after((yki_sim_operation *)node), nodes, count);
}

int fake_graph_add(yki_cu_node *node, yki_cu_graph graph, const yki_cu_node *before, size_t count,
                   const yki_cu_kernel_node *p)
{
    if (graph != edited || added.kernel || count > 1 || p->shared_bytes || p->extra)
        return CU_INVALID_VALUE;
    added.kernel = fake_new_launch(p->function, p->grid, p->block[0] * p->block[1] * p->block[2],
                                   p->parameters[0]);
    added.before = count == 1 ? (yki_sim_operation *)before[0] : NULL;
    added.after = NULL;
    *node = (yki_cu_node)added.kernel;
    return added.kernel ? YKI_CU_SUCCESS : CU_INVALID_VALUE;
}

int fake_graph_join(yki_cu_graph graph, const yki_cu_node *before, const yki_cu_node *after,
                    size_t count)
{
    if (graph != edited || count != 1 || !added.kernel || added.after ||
        (yki_sim_operation *)before[0] != added.kernel)
        return CU_INVALID_VALUE;
    added.after = (yki_sim_operation *)after[0];
    return YKI_CU_SUCCESS;
}

int fake_graph_destroy_node(yki_cu_node node)
{
    yki_sim_operation *old = (yki_sim_operation *)node;
    yki_cu_memset fill;
    bool is_replaced = added.kernel && added.before == node_before(old) &&
                       added.after == node_after(old) && fake_is_fill(old, &fill);
    if (is_replaced)
        fake_move_work(old, added.kernel);
    if (added.kernel)
        yki_sim_release(added.kernel);
    added.kernel = NULL;
    replaced += is_replaced;
    return is_replaced ? YKI_CU_SUCCESS : CU_INVALID_VALUE;
}

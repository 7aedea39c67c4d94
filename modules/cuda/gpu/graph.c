/*
 * What is changed in a recorded graph before it is instantiated. Many of cuDNN's and cuBLAS's
 * kernels want a few bytes of their workspace to be zero. A GPU takes some 5 us for a memset
 * between two kernels of a graph, and 2 us for a kernel that does the same.
 */
#include <stdlib.h>

#include "base/memory.h"
#include "gpu/gpu.h"

/* Of bytes: larger ones take as long either way. */
static const size_t most_bytes = 1 << 16;

static bool is_small(const yki_cu_memset *fill)
{
    return fill->height == 1 && fill->width * fill->element_size <= most_bytes;
}

/* The nodes before or after a node, which the caller frees; false if there is no answer. */
static bool find_neighbours(yki_cu_result (*get)(yki_cu_node node, yki_cu_node *nodes,
                                                 size_t *count),
                            yki_cu_node node, yki_cu_node **nodes, size_t *count)
{
    *nodes = NULL;
    *count = 0;
    if (get(node, NULL, count) != YKI_CU_SUCCESS)
        return false;
    *nodes = yki_calloc(*count + 1, sizeof **nodes);
    return *nodes && (*count == 0 || get(node, *nodes, count) == YKI_CU_SUCCESS);
}

static bool add_kernel(const yki_cuda_gpu *gpu, yki_cu_graph graph, const yki_cu_memset *fill,
                       const yki_cu_node *before, size_t count, yki_cu_node *kernel)
{
    yki_cuda_fill_args args = {.to = (void *)(uintptr_t)fill->to,
                               .count = (int64_t)fill->width,
                               .value = fill->value,
                               .element_size = (int32_t)fill->element_size};
    void *parameters[] = {&args};
    const yki_cu_kernel_node node = {
        .function = (yki_cu_function)(uintptr_t)gpu->cuda.fill,
        .grid = {(unsigned)yki_cuda_blocks(args.count, YKI_CUDA_THREADS), 1, 1},
        .block = {YKI_CUDA_THREADS, 1, 1},
        .parameters = parameters};
    return yki_cu.GraphAddKernelNode(kernel, graph, before, count, &node) == YKI_CU_SUCCESS;
}

/* A kernel with the neighbours of a memset, which goes; the graph is as it was if that fails. */
static void replace(const yki_cuda_gpu *gpu, yki_cu_graph graph, yki_cu_node node,
                    const yki_cu_memset *fill)
{
    yki_cu_node *before, *after, kernel = NULL;
    size_t before_count, after_count;
    bool known = find_neighbours(yki_cu.GraphNodeGetDependencies, node, &before, &before_count);
    known &= find_neighbours(yki_cu.GraphNodeGetDependentNodes, node, &after, &after_count);
    if (known && add_kernel(gpu, graph, fill, before, before_count, &kernel)) {
        bool joined = true;
        for (size_t i = 0; i < after_count && joined; i++)
            joined = yki_cu.GraphAddDependencies(graph, &kernel, &after[i], 1) == YKI_CU_SUCCESS;
        (void)yki_cu.GraphDestroyNode(joined ? node : kernel);
    }
    free(before);
    free(after);
}

void yki_cuda_graph_replace_fills(const yki_cuda_gpu *gpu, yki_cu_graph graph)
{
    size_t count = 0;
    if (yki_cu.GraphGetNodes(graph, NULL, &count) != YKI_CU_SUCCESS || count == 0)
        return;
    yki_cu_node *nodes = yki_calloc(count, sizeof *nodes);
    if (nodes && yki_cu.GraphGetNodes(graph, nodes, &count) == YKI_CU_SUCCESS)
        for (size_t i = 0; i < count; i++) {
            int type = -1;
            yki_cu_memset fill;
            if (yki_cu.GraphNodeGetType(nodes[i], &type) == YKI_CU_SUCCESS &&
                type == YKI_CU_NODE_MEMSET &&
                yki_cu.GraphMemsetNodeGetParams(nodes[i], &fill) == YKI_CU_SUCCESS &&
                is_small(&fill))
                replace(gpu, graph, nodes[i], &fill);
        }
    free(nodes);
}

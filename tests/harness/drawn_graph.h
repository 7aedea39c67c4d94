/* Graphs that are drawn at random, for PyTorch and ONNX Runtime to compute as well. */
#ifndef YK_DRAWN_GRAPH_H
#define YK_DRAWN_GRAPH_H

#include <stdio.h>

#include <yoke/graph.h>

enum {
    DRAWN_CLASSES = 4, /* inputs of int32 are below it */
    DRAWN_INPUTS = 6   /* at most */
};

/* The loss of the graph that follows from the seed, of at least one input (N, C, H, W); *last, if
 * not NULL, is the last activation before the loss. */
yk_value *drawn_graph(uint64_t seed, yk_dtype dtype, yk_value **last);
/* Writes lines of the loss's graph, before a model rewrites it. */
void drawn_graph_describe(FILE *file, const yk_value *loss);

/* Numbers that f32 holds exactly, or classes, which follow from the key. */
void drawn_numbers(uint64_t key, yk_dtype dtype, int64_t count, void *memory);
/* The seeds of a test, from *first to before *end: `count` of them, or YOKE_TEST_DRAWS; others with
 * another YOKE_TEST_SEED than 1. */
void drawn_seeds(uint64_t count, uint64_t *first, uint64_t *end);

#endif

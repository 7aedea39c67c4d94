/* A problem of the benchmark of operators, as a line of text says it, and its node in a graph. */
#ifndef YOKE_BENCH_PROBLEM_H
#define YOKE_BENCH_PROBLEM_H

#include <stdbool.h>

#include <yoke/yoke.h>

enum { WORD = 64 };

typedef struct shape {
    int ndim;
    int64_t dims[YK_MAX_DIMS];
} shape;

typedef struct problem {
    char name[WORD];
    yk_dtype dtype;
    bool backward;
    shape x, other;
} problem;

/* Reads "NAME f32|bf16 forward|backward SHAPE OTHER"; false if the line says something else. */
bool read_problem(const char *line, problem *p);

/* Appends the operator to the graph with its own inputs and parameters. NULL if there is no
 * operator of that name. */
yk_value *build(yk_graph *graph, const problem *p);

#endif

/*
 * One operator on one drawn shape, run forward and backward on a device, and all that went in and
 * came out written to a file for operators.py, which lets PyTorch do the same.
 *
 * A case's builder appends one node to the graph, taking sizes and attributes from the case's dice;
 * the operator's own gradient rule appends the rest. Values lie in the layouts that the planner
 * would choose, so that the kernels run are those of training.
 */
#ifndef YK_OPERATOR_CASE_H
#define YK_OPERATOR_CASE_H

#include "checkpoint/tensor_file/pth.h"
#include "device/device.h"

/* Draws: a function of (seed, number of draws so far). */
typedef struct operator_dice {
    uint64_t seed, count;
} operator_dice;

/* An integer from low to high, both included. */
int64_t operator_between(operator_dice *dice, int64_t low, int64_t high);
/* True once in n times. */
bool operator_once_in(operator_dice *dice, int64_t n);

typedef struct operator_case {
    operator_dice dice;
    yk_graph *graph;
    bool training;
    bool ties;    /* numbers are multiples of 1/2, so that some are equal, and some 0 */
    bool special; /* numbers are infinite, zeros, NaN, tiny or so large that exp() overflows */
    struct operator_memory *memory; /* by value id */
    yk_value *dy, *din[YKI_MAX_IN];
} operator_case;

typedef yk_value *(*operator_build)(operator_case *c);

/* Builds the case that follows from the seed and draws its numbers. */
void operator_case_init(operator_case *c, uint64_t seed, operator_build build);
void operator_case_fini(operator_case *c);
/* Runs forward and backward once. */
void operator_case_run(operator_case *c, yki_device *device);
/* Appends {"training": ..., "special": ..., "attrs": {...}, "in", "out", "dout", "din", "after":
 * tensors by name} to the file. The case must stay until the file is finished. */
void operator_case_write(const operator_case *c, yki_pth_writer *file);

#endif

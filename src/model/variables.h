/*
 * What a model keeps from step to step: parameters, their gradients, and buffers.
 *
 * Invariants: values, gradients and buffers keep their addresses, except where distributed training
 * moves parameters or gradients (model_hooks.h). Packed copies of a parameter are stale exactly
 * while their version is below `version`.
 */
#ifndef YKI_VARIABLES_H
#define YKI_VARIABLES_H

#include "base/random.h"
#include "compile/plan.h"
#include "tensor/init.h"

typedef struct yki_variable {
    yk_value *value; /* in the graph: name, shape, initial values */
    void *data;
    void *grad;      /* parameters only; NULL in a model without a loss */
    void *increment; /* what the running backward adds to grad; see accumulation.h */
} yki_variable;

typedef struct yki_variables {
    yki_device *device; /* in whose memory all of them lie */
    yki_variable *parameters, *buffers;
    size_t parameter_count, buffer_count;
    void *memory; /* the values: parameters, then buffers */
    void *gradient_memory;
    size_t bytes, gradient_bytes;
    size_t *grad_order;    /* parameters in the order in which backward finishes their gradients */
    bool *used;            /* by parameter: whether the loss depends on it */
    yki_mt19937 generator; /* of initial values */
    uint64_t version;      /* of the parameters' values */
    uint64_t moves, gradient_moves; /* how often distributed training has moved them */
} yki_variables;

/* Collects the graph's parameters and buffers and gives them memory; parameters get gradients only
 * if `trained`. */
yk_status yki_variables_create(yki_variables *variables, yki_device *device, const yk_graph *graph,
                               bool trained);
/* Once the device has done all that was entered. */
void yki_variables_destroy(yki_variables *variables);

/* Draws the initial values. */
yk_status yki_variables_draw(yki_variables *variables, uint64_t seed);
/* Draws those of a parameter again, after all that has been drawn. */
yk_status yki_variables_draw_again(yki_variables *variables, size_t parameter,
                                   const yki_recipe *recipe);

/* Enters the places of parameters, their gradients and buffers in `fixed`, which is by value id. */
void yki_variables_place(const yki_variables *variables, const yki_gradients *gradients,
                         yki_place *fixed);
/* Finds grad_order and used in the graph's backward nodes, from `first_backward` on. */
void yki_variables_order(yki_variables *variables, const yk_graph *graph, size_t first_backward,
                         const yki_place *fixed);

/* The variable's value or gradient as a tensor over data, in the variables' device; its `device` is
 * NULL on a host device, whose memory a program may use. */
yk_tensor yki_variable_tensor(const yki_variables *variables, const yki_variable *variable,
                              void *data);
/* Its size in memory, padded so that the next variable starts aligned. */
size_t yki_variable_bytes(const yki_variable *variable);

#endif

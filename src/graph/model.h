/*
 * The model's inside, shared by model.c (making and running) and parameters.c (what is trained).
 *
 * Invariants: values, gradients and buffers keep their addresses except for gradients that
 * distributed training moves; packed copies are stale exactly while pack.version < model.version.
 */
#ifndef YKI_MODEL_H
#define YKI_MODEL_H

#include "graph/model_hooks.h"
#include "graph/plan.h"

typedef struct yki_variable {
    yk_value *value; /* of the graph: name, shape, initialisation */
    void *data;
    void *grad; /* parameters only */
} yki_variable;

/* A weight in some kernels' own layout. Kernels of one parameter may share it; what is no parameter
 * (a buffer, something computed) may change at any time and is packed at every run. */
typedef struct yki_pack {
    yki_place source;
    const yki_kernel *kernel; /* the first that asked for it */
    void *memory;
    uint64_t version;
} yki_pack;

struct yk_model {
    yk_graph *graph;
    yki_device *device;
    yk_model_options options;
    yki_plan_source source;

    yki_variable *parameters, *buffers;
    size_t parameter_count, buffer_count;
    void *variable_memory, *gradient_memory, *accumulated;
    size_t variable_bytes, gradient_bytes;
    size_t *grad_order;
    uint64_t version; /* of the parameters */

    yki_plan **plans;
    size_t plan_count;
    yki_pack *packs;
    size_t pack_count;
    void *arena; /* shared by all plans: one runs at a time */
    size_t arena_bytes;

    bool training;
    bool eval_backward;   /* someone has called backward in evaluation mode */
    bool gradients_spent; /* the next backward sets them */
    yki_plan *current;    /* of a forward that backward may follow, or NULL */
    yki_plan *last;       /* of the last forward, whose loss and logits can be read, or NULL */
    const yk_batch *batch;
    const yk_value **inputs; /* in order of declaration */
    const void **input_data;
    size_t input_count;
    uint64_t step; /* forwards in training mode */
    union {
        float f32;
        double f64;
    } loss_gradient;
    yki_model_hooks hooks;
};

/* Collects parameters, buffers and inputs, gives them memory and draws the initial values. */
yk_status yki_variables_create(yk_model *model);
void yki_variables_destroy(yk_model *model);
/* Gives parameter gradients, inputs, ... their place in source.fixed, and fills grad_order. */
yk_status yki_variables_place(yk_model *model, const yki_gradients *gradients);

/* Finds or makes the packed copy that a new plan's kernels want. */
yk_status yki_packs_add(yk_model *model, yki_plan *plan);
void yki_packs_destroy(yk_model *model);

size_t yki_variable_bytes(const yki_variable *variable);

#endif

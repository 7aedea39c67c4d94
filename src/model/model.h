/*
 * The model's inside, shared by model.c (making), model_run.c (running), parameters.c (what is
 * trained) and accumulate.c (backwards that add).
 *
 * Invariants: values, gradients and buffers keep their addresses except for gradients and values
 * that distributed training moves; packed copies are stale exactly while pack.version <
 * model.version.
 */
#ifndef YKI_MODEL_H
#define YKI_MODEL_H

#include "compile/plan.h"
#include "model/model_hooks.h"

typedef struct yki_variable {
    yk_value *value; /* of the graph: name, shape, initialisation */
    void *data;
    void *grad;      /* parameters only */
    void *increment; /* where a backward that adds puts its own gradient first */
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
    bool is_replica; /* the graph is another model's; see replica.c */
    yki_device *device;
    yk_model_options options;
    yki_plan_source source;

    yki_variable *parameters, *buffers;
    size_t parameter_count, buffer_count;
    void *variable_memory, *gradient_memory, *fresh_memory;
    size_t variable_bytes, gradient_bytes;
    size_t *grad_order;
    bool *used;       /* by parameter; see model_hooks.h */
    uint64_t version; /* of the parameters */

    yki_plan **plans;
    size_t plan_count;
    yki_pack *packs;
    size_t pack_count;
    void *arena; /* shared by all plans: one runs at a time */
    size_t arena_bytes;

    bool training;
    bool eval_backward; /* someone has called backward in evaluation mode */
    yk_accumulation accumulation;
    bool gradients_spent;    /* the next backward sets them */
    int64_t kept_samples;    /* whose gradients are there */
    bool adding;             /* the running backward adds to what is there ... */
    double kept_weight;      /* ... times this */
    yki_plan *current;       /* of a forward that backward may follow, or NULL */
    yki_plan *last;          /* of the last forward, whose loss and logits can be read, or NULL */
    const yk_batch *batch;   /* of the last forward; NULL where it had no samples */
    const yk_value **inputs; /* in order of declaration */
    const void **input_data;
    size_t input_count;
    uint64_t step;   /* forwards in training mode */
    uint64_t stream; /* of random draws: 0, or what distributed training has set */
    double loss_scale;
    bool has_scaler; /* whose loss_scale is */
    union {
        float f32;
        double f64;
    } loss_gradient;
    yki_model_hooks hooks;
    yki_model_runner runner;
    yki_sync *sync; /* of batch_norm in training; NULL: not synchronised */
};

/* Collects parameters, buffers and inputs, and gives them memory. */
yk_status yki_variables_create(yk_model *model);
/* Draws the initial values. */
yk_status yki_variables_draw(yk_model *model);
void yki_variables_destroy(yk_model *model);
/* Gives parameter gradients, inputs, ... their place in source.fixed, and fills grad_order. */
yk_status yki_variables_place(yk_model *model, const yki_gradients *gradients);

/* Finds or makes the packed copy that a new plan's kernels want. */
yk_status yki_packs_add(yk_model *model, yki_plan *plan);
void yki_packs_destroy(yk_model *model);

/* Before backward's first kernel, and whenever a gradient is written; see accumulate.c. */
yk_status yki_gradients_begin(yk_model *model, const yki_backward *backward);
void *yki_gradient_target(const yk_model *model, size_t parameter);
void yki_gradient_finish(yk_model *model, size_t parameter);
/* The gradients behind the first `finished` in grad_order: the loss does not depend on them. */
void yki_gradients_finish_unreached(yk_model *model, size_t finished);

size_t yki_variable_bytes(const yki_variable *variable);

#endif

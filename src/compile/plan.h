/*
 * A plan: the graph for one batch size and mode as an array of prepared kernels, with a place in
 * memory for every value. Making it is slow (kernels are compiled); running it allocates nothing.
 */
#ifndef YKI_PLAN_H
#define YKI_PLAN_H

#include "compile/rewrite.h"
#include "compile/work.h"
#include "device/device.h"

/* Where a value lives. */
typedef enum yki_place_kind {
    YKI_PLACE_NONE,
    YKI_PLACE_ARENA,     /* at slots[index].offset */
    YKI_PLACE_INPUT,     /* the batch's tensor for the graph's index-th input */
    YKI_PLACE_PARAMETER, /* parameter `index` */
    YKI_PLACE_GRADIENT,  /* the gradient of parameter `index` */
    YKI_PLACE_BUFFER,
    YKI_PLACE_LOSS_GRADIENT /* of the terms of kind `index` */
} yki_place_kind;

typedef struct yki_place {
    yki_place_kind kind;
    size_t index;
    yki_layout layout;
} yki_place;

/* One kernel to run. */
typedef struct yki_step {
    yki_kernel *kernel;
    yki_place in[YKI_MAX_IN], out[YKI_MAX_OUT];
    int in_count, out_count;
    int scratch;                   /* slot of its scratch memory, or -1 */
    int pack;                      /* index in the model's packs, or -1 */
    int gradients;                 /* parameters whose gradient is final after this step ... */
    size_t parameter[YKI_MAX_OUT]; /* ... these */
    bool beside;                   /* it is to run beside the next step */
    const yki_node *node;          /* NULL: a reorder of an input */
} yki_step;

enum { YKI_PROFILE_TIMES = 1024 };

/* What a step has to do, and how long it has taken while the model was profiled. */
typedef struct yki_step_profile {
    yki_work work;
    int64_t runs;
    double seconds;
    double *times; /* a ring of the last YKI_PROFILE_TIMES runs; NULL before the first */
} yki_step_profile;

/* What a plan is for. */
typedef struct yki_plan_mode {
    bool training, backward;
    bool inference; /* outputs alone: values that they do not depend on are left out */
} yki_plan_mode;

typedef struct yki_plan {
    int64_t batch;
    yki_plan_mode mode;
    bool draws; /* a step may read the seed and the number of the pass */
    yki_step *steps;
    yki_step_profile *profiles; /* of the steps */
    size_t step_count, forward_count;
    struct yki_slot *slots;
    size_t slot_count;
    size_t arena_bytes, value_bytes; /* with scratch memory, and for values alone */
    yki_place loss, terms[YKI_LOSS_KINDS];
    yki_place *outputs; /* as many as the source has */
} yki_plan;

/* What is fixed for a model when a plan is made. */
typedef struct yki_plan_source {
    const yk_graph *graph;
    yki_device *device;
    const yk_value *loss;            /* may be NULL */
    yki_outputs outputs;             /* the model's */
    yk_value *terms[YKI_LOSS_KINDS]; /* of the loss; see rewrite.h */
    size_t first_backward;
    int64_t largest_batch; /* yki_largest_batch(graph) */
    yki_place *fixed;      /* by value id: the place of what is not an activation, else NONE */
    bool *images;          /* by value id, see rewrite.h */
    bool *for_outputs;     /* by value id: whether an output depends on it; NULL without outputs */
} yki_plan_source;

/* The value that is read as the logits, or NULL. */
static inline const yk_value *yki_logits_of(const yki_plan_source *source)
{
    return source->outputs.list[0].read;
}

/* The most samples that a batch can have. */
int64_t yki_largest_batch(const yk_graph *graph);
/* Whether a batch is no larger. */
yk_status yki_check_batch(const yki_plan_source *source, int64_t batch);

yk_status yki_plan_create(yki_plan **plan, const yki_plan_source *source, int64_t batch,
                          yki_plan_mode mode);
void yki_plan_destroy(yki_plan *plan);

#endif

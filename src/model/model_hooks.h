/*
 * What a model lets distributed training see of it: where gradients live, in which order they come
 * to be final, and calls at the moments that matter. Public users never see this header.
 */
#ifndef YKI_MODEL_HOOKS_H
#define YKI_MODEL_HOOKS_H

#include <yoke/model.h>

#include "device/sync.h"

/* How a backward weighs what it adds up; a model by itself fills it in before backward_begin. */
typedef struct yki_backward {
    int64_t samples;      /* of the batch */
    bool training;        /* the mode its forward ran in */
    bool adds;            /* to the gradients that are there; else it sets them */
    int64_t kept_samples; /* of the backwards that it adds to */
    bool sum;             /* the loss is a sum over samples, not a mean */
    bool mean;          /* YK_ACCUMULATION_MEAN, of a mean: sums of parts are the whole's already */
    double loss_weight; /* multiplies the gradient of the loss */
    double kept_weight; /* multiplies the gradients that are there */
} yki_backward;

/*
 * Called on the thread that runs the model. Any may be NULL. forward_begin and backward_begin may
 * fail, which fails the model's call; grad_ready must not block.
 */
typedef struct yki_model_hooks {
    void *context;
    /* Before a forward in training mode; samples is the batch's size on this rank. */
    yk_status (*forward_begin)(void *context, int64_t samples);
    /* Before backward: may change both weights. */
    yk_status (*backward_begin)(void *context, yki_backward *backward);
    /* The gradient of this parameter (index as in yk_model_parameter) is final in its memory. */
    void (*grad_ready)(void *context, size_t parameter);
    /* After the last kernel of backward: wait for what is in flight. */
    yk_status (*backward_end)(void *context);
    /* Makes *value the largest of all ranks'. Collective. */
    yk_status (*share_maximum)(void *context, double *value);
} yki_model_hooks;

/* YK_ERROR_INVALID_ARGUMENT, in the name of who asks, when a model has hooks already: one way of
 * distributing it excludes the others. */
yk_status yki_model_check_free(const yk_model *model, const char *who);
/* Whether a runner has taken it over. */
bool yki_model_has_runner(const yk_model *model);
/* At most one set; NULL takes it away. The struct is copied. */
void yki_model_set_hooks(yk_model *model, const yki_model_hooks *hooks);

/* Who runs the model in its stead: data parallelism, one model and its replicas for a batch. */
typedef struct yki_model_runner {
    void *context;
    yk_status (*forward)(void *context, const yk_batch *batch);
    yk_status (*backward)(void *context);
    double (*loss)(const void *context);
    yk_status (*output)(void *context, yk_tensor *output);
} yki_model_runner;

/* Leads yk_model_forward, _backward, _loss and _output there; NULL takes it away. Copied. */
void yki_model_set_runner(yk_model *model, const yki_model_runner *runner);
/* The same four of the model alone, for the runner. */
yk_status yki_model_forward(yk_model *model, const yk_batch *batch);
yk_status yki_model_backward(yk_model *model);
double yki_model_loss(const yk_model *model);
yk_status yki_model_output(yk_model *model, yk_tensor *output);

/* ---- replicas (replica.c) -------------------------------------------------------------------- */

/* Gives a model that has run nothing yet this many threads; refuses one that is distributed
 * already, and outputs that are not the batch's. */
yk_status yki_model_prepare_for_replicas(yk_model *model, int threads);
/* A model of the same graph, with memory of its own; it must go before the model. */
yk_status yki_model_replicate(yk_model **replica, const yk_model *model, int index);
/* Copies parameters, buffers and the mode to the replica; on any thread while model rests. */
void yki_model_refresh_replica(yk_model *replica, const yk_model *model);
/* Before the replica's backward, which sets its gradients: the model alone keeps and adds. */
void yki_model_begin_replica(yk_model *replica, const yk_model *model);
/* Adds the replicas' gradients to the model's in their order: of each, slice `part` of `parts`. */
void yki_model_add_gradients(yk_model *model, yk_model *const *replicas, int count, int part,
                             int parts);
/* Whether it was made with options.logits. */
bool yki_model_has_output(const yk_model *model);
/* Whether the loss is a sum over samples, not a mean. */
bool yki_model_loss_is_sum(const yk_model *model);
/* How the model's next backward would weigh a batch of so many samples. */
yki_backward yki_gradients_weigh(const yk_model *model, int64_t samples);

/* Channels of the widest batch_norm; 0: there is none. */
int64_t yki_model_norm_channels(const yk_model *model);

/*
 * From now on every batch_norm in training takes its statistics over the ranks that sync reaches.
 * The model takes sync over and frees it with free(); NULL takes it away. A batch may then be
 * empty.
 */
void yki_model_set_sync(yk_model *model, yki_sync *sync);
bool yki_model_is_synced(const yk_model *model);

/* Dropout then draws from this stream, 0 <= stream < 65536, so that ranks draw unlike each other.
 */
void yki_model_set_stream(yk_model *model, int stream);
/* Takes the scale of the loss, which is one grad scaler's alone, and gives it back as 1. */
yk_status yki_model_take_loss_scale(yk_model *model);
void yki_model_release_loss_scale(yk_model *model);
/* Multiplies the gradient of the loss from the next backward on; 1 at first. */
void yki_model_set_loss_scale(yk_model *model, double scale);
/* Makes *value the largest that any rank has given; without other ranks it stays. */
yk_status yki_model_share_maximum(yk_model *model, double *value);

/* A forward on a batch without samples: what a rank runs that has no more data than that. */
yk_status yki_model_forward_empty(yk_model *model);

/* Parameter indices in the order in which backward finishes their gradients; count of them is
 * yk_model_parameter_count. Known from the graph, before any batch. */
const size_t *yki_model_grad_order(const yk_model *model);

/*
 * By parameter: whether its gradient means anything, i.e. the loss depends on it, here or, once
 * distributed training has said so, on another rank. Optimizers leave the others alone.
 */
const bool *yki_model_used(const yk_model *model);
void yki_model_set_used(yk_model *model, size_t parameter);

/* Moves each parameter's value to memory[parameter], aligned and as long as a gradient's; NULL
 * moves all back into the model's own. Views taken before are stale. */
void yki_model_place_parameters(yk_model *model, void *const *memory);

/*
 * Moves each parameter's gradient to memory[parameter] (64-byte aligned, canonical layout, the
 * parameter's dtype and size), which must outlive the model or the next call; NULL, for one or for
 * all, moves them back into the model's own. Gradients are spent (as after yk_model_zero_grad)
 * afterwards.
 */
void yki_model_place_gradients(yk_model *model, void *const *memory);

#endif

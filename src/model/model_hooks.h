/*
 * What distributed training may do with a model: be called at the moments that matter, choose where
 * parameters and gradients live, and learn in which order gradients become final. Public users
 * never see this header. replica.h has what data parallelism on one machine needs besides.
 */
#ifndef YKI_MODEL_HOOKS_H
#define YKI_MODEL_HOOKS_H

#include <yoke/model.h>

#include "device/exchange.h"
#include "device/memory.h"
#include "device/sync.h"
#include "graph/graph.h"

/* How a backward weighs what it adds up; the model fills it in before backward_begin. */
typedef struct yki_backward {
    int64_t samples;      /* in the batch */
    bool training;        /* the mode in which its forward ran */
    bool adds;            /* to the gradients that are there; otherwise it sets them */
    int64_t kept_samples; /* in the backwards that it adds to */
    bool mean;            /* YK_ACCUMULATION_MEAN, and the loss has terms that are means */
    bool mixed;           /* the loss has both means over samples and sums over them */
    double mean_weight;   /* multiplies the gradient of the loss's means over samples */
    double sum_weight;    /* multiplies the gradient of its sums over samples */
    double kept_weight;   /* multiplies the gradients that are there */
    bool unbroken;        /* nothing in it waits for the host: no synchronised batch_norm, no
                             all_gather_batch and no operator of the program */
    /* Set by backward_begin where unbroken is: grad_ready does no more than enter work in streams,
     * which becomes a part of the recording. Replays do not call it. */
    bool in_streams;
} yki_backward;

/*
 * YK_ERROR_UNSUPPORTED for a backward that would add to gradients of a mixed loss under
 * YK_ACCUMULATION_MEAN: the means that are there shrink with each backward, the sums do not, and
 * gradients do not keep them apart.
 */
yk_status yki_backward_check(const yki_backward *backward);

/*
 * Called on the thread that runs the model; any may be NULL. What returns a status may fail, which
 * fails the model's call. grad_ready must not block.
 */
typedef struct yki_model_hooks {
    void *context; /* never NULL */
    int stream;    /* dropout draws from it, so that ranks draw differently; 0 to 65535 */
    /* Before a forward in training mode; samples is the size of this rank's batch. */
    yk_status (*forward_begin)(void *context, int64_t samples);
    /* Before backward: may change the weights. */
    yk_status (*backward_begin)(void *context, yki_backward *backward);
    /* The gradient of this parameter (index as in yk_model_parameter) is final in its memory at
     * this point of the device's stream; on a host device it is now. */
    void (*grad_ready)(void *context, size_t parameter);
    /* Whether grad_ready does more for this parameter than count: on a device that records, the
     * part of backward before it is then entered first. NULL: it never does. */
    bool (*grad_needs_host)(const void *context, size_t parameter);
    /* After the last kernel of backward has been entered: waits for what is in flight. */
    yk_status (*backward_end)(void *context);
    /* yk_model_zero_grad has been called: what has been computed of a step is given up. */
    void (*zero_grad)(void *context);
    /* Whether all ranks have the same number, below 2^63. Collective; only for a backward in
     * streams: NCCL asks that what one rank has recorded is recorded by all of them, and at the
     * same time. */
    yk_status (*is_same)(void *context, uint64_t number, bool *same);
    /* Makes kernel the same on all ranks: yki_choices.agree. */
    yk_status (*agree)(void *context, const char *problem, char *kernel);
    /* Before ranks do together what follows a backward: an error, in the name of who, if ranks
     * without data would not take part. NULL: all ranks always do. */
    yk_status (*check_shared_step)(const void *context, const char *who);
    /* Makes *value the largest of all ranks'. Collective. */
    yk_status (*reduce_maximum)(void *context, double *value);
    /* The same with a value in the device's memory, as it is at this point of the device's stream,
     * in which what comes next follows the result; *done is false where ranks exchange nothing in
     * streams. NULL: they never do. */
    yk_status (*reduce_maximum_in_stream)(void *context, double *value, bool *done);

    /* All four or none: they run the model in place of yk_model_forward, _backward, _loss, and
     * _output (index 0) and _output_at (index 1 and up), which data parallelism does with the model
     * and its replicas (replica.h). */
    yk_status (*run_forward)(void *context, const yk_batch *batch);
    yk_status (*run_backward)(void *context);
    double (*loss)(const void *context);
    yk_status (*output)(void *context, size_t index, yk_tensor *output);
    /* With them: (replica_count) the models that the parts of a batch go to after the first, which
     * is this model's. */
    yk_model *const *replicas;
    int replica_count;
} yki_model_hooks;

/* Whatever is made on top of a model holds a reference to it; the last release frees it. */
void yki_model_retain(yk_model *model);
void yki_model_release(yk_model *model);

/* YK_ERROR_INVALID_ARGUMENT, in the name of `who`, for a model without a loss. */
yk_status yki_model_check_trained(const yk_model *model, const char *who);
/* Likewise, and for one whose loss depends on no parameter that is trained. */
yk_status yki_model_check_trainable(const yk_model *model, const char *who);

/* Installs a copy of the hooks. A model that has some refuses, in the name of `who`, with
 * YK_ERROR_INVALID_ARGUMENT: it is distributed in one way only. */
yk_status yki_model_attach(yk_model *model, const yki_model_hooks *hooks, const char *who);
void yki_model_detach(yk_model *model);
/* What the hooks enter in streams is another from now on. */
void yki_model_hooks_changed(yk_model *model);
/* The hooks' check_shared_step. */
yk_status yki_model_check_shared_step(const yk_model *model, const char *who);
/* Whether it has hooks. */
bool yki_model_is_distributed(const yk_model *model);
/* Whether the hooks run the model. */
bool yki_model_is_replicated(const yk_model *model);
/* The models that have a part of each batch, of which the first is the model itself. */
int yki_model_sharers(const yk_model *model);
yk_model *yki_model_sharer(yk_model *model, int index);
/* How many samples each of so many gets, as by torch.chunk: the last part may be shorter, and there
 * may be fewer parts than that. */
int64_t yki_share_of(int64_t samples, int sharers);

/* In forward_begin: this forward is one of several that make up a step. It draws from the given
 * stream, and all but the first leave the count of forwards alone. */
void yki_model_begin_micro_step(yk_model *model, int stream, bool first);
/* A forward in training mode on a batch without samples: what a rank runs that has run out of data,
 * whatever mode its own last one has left the model in. */
yk_status yki_model_forward_empty(yk_model *model);
/*
 * A forward in training mode that belongs to no step: hooks hear nothing of it, there is no
 * backward for it, and neither the mode nor the count of forwards changes. It draws as the
 * number-th forward of the stream does. batch is NULL for one without samples.
 */
yk_status yki_model_forward_apart(yk_model *model, const yk_batch *batch, int64_t number,
                                  int stream);

/* All that a model has learned, as a state_dict has it: the parameters and, after them, the
 * buffers, which have no gradient. */
size_t yki_model_entry_count(const yk_model *model);
yk_parameter_view yki_model_entry(const yk_model *model, size_t index);
/* Whether files of weights hold the entry: a buffer that is not persistent is in none. */
bool yki_model_saves_entry(const yk_model *model, size_t index);

/* Where the model's tensors lie and in which it computes, in the device's own stream. */
yki_device *yki_model_device(const yk_model *model);
/* The bytes that a parameter takes, as does its gradient, where several lie one after the other. */
size_t yki_model_padded_bytes(const yk_model *model, size_t parameter);
/*
 * Moves each parameter's value to memory[parameter] in the model's device, of that many bytes and
 * aligned; NULL moves all back into the model's own memory. Views taken before are stale. Blocks
 * until the values have been copied: what they have left may be freed.
 */
yk_status yki_model_place_parameters(yk_model *model, void *const *memory);
/*
 * From now on, each parameter's gradient is at memory[parameter] in the model's device, of that
 * many bytes and aligned, or where that is NULL in the model's own. What it was is given up, as by
 * yk_model_zero_grad. The memory must outlive yki_model_return_gradients and whatever is in the
 * device's stream then.
 */
void yki_model_place_gradients(yk_model *model, void *const *memory);
/* Moves all gradients, as they are, back into the model's own memory. */
void yki_model_return_gradients(yk_model *model);

/* Parameter indices (yk_model_parameter_count of them) in the order in which backward finishes
 * their gradients. Known from the graph, before any batch. */
const size_t *yki_model_grad_order(const yk_model *model);
/*
 * By parameter: whether its gradient means anything, i.e. the loss depends on it, here or, once
 * distributed training has said so, on another rank. Optimizers leave the others alone.
 */
const bool *yki_model_used(const yk_model *model);
void yki_model_set_used(yk_model *model, size_t parameter);

/* Whether only some of the weights have been updated, by a step that is not completed. Then the
 * second fails with YK_ERROR_INVALID_ARGUMENT, for whoever would save them. */
void yki_model_set_torn(yk_model *model, bool torn);
yk_status yki_model_check_whole(const yk_model *model);

/* Channels of the widest batch_norm; 0: there is none. */
int64_t yki_model_norm_channels(const yk_model *model);
/* What share of a buffer's value is the last batch's after a forward in training mode, if batch
 * norms keep a running statistic in it; 0 if not, or if they leave it as it is. */
double yki_model_running_share(const yk_model *model, size_t buffer);
/* Whether such batch norms count their forwards in the buffer. */
bool yki_model_counts_batches(const yk_model *model, size_t buffer);
/* Whether a buffer is what the graph was given, as a mask is: no batch norm moves it. An average
 * would change its last bits, or make NaN of infinities. */
bool yki_model_is_constant(const yk_model *model, size_t buffer);
/*
 * From now on every batch_norm in training takes its statistics over the ranks that sync reaches,
 * and a batch may be empty. The model takes sync over and destroys it; NULL removes it.
 */
void yki_model_set_sync(yk_model *model, yki_sync *sync);
bool yki_model_is_synced(const yk_model *model);
/* The first batch_norm to which a sample gives one value a channel, so that one sample has no
 * variance to train with; NULL: there is none. */
const yki_node *yki_model_flat_norm(const yk_model *model);

/* What a model's all_gather_batch gather at most; 0 ranks: it has none. */
typedef struct yki_gathering {
    int ranks;
    size_t bytes; /* of the values of all ranks */
} yki_gathering;
yki_gathering yki_model_gathering(const yk_model *model);
/* From now on they exchange values by this. The model takes it over and destroys it; NULL removes
 * it. */
void yki_model_set_exchange(yk_model *model, yki_exchange *exchange);

#endif

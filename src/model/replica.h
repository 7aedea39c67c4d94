/*
 * Replicas of a model for data parallelism on one machine (parallel/data_parallel.c): the same
 * graph with parameters, gradients, kernels and memory of its own, so that another thread can run
 * it. The graph is only read once a model has been made.
 */
#ifndef YKI_REPLICA_H
#define YKI_REPLICA_H

#include "compile/rewrite.h"
#include "model/model_hooks.h"

enum { YKI_MODEL_THREADS_MAX = 1024 };

/* Gives a model that has not run yet this many threads. Refuses one that is distributed already,
 * and outputs whose first dimension is not the batch. */
yk_status yki_model_prepare_for_replicas(yk_model *model, int threads);
/* The name of the model's device, as it was opened. */
const char *yki_model_device_name(const yk_model *model);
/* Creates a model of the same graph, on the named device or, with NULL, on the model's, which must
 * outlive it. */
yk_status yki_model_replicate(yk_model **replica, const yk_model *model, const char *device);
/* Copies parameters, buffers, the mode and, on devices of one type, the choices of kernels to the
 * replica; on any thread while the model rests. */
yk_status yki_model_refresh_replica(yk_model *replica, const yk_model *model);
/* Before the replica's backward, which sets its gradients: only the model keeps and adds. */
void yki_model_begin_replica(yk_model *replica, const yk_model *model);
/* Adds the replicas' gradients to the model's, in their order: of each, slice `part` of `parts`. */
yk_status yki_model_add_gradients(yk_model *model, yk_model *const *replicas, int count, int part,
                                  int parts);

/* Of the last forward: the part of the loss that is of this kind; 0 where it has none. */
double yki_model_loss_terms(const yk_model *model, yki_loss_kind kind);
/* How the model's next backward would weigh a batch of so many samples. */
yki_backward yki_gradients_weigh(const yk_model *model, int64_t samples);
/* How many outputs it has: options.logits, which may be missing, then options.outputs. */
size_t yki_model_outputs(const yk_model *model);
bool yki_model_has_output(const yk_model *model, size_t index);

/* yk_model_forward, _backward and _loss of this model alone, and any of its outputs, for the hooks
 * that run it. */
yk_status yki_model_forward(yk_model *model, const yk_batch *batch);
yk_status yki_model_backward(yk_model *model);
double yki_model_loss(const yk_model *model);
yk_status yki_model_output(yk_model *model, size_t index, yk_tensor *output);

#endif

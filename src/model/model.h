/*
 * The model's inside, put together from its subjects. model.c makes a model, executor.c runs it,
 * parameters.c shows what it has learned.
 */
#ifndef YKI_MODEL_H
#define YKI_MODEL_H

#include "base/reference.h"
#include "model/accumulation.h"
#include "model/distribution.h"
#include "model/executor.h"
#include "model/loss_scale.h"
#include "model/model_info.h"
#include "model/replica.h"

struct yk_model {
    yki_reference reference;
    yk_graph *graph;
    bool is_replica; /* the graph is another model's */
    yk_model_options options;
    bool training;
    uint64_t step; /* forwards in training mode */
    bool torn;     /* only some of the weights have been updated */
    yki_variables variables;
    yki_accumulation accumulation;
    yki_executor executor;
    yki_loss_scale loss_scale;
    yki_distribution distribution;
    yk_model_info *info; /* what its files say about it, or NULL */
    void *room;          /* of the host, for copies between replicas' devices; see replica.c */
    size_t room_bytes;
};

/* Opens the device that the model's options name. */
yk_status yki_model_open_device(yk_model *model);

#endif

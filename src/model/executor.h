/* What runs a model: the rewritten graph, plans made of it, and the forward in progress. */
#ifndef YKI_EXECUTOR_H
#define YKI_EXECUTOR_H

#include "device/block.h"
#include "device/fan.h"
#include "model/inputs.h"
#include "model/plans.h"
#include "model/profile.h"
#include "model/readback.h"

struct yk_model;

/* A model's sync as kernels on a device that records see it: the exchange is the host's. */
typedef struct yki_recorded_sync {
    yki_sync base;
    struct yk_model *model;
} yki_recorded_sync;

typedef struct yki_executor {
    yki_plan_source source; /* what plans are made of, the device among it */
    yki_inputs inputs;
    yki_plans plans;
    bool eval_backward; /* backward has been called in evaluation mode: plans keep what it needs */
    yki_program *current; /* of a forward that backward may follow, or NULL */
    yki_program *last;    /* of the last forward, whose loss and logits can be read, or NULL */
    yki_program *running; /* whose steps are entered now, ... */
    yki_tape *tape;       /* ... by this tape */
    bool in_streams;      /* see yki_backward; of the backward that runs */
    uint64_t matched;     /* how often tapes were compared between ranks */
    yki_recorded_sync sync;
    yki_fan pair; /* for two steps beside each other */
    yki_profile profile;
    yki_scalars values; /* of this step, as the host knows them ... */
    yki_block scalars;  /* ... and as kernels read them */
    yki_readback *readback;
} yki_executor;

/* Once source.device is there: what the device needs besides plans. */
yk_status yki_executor_create(yki_executor *executor);
/* Once the device has done all that was entered. */
void yki_executor_destroy(yki_executor *executor);

/* Before preparing or running kernels on this thread. */
void yki_executor_enter(const yki_executor *executor);
/* The last forward can be neither read nor followed by backward from now on. */
void yki_executor_forget(yki_executor *executor);

#endif

/* A model's place in distributed training: what has been attached to it (model_hooks.h). */
#ifndef YKI_DISTRIBUTION_H
#define YKI_DISTRIBUTION_H

#include "model/model_hooks.h"

typedef struct yki_distribution {
    yki_model_hooks hooks;
    uint64_t stream;        /* of random draws */
    uint64_t changes;       /* of hooks, sync and exchange */
    yki_sync *sync;         /* of batch_norm in training; NULL: not synchronised */
    yki_exchange *exchange; /* of all_gather_batch; NULL: with nobody */
} yki_distribution;

#endif

/*
 * The parts of a loader, for the files that make it: loader.c (creation, and the consumer, who
 * takes batches), plan.c (fields and memory) and threads.c (the threads).
 *
 * Worker threads fill a ring of batches, in order of claim; the consumer takes them in order of
 * number. Numbering continues from one epoch to the next, so that the workers prepare the next
 * epoch while the consumer evaluates after this one.
 *
 * Invariants, all under one mutex: taken <= claimed <= taken + slots. Batch b lives in slot
 * b % slots; a worker writes to it from its claim until `ready`, the consumer reads it from then
 * until `taken` passes it. Workers sleep while the ring is full and end as soon as `stopping` is
 * set. Nothing is allocated after creation.
 *
 * Where devices make the batches of pictures, the ring is pinned memory, and what the workers write
 * of pictures is the host's part (crossing.h). The consumer sends it when it takes the batch, and
 * before it passes on, it waits until the slot has been read.
 */
#ifndef YKI_LOADER_STATE_H
#define YKI_LOADER_STATE_H

#include <pthread.h>
#include <sys/types.h>

#include "data/loader.h"
#include "data/loader/crossing.h"
#include "data/transforms/mixing.h"
#include "data/transforms/pipeline.h"

typedef struct yki_loader_slot {
    bool ready;
    int64_t epoch;
    int64_t first, step; /* the place of the first sample in the epoch's order, and how far apart
                            those of the others are */
    yk_tensor *tensors;  /* (fields) of batch_size rows, in the loader's memory or the device's */
    void **rows;         /* (fields) what workers write, in the loader's memory */
    int64_t *indices;    /* (batch_size) */
    int32_t *labels;     /* (batch_size) where the batch has probabilities */
    int64_t skipped;     /* damaged samples that others have replaced */
    yk_batch batch;
    yk_status status;
    char error[YKI_ERROR_LINE];
} yki_loader_slot;

/* A thread with what it needs for itself. */
typedef struct yki_loader_worker {
    yk_loader *loader;
    pthread_t thread;
    yki_worker reading;
    yki_pipeline_memory memory;
    yki_room unmixed; /* a picture or other sample that is mixed */
} yki_loader_worker;

/* One field of the data set in a batch. */
typedef struct yki_loader_column {
    bool is_picture;
    bool is_mixed;         /* by MixUp and CutMix */
    yki_pipeline pipeline; /* of a picture */
    yk_tensor row;         /* one sample, without data */
    size_t row_bytes;
    yki_crossing crossing; /* of pictures whose batch is made by devices */
} yki_loader_column;

struct yk_loader {
    yki_reference reference;
    const yk_dataset *dataset;
    yk_loader_options options;
    yk_sampler_options sampler; /* of this rank's first virtual rank */
    int virtual_ranks;          /* that take turns here, batch by batch; 1 without virtual ranks */
    int64_t *starts;            /* (virtual_ranks + 1): where the indices of each begin */
    yk_transforms *transforms;
    yki_mixing mixing;
    int mixed_labels;           /* the field that becomes probabilities, or -1 */
    yki_loader_column *columns; /* (fields) */
    int fields;
    int64_t count, batches; /* samples and batches of an epoch on this rank */

    yki_loader_slot *slots;
    int slot_count;
    void *memory;         /* of all slots' rows and indices */
    yk_tensor *tensors;   /* of all slots */
    void **rows;          /* likewise */
    yki_device **devices; /* (device_count) that make batches of pictures */
    yk_model **sharers;   /* (device_count) which keep them open */
    int device_count;     /* 0: the workers make them */
    size_t memory_bytes;
    double *weights;  /* (size) the sampler's, cumulated; NULL without weights */
    int64_t *drawn;   /* (size) the order of the epoch that is being claimed */
    int64_t *indices; /* (count) of the epoch that is being claimed */
    int64_t indices_epoch;
    uint8_t *reported; /* (size) with skip_damaged: samples that were found damaged */

    pthread_mutex_t mutex;
    pthread_cond_t space, ready; /* workers wait for space, the consumer for ready */
    yki_loader_worker *workers;  /* (options.workers) */
    int started, busy;           /* workers running; workers between claim and ready */
    bool stopping, paused;
    pid_t process;          /* whose threads they are; a forked child has none */
    int64_t claimed, taken; /* batches since the last seek */
    int64_t claim_epoch, claim_batch;

    int64_t epoch, batch; /* the consumer's position: its next batch */
    bool holding, ended;  /* the consumer has a batch; its last answer was NULL */
    yk_status status;
    int64_t skipped; /* of the consumer's epoch */
    double wait_s;
};

/* Whether the options make sense. */
yk_status yki_loader_check_options(const yk_loader_options *options);
/* Describes the batches and allocates all memory, once the options and transforms are known. */
yk_status yki_loader_plan(yk_loader *loader);
/* Starts options.workers threads; `started` says how many run, on failure, too. */
yk_status yki_loader_start_workers(yk_loader *loader);

#endif

/*
 * The losses of a step's batches, which the host reads at once, or late: when it has entered the
 * next step's passes, so that an asynchronous device always has work.
 *
 *     yki_losses_begin(&losses);             before a step
 *     yki_losses_add(&losses, samples);      after each of its forwards and backwards
 *     yki_losses_take(&losses, ...);         after the last of them
 *     yki_losses_read(&losses);              now, or before the next step's are taken
 */
#ifndef YKI_LOSSES_H
#define YKI_LOSSES_H

#include <yoke/model.h>

#include "device/block.h"
#include "device/late.h"
#include "device/sweep.h"

/* Of a batch. */
typedef struct yki_batch_loss {
    double loss, samples;
} yki_batch_loss;

typedef struct yki_losses {
    yk_model *model;
    yki_device *device;            /* NULL where losses are never late */
    bool late;                     /* of the steps from now on; false until the trainer sets it */
    bool unread;                   /* those that were taken last are late, and have not been read */
    int64_t most;                  /* batches of a step */
    yki_batch_loss *added, *taken; /* (most) of the running step, and of the one taken last */
    int64_t added_count, taken_count;
    /* The device's: whether one of the losses is not finite, as a double, then (most) losses. */
    char *memory;
    size_t bytes;
    yk_dtype dtype;
    yki_late arrived; /* the same on the host */
    yki_sweep *search;
    yki_block factor; /* that the search multiplies losses with: 1 */
} yki_losses;

yk_status yki_losses_create(yki_losses *losses, yk_model *model, int64_t most);
/* Waits for the device. Accepts those that were never created. */
void yki_losses_destroy(yki_losses *losses);

/* Before the first step: the device forgets the losses of an earlier training. */
yk_status yki_losses_clear(yki_losses *losses);
void yki_losses_begin(yki_losses *losses);
/* The loss of the model's last forward, over so many samples. */
yk_status yki_losses_add(yki_losses *losses, int64_t samples);
/* Ends the step's list. Those taken before are gone. */
yk_status yki_losses_take(yki_losses *losses);
/*
 * In place of the last, where losses are late: *skip becomes the place in the device's memory which
 * says, from this point of its stream on, whether a loss of any of the ranks is not finite: see
 * yki_optimizer_step_unless. It is NULL where the ranks cannot agree on it there.
 */
yk_status yki_losses_take_guarded(yki_losses *losses, int ranks, const double **skip);
/* Fills losses->taken; waits for those that are late. */
yk_status yki_losses_read(yki_losses *losses);
/* Whether the device has found a loss that is not finite, once they have been read. */
bool yki_losses_are_bad(const yki_losses *losses);

#endif

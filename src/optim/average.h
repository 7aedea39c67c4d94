/*
 * An average of an optimizer's weights beside them, which yk_ema (ema.c) and yk_lookahead
 * (lookahead.c) are made of.
 */
#ifndef YKI_AVERAGE_H
#define YKI_AVERAGE_H

#include <stdbool.h>

#include <yoke/optim.h>

#include "base/error.h"

/* An average that the optimizer does not know of; yk_ema_destroy gives it up. */
yk_status yki_average_create(yk_ema **average, yk_optimizer *optimizer,
                             const yk_ema_options *options);
/* Copies the weights into the average, or fills it with zeros, which a new average has. */
yk_status yki_average_copy(yk_ema *average);
yk_status yki_average_clear(yk_ema *average);

/*
 * What follows an update that the device may have left out is left out with it: `skip` is NULL, or
 * a number in the device's memory that is not 0 then (yki_optimizer_step_unless). The caller tells
 * the average whether it was, before anything else is done with it.
 */

/* The average moves towards the weights by this share of the distance. */
yk_status yki_average_approach(yk_ema *average, double share, const double *skip);
/* The weights become the average. */
yk_status yki_average_restore(yk_ema *average, const double *skip);
yk_status yki_average_end(yk_ema *average, bool taken);

yk_status yki_ema_update_unless(yk_ema *ema, const double *skip);
yk_status yki_ema_end_update(yk_ema *ema, bool taken);

/* yk_lookahead_update after the step of this number, from 1, where the optimizer has counted fewer:
 * a grad scaler skips some. */
yk_status yki_lookahead_update_at(yk_lookahead *lookahead, int64_t step, const double *skip);
yk_status yki_lookahead_end_update(yk_lookahead *lookahead, bool taken);
/* The optimizer's steps have been set to this number: the next update is for another. */
void yki_lookahead_restart(yk_lookahead *lookahead, int64_t steps);

/* The slow weights of the optimizer's Lookahead, or NULL. */
yk_ema *yki_optimizer_slow_weights(const yk_optimizer *optimizer);

/* Local SGD's outer momentum (parallel/local_sgd.c) has the form of an average, so that it is saved
 * like one. The optimizer does not own it; NULL: there is none. */
void yki_optimizer_set_outer_momentum(yk_optimizer *optimizer, yk_ema *momentum);
yk_ema *yki_optimizer_outer_momentum(const yk_optimizer *optimizer);

#endif

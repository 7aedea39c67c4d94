/*
 * One epoch of a loader on all ranks, outside training. One rank may have a batch more than
 * another, so the ranks first agree on the number of rounds and then meet in each, in order to stop
 * together.
 */
#ifndef YKI_ROUNDS_H
#define YKI_ROUNDS_H

#include <yoke/data.h>
#include <yoke/group.h>

#include "base/error.h"

typedef struct yki_rounds {
    yk_loader *loader;
    yk_group *group; /* or NULL */
    /* Asked after each round, on every rank; may be NULL. */
    bool (*should_stop)(void *context);
    /* Called after each of this rank's batches; may be NULL. */
    void (*on_batch)(void *context, int64_t done, int64_t batches);
    void *context; /* of these two */
} yki_rounds;

/* What is done in a round; batch is NULL once this rank has none left. */
typedef yk_status yki_round_fn(void *run, int64_t round, const yk_batch *batch);

/* Collective. An epoch from its beginning: the running one if the loader is within it, otherwise
 * the next. *stopped, the same on all ranks, says that should_stop has ended it early. */
yk_status yki_rounds_run(const yki_rounds *rounds, yki_round_fn *round, void *run, bool *stopped);

#endif

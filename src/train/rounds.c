/* See rounds.h. */
#include "train/rounds.h"

#include "data/loader.h"
#include "train/sums.h"

static yk_status next_batch(yk_loader *loader, const yk_batch **batch)
{
    *batch = yk_loader_next(loader);
    if (*batch)
        return YK_OK;
    YK_TRY(yk_loader_status(loader));
    return yki_error(YK_ERROR_INTERNAL, "the loader ended early");
}

/* One batch, where this rank has one left, and whether any rank wants to stop. */
static yk_status run_round(const yki_rounds *r, yki_round_fn *run_batch, void *run, int64_t round,
                           bool *stopped)
{
    int64_t batches = yk_loader_batches(r->loader);
    const yk_batch *batch = NULL;
    int32_t stopping = 0;
    if (round < batches)
        YK_TRY(next_batch(r->loader, &batch));
    YK_TRY(run_batch(run, round, batch));
    if (batch && r->on_batch)
        r->on_batch(r->context, round + 1, batches);
    if (r->should_stop) {
        stopping = r->should_stop(r->context);
        YK_TRY(yki_max_over_ranks_i32(r->group, &stopping));
    }
    *stopped = stopping != 0;
    return YK_OK;
}

yk_status yki_rounds_run(const yki_rounds *rounds, yki_round_fn *round, void *run, bool *stopped)
{
    yk_loader *loader = rounds->loader;
    int64_t count = yk_loader_batches(loader);
    *stopped = false;
    YK_TRY(yki_max_over_ranks_i64(rounds->group, &count));
    YK_TRY(yki_loader_go_to(loader, yki_loader_next_epoch(loader), 0));
    for (int64_t i = 0; i < count && !*stopped; i++)
        YK_TRY(run_round(rounds, round, run, i, stopped));
    if (!*stopped)
        yk_loader_next(loader); /* NULL: takes the end of the epoch, for the next one */
    return YK_OK;
}

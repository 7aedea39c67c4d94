/* The rank that the others wait for, from how long each of them has waited. */
#include <stdlib.h>

#include <yoke/train.h>

#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "comm/group_internal.h"
#include "train/sums.h"
#include "train/trainer.h"

/* The share of the time from which on it is worth naming a rank. */
#define NOTICEABLE 0.05

/* Steps, or seconds, from one look to the next, and seconds of waiting between them that are worth
 * a line. */
enum { LOOK_EVERY = 50 };
static const double look_every_s = 5, least_waited_s = 1;

/* times: (ranks) pairs of seconds, waited and in all. */
static yk_slow_rank find(const double (*times)[2], int ranks)
{
    int slowest = 0;
    double sum = 0, all = 0;
    for (int rank = 0; rank < ranks; rank++) {
        sum += times[rank][0];
        all += times[rank][1];
        if (times[rank][0] < times[slowest][0])
            slowest = rank;
    }
    double least = times[slowest][0], longer = (sum - least) / (ranks - 1) - least;
    return longer > NOTICEABLE * all / ranks ? (yk_slow_rank){slowest, longer}
                                             : (yk_slow_rank){-1, 0};
}

yk_status yk_find_slow_rank(yk_slow_rank *slow, yk_group *group, double waiting_s, double all_s)
{
    YKI_NOT_NULL(slow);
    *slow = (yk_slow_rank){-1, 0};
    int ranks = yki_ranks_of(group);
    if (ranks == 1)
        return YK_OK;
    double own[2] = {waiting_s, all_s}, (*times)[2] = yki_calloc((size_t)ranks, sizeof *times);
    if (!times)
        return yki_error_memory((size_t)ranks * sizeof *times, "the ranks' waiting times");
    yk_status status = yk_all_gather(group, times, own, 2, YK_F64, NULL);
    if (status == YK_OK)
        *slow = find((const double(*)[2])times, ranks);
    free(times);
    return status;
}

bool yki_trainer_looks_for_slow_rank(const yk_trainer *t)
{
    return t->options.ddp && (t->slow.steps >= LOOK_EVERY || t->slow.all_s >= look_every_s);
}

static void warn_of(const yk_trainer *t, const yk_slow_rank *slow)
{
    char name[128];
    int64_t steps = t->slow.steps;
    yki_group_rank_name(t->options.group, slow->rank, name, sizeof name);
    YKI_WARN("%s is slower: the other ranks waited %.1f s for it in the last %lld %s, and before "
             "that",
             name, slow->waited_s, (long long)steps, yki_plural(steps, "step", "steps"));
}

/* A rank is named when it was slower at two looks, one after the other, and once until another is.
 * All ranks decide alike, since what they know of the slow rank is the same. */
yk_status yki_trainer_name_slow_rank(yk_trainer *t)
{
    yki_slow_watch *watch = &t->slow;
    yk_slow_rank slow;
    YK_TRY(yk_find_slow_rank(&slow, t->options.group, watch->waiting_s, watch->all_s));
    int found = slow.waited_s >= least_waited_s ? slow.rank : -1;
    if (found >= 0 && found == watch->last && found != watch->named) {
        watch->named = found;
        if (t->rank == 0)
            warn_of(t, &slow);
    }
    *watch = (yki_slow_watch){.last = found, .named = watch->named};
    return YK_OK;
}

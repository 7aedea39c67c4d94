/*
 * Finds the parameters that are used. A graph does not change, so each rank knows before the first
 * step which gradients it will compute and in which order, and the ranks exchange this once.
 * PyTorch finds out in each backward, and all-reduces its map of used parameters after the last
 * bucket.
 *
 * Ranks may build different graphs over the same parameters, for example with different layers left
 * out. Buckets then follow rank 0's order. A rank whose backward has another order computes the
 * same result with less overlap.
 */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "comm/group_internal.h"
#include "parallel/ddp.h"

/* used: (ranks, count), whether the rank uses the parameter. */
static yk_status refuse_unused(const yk_ddp *ddp, size_t parameter, const unsigned char *used)
{
    size_t count = yk_model_parameter_count(ddp->model);
    int ranks = yk_group_size(ddp->group), without = 0, first = -1;
    for (int rank = 0; rank < ranks; rank++)
        if (!used[(size_t)rank * count + parameter]) {
            without++;
            first = first < 0 ? rank : first;
        }
    char clause[48];
    if (without == ranks)
        snprintf(clause, sizeof clause, "no rank depends");
    else
        snprintf(clause, sizeof clause, "rank %d%s does not depend",
                 yki_group_job_rank(ddp->group, first), without > 1 ? " and others" : "");
    return yki_error(YK_ERROR_INVALID_ARGUMENT,
                     "the loss of %s on %s, which would never get a gradient: leave it out, or set "
                     "find_unused_parameters",
                     clause, yk_model_parameter(ddp->model, parameter).name);
}

static yk_status mark_used(yk_ddp *ddp, const unsigned char *used)
{
    size_t count = yk_model_parameter_count(ddp->model);
    int ranks = yk_group_size(ddp->group);
    for (size_t i = 0; i < count; i++) {
        int users = 0;
        for (int rank = 0; rank < ranks; rank++)
            users += used[(size_t)rank * count + i];
        bool expected = yk_model_parameter(ddp->model, i).trainable;
        if (users < ranks && expected && !ddp->options.find_unused_parameters)
            return refuse_unused(ddp, i, used);
        if (users > 0)
            yki_model_set_used(ddp->model, i);
    }
    return YK_OK;
}

/* Rank 0's order, without the parameters that no rank uses. */
static yk_status agree_on_order(yk_ddp *ddp, int64_t *order)
{
    size_t count = yk_model_parameter_count(ddp->model);
    const bool *used = yki_model_used(ddp->model);
    const size_t *mine = yki_model_grad_order(ddp->model);
    for (size_t i = 0; i < count; i++)
        order[i] = (int64_t)mine[i];
    YK_TRY(yk_broadcast(ddp->group, order, count, YK_I64, 0, NULL));
    for (size_t i = 0; i < count; i++)
        if (used[order[i]])
            ddp->order[ddp->used++] = (size_t)order[i];
    return YK_OK;
}

yk_status yki_ddp_find_used(yk_ddp *ddp)
{
    size_t count = yk_model_parameter_count(ddp->model), ranks = (size_t)yk_group_size(ddp->group);
    unsigned char *used = yki_calloc((ranks + 1) * count, sizeof *used), *mine = used;
    int64_t *order = yki_calloc(count, sizeof *order);
    ddp->order = yki_calloc(count, sizeof *ddp->order);
    yk_status status;
    if (!used || !order || !ddp->order) {
        status = yki_error_memory(count * (ranks + sizeof *order), "the order of gradients");
        goto out;
    }
    mine += ranks * count;
    for (size_t i = 0; i < count; i++)
        mine[i] = yki_model_used(ddp->model)[i];
    status = yk_all_gather(ddp->group, used, mine, count, YK_U8, NULL);
    if (status != YK_OK || (status = mark_used(ddp, used)) != YK_OK)
        goto out;
    status = agree_on_order(ddp, order);
out:
    free(used);
    free(order);
    return status;
}

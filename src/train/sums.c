/* See sums.h. */
#include "train/sums.h"

#include <stdlib.h>
#include <string.h>

#include <yoke/train.h>

#include "base/error.h"
#include "base/memory.h"
#include "comm/group_internal.h"

int yki_ranks_of(const yk_group *group)
{
    return group ? yk_group_size(group) : 1;
}

yk_status yki_max_over_ranks_i32(yk_group *group, int32_t *value)
{
    return group ? yk_all_reduce(group, value, 1, YK_I32, YK_REDUCE_MAX, NULL) : YK_OK;
}

yk_status yki_max_over_ranks_i64(yk_group *group, int64_t *value)
{
    return group ? yk_all_reduce(group, value, 1, YK_I64, YK_REDUCE_MAX, NULL) : YK_OK;
}

/* Every rank's rows, in rank order. */
static yk_status gather_rows(yk_group *group, double *all, const double *rows, size_t count)
{
    if (group)
        return yk_all_gather(group, all, rows, count, YK_F64, NULL);
    memcpy(all, rows, count * sizeof *all);
    return YK_OK;
}

yk_status yki_sum_over_ranks(yk_group *group, double *sums, int virtual_ranks, int count,
                             double *all)
{
    if (virtual_ranks == 1 && !group)
        return YK_OK;
    if (virtual_ranks == 1 && yki_group_adds_in_rank_order(group))
        return yk_all_reduce(group, sums, (size_t)count, YK_F64, YK_REDUCE_SUM, NULL);
    YK_TRY(gather_rows(group, all, sums, (size_t)(virtual_ranks * count)));
    int rows = virtual_ranks * yki_ranks_of(group);
    for (int i = 0; i < count; i++) {
        sums[i] = all[i];
        for (int row = 1; row < rows; row++)
            sums[i] += all[row * count + i];
    }
    return YK_OK;
}

yk_status yk_mean_over_ranks(double *mean, yk_group *group, double value, double weight)
{
    double sums[2] = {weight != 0 ? value * weight : 0, weight};
    YKI_NOT_NULL(mean);
    *mean = 0;
    size_t count = 2 * (size_t)yki_ranks_of(group);
    double *all = yki_calloc(count, sizeof *all);
    if (!all)
        return yki_error_memory(count * sizeof *all, "a mean over ranks");
    yk_status status = yki_sum_over_ranks(group, sums, 1, 2, all);
    free(all);
    if (status == YK_OK)
        *mean = sums[1] > 0 ? sums[0] / sums[1] : 0;
    return status;
}

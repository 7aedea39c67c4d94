/* Sums over ranks, and over the virtual ranks that take turns on each of them. */
#ifndef YKI_SUMS_H
#define YKI_SUMS_H

#include <yoke/group.h>

/*
 * sums: (virtual_ranks, count), one row for each of this rank's virtual ranks (one row without
 * them). Adds up the rows of all ranks into the first, in the order of virtual ranks, so that the
 * bits do not depend on how many ranks they are spread over. all has room for (ranks,
 * virtual_ranks, count). Collective; group may be NULL.
 */
yk_status yki_sum_over_ranks(yk_group *group, double *sums, int virtual_ranks, int count,
                             double *all);

/* The number of ranks in group, 1 for NULL. */
int yki_ranks_of(const yk_group *group);

/* The largest value over the ranks, in place. Collective; group may be NULL. */
yk_status yki_max_over_ranks_i32(yk_group *group, int32_t *value);
yk_status yki_max_over_ranks_i64(yk_group *group, int64_t *value);

#endif

/*
 * An optimizer's step in parts. Distributed training updates the parameters of a bucket as soon as
 * it has been reduced, while other buckets are still being reduced:
 *
 *     yki_optimizer_partition(optimizer, part_of, parts);   once
 *     yki_optimizer_update_part(optimizer, part);           for some parts, in any order
 *     yk_optimizer_step(optimizer);                         updates the others, ends the step
 *
 * A step in parts gives the same bits as a whole one. From its first part until it is completed,
 * neither the optimizer nor the weights can be saved.
 */
#ifndef YKI_STEP_H
#define YKI_STEP_H

#include <yoke/optim.h>

/* Partitions the parameters: part_of[i] is the part of parameter i, below `parts`, or SIZE_MAX if
 * only yk_optimizer_step is to update it. For host devices. */
yk_status yki_optimizer_partition(yk_optimizer *optimizer, const size_t *part_of, size_t parts);
/* Begins the step if this is its first part, and updates the part's parameters. */
yk_status yki_optimizer_update_part(yk_optimizer *optimizer, size_t part);
/* Call when the gradients of the other parts will not come: if a step has begun, the optimizer
 * refuses further steps until a checkpoint is loaded. */
void yki_optimizer_break_step(yk_optimizer *optimizer);

#endif

/**
 * @file
 * ZeRO stage 1 (Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter
 * Models", 2020), as torch.distributed.optim.ZeroRedundancyOptimizer: the optimizer's state is
 * divided among the ranks. Each rank updates the parameters whose state it keeps and gives them to
 * the others.
 */
#ifndef YOKE_ZERO_H
#define YOKE_ZERO_H

#include <yoke/ddp.h>
#include <yoke/optim.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/** An optimizer whose state is divided among the ranks. */
typedef struct yk_zero yk_zero;

/**
 * Shards an optimizer that has not stepped yet. Collective. Parameters are dealt out by falling
 * size, each to the rank that has the least so far, as in PyTorch (here in whole cache lines). From
 * now on yk_optimizer_step is collective and gives the same bits as without ZeRO. Parameters move
 * into memory shared with the peers, so views taken earlier are stale. If a step fails while the
 * ranks exchange what they have updated, some weights are old and others new: saving them and
 * making further steps are errors until a checkpoint is loaded.
 *
 * The models must agree in names, shapes and dtypes, and the optimizers in how many tensors of
 * state they keep for a parameter. If a rank is refused, all are, as in yk_ddp_create; where a
 * rank lacked memory, the optimizers of the others may refuse further steps.
 *
 * The yk_zero keeps optimizer, model and group alive. On failure *zero is NULL.
 */
yk_status yk_zero_create(yk_zero **zero, yk_optimizer *optimizer, yk_model *model, yk_group *group);
/**
 * Ends the sharding after the last step: parameters move back to the model's own memory, but no
 * rank has all of the optimizer's state. Accepts NULL.
 */
void yk_zero_destroy(yk_zero *zero);

/**
 * Brings all state to rank 0, where it is the optimizer's until the next step. Collective; call it
 * before rank 0 saves a checkpoint, which then is that of an unsharded optimizer. Loading needs no
 * such call and accepts a checkpoint of either kind.
 */
yk_status yk_zero_consolidate(yk_zero *zero);

/** The rank that keeps this parameter's state; -1 for a parameter that does not exist, and for
 *  NULL. */
int yk_zero_owner(const yk_zero *zero, size_t parameter);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif

/*
 * ZeRO stage 1 (Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter
 * Models", 2020), torch.distributed.optim's ZeroRedundancyOptimizer: the optimizer's state is dealt
 * out over the ranks. Each updates the parameters it keeps state for and gives them to the others.
 */
#ifndef YOKE_ZERO_H
#define YOKE_ZERO_H

#include <yoke/ddp.h>
#include <yoke/optim.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef struct yk_zero yk_zero;

/*
 * Collective. Shards an optimizer that has not stepped yet: by falling size each parameter goes to
 * the rank that has the least, as PyTorch deals them out (here by whole cache lines). From here on
 * yk_optimizer_step is collective and gives the same bits as without; parameters move into memory
 * shared with the peers, so views taken earlier are stale (create a yk_ema afterwards, and destroy
 * it before). Destroy it after the last step, before the optimizer, the model and the group: the
 * parameters are the model's own again, but no rank has all of the optimizer's state.
 */
yk_status yk_zero_create(yk_zero **zero, yk_optimizer *optimizer, yk_model *model, yk_group *group);
void yk_zero_destroy(yk_zero *zero);

/*
 * Collective: brings all state to rank 0, where it is the optimizer's until the next step. To be
 * called before rank 0 saves a checkpoint, which is then that of an optimizer that is not sharded;
 * loading needs no such call, and takes a checkpoint of either.
 */
yk_status yk_zero_consolidate(yk_zero *zero);

/* The rank that keeps this parameter's state. */
int yk_zero_owner(const yk_zero *zero, size_t parameter);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif

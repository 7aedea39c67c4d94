/*
 * What distributed training does around an optimizer's steps. ZeRO (parallel/zero.c) and local SGD
 * (parallel/local_sgd.c) attach themselves, one at a time.
 */
#ifndef YKI_STEP_HOOKS_H
#define YKI_STEP_HOOKS_H

#include <yoke/optim.h>

typedef struct yki_step_hooks {
    const char *owner; /* for errors, e.g. "ZeRO" */
    /* Before a step changes anything; may be NULL. */
    yk_status (*before)(void *context);
    /* When the updates have been entered, and before the step is complete. */
    yk_status (*after)(void *context);
    /* The number of steps has been set, as by loading a checkpoint; may be NULL. */
    void (*restart)(void *context);
    /* An error where weights and state are not those of all ranks, and cannot be saved; may be
     * NULL. */
    yk_status (*check_whole)(const void *context);
    void *context;
} yki_step_hooks;

/* An error that begins with `who` where the optimizer has hooks. */
yk_status yki_optimizer_check_free(const yk_optimizer *optimizer, const char *who);
void yki_optimizer_attach(yk_optimizer *optimizer, const yki_step_hooks *hooks);
/* Removes the hooks of this context. */
void yki_optimizer_detach(yk_optimizer *optimizer, const void *context);

#endif

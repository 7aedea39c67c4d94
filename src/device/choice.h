/*
 * Which kernel runs an operator where several can. By default it is the first one in the device's
 * table whose own rule expects it to be the fastest (yki_kernel_impl.gains). A host device can
 * measure the kernels instead. Since they differ in rounding, a choice, once made, must last:
 *
 * - the device keeps its choices in a list, which a checkpoint saves and restores;
 * - files keep them for the next run (plan_cache.h), for any number of threads;
 * - ranks agree on them as they make them.
 *
 * Choices are made while a plan is, never in a step.
 */
#ifndef YKI_CHOICE_H
#define YKI_CHOICE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

#pragma GCC visibility push(default) /* shared with modules, see device/module.h */

enum {
    YKI_PROBLEM_TEXT = 384,
    YKI_KERNEL_NAME = 24,
    YKI_MOST_CHOICES = 4096 /* of a device: far more than networks have convolutions */
};

/* The description of an operator on given operands, and the name of the kernel that runs it. */
typedef struct yki_choice {
    char problem[YKI_PROBLEM_TEXT];
    char kernel[YKI_KERNEL_NAME];
} yki_choice;

/* The choices of a device. If all members are zero, there are none, and none are made. */
typedef struct yki_choices {
    yki_choice *list;
    size_t count;
    bool measures;                   /* problems that are not in the list are measured */
    char hardware[96], library[128]; /* what choices are kept for */
    void *context;
    /* Makes kernel (YKI_KERNEL_NAME bytes) the same on all ranks that come to this problem; not
     * collective. NULL: there are no others. */
    yk_status (*agree)(void *context, const char *problem, char *kernel);
} yki_choices;

/* NULL if it is not in the list. */
yki_choice *yki_choices_find(const yki_choices *choices, const char *problem);
/* Adds the choice, or replaces the one for its problem. Texts that are too long are refused; a list
 * that is full does not grow. */
yk_status yki_choices_set(yki_choices *choices, const char *problem, const char *kernel);
/* Lets the ranks agree on what is in the list. */
yk_status yki_choices_agree(yki_choices *choices, bool *changed);
void yki_choices_fini(yki_choices *choices);

struct yk_device;
struct yki_kernel_desc;
struct yki_kernel_impl;

/* Replaces *impl, the kernel that the rules prefer, by the one that is chosen. */
yk_status yki_choose_kernel(struct yk_device *device, const struct yki_kernel_desc *desc,
                            const struct yki_kernel_impl **impl);

/* ---- autotune.c ------------------------------------------------------------------------------ */

/*
 * Measures kernels, with the device's threads. Returns the index of the one that runs desc in the
 * least time, and writes to `seconds` (count) how long each takes; 0: it cannot run. The first,
 * which the rules prefer, is only beaten by a clear margin. It is also returned, with 0 seconds,
 * where nothing can be measured, for example because memory is short.
 */
size_t yki_autotune(struct yk_device *device, const struct yki_kernel_desc *desc,
                    const struct yki_kernel_impl *const *impls, size_t count, double *seconds);

#pragma GCC visibility pop

#endif

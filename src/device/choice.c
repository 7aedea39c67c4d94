/* See choice.h. */
#include "device/choice.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "device/device.h"
#include "device/plan_cache.h"

enum { CANDIDATES = 8 };

/* The named kernels of the device that can run an operator; the first is that of the rules. */
typedef struct candidates {
    const yki_kernel_impl *impls[CANDIDATES];
    size_t count;
} candidates;

/* ---- the list -------------------------------------------------------------------------------- */

yki_choice *yki_choices_find(const yki_choices *choices, const char *problem)
{
    for (size_t i = 0; i < choices->count; i++)
        if (strcmp(choices->list[i].problem, problem) == 0)
            return &choices->list[i];
    return NULL;
}

yk_status yki_choices_set(yki_choices *choices, const char *problem, const char *kernel)
{
    if (strlen(problem) >= YKI_PROBLEM_TEXT || strlen(kernel) >= YKI_KERNEL_NAME)
        return yki_error(YK_ERROR_FORMAT, "a convolution's kernel: \"%.*s\" is too long",
                         YKI_PROBLEM_TEXT, strlen(kernel) >= YKI_KERNEL_NAME ? kernel : problem);
    yki_choice *choice = yki_choices_find(choices, problem);
    if (!choice && choices->count == YKI_MOST_CHOICES)
        return YK_OK;
    if (!choice) {
        size_t bytes = (choices->count + 1) * sizeof *choices->list;
        yki_choice *larger = realloc(choices->list, bytes);
        if (!larger)
            return yki_error_memory(bytes, "the kernels that were chosen");
        choices->list = larger;
        choice = &larger[choices->count++];
        snprintf(choice->problem, sizeof choice->problem, "%s", problem);
    }
    snprintf(choice->kernel, sizeof choice->kernel, "%s", kernel);
    return YK_OK;
}

yk_status yki_choices_agree(yki_choices *choices, bool *changed)
{
    *changed = false;
    for (size_t i = 0; choices->agree && i < choices->count; i++) {
        yki_choice *choice = &choices->list[i];
        char kernel[YKI_KERNEL_NAME];
        memcpy(kernel, choice->kernel, sizeof kernel);
        YK_TRY(choices->agree(choices->context, choice->problem, kernel));
        *changed |= strcmp(kernel, choice->kernel) != 0;
        memcpy(choice->kernel, kernel, sizeof kernel);
    }
    return YK_OK;
}

void yki_choices_fini(yki_choices *choices)
{
    free(choices->list);
    *choices = (yki_choices){0};
}

/* ---- what there is to choose from ------------------------------------------------------------ */

static void find_candidates(const yki_device *device, const yki_kernel_desc *desc,
                            const yki_kernel_impl *preferred, candidates *found)
{
    found->impls[0] = preferred;
    found->count = 1;
    for (const yki_kernel_impl *const *impl = device->type->kernels; *impl; impl++)
        if (*impl != preferred && (*impl)->op == desc->op && (*impl)->name &&
            found->count < CANDIDATES && (*impl)->supports(device, desc))
            found->impls[found->count++] = *impl;
}

static const yki_kernel_impl *find_named(const candidates *from, const char *name)
{
    for (size_t i = 0; i < from->count; i++)
        if (strcmp(from->impls[i]->name, name) == 0)
            return from->impls[i];
    return NULL;
}

/* ---- problems in words ----------------------------------------------------------------------- */

typedef struct text {
    char *at;
    size_t size, used;
} text;

static void append(text *to, const char *format, ...) YKI_PRINTF(2, 3);

static void append(text *to, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    int length = vsnprintf(to->at + to->used, to->size - to->used, format, list);
    va_end(list);
    size_t left = to->size - to->used - 1;
    to->used += (size_t)length < left ? (size_t)length : left;
}

static void append_operand(text *to, const yki_operand *operand)
{
    static const char *const layouts[] = {
        [YKI_PLAIN] = "", [YKI_BLOCKED] = " blocked", [YKI_CHANNELS_LAST] = " channels last"};
    if (operand->ndim < 0) {
        append(to, ", none");
        return;
    }
    append(to, ", %s", yk_dtype_name(operand->dtype));
    for (int i = 0; i < operand->ndim; i++)
        append(to, "%c%lld", i ? 'x' : ' ', (long long)operand->dims[i]);
    append(to, "%s", layouts[operand->layout]);
}

/* Of a host device, no named kernel makes them: what is chosen does not depend on them. */
static bool is_sums(const yki_kernel_desc *desc, int output)
{
    return desc->op == &yki_op_conv2d && output == YKI_CONV2D_SUMS;
}

/* Such as "conv2d stride 1 padding 1 dilation 1 groups 1, f32 128x64x32x32 blocked, ...". */
static void describe(const yki_kernel_desc *desc, char problem[YKI_PROBLEM_TEXT])
{
    text to = {.at = problem, .size = YKI_PROBLEM_TEXT};
    *problem = '\0';
    const yki_attrs *attrs = desc->attrs;
    char stride[YKI_PAIR_TEXT], padding[YKI_PAIR_TEXT], dilation[YKI_PAIR_TEXT];
    append(&to, "%s stride %s padding %s dilation %s groups %lld", desc->op->name,
           yki_pair_text(attrs->stride, stride), yki_pair_text(attrs->padding, padding),
           yki_pair_text(attrs->dilation, dilation), (long long)attrs->groups);
    for (int i = 0; i < desc->in_count; i++)
        append_operand(&to, &desc->in[i]);
    for (int i = 0; i < desc->out_count; i++)
        if (!is_sums(desc, i))
            append_operand(&to, &desc->out[i]);
}

/* ---- choosing -------------------------------------------------------------------------------- */

/* The key in the cache contains the candidates as well, which depend on options and on the version
 * of yoke. */
static void describe_cache_key(const char *problem, const candidates *from, char *key, size_t size)
{
    text to = {.at = key, .size = size};
    *key = '\0';
    append(&to, "%s:", problem);
    for (size_t i = 0; i < from->count; i++)
        append(&to, " %s", from->impls[i]->name);
}

static const yki_kernel_impl *recall(const char *folder, const char *key, const candidates *from)
{
    double microseconds;
    char *name = yki_plan_cache_read(folder, key, &microseconds);
    const yki_kernel_impl *impl = name ? find_named(from, name) : NULL;
    free(name);
    return impl;
}

static void log_times(const char *problem, const candidates *from, const double *seconds)
{
    char times[CANDIDATES * (YKI_KERNEL_NAME + 24)];
    text to = {.at = times, .size = sizeof times};
    for (size_t i = 0; i < from->count; i++)
        append(&to, "%s%s %.3f ms", i ? ", " : "", from->impls[i]->name, 1e3 * seconds[i]);
    YKI_DEBUG("%s: %s", problem, times);
}

static const yki_kernel_impl *measure(yki_device *device, const yki_kernel_desc *desc,
                                      const char *folder, const char *problem, const char *key,
                                      const candidates *from)
{
    double seconds[CANDIDATES];
    size_t fastest = yki_autotune(device, desc, from->impls, from->count, seconds);
    const yki_kernel_impl *impl = from->impls[fastest];
    log_times(problem, from, seconds);
    if (seconds[fastest] > 0)
        yki_plan_cache_write(folder, key, 1e6 * seconds[fastest], impl->name);
    return impl;
}

/* Reads the choice from the cache, or measures. The ranks of a machine take turns, so that they do
 * not disturb each other and all but the first find the choice in the cache. */
static const yki_kernel_impl *decide(yki_device *device, const yki_kernel_desc *desc,
                                     const char *problem, const candidates *from)
{
    char folder[YKI_PLAN_PATH], key[YKI_PROBLEM_TEXT + CANDIDATES * YKI_KERNEL_NAME];
    yki_plan_cache_folder(folder, device->choices.hardware, device->choices.library);
    describe_cache_key(problem, from, key, sizeof key);
    const yki_kernel_impl *impl = recall(folder, key, from);
    if (impl)
        return impl;
    int lock = yki_plan_cache_lock(folder, YKI_PLAN_PATIENCE_S);
    impl = lock < 0 ? NULL : recall(folder, key, from);
    if (!impl)
        impl = measure(device, desc, folder, problem, key, from);
    yki_plan_cache_unlock(lock);
    return impl;
}

static void warn_missing(const yki_choice *choice)
{
    static atomic_flag warned = ATOMIC_FLAG_INIT;
    if (!atomic_flag_test_and_set(&warned))
        YKI_WARN("this processor does not have the kernel \"%s\" that was chosen for %s: results "
                 "will differ in their last bits",
                 choice->kernel, choice->problem);
}

yk_status yki_choose_kernel(yki_device *device, const yki_kernel_desc *desc,
                            const yki_kernel_impl **impl)
{
    yki_choices *choices = &device->choices;
    candidates from;
    if (!(*impl)->name || (!choices->measures && choices->count == 0))
        return YK_OK;
    find_candidates(device, desc, *impl, &from);
    char problem[YKI_PROBLEM_TEXT], kernel[YKI_KERNEL_NAME];
    describe(desc, problem);
    const yki_choice *known = yki_choices_find(choices, problem);
    const yki_kernel_impl *found = known ? find_named(&from, known->kernel) : NULL;
    if (known && !found)
        warn_missing(known);
    if (found)
        *impl = found;
    if (known || from.count < 2 || !choices->measures || choices->count == YKI_MOST_CHOICES)
        return YK_OK;
    *impl = decide(device, desc, problem, &from);
    snprintf(kernel, sizeof kernel, "%s", (*impl)->name);
    if (choices->agree)
        YK_TRY(choices->agree(choices->context, problem, kernel));
    found = find_named(&from, kernel);
    if (found)
        *impl = found;
    return yki_choices_set(choices, problem, (*impl)->name);
}

/* See passes.h. */
#include "passes.h"

#include <math.h>
#include <string.h>

#include "../kernels/prepared.h"

enum { TENSORS = 16 };

static const double adam[] = {1e-3, 0.9, 0.999, 0.5, 1e-8, 1e-4, 1, 0};
static const double sgd[] = {1e-3, 0.9, 0.9, 1, 1e-4, 0, 0, 0};
static const double ema[] = {1e-3, 0, 0, 0, 0, 0, 0, 0};

bool is_pass(const problem *p)
{
    static const char *const names[] = {"sgd", "adam", "ema", "clip_grad_norm"};
    bool found = false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        found = found || strcmp(p->name, names[i]) == 0;
    return found;
}

void passes_init(passes *s, yki_device *device, const problem *p)
{
    yki_span spans[TENSORS];
    int64_t count = 1;
    for (int i = 0; i < p->x.ndim; i++)
        count *= p->x.dims[i];
    yki_operand all = {.dtype = YK_F32, .ndim = 1, .dims = {count}};
    s->bytes = (size_t)count * sizeof(float);
    for (int t = 0; t < YKI_SWEEP_TENSORS; t++)
        s->memory[t] = fill(device, &all);
    for (int i = 0; i < TENSORS; i++) {
        spans[i] = (yki_span){.count = count / TENSORS, .dtype = YK_F32};
        for (int t = 0; t < YKI_SWEEP_TENSORS; t++)
            spans[i].at[t] = (float *)s->memory[t] + i * (count / TENSORS);
        spans[i].at[4] = NULL; /* Adam without amsgrad */
    }
    memset(s->memory[3], 0, s->bytes); /* means of squares */
    check(yki_sweep_create(&s->sweep, device, spans, TENSORS));
}

void passes_run(const passes *s, const problem *p)
{
    double clip[YKI_SWEEP_COEFFICIENTS] = {0};
    switch (*p->name) {
    case 's':
        check(yki_sweep_run(s->sweep, YKI_SWEEP_SGD, sgd, NULL, NULL));
        break;
    case 'a':
        check(yki_sweep_run(s->sweep, YKI_SWEEP_ADAM, adam, NULL, NULL));
        break;
    case 'e':
        check(yki_sweep_run(s->sweep, YKI_SWEEP_APPROACH, ema, NULL, NULL));
        break;
    default:
        check(yki_sweep_run(s->sweep, YKI_SWEEP_SQUARES, NULL, &clip[YKI_CLIP_SQUARES], NULL));
        clip[YKI_CLIP_MAX_NORM] = 0.999 * sqrt(clip[YKI_CLIP_SQUARES]);
        check(yki_sweep_run(s->sweep, YKI_SWEEP_CLIP, clip, NULL, NULL));
    }
}

void passes_fini(passes *s)
{
    yki_sweep_destroy(s->sweep);
    for (int t = 0; t < YKI_SWEEP_TENSORS; t++)
        yki_unmap(s->memory[t], s->bytes);
}

/*
 * MixUp, CutMix and OneHot, on a batch that is complete. Draws depend on the seed, the epoch and
 * the index of the batch's first sample: not on workers, nor on how batches are spread over ranks.
 */
#ifndef YKI_MIXING_H
#define YKI_MIXING_H

#include <yoke/tensor.h>

#include "data/transforms/draws.h"
#include "data/transforms/transforms.h"

typedef struct yki_mixing {
    bool mixup, cutmix, probabilities; /* probabilities: any of the steps is there */
    double mixup_alpha, cutmix_alpha;
    int steps; /* of the list; draws are those of a step after the last */
} yki_mixing;

/* What one batch is mixed by. */
typedef struct yki_mix {
    bool cut;
    double
        share; /* of each sample itself; the rest is of the one before it, of the first the last */
    int64_t top, left, bottom, right; /* what is cut from the one before */
} yki_mix;

yki_mixing yki_mixing_of(const yk_transforms *transforms);
/* height, width: of the pictures; only for cuts. */
yki_mix yki_draw_mix(const yki_mixing *mixing, uint64_t word, int64_t height, int64_t width);
/* samples (N, ...) f32 or f64, (N, C, H, W) for a cut, in place; scratch has room for one of them.
 */
void yki_mix_samples(const yki_mix *mix, yk_tensor *samples, void *scratch);
/* labels (N) -> probabilities (N, classes) f32. */
void yki_mix_labels(const yki_mix *mix, const int32_t *labels, int64_t count, int64_t classes,
                    float *probabilities);

#endif

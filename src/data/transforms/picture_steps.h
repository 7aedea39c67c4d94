/* The steps on pictures: each draws what it needs and changes the frame. */
#ifndef YKI_PICTURE_STEPS_H
#define YKI_PICTURE_STEPS_H

#include "data/transforms/draws.h"
#include "data/transforms/frame.h"
#include "data/transforms/transforms.h"

/*
 * Where RandomCrop begins and whether RandomHorizontalFlip (p = 0.5) and AlternatingHorizontalFlip
 * mirror. The first RandomCrop and RandomHorizontalFlip of a list, and every
 * AlternatingHorizontalFlip, read the sample's word itself; for the first two this keeps the draws
 * of yoke's first augmentation for CIFAR-10. All other steps have their own draws.
 */
static inline int yki_crop_top(uint64_t word, int offsets)
{
    return (int)((uint32_t)(word >> 32) % (uint32_t)offsets);
}

static inline int yki_crop_left(uint64_t word, int offsets)
{
    return (int)((uint32_t)(word & 0xffffffffu) / 2 % (uint32_t)offsets);
}

static inline bool yki_flip_drawn(uint64_t word)
{
    return word & 1;
}

/* The word of a list with AlternatingHorizontalFlip: epoch 0, whose word is `first`, decides
 * whether the picture is mirrored in even epochs; in odd epochs it is the opposite. */
static inline uint64_t yki_alternate_flip(uint64_t word, uint64_t first, int64_t epoch)
{
    return (word & ~(uint64_t)1) | ((first ^ (uint64_t)epoch) & 1);
}

/* The boxes of crops in a picture of this size; those of the first two may reach beyond it. */
yki_box yki_center_crop_box(const yk_transform_center_crop *crop, int width, int height);
yki_box yki_random_crop_box(const yk_transform_step *steps, int index, uint64_t word, int width,
                            int height);
yki_box yki_random_resized_crop_box(const yk_transform_random_resized_crop *crop, yki_draws *draws,
                                    int width, int height);
/* Draws a flip and adds it to those before it; false if the step is none. */
bool yki_draw_flip(const yk_transform_step *steps, int index, uint64_t word, bool *mirrored,
                   bool *upside_down);

/* Applies steps[index], the list's step with this number. */
yk_status yki_apply_picture_step(yki_frame *frame, const yk_transform_step *steps, int index,
                                 uint64_t word);
/* RandAugment, which has a file of its own. */
yk_status yki_rand_augment(yki_frame *frame, const yk_transform_rand_augment *step,
                           yki_draws *draws);

#endif

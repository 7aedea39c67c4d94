/* Lists of transforms: what makes a list valid, and the size of what comes out of it. */
#include "data/transforms/transforms.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "image/picture.h"

/* ---- validity ------------------------------------------------------------------------------- */

static bool happens_once(yk_transform_kind kind)
{
    return kind == YK_TRANSFORM_NORMALIZE || kind == YK_TRANSFORM_MIXUP ||
           kind == YK_TRANSFORM_CUTMIX;
}

static yk_status check_order(const yk_transform_step *steps, int i)
{
    const yki_transform_type *type = yki_transform_type_of(steps[i].kind);
    for (int before = 0; before < i; before++) {
        const yki_transform_type *other = yki_transform_type_of(steps[before].kind);
        if (other->phase > type->phase)
            return yki_error(YK_ERROR_INVALID_ARGUMENT,
                             "transforms: %s must come before %s: it changes %s", type->name,
                             other->name, type->phase == YKI_ON_PICTURE ? "pictures" : "tensors");
        if (other == type && happens_once(steps[i].kind))
            return yki_error(YK_ERROR_INVALID_ARGUMENT, "transforms: %s is listed twice",
                             type->name);
    }
    return YK_OK;
}

static yk_status check_steps(const yk_transform_step *steps, int count)
{
    for (int i = 0; i < count; i++) {
        YK_TRY(yki_transform_check(&steps[i]));
        YK_TRY(check_order(steps, i));
    }
    return YK_OK;
}

/* ---- lists ---------------------------------------------------------------------------------- */

yk_status yk_transforms_create(yk_transforms **transforms, const yk_transform_step *steps,
                               int count)
{
    YKI_NOT_NULL(transforms);
    *transforms = NULL;
    if (count < 0 || (count > 0 && !steps))
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "%s: %d steps at %p", __func__, count,
                         (const void *)steps);
    YK_TRY(check_steps(steps, count));
    yk_transforms *self = yki_calloc(1, sizeof *self);
    if (!self)
        return yki_error_memory(sizeof *self, "transforms");
    yki_reference_init(&self->reference);
    self->count = count;
    self->steps = yki_calloc(count ? (size_t)count : 1, sizeof *steps);
    self->text = yki_transforms_write(steps, count);
    if (!self->steps || !self->text) {
        yk_transforms_destroy(self);
        return yki_error_memory((size_t)count * sizeof *steps, "transforms");
    }
    if (count)
        memcpy(self->steps, steps, (size_t)count * sizeof *steps);
    *transforms = self;
    return YK_OK;
}

yk_status yk_transforms_parse(yk_transforms **transforms, const char *text)
{
    YKI_NOT_NULL(transforms);
    *transforms = NULL;
    YKI_NOT_NULL(text);
    yk_transform_step *steps;
    int count;
    YK_TRY(yki_transforms_read(text, &steps, &count));
    yk_status status = yk_transforms_create(transforms, steps, count);
    free(steps);
    return status;
}

void yki_transforms_retain(const yk_transforms *transforms)
{
    yki_reference_retain((yki_reference *)(uintptr_t)&transforms->reference);
}

void yk_transforms_destroy(yk_transforms *transforms)
{
    if (!transforms || !yki_reference_release(&transforms->reference))
        return;
    free(transforms->steps);
    free(transforms->text);
    free(transforms);
}

const char *yk_transforms_text(const yk_transforms *transforms)
{
    return transforms ? transforms->text : NULL;
}

int yk_transforms_count(const yk_transforms *transforms)
{
    return transforms ? transforms->count : 0;
}

const yk_transform_step *yk_transforms_step(const yk_transforms *transforms, int index)
{
    return transforms && index >= 0 && index < transforms->count ? &transforms->steps[index] : NULL;
}

bool yk_transforms_mix(const yk_transforms *transforms)
{
    for (int i = 0; transforms && i < transforms->count; i++)
        if (yki_transform_type_of(transforms->steps[i].kind)->phase == YKI_ON_BATCH)
            return true;
    return false;
}

/* ---- sizes ---------------------------------------------------------------------------------- */

int64_t yki_long_side(int64_t longer, int64_t shorter, int size)
{
    return (int64_t)((double)size * (double)longer / (double)shorter);
}

static void resized(const yk_transform_resize *resize, int64_t dims[3])
{
    int64_t height = dims[1], width = dims[2];
    if (!resize->short_side) {
        dims[1] = resize->height;
        dims[2] = resize->width;
    } else if (height > 0 && width > 0) {
        dims[1] = height <= width ? resize->height : yki_long_side(height, width, resize->height);
        dims[2] = width <= height ? resize->width : yki_long_side(width, height, resize->width);
    }
}

static yk_status cropped(const yk_transform_random_crop *crop, int64_t dims[3])
{
    int64_t height = dims[1] + 2 * (int64_t)crop->padding;
    int64_t width = dims[2] + 2 * (int64_t)crop->padding;
    if ((dims[1] > 0 && height < crop->height) || (dims[2] > 0 && width < crop->width))
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "RandomCrop: %dx%d pixels of a picture of %lldx%lld with padding %d; "
                         "resize it before, or give more padding",
                         crop->width, crop->height, (long long)dims[2], (long long)dims[1],
                         crop->padding);
    bool reflects = crop->padding_mode == YK_PADDING_REFLECT;
    if (reflects &&
        ((dims[1] > 0 && crop->padding >= dims[1]) || (dims[2] > 0 && crop->padding >= dims[2])))
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "RandomCrop: padding %d with padding_mode=reflect needs pictures of more "
                         "than %d pixels a side, not %lldx%lld; reduce the padding",
                         crop->padding, crop->padding, (long long)dims[2], (long long)dims[1]);
    dims[1] = crop->height;
    dims[2] = crop->width;
    return YK_OK;
}

yk_status yki_transform_size_after(const yk_transform_step *step, int64_t dims[3])
{
    switch (step->kind) {
    case YK_TRANSFORM_RESIZE:
        resized(&step->resize, dims);
        break;
    case YK_TRANSFORM_CENTER_CROP:
        dims[1] = step->center_crop.height;
        dims[2] = step->center_crop.width;
        break;
    case YK_TRANSFORM_RANDOM_CROP:
        return cropped(&step->random_crop, dims);
    case YK_TRANSFORM_RANDOM_RESIZED_CROP:
        dims[1] = step->random_resized_crop.height;
        dims[2] = step->random_resized_crop.width;
        break;
    case YK_TRANSFORM_GRAYSCALE:
        dims[0] = step->grayscale.num_output_channels;
        break;
    default:
        break;
    }
    return YK_OK;
}

/* Whether the step knows pictures of so many channels. Colours are those of grey and of RGB. */
static yk_status check_channels(const yk_transform_step *step, int64_t channels)
{
    const yk_transform_normalize *numbers = &step->normalize;
    if (channels == 1 || channels == 3)
        return YK_OK;
    switch (step->kind) {
    case YK_TRANSFORM_COLOR_JITTER:
    case YK_TRANSFORM_GRAYSCALE:
    case YK_TRANSFORM_RANDOM_GRAYSCALE:
    case YK_TRANSFORM_RAND_AUGMENT:
        return yki_error(YK_ERROR_UNSUPPORTED, "%s: pictures of %lld channels, not 1 or 3",
                         yki_transform_type_of(step->kind)->name, (long long)channels);
    case YK_TRANSFORM_NORMALIZE:
        for (int c = 1; c < 3; c++)
            if (numbers->mean[c] != numbers->mean[0] || numbers->std[c] != numbers->std[0])
                return yki_error(YK_ERROR_UNSUPPORTED,
                                 "Normalize: numbers for 3 channels, but the pictures have %lld; "
                                 "give one mean and one deviation, as in Normalize(0.5,0.25)",
                                 (long long)channels);
        return YK_OK;
    default:
        return YK_OK;
    }
}

yk_status yk_transforms_output_size(const yk_transforms *transforms, const int64_t in[3],
                                    int64_t out[3])
{
    YKI_NOT_NULL(transforms);
    YKI_NOT_NULL(in);
    YKI_NOT_NULL(out);
    int64_t dims[] = {in[0], in[1], in[2]};
    if (dims[0] < 1 || dims[0] > YKI_PICTURE_CHANNELS_MAX)
        return yki_error(YK_ERROR_UNSUPPORTED, "transforms: pictures of %lld channels, not 1 to %d",
                         (long long)dims[0], YKI_PICTURE_CHANNELS_MAX);
    for (int i = 0; i < transforms->count; i++) {
        YK_TRY(check_channels(&transforms->steps[i], dims[0]));
        YK_TRY(yki_transform_size_after(&transforms->steps[i], dims));
    }
    if (dims[1] < 1 || dims[2] < 1)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "transforms: the pictures are of different sizes, and \"%s\" leaves them "
                         "so; add CenterCrop, RandomCrop or RandomResizedCrop",
                         transforms->text);
    memcpy(out, dims, sizeof dims);
    return YK_OK;
}

/**
 * @file
 * Transforms: what happens to a picture on its way into a batch, as a list of steps with the names,
 * parameters and meaning of torchvision's. A list is written as a text or made of structs:
 *
 *     RandomResizedCrop(224), RandomHorizontalFlip, ColorJitter(0.4, 0.4, 0.4), RandAugment(2, 9),
 *     Normalize(imagenet), RandomErasing(0.25), MixUp(0.2)
 *
 * Steps run in the order of the list: first those on pictures, then those on tensors (ToTensor,
 * which is implied, Normalize, RandomErasing), then those on batches (MixUp, CutMix, OneHot).
 * Random choices depend only on the seed, the epoch and the index of the sample.
 */
#ifndef YOKE_TRANSFORMS_H
#define YOKE_TRANSFORMS_H

#include <yoke/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/** How the pixels of a resized picture are computed; all but NEAREST are antialiased. */
typedef enum yk_interpolation {
    YK_INTERPOLATION_NEAREST,
    YK_INTERPOLATION_BILINEAR,
    YK_INTERPOLATION_BICUBIC
} yk_interpolation;

/** What lies beyond the edges of a padded picture. */
typedef enum yk_padding_mode {
    YK_PADDING_CONSTANT, /**< zeros */
    YK_PADDING_REFLECT   /**< the picture mirrored at its edge, without repeating the edge itself */
} yk_padding_mode;

/** What a step does. */
typedef enum yk_transform_kind {
    YK_TRANSFORM_RESIZE,
    YK_TRANSFORM_CENTER_CROP,
    YK_TRANSFORM_RANDOM_CROP,
    YK_TRANSFORM_RANDOM_RESIZED_CROP,
    YK_TRANSFORM_RANDOM_HORIZONTAL_FLIP,
    YK_TRANSFORM_RANDOM_VERTICAL_FLIP,
    YK_TRANSFORM_ALTERNATING_HORIZONTAL_FLIP,
    YK_TRANSFORM_COLOR_JITTER,
    YK_TRANSFORM_GRAYSCALE,
    YK_TRANSFORM_RANDOM_GRAYSCALE,
    YK_TRANSFORM_RAND_AUGMENT,
    YK_TRANSFORM_TO_TENSOR,
    YK_TRANSFORM_NORMALIZE,
    YK_TRANSFORM_RANDOM_ERASING,
    YK_TRANSFORM_MIXUP,
    YK_TRANSFORM_CUTMIX,
    YK_TRANSFORM_ONE_HOT
} yk_transform_kind;

/** Resize(size | (height, width), interpolation=bilinear). */
typedef struct yk_transform_resize {
    int height;      /**< of the result; with short_side, what its shorter side becomes */
    int width;       /**< likewise */
    bool short_side; /**< the longer side keeps the picture's proportions [true] */
    yk_interpolation interpolation; /**< [YK_INTERPOLATION_BILINEAR] */
} yk_transform_resize;

/** CenterCrop(size | (height, width)): zeros where the picture is smaller. */
typedef struct yk_transform_center_crop {
    int height; /**< of the result */
    int width;  /**< of the result */
} yk_transform_center_crop;

/** RandomCrop(size | (height, width), padding=0, padding_mode=constant | reflect). */
typedef struct yk_transform_random_crop {
    int height;                   /**< of the result */
    int width;                    /**< of the result */
    int padding;                  /**< rows and columns added on each side of the picture; with
                                       REFLECT fewer than the picture has [0] */
    yk_padding_mode padding_mode; /**< what they contain [YK_PADDING_CONSTANT] */
} yk_transform_random_crop;

/** RandomResizedCrop(size | (height, width), scale=(0.08, 1), ratio=(3/4, 4/3),
 *  interpolation=bilinear). */
typedef struct yk_transform_random_resized_crop {
    int height;                     /**< of the result */
    int width;                      /**< of the result */
    double scale[2];                /**< least and largest part of the area [0.08, 1] */
    double ratio[2];                /**< least and largest width by height [3/4, 4/3] */
    yk_interpolation interpolation; /**< [YK_INTERPOLATION_BILINEAR] */
} yk_transform_random_resized_crop;

/**
 * RandomHorizontalFlip(p=0.5), RandomVerticalFlip(p=0.5), RandomGrayscale(p=0.1).
 *
 * AlternatingHorizontalFlip, which has no parameters, mirrors a random half of the pictures in even
 * epochs and the other half in odd ones, so that two consecutive epochs show both sides of every
 * picture (Jordan, "94% on CIFAR-10 in 3.29 Seconds on a Single GPU", 2024).
 */
typedef struct yk_transform_chance {
    double p; /**< how probable it is */
} yk_transform_chance;

/** ColorJitter(brightness=0, contrast=0, saturation=0, hue=0), in a random order. In a text, a
 *  number x stands for the range (1 - x, 1 + x), of hue for (-x, x). */
typedef struct yk_transform_color_jitter {
    double brightness[2]; /**< least and largest factor [1, 1] */
    double contrast[2];   /**< likewise */
    double saturation[2]; /**< likewise */
    double hue[2];        /**< least and largest part of the circle of hues, -0.5 to 0.5 [0, 0] */
} yk_transform_color_jitter;

/** Grayscale(num_output_channels=1). */
typedef struct yk_transform_grayscale {
    int num_output_channels; /**< 1, or 3 that are equal [1] */
} yk_transform_grayscale;

/** RandAugment(num_ops=2, magnitude=9, num_magnitude_bins=31), with torchvision's 14 operations
 *  (Cubuk et al. 2019). */
typedef struct yk_transform_rand_augment {
    int num_ops;            /**< of each picture [2] */
    int magnitude;          /**< below num_magnitude_bins [9] */
    int num_magnitude_bins; /**< [31] */
} yk_transform_rand_augment;

/** Normalize(mean, std): (x - mean) / std for x in [0, 1]. A number stands for all channels;
 *  Normalize(imagenet) and Normalize(cifar10) for the numbers of these data sets. Pictures of other
 *  than 1 or 3 channels need the same numbers for all of them. */
typedef struct yk_transform_normalize {
    double mean[3]; /**< of each channel; a grey picture uses the first [0] */
    double std[3];  /**< likewise [1] */
} yk_transform_normalize;

/** RandomErasing(p=0.5, scale=(0.02, 0.33), ratio=(0.3, 3.3), value=0 | random) (Zhong et al.
 *  2017). */
typedef struct yk_transform_random_erasing {
    double p;        /**< how probable it is [0.5] */
    double scale[2]; /**< least and largest part of the area [0.02, 0.33] */
    double ratio[2]; /**< least and largest height by width [0.3, 3.3] */
    double value;    /**< of what is erased [0] */
    bool random;     /**< normal random numbers instead of value [false] */
} yk_transform_random_erasing;

/**
 * MixUp(alpha=1) (Zhang et al. 2017), CutMix(alpha=1) (Yun et al. 2019): each sample of a batch is
 * mixed with the one before it, by a share from Beta(alpha, alpha) that is drawn for the batch.
 * With both steps, one of the two is drawn for each batch. What is mixed are pictures or, in data
 * without any, all floating-point numbers, which for CutMix are samples (C, H, W). Labels become
 * probabilities (n, classes) f32, as they do with OneHot, which mixes nothing.
 */
typedef struct yk_transform_mixing {
    double alpha; /**< above 0 [1] */
} yk_transform_mixing;

/** One step of a list. */
typedef struct yk_transform_step {
    yk_transform_kind kind; /**< which member of the union is its own */
    union {
        yk_transform_resize resize;
        yk_transform_center_crop center_crop;
        yk_transform_random_crop random_crop;
        yk_transform_random_resized_crop random_resized_crop;
        yk_transform_chance random_horizontal_flip, random_vertical_flip, random_grayscale;
        yk_transform_color_jitter color_jitter;
        yk_transform_grayscale grayscale;
        yk_transform_rand_augment rand_augment;
        yk_transform_normalize normalize;
        yk_transform_random_erasing random_erasing;
        yk_transform_mixing mixup, cutmix;
        double reserved[16]; /**< so that a step can grow */
    };
} yk_transform_step;

/** A step of this kind with its defaults; sizes, which have none, are 224. */
yk_transform_step yk_transform_step_of(yk_transform_kind kind);

/** A list of steps, which never changes. Any thread may use it. */
typedef struct yk_transforms yk_transforms;

/** Makes a list of these steps. YK_ERROR_INVALID_ARGUMENT for parameters that make no sense and for
 *  steps in a wrong order. On failure *transforms is NULL. */
yk_status yk_transforms_create(yk_transforms **transforms, const yk_transform_step *steps,
                               int count);
/** Reads a list from a text; an empty one has no steps. The error says where it is wrong. On
 * failure *transforms is NULL. */
yk_status yk_transforms_parse(yk_transforms **transforms, const char *text);
/** Accepts NULL. */
void yk_transforms_destroy(yk_transforms *transforms);

/** The list as a text that yk_transforms_parse reads back to the same steps. NULL for NULL. */
const char *yk_transforms_text(const yk_transforms *transforms);
/** Number of steps; 0 for NULL. */
int yk_transforms_count(const yk_transforms *transforms);
/** A step, from 0 on; NULL where there is none, and for NULL. */
const yk_transform_step *yk_transforms_step(const yk_transforms *transforms, int index);
/** Whether labels become probabilities: the list has MixUp, CutMix or OneHot. */
bool yk_transforms_mix(const yk_transforms *transforms);
/** What becomes of pictures in (C, H, W), where H and W may be -1 (they differ): out (C, H, W).
 *  YK_ERROR_INVALID_ARGUMENT unless all results have one size. YK_ERROR_UNSUPPORTED for more than
 *  1024 channels, and for steps that do not know pictures of so many. */
yk_status yk_transforms_output_size(const yk_transforms *transforms, const int64_t in[3],
                                    int64_t out[3]);

/* ---- presets --------------------------------------------------------------------------------- */

/** yk_preset_options.image_size: that of pictures of one size, otherwise 224. */
#define YK_PRESET_SIZE_USUAL (-1)

/** Which preset, and for which data. */
typedef struct yk_preset_options {
    size_t size;        /**< set by YK_PRESET_OPTIONS_INIT */
    const char *preset; /**< "imagenet", "cifar" or "none"; NULL: what is usual for the pictures,
                             which is "imagenet" if their sizes differ, "none" if they are grey, and
                             otherwise "cifar" [NULL] */
    int64_t image_size; /**< the sides of the result, or YK_PRESET_SIZE_USUAL
                             [YK_PRESET_SIZE_USUAL] */
    const char *data;   /**< the data set's name, whose usual mean and deviation are taken if it is
                             a known one, or NULL [NULL] */
} yk_preset_options;

/** The defaults of yk_preset_options. */
#define YK_PRESET_OPTIONS_INIT                                                                     \
    {                                                                                              \
        sizeof(yk_preset_options), NULL, YK_PRESET_SIZE_USUAL, NULL                                \
    }

/**
 * Makes the usual lists for training and for evaluation on pictures of (C, H, W), where H and W may
 * be -1 (they differ), as in yk_field.dims. "imagenet" is RandomResizedCrop and
 * RandomHorizontalFlip, evaluated with Resize and CenterCrop; "cifar" is RandomCrop with a padding
 * of 4 and RandomHorizontalFlip; "none" leaves pictures as they are. All end with Normalize. On
 * failure both are NULL; YK_ERROR_INVALID_ARGUMENT for another name or a size that makes no sense.
 */
yk_status yk_transforms_preset(yk_transforms **train, yk_transforms **evaluation,
                               const int64_t dims[3], const yk_preset_options *options);

/** For training on CIFAR-10: the usual augmentation, mean and deviation. */
#define YK_CIFAR10_AUGMENT   "RandomCrop(32,padding=4),RandomHorizontalFlip,Normalize(cifar10)"
/** For evaluation on CIFAR-10: the same mean and deviation only. */
#define YK_CIFAR10_NORMALIZE "Normalize(cifar10)"

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif

/* The transforms: names, parameters, bounds and defaults, in the order of yk_transform_kind. */
#include "data/transforms/transforms.h"

#include "image/picture.h"

#define PARAMETER(NAME, TYPE, MEMBER, LEAST, MOST)                                                 \
    {                                                                                              \
        NAME, YKI_PARAMETER_##TYPE, offsetof(yk_transform_step, MEMBER), LEAST, MOST               \
    }
#define SIDE(TYPE, MEMBER) PARAMETER("size", TYPE, MEMBER.height, 1, YKI_PICTURE_SIDE_MAX)
#define CHANCE(MEMBER)     PARAMETER("p", NUMBER, MEMBER.p, 0, 1)

static const yki_transform_type types[] = {
    {"Resize",
     YKI_ON_PICTURE,
     true,
     {SIDE(RESIZE, resize), PARAMETER("interpolation", INTERPOLATION, resize.interpolation, 0, 2)},
     {YK_TRANSFORM_RESIZE, {.resize = {224, 224, true, YK_INTERPOLATION_BILINEAR}}}},
    {"CenterCrop",
     YKI_ON_PICTURE,
     true,
     {SIDE(SIZE, center_crop)},
     {YK_TRANSFORM_CENTER_CROP, {.center_crop = {224, 224}}}},
    {"RandomCrop",
     YKI_ON_PICTURE,
     true,
     {SIDE(SIZE, random_crop),
      PARAMETER("padding", INT, random_crop.padding, 0, YKI_PICTURE_SIDE_MAX),
      PARAMETER("padding_mode", PADDING_MODE, random_crop.padding_mode, 0, 1)},
     {YK_TRANSFORM_RANDOM_CROP, {.random_crop = {224, 224, 0, YK_PADDING_CONSTANT}}}},
    {"RandomResizedCrop",
     YKI_ON_PICTURE,
     true,
     {SIDE(SIZE, random_resized_crop), PARAMETER("scale", RANGE, random_resized_crop.scale, 0, 1),
      PARAMETER("ratio", RANGE, random_resized_crop.ratio, 0.01, 100),
      PARAMETER("interpolation", INTERPOLATION, random_resized_crop.interpolation, 0, 2)},
     {YK_TRANSFORM_RANDOM_RESIZED_CROP,
      {.random_resized_crop =
           {224, 224, {0.08, 1}, {3.0 / 4, 4.0 / 3}, YK_INTERPOLATION_BILINEAR}}}},
    {"RandomHorizontalFlip",
     YKI_ON_PICTURE,
     false,
     {CHANCE(random_horizontal_flip)},
     {YK_TRANSFORM_RANDOM_HORIZONTAL_FLIP, {.random_horizontal_flip = {0.5}}}},
    {"RandomVerticalFlip",
     YKI_ON_PICTURE,
     false,
     {CHANCE(random_vertical_flip)},
     {YK_TRANSFORM_RANDOM_VERTICAL_FLIP, {.random_vertical_flip = {0.5}}}},
    {"AlternatingHorizontalFlip",
     YKI_ON_PICTURE,
     false,
     {{0}},
     {YK_TRANSFORM_ALTERNATING_HORIZONTAL_FLIP, {.reserved = {0}}}},
    {"ColorJitter",
     YKI_ON_PICTURE,
     false,
     {PARAMETER("brightness", FACTOR, color_jitter.brightness, 0, 100),
      PARAMETER("contrast", FACTOR, color_jitter.contrast, 0, 100),
      PARAMETER("saturation", FACTOR, color_jitter.saturation, 0, 100),
      PARAMETER("hue", HUE, color_jitter.hue, -0.5, 0.5)},
     {YK_TRANSFORM_COLOR_JITTER, {.color_jitter = {{1, 1}, {1, 1}, {1, 1}, {0, 0}}}}},
    {"Grayscale",
     YKI_ON_PICTURE,
     false,
     {PARAMETER("num_output_channels", INT, grayscale.num_output_channels, 1, 3)},
     {YK_TRANSFORM_GRAYSCALE, {.grayscale = {1}}}},
    {"RandomGrayscale",
     YKI_ON_PICTURE,
     false,
     {CHANCE(random_grayscale)},
     {YK_TRANSFORM_RANDOM_GRAYSCALE, {.random_grayscale = {0.1}}}},
    {"RandAugment",
     YKI_ON_PICTURE,
     false,
     {PARAMETER("num_ops", INT, rand_augment.num_ops, 0, 100),
      PARAMETER("magnitude", INT, rand_augment.magnitude, 0, 1000),
      PARAMETER("num_magnitude_bins", INT, rand_augment.num_magnitude_bins, 2, 1000)},
     {YK_TRANSFORM_RAND_AUGMENT, {.rand_augment = {2, 9, 31}}}},
    {"ToTensor", YKI_ON_TENSOR, false, {{0}}, {YK_TRANSFORM_TO_TENSOR, {.reserved = {0}}}},
    {"Normalize",
     YKI_ON_TENSOR,
     true,
     {PARAMETER("mean", CHANNELS, normalize.mean, -1e6, 1e6),
      PARAMETER("std", CHANNELS, normalize.std, 1e-6, 1e6)},
     {YK_TRANSFORM_NORMALIZE, {.normalize = {{0, 0, 0}, {1, 1, 1}}}}},
    {"RandomErasing",
     YKI_ON_TENSOR,
     false,
     {CHANCE(random_erasing), PARAMETER("scale", RANGE, random_erasing.scale, 0, 1),
      PARAMETER("ratio", RANGE, random_erasing.ratio, 0.01, 100),
      PARAMETER("value", VALUE, random_erasing.value, -1e6, 1e6)},
     {YK_TRANSFORM_RANDOM_ERASING, {.random_erasing = {0.5, {0.02, 0.33}, {0.3, 3.3}, 0, false}}}},
    {"MixUp",
     YKI_ON_BATCH,
     false,
     {PARAMETER("alpha", NUMBER, mixup.alpha, 1e-3, 1e6)},
     {YK_TRANSFORM_MIXUP, {.mixup = {1}}}},
    {"CutMix",
     YKI_ON_BATCH,
     false,
     {PARAMETER("alpha", NUMBER, cutmix.alpha, 1e-3, 1e6)},
     {YK_TRANSFORM_CUTMIX, {.cutmix = {1}}}},
    {"OneHot", YKI_ON_BATCH, false, {{0}}, {YK_TRANSFORM_ONE_HOT, {.reserved = {0}}}},
};

const yki_normalization yki_normalizations[] = {
    {"imagenet", {{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}}},
    {"cifar10", {{0.4914, 0.4822, 0.4465}, {0.2023, 0.1994, 0.2010}}},
    {"cifar100", {{0.5071, 0.4867, 0.4408}, {0.2675, 0.2565, 0.2761}}},
    {"mnist", {{0.1307, 0.1307, 0.1307}, {0.3081, 0.3081, 0.3081}}},
    {"fashion-mnist", {{0.2860, 0.2860, 0.2860}, {0.3530, 0.3530, 0.3530}}},
};
const int yki_normalization_count = sizeof yki_normalizations / sizeof *yki_normalizations;

const yki_transform_type *yki_transform_type_of(yk_transform_kind kind)
{
    return (size_t)kind < sizeof types / sizeof *types ? &types[kind] : NULL;
}

yk_transform_step yk_transform_step_of(yk_transform_kind kind)
{
    const yki_transform_type *type = yki_transform_type_of(kind);
    return type ? type->defaults : (yk_transform_step){.kind = kind};
}

/* ---- checks --------------------------------------------------------------------------------- */

/* The numbers of a parameter; returns how many. */
static int numbers_of(const yk_transform_step *step, const yki_parameter *parameter, double out[3])
{
    const char *at = (const char *)step + parameter->offset;
    const int *ints = (const void *)at;
    const double *doubles = (const void *)at;
    switch (parameter->type) {
    case YKI_PARAMETER_INT:
    case YKI_PARAMETER_INTERPOLATION:
    case YKI_PARAMETER_PADDING_MODE:
        out[0] = *ints;
        return 1;
    case YKI_PARAMETER_SIZE:
    case YKI_PARAMETER_RESIZE:
        out[0] = ints[0];
        out[1] = ints[1];
        return 2;
    case YKI_PARAMETER_NUMBER:
    case YKI_PARAMETER_VALUE:
        out[0] = *doubles;
        return 1;
    case YKI_PARAMETER_CHANNELS:
        out[2] = doubles[2];
        break;
    default:
        break;
    }
    out[0] = doubles[0];
    out[1] = doubles[1];
    return parameter->type == YKI_PARAMETER_CHANNELS ? 3 : 2;
}

static bool is_range(yki_parameter_type type)
{
    return type == YKI_PARAMETER_RANGE || type == YKI_PARAMETER_FACTOR || type == YKI_PARAMETER_HUE;
}

yk_status yki_transform_check(const yk_transform_step *step)
{
    const yki_transform_type *type = yki_transform_type_of(step->kind);
    if (!type)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "transforms: there is no kind %d",
                         (int)step->kind);
    for (int i = 0; i < YKI_PARAMETERS_MAX && type->parameters[i].name; i++) {
        const yki_parameter *parameter = &type->parameters[i];
        double numbers[3];
        int count = numbers_of(step, parameter, numbers);
        for (int n = 0; n < count; n++)
            if (!(numbers[n] >= parameter->least && numbers[n] <= parameter->most))
                return yki_error(YK_ERROR_INVALID_ARGUMENT, "%s: %s is %g: expected %g to %g",
                                 type->name, parameter->name, numbers[n], parameter->least,
                                 parameter->most);
        if (is_range(parameter->type) && numbers[0] > numbers[1])
            return yki_error(YK_ERROR_INVALID_ARGUMENT,
                             "%s: %s is (%g, %g): the first number must not be the larger one",
                             type->name, parameter->name, numbers[0], numbers[1]);
    }
    if (step->kind == YK_TRANSFORM_RAND_AUGMENT &&
        step->rand_augment.magnitude >= step->rand_augment.num_magnitude_bins)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "RandAugment: magnitude is %d: expected less than num_magnitude_bins (%d)",
                         step->rand_augment.magnitude, step->rand_augment.num_magnitude_bins);
    if (step->kind == YK_TRANSFORM_GRAYSCALE && step->grayscale.num_output_channels == 2)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "Grayscale: num_output_channels is 2: expected 1 or 3");
    return YK_OK;
}

/*
 * From the options of augmentation to two lists of transforms: one for training, one for
 * evaluation. Presets are the library's.
 */
#include "setup/setup.h"

#include <stdlib.h>
#include <string.h>

#include "options/options.h"

enum { USUAL_SIDE = 224, LIST = CLI_TRANSFORMS_TEXT };

/* ---- a user's own list ----------------------------------------------------------------------- */

/* Appends the text of some steps. */
static void append(char *list, const char *steps)
{
    size_t used = strlen(list);
    if (steps[0])
        snprintf(list + used, LIST - used, "%s%s", used ? "," : "", steps);
}

static void append_step(char *list, const yk_transform_step *step)
{
    yk_transforms *one;
    if (yk_transforms_create(&one, step, 1) == YK_OK)
        append(list, yk_transforms_text(one));
    yk_transforms_destroy(one);
}

static void append_center_crop(char *list, int height, int width)
{
    yk_transform_step step = yk_transform_step_of(YK_TRANSFORM_CENTER_CROP);
    step.center_crop.height = height;
    step.center_crop.width = width;
    append_step(list, &step);
}

/* What usually comes before a centre crop of this size. */
static void append_resize(char *list, const yk_transform_random_resized_crop *crop)
{
    yk_transform_step step = yk_transform_step_of(YK_TRANSFORM_RESIZE);
    int longer = crop->height > crop->width ? crop->height : crop->width;
    step.resize.height = step.resize.width = longer * 256 / USUAL_SIDE;
    step.resize.interpolation = crop->interpolation;
    append_step(list, &step);
}

/*
 * The list for evaluation that goes with one for training: the same size without random choices. A
 * random crop of any part of a picture becomes the usual resize and centre crop.
 */
static void derive_evaluation(char *eval, const yk_transforms *train)
{
    eval[0] = '\0';
    for (int i = 0; i < yk_transforms_count(train); i++) {
        const yk_transform_step *step = yk_transforms_step(train, i);
        if (step->kind == YK_TRANSFORM_RANDOM_RESIZED_CROP) {
            const yk_transform_random_resized_crop *crop = &step->random_resized_crop;
            append_resize(eval, crop);
            append_center_crop(eval, crop->height, crop->width);
        } else if (step->kind == YK_TRANSFORM_RANDOM_CROP) {
            append_center_crop(eval, step->random_crop.height, step->random_crop.width);
        } else if (step->kind == YK_TRANSFORM_RESIZE || step->kind == YK_TRANSFORM_CENTER_CROP ||
                   step->kind == YK_TRANSFORM_GRAYSCALE || step->kind == YK_TRANSFORM_NORMALIZE) {
            append_step(eval, step);
        }
    }
}

/* ---- both lists ------------------------------------------------------------------------------ */

static bool is_preset(const char *augment)
{
    return !augment || cli_is_choice("cifar|imagenet|none", augment);
}

static bool is_list(const char *name, const char *option, const char *text)
{
    yk_transforms *list;
    if (!text || yk_transforms_parse(&list, text) == YK_OK) {
        if (text)
            yk_transforms_destroy(list);
        return true;
    }
    cli_usage_error(name, "%s: %s", option, cli_reason());
    return false;
}

bool cli_check_augment(const char *name, const cli_augment *a)
{
    bool usual = is_preset(a->preset);
    if (!usual && !is_list(name, "--augment", a->preset))
        return false;
    if (usual || (a->color_jitter == 0 && a->image_size == 0))
        return is_list(name, "--eval-transforms", a->evaluation);
    cli_usage_error(name, "%s applies to the presets of --augment: write %s into the list",
                    a->color_jitter > 0 ? "--color-jitter" : "--image-size",
                    a->color_jitter > 0 ? "ColorJitter" : "the size");
    return false;
}

enum { NUMBER = 32 };

/* The shortest text that reads back to the same number. */
static const char *number_text(char text[NUMBER], double number)
{
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(text, NUMBER, "%.*g", digits, number);
        if (strtod(text, NULL) == number)
            break;
    }
    return text;
}

/* A preset's list, with ColorJitter before its Normalize, which the user's own may replace. */
static void complete(char *list, const yk_transforms *preset, double jitter, const char *normalize)
{
    char text[4 * NUMBER], number[NUMBER];
    number_text(number, jitter);
    snprintf(text, sizeof text, "ColorJitter(%s,%s,%s)", number, number, number);
    for (int i = 0; i < yk_transforms_count(preset); i++) {
        const yk_transform_step *step = yk_transforms_step(preset, i);
        bool normalizes = step->kind == YK_TRANSFORM_NORMALIZE;
        if (normalizes && jitter > 0)
            append(list, text);
        if (normalizes && normalize)
            append(list, normalize);
        else
            append_step(list, step);
    }
}

static bool use_preset(cli_transforms *made, const cli_augment *a, const yk_dataset *data,
                       const yk_field *images)
{
    yk_transforms *train, *eval;
    yk_preset_options options = YK_PRESET_OPTIONS_INIT;
    options.preset = a->preset;
    options.data = yk_dataset_name(data);
    if (a->image_size > 0)
        options.image_size = a->image_size;
    if (!cli_ok(yk_transforms_preset(&train, &eval, images->dims, &options)))
        return false;
    complete(made->train, train, a->color_jitter, a->normalize);
    complete(made->eval, eval, 0, a->normalize);
    yk_transforms_destroy(train);
    yk_transforms_destroy(eval);
    return true;
}

/* The user's own text, to which nothing is added on pictures. */
static bool use_text(cli_transforms *made, const cli_augment *a)
{
    yk_transforms *list;
    if (!cli_ok(yk_transforms_parse(&list, a->preset)))
        return false;
    snprintf(made->train, LIST, "%s", yk_transforms_text(list));
    derive_evaluation(made->eval, list);
    made->mixes = yk_transforms_mix(list);
    yk_transforms_destroy(list);
    return true;
}

static void append_amount(char *list, const char *step, double amount)
{
    char text[64], number[NUMBER];
    snprintf(text, sizeof text, "%s(%s)", step, number_text(number, amount));
    if (amount > 0)
        append(list, text);
}

/* Of numbers, which transforms leave alone, whole samples can be mixed. */
static bool use_none(cli_transforms *made, const cli_augment *a)
{
    yk_transforms *list;
    const char *text = is_preset(a->preset) ? "" : a->preset;
    if (a->preset && is_preset(a->preset) && strcmp(a->preset, "none") != 0)
        return cli_complain("--augment %s: the data are numbers, not pictures", a->preset);
    if (a->evaluation || a->image_size > 0 || a->color_jitter > 0 || a->random_erasing > 0)
        return cli_complain("the data are numbers, not pictures: leave out options that change "
                            "pictures");
    if (!cli_ok(yk_transforms_parse(&list, text)))
        return false;
    made->mixes = yk_transforms_mix(list);
    for (int i = 0; i < yk_transforms_count(list); i++) {
        yk_transform_kind kind = yk_transforms_step(list, i)->kind;
        if (kind != YK_TRANSFORM_MIXUP && kind != YK_TRANSFORM_CUTMIX &&
            kind != YK_TRANSFORM_ONE_HOT) {
            yk_transforms_destroy(list);
            return cli_complain("--augment: the data are numbers, not pictures: expected MixUp, "
                                "CutMix or OneHot alone");
        }
    }
    yk_transforms_destroy(list);
    snprintf(made->train, LIST, "%s", text);
    return true;
}

static bool choose_steps(cli_transforms *made, const cli_augment *a, const yk_dataset *data)
{
    const yk_field *images = yk_dataset_find_field(data, "images");
    if (images->kind == YK_FIELD_TENSOR)
        return use_none(made, a);
    return is_preset(a->preset) ? use_preset(made, a, data, images) : use_text(made, a);
}

/* What is too long has been cut off. */
static bool fits(const char *list)
{
    return strlen(list) < LIST - 1 ||
           cli_complain("transforms: a list of more than %d characters", LIST - 2);
}

bool cli_choose_transforms(cli_transforms *made, const cli_augment *a, const yk_dataset *data)
{
    *made = (cli_transforms){.mixes = false};
    if (!choose_steps(made, a, data))
        return false;
    if (a->evaluation)
        snprintf(made->eval, LIST, "%s", a->evaluation);
    append_amount(made->train, "RandomErasing", a->random_erasing);
    append_amount(made->train, "MixUp", a->mixup);
    append_amount(made->train, "CutMix", a->cutmix);
    made->mixes = made->mixes || a->mixup > 0 || a->cutmix > 0;
    if (made->mixes)
        append(made->eval, "OneHot");
    return fits(made->train) && fits(made->eval);
}

/* ---- what a network gets --------------------------------------------------------------------- */

/* The size that a list makes of the field's pictures. */
static bool size_after(yk_field *images, const char *text, const char *option)
{
    yk_transforms *list;
    if (!cli_ok(yk_transforms_parse(&list, text)))
        return false;
    yk_status status = yk_transforms_output_size(list, images->dims, images->dims);
    yk_transforms_destroy(list);
    return status == YK_OK || cli_complain("%s: %s", option, cli_reason());
}

bool cli_apply_transforms(yk_field *images, const cli_transforms *transforms)
{
    yk_field evaluated = *images;
    if (images->kind == YK_FIELD_TENSOR)
        return true;
    if (!size_after(images, transforms->train, "--augment") ||
        !size_after(&evaluated, transforms->eval, "--eval-transforms"))
        return false;
    if (memcmp(images->dims, evaluated.dims, 3 * sizeof *images->dims) == 0)
        return true;
    return cli_complain("training pictures become %lldx%lldx%lld, but those of evaluation "
                        "%lldx%lldx%lld: name matching --eval-transforms",
                        (long long)images->dims[0], (long long)images->dims[1],
                        (long long)images->dims[2], (long long)evaluated.dims[0],
                        (long long)evaluated.dims[1], (long long)evaluated.dims[2]);
}

bool cli_check_evaluated(const yk_field *images, const yk_dataset *test,
                         const cli_transforms *transforms)
{
    yk_field evaluated;
    if (!cli_find_images(&evaluated, test))
        return false;
    if (evaluated.kind != YK_FIELD_TENSOR &&
        !size_after(&evaluated, transforms->eval, "--eval-transforms"))
        return false;
    if (evaluated.ndim == images->ndim &&
        memcmp(images->dims, evaluated.dims, (size_t)images->ndim * sizeof *images->dims) == 0)
        return true;
    if (images->ndim != 3 || evaluated.ndim != 3)
        return cli_complain("%s: the shapes of images for training and for validation differ",
                            yk_dataset_name(test));
    bool same_channels = evaluated.dims[0] == images->dims[0];
    return cli_complain("%s: images for validation are %lldx%lldx%lld, those for training "
                        "%lldx%lldx%lld%s",
                        yk_dataset_name(test), (long long)evaluated.dims[0],
                        (long long)evaluated.dims[1], (long long)evaluated.dims[2],
                        (long long)images->dims[0], (long long)images->dims[1],
                        (long long)images->dims[2],
                        same_channels ? ": --image-size brings pictures to one size" : "");
}

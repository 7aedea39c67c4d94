/* The usual lists of transforms for training and for evaluation: see yk_transforms_preset. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/options.h"
#include "data/transforms/transforms.h"
#include "image/picture.h"

enum { USUAL_SIDE = 224, TEXT_BYTES = 512 };

/* What a list is made for. */
typedef struct preset {
    const char *name;
    int side, height, width; /* of the result */
    bool sized;              /* pictures of one size, which is kept */
    const char *normalize;   /* a mean and deviation, or their name */
} preset;

/* ---- the usual choice ------------------------------------------------------------------------ */

static const char *usual_preset(const int64_t dims[3], bool one_size)
{
    if (!one_size)
        return "imagenet";
    return dims[0] == 1 ? "none" : "cifar";
}

static const char *usual_numbers(const char *data, int64_t channels, bool one_size)
{
    static const char *const names[][2] = {{"CIFAR-10", "cifar10"},
                                           {"CIFAR-100", "cifar100"},
                                           {"MNIST", "mnist"},
                                           {"Fashion-MNIST", "fashion-mnist"}};
    for (size_t i = 0; data && i < sizeof names / sizeof *names; i++)
        if (strcasecmp(data, names[i][0]) == 0)
            return names[i][1];
    if (channels != 1 && channels != 3)
        return "0.5,0.25"; /* about those of photographs, for every channel */
    return one_size ? "cifar10" : "imagenet";
}

static yk_status choose(preset *p, const int64_t dims[3], const yk_preset_options *options)
{
    bool one_size = dims[1] > 0 && dims[2] > 0, given = options->image_size != YK_PRESET_SIZE_USUAL;
    if (given && (options->image_size < 1 || options->image_size > YKI_PICTURE_SIDE_MAX))
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "image_size is %lld: expected 1 to %d",
                         (long long)options->image_size, YKI_PICTURE_SIDE_MAX);
    p->name = options->preset ? options->preset : usual_preset(dims, one_size);
    p->sized = one_size && !given;
    p->side = given ? (int)options->image_size : one_size ? (int)dims[1] : USUAL_SIDE;
    p->height = p->sized ? (int)dims[1] : p->side;
    p->width = p->sized ? (int)dims[2] : p->side;
    p->normalize = usual_numbers(options->data, dims[0], one_size);
    return YK_OK;
}

/* ---- the lists ------------------------------------------------------------------------------- */

/* "32" or "(28,20)". */
static void print_size(char text[32], const preset *p)
{
    if (p->height == p->width)
        snprintf(text, 32, "%d", p->height);
    else
        snprintf(text, 32, "(%d,%d)", p->height, p->width);
}

/* What brings pictures to one size, or "". */
static void print_resize(char text[64], const preset *p, int resized)
{
    text[0] = '\0';
    if (!p->sized)
        snprintf(text, 64, "Resize(%d),CenterCrop(%d),", resized, p->side);
}

static yk_status print_lists(const preset *p, char train[TEXT_BYTES], char evaluation[TEXT_BYTES])
{
    char resize[64], size[32];
    print_size(size, p);
    print_resize(resize, p, p->side);
    if (strcmp(p->name, "imagenet") == 0) {
        snprintf(train, TEXT_BYTES, "RandomResizedCrop(%d),RandomHorizontalFlip,Normalize(%s)",
                 p->side, p->normalize);
        snprintf(evaluation, TEXT_BYTES, "Resize(%d),CenterCrop(%d),Normalize(%s)",
                 p->side * 256 / USUAL_SIDE, p->side, p->normalize);
    } else if (strcmp(p->name, "cifar") == 0) {
        snprintf(train, TEXT_BYTES, "%sRandomCrop(%s,padding=4),RandomHorizontalFlip,Normalize(%s)",
                 resize, size, p->normalize);
        snprintf(evaluation, TEXT_BYTES, "%sNormalize(%s)", resize, p->normalize);
    } else if (strcmp(p->name, "none") == 0) {
        snprintf(train, TEXT_BYTES, "%sNormalize(%s)", resize, p->normalize);
        snprintf(evaluation, TEXT_BYTES, "%s", train);
    } else {
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "there is no preset \"%s\": expected imagenet, cifar or none", p->name);
    }
    return YK_OK;
}

yk_status yk_transforms_preset(yk_transforms **train, yk_transforms **evaluation,
                               const int64_t dims[3], const yk_preset_options *given)
{
    YKI_NOT_NULL(train);
    *train = NULL;
    YKI_NOT_NULL(evaluation);
    *evaluation = NULL;
    YKI_NOT_NULL(dims);
    yk_preset_options options;
    preset p = {0};
    char train_text[TEXT_BYTES], evaluation_text[TEXT_BYTES];
    YK_TRY(YKI_READ_OPTIONS(&options, given, yk_preset_options, YK_PRESET_OPTIONS_INIT));
    YK_TRY(choose(&p, dims, &options));
    YK_TRY(print_lists(&p, train_text, evaluation_text));
    YK_TRY(yk_transforms_parse(train, train_text));
    yk_status status = yk_transforms_parse(evaluation, evaluation_text);
    if (status == YK_OK)
        return YK_OK;
    yk_transforms_destroy(*train);
    *train = NULL;
    return status;
}

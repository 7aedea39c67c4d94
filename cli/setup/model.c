/* Builds the model that the options of the command line describe. */
#define _GNU_SOURCE
#include "setup/setup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "options/options.h"

const char *cli_arch_choices(void)
{
    static char choices[4096];
    size_t at = 0;
    const char *name;
    for (size_t i = 0; (name = yk_arch_name(i)) && at < sizeof choices; i++)
        at += (size_t)snprintf(choices + at, sizeof choices - at, "%s%s", i ? "|" : "", name);
    return choices;
}

/* The library names both options as they are called here. */
bool cli_check_model_options(const char *name, const yk_model_options *options)
{
    yk_status status = yk_device_check(options->device);
    if (status == YK_OK && options->autocast && options->amp == YK_AMP_OFF) {
        cli_usage_error(name, "--autocast requires mixed precision: it needs --amp bf16|fp16");
        return false;
    }
    if (status == YK_OK)
        status = yk_autocast_check(options->autocast);
    if (status != YK_OK)
        cli_usage_error(name, "--%s", cli_reason());
    return status == YK_OK;
}

const char *cli_amp_name(yk_amp amp)
{
    return (const char *[]){"off", "bf16", "fp16"}[amp];
}

yk_status cli_freeze(yk_graph *graph, const char *patterns)
{
    char *copy = strdup(patterns ? patterns : ""), *rest = copy, *pattern;
    yk_status status = copy ? YK_OK : yk_set_error(YK_ERROR_OUT_OF_MEMORY, "out of memory");
    while (status == YK_OK && rest && *rest && (pattern = strsep(&rest, ","))) {
        bool trainable = *pattern == '!';
        status = yk_graph_set_trainable(graph, pattern + trainable, trainable, NULL);
    }
    free(copy);
    return status;
}

static yk_value *add_loss(yk_graph *graph, yk_value *logits, const cli_model_setup *setup)
{
    int64_t dims[] = {YK_BATCH, setup->classes};
    yk_cross_entropy_options options = YK_CROSS_ENTROPY_OPTIONS_INIT;
    options.label_smoothing = setup->label_smoothing;
    yk_value *labels = yk_input(graph, "labels", setup->probabilities ? YK_F32 : YK_I32,
                                setup->probabilities ? 2 : 1, dims);
    return yk_cross_entropy(logits, labels, &options);
}

/* The network's logits of images with these dimensions; invalid where they do not fit it. */
static yk_value *add_network(yk_graph *graph, const cli_model_setup *setup, const yk_field *field)
{
    int64_t dims[YK_MAX_DIMS] = {YK_BATCH};
    memcpy(dims + 1, field->dims, sizeof field->dims);
    yk_value *images = yk_input(graph, "images", YK_F32, field->ndim + 1, dims);
    return yk_arch_find(setup->arch)(images, setup->classes);
}

yk_graph *cli_network_of(const char *arch)
{
    const cli_model_setup setup = {.arch = arch, .classes = 10};
    const yk_field images = {.ndim = 3, .dims = {3, 224, 224}};
    yk_graph *graph = yk_graph_create();
    if (graph)
        add_network(graph, &setup, &images);
    return graph;
}

static bool fits(const cli_model_setup *setup, const yk_field *field)
{
    int64_t dims[YK_MAX_DIMS];
    yk_graph *graph = yk_graph_create();
    bool valid = graph && yk_value_shape(add_network(graph, setup, field), dims) > 0;
    yk_graph_destroy(graph);
    return valid;
}

static bool fits_side(const cli_model_setup *setup, int64_t side)
{
    yk_field field = setup->images;
    field.dims[1] = field.dims[2] = side;
    return fits(setup, &field);
}

/* The side of the smallest square images that the network takes; 0 if larger ones do not help, or
 * not all of them. */
static int64_t smallest_side(const cli_model_setup *setup)
{
    enum { MAX_SIDE = 256 };
    const yk_field *field = &setup->images;
    int64_t side = field->dims[1] < field->dims[2] ? field->dims[1] : field->dims[2];
    while (field->ndim == 3 && ++side <= MAX_SIDE)
        if (fits_side(setup, side))
            return fits_side(setup, side + 1) ? side : 0;
    return 0;
}

/* Says what to do where the images are too small; else what the network says. */
static bool complain_of_images(const cli_model_setup *setup)
{
    char line[1024];
    snprintf(line, sizeof line, "%s", yk_last_error());
    int64_t side = smallest_side(setup);
    if (side == 0)
        return fprintf(stderr, "%s\n", line), false;
    return cli_complain("--arch %s takes images of %lldx%lld and more, not of %lldx%lld: choose a "
                        "larger --image-size",
                        setup->arch, (long long)side, (long long)side,
                        (long long)setup->images.dims[1], (long long)setup->images.dims[2]);
}

yk_status cli_check_weights(yk_tensor_file *file, const cli_model_setup *setup)
{
    int64_t dims[YK_MAX_DIMS];
    yk_graph *graph = yk_graph_create();
    if (!graph)
        return yk_set_error(YK_ERROR_OUT_OF_MEMORY, "out of memory");
    bool valid = yk_arch_find(setup->arch) &&
                 yk_value_shape(add_network(graph, setup, &setup->images), dims) > 0;
    yk_status status = valid ? yk_tensor_file_check_graph(file, graph) : YK_OK;
    yk_graph_destroy(graph);
    return status;
}

bool cli_build_model(yk_model **model, const cli_model_setup *setup)
{
    *model = NULL;
    if (!yk_arch_find(setup->arch))
        return cli_complain("unknown network \"%s\": `yoke info` lists them", setup->arch);
    yk_graph *graph = yk_graph_create();
    if (!graph)
        return cli_complain("out of memory");
    yk_model_options options = setup->options;
    options.logits = add_network(graph, setup, &setup->images);
    yk_value *loss = setup->inference ? NULL : add_loss(graph, options.logits, setup);
    int64_t dims[YK_MAX_DIMS];
    bool fitting = yk_value_shape(options.logits, dims) > 0;
    if (!fitting && yk_model_create(model, loss, &options) != YK_OK)
        complain_of_images(setup);
    else if (cli_ok(cli_freeze(graph, setup->freeze)) &&
             cli_ok(yk_model_create(model, loss, &options)))
        return true;
    yk_graph_destroy(graph);
    return false;
}

/* ---- what its files say about it ------------------------------------------------------------- */

/* The numbers of Normalize in a list of transforms for pictures of so many channels, of which more
 * than 3 have the same: mean and std (channels). 0 and 1 where the list has none. */
static void find_normalization(const yk_transforms *list, int channels, float *mean, float *std)
{
    yk_transform_normalize numbers = yk_transform_step_of(YK_TRANSFORM_NORMALIZE).normalize;
    for (int i = 0; i < yk_transforms_count(list); i++)
        if (yk_transforms_step(list, i)->kind == YK_TRANSFORM_NORMALIZE)
            numbers = yk_transforms_step(list, i)->normalize;
    for (int c = 0; c < channels; c++) {
        mean[c] = (float)numbers.mean[c < 3 ? c : 0];
        std[c] = (float)numbers.std[c < 3 ? c : 0];
    }
}

/* The steps that apply to pictures: labels become no probabilities where there are none. */
static bool keep_picture_steps(yk_transforms **pictures, const char *text)
{
    yk_transforms *all;
    int count = 0;
    *pictures = NULL;
    if (!cli_ok(yk_transforms_parse(&all, text)))
        return false;
    yk_transform_step *steps = calloc((size_t)yk_transforms_count(all) + 1, sizeof *steps);
    for (int i = 0; steps && i < yk_transforms_count(all); i++) {
        steps[count] = *yk_transforms_step(all, i);
        count += steps[count].kind != YK_TRANSFORM_ONE_HOT;
    }
    bool fine = steps ? cli_ok(yk_transforms_create(pictures, steps, count))
                      : cli_complain("out of memory");
    free(steps);
    yk_transforms_destroy(all);
    return fine;
}

bool cli_set_info(yk_model *model, const cli_model_setup *setup, const char *const *class_names,
                  const char *transforms)
{
    yk_model_info info = YK_MODEL_INFO_INIT;
    yk_transforms *list;
    if (!keep_picture_steps(&list, transforms))
        return false;
    int channels = setup->images.ndim == 3 ? (int)setup->images.dims[0] : 0;
    float *numbers = calloc(2 * (size_t)channels + 1, sizeof *numbers);
    if (!numbers) {
        yk_transforms_destroy(list);
        return cli_complain("out of memory");
    }
    find_normalization(list, channels, numbers, numbers + channels);
    info.arch = setup->arch;
    info.classes = setup->classes;
    info.channels = channels;
    info.mean = numbers;
    info.std = numbers + channels;
    info.transforms = yk_transforms_text(list);
    if (setup->images.ndim == 3)
        memcpy(info.image_size, setup->images.dims, sizeof info.image_size);
    info.class_names = class_names;
    bool fine = cli_ok(yk_model_set_info(model, &info));
    free(numbers);
    yk_transforms_destroy(list);
    return fine;
}

bool cli_describe_model(yk_model *model, const cli_model_setup *setup, const yk_dataset *data,
                        const char *transforms)
{
    enum { NAME = 32 };
    size_t classes = (size_t)setup->classes;
    const char **names = calloc(classes, sizeof *names);
    char(*numbers)[NAME] = calloc(classes, sizeof *numbers); /* of classes that the data lacks */
    for (size_t i = 0; names && numbers && i < classes; i++) {
        const char *name = yk_dataset_class_name(data, (int64_t)i);
        snprintf(numbers[i], NAME, "class %zu", i);
        names[i] = name ? name : numbers[i];
    }
    bool named = yk_dataset_class_name(data, 0) != NULL;
    bool fine = names && numbers ? cli_set_info(model, setup, named ? names : NULL, transforms)
                                 : cli_complain("out of memory");
    free(names);
    free(numbers);
    return fine;
}

/* A description with transforms also has the size of the pictures, if it is one of pictures. */
bool cli_check_pictures(const char *path, const yk_model_info *info)
{
    bool numbers = info && info->transforms && !info->image_size[0];
    return !numbers ||
           cli_complain("%s: its network was trained on numbers, not on pictures", path);
}

bool cli_normalize_as(char *text, size_t size, const yk_model_info *info)
{
    if (!info || !info->mean || !info->std || info->channels < 1)
        return false;
    const float *mean = info->mean, *std = info->std;
    if (info->channels != 3) /* more have the same */
        snprintf(text, size, "Normalize(%.9g,%.9g)", (double)mean[0], (double)std[0]);
    else
        snprintf(text, size, "Normalize((%.9g,%.9g,%.9g),(%.9g,%.9g,%.9g))", (double)mean[0],
                 (double)mean[1], (double)mean[2], (double)std[0], (double)std[1], (double)std[2]);
    return true;
}

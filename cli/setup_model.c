/* Builds the model that the options of the command line describe. */
#define _GNU_SOURCE
#include "setup.h"

#include <stdlib.h>
#include <string.h>

#include "options.h"

const char *cli_arch_choices(void)
{
    static char choices[512];
    size_t at = 0;
    const char *name;
    for (size_t i = 0; (name = yk_arch_name(i)) && at < sizeof choices; i++)
        at += (size_t)snprintf(choices + at, sizeof choices - at, "%s%s", i ? "|" : "", name);
    return choices;
}

bool cli_check_model(const char *name, const cli_model_setup *setup)
{
    if (!yk_arch_find(setup->arch))
        cli_usage_error(name, "--arch %s: expected one of %s", setup->arch, cli_arch_choices());
    else if (setup->options.autocast && setup->options.amp == YK_AMP_OFF)
        cli_usage_error(name, "--autocast requires mixed precision: it needs --amp bf16|fp16");
    else if (yk_autocast_check(setup->options.autocast) != YK_OK)
        cli_usage_error(name, "--%s", strstr(yk_last_error(), "autocast"));
    else
        return true;
    return false;
}

const char *cli_amp_name(yk_amp amp)
{
    return (const char *[]){"off", "bf16", "fp16"}[amp];
}

/* Patterns are applied in turn; "!PATTERN" thaws. */
static bool freeze(yk_graph *graph, const char *patterns)
{
    char *copy = strdup(patterns ? patterns : ""), *rest = copy, *pattern;
    bool fine = copy != NULL;
    while (fine && patterns && (pattern = strsep(&rest, ","))) {
        bool trainable = *pattern == '!';
        fine = cli_ok(yk_graph_set_trainable(graph, pattern + trainable, trainable, NULL));
    }
    free(copy);
    return fine;
}

bool cli_build_model(yk_model **model, const cli_model_setup *setup)
{
    *model = NULL;
    yk_arch_fn arch = yk_arch_find(setup->arch);
    if (!arch)
        return cli_complain("unknown network \"%s\"; expected one of %s", setup->arch,
                            cli_arch_choices());
    yk_graph *graph = yk_graph_create();
    if (!graph)
        return cli_complain("out of memory");
    int64_t dims[YK_MAX_DIMS] = {YK_BATCH};
    memcpy(dims + 1, setup->images.dims, sizeof setup->images.dims);
    yk_value *images = yk_input(graph, "images", YK_F32, setup->images.ndim + 1, dims);
    yk_value *labels =
        yk_input(graph, "labels", setup->probabilities ? YK_F32 : YK_I32,
                 setup->probabilities ? 2 : 1, (int64_t[]){YK_BATCH, setup->classes});
    yk_value *logits = arch(images, setup->classes);
    yk_cross_entropy_options cross_entropy = YK_CROSS_ENTROPY_OPTIONS_INIT;
    cross_entropy.label_smoothing = setup->label_smoothing;
    yk_value *loss = yk_cross_entropy(logits, labels, &cross_entropy);
    yk_model_options options = setup->options;
    options.logits = logits;
    if (freeze(graph, setup->freeze) && cli_ok(yk_model_create(model, loss, &options)))
        return true;
    yk_graph_destroy(graph);
    return false;
}

typedef struct normalization {
    float mean[3], std[3];
} normalization;

/* The numbers of Normalize in a list of transforms; 0 and 1 where it has none. */
static bool find_normalization(normalization *numbers, const char *transforms)
{
    yk_transforms *list;
    *numbers = (normalization){{0, 0, 0}, {1, 1, 1}};
    if (!cli_ok(yk_transforms_parse(&list, transforms)))
        return false;
    for (int i = 0; i < yk_transforms_count(list); i++) {
        const yk_transform_step *step = yk_transforms_step(list, i);
        for (int c = 0; c < 3 && step->kind == YK_TRANSFORM_NORMALIZE; c++) {
            numbers->mean[c] = (float)step->normalize.mean[c];
            numbers->std[c] = (float)step->normalize.std[c];
        }
    }
    yk_transforms_destroy(list);
    return true;
}

bool cli_describe_model(yk_model *model, const char *arch, const yk_dataset *data,
                        const char *transforms)
{
    yk_model_info info = YK_MODEL_INFO_INIT;
    normalization numbers;
    if (!find_normalization(&numbers, transforms))
        return false;
    info.arch = arch;
    info.classes = yk_dataset_classes(data);
    info.channels = sizeof numbers.mean / sizeof *numbers.mean;
    info.mean = numbers.mean;
    info.std = numbers.std;
    const char **names = calloc((size_t)info.classes, sizeof *names);
    if (!names)
        return cli_complain("out of memory");
    for (int64_t i = 0; i < info.classes; i++)
        names[i] = yk_dataset_class_name(data, i);
    info.class_names = yk_dataset_class_name(data, 0) ? names : NULL;
    const yk_field *images = yk_dataset_find_field(data, "images");
    if (images && images->ndim == 3 && images->dims[1] > 0 && images->dims[2] > 0)
        memcpy(info.image_size, images->dims, sizeof info.image_size);
    bool fine = cli_ok(yk_model_set_info(model, &info));
    free(names);
    return fine;
}

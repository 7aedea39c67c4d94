/* See subject.h. */
#include "evaluate/subject.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* The value of a setting in lines "NAME=VALUE" (or "--NAME=VALUE", as checkpoints of earlier
 * versions have them); false where there is none. */
static bool find_setting(const char *lines, const char *name, char *value, size_t size)
{
    size_t length = strlen(name);
    for (const char *line = lines; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        const char *at = strncmp(line, "--", 2) == 0 ? line + 2 : line;
        if (strncmp(at, name, length) != 0 || at[length] != '=')
            continue;
        at += length + 1;
        snprintf(value, size, "%.*s", (int)strcspn(at, "\n"), at);
        return true;
    }
    return false;
}

/* The classes of the network that --arch names or, without it, which network it is by its tensors:
 * it may be none. */
static bool recognise(cli_subject *s, const char **arch)
{
    yk_status status = s->options.arch_given
                           ? yk_tensor_file_count_classes(s->file, s->options.arch, &s->classes)
                           : yk_tensor_file_find_arch(s->file, arch, &s->classes);
    s->recognised = *arch != NULL;
    return status == YK_ERROR_NOT_FOUND || cli_ok(status);
}

/* The network and the normalisation, from the description in the file. */
static bool read_description(cli_subject *s)
{
    if (!cli_ok(yk_tensor_file_open(&s->file, s->path)) ||
        !cli_ok(yk_tensor_file_info(s->file, &s->info)))
        return false;
    const char *arch = s->info ? s->info->arch : NULL;
    s->classes = s->info ? s->info->classes : 0;
    if (!arch && !recognise(s, &arch))
        return false;
    if (arch)
        snprintf(s->arch, sizeof s->arch, "%s", arch);
    if (cli_normalize_as(s->normalize, sizeof s->normalize, s->info))
        s->augment.normalize = s->normalize;
    return true;
}

/* The network and the data, from the state of the run that saved the file; where it has none they
 * stay as they are. */
static bool read_run(cli_subject *s)
{
    yk_training_state state;
    char part[64];
    yk_status status = yk_checkpoint_read_state(s->path, &state);
    if (status == YK_ERROR_NOT_FOUND)
        return true;
    if (!cli_ok(status))
        return false;
    s->of_a_run = state.program[0] != '\0';
    if (yk_arch_find(state.arch))
        snprintf(s->arch, sizeof s->arch, "%s", state.arch);
    if (find_setting(state.program, "augment", s->preset, sizeof s->preset))
        s->augment.preset = s->preset;
    if (find_setting(state.program, "eval-transforms", s->evaluation, sizeof s->evaluation))
        s->augment.evaluation = s->evaluation;
    if (find_setting(state.program, "image-size", part, sizeof part))
        s->augment.image_size = atoi(part);
    if (find_setting(state.program, "label-smoothing", part, sizeof part))
        s->label_smoothing = atof(part);
    if (find_setting(state.program, "skip-damaged", part, sizeof part))
        s->options.skip_damaged |= strcmp(part, "true") == 0;
    if (s->options.data_given)
        return true;
    if (find_setting(state.program, "data", s->data, sizeof s->data))
        s->options.data = s->data;
    if (find_setting(state.program, "val-split", part, sizeof part))
        s->val_split = atof(part);
    return true;
}

/* Without --data nothing is downloaded: data is looked for where an earlier download put it. */
static bool find_data(cli_subject *s, const yk_group *world)
{
    struct stat info;
    char path[CLI_DATA_PATH - 64];
    const char *detail, *data = s->options.data;
    const cli_data_kind *kind = cli_data_kind_of(data, &detail);
    bool downloads = cli_data_is_download(kind, detail), found = true, recorded = data == s->data;
    const char *name = kind ? kind->name : "";
    if (s->options.data_given)
        return true;
    if (!kind)
        found = stat(data, &info) == 0 && S_ISDIR(info.st_mode);
    else if (downloads && (found = yk_download_find(path, sizeof path, name) == YK_OK))
        s->options.data = s->data;
    if (downloads && found)
        snprintf(s->data, sizeof s->data, "%s:%s", name, path);
    if (!found && yk_group_rank(world) == 0)
        cli_complain(
            "the data of this evaluation, %s%s, is not here: name a folder with --data%s%s", data,
            recorded ? "" : " (the default: the checkpoint names none)",
            downloads ? ", or download it with --data " : "", downloads ? name : "");
    return found;
}

bool cli_subject_find(cli_subject *s, const char *checkpoint, const yk_group *world)
{
    if (!cli_find_checkpoint(s->path, sizeof s->path, checkpoint) || !read_description(s) ||
        !read_run(s) || !find_data(s, world))
        return false;
    if (s->options.arch_given)
        return true;
    if (!s->arch[0])
        return cli_complain("%s does not say which network it is of, and its tensors fit none: "
                            "name it with --arch; a program's own network needs that program",
                            s->path);
    s->options.arch = s->arch;
    return true;
}

int64_t cli_subject_classes(const cli_subject *s, const yk_dataset *test)
{
    int64_t classes = yk_dataset_classes(test);
    return s->classes > classes ? s->classes : classes;
}

bool cli_subject_check_classes(const cli_subject *s, const yk_dataset *test)
{
    int64_t known = s->info && s->info->class_names ? s->info->classes : 0;
    for (int64_t label = 0; label < known && label < yk_dataset_classes(test); label++) {
        const char *name = yk_dataset_class_name(test, label);
        const char *learnt = s->info->class_names[label];
        if (name && strcmp(name, learnt) != 0)
            return cli_complain("%s: class %lld is \"%s\", which the network of %s knows as "
                                "\"%s\": expected the classes that it was trained on",
                                yk_dataset_name(test), (long long)label, name, s->path, learnt);
    }
    return true;
}

void cli_subject_warn_of_classes(const cli_subject *s, const yk_dataset *test)
{
    int64_t there = yk_dataset_classes(test);
    bool named = s->info && s->info->class_names && yk_dataset_class_name(test, 0);
    bool own = s->of_a_run && !s->options.data_given;
    if (s->classes > there && !named && !own)
        cli_complain("the network of %s knows %lld classes, %s has %lld: labels are taken for the "
                     "first of these classes; if they are others, the accuracy means nothing",
                     s->path, (long long)s->classes, yk_dataset_name(test), (long long)there);
}

bool cli_subject_choose_transforms(cli_transforms *made, const cli_subject *s,
                                   const yk_dataset *test)
{
    const yk_field *images = yk_dataset_find_field(test, "images");
    bool pictures = images->kind != YK_FIELD_TENSOR;
    bool described = (s->info && s->info->transforms) || images->dims[1] == YK_ANY_SIZE;
    cli_augment augment = s->augment;
    cli_trained t = {.arch = s->options.arch, .info = s->info, .image_size = s->options.image_size};
    if (pictures && (t.image_size || (!s->of_a_run && described))) {
        snprintf(t.path, sizeof t.path, "%s", s->path);
        if (!cli_trained_choose_transforms(&t, images->dims))
            return false;
        augment = (cli_augment){.preset = t.transforms, .evaluation = t.transforms};
    }
    return cli_choose_transforms(made, &augment, test);
}

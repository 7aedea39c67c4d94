/*
 * A trained network from a file: what it is, and what is done to its pictures, by what the file
 * records or else by its tensors and by what is usual.
 */
#include "common/plural.h"
#include "setup/setup.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static int64_t usual_side(const char *arch)
{
    static const char *const for_small_images[] = {
        "resnet9", "resnet18-cifar", "airbench94", "airbench96", "mlp", "vit-tiny-patch4-32"};
    for (size_t i = 0; i < sizeof for_small_images / sizeof *for_small_images; i++)
        if (yk_arch_find(arch) == yk_arch_find(for_small_images[i]))
            return 32;
    return 224;
}

/* The size of the network's pictures: as asked for, or as trained, or as is usual. */
static void choose_size(cli_trained *t)
{
    const int64_t *trained = t->info && t->info->image_size[0] ? t->info->image_size : NULL;
    t->size[0] = trained ? trained[0] : 3;
    t->size[1] = trained ? trained[1] : usual_side(t->arch);
    t->size[2] = trained ? trained[2] : usual_side(t->arch);
    if (t->image_size)
        t->size[1] = t->size[2] = t->image_size;
}

/* Large pictures are cut out of slightly larger ones, as in torchvision's evaluation. */
static void bring_to_size(const cli_trained *t, char *text, size_t room)
{
    long long height = t->size[1], width = t->size[2], side = height > width ? height : width;
    snprintf(text, room, "Resize(%lld),CenterCrop((%lld,%lld)),%s",
             side >= 64 ? side * 256 / 224 : side, height, width,
             t->size[0] == 1 ? "Grayscale," : "");
}

/* Whether the list makes pictures of the network's size out of these. */
static bool fits(const cli_trained *t, const yk_transforms *list, const int64_t pictures[3])
{
    int64_t made[3];
    return yk_transforms_output_size(list, pictures, made) == YK_OK &&
           memcmp(made, t->size, sizeof made) == 0;
}

/*
 * What the run did to the pictures that it evaluated. Where that does not fit these pictures, since
 * its own were of one size already, or since another size is asked for, they are brought to the
 * size first.
 */
bool cli_trained_choose_transforms(cli_trained *t, const int64_t pictures[3])
{
    const char *trained = t->info ? t->info->transforms : NULL;
    char normalize[256] = "", sized[128];
    yk_transforms *list = NULL;
    choose_size(t);
    if (trained && !cli_ok(yk_transforms_parse(&list, trained)))
        return cli_complain("%s: its description has these transforms: %s", t->path, trained);
    bool usable = list && fits(t, list, pictures);
    yk_transforms_destroy(list);
    if (usable) {
        snprintf(t->transforms, sizeof t->transforms, "%s", trained);
        return true;
    }
    if (!cli_normalize_as(normalize, sizeof normalize, t->info))
        snprintf(normalize, sizeof normalize, "Normalize(%s)",
                 t->size[1] >= 64 ? "imagenet" : "cifar10");
    bring_to_size(t, sized, sizeof sized);
    snprintf(t->transforms, sizeof t->transforms, "%s%s", sized, normalize);
    return true;
}

bool cli_find_checkpoint(char *path, size_t size, const char *operand)
{
    struct stat info;
    if (stat(operand, &info) == 0 && S_ISDIR(info.st_mode))
        return cli_ok(yk_checkpoint_dir_latest(operand, path, size));
    return (size_t)snprintf(path, size, "%s", operand) < size ||
           cli_complain("%s: %s", operand, strerror(ENAMETOOLONG));
}

bool cli_weights_loaded(yk_status status, const char *path, const char *arch)
{
    char reason[2048];
    const char *found = NULL;
    int64_t classes;
    yk_tensor_file *file;
    if (status != YK_ERROR_MISMATCH)
        return cli_ok(status);
    snprintf(reason, sizeof reason, "%s", cli_reason());
    bool known = yk_tensor_file_open(&file, path) == YK_OK &&
                 yk_tensor_file_find_arch(file, &found, &classes) == YK_OK;
    bool told = !known ? cli_complain("%s", reason)
                : yk_arch_find(found) != yk_arch_find(arch)
                    ? cli_complain("%s: holds weights of %s, not of %s: name it with --arch %s",
                                   path, found, arch, found)
                    : cli_complain("%s (its weights are for %lld %s)", reason, (long long)classes,
                                   cli_plural(classes, "class", "classes"));
    yk_tensor_file_close(file);
    return told;
}

/* What the file is of, from its description or else from its tensors. */
static bool read_description(cli_trained *t, const char *arch)
{
    if (!cli_ok(yk_tensor_file_open(&t->file, t->path)) ||
        !cli_ok(yk_tensor_file_info(t->file, &t->info)))
        return false;
    t->arch = arch ? arch : t->info ? t->info->arch : NULL;
    t->classes = t->info ? t->info->classes : 0;
    if (!t->arch && !cli_ok(yk_tensor_file_find_arch(t->file, &t->arch, &t->classes)))
        return false;
    if (!t->classes && !cli_ok(yk_tensor_file_count_classes(t->file, t->arch, &t->classes)))
        return false;
    return cli_trained_choose_transforms(t, (int64_t[]){3, YK_ANY_SIZE, YK_ANY_SIZE});
}

bool cli_trained_open(cli_trained *t, const char *checkpoint, const char *arch, int64_t image_size)
{
    *t = (cli_trained){.image_size = image_size};
    return cli_find_checkpoint(t->path, sizeof t->path, checkpoint) && read_description(t, arch);
}

bool cli_trained_load(cli_trained *t, const yk_model_options *options, bool ema)
{
    const char *source;
    cli_model_setup setup = {.arch = t->arch,
                             .options = *options,
                             .classes = t->classes,
                             .inference = true,
                             .images = {"images", YK_FIELD_IMAGE, YK_U8, 3, {3}}};
    memcpy(setup.images.dims, t->size, sizeof t->size);
    setup.options.threads = cli_threads(options->threads, 1, &source);
    return cli_weights_loaded(cli_check_weights(t->file, &setup), t->path, t->arch) &&
           cli_build_model(&t->model, &setup) &&
           cli_set_info(t->model, &setup, t->info ? t->info->class_names : NULL, t->transforms) &&
           cli_weights_loaded((ema ? yk_model_load_ema : yk_model_load)(t->model, t->path), t->path,
                              t->arch);
}

void cli_trained_close(cli_trained *t)
{
    yk_model_destroy(t->model);
    yk_tensor_file_close(t->file);
}

/* `yoke data`: describes, previews, downloads and packs data sets. */
#define _GNU_SOURCE
#include "cli.h"
#include "common/files.h"
#include "common/plural.h"
#include "data/info.h"
#include "data/preview.h"
#include "options/options.h"
#include "options/paths.h"
#include "setup/download.h"
#include "setup/setup.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <yoke/readers.h>

static const char summary[] =
    "Inspects a data set without training on it.\n\n"
    "  info      count the images of each class, and compute mean and deviation\n"
    "  preview   write a PNG with the first images of each class, one class a row\n"
    "  download  download DATA into the cache if it is not there, and print its\n"
    "            folder; without DATA, list what can be downloaded\n"
    "  pack      decode and resize images once, into a file for --data pack:FILE\n\n"
    "DATA is a folder whose content tells what it is, or one of these [synthetic]:\n";

static const char examples[] =
    "  yoke data preview synthetic\n"
    "  yoke data preview ~/data --split test -o sheet.png\n"
    "  yoke data preview folder:photos --augment imagenet --image-size 96\n"
    "  yoke data info cifar10\n"
    "  yoke data download fashion-mnist\n"
    "  yoke data pack folder:photos --image-size 256\n"
    "  yoke data pack folder:photos --image-size 256 --format jpeg --skip-damaged";

typedef struct data_options {
    const char *split, *output, *augment;
    int64_t columns, image_size;
    const char *format;
    int64_t quality;
    bool augment_given, split_given, output_given, columns_given, size_given, format_given,
        quality_given, skip_damaged;
} data_options;

/* Prints the library's last error and returns the exit code of a failure. */
static int print_failure(void)
{
    fprintf(stderr, "%s\n", yk_last_error());
    return CLI_EXIT_FAILED;
}

/* ---- preview --------------------------------------------------------------------------------- */

static int draw_preview(const yk_dataset *dataset, const data_options *options)
{
    cli_transforms chosen = {.mixes = false};
    cli_augment augment = {.preset = options->augment, .image_size = options->image_size};
    if (options->augment && !cli_choose_transforms(&chosen, &augment, dataset))
        return CLI_EXIT_FAILED;
    if (!cli_preview_write(dataset, options->output, (int)options->columns,
                           options->augment ? chosen.train : NULL, options->skip_damaged))
        return CLI_EXIT_FAILED;
    printf("%s\n", options->output);
    return CLI_EXIT_OK;
}

/* ---- pack ------------------------------------------------------------------------------------ */

/* The number of images that a packed file has got. */
static int print_packed(const char *path)
{
    yk_dataset *packed;
    if (yk_pack_open(&packed, path, YK_SPLIT_TRAIN) != YK_OK)
        return print_failure();
    int64_t images = yk_dataset_size(packed);
    printf("%s: %lld %s\n", path, (long long)images, cli_plural(images, "image", "images"));
    yk_dataset_destroy(packed);
    return CLI_EXIT_OK;
}

/* What has been packed so far, which may be large, and of no use to anyone who stops. */
static char unfinished[PATH_MAX];

static void remove_unfinished(int number)
{
    unlink(unfinished);
    signal(number, SIG_DFL);
    raise(number);
}

/* The name is the library's (docs/file-formats.md). */
static void remove_unfinished_on_signals(const char *path)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    const char *slash = strrchr(path, '/');
    int folder = slash ? (int)(slash - path) + 1 : 0;
    snprintf(unfinished, sizeof unfinished, "%.*s.tmp", folder + NAME_MAX - 4, path);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        if (signal(signals[i], remove_unfinished) == SIG_IGN)
            signal(signals[i], SIG_IGN); /* as under nohup */
}

static int pack_data(const yk_dataset *dataset, const data_options *options)
{
    yk_pack_options pack = YK_PACK_OPTIONS_INIT;
    char target[PATH_MAX];
    if (options->size_given)
        pack.short_side = options->image_size;
    if (options->quality_given)
        pack.quality = (int)options->quality;
    pack.format = strcmp(options->format, "jpeg") == 0    ? YK_PACK_JPEG
                  : strcmp(options->format, "files") == 0 ? YK_PACK_FILES
                                                          : YK_PACK_PIXELS;
    pack.skip_damaged = options->skip_damaged;
    if (!cli_follow_links(target, options->output))
        return CLI_EXIT_FAILED;
    remove_unfinished_on_signals(target);
    if (!cli_ok(yk_pack_write(target, dataset, &pack)))
        return CLI_EXIT_FAILED;
    return print_packed(options->output);
}

/* ---- the command ----------------------------------------------------------------------------- */

/* The images for testing are those for validation. */
static yk_split split_of(const char *name)
{
    return strcmp(name, "train") == 0 ? YK_SPLIT_TRAIN : YK_SPLIT_TEST;
}

static yk_status open_data(yk_dataset **dataset, const char *data, yk_split split)
{
    char path[CLI_DATA_PATH];
    const char *detail;
    const cli_data_kind *kind = cli_data_kind_of(data, &detail);
    bool downloads = cli_data_is_download(kind, detail);
    yk_status status = downloads ? cli_download(path, sizeof path, kind->name) : YK_OK;
    return status == YK_OK ? cli_data_open(dataset, data, downloads ? path : NULL, split) : status;
}

static int download_data(const char *name)
{
    char path[CLI_DATA_PATH];
    if (cli_download(path, sizeof path, name) != YK_OK)
        return print_failure();
    printf("%s\n", path);
    return CLI_EXIT_OK;
}

/* What can be downloaded, and where it is if it has been. */
static int list_downloads(void)
{
    char path[CLI_DATA_PATH];
    const char *name;
    for (int i = 0; (name = yk_download_name(i)); i++) {
        bool there = yk_download_find(path, sizeof path, name) == YK_OK;
        printf("%-14s %s\n", name, there ? path : "not downloaded");
    }
    return CLI_EXIT_OK;
}

static bool reads_split(const char *data, yk_split split, const char *file)
{
    yk_dataset *dataset;
    if (open_data(&dataset, data, split) != YK_OK)
        return false;
    bool reads = yk_dataset_reads_file(dataset, file);
    yk_dataset_destroy(dataset);
    return reads;
}

/* Whether the output would take the place of a file of the data, of either split. */
static bool replaces_input(const yk_dataset *dataset, const char *data, const data_options *options)
{
    yk_split other = split_of(options->split) == YK_SPLIT_TEST ? YK_SPLIT_TRAIN : YK_SPLIT_TEST;
    if (access(options->output, F_OK) != 0 || (!yk_dataset_reads_file(dataset, options->output) &&
                                               !reads_split(data, other, options->output)))
        return false;
    cli_complain("%s: is one of the files that the data are read from: choose another --output",
                 options->output);
    return true;
}

static int use_data(const char *action, const char *data, const data_options *options)
{
    yk_dataset *dataset;
    if (open_data(&dataset, data, split_of(options->split)) != YK_OK)
        return print_failure();
    bool writes = strcmp(action, "info") != 0;
    int code = writes && replaces_input(dataset, data, options) ? CLI_EXIT_FAILED
               : !writes ? cli_data_info(dataset, options->split, options->skip_damaged)
               : strcmp(action, "pack") == 0 ? pack_data(dataset, options)
                                             : draw_preview(dataset, options);
    yk_dataset_destroy(dataset);
    return code;
}

/* The summary, with a line for each kind of data. */
static const char *full_summary(void)
{
    static char text[4096];
    const cli_data_kind *kind;
    size_t at = (size_t)snprintf(text, sizeof text, "%s", summary);
    for (size_t i = 0; (kind = cli_data_kind_at(i)) && at < sizeof text; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "\n  %-26s %s", kind->form, kind->help);
    return text;
}

static int parse_data_options(data_options *o, const char *name, int argc, char **argv,
                              char **operands, int *count)
{
    const cli_option options[] = {
        CLI_CHOICE(0, "split", "train|test|val", "which images to use; val means test [train]",
                   &o->split, &o->split_given),
        CLI_SWITCH(0, "skip-damaged", "leave out damaged images instead of stopping",
                   &o->skip_damaged),
        CLI_GROUP("Options for preview"),
        CLI_INT('c', "columns", "N", "number of images per class [12]", &o->columns,
                &o->columns_given, 1, CLI_PREVIEW_MAX_COLUMNS),
        CLI_TEXT(0, "augment", "cifar|imagenet|none|LIST",
                 "show the images as training gets them, see `yoke train`", &o->augment,
                 &o->augment_given),
        CLI_GROUP("Options for preview and pack"),
        CLI_TEXT('o', "output", "FILE", "file to write [preview.png, train.pack or val.pack]",
                 &o->output, &o->output_given),
        CLI_INT(
            0, "image-size", "N",
            "preview: size of the images, with --augment;\npack: resize the shorter side of each "
            "image to N pixels",
            &o->image_size, &o->size_given, 1, 8192),
        CLI_GROUP("Options for pack"),
        CLI_CHOICE(
            0, "format", "pixels|jpeg|files",
            "how to store each image: as pixels, as a new JPEG\nfile, or as its original file "
            "[pixels]",
            &o->format, &o->format_given),
        CLI_INT(0, "quality", "Q", "quality of JPEG files [90]", &o->quality, &o->quality_given, 1,
                100),
    };
    const cli_command command = {.name = name,
                                 .operands = "info|preview|download|pack [DATA]",
                                 .summary = full_summary(),
                                 .examples = examples,
                                 .options = options,
                                 .option_count = sizeof options / sizeof *options,
                                 .max_operands = 2};
    return cli_options_parse(&command, argc, argv, operands, count);
}

/* "cifar10, ...": what can be downloaded. */
static const char *downloads(void)
{
    static char names[256];
    const char *name;
    size_t at = 0;
    for (int i = 0; (name = yk_download_name(i)) && at < sizeof names; i++)
        at += (size_t)snprintf(names + at, sizeof names - at, "%s%s", i ? ", " : "", name);
    return names;
}

static bool can_download(const char *data)
{
    const char *detail;
    const cli_data_kind *kind = cli_data_kind_of(data, &detail);
    return cli_data_is_download(kind, detail);
}

static int check_data_options(const char *name, const data_options *o, char **operands)
{
    const char *action = operands[0], *data = operands[1];
    if (!action || !cli_is_choice("info|preview|download|pack", action))
        return cli_usage_error(name, "expected info, preview, download or pack, found %s",
                               action ? action : "nothing");
    bool previews = strcmp(action, "preview") == 0, downloading = strcmp(action, "download") == 0;
    bool packs = strcmp(action, "pack") == 0;
    if (!previews && o->columns_given)
        return cli_usage_error(name, "--columns applies to preview only");
    if (!previews && !packs && o->output_given)
        return cli_usage_error(name, "--output applies to preview and pack only");
    if (!packs && o->format_given)
        return cli_usage_error(name, "--format applies to pack only");
    if (o->quality_given && (!packs || strcmp(o->format, "jpeg") != 0))
        return cli_usage_error(name, "--quality applies to pack --format jpeg only");
    if (!previews && o->augment_given)
        return cli_usage_error(name, "--augment applies to preview only");
    if (!packs && !o->augment_given && o->size_given)
        return cli_usage_error(name, "--image-size applies to pack and to preview with --augment");
    if (packs && o->size_given && strcmp(o->format, "files") == 0)
        return cli_usage_error(name, "--image-size does not apply to --format files, which keeps "
                                     "files as they are");
    cli_augment augment = {.preset = o->augment, .image_size = o->image_size};
    if (o->augment_given && !cli_check_augment(name, &augment))
        return CLI_EXIT_USAGE;
    if (downloading && o->skip_damaged)
        return cli_usage_error(name, "--skip-damaged does not apply to download");
    if (downloading && o->split_given)
        return cli_usage_error(name, "--split does not apply to download, which gets all images");
    if (downloading && data && !can_download(data))
        return cli_usage_error(name, "%s cannot be downloaded; expected %s", data, downloads());
    if ((data && !cli_check_data(name, "", data)) ||
        ((previews || packs) && !cli_check_writable_result(name, "--output", o->output)))
        return CLI_EXIT_USAGE;
    return -1;
}

int cli_cmd_data(const char *name, int argc, char **argv)
{
    data_options options = {
        .split = "train", .output = "preview.png", .format = "pixels", .columns = 12};
    char *operands[2] = {NULL};
    int count = 0;
    int code = parse_data_options(&options, name, argc, argv, operands, &count);
    if (code >= 0)
        return code;
    const char *action = operands[0] ? operands[0] : "";
    if (strcmp(action, "pack") == 0 && !options.output_given)
        options.output = split_of(options.split) == YK_SPLIT_TEST ? "val.pack" : "train.pack";
    code = check_data_options(name, &options, operands);
    if (code >= 0)
        return code;
    if (strcmp(action, "download") == 0)
        return count > 1 ? download_data(operands[1]) : list_downloads();
    return use_data(action, count > 1 ? operands[1] : "synthetic", &options);
}

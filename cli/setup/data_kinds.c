/* See data_kinds.h. */
#define _GNU_SOURCE
#include "setup/data_kinds.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <yoke/readers.h>

#include "common/spelling.h"
#include "options/options.h"

/* ---- the kinds ------------------------------------------------------------------------------- */

static yk_status open_synthetic(yk_dataset **dataset, const char *detail, yk_split split)
{
    (void)detail;
    return yk_synthetic_create(dataset, split, NULL);
}

/* detail: "", "CxHxW" or "CxHxW,CLASSES". */
static yk_status open_random(yk_dataset **dataset, const char *detail, yk_split split)
{
    yk_random_options options = YK_RANDOM_OPTIONS_INIT;
    long long c = options.channels, h = options.height, w = options.width, n = options.classes;
    int used = 0, used_classes = 0;
    if (*detail &&
        (sscanf(detail, "%9lldx%9lldx%9lld%n,%9lld%n", &c, &h, &w, &used, &n, &used_classes) < 3 ||
         detail[used_classes ? used_classes : used])) {
        *dataset = NULL;
        return yk_set_error(YK_ERROR_INVALID_ARGUMENT,
                            "random:%s: expected CxHxW or CxHxW,CLASSES, such as "
                            "random:3x224x224,1000",
                            detail);
    }
    options.channels = c;
    options.height = h;
    options.width = w;
    options.classes = n;
    return yk_random_create(dataset, split, &options);
}

static const cli_data_kind kinds[] = {
    {.name = "cifar10",
     .form = "cifar10[:DIR]",
     .help = "CIFAR-10: downloaded once, or the files in DIR",
     .detail = CLI_DATA_DETAIL_PATH,
     .by_content = true,
     .downloads = true,
     .open = yk_cifar10_open},
    {.name = "cifar100",
     .form = "cifar100[:DIR]",
     .help = "CIFAR-100, likewise",
     .detail = CLI_DATA_DETAIL_PATH,
     .downloads = true,
     .by_content = true,
     .open = yk_cifar100_open},
    {.name = "mnist",
     .form = "mnist[:DIR]",
     .help = "MNIST: downloaded once, or the IDX files in DIR",
     .detail = CLI_DATA_DETAIL_PATH,
     .downloads = true,
     .open = yk_mnist_open},
    {.name = "fashion-mnist",
     .form = "fashion-mnist[:DIR]",
     .help = "Fashion-MNIST, likewise",
     .detail = CLI_DATA_DETAIL_PATH,
     .downloads = true,
     .open = yk_fashion_mnist_open},
    {.name = "synthetic",
     .form = "synthetic",
     .help = "ten classes of drawn 3x32x32 images; no files",
     .open = open_synthetic},
    {.name = "random",
     .form = "random[:CxHxW[,CLASSES]]",
     .help = "noise, for measuring speed [random:3x32x32,10]",
     .detail = CLI_DATA_DETAIL_WORDS,
     .open = open_random},
    {.name = "npy",
     .form = "npy:DIR",
     .help = "NumPy arrays: train_images.npy and so on in DIR",
     .detail = CLI_DATA_DETAIL_PATH,
     .needs_detail = true,
     .by_content = true,
     .open = yk_npy_open},
    {.name = "shards",
     .form = "shards:PATTERN",
     .help = "WebDataset shards, as in t-{0..9}.tar::v.tar",
     .detail = CLI_DATA_DETAIL_PATTERNS,
     .needs_detail = true,
     .open = yk_shards_open},
    {.name = "pack",
     .form = "pack:PATH",
     .help = "what `yoke data pack` wrote: a file or a folder",
     .detail = CLI_DATA_DETAIL_PATH,
     .needs_detail = true,
     .by_content = true,
     .open = yk_pack_open},
    {.name = "folder",
     .form = "folder:DIR",
     .help = "JPEG, PNG, WebP: DIR/train/CLASS, DIR/val/CLASS",
     .detail = CLI_DATA_DETAIL_PATH,
     .needs_detail = true,
     .by_content = true,
     .open = yk_folder_open},
};

enum { KINDS = sizeof kinds / sizeof *kinds };

const cli_data_kind *cli_data_kind_at(size_t index)
{
    return index < KINDS ? &kinds[index] : NULL;
}

const cli_data_kind *cli_data_kind_of(const char *text, const char **detail)
{
    for (size_t i = 0; i < KINDS; i++) {
        size_t length = strlen(kinds[i].name);
        if (strncmp(text, kinds[i].name, length) != 0 || (text[length] && text[length] != ':'))
            continue;
        *detail = text + length + (text[length] == ':');
        return &kinds[i];
    }
    *detail = text;
    return NULL;
}

bool cli_data_is_download(const cli_data_kind *kind, const char *detail)
{
    return kind && kind->downloads && !*detail;
}

const char *cli_data_choices(void)
{
    static char choices[512];
    size_t at = 0;
    for (size_t i = 0; i < KINDS && at < sizeof choices; i++)
        at += (size_t)snprintf(choices + at, sizeof choices - at, "%s%s", i ? ", " : "",
                               kinds[i].form);
    if (at < sizeof choices)
        snprintf(choices + at, sizeof choices - at, " or a folder");
    return choices;
}

/* ---- opening --------------------------------------------------------------------------------- */

/* The files of MNIST and Fashion-MNIST have the same names and shapes. */
static bool holds_idx_files(const char *path)
{
    yk_dataset *dataset;
    bool opened = yk_mnist_open(&dataset, path, YK_SPLIT_TRAIN) == YK_OK;
    yk_dataset_destroy(dataset);
    return opened;
}

static yk_status no_validation(const char *path);

/* Asks every kind that can tell whether it knows the folder's content. */
static yk_status open_by_content(yk_dataset **dataset, const char *path, yk_split split)
{
    yk_status status = YK_ERROR_NOT_FOUND;
    for (size_t i = 0; i < KINDS && status == YK_ERROR_NOT_FOUND; i++)
        if (kinds[i].by_content)
            status = kinds[i].open(dataset, path, split);
    if (status != YK_ERROR_NOT_FOUND)
        return status;
    if (split != YK_SPLIT_TRAIN)
        return no_validation(path);
    if (holds_idx_files(path))
        return yk_set_error(status,
                            "%s: the IDX files of MNIST or Fashion-MNIST: say which, with "
                            "mnist:%s or fashion-mnist:%s",
                            path, path, path);
    return yk_set_error(status,
                        "%s: no data that yoke knows: expected CIFAR-10, CIFAR-100, NumPy arrays, "
                        "or pictures in a folder for each class; name the kind, such as folder:%s, "
                        "to learn what is missing",
                        path, path);
}

/* The error of a folder without images for validation, which may have no others either. */
static yk_status no_validation(const char *path)
{
    yk_dataset *train;
    yk_status status = open_by_content(&train, path, YK_SPLIT_TRAIN);
    yk_dataset_destroy(train);
    if (status == YK_ERROR_NOT_FOUND)
        return status;
    return yk_set_error(YK_ERROR_NOT_FOUND, "%s: no images for validation", path);
}

yk_status cli_data_open(yk_dataset **dataset, const char *text, const char *path, yk_split split)
{
    const char *detail;
    const cli_data_kind *kind = cli_data_kind_of(text, &detail);
    if (!kind)
        return open_by_content(dataset, detail, split);
    return kind->open(dataset, *detail || !path ? detail : path, split);
}

/* ---- paths ----------------------------------------------------------------------------------- */

static bool absolute_path(const char *given, char path[PATH_MAX])
{
    if (realpath(given, path))
        return true;
    char *folder = *given == '/' ? NULL : get_current_dir_name(); /* missing, or a pattern */
    int length = snprintf(path, PATH_MAX, "%s%s%s", folder ? folder : "", folder ? "/" : "", given);
    free(folder);
    return length < PATH_MAX;
}

/* A path, or both patterns of "TRAIN::VAL". */
static bool absolute_paths(const char *given, char paths[PATH_MAX])
{
    char train[PATH_MAX], absolute_train[PATH_MAX], val[PATH_MAX];
    const char *separator = strstr(given, "::");
    if (!separator)
        return absolute_path(given, paths);
    if (snprintf(train, sizeof train, "%.*s", (int)(separator - given), given) >= PATH_MAX)
        return false;
    return absolute_path(train, absolute_train) && absolute_path(separator + 2, val) &&
           snprintf(paths, PATH_MAX, "%s::%s", absolute_train, val) < PATH_MAX;
}

bool cli_data_absolute(const char *text, char absolute[CLI_DATA_PATH])
{
    char path[PATH_MAX];
    const char *detail;
    const cli_data_kind *kind = cli_data_kind_of(text, &detail);
    bool patterns = kind && kind->detail == CLI_DATA_DETAIL_PATTERNS;
    bool is_path = !kind || ((patterns || kind->detail == CLI_DATA_DETAIL_PATH) && *detail);
    if (is_path && !(patterns ? absolute_paths : absolute_path)(detail, path))
        return false;
    const char *found = is_path ? path : detail;
    bool colon = kind && *detail;
    return (size_t)snprintf(absolute, CLI_DATA_PATH, "%s%s%s", kind ? kind->name : "",
                            colon ? ":" : "", found) < CLI_DATA_PATH;
}

/* ": did you mean KIND?" for a misspelt kind, of which a path may have been made, or ";". */
static const char *suggest_kind(const char *text)
{
    static char words[64];
    const char *slash = strrchr(text, '/'), *word = slash ? slash + 1 : text;
    cli_spelling near = cli_spelling_begin(word, strcspn(word, ":"));
    for (size_t i = 0; i < KINDS; i++)
        cli_spelling_try(&near, kinds[i].name);
    snprintf(words, sizeof words, near.best && near.distance ? ": did you mean %s?" : ";",
             near.best);
    return words;
}

/* Whether the detail names one file or folder, and not what only the data set's reader knows. */
static bool is_one_path(const cli_data_kind *kind, const char *detail)
{
    return kind->detail == CLI_DATA_DETAIL_PATH || (kind->detail == CLI_DATA_DETAIL_PATTERNS &&
                                                    !strchr(detail, '{') && !strstr(detail, "::"));
}

bool cli_check_data(const char *name, const char *option, const char *text)
{
    struct stat info;
    const char *detail, *space = *option ? " " : "";
    const cli_data_kind *kind = cli_data_kind_of(text, &detail);
    if (!kind) {
        bool exists = stat(text, &info) == 0;
        if (exists && S_ISDIR(info.st_mode))
            return true;
        if (exists)
            cli_usage_error(name, "%s%s%s is a file: write what it is, such as pack:%s", option,
                            space, text, text);
        else
            cli_usage_error(name, "%s%s%s: no such folder%s expected %s", option, space, text,
                            suggest_kind(text), cli_data_choices());
        return false;
    }
    if (*detail && kind->detail == CLI_DATA_DETAIL_NONE)
        cli_usage_error(name, "%s%s%s: expected %s alone", option, space, text, kind->name);
    else if (!*detail && (kind->needs_detail || text[strlen(kind->name)]))
        cli_usage_error(name, "%s%s%s: expected %s", option, space, text, kind->form);
    else if (*detail && is_one_path(kind, detail) && access(detail, F_OK) != 0)
        cli_usage_error(name, "%s%s%s: there is no %s%s", option, space, text, detail,
                        *detail == '~' ? " (shells know ~ only where a word begins: write $HOME)"
                                       : "");
    else
        return true;
    return false;
}

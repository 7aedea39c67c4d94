/*
 * A folder of pictures, one folder a class: torchvision's ImageFolder. Only names are kept; a file
 * is opened when its sample is read. Samples are in ImageFolder's order: by class, then by folder,
 * then by file name.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <yoke/readers.h>

#include "base/folder.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "data/sources/names.h"
#include "io/input_file.h"

enum { MAX_DEPTH = 32, MAX_FILE_BYTES = 1 << 30 };

typedef struct folder {
    char *root;
    yki_names classes;
    yki_names files;   /* paths below root */
    int32_t *labels;   /* of files */
    int64_t left_out;  /* files of unknown extensions */
    char example[256]; /* the first of them */
} folder;

/* ---- reading folders ------------------------------------------------------------------------- */

/* Sorts a folder's entries into folders and files. */
static yk_status list_folder(const char *path, yki_names *folders, yki_names *files)
{
    char entry_path[PATH_MAX];
    const struct dirent *entry;
    DIR *entries = opendir(path);
    if (!entries)
        return yki_error(errno == ENOENT ? YK_ERROR_NOT_FOUND : YK_ERROR_IO, "%s: %s", path,
                         strerror(errno));
    yk_status status = yki_read_folder(&entry, entries, path);
    while (status == YK_OK && entry) {
        bool inner = entry->d_type == DT_DIR;
        if (entry->d_type == DT_LNK || entry->d_type == DT_UNKNOWN) {
            status = yki_join_path(entry_path, path, entry->d_name);
            inner = status == YK_OK && yki_is_folder(entry_path);
        }
        if (status == YK_OK)
            status = yki_names_add(inner ? folders : files, entry->d_name);
        if (status == YK_OK)
            status = yki_read_folder(&entry, entries, path);
    }
    closedir(entries);
    yki_names_sort(folders);
    yki_names_sort(files);
    return status;
}

/* ---- finding the files ----------------------------------------------------------------------- */

static bool is_picture(const char *name)
{
    static const char *const extensions[] = {".jpg", ".jpeg", ".png", ".webp"};
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot && i < sizeof extensions / sizeof *extensions; i++)
        if (strcasecmp(dot, extensions[i]) == 0)
            return true;
    return false;
}

/* A folder and those that it is in, up to the class's. */
typedef struct place {
    const struct place *above; /* NULL: this is the class's */
    struct stat id;
    int depth;
} place;

/* Finds out which folder a path leads to: a symbolic link may lead back to one above it. */
static yk_status enter_folder(place *here, const place *above, const char *path)
{
    *here = (place){.above = above, .depth = above ? above->depth + 1 : 0};
    if (stat(path, &here->id) != 0)
        return yki_error(YK_ERROR_IO, "%s: %s", path, strerror(errno));
    for (; above; above = above->above)
        if (above->id.st_dev == here->id.st_dev && above->id.st_ino == here->id.st_ino)
            return yki_error(YK_ERROR_INVALID_ARGUMENT,
                             "%s: a symbolic link in this path leads back to a folder above it",
                             path);
    if (here->depth > MAX_DEPTH)
        return yki_error(YK_ERROR_UNSUPPORTED, "%s: more than %d folders deep", path, MAX_DEPTH);
    return YK_OK;
}

/* The paths, below root, of a class's folder and of all folders in it. */
static yk_status add_folders(const folder *set, yki_names *all, const char *inner,
                             const place *above)
{
    char path[PATH_MAX], below[PATH_MAX];
    yki_names folders = {0}, files = {0};
    place here;
    YK_TRY(yki_join_path(path, set->root, inner));
    YK_TRY(enter_folder(&here, above, path));
    yk_status status = yki_names_add(all, inner);
    if (status == YK_OK)
        status = list_folder(path, &folders, &files);
    for (int64_t i = 0; i < folders.count && status == YK_OK; i++) {
        status = yki_join_path(below, inner, yki_names_get(&folders, i));
        if (status == YK_OK)
            status = add_folders(set, all, below, &here);
    }
    yki_names_free(&folders);
    yki_names_free(&files);
    return status;
}

/* Adds the pictures that lie directly in a folder. */
static yk_status add_pictures(folder *set, const char *inner)
{
    char path[PATH_MAX];
    yki_names folders = {0}, files = {0};
    YK_TRY(yki_join_path(path, set->root, inner));
    yk_status status = list_folder(path, &folders, &files);
    for (int64_t i = 0; i < files.count && status == YK_OK; i++) {
        const char *name = yki_names_get(&files, i);
        status = yki_join_path(path, inner, name);
        if (status == YK_OK && is_picture(name))
            status = yki_names_add(&set->files, path);
        else if (set->left_out++ == 0)
            snprintf(set->example, sizeof set->example, "%s", path);
    }
    yki_names_free(&folders);
    yki_names_free(&files);
    return status;
}

static yk_status add_class(folder *set, const char *name)
{
    yki_names folders = {0};
    int64_t before = set->files.count;
    yk_status status = add_folders(set, &folders, name, NULL);
    yki_names_sort(&folders);
    for (int64_t i = 0; i < folders.count && status == YK_OK; i++)
        status = add_pictures(set, yki_names_get(&folders, i));
    yki_names_free(&folders);
    if (status == YK_OK && set->files.count == before)
        status = yki_error(YK_ERROR_FORMAT,
                           "%s/%s: no pictures in this class: expected files .jpg, .jpeg, .png or "
                           ".webp, here or in folders below",
                           set->root, name);
    return status;
}

/* ---- classes --------------------------------------------------------------------------------- */

/* The folders in path that are not hidden: some tools leave theirs, and torchvision would take them
 * for classes. */
static yk_status list_classes(const char *path, yki_names *classes)
{
    yki_names all = {0}, files = {0};
    yk_status status = list_folder(path, &all, &files);
    for (int64_t i = 0; i < all.count && status == YK_OK; i++)
        if (yki_names_get(&all, i)[0] != '.')
            status = yki_names_add(classes, yki_names_get(&all, i));
    yki_names_free(&all);
    yki_names_free(&files);
    if (status == YK_OK && classes->count == 0)
        status = yki_error(YK_ERROR_NOT_FOUND,
                           "%s: no pictures here: expected a folder for each class, with its "
                           "pictures in it",
                           path);
    return status;
}

static yk_status label_files(folder *set, int64_t from, int64_t label)
{
    size_t bytes = (size_t)set->files.count * sizeof *set->labels;
    int32_t *labels = realloc(set->labels, bytes ? bytes : 1);
    if (!labels)
        return yki_error_memory(bytes, "labels");
    set->labels = labels;
    for (int64_t i = from; i < set->files.count; i++)
        labels[i] = (int32_t)label;
    return YK_OK;
}

/* Adds the classes that are in set->root, numbered as in set->classes. */
static yk_status add_classes(folder *set)
{
    yki_names present = {0};
    yk_status status = list_classes(set->root, &present);
    for (int64_t i = 0; i < present.count && status == YK_OK; i++) {
        const char *name = yki_names_get(&present, i);
        int64_t label = yki_names_find(&set->classes, name), before = set->files.count;
        if (label < 0)
            status =
                yki_error(YK_ERROR_FORMAT, "%s/%s: the data for training has no class of this name",
                          set->root, name);
        if (status == YK_OK)
            status = add_class(set, name);
        if (status == YK_OK)
            status = label_files(set, before, label);
    }
    yki_names_free(&present);
    if (status == YK_OK && set->left_out > 0)
        YKI_WARN("%s: %lld %s left out, not named .jpg, .jpeg, .png or .webp, such as %s",
                 set->root, (long long)set->left_out, yki_plural(set->left_out, "file", "files"),
                 set->example);
    return status;
}

/* ---- splits ---------------------------------------------------------------------------------- */

/* Writes the folder of a split to root, and that of the split for training to train. */
static yk_status find_split(const char *path, yk_split split, char root[PATH_MAX],
                            char train[PATH_MAX])
{
    static const char *const test_names[] = {"val", "valid", "validation", "test"};
    YK_TRY(yki_join_path(train, path, "train"));
    bool has_train = yki_is_folder(train);
    if (!has_train)
        snprintf(train, PATH_MAX, "%s", path);
    if (split == YK_SPLIT_TRAIN) {
        snprintf(root, PATH_MAX, "%s", train);
        return YK_OK;
    }
    for (size_t i = 0; has_train && i < sizeof test_names / sizeof *test_names; i++) {
        YK_TRY(yki_join_path(root, path, test_names[i]));
        if (yki_is_folder(root))
            return YK_OK;
    }
    if (!yki_is_folder(path))
        return yki_error(YK_ERROR_NOT_FOUND, "%s: there is no such folder", path);
    return yki_error(YK_ERROR_NOT_FOUND,
                     "%s: no pictures for validation: expected the folders train and val", path);
}

/* ---- the data set ---------------------------------------------------------------------------- */

static yk_status read_file(const yki_input_file *file, yk_field_buffer *buffer)
{
    if (file->size > MAX_FILE_BYTES)
        return yki_error(YK_ERROR_UNSUPPORTED,
                         "%s: a file of %zu bytes; pictures of at most %d bytes are read",
                         file->path, file->size, MAX_FILE_BYTES);
    uint8_t *bytes = yk_field_buffer_reserve(buffer, file->size);
    return bytes ? yki_input_file_read(file, 0, bytes, file->size) : YK_ERROR_OUT_OF_MEMORY;
}

static yk_status read_sample(void *data, void *worker, int64_t index, yk_field_buffer *buffers)
{
    const folder *set = data;
    char path[PATH_MAX];
    yki_input_file file;
    (void)worker;
    YK_TRY(yki_join_path(path, set->root, yki_names_get(&set->files, index)));
    *(int32_t *)buffers[1].data = set->labels[index];
    YK_TRY(yki_input_file_open(&file, path));
    yk_status status = read_file(&file, &buffers[0]);
    yki_input_file_close(&file);
    return status;
}

static void name_sample(void *data, int64_t index, char *name, size_t size)
{
    const folder *set = data;
    snprintf(name, size, "%s", yki_names_get(&set->files, index));
}

static bool name_file(void *data, int64_t index, char *path, size_t size)
{
    const folder *set = data;
    if (index >= set->files.count)
        return false;
    snprintf(path, size, "%s/%s", set->root, yki_names_get(&set->files, index));
    return true;
}

static void close_folder(void *data)
{
    folder *set = data;
    yki_names_free(&set->classes);
    yki_names_free(&set->files);
    free(set->labels);
    free(set->root);
    free(set);
}

static yk_status create_dataset(yk_dataset **dataset, folder *set)
{
    static const yk_field fields[] = {
        {"images", YK_FIELD_ENCODED_IMAGE, YK_U8, 3, {3, YK_ANY_SIZE, YK_ANY_SIZE}},
        {"labels", YK_FIELD_TENSOR, YK_I32, 0, {0}},
    };
    const char **names = yki_calloc((size_t)set->classes.count, sizeof *names);
    if (!names)
        return yki_error_memory((size_t)set->classes.count * sizeof *names, "class names");
    for (int64_t i = 0; i < set->classes.count; i++)
        names[i] = yki_names_get(&set->classes, i);
    yk_dataset_ops ops = YK_DATASET_OPS_INIT;
    ops.name = set->root;
    ops.count = set->files.count;
    ops.field_count = 2;
    ops.fields = fields;
    ops.classes = set->classes.count;
    ops.class_names = names;
    ops.read = read_sample;
    ops.sample_name = name_sample;
    ops.close = close_folder;
    ops.file_path = name_file;
    yk_status status = yk_dataset_create(dataset, &ops, set);
    free(names);
    return status;
}

static yk_status fill(folder *set, const char *path, yk_split split)
{
    char root[PATH_MAX], train[PATH_MAX];
    YK_TRY(find_split(path, split, root, train));
    set->root = yki_strdup(root);
    if (!set->root)
        return yki_error_memory(strlen(root) + 1, "a path");
    YK_TRY(list_classes(train, &set->classes));
    return add_classes(set);
}

yk_status yk_folder_open(yk_dataset **dataset, const char *path, yk_split split)
{
    YKI_NOT_NULL(dataset);
    *dataset = NULL;
    YKI_NOT_NULL(path);
    folder *set = yki_calloc(1, sizeof *set);
    if (!set)
        return yki_error_memory(sizeof *set, "a folder of pictures");
    yk_status status = fill(set, path, split);
    if (status == YK_OK)
        status = create_dataset(dataset, set);
    if (status != YK_OK)
        close_folder(set);
    return status;
}

/* Reading packed files: see pack.h. The table is checked once, samples are read when needed. */
#define _GNU_SOURCE
#include "data/sources/pack.h"

#include <stdlib.h>
#include <string.h>

#include <yoke/readers.h>

#include "base/folder.h"
#include "base/memory.h"
#include "image/picture.h"
#include "io/input_file.h"

typedef struct pack {
    yki_input_file file;
    yki_pack_header header;
    yki_pack_entry *entries; /* (count) */
    char *names;             /* the classes' names, each with its zero */
    const char **classes;    /* (classes) in names */
    int64_t height, width;   /* of all pictures, or YK_ANY_SIZE */
} pack;

/* ---- checking -------------------------------------------------------------------------------- */

static yk_status damaged(const pack *set, const char *what)
{
    return yki_error(YK_ERROR_FORMAT, "%s: damaged packed file: %s", set->file.path, what);
}

/* Whether `count` elements lie between the samples' first byte and the end of the file. */
static bool is_inside(const pack *set, uint64_t offset, uint64_t count, uint64_t element)
{
    uint64_t size = set->file.size;
    return offset >= YKI_PACK_DATA && offset <= size && count <= (size - offset) / element;
}

static yk_status read_header(pack *set)
{
    yki_pack_header *header = &set->header;
    if (set->file.size < sizeof *header)
        return damaged(set, "it is shorter than its header");
    YK_TRY(yki_input_file_read(&set->file, 0, header, sizeof *header));
    if (memcmp(header->magic, YKI_PACK_MAGIC, sizeof header->magic) != 0)
        return yki_error(YK_ERROR_FORMAT, "%s: not a packed file (see yoke data pack)",
                         set->file.path);
    if (header->version != YKI_PACK_VERSION)
        return yki_error(YK_ERROR_UNSUPPORTED,
                         "%s: a packed file of version %u; this yoke reads version %d",
                         set->file.path, header->version, YKI_PACK_VERSION);
    if (header->kind > YKI_PACK_FILES || header->channels < 1 ||
        header->channels > YKI_PICTURE_CHANNELS_MAX)
        return damaged(set, "it holds neither pictures of 1 to 1024 channels nor files");
    if (header->count < 1 || header->classes < 1)
        return damaged(set, "it holds no samples or no classes");
    if (!is_inside(set, header->table, header->count, sizeof *set->entries) ||
        !is_inside(set, header->names, header->names_bytes, 1) ||
        header->classes > header->names_bytes)
        return damaged(set, "its table or its names are outside the file");
    if (header->places && !is_inside(set, header->places, header->count + 1, sizeof(uint64_t)))
        return damaged(set, "the names of its samples are outside the file");
    return YK_OK;
}

static yk_status check_entry(const pack *set, const yki_pack_entry *entry)
{
    bool pixels = set->header.kind == YKI_PACK_PIXELS;
    uint64_t expected = (uint64_t)set->header.channels * entry->height * entry->width;
    if (!is_inside(set, entry->offset, entry->bytes, 1))
        return damaged(set, "a sample is outside the file");
    if (pixels && (entry->height < 1 || entry->height > YKI_PICTURE_SIDE_MAX || entry->width < 1 ||
                   entry->width > YKI_PICTURE_SIDE_MAX || entry->bytes != expected))
        return damaged(set, "a sample's size is not that of its picture");
    if (entry->label < 0 || (uint32_t)entry->label >= set->header.classes)
        return damaged(set, "a label is outside the classes");
    return YK_OK;
}

static yk_status read_table(pack *set)
{
    size_t count = (size_t)set->header.count, bytes = count * sizeof *set->entries;
    set->entries = malloc(bytes ? bytes : 1);
    if (!set->entries)
        return yki_error_memory(bytes, set->file.path);
    YK_TRY(yki_input_file_read(&set->file, set->header.table, set->entries, bytes));
    for (size_t i = 0; i < count; i++) {
        const yki_pack_entry *entry = &set->entries[i];
        YK_TRY(check_entry(set, entry));
        if (i == 0) {
            set->height = entry->height;
            set->width = entry->width;
        }
        if (set->height != entry->height)
            set->height = YK_ANY_SIZE;
        if (set->width != entry->width)
            set->width = YK_ANY_SIZE;
    }
    return YK_OK;
}

static yk_status read_names(pack *set)
{
    size_t bytes = (size_t)set->header.names_bytes, at = 0;
    set->names = yki_calloc(1, bytes + 1);
    set->classes = yki_calloc(set->header.classes + (size_t)1, sizeof *set->classes);
    if (!set->names || !set->classes)
        return yki_error_memory(bytes, set->file.path);
    YK_TRY(yki_input_file_read(&set->file, set->header.names, set->names, bytes));
    for (uint32_t i = 0; i < set->header.classes; i++) {
        if (at >= bytes)
            return damaged(set, "it has fewer names than classes");
        set->classes[i] = set->names + at;
        at += strlen(set->names + at) + 1;
    }
    return YK_OK;
}

/* ---- the data set ---------------------------------------------------------------------------- */

static yk_status read_sample(void *data, void *worker, int64_t index, yk_field_buffer *buffers)
{
    const pack *set = data;
    const yki_pack_entry *entry = &set->entries[index];
    (void)worker;
    *(int32_t *)buffers[1].data = entry->label;
    buffers[0].dims[0] = set->header.channels;
    buffers[0].dims[1] = entry->height;
    buffers[0].dims[2] = entry->width;
    void *bytes = yk_field_buffer_reserve(&buffers[0], entry->bytes);
    return bytes ? yki_input_file_read(&set->file, entry->offset, bytes, entry->bytes)
                 : YK_ERROR_OUT_OF_MEMORY;
}

/* Names are rarely needed, so they stay in the file. One that cannot be read is none. */
static void name_sample(void *data, int64_t index, char *name, size_t size)
{
    const pack *set = data;
    uint64_t place[2]; /* where it begins and ends */
    uint64_t at = set->header.places + (uint64_t)index * sizeof *place;
    if (!set->header.places || yki_input_file_read(&set->file, at, place, sizeof place) != YK_OK ||
        place[1] < place[0] || !is_inside(set, place[0], place[1] - place[0], 1))
        return;
    size_t length = (size_t)(place[1] - place[0]);
    length = length < size ? length : size - 1;
    bool read = yki_input_file_read(&set->file, place[0], name, length) == YK_OK;
    name[read ? length : 0] = '\0';
}

static bool name_file(void *data, int64_t index, char *path, size_t size)
{
    const pack *set = data;
    snprintf(path, size, "%s", set->file.path);
    return index == 0;
}

static void close_pack(void *data)
{
    pack *set = data;
    yki_input_file_close(&set->file);
    free(set->entries);
    free(set->names);
    free(set->classes);
    free(set);
}

static yk_status create_dataset(yk_dataset **dataset, pack *set)
{
    bool files = set->header.kind == YKI_PACK_FILES;
    yk_field fields[2] = {{"images",
                           files ? YK_FIELD_ENCODED_IMAGE : YK_FIELD_IMAGE,
                           YK_U8,
                           3,
                           {set->header.channels, files ? YK_ANY_SIZE : set->height,
                            files ? YK_ANY_SIZE : set->width}},
                          {"labels", YK_FIELD_TENSOR, YK_I32, 0, {0}}};
    yk_dataset_ops ops = YK_DATASET_OPS_INIT;
    ops.name = set->file.path;
    ops.count = (int64_t)set->header.count;
    ops.field_count = 2;
    ops.fields = fields;
    ops.classes = set->header.classes;
    ops.class_names = set->classes;
    ops.read = read_sample;
    ops.sample_name = name_sample;
    ops.close = close_pack;
    ops.file_path = name_file;
    return yk_dataset_create(dataset, &ops, set);
}

/* The file of a split: in a folder, or the path itself for training. */
static yk_status find_split(char file[PATH_MAX], const char *path, yk_split split)
{
    if (yki_is_folder(path))
        return yki_join_path(file, path, split == YK_SPLIT_TRAIN ? "train.pack" : "val.pack");
    if (split == YK_SPLIT_TEST)
        return yki_error(YK_ERROR_NOT_FOUND,
                         "%s: a packed file holds one split; expected a folder with train.pack and "
                         "val.pack",
                         path);
    if (snprintf(file, PATH_MAX, "%s", path) >= PATH_MAX)
        return yki_path_too_long(path);
    return YK_OK;
}

static yk_status load_pack(pack *set, const char *file)
{
    YK_TRY(yki_input_file_open(&set->file, file));
    YK_TRY(read_header(set));
    YK_TRY(read_table(set));
    return read_names(set);
}

yk_status yk_pack_open(yk_dataset **dataset, const char *path, yk_split split)
{
    char file[PATH_MAX];
    YKI_NOT_NULL(dataset);
    *dataset = NULL;
    YKI_NOT_NULL(path);
    YK_TRY(find_split(file, path, split));
    pack *set = yki_calloc(1, sizeof *set);
    if (!set)
        return yki_error_memory(sizeof *set, "a packed file");
    yk_status status = load_pack(set, file);
    if (status == YK_OK)
        status = create_dataset(dataset, set);
    if (status != YK_OK)
        close_pack(set);
    return status;
}

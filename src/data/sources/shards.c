/*
 * WebDataset shards: tar archives in which consecutive files with the same name up to the first dot
 * are one sample, NAME.jpg (or .jpeg, .png, .webp; the first of these that there is) the picture
 * and NAME.cls the label in digits, in lower or upper case. Other files of a sample are ignored.
 * https://github.com/webdataset/webdataset
 *
 * Archives are indexed when they are opened, by reading headers and labels alone. Samples are
 * therefore numbered like those of any data set: sharding over ranks is exact and a run resumes at
 * the sample where it stopped, whatever the number of shards.
 */
#define _GNU_SOURCE
#include <linux/limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <yoke/readers.h>

#include "base/folder.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/open_files.h"
#include "data/sources/names.h"
#include "data/sources/tar.h"
#include "io/input_file.h"

enum { MAX_SHARDS = 65536, MAX_LABEL = 1 << 20, LABEL_TEXT = 24 };

typedef struct sample {
    uint64_t offset;
    uint32_t bytes;
    int32_t label, shard;
} sample;

typedef struct shards {
    char *pattern;
    yki_input_file *files; /* (file_count) */
    int64_t file_count;
    sample *samples; /* (count) */
    int64_t count, classes;
    size_t capacity; /* of samples */
} shards;

/* ---- patterns -------------------------------------------------------------------------------- */

/* What "{FIRST..LAST}" or "{FIRST..LAST..STEP}" stands for: numbers of `digits` digits or more. */
typedef struct range {
    long long first, last, step;
    int digits;
} range;

/*
 * Reads the text between two braces as Python's braceexpand does, which WebDataset uses: numbers
 * are as wide as the wider of the two if one of them has leading zeros, and may count down.
 */
static bool read_range(range *read, const char *text, const char *end)
{
    int first_end = 0, last_start = 0, last_end = 0, all = 0;
    *read = (range){.step = 1};
    if (sscanf(text, "%18lld%n..%n%18lld%n", &read->first, &first_end, &last_start, &read->last,
               &last_end) != 2)
        return false;
    if (text + last_end != end && (sscanf(text + last_end, "..%18lld%n", &read->step, &all) != 1 ||
                                   text + last_end + all != end))
        return false;
    int widths[2] = {first_end, last_end - last_start};
    bool padded = (text[0] == '0' && widths[0] > 1) || (text[last_start] == '0' && widths[1] > 1);
    read->digits = !padded ? 1 : widths[0] > widths[1] ? widths[0] : widths[1];
    read->step = read->step ? llabs(read->step) : 1;
    return read->first >= 0 && read->last >= 0;
}

/*
 * Adds every name that a pattern stands for: "{000..127}" are numbers of three digits, "{a,b}" are
 * alternatives. Braces are replaced from the left, one by one.
 */
static yk_status expand(yki_names *names, const char *pattern)
{
    char text[PATH_MAX];
    const char *open = strchr(pattern, '{'), *close = open ? strchr(open, '}') : NULL;
    range numbers;
    if (!close)
        return names->count < MAX_SHARDS
                   ? yki_names_add(names, pattern)
                   : yki_error(YK_ERROR_INVALID_ARGUMENT, "more than %d shards", MAX_SHARDS);
    int before = (int)(open - pattern), length = (int)(close - open) + 1;
    if (read_range(&numbers, open + 1, close)) {
        bool up = numbers.first <= numbers.last;
        for (long long i = numbers.first; up ? i <= numbers.last : i >= numbers.last;
             i += up ? numbers.step : -numbers.step) {
            snprintf(text, sizeof text, "%.*s%0*lld%s", before, pattern, numbers.digits, i,
                     close + 1);
            YK_TRY(expand(names, text));
        }
        return YK_OK;
    }
    if (!memchr(open, ',', (size_t)length) || memchr(open + 1, '{', (size_t)length - 1))
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "%s: %.*s is neither a range of numbers, such as {000..127}, nor a list "
                         "of words, such as {a,b}",
                         pattern, length, open);
    for (const char *word = open + 1; word <= close; word += strcspn(word, ",}") + 1) {
        snprintf(text, sizeof text, "%.*s%.*s%s", before, pattern, (int)strcspn(word, ",}"), word,
                 close + 1);
        YK_TRY(expand(names, text));
    }
    return YK_OK;
}

/* The part of "TRAIN::TEST" that is meant; "" where there is none. */
static yk_status choose_pattern(char text[PATH_MAX], const char *pattern, yk_split split)
{
    const char *separator = strstr(pattern, "::");
    int length = separator ? (int)(separator - pattern) : (int)strlen(pattern);
    if (strlen(pattern) >= PATH_MAX)
        return yki_path_too_long(pattern);
    if (split == YK_SPLIT_TEST && !separator)
        return yki_error(YK_ERROR_NOT_FOUND,
                         "%s: no shards for validation: expected TRAIN::VAL, such as "
                         "train-{000..127}.tar::val-{00..07}.tar",
                         pattern);
    if (split == YK_SPLIT_TEST)
        snprintf(text, PATH_MAX, "%s", separator + 2);
    else
        snprintf(text, PATH_MAX, "%.*s", length, pattern);
    if (!text[0])
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "\"%s\" names no shards for %s", pattern,
                         split == YK_SPLIT_TEST ? "validation" : "training");
    return YK_OK;
}

/* ---- the index ------------------------------------------------------------------------------- */

/* Next to a picture, a file of a later one may be something else, such as a mask. */
static const char *const pictures[] = {"jpg", "jpeg", "png", "webp"};

enum { PICTURES = sizeof pictures / sizeof *pictures };

/* The sample that is being collected from consecutive files. */
typedef struct pending {
    char key[YKI_TAR_NAME];
    sample sample;
    int picture; /* in pictures; PICTURES while there is none */
    bool open, has_label;
} pending;

static yk_status add_sample(shards *set, const pending *found, const yki_tar *tar)
{
    if (!found->open)
        return YK_OK;
    bool has_picture = found->picture < PICTURES;
    if (!has_picture || !found->has_label)
        return yki_error(YK_ERROR_FORMAT, "%s: sample \"%.200s\" has no %s%s", tar->file->path,
                         found->key, has_picture ? "label (.cls)" : "picture (.jpg, .png or .webp)",
                         tar->links ? "; links are not followed: pack the files with tar "
                                      "--dereference --hard-dereference"
                                    : "");
    if (!yki_grow(&set->samples, (size_t)set->count, &set->capacity, sizeof(sample)))
        return yki_error_memory(2 * set->capacity * sizeof(sample), "an index of shards");
    set->samples[set->count++] = found->sample;
    if (found->sample.label >= set->classes)
        set->classes = found->sample.label + 1;
    return YK_OK;
}

static int find_picture(const char *extension)
{
    int i = 0;
    while (i < PICTURES && strcasecmp(extension, pictures[i]) != 0)
        i++;
    return i;
}

static yk_status read_label(const yki_tar *tar, int32_t *label)
{
    char text[LABEL_TEXT] = "", *end = text;
    bool fits = tar->size < sizeof text;
    YK_TRY(yki_input_file_read(tar->file, tar->offset, text, fits ? tar->size : 0));
    long long value = strtoll(text, &end, 10);
    if (end == text || (size_t)(end - text) + strspn(end, " \r\n") != tar->size || value < 0 ||
        value >= MAX_LABEL)
        return yki_error(YK_ERROR_FORMAT, "%s: %s: expected a label in digits, below %d",
                         tar->file->path, tar->name, MAX_LABEL);
    *label = (int32_t)value;
    return YK_OK;
}

static yk_status is_there_twice(const yki_tar *tar)
{
    return yki_error(YK_ERROR_FORMAT,
                     "%s: %s: its sample has this file twice: expected samples of different names "
                     "one after another",
                     tar->file->path, tar->name);
}

static yk_status add_label(pending *found, const yki_tar *tar)
{
    if (found->has_label)
        return is_there_twice(tar);
    found->has_label = true;
    return read_label(tar, &found->sample.label);
}

static yk_status add_picture(pending *found, const yki_tar *tar, int picture)
{
    if (picture == found->picture)
        return is_there_twice(tar);
    if (picture > found->picture)
        return YK_OK;
    if (tar->size > UINT32_MAX)
        return yki_error(YK_ERROR_FORMAT, "%s: %s: larger than 4 GiB", tar->file->path, tar->name);
    found->picture = picture;
    found->sample.offset = tar->offset;
    found->sample.bytes = (uint32_t)tar->size;
    return YK_OK;
}

/* Adds one file of the archive to the sample that it belongs to. */
static yk_status add_member(shards *set, pending *found, const yki_tar *tar, int shard)
{
    const char *slash = strrchr(tar->name, '/');
    const char *dot = strchr(slash ? slash : tar->name, '.');
    if (!dot || dot == tar->name || dot[-1] == '/')
        return YK_OK; /* hidden, or without an extension */
    size_t length = (size_t)(dot - tar->name);
    if (!found->open || strncmp(found->key, tar->name, length) != 0 || found->key[length]) {
        YK_TRY(add_sample(set, found, tar));
        *found = (pending){.open = true, .picture = PICTURES, .sample = {.shard = shard}};
        memcpy(found->key, tar->name, length);
    }
    int picture = find_picture(dot + 1);
    if (strcasecmp(dot + 1, "cls") == 0)
        return add_label(found, tar);
    return picture < PICTURES ? add_picture(found, tar, picture) : YK_OK;
}

static yk_status index_shard(shards *set, const char *path)
{
    yki_input_file *file = &set->files[set->file_count];
    pending found = {.open = false};
    yk_status status = yki_input_file_open(file, path);
    bool more = status == YK_OK;
    if (more)
        set->file_count++;
    yki_tar tar = {.file = file};
    while (more) {
        status = yki_tar_next(&tar, &more);
        more = more && status == YK_OK;
        if (more)
            status = add_member(set, &found, &tar, (int)(file - set->files));
        more = more && status == YK_OK;
    }
    if (status == YK_OK)
        status = add_sample(set, &found, &tar);
    if (status == YK_OK && !tar.ended)
        YKI_WARN("%s: the archive does not end with a block of zeros, as tar writes it: has the "
                 "file been cut short?",
                 path);
    return status;
}

/* ---- the data set ---------------------------------------------------------------------------- */

static yk_status read_sample(void *data, void *worker, int64_t index, yk_field_buffer *buffers)
{
    const shards *set = data;
    const sample *found = &set->samples[index];
    (void)worker;
    *(int32_t *)buffers[1].data = found->label;
    uint8_t *bytes = yk_field_buffer_reserve(&buffers[0], found->bytes);
    return bytes
               ? yki_input_file_read(&set->files[found->shard], found->offset, bytes, found->bytes)
               : YK_ERROR_OUT_OF_MEMORY;
}

/* The header before the picture has its name, unless that is a long one. */
static void name_sample(void *data, int64_t index, char *name, size_t size)
{
    const shards *set = data;
    const sample *found = &set->samples[index];
    const yki_input_file *file = &set->files[found->shard];
    char member[101] = "";
    if (yki_input_file_read(file, found->offset - 512, member, 100) == YK_OK)
        snprintf(name, size, "%s in %s", member, file->path);
}

static bool name_file(void *data, int64_t index, char *path, size_t size)
{
    const shards *set = data;
    if (index >= set->file_count)
        return false;
    snprintf(path, size, "%s", set->files[index].path);
    return true;
}

static void close_shards(void *data)
{
    shards *set = data;
    for (int64_t i = 0; i < set->file_count; i++)
        yki_input_file_close(&set->files[i]);
    free(set->files);
    free(set->samples);
    free(set->pattern);
    free(set);
}

static yk_status create_dataset(yk_dataset **dataset, shards *set)
{
    static const yk_field fields[] = {
        {"images", YK_FIELD_ENCODED_IMAGE, YK_U8, 3, {3, YK_ANY_SIZE, YK_ANY_SIZE}},
        {"labels", YK_FIELD_TENSOR, YK_I32, 0, {0}},
    };
    yk_dataset_ops ops = YK_DATASET_OPS_INIT;
    ops.name = set->pattern;
    ops.count = set->count;
    ops.field_count = 2;
    ops.fields = fields;
    ops.classes = set->classes;
    ops.read = read_sample;
    ops.sample_name = name_sample;
    ops.close = close_shards;
    ops.file_path = name_file;
    return yk_dataset_create(dataset, &ops, set);
}

static yk_status index_all(shards *set, const yki_names *paths)
{
    set->files = yki_calloc((size_t)paths->count, sizeof *set->files);
    if (!set->files)
        return yki_error_memory((size_t)paths->count * sizeof *set->files, "shards");
    yki_allow_more_open_files(); /* all shards stay open */
    for (int64_t i = 0; i < paths->count; i++)
        YK_TRY(index_shard(set, yki_names_get(paths, i)));
    if (set->count == 0)
        return yki_error(YK_ERROR_FORMAT, "%s: no samples in these shards", set->pattern);
    return YK_OK;
}

yk_status yk_shards_open(yk_dataset **dataset, const char *pattern, yk_split split)
{
    char text[PATH_MAX];
    yki_names paths = {0};
    YKI_NOT_NULL(dataset);
    *dataset = NULL;
    YKI_NOT_NULL(pattern);
    YK_TRY(choose_pattern(text, pattern, split));
    shards *set = yki_calloc(1, sizeof *set);
    if (!set)
        return yki_error_memory(sizeof *set, "shards");
    set->pattern = yki_strdup(text);
    yk_status status = set->pattern ? expand(&paths, text) : yki_error_memory(PATH_MAX, "a path");
    if (status == YK_OK)
        status = index_all(set, &paths);
    if (status == YK_OK)
        status = create_dataset(dataset, set);
    yki_names_free(&paths);
    if (status != YK_OK)
        close_shards(set);
    return status;
}

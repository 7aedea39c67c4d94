/*
 * CIFAR-10 and CIFAR-100 (Krizhevsky, "Learning Multiple Layers of Features from Tiny Images",
 * 2009) from their Python pickles or their binary versions, recognised by the files that a folder
 * holds.
 *
 * A pickle is a dict of "labels" (CIFAR-100: "fine_labels"), a list of integers, and "data", a
 * numpy array (rows, 3072) of uint8; a binary file is records of a label byte (CIFAR-100: of a
 * coarse and a fine one) and 3,072 pixel bytes. Either way a row is (3, 32, 32), and images stay
 * where they are, in the file, of which only the places of its images are kept. Any number of rows
 * is taken, as long as labels and pixels agree. Pickles that Python 3 has written again, with any
 * protocol from 2 on, are read, too.
 */
#include <linux/limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <yoke/readers.h>

#include "base/folder.h"
#include "base/memory.h"
#include "io/input_file.h"
#include "io/pickle.h"

enum { SIDE = 32, IMAGE_BYTES = 3 * SIDE * SIDE, MAX_FILES = 5 };

static const char *const names10[10] = {"airplane", "automobile", "bird",  "cat",  "deer",
                                        "dog",      "frog",       "horse", "ship", "truck"};

static const char *const names100[100] = {
    "apple",       "aquarium_fish", "baby",      "bear",       "beaver",       "bed",
    "bee",         "beetle",        "bicycle",   "bottle",     "bowl",         "boy",
    "bridge",      "bus",           "butterfly", "camel",      "can",          "castle",
    "caterpillar", "cattle",        "chair",     "chimpanzee", "clock",        "cloud",
    "cockroach",   "couch",         "crab",      "crocodile",  "cup",          "dinosaur",
    "dolphin",     "elephant",      "flatfish",  "forest",     "fox",          "girl",
    "hamster",     "house",         "kangaroo",  "keyboard",   "lamp",         "lawn_mower",
    "leopard",     "lion",          "lizard",    "lobster",    "man",          "maple_tree",
    "motorcycle",  "mountain",      "mouse",     "mushroom",   "oak_tree",     "orange",
    "orchid",      "otter",         "palm_tree", "pear",       "pickup_truck", "pine_tree",
    "plain",       "plate",         "poppy",     "porcupine",  "possum",       "rabbit",
    "raccoon",     "ray",           "road",      "rocket",     "rose",         "sea",
    "seal",        "shark",         "shrew",     "skunk",      "skyscraper",   "snail",
    "snake",       "spider",        "squirrel",  "streetcar",  "sunflower",    "sweet_pepper",
    "table",       "tank",          "telephone", "television", "tiger",        "tractor",
    "train",       "trout",         "tulip",     "turtle",     "wardrobe",     "whale",
    "willow_tree", "wolf",          "woman",     "worm"};

/* The two data sets: how their files are named, and where a label is. */
typedef struct family {
    const char *name;
    int classes;
    const char *const *class_names;
    const char *labels_key;              /* of a pickle */
    int label_bytes, label_at;           /* of a binary record */
    const char *folders[2];              /* of the Python version, of the binary version */
    const char *test, *train[MAX_FILES]; /* files, of which the binary ones end in .bin */
    const char *expected;                /* for people */
} family;

static const family cifar10 = {
    .name = "CIFAR-10",
    .classes = 10,
    .class_names = names10,
    .labels_key = "labels",
    .label_bytes = 1,
    .label_at = 0,
    .folders = {"cifar-10-batches-py", "cifar-10-batches-bin"},
    .test = "test_batch",
    .train = {"data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5"},
    .expected = "the folder cifar-10-batches-py (with data_batch_1 to 5 and test_batch) or "
                "cifar-10-batches-bin (with data_batch_1.bin...)"};

static const family cifar100 = {
    .name = "CIFAR-100",
    .classes = 100,
    .class_names = names100,
    .labels_key = "fine_labels",
    .label_bytes = 2,
    .label_at = 1,
    .folders = {"cifar-100-python", "cifar-100-binary"},
    .test = "test",
    .train = {"train"},
    .expected = "the folder cifar-100-python (with train and test) or cifar-100-binary (with "
                "train.bin and test.bin)"};

typedef struct image {
    size_t offset;
    int8_t file;
    uint8_t label; /* below the number of classes */
} image;

typedef struct cifar {
    const family *family;
    int64_t count;
    image *images; /* (count) */
    yki_input_file files[MAX_FILES];
    uint8_t *decoded[MAX_FILES]; /* NULL, or the images of a file that has them in other bytes */
    int file_count;
} cifar;

/* Makes room for `more` further images; the count does not change. */
static yk_status reserve(cifar *set, int64_t more)
{
    size_t bytes = (size_t)(set->count + more) * sizeof *set->images;
    image *images = realloc(set->images, bytes ? bytes : 1);
    if (!images)
        return yki_error_memory(bytes, "a list of images");
    set->images = images;
    return YK_OK;
}

/* Adds one image, for which there must be room. */
static void add(cifar *set, int file, size_t offset, int label)
{
    set->images[set->count++] =
        (image){.offset = offset, .file = (int8_t)file, .label = (uint8_t)label};
}

/* ---- the binary version --------------------------------------------------------------------- */

static yk_status add_binary(cifar *set, int number, const uint8_t *data)
{
    const yki_input_file *file = &set->files[number];
    size_t label_bytes = (size_t)set->family->label_bytes, record_bytes = label_bytes + IMAGE_BYTES;
    size_t rows = file->size / record_bytes, torn = file->size % record_bytes;
    if (torn)
        return yki_error(YK_ERROR_FORMAT,
                         "%s: offset %zu: expected records of %zu bytes, found %zu bytes",
                         file->path, file->size - torn, record_bytes, torn);
    YK_TRY(reserve(set, (int64_t)rows));
    for (size_t i = 0; i < rows; i++) {
        size_t at = i * record_bytes;
        int label = data[at + (size_t)set->family->label_at];
        if (label >= set->family->classes)
            return yki_error(YK_ERROR_FORMAT,
                             "%s: offset %zu: expected a label from 0 to %d, found %d", file->path,
                             at, set->family->classes - 1, label);
        add(set, number, at + label_bytes, label);
    }
    return YK_OK;
}

/* ---- the Python version --------------------------------------------------------------------- */

/* Everything that the official pickles refer to, and those that Python 3 has made of them, under
 * numpy's old and new module names. */
static const char *const pickle_globals[] = {"numpy.core.multiarray\n_reconstruct",
                                             "numpy._core.multiarray\n_reconstruct",
                                             "numpy.core.numeric\n_frombuffer",
                                             "numpy._core.numeric\n_frombuffer",
                                             "numpy\nndarray",
                                             "numpy\ndtype",
                                             "_codecs\nencode",
                                             NULL};

static bool is_integer(const yki_pickle_value *value, int64_t integer)
{
    return yki_pickle_is(value, YKI_PICKLE_INT) && value->integer == integer;
}

/* dtype('u1', 0, 1): one unsigned byte. */
static bool is_byte_dtype(const yki_pickle_value *value)
{
    return yki_pickle_is_call(value, "numpy", "dtype") &&
           yki_pickle_is_text(yki_pickle_item(yki_pickle_arguments(value), 0), "u1");
}

/* What a pickled array says about itself; shape, dtype and bytes may be NULL. */
typedef struct array_parts {
    const yki_pickle_value *shape, *dtype, *bytes;
    bool row_major;
} array_parts;

/*
 * Either _reconstruct(ndarray, (0,), 'b') with the state (version, shape, dtype, is_fortran,
 * bytes), or, in protocol 5, _frombuffer(bytes, dtype, shape, order).
 */
static array_parts parts_of(const yki_pickle_value *array)
{
    const yki_pickle_value *arguments = yki_pickle_arguments(array),
                           *state = yki_pickle_state(array);
    const yki_pickle_value *fortran = yki_pickle_item(state, 3);
    if (yki_pickle_is_call(array, "numpy.core.numeric", "_frombuffer") ||
        yki_pickle_is_call(array, "numpy._core.numeric", "_frombuffer"))
        return (array_parts){.bytes = yki_pickle_item(arguments, 0),
                             .dtype = yki_pickle_item(arguments, 1),
                             .shape = yki_pickle_item(arguments, 2),
                             .row_major = yki_pickle_is_text(yki_pickle_item(arguments, 3), "C")};
    if (!yki_pickle_is_call(array, "numpy.core.multiarray", "_reconstruct") &&
        !yki_pickle_is_call(array, "numpy._core.multiarray", "_reconstruct"))
        return (array_parts){.row_major = false};
    return (array_parts){.bytes = yki_pickle_item(state, 4),
                         .dtype = yki_pickle_item(state, 2),
                         .shape = yki_pickle_item(state, 1),
                         .row_major = is_integer(yki_pickle_item(state, 0), 1) &&
                                      yki_pickle_is(fortran, YKI_PICKLE_BOOL) &&
                                      fortran->integer == 0};
}

/*
 * The bytes of _codecs.encode(TEXT, "latin1"), which Python 3 makes of them in protocol 2: memory
 * of the set's, because they are not in the file. Other values are left to be refused.
 */
static yk_status decode_latin1(cifar *set, int number, const yki_pickle_value *value,
                               uint32_t *count)
{
    const yki_pickle_value *text = yki_pickle_item(yki_pickle_arguments(value), 0);
    if (!yki_pickle_is_call(value, "_codecs", "encode") || !yki_pickle_is(text, YKI_PICKLE_STRING))
        return YK_OK;
    uint8_t *bytes = malloc(text->count + (size_t)1);
    if (!bytes)
        return yki_error_memory(text->count, set->files[number].path);
    const uint8_t *from = (const uint8_t *)text->text;
    *count = 0;
    for (uint32_t i = 0; i < text->count; i++) {
        uint8_t byte = from[i];
        if (byte >= 0xc2) { /* the first of two bytes of UTF-8 is 0xc2 or 0xc3 */
            i++;
            byte = (uint8_t)(byte << 6 | (i < text->count ? from[i] & 63 : 0));
        } else if (byte >= 0x80) {
            continue;
        }
        bytes[(*count)++] = byte;
    }
    set->decoded[number] = bytes;
    return YK_OK;
}

/* Where the pixels are: in the file at *offset, or in set->decoded, where *offset becomes 0. */
static yk_status find_pixels(cifar *set, int number, const uint8_t *file, const yki_pickle *pickle,
                             const yki_pickle_value *array, size_t *offset, size_t *rows)
{
    array_parts parts = parts_of(array);
    const yki_pickle_value *bytes = parts.bytes, *count = yki_pickle_item(parts.shape, 0);
    bool plain = bytes && bytes->type == YKI_PICKLE_BYTES;
    uint32_t size = plain ? bytes->count : 0;
    if (parts.row_major)
        YK_TRY(decode_latin1(set, number, bytes, &size));
    if (!parts.row_major || !is_byte_dtype(parts.dtype) || (!plain && !set->decoded[number]))
        return yki_pickle_unexpected(pickle, array, "\"data\" as a row-major numpy array of uint8");
    if (!parts.shape || parts.shape->count != 2 || !yki_pickle_is(count, YKI_PICKLE_INT) ||
        !is_integer(yki_pickle_item(parts.shape, 1), IMAGE_BYTES))
        return yki_pickle_unexpected(pickle, parts.shape, "the shape (rows, %d)", IMAGE_BYTES);
    if (size % IMAGE_BYTES || size / IMAGE_BYTES != count->integer)
        return yki_pickle_unexpected(pickle, bytes, "%lld rows of %d bytes, not %u bytes,",
                                     (long long)count->integer, IMAGE_BYTES, size);
    *offset = plain ? (size_t)((const uint8_t *)bytes->text - file) : 0;
    *rows = (size_t)count->integer;
    return YK_OK;
}

static yk_status add_rows(cifar *set, int number, const uint8_t *file, const yki_pickle *pickle)
{
    const yki_pickle_value *root = yki_pickle_root(pickle);
    if (!yki_pickle_is(root, YKI_PICKLE_DICT))
        return yki_pickle_unexpected(pickle, root, "a dict");
    const yki_pickle_value *labels = yki_pickle_get(root, set->family->labels_key);
    const yki_pickle_value *array = yki_pickle_get(root, "data");
    if (!yki_pickle_is(labels, YKI_PICKLE_LIST))
        return yki_pickle_unexpected(pickle, labels, "\"%s\" as a list", set->family->labels_key);
    size_t offset = 0, rows = 0;
    YK_TRY(find_pixels(set, number, file, pickle, array, &offset, &rows));
    if (labels->count != rows)
        return yki_pickle_unexpected(pickle, labels, "%zu labels, one a row, not %u,", rows,
                                     labels->count);
    YK_TRY(reserve(set, (int64_t)rows));
    for (size_t i = 0; i < rows; i++) {
        const yki_pickle_value *label = yki_pickle_item(labels, i);
        if (!yki_pickle_is(label, YKI_PICKLE_INT) || label->integer < 0 ||
            label->integer >= set->family->classes)
            return yki_pickle_unexpected(pickle, label, "a label from 0 to %d",
                                         set->family->classes - 1);
        add(set, number, offset + i * IMAGE_BYTES, (int)label->integer);
    }
    return YK_OK;
}

static yk_status add_pickle(cifar *set, int number, const uint8_t *data)
{
    yki_pickle *pickle;
    const yki_input_file *file = &set->files[number];
    YK_TRY(yki_pickle_parse(&pickle, file->path, data, file->size, pickle_globals));
    yk_status status = add_rows(set, number, data, pickle);
    yki_pickle_destroy(pickle);
    return status;
}

/* ---- finding the files ---------------------------------------------------------------------- */

/* The two versions. add enters the images of file number `number`, whose bytes are data. */
static const struct version {
    const char *suffix;
    yk_status (*add)(cifar *set, int number, const uint8_t *data);
} versions[] = {{"", add_pickle}, {".bin", add_binary}};

enum { VERSIONS = sizeof versions / sizeof *versions };

/* Writes the path of a file to `file`; sub is "" or a folder in path. */
static yk_status name_file(char file[PATH_MAX], const char *path, const char *sub, const char *name,
                           const char *suffix)
{
    if (snprintf(file, PATH_MAX, "%s%s%s/%s%s", path, *sub ? "/" : "", sub, name, suffix) >=
        PATH_MAX)
        return yki_path_too_long(path);
    return YK_OK;
}

/* Looks in path itself, then in the folders under it that the archives unpack to. */
static yk_status recognise(const family *kind, const char *path, const struct version **version,
                           const char **sub)
{
    struct stat info;
    char file[PATH_MAX];
    for (int inside = 0; inside < 2; inside++)
        for (size_t i = 0; i < VERSIONS; i++) {
            *sub = inside ? kind->folders[i] : "";
            *version = &versions[i];
            YK_TRY(name_file(file, path, *sub, kind->test, versions[i].suffix));
            if (stat(file, &info) == 0 && !S_ISDIR(info.st_mode))
                return YK_OK;
        }
    return yki_error(YK_ERROR_NOT_FOUND,
                     "%s: no %s here: expected %s, or a folder that holds one of them", path,
                     kind->name, kind->expected);
}

static yk_status add_batch(cifar *set, const struct version *version, const char *path,
                           const char *sub, const char *name)
{
    char file[PATH_MAX];
    YK_TRY(name_file(file, path, sub, name, version->suffix));
    yki_input_file *opened = &set->files[set->file_count];
    YK_TRY(yki_input_file_open(opened, file));
    int number = set->file_count++;
    if (opened->size == 0)
        return yki_error(YK_ERROR_FORMAT,
                         "%s: offset 0: expected a batch of images, found it empty", file);
    uint8_t *data = malloc(opened->size);
    if (!data)
        return yki_error_memory(opened->size, file);
    yk_status status = yki_input_file_read(opened, 0, data, opened->size);
    if (status == YK_OK)
        status = version->add(set, number, data);
    free(data);
    return status;
}

/* ---- the data set --------------------------------------------------------------------------- */

static yk_status read_image(void *data, void *worker, int64_t index, yk_field_buffer *buffers)
{
    const cifar *set = data;
    const image *found = &set->images[index];
    (void)worker;
    *(int32_t *)buffers[1].data = found->label;
    uint8_t *pixels = yk_field_buffer_reserve(&buffers[0], IMAGE_BYTES);
    if (!pixels)
        return YK_ERROR_OUT_OF_MEMORY;
    if (!set->decoded[found->file])
        return yki_input_file_read(&set->files[found->file], found->offset, pixels, IMAGE_BYTES);
    memcpy(pixels, set->decoded[found->file] + found->offset, IMAGE_BYTES);
    return YK_OK;
}

static bool name_batch(void *data, int64_t index, char *path, size_t size)
{
    const cifar *set = data;
    if (index >= set->file_count)
        return false;
    snprintf(path, size, "%s", set->files[index].path);
    return true;
}

static void close_cifar(void *data)
{
    cifar *set = data;
    for (int i = 0; i < set->file_count; i++) {
        yki_input_file_close(&set->files[i]);
        free(set->decoded[i]);
    }
    free(set->images);
    free(set);
}

static yk_status create_cifar(yk_dataset **dataset, cifar *set)
{
    static const yk_field fields[] = {
        {"images", YK_FIELD_IMAGE, YK_U8, 3, {3, SIDE, SIDE}},
        {"labels", YK_FIELD_TENSOR, YK_I32, 0, {0}},
    };
    yk_dataset_ops ops = YK_DATASET_OPS_INIT;
    ops.name = set->family->name;
    ops.count = set->count;
    ops.field_count = 2;
    ops.fields = fields;
    ops.classes = set->family->classes;
    ops.class_names = set->family->class_names;
    ops.read = read_image;
    ops.close = close_cifar;
    ops.file_path = name_batch;
    return yk_dataset_create(dataset, &ops, set);
}

static yk_status add_split(cifar *set, const char *path, yk_split split)
{
    const struct version *version = NULL;
    const char *sub = NULL;
    YK_TRY(recognise(set->family, path, &version, &sub));
    if (split == YK_SPLIT_TEST)
        return add_batch(set, version, path, sub, set->family->test);
    for (int i = 0; i < MAX_FILES && set->family->train[i]; i++)
        YK_TRY(add_batch(set, version, path, sub, set->family->train[i]));
    return YK_OK;
}

static yk_status open_family(yk_dataset **dataset, const char *path, yk_split split,
                             const family *kind)
{
    cifar *set = yki_calloc(1, sizeof *set);
    if (!set)
        return yki_error_memory(sizeof *set, kind->name);
    set->family = kind;
    yk_status status = add_split(set, path, split);
    if (status == YK_OK)
        status = create_cifar(dataset, set);
    if (status != YK_OK)
        close_cifar(set);
    return status;
}

yk_status yk_cifar10_open(yk_dataset **dataset, const char *path, yk_split split)
{
    YKI_NOT_NULL(dataset);
    *dataset = NULL;
    YKI_NOT_NULL(path);
    return open_family(dataset, path, split, &cifar10);
}

yk_status yk_cifar100_open(yk_dataset **dataset, const char *path, yk_split split)
{
    YKI_NOT_NULL(dataset);
    *dataset = NULL;
    YKI_NOT_NULL(path);
    return open_family(dataset, path, split, &cifar100);
}

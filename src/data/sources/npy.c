/*
 * NumPy arrays: train_images.npy and train_labels.npy, test_images.npy and test_labels.npy (or
 * val_..., or x_train.npy, y_train.npy, x_test.npy, y_test.npy). Samples are read from the file.
 *
 * The format: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html. Arrays of u1
 * are pictures: (N, C, H, W), (N, H, W, C) or (N, H, W), of up to 1024 channels. Others are tensors
 * of any shape. An array in Fortran's order is refused, because its samples are scattered.
 */
#define _GNU_SOURCE
#include <linux/limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <yoke/readers.h>

#include "base/memory.h"
#include "data/sources/arrays.h"
#include "image/picture.h"
#include "tensor/tensor.h"

enum { MAX_HEADER = 65536, MAX_LABEL = 1 << 20 };

typedef struct npy {
    yki_input_file file;
    char type[8]; /* "<f4" */
    int ndim;
    int64_t dims[YK_MAX_DIMS];
    size_t offset, element; /* of the data; bytes */
} npy;

/* ---- the header ------------------------------------------------------------------------------ */

static yk_status bad_header(const npy *self, const char *what)
{
    return yki_error(YK_ERROR_FORMAT, "%s: %s", self->file.path, what);
}

/* What follows 'key': in the header's dictionary, or NULL. */
static const char *find_value(const char *text, const char *key)
{
    char quoted[32];
    snprintf(quoted, sizeof quoted, "'%s':", key);
    const char *found = strstr(text, quoted);
    return found ? found + strlen(quoted) + strspn(found + strlen(quoted), " ") : NULL;
}

/* "(60000, 28, 28)", "(5,)" */
static yk_status parse_shape(npy *self, const char *at)
{
    if (!at || *at++ != '(')
        return bad_header(self, "its header has no shape");
    for (at += strspn(at, " "); *at != ')'; at += strspn(at, ", ")) {
        char *end = NULL;
        long long side = strtoll(at, &end, 10);
        if (end == at || side < 0 || side > INT32_MAX)
            return bad_header(self, "its shape is not a list of numbers from 0 to 2^31 - 1");
        if (self->ndim == YK_MAX_DIMS)
            return yki_error(YK_ERROR_UNSUPPORTED, "%s: expected an array of at most %d dimensions",
                             self->file.path, YK_MAX_DIMS);
        self->dims[self->ndim++] = side;
        at = end;
    }
    return self->ndim > 0 ? YK_OK : bad_header(self, "it holds a single number, not samples");
}

static yk_status refuse_type(const npy *self, const char *type, size_t length)
{
    return yki_error(YK_ERROR_FORMAT,
                     "%s: expected numbers of at most 8 bytes, found elements of type %.*s; save "
                     "x.astype(\"float32\")",
                     self->file.path, (int)(length < 40 ? length : 40), type);
}

/* What the header's dictionary says; text is all of it. */
static yk_status parse_header(npy *self, const char *text)
{
    const char *type = find_value(text, "descr"), *order = find_value(text, "fortran_order");
    if (!type)
        return bad_header(self, "its header has no descr");
    if (*type != '\'')
        return bad_header(self, "its elements are structs; save one of their fields");
    size_t length = strcspn(type + 1, "'");
    if (length < 2 || length >= sizeof self->type)
        return refuse_type(self, type + 1, length);
    memcpy(self->type, type + 1, length);
    YK_TRY(parse_shape(self, find_value(text, "shape")));
    if (!order || (strncmp(order, "True", 4) != 0 && strncmp(order, "False", 5) != 0))
        return bad_header(self, "its header has no fortran_order");
    if (*order == 'T' && self->ndim > 1)
        return bad_header(self, "the array is in Fortran's order; save numpy.ascontiguousarray(x)");
    self->element = (size_t)strtoul(self->type + 2, NULL, 10);
    if (!strchr("biufc", self->type[1]) || self->element < 1 || self->element > 8)
        return refuse_type(self, self->type, strlen(self->type));
    if (self->element == 1)
        self->type[0] = '|'; /* bytes have no order, but some programs (cnpy) give them one */
    return YK_OK;
}

static yk_status check_size(const npy *self)
{
    size_t bytes = self->element;
    for (int d = 0; d < self->ndim; d++)
        if (__builtin_mul_overflow(bytes, (size_t)self->dims[d], &bytes))
            return bad_header(self, "its shape is too large");
    if (bytes != self->file.size - self->offset)
        return yki_error(YK_ERROR_FORMAT,
                         "%s: its header promises %zu bytes of data, the file has %zu",
                         self->file.path, bytes, self->file.size - self->offset);
    return YK_OK;
}

static yk_status read_header(npy *self)
{
    uint8_t start[12] = {0};
    size_t have = self->file.size < sizeof start ? self->file.size : sizeof start;
    YK_TRY(yki_input_file_read(&self->file, 0, start, have));
    if (have < 10 || memcmp(start, "\x93NUMPY", 6) != 0)
        return bad_header(self, "not a .npy file");
    bool first = start[6] == 1;
    size_t length = start[8] | (size_t)start[9] << 8;
    if (!first)
        length |= (size_t)start[10] << 16 | (size_t)start[11] << 24;
    self->offset = (first ? 10 : 12) + length;
    if (length > MAX_HEADER)
        return yki_error(YK_ERROR_FORMAT, "%s: expected a header of at most %d bytes, found %zu",
                         self->file.path, MAX_HEADER, length);
    if (self->offset > self->file.size)
        return bad_header(self, "the file ends within its header");
    char *text = yki_calloc(1, length + 1);
    if (!text)
        return yki_error_memory(length, self->file.path);
    yk_status status = yki_input_file_read(&self->file, first ? 10 : 12, text, length);
    if (status == YK_OK)
        status = parse_header(self, text);
    free(text);
    return status == YK_OK ? check_size(self) : status;
}

static yk_status open_npy(npy *self, const char *path)
{
    *self = (npy){.ndim = 0};
    YK_TRY(yki_input_file_open(&self->file, path));
    yk_status status = read_header(self);
    if (status != YK_OK)
        yki_input_file_close(&self->file);
    return status;
}

/* ---- finding the files ----------------------------------------------------------------------- */

/* The words that files of a split begin or end with, the preferred one first. */
static const char *const split_words[2][3] = {{"train"}, {"test", "val", "valid"}};

enum { WORDS = sizeof split_words[0] / sizeof *split_words[0] };

/* The images or labels of this word, by either way of naming them; false if there are none. */
static bool find_named(char path[PATH_MAX], const char *folder, const char *word, bool labels)
{
    for (int i = 0; i < 2; i++) {
        int length = i ? snprintf(path, PATH_MAX, "%s/%c_%s.npy", folder, labels ? 'y' : 'x', word)
                       : snprintf(path, PATH_MAX, "%s/%s_%s.npy", folder, word,
                                  labels ? "labels" : "images");
        if (length < PATH_MAX && access(path, F_OK) == 0)
            return true;
    }
    return false;
}

/* The file of the images of a split, and the word that its labels share: the first one that has
 * labels, or else the first. NULL if there are no images. */
static const char *find_images(char path[PATH_MAX], const char *folder, yk_split split)
{
    const char *const *words = split_words[split == YK_SPLIT_TEST];
    for (int labelled = 1; labelled >= 0; labelled--)
        for (int i = 0; i < WORDS && words[i]; i++)
            if ((!labelled || find_named(path, folder, words[i], true)) &&
                find_named(path, folder, words[i], false))
                return words[i];
    return NULL;
}

/* The file of the labels of those images; false if there is none. */
static bool find_labels(char path[PATH_MAX], const char *folder, yk_split split)
{
    const char *word = find_images(path, folder, split);
    return word && find_named(path, folder, word, true);
}

/* ---- labels ---------------------------------------------------------------------------------- */

static int64_t integer_at(const uint8_t *bytes, const npy *array)
{
    uint64_t value = 0;
    memcpy(&value, bytes, array->element);
    if (array->type[1] == 'i' && array->element < 8 && value >> (8 * array->element - 1))
        value -= (uint64_t)1 << (8 * array->element);
    return (int64_t)value;
}

static yk_status refuse_labels(const npy *array)
{
    char shape[96];
    return yki_error(YK_ERROR_FORMAT,
                     "%s: expected one integer for each sample, as y.astype(\"int64\") saves them, "
                     "found elements of type %s and shape %s",
                     array->file.path, array->type,
                     yki_dims_text(shape, sizeof shape, array->ndim, array->dims));
}

/* Reads labels of any integer type; *most is the largest. */
static yk_status read_labels(const npy *array, int32_t **labels, int64_t *most)
{
    size_t count = (size_t)array->dims[0], bytes = count * array->element;
    bool column = array->ndim == 2 && array->dims[1] == 1;
    if (!strchr("iub", array->type[1]) || array->type[0] == '>' || (array->ndim != 1 && !column))
        return refuse_labels(array);
    uint8_t *raw = malloc(bytes ? bytes : 1);
    *labels = yki_calloc(count ? count : 1, sizeof **labels);
    yk_status status = raw && *labels ? yki_input_file_read(&array->file, array->offset, raw, bytes)
                                      : yki_error_memory(bytes, array->file.path);
    for (size_t i = 0; i < count && status == YK_OK; i++) {
        int64_t label = integer_at(raw + i * array->element, array);
        (*labels)[i] = (int32_t)label;
        *most = label > *most ? label : *most;
        if (label < 0 || label >= MAX_LABEL)
            status = yki_error(YK_ERROR_FORMAT, "%s: label %zu is %lld, expected 0 to %d",
                               array->file.path, i, (long long)label, MAX_LABEL - 1);
    }
    free(raw);
    return status;
}

/* Labels of one split, and the number of classes in both; none if there is no file. */
static yk_status load_labels(yki_arrays *arrays, const char *folder, yk_split wanted)
{
    int64_t most = -1;
    char path[PATH_MAX];
    for (int split = YK_SPLIT_TRAIN; split <= YK_SPLIT_TEST; split++) {
        npy array;
        int32_t *labels = NULL;
        if (!find_labels(path, folder, (yk_split)split))
            continue;
        YK_TRY(open_npy(&array, path));
        yk_status status = read_labels(&array, &labels, &most);
        yki_input_file_close(&array.file);
        if (status == YK_OK && split == (int)wanted && array.dims[0] != arrays->count)
            status = yki_error(YK_ERROR_FORMAT, "%s: %lld labels for %lld samples", path,
                               (long long)array.dims[0], (long long)arrays->count);
        if (status == YK_OK && split == (int)wanted)
            arrays->labels = labels;
        else
            free(labels);
        YK_TRY(status);
    }
    arrays->classes = arrays->labels ? most + 1 : 0;
    return YK_OK;
}

/* ---- samples --------------------------------------------------------------------------------- */

static bool is_channels(int64_t count)
{
    return count == 1 || count == 3;
}

/* Whether dims (N, C, H, W) have their channels at the end: 1 and 3 are certainly channels, and
 * others are taken to be fewer than rows or columns. */
static bool has_channels_last(const int64_t *dims)
{
    if (is_channels(dims[1]) || is_channels(dims[3]))
        return !is_channels(dims[1]);
    return dims[3] < dims[1];
}

/* The field of an array of pictures: false if it is none. */
static bool describe_pictures(const npy *array, yki_arrays *arrays)
{
    const int64_t *dims = array->dims;
    yk_field *field = &arrays->field;
    *field = (yk_field){"images", YK_FIELD_IMAGE, YK_U8, 3, {1, dims[1], dims[2]}};
    if (array->type[1] != 'u' || array->element != 1 || array->ndim < 3 || array->ndim > 4)
        return false;
    if (array->ndim == 3)
        return true;
    arrays->channels_last = has_channels_last(dims);
    if (arrays->channels_last)
        field->dims[0] = dims[3];
    else
        memcpy(field->dims, dims + 1, 3 * sizeof *dims);
    return field->dims[0] >= 1 && field->dims[0] <= YKI_PICTURE_CHANNELS_MAX;
}

static yk_status describe_tensors(const npy *array, yki_arrays *arrays)
{
    static const struct {
        const char *type;
        yk_dtype dtype;
    } dtypes[] = {{"<f4", YK_F32}, {"<f8", YK_F64}, {"<f2", YK_F16}, {"<i4", YK_I32},
                  {"<i8", YK_I64}, {"|u1", YK_U8},  {"|b1", YK_U8}};
    arrays->channels_last = false;
    arrays->field = (yk_field){.name = "images", .kind = YK_FIELD_TENSOR, .ndim = array->ndim - 1};
    memcpy(arrays->field.dims, array->dims + 1, (size_t)arrays->field.ndim * sizeof *array->dims);
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (strcmp(array->type, dtypes[i].type) == 0) {
            arrays->field.dtype = dtypes[i].dtype;
            return YK_OK;
        }
    return yki_error(YK_ERROR_UNSUPPORTED,
                     "%s: elements of type %s are not read; save x.astype(\"float32\")",
                     array->file.path, array->type);
}

yk_status yk_npy_open(yk_dataset **dataset, const char *path, yk_split split)
{
    char file[PATH_MAX];
    npy images;
    YKI_NOT_NULL(dataset);
    *dataset = NULL;
    YKI_NOT_NULL(path);
    if (!find_images(file, path, split))
        return yki_error(YK_ERROR_NOT_FOUND,
                         "%s: no NumPy arrays of this split: expected train_images.npy and "
                         "train_labels.npy, test_images.npy and test_labels.npy",
                         path);
    YK_TRY(open_npy(&images, file));
    yki_arrays arrays = {.name = "NumPy arrays",
                         .file = images.file,
                         .offset = images.offset,
                         .count = images.dims[0]};
    yk_status status = YK_OK;
    if (!describe_pictures(&images, &arrays))
        status = describe_tensors(&images, &arrays);
    if (status == YK_OK)
        status = load_labels(&arrays, path, split);
    if (status == YK_OK)
        return yki_arrays_create(dataset, &arrays);
    yki_arrays_free(&arrays);
    return status;
}

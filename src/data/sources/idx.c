/*
 * MNIST and Fashion-MNIST: IDX files (http://yann.lecun.com/exdb/mnist/), plain or compressed with
 * gzip. An IDX file of bytes starts with 0, 0, 8 and the number of dimensions, then each dimension
 * in four bytes, the highest first. Plain files stay where they are; compressed ones are unpacked
 * into memory, unless they would take far more of it than the file (MNIST's take five times as
 * much).
 */
#include <linux/limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

#include <yoke/readers.h>

#include "base/memory.h"
#include "base/text.h"
#include "data/sources/arrays.h"
#include "io/zip.h"

enum { MAX_DIMS = 3, MAX_HEADER = 4 + 4 * MAX_DIMS, CLASSES = 10 };

typedef struct idx {
    yki_input_file file;
    uint8_t *memory; /* what was unpacked, or NULL */
    size_t size;     /* of the file, unpacked */
    int64_t dims[MAX_DIMS];
    size_t header; /* bytes before the data */
} idx;

static void close_idx(idx *self)
{
    yki_input_file_close(&self->file);
    free(self->memory);
    *self = (idx){0};
}

/* ---- reading --------------------------------------------------------------------------------- */

static yk_status damaged(const idx *self, const char *what)
{
    return yki_error(YK_ERROR_FORMAT, "%s: %s", self->file.path, what);
}

/* Checks the header, of which `bytes` are there, and that the file has the data it promises. */
static yk_status read_header(idx *self, const uint8_t *header, size_t bytes, int ndim)
{
    size_t data = 1;
    if (bytes < 4 || header[0] || header[1] || header[2] != 8)
        return damaged(self, "not an IDX file of bytes: expected it to begin with 0, 0, 8");
    if (header[3] != ndim)
        return yki_error(YK_ERROR_FORMAT, "%s: expected an array of %d dimensions, found %d",
                         self->file.path, ndim, header[3]);
    self->header = 4 + 4 * (size_t)ndim;
    if (bytes < self->header)
        return damaged(self, "the file ends within its header");
    for (int d = 0; d < ndim; d++) {
        const uint8_t *number = header + 4 + 4 * d;
        self->dims[d] = (int64_t)((uint32_t)number[0] << 24 | (uint32_t)number[1] << 16 |
                                  (uint32_t)number[2] << 8 | number[3]);
        if (self->dims[d] < 1 || self->dims[d] > INT32_MAX)
            return damaged(self, "a dimension is not between 1 and 2^31");
        if (__builtin_mul_overflow(data, (size_t)self->dims[d], &data))
            return damaged(self, "its dimensions are too large");
    }
    self->size = self->header + data;
    return YK_OK;
}

static yk_status check_size(const idx *self, size_t found)
{
    if (found == self->size)
        return YK_OK;
    return yki_error(YK_ERROR_FORMAT, "%s: expected %zu bytes, as its header says, found %zu%s",
                     self->file.path, self->size, found, found > self->size ? " or more" : "");
}

/* Unpacks a compressed file into memory. */
static yk_status unpack(idx *self, gzFile packed, int ndim)
{
    uint8_t header[MAX_HEADER];
    int got = gzread(packed, header, 4 + 4 * (unsigned)ndim);
    YK_TRY(read_header(self, header, got < 0 ? 0 : (size_t)got, ndim));
    if (self->size > INT32_MAX)
        return damaged(self, "its dimensions are too large");
    if (self->size > self->file.size * YKI_ZIP_FACTOR + YKI_ZIP_SLACK)
        return yki_error(YK_ERROR_FORMAT,
                         "%s: would unpack to %d times its size or more: if that is right, unpack "
                         "it with gunzip",
                         self->file.path, YKI_ZIP_FACTOR);
    self->memory = malloc(self->size + 1); /* one more, to see what is too long */
    if (!self->memory)
        return yki_error_memory(self->size, self->file.path);
    memcpy(self->memory, header, self->header);
    got = gzread(packed, self->memory + self->header, (unsigned)(self->size - self->header) + 1);
    if (got < 0)
        return damaged(self, "its compressed data is damaged");
    return check_size(self, self->header + (size_t)got);
}

/* Opens an array of bytes with ndim dimensions. */
static yk_status open_idx(idx *self, const char *path, int ndim)
{
    uint8_t header[MAX_HEADER] = {0};
    *self = (idx){0};
    YK_TRY(yki_input_file_open(&self->file, path));
    yk_status status = YK_OK;
    if (yki_ends_in(path, ".gz")) {
        gzFile packed = gzopen(path, "rbe");
        status = packed ? unpack(self, packed, ndim) : damaged(self, "cannot be unpacked");
        if (packed)
            gzclose(packed);
    } else {
        size_t bytes = self->file.size < sizeof header ? self->file.size : sizeof header;
        status = yki_input_file_read(&self->file, 0, header, bytes);
        if (status == YK_OK)
            status = read_header(self, header, bytes, ndim);
        if (status == YK_OK)
            status = check_size(self, self->file.size);
    }
    if (status != YK_OK)
        close_idx(self);
    return status;
}

/* ---- finding the files ----------------------------------------------------------------------- */

/* Looks for "train-images-idx3-ubyte" in the folder and where torchvision keeps it. */
static yk_status find_file(char path[PATH_MAX], const char *folder, const char *prefix,
                           const char *what)
{
    static const char *const places[] = {"", "/raw", "/MNIST/raw", "/FashionMNIST/raw"};
    static const char *const separators[] = {"-", "."};
    struct stat info;
    for (int i = 0; i < 4 * 2 * 2; i++) {
        int length = snprintf(path, PATH_MAX, "%s%s/%s-%s%s%s", folder, places[i / 4], prefix, what,
                              separators[i / 2 % 2],
                              strcmp(what, "images") == 0 ? "idx3-ubyte" : "idx1-ubyte");
        if (length < PATH_MAX - 4 && i % 2)
            memcpy(path + length, ".gz", sizeof ".gz");
        if (length < PATH_MAX - 4 && stat(path, &info) == 0 && S_ISREG(info.st_mode))
            return YK_OK;
    }
    return yki_error(YK_ERROR_NOT_FOUND,
                     "%s: no %s-%s-idx%d-ubyte or .gz here, as MNIST and Fashion-MNIST have",
                     folder, prefix, what, strcmp(what, "images") == 0 ? 3 : 1);
}

/* ---- the data set ---------------------------------------------------------------------------- */

static yk_status read_labels(yki_arrays *arrays, const char *path)
{
    idx labels;
    YK_TRY(open_idx(&labels, path, 1));
    yk_status status = YK_OK;
    uint8_t *bytes = malloc((size_t)labels.dims[0]);
    arrays->labels = yki_calloc((size_t)labels.dims[0], sizeof *arrays->labels);
    if (!bytes || !arrays->labels)
        status = yki_error_memory((size_t)labels.dims[0] * 5, path);
    else if (labels.dims[0] != arrays->count)
        status = yki_error(YK_ERROR_FORMAT, "%s: %lld labels for %lld images", path,
                           (long long)labels.dims[0], (long long)arrays->count);
    else if (labels.memory)
        memcpy(bytes, labels.memory + labels.header, (size_t)arrays->count);
    else
        status = yki_input_file_read(&labels.file, labels.header, bytes, (size_t)arrays->count);
    for (int64_t i = 0; i < arrays->count && status == YK_OK; i++) {
        arrays->labels[i] = bytes[i];
        if (bytes[i] >= CLASSES)
            status = yki_error(YK_ERROR_FORMAT, "%s: label %lld is %d, expected 0 to 9", path,
                               (long long)i, bytes[i]);
    }
    free(bytes);
    close_idx(&labels);
    return status;
}

static yk_status open_split(yk_dataset **dataset, const char *folder, yk_split split,
                            const char *name, const char *const *class_names)
{
    char images_path[PATH_MAX], labels_path[PATH_MAX];
    const char *prefix = split == YK_SPLIT_TRAIN ? "train" : "t10k";
    idx images;
    YK_TRY(find_file(images_path, folder, prefix, "images"));
    YK_TRY(find_file(labels_path, folder, prefix, "labels"));
    YK_TRY(open_idx(&images, images_path, 3));
    yki_arrays arrays = {
        .name = name,
        .file = images.file,
        .memory = images.memory,
        .offset = images.header,
        .field = {"images", YK_FIELD_IMAGE, YK_U8, 3, {1, images.dims[1], images.dims[2]}},
        .count = images.dims[0],
        .classes = CLASSES,
        .class_names = class_names};
    yk_status status = read_labels(&arrays, labels_path);
    if (status == YK_OK)
        return yki_arrays_create(dataset, &arrays);
    yki_arrays_free(&arrays);
    return status;
}

yk_status yk_mnist_open(yk_dataset **dataset, const char *path, yk_split split)
{
    YKI_NOT_NULL(dataset);
    *dataset = NULL;
    YKI_NOT_NULL(path);
    static const char *const digits[CLASSES] = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};
    return open_split(dataset, path, split, "MNIST", digits);
}

yk_status yk_fashion_mnist_open(yk_dataset **dataset, const char *path, yk_split split)
{
    YKI_NOT_NULL(dataset);
    *dataset = NULL;
    YKI_NOT_NULL(path);
    static const char *const clothes[CLASSES] = {"T-shirt/top", "Trouser",   "Pullover", "Dress",
                                                 "Coat",        "Sandal",    "Shirt",    "Sneaker",
                                                 "Bag",         "Ankle boot"};
    return open_split(dataset, path, split, "Fashion-MNIST", clothes);
}

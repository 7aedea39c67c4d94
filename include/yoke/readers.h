/**
 * @file
 * Readers of pictures in the formats that people have them in. Each opens one split as a
 * yk_dataset with the fields "images" and "labels"; pictures are read when they are needed. On
 * failure *dataset is NULL; YK_ERROR_NOT_FOUND when there is no such data at the path.
 */
#ifndef YOKE_READERS_H
#define YOKE_READERS_H

#include <yoke/data.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/**
 * Opens a folder of JPEG, PNG and WebP files with the semantics of torchvision's ImageFolder: each
 * folder in it is a class, classes are numbered in the order of their names, and files are found in
 * nested folders, too. Files with other names than .jpg, .jpeg, .png and .webp are left out, and so
 * are folders whose names begin with a dot.
 *
 * If path has a folder train, this is the split for training; the test split is then the folder
 * val, valid, validation or test beside it, whose classes are numbered as those of train. Otherwise
 * path itself is the split for training, and there is no other (YK_ERROR_NOT_FOUND; see
 * yk_dataset_random_split).
 */
yk_status yk_folder_open(yk_dataset **dataset, const char *path, yk_split split);
/**
 * Opens WebDataset shards: tar archives in which NAME.jpg (or .jpeg, .png, .webp; the first of
 * these that there is) and NAME.cls, the label in digits, are a sample (extensions in lower or
 * upper case). A pattern names them, such as "data/train-{000..127}.tar"; with "TRAIN::VAL" the
 * second pattern is the test split. Archives are indexed here, so that samples have numbers, and
 * sharding and resuming are exact.
 */
yk_status yk_shards_open(yk_dataset **dataset, const char *pattern, yk_split split);
/**
 * Opens MNIST: its four IDX files (train-images-idx3-ubyte, t10k-labels-idx1-ubyte, ...), plain or
 * with .gz, at path or where torchvision keeps them below it. Images are (1, 28, 28).
 */
yk_status yk_mnist_open(yk_dataset **dataset, const char *path, yk_split split);
/** Opens Fashion-MNIST, whose files are named as those of MNIST. */
yk_status yk_fashion_mnist_open(yk_dataset **dataset, const char *path, yk_split split);
/**
 * Opens CIFAR-100 at path: the folder of the Python pickles (cifar-100-python) or of the binary
 * version (cifar-100-binary), or the parent of either. Labels are the 100 fine ones.
 */
yk_status yk_cifar100_open(yk_dataset **dataset, const char *path, yk_split split);
/**
 * Opens NumPy arrays in the folder at path: train_images.npy and train_labels.npy, test_images.npy
 * and test_labels.npy (or val_images.npy, x_train.npy, y_train.npy, ...). uint8 arrays (N, H, W),
 * (N, C, H, W) and (N, H, W, C) of up to 1024 channels are pictures. The axis of size 1 or 3 holds
 * the channels, or else the shorter one of the two. Arrays of other types and shapes are tensors.
 * Labels are integers, in the file that is named as that of the images (test_labels.npy or
 * y_test.npy for test_images.npy); without such a file the data has no labels. Of the test split's
 * names (test, val, valid) the first one with labels counts, or else the first.
 */
yk_status yk_npy_open(yk_dataset **dataset, const char *path, yk_split split);

/* ---- packed files ---------------------------------------------------------------------------- */

/** yk_pack_options.short_side: pictures keep their sizes. */
#define YK_PACK_SIZE_KEEP (-1)

/** What is kept of each picture. */
typedef enum yk_pack_format {
    YK_PACK_PIXELS, /**< its pixels, which load without decoding */
    YK_PACK_JPEG,   /**< a JPEG file made of its pixels: about a tenth of the space */
    YK_PACK_FILES   /**< its JPEG, PNG or WebP file as it is */
} yk_pack_format;

/** How a data set is packed. */
typedef struct yk_pack_options {
    size_t size;           /**< set by YK_PACK_OPTIONS_INIT */
    int64_t short_side;    /**< what the shorter side of each picture is resized to (bilinear,
                                antialiased), or YK_PACK_SIZE_KEEP [YK_PACK_SIZE_KEEP] */
    yk_pack_format format; /**< [YK_PACK_PIXELS] */
    int quality;           /**< of YK_PACK_JPEG, 1 to 100 [90] */
    bool skip_damaged;     /**< leave out damaged samples (yk_sample_is_damaged), with a warning for
                                each; otherwise one is an error. YK_PACK_FILES does not look into
                                the files [false] */
} yk_pack_options;

/** The defaults of yk_pack_options. */
#define YK_PACK_OPTIONS_INIT                                                                       \
    {                                                                                              \
        sizeof(yk_pack_options), YK_PACK_SIZE_KEEP, YK_PACK_PIXELS, 90, false                      \
    }

/**
 * Writes a data set of pictures with labels to one file, from which samples are loaded quickly. The
 * file is complete or not there. docs/file-formats.md describes it. YK_ERROR_UNSUPPORTED for data
 * without labels or classes, for grey pictures as JPEG, which is read as RGB, and for a picture
 * with a side of more than 65535 pixels (65500 as JPEG), now or once it is resized.
 * YK_ERROR_INVALID_ARGUMENT for a label outside the classes.
 */
yk_status yk_pack_write(const char *path, const yk_dataset *dataset,
                        const yk_pack_options *options);
/** Opens a packed file, which holds the split for training, or a folder with the files train.pack
 *  and val.pack. */
yk_status yk_pack_open(yk_dataset **dataset, const char *path, yk_split split);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif

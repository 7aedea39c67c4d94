/**
 * @file
 * Data sets, the distributed sampler and the loader. Images stay bytes, in their files or in
 * memory; the loader's worker threads write each one once, transformed, straight into the batch.
 */
#ifndef YOKE_DATA_H
#define YOKE_DATA_H

#include <yoke/group.h>
#include <yoke/model.h>

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/** Which part of a data set. */
typedef enum yk_split { YK_SPLIT_TRAIN, YK_SPLIT_TEST } yk_split;

/* ---- data sets ------------------------------------------------------------------------------ */

/** A data set of images with labels. Any thread may read it. */
typedef struct yk_dataset yk_dataset;

/**
 * Opens CIFAR-10 at path, recognised by content: the folder of the Python pickles or of the binary
 * version, or the parent of either. Checks every file once and keeps it open; images are read on
 * demand. YK_ERROR_NOT_FOUND, YK_ERROR_IO, YK_ERROR_FORMAT; errors name the file, the offset and
 * what was expected. On failure *dataset is NULL.
 */
yk_status yk_cifar10_open(yk_dataset **dataset, const char *path, yk_split split);

/** yk_synthetic_options.count: 5,000 images for training, 1,000 for testing. */
#define YK_SYNTHETIC_COUNT_AUTO (-1)

/** What synthetic images are drawn. */
typedef struct yk_synthetic_options {
    size_t size;   /**< set by YK_SYNTHETIC_OPTIONS_INIT */
    int64_t count; /**< images, or YK_SYNTHETIC_COUNT_AUTO [YK_SYNTHETIC_COUNT_AUTO] */
    uint64_t seed; /**< the images depend on it, on the split and on their index [0] */
} yk_synthetic_options;

/** The defaults of yk_synthetic_options. */
#define YK_SYNTHETIC_OPTIONS_INIT                                                                  \
    {                                                                                              \
        sizeof(yk_synthetic_options), YK_SYNTHETIC_COUNT_AUTO, 0                                   \
    }

/** Draws ten classes of 3x32x32 images, which a network can learn to tell apart; needs no files. On
 *  failure *dataset is NULL. */
yk_status yk_synthetic_create(yk_dataset **dataset, yk_split split,
                              const yk_synthetic_options *options);
/** Releases the data set; its loaders keep it alive. Accepts NULL. */
void yk_dataset_destroy(yk_dataset *dataset);

/** Number of samples; 0 for NULL. */
int64_t yk_dataset_size(const yk_dataset *dataset);
/** Number of classes: labels are 0 to classes - 1. 0 for NULL. */
int64_t yk_dataset_classes(const yk_dataset *dataset);
/** The name of a class; NULL for a label that does not exist, and for NULL. */
const char *yk_dataset_class_name(const yk_dataset *dataset, int64_t label);
/** The name of the data set, such as "CIFAR-10"; NULL for NULL. */
const char *yk_dataset_name(const yk_dataset *dataset);
/**
 * Copies one image: pixels (3, 32, 32), R then G then B, and its label (may be NULL). YK_ERROR_IO
 * when its file can no longer be read. Any thread.
 */
yk_status yk_dataset_image(const yk_dataset *dataset, int64_t index, uint8_t *pixels, int *label);

/** Options of yk_cifar10_download. */
typedef struct yk_download_options {
    size_t size; /**< set by YK_DOWNLOAD_OPTIONS_INIT */
    /** Called a few times a second while data arrives, on the calling thread: `done` of `total`
     * bytes, including those of an earlier attempt. May be NULL. */
    void (*progress)(void *user, int64_t done, int64_t total);
    void *user; /**< the first argument of progress */
} yk_download_options;

/** The defaults of yk_download_options. */
#define YK_DOWNLOAD_OPTIONS_INIT                                                                   \
    {                                                                                              \
        sizeof(yk_download_options), NULL, NULL                                                    \
    }

/**
 * Makes sure that CIFAR-10 is in the user's cache and writes its folder to path (path_size bytes).
 * If it is not there, downloads the official archive, resuming a partial file, and checks its MD5.
 * YOKE_CIFAR10_URL names another source, YOKE_CIFAR10_MD5 its checksum. Blocks; waits while another
 * process downloads. Call it on one rank only. YK_ERROR_NETWORK when the source cannot be reached;
 * YK_ERROR_UNSUPPORTED when the data is not in the cache and the library was built without
 * libcurl and libarchive.
 */
yk_status yk_cifar10_download(char *path, size_t path_size, const yk_download_options *options);
/** Whether this build of the library can download. */
bool yk_download_supported(void);
/**
 * Writes the folder of CIFAR-10 in the user's cache to path (path_size bytes), or returns
 * YK_ERROR_NOT_FOUND where it is not there. Never downloads.
 */
yk_status yk_cifar10_find(char *path, size_t path_size);

/* ---- transforms ----------------------------------------------------------------------------- */

/**
 * What happens to an image on its way into a batch: RandomCrop(32, padding), RandomHorizontalFlip,
 * ToTensor and Normalize, in this order. Random choices depend only on (seed, epoch, index of the
 * sample).
 */
typedef struct yk_transform {
    int crop_padding; /**< rows and columns of zeros on each side before a random crop of 32x32;
                           0 adds none, so that the crop is the whole image [0]
                       */
    bool flip;        /**< mirror every second image, at random [false] */
    float mean[3];    /**< subtracted from each channel, whose pixels lie in [0, 1] [0] */
    float std[3];     /**< then each channel is divided by it; above 0 [1] */
} yk_transform;

/** A transform that only scales pixels to [0, 1]. */
#define YK_TRANSFORM_INIT                                                                          \
    {                                                                                              \
        0, false, {0, 0, 0},                                                                       \
        {                                                                                          \
            1, 1, 1                                                                                \
        }                                                                                          \
    }

/** For training on CIFAR-10: a crop with padding 4, flips, and the usual mean and deviation. */
extern const yk_transform yk_cifar10_augment;
/** For evaluation on CIFAR-10: the same mean and deviation only. */
extern const yk_transform yk_cifar10_normalize;

/* ---- sampler -------------------------------------------------------------------------------- */

/** Which samples of an epoch belong to which rank. */
typedef struct yk_sampler_options {
    size_t size;     /**< set by YK_SAMPLER_OPTIONS_INIT */
    int64_t samples; /**< in the data set, at least 0 [0] */
    int world_size;  /**< ranks that share them [1] */
    int rank;        /**< this one, from 0 [0] */
    bool shuffle;    /**< in another order each epoch [false] */
    bool drop_last;  /**< drop what the ranks cannot share evenly instead of repeating samples
                          [false] */
    uint64_t seed;   /**< of the order; the same on all ranks [0] */
    bool exact;      /**< for evaluation: every sample exactly once over all ranks [false] */
} yk_sampler_options;

/** The defaults of yk_sampler_options. */
#define YK_SAMPLER_OPTIONS_INIT                                                                    \
    {                                                                                              \
        sizeof(yk_sampler_options), 0, 1, 0, false, false, 0, false                                \
    }

/**
 * Number of indices that one rank gets in an epoch; 0 for options that make no sense. With more
 * ranks than samples the indices repeat, as in PyTorch; with exact or drop_last some ranks then
 * have none.
 */
int64_t yk_sampler_count(const yk_sampler_options *options);
/** Writes these indices: exactly those of torch's DistributedSampler after set_epoch(epoch). */
yk_status yk_sampler_indices(const yk_sampler_options *options, int64_t epoch, int64_t *indices);

/* ---- loader --------------------------------------------------------------------------------- */

/** A loader: worker threads that prepare batches ahead. */
typedef struct yk_loader yk_loader;

/** How batches are made. */
typedef struct yk_loader_options {
    size_t size;            /**< set by YK_LOADER_OPTIONS_INIT */
    const yk_group *group;  /**< the ranks that share the data set, or NULL for one rank [NULL] */
    int virtual_ranks;      /**< V, a multiple of the N ranks: the loader serves V / N of V virtual
                                 ranks in turn, a batch each, as yk_ddp_options.virtual_ranks needs;
                                 each samples like a rank of V. 0 if there are none [0] */
    int64_t batch_size;     /**< of this rank, or of each of its virtual ranks [1] */
    bool shuffle;           /**< in another order each epoch [false] */
    bool drop_last;         /**< drop a short last batch, and what the ranks cannot share evenly
                                 [false] */
    bool exact;             /**< for evaluation: every sample exactly once over all ranks [false] */
    yk_transform transform; /**< of each image [YK_TRANSFORM_INIT] */
    uint64_t seed;          /**< of order and transform; the same on all ranks [0] */
    int workers;            /**< threads that prepare batches ahead, 1 to 256 [1] */
    int prefetch;           /**< batches that each worker prepares ahead, 1 to 16 [2] */
    yk_dtype dtype;         /**< of images: YK_F32 or YK_F64 [YK_F32] */
} yk_loader_options;

/** The defaults of yk_loader_options. */
#define YK_LOADER_OPTIONS_INIT                                                                     \
    {                                                                                              \
        sizeof(yk_loader_options), NULL, 0, 1, false, false, false, YK_TRANSFORM_INIT, 0, 1, 2,    \
            YK_F32                                                                                 \
    }

/**
 * Starts the worker threads, which begin with epoch 0 at once. Keeps the data set alive; the group
 * is only asked for its rank and size. Not collective. NULL options mean the defaults. On failure
 * *loader is NULL; YK_ERROR_INVALID_ARGUMENT for options that make no sense. A child made by fork()
 * has none of the threads: there yk_loader_next and yk_loader_seek fail with YK_ERROR_UNSUPPORTED.
 */
yk_status yk_loader_create(yk_loader **loader, const yk_dataset *dataset,
                           const yk_loader_options *options);
/** Ends the workers, after the batches that they are preparing. Accepts NULL. */
void yk_loader_destroy(yk_loader *loader);

/**
 * The next batch, "images" (n, 3, 32, 32) of options.dtype and "labels" (n) i32, valid until the
 * next call; NULL at the end of the epoch, after which the next call starts the following epoch by
 * itself; or NULL with yk_loader_status other than YK_OK when a worker failed. Blocks while none is
 * ready. NULL for NULL.
 */
const yk_batch *yk_loader_next(yk_loader *loader);
/** Why yk_loader_next returned NULL: YK_OK at the end of an epoch, otherwise the failure.
 *  YK_ERROR_INVALID_ARGUMENT for NULL. */
yk_status yk_loader_status(const yk_loader *loader);

/** Number of virtual ranks whose batches take turns on this rank: batch b of an epoch belongs to
 * the one with number b % yk_loader_virtual_ranks(). 1 without virtual ranks; 0 for NULL. */
int yk_loader_virtual_ranks(const yk_loader *loader);
/** Batches of one epoch on this rank; 0 for NULL. */
int64_t yk_loader_batches(const yk_loader *loader);
/** The epoch of the last batch, from 0; after yk_loader_next returned NULL the epoch that has
 * ended, until its next call. 0 for NULL. */
int64_t yk_loader_epoch(const yk_loader *loader);
/** Continues with batch number `batch` of `epoch` (at most 2^53), both from 0, without reading the
 *  images in between. Clears a worker's failure. */
yk_status yk_loader_seek(yk_loader *loader, int64_t epoch, int64_t batch);
/** Seconds that the last yk_loader_next waited for data; 0 for NULL. */
double yk_loader_wait_s(const yk_loader *loader);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif

/**
 * @file
 * Data sets, the distributed sampler and the loader. A data set gives access to single samples; a
 * sample has fields, each of which becomes one tensor of a batch. The loader's worker threads write
 * every field once, straight into the batch, and transform pictures on the way.
 */
#ifndef YOKE_DATA_H
#define YOKE_DATA_H

#include <yoke/group.h>
#include <yoke/model.h>
#include <yoke/transforms.h>

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/** Which part of a data set. */
typedef enum yk_split {
    YK_SPLIT_TRAIN, /**< what is trained on */
    YK_SPLIT_TEST   /**< what is held out, for validation and tests */
} yk_split;

/* ---- data sets ------------------------------------------------------------------------------ */

/** A data set. Any thread may use it. */
typedef struct yk_dataset yk_dataset;

/** What a field holds, and what the loader does with it. */
typedef enum yk_field_kind {
    YK_FIELD_TENSOR,       /**< a tensor of one shape and dtype, read straight into the batch */
    YK_FIELD_IMAGE,        /**< a picture of bytes (C, H, W), transformed by the loader */
    YK_FIELD_ENCODED_IMAGE /**< a JPEG, PNG or WebP file, decoded and transformed by the loader */
} yk_field_kind;

/** A height or width that differs from picture to picture. */
#define YK_ANY_SIZE (-1)

/** One tensor of each sample, without the batch's first dimension. */
typedef struct yk_field {
    const char *name;   /**< of the batch's tensor: that of the model's input */
    yk_field_kind kind; /**< what read() gives, and what becomes of it */
    yk_dtype dtype; /**< of a tensor's elements; YK_U8 for pictures, whose tensors in a batch are of
                         yk_loader_options.dtype */
    int ndim;       /**< of a tensor 0 (a number) to YK_MAX_DIMS - 1; 3 for pictures */
    int64_t dims[YK_MAX_DIMS - 1]; /**< of a picture (C, H, W); H and W may be YK_ANY_SIZE */
} yk_field;

/** Where a data set's read() puts one field of one sample. */
typedef struct yk_field_buffer {
    void *data;      /**< of YK_FIELD_TENSOR: the place in the batch, to be filled. Of the others
                          NULL: yk_field_buffer_reserve or yk_field_buffer_lend sets it */
    size_t bytes;    /**< at data */
    int64_t dims[3]; /**< of YK_FIELD_IMAGE: as the field has them; write what is YK_ANY_SIZE */
    void *room;      /**< the library's */
} yk_field_buffer;

/** Makes room for a picture, to be filled by read(); NULL when out of memory, which the library
 * then reports. The memory is the worker's and serves again for its next sample. */
void *yk_field_buffer_reserve(yk_field_buffer *buffer, size_t bytes);
/** Uses the caller's memory for a picture, without a copy; it must stay as it is until the same
 *  worker's next read(). */
void yk_field_buffer_lend(yk_field_buffer *buffer, const void *data, size_t bytes);

/**
 * What a data set is: how many samples of which fields, and the functions that read them. Texts and
 * fields are copied. Functions report failure with yk_set_error; the library adds the sample's
 * number and name. Functions that are NULL are not needed.
 */
typedef struct yk_dataset_ops {
    size_t size;                    /**< set by YK_DATASET_OPS_INIT */
    const char *name;               /**< such as "CIFAR-10" ["data"] */
    int64_t count;                  /**< samples [0] */
    int field_count;                /**< 1 or more [0] */
    const yk_field *fields;         /**< (field_count); class labels are a field named "labels",
                                         YK_I32 with ndim 0 [NULL] */
    int64_t classes;                /**< labels are below it; 0 if there are no classes [0] */
    const char *const *class_names; /**< (classes), or NULL [NULL] */
    /** Reads sample `index` into buffers (field_count). Called by several workers at once, each
     * with its own `worker`. Reading an index again must give the same bytes. The status says
     * whether other samples can still be read: see yk_sample_is_damaged. */
    yk_status (*read)(void *data, void *worker, int64_t index, yk_field_buffer *buffers);
    /** Makes what one worker needs for itself, such as a decoder. Runs on the thread that creates
     * the loader; may be NULL, and workers are then given NULL. */
    yk_status (*open_worker)(void *data, void **worker);
    void (*close_worker)(void *data, void *worker); /**< releases it; may be NULL */
    /** Writes what the user calls a sample, such as the name of its file; may be NULL. */
    void (*sample_name)(void *data, int64_t index, char *name, size_t size);
    void (*close)(void *data); /**< releases data, once nothing uses the data set; may be NULL */
    /** Writes the path of file `index`, from 0 on, of those that samples are read from; false past
     * the last. NULL if they are read from none. */
    bool (*file_path)(void *data, int64_t index, char *path, size_t size);
} yk_dataset_ops;

/** The defaults of yk_dataset_ops. */
#define YK_DATASET_OPS_INIT                                                                        \
    {                                                                                              \
        sizeof(yk_dataset_ops), "data", 0, 0, NULL, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL    \
    }

/**
 * Makes a data set of a program's own. It takes over data, which ops.close releases; on failure
 * data remains the caller's, and *dataset is NULL. YK_ERROR_INVALID_ARGUMENT for fields that make
 * no sense.
 */
yk_status yk_dataset_create(yk_dataset **dataset, const yk_dataset_ops *ops, void *data);
/** Releases the data set; its loaders keep it alive. Accepts NULL. */
void yk_dataset_destroy(yk_dataset *dataset);

/** The name of the data set, such as "CIFAR-10"; NULL for NULL. */
const char *yk_dataset_name(const yk_dataset *dataset);
/** Number of samples; 0 for NULL. */
int64_t yk_dataset_size(const yk_dataset *dataset);
/** Number of fields of a sample; 0 for NULL. */
int yk_dataset_field_count(const yk_dataset *dataset);
/** A field, from 0 on; NULL where there is none, and for NULL. */
const yk_field *yk_dataset_field(const yk_dataset *dataset, int index);
/** The field of that name; NULL where there is none, and for NULL. */
const yk_field *yk_dataset_find_field(const yk_dataset *dataset, const char *name);
/** Number of classes: labels are 0 to classes - 1. 0 where there are none, and for NULL. */
int64_t yk_dataset_classes(const yk_dataset *dataset);
/** The name of a class; NULL for a label that does not exist or has no name, and for NULL. */
const char *yk_dataset_class_name(const yk_dataset *dataset, int64_t label);
/** Writes the name of a sample, such as "cat/0001.jpg", or "" where it has none. */
void yk_dataset_sample_name(const yk_dataset *dataset, int64_t index, char *name, size_t size);
/** Whether samples are read from the file at the path, whatever name it has there: that of a link,
 *  too. A result in its place would destroy the data. False where there is no such file. Looks at
 *  every file of the data set, which may be as many as there are samples. */
bool yk_dataset_reads_file(const yk_dataset *dataset, const char *path);

/**
 * Whether this status of a read means that one sample is damaged while others can be read:
 * YK_ERROR_FORMAT, YK_ERROR_NOT_FOUND (its file has vanished), YK_ERROR_DENIED and
 * YK_ERROR_UNSUPPORTED (it is too large, or too small for its crop). Any other failure concerns the
 * whole data set.
 */
bool yk_sample_is_damaged(yk_status status);

/** Reads single samples of a data set as they are, without transforms. One thread at a time. */
typedef struct yk_reader yk_reader;
/** Makes a reader, which keeps the data set alive. On failure *reader is NULL. */
yk_status yk_reader_create(yk_reader **reader, const yk_dataset *dataset);
/** Accepts NULL. */
void yk_reader_destroy(yk_reader *reader);
/**
 * Reads one sample. *fields is an array of its tensors, one for each field of the data set, valid
 * until the next read; a picture is YK_U8 (C, H, W). On failure *fields is NULL, and the error
 * names the sample.
 */
yk_status yk_reader_read(yk_reader *reader, int64_t index, const yk_tensor **fields);

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

/** What random images are like. */
typedef struct yk_random_options {
    size_t size;      /**< set by YK_RANDOM_OPTIONS_INIT */
    int64_t count;    /**< images, or YK_SYNTHETIC_COUNT_AUTO [YK_SYNTHETIC_COUNT_AUTO] */
    int64_t channels; /**< of an image [3] */
    int64_t height;   /**< of an image [32] */
    int64_t width;    /**< of an image [32] */
    int64_t classes;  /**< label i is i modulo it [10] */
    uint64_t seed;    /**< the bytes depend on it, on the split and on their index [0] */
} yk_random_options;

/** The defaults of yk_random_options. */
#define YK_RANDOM_OPTIONS_INIT                                                                     \
    {                                                                                              \
        sizeof(yk_random_options), YK_SYNTHETIC_COUNT_AUTO, 3, 32, 32, 10, 0                       \
    }

/** Makes images of noise, of any size, for measuring speed; nothing can be learnt from them. On
 *  failure *dataset is NULL. */
yk_status yk_random_create(yk_dataset **dataset, yk_split split, const yk_random_options *options);

/**
 * Makes a data set of tensors in the program's memory, like torch.utils.data.TensorDataset: sample
 * i has row i of each, as a field of its name. A uint8 tensor (N, C, H, W) holds pictures, which
 * the loader transforms; others arrive in the batch as they are. Class labels are (N), int32 or
 * int64 (which MixUp and CutMix do not take), called "labels", from 0 to classes - 1, or -100,
 * which yk_cross_entropy() ignores; classes is 0 if there are none. Names and tensors are copied,
 * but not the elements: they stay the program's, and must stay as they are until nothing uses the
 * data set. On failure *dataset is NULL; YK_ERROR_INVALID_ARGUMENT for tensors of unequal N,
 * tensors that are not in the host's memory, and labels that are no classes.
 */
yk_status yk_tensor_dataset_create(yk_dataset **dataset, const char *const *names,
                                   const yk_tensor *tensors, int count, int64_t classes);
/**
 * Makes a data set of some samples of another, which it keeps alive, like torch.utils.data.Subset:
 * its sample i is sample indices[i]. Indices are copied and may repeat. On failure *part is NULL.
 */
yk_status yk_subset_create(yk_dataset **part, const yk_dataset *dataset, const int64_t *indices,
                           int64_t count);
/**
 * Splits a data set in two at random: first gets first_count samples, second the others. The choice
 * depends on seed and the size alone. On failure both are NULL.
 */
yk_status yk_dataset_random_split(yk_dataset **first, yk_dataset **second,
                                  const yk_dataset *dataset, int64_t first_count, uint64_t seed);

/** Options of yk_download_data. */
typedef struct yk_download_options {
    size_t size; /**< set by YK_DOWNLOAD_OPTIONS_INIT */
    /** Called a few times a second while data arrives, on the calling thread: `done` of `total`
     * bytes of the file that is arriving, including those of an earlier attempt. May be NULL. */
    void (*progress)(void *user, int64_t done, int64_t total);
    void *user; /**< the first argument of progress */
} yk_download_options;

/** The defaults of yk_download_options. */
#define YK_DOWNLOAD_OPTIONS_INIT                                                                   \
    {                                                                                              \
        sizeof(yk_download_options), NULL, NULL                                                    \
    }

/** The names of the data sets that can be downloaded, by index from 0 on: "cifar10", "cifar100",
 * "mnist" and "fashion-mnist". NULL where there is none. */
const char *yk_download_name(int index);
/**
 * Makes sure that a data set is in the user's cache and writes its folder to path (path_size
 * bytes), which the function that opens the data set takes. If it is not there, downloads the
 * official files, resuming a partial one, and checks their MD5 sums. YOKE_CIFAR10_URL and
 * YOKE_CIFAR100_URL name another archive, YOKE_MNIST_URL and YOKE_FASHION_MNIST_URL another folder
 * of files; with _MD5 instead of _URL, their checksums, separated by commas. Blocks; waits while
 * another process downloads. Call it on one rank only. YK_ERROR_NETWORK when no source can be
 * reached; YK_ERROR_UNSUPPORTED when the data is not in the cache and the library was built without
 * libcurl and libarchive; YK_ERROR_INVALID_ARGUMENT for another name.
 */
yk_status yk_download_data(char *path, size_t path_size, const char *name,
                           const yk_download_options *options);
/** Whether this build of the library can download. */
bool yk_download_supported(void);
/**
 * Writes the folder of a data set in the user's cache to path (path_size bytes), or returns
 * YK_ERROR_NOT_FOUND where it is not there. Never downloads.
 */
yk_status yk_download_find(char *path, size_t path_size, const char *name);

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
    /** (samples) If given, an epoch is `samples` draws with replacement, in which a sample comes up
     * in proportion to its weight: 0 or more, in any unit. It excludes shuffle and exact [NULL] */
    const double *weights;
} yk_sampler_options;

/** The defaults of yk_sampler_options. */
#define YK_SAMPLER_OPTIONS_INIT                                                                    \
    {                                                                                              \
        sizeof(yk_sampler_options), 0, 1, 0, false, false, 0, false, NULL                          \
    }

/**
 * Number of indices that one rank gets in an epoch; 0 for options that make no sense. With more
 * ranks than samples the indices repeat, as in PyTorch; with exact or drop_last some ranks then
 * have none.
 */
int64_t yk_sampler_count(const yk_sampler_options *options);
/** Writes these indices: exactly those of torch's DistributedSampler after set_epoch(epoch). With
 * weights, the order that the ranks share is that of WeightedRandomSampler(weights, samples), whose
 * generator has the seed seed + epoch (from 2 samples on). */
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
    const char *transforms; /**< of each picture, as yk_transforms_parse reads them. Tensors of
                                 numbers are left as they are, unless MixUp mixes them [""] */
    uint64_t seed;          /**< of order and transforms; the same on all ranks [0] */
    int workers;            /**< threads that prepare batches ahead, 1 to 256 [1] */
    int prefetch;           /**< batches that each worker prepares ahead, 1 to 16 [2] */
    yk_dtype dtype;         /**< of pictures: YK_F32 or YK_F64 [YK_F32] */
    bool skip_damaged;      /**< replace a damaged sample (yk_sample_is_damaged) by the next one in
                                 the data set that can be read, and warn of it once; otherwise it
                                 is an error [false] */
    yk_model *model;    /**< the model that reads the batches, or NULL. If it is on a device with
                             memory of its own, pictures cross to it as bytes, and it does the
                             last of their transforms: tensors of pictures are then in its
                             memory (yk_tensor.device), in order with the model's work. The
                             loader keeps the model alive and is used on the thread that runs
                             it. Create the loader after yk_data_parallel: the devices of
                             replicas then make a part of each batch (yk_tensor.parts) [NULL] */
    size_t cache_bytes; /**< with a model: if pictures have one size and are at most cropped and
                             flipped, the device keeps all of them, as long as the data set takes
                             no more than this many bytes [512 MiB] */
    int64_t classes;    /**< with MixUp, CutMix or OneHot: the length of the probabilities, at least
                             the data set's number of classes; 0 for that number [0] */
    const double *weights; /**< (samples of the data set), copied: draw samples by their weights, as
                                yk_sampler_options says, for classes of unequal sizes. A sample that
                                comes up again in an epoch is transformed in another way. NULL for
                                each sample once [NULL] */
} yk_loader_options;

/** The defaults of yk_loader_options. */
#define YK_LOADER_OPTIONS_INIT                                                                     \
    {                                                                                              \
        sizeof(yk_loader_options), NULL, 0, 1, false, false, false, "", 0, 1, 2, YK_F32, false,    \
            NULL, (size_t)512 << 20, 0, NULL                                                       \
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
 * The next batch, one tensor for each field of the data set, of the field's name and with n samples
 * as the first dimension. It is valid until the next call; NULL at the end of the epoch, after
 * which the next call starts the following epoch by itself; or NULL with yk_loader_status other
 * than YK_OK when a worker failed. Blocks while none is ready. NULL for NULL.
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
 *  samples in between. Clears a worker's failure. */
yk_status yk_loader_seek(yk_loader *loader, int64_t epoch, int64_t batch);
/** Samples of the batches that were taken from the current epoch that skip_damaged has replaced; 0
 * for NULL. A batch's indices are those of the replacements. */
int64_t yk_loader_skipped(const yk_loader *loader);
/** Seconds that the last yk_loader_next waited for data; 0 for NULL. */
double yk_loader_wait_s(const yk_loader *loader);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif

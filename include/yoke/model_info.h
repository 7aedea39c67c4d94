/**
 * @file
 * What a trained network is, beside its weights: its architecture, its classes, and what its images
 * were like. It is stored with the weights, so that whoever gets the file can use it.
 */
#ifndef YOKE_MODEL_INFO_H
#define YOKE_MODEL_INFO_H

#include <yoke/model.h>
#include <yoke/tensor_file.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/** A description of a network. What is unknown keeps its default. */
typedef struct yk_model_info {
    size_t size;      /**< of this struct */
    const char *arch; /**< name of the architecture, "resnet18-cifar"; NULL if unknown */
    int64_t classes;  /**< number of classes, 0 if unknown */
    const char *const *class_names; /**< (classes) their names, which as names of folders need not
                                         be UTF-8; NULL if unknown */
    int channels;                   /**< of the images: entries of mean and std */
    const float *mean;      /**< (channels) subtracted from pixels in [0, 1]; NULL if unknown */
    const float *std;       /**< (channels) then divided by; NULL if unknown */
    const char *transforms; /**< what happens to pictures that the network evaluates, as
                                 yk_transforms_parse reads it; NULL if unknown */
    int64_t image_size[3];  /**< (C, H, W) of what the network sees; zeros if unknown */
} yk_model_info;

/** A yk_model_info of which nothing is known. */
#define YK_MODEL_INFO_INIT                                                                         \
    {                                                                                              \
        sizeof(yk_model_info), NULL, 0, NULL, 0, NULL, NULL, NULL,                                 \
        {                                                                                          \
            0, 0, 0                                                                                \
        }                                                                                          \
    }

/**
 * Gives the model a description, which yk_model_save, yk_checkpoint_save and yk_checkpoint_dir_save
 * store in their files from then on; info is copied and replaces an earlier one. NULL removes it.
 * YK_ERROR_INVALID_ARGUMENT for another text that is not UTF-8 or a name that is missing.
 *
 * In a .pth file it is the member extra/yoke.json of the archive, which torch.load ignores; in
 * safetensors it is the text "yoke" of the metadata (docs/file-formats.md).
 */
yk_status yk_model_set_info(yk_model *model, const yk_model_info *info);
/** The model's description, or NULL. Valid until it is replaced or the model destroyed. */
const yk_model_info *yk_model_get_info(const yk_model *model);

/**
 * The description that a file holds. *info is NULL where it has none, as in files of PyTorch;
 * otherwise it belongs to the file and is valid until the file is closed. YK_ERROR_FORMAT when the
 * description is damaged.
 */
yk_status yk_tensor_file_info(yk_tensor_file *file, const yk_model_info **info);

/**
 * Finds out which network of yk_arch_name a file's weights are of, by the names and shapes of its
 * tensors, for images of three channels; *classes (may be NULL) is its number of classes. The name
 * is a constant. On failure *arch is NULL: YK_ERROR_NOT_FOUND when they fit none, and other errors
 * for files that hold no weights that yoke reads.
 */
yk_status yk_tensor_file_find_arch(yk_tensor_file *file, const char **arch, int64_t *classes);
/**
 * The number of classes of the network `arch`, a name of yk_arch_name, with the file's weights: the
 * rows of its last weight or bias. On failure *classes is 0: YK_ERROR_NOT_FOUND when the file has
 * no such tensor, YK_ERROR_INVALID_ARGUMENT for an unknown name, and other errors for files that
 * hold no weights that yoke reads.
 */
yk_status yk_tensor_file_count_classes(yk_tensor_file *file, const char *arch, int64_t *classes);
/**
 * Whether a file's weights fit a graph that no model has been made of yet, which takes hardly any
 * memory, whatever sizes the file's description claims. Errors are those of yk_model_load.
 */
yk_status yk_tensor_file_check_graph(yk_tensor_file *file, const yk_graph *graph);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif

/* See model_info.h. */
#include "model/model_info.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/options.h"
#include "base/utf8.h"
#include "model/model.h"

enum { MAX_CLASSES = 1 << 24, MAX_CHANNELS = 1 << 10, MAX_SIDE = 1 << 20 };

/* ---- checking ------------------------------------------------------------------------------- */

static yk_status check_info_text(const char *text, const char *what)
{
    if (!yki_utf8_is_valid(text, strlen(text)))
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "model info: %s is not valid UTF-8", what);
    return YK_OK;
}

static yk_status check_info(const yk_model_info *info)
{
    if (info->arch)
        YK_TRY(check_info_text(info->arch, "arch"));
    if (info->transforms)
        YK_TRY(check_info_text(info->transforms, "transforms"));
    for (int d = 0; d < 3; d++)
        if (info->image_size[d] < 0 || info->image_size[d] > MAX_SIDE)
            return yki_error(YK_ERROR_INVALID_ARGUMENT,
                             "model info: image_size has %lld, expected 0 to %d",
                             (long long)info->image_size[d], MAX_SIDE);
    if (info->classes < 0 || info->classes > MAX_CLASSES)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "model info: classes is %lld, expected 0 to %d",
                         (long long)info->classes, MAX_CLASSES);
    if (info->channels < 0 || info->channels > MAX_CHANNELS)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "model info: channels is %d, expected 0 to %d",
                         info->channels, MAX_CHANNELS);
    for (int64_t i = 0; info->class_names && i < info->classes; i++)
        if (!info->class_names[i])
            return yki_error(YK_ERROR_INVALID_ARGUMENT, "model info: a class name is NULL");
    return YK_OK;
}

/* ---- copying -------------------------------------------------------------------------------- */

static bool copy_names(yk_model_info *to, const yk_model_info *from)
{
    if (from->class_names)
        to->class_names = yki_strdup_all(from->class_names, (size_t)from->classes);
    return to->class_names || !from->class_names;
}

static bool copy_numbers(const float **to, const float *from, int count)
{
    float *copy = from ? yki_calloc((size_t)count, sizeof *copy) : NULL;
    if (copy && count > 0)
        memcpy(copy, from, (size_t)count * sizeof *copy);
    *to = copy;
    return copy || !from;
}

yk_status yki_model_info_copy(yk_model_info **copy, const yk_model_info *info)
{
    *copy = NULL;
    YK_TRY(check_info(info));
    yk_model_info *made = yki_calloc(1, sizeof *made);
    if (!made)
        return yki_error_memory(sizeof *made, "a model's description");
    *made = (yk_model_info)YK_MODEL_INFO_INIT;
    made->classes = info->classes;
    made->channels = info->channels;
    made->arch = info->arch ? yki_strdup(info->arch) : NULL;
    made->transforms = info->transforms ? yki_strdup(info->transforms) : NULL;
    memcpy(made->image_size, info->image_size, sizeof made->image_size);
    if ((info->arch && !made->arch) || (info->transforms && !made->transforms) ||
        !copy_names(made, info) || !copy_numbers(&made->mean, info->mean, info->channels) ||
        !copy_numbers(&made->std, info->std, info->channels)) {
        yki_model_info_destroy(made);
        return yki_error_memory(sizeof *made, "a model's description");
    }
    *copy = made;
    return YK_OK;
}

void yki_model_info_destroy(yk_model_info *info)
{
    if (!info)
        return;
    yki_free_all(info->class_names, (size_t)info->classes);
    yki_free_const(info->arch);
    yki_free_const(info->transforms);
    yki_free_const(info->mean);
    yki_free_const(info->std);
    free(info);
}

/* ---- a model's ------------------------------------------------------------------------------ */

yk_status yk_model_set_info(yk_model *model, const yk_model_info *info)
{
    yk_model_info given, *copy = NULL;
    YKI_NOT_NULL(model);
    YK_TRY(YKI_READ_OPTIONS(&given, info, yk_model_info, YK_MODEL_INFO_INIT));
    if (info)
        YK_TRY(yki_model_info_copy(&copy, &given));
    yki_model_info_destroy(model->info);
    model->info = copy;
    return YK_OK;
}

const yk_model_info *yk_model_get_info(const yk_model *model)
{
    return model ? model->info : NULL;
}

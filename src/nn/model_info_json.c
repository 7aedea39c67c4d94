/* See model_info_json.h. A file is read with suspicion: every member has its type and its size. */
#include "nn/model_info_json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/c_locale.h"
#include "base/memory.h"
#include "io/json.h"
#include "model/model_info.h"
#include "nn/arch.h"

/* Format 2 renamed networks (nn/arch.h). */
enum { FORMAT_VERSION = 2, MAX_COUNT = 1000000000 /* of classes, and of a side's pixels */ };

/* ---- writing -------------------------------------------------------------------------------- */

/* The shortest text that reads back as this float. */
static void float_text(char text[32], float number)
{
    void *before = yki_c_locale_begin();
    for (int digits = 6; digits <= 9; digits++) {
        snprintf(text, 32, "%.*g", digits, (double)number);
        if (strtof(text, NULL) == number)
            break;
    }
    yki_c_locale_end(before);
}

/* JSON has no NaN or infinity: null stands for them. */
static bool add_numbers(cJSON *to, const char *name, const float *numbers, int count)
{
    if (!numbers)
        return true;
    cJSON *array = cJSON_AddArrayToObject(to, name);
    for (int i = 0; array && i < count; i++) {
        char text[32] = "null";
        if (isfinite(numbers[i]))
            float_text(text, numbers[i]);
        if (!cJSON_AddItemToArray(array, cJSON_CreateRaw(text)))
            return false;
    }
    return array != NULL;
}

static bool add_names(cJSON *to, const yk_model_info *info)
{
    if (!info->class_names)
        return true;
    cJSON *array = cJSON_AddArrayToObject(to, "class_names");
    for (int64_t i = 0; array && i < info->classes; i++)
        if (!cJSON_AddItemToArray(array, yki_json_string(info->class_names[i])))
            return false;
    return array != NULL;
}

static bool add_image_size(cJSON *to, const yk_model_info *info)
{
    if (info->image_size[0] == 0)
        return true;
    cJSON *array = cJSON_AddArrayToObject(to, "image_size");
    for (int d = 0; array && d < 3; d++)
        if (!cJSON_AddItemToArray(array, cJSON_CreateNumber((double)info->image_size[d])))
            return false;
    return array != NULL;
}

yk_status yki_model_info_to_json(char **text, const yk_model_info *info)
{
    cJSON *root = cJSON_CreateObject();
    bool made =
        cJSON_AddNumberToObject(root, "format", FORMAT_VERSION) &&
        cJSON_AddStringToObject(root, "yoke", yk_version()) &&
        (!info->arch || cJSON_AddStringToObject(root, "arch", info->arch)) &&
        (!info->classes || cJSON_AddNumberToObject(root, "classes", (double)info->classes)) &&
        add_names(root, info) && add_numbers(root, "mean", info->mean, info->channels) &&
        add_numbers(root, "std", info->std, info->channels) && add_image_size(root, info) &&
        (!info->transforms || cJSON_AddStringToObject(root, "transforms", info->transforms));
    *text = made ? yki_json_print(root) : NULL;
    cJSON_Delete(root);
    return *text ? YK_OK : yki_error_memory(256, "a model's description");
}

/* ---- reading -------------------------------------------------------------------------------- */

static yk_status refuse_member(const char *path, const char *member)
{
    return yki_error(YK_ERROR_FORMAT, "%s: the model's description: \"%s\" is not as expected",
                     path, member);
}

/* The floats of an array into memory of their own; *count is their number. */
static yk_status read_floats(const cJSON *root, const char *name, const char *path, float **to,
                             int *count)
{
    const cJSON *item, *array = cJSON_GetObjectItemCaseSensitive(root, name);
    int known = *count;
    if (!array)
        return YK_OK;
    if (!cJSON_IsArray(array) || (known >= 0 && cJSON_GetArraySize(array) != known))
        return refuse_member(path, name);
    *count = cJSON_GetArraySize(array);
    *to = yki_calloc((size_t)*count, sizeof **to);
    if (!*to)
        return yki_error_memory((size_t)*count * sizeof **to, "a model's description");
    float *at = *to;
    cJSON_ArrayForEach(item, array)
    {
        if (!cJSON_IsNumber(item) && !cJSON_IsNull(item))
            return refuse_member(path, name);
        *at++ = cJSON_IsNumber(item) ? (float)item->valuedouble : NAN;
    }
    return YK_OK;
}

/* The classes' names, which stay the JSON's; the array is to be freed. */
static yk_status read_names(const cJSON *root, const char *path, const char ***names,
                            int64_t classes)
{
    cJSON *item, *array = cJSON_GetObjectItemCaseSensitive(root, "class_names");
    if (!array)
        return YK_OK;
    if (!cJSON_IsArray(array) || cJSON_GetArraySize(array) != classes)
        return refuse_member(path, "class_names");
    const char **at = yki_calloc((size_t)classes, sizeof *at);
    if (!at)
        return yki_error_memory((size_t)classes * sizeof *at, "a model's description");
    *names = at;
    cJSON_ArrayForEach(item, array)
    {
        if (!cJSON_IsString(item))
            return refuse_member(path, "class_names");
        *at++ = yki_json_bytes(item);
    }
    return YK_OK;
}

static yk_status read_classes(const cJSON *root, const char *path, int64_t *classes)
{
    const cJSON *number = cJSON_GetObjectItemCaseSensitive(root, "classes");
    if (!number)
        return YK_OK;
    return yki_json_is_count(number, classes) && *classes <= MAX_COUNT
               ? YK_OK
               : refuse_member(path, "classes");
}

/* The name of the network, NULL if there is none. Before format 2 some had other names. */
static yk_status read_arch(const cJSON *root, const char *path, const char **name)
{
    const cJSON *arch = cJSON_GetObjectItemCaseSensitive(root, "arch");
    const cJSON *format = cJSON_GetObjectItemCaseSensitive(root, "format");
    if (!cJSON_IsObject(root) || (arch && !cJSON_IsString(arch)))
        return refuse_member(path, "arch");
    *name = arch ? arch->valuestring : NULL;
    if (arch && !(cJSON_IsNumber(format) && format->valuedouble >= 2))
        *name = yki_arch_renamed(*name);
    return YK_OK;
}

static yk_status read_image_size(const cJSON *root, const char *path, int64_t size[3])
{
    const cJSON *item, *array = cJSON_GetObjectItemCaseSensitive(root, "image_size");
    if (!array)
        return YK_OK;
    if (!cJSON_IsArray(array) || cJSON_GetArraySize(array) != 3)
        return refuse_member(path, "image_size");
    cJSON_ArrayForEach(item, array)
    {
        if (!yki_json_is_count(item, size) || *size > MAX_COUNT)
            return refuse_member(path, "image_size");
        size++;
    }
    return YK_OK;
}

static yk_status read_info(yk_model_info **info, const char *path, const cJSON *root)
{
    yk_model_info read = YK_MODEL_INFO_INIT;
    const char **names = NULL;
    float *mean = NULL, *std = NULL;
    int channels = -1; /* none known yet */
    const cJSON *transforms = cJSON_GetObjectItemCaseSensitive(root, "transforms");
    if (transforms && !cJSON_IsString(transforms))
        return refuse_member(path, "transforms");
    YK_TRY(read_arch(root, path, &read.arch));
    yk_status status = read_classes(root, path, &read.classes);
    if (status != YK_OK)
        goto out;
    status = read_image_size(root, path, read.image_size);
    if (status != YK_OK)
        goto out;
    status = read_names(root, path, &names, read.classes);
    if (status != YK_OK)
        goto out;
    status = read_floats(root, "mean", path, &mean, &channels);
    if (status != YK_OK)
        goto out;
    status = read_floats(root, "std", path, &std, &channels);
    if (status != YK_OK)
        goto out;
    read.transforms = transforms ? transforms->valuestring : NULL;
    read.class_names = names;
    read.channels = channels > 0 ? channels : 0;
    read.mean = mean;
    read.std = std;
    status = yki_model_info_copy(info, &read);
    if (status == YK_ERROR_INVALID_ARGUMENT)
        status = yki_error_context(YK_ERROR_FORMAT, "%s", path);
out:
    free(names);
    free(mean);
    free(std);
    return status;
}

yk_status yki_model_info_from_json(yk_model_info **info, const char *path, const char *text)
{
    *info = NULL;
    cJSON *root = yki_json_parse(text);
    if (!root)
        return yki_error(YK_ERROR_FORMAT, "%s: the model's description is not JSON", path);
    yk_status status = read_info(info, path, root);
    cJSON_Delete(root);
    return status;
}

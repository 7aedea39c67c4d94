/* Writing named tensors in either format, and out of one into the other. */
#include "checkpoint/tensor_file/tensor_file.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/options.h"
#include "base/text.h"
#include "checkpoint/tensor_file/safetensors.h"
#include "checkpoint/tensor_file/wrappers.h"
#include "io/atomic_file.h"

/* ---- writing -------------------------------------------------------------------------------- */

yki_tensor_format yki_tensor_format_of(const char *path)
{
    return yki_ends_in(path, ".safetensors") ? YKI_SAFETENSORS : YKI_PTH;
}

static yk_status pickle_all(yki_pth_writer *writer, const yki_tensor_source *sources, size_t count)
{
    yki_pickle_writer *pickle = yki_pth_pickle(writer);
    yki_pickle_ordered_dict(pickle);
    yki_pickle_mark(pickle);
    for (size_t i = 0; i < count; i++) {
        YK_TRY(yki_tensor_name_check(sources[i].name));
        yki_pickle_text(pickle, sources[i].name);
        yk_status status =
            yki_pth_tensor_stored(writer, &sources[i].stored, sources[i].data, sources[i].device);
        if (status != YK_OK)
            return yki_error_context(status, "%s", sources[i].name);
    }
    yki_pickle_setitems(pickle);
    return YK_OK;
}

static yk_status write_pth(int fd, const char *path, const yki_tensor_source *sources, size_t count,
                           const yk_model_info *info)
{
    yki_pth_writer *writer;
    YK_TRY(yki_pth_writer_create(&writer, fd, path));
    yk_status status = pickle_all(writer, sources, count);
    if (status != YK_OK)
        goto discard;
    status = yki_pth_info(writer, info);
    if (status != YK_OK)
        goto discard;
    return yki_pth_writer_finish(writer);
discard:
    yki_pth_writer_discard(writer);
    return yki_error_context(status, "%s", path);
}

yk_status yki_tensor_file_write(const char *path, yki_tensor_format format,
                                const yki_tensor_source *sources, size_t count,
                                const yk_model_info *info)
{
    yki_atomic_file file;
    YK_TRY(yki_atomic_open(&file, path));
    yk_status status = format == YKI_SAFETENSORS
                           ? yki_safetensors_write(file.fd, path, sources, count, info)
                           : write_pth(file.fd, path, sources, count, info);
    if (status == YK_OK)
        return yki_atomic_commit(&file);
    yki_atomic_abandon(&file);
    return status;
}

/* ---- converting ----------------------------------------------------------------------------- */

/* Tensors on their way from one file to the other. */
typedef struct conversion {
    yk_tensor_file *from;
    const char *prefix;
    yk_dtype dtype; /* of floating tensors; YK_DTYPE_COUNT: as they are */
    yki_tensor_source *sources;
    void **memory; /* (count) what sources point to */
    char **names;  /* (count) */
    size_t count;  /* so far */
} conversion;

static yk_status parse_dtype(const char *text, yk_dtype *dtype)
{
    static const struct {
        const char *text;
        yk_dtype dtype;
    } known[] = {{"f32", YK_F32},  {"f16", YK_F16},       {"bf16", YK_BF16},
                 {"f64", YK_F64},  {"float32", YK_F32},   {"float16", YK_F16},
                 {"half", YK_F16}, {"bfloat16", YK_BF16}, {"float64", YK_F64}};
    *dtype = YK_DTYPE_COUNT;
    if (!text)
        return YK_OK;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].text, text) == 0) {
            *dtype = known[i].dtype;
            return YK_OK;
        }
    return yki_error(YK_ERROR_INVALID_ARGUMENT, "dtype %s: expected f32, f16 or bf16", text);
}

static yk_status parse_format(const char *text, const char *path, yki_tensor_format *format)
{
    *format = yki_tensor_format_of(path);
    if (text && strcmp(text, "pth") != 0 && strcmp(text, "safetensors") != 0)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "format %s: expected pth or safetensors", text);
    if (text)
        *format = strcmp(text, "pth") == 0 ? YKI_PTH : YKI_SAFETENSORS;
    return YK_OK;
}

/* AveragedModel's count of updates stays behind where its "module." comes off. */
static bool stays_behind(const conversion *all, size_t index)
{
    size_t length = 0;
    const char *name = yki_tensor_file_name(all->from, index, &length);
    return yki_tensor_file_wrapper(all->from) > 0 && name && yki_is_n_averaged(name, length);
}

/* The name that tensor `index` gets. */
static yk_status convert_name(conversion *all, size_t index, char **name)
{
    yk_tensor_entry entry;
    YK_TRY(yk_tensor_file_entry(all->from, index, &entry));
    const char *bare = entry.name + yki_tensor_file_wrapper(all->from);
    size_t size = strlen(all->prefix) + strlen(bare) + 1;
    if (size > YK_FILE_NAME)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "prefix: makes a name of %zu bytes, longer than %d", size - 1,
                         YK_FILE_NAME - 1);
    *name = malloc(size);
    if (!*name)
        return yki_error_memory(size, "a tensor's name");
    snprintf(*name, size, "%s%s", all->prefix, bare);
    yki_unwrap_name(*name + strlen(all->prefix));
    return YK_OK;
}

/* Adds the tensor: its elements, dense and converted, in memory of their own. */
static yk_status convert_tensor(conversion *all, size_t index)
{
    yki_file_tensor stored;
    int64_t count;
    size_t bytes, to = all->count++;
    YK_TRY(convert_name(all, index, &all->names[to]));
    YK_TRY(yki_tensor_file_stored(all->from, index, &stored));
    YK_TRY(yki_tensor_file_fetch(all->from, &stored));
    yki_file_tensor dense = stored;
    dense.negated = false;
    bool converts = stored.dtype->is_float && all->dtype != YK_DTYPE_COUNT;
    if (converts)
        dense.dtype = yki_file_tensor_dtype_of(all->dtype);
    if (!yki_file_tensor_size(&dense, &count, &bytes))
        return yki_error(YK_ERROR_INVALID_SHAPE, "%s: more elements than 64 bits count",
                         all->names[to]);
    void *data = malloc(bytes ? bytes : 1);
    if (!data)
        return yki_error_memory(bytes, all->names[to]);
    const void *storage = yki_tensor_file_storage(all->from, &stored);
    if (converts)
        yki_file_tensor_copy(&stored, storage, all->dtype, data);
    else
        yki_file_tensor_copy_raw(&stored, storage, data);
    all->memory[to] = data;
    all->sources[to] = (yki_tensor_source){.name = all->names[to], .stored = dense, .data = data};
    return YK_OK;
}

static int compare_names(const void *a, const void *b)
{
    const char *const *left = a, *const *right = b;
    return strcmp(*left, *right);
}

/* A pickle can hold a name twice; the new file must not. Changes the order of names. */
static yk_status check_converted_names(const conversion *all)
{
    qsort(all->names, all->count, sizeof *all->names, compare_names);
    for (size_t i = 1; i < all->count; i++)
        if (strcmp(all->names[i - 1], all->names[i]) == 0)
            return yki_error(YK_ERROR_FORMAT, "%s: expected tensor %.80s once",
                             yki_tensor_file_path(all->from), all->names[i]);
    return YK_OK;
}

static yk_status convert_all(conversion *all)
{
    size_t count = yk_tensor_file_count(all->from);
    YK_TRY(yki_tensor_file_check(all->from));
    all->sources = yki_calloc(count, sizeof *all->sources);
    all->memory = yki_calloc(count, sizeof *all->memory);
    all->names = yki_calloc(count, sizeof *all->names);
    if (!all->sources || !all->memory || !all->names)
        return yki_error_memory(count * sizeof *all->sources, "a list of tensors");
    YK_TRY(yki_tensor_file_check_total(all->from));
    for (size_t i = 0; i < count; i++)
        if (!stays_behind(all, i))
            YK_TRY(convert_tensor(all, i));
    return check_converted_names(all);
}

static void conversion_fini(conversion *all)
{
    for (size_t i = 0; i < all->count; i++) {
        free(all->memory[i]);
        free(all->names[i]);
    }
    free(all->memory);
    free(all->names);
    free(all->sources);
    yk_tensor_file_close(all->from);
}

yk_status yk_tensor_file_convert(const char *from, const char *to,
                                 const yk_convert_options *options)
{
    yk_convert_options o;
    YKI_NOT_NULL(from);
    YKI_NOT_NULL(to);
    YK_TRY(YKI_READ_OPTIONS(&o, options, yk_convert_options, YK_CONVERT_OPTIONS_INIT));
    conversion all = {.prefix = o.prefix ? o.prefix : ""};
    yki_tensor_format format;
    YK_TRY(parse_dtype(o.dtype, &all.dtype));
    YK_TRY(parse_format(o.format, to, &format));
    if (yki_tensor_name_check(all.prefix) != YK_OK)
        return yki_error_context(YK_ERROR_INVALID_ARGUMENT, "prefix");
    YK_TRY(yk_tensor_file_open(&all.from, from));
    const yk_model_info *info;
    yk_status status = convert_all(&all);
    if (status != YK_OK)
        goto out;
    status = yk_tensor_file_info(all.from, &info);
    if (status != YK_OK)
        goto out;
    status = yki_tensor_file_write(to, format, all.sources, all.count, info);
out:
    conversion_fini(&all);
    return status;
}

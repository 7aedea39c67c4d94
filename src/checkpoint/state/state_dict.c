/*
 * See state_dict.h. Everything is known to be readable before the first byte of the model changes.
 */
#include "checkpoint/state/state_dict.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "checkpoint/state/match.h"
#include "checkpoint/tensor_file/safetensors.h"
#include "model/model.h"
#include "model/model_hooks.h"

/* ---- writing -------------------------------------------------------------------------------- */

/* Length of the module's part of a name, "layer1.0.bn1." of "layer1.0.bn1.weight". */
static size_t module_length(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot ? (size_t)(dot - name) + 1 : 0;
}

static bool same_module(const char *a, const char *b)
{
    size_t length = module_length(a);
    return length == module_length(b) && strncmp(a, b, length) == 0;
}

/* A model's tensors or, with ema, their averages, which AveragedModel has in a "module". */
typedef struct dict_source {
    yki_pth_writer *writer;
    const yk_model *model;
    const yk_ema *ema;
} dict_source;

static yk_status write_entry(const dict_source *source, size_t index)
{
    char name[512];
    yk_parameter_view view = yki_model_entry(source->model, index);
    yk_tensor tensor = source->ema ? yk_ema_value(source->ema, index) : view.value;
    snprintf(name, sizeof name, "%s%s", source->ema ? "module." : "", view.name);
    YK_TRY(yki_tensor_name_check(name));
    yki_pickle_text(yki_pth_pickle(source->writer), name);
    return yki_pth_tensor(source->writer, &tensor);
}

/* Buffers are in the order of their modules: from *next on come those of the parameter's module. */
static yk_status write_buffers_of(const dict_source *source, const char *name, size_t *next)
{
    size_t parameters = yk_model_parameter_count(source->model);
    for (; *next < yk_model_buffer_count(source->model); ++*next) {
        if (!yki_model_saves_entry(source->model, parameters + *next))
            continue; /* in whichever module */
        if (name && !same_module(yk_model_buffer(source->model, *next).name, name))
            break;
        YK_TRY(write_entry(source, parameters + *next));
    }
    return YK_OK;
}

yk_status yki_state_dict_write_entries(yki_pth_writer *writer, const yk_model *model,
                                       const yk_ema *ema)
{
    const dict_source source = {writer, model, ema};
    size_t count = yk_model_parameter_count(model), next_buffer = 0;
    for (size_t i = 0; i < count; i++) {
        const char *name = yk_model_parameter(model, i).name;
        YK_TRY(write_entry(&source, i));
        if (i + 1 == count || !same_module(name, yk_model_parameter(model, i + 1).name))
            YK_TRY(write_buffers_of(&source, name, &next_buffer));
    }
    return write_buffers_of(&source, NULL, &next_buffer); /* of modules without parameters */
}

/* NAME: {"version": n} */
static void write_version(yki_pickle_writer *pickle, const char *name, int version)
{
    yki_pickle_text(pickle, name);
    yki_pickle_dict(pickle);
    yki_pickle_mark(pickle);
    yki_pickle_text(pickle, "version");
    yki_pickle_int(pickle, version);
    yki_pickle_setitems(pickle);
}

/* Of the module whose tensors' names begin with these characters, the last of which is a dot. */
static void write_version_of(yki_pickle_writer *pickle, const yk_model *model, const char *prefix,
                             size_t length, bool averaged)
{
    char name[512];
    snprintf(name, sizeof name, "%s%.*s", averaged ? "module." : "", (int)length, prefix);
    if (name[0])
        name[strlen(name) - 1] = '\0';
    write_version(pickle, name, yki_scope_version_of(model->graph, prefix, length));
}

/* Whether an earlier entry belongs to the module of these first characters, too. */
static bool is_listed(const yk_model *model, size_t index, const char *prefix, size_t length)
{
    while (index-- > 0)
        if (strncmp(yki_model_entry(model, index).name, prefix, length) == 0)
            return true;
    return false;
}

void yki_state_dict_write_metadata(yki_pth_writer *writer, const yk_model *model, bool averaged)
{
    yki_pickle_writer *pickle = yki_pth_pickle(writer);
    yki_pickle_dict(pickle);
    yki_pickle_mark(pickle);
    yki_pickle_text(pickle, "_metadata");
    yki_pickle_ordered_dict(pickle);
    yki_pickle_mark(pickle);
    if (averaged)
        write_version(pickle, "", 1); /* AveragedModel itself */
    write_version_of(pickle, model, "", 0, averaged);
    for (size_t i = 0; i < yki_model_entry_count(model); i++) {
        const char *name = yki_model_entry(model, i).name;
        for (const char *dot = strchr(name, '.'); dot; dot = strchr(dot + 1, '.'))
            if (!is_listed(model, i, name, (size_t)(dot - name) + 1))
                write_version_of(pickle, model, name, (size_t)(dot - name) + 1, averaged);
    }
    yki_pickle_setitems(pickle);
    yki_pickle_setitems(pickle);
    yki_pickle_build(pickle);
}

yk_status yki_state_dict_write(yki_pth_writer *writer, const yk_model *model)
{
    yki_pickle_writer *pickle = yki_pth_pickle(writer);
    yki_pickle_ordered_dict(pickle);
    yki_pickle_mark(pickle);
    YK_TRY(yki_state_dict_write_entries(writer, model, NULL));
    yki_pickle_setitems(pickle);
    yki_state_dict_write_metadata(writer, model, false);
    return YK_OK;
}

yk_status yki_state_dict_write_safetensors(int fd, const char *path, const yk_model *model)
{
    size_t entries = yki_model_entry_count(model), count = 0;
    yki_tensor_source *sources = yki_calloc(entries, sizeof *sources);
    if (!sources)
        return yki_error_memory(entries * sizeof *sources, "a list of tensors");
    for (size_t i = 0; i < entries; i++) {
        yk_parameter_view view = yki_model_entry(model, i);
        if (yki_model_saves_entry(model, i))
            sources[count++] = (yki_tensor_source){view.name, yki_file_tensor_from(&view.value),
                                                   view.value.data, view.value.device};
    }
    yk_status status = yki_safetensors_write(fd, path, sources, count, yk_model_get_info(model));
    free(sources);
    return status;
}

/* ---- reading -------------------------------------------------------------------------------- */

/* What a file must have of the model; returns how much that is. */
static size_t list_wanted(yki_wanted_tensor *wanted, const yk_model *model)
{
    size_t count = 0;
    for (size_t i = 0; i < yki_model_entry_count(model); i++) {
        yk_parameter_view view = yki_model_entry(model, i);
        if (!yki_model_saves_entry(model, i))
            continue;
        wanted[count].name = view.name;
        wanted[count].ndim = view.value.ndim;
        memcpy(wanted[count++].dims, view.value.dims, sizeof view.value.dims);
    }
    return count;
}

/* Finds the model's tensors in the file. */
static yk_status match_entries(yki_state_dict *dict, const yk_model *model,
                               const yk_load_options *options, yk_load_report *report)
{
    yki_wanted_tensor *wanted = yki_calloc(dict->count, sizeof *wanted);
    yki_file_tensor *found = yki_calloc(dict->count, sizeof *found);
    yk_status status = YK_OK;
    if (wanted && found)
        status = yki_match_tensors(found, dict->file, wanted, list_wanted(wanted, model), options,
                                   report);
    else
        status = yki_error_memory(dict->count * sizeof *wanted, "a list of tensors");
    for (size_t i = 0, next = 0; i < dict->count && status == YK_OK; i++)
        if (yki_model_saves_entry(model, i))
            dict->tensors[i] = found[next++];
    free(wanted);
    free(found);
    return status;
}

/* Reads one tensor's bytes; whether the model's dtype holds its numbers is known from here on. */
static yk_status fetch_entry(yki_state_dict *dict, size_t index, const yk_parameter_view *view)
{
    double culprit;
    const yki_file_tensor *stored = &dict->tensors[index];
    if (stored->storage != YKI_NOT_STORED)
        YK_TRY(yki_tensor_file_fetch(dict->file, stored));
    if (!yki_file_tensor_fits(stored, yki_state_dict_storage(dict, index), view->value.dtype,
                              &culprit))
        return yki_error(YK_ERROR_FORMAT, "%s: %s (%s) holds %g, which the model's %s does not",
                         yki_tensor_file_path(dict->file), view->name, stored->dtype->name, culprit,
                         yk_dtype_name(view->value.dtype));
    return YK_OK;
}

const void *yki_state_dict_storage(const yki_state_dict *dict, size_t index)
{
    static const int64_t no_batches = 0;
    const yki_file_tensor *stored = &dict->tensors[index];
    return stored->storage == YKI_NOT_STORED ? &no_batches
                                             : yki_tensor_file_storage(dict->file, stored);
}

yk_status yki_state_dict_read_some(yki_state_dict *dict, yk_tensor_file *file,
                                   const yk_model *model, const yk_load_options *options,
                                   yk_load_report *report)
{
    *dict = (yki_state_dict){.file = file};
    YK_TRY(yki_tensor_file_check(file));
    dict->count = yki_model_entry_count(model);
    dict->tensors = yki_calloc(dict->count, sizeof *dict->tensors);
    if (!dict->tensors)
        return yki_error_memory(dict->count * sizeof *dict->tensors, "a state_dict");
    yk_status status = match_entries(dict, model, options, report);
    for (size_t i = 0; i < dict->count && status == YK_OK; i++) {
        yk_parameter_view view = yki_model_entry(model, i);
        if (dict->tensors[i].dtype)
            status = fetch_entry(dict, i, &view);
    }
    if (status != YK_OK)
        yki_state_dict_fini(dict);
    return status;
}

yk_status yki_state_dict_read(yki_state_dict *dict, yk_tensor_file *file, const yk_model *model)
{
    const yk_load_options everything = YK_LOAD_OPTIONS_INIT;
    return yki_state_dict_read_some(dict, file, model, &everything, NULL);
}

static bool has_all_parameters(const yki_state_dict *dict, const yk_model *model)
{
    for (size_t i = 0; i < yk_model_parameter_count(model); i++)
        if (!dict->tensors[i].dtype)
            return false;
    return true;
}

yk_status yki_state_dict_apply(const yki_state_dict *dict, yk_model *model)
{
    yk_model_parameters_changed(model);
    yk_model_zero_grad(model); /* they are those of other weights */
    for (size_t i = 0; i < dict->count; i++) {
        yk_parameter_view view = yki_model_entry(model, i);
        const yki_file_tensor *stored = &dict->tensors[i];
        if (stored->dtype)
            YK_TRY(yki_file_tensor_copy_to(stored, yki_state_dict_storage(dict, i), &view.value));
    }
    if (has_all_parameters(dict, model))
        yki_model_set_torn(model, false);
    return YK_OK;
}

void yki_state_dict_fini(yki_state_dict *dict)
{
    free(dict->tensors);
    *dict = (yki_state_dict){0};
}

/*
 * See state_dict.h. Reading is strict, as load_state_dict is: all names and all shapes must fit,
 * except for what yk_load_options allows. Everything is known to be readable before the first byte
 * of the model changes.
 */
#define _GNU_SOURCE
#include "io/state_dict.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "io/safetensors.h"
#include "io/wrappers.h"
#include "model/model_hooks.h"
#include "tensor/tensor.h"

enum { LISTED = 3 /* names of a kind in an error line; the others are counted */ };

/* Parameters, then buffers. */
static yk_parameter_view model_entry(const yk_model *model, size_t index)
{
    size_t parameters = yk_model_parameter_count(model);
    return index < parameters ? yk_model_parameter(model, index)
                              : yk_model_buffer(model, index - parameters);
}

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

/* The tensor of this index, parameters first, then buffers. */
static yk_status write_entry(const dict_source *source, size_t index)
{
    char name[512];
    yk_parameter_view view = model_entry(source->model, index);
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

yk_status yki_state_dict_write(yki_pth_writer *writer, const yk_model *model)
{
    yki_pickle_writer *pickle = yki_pth_pickle(writer);
    yki_pickle_ordered_dict(pickle);
    yki_pickle_mark(pickle);
    YK_TRY(yki_state_dict_write_entries(writer, model, NULL));
    yki_pickle_setitems(pickle);
    return YK_OK;
}

yk_status yki_state_dict_write_safetensors(int fd, const char *path, const yk_model *model)
{
    size_t count = yk_model_parameter_count(model) + yk_model_buffer_count(model);
    yki_tensor_source *sources = yki_calloc(count, sizeof *sources);
    if (!sources)
        return yki_error_memory(count * sizeof *sources, "a list of tensors");
    for (size_t i = 0; i < count; i++) {
        yk_parameter_view view = model_entry(model, i);
        sources[i] = (yki_tensor_source){view.name, yki_file_tensor_from(&view.value),
                                         view.value.data, view.value.device};
    }
    yk_status status = yki_safetensors_write(fd, path, sources, count, yk_model_get_info(model));
    free(sources);
    return status;
}

/* ---- what does not fit ---------------------------------------------------------------------- */

/* The names of one kind of trouble, as "missing a, b, c and 4 more". */
typedef struct name_list {
    char names[160];
    int count;
} name_list;

static void note_trouble(name_list *trouble, const char *text)
{
    size_t at = strlen(trouble->names);
    if (trouble->count < LISTED)
        snprintf(trouble->names + at, sizeof trouble->names - at, "%s%s",
                 trouble->count ? ", " : "", text);
    trouble->count++;
}

static void describe_trouble(char *line, size_t size, const char *kind, const name_list *trouble)
{
    size_t at = strlen(line);
    if (trouble->count == 0)
        return;
    at += (size_t)snprintf(line + at, size - at, "%s%s %s", at ? "; " : "", kind, trouble->names);
    if (trouble->count > LISTED && at < size)
        snprintf(line + at, size - at, " and %d more", trouble->count - LISTED);
}

static void note_shapes(name_list *trouble, const yk_parameter_view *view,
                        const yki_file_tensor *found)
{
    char text[200], here[64], there[64];
    yki_dims_text(there, sizeof there, found->ndim, found->dims);
    yki_dims_text(here, sizeof here, view->value.ndim, view->value.dims);
    snprintf(text, sizeof text, "%.40s: %s in the file but %s in the model", view->name, there,
             here);
    note_trouble(trouble, text);
}

/* ---- reading -------------------------------------------------------------------------------- */

static bool has_entry(const yk_model *model, size_t count, const char *name, size_t length)
{
    for (size_t i = 0; i < count; i++) {
        if (yki_is_wrapped(name, length, model_entry(model, i).name))
            return true;
    }
    return false;
}

static void note_unexpected(name_list *trouble, const yk_tensor_file *file, const yk_model *model,
                            size_t count)
{
    size_t wrapper = yki_tensor_file_wrapper(file), length;
    for (size_t i = 0; i < yk_tensor_file_count(file); i++) {
        const char *name = yki_tensor_file_name(file, i, &length);
        char label[YKI_TENSOR_LABEL];
        if (name && yki_is_n_averaged(name, length))
            continue;
        if (name && has_entry(model, count, name + wrapper, length - wrapper))
            continue;
        note_trouble(trouble, yki_tensor_file_label(file, i, label));
    }
}

static bool same_shape(const yki_file_tensor *stored, const yk_tensor *tensor)
{
    return stored->ndim == tensor->ndim &&
           memcmp(stored->dims, tensor->dims, (size_t)tensor->ndim * sizeof *tensor->dims) == 0;
}

/* All that does not fit, and what is loaded all the same. */
typedef struct findings {
    name_list missing, unexpected, shapes, refused_shapes;
    size_t loaded;
} findings;

static bool is_included(const yk_load_options *options, const char *name)
{
    return !options->include || fnmatch(options->include, name, 0) == 0;
}

/* Finds the tensors of the model in the file. */
static yk_status find_entries(yki_state_dict *dict, const yk_model *model,
                              const yk_load_options *options, findings *found)
{
    for (size_t i = 0; i < dict->count; i++) {
        yki_file_tensor stored;
        yk_parameter_view view = model_entry(model, i);
        if (!is_included(options, view.name))
            continue;
        int64_t index = yki_tensor_file_find(dict->file, view.name);
        if (index < 0) {
            note_trouble(&found->missing, view.name);
            continue;
        }
        YK_TRY(yki_tensor_file_stored(dict->file, (size_t)index, &stored));
        if (same_shape(&stored, &view.value)) {
            dict->tensors[i] = stored;
            found->loaded++;
        } else {
            note_shapes(&found->shapes, &view, &stored);
            if (!options->allow_reshaped || fnmatch(options->allow_reshaped, view.name, 0) != 0)
                note_shapes(&found->refused_shapes, &view, &stored);
        }
    }
    note_unexpected(&found->unexpected, dict->file, model, dict->count);
    return YK_OK;
}

static void write_report(yk_load_report *report, const findings *found)
{
    *report = (yk_load_report){.loaded = found->loaded,
                               .missing = (size_t)found->missing.count,
                               .unexpected = (size_t)found->unexpected.count,
                               .reshaped = (size_t)found->shapes.count};
    describe_trouble(report->text, sizeof report->text, "missing", &found->missing);
    describe_trouble(report->text, sizeof report->text, "unexpected", &found->unexpected);
    describe_trouble(report->text, sizeof report->text, "differently shaped", &found->shapes);
}

/* Finds every tensor of the model; all that does not fit is in the error or the report. */
static yk_status match_entries(yki_state_dict *dict, const yk_model *model,
                               const yk_load_options *options, yk_load_report *report)
{
    findings found = {.loaded = 0};
    char line[YKI_ERROR_LINE] = "";
    YK_TRY(find_entries(dict, model, options, &found));
    if (report)
        write_report(report, &found);
    if (!options->allow_missing || found.loaded == 0)
        describe_trouble(line, sizeof line, "missing", &found.missing);
    if (!options->allow_unexpected || found.loaded == 0)
        describe_trouble(line, sizeof line, "unexpected", &found.unexpected);
    describe_trouble(line, sizeof line, "differently shaped",
                     found.loaded == 0 ? &found.shapes : &found.refused_shapes);
    if (line[0] || (found.loaded == 0 && dict->count > 0))
        return yki_error(YK_ERROR_MISMATCH, "%s: does not fit the model: %s",
                         yki_tensor_file_path(dict->file),
                         line[0] ? line : "no tensor has a name that was asked for");
    return YK_OK;
}

/* Reads one tensor's bytes; whether the model's dtype holds its numbers is known from here on. */
static yk_status fetch_entry(yki_state_dict *dict, size_t index, const yk_parameter_view *view)
{
    double culprit;
    const yki_file_tensor *stored = &dict->tensors[index];
    YK_TRY(yki_tensor_file_fetch(dict->file, stored));
    if (!yki_file_tensor_fits(stored, yki_tensor_file_storage(dict->file, stored),
                              view->value.dtype, &culprit))
        return yki_error(YK_ERROR_FORMAT, "%s: %s (%s) holds %g, which the model's %s does not",
                         yki_tensor_file_path(dict->file), view->name, stored->dtype->name, culprit,
                         yk_dtype_name(view->value.dtype));
    return YK_OK;
}

yk_status yki_state_dict_read_some(yki_state_dict *dict, yk_tensor_file *file,
                                   const yk_model *model, const yk_load_options *options,
                                   yk_load_report *report)
{
    *dict = (yki_state_dict){.file = file};
    YK_TRY(yki_tensor_file_check(file));
    dict->count = yk_model_parameter_count(model) + yk_model_buffer_count(model);
    dict->tensors = yki_calloc(dict->count, sizeof *dict->tensors);
    if (!dict->tensors)
        return yki_error_memory(dict->count * sizeof *dict->tensors, "a state_dict");
    yk_status status = match_entries(dict, model, options, report);
    for (size_t i = 0; i < dict->count && status == YK_OK; i++) {
        yk_parameter_view view = model_entry(model, i);
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
        yk_parameter_view view = model_entry(model, i);
        const yki_file_tensor *stored = &dict->tensors[i];
        if (stored->dtype)
            YK_TRY(yki_file_tensor_copy_to(stored, yki_tensor_file_storage(dict->file, stored),
                                           &view.value));
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

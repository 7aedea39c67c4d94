/*
 * See state_dict.h. Reading is strict, as load_state_dict is: all names and all shapes must fit,
 * and everything is known to be readable before the first byte of the model changes.
 */
#include "io/state_dict.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

enum { LISTED = 3 /* names of a kind in an error line; the others are counted */ };

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

static yk_status write_entry(yki_pth_writer *writer, const yk_parameter_view *view)
{
    yki_pickle_text(yki_pth_pickle(writer), view->name);
    return yki_pth_tensor(writer, &view->value);
}

/* Buffers are in the order of their modules: from *next on come those of the parameter's module. */
static yk_status write_buffers_of(yki_pth_writer *writer, const yk_model *model, const char *name,
                                  size_t *next)
{
    for (; *next < yk_model_buffer_count(model); ++*next) {
        yk_parameter_view buffer = yk_model_buffer(model, *next);
        if (name && !same_module(buffer.name, name))
            break;
        YK_TRY(write_entry(writer, &buffer));
    }
    return YK_OK;
}

yk_status yki_state_dict_write(yki_pth_writer *writer, const yk_model *model)
{
    yki_pickle_writer *pickle = yki_pth_pickle(writer);
    size_t count = yk_model_parameter_count(model), next_buffer = 0;
    yki_pickle_ordered_dict(pickle);
    yki_pickle_mark(pickle);
    for (size_t i = 0; i < count; i++) {
        yk_parameter_view view = yk_model_parameter(model, i);
        YK_TRY(write_entry(writer, &view));
        bool last = i + 1 == count;
        if (last || !same_module(view.name, yk_model_parameter(model, i + 1).name))
            YK_TRY(write_buffers_of(writer, model, view.name, &next_buffer));
    }
    YK_TRY(write_buffers_of(writer, model, NULL, &next_buffer)); /* of modules without parameters */
    yki_pickle_setitems(pickle);
    return YK_OK;
}

/* ---- what does not fit ---------------------------------------------------------------------- */

/* The names of one kind of trouble, as "missing a, b, c and 4 more". */
typedef struct name_list {
    char names[160];
    int count;
} name_list;

static void note(name_list *trouble, const char *text)
{
    size_t at = strlen(trouble->names);
    if (trouble->count < LISTED)
        snprintf(trouble->names + at, sizeof trouble->names - at, "%s%s",
                 trouble->count ? ", " : "", text);
    trouble->count++;
}

static void describe(char *line, size_t size, const char *kind, const name_list *trouble)
{
    size_t at = strlen(line);
    if (trouble->count == 0)
        return;
    at += (size_t)snprintf(line + at, size - at, "%s%s %s", at ? "; " : "", kind, trouble->names);
    if (trouble->count > LISTED && at < size)
        snprintf(line + at, size - at, " and %d more", trouble->count - LISTED);
}

static void shape_text(char *text, size_t size, int ndim, const int64_t *dims)
{
    size_t at = (size_t)snprintf(text, size, "(");
    for (int i = 0; i < ndim && at < size; i++)
        at += (size_t)snprintf(text + at, size - at, "%s%lld", i ? ", " : "", (long long)dims[i]);
    if (at < size)
        snprintf(text + at, size - at, ")");
}

static void note_shapes(name_list *trouble, const yk_parameter_view *view,
                        const yki_pth_view *found)
{
    char text[200], here[64], there[64];
    shape_text(there, sizeof there, found->ndim, found->dims);
    shape_text(here, sizeof here, view->value.ndim, view->value.dims);
    snprintf(text, sizeof text, "%.40s %s is %s in the model", view->name, there, here);
    note(trouble, text);
}

/* ---- reading -------------------------------------------------------------------------------- */

static bool holds_tensors(const yki_pickle_value *dict)
{
    return yki_pickle_pairs(dict) > 0 && yki_pth_is_tensor(yki_pickle_pair_value(dict, 0));
}

const yki_pickle_value *yki_state_dict_find(const yki_pth *pth)
{
    static const char *const keys[] = {"model", "model_state_dict", "state_dict"};
    const yki_pickle_value *root = yki_pth_root(pth);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const yki_pickle_value *value = yki_pickle_get(root, keys[i]);
        if (holds_tensors(value))
            return value;
    }
    return holds_tensors(root) ? root : NULL;
}

static yk_parameter_view model_entry(const yk_model *model, size_t index)
{
    size_t parameters = yk_model_parameter_count(model);
    return index < parameters ? yk_model_parameter(model, index)
                              : yk_model_buffer(model, index - parameters);
}

static const char wrapper[] = "module.";

/* Whether every name begins with what DataParallel and DistributedDataParallel put before it. */
static bool is_wrapped(const yki_pickle_value *dict)
{
    for (size_t i = 0; i < yki_pickle_pairs(dict); i++) {
        const yki_pickle_value *key = yki_pickle_key(dict, i);
        if (!yki_pickle_is(key, YKI_PICKLE_STRING) || key->count < sizeof wrapper - 1 ||
            memcmp(key->text, wrapper, sizeof wrapper - 1) != 0)
            return false;
    }
    return true;
}

static bool has_entry(const yk_model *model, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(model_entry(model, i).name, name) == 0)
            return true;
    return false;
}

static void note_unexpected(name_list *trouble, const yki_pickle_value *dict, const char *prefix,
                            const yk_model *model, size_t count)
{
    for (size_t i = 0; i < yki_pickle_pairs(dict); i++) {
        const yki_pickle_value *key = yki_pickle_key(dict, i);
        char name[256];
        if (!yki_pickle_is(key, YKI_PICKLE_STRING)) {
            note(trouble, "a name that is no text");
            continue;
        }
        snprintf(name, sizeof name, "%.*s", (int)(key->count < 200 ? key->count : 200), key->text);
        if (!has_entry(model, count, name + strlen(prefix)))
            note(trouble, name);
    }
}

static bool same_shape(const yki_pth_view *view, const yk_tensor *tensor)
{
    return view->ndim == tensor->ndim &&
           memcmp(view->dims, tensor->dims, (size_t)view->ndim * sizeof *view->dims) == 0;
}

static yk_status match(yki_state_dict *dict, yki_pth *pth, const yki_pickle_value *entries,
                       const yk_model *model)
{
    name_list missing = {{0}, 0}, unexpected = {{0}, 0}, shapes = {{0}, 0};
    const char *prefix = is_wrapped(entries) ? wrapper : "";
    for (size_t i = 0; i < dict->count; i++) {
        yk_parameter_view view = model_entry(model, i);
        char name[512];
        snprintf(name, sizeof name, "%s%s", prefix, view.name);
        const yki_pickle_value *value = yki_pickle_get(entries, name);
        if (!value) {
            note(&missing, view.name);
            continue;
        }
        YK_TRY(yki_pth_view_of(pth, value, &dict->views[i]));
        if (!same_shape(&dict->views[i], &view.value))
            note_shapes(&shapes, &view, &dict->views[i]);
        if (!yki_pth_converts_to(view.value.dtype))
            return yki_error(YK_UNSUPPORTED, "%s: cannot load %s into %s", yki_pth_path(pth),
                             view.name, yk_dtype_name(view.value.dtype));
    }
    note_unexpected(&unexpected, entries, prefix, model, dict->count);
    char line[YKI_ERROR_LINE] = "";
    describe(line, sizeof line, "missing", &missing);
    describe(line, sizeof line, "unexpected", &unexpected);
    describe(line, sizeof line, "differently shaped", &shapes);
    if (line[0])
        return yki_error(YK_MISMATCH, "%s: does not fit the model: %s", yki_pth_path(pth), line);
    return YK_OK;
}

yk_status yki_state_dict_read(yki_state_dict *dict, yki_pth *pth, const yk_model *model)
{
    *dict = (yki_state_dict){0};
    const yki_pickle_value *entries = yki_state_dict_find(pth);
    if (!entries)
        return yki_error(YK_FORMAT, "%s: expected a state_dict, or one under \"model\"",
                         yki_pth_path(pth));
    dict->count = yk_model_parameter_count(model) + yk_model_buffer_count(model);
    dict->views = yki_calloc(dict->count, sizeof *dict->views);
    if (!dict->views)
        return yki_error_memory(dict->count * sizeof *dict->views, "a state_dict");
    yk_status status = match(dict, pth, entries, model);
    for (size_t i = 0; i < dict->count && status == YK_OK; i++)
        status = yki_pth_fetch(pth, &dict->views[i]);
    if (status != YK_OK)
        yki_state_dict_fini(dict);
    return status;
}

void yki_state_dict_apply(const yki_state_dict *dict, const yki_pth *pth, yk_model *model)
{
    for (size_t i = 0; i < dict->count; i++) {
        yk_parameter_view view = model_entry(model, i);
        yki_pth_copy(pth, &dict->views[i], &view.value);
    }
    yk_model_parameters_changed(model);
}

void yki_state_dict_fini(yki_state_dict *dict)
{
    free(dict->views);
    *dict = (yki_state_dict){0};
}

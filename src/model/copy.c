/* Copies what one model has learned to another, by name and through host memory where a device
 * keeps it. */
#define _GNU_SOURCE
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "model/model_hooks.h"

/* Whether the entry is one that a state_dict has, with a name that fits. */
static bool is_chosen(const yk_model *from, size_t index, const char *pattern)
{
    return yki_model_saves_entry(from, index) &&
           (!pattern || fnmatch(pattern, yki_model_entry(from, index).name, 0) == 0);
}

/* The place for a value of another model. */
static yk_status find_place(const yk_model *to, const yk_parameter_view *view, yk_tensor *place)
{
    for (size_t i = 0; i < yki_model_entry_count(to); i++) {
        yk_parameter_view own = yki_model_entry(to, i);
        if (strcmp(own.name, view->name) != 0)
            continue;
        const yk_tensor *a = &own.value, *b = &view->value;
        *place = own.value;
        if (a->dtype == b->dtype && a->ndim == b->ndim &&
            memcmp(a->dims, b->dims, (size_t)a->ndim * sizeof *a->dims) == 0)
            return YK_OK;
        return yki_error(YK_ERROR_INVALID_SHAPE,
                         "%s has another shape or dtype in the model that it is to be copied to",
                         view->name);
    }
    return yki_error(YK_ERROR_NOT_FOUND, "the model that it is to be copied to has no %s",
                     view->name);
}

/* Before anything is copied. */
static yk_status check_values(const yk_model *to, const yk_model *from, const char *pattern,
                              size_t *largest)
{
    size_t matches = 0;
    for (size_t i = 0; i < yki_model_entry_count(from); i++) {
        yk_parameter_view view = yki_model_entry(from, i);
        yk_tensor place;
        if (!is_chosen(from, i, pattern))
            continue;
        YK_TRY(find_place(to, &view, &place));
        size_t bytes = yk_tensor_bytes(&view.value);
        *largest = bytes > *largest ? bytes : *largest;
        matches++;
    }
    if (pattern && !matches)
        return yki_error(YK_ERROR_NOT_FOUND, "no parameter or buffer has a name like \"%s\"",
                         pattern);
    return YK_OK;
}

yk_status yk_model_copy_values(yk_model *to, const yk_model *from, const char *pattern)
{
    YKI_NOT_NULL(to);
    YKI_NOT_NULL(from);
    size_t largest = 0;
    YK_TRY(check_values(to, from, pattern, &largest));
    void *room = yki_calloc(1, largest);
    if (!room)
        return yki_error_memory(largest, "a copy of a model's values");
    yk_status status = YK_OK;
    for (size_t i = 0; i < yki_model_entry_count(from) && status == YK_OK; i++) {
        yk_parameter_view view = yki_model_entry(from, i);
        yk_tensor place;
        if (!is_chosen(from, i, pattern))
            continue;
        status = find_place(to, &view, &place);
        if (status == YK_OK)
            status = yk_tensor_read(&view.value, room);
        if (status == YK_OK)
            status = yk_tensor_write(&place, room);
    }
    free(room);
    yk_model_parameters_changed(to);
    return status;
}

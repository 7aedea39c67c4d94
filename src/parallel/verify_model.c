/* A model is described as text, one line per tensor. */
#include "parallel/verify_model.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "device/memory.h"
#include "model/model_hooks.h"
#include "parallel/same_text.h"
#include "tensor/tensor.h"

enum { SHAPE = 128, REST = SHAPE + 32 }; /* of a line: what follows the name */

static size_t line_room(const yk_parameter_view *view)
{
    return strlen(view->name) + REST;
}

/* Returns the end of the line. */
static char *describe_tensor(char *line, const yk_parameter_view *view)
{
    char shape[SHAPE];
    bool frozen = view->grad.data && !view->trainable;
    return line + snprintf(line, line_room(view), "%s %s %s%s\n", view->name,
                           yk_dtype_name(view->value.dtype),
                           yki_dims_text(shape, sizeof shape, view->value.ndim, view->value.dims),
                           frozen ? " frozen" : "");
}

/* Returns the model's description, to be passed to free(), or NULL if out of memory. */
static char *describe_model(const yk_model *model)
{
    size_t tensors = yki_model_entry_count(model), bytes = 1;
    for (size_t i = 0; i < tensors; i++) {
        yk_parameter_view view = yki_model_entry(model, i);
        bytes += line_room(&view);
    }
    char *text = yki_calloc(bytes, 1), *at = text;
    for (size_t i = 0; text && i < tensors; i++) {
        yk_parameter_view view = yki_model_entry(model, i);
        at = describe_tensor(at, &view);
    }
    return text;
}

yk_status yki_ddp_verify_model(const yk_model *model, yk_group *group)
{
    char *own = describe_model(model);
    if (!own)
        return yki_error_memory(yki_model_entry_count(model) * REST, "a model's description");
    yk_status status = yki_compare_texts(group, "models", own);
    free(own);
    return status;
}

yk_status yki_broadcast_tensor(const yk_tensor *tensor, yk_group *group, int root)
{
    yki_host_view view;
    bool sends = yk_group_rank(group) == root;
    YK_TRY(yki_host_view_open(&view, tensor, sends ? YKI_READ : YKI_WRITE));
    yk_status status = yk_broadcast(group, view.data, yk_tensor_bytes(tensor), YK_U8, root, NULL);
    return yki_host_view_end(&view, status);
}

yk_status yki_ddp_broadcast_model(yk_model *model, yk_group *group, int root)
{
    for (size_t i = 0; i < yki_model_entry_count(model); i++) {
        yk_tensor tensor = yki_model_entry(model, i).value;
        YK_TRY(yki_broadcast_tensor(&tensor, group, root));
    }
    yk_model_parameters_changed(model);
    return YK_OK;
}

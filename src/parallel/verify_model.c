/*
 * A model is described as text, one line per tensor. Ranks compare the lengths and hashes of these
 * texts. Only if they differ are two texts broadcast, so that all ranks report the same difference.
 */
#include "parallel/verify_model.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/random.h"
#include "comm/group_internal.h"
#include "device/memory.h"
#include "model/model_hooks.h"
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

static uint64_t hash_text(const char *text)
{
    uint64_t hash = 0;
    for (; *text; text++)
        hash = yki_mix64(hash ^ (uint64_t)(unsigned char)*text);
    return hash;
}

/* Broadcasts the description of rank `root`, which is `length` bytes long. */
static yk_status broadcast_listing(yk_group *group, const char *own, int root, size_t length,
                                   char **text)
{
    *text = yki_calloc(length + 1, 1);
    if (!*text)
        return yki_error_memory(length, "a model's description");
    if (yk_group_rank(group) == root)
        memcpy(*text, own, length);
    return yk_broadcast(group, *text, length, YK_U8, root, NULL);
}

/* Reports the first line in which two descriptions differ; "nothing further" after the last. */
static yk_status report(const yk_group *group, const char *first, const char *second, int rank)
{
    int other = yki_group_job_rank(group, rank), root = yki_group_job_rank(group, 0);
    for (;;) {
        size_t a = strcspn(first, "\n"), b = strcspn(second, "\n");
        if (a != b || memcmp(first, second, a) != 0)
            return yki_error(YK_ERROR_MISMATCH, "models differ: rank %d has %.*s, rank %d has %.*s",
                             root, a ? (int)a : 15, a ? first : "nothing further", other,
                             b ? (int)b : 15, b ? second : "nothing further");
        if (!first[a] || !second[b])
            return yki_error(YK_ERROR_MISMATCH, "models differ between rank %d and rank %d", root,
                             other);
        first += a + 1;
        second += b + 1;
    }
}

static yk_status explain(yk_group *group, const char *own, int rank, size_t length0, size_t length)
{
    char *first = NULL, *second = NULL;
    yk_status status = broadcast_listing(group, own, 0, length0, &first);
    if (status != YK_OK || (status = broadcast_listing(group, own, rank, length, &second)) != YK_OK)
        goto out;
    status = report(group, first, second, rank);
out:
    free(first);
    free(second);
    return status;
}

yk_status yki_ddp_verify_model(const yk_model *model, yk_group *group)
{
    int size = yk_group_size(group);
    char *own = describe_model(model);
    int64_t *all = yki_calloc((size_t)size * 2, sizeof *all);
    yk_status status;
    if (!own || !all) {
        status = yki_error_memory((size_t)size * 2 * sizeof *all, "a model's description");
        goto out;
    }
    int64_t mine[2] = {(int64_t)hash_text(own), (int64_t)strlen(own)};
    status = yk_all_gather(group, all, mine, 2, YK_I64, NULL);
    for (int rank = 1; status == YK_OK && rank < size; rank++)
        if (memcmp(all, all + 2 * rank, 2 * sizeof *all) != 0)
            status = explain(group, own, rank, (size_t)all[1], (size_t)all[2 * rank + 1]);
out:
    free(own);
    free(all);
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

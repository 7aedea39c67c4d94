/* See comm_hook_state.h. */
#include "checkpoint/state/comm_hook_state.h"

#include "base/memory.h"
#include "parallel/ddp.h"

/* ---- writing -------------------------------------------------------------------------------- */

static yk_tensor vector(const void *data, yk_dtype dtype, size_t count)
{
    return (yk_tensor){.data = (void *)(uintptr_t)data, /* only read from */
                       .dtype = dtype,
                       .ndim = 1,
                       .dims = {(int64_t)count}};
}

static yk_status write_vector(yki_pth_writer *writer, const char *name,
                              const yki_hook_memory *memory, const void *data, yk_dtype dtype,
                              size_t count)
{
    yk_tensor tensor = vector(data, dtype, count);
    tensor.device = memory->device;
    yki_pickle_text(yki_pth_pickle(writer), name);
    return yki_pth_tensor(writer, &tensor);
}

yk_status yki_comm_hook_state_write(yki_pth_writer *writer, const yk_comm_hook_state *state)
{
    const yki_hook_memory *memory = &state->memory;
    yki_pickle_writer *pickle = yki_pth_pickle(writer);
    yki_pickle_dict(pickle);
    yki_pickle_mark(pickle);
    yki_pickle_text(pickle, "name");
    yki_pickle_text(pickle, memory->name);
    YK_TRY(
        write_vector(writer, "factors", memory, memory->factors, YK_F32, memory->factor_elements));
    YK_TRY(write_vector(writer, "warm", memory, memory->warm, YK_U8, memory->buckets));
    yki_pickle_text(pickle, "errors");
    yki_pickle_list(pickle);
    yki_pickle_mark(pickle);
    for (int64_t rank = 0; memory->error_elements && rank < state->ranks; rank++) {
        const float *errors = state->errors + (size_t)rank * memory->error_elements;
        yk_tensor tensor = vector(errors, YK_F32, memory->error_elements);
        YK_TRY(yki_pth_tensor(writer, &tensor));
    }
    yki_pickle_appends(pickle);
    yki_pickle_setitems(pickle);
    return YK_OK;
}

/* ---- reading -------------------------------------------------------------------------------- */

/* A tensor of this many elements, copied into data. */
static yk_status read_vector(yki_pth *pth, const yki_pickle_value *value, const char *name,
                             yk_dtype dtype, size_t count, void *data)
{
    yki_file_tensor stored;
    yk_tensor tensor = vector(data, dtype, count);
    YK_TRY(yki_pth_stored(pth, value, &stored));
    if (stored.ndim != 1 || stored.dims[0] != tensor.dims[0])
        return yki_error(
            YK_ERROR_MISMATCH,
            "%s: \"%s\" of the comm hook was saved for another model or with other options",
            yki_pth_path(pth), name);
    double culprit;
    YK_TRY(yki_pth_fetch(pth, &stored));
    if (!yki_file_tensor_fits(&stored, yki_pth_storage(pth, &stored), dtype, &culprit))
        return yki_error(
            YK_ERROR_FORMAT, "%s: \"%s\" of the comm hook (%s) holds %g, which %s does not",
            yki_pth_path(pth), name, stored.dtype->name, culprit, yk_dtype_name(dtype));
    return yki_pth_copy(pth, &stored, &tensor);
}

/* The sum of the errors that are this rank's now; piece has room for one of them. */
static yk_status read_errors(yki_pth *pth, const yki_pickle_value *list, const yk_ddp *ddp,
                             float *sum, float *piece)
{
    size_t count = ddp->hook.memory.error_elements, ranks = (size_t)yk_group_size(ddp->group);
    for (size_t i = (size_t)yk_group_rank(ddp->group); i < list->count; i += ranks) {
        YK_TRY(read_vector(pth, yki_pickle_item(list, i), "errors", YK_F32, count, piece));
        for (size_t e = 0; e < count; e++)
            sum[e] += piece[e];
    }
    return YK_OK;
}

static yk_status replace(const yki_hook_memory *memory, void *to, yk_dtype dtype, size_t count,
                         const void *from)
{
    yk_tensor tensor = vector(to, dtype, count);
    tensor.device = memory->device;
    return count ? yk_tensor_write(&tensor, from) : YK_OK;
}

/* Into memory of its own first, laid out as sum, piece, factors and warm. */
static yk_status read_hook_state(yki_pth *pth, const yki_pickle_value *value, const yk_ddp *ddp,
                                 float *room)
{
    const yki_hook_memory *memory = &ddp->hook.memory;
    float *piece = room + memory->error_elements, *factors = piece + memory->error_elements;
    uint8_t *warm = (uint8_t *)(factors + memory->factor_elements);
    const yki_pickle_value *errors = yki_pickle_get(value, "errors");
    if (!yki_pickle_is(errors, YKI_PICKLE_LIST))
        return yki_pickle_unexpected(yki_pth_file_pickle(pth), errors,
                                     "the list \"errors\" in \"comm_hook\"");
    YK_TRY(read_errors(pth, errors, ddp, room, piece));
    YK_TRY(read_vector(pth, yki_pickle_get(value, "factors"), "factors", YK_F32,
                       memory->factor_elements, factors));
    YK_TRY(read_vector(pth, yki_pickle_get(value, "warm"), "warm", YK_U8, memory->buckets, warm));
    YK_TRY(replace(memory, memory->errors, YK_F32, memory->error_elements, room));
    YK_TRY(replace(memory, memory->factors, YK_F32, memory->factor_elements, factors));
    return replace(memory, memory->warm, YK_U8, memory->buckets, warm);
}

/* name: in the file, where it should be a text; here: NULL where this hook keeps no state. */
static yk_status another_hook(const yki_pth *pth, const yki_pickle_value *name, const char *here)
{
    bool is_text = yki_pickle_is(name, YKI_PICKLE_STRING) && name->count < 40;
    return yki_error(YK_ERROR_MISMATCH,
                     "%s: holds the state of the comm hook %.*s; the one registered here %s%s",
                     yki_pth_path(pth), is_text ? (int)name->count : 1, is_text ? name->text : "?",
                     here ? "is " : "keeps no state", here ? here : "");
}

yk_status yki_comm_hook_state_read(yki_pth *pth, const yki_pickle_value *value, yk_ddp *ddp)
{
    const yki_hook_memory *memory = &ddp->hook.memory;
    const yki_pickle_value *name = yki_pickle_get(value, "name");
    if (!memory->name || !yki_pickle_is_text(name, memory->name))
        return another_hook(pth, name, memory->name);
    size_t bytes =
        (2 * memory->error_elements + memory->factor_elements) * sizeof(float) + memory->buckets;
    float *room = yki_map(bytes);
    if (!room)
        return yki_error_memory(bytes, "a comm hook's state");
    yk_status status = read_hook_state(pth, value, ddp, room);
    yki_unmap(room, bytes);
    return status;
}

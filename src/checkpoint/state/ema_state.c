/* See ema_state.h. The names and shapes are state_dict.c's. */
#include "checkpoint/state/ema_state.h"

#include "optim/optimizer.h"

static const char n_averaged[] = "n_averaged";

yk_status yki_ema_state_write(yki_pth_writer *writer, const char *key, const yk_model *model,
                              yk_ema *ema)
{
    yki_pickle_writer *pickle = yki_pth_pickle(writer);
    yk_tensor updates = yki_ema_n_averaged(ema);
    if (yki_ema_is_swapped(ema))
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "cannot save a checkpoint while averaged weights are swapped in: call "
                         "yk_ema_swap first");
    yki_pickle_text(pickle, key);
    yki_pickle_ordered_dict(pickle);
    yki_pickle_mark(pickle);
    yki_pickle_text(pickle, n_averaged);
    YK_TRY(yki_pth_tensor(writer, &updates));
    YK_TRY(yki_state_dict_write_entries(writer, model, ema));
    yki_pickle_setitems(pickle);
    yki_state_dict_write_metadata(writer, model, true);
    return YK_OK;
}

static yk_status read_updates(yki_ema_state *state, yk_tensor_file *file, const char *key)
{
    int64_t count, index = -1;
    size_t bytes, length;
    yki_file_tensor stored;
    for (size_t i = 0; i < yk_tensor_file_count(file); i++) {
        const char *name = yki_tensor_file_name(file, i, &length);
        if (name && yki_is_n_averaged(name, length))
            index = (int64_t)i;
    }
    if (index < 0)
        return yki_error(YK_ERROR_FORMAT, "%s: expected the number \"%s\" in \"%s\"",
                         yki_tensor_file_path(file), n_averaged, key);
    YK_TRY(yki_tensor_file_stored(file, (size_t)index, &stored));
    if (!yki_file_tensor_size(&stored, &count, &bytes) || count != 1)
        return yki_error(YK_ERROR_FORMAT, "%s: expected one number for \"%s\" in \"%s\"",
                         yki_tensor_file_path(file), n_averaged, key);
    YK_TRY(yki_tensor_file_fetch(file, &stored));
    double updates;
    yki_file_tensor_copy(&stored, yki_tensor_file_storage(file, &stored), YK_F64, &updates);
    if (!(updates >= 0 && updates < 9e15))
        return yki_error(YK_ERROR_FORMAT, "%s: \"%s\" in \"%s\" is %g, expected 0 or more",
                         yki_tensor_file_path(file), n_averaged, key, updates);
    state->updates = (int64_t)updates;
    return YK_OK;
}

yk_status yki_ema_state_read(yki_ema_state *state, yk_tensor_file *file, const char *key,
                             const yk_model *model)
{
    *state = (yki_ema_state){.updates = 0};
    YK_TRY(yki_tensor_file_choose(file, key));
    YK_TRY(read_updates(state, file, key));
    return yki_state_dict_read(&state->weights, file, model);
}

yk_status yki_ema_state_apply(const yki_ema_state *state, const yk_model *model, yk_ema *ema)
{
    size_t parameters = yk_model_parameter_count(model);
    yk_ema_set_updates(ema, state->updates);
    for (size_t i = 0; i < state->weights.count; i++) {
        const yki_file_tensor *stored = &state->weights.tensors[i];
        yk_tensor average = yk_ema_value(ema, i);
        bool shared =
            i >= parameters && average.data == yk_model_buffer(model, i - parameters).value.data;
        /* A buffer that is not averaged is the model's, which has been loaded. */
        if (stored->dtype && !shared)
            YK_TRY(yki_file_tensor_copy_to(stored, yki_state_dict_storage(&state->weights, i),
                                           &average));
    }
    return YK_OK;
}

void yki_ema_state_fini(yki_ema_state *state)
{
    yki_state_dict_fini(&state->weights);
    *state = (yki_ema_state){.updates = 0};
}

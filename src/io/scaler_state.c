/* See scaler_state.h. */
#include "io/scaler_state.h"

void yki_scaler_state_write(yki_pickle_writer *pickle, const yk_grad_scaler_state *state)
{
    yki_pickle_dict(pickle);
    yki_pickle_mark(pickle);
    yki_pickle_text(pickle, "scale");
    yki_pickle_float(pickle, state->scale);
    yki_pickle_text(pickle, "growth_factor");
    yki_pickle_float(pickle, state->growth_factor);
    yki_pickle_text(pickle, "backoff_factor");
    yki_pickle_float(pickle, state->backoff_factor);
    yki_pickle_text(pickle, "growth_interval");
    yki_pickle_int(pickle, state->growth_interval);
    yki_pickle_text(pickle, "_growth_tracker");
    yki_pickle_int(pickle, state->growth_tracker);
    yki_pickle_setitems(pickle);
}

static yk_status read_real(const yki_pth *pth, const yki_pickle_value *dict, const char *name,
                           double *real)
{
    const yki_pickle_value *value = yki_pickle_get(dict, name);
    if (!yki_pickle_is(value, YKI_PICKLE_FLOAT))
        return yki_pickle_unexpected(yki_pth_file_pickle(pth), value,
                                     "the number \"%s\" in \"scaler\"", name);
    *real = value->real;
    return YK_OK;
}

static yk_status read_count(const yki_pth *pth, const yki_pickle_value *dict, const char *name,
                            int64_t *count)
{
    const yki_pickle_value *value = yki_pickle_get(dict, name);
    if (!yki_pickle_is(value, YKI_PICKLE_INT) || value->integer < 0)
        return yki_pickle_unexpected(yki_pth_file_pickle(pth), value,
                                     "the count \"%s\" in \"scaler\"", name);
    *count = value->integer;
    return YK_OK;
}

yk_status yki_scaler_state_read(const yki_pth *pth, const yki_pickle_value *value,
                                yk_grad_scaler_state *state)
{
    *state = (yk_grad_scaler_state){0};
    if (!value || (yki_pickle_is(value, YKI_PICKLE_DICT) && value->count == 0))
        return YK_OK;
    state->enabled = true;
    YK_TRY(read_real(pth, value, "scale", &state->scale));
    YK_TRY(read_real(pth, value, "growth_factor", &state->growth_factor));
    YK_TRY(read_real(pth, value, "backoff_factor", &state->backoff_factor));
    YK_TRY(read_count(pth, value, "growth_interval", &state->growth_interval));
    return read_count(pth, value, "_growth_tracker", &state->growth_tracker);
}

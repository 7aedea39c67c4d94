/* See scaler_state.h. */
#include "checkpoint/state/scaler_state.h"

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

yk_status yki_scaler_state_read(const yki_pth *pth, const yki_pickle_value *value,
                                yk_grad_scaler_state *state)
{
    *state = (yk_grad_scaler_state){0};
    if (!value || (yki_pickle_is(value, YKI_PICKLE_DICT) && value->count == 0))
        return YK_OK;
    const yki_pickle *pickle = yki_pth_file_pickle(pth);
    state->enabled = true;
    YK_TRY(yki_pickle_get_number(pickle, value, "scaler", "scale", &state->scale));
    YK_TRY(yki_pickle_get_number(pickle, value, "scaler", "growth_factor", &state->growth_factor));
    YK_TRY(
        yki_pickle_get_number(pickle, value, "scaler", "backoff_factor", &state->backoff_factor));
    YK_TRY(
        yki_pickle_get_count(pickle, value, "scaler", "growth_interval", &state->growth_interval));
    return yki_pickle_get_count(pickle, value, "scaler", "_growth_tracker", &state->growth_tracker);
}

/* See choices_state.h. */
#include "checkpoint/state/choices_state.h"

#include <stdbool.h>
#include <stdio.h>

void yki_choices_state_write(yki_pickle_writer *pickle, const yki_choices *choices)
{
    yki_pickle_dict(pickle);
    yki_pickle_mark(pickle);
    for (size_t i = 0; i < choices->count; i++) {
        yki_pickle_text(pickle, choices->list[i].problem);
        yki_pickle_text(pickle, choices->list[i].kernel);
    }
    yki_pickle_setitems(pickle);
}

static bool is_printable(const char *text, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (text[i] < ' ' || text[i] > '~')
            return false;
    return true;
}

/* Copies a text of printable ASCII, which may be logged, that is shorter than size bytes. */
static yk_status read_text(const yki_pth *pth, const yki_pickle_value *value, char *text,
                           size_t size)
{
    if (!yki_pickle_is(value, YKI_PICKLE_STRING) || value->count >= size ||
        !is_printable(value->text, value->count))
        return yki_pickle_unexpected(yki_pth_file_pickle(pth), value,
                                     "a printable text shorter than %zu bytes in \"kernels\"",
                                     size);
    snprintf(text, size, "%.*s", (int)value->count, value->text);
    return YK_OK;
}

yk_status yki_choices_state_read(const yki_pth *pth, const yki_pickle_value *state,
                                 yki_choices *choices)
{
    const yki_pickle_value *dict = yki_pickle_get(state, "kernels");
    if (!dict)
        return YK_OK;
    if (!yki_pickle_is(dict, YKI_PICKLE_DICT))
        return yki_pickle_unexpected(yki_pth_file_pickle(pth), dict, "the dict \"kernels\"");
    if (yki_pickle_pairs(dict) > YKI_MOST_CHOICES)
        return yki_pickle_unexpected(yki_pth_file_pickle(pth), dict, "at most %d \"kernels\"",
                                     YKI_MOST_CHOICES);
    for (size_t i = 0; i < yki_pickle_pairs(dict); i++) {
        yki_choice choice;
        YK_TRY(read_text(pth, yki_pickle_key(dict, i), choice.problem, sizeof choice.problem));
        YK_TRY(read_text(pth, yki_pickle_pair_value(dict, i), choice.kernel, sizeof choice.kernel));
        YK_TRY(yki_choices_set(choices, choice.problem, choice.kernel));
    }
    return YK_OK;
}

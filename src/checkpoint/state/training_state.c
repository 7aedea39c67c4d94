/* See training_state.h. One table of the struct's fields serves writing and reading. */
#include "checkpoint/state/training_state.h"

#include "base/utf8.h"
#include "checkpoint/state/choices_state.h"
#include "checkpoint/state/program_state.h"
#include "checkpoint/state/schedule_state.h"
#include "model/choices.h"
#include "nn/arch.h"

#include <ctype.h>
#include <string.h>

typedef enum state_kind {
    COUNT, /* int64_t, 0 or more */
    BITS,  /* 64 of them: the upper half is negative in a pickle */
    REAL,  /* double */
    TEXT   /* char [size], ended by a zero; as large as arch at most */
} state_kind;

typedef struct state_field {
    const char *name;
    state_kind kind;
    size_t offset, size; /* in yk_training_state */
    bool since_later;    /* files of earlier versions do not have it: 0, or "" */
} state_field;

#define ROW(KIND, LATER, name)                                                                     \
    {                                                                                              \
#name, KIND, offsetof(yk_training_state, name), sizeof(((yk_training_state *)0)->name),    \
            LATER                                                                                  \
    }

static const state_field fields[] = {
    ROW(TEXT, false, arch),          ROW(COUNT, false, epoch),
    ROW(COUNT, false, step),         ROW(COUNT, false, epoch_batch),
    ROW(COUNT, false, batch_size),   ROW(COUNT, false, world_size),
    ROW(BITS, false, seed),          ROW(REAL, false, lr),
    ROW(REAL, false, val_accuracy),  ROW(COUNT, true, threads),
    ROW(COUNT, true, virtual_ranks), ROW(REAL, true, epoch_loss),
    ROW(REAL, true, epoch_samples),  ROW(TEXT, true, dataset),
    ROW(COUNT, true, dataset_size),
};

/* Version 2 renamed networks (nn/arch.h). */
enum { FIELDS = sizeof fields / sizeof *fields, FORMAT_VERSION = 2 };

/* ---- writing -------------------------------------------------------------------------------- */

static yk_status check_field(const state_field *field, const char *from)
{
    int64_t count;
    memcpy(&count, from, sizeof count);
    if (field->kind == COUNT && count < 0)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "training state: %s is %lld, expected 0 or more", field->name,
                         (long long)count);
    if (field->kind == TEXT && !memchr(from, 0, field->size))
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "training state: %s must be shorter than %zu bytes and end with a zero",
                         field->name, field->size);
    return YK_OK;
}

yk_status yki_training_state_check(const yk_training_state *state)
{
    for (int i = 0; i < FIELDS; i++)
        YK_TRY(check_field(&fields[i], (const char *)state + fields[i].offset));
    YK_TRY(yki_program_state_check(state->program, sizeof state->program));
    return state->has_schedule ? yk_schedule_check(&state->schedule) : YK_OK;
}

static void write_field(yki_pickle_writer *pickle, const state_field *field, const char *from)
{
    int64_t integer;
    double real;
    yki_pickle_text(pickle, field->name);
    switch (field->kind) {
    case COUNT:
    case BITS:
        memcpy(&integer, from, sizeof integer);
        yki_pickle_int(pickle, integer);
        break;
    case REAL:
        memcpy(&real, from, sizeof real);
        yki_pickle_float(pickle, real);
        break;
    case TEXT:
        yki_pickle_text(pickle, from);
        break;
    }
}

void yki_training_state_write(yki_pickle_writer *pickle, const yk_training_state *state,
                              const yk_model *model, const yk_optimizer *optimizer)
{
    yki_pickle_dict(pickle);
    yki_pickle_mark(pickle);
    yki_pickle_text(pickle, "version");
    yki_pickle_int(pickle, FORMAT_VERSION);
    for (int i = 0; i < FIELDS; i++)
        write_field(pickle, &fields[i], (const char *)state + fields[i].offset);
    yki_pickle_text(pickle, "program");
    yki_program_state_write(pickle, state->program);
    if (state->has_schedule) {
        yki_pickle_text(pickle, "schedule");
        yki_schedule_state_write(pickle, &state->schedule);
    }
    yki_pickle_text(pickle, "forwards");
    yki_pickle_int(pickle, yk_model_forwards(model));
    if (yki_model_choices(model)->count > 0) {
        yki_pickle_text(pickle, "kernels");
        yki_choices_state_write(pickle, yki_model_choices(model));
    }
    if (optimizer) {
        yki_pickle_text(pickle, "optimizer");
        yki_pickle_text(pickle, yk_optimizer_name(optimizer));
        yki_pickle_text(pickle, "optimizer_steps");
        yki_pickle_int(pickle, yk_optimizer_steps(optimizer));
    }
    yki_pickle_setitems(pickle);
}

/* ---- reading -------------------------------------------------------------------------------- */

/* In the training state's dict. */
static yk_status read_count(const yki_pth *pth, const yki_pickle_value *dict, const char *name,
                            int64_t *count)
{
    return yki_pickle_get_count(yki_pth_file_pickle(pth), dict, "yoke", name, count);
}

static yk_status read_bits(const yki_pth *pth, const yki_pickle_value *value, const char *name,
                           int64_t *bits)
{
    if (!value || !yki_pickle_is(value, YKI_PICKLE_INT))
        return yki_pickle_unexpected(yki_pth_file_pickle(pth), value, "\"%s\" in \"yoke\"", name);
    *bits = value->integer;
    return YK_OK;
}

static yk_status read_text(const yki_pth *pth, const yki_pickle_value *value,
                           const state_field *field, char *text)
{
    char bytes[3 * sizeof((yk_training_state *)0)->arch];
    bool fits = value && yki_pickle_is(value, YKI_PICKLE_STRING) && value->count < sizeof bytes &&
                !memchr(value->text, 0, value->count);
    size_t count = fits ? yki_utf8_to_bytes(bytes, value->text, value->count) : 0;
    if (!fits || count >= field->size)
        return yki_pickle_unexpected(yki_pth_file_pickle(pth), value,
                                     "the text \"%s\" in \"yoke\", shorter than %zu bytes",
                                     field->name, field->size);
    memcpy(text, bytes, count);
    return YK_OK;
}

static yk_status read_field(const yki_pth *pth, const yki_pickle_value *dict,
                            const state_field *field, char *to)
{
    const yki_pickle_value *value = yki_pickle_get(dict, field->name);
    int64_t integer = 0;
    double real = 0;
    if (!value && field->since_later)
        return YK_OK;
    switch (field->kind) {
    case COUNT:
        YK_TRY(read_count(pth, dict, field->name, &integer));
        memcpy(to, &integer, sizeof integer);
        break;
    case BITS:
        YK_TRY(read_bits(pth, value, field->name, &integer));
        memcpy(to, &integer, sizeof integer);
        break;
    case REAL:
        YK_TRY(yki_pickle_get_number(yki_pth_file_pickle(pth), dict, "yoke", field->name, &real));
        memcpy(to, &real, sizeof real);
        break;
    case TEXT:
        return read_text(pth, value, field, to);
    }
    return YK_OK;
}

yk_status yki_training_state_read(const yki_pth *pth, const yki_pickle_value *value,
                                  yk_training_state *state)
{
    yk_training_state new = {0};
    int64_t version = 0;
    YK_TRY(read_count(pth, value, "version", &version));
    if (version < 1 || version > FORMAT_VERSION)
        return yki_error(YK_ERROR_UNSUPPORTED,
                         "%s: training state of version %lld; this yoke reads versions 1 to %d",
                         yki_pth_path(pth), (long long)version, FORMAT_VERSION);
    for (int i = 0; i < FIELDS; i++)
        YK_TRY(read_field(pth, value, &fields[i], (char *)&new + fields[i].offset));
    if (version == 1) {
        char arch[sizeof new.arch];
        memcpy(arch, new.arch, sizeof arch);
        snprintf(new.arch, sizeof new.arch, "%s", yki_arch_renamed(arch));
    }
    YK_TRY(yki_program_state_read(pth, value, new.program, sizeof new.program));
    const yki_pickle_value *schedule = yki_pickle_get(value, "schedule");
    new.has_schedule = schedule != NULL;
    if (schedule)
        YK_TRY(yki_schedule_state_read(pth, schedule, &new.schedule));
    *state = new;
    return YK_OK;
}

yk_status yki_training_state_forwards(const yki_pth *pth, const yki_pickle_value *value,
                                      int64_t *forwards)
{
    *forwards = 0;
    return yki_pickle_get(value, "forwards") ? read_count(pth, value, "forwards", forwards) : YK_OK;
}

/* What may be an optimizer's name: nothing else of a file goes to a terminal. */
static const char *optimizer_word(const yki_pickle_value *name, char *word, size_t size)
{
    size_t length = yki_pickle_is(name, YKI_PICKLE_STRING) ? name->count : 0;
    bool fine = length > 0 && length < size;
    for (size_t i = 0; fine && i < length; i++)
        fine = isalnum((unsigned char)name->text[i]) != 0;
    snprintf(word, size, "%.*s", fine ? (int)length : (int)size - 1,
             fine ? name->text : "something else");
    return word;
}

yk_status yki_training_state_steps(const yki_pth *pth, const yki_pickle_value *value,
                                   const yk_optimizer *optimizer, int64_t *steps)
{
    *steps = -1;
    const yki_pickle_value *name = yki_pickle_get(value, "optimizer");
    if (!name)
        return YK_OK;
    char was[16];
    if (!yki_pickle_is_text(name, yk_optimizer_name(optimizer)))
        return yki_error(YK_ERROR_MISMATCH, "%s: was trained with %s, not with %s",
                         yki_pth_path(pth), optimizer_word(name, was, sizeof was),
                         yk_optimizer_name(optimizer));
    return read_count(pth, value, "optimizer_steps", steps);
}

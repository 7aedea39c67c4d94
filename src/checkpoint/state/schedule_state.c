/* See schedule_state.h. One table of the struct's fields serves writing and reading. */
#include "checkpoint/state/schedule_state.h"

#include <stddef.h>
#include <string.h>

typedef enum field_type { FIELD_BOOL, FIELD_INT, FIELD_REAL } field_type;

typedef struct schedule_field {
    const char *name;
    field_type type;
    size_t offset; /* in yk_schedule */
} schedule_field;

#define FIELD(TYPE, field)                                                                         \
    {                                                                                              \
#field, FIELD_##TYPE, offsetof(yk_schedule, field)                                         \
    }

static const schedule_field schedule_fields[] = {
    FIELD(BOOL, per_step),       FIELD(INT, warmup),
    FIELD(REAL, warmup_factor),  FIELD(REAL, gamma),
    FIELD(INT, step_size),       FIELD(INT, t_max),
    FIELD(REAL, eta_min),        FIELD(INT, total_steps),
    FIELD(REAL, max_lr),         FIELD(REAL, pct_start),
    FIELD(REAL, div_factor),     FIELD(REAL, final_div_factor),
    FIELD(BOOL, linear_anneal),  FIELD(BOOL, three_phase),
    FIELD(BOOL, cycle_momentum), FIELD(REAL, base_momentum),
    FIELD(REAL, max_momentum),   FIELD(REAL, start_factor),
    FIELD(REAL, end_factor),     FIELD(INT, t_0),
    FIELD(INT, t_mult),          FIELD(REAL, power),
    FIELD(REAL, base_lr),        FIELD(INT, step_size_up),
    FIELD(INT, step_size_down),  FIELD(BOOL, warmup_constant),
};

enum { SCHEDULE_FIELDS = sizeof schedule_fields / sizeof *schedule_fields };

static void write_value(yki_pickle_writer *pickle, const schedule_field *field, const char *from)
{
    bool truth;
    int64_t integer;
    double real;
    switch (field->type) {
    case FIELD_BOOL:
        memcpy(&truth, from, sizeof truth);
        yki_pickle_bool(pickle, truth);
        break;
    case FIELD_INT:
        memcpy(&integer, from, sizeof integer);
        yki_pickle_int(pickle, integer);
        break;
    case FIELD_REAL:
        memcpy(&real, from, sizeof real);
        yki_pickle_float(pickle, real);
        break;
    }
}

void yki_schedule_state_write(yki_pickle_writer *pickle, const yk_schedule *schedule)
{
    yki_pickle_dict(pickle);
    yki_pickle_mark(pickle);
    yki_pickle_text(pickle, "kind");
    yki_pickle_text(pickle, yk_schedule_name(schedule->kind));
    for (int i = 0; i < SCHEDULE_FIELDS; i++) {
        yki_pickle_text(pickle, schedule_fields[i].name);
        write_value(pickle, &schedule_fields[i],
                    (const char *)schedule + schedule_fields[i].offset);
    }
    yki_pickle_text(pickle, "cycle_mode");
    yki_pickle_text(pickle, yk_cycle_mode_name(schedule->cycle_mode));
    yki_pickle_text(pickle, "milestones");
    yki_pickle_list(pickle);
    yki_pickle_mark(pickle);
    for (int64_t i = 0; i < schedule->milestone_count; i++)
        yki_pickle_int(pickle, schedule->milestones[i]);
    yki_pickle_appends(pickle);
    yki_pickle_setitems(pickle);
}

/* ---- reading --------------------------------------------------------------------------------- */

static yk_status read_value(const yki_pth *pth, const yki_pickle_value *dict,
                            const schedule_field *field, char *to)
{
    static const yki_pickle_type types[] = {[FIELD_BOOL] = YKI_PICKLE_BOOL,
                                            [FIELD_INT] = YKI_PICKLE_INT,
                                            [FIELD_REAL] = YKI_PICKLE_FLOAT};
    const yki_pickle_value *value = yki_pickle_get(dict, field->name);
    if (!value)
        return YK_OK;
    if (!yki_pickle_is(value, types[field->type]))
        return yki_pickle_unexpected(yki_pth_file_pickle(pth), value,
                                     "a %s as \"%s\" of the schedule",
                                     yki_pickle_type_name(types[field->type]), field->name);
    bool truth = value->integer != 0;
    if (field->type == FIELD_BOOL)
        memcpy(to, &truth, sizeof truth);
    else if (field->type == FIELD_INT)
        memcpy(to, &value->integer, sizeof value->integer);
    else
        memcpy(to, &value->real, sizeof value->real);
    return YK_OK;
}

static yk_status read_kind(const yki_pth *pth, const yki_pickle_value *dict, yk_schedule *schedule)
{
    const yki_pickle_value *value = yki_pickle_get(dict, "kind");
    const char *name;
    for (int kind = 0; (name = yk_schedule_name((yk_schedule_kind)kind)); kind++)
        if (yki_pickle_is_text(value, name)) {
            schedule->kind = (yk_schedule_kind)kind;
            return YK_OK;
        }
    return yki_pickle_unexpected(yki_pth_file_pickle(pth), value,
                                 "the name of a learning-rate schedule");
}

/* Files of before CYCLIC do not have it. */
static yk_status read_cycle_mode(const yki_pth *pth, const yki_pickle_value *dict,
                                 yk_schedule *schedule)
{
    const yki_pickle_value *value = yki_pickle_get(dict, "cycle_mode");
    const char *name;
    for (int mode = 0; value && (name = yk_cycle_mode_name((yk_cycle_mode)mode)); mode++)
        if (yki_pickle_is_text(value, name)) {
            schedule->cycle_mode = (yk_cycle_mode)mode;
            return YK_OK;
        }
    return value ? yki_pickle_unexpected(yki_pth_file_pickle(pth), value,
                                         "the name of a mode as \"cycle_mode\" of the schedule")
                 : YK_OK;
}

static yk_status read_milestones(const yki_pth *pth, const yki_pickle_value *dict,
                                 yk_schedule *schedule)
{
    const yki_pickle_value *list = yki_pickle_get(dict, "milestones"), *item;
    if (!list)
        return YK_OK;
    if (!yki_pickle_is(list, YKI_PICKLE_LIST) || list->count > YK_MAX_MILESTONES)
        return yki_pickle_unexpected(yki_pth_file_pickle(pth), list,
                                     "a list of at most %d milestones", YK_MAX_MILESTONES);
    for (size_t i = 0; (item = yki_pickle_item(list, i)); i++) {
        if (!yki_pickle_is(item, YKI_PICKLE_INT))
            return yki_pickle_unexpected(yki_pth_file_pickle(pth), item, "a milestone");
        schedule->milestones[i] = item->integer;
    }
    schedule->milestone_count = list->count;
    return YK_OK;
}

yk_status yki_schedule_state_read(const yki_pth *pth, const yki_pickle_value *dict,
                                  yk_schedule *schedule)
{
    yk_schedule found = YK_SCHEDULE_INIT;
    YK_TRY(read_kind(pth, dict, &found));
    for (int i = 0; i < SCHEDULE_FIELDS; i++)
        YK_TRY(
            read_value(pth, dict, &schedule_fields[i], (char *)&found + schedule_fields[i].offset));
    YK_TRY(read_cycle_mode(pth, dict, &found));
    YK_TRY(read_milestones(pth, dict, &found));
    if (yk_schedule_check(&found) != YK_OK)
        return yki_error_context(YK_ERROR_FORMAT, "%s", yki_pth_path(pth));
    *schedule = found;
    return YK_OK;
}

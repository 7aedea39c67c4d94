/* See program_state.h. */
#include "checkpoint/state/program_state.h"

#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

enum { MOST_NAME = 64 };

yk_status yki_program_state_check(const char *program, size_t size)
{
    if (!memchr(program, 0, size))
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "training state: program must be shorter than %zu bytes and end with a "
                         "zero",
                         size);
    for (const char *line = program; *line; line = strchr(line, '\n') + 1) {
        size_t length = strcspn(line, "\n"), name = strcspn(line, "=\n");
        if (!line[length] || name == length || name == 0 || name >= MOST_NAME)
            return yki_error(YK_ERROR_INVALID_ARGUMENT,
                             "training state: program: expected lines NAME=VALUE, found \"%.*s\"",
                             (int)(length < 60 ? length : 60), line);
    }
    return YK_OK;
}

/* ---- writing --------------------------------------------------------------------------------- */

void yki_program_state_write(yki_pickle_writer *pickle, const char *program)
{
    char name[MOST_NAME], value[sizeof((yk_training_state *)0)->program];
    yki_pickle_dict(pickle);
    yki_pickle_mark(pickle);
    for (const char *line = program; *line; line = strchr(line, '\n') + 1) {
        const char *equals = strchr(line, '=');
        snprintf(name, sizeof name, "%.*s", (int)(equals - line), line);
        snprintf(value, sizeof value, "%.*s", (int)strcspn(equals + 1, "\n"), equals + 1);
        yki_pickle_text(pickle, name);
        yki_pickle_text(pickle, value);
    }
    yki_pickle_setitems(pickle);
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Lines being put together. */
typedef struct line_writer {
    char *text;
    size_t size, used;
    bool full;
} line_writer;

static void add_text(line_writer *to, const char *text, size_t length)
{
    size_t bytes = yki_utf8_to_bytes(NULL, text, length);
    to->full = to->full || bytes >= to->size - to->used;
    if (to->full)
        return;
    yki_utf8_to_bytes(to->text + to->used, text, length);
    to->used += bytes;
    to->text[to->used] = '\0';
}

static void add_line(line_writer *to, const char *name, size_t name_length, const char *value,
                     size_t value_length)
{
    add_text(to, name, name_length);
    add_text(to, "=", 1);
    add_text(to, value, value_length);
    add_text(to, "\n", 1);
}

/* Text that can be a line, or a part of one: no newline and no zero within. */
static bool is_line_text(const yki_pickle_value *value)
{
    return yki_pickle_is(value, YKI_PICKLE_STRING) && !memchr(value->text, '\n', value->count) &&
           !memchr(value->text, 0, value->count);
}

static yk_status read_dict(const yki_pth *pth, const yki_pickle_value *dict, line_writer *to)
{
    if (!yki_pickle_is(dict, YKI_PICKLE_DICT))
        return yki_pickle_unexpected(yki_pth_file_pickle(pth), dict, "the dict \"program\"");
    for (size_t i = 0; i < yki_pickle_pairs(dict); i++) {
        const yki_pickle_value *key = yki_pickle_key(dict, i);
        const yki_pickle_value *value = yki_pickle_pair_value(dict, i);
        if (!is_line_text(key) || !is_line_text(value))
            return yki_pickle_unexpected(yki_pth_file_pickle(pth), is_line_text(key) ? value : key,
                                         "a line of text in \"program\"");
        add_line(to, key->text, key->count, value->text, value->count);
    }
    return YK_OK;
}

/* "--NAME=VALUE\n" and "--NAME\n" of earlier versions. */
static yk_status read_options(const yki_pth *pth, const yki_pickle_value *options, line_writer *to)
{
    if (!yki_pickle_is(options, YKI_PICKLE_STRING) || memchr(options->text, 0, options->count))
        return yki_pickle_unexpected(yki_pth_file_pickle(pth), options, "the text \"options\"");
    const char *end = options->text + options->count, *next;
    for (const char *line = options->text; line < end; line = next + 1) {
        next = memchr(line, '\n', (size_t)(end - line));
        if (!next)
            break;
        if (next - line > 2 && memcmp(line, "--", 2) == 0)
            line += 2;
        const char *equals = memchr(line, '=', (size_t)(next - line));
        if (equals)
            add_line(to, line, (size_t)(equals - line), equals + 1, (size_t)(next - equals - 1));
        else
            add_line(to, line, (size_t)(next - line), "true", 4);
    }
    return YK_OK;
}

yk_status yki_program_state_read(const yki_pth *pth, const yki_pickle_value *state, char *program,
                                 size_t size)
{
    line_writer to = {.text = program, .size = size};
    const yki_pickle_value *dict = yki_pickle_get(state, "program");
    const yki_pickle_value *options = yki_pickle_get(state, "options");
    *program = '\0';
    if (dict)
        YK_TRY(read_dict(pth, dict, &to));
    else if (options)
        YK_TRY(read_options(pth, options, &to));
    if (to.full)
        return yki_pickle_unexpected(yki_pth_file_pickle(pth), dict ? dict : options,
                                     "less than %zu bytes of \"program\"", size);
    return yki_program_state_check(program, size);
}

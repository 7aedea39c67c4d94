/*
 * The texts of transforms. Reading: names in any case, parameters by position or by name, lists in
 * parentheses or brackets. Writing: parameters that have their defaults are left out, numbers are
 * as short as reads back to the same.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/c_locale.h"
#include "base/memory.h"
#include "data/transforms/transforms.h"

enum { WORD_SIZE = 40, LIST_MAX = 3, STEP_TEXT = 512, KINDS = YK_TRANSFORM_ONE_HOT + 1 };

static const char *const interpolations[] = {"nearest", "bilinear", "bicubic", NULL};
static const char *const padding_modes[] = {"constant", "reflect", NULL};

/* ---- reading: words and values -------------------------------------------------------------- */

typedef struct reader {
    const char *text, *at;
} reader;

static void skip_space(reader *r)
{
    while (isspace((unsigned char)*r->at))
        r->at++;
}

static bool accept(reader *r, char c)
{
    skip_space(r);
    if (*r->at != c)
        return false;
    r->at++;
    skip_space(r);
    return true;
}

static yk_status wrong(const reader *r, const char *expected)
{
    int place = (int)(r->at - r->text) + 1;
    if (!*r->at)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "transforms: expected %s at character %d, where the list ends", expected,
                         place);
    return yki_error(YK_ERROR_INVALID_ARGUMENT,
                     "transforms: expected %s at character %d, before \"%.20s\"", expected, place,
                     r->at);
}

/* Letters, digits, "-" and "_", starting with a letter; "" where there is none. */
static void read_word(reader *r, char word[WORD_SIZE])
{
    size_t length = 0;
    skip_space(r);
    if (isalpha((unsigned char)*r->at))
        while (length + 1 < WORD_SIZE &&
               (isalnum((unsigned char)r->at[length]) || strchr("-_", r->at[length])) &&
               r->at[length])
            length++;
    memcpy(word, r->at, length);
    word[length] = '\0';
    r->at += length;
}

/* A word, a number, or a list of numbers. */
typedef struct value {
    char word[WORD_SIZE];
    double numbers[LIST_MAX];
    int count;
    bool list;
} value;

static yk_status read_decimal(reader *r, double *number)
{
    char *end;
    skip_space(r);
    *number = strtod(r->at, &end);
    if (end == r->at)
        return wrong(r, "a number");
    r->at = end;
    return YK_OK;
}

/* 0.75 or 3/4 */
static yk_status read_number(reader *r, double *number)
{
    double divisor;
    YK_TRY(read_decimal(r, number));
    if (accept(r, '/')) {
        YK_TRY(read_decimal(r, &divisor));
        *number /= divisor;
    }
    return YK_OK;
}

/* Up to `close`. As in Python, a comma may end a list, as in (0.5,). */
static yk_status read_list(reader *r, char close, value *v)
{
    v->list = true;
    do {
        if (v->count == LIST_MAX)
            return wrong(r, "no more than 3 numbers in a list");
        YK_TRY(read_number(r, &v->numbers[v->count++]));
    } while (accept(r, ',') && *r->at != close);
    return accept(r, close) ? YK_OK : wrong(r, close == ')' ? "\")\"" : "\"]\"");
}

static yk_status read_value(reader *r, value *v)
{
    *v = (value){.count = 0};
    char close = accept(r, '(') ? ')' : accept(r, '[') ? ']' : '\0';
    if (close)
        return read_list(r, close, v);
    skip_space(r);
    if (isalpha((unsigned char)*r->at)) {
        read_word(r, v->word);
        return YK_OK;
    }
    v->count = 1;
    return read_number(r, &v->numbers[0]);
}

/* ---- reading: parameters -------------------------------------------------------------------- */

/* An enum whose constants are numbered like the words, which end with NULL. */
static bool set_word(const value *v, const char *const *words, int *constant)
{
    for (int i = 0; words[i]; i++)
        if (strcasecmp(v->word, words[i]) == 0) {
            *constant = i;
            return true;
        }
    return false;
}

static bool is_whole(double number)
{
    return number >= -1e9 && number <= 1e9 && number == (int)number;
}

static bool set_size(const value *v, int size[2])
{
    for (int i = 0; i < v->count; i++)
        if (!is_whole(v->numbers[i]))
            return false;
    if (v->count != 1 && v->count != 2)
        return false;
    size[0] = (int)v->numbers[0];
    size[1] = (int)v->numbers[v->count - 1];
    return true;
}

static bool set_resize(const value *v, yk_transform_resize *resize)
{
    int size[2];
    if (!set_size(v, size))
        return false;
    resize->height = size[0];
    resize->width = size[1];
    resize->short_side = v->count == 1;
    return true;
}

/* A list is the range; where `centre` is given, a number x is the range from centre - x to centre +
 * x. */
static bool set_range(const value *v, const double *centre, double least, double range[2])
{
    if (v->count == 2) {
        memcpy(range, v->numbers, 2 * sizeof *range);
        return true;
    }
    if (!centre || v->count != 1 || v->list || v->numbers[0] < 0)
        return false;
    range[0] = *centre - v->numbers[0] < least ? least : *centre - v->numbers[0];
    range[1] = *centre + v->numbers[0];
    return true;
}

static bool set_channels(const value *v, double numbers[3])
{
    if (v->count != 1 && v->count != 3)
        return false;
    for (int c = 0; c < 3; c++)
        numbers[c] = v->numbers[v->count == 3 ? c : 0];
    return true;
}

static bool set_number(const value *v, double *number)
{
    *number = v->numbers[0];
    return v->count == 1 && !v->list;
}

static bool set_int(const value *v, int *number)
{
    if (v->count != 1 || v->list || !is_whole(v->numbers[0]))
        return false;
    *number = (int)v->numbers[0];
    return true;
}

static bool set_erased(const value *v, yk_transform_random_erasing *erasing)
{
    erasing->random = strcasecmp(v->word, "random") == 0;
    return erasing->random || set_number(v, &erasing->value);
}

static bool set_parameter(yk_transform_step *step, const yki_parameter *parameter, const value *v)
{
    static const double one = 1, zero = 0;
    void *at = (char *)step + parameter->offset;
    switch (parameter->type) {
    case YKI_PARAMETER_INT:
        return set_int(v, at);
    case YKI_PARAMETER_NUMBER:
        return set_number(v, at);
    case YKI_PARAMETER_SIZE:
        return set_size(v, at);
    case YKI_PARAMETER_RESIZE:
        return set_resize(v, &step->resize);
    case YKI_PARAMETER_RANGE:
        return set_range(v, NULL, 0, at);
    case YKI_PARAMETER_FACTOR:
        return set_range(v, &one, 0, at);
    case YKI_PARAMETER_HUE:
        return set_range(v, &zero, -0.5, at);
    case YKI_PARAMETER_CHANNELS:
        return set_channels(v, at);
    case YKI_PARAMETER_INTERPOLATION:
        return set_word(v, interpolations, at);
    case YKI_PARAMETER_PADDING_MODE:
        return set_word(v, padding_modes, at);
    case YKI_PARAMETER_VALUE:
        return set_erased(v, &step->random_erasing);
    }
    return false;
}

static const char *expected_of(yki_parameter_type type)
{
    static const char *const texts[] = {
        [YKI_PARAMETER_INT] = "a whole number",
        [YKI_PARAMETER_NUMBER] = "a number",
        [YKI_PARAMETER_SIZE] = "a whole number or (height, width)",
        [YKI_PARAMETER_RESIZE] = "a whole number or (height, width)",
        [YKI_PARAMETER_RANGE] = "a range (least, largest)",
        [YKI_PARAMETER_FACTOR] = "a number of 0 or more, or a range (least, largest)",
        [YKI_PARAMETER_HUE] = "a number of 0 or more, or a range (least, largest)",
        [YKI_PARAMETER_CHANNELS] = "a number or one for each of 3 channels, (r, g, b)",
        [YKI_PARAMETER_INTERPOLATION] = "nearest, bilinear or bicubic",
        [YKI_PARAMETER_PADDING_MODE] = "constant or reflect",
        [YKI_PARAMETER_VALUE] = "a number or \"random\"",
    };
    return texts[type];
}

/* Normalize(imagenet): a mean and a deviation by the name of the data that they are of. */
static yk_status set_normalization(yk_transform_step *step, const char *name)
{
    char names[256] = "";
    for (int i = 0; i < yki_normalization_count; i++) {
        size_t used = strlen(names);
        if (strcasecmp(name, yki_normalizations[i].name) == 0) {
            step->normalize = yki_normalizations[i].numbers;
            return YK_OK;
        }
        snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "",
                 yki_normalizations[i].name);
    }
    return yki_error(YK_ERROR_INVALID_ARGUMENT,
                     "transforms: Normalize knows no data \"%s\"; it knows %s, and takes numbers, "
                     "as in Normalize(0.5,0.25)",
                     name, names);
}

/* The parameter that is called `name`, or the one at this position where there is no name. */
static const yki_parameter *find_parameter(const yki_transform_type *type, const char *name,
                                           int position)
{
    for (int i = 0; i < YKI_PARAMETERS_MAX && type->parameters[i].name; i++)
        if (name[0] ? strcasecmp(type->parameters[i].name, name) == 0 : i == position)
            return &type->parameters[i];
    return NULL;
}

static yk_status no_parameter(const yki_transform_type *type, const char *name)
{
    char names[256] = "none";
    for (int i = 0, used = 0; i < YKI_PARAMETERS_MAX && type->parameters[i].name; i++)
        used += snprintf(names + used, sizeof names - (size_t)used, "%s%s", i ? ", " : "",
                         type->parameters[i].name);
    if (name[0])
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "transforms: %s has no parameter \"%s\"; there are %s", type->name, name,
                         names);
    return yki_error(YK_ERROR_INVALID_ARGUMENT, "transforms: %s takes fewer parameters; it has %s",
                     type->name, names);
}

/* One parameter, "value" or "name=value". */
static yk_status read_parameter(reader *r, const yki_transform_type *type, int position,
                                yk_transform_step *step)
{
    reader before = *r;
    char name[WORD_SIZE];
    read_word(r, name);
    if (!name[0] || !accept(r, '=')) {
        *r = before;
        name[0] = '\0';
    }
    value v;
    YK_TRY(read_value(r, &v));
    if (step->kind == YK_TRANSFORM_NORMALIZE && position == 0 && !name[0] && v.word[0])
        return set_normalization(step, v.word);
    const yki_parameter *parameter = find_parameter(type, name, position);
    if (!parameter)
        return no_parameter(type, name);
    if (!set_parameter(step, parameter, &v))
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "transforms: %s: %s is not %s (character %d)",
                         type->name, parameter->name, expected_of(parameter->type),
                         (int)(before.at - before.text) + 1);
    return YK_OK;
}

static yk_status no_transform(const reader *r, const char *name)
{
    char names[512] = "";
    if (!name[0])
        return wrong(r, "the name of a transform");
    for (int i = 0; i < KINDS; i++) {
        size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "",
                 yki_transform_type_of((yk_transform_kind)i)->name);
    }
    return yki_error(YK_ERROR_INVALID_ARGUMENT, "transforms: there is no \"%s\"; there are %s",
                     name, names);
}

static yk_status read_step(reader *r, yk_transform_step *step)
{
    char name[WORD_SIZE];
    const yki_transform_type *type = NULL;
    read_word(r, name);
    for (int i = 0; i < KINDS && !type; i++)
        if (strcasecmp(yki_transform_type_of((yk_transform_kind)i)->name, name) == 0)
            type = yki_transform_type_of((yk_transform_kind)i);
    if (!type)
        return no_transform(r, name);
    *step = type->defaults;
    int given = 0;
    if (accept(r, '(') && !accept(r, ')')) {
        do
            YK_TRY(read_parameter(r, type, given++, step));
        while (accept(r, ','));
        if (!accept(r, ')'))
            return wrong(r, "\",\" or \")\"");
    }
    if (type->needs_first && !given)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "transforms: %s needs its %s, as in %s(%s)",
                         name, type->parameters[0].name, type->name,
                         step->kind == YK_TRANSFORM_NORMALIZE ? "imagenet" : "224");
    return YK_OK;
}

static yk_status read_steps(const char *text, yk_transform_step **steps, int *count)
{
    reader r = {text, text};
    int room = 1;
    for (const char *c = text; *c; c++)
        room += *c == ',';
    *count = 0;
    *steps = yki_calloc((size_t)room, sizeof **steps);
    if (!*steps)
        return yki_error_memory((size_t)room * sizeof **steps, "transforms");
    skip_space(&r);
    if (!*r.at)
        return YK_OK;
    yk_status status;
    do
        status = read_step(&r, &(*steps)[*count]);
    while (status == YK_OK && ++*count && accept(&r, ','));
    if (status == YK_OK && *r.at)
        status = wrong(&r, "\",\"");
    if (status != YK_OK) {
        free(*steps);
        *steps = NULL;
    }
    return status;
}

yk_status yki_transforms_read(const char *text, yk_transform_step **steps, int *count)
{
    void *before = yki_c_locale_begin();
    yk_status status = read_steps(text, steps, count);
    yki_c_locale_end(before);
    return status;
}

/* ---- writing -------------------------------------------------------------------------------- */

/* The shortest that reads back to the same. */
static int write_number(char *text, size_t size, double number)
{
    int length = 0;
    for (int digits = 6; digits <= 17; digits++) {
        length = snprintf(text, size, "%.*g", digits, number);
        if (strtod(text, NULL) == number)
            break;
    }
    return length;
}

static void write_list(char *text, size_t size, const double *numbers, int count)
{
    size_t used = (size_t)snprintf(text, size, "(");
    for (int i = 0; i < count; i++) {
        used += (size_t)write_number(text + used, size - used, numbers[i]);
        used += (size_t)snprintf(text + used, size - used, i + 1 < count ? "," : ")");
    }
}

static void write_channels(char *text, size_t size, const double *numbers)
{
    if (numbers[0] == numbers[1] && numbers[0] == numbers[2])
        write_number(text, size, numbers[0]);
    else
        write_list(text, size, numbers, 3);
}

static void write_size(char *text, size_t size, const int *pair, bool one)
{
    if (one)
        snprintf(text, size, "%d", pair[0]);
    else
        snprintf(text, size, "(%d,%d)", pair[0], pair[1]);
}

static void write_value(const yk_transform_step *step, const yki_parameter *parameter, char *text,
                        size_t size)
{
    const void *at = (const char *)step + parameter->offset;
    const int *ints = at;
    switch (parameter->type) {
    case YKI_PARAMETER_INT:
        snprintf(text, size, "%d", *ints);
        break;
    case YKI_PARAMETER_SIZE:
        write_size(text, size, ints, ints[0] == ints[1]);
        break;
    case YKI_PARAMETER_RESIZE:
        write_size(text, size, ints, step->resize.short_side);
        break;
    case YKI_PARAMETER_CHANNELS:
        write_channels(text, size, at);
        break;
    case YKI_PARAMETER_INTERPOLATION:
        snprintf(text, size, "%s", interpolations[*ints]);
        break;
    case YKI_PARAMETER_PADDING_MODE:
        snprintf(text, size, "%s", padding_modes[*ints]);
        break;
    case YKI_PARAMETER_VALUE:
        if (step->random_erasing.random) {
            snprintf(text, size, "random");
            break;
        } /* fall through */
    case YKI_PARAMETER_NUMBER:
        write_number(text, size, *(const double *)at);
        break;
    case YKI_PARAMETER_RANGE:
    case YKI_PARAMETER_FACTOR:
    case YKI_PARAMETER_HUE:
        write_list(text, size, at, 2);
        break;
    }
}

static bool same_numbers(const yk_transform_normalize *a, const yk_transform_normalize *b)
{
    for (int c = 0; c < 3; c++)
        if (a->mean[c] != b->mean[c] || a->std[c] != b->std[c])
            return false;
    return true;
}

static const char *normalization_name(const yk_transform_step *step)
{
    for (int i = 0; step->kind == YK_TRANSFORM_NORMALIZE && i < yki_normalization_count; i++)
        if (same_numbers(&step->normalize, &yki_normalizations[i].numbers))
            return yki_normalizations[i].name;
    return NULL;
}

static void write_step(const yk_transform_step *step, char *text, size_t size)
{
    const yki_transform_type *type = yki_transform_type_of(step->kind);
    const char *name = normalization_name(step);
    if (name) {
        snprintf(text, size, "%s(%s)", type->name, name);
        return;
    }
    size_t used = (size_t)snprintf(text, size, "%s", type->name);
    bool any = false;
    for (int i = 0; i < YKI_PARAMETERS_MAX && type->parameters[i].name; i++) {
        char ours[128], usual[128];
        write_value(step, &type->parameters[i], ours, sizeof ours);
        write_value(&type->defaults, &type->parameters[i], usual, sizeof usual);
        bool needed = i == 0 && type->needs_first;
        if (!needed && strcmp(ours, usual) == 0)
            continue;
        used += (size_t)snprintf(text + used, size - used, "%s%s%s%s", any ? "," : "(",
                                 i ? type->parameters[i].name : "", i ? "=" : "", ours);
        any = true;
    }
    if (any)
        snprintf(text + used, size - used, ")");
}

void yki_transform_write(const yk_transform_step *step, char *text, size_t size)
{
    void *before = yki_c_locale_begin();
    write_step(step, text, size);
    yki_c_locale_end(before);
}

char *yki_transforms_write(const yk_transform_step *steps, int count)
{
    size_t size = (size_t)count * STEP_TEXT + 1, used = 0;
    char *text = yki_calloc(size, 1);
    for (int i = 0; text && i < count; i++) {
        char step[STEP_TEXT];
        yki_transform_write(&steps[i], step, sizeof step);
        used += (size_t)snprintf(text + used, size - used, "%s%s", i ? "," : "", step);
    }
    return text;
}

/*
 * What a file holds beside its tensors, as texts. A pickle's values may share parts, so that a walk
 * over a small file could take forever: its depth, its lines and the values it looks at are
 * bounded.
 */
#include "checkpoint/tensor_file/tensor_file.h"

#include <stdio.h>
#include <string.h>

#include "base/c_locale.h"
#include "checkpoint/tensor_file/safetensors.h"

enum { MAX_DEPTH = 6, MAX_LINES = 1000, MAX_VALUES = 100 * MAX_LINES, SHORT_LIST = 8, TEXT = 256 };

typedef struct walk {
    const yki_pickle_value *skipped; /* the state_dict */
    yk_tensor_file_visit visit;
    void *context;
    int lines, values; /* said and looked at so far */
} walk;

static void say_item(walk *at, const char *name, const char *value)
{
    if (at->lines++ < MAX_LINES)
        at->visit(at->context, name, value);
}

static bool goes_on(const walk *at)
{
    return at->lines < MAX_LINES && at->values < MAX_VALUES;
}

static bool is_sequence(const yki_pickle_value *value)
{
    return yki_pickle_is(value, YKI_PICKLE_LIST) || yki_pickle_is(value, YKI_PICKLE_TUPLE);
}

static void real_text(char text[TEXT], double value)
{
    void *before = yki_c_locale_begin();
    snprintf(text, TEXT, "%.10g", value);
    yki_c_locale_end(before);
}

/* A number, a text, a bool, None: false for anything that holds more. */
static bool scalar_text(char text[TEXT], const yki_pickle_value *value)
{
    switch ((yki_pickle_type)value->type) {
    case YKI_PICKLE_NONE:
        snprintf(text, TEXT, "None");
        return true;
    case YKI_PICKLE_BOOL:
        snprintf(text, TEXT, "%s", value->integer ? "True" : "False");
        return true;
    case YKI_PICKLE_INT:
        snprintf(text, TEXT, "%lld", (long long)value->integer);
        return true;
    case YKI_PICKLE_FLOAT:
        real_text(text, value->real);
        return true;
    case YKI_PICKLE_STRING:
    case YKI_PICKLE_BYTES:
        snprintf(text, TEXT, "%.*s", (int)(value->count < TEXT ? value->count : TEXT - 1),
                 value->text);
        return true;
    default:
        return false;
    }
}

/* "[0.9, 0.999]", of a few scalars; false for others. */
static bool list_text(char text[TEXT], const yki_pickle_value *list)
{
    char item[TEXT];
    size_t at = (size_t)snprintf(text, TEXT, "[");
    if (!is_sequence(list) || list->count > SHORT_LIST)
        return false;
    for (uint32_t i = 0; i < list->count; i++) {
        if (!scalar_text(item, list->items[i]) || at + strlen(item) + 4 > TEXT)
            return false;
        at += (size_t)snprintf(text + at, TEXT - at, "%s%s", i ? ", " : "", item);
    }
    snprintf(text + at, TEXT - at, "]");
    return true;
}

static bool has_text_keys(const yki_pickle_value *dict)
{
    for (size_t i = 0; i < yki_pickle_pairs(dict); i++)
        if (!yki_pickle_is(yki_pickle_key(dict, i), YKI_PICKLE_STRING))
            return false;
    return true;
}

/* "a call of argparse.Namespace", which nobody makes. */
static void name_object(char text[TEXT], const yki_pickle_value *value)
{
    const yki_pickle_value *callable = yki_pickle_callable(value);
    bool named = callable && callable->type == YKI_PICKLE_GLOBAL && callable->count < 100;
    snprintf(text, TEXT, "a %s%s%.*s", yki_pickle_type_name(value->type), callable ? " of " : "",
             named ? (int)callable->count : 0, named ? callable->text : "");
    char *newline = strchr(text, '\n');
    if (newline)
        *newline = '.';
}

static void walk_value(walk *at, const char *name, const yki_pickle_value *value, int depth);

static void walk_dict(walk *at, const char *name, const yki_pickle_value *dict, int depth)
{
    for (size_t i = 0; i < yki_pickle_pairs(dict) && goes_on(at); i++) {
        char below[TEXT];
        const yki_pickle_value *key = yki_pickle_key(dict, i);
        snprintf(below, sizeof below, "%s%s%.*s", name, *name ? "." : "",
                 (int)(key->count < 80 ? key->count : 80), key->text);
        walk_value(at, below, yki_pickle_pair_value(dict, i), depth + 1);
    }
}

static void walk_list(walk *at, const char *name, const yki_pickle_value *list, int depth)
{
    for (uint32_t i = 0; i < list->count && goes_on(at); i++) {
        char below[TEXT];
        snprintf(below, sizeof below, "%.200s[%u]", name, i);
        walk_value(at, below, list->items[i], depth + 1);
    }
}

static void walk_value(walk *at, const char *name, const yki_pickle_value *value, int depth)
{
    char text[TEXT];
    size_t pairs = yki_pickle_pairs(value);
    at->values++;
    if (value == at->skipped)
        return;
    if (scalar_text(text, value) || list_text(text, value)) {
        say_item(at, name, text);
    } else if (pairs && depth < MAX_DEPTH && has_text_keys(value)) {
        walk_dict(at, name, value, depth);
    } else if (is_sequence(value) && depth < MAX_DEPTH && yki_pickle_pairs(value->items[0])) {
        walk_list(at, name, value, depth);
    } else {
        const char *kind = yki_pth_unsupported_kind(value);
        if (kind || yki_pth_is_tensor(value))
            snprintf(text, sizeof text, "a tensor%s%s", kind ? " of kind " : "", kind ? kind : "");
        else if (pairs || yki_pickle_is(value, YKI_PICKLE_DICT))
            snprintf(text, sizeof text, "%zu entries", pairs);
        else if (is_sequence(value))
            snprintf(text, sizeof text, "%u items", value->count);
        else
            name_object(text, value);
        say_item(at, name, text);
    }
}

void yk_tensor_file_items(const yk_tensor_file *file, yk_tensor_file_visit visit, void *context)
{
    if (!file || !visit)
        return;
    const yki_pth *pth = yki_tensor_file_pth(file);
    const yki_pickle_value *dict = yki_tensor_file_dict(file);
    if (pth) {
        walk at = {.skipped = dict, .visit = visit, .context = context};
        walk_value(&at, "", yki_pth_root(pth), 0);
        return;
    }
    yki_safetensors_metadata(yki_tensor_file_safetensors(file), MAX_LINES, visit, context);
}

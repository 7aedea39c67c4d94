/* Looking at the values that pickle.c built. Every question takes NULL and wrong types. */
#include "io/pickle_machine.h"

#include <string.h>

const yki_pickle_value *yki_pickle_root(const yki_pickle *pickle)
{
    return pickle->root;
}

size_t yki_pickle_peak(const yki_pickle *pickle)
{
    return pickle->peak;
}

const char *yki_pickle_type_name(yki_pickle_type type)
{
    static const char *const names[YKI_PICKLE_TYPES] = {
        [YKI_PICKLE_NONE] = "None",
        [YKI_PICKLE_BOOL] = "bool",
        [YKI_PICKLE_INT] = "int",
        [YKI_PICKLE_FLOAT] = "float",
        [YKI_PICKLE_STRING] = "string",
        [YKI_PICKLE_BYTES] = "byte string",
        [YKI_PICKLE_LIST] = "list",
        [YKI_PICKLE_TUPLE] = "tuple",
        [YKI_PICKLE_DICT] = "dict",
        [YKI_PICKLE_SET] = "set",
        [YKI_PICKLE_GLOBAL] = "global",
        [YKI_PICKLE_CALL] = "call",
        [YKI_PICKLE_PERSISTENT] = "persistent id",
    };
    return (unsigned)type < YKI_PICKLE_TYPES ? names[type] : "unknown";
}

bool yki_pickle_is(const yki_pickle_value *value, yki_pickle_type type)
{
    return value && value->type == type;
}

bool yki_pickle_is_text(const yki_pickle_value *value, const char *text)
{
    size_t length = strlen(text);
    return (yki_pickle_is(value, YKI_PICKLE_STRING) || yki_pickle_is(value, YKI_PICKLE_BYTES)) &&
           value->count == length && memcmp(value->text, text, length) == 0;
}

bool yki_pickle_is_global(const yki_pickle_value *value, const char *module, const char *name)
{
    if (!yki_pickle_is(value, YKI_PICKLE_GLOBAL))
        return false;
    size_t module_length = strlen(module), name_length = strlen(name);
    return value->count == module_length + 1 + name_length &&
           memcmp(value->text, module, module_length) == 0 && value->text[module_length] == '\n' &&
           memcmp(value->text + module_length + 1, name, name_length) == 0;
}

bool yki_pickle_is_call(const yki_pickle_value *value, const char *module, const char *name)
{
    return yki_pickle_is_global(yki_pickle_callable(value), module, name);
}

const yki_pickle_value *yki_pickle_callable(const yki_pickle_value *call)
{
    return yki_pickle_is(call, YKI_PICKLE_CALL) ? call->items[0] : NULL;
}

const yki_pickle_value *yki_pickle_arguments(const yki_pickle_value *call)
{
    return yki_pickle_is(call, YKI_PICKLE_CALL) ? call->items[1] : NULL;
}

const yki_pickle_value *yki_pickle_state(const yki_pickle_value *call)
{
    return yki_pickle_is(call, YKI_PICKLE_CALL) ? call->items[2] : NULL;
}

const yki_pickle_value *yki_pickle_item(const yki_pickle_value *value, size_t index)
{
    bool sequence = yki_pickle_is(value, YKI_PICKLE_LIST) || yki_pickle_is(value, YKI_PICKLE_TUPLE);
    return sequence && index < value->count ? value->items[index] : NULL;
}

/* Where the pairs begin, or NULL for a value that holds none. */
static yki_pickle_value **pairs_of(const yki_pickle_value *value, size_t *count)
{
    bool call = yki_pickle_is(value, YKI_PICKLE_CALL);
    size_t head = call ? YKI_PICKLE_CALL_HEAD : 0;
    *count = call || yki_pickle_is(value, YKI_PICKLE_DICT) ? (value->count - head) / 2 : 0;
    return *count ? value->items + head : NULL;
}

size_t yki_pickle_pairs(const yki_pickle_value *value)
{
    size_t count;
    pairs_of(value, &count);
    return count;
}

const yki_pickle_value *yki_pickle_key(const yki_pickle_value *value, size_t index)
{
    size_t count;
    yki_pickle_value **pairs = pairs_of(value, &count);
    return index < count ? pairs[2 * index] : NULL;
}

const yki_pickle_value *yki_pickle_pair_value(const yki_pickle_value *value, size_t index)
{
    size_t count;
    yki_pickle_value **pairs = pairs_of(value, &count);
    return index < count ? pairs[2 * index + 1] : NULL;
}

const yki_pickle_value *yki_pickle_get(const yki_pickle_value *value, const char *key)
{
    size_t count;
    yki_pickle_value **pairs = pairs_of(value, &count);
    for (size_t i = count; i-- > 0;)
        if (yki_pickle_is_text(pairs[2 * i], key))
            return pairs[2 * i + 1];
    return NULL;
}

yk_status yki_pickle_get_count(const yki_pickle *pickle, const yki_pickle_value *dict,
                               const char *where, const char *key, int64_t *count)
{
    const yki_pickle_value *value = yki_pickle_get(dict, key);
    if (!yki_pickle_is(value, YKI_PICKLE_INT) || value->integer < 0)
        return yki_pickle_unexpected(pickle, value, "the count \"%s\" in \"%s\"", key, where);
    *count = value->integer;
    return YK_OK;
}

yk_status yki_pickle_get_number(const yki_pickle *pickle, const yki_pickle_value *dict,
                                const char *where, const char *key, double *real)
{
    const yki_pickle_value *value = yki_pickle_get(dict, key);
    if (yki_pickle_is(value, YKI_PICKLE_FLOAT))
        *real = value->real;
    else if (yki_pickle_is(value, YKI_PICKLE_INT))
        *real = (double)value->integer;
    else
        return yki_pickle_unexpected(pickle, value, "the number \"%s\" in \"%s\"", key, where);
    return YK_OK;
}

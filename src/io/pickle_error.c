/* The lines that say what is wrong with a pickle, and where. */
#define YKI_PICKLE_ERROR_C /* the definitions themselves */
#include "io/pickle_machine.h"

#include <stdarg.h>
#include <stdio.h>

yk_status yki_pickle_refuse(const yki_pickle *pickle, const char *format, ...)
{
    char what[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    return yki_error(YK_ERROR_FORMAT, "%s: offset %zu: %s", pickle->name, pickle->opcode, what);
}

const char *yki_pickle_printable(char *out, size_t size, const char *text, size_t length)
{
    size_t n = length < size - 1 ? length : size - 1;
    for (size_t i = 0; i < n; i++)
        out[i] = text[i] == '\n' ? '.' : text[i] > ' ' && text[i] < 127 ? text[i] : '?';
    out[n] = '\0';
    return out;
}

yk_status yki_pickle_unexpected(const yki_pickle *pickle, const yki_pickle_value *value,
                                const char *format, ...)
{
    char what[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    if (!value)
        return yki_error(YK_ERROR_FORMAT, "%s: expected %s", pickle->name, what);
    char callee[96] = "";
    const yki_pickle_value *callable = yki_pickle_callable(value);
    if (callable)
        yki_pickle_printable(callee, sizeof callee, callable->text, callable->count);
    return yki_error(YK_ERROR_FORMAT, "%s: offset %u: expected %s, found a %s%s%s", pickle->name,
                     value->offset, what, yki_pickle_type_name(value->type), callable ? " of " : "",
                     callee);
}

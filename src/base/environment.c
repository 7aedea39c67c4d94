/* strtol and strtod with all their error cases looked at, once. */
#include "base/environment.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/c_locale.h"

bool yki_parse_int(const char *text, long minimum, long maximum, long *value)
{
    char *end;
    errno = 0;
    long parsed = strtol(text, &end, 10);
    if (errno || end == text || *end || parsed < minimum || parsed > maximum)
        return false;
    *value = parsed;
    return true;
}

static bool parse_double(const char *text, double minimum, double maximum, double *value)
{
    char *end;
    errno = 0;
    void *before = yki_c_locale_begin();
    double parsed = strtod(text, &end);
    yki_c_locale_end(before);
    if (errno || end == text || *end || isnan(parsed) || parsed < minimum || parsed > maximum)
        return false;
    *value = parsed;
    return true;
}

static const char *lookup(const char *name, bool *found)
{
    const char *text = getenv(name);
    *found = text && *text;
    return *found ? text : NULL;
}

yk_status yki_env_int(const char *name, long minimum, long maximum, long *value, bool *found)
{
    const char *text = lookup(name, found);
    if (text && !yki_parse_int(text, minimum, maximum, value))
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "%s=%s: expected a whole number from %ld to %ld", name, text, minimum,
                         maximum);
    return YK_OK;
}

yk_status yki_env_double(const char *name, double minimum, double maximum, double *value,
                         bool *found)
{
    const char *text = lookup(name, found);
    if (text && !parse_double(text, minimum, maximum, value))
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "%s=%s: expected a number from %g to %g", name,
                         text, minimum, maximum);
    return YK_OK;
}

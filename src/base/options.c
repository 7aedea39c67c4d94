#include "base/options.h"

#include <string.h>

yk_status yki_options_read(void *out, size_t size, const void *given, const char *type,
                           const char *init)
{
    if (!given)
        return YK_OK;
    size_t given_size;
    memcpy(&given_size, given, sizeof given_size);
    if (given_size < sizeof given_size)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "%s: its size is %zu; initialise the struct with %s", type, given_size,
                         init);
    if (given_size > size)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "%s: its size is %zu, but this version of the library knows %zu bytes; "
                         "initialise the struct with %s, or update the library",
                         type, given_size, size, init);
    memcpy(out, given, given_size);
    memcpy(out, &size, sizeof size);
    return YK_OK;
}

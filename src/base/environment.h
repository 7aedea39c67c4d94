/* Environment variables, parsed strictly: a malformed one is an error that names it. */
#ifndef YKI_ENVIRONMENT_H
#define YKI_ENVIRONMENT_H

#include <stdbool.h>

#include "base/error.h"

#pragma GCC visibility push(default) /* shared with modules, see device/module.h */

/* *found tells whether NAME is set and not empty; *value is left alone when it is not. */
yk_status yki_env_int(const char *name, long minimum, long maximum, long *value, bool *found);
yk_status yki_env_double(const char *name, double minimum, double maximum, double *value,
                         bool *found);
/* The whole text as a whole number in [minimum, maximum], else false. */
bool yki_parse_int(const char *text, long minimum, long maximum, long *value);

#pragma GCC visibility pop

#endif

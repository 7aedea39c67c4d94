/* See prefix.h. */
#define _GNU_SOURCE
#include "launch/prefix.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The length of the macro, a dollar sign and its name, that text begins with; 0: there is none. */
static size_t read_macro(const char *text, const char **name, size_t *length)
{
    size_t brace = text[1] == '{';
    *name = text + 1 + brace;
    *length = 0;
    while (isalnum((unsigned char)(*name)[*length]) || (*name)[*length] == '_')
        ++*length;
    if (*length == 0 || (brace && (*name)[*length] != '}'))
        return 0;
    return 1 + brace + *length + brace;
}

/* Writes the value of a macro. Returns the value's length, or -1 if the macro is unknown. */
static int write_value(char *text, size_t size, const char *name, size_t length,
                       const cli_prefix_values *values)
{
    char host[256] = "";
    if (length == 4 && strncmp(name, "rank", length) == 0)
        return snprintf(text, size, "%d", values->rank);
    if (length == 10 && strncmp(name, "local_rank", length) == 0)
        return snprintf(text, size, "%d", values->local_rank);
    if (length == 9 && strncmp(name, "role_name", length) == 0)
        return snprintf(text, size, "%s", values->role);
    if (length != 8 || strncmp(name, "hostname", length) != 0)
        return -1;
    gethostname(host, sizeof host - 1);
    return snprintf(text, size, "%s", host);
}

void cli_prefix_expand(char *prefix, size_t size, const char *template,
                       const cli_prefix_values *values)
{
    size_t used = 0;
    for (const char *at = template; *at && used + 1 < size;) {
        const char *name;
        size_t length, macro = *at == '$' ? read_macro(at, &name, &length) : 0;
        int written = macro ? write_value(prefix + used, size - used, name, length, values) : -1;
        if (written >= 0) {
            used += (size_t)written;
            at += macro;
        } else {
            at += at[0] == '$' && at[1] == '$';
            prefix[used++] = *at++;
        }
    }
    prefix[used < size ? used : size - 1] = '\0';
}

/* See size.h. */
#include "common/size.h"

#include <stddef.h>
#include <stdio.h>

const char *cli_size_text(char text[CLI_SIZE_TEXT], double bytes)
{
    static const char *const units[] = {"bytes", "kB", "MB", "GB", "TB"};
    size_t unit = 0;
    for (; bytes >= 999.5 && unit < 4; unit++)
        bytes /= 1000;
    snprintf(text, CLI_SIZE_TEXT, "%.*f %s", unit ? 1 : 0, bytes, units[unit]);
    return text;
}

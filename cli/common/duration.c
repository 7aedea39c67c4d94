/* See duration.h. */
#include "common/duration.h"

#include <math.h>
#include <stdio.h>

const char *cli_duration_text(char text[CLI_DURATION_TEXT], double seconds)
{
    long s = seconds > 0 ? (long)(fmin(seconds, 1e15) + 0.5) : 0;
    if (isnan(seconds))
        snprintf(text, CLI_DURATION_TEXT, "-");
    else if (s < 60)
        snprintf(text, CLI_DURATION_TEXT, "%ld s", s);
    else if (s < 3600)
        snprintf(text, CLI_DURATION_TEXT, "%ld:%02ld min", s / 60, s % 60);
    else
        snprintf(text, CLI_DURATION_TEXT, "%ld:%02ld h", s / 3600, s / 60 % 60);
    return text;
}

/* What the commands write as JSON, beyond printf. */
#ifndef YOKE_CLI_JSON_H
#define YOKE_CLI_JSON_H

#include <stdio.h>

/* A text in UTF-8 as a string, with its quotes. */
void cli_json_string(FILE *file, const char *text);

#endif

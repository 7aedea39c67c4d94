/* What the commands write as JSON, beyond printf. */
#ifndef YOKE_CLI_JSON_H
#define YOKE_CLI_JSON_H

#include <stdio.h>

/* A text in UTF-8 as a string, with its quotes. Other bytes, which names of files may have, become
 * \udc80 to \udcff, from which Python's os.fsencode makes them again. */
void cli_json_string(FILE *file, const char *text);

#endif

/* See json.h. */
#include "common/json.h"

#include "common/utf8.h"

void cli_json_string(FILE *file, const char *text)
{
    const unsigned char *at = (const unsigned char *)text;
    fputc('"', file);
    while (*at) {
        int length = cli_utf8_length((const char *)at);
        if (length == 0)
            fprintf(file, "\\udc%02x", *at);
        else if (*at == '"' || *at == '\\')
            fprintf(file, "\\%c", *at);
        else if (*at < ' ')
            fprintf(file, "\\u%04x", *at);
        else
            fwrite(at, 1, (size_t)length, file);
        at += length ? length : 1;
    }
    fputc('"', file);
}

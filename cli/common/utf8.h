/* Characters in UTF-8. */
#ifndef YOKE_CLI_UTF8_H
#define YOKE_CLI_UTF8_H

/* The bytes of the character that text begins with, or 0 where it begins with none. */
int cli_utf8_length(const char *text);

#endif

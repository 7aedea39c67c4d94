/* A small bitmap font for pictures: lower-case letters, digits, hyphen and underscore, each 5 dots
 * wide and 8 high. Capitals look like lower-case letters. A space is blank, and any other
 * character is drawn as a box. */
#ifndef YOKE_CLI_FONT_H
#define YOKE_CLI_FONT_H

#include <stdbool.h>

enum { CLI_FONT_WIDTH = 5, CLI_FONT_HEIGHT = 8, CLI_FONT_ADVANCE = 6 };

/* Whether the byte begins a character of a text in UTF-8; otherwise it continues one. */
bool cli_font_begins(char byte);
/* Whether the character that begins with this byte has a dot at column x and row y. */
bool cli_font_dot(char character, int x, int y);

#endif

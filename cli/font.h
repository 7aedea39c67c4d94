/* A small bitmap font for pictures: the lower-case letters, each 5 dots wide and 8 high. */
#ifndef YOKE_CLI_FONT_H
#define YOKE_CLI_FONT_H

#include <stdbool.h>

enum { CLI_FONT_WIDTH = 5, CLI_FONT_HEIGHT = 8, CLI_FONT_ADVANCE = 6 };

/* Whether the letter has a dot at column x and row y; other characters have none. */
bool cli_font_dot(char letter, int x, int y);

#endif

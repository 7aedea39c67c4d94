/* A font of the small letters, 5 dots wide, for labels in pictures. */
#ifndef YKI_FONT_H
#define YKI_FONT_H

#include <stdbool.h>

enum { YKI_FONT_WIDTH = 5, YKI_FONT_HEIGHT = 8, YKI_FONT_ADVANCE = 6 };

/* Whether the letter's dot at (x, y) is set; other characters are blank. */
bool yki_font_dot(char letter, int x, int y);

#endif

/* See terminal.h. */
#define _GNU_SOURCE
#include "common/terminal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { WIDEST = 10000, TEXT_LEAST = 40, TEXT_MOST = 80 };

/* A variable that holds a number of columns; 0 where it does not. */
static int columns_from(const char *variable)
{
    const char *text = getenv(variable);
    char *end;
    long columns = text ? strtol(text, &end, 10) : 0;
    return text && end != text && !*end && columns >= 2 && columns <= WIDEST ? (int)columns : 0;
}

bool cli_terminal_redraws(void)
{
    const char *term = getenv("TERM");
    if (columns_from("YOKE_TERMINAL"))
        return true;
    return isatty(STDERR_FILENO) && !(term && strcmp(term, "dumb") == 0);
}

int cli_terminal_columns(int fd)
{
    struct winsize size;
    int columns = columns_from("YOKE_TERMINAL");
    if (!columns && ioctl(fd, TIOCGWINSZ, &size) == 0)
        columns = size.ws_col;
    if (!columns)
        columns = columns_from("COLUMNS");
    return columns ? columns : TEXT_MOST;
}

/* Bytes of the control character that the text begins with (U+0080 to U+009F have two); 0: none. */
static size_t control_at(const char *text)
{
    const unsigned char *at = (const unsigned char *)text;
    if (at[0] == 0xc2 && at[1] >= 0x80 && at[1] < 0xa0)
        return 2;
    return at[0] < ' ' || at[0] == 127;
}

/* Reads one character or byte of a text, which may be printed. */
static char next_printable(const char **text)
{
    size_t control = control_at(*text);
    char c = control ? '?' : **text;
    *text += control ? control : 1;
    return c;
}

void cli_print_name(FILE *file, const char *name)
{
    while (*name)
        putc(next_printable(&name), file);
}

void cli_make_printable(char *text)
{
    const char *from = text;
    while (*from)
        *text++ = next_printable(&from);
    *text = '\0';
}

int cli_text_width(const char *text)
{
    int width = 0;
    for (const unsigned char *at = (const unsigned char *)text; *at; at++) {
        bool begins = (*at & 0xc0) != 0x80;     /* else it continues a character */
        bool wide = *at >= 0xe3 && *at <= 0xed; /* U+3000 to U+DFFF: kana, ideographs, hangul */
        width += begins ? 1 + wide : 0;
    }
    return width;
}

int cli_text_columns(int fd)
{
    if (!isatty(fd) && !columns_from("YOKE_TERMINAL"))
        return TEXT_MOST;
    int columns = cli_terminal_columns(fd);
    return columns < TEXT_LEAST ? TEXT_LEAST : columns > TEXT_MOST ? TEXT_MOST : columns;
}

/* ---- wrapping -------------------------------------------------------------------------------- */

/* Whether a reader pauses at the space before text[at]. */
static bool is_pause(const char *text, size_t at)
{
    return text[at] == '(' || (at >= 2 && strchr(",;:", text[at - 2]) != NULL);
}

/*
 * Where the first row of text[0 .. length) ends that may have `room` columns. A pause in its second
 * half is preferred to the last space.
 */
static size_t row_end(const char *text, size_t length, size_t room)
{
    if (length <= room)
        return length;
    size_t last = 0, pause = 0;
    for (size_t i = 1; i < length; i++) {
        if (text[i - 1] != ' ' || text[i] == ' ')
            continue;
        if (i - 1 > room) { /* the words up to here do not fit */
            if (!last)
                last = i;
            break;
        }
        last = i;
        if (is_pause(text, i))
            pause = i;
    }
    if (pause > room / 2)
        return pause;
    return last ? last : length;
}

static void print_line(FILE *file, const char *text, size_t length, size_t columns, size_t indent)
{
    size_t start = strspn(text, " "); /* never broken before its first word */
    for (size_t room = columns;; room = columns - indent) {
        size_t skip = room == columns && start < length ? start : 0;
        size_t end = skip + row_end(text + skip, length - skip, room > skip ? room - skip : 1);
        size_t shown = end;
        while (shown > 0 && text[shown - 1] == ' ')
            shown--;
        fprintf(file, "%.*s\n", (int)shown, text);
        text += end;
        length -= end;
        if (length == 0)
            return;
        fprintf(file, "%*s", (int)indent, "");
    }
}

void cli_print_wrapped(FILE *file, const char *text, int columns, int indent)
{
    while (*text) {
        size_t length = strcspn(text, "\n");
        print_line(file, text, length, (size_t)columns, (size_t)indent);
        text += length + (text[length] == '\n');
    }
}

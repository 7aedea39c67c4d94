/* See spelling.h. */
#include "common/spelling.h"

#include <stdbool.h>
#include <string.h>

enum { LENGTH_MAX = 48, PART_MIN = 4 };

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* In options `_` is read as `-`. */
static bool same_letter(char written, char meant)
{
    return written == meant || (written == '_' && meant == '-');
}

/*
 * The letters that must be inserted, left out, replaced or swapped with the next one to make b of
 * a. Row i holds the distances between a[0 .. i) and the beginnings of b; three rows are in use.
 */
static size_t distance_between(const char *a, size_t a_length, const char *b, size_t b_length)
{
    size_t rows[3][LENGTH_MAX + 1];
    for (size_t j = 0; j <= b_length; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= a_length; i++) {
        size_t *row = rows[i % 3], *last = rows[(i + 2) % 3], *before = rows[(i + 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= b_length; j++) {
            row[j] = least(least(row[j - 1], last[j]) + 1,
                           last[j - 1] + !same_letter(a[i - 1], b[j - 1]));
            if (i > 1 && j > 1 && same_letter(a[i - 1], b[j - 2]) &&
                same_letter(a[i - 2], b[j - 1]))
                row[j] = least(row[j], before[j - 2] + 1);
        }
    }
    return rows[a_length % 3][b_length];
}

/* Whether the shorter of both is the longer one up to a hyphen, as "batch" is of "batch-size". */
static bool is_part(const char *a, size_t a_length, const char *b, size_t b_length)
{
    size_t shorter = least(a_length, b_length), same = 0;
    while (same < shorter && same_letter(a[same], b[same]))
        same++;
    if (same < shorter || shorter < PART_MIN || a_length == b_length)
        return false;
    return same_letter(a_length > b_length ? a[same] : b[same], '-');
}

cli_spelling cli_spelling_begin(const char *text, size_t length)
{
    return (cli_spelling){.text = text, .length = length, .distance = least(length / 3, 2) + 1};
}

void cli_spelling_try(cli_spelling *spelling, const char *name)
{
    size_t length = strlen(name);
    if (length > LENGTH_MAX || spelling->length > LENGTH_MAX)
        return;
    size_t distance = is_part(spelling->text, spelling->length, name, length)
                          ? 1
                          : distance_between(spelling->text, spelling->length, name, length);
    if (distance < spelling->distance) {
        spelling->distance = distance;
        spelling->best = name;
    }
}

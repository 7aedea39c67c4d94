/* See utf8.h. */
#include "base/utf8.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"

/* Bytes of the sequence that begins here, at most `left`; 0 where it is not a valid one. The second
 * byte's range is what rules out overlong forms, surrogates and numbers past U+10FFFF. */
static size_t sequence_length(const unsigned char *at, size_t left)
{
    unsigned char first = at[0], low = 0x80, high = 0xbf;
    if (first < 0x80)
        return 1;
    size_t length = first >= 0xc2 && first <= 0xdf   ? 2
                    : first >= 0xe0 && first <= 0xef ? 3
                    : first >= 0xf0 && first <= 0xf4 ? 4
                                                     : 0;
    if (length == 0 || length > left)
        return 0;
    if (first == 0xe0)
        low = 0xa0;
    else if (first == 0xed)
        high = 0x9f;
    else if (first == 0xf0)
        low = 0x90;
    else if (first == 0xf4)
        high = 0x8f;
    if (at[1] < low || at[1] > high)
        return 0;
    for (size_t i = 2; i < length; i++)
        if (at[i] < 0x80 || at[i] > 0xbf)
            return 0;
    return length;
}

bool yki_utf8_is_valid(const char *text, size_t length)
{
    const unsigned char *at = (const unsigned char *)text;
    for (size_t left = length; left > 0;) {
        size_t taken = sequence_length(at, left);
        if (taken == 0)
            return false;
        at += taken;
        left -= taken;
    }
    return true;
}

const char *yki_utf8_escape(char *out, size_t size, const char *text, size_t length)
{
    size_t at = 0;
    out[0] = '\0';
    for (size_t i = 0; i < length; i++) {
        unsigned char byte = (unsigned char)text[i];
        bool plain = byte >= ' ' && byte < 127;
        if (at + (plain ? 1 : 4) >= size)
            break;
        at += (size_t)snprintf(out + at, size - at, plain ? "%c" : "\\x%02x", byte);
    }
    return out;
}

char *yki_utf8_shown(const char *text)
{
    size_t left = strlen(text);
    char *shown = yki_calloc(4 * left + 1, 1), *to = shown;
    while (shown && left > 0) {
        size_t taken = sequence_length((const unsigned char *)text, left);
        size_t passed = taken ? taken : 1;
        if (taken == 0)
            to += snprintf(to, 5, "\\x%02x", (unsigned char)*text);
        else
            memcpy(to, text, taken);
        to += taken;
        text += passed;
        left -= passed;
    }
    return shown;
}

size_t yki_utf8_from_bytes(char *out, const char *bytes, size_t length)
{
    size_t made = 0;
    for (size_t i = 0; i < length;) {
        const unsigned char *at = (const unsigned char *)bytes + i;
        size_t taken = sequence_length(at, length - i);
        char surrogate[] = {'\xed', (char)(0xb0 | *at >> 6), (char)(0x80 | (*at & 0x3f))};
        size_t size = taken ? taken : sizeof surrogate;
        if (out)
            memcpy(out + made, taken ? bytes + i : surrogate, size);
        made += size;
        i += taken ? taken : 1;
    }
    return made;
}

/* Whether a byte that was not UTF-8 is here: U+DC80 to U+DCFF. */
static bool is_byte(const unsigned char *at, size_t left)
{
    return left >= 3 && at[0] == 0xed && (at[1] == 0xb2 || at[1] == 0xb3) && at[2] >= 0x80 &&
           at[2] <= 0xbf;
}

size_t yki_utf8_to_bytes(char *out, const char *text, size_t length)
{
    size_t made = 0;
    for (size_t i = 0; i < length;) {
        const unsigned char *at = (const unsigned char *)text + i;
        bool byte = is_byte(at, length - i);
        if (out)
            out[made] = byte ? (char)((at[1] & 3) << 6 | (at[2] & 0x3f)) : text[i];
        made++;
        i += byte ? 3 : 1;
    }
    return made;
}

/* See json.h. */
#define _GNU_SOURCE
#include "io/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/utf8.h"

enum { ESCAPE = 6 /* bytes of "\udcff" */ };

bool yki_json_is_count(const cJSON *item, int64_t *count)
{
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= 0 && item->valuedouble <= 0x1p53) ||
        floor(item->valuedouble) != item->valuedouble)
        return false;
    *count = (int64_t)item->valuedouble;
    return true;
}

cJSON *yki_json_string(const char *bytes)
{
    size_t length = strlen(bytes);
    char *text = yki_calloc(3 * length + 1, 1);
    if (!text)
        return NULL;
    yki_utf8_from_bytes(text, bytes, length);
    cJSON *string = cJSON_CreateString(text);
    free(text);
    return string;
}

/* Writes what begins at *at, which is passed, and returns where the next one goes. */
typedef char *json_rewrite(char *to, const char **at);

/* The text with each part rewritten, at most to twice its size; to be freed. */
static char *rewrite_all(const char *text, json_rewrite *rewrite)
{
    char *made = yki_calloc(2 * strlen(text) + 1, 1), *to = made;
    while (made && *text)
        to = rewrite(to, &text);
    return made;
}

/* ---- writing -------------------------------------------------------------------------------- */

static char *escape_one(char *to, const char **at)
{
    char bytes[3];
    size_t left = strnlen(*at, sizeof bytes);
    if (left == sizeof bytes && yki_utf8_to_bytes(bytes, *at, left) == 1) {
        *at += sizeof bytes;
        return to + snprintf(to, ESCAPE + 1, "\\udc%02x", (unsigned char)bytes[0]);
    }
    *to = *(*at)++;
    return to + 1;
}

char *yki_json_print(const cJSON *item)
{
    char *printed = cJSON_PrintUnformatted(item);
    char *made = printed ? rewrite_all(printed, escape_one) : NULL;
    cJSON_free(printed);
    return made;
}

/* ---- reading -------------------------------------------------------------------------------- */

/* The unit of UTF-16 that the text begins with as an escape; 0 where it does not. */
static unsigned unit_at(const char *text)
{
    static const char digits[] = "0123456789abcdefABCDEF";
    unsigned unit = 0;
    if (text[0] != '\\' || text[1] != 'u')
        return 0;
    for (int i = 2; i < ESCAPE; i++) {
        const char *digit = text[i] ? strchr(digits, text[i]) : NULL;
        if (!digit)
            return 0;
        unsigned value = (unsigned)(digit - digits);
        unit = unit << 4 | (value < 16 ? value : value - 6);
    }
    return unit;
}

static char *unescape_one(char *to, const char **at)
{
    const char *text = *at;
    size_t taken = *text == '\\' && text[1] ? 2 : 1;
    unsigned unit = taken == 2 ? unit_at(text) : 0;
    char byte = (char)unit;
    if (unit >= 0xd800 && unit <= 0xdbff && unit_at(text + ESCAPE))
        taken = 2 * (size_t)ESCAPE; /* a pair */
    if (unit >= 0xdc80 && unit <= 0xdcff) {
        *at += ESCAPE;
        return to + yki_utf8_from_bytes(to, &byte, 1);
    }
    memcpy(to, text, taken);
    *at += taken;
    return to + taken;
}

cJSON *yki_json_parse(const char *text)
{
    char *made = rewrite_all(text, unescape_one);
    cJSON *root = made ? cJSON_Parse(made) : NULL;
    free(made);
    return root;
}

char *yki_json_bytes(cJSON *string)
{
    char *text = string->valuestring;
    text[yki_utf8_to_bytes(text, text, strlen(text))] = '\0';
    return text;
}

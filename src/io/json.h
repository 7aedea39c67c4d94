/*
 * What cJSON lacks: whole numbers, and texts that hold bytes which need not be UTF-8, such as names
 * of folders. Each byte that is not UTF-8 is a lone surrogate, as in "\udcff", which is what Python
 * writes for os.fsdecode's result and reads back. cJSON refuses lone surrogates; between the
 * functions below, its strings hold them as base/utf8.h makes them.
 */
#ifndef YKI_JSON_H
#define YKI_JSON_H

#include <stdbool.h>
#include <stdint.h>

#include <cjson/cJSON.h>

/* Whether the item, which may be NULL, is a whole number from 0 to 2^53: all numbers of cJSON are
 * doubles, which do not hold every larger one. */
bool yki_json_is_count(const cJSON *item, int64_t *count);

/* A string of these bytes; NULL when memory is out. */
cJSON *yki_json_string(const char *bytes);
/* The item as text without spaces, to be freed; NULL when memory is out. */
char *yki_json_print(const cJSON *item);

/* NULL for what is not JSON, and when memory is out. */
cJSON *yki_json_parse(const char *text);
/* The bytes of a string, which are its own from here on. */
char *yki_json_bytes(cJSON *string);

#endif

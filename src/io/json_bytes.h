/*
 * Texts in JSON that hold bytes which need not be UTF-8, such as names of folders: each byte that
 * is not UTF-8 is a lone surrogate, as in "\udcff", which is what Python writes for os.fsdecode's
 * result and reads back. cJSON refuses lone surrogates; between the functions below, its strings
 * hold them as base/utf8.h makes them.
 */
#ifndef YKI_JSON_BYTES_H
#define YKI_JSON_BYTES_H

#include <cjson/cJSON.h>

/* A string of these bytes; NULL when memory is out. */
cJSON *yki_json_string(const char *bytes);
/* The item as text without spaces, to be freed; NULL when memory is out. */
char *yki_json_print(const cJSON *item);

/* NULL for what is not JSON, and when memory is out. */
cJSON *yki_json_parse(const char *text);
/* The bytes of a string, which are its own from here on. */
char *yki_json_bytes(cJSON *string);

#endif

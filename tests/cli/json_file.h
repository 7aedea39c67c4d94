/* A JSON file that a command has written into the test's folder, and its numbers. */
#ifndef YK_TEST_JSON_FILE_H
#define YK_TEST_JSON_FILE_H

#include <cjson/cJSON.h>

#include "harness.h"

/* To be deleted with cJSON_Delete(). */
static inline cJSON *read_json(const char *name)
{
    static char text[256 * 1024];
    char path[256];
    snprintf(path, sizeof path, "%s/%s", yk_test_directory(), name);
    cJSON *json = cJSON_Parse(yk_test_read_file(text, sizeof text, path));
    if (!json)
        fail_msg("%s is not JSON: \"%.500s\"", name, text);
    return json;
}

static inline double number(const cJSON *object, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    if (!cJSON_IsNumber(item))
        fail_msg("no number %s", key);
    return item->valuedouble;
}

#endif

/* Bytes that are not UTF-8 in JSON, and whole numbers. */
#include "harness.h"

#include <stdlib.h>
#include <string.h>

#include "io/json.h"

YK_TEST(json_carries_any_bytes)
{
    /* the last three bytes are those of a surrogate, which is not UTF-8 */
    static const char odd[] = "a\"\\\n\xff\u20ac\xe2\x82z\xed\xb2\x80";
    cJSON *string = yki_json_string(odd);
    char *text = yki_json_print(string);
    assert_string_equal(text, "\"a\\\"\\\\\\n\\udcff\u20ac\\udce2\\udc82z\\udced\\udcb2\\udc80\"");
    cJSON *again = yki_json_parse(text);
    assert_non_null(again);
    assert_string_equal(yki_json_bytes(again), odd);
    cJSON_Delete(string);
    cJSON_Delete(again);
    free(text);
}

static void assert_parsed(const char *json, const char *bytes)
{
    cJSON *item = yki_json_parse(json);
    if (!bytes) {
        assert_null(item);
        return;
    }
    assert_non_null(item);
    assert_string_equal(yki_json_bytes(item), bytes);
    cJSON_Delete(item);
}

YK_TEST(escapes_of_json_that_are_no_bytes_stay_what_they_are)
{
    assert_parsed("\"\\ud83d\\ude00\\uDCFF\\u00e9\"", "\U0001f600\xff\u00e9");
    assert_parsed("\"\\ud83d\\udcff\"", "\U0001f4ff"); /* a pair */
    assert_parsed("\"\\\\udcff\\\\\"", "\\udcff\\");   /* an escaped backslash */
    assert_parsed("\"\\udc7f\"", NULL);                /* no byte's */
    assert_parsed("\"\\ud83d\"", NULL);
    assert_parsed("\"\\udc8", NULL);
    assert_parsed("\"\\", NULL);
    assert_parsed("", NULL);
}

static bool is_count(const char *json, int64_t *count)
{
    cJSON *item = cJSON_Parse(json);
    assert_non_null(item);
    bool found = yki_json_is_count(item, count);
    cJSON_Delete(item);
    return found;
}

YK_TEST(counts_of_json_are_whole_and_exact)
{
    static const char *const others[] = {"-1", "1.5", "9007199254740994", "1e300", "\"1\"", "null"};
    int64_t count = 7;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_false(is_count(others[i], &count));
    assert_false(yki_json_is_count(NULL, &count));
    assert_int_equal(count, 7);
    assert_true(is_count("0", &count));
    assert_int_equal(count, 0);
    assert_true(is_count("9007199254740992", &count));
    assert_true(count == (int64_t)1 << 53);
}

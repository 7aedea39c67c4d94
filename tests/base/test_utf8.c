/* Which bytes are UTF-8, and how those that are not are shown. */
#include "harness.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

static bool valid(const char *text)
{
    return yki_utf8_is_valid(text, strlen(text));
}

YK_TEST(utf8_takes_every_length_up_to_its_bounds)
{
    assert_true(valid(""));
    assert_true(valid("layer1.0.weight"));
    assert_true(valid("\x7f\xc2\x80\xdf\xbf"));
    assert_true(valid("\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf"));
    assert_true(valid("\xf0\x90\x80\x80\xf4\x8f\xbf\xbf"));
    assert_true(yki_utf8_is_valid("a\0b", 3));
}

YK_TEST(utf8_refuses_what_python_refuses)
{
    static const char *const wrong[] = {"\xff\xfe",
                                        "\x80",
                                        "\xc3",
                                        "\xc3(",
                                        "\xc0\x80",
                                        "\xc1\xbf",
                                        "\xe0\x9f\xbf",
                                        "\xed\xa0\x80",
                                        "\xe2\x82",
                                        "\xf0\x8f\xbf\xbf",
                                        "\xf4\x90\x80\x80",
                                        "\xf5\x80\x80\x80",
                                        "ok\xe2\x82\xac\xe2\x28\xa1"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_false(valid(wrong[i]));
}

YK_TEST(utf8_carries_any_bytes_as_python_s_fsdecode_does)
{
    char text[64], bytes[64];
    const char odd[] = "a\xff\u20ac\xe2\x82z\xed\xb2\x80";
    size_t length = strlen(odd), made = yki_utf8_from_bytes(text, odd, length);
    static const char expected[] = "a\xed\xb3\xbf\u20ac\xed\xb3\xa2\xed\xb2\x82z"
                                   "\xed\xb3\xad\xed\xb2\xb2\xed\xb2\x80";
    assert_int_equal(made, sizeof expected - 1);
    assert_memory_equal(text, expected, made);
    assert_int_equal(yki_utf8_from_bytes(NULL, odd, length), made);
    assert_int_equal(yki_utf8_to_bytes(bytes, text, made), length);
    assert_memory_equal(bytes, odd, length);
    assert_int_equal(yki_utf8_to_bytes(NULL, text, made), length);
}

YK_TEST(utf8_shows_bytes_that_are_none)
{
    static const char *const texts[][2] = {
        {"", ""}, {"a\n\u20ac", "a\n\u20ac"}, {"\xff\u20ac\xe2\x82", "\\xff\u20ac\\xe2\\x82"}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char *shown = yki_utf8_shown(texts[i][0]);
        assert_string_equal(shown, texts[i][1]);
        free(shown);
    }
}

YK_TEST(utf8_escapes_what_a_terminal_cannot_show)
{
    char text[16];
    assert_string_equal(yki_utf8_escape(text, sizeof text, "a\xff\n", 3), "a\\xff\\x0a");
    assert_string_equal(yki_utf8_escape(text, sizeof text, "abcdefghijklm\xff", 14),
                        "abcdefghijklm");
    assert_string_equal(yki_utf8_escape(text, 1, "abc", 3), "");
}

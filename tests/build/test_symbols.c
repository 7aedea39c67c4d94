/* libyoke.so shows the functions of the public headers, all of them, and besides only what its own
 * modules of devices use, under a version of its own. */
#include <stdlib.h>
#include <string.h>

#include "harness.h"

static char output[65536];

YK_TEST(symbols_are_public_ones_only)
{
    int code =
        yk_test_command(output, sizeof output,
                        "nm -D --defined-only '%s/libyoke.so' | awk '{ print $3 }'"
                        " | grep -vE '^(yk_[a-z0-9_]+|yki_[a-z0-9_]+@@YOKE_PRIVATE|YOKE_PRIVATE)$'",
                        getenv("YOKE_BUILD"));
    if (code != 1)
        fail_msg("libyoke.so shows: %s", output);
}

/* A declaration begins in the first column; its name is the word before the parenthesis. */
YK_TEST(symbols_cover_the_headers)
{
    int code = yk_test_command(
        output, sizeof output,
        "cd '%s/include/yoke' && nm -D --defined-only '%s/libyoke.so' | awk '{ print $3 }' > "
        "'%s/have'"
        " && grep -hE '^[a-z].*[ *]yk_[a-z0-9_]+\\(' ./*.h | grep -vE '^typedef'"
        " | sed -E 's/^[^(]*[ *](yk_[a-z0-9_]+)\\(.*/\\1/' | sort -u | grep -vxFf '%s/have'",
        getenv("YOKE_SOURCE"), getenv("YOKE_BUILD"), yk_test_directory(), yk_test_directory());
    if (code != 1)
        fail_msg("declared, but not in libyoke.so: %s", output);
}

/* They take time to load: a module opens them for programs that read or write pictures. */
YK_TEST(image_libraries_are_not_loaded_at_the_start)
{
    assert_int_equal(yk_test_command(output, sizeof output, "ldd '%s/yoke' '%s/libyoke.so'",
                                     getenv("YOKE_BUILD"), getenv("YOKE_BUILD")),
                     0);
    assert_contains(output, "libdnnl");
    assert_null(strstr(output, "libpng"));
    assert_null(strstr(output, "libjpeg"));
    assert_null(strstr(output, "libwebp"));
}

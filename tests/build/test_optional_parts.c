/*
 * Without the optional libraries the library and the program build, and what is missing says so.
 * Objects that the finished build has made with the same commands are not compiled once more.
 */
#include <stdlib.h>
#include <string.h>

#include "harness.h"

static char output[65536];

static void run(int expected, const char *script)
{
    int code = yk_test_command(output, sizeof output, "SOURCE='%s'; export BUILD='%s/build'; %s",
                               getenv("YOKE_SOURCE"), yk_test_directory(), script);
    if (code != expected)
        fail_msg("exit code %d: %s", code, output);
}

YK_TEST(optional_parts_can_be_left_out)
{
    run(0, "of() { sed -n \"s/^CMAKE_$1:.*=//p\" \"$YOKE_BUILD/CMakeCache.txt\"; }; "
           "cmake -S \"$SOURCE\" -B \"$BUILD\" -G \"$(of GENERATOR)\" "
           "-DCMAKE_BUILD_TYPE=\"$(of BUILD_TYPE)\" "
           "-DCMAKE_C_COMPILER_LAUNCHER=\"$SOURCE/tests/build/reuse-object\" "
           "-DCMAKE_CXX_COMPILER_LAUNCHER=\"$SOURCE/tests/build/reuse-object\" "
           "-DYOKE_TESTS=OFF -DYOKE_DOWNLOAD=OFF -DYOKE_IMAGE=OFF && "
           "tr -d '\"\\\\' <\"$YOKE_BUILD/compile_commands.json\" >\"$BUILD/commands\" && "
           "cmake --build \"$BUILD\" --parallel 2 --target yoke_program");
    assert_contains(output, "download/fetch_missing.c.o"); /* which the finished build has not */
    run(0, "ldd \"$BUILD/yoke\" \"$BUILD/libyoke.so\"");
    assert_null(strstr(output, "libcurl"));
    assert_null(strstr(output, "libarchive"));
    assert_null(strstr(output, "libpng"));
    run(0, "env -u YOKE_MODULES \"$BUILD/yoke\" info");
    assert_contains(output, "downloads     no: install libcurl");
    assert_contains(output, "image files   no: pictures are neither read nor written: "
                            "libyoke-image.so");
    run(1, "XDG_CACHE_HOME=\"$BUILD/cache\" \"$BUILD/yoke\" data download cifar10");
    assert_contains(output, "configure with -DYOKE_DOWNLOAD=ON");
    run(1, "cd \"$BUILD\" && env -u YOKE_MODULES ./yoke data preview synthetic --split test");
    assert_contains(output, "pictures are neither read nor written: libyoke-image.so");
}

YK_TEST(a_wrong_choice_of_parts_is_refused)
{
    run(1, "cmake -S \"$SOURCE\" -B \"$BUILD\" -DYOKE_IMAGE=perhaps");
    assert_contains(output, "YOKE_IMAGE is perhaps");
}

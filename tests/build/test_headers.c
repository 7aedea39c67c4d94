/*
 * Every public header compiles with nothing before it, pedantically, as C11 and as C++17; so does a
 * program that initialises each struct that has a YK_..._INIT macro.
 */
#include <stdlib.h>

#include "harness.h"

static char output[16384];

static void compile_each(const char *command)
{
    if (yk_test_command(output, sizeof output,
                        "cd '%s/include' && for header in yoke/*.h; do "
                        "  echo \"#include <$header>\" | %s -Wall -Wextra -pedantic -Werror"
                        "    -I. -fsyntax-only - || exit 1; "
                        "done",
                        getenv("YOKE_SOURCE"), command) != 0)
        fail_msg("%s", output);
}

/* #define YK_SGD_OPTIONS_INIT in a header becomes { yk_sgd_options o = YK_SGD_OPTIONS_INIT; }. */
static void compile_initialisers(const char *command)
{
    if (yk_test_command(
            output, sizeof output,
            "cd '%s/include' && { echo '#include <yoke/yoke.h>'; echo 'int main(void) {'; "
            "sed -nE 's/^#define (YK_[A-Z0-9_]+)_INIT( .*)?$/\\1/p' yoke/*.h | while read -r name; "
            "do "
            "  echo \"{ $(echo $name | tr A-Z a-z) o = ${name}_INIT; (void)o; }\"; "
            "done; echo 'return 0; }'; } | %s -Wall -Wextra -pedantic -Werror -I. -fsyntax-only -",
            getenv("YOKE_SOURCE"), command) != 0)
        fail_msg("%s", output);
}

YK_TEST(headers_compile_as_c11)
{
    compile_each("${CC:-cc} -std=c11 -x c");
    compile_initialisers("${CC:-cc} -std=c11 -x c");
}

YK_TEST(headers_compile_as_cxx17)
{
    if (yk_test_command(output, sizeof output, "command -v ${CXX:-c++}") != 0)
        skip_because("no C++ compiler (Debian: g++)");
    compile_each("${CXX:-c++} -std=c++17 -x c++");
    compile_initialisers("${CXX:-c++} -std=c++17 -x c++");
}

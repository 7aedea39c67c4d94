/* Every public header compiles with nothing before it, pedantically, as C11 and as C++17. */
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

YK_TEST(headers_compile_as_c11)
{
    compile_each("${CC:-cc} -std=c11 -x c");
}

YK_TEST(headers_compile_as_cxx17)
{
    if (yk_test_command(output, sizeof output, "command -v ${CXX:-c++}") != 0)
        skip_because("no C++ compiler (Debian: g++)");
    compile_each("${CXX:-c++} -std=c++17 -x c++");
}

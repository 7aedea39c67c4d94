/* Scripts that with_pytorch.py runs: what ends one, and what it gets and leaves, is its own. */
#include "harness.h"

#include <stdlib.h>
#include <string.h>

static char output[8192];

/* Runs it with one argument, in a folder of the test's; returns its exit code. */
static int run(const char *script)
{
    yk_test_write_file(yk_test_path("script.py"), script, strlen(script));
    const char *interpreter = getenv("YOKE_PYTHON"), *source = getenv("YOKE_SOURCE");
    int code = yk_test_command(
        output, sizeof output,
        "cd %s && OWN=kept %s -S %s/tests/parity/with_pytorch.py script.py one",
        yk_test_directory(), interpreter ? interpreter : "/usr/bin/python3", source ? source : ".");
    if (code == 127)
        skip_because("no Python here: %s", output);
    return code;
}

YK_TEST(a_script_has_its_arguments_environment_and_folder)
{
    assert_int_equal(run("import os, sys\n"
                         "print(sys.argv[1:], os.environ['OWN'], os.getcwd(), __name__)\n"
                         "sys.exit(5)\n"),
                     5);
    assert_contains(output, "['one'] kept ");
    assert_contains(output, yk_test_directory());
    assert_contains(output, " __main__\n");
}

YK_TEST(a_signal_that_ends_a_script_is_named)
{
    assert_int_equal(run("import os\n"
                         "os.kill(os.getpid(), 11)\n"),
                     128 + 11);
    assert_contains(output, "script.py was killed by signal 11");
}

YK_TEST(an_exception_fails_and_shows_its_line)
{
    assert_int_equal(run("raise ValueError('wrong')\n"), 1);
    assert_contains(output, "script.py\", line 1");
    assert_contains(output, "ValueError: wrong");
}

YK_TEST(what_a_script_changes_ends_with_it)
{
    assert_int_equal(run("import os, sys\n"
                         "assert not hasattr(sys, 'left')\n"
                         "sys.left = 1\n"),
                     0);
    assert_int_equal(run("import sys\n"
                         "sys.exit(hasattr(sys, 'left'))\n"),
                     0);
}

/* docs/promises.md and the tests agree: every promise has a test, every number a promise. */
#include <stdlib.h>

#include "harness.h"

static char documented[4096], tested[4096];

/* The numbers that a shell pipeline prints in SOURCE, each once, in rising order. */
static void collect(char *numbers, size_t size, const char *pipeline)
{
    int code = yk_test_command(numbers, size, "cd '%s' && %s | sort -nu | xargs",
                               getenv("YOKE_SOURCE"), pipeline);
    assert_int_equal(code, 0);
}

YK_TEST(every_promise_has_a_test_and_every_number_a_promise)
{
    collect(documented, sizeof documented, "sed -nE 's/^([0-9]+)\\. .*/\\1/p' docs/promises.md");
    collect(
        tested, sizeof tested,
        "grep -rhoE '\\((promise_[0-9]+_)' tests --include='*.c' | sed 's/.*promise_0*//; s/_//'");
    assert_string_equal(tested, documented);
}

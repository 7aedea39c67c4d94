/* Durations: each in the unit that people would use. */
#include "harness.h"

#include <math.h>

#include "common/duration.h"

static void reads(double seconds, const char *expected)
{
    char text[CLI_DURATION_TEXT];
    assert_string_equal(cli_duration_text(text, seconds), expected);
}

YK_TEST(durations_have_the_unit_that_fits)
{
    reads(-1, "0 s");
    reads(0.4, "0 s");
    reads(59.4, "59 s");
    reads(59.5, "1:00 min");
    reads(185, "3:05 min");
    reads(3599.4, "59:59 min");
    reads(7380, "2:03 h");
    reads(1e6, "277:46 h");
}

YK_TEST(durations_need_not_be_finite)
{
    char text[CLI_DURATION_TEXT];
    reads((double)NAN, "-");
    assert_contains(cli_duration_text(text, INFINITY), " h");
}

/* Options structs that carry their size: defaults, growth, and what cannot be right. */
#include <string.h>

#include "base/options.h"

#include "harness.h"

typedef struct old_options {
    size_t size;
    double rate;
} old_options;

typedef struct new_options {
    size_t size;
    double rate;
    int steps;
} new_options;

#define NEW_OPTIONS_INIT                                                                           \
    {                                                                                              \
        sizeof(new_options), 0.5, 7                                                                \
    }

static yk_status read_options(new_options *out, const void *given)
{
    return YKI_READ_OPTIONS(out, given, new_options, NEW_OPTIONS_INIT);
}

YK_TEST(null_means_the_defaults)
{
    new_options out;
    assert_int_equal(read_options(&out, NULL), YK_OK);
    assert_true(out.rate == 0.5);
    assert_int_equal(out.steps, 7);
}

YK_TEST(zero_is_a_value_like_any_other)
{
    new_options given = NEW_OPTIONS_INIT, out;
    given.rate = 0;
    given.steps = 0;
    assert_int_equal(read_options(&out, &given), YK_OK);
    assert_true(out.rate == 0);
    assert_int_equal(out.steps, 0);
}

YK_TEST(fields_that_an_older_program_does_not_know_keep_their_defaults)
{
    old_options given = {sizeof given, 0.25};
    new_options out;
    assert_int_equal(read_options(&out, &given), YK_OK);
    assert_int_equal(out.size, sizeof out);
    assert_true(out.rate == 0.25);
    assert_int_equal(out.steps, 7);
}

YK_TEST(a_size_that_cannot_be_right_is_an_error)
{
    new_options given = {0}, out;
    assert_int_equal(read_options(&out, &given), YK_ERROR_INVALID_ARGUMENT);
    assert_contains(yk_last_error(), "new_options: its size is 0");
    assert_contains(yk_last_error(), "NEW_OPTIONS_INIT");
    given.size = sizeof given + 8;
    assert_int_equal(read_options(&out, &given), YK_ERROR_INVALID_ARGUMENT);
    assert_contains(yk_last_error(), "update the library");
}

YK_TEST(tests_change_single_fields_of_the_defaults)
{
    new_options out;
    assert_int_equal(read_options(&out, YK_WITH(new_options, NEW_OPTIONS_INIT, o.steps = 0)),
                     YK_OK);
    assert_true(out.rate == 0.5);
    assert_int_equal(out.steps, 0);
}

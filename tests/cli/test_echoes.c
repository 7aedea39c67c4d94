/* Which error lines of several ranks are printed once (cli/launch/echoes.h). */
#include "harness.h"

#include "launch/echoes.h"

static cli_echoes echoes;

static bool hides(int rank, const char *line)
{
    return cli_echoes_hide(&echoes, rank, line, strlen(line));
}

YK_TEST(what_another_rank_has_said_is_hidden)
{
    assert_false(hides(1, "yoke: the images are too small"));
    assert_true(hides(0, "yoke: the images are too small"));
    assert_true(hides(2, "yoke: the images are too small"));
    assert_int_equal(echoes.hidden, 2);
    /* A rank repeats itself for a reason. */
    assert_false(hides(1, "yoke: the images are too small"));
    assert_int_equal(echoes.hidden, 2);
    cli_echoes_free(&echoes);
    assert_false(hides(0, "yoke: the images are too small"));
    cli_echoes_free(&echoes);
}

YK_TEST(only_the_ranks_own_number_may_differ)
{
    assert_false(hides(3, "yoke: rank 3: rank 1 died"));
    assert_true(hides(2, "yoke: rank 2: rank 1 died"));
    assert_false(hides(2, "yoke: rank 2: rank 4 died"));
    assert_false(hides(12, "yoke: --whiten x: rank 12: there is no \"x\""));
    assert_true(hides(1, "yoke: --whiten x: rank 1: there is no \"x\""));
    cli_echoes_free(&echoes);
}

YK_TEST(other_lines_are_all_printed)
{
    for (int rank = 0; rank < 3; rank++) {
        assert_false(hides(rank, "loading the data"));
        assert_false(hides(rank, "yoke"));
        assert_false(hides(rank, ""));
    }
    cli_echoes_free(&echoes);
}

YK_TEST(a_line_of_long_ago_is_printed_again)
{
    char line[64];
    for (int i = 0; i <= CLI_ECHOES; i++) {
        snprintf(line, sizeof line, "yoke: mistake %d", i);
        assert_false(hides(0, line));
    }
    assert_true(hides(1, "yoke: mistake 1"));
    assert_false(hides(1, "yoke: mistake 0"));
    cli_echoes_free(&echoes);
}

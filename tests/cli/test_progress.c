/* What `yoke train` shows while it trains: a line that fits the terminal, epochs that fit 80
 * columns. */
#define _GNU_SOURCE
#include "cli_output.h"

#include <math.h>

#include "common/progress.h"
#include "common/terminal.h"

/* ---- the line -------------------------------------------------------------------------------- */

/* Three steps of an epoch of ten; columns: of the terminal, or NULL where there is none. */
static const char *progress_output(const char *columns, int64_t max_steps)
{
    if (columns)
        setenv("YOKE_TERMINAL", columns, 1);
    else
        unsetenv("YOKE_TERMINAL");
    output_capture capture = output_capture_begin(STDERR_FILENO);
    cli_progress *progress = cli_progress_create(2, 10, max_steps);
    usleep(50000);
    for (int i = 1; i <= 3; i++)
        cli_progress_step(progress, &(yk_step_record){.epoch = 1, .step = i, .images_per_s = 100},
                          i);
    cli_progress_destroy(progress);
    return output_capture_end(&capture);
}

YK_TEST(progress_is_plain_lines_without_a_terminal)
{
    const char *text = progress_output(NULL, YK_NEVER);
    assert_contains(text, "epoch 1/2");
    assert_null(strchr(text, '\r'));
    assert_null(strchr(text, '\033'));
}

YK_TEST(progress_knows_when_the_run_ends)
{
    assert_null(strstr(progress_output(NULL, YK_NEVER), "  0 s left"));
    assert_contains(progress_output(NULL, 1), "  0 s left");
}

YK_TEST(progress_fits_the_terminal)
{
    char *text = strdup(progress_output("40", YK_NEVER));
    assert_non_null(strchr(text, '\r'));
    assert_null(strchr(text, '\n'));
    for (char *part = strtok(text, "\r"); part; part = strtok(NULL, "\r"))
        assert_true(strcspn(part, "\033") < 40);
    free(text);
}

/* What matters less is left out first, and nothing is cut in the middle. */
YK_TEST(progress_drops_pieces_that_do_not_fit)
{
    const char *text = progress_output("60", YK_NEVER);
    assert_contains(text, "epoch 1/2  1/10  loss 0.0000  ");
    assert_contains(text, " left");
    assert_null(strstr(text, "compute"));
    text = progress_output("200", YK_NEVER);
    assert_contains(text, "epoch 1/2  [==>");
    assert_contains(text, "exposed comm 0.0)");
}

YK_TEST(progress_shows_evaluation)
{
    setenv("YOKE_TERMINAL", "80", 1);
    output_capture capture = output_capture_begin(STDERR_FILENO);
    cli_progress *progress = cli_progress_create(2, 10, YK_NEVER);
    usleep(150000);                             /* lines are redrawn ten times a second */
    cli_progress_evaluation(progress, 2, 3, 8); /* no step before it: a resumed run may owe it */
    cli_progress_destroy(progress);
    const char *text = output_capture_end(&capture);
    assert_contains(text, "\repoch 2/2  [=======>            ]  validation 3/8\033[K");
    assert_string_equal(text + strlen(text) - 4, "\r\033[K");
}

YK_TEST(progress_of_an_evaluation_alone_names_no_epoch)
{
    setenv("YOKE_TERMINAL", "80", 1);
    output_capture capture = output_capture_begin(STDERR_FILENO);
    cli_progress *progress = cli_progress_create(0, 0, YK_NEVER);
    cli_progress_evaluation(progress, 0, 1, 8); /* nothing yet: it may end at once */
    usleep(150000);
    cli_progress_evaluation(progress, 0, 3, 8);
    cli_progress_destroy(progress);
    const char *text = output_capture_end(&capture);
    assert_string_equal(text, "\revaluating  [=======>            ]  3/8\033[K\r\033[K");
}

/* ---- an epoch -------------------------------------------------------------------------------- */

static const char *epoch_output(const char *columns, const yk_epoch_record *record)
{
    if (columns)
        setenv("YOKE_TERMINAL", columns, 1);
    cli_progress *progress = cli_progress_create(100, 10, YK_NEVER);
    output_capture capture = output_capture_begin(STDOUT_FILENO);
    cli_progress_epoch(progress, record);
    const char *text = output_capture_end(&capture);
    cli_progress_destroy(progress);
    return text;
}

static void check_width(const char *text, size_t columns)
{
    for (const char *line = text; *line; line += strcspn(line, "\n") + 1)
        if (strcspn(line, "\n") > columns)
            fail_msg("wider than %zu columns: %s", columns, line);
}

static const yk_epoch_record long_epoch = {.epoch = 100,
                                           .train_loss = 1234.5678,
                                           .val_loss = 1234.5678,
                                           .val_accuracy = 1,
                                           .epoch_s = 3599,
                                           .data_s = 100,
                                           .compute_s = 100,
                                           .waiting_s = 100,
                                           .exposed_comm_s = 100,
                                           .slowest_rank = 1000,
                                           .waited_s = 100,
                                           .has_ema = true,
                                           .ema_val_loss = 1234.5678,
                                           .ema_val_accuracy = 1};

YK_TEST(an_epoch_fits_80_columns_and_less)
{
    unsetenv("YOKE_TERMINAL");
    check_width(epoch_output(NULL, &long_epoch), 80);
    check_width(epoch_output("120", &long_epoch), 80);
    check_width(epoch_output("60", &long_epoch), 60);
}

YK_TEST(an_epoch_reads_well)
{
    yk_epoch_record record = {.epoch = 2,
                              .train_loss = 1.5,
                              .val_loss = 1.25,
                              .val_accuracy = 0.5,
                              .epoch_s = 65,
                              .compute_s = 7.5,
                              .waiting_s = 2,
                              .exposed_comm_s = 0.5,
                              .slowest_rank = -1};
    unsetenv("YOKE_TERMINAL");
    assert_string_equal(epoch_output(NULL, &record),
                        "epoch 2/100  train loss 1.5000, validation loss 1.2500, accuracy 50.00 %\n"
                        "             1:05 min: data 0.0 %, compute 75.0 %, waiting 20.0 %,\n"
                        "             exposed comm 5.0 %\n");
    assert_string_equal(epoch_output("60", &record),
                        "epoch 2/100  train loss 1.5000, validation loss 1.2500,\n"
                        "             accuracy 50.00 %\n"
                        "             1:05 min: data 0.0 %, compute 75.0 %,\n"
                        "             waiting 20.0 %, exposed comm 5.0 %\n");
    record.slowest_rank = 3;
    record.waited_s = 12.34;
    assert_contains(
        epoch_output(NULL, &record),
        "\n             rank 3 is slower: the other ranks waited 12.3 s\n             for it\n");
}

/* The run of a beginner: 0 s would look like a mistake, and milliseconds are nobody's fault. */
YK_TEST(a_short_epoch_shows_tenths_and_blames_nobody)
{
    yk_epoch_record record = {.epoch_s = 0.31, .slowest_rank = 1, .waited_s = 0.04};
    const char *text = epoch_output(NULL, &record);
    assert_contains(text, " 0.3 s: data ");
    assert_null(strstr(text, "slower"));
    record.waited_s = 0.06;
    assert_contains(epoch_output(NULL, &record), "rank 1 is slower: the other ranks waited 0.1 s");
}

/* The loss of an epoch in which a grad scaler has skipped every step. */
YK_TEST(an_epoch_shows_nan_without_a_sign)
{
    assert_contains(epoch_output(NULL, &(yk_epoch_record){.train_loss = -NAN, .val_loss = -NAN}),
                    "  train loss nan, validation loss nan, ");
}

/* ---- wrapped text ---------------------------------------------------------------------------- */

static const char *wrapped(const char *text, int columns)
{
    output_capture capture = output_capture_begin(STDOUT_FILENO);
    cli_print_wrapped(stdout, text, columns, 4);
    return output_capture_end(&capture);
}

YK_TEST(text_is_wrapped_between_words)
{
    assert_string_equal(wrapped("ab cd\n", 20), "ab cd\n");
    assert_string_equal(wrapped("\n\nab", 20), "\n\nab\n");
    assert_string_equal(wrapped("one two three four five", 15), "one two three\n    four five\n");
    assert_string_equal(wrapped("one, two three", 10), "one, two\n    three\n");
    assert_string_equal(wrapped("a long one, two three", 17), "a long one,\n    two three\n");
    assert_string_equal(wrapped("  ab (cdefgh ij)", 10), "  ab\n    (cdefgh\n    ij)\n");
}

YK_TEST(a_word_longer_than_a_line_stays_whole)
{
    assert_string_equal(wrapped("  at /a/path/without/any/space end", 12),
                        "  at\n    /a/path/without/any/space\n    end\n");
    assert_string_equal(wrapped("/a/path/without/any/space", 12), "/a/path/without/any/space\n");
}

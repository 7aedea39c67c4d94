/* Which rows of a scaling table are believed, with figures as busy and quiet machines give them. */
#define _GNU_SOURCE
#include "cli_output.h"

#include "bench/scaling.h"

/* Two rows, a single device and two ranks on four cores, measured three times. */
static cli_scaling two_rows(double single, double two_ranks)
{
    cli_scaling s = {.options = {.repeats = 3, .threads = 1, .arch = "mlp", .data = "synthetic"},
                     .cores = 4,
                     .count = 2};
    s.rows[0] = (cli_scaling_row){.name = "Single device", .kind = CLI_SINGLE, .ranks = 1};
    s.rows[1] = (cli_scaling_row){.name = "DDP x2", .kind = CLI_DDP, .ranks = 2};
    for (int i = 0; i < 3; i++) {
        cli_scaling_result result = {
            .steps = 5, .seconds = 1, .wall_s = 10, .cpu_s = 10, .slowest_rank = -1};
        s.rows[0].results[i] = s.rows[1].results[i] = result;
        s.rows[0].results[i].images_per_s = single * (1 + 0.05 * i);
        s.rows[1].results[i].images_per_s = two_ranks * (1 + 0.05 * i);
    }
    return s;
}

YK_TEST(a_quiet_machine_is_believed)
{
    cli_scaling s = two_rows(100, 190);
    cli_scaling_conclude(&s);
    assert_null(s.rows[0].unreliable);
    assert_null(s.rows[1].unreliable);
    assert_true(s.rows[1].speed_up > 1.89 && s.rows[1].speed_up < 1.91); /* of the medians */
    assert_true(s.rows[1].efficiency > 0.94 && s.rows[1].efficiency < 0.96);
}

YK_TEST(an_impossible_speed_up_is_not_believed)
{
    cli_scaling s = two_rows(10, 200);
    cli_scaling_conclude(&s);
    assert_null(s.rows[0].unreliable);
    assert_string_equal(s.rows[1].unreliable, "its speed-up is impossible");
}

YK_TEST(repeats_that_differ_are_not_believed)
{
    cli_scaling s = two_rows(100, 190);
    s.rows[1].results[2].images_per_s = 400;
    cli_scaling_conclude(&s);
    assert_string_equal(s.rows[1].unreliable, "its repeats differ by more than half");
}

/* Others that use idle cores do no harm; others that use the row's own cores do. */
YK_TEST(cores_that_others_used_are_not_believed)
{
    cli_scaling s = two_rows(100, 190);
    for (int i = 0; i < 3; i++)
        s.rows[0].results[i].others_s = s.rows[1].results[i].others_s = 28; /* 2.8 of 4 cores */
    cli_scaling_conclude(&s);
    assert_null(s.rows[0].unreliable);
    assert_string_equal(s.rows[1].unreliable, "other programs used its cores");
}

/* Without a single device there is nothing to compare with. */
YK_TEST(an_unreliable_single_device_spoils_the_table)
{
    cli_scaling s = two_rows(100, 190);
    s.rows[0].results[0].images_per_s = 10;
    cli_scaling_conclude(&s);
    assert_non_null(s.rows[0].unreliable);
    assert_string_equal(s.rows[1].unreliable, "the single device is");
}

YK_TEST(what_is_not_believed_is_neither_labelled_nor_drawn)
{
    char path[256], text[32768];
    cli_scaling s = two_rows(10, 200);
    cli_scaling_conclude(&s);
    output_capture capture = output_capture_begin(STDOUT_FILENO);
    cli_scaling_print(&s);
    const char *table = output_capture_end(&capture);
    assert_contains(table, "unreliable");
    assert_null(strstr(table, "1000 %"));
    snprintf(path, sizeof path, "%s/a.svg", yk_test_directory());
    assert_true(cli_scaling_write_svg(&s, path));
    yk_test_command(text, sizeof text, "cat %s", path);
    assert_contains(text, ">unreliable<");
    assert_null(strstr(text, "efficiency 1000"));
    snprintf(path, sizeof path, "%s/a.json", yk_test_directory());
    assert_true(cli_scaling_write_json(&s, path));
    yk_test_command(text, sizeof text, "cat %s", path);
    assert_contains(text, "\"speed_up\": null, \"efficiency\": null");
}

YK_TEST(a_rank_that_the_others_wait_for_is_named)
{
    char path[256], text[32768];
    cli_scaling s = two_rows(100, 190);
    s.rows[1].results[1].slowest_rank = 1; /* of the median */
    s.rows[1].results[1].waited_s = 2.5;
    cli_scaling_conclude(&s);
    output_capture capture = output_capture_begin(STDOUT_FILENO);
    cli_scaling_print(&s);
    const char *table = output_capture_end(&capture);
    assert_contains(table, "DDP x2: rank 1 is slower: the other ranks waited 2.5 s for it\n");
    assert_null(strstr(table, "Single device: rank"));
    s.rows[1].result.waited_s = 0.04; /* which would be 0.0 s */
    output_capture again = output_capture_begin(STDOUT_FILENO);
    cli_scaling_print(&s);
    assert_null(strstr(output_capture_end(&again), "is slower"));
    s.rows[1].result.waited_s = 2.5;
    snprintf(path, sizeof path, "%s/a.json", yk_test_directory());
    assert_true(cli_scaling_write_json(&s, path));
    yk_test_command(text, sizeof text, "cat %s", path);
    assert_contains(text, "\"slowest_rank\": 1, \"waited_s\": 2.5, ");
}

/* A browser shows no part of a picture with a byte that is not XML. */
YK_TEST(the_picture_is_xml_whatever_the_data_is_called)
{
    char text[32768], name[300] = "/";
    cli_scaling s = two_rows(100, 190);
    s.options.data = "/data/<a>&\033\xff\xc3\xa9";
    cli_scaling_conclude(&s);
    assert_true(cli_scaling_write_svg(&s, yk_test_path("a.svg")));
    yk_test_read_file(text, sizeof text, yk_test_path("a.svg"));
    assert_contains(text, ">mlp on &lt;a>&amp;??\xc3\xa9, ");
    for (int i = 0; i < 127; i++)
        strcat(name, "\xc3\xa9");
    s.options.data = name; /* as long as a name can be */
    assert_true(cli_scaling_write_svg(&s, yk_test_path("a.svg")));
    yk_test_read_file(text, sizeof text, yk_test_path("a.svg"));
    assert_contains(text,
                    "\xc3\xa9, 0 images a step over all ranks, 5 steps, device = 1 of 4 cores<");
}

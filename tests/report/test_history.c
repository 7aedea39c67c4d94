/* metrics.jsonl read back. */
#define _GNU_SOURCE
#include "harness.h"

#include <math.h>
#include <sys/stat.h>

static const char *metrics_path(void)
{
    return yk_test_path("metrics.jsonl");
}

static const yk_header_record header = {.arch = "mlp",
                                        .data = "synthetic",
                                        .options = "lr=0.1\nepochs=2\n",
                                        .ranks = 2,
                                        .threads = 3,
                                        .batch_size = 64,
                                        .seed = UINT64_MAX};

YK_TEST(history_has_what_was_written)
{
    yk_metrics *metrics;
    yk_metrics_history *history;
    assert_ok(yk_metrics_open(&metrics, metrics_path()));
    assert_ok(yk_metrics_header(metrics, &header));
    for (int64_t step = 1; step <= 9; step++)
        assert_ok(yk_metrics_step(metrics, &(yk_step_record){.epoch = 1,
                                                             .step = step,
                                                             .loss = step == 3 ? NAN : 0.5,
                                                             .lr = 0.1,
                                                             .has_grad_norm = true,
                                                             .grad_norm = 2}));
    assert_ok(yk_metrics_epoch(metrics, &(yk_epoch_record){.epoch = 1,
                                                           .step = 9,
                                                           .val_accuracy = 0.75,
                                                           .has_ema = true,
                                                           .ema_val_accuracy = 0.5,
                                                           .is_partial = true}));
    yk_metrics_close(metrics);
    assert_ok(yk_metrics_read(&history, metrics_path()));
    assert_string_equal(history->header.options, header.options);
    assert_string_equal(history->header.arch, "mlp");
    assert_true(history->header.seed == UINT64_MAX);
    assert_int_equal(history->header.ranks, 2);
    assert_int_equal(history->starts, 1);
    assert_int_equal(history->step_count, 9);
    assert_int_equal(history->steps[8].step, 9);
    assert_true(isnan(history->steps[2].loss));
    assert_true(history->steps[3].has_grad_norm && history->steps[3].grad_norm == 2);
    assert_int_equal(history->epoch_count, 1);
    assert_true(history->epochs[0].val_accuracy == 0.75 && history->epochs[0].has_ema);
    assert_true(history->epochs[0].is_partial);
    assert_int_equal(history->skipped_lines, 0);
    yk_metrics_history_destroy(history);
}

/* Each such byte is what Python writes for os.fsdecode's result. */
YK_TEST(paths_in_a_header_need_not_be_utf8)
{
    static const yk_header_record odd = {.data = "/\xff/\xc3\xa9",
                                         .options = "lr=0.1\ndata=/\xff/\xc3\xa9\nclasses=3\n"};
    char text[4096];
    yk_metrics *metrics;
    yk_metrics_history *history;
    assert_ok(yk_metrics_open(&metrics, metrics_path()));
    assert_ok(yk_metrics_header(metrics, &odd));
    yk_metrics_close(metrics);
    assert_contains(yk_test_read_file(text, sizeof text, metrics_path()),
                    "\"data\": \"/\\udcff/\xc3\xa9\"");
    assert_ok(yk_metrics_read(&history, metrics_path()));
    assert_string_equal(history->header.data, odd.data);
    assert_string_equal(history->header.options, odd.options);
    yk_metrics_history_destroy(history);
}

/* What was recorded after the step that a run resumes from does not count twice. */
YK_TEST(history_skips_what_is_not_a_record)
{
    yk_metrics_history *history;
    FILE *file = fopen(metrics_path(), "we");
    assert_non_null(file);
    fputs("{\"type\": \"step\", \"step\": 1, \"loss\": 1}\n"
          "not a record\n{\"type\": \"later\"}\n"
          "{\"type\": \"step\", \"step\": 2, \"loss\": 2}\n"
          "{\"type\": \"epoch\", \"step\": 2}\n"
          "{\"type\": \"header\", \"step\": 1, \"arch\": 7}\n"
          "{\"type\": \"step\", \"step\": 2, \"loss\": 3}\n"
          "{\"type\": \"step\", \"step\": 3, \"lo",
          file);
    fclose(file);
    assert_ok(yk_metrics_read(&history, metrics_path()));
    assert_int_equal(history->skipped_lines, 2);
    assert_int_equal(history->step_count, 2);
    assert_true(history->steps[1].loss == 3);
    assert_int_equal(history->epoch_count, 0);
    assert_null(history->header.arch);
    yk_metrics_history_destroy(history);
}

YK_TEST(members_are_told_apart_by_case)
{
    static const char record[] = "{\"type\": \"step\", \"step\": 1, \"Grad_Norm\": 2, "
                                 "\"Waiting_s\": 3, \"Scale\": 4}\n";
    yk_metrics_history *history;
    yk_test_write_file(metrics_path(), record, sizeof record - 1);
    assert_ok(yk_metrics_read(&history, metrics_path()));
    assert_int_equal(history->step_count, 1);
    assert_false(history->steps[0].has_grad_norm);
    assert_true(history->steps[0].waiting_s == 0 && history->steps[0].scale == 0);
    yk_metrics_history_destroy(history);
}

YK_TEST(history_of_no_file_is_not_found)
{
    yk_metrics_history *history = (yk_metrics_history *)1;
    assert_status(YK_ERROR_NOT_FOUND, yk_metrics_read(&history, "/nowhere/metrics.jsonl"));
    assert_null(history);
}

YK_TEST(a_pipe_is_not_waited_for)
{
    yk_metrics_history *history;
    assert_int_equal(mkfifo(yk_test_path("metrics.jsonl"), 0600), 0);
    assert_status(YK_ERROR_IO, yk_metrics_read(&history, yk_test_path("metrics.jsonl")));
    assert_contains(yk_last_error(), "metrics.jsonl: is not a file");
    assert_null(history);
}

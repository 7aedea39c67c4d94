/* NULL where metrics, a timeline or a record is required: an error, never a crash. */
#include "harness.h"

static void assert_invalid(yk_status status, const char *words)
{
    assert_status(YK_ERROR_INVALID_ARGUMENT, status);
    assert_contains(yk_last_error(), words);
}

YK_TEST(metrics_that_are_null_are_refused)
{
    yk_metrics *metrics = (yk_metrics *)1;
    assert_invalid(yk_metrics_open(NULL, "metrics.jsonl"), "metrics is NULL");
    assert_invalid(yk_metrics_open(&metrics, NULL), "path is NULL");
    assert_null(metrics);
    assert_invalid(yk_metrics_rewind(NULL, 1, true), "metrics is NULL");
    assert_invalid(yk_metrics_step(NULL, &(yk_step_record){0}), "metrics is NULL");
    assert_invalid(yk_metrics_epoch(NULL, &(yk_epoch_record){0}), "metrics is NULL");
    assert_ok(yk_metrics_open(&metrics, yk_test_path("metrics.jsonl")));
    assert_invalid(yk_metrics_step(metrics, NULL), "record is NULL");
    assert_invalid(yk_metrics_epoch(metrics, NULL), "record is NULL");
    yk_metrics_close(metrics);
}

YK_TEST(timelines_that_are_null_are_refused)
{
    yk_trace *trace = (yk_trace *)1;
    assert_invalid(yk_trace_open(NULL, "trace.json", NULL, NULL), "trace is NULL");
    assert_invalid(yk_trace_open(&trace, NULL, NULL, NULL), "path is NULL");
    assert_null(trace);
    yk_trace_step_begin(NULL, 1);
    yk_trace_step_end(NULL);
    assert_ok(yk_trace_close(NULL));
    assert_ok(yk_trace_open(&trace, yk_test_path("trace.json"), NULL, NULL));
    yk_trace_step_begin(trace, 1);
    yk_trace_begin(NULL); /* a span without a name */
    yk_trace_end();
    yk_trace_step_end(trace);
    assert_ok(yk_trace_close(trace));
}

YK_TEST(pictures_without_bytes_are_refused)
{
    yk_tensorboard *board;
    const yk_png empty = {.size = 8, .width = 1, .height = 1};
    assert_ok(yk_tensorboard_open(&board, yk_test_directory(), 0));
    assert_invalid(yk_tensorboard_image(board, "images", 0, &empty), "picture->bytes is NULL");
    yk_tensorboard_close(board);
}

/* metrics.jsonl: valid JSON always, torn lines cut, records behind the resume step dropped. */
#define _GNU_SOURCE
#include "harness.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cjson/cJSON.h>

static const char *metrics_path(void)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/metrics.jsonl", yk_test_directory());
    return path;
}

static void write_steps(int64_t first, int64_t last)
{
    yk_metrics *metrics;
    assert_ok(yk_metrics_open(&metrics, metrics_path()));
    for (int64_t step = first; step <= last; step++)
        assert_ok(
            yk_metrics_step(metrics, &(yk_step_record){.epoch = 1, .step = step, .loss = 0.5}));
    yk_metrics_close(metrics);
}

/* Every line must parse; returns how many there are and the last step. */
static int count_records(double *last_step)
{
    FILE *file = fopen(metrics_path(), "r");
    assert_non_null(file);
    char *line = NULL;
    size_t size = 0;
    int count = 0;
    while (getline(&line, &size, file) > 0) {
        cJSON *record = cJSON_Parse(line);
        assert_non_null(record);
        *last_step = cJSON_GetObjectItem(record, "step")->valuedouble;
        cJSON_Delete(record);
        count++;
    }
    free(line);
    fclose(file);
    return count;
}

YK_TEST(report_metrics_append)
{
    double last;
    remove(metrics_path());
    write_steps(1, 3);
    write_steps(4, 5);
    assert_int_equal(count_records(&last), 5);
    assert_true(last == 5);
}

YK_TEST(report_metrics_cut_a_torn_line)
{
    double last;
    remove(metrics_path());
    write_steps(1, 2);
    FILE *file = fopen(metrics_path(), "a");
    fputs("{\"epoch\": 1, \"st", file);
    fclose(file);
    write_steps(3, 3);
    assert_int_equal(count_records(&last), 3);
    assert_true(last == 3);
}

YK_TEST(report_metrics_rewind)
{
    double last;
    remove(metrics_path());
    write_steps(1, 9);
    yk_metrics *metrics;
    assert_ok(yk_metrics_open(&metrics, metrics_path()));
    assert_ok(yk_metrics_rewind(metrics, 4, true));
    assert_ok(yk_metrics_step(metrics, &(yk_step_record){.epoch = 1, .step = 5}));
    yk_metrics_close(metrics);
    assert_int_equal(count_records(&last), 5);
    assert_true(last == 5);
}

/* A folder in the file's place opens, and cannot be read: no line may go because of that. */
YK_TEST(report_metrics_lose_nothing_where_they_cannot_be_read)
{
    double last;
    char aside[160];
    remove(metrics_path());
    write_steps(1, 9);
    yk_metrics *metrics;
    assert_ok(yk_metrics_open(&metrics, metrics_path()));
    snprintf(aside, sizeof aside, "%s.aside", metrics_path());
    assert_int_equal(rename(metrics_path(), aside), 0);
    assert_int_equal(mkdir(metrics_path(), 0777), 0);
    assert_status(YK_ERROR_IO, yk_metrics_rewind(metrics, 4, true));
    assert_contains(yk_last_error(), "metrics.jsonl: cannot read: Is a directory");
    yk_metrics_close(metrics);
    assert_int_equal(rmdir(metrics_path()), 0);
    assert_int_equal(rename(aside, metrics_path()), 0);
    assert_int_equal(count_records(&last), 9);
}

YK_TEST(report_metrics_write_nan_as_null)
{
    double last;
    remove(metrics_path());
    yk_metrics *metrics;
    assert_ok(yk_metrics_open(&metrics, metrics_path()));
    assert_ok(yk_metrics_step(metrics, &(yk_step_record){.step = 1, .loss = NAN}));
    assert_ok(yk_metrics_epoch(
        metrics, &(yk_epoch_record){.step = 1, .train_loss = INFINITY, .val_accuracy = 0.25}));
    yk_metrics_close(metrics);
    assert_int_equal(count_records(&last), 2);
}

YK_TEST(report_metrics_say_where_they_cannot_write)
{
    yk_metrics *metrics;
    assert_status(YK_ERROR_IO, yk_metrics_open(&metrics, "/nonexistent/metrics.jsonl"));
    assert_null(metrics);
    assert_contains(yk_last_error(), "/nonexistent/metrics.jsonl");
}

/* Two jobs that were given one output folder would mix their lines, and rewind each other's. */
YK_TEST(report_metrics_have_one_writer)
{
    yk_metrics *metrics, *second;
    assert_ok(yk_metrics_open(&metrics, metrics_path()));
    assert_status(YK_ERROR_IO, yk_metrics_open(&second, metrics_path()));
    assert_contains(yk_last_error(), "metrics.jsonl: another process is writing it");
    yk_metrics_close(metrics);
    assert_ok(yk_metrics_open(&second, metrics_path()));
    yk_metrics_close(second);
}
